"""The ball around a point: what a set without a cheap projection is enclosed in."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from tightrope._errors import nonnegative
from tightrope.sets.ball import scale, unit
from tightrope.sets.base import Shape, rounding
from tightrope.sets.capabilities import ConvexSet
from tightrope.tree import Array, Tree, float_dtype, nonzero, norm, pytree, ravel, set_field, static, subtract


@pytree
class BallAround(ConvexSet):
    """Euclidean ball: all x with |x - centre| <= radius, in all of space or in a plane through the centre.

    Sets give it as their `enclosing()`. A simplex lies in a plane, and so does its ball: a point that stays in the plane
    has one direction less to be held in.

    Args:
        centre: the middle, an array or a pytree like the point.
        radius: how far a point may be from it.
        along: what a difference of two points is projected with onto the directions of the plane; a function that
            is defined once, because it is compiled in. All directions by default.

    Example:
        >>> import jax.numpy as jnp
        >>> from tightrope.sets.enclosing import BallAround
        >>> BallAround(jnp.array([1.0, 1.0]), 5.0).project(jnp.array([7.0, 9.0])).tolist()
        [4.0, 5.0]
    """

    centre: Any
    radius: Any
    along: Callable[[Tree], Tree] | None = static(default=None)
    shape: Any = static(default=None)

    def __post_init__(self) -> None:
        nonnegative(self.name, "radius", self.radius)
        set_field(self, "shape", Shape.of(self.centre))

    def _middle(self, x: Tree) -> Tree:
        return jax.tree.map(lambda c, v: jnp.asarray(c, float_dtype(v)), self.centre, x)

    def _offset(self, x: Tree) -> Tree:
        """From the centre to x, in the plane."""
        offset = subtract(x, self._middle(x))
        return offset if self.along is None else self.along(offset)

    @property
    def diameter(self) -> Any:
        """Twice the radius."""
        return 2 * self.radius

    def contains(self, x: Tree, tol: float | None = None) -> Array:
        """Whether x is in the plane and within the radius, up to tol times the radius and the distance from zero."""
        offset = subtract(x, self._middle(x))
        slack = rounding(x, tol) * (self.radius + norm(self._middle(x)))
        off_plane = norm(subtract(offset, self._offset(x)))
        return (norm(offset) <= self.radius + slack) & (off_plane <= slack)

    def start(self, dtype: Any = None) -> Tree:
        """The centre."""
        return jax.tree.map(lambda c: jnp.asarray(c, dtype or jnp.result_type(float)), self.centre)

    def project(self, x: Tree) -> Tree:
        """The way from the centre, within the plane, cut at the radius; inside the ball the factor is exactly one."""
        offset, radius = self._offset(x), jnp.asarray(self.radius, float_dtype(x))
        step = scale(radius / nonzero(jnp.maximum(norm(offset), radius)), offset)
        return jax.tree.map(jnp.add, self._middle(x), step)

    def enclosing(self) -> "BallAround":
        """The ball itself."""
        return self

    def lmo(self, g: Tree) -> Tree:
        """The point of the sphere straight against g, within the plane; the centre for g = 0."""
        v, back = ravel(g if self.along is None else self.along(g))
        return jax.tree.map(jnp.add, self._middle(g), back(-jnp.asarray(self.radius, v.dtype) * unit(v)))
