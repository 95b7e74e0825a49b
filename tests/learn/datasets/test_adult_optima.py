"""Fair logistic regression on the training rows, solved by SLSQP: the optima that studies are measured against."""

import numpy as np
import pytest
from scipy.special import expit

from tightrope.datasets import adult_label_encoded
from tightrope.lab.paper.fairness import RADIUS, Optimum, People, batch_optimum


def solve(X, y, s, bound=np.inf) -> Optimum:
    """Mean of log(1 + exp(-y a.x)) over |x| <= RADIUS and |cov| <= bound: x, F, cov and the multiplier.

    Checked by its conditions, which are sufficient as the problem is convex: |x| < RADIUS, cov within the bound, and
    grad F = -multiplier * grad cov with a multiplier that is not negative, and is zero where the bound is not met.
    """
    found = batch_optimum(People(X, y, s), bound)
    margin, slope = y * (X @ found.x), (s - s.mean()) @ X / len(y)
    gradient = -((y * expit(-margin)) @ X) / len(y)
    assert found.objective == pytest.approx(np.logaddexp(0, -margin).mean(), rel=1e-12)
    assert found.covariance == pytest.approx(slope @ found.x, rel=1e-12)
    assert np.linalg.norm(found.x) < RADIUS
    assert abs(found.covariance) <= bound + 1e-9
    assert found.multiplier >= 0
    assert found.multiplier == 0 or found.covariance > bound - 1e-9
    assert np.abs(gradient + found.multiplier * slope).max() < 1e-6
    return found


@pytest.mark.parametrize(
    ("seed", "free", "free_cov", "fair", "multiplier"),
    [
        (0, 0.39591, 0.27124, 0.42661, 0.30667),
        (1, 0.39790, 0.26360, 0.42674, 0.29753),
        (2, 0.39492, 0.27111, 0.42575, 0.30847),
    ],
)
def test_optima(seed, free, free_cov, fair, multiplier):
    data = adult_label_encoded(seed)
    _, value, cov, _ = solve(*data)
    assert (value, cov) == pytest.approx((free, free_cov), abs=2e-5)
    assert (value, cov) == (pytest.approx(0.3959, abs=0.003), pytest.approx(0.271, abs=0.012))  # whatever the split
    _, value, cov, dual = solve(*data, bound=0.05)
    assert (value, cov, dual) == pytest.approx((fair, 0.05, multiplier), abs=2e-5)
    assert (value, dual) == (pytest.approx(0.4266, abs=0.003), pytest.approx(0.307, abs=0.012))


def test_the_constraint_is_what_makes_it_fair():
    """The p%-rule (women's rate of positives over men's) rises from 0.30 to 0.73 for 1.5 points of accuracy."""
    X, y, s = adult_label_encoded()
    rule, accuracy = [], []
    for bound in (np.inf, 0.05, 0.02):
        positive = X @ solve(X, y, s, bound).x > 0
        rule.append(positive[s == 0].mean() / positive[s == 1].mean())
        accuracy.append(np.mean(positive == (y > 0)))
    assert rule == pytest.approx([0.298, 0.726, 0.871], abs=0.002)
    assert accuracy == pytest.approx([0.819, 0.804, 0.800], abs=0.002)
