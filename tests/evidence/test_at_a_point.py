"""What is said of a point, by hand in NumPy and float64: rounding, what it is worth, the room that a margin leaves."""

# What stands in the place of a problem, a run or a set has only what is asked of it:
# pyright: reportArgumentType=false, reportAttributeAccessIssue=false, reportOptionalMemberAccess=false

from types import SimpleNamespace
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from core_cases import BALL, ROWS, constraints, objective
from scipy.signal import lfilter

import tightrope as tr
from tightrope.evidence import at_a_point as worth
from tightrope.evidence import pull as feasible
from tightrope.evidence.stopping import Stopping
from tightrope.problem.conflict import best_weights
from tightrope.tree import replace

EPS = np.finfo(float).eps
X = np.array([0.9, 0.2, -0.1])  # violates both
S = np.array([-0.4, 0.3, 0.1])
LAM = np.array([0.6, 0.2])
OF_F, OF_H = 1e-2, 1e-3  # units, so that no number is near 1 by nature
LEVELS = OF_H * np.array([0.5, 0.4])
PROBLEM = tr.Problem(
    lambda x, theta: OF_F * objective(x, theta), lambda x, theta: OF_H * constraints(x, theta), BALL, levels=LEVELS
)
MANY = np.random.default_rng(8).normal([1.0, -0.5, 0.2], 0.7, size=(296, 3))
MANY[1] *= 50  # which is not among the rows that a glance sees


def f_of(x, rows=ROWS):
    return OF_F * ((x - rows) ** 2).sum(axis=1) / 2


def h_of(x, rows=ROWS):
    return OF_H * np.stack([rows @ x, x[0] + 0.1 * rows[:, 1]], axis=1) - LEVELS


def slopes_of(rows=ROWS):
    return OF_H * np.stack([rows, np.tile([1.0, 0.0, 0.0], (len(rows), 1))], axis=1)


def sizes_at(x, rows=ROWS):
    """What is summed, in absolute values: f, h, and slopes."""
    grad, slopes = OF_F * np.abs(x - rows), np.abs(slopes_of(rows))
    size_f = np.abs(f_of(x, rows)) + grad @ np.abs(x)
    size_h = np.abs(h_of(x, rows)) + slopes @ np.abs(x) + LEVELS
    return size_f.mean(axis=0), size_h.mean(axis=0)


# ---- the pull --------------------------------------------------------------------------------------------------------


def test_exact_constraints_are_rounded_like_their_own_size():
    exact = replace(PROBLEM, constraints=None, exact_constraints=lambda x: jnp.stack([OF_H * x[0], OF_H * jnp.sum(x)]))
    h, found = feasible.with_rounding(exact, jnp.asarray(X), jnp.asarray(ROWS))
    expected = OF_H * np.array([X[0], X.sum()]) - LEVELS
    np.testing.assert_allclose(h, expected, rtol=1e-12)
    size = np.abs(expected) + OF_H * np.array([abs(X[0]), np.abs(X).sum()]) + LEVELS
    np.testing.assert_allclose(found, 64 * EPS * size, rtol=1e-9)


def test_what_a_point_is_worth_where_constraints_are_exact():
    exact = replace(PROBLEM, constraints=None, exact_constraints=lambda x: jnp.stack([OF_H * x[0], OF_H * jnp.sum(x)]))
    found, expected = (
        worth.worth_on_rows(exact, jnp.asarray(X), jnp.asarray(ROWS)),
        OF_H * np.array([X[0], X.sum()]) - LEVELS,
    )
    assert (found.objective, found.objective_error) == pytest.approx((f_of(X).mean(), 20 * EPS * f_of(X).mean()))
    np.testing.assert_allclose(found.constraints, expected, rtol=1e-12)
    np.testing.assert_allclose(found.errors, 20 * EPS * (np.abs(expected) + LEVELS), rtol=1e-9)


# ---- stopping -----------------------------------------------------------------------------------------------------------


def test_a_gap_that_rests_within_rounding_of_the_tolerance_ends_a_run():
    for gap_, rounding, looks in ((0.31, 0.02, 6), (0.31, 0.009, None), (0.31, 0.2, 1)):
        stopping = Stopping(0.3, False)
        said = [stopping.look(gap_, rounding, 4.0, 0.0) for _ in range(10)]
        ends = next((k for k, status in enumerate(said, start=1) if status is not None), None)
        assert ends == looks
        assert ends is None or said[ends - 1] is tr.Status.PRECISION
    stopping = Stopping(0.3, False)
    assert not any(
        stopping.look(0.32 * 0.995**k, 0.05, 4.0, 0.0) for k in range(5)
    )  # five looks may lower it by a tenth


# ---- worth -----------------------------------------------------------------------------------------------------------


def test_what_a_point_is_worth_by_hand():
    x, rows = jnp.asarray(X), jnp.asarray(ROWS)
    found = worth.worth_on_rows(PROBLEM, x, rows)
    f, h = f_of(X), h_of(X)
    assert found.objective == pytest.approx(f.mean())
    np.testing.assert_allclose(found.constraints, h.mean(axis=0), rtol=1e-12)
    assert found.objective_error == pytest.approx(20 * EPS * np.abs(f).mean())
    np.testing.assert_allclose(found.errors, 20 * EPS * (np.abs(h).mean(axis=0) + LEVELS), rtol=1e-12)
    assert (found.measured_on, found.at_random, found.samples) == ("all 37 rows", False, None)
    found = worth.worth_on_samples(PROBLEM, x, rows, "things")
    assert found.objective_error == pytest.approx(2 * f.std(ddof=1) / np.sqrt(37))
    np.testing.assert_allclose(found.errors, 2 * h.std(axis=0, ddof=1) / np.sqrt(37), rtol=1e-12)
    np.testing.assert_allclose(found.constraints, h.mean(axis=0), rtol=1e-12)
    assert found.objective == pytest.approx(f.mean())
    assert (found.measured_on, found.at_random) == ("37 things, with two standard errors", True)
    assert found.samples is rows


# ---- samples that are alike --------------------------------------------------------------------------------------------


def alike(n, time, seed=0):
    """A normal process whose correlation falls by e in this time, around 1."""
    keep = np.exp(-1 / time)
    noise = np.random.default_rng(seed).normal(size=n) * np.sqrt(1 - keep**2)
    noise[0] /= np.sqrt(1 - keep**2)
    return 1 + np.asarray(lfilter([1], [1, -keep], noise))[:, None]


LEVEL = tr.Problem(lambda x, theta: -x[0], lambda x, theta: theta * x[0], tr.Box(0.0, 1.0, shape=1), levels=0.5)


@pytest.mark.parametrize(("time", "least", "most"), [(1e-3, 1.0, 1.0), (3, 4, 9), (30, 35, 90)])
def test_errors_count_that_neighbours_are_alike(time, least, most):
    rows = alike(8192, time)
    plain = worth.worth_on_samples(LEVEL, jnp.ones(1), rows, "things")
    found = worth.worth_on_the_last(LEVEL, jnp.ones(1), rows)
    assert found.constraints[0] == pytest.approx(plain.constraints[0])
    assert least <= (found.errors[0] / plain.errors[0]) ** 2 <= most  # 1, 2 and 20 times would be too little
    assert (found.note is None) is (time < 1)
    assert found.note is None or "neighbouring samples are alike" in found.note


def test_from_too_few_independent_samples_nothing_is_decided():
    found = worth.worth_on_the_last(LEVEL, jnp.zeros(1) + 0.1, alike(1024, 200))
    assert np.isinf(found.errors).all()
    assert "correlation time at least" in str(found.note)
    result: Any = SimpleNamespace(output="average", at_random=True)
    assert tr.Result.verdict_of(result, found.constraints[0], found.errors[0]).startswith("undecided")


# ---- margin and oscillation ------------------------------------------------------------------------------------------


def test_the_best_weights_are_nearly_those_of_the_slater_point():
    """min over the ball of max_i H_i, for two linear constraints, by a fine grid of weights."""
    nu, least = (np.asarray(v) for v in best_weights(PROBLEM, jnp.asarray(X), jnp.asarray(ROWS), jnp.ones(2)))
    slopes, at_zero = slopes_of().mean(axis=0), h_of(np.zeros(3)).mean(axis=0)
    grid = np.stack([np.linspace(0, 1, 2001), 1 - np.linspace(0, 1, 2001)], axis=1)
    values = grid @ at_zero - 2 * np.linalg.norm(grid @ slopes, axis=1)
    assert nu.sum() == pytest.approx(1.0)
    assert float(least) == pytest.approx(nu @ at_zero - 2 * np.linalg.norm(nu @ slopes), rel=1e-9)
    assert values.max() - 0.02 * abs(values.max()) <= float(least) <= values.max() + 1e-5


@pytest.mark.parametrize("rows", [np.repeat([[0.4], [0.6]], 2048, axis=0), np.full((4096, 1), 0.4)])
def test_samples_of_one_state_decide_nothing(rows):
    """A chain that rests for as long as the samples go back says nothing of its mean."""
    found = worth.worth_on_the_last(LEVEL, jnp.ones(1), rows)
    assert np.isinf(found.errors).all()
    assert "say as much as" in str(found.note)
