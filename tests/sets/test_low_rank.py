"""Matrices held factored: arithmetic against dense arrays, and steps that stay in the ball."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg
from slow import quick_first

from tightrope.sets import NuclearBall
from tightrope.sets.lanczos import RESTART, _random_unit, fresh_memory, leading_pairs
from tightrope.sets.low_rank import LowRank, LowRankBall, compress, decomposed, expand

RNG = np.random.default_rng(3)
M, N, R = 12, 9, 4


def random_point(rank=R, used=3, size=1.0):
    """A point with `used` singular values and room for `rank`."""
    u, v = (np.linalg.qr(RNG.normal(size=(k, rank)))[0] for k in (M, N))
    values = np.where(np.arange(rank) < used, size * np.arange(rank, 0, -1.0), 0)
    keep = (values > 0)[None, :]
    return LowRank(*map(jnp.asarray, (u * keep, np.diag(values), v * keep)))


def test_products_entries_and_energy_are_those_of_the_dense_matrix():
    x = random_point()
    dense = np.asarray(x.dense())
    w, z = RNG.normal(size=N), RNG.normal(size=M)
    np.testing.assert_allclose(x @ jnp.asarray(w), dense @ w)
    np.testing.assert_allclose(jnp.asarray(z) @ x, z @ dense)
    np.testing.assert_allclose(x.T.dense(), dense.T)
    np.testing.assert_allclose(x.at(jnp.array([0, 5]), jnp.array([8, 2])), dense[[0, 5], [8, 2]])
    np.testing.assert_allclose(x.energy(), np.sum(dense**2))
    np.testing.assert_allclose(x.singular_values(), np.linalg.svd(dense, compute_uv=False)[:R], atol=1e-12)


def test_expanding_changes_nothing_and_makes_room():
    x, u, v = random_point(), RNG.normal(size=(M, 2)), RNG.normal(size=(N, 2))
    wider = expand(x, jnp.asarray(u), jnp.asarray(v))
    np.testing.assert_allclose(wider.dense(), x.dense(), atol=1e-14)
    np.testing.assert_allclose(wider.u @ (wider.u.T @ u), u)  # u is in the span now
    gram = np.asarray(wider.u.T @ wider.u)
    np.testing.assert_allclose(gram, np.diag(np.round(np.diag(gram))), atol=1e-12)  # orthonormal, or zero
    assert int(np.round(np.trace(gram))) == 5  # three of x and two new ones
    known = jnp.column_stack([x.u[:, 0] + x.u[:, 1], u[:, 0], 2 * u[:, 0]])
    inside = expand(x, known, jnp.zeros((N, 3)))
    assert int(np.round(np.sum(np.asarray(inside.u) ** 2))) == 4  # one of the three is new
    np.testing.assert_allclose(inside.v[:, R:], 0)


def test_compressing_gives_the_nearest_matrix_of_the_rank():
    x = expand(random_point(used=4), jnp.asarray(RNG.normal(size=(M, 1))), jnp.asarray(RNG.normal(size=(N, 1))))
    x = LowRank(x.u, x.core + 0.3 * jnp.asarray(RNG.normal(size=(5, 5))), x.v)
    u, s, vt = np.linalg.svd(np.asarray(x.dense()))
    np.testing.assert_allclose(compress(x, 2).dense(), (u[:, :2] * s[:2]) @ vt[:2], atol=1e-12)
    np.testing.assert_allclose(compress(x, 5).dense(), x.dense(), atol=1e-12)


def spectra(rows: int, columns: int):
    """Matrices of many kinds: noise, few directions and noise, clustered, spread, all equal, zero."""
    short = min(rows, columns)
    noise = RNG.normal(size=(rows, columns))
    u, _, vt = np.linalg.svd(noise, full_matrices=False)
    yield noise
    yield RNG.normal(size=(rows, 2)) @ RNG.normal(size=(2, columns)) + 0.01 * noise
    for values in (
        np.ones(short),
        0.9 ** np.arange(short),
        1 / (1 + np.arange(short)),
        np.r_[1, np.full(short - 1, 0.999)],
    ):
        yield (u * values) @ vt
    yield np.zeros((rows, columns))


@pytest.mark.parametrize("rounds", quick_first([1, 3, 10, 60], [1, 10]))
def test_the_support_is_never_below_the_truth_nor_above_the_frobenius_norm(rounds, dtype):
    ball = LowRankBall(2.0, size=(60, 40), rounds=rounds)
    for matrix in spectra(60, 40):
        g = np.asarray(matrix, dtype)
        truth, frobenius = (np.linalg.norm(g.astype(float), kind) for kind in (2, "fro"))
        found = float(ball.support(jnp.asarray(g)))
        assert 2 * truth <= found <= 2 * frobenius * (1 + 64 * np.finfo(dtype).eps)
        distinct = np.min(np.abs(np.diff(np.linalg.svd(g.astype(float), compute_uv=False)))) > 1e-3
        if rounds >= 40 and distinct:  # all there is to find is found; of equal singular values it finds one
            assert found <= 2 * truth + 400 * frobenius * np.finfo(dtype).eps


def test_the_support_does_not_trust_a_search_that_began_beside_the_answer():
    """The first round misses a singular vector orthogonal to the starting one; Ritz value and residual look perfect."""
    ball = LowRankBall(1.0, size=(20, 8), rounds=1)
    begin = np.asarray(leading_start(8))
    q = np.linalg.qr(np.column_stack([begin, RNG.normal(size=(8, 7))]))[0]  # the first column is the starting vector
    left = np.linalg.qr(RNG.normal(size=(20, 8)))[0]
    g = (left * np.array([1.0, 5.0] + 6 * [0.0])) @ q.T
    pairs, memory = leading_pairs(jnp.asarray(g), ball.lmo_memory().vector, 1)
    assert float(pairs.values[0]) == pytest.approx(1.0, abs=1e-6)
    assert float(memory.residual) < 1e-6
    assert 5 <= float(ball.support(jnp.asarray(g))) < 5.1


def leading_start(n: int) -> jax.Array:
    return fresh_memory((n, n), float).vector + RESTART * jnp.asarray(_random_unit(n, 1))


@pytest.mark.parametrize("a", [0.0, 0.3, 1.0])
def test_mixing_and_directions(a):
    ball = LowRankBall(30.0, size=(M, N), rank=8)
    x, s = random_point(), random_point(rank=1, used=1)
    np.testing.assert_allclose(ball.mix(x, s, a).dense(), (1 - a) * x.dense() + a * s.dense(), atol=1e-12)
    np.testing.assert_allclose(ball.between(x, s).dense(), s.dense() - x.dense(), atol=1e-12)


def test_its_vertex_is_that_of_the_dense_ball():
    g = jnp.asarray(RNG.normal(size=(M, N)))
    dense, thin = NuclearBall(2.5, shape=(M, N)), LowRankBall(2.5, size=(M, N), rank=3, rounds=20)
    np.testing.assert_allclose(thin.lmo(g).dense(), dense.lmo(g), atol=1e-10)
    assert bool(thin.contains(thin.lmo(g)))


def test_a_pair_says_how_well_it_is_known():
    g = jnp.asarray(RNG.normal(size=(60, 50)))
    exact = np.linalg.svd(g, compute_uv=False)[0]
    start = fresh_memory((60, 50), g.dtype).vector
    (rough, roughly), (good, well) = (leading_pairs(g, start, rounds) for rounds in (3, 50))
    for pairs, memory in ((rough, roughly), (good, well)):
        by_hand = np.linalg.norm(pairs.u[:, 0] @ g - pairs.values[0] * pairs.v[:, 0]) / pairs.values[0]
        np.testing.assert_allclose(memory.residual, by_hand, atol=1e-12)
    assert float(roughly.residual) > 0.05
    assert float(well.residual) < 1e-6
    assert float(rough.values[0]) <= float(good.values[0]) * (1 + 1e-12)
    np.testing.assert_allclose(good.values[0], exact)


@pytest.mark.parametrize("shape", [(60, 50), (50, 60)])
def test_the_pairs_that_come_with_it_are_orthonormal_and_in_order(shape):
    g = jnp.asarray(RNG.normal(size=(shape[0], 4)) @ RNG.normal(size=(4, shape[1])))
    pairs, _ = leading_pairs(g, fresh_memory(shape, g.dtype).vector, 10)
    exact = np.linalg.svd(g, compute_uv=False)[:4]
    np.testing.assert_allclose(pairs.values[:4], exact)
    np.testing.assert_allclose(pairs.u.T @ g @ pairs.v, np.diag([*exact, *[0] * 6]), atol=1e-7)
    for basis in (pairs.u, pairs.v):
        np.testing.assert_allclose(basis.T @ basis, np.diag([1.0] * 4 + [0] * 6), atol=1e-7)


def test_a_corrective_step_is_inside_and_no_worse_than_the_best_point_of_the_segment():
    """Against the exact line search between x and the vertex, for a quadratic, from ten random points."""
    target = jnp.asarray(RNG.normal(size=(M, N)))
    ball = LowRankBall(6.0, size=(M, N), rank=6, rounds=9)

    def f(x):
        return float(jnp.sum((x.dense() - target) ** 2)) / 2

    @jax.jit
    def moves(x):
        g = x.dense() - target
        s = ball.lmo(g)

        def line(d):
            return -jnp.sum(g * d.dense()) / d.energy()

        return ball.corrective(x, s, g, line), ball.mix(x, s, jnp.clip(line(ball.between(x, s)), 0, 1))

    for _ in range(10):
        x = random_point(rank=6, used=3, size=float(RNG.uniform(0.1, 0.4)))
        step, best = moves(x)
        assert bool(ball.contains(step, tol=1e-9))
        assert f(step) < f(x)
        assert f(step) <= f(best) + 1e-9


@pytest.mark.parametrize("used", [10, 20])  # fewer than the narrow program has columns, and more
def test_columns_that_are_not_in_use_change_nothing_but_the_cost(used):
    """The same corrective step from the same point, padded to ranks with one program and with a narrower one beside it."""
    rng = np.random.default_rng(5)
    target = jnp.asarray(rng.normal(size=(70, 66)))
    x = LowRank(jnp.eye(70, used), jnp.diag(jnp.linspace(0.9, 0.3, used)), jnp.eye(66, used))
    g, steps = x.dense() - target, []
    for rank in (63, 64):
        ball, more = LowRankBall(40.0, size=(70, 66), rank=rank, rounds=3), rank - used
        padded = LowRank(*(jnp.pad(p, ((0, b), (0, more))) for p, b in ((x.u, 0), (x.core, more), (x.v, 0))))
        step = jax.jit(lambda x, b=ball: b.corrective(x, b.lmo(g), g, lambda d: -jnp.sum(g * d.dense()) / d.energy()))
        steps.append(step(padded))
        assert steps[-1].core.shape == (rank, rank)
    np.testing.assert_allclose(steps[0].dense(), steps[1].dense(), atol=1e-9)


def test_it_works_in_float32_and_inside_compiled_code():
    ball = LowRankBall(2.0, size=(M, N), rank=3)
    g = jnp.asarray(RNG.normal(size=(M, N)), jnp.float32)

    @jax.jit
    def step(x, memory):
        s, memory = ball.warm_lmo(g, memory)
        return ball.mix(x, s, jnp.float32(0.5)), memory

    x, memory = step(ball.start(jnp.float32), ball.lmo_memory(jnp.float32))
    assert {leaf.dtype for leaf in jax.tree.leaves((x, memory))} == {jnp.dtype("float32")}
    assert [leaf.shape for leaf in jax.tree.leaves(x)] == [leaf.shape for leaf in jax.tree.leaves(ball.start())]


@pytest.mark.parametrize("finite", [True, False])
def test_a_decomposition_that_does_not_converge_is_done_another_way(monkeypatch, finite):
    """LAPACK's divide and conquer gives NaN for rare matrices that are finite; here for all of them."""
    core = np.random.default_rng(0).normal(size=(6, 6)) + (0.0 if finite else np.nan)
    monkeypatch.setattr(
        jnp.linalg, "svd", lambda a: tuple(jnp.full(s, jnp.nan) for s in (a.shape, a.shape[:1], a.shape))
    )
    p, values, qt = jax.jit(decomposed)(core)
    if finite:
        np.testing.assert_allclose((p * values[None, :]) @ qt, core, atol=1e-12)
        np.testing.assert_allclose(values, scipy.linalg.svdvals(core), rtol=1e-12)
    else:
        assert np.isnan(values).all()  # what is wrong already stays visible
