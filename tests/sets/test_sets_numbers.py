"""Numbers of sets by formulas in NumPy, where the contract (test_sets_contract.py) does not ask for them."""

# What stands in the place of a problem, a run or a set has only what is asked of it:
# pyright: reportArgumentType=false, reportAttributeAccessIssue=false, reportOptionalMemberAccess=false

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from core_cases import Mute

import tightrope as tr
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
)
from tightrope.sets.ball import BallAround, project_l1
from tightrope.sets.base import Shape, rounding
from tightrope.sets.lanczos import Pairs, norm_bound
from tightrope.sets.low_rank import compress, from_pairs
from tightrope.sets.polytope import Rows

HEXAGON = np.vstack([np.eye(2), -np.eye(2), [[1.0, 2.0], [-3.0, 1.0]]])
SIDES = np.array([3.0, 2.5, -0.5, 1.0, 5.5, 0.0])


def test_defaults_and_sets_of_one_point():
    for domain in (Simplex(2.5, shape=1), Spectraplex(2.5, shape=1)):
        assert float(domain.diameter) == 0.0
    assert Simplex(2.5).enclosing().radius == 2.5
    assert float(Simplex(2.5).diameter) == pytest.approx(2.5 * np.sqrt(2))
    assert Simplex().radius == Spectraplex(shape=2).radius == 1.0
    assert NuclearBall(1.0, shape=(3, 2)).rounds == 20
    factored = LowRankBall(1.0, (40, 50))
    assert (factored.rank, factored.rounds) == (32, 10)
    assert LowRankBall(1.0, (3, 5), rank=4).rank == 3
    assert repr(factored.shape.spec.core) == "(32, 32)"


def test_units_of_a_polytope_and_of_its_rows_do_not_matter():
    lengths = np.array([1.0, 2.0, 0.5, 3.0, 1.0, 4.0])
    found, plain = Rows(lengths[:, None] * HEXAGON, lengths * SIDES), Rows(HEXAGON, SIDES)
    np.testing.assert_allclose(np.linalg.norm(found.A, axis=1), 1.0)
    np.testing.assert_allclose(np.column_stack([found.A, found.b]), np.column_stack([plain.A, plain.b]), atol=1e-15)
    assert Rows(HEXAGON, SIDES) == plain != Rows(HEXAGON, SIDES + 1)
    assert plain != "plain"
    assert hash(Rows(HEXAGON, SIDES)) == hash(plain)
    assert np.isnan(plain.minimise(np.array([np.nan, 1.0]))).all()
    assert np.isnan(plain.minimise(np.array([np.inf, 1.0]))).all()
    assert np.isnan(plain.nearest(np.array([np.nan, 1.0]))).all()
    assert plain.minimise(np.ones(2, np.float32)).dtype == plain.nearest(9 * np.ones(2, np.float32)).dtype == np.float32
    for size in (1e-6, 1e6):  # in other units
        other = Rows(HEXAGON, size * SIDES)
        np.testing.assert_allclose(other.centre, size * plain.centre, rtol=1e-6)
        np.testing.assert_allclose([other.lower, other.upper], size * np.array([plain.lower, plain.upper]), rtol=1e-6)
        direction, away = np.array([1.0, 0.1]), np.array([9.0, 9.0])
        np.testing.assert_allclose(other.minimise(direction), size * plain.minimise(direction), rtol=1e-6)
        np.testing.assert_allclose(other.nearest(size * away), size * plain.nearest(away), rtol=1e-6)
    alone = Rows(np.array([[1.0], [-1.0], [0.0]]), np.array([2.0, -2.0, 5.0]))
    assert (alone.diagonal, alone.minimise(np.ones(1)).tolist(), len(alone.A)) == (0.0, [2.0], 2)
    at_zero = Rows(np.array([[1.0], [-1.0]]), np.zeros(2))
    assert at_zero.centre.tolist() == [0.0]


def test_how_far_outside_a_polytope_a_point_may_be():
    plain, seen = Rows(HEXAGON, SIDES), Polytope(HEXAGON, SIDES)
    size = np.linalg.norm(plain.centre) + plain.diagonal
    for tol, room in ((0.01, 0.01), (None, 1e-6)):
        assert bool(seen.contains(jnp.array([3.0 + 0.99 * room * size, 0.0]), tol))
        assert not bool(seen.contains(jnp.array([3.0 + 1.01 * room * size, 0.0]), tol))
    coarse = rounding(jnp.ones(2, jnp.float32), None)
    assert coarse > 1e-6
    assert bool(seen.contains(jnp.array([3.0 + 0.9 * coarse * size, 0.0], jnp.float32)))
    assert not bool(seen.contains(jnp.array([3.0 + 1.2 * coarse * size, 0.0], jnp.float32)))


G = np.sin(1.0 + 1.7 * np.arange(15.0)).reshape(5, 3) + np.outer(np.arange(5.0), [1.0, 0.5, 0.2])


def factored(matrix, rank):
    u, s, vt = np.linalg.svd(matrix, full_matrices=False)
    return LowRank(jnp.asarray(u[:, :rank]), jnp.diag(jnp.asarray(s[:rank])), jnp.asarray(vt[:rank].T))


def test_a_bound_on_the_largest_singular_value_is_the_norm_of_the_blocks_that_a_search_leaves():
    space = np.linalg.qr(np.array([[0.5, 1.0], [-0.7, 0.2], [0.3, -0.4]]))[0]
    u, s, vt = np.linalg.svd(G @ space, full_matrices=False)
    v, energy = space @ vt.T, (G**2).sum()
    beside = ((G.T @ u - v * s) ** 2).sum()
    blocks = np.array([[s[0], np.sqrt(beside)], [0.0, np.sqrt(energy - (s**2).sum() - beside)]])
    bound = float(jax.jit(norm_bound)(jnp.asarray(G), Pairs(u, v, s), jnp.asarray(energy)))
    assert np.linalg.norm(G, 2) <= bound == pytest.approx(np.linalg.norm(blocks, 2), rel=1e-9)


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


def test_a_dense_ball_is_corrected_like_a_factored_one():
    dense, thin = NuclearBall(1.9, shape=(5, 3)), LowRankBall(1.9, (5, 3), rank=3)
    x, target = factored(0.1 * np.roll(G, 1, axis=0), 3), 0.4 * G

    @jax.jit
    def both(x):
        g = x.dense() - target

        def line(d):
            return -jnp.vdot(g, d) / jnp.vdot(d, d)

        step = thin.corrective(x, thin.lmo(g), g, lambda d: line(d.dense()))
        return step.dense(), dense.corrective(x.dense(), dense.lmo(g), g, line)

    np.testing.assert_allclose(*both(x), atol=1e-9)


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
