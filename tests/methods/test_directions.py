"""Lengths in which curvatures are alike: the nearest points in them, what is found on some rows, and what a run gains."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tightrope as tr
from tightrope.loop.prepare import gradients_used
from tightrope.methods.directions import find_bends, gradients_for
from tightrope.methods.snapshot import take_snapshot
from tightrope.methods.widths import length_in, move_of, rows_in, slope_in, step_along
from tightrope.sets.metric import Metric

D, K = 8, 2


def metric_of(seed: int, dtype=jnp.float64) -> tuple[Metric, np.ndarray]:
    """A metric with widths from 0.1 to 10 and one narrow and one wide direction, and S with x = S z."""
    rng = np.random.default_rng(seed)
    U, widths = np.linalg.qr(rng.normal(size=(D, K)))[0].T, 10 ** rng.uniform(-1, 1, size=D)
    along = np.array([0.02, 3.0])
    S = np.diag(widths) @ (np.eye(D) + U.T @ np.diag(along - 1) @ U)
    return Metric(*(jnp.asarray(v, dtype) for v in (widths, U, along))), S


@pytest.mark.parametrize("domain", [tr.L2Ball(1.0, D), tr.Box(-1.0, 0.5, D)], ids=lambda d: d.name)
def test_the_nearest_point_in_a_metric_is_where_no_point_of_the_set_is_nearer(domain, dtype):
    project = jax.jit(domain.project_in)
    for seed in (0, 2, 4):
        metric, S = metric_of(seed, dtype)
        x = 3 * np.random.default_rng(seed).normal(size=D)
        y = project(metric, jnp.asarray(x, dtype))
        assert y.dtype == dtype
        assert bool(domain.contains(y))
        g = np.linalg.inv(S @ S.T) @ (np.asarray(y, float) - x)  # <g, v - y> >= 0 for every v of the set
        support = float(domain.support(jnp.asarray(-g, dtype)))
        assert g @ np.asarray(y, float) + support <= 2e4 * float(jnp.finfo(dtype).eps) * abs(support)
        np.testing.assert_array_equal(project(metric, y / 2), y / 2)  # inside, nothing moves


def test_lengths_slopes_and_steps_are_those_of_other_coordinates():
    metric, S = metric_of(2)
    rng = np.random.default_rng(0)
    v, g, J = rng.normal(size=D), rng.normal(size=D), rng.normal(size=(3, D))
    np.testing.assert_allclose(slope_in(metric, g), S.T @ g, rtol=1e-10)
    np.testing.assert_allclose(length_in(metric, v), np.linalg.solve(S, v), rtol=1e-10)
    np.testing.assert_allclose(move_of(metric, v), S @ v, rtol=1e-10)
    np.testing.assert_allclose(rows_in(metric, J), J @ S, rtol=1e-10)
    np.testing.assert_allclose(step_along(metric, v, jnp.asarray(0.5), g), v - 0.5 * S @ S.T @ g, rtol=1e-10)


def squares(x, theta):
    return (jnp.dot(theta[0], x) - theta[1]) ** 2 / 2


PROBLEM = tr.Problem(squares, None, tr.Box(-0.5, 0.5, 24))


@jax.jit
def found_on(X: jax.Array, y: jax.Array):
    """What is found at zero on these rows, in a box of widths one, with batches of 16."""
    snap = take_snapshot(PROBLEM, jnp.zeros(24), jnp.zeros(0), (X, y))
    return find_bends(PROBLEM, snap, jnp.zeros(0), (X, y), jnp.ones(24), 3, 16)


def test_factors_and_units_are_found_and_columns_that_are_alike_are_left_alone():
    rng = np.random.default_rng(0)
    n, d = 4096, 24
    alone, y = rng.normal(size=(n, d)), rng.normal(size=n)
    nothing = found_on(alone, y)
    np.testing.assert_array_equal(nothing.scales, np.ones(d))
    np.testing.assert_array_equal(nothing.along, np.ones(3))

    loads = rng.choice([-4.0, 4.0], size=d)
    common = found_on(alone + rng.normal(size=(n, 1)) * loads, y)  # bends 16 d + 1 times as much along the loads
    np.testing.assert_array_equal(common.scales, np.ones(d))
    assert abs(common.directions[0] @ loads) / np.linalg.norm(loads) > 0.99
    assert common.along[0] ** 2 * (16 * d + 1) < 3  # no more than elsewhere, d/16 of a batch's noise included

    units = 10.0 ** rng.uniform(-2, 2, size=d)
    units[5], rare = 1.0, np.zeros(n)
    rare[1::16] = 30.0  # in rows that are not looked at
    own = found_on(np.column_stack([alone[:, :-1] * units[:-1], rare]), y)
    assert 0.03 < own.scales[-1] / np.exp(np.mean(np.log(own.scales[:-1]))) < 30  # taken for a usual one
    own, units = own._replace(scales=own.scales[:-1]), units[:-1]
    np.testing.assert_allclose(own.scales * units / np.mean(own.scales * units), np.ones(d - 1), rtol=0.4)


def test_a_set_without_such_projections_has_none_and_says_so_where_they_are_asked_for():
    problem, x, theta = tr.Problem(squares, None, tr.Simplex(1.0, 600)), jnp.zeros(600), (jnp.zeros(600), jnp.zeros(()))
    assert tr.SVRGCSOA().fitted(problem, x, theta).directions == 0
    with pytest.raises(ValueError, match="Simplex has no projection in other metrics"):
        tr.SVRGCSOA(directions=4).fitted(problem, x, theta)
    ball = tr.Problem(squares, None, tr.L2Ball(1.0, 600))
    fitted = tr.SVRGCSOA().fitted(ball, x, theta)
    assert [fitted.for_rows(n, 64).directions for n in (2_000, 6_000, 60_000)] == [0, 5, 16]
    few = tr.SVRGCSOA().fitted(tr.Problem(squares, None, tr.L2Ball(1.0, 500)), jnp.zeros(500), theta)
    assert few.directions == 0
    n, method = 60_000, fitted.for_rows(60_000, 64)
    plain = tr.SVRGCSOA(directions=0).for_rows(n, 64)
    more = gradients_used(method, 100, 64, n) - gradients_used(plain, 100, 64, n)
    assert more == gradients_for(n, 64, 16) <= 0.42 * n


@pytest.mark.slow
def test_a_run_on_factors_takes_a_fraction_of_the_passes_and_resumes_exactly(tmp_path):
    rng = np.random.default_rng(0)
    n, d = 4096, 24
    X = rng.normal(size=(n, d)) + 8 * rng.normal(size=(n, 1))
    rows = tr.Rows((X, X[:, 0] - X[:, 1] + rng.normal(size=n)))
    problem = tr.Problem(squares, None, tr.L2Ball(3.0, d))
    best = np.linalg.lstsq(X, rows.data[1], rcond=None)[0]
    least = float(np.mean((X @ best - rows.data[1]) ** 2)) / 2

    def run(directions: int, **options):
        return tr.minimize(problem, rows, method=tr.SVRGCSOA(directions=directions), passes=10, seed=0, **options)

    whole = run(3)
    above, before = (float(result.objective or 0) - least for result in (whole, run(0)))
    assert above < 1e-3 * before
    stopped = run(3, checkpoint=tmp_path / "run", callback=lambda seen: seen.step >= 70)
    assert stopped.status is tr.Status.CALLBACK_STOPPED
    np.testing.assert_array_equal(run(3, checkpoint=tmp_path / "run").x, whole.x)
