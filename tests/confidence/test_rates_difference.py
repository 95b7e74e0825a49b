"""The score test of a difference of rates, against a numerical maximum of the likelihood."""

from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from tightrope.confidence import difference_score, difference_upper


def by_hand(delta: float, a: int, n_a: int, b: int, n_b: int) -> float:
    def surprise(p: float) -> float:
        chances = np.clip([p, 1 - p, p + delta, 1 - p - delta], 1e-300, 1)
        return -float(np.array([a, n_a - a, b, n_b - b]) @ np.log(chances))

    found: Any = minimize_scalar(
        surprise, bounds=(max(0, -delta), min(1, 1 - delta)), method="bounded", options={"xatol": 1e-11}
    )
    p = found.x
    total = n_a + n_b
    variance = (p * (1 - p) / n_a + (p + delta) * (1 - p - delta) / n_b) * total / (total - 1)
    return (a / n_a - b / n_b + delta) / np.sqrt(variance)


@pytest.mark.parametrize("seed", range(0, 20, 2))
def test_the_score(seed):
    rng = np.random.default_rng(seed)
    n_a, n_b = rng.integers(5, 400, 2)
    a, b, delta = rng.integers(0, n_a + 1), rng.integers(0, n_b + 1), rng.uniform(0.01, 0.6)
    assert difference_score(delta, a, n_a, b, n_b) == pytest.approx(by_hand(delta, a, n_a, b, n_b), rel=1e-3, abs=1e-3)


def test_the_bound_is_the_test_turned_around():
    upper = difference_upper(80, 400, 100, 400, 0.95)
    assert difference_score(upper, 80, 400, 100, 400) == pytest.approx(1.644854, abs=1e-4)
    assert difference_upper(0, 0, 5, 10, 0.95) == 1.0
    assert 0 < difference_upper(0, 50, 0, 50, 0.95) < 0.12


def test_how_often_it_is_wrong():
    rng = np.random.default_rng(2)
    a, b = rng.binomial(200, 0.3, 400), rng.binomial(150, 0.4, 400)
    wrong = np.mean([difference_upper(x, 200, y, 150, 0.95) < 0.1 for x, y in zip(a, b, strict=True)])
    assert 0.02 < wrong < 0.09
