"""Other lengths than Euclid's: in widths, coordinate by coordinate, and in other widths along a few directions.

With y = x / widths, orthonormal directions u_i in y and widths a_i along them, lengths are those of
z = (I + sum_i (1/a_i - 1) u_i u_i') y. Step sizes and slopes are as in any other coordinates; what is not is the nearest
point of a set. For balls it takes one number, found by Newton's method, and for boxes one for each direction.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from tightrope.tree import Array, Tree, nonzero, ravel

_ROUNDS = 16  # steps of Newton's method at most; by hand: a handful is enough


class Metric(NamedTuple):
    """Lengths in widths of coordinates, and in other widths along some directions."""

    widths: Tree  # of coordinates: one for each, or one for all of a leaf
    directions: Array  # orthonormal rows u_i, as vectors in x / widths
    along: Array  # a_i, positive, in units of the coordinates' widths

    def stretched(self, y: Array, power: int) -> Array:
        """y, or each row of a matrix, times a_i^power along u_i."""
        factors = (self.along if power > 0 else 1 / self.along) ** abs(power) - 1
        parts = y @ self.directions.T
        return y + (parts * jnp.broadcast_to(factors, parts.shape)) @ self.directions

    def of_coordinates(self, x: Tree) -> Array:
        """The widths of x's coordinates, as a vector."""
        return ravel(jax.tree.map(lambda a, v: jnp.broadcast_to(a, jnp.shape(v)), self.widths, x))[0]


def nearest_in_ball(metric: Metric, x: Tree, radius: Array) -> Tree:
    """The point with |y| <= radius that is nearest to x in a metric; where x is inside, x.

    With P the inverse of the metric's matrix it is y(m) = (I + m P)^-1 x for the m at which |y(m)| is the radius. Newton's
    method on 1/|y(m)|, which is almost linear, comes from below and never goes past it.
    """
    v, back = ravel(x)
    widths = metric.of_coordinates(x)
    moved, bent = metric.directions * widths[None], metric.along**2 - 1  # P = diag(widths^2) + moved' diag(bent) moved

    def inverse(m: Array) -> Callable[[Array], Array]:
        """(I + m P)^-1, by Woodbury's formula."""
        plain = 1 / (1 + m * widths**2)
        small = jnp.eye(bent.size, dtype=v.dtype) + m * bent[:, None] * ((moved * plain[None]) @ moved.T)
        core = jnp.linalg.inv(small) * bent[None]
        return lambda u: plain * (u - m * ((core @ (moved @ (plain * u))) @ moved))

    def newton(m: Array, y: Array, z: Array) -> Array:
        falls = jnp.dot(y, widths**2 * z + (bent * (moved @ z)) @ moved)  # -|y(m)|^2 / 2 rises as fast as that
        size = jnp.linalg.norm(y)
        return m + jnp.maximum(size / nonzero(radius) - 1, 0) * size**2 / nonzero(falls)

    def closer(so_far: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        rounds, m, _ = so_far
        solve = inverse(m)
        y = solve(v)
        return rounds + 1, newton(m, y, solve(y)), y

    def outside(so_far: tuple[Array, Array, Array]) -> Array:
        rounds, _, y = so_far
        return (rounds < _ROUNDS) & (jnp.linalg.norm(y) > radius * (1 + _enough(v)))

    def cut(v: Array) -> Array:
        y = jax.lax.while_loop(outside, closer, (jnp.int32(0), newton(jnp.zeros((), v.dtype), v, v), v))[2]
        return y * (radius / nonzero(jnp.maximum(jnp.linalg.norm(y), radius)))

    return back(jax.lax.cond(jnp.linalg.norm(v) > radius, cut, lambda v: v, v))


def nearest_in_box(metric: Metric, x: Tree, clip: Callable[[Tree], Tree]) -> Tree:
    """The point of a box that is nearest to x in a metric; where x is inside, x. `clip` is the projection in Euclid's.

    In x / widths the metric's matrix is I + sum_i t_i u_i u_i' with t_i = 1/a_i^2 - 1, so that
    y = clip(x - sum_i t_i c_i u_i) for c_i = <u_i, y - x>: as many piecewise linear equations as directions, solved by
    Newton's method.
    """
    v, back = ravel(x)
    widths, directions, stiff = metric.of_coordinates(x), metric.directions, 1 / metric.along**2 - 1

    def nearest(c: Array) -> tuple[Array, Array]:
        aim = v - widths * ((stiff * c) @ directions)
        y = ravel(clip(back(aim)))[0]
        return y, y == aim

    def closer(so_far: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        rounds, c, _ = so_far
        y, free = nearest(c)
        small = jnp.eye(c.size, dtype=c.dtype) + (directions * free[None]) @ directions.T * stiff[None]
        off = jnp.linalg.solve(small, c - directions @ ((y - v) / nonzero(widths)))
        return rounds + 1, c - off, jnp.max(jnp.abs(off))

    def unsolved(so_far: tuple[Array, Array, Array]) -> Array:
        rounds, c, off = so_far
        return (rounds < _ROUNDS) & (off > _enough(v) * jnp.max(jnp.abs(c)))

    def cut(v: Array) -> Array:
        some = jnp.ones((), v.dtype)
        return nearest(jax.lax.while_loop(unsolved, closer, (jnp.int32(0), jnp.zeros_like(stiff), some))[1])[0]

    return back(jax.lax.cond(jnp.all(ravel(clip(x))[0] == v), lambda v: v, cut, v))


def _enough(v: Array) -> float:
    """How accurate a root need be, as a fraction: Newton's method doubles the digits, so that this is about rounding."""
    return float(jnp.finfo(v.dtype).eps) ** 0.75
