"""Every number a set gives, on sets whose numbers are not 0 and 1: by a formula in NumPy where there is one, and the rest as
kept in tests/golden (see there). The contract (test_sets_contract.py) says what a set may do; this sees what it does."""

# What stands in the place of a problem, a run or a set has only what is asked of it:
# pyright: reportArgumentType=false, reportAttributeAccessIssue=false, reportOptionalMemberAccess=false

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from core_cases import Mute

import tightrope as tr
from tightrope._errors import MissingOracleError
from tightrope.sets import (
    Box,
    GroupBall,
    L1Ball,
    L2Ball,
    LinfBall,
    LowRank,
    LowRankBall,
    NuclearBall,
    Polytope,
    Product,
    Simplex,
    Spectraplex,
    conic,
    lanczos,
    low_rank,
    matrix,
)
from tightrope.sets.ball import BallAround, one_hot, project_l1, project_simplex, scale, unit
from tightrope.sets.base import Shape, as_shape, as_vector, rounding
from tightrope.sets.lanczos import Pairs, fresh_memory, leading_pairs, norm_bound
from tightrope.sets.low_rank import compress, from_pairs
from tightrope.sets.polytope import Rows

HEXAGON = np.vstack([np.eye(2), -np.eye(2), [[1.0, 2.0], [-3.0, 1.0]]])
SIDES = np.array([3.0, 2.5, -0.5, 1.0, 5.5, 0.0])

# Points of few shapes: what was compiled for one set serves the next.
SETS = {
    "box": Box({"a": np.array([-1.5, 0.25, 0.5]), "b": 2.0}, {"a": np.array([0.5, 0.25, 4.0]), "b": 5.5}),
    "box of two numbers": Box(-0.75, 2.0, shape=6),
    "l1": L1Ball(1.7, shape=6),
    "l2": L2Ball(2.3, shape=6),
    "linf": LinfBall(0.6, shape={"a": 3, "b": ()}),
    "simplex": Simplex(2.5, shape=6),
    "group": GroupBall(1.3, np.array([3, 3, -1, 0, 0, 0])),
    "polytope": Polytope(HEXAGON, SIDES, projection=True),
    "nuclear": NuclearBall(1.9, shape=(4, 3)),
    "spectraplex": Spectraplex(1.4, shape=3),
    "ball around": BallAround({"a": np.array([1.0, -2.0, 0.3]), "b": np.array(0.5)}, 1.2),
    "ball in a plane": Simplex(2.5, shape=6).enclosing(),
    "product": Product(
        {"a": Box(-0.5, np.array([1, 3, 2, 1, 2, 5.0])), "b": (L2Ball(1.1, shape=6), Simplex(0.7, shape=6))}
    ),
}


def test_sets_that_are_points_and_other_edges():
    zero = np.zeros(3)
    for domain in (L1Ball(0.0, shape=3), L2Ball(0.0, shape=3), Simplex(0.0, shape=3), NuclearBall(0.0, shape=(3, 1))):
        found = domain.conic(domain.start())
        np.testing.assert_array_equal(found.A, np.eye(3))
        np.testing.assert_array_equal([found.b, found.lower, found.upper], [zero, zero, zero])
        assert found.cones == (("zero", 3),)
    assert Spectraplex(1.4, shape=2).conic(np.eye(2)).cones == (("zero", 2), ("semidefinite", 3))
    assert Simplex(1.4, shape=2).conic(np.ones(2)).cones == (("zero", 1), ("nonnegative", 2))
    for domain in (Simplex(2.5, shape=1), Spectraplex(2.5, shape=1)):
        assert float(domain.diameter) == 0.0
        found = domain.conic(domain.start())
        assert (found.A.tolist(), found.b.tolist(), found.cones) == ([[1.0]], [2.5], (("zero", 1),))
    assert Simplex(2.5).enclosing().radius == 2.5
    assert float(Simplex(2.5).diameter) == pytest.approx(2.5 * np.sqrt(2))
    assert Simplex().radius == Spectraplex(shape=2).radius == 1.0
    assert NuclearBall(1.0, shape=(3, 2)).rounds == 20
    factored = LowRankBall(1.0, (40, 50))
    assert (factored.rank, factored.rounds) == (32, 10)
    assert LowRankBall(1.0, (3, 5), rank=4).rank == 3
    assert repr(factored.shape.spec.core) == "(32, 32)"


def test_projections_by_sorting():
    """Onto the simplex and the l1 ball, by the threshold that the sorted entries give."""

    def threshold(v, radius):
        ordered = np.sort(v)[::-1]
        means = (np.cumsum(ordered) - radius) / np.arange(1, len(v) + 1)
        return np.maximum(v - means[np.flatnonzero(ordered > means)[-1]], 0)

    v, onto, into, length_one = (
        np.array([0.3, -1.2, 2.0, 1.7, -0.1, 0.9]),
        *map(jax.jit, (project_simplex, project_l1, unit)),
    )
    for radius in (0.4, 1.7, 50.0):
        np.testing.assert_allclose(onto(v, radius), threshold(v, radius), atol=1e-14)
        expected = v if np.abs(v).sum() <= radius else np.sign(v) * threshold(np.abs(v), radius)
        np.testing.assert_allclose(into(v, radius), expected, atol=1e-14)
    np.testing.assert_allclose(onto(1e12 + v, 1.7), threshold(1e12 + v, 1.7), atol=1e-3)
    assert onto(v, 0.0).tolist() == [0.0] * 6
    np.testing.assert_array_equal(into(v / 4, np.abs(v / 4).sum()), v / 4)  # on the sphere: as it is
    far = np.array([3.0, 4.0, 0, 0, 0, 0])
    np.testing.assert_allclose([length_one(1e-200 * far), length_one(1e200 * far)], [far / 5, far / 5])
    assert one_hot(jnp.asarray(2), 7.0, jnp.zeros(3)).tolist() == [0.0, 0.0, 7.0]
    assert scale(np.float64(2), {"a": jnp.ones(1, jnp.float32)})["a"].dtype == jnp.float32


def test_shapes():
    tree = Shape({"a": (2, 3), "b": 4, "c": ()})
    assert (tree.size, tree.leaves, repr(tree)) == (11, ((2, 3), (4,), ()), "{'a': (2, 3), 'b': (4,), 'c': ()}")
    point = tree.unravel(jnp.arange(11.0))
    assert (point["a"].tolist(), point["b"].tolist(), float(point["c"])) == ([[0, 1, 2], [3, 4, 5]], [6, 7, 8, 9], 10.0)
    np.testing.assert_array_equal(as_vector(point), np.arange(11.0))
    assert Shape.of(point) == tree != Shape(11)
    assert tree != "tree"
    assert hash(tree) == hash(Shape({"a": (2, 3), "b": 4, "c": ()}))
    assert as_shape(None) is None
    assert Shape({"a": 2, "b": (0, 3)}).size == 2  # a part may be empty, if not all of it is
    assert as_shape(tree) is tree
    assert (Shape(np.int64(3)).leaves, Shape((2, 3)).leaves) == (((3,),), ((2, 3),))
    assert float(tree.full(2.5, jnp.float32)["c"]) == 2.5
    for wrong in (True, -1, (2, -3), (2, True), 1.5, 0, (2, 0), "a"):
        with pytest.raises(ValueError, match="Shape: "):
            Shape(wrong)
    eps = np.finfo(float).eps
    assert rounding(point, None) == pytest.approx(8 * (8 + np.sqrt(11)) * eps)
    assert rounding(jnp.ones(4, jnp.float32), None) == pytest.approx(8 * (8 + 2) * np.finfo(np.float32).eps)
    assert rounding(point, 0.25) == 0.25


def test_conic_descriptions():
    """Of every kind, in full: the rows, the right-hand sides, the cones and the bounding box."""
    parts = {
        "box": conic.box(np.array([-1.0, 2.0, 0.5]), np.array([1.5, 2.0, 4.0])),
        "point": conic.point(np.array([1.0, -2.0])),
        "simplex": conic.simplex(2.5, 3),
        "groups": conic.group_ball(1.3, np.array([0, 1, 1, 2, 3, 3])),
        "l1": conic.group_ball(1.3, np.array([0, 1, 2])),
        "one group": conic.group_ball(1.3, np.array([0, 0, 0])),
        "spectraplex": conic.spectraplex(1.4, 3),
        "nuclear": conic.nuclear_ball(1.9, 2, 3),
    }
    parts["product"] = conic.product([parts["groups"], parts["box"], parts["nuclear"]])
    z = np.array([0.5, 0.25, 0.1, 0.15])  # |x_G| / radius of a point on the sphere
    x = 1.3 * np.array([0.5, 0.15, -0.2, -0.1, 0.0, 0.15])
    slack = parts["groups"].b - parts["groups"].A @ x - parts["groups"].E @ z
    assert slack[[0, 1, 2, 3]] == pytest.approx(1.3 * np.array([0, 0.2, 1.0, 0]), abs=1e-12)
    assert slack[4] == pytest.approx(np.linalg.norm(slack[5:7])) == pytest.approx(0.325)
    assert slack[-1] == pytest.approx(0.0, abs=1e-12)


def test_polytopes_by_hand():
    """A hexagon, its rows scaled: the centre and the sides by linear programmes, the nearest point by cvxpy."""
    import cvxpy as cp

    lengths = np.array([1.0, 2.0, 0.5, 3.0, 1.0, 4.0])
    found, plain = Rows(lengths[:, None] * HEXAGON, lengths * SIDES), Rows(HEXAGON, SIDES)
    np.testing.assert_allclose(np.linalg.norm(found.A, axis=1), 1.0)
    np.testing.assert_allclose(
        [found.A, found.b[:, None] * np.ones(2)], [plain.A, plain.b[:, None] * np.ones(2)], atol=1e-15
    )
    assert Rows(HEXAGON, SIDES) == plain != Rows(HEXAGON, SIDES + 1)
    assert plain != "plain"
    assert hash(Rows(HEXAGON, SIDES)) == hash(plain)
    x, r = cp.Variable(2), cp.Variable()
    cp.Problem(cp.Maximize(r), [plain.A @ x + r <= plain.b]).solve(solver=cp.CLARABEL)
    assert np.min(plain.b - plain.A @ plain.centre) == pytest.approx(float(r.value), abs=1e-6)
    corners = [[0.5, -1.0], [3.0, -1.0], [3.0, 1.25], [5.5 / 7, 16.5 / 7], [0.5, 1.5]]
    np.testing.assert_allclose(
        [plain.lower, plain.upper], [np.min(corners, axis=0), np.max(corners, axis=0)], atol=1e-7
    )
    assert plain.diagonal == pytest.approx(np.hypot(2.5, 23.5 / 7))
    for g in ([1.0, 0.1], [-1.0, -3.0], [0.0, 0.0], [2e-9, -1e-9], [1e9, 1e8]):
        assert np.asarray(g) @ plain.minimise(np.array(g)) == pytest.approx(
            min(np.asarray(g) @ np.transpose(corners)), rel=1e-7
        )
    for point in ([9.0, 9.0], [-3.0, 0.5], [1.0, 0.0], [4.0, 0.0]):
        cp.Problem(cp.Minimize(cp.sum_squares(x - np.array(point))), [plain.A @ x <= plain.b]).solve(solver=cp.CLARABEL)
        np.testing.assert_allclose(plain.nearest(np.array(point)), np.asarray(x.value), atol=1e-5)
    assert np.isnan(plain.minimise(np.array([np.nan, 1.0]))).all()
    assert np.isnan(plain.minimise(np.array([np.inf, 1.0]))).all()
    assert np.isnan(plain.nearest(np.array([np.nan, 1.0]))).all()
    assert plain.minimise(np.ones(2, np.float32)).dtype == plain.nearest(9 * np.ones(2, np.float32)).dtype == np.float32
    for size in (1e-6, 1e6):  # in other units
        other = Rows(HEXAGON, size * SIDES)
        np.testing.assert_allclose(other.centre, size * plain.centre, rtol=1e-6)
        np.testing.assert_allclose([other.lower, other.upper], size * np.array([plain.lower, plain.upper]), rtol=1e-6)
        np.testing.assert_allclose(
            other.minimise(np.array([1.0, 0.1])), size * plain.minimise(np.array([1.0, 0.1])), rtol=1e-6
        )
        np.testing.assert_allclose(
            other.nearest(size * np.array([9.0, 9.0])), size * plain.nearest(np.array([9.0, 9.0])), rtol=1e-6
        )
    alone = Rows(np.array([[1.0], [-1.0], [0.0]]), np.array([2.0, -2.0, 5.0]))
    assert (alone.diagonal, alone.minimise(np.ones(1)).tolist(), len(alone.A)) == (0.0, [2.0], 2)
    at_zero = Rows(np.array([[1.0], [-1.0]]), np.zeros(2))
    assert at_zero.centre.tolist() == [0.0]
    wrong = {
        "empty": (np.array([[1.0], [-1.0]]), np.array([-2.0, 1.0])), "zeros": (np.zeros((1, 1)), np.array([-1.0])),
        "upwards": (np.array([[-1.0]]), np.array([1.0])), "a side": (np.array([[1.0, 0], [-1, 0], [0, 1]]), np.ones(3)),
        "another": (np.array([[1.0, 0], [-1, 0], [0, -1]]), np.ones(3)),
    }  # fmt: skip
    for A, b in wrong.values():
        with pytest.raises(ValueError, match="Polytope"):
            Polytope(A, b)
    assert SETS["polytope"].contains(jnp.array([3.0 + 1e-5, 0.0]), 1e-6) is not None
    seen = Polytope(HEXAGON, SIDES)
    size = np.linalg.norm(plain.centre) + plain.diagonal
    for tol, room in ((0.01, 0.01), (None, 1e-6)):
        assert bool(seen.contains(jnp.array([3.0 + 0.99 * room * size, 0.0]), tol))
        assert not bool(seen.contains(jnp.array([3.0 + 1.01 * room * size, 0.0]), tol))
    coarse = rounding(jnp.ones(2, jnp.float32), None)
    assert coarse > 1e-6
    assert bool(seen.contains(jnp.array([3.0 + 0.9 * coarse * size, 0.0], jnp.float32)))
    assert not bool(seen.contains(jnp.array([3.0 + 1.2 * coarse * size, 0.0], jnp.float32)))


G = np.sin(1.0 + 1.7 * np.arange(15.0)).reshape(5, 3) + np.outer(np.arange(5.0), [1.0, 0.5, 0.2])


search = jax.jit(leading_pairs, static_argnums=2)


def test_singular_pairs_by_hand():
    """Rayleigh-Ritz on a Krylov space, by NumPy: the same space, another way."""
    start = np.array([0.5, -0.7, 0.3])
    draw = np.asarray(lanczos._random_unit(3, 1))
    first = start + 0.03 * draw
    space = np.linalg.qr(np.stack([first, G.T @ G @ first], axis=1))[0]
    u, s, vt = np.linalg.svd(G @ space, full_matrices=False)
    (pairs, memory), v = search(jnp.asarray(G), jnp.asarray(start), 2), space @ vt.T
    np.testing.assert_allclose(pairs.values, s, rtol=1e-10)
    for k in range(2):
        np.testing.assert_allclose(np.outer(pairs.u[:, k], pairs.v[:, k]), np.outer(u[:, k], v[:, k]), atol=1e-10)
    np.testing.assert_allclose(np.outer(memory.vector, memory.vector), np.outer(v[:, 0], v[:, 0]), atol=1e-10)
    assert float(memory.residual) == pytest.approx(np.linalg.norm(G.T @ u[:, 0] - s[0] * v[:, 0]) / s[0])
    wide, _ = search(jnp.asarray(G.T), jnp.asarray(start), 2)
    np.testing.assert_allclose(np.outer(wide.v[:, 0], wide.u[:, 0]), np.outer(u[:, 0], v[:, 0]), atol=1e-10)
    # what one search leaves and energy bound, with nothing and with all found
    energy = (G**2).sum()
    beside = ((G.T @ u - v * s) ** 2).sum()
    left = energy - (s**2).sum() - beside
    total = s[0] ** 2 + beside + left
    expected = np.sqrt((total + np.sqrt(total**2 - 4 * s[0] ** 2 * left)) / 2)
    bounded = jax.jit(norm_bound)
    bound = float(bounded(jnp.asarray(G), Pairs(u, v, s), jnp.asarray(energy)))
    assert np.linalg.norm(G, 2) <= bound == pytest.approx(min(expected, np.sqrt(energy)), rel=1e-12)
    zero = Pairs(np.zeros((5, 2)), np.zeros((3, 2)), np.array([1.0, 1.0]))
    assert float(bounded(jnp.asarray(G), zero, jnp.asarray(energy))) == pytest.approx(np.sqrt(energy))
    assert np.asarray(fresh_memory((5, 3), float).vector) == pytest.approx(lanczos._random_unit(3, 0))


def test_rank_deficient_matrices_have_zero_columns():
    flat = np.outer(G[:, 0], [1.0, 2.0, -1.0])
    pairs, memory = search(jnp.asarray(flat), jnp.ones(3), 2)
    assert (
        (np.asarray(pairs.u) != 0).any(axis=0).tolist()
        == (np.asarray(pairs.v) != 0).any(axis=0).tolist()
        == [True, False]
    )
    np.testing.assert_allclose(pairs.u[:, :1] * pairs.values[0] @ pairs.v[:, :1].T, flat, atol=1e-10)
    assert float(memory.residual) < 1e-12
    pairs, memory = search(jnp.zeros((5, 3)), jnp.ones(3), 2)
    assert np.asarray(memory.vector).tolist() == [1.0, 1.0, 1.0]
    assert not np.asarray(pairs.u).any()
    basis = np.linalg.qr(G)[0].T[:2]
    beyond = jax.jit(lanczos._next_direction)
    found = beyond(jnp.asarray(1e200 * G[:, 2]), jnp.asarray(basis))
    outside = G[:, 2] - basis.T @ (basis @ G[:, 2])
    np.testing.assert_allclose(found, outside / np.linalg.norm(outside), rtol=1e-9)
    assert not np.asarray(beyond(jnp.asarray(3.0 * basis[0] - basis[1]), jnp.asarray(basis))).any()
    assert not np.asarray(beyond(jnp.zeros(5), jnp.asarray(basis))).any()


def factored(matrix, rank):
    u, s, vt = np.linalg.svd(matrix, full_matrices=False)
    return LowRank(jnp.asarray(u[:, :rank]), jnp.diag(jnp.asarray(s[:rank])), jnp.asarray(vt[:rank].T))


def test_small_values_are_dropped_beside_the_largest():
    eps = np.finfo(float).eps
    values = jnp.array([2.0, 1.01 * 24 * eps * 2, 0.99 * 24 * eps * 2])
    found = x = jax.jit(from_pairs)(jnp.eye(5, 3), values, jnp.eye(4, 3))
    np.testing.assert_array_equal(np.diagonal(found.core) != 0, [True, True, False])
    assert np.asarray(found.u).sum() == np.asarray(found.v).sum() == 2
    small = jax.eval_shape(lambda x: compress(x, 1), x)
    assert (small.u.shape, small.core.shape, small.v.shape) == ((5, 1), (1, 1), (4, 1))


def test_a_corrective_step_by_hand():
    """For 1/2 |X - T|^2 on whole spaces: a gradient step as long as the line says, cut to the rank and projected; then as
    far there as the line says, cut to the rank again. This line says t over what would be exact."""
    ball, target = LowRankBall(1.9, (5, 3), rank=2), 0.4 * G
    x = factored(0.1 * np.roll(G, 1, axis=0), 2)
    before = np.asarray(x.dense())
    g = before - target

    @jax.jit
    def all_of_it(x, g, t):
        def line(d):
            return -t * jnp.vdot(d.dense(), d.dense()) / jnp.vdot(g, d.dense())

        s = ball.lmo(g)
        return s.dense(), ball.corrective(x, s, g, line).dense()

    for t in (0.7, 1.0, 9.0):
        s, found = (np.asarray(v) for v in all_of_it(x, jnp.asarray(g), t))
        u, values, vt = np.linalg.svd(before - t * g, full_matrices=False)
        assert values[:2].sum() > 1.9
        move = (u * np.asarray(project_l1(jnp.asarray(values * [1, 1, 0]), 1.9))) @ vt - before
        step = np.clip(-t * np.vdot(move, move) / np.vdot(g, move), 0, 1)
        u, values, vt = np.linalg.svd(before + step * move, full_matrices=False)
        np.testing.assert_allclose(found, (u[:, :2] * values[:2]) @ vt[:2], atol=1e-9)
    left, _, right = np.linalg.svd(g, full_matrices=False)
    np.testing.assert_allclose(s, -1.9 * np.outer(left[:, 0], right[0]), atol=1e-9)


def test_sorted_values_are_lowered_alike_until_they_fit():
    within = jax.jit(low_rank._within)
    for values in ([3.0, 2.0, 0.5, 0.0], [1.0, 0.5, 0.2, 0.1], [9.0, 0.0, 0.0, 0.0], [0.0] * 4):
        for radius in (1.0, 2.5, 100.0):
            expected = project_l1(jnp.asarray(values), radius)
            np.testing.assert_allclose(within(jnp.asarray(values), radius), expected, atol=1e-15)


def test_corrective_steps_take_as_few_columns_as_hold_those_in_use(monkeypatch):
    """A step in the place of the real one says how wide a core it was given: 16 or 64 of 64 columns."""
    step = low_rank.corrective_step
    monkeypatch.setattr(low_rank, "_correct", lambda x, *rest: LowRank(x.u, jnp.full_like(x.core, len(x.core)), x.v))
    taken = jax.jit(
        lambda core: step(LowRank(jnp.ones((1, 64)), core, jnp.ones((1, 64))), None, None, None, 1.0, 64).core
    )
    for used, width in ((0, 16), (1, 16), (16, 16), (17, 64), (64, 64)):
        for row, column in ((max(used - 1, 0), 0), (0, max(used - 1, 0))):  # a row or a column of the core will do
            found = np.asarray(taken(np.zeros((64, 64)) if used == 0 else np.eye(64)[[row]].T * np.eye(64)[column]))
            assert found.shape == (64, 64)
            assert (found[0, 0], np.count_nonzero(found)) == (width, width**2)


def test_a_dense_ball_is_corrected_like_a_factored_one(monkeypatch):
    """What the step is given: x decomposed, pairs of g from the vertex's own side, the radius, the whole rank."""
    asked: dict[str, Any] = {}
    pairs = Pairs(jnp.ones((5, 2)), jnp.ones((3, 2)), jnp.ones(2))
    monkeypatch.setattr(
        matrix, "leading_pairs", lambda g, start, rounds: (asked.update(start=start, rounds=rounds), (pairs, None))[1]
    )

    def step(*given):
        asked.update(zip(("x", "s", "g", "line", "radius", "rank"), given, strict=True))
        return LowRank(jnp.ones((1, 1)), jnp.full((1, 1), 7.0), jnp.ones((1, 1)))

    monkeypatch.setattr(matrix, "corrective_step", step)
    x, vertex = jnp.asarray(G), np.outer([0.1, -0.9, 0.2, 0.3, 0.0], [0.6, 0.0, -0.8])
    for tall in (True, False):
        point, s = (x, vertex) if tall else (x.T, vertex.T)
        ball = NuclearBall(1.9, shape=point.shape, rounds=9)
        assert ball.corrective(point, jnp.asarray(s), point, lambda d: jnp.sum(d)).tolist() == [[7.0]]
        np.testing.assert_allclose(asked["x"].dense(), point, atol=1e-12)
        np.testing.assert_allclose(asked["start"], [-0.6, 0.0, 0.8], atol=1e-12)  # of the largest row
        assert (asked["rounds"], asked["radius"], asked["rank"], asked["x"].core.shape) == (9, 1.9, 3, (3, 3))
        assert asked["s"].core.tolist() == [[0.0, 0.0], [0.0, 0.0]]
        assert float(asked["line"](LowRank(jnp.ones((2, 1)), jnp.ones((1, 1)), jnp.ones((3, 1))))) == 6.0


@tr.pytree
class Halfway(Box):
    """A box whose corrective step goes to the vertex as far as the line says."""

    def corrective(self, x, s, g, line):
        d = self.between(x, s)
        return self.mix(x, s, line(d))


def test_a_product_is_corrected_part_by_part_and_then_along_the_line():
    """For |z|^2 / 2 with z = x + y of two parts: each alone goes where z = 0, both together half as far."""
    domain = Product((Halfway(-9.0, 9.0, shape=1), Halfway(-9.0, 9.0, shape=1)))
    x, s = (jnp.array([1.0]), jnp.array([3.0])), (jnp.array([-9.0]), jnp.array([-9.0]))

    def line(d):
        slope = d[0][0] + d[1][0]
        return -4.0 / slope  # the step at which 4 + t slope = 0

    found = domain.corrective(x, s, x, line)
    np.testing.assert_allclose(np.concatenate(found), [1 - 2.0, 3 - 2.0], atol=1e-12)
    beyond = domain.corrective(x, s, x, lambda d: 3.0)  # no further than the whole way
    np.testing.assert_allclose(np.concatenate(beyond), [1 - 30.0, 3 - 36.0])
    assert [float(v[0]) for v in domain.corrective(x, s, x, lambda d: -1.0)] == [1.0, 3.0]
    assert domain.enclosing() is domain
    around = Product((Simplex(shape=1), L1Ball(2.0, shape=1))).enclosing()
    assert [type(part).__name__ for part in around.sets] == ["BallAround", "L2Ball"]
    memory = domain.lmo_memory()
    for call in (lambda: domain.warm_lmo(x, memory[:1]), lambda: domain.lmo_record(memory[:1])):
        with pytest.raises(ValueError, match="zip"):
            call()
    lame = Product((L2Ball(1.0, shape=2), Blind()))
    for name in ("lmo", "project", "support"):
        with pytest.raises(MissingOracleError, match=r"its part at \[1\], Blind, has none"):
            getattr(lame, name)((jnp.ones(2), jnp.ones(2)))
    for call in (lambda p: lame.warm_lmo(p, ((), ())), lambda p: lame.corrective(p, p, p, lambda d: 0.0)):
        with pytest.raises(MissingOracleError, match="Product has no"):
            call((jnp.ones(2), jnp.ones(2)))


@tr.pytree
class Blind(Mute):
    shape: Any = tr.static(default=Shape(2))

    @property
    def diameter(self):
        return 3.0

    def start(self, dtype=None):
        return jnp.ones(2)


def test_what_a_set_says_that_can_do_nothing():
    blind = Blind()
    assert [blind.has_projection, blind.cheap_projection, blind.has_lmo, blind.has_conic, blind.has_corrective] == [
        False
    ] * 5
    assert blind.additive
    assert (blind.scaled_diameter, blind.lmo_memory(), blind.lmo_record(())) == (1.0, (), {})
    assert blind.enclosing().radius == 3.0
    assert blind.tied({"a": 1.0}) == {"a": True}
    assert blind.widths(jnp.ones(2)).tolist() == 3.0
    for call in (blind.project, blind.lmo, blind.conic):
        with pytest.raises(MissingOracleError, match="Blind has no"):
            call(jnp.ones(2))
    with pytest.raises(MissingOracleError, match="no corrective step"):
        blind.corrective(1, 2, 3, lambda d: 0)
    with pytest.raises(ValueError, match="does not know the shape"):
        L1Ball(1.0).start()
    for wrong in (lambda: GroupBall(-1.0, [0, 1]), lambda: L1Ball(-1.0), lambda: BallAround(np.ones(2), -1.0)):
        with pytest.raises(ValueError, match="radius"):
            wrong()
    assert GroupBall(1.0, [4, 7], shape=(2, 1)).shape.leaves == ((2, 1),)


@pytest.mark.parametrize(
    ("domain", "edge"),
    [
        (Box(-0.75, 2.0, shape=2), [2.0, -0.75]),
        (L1Ball(1.5, shape=2), [0.5, -1.0]),
        (L2Ball(1.5, shape=2), [0.0, 1.5]),
        (LinfBall(1.5, shape=2), [-1.5, 1.5]),
        (Simplex(1.5, shape=2), [1.5, 0.0]),
        (GroupBall(1.5, [0, 1]), [0.5, -1.0]),
        (Polytope([[1.0, 0.0], [0.0, 1.0], [-1.0, -1.0]], [2.0, 2.0, 0.0]), [2.0, 0.5]),
        (Spectraplex(1.5, shape=2), [[1.5, 0.0], [0.0, 0.0]]),
        (BallAround(np.array([1.0, 2.0]), 0.5), [1.5, 2.0]),
    ],
)
def test_points_of_the_boundary_need_no_tolerance(domain, edge):
    assert bool(domain.contains(jnp.array(edge), 0.0))
    assert not bool(domain.contains(jnp.array(edge) * 1.01, 0.0))
