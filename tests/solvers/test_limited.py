"""Curvature of limited memory, programmes between bounds, and runs of SQP without a matrix."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tightrope as tr
from tightrope.sets import conic
from tightrope.solvers.bounds import Bounds, within_bounds
from tightrope.solvers.limited import Bends
from tightrope.solvers.low_rank import LowRank
from tightrope.solvers.programmes import region_of, solve
from tightrope.solvers.quadratic import Ball, Step, _free, best_step, updated

D = 60


def low_rank(seed: int, d: int = D) -> LowRank:
    """Positive definite, with a term that subtracts."""
    rng = np.random.default_rng(seed)
    vectors = 0.3 * rng.normal(size=(4, d))
    vectors[3] *= 0.5 / np.linalg.norm(vectors[3])
    return LowRank(rng.uniform(1, 3, size=d), vectors, np.array([1.0, 1.0, 5.0, -1.0]))


def test_a_diagonal_with_terms_of_rank_one_is_the_matrix_that_it_stands_for():
    B, rng = low_rank(0), np.random.default_rng(2)
    dense, v = B.matrix(), rng.normal(size=D)
    np.testing.assert_allclose(B @ v, dense @ v, rtol=1e-12)
    np.testing.assert_allclose((B / 4.0).matrix(), dense / 4, rtol=1e-12)
    np.testing.assert_allclose(B.plus(3.0).matrix(), dense + 3 * np.eye(D), rtol=1e-12)
    np.testing.assert_allclose(B.trace, np.trace(dense), rtol=1e-12)
    np.testing.assert_allclose(
        B.solve(np.stack([v, v**2], 1)), np.linalg.solve(dense, np.stack([v, v**2], 1)), rtol=1e-9
    )


def test_pairs_update_as_a_matrix_is_updated_and_the_oldest_is_forgotten():
    rng = np.random.default_rng(4)
    scales, U = rng.uniform(0.5, 2, size=D), np.linalg.qr(rng.normal(size=(D, 2)))[0].T
    start = Bends.of(scales, U, np.array([50.0, 20.0]), 0.7, np.zeros((6, D)))
    inner = 0.7 * np.eye(D) + U.T @ np.diag([50 - 0.7, 20 - 0.7]) @ U
    np.testing.assert_allclose(start.matrix.matrix(), inner / scales[:, None] / scales, atol=1e-12)
    H = np.cov(rng.normal(size=(D, 200)))
    steps = rng.normal(size=(5, D))
    memory = start
    for step in steps:
        memory = memory.after(step, H @ step)
    again = Bends(np.asarray(memory))  # as a checkpoint has it
    s, y = steps[-1] / scales, H @ steps[-1] * scales
    s, y = s - U.T @ (U @ s), y - U.T @ (U @ y)
    usual = y @ y / (s @ y)
    expected = (usual * np.eye(D) + U.T @ np.diag([50 - usual, 20 - usual]) @ U) / scales[:, None] / scales
    for step in steps[-3:]:
        expected = updated(expected, step, H @ step)
    np.testing.assert_allclose(again.matrix.matrix(), expected, atol=1e-10)


@pytest.mark.parametrize("seed", [0, 2, 4])
def test_programmes_are_those_of_the_matrix_and_of_another_solver(seed):
    B, rng = low_rank(seed), np.random.default_rng(seed)
    g, J, h, centre = 3 * rng.normal(size=D), rng.normal(size=(3, D)), rng.normal(size=3), 0.01 * rng.normal(size=D)
    for within in (Ball(centre, 100.0), Ball(centre, 2.0)):
        expected, step = (best_step(g, matrix, J, h, within) for matrix in (B.matrix(), B))
        assert expected is not None
        assert step is not None
        np.testing.assert_allclose(step.y, expected.y, atol=1e-8)
        np.testing.assert_allclose(step.lam, expected.lam, atol=1e-8)
    half = np.full(D, 0.2)
    half[:5] = 0.0  # coordinates that are fixed
    region = region_of(conic.box(-half, half), np.zeros(D))
    w = region.widths
    other = solve(region, g * w, J * w, -h, B.matrix() * w[:, None] * w)
    assert other is not None
    for matrix in (B, B.matrix()):
        found = within_bounds(g, matrix, J, h, Bounds(-half, half, lambda: region), _free)
        assert found is not None
        np.testing.assert_allclose(found[0], other.v * w, atol=1e-6)
        np.testing.assert_allclose(found[1], other.dual, atol=1e-5)
        assert 5 < np.sum(np.abs(found[0]) >= half) < D  # it takes some bounds to be met


def test_where_bounds_leave_nothing_another_solver_is_asked():
    B, ones = low_rank(0), np.ones(D)
    nowhere = Bounds(0 * ones, 0 * ones, lambda: region_of(conic.box(-ones, ones), 0 * ones))
    assert within_bounds(ones, B, np.zeros((0, D)), np.zeros(0), nowhere, _free) is None
    step = best_step(ones, B, np.zeros((0, D)), np.zeros(0), nowhere)
    assert isinstance(step, Step)


# ---- runs ------------------------------------------------------------------------------------------------------------

N = 240


def squares(x, theta, units):
    return units[0] * (jnp.dot(theta[0], x) / units[2] - theta[1]) ** 2 / 2


def some_alike(x, units):
    """A linear constraint that binds."""
    return units[1] * (x[0] - x[1])[None] / units[2]


def table() -> tuple[np.ndarray, np.ndarray]:
    """Columns with a common part."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, D + 20)) + 2 * rng.normal(size=(N, 1))
    return X, X[:, 0] - X[:, 1] + rng.normal(size=N)


def problem(domain: Any, u: float, v: float, w: float) -> tr.Problem:
    units = jnp.array([u, v, w])
    return tr.Problem(squares, None, domain, levels=0.1 * v, params=units, exact_constraints=some_alike)


def test_runs_without_a_matrix_prove_what_they_find_in_any_units():
    data, d, found = table(), D + 20, []
    with jax.enable_x64(True):
        for u, v, w in ((1.0, 1.0, 1.0), (1e-6, 1e4, 1e3)):
            box = tr.Box(jnp.full(d, -0.1 * w), jnp.full(d, 0.1 * w))
            result = tr.minimize(problem(box, u, v, w), data, method="sqp", tol=1e-8 * u, record=0)
            assert result.status is tr.Status.TOLERANCE
            assert np.max(result.constraints) <= 0
            assert any("leading directions and of the last 30 steps" in note for note in result.notes)
            assert 5 < np.sum(np.abs(np.asarray(result.x)) > 0.0999 * w) < d
            assert result.objective is not None
            found.append((result.objective / u, result.cost.gradients / N))
    objectives, passes = np.array(found).T
    np.testing.assert_allclose(objectives, objectives[0], atol=2e-8)
    assert np.ptp(passes) <= 2


PLAIN = tr.Problem(lambda x, theta: jnp.sum((x - theta) ** 2), None, tr.L2Ball(1.0, shape=3))


def test_a_matrix_is_for_as_many_rows_as_it_needs():
    def pairs(n: int, d: int) -> int | None:
        return tr.SQP().fitted(PLAIN, np.zeros(d), n).pairs

    assert [pairs(28_350, d) for d in (14, 200, 670, 680, 1_000)] == [0, 0, 0, 30, 30]
    assert pairs(1_000_000, 1_000) == 0
    assert [pairs(50, d) for d in (30, 64, 65)] == [0, 0, 30]  # a Hessian on all rows, as long as that is cheap
    assert tr.SQP(pairs=0).fitted(PLAIN, np.zeros(1_000), 2_000).pairs == 0
