"""Fair classification, against cvxpy, NumPy and itself with rows repeated."""

from typing import Any

import cvxpy as cp
import jax
import numpy as np
import pandas as pd
import pytest

import tightrope as tr
from studies.fair_logistic import Instance
from tightrope.datasets import adult_label_encoded, load_adult, one_hot, rotated_gaussians
from tightrope.learn.fairness.sensitive import read_sensitive
from tightrope.problems import carried_by_few, fair_classification

X, Y, S, _ = rotated_gaussians(n=600, phi=np.pi / 8)
POINT = np.array([0.3, -0.2, 0.1])
ATTRIBUTES = pd.DataFrame({"sex": S, "race": np.array(list("ABC"))[np.arange(600) % 3], "age": 30 + X[:, 0]})


@jax.jit  # the problem is a pytree: one program for all of the same shapes
def evaluate(problem, x, lam, data):
    return problem.value_and_gradient(x, lam, data)


def values(made, x=POINT):
    """Over all rows, as the library computes them: objective, constraints (with the levels put back), and the gradient of
    the Lagrangian at multipliers 0, 1, 2, ..."""
    lam = np.arange(len(made.problem.levels), dtype=float)
    f, h, gradient = evaluate(made.problem, x, lam, made.data)
    return float(f), np.asarray(h) + made.problem.levels, np.asarray(gradient)


def assert_same(one, other):
    for a, b in zip(values(one), values(other), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-12)


def loss(x, weight=None):
    return np.average(np.log1p(np.exp(-Y * (X @ x))), weights=weight)


# ---- the optimum -----------------------------------------------------------------------------------------------------


def solve(c, l2=0.0) -> tuple[Any, Any, Any]:
    """Once more as a cvxpy model: value, point, and the multipliers of both sides."""
    x = cp.Variable(3)
    covariance = ((S - S.mean()) @ X / len(X)) @ x
    objective = cp.sum(cp.logistic(-cp.multiply(Y, X @ x))) / len(X) + l2 / 2 * cp.sum_squares(x[:2])
    sides = [covariance <= c, -covariance <= c]
    model = cp.Problem(cp.Minimize(objective), [*sides, cp.norm(x) <= 10])
    model.solve(solver=cp.CLARABEL, tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)
    return model.value, x.value, np.array([np.ravel(np.asarray(side.dual_value))[0] for side in sides])


@pytest.mark.parametrize("l2", [0.0, 0.1])
def test_the_optimum_is_cvxpys(l2):
    value, x, dual = solve(0.05, l2)
    assert dual[0] > 0.05  # the constraint matters
    problem, data = fair_classification(X, Y, S, 0.05, l2=l2, penalised=np.array([True, True, False]))
    result = tr.minimize(problem, data, passes=60, output="feasible", record=0)
    assert result.violation == 0
    assert abs((S - S.mean()) @ (X @ result.x) / len(X)) <= 0.05 + 1e-15
    assert result.objective is not None
    assert -1e-9 <= result.objective - value < 1e-5
    np.testing.assert_allclose(result.x, x, atol=5e-3)
    np.testing.assert_allclose(result.dual, dual, atol=5e-3)


COMPILED: list[str] = []
jax.monitoring.register_event_duration_secs_listener(
    lambda event, duration_secs, **kwargs: COMPILED.append(event) if "backend_compile" in event else None
)


def test_another_problem_of_the_same_shapes_compiles_nothing():
    first = fair_classification(X, Y, S, 0.05)
    second = fair_classification(X[::-1], Y[::-1], S[::-1], 0.2, radius=5.0, notion="equal_opportunity", l2=0.1)
    tr.minimize(*first, passes=3, record=0)
    assert COMPILED
    known = len(COMPILED)
    tr.minimize(*second, passes=3, record=0)
    assert len(COMPILED) == known


# ---- its values ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("notion", ["demographic_parity", "equal_opportunity"])
@pytest.mark.parametrize("weighted", [False, True])
def test_values_by_hand(notion, weighted):
    weight = np.random.default_rng(0).random(600) if weighted else None
    made = fair_classification(X, Y, ATTRIBUTES, 0.1, notion=notion, sample_weight=weight, l2=0.7)
    f, h, _ = values(made)
    assert f == pytest.approx(loss(POINT, weight) + 0.35 * POINT @ POINT)
    of = Y > 0 if notion == "equal_opportunity" else np.ones(600, bool)
    indicators = [S, *(ATTRIBUTES["race"] == g for g in "ABC"), ATTRIBUTES["age"]]
    w = np.ones(600) if weight is None else weight
    cov = [np.cov(np.asarray(s, float)[of], (X @ POINT)[of], aweights=w[of], ddof=0)[0, 1] for s in indicators]
    np.testing.assert_allclose(h, [*cov, *np.negative(cov)], atol=1e-13)


def test_names_and_levels():
    made = fair_classification(X, Y, ATTRIBUTES, {"age": 3.0, "sex": 0.1, "race": 0.2})
    names = ("sex", "race=A", "race=B", "race=C", "age")
    assert made.problem.names == (*(f"cov({n})" for n in names), *(f"-cov({n})" for n in names))
    np.testing.assert_array_equal(made.problem.levels, [0.1, 0.2, 0.2, 0.2, 3.0] * 2)
    np.testing.assert_array_equal(fair_classification(X, Y, ATTRIBUTES, [1, 2, 3]).problem.levels, [1, 2, 2, 2, 3] * 2)
    assert all(a.dtype == np.float64 for a in made.data)


def test_exact_constraints_are_the_mean_of_the_sampled_ones():
    for notion in ("demographic_parity", "equal_opportunity"):
        exact, sampled = (
            fair_classification(X, Y, ATTRIBUTES, 0.1, notion=notion, sample_weight=1 + X[:, 0] ** 2, exact=e)
            for e in (True, False)
        )
        assert sampled.problem.exact_constraints is None
        assert_same(exact, sampled)


def test_every_form_of_labels_and_attributes():
    expected = fair_classification(X, Y, S, 0.1)
    for y, s in (((Y > 0).astype(int), np.where(S > 0, "M", "F")), (Y > 0, read_sensitive(S))):
        assert_same(fair_classification(X, y, s, 0.1), expected)


def test_the_loss_of_a_hopeless_score_is_finite():
    made = fair_classification(1e4 * X, Y, S, 0.1)
    f, _, gradient = values(made)
    assert f == pytest.approx(np.mean(np.maximum(0, -1e4 * Y * (X @ POINT))), rel=1e-3)
    assert np.all(np.isfinite(gradient))


@pytest.mark.parametrize("notion", ["demographic_parity", "equal_opportunity"])
@pytest.mark.parametrize("exact", [True, False])
def test_weights_are_repetitions(notion, exact):
    times = 1 + np.arange(600) % 3
    rows = np.repeat(np.arange(600), times)
    options = {"notion": notion, "exact": exact, "l2": 0.3}
    weighted = fair_classification(X, Y, ATTRIBUTES, 0.1, sample_weight=times, **options)
    repeated = fair_classification(X[rows], Y[rows], ATTRIBUTES.iloc[rows], 0.1, **options)
    assert_same(weighted, repeated)


@pytest.mark.parametrize("notion", ["demographic_parity", "equal_opportunity"])
@pytest.mark.parametrize("exact", [True, False])
def test_rows_without_weight_change_nothing(notion, exact):
    rows = np.r_[np.arange(600), np.zeros(200, int)]
    wild = np.vstack([X, 1e3 * X[:200]])
    options = {"notion": notion, "exact": exact, "l2": 0.3}
    plain = fair_classification(X, Y, ATTRIBUTES, 0.1, **options)
    attributes = ATTRIBUTES.iloc[rows].reset_index(drop=True)
    attributes.loc[600:, "age"] = 1e5
    padded = fair_classification(wild, Y[rows], attributes, 0.1, sample_weight=np.arange(800) < 600, **options)
    assert_same(plain, padded)


def test_adult_is_that_of_the_study():
    adult = Instance(*adult_label_encoded())
    made = fair_classification(adult.X, adult.y, adult.s > 0, 0.05)
    x = np.random.default_rng(1).normal(size=14)
    f, h, gradient = values(made, x)
    assert f == pytest.approx(adult.value(x))
    np.testing.assert_allclose(h, [adult.covariance(x), -adult.covariance(x)], atol=1e-13)
    np.testing.assert_allclose(made.problem.params["V"][0], adult.v, atol=1e-13)
    np.testing.assert_allclose(gradient, adult.gradient(x) - adult.v, atol=1e-13)  # multipliers 0 and 1


# ---- a handful of rows -----------------------------------------------------------------------------------------------


def test_rare_categories_carry_the_covariance():
    adult = load_adult()
    for min_count in (1, 100):
        features, y, s, names = one_hot(adult, min_count=min_count)
        found = dict(carried_by_few(fair_classification(features, y, s, 0.05).data, max_rows=50))
        rare = {
            j: int(features[:, j].sum()) for j, name in enumerate(names) if "=" in name and features[:, j].sum() <= 50
        }
        assert found == rare
        assert bool(rare) == (min_count == 1)


def test_what_is_a_handful():
    columns = np.zeros((600, 5))
    columns[:10, 0] = 1.0
    columns[:11, 1] = 1.0
    columns[:, 2] = 7.0  # constant
    columns[:, 3] = np.where(np.arange(600) < 3, 0.1, 0.3)  # rare, and not zero elsewhere
    men, women = np.flatnonzero(S == 1), np.flatnonzero(S == 0)
    columns[men[:1], 4], columns[women[:1], 4] = 1.0, (1 - S.mean()) / S.mean()  # rare, but its covariance is zero
    data = fair_classification(columns, Y, S, 0.05).data
    assert carried_by_few(data) == [(0, 10), (3, 3)]
    assert carried_by_few(data, max_rows=11) == [(0, 10), (1, 11), (3, 3)]
    assert carried_by_few(data, max_rows=2) == []
    weight = np.where(np.arange(600) < 2, 0.0, 1.0)
    assert carried_by_few(fair_classification(columns, Y, S, 0.05, sample_weight=weight).data)[:2] == [(0, 8), (1, 9)]


# ---- bad input -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"X": X[:, 0]}, r"X has shape \(600,\)"),
        ({"X": np.where(X > 4, np.nan, X)}, r"X has \d+ values that are NaN or infinite"),
        ({"X": [["a", "b"]]}, "X cannot be read"),
        ({"y": Y[:10]}, r"y has shape \(10,\); expected 600"),
        ({"y": Y + 1}, "y has values such as"),
        ({"y": np.ones(600)}, "y has one label only"),
        ({"sample_weight": Y > 0}, "y has one label only"),
        ({"sensitive": S[:10]}, "sensitive_features has 10 rows and X has 600"),
        ({"sensitive": np.ones(600)}, "only one value"),
        ({"threshold": 0.0}, "threshold is 0.0; expected positive numbers"),
        ({"threshold": np.nan}, "threshold is nan"),
        ({"threshold": "small"}, "threshold is 'small'"),
        ({"threshold": [0.1, 0.2]}, r"threshold has shape \(2,\); expected one number, or 1"),
        ({"threshold": {"sex": 0.1}}, "threshold is given for sex; expected one for each of sensitive_features"),
        ({"sensitive": ATTRIBUTES, "threshold": {"sex": 0.1}}, "expected one for each of sex, race, age"),
        ({"notion": "equality"}, "notion is 'equality'; expected 'demographic_parity' or 'equal_opportunity'"),
        ({"sample_weight": "balanced"}, r"sample_weight has shape \(\); expected 600 values"),
        ({"sample_weight": np.ones(3)}, r"sample_weight has shape \(3,\)"),
        ({"sample_weight": -np.ones(600)}, "sample_weight has values that are negative"),
        ({"sample_weight": np.zeros(600)}, "no positive one"),
        ({"l2": -1.0}, "l2 is -1.0"),
        ({"radius": -1.0}, "radius is -1.0"),
        ({"penalised": np.ones(2, bool)}, r"penalised is an array of bool of shape \(2,\); expected 3 booleans"),
        ({"penalised": [0, 1, 2]}, "penalised is an array of int64"),
    ],
)
def test_bad_input(changes, sentence):
    given = {"X": X, "y": Y, "sensitive": S, "threshold": 0.1} | changes
    with pytest.raises((ValueError, TypeError), match=sentence):
        fair_classification(**given)
