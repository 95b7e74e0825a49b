"""When a run is solved, stalled or not converged, and when there is nothing to solve."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import linprog
from slow import quick_first

import tightrope as tr
from tightrope.evidence.stopping import Stopping
from tightrope.problems import PROBLEMS

# ---- numbers ---------------------------------------------------------------------------------------------------------


def test_solved_is_relative_to_the_scale_of_the_objective():
    for unit in (1e-6, 1.0, 1e6):
        stopping = Stopping(None, until_solved=True)
        assert stopping.look(1.1e-4 * 5 * unit, 0.0, 5 * unit, 0.0) is None
        assert stopping.look(0.9e-4 * 5 * unit, 0.0, 5 * unit, 0.0) is tr.Status.SOLVED


def test_a_tolerance_is_in_the_units_of_the_objective():
    stopping = Stopping(0.1, until_solved=False)
    assert stopping.look(0.11, 0.0, 1e9, 0.0) is None
    assert stopping.look(0.1, 0.0, 1e-9, 0.0) is tr.Status.TOLERANCE


def test_precision_is_when_all_that_is_missing_is_rounding():
    stopping = Stopping(1e-6, until_solved=False)
    assert stopping.look(3e-6, 1e-6, 1.0, 0.0) is None  # 2e-6 would be left
    assert stopping.look(1.5e-6, 1e-6, 1.0, 0.0) is tr.Status.PRECISION
    assert stopping.look(1e-6, 1e-6, 1.0, 0.0) is tr.Status.TOLERANCE


def test_what_is_small_beside_the_objective_or_beside_its_fall_is_solved_and_the_report_says_which():
    stopping = Stopping(None, until_solved=True)
    assert stopping.look(1e-3, 0.0, -10.0, 1.0) is tr.Status.SOLVED
    assert str(stopping) == "the gap is 0.001 (0.01 % of the objective)"
    assert stopping.look(1e-3, 0.0, 1.0, 10.0) is tr.Status.SOLVED
    assert str(stopping) == "the gap is 0.001 (0.01 % of its fall since the start)"
    assert stopping.look(1.1e-3, 0.0, 1.0, 10.0) is None


def test_how_many_looks_more_by_the_rate_of_the_last():
    stopping = Stopping(None, until_solved=True)
    for k in range(21):  # a tenth in ten looks: from 1 to 0.01, and ten times two more are left
        stopping.look(10 ** (-k / 10), 0.0, 1.0, 0.0)
    assert stopping.looks_to_go() == 20
    resting = Stopping(None, until_solved=True)
    for _ in range(10):
        resting.look(0.5, 0.0, 1.0, 0.0)
    assert resting.looks_to_go() is None


@pytest.mark.parametrize("gap", [math.inf, math.nan])
def test_an_unknown_gap_ends_nothing(gap):
    stopping = Stopping(1.0, until_solved=False)
    assert stopping.look(gap, 0.0, 1.0, 0.0) is None
    assert stopping.at_the_end() is (tr.Status.NOT_CONVERGED if gap == math.inf else tr.Status.FINISHED)


def test_stalled_after_thirty_looks_without_a_fall_by_a_tenth():
    stopping = Stopping(None, until_solved=True)
    assert [stopping.look(0.5, 0.0, 1.0, 0.0) for _ in range(31)] == [None] * 30 + [tr.Status.STALLED]
    falling = Stopping(None, until_solved=True)
    assert all(falling.look(0.5 * 0.99**k, 0.0, 1.0, 0.0) is None for k in range(200))


def test_patience_grows_with_the_run():
    stopping = Stopping(None, until_solved=True)
    for k in range(100):
        assert stopping.look(0.5 * 0.95**k, 0.0, 1.0, 0.0) is None
    waited = next(k for k in range(1, 200) if stopping.look(1.0, 0.0, 1.0, 0.0) is tr.Status.STALLED)
    assert 60 < waited <= 101


def test_only_a_run_without_a_budget_stalls():
    stopping = Stopping(1e-9, until_solved=False)
    assert all(stopping.look(0.5, 0.0, 1.0, 0.0) is None for _ in range(100))


def test_at_the_end_a_budget_is_spent_well_or_not():
    stopping = Stopping(None, until_solved=False)
    assert stopping.at_the_end() is tr.Status.FINISHED  # nothing is known
    stopping.look(0.9e-3, 0.0, 1.0, 0.0)
    assert stopping.at_the_end() is tr.Status.FINISHED
    stopping.look(0.3, 0.0, 1.0, 0.0)
    assert stopping.at_the_end() is tr.Status.NOT_CONVERGED
    assert str(stopping) == "the gap is 0.3 (30 % of the objective)"


def test_a_budget_is_cut_short_where_rounding_is_half_of_the_gap_or_nothing_is_left():
    stopping = Stopping(None, until_solved=False)
    assert stopping.look(2.5e-7, 1e-7, 1.0, 0.0) is None
    assert stopping.look(2e-7, 1e-7, 1.0, 0.0) is tr.Status.SOLVED
    assert stopping.look(1e-10, 0.0, 1.0, 0.0) is tr.Status.SOLVED
    assert stopping.look(2e-4, 1e-3, 1.0, 0.0) is None  # it may be rounding, but solved it is not


@pytest.mark.parametrize(("tol", "most"), [(1e-2, 1.0), (None, 100 * 1e-3**0.5)])
def test_half_way_a_tolerance_is_out_of_reach_where_it_takes_more_than_was_gained(tol, most):
    """The scale is 100. Towards 0.01 the first half must have brought the gap to 1."""
    stopping = Stopping(tol, until_solved=False)
    stopping.look(1.01 * most, 0.0, 100.0, 0.0)
    assert stopping.out_of_reach()
    stopping.look(0.99 * most, 0.0, 100.0, 0.0)
    assert not stopping.out_of_reach()


def test_a_gap_as_large_as_the_scale_is_said_as_a_share_and_a_larger_one_is_not():
    stopping = Stopping(None, until_solved=False)
    stopping.look(2.0, 0.0, 2.0, 0.0)
    assert "of the objective" in str(stopping)
    stopping.look(2.1, 0.0, 2.0, 0.0)
    assert str(stopping) == "the gap is 2.1"


# ---- runs ------------------------------------------------------------------------------------------------------------


def test_without_a_budget_rows_are_solved():
    """A hinge loss under a hinge constraint, which is a linear programme in (x, u, v): u and v are the hinges."""
    rng, n, d, level = np.random.default_rng(0), 200, 4, 0.02
    a = rng.normal(size=(n, d))
    y = np.sign(a[:, 0] + rng.normal(size=n) + 0.3)

    def f(x, theta):
        return jnp.maximum(1 - theta["y"] * jnp.dot(theta["a"], x), 0)

    def h(x, theta):
        return jnp.maximum(jnp.dot(theta["a"], x) - 0.1, 0)[None]

    result = tr.minimize(tr.Problem(f, h, tr.Box(-5.0, 5.0, shape=d), levels=level), {"a": a, "y": y})
    assert result.status is tr.Status.SOLVED
    assert (result.constraints <= 0).all()
    none, one, mean = np.zeros((n, n)), np.eye(n), np.full(n, 1 / n)
    rows = np.block([[-y[:, None] * a, -one, none], [a, none, -one], [np.zeros(d + n), mean]])
    right = np.concatenate([np.full(n, -1.0), np.full(n, 0.1), [level]])
    best = linprog(
        np.concatenate([np.zeros(d), mean, np.zeros(n)]), rows, right, bounds=[(-5, 5)] * d + [(0, None)] * 2 * n
    )
    assert best.ineqlin.marginals[-1] < -0.1  # the constraint binds
    assert -1e-9 <= result.objective - best.fun <= 1e-4


def test_a_stream_needs_steps():
    solved = PROBLEMS["infeasible"]()
    with pytest.raises(ValueError, match="Give steps"):
        tr.minimize(solved.problem, solved.samples)


@pytest.mark.parametrize("name", quick_first(["infeasible", "simplex"], 1))
def test_no_feasible_point_is_recognised_by_fresh_samples(name):
    solved = PROBLEMS[name]()
    result = tr.minimize(solved.problem, solved.samples, steps=2000)
    expected = tr.Status.FINISHED if solved.feasible else tr.Status.INFEASIBLE_IN_SAMPLES
    assert result.status is expected
    assert ("Every point of the domain violates" in result.message) is not solved.feasible


def test_chance_is_not_called_infeasible():
    """H = 0 everywhere, and the constraint is all noise: half of the means of fresh samples are above zero."""
    problem = tr.Problem(
        lambda x, theta: x[0] + 0.1 * theta[0], lambda x, theta: (0 * x[0] + theta[1])[None], tr.Box(-1.0, 1.0, shape=1)
    )
    samples = tr.Generator(lambda key: jax.random.normal(key, (2,)))
    results = [tr.minimize(problem, samples, steps=500, seed=seed) for seed in range(8)]
    assert {result.status for result in results} == {tr.Status.UNDECIDED}
    results = [tr.minimize(problem, samples, steps=500, seed=seed, memory=0) for seed in range(8)]
    assert {result.status for result in results} == {tr.Status.FINISHED}
    assert any(result.constraints.iloc[0] > 0 and result.dual[0] > 0 for result in results)
