"""The pull: feasible as recomputed, never dearer than its bound, honest where it cannot work."""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.optimize

import tightrope as tr
from tightrope._minimize import _Asked
from tightrope.evidence.pull import pull, with_rounding
from tightrope.evidence.strictly_feasible import strictly_feasible
from tightrope.problem.full_data import full_values

RNG = np.random.default_rng(0)
ROWS = RNG.normal([1.0, -0.5, 0.2], 0.7, size=(501, 3))


def f(x, theta):
    return jnp.sum((x - theta) ** 2) / 2


def curved(x, theta):
    return jnp.stack([jnp.sum((x - 0.3 * theta) ** 2) - 0.4, jnp.dot(theta, x) - 0.5])


def in_numpy(x):
    """The constraints once more, rows in another order."""
    rows = ROWS[::-1]
    return np.array([np.mean(np.sum((x - 0.3 * rows) ** 2, axis=1)) - 0.4, np.mean(rows @ x) - 0.5])


BALL = tr.L2Ball(2.0, shape=3)
PROBLEM = tr.Problem(f, curved, BALL)
INNER = 0.3 * ROWS.mean(0)


@pytest.mark.parametrize("seed", range(8))
def test_the_smallest_pull_that_is_feasible(seed, dtype):
    data = jnp.asarray(ROWS, dtype)
    x = jnp.asarray(np.random.default_rng(seed).normal(size=3), dtype)
    towards = jnp.asarray(INNER, dtype)
    done = pull(PROBLEM, data, x, towards)
    f_x, h_x = (np.asarray(v, float) for v in full_values(PROBLEM, x, data))
    f_s, _ = full_values(PROBLEM, towards, data)
    assert np.all(in_numpy(np.asarray(done.x, float)) <= 0)
    assert done.cost <= done.bound + 1e-6 * abs(float(f_x))
    assert done.bound == pytest.approx(done.a * (float(f_s) - float(f_x)), rel=1e-3, abs=1e-6)
    if np.max(h_x) > 0:
        less = 0.99 * done.a  # a little less would not do
        assert np.max(in_numpy(np.asarray((1 - less) * x + less * towards, float))) > 0
    else:
        assert done.a == 0


def test_what_any_order_of_the_rows_may_round_is_kept_away_from():
    """Numbers of which all but a millionth cancels: zero in one order of summing is not zero in another."""
    with jax.enable_x64(False):
        rows = jnp.asarray(np.random.default_rng(0).normal(1.0, 30.0, size=(997, 3)), jnp.float32)
        x = jnp.asarray([0.3, -0.2, 0.1])
        level = float(full_values(tr.Problem(f, lambda x, theta: (theta @ x)[None], BALL), x, rows)[1][0])
        problem = tr.Problem(f, lambda x, theta: (theta @ x)[None], BALL, levels=level)
        h, margin = with_rounding(problem, x, rows)
        assert abs(h[0]) < margin[0] / 10
        orders = [np.asarray(rows)[np.random.default_rng(k).permutation(997)] for k in range(20)]
        others = [float(np.cumsum(order @ np.asarray(x))[-1] / 997 - level) for order in orders]
        assert 0 < np.max(np.abs(others)) < margin[0] < 1e-3  # of rows of 30
        done = pull(problem, rows, x, 2 * x)  # the mean of the rows has h(2x) < h(x) = 0
    assert done.a > 0
    exact = np.asarray(rows, np.longdouble).mean(0) @ np.asarray(done.x, np.longdouble)
    assert level - 3 * margin[0] < exact < level - np.max(np.abs(others))


def test_a_root_that_falls_short_is_gone_beyond(monkeypatch):
    """Brent's root is known to a tolerance only."""
    x, data = jnp.asarray([1.0, 0.5, 0.0]), jnp.asarray(ROWS)
    whole = pull(PROBLEM, data, x, jnp.asarray(INNER))
    found = scipy.optimize.root_scalar

    def short(*args, **options):
        return SimpleNamespace(root=found(*args, **options).root * (1 - 1e-6))

    monkeypatch.setattr(scipy.optimize, "root_scalar", short)
    again = pull(PROBLEM, data, x, jnp.asarray(INNER))
    assert np.all(in_numpy(np.asarray(again.x)) <= 0)
    assert whole.a * (1 - 1e-6) < again.a < whole.a * (1 + 2e-6)


def test_minimize_reports_the_pull():
    result = tr.minimize(PROBLEM, ROWS, method=tr.CSOA(upsilon0=0.0), steps=2000, output="feasible")
    assert result.output == "feasible"
    assert np.all(in_numpy(np.asarray(result.x, float)) <= 0)
    assert result.violation == 0
    assert 0 < result.pull.a < 0.5
    assert f"pulled towards a strictly feasible point by a = {result.pull.a:.3g}" in str(result)


def test_a_point_that_is_feasible_is_left_alone():
    result = tr.minimize(
        PROBLEM, ROWS, method=tr.CSOA(upsilon0=8.0), steps=2000, output="feasible", feasible_point=INNER
    )
    assert result.pull.a == 0
    np.testing.assert_array_equal(result.x, result.average)


def shifted(x, theta):
    """Feasible only near (1, 0, 0): neither zero nor any obvious point will do."""
    return (jnp.sum((x - jnp.array([1.0, 0.0, 0.0])) ** 2) - 0.04 + 0.0 * theta[0])[None]


@pytest.mark.slow
def test_a_strictly_feasible_point_is_found_by_a_phase_one():
    problem = tr.Problem(f, shifted, tr.L2Ball(2.0, shape=3))
    result = tr.minimize(problem, ROWS, method="svrg-csoa", passes=30, output="feasible")
    assert result.status is tr.Status.FINISHED
    assert float(result.constraints.iloc[0]) <= 0
    assert np.linalg.norm(np.asarray(result.x) - [1, 0, 0]) <= 0.2


def impossible(x, theta):
    return jnp.stack([x[0] + 1, 1 - x[0]]) + 0.0 * theta[:2]


@tr.pytree
class Factored(tr.L2Ball):
    """A ball whose points cannot be lifted, as if they were held factored."""

    additive = False


def test_where_points_cannot_be_lifted_the_worst_constraint_is_minimised():
    problem, data, x = tr.Problem(f, curved, Factored(2.0, shape=3)), jnp.asarray(ROWS), jnp.asarray([1.0, 0.5, 0.0])
    outside, asked = jnp.asarray([1.5, 0.5, 0.0]), []

    def solve(found):
        return lambda lowest, rows, **options: (asked.append((lowest, options)), SimpleNamespace(x=found))[1]

    inner = jnp.asarray(INNER)
    assert strictly_feasible(problem, data, [x], solve(inner)) is inner
    assert strictly_feasible(problem, data, [x], solve(outside)) is None
    lowest, options = asked[0]
    assert set(options) == {"x0", "passes"}
    unwatched = _Asked._field_defaults["options"]  # with which `minimize` takes it
    assert (unwatched.record, unwatched.progress) == (0, False)
    _, h, _, rows = jax.jit(problem.jacobian)(x, data)
    value, _, slope = jax.jit(lowest.value_and_gradient)(x, jnp.zeros(0), data)
    assert float(value) == pytest.approx(float(h.max()))
    np.testing.assert_allclose(slope, rows[int(np.argmax(h))], rtol=1e-12)


def test_where_there_is_no_feasible_point_the_status_says_so():
    problem = tr.Problem(f, impossible, tr.L2Ball(2.0, shape=3))
    result = tr.minimize(problem, ROWS, method="svrg-csoa", passes=5, output="feasible")
    assert result.status is tr.Status.NO_FEASIBLE_POINT
    assert "no strictly feasible point was found" in str(result)
    assert tr.minimize(problem, ROWS).status is tr.Status.INFEASIBLE  # with a proof


def test_without_rows_it_is_refused():
    with pytest.raises(TypeError, match="looks at all the data"):
        tr.minimize(PROBLEM, tr.Generator(lambda key: jax.random.normal(key, (3,))), steps=10, output="feasible")


def test_without_constraints_there_is_nothing_to_pull():
    problem = tr.Problem(f, None, tr.L2Ball(2.0, shape=3))
    assert tr.minimize(problem, ROWS, passes=3, output="feasible").pull is None
