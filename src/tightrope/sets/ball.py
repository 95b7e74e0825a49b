"""Euclidean balls, what balls of other norms share with them, and projections that sets of vectors and matrices build on."""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tightrope._limits import length
from tightrope.sets import conic
from tightrope.sets.base import Shape, as_shape, rounding
from tightrope.sets.capabilities import ConvexSet
from tightrope.sets.metric import Metric, nearest_in_ball
from tightrope.tree import (
    Array,
    Tree,
    as_vector,
    float_dtype,
    nonzero,
    norm,
    pytree,
    ravel,
    set_field,
    static,
    subtract,
)


def project_simplex(v: Array, radius: Any) -> Array:
    """Nearest point to the vector v with nonnegative entries that sum to radius.

    Entries further than the radius below the largest one end at zero wherever they are, so all are moved to
    [-1, 0] first: the sums inside then lose nothing to a large common offset, and radius 0 divides by one.
    """
    from optax.projections import projection_simplex  # here and not above: `import tightrope` should cost little

    radius = jnp.asarray(radius, v.dtype)
    depth = (v - jnp.max(v)) / jnp.where(radius > 0, radius, 1)  # pyright: ignore[reportOperatorIssue]
    unit = projection_simplex(jnp.maximum(depth, -1))
    return (radius * unit).astype(v.dtype)  # optax counts in float64 when x64 is on


def project_l1(v: Array, radius: Any) -> Array:
    """Nearest point to the vector v whose absolute values sum to at most radius."""
    size = jnp.abs(v)
    on_sphere = jnp.sign(v) * project_simplex(size, radius)
    return jnp.where(jnp.sum(size) <= jnp.asarray(radius, v.dtype), v, on_sphere)


def unit(v: Array) -> Array:
    """v / |v|, and 0 for v = 0; divided by its largest entry first: no square vanishes or overflows."""
    v = v / nonzero(jnp.max(jnp.abs(v)))
    return v / nonzero(jnp.linalg.norm(v))


def one_hot(index: Array, value: Any, like: Array) -> Array:
    """The vector that is `value` at one index and zero elsewhere."""
    return jnp.where(jnp.arange(like.size) == index, jnp.asarray(value, like.dtype), 0)


def scale(factor: Any, x: Tree) -> Tree:
    """factor x, where the factor takes on the dtype of each leaf, so that x keeps its own."""
    return jax.tree.map(lambda leaf: jnp.asarray(factor, float_dtype(leaf)) * leaf, x)


class Radial(ConvexSet):
    """A set whose size is one number, `radius`."""

    radius: Any

    def __post_init__(self) -> None:
        length(self.name, "radius", self.radius)
        set_field(self, "shape", as_shape(self.shape))


class Ball(Radial):
    """All x with gauge(x) <= radius, for a norm `gauge`."""

    @abstractmethod
    def gauge(self, x: Tree) -> Array:
        """The norm whose ball this is."""

    @property
    def diameter(self) -> Any:
        """Twice the radius, a bound for every norm that is nowhere below the Euclidean one."""
        return 2 * self.radius

    def contains(self, x: Tree, tol: float | None = None) -> Array:
        """Whether gauge(x) <= radius (1 + tol)."""
        return self.gauge(x) <= self.radius * (1 + rounding(x, tol))

    def start(self, dtype: Any = None) -> Tree:
        """Zero, the centre of the ball."""
        return self._shape().full(0.0, dtype)

    def enclosing(self) -> ConvexSet:
        """The Euclidean ball of the same radius, for every such norm; most balls have vertices on its sphere."""
        return L2Ball(self.radius, self.shape)


@pytree
class L2Ball(Ball):
    """Euclidean ball: all x with |x|_2 <= radius.

    Args:
        radius: how far a point may be from zero; 0 leaves zero alone.
        shape: the shape of a point, of one array or of a pytree; not needed where x0 is given.

    Example:
        >>> import jax.numpy as jnp
        >>> from tightrope.sets import L2Ball
        >>> L2Ball(5.0, shape=2).project(jnp.array([6.0, 8.0])).tolist()
        [3.0, 4.0]
    """

    radius: Any
    shape: Any = static(default=None)

    def gauge(self, x: Tree) -> Array:
        """The Euclidean norm of all coordinates."""
        return norm(x)

    def project(self, x: Tree) -> Tree:
        """Scale x back to the radius; inside the ball the factor is exactly one."""
        radius = jnp.asarray(self.radius, float_dtype(x))
        return scale(radius / nonzero(jnp.maximum(norm(x), radius)), x)

    def project_in(self, metric: Metric, x: Tree) -> Tree:
        """The nearest point in a metric; where x is in the ball, x."""
        return nearest_in_ball(metric, x, jnp.asarray(self.radius, float_dtype(x)))

    def enclosing(self) -> "L2Ball":
        """The ball itself."""
        return self

    def conic(self, x: Tree) -> conic.Conic:
        """One second-order cone."""
        return conic.group_ball(float(self.radius), np.zeros(as_vector(x).size, int))

    def lmo(self, g: Tree) -> Tree:
        """The point of the sphere straight against g; zero for g = 0."""
        v, back = ravel(g)
        return back(-jnp.asarray(self.radius, v.dtype) * unit(v))


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
        >>> from tightrope.sets.ball import BallAround
        >>> BallAround(jnp.array([1.0, 1.0]), 5.0).project(jnp.array([7.0, 9.0])).tolist()
        [4.0, 5.0]
    """

    centre: Any
    radius: Any
    along: Callable[[Tree], Tree] | None = static(default=None)
    shape: Any = static(default=None)

    def __post_init__(self) -> None:
        length(self.name, "radius", self.radius)
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
