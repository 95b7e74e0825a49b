"""What balls around zero share, and the projections that vector and matrix sets both build on."""

from abc import abstractmethod
from typing import Any

import jax
import jax.numpy as jnp

from tightrope._errors import nonnegative
from tightrope.sets.base import as_shape, rounding
from tightrope.sets.capabilities import ConvexSet
from tightrope.tree import Array, Tree, float_dtype, nonzero, set_field


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
        nonnegative(self.name, "radius", self.radius)
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
