"""Boxes: one interval per coordinate."""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from tightrope._limits import MOST_LENGTH
from tightrope.sets import conic
from tightrope.sets.base import Shape, as_shape, rounding
from tightrope.sets.capabilities import ConvexSet
from tightrope.sets.metric import Metric, nearest_in_box
from tightrope.tree import Array, Tree, as_vector, float_dtype, norm, pytree, set_field, static, subtract


def _is_number(bound: Any) -> bool:
    """Whether one bound serves every coordinate."""
    return jax.tree.structure(bound) == jax.tree.structure(0) and jnp.ndim(bound) == 0


def _spread(bound: Any, x: Tree) -> Tree:
    """A bound as a point like x: one number or one number per leaf goes to every coordinate there."""
    bound = jax.tree.map(lambda _: bound, x) if _is_number(bound) else bound

    def spread(leaf: Any, b: Any) -> Any:
        traced = isinstance(b, jax.Array) or isinstance(leaf, Tracer)
        xp: Any = jnp if traced else np  # which needs no device to be asked
        return xp.broadcast_to(xp.asarray(b, float_dtype(leaf)), jnp.shape(leaf))

    return jax.tree.map(spread, x, bound)


def _refuse_unless_finite(name: str, bound: Any) -> None:
    arrays = [np.asarray(v) for v in jax.tree.leaves(bound)]
    if not arrays or not all(np.issubdtype(a.dtype, np.number) and np.all(np.isfinite(a)) for a in arrays):
        raise ValueError(
            f"Box: {name} is {bound!r}; expected finite numbers, because the methods need a bounded set. "
            "Where there is no natural bound, choose one that no sensible point reaches."
        )
    if any(np.any(np.abs(a.astype(float)) > MOST_LENGTH) for a in arrays):
        raise ValueError(
            f"Box: {name} has numbers beyond {MOST_LENGTH:g} in size; expected smaller ones, so that sums of squares do not "
            "overflow. Where there is no natural bound, choose one that no sensible point reaches."
        )


def _common_shape(lower: Any, upper: Any) -> Shape | None:
    """The shape both bounds speak of; None when both are single numbers."""
    if _is_number(lower):
        return None if _is_number(upper) else Shape.of(upper)
    if _is_number(upper):
        return Shape.of(lower)
    shapes = jax.tree.map(lambda l, u: np.broadcast_shapes(jnp.shape(l), jnp.shape(u)), lower, upper)
    return Shape(shapes)


@pytree
class Box(ConvexSet):
    """Box: all x with lower_i <= x_i <= upper_i.

    Args:
        lower: one number, or an array or pytree like the point. Finite, because X is bounded.
        upper: likewise, and nowhere below `lower`.
        shape: the shape of a point; deduced where a bound is not a single number.

    Example:
        >>> import jax.numpy as jnp
        >>> from tightrope.sets import Box
        >>> Box(0.0, jnp.array([1.0, 2.0])).project(jnp.array([-1.0, 3.0])).tolist()
        [0.0, 2.0]
    """

    lower: Any
    upper: Any
    shape: Any = static(default=None)

    def __post_init__(self) -> None:
        for name in ("lower", "upper"):
            bound = getattr(self, name)
            set_field(self, name, np.asarray(bound) if isinstance(bound, list) else bound)
            _refuse_unless_finite(name, getattr(self, name))
        set_field(self, "shape", as_shape(self.shape))
        try:
            shape = self.shape or _common_shape(self.lower, self.upper)
            one = _is_number(self.lower) and _is_number(self.upper)  # two numbers need no arrays to be compared
            like = np.zeros(()) if shape is None or one else shape.full(0.0)
            gaps = subtract(_spread(self.upper, like), _spread(self.lower, like))
        except (ValueError, TypeError) as error:
            shapes = [jax.tree.map(jnp.shape, b) for b in (self.lower, self.upper)]
            raise ValueError(
                f"Box: lower has the shape {shapes[0]} and upper {shapes[1]}, with shape={self.shape}; "
                "expected each to be one number or to match the point."
            ) from error
        if any(bool(jnp.any(gap < 0)) for gap in jax.tree.leaves(gaps)):
            raise ValueError(
                f"Box: lower is above upper somewhere (lower {self.lower!r}, upper {self.upper!r}), which "
                "leaves no point; expected lower <= upper everywhere. Perhaps they are swapped?"
            )
        set_field(self, "shape", shape)

    def _bounds(self, x: Tree) -> tuple[Tree, Tree]:
        return _spread(self.lower, x), _spread(self.upper, x)

    @property
    def diameter(self) -> Array:
        """The distance of the corner `lower` from the corner `upper`."""
        if _is_number(self.lower) and _is_number(self.upper):  # a large box needs no array for it
            return jnp.asarray(math.sqrt(self._shape().size) * (self.upper - self.lower), float)
        lower, upper = self._bounds(self._shape().full(0.0))
        return norm(subtract(upper, lower))

    def widths(self, x: Tree) -> Tree:
        """The lengths of the intervals."""
        lower, upper = self._bounds(x)
        return subtract(upper, lower)

    @property
    def scaled_diameter(self) -> Array:
        """The diagonal of a unit cube of as many coordinates as can move."""
        free = jax.tree.map(lambda width: jnp.sum(width > 0), self.widths(self._shape().full(0.0)))
        return jnp.sqrt(jnp.sum(jnp.stack(jax.tree.leaves(free))).astype(float))

    def contains(self, x: Tree, tol: float | None = None) -> Array:
        """Whether every coordinate is in its interval, up to tol times the larger of its bounds."""
        slack = rounding(x, tol)

        def inside(v, l, u):
            room = slack * jnp.maximum(jnp.abs(l), jnp.abs(u))
            return jnp.all((v >= l - room) & (v <= u + room))

        return jnp.all(jnp.stack(jax.tree.leaves(jax.tree.map(inside, x, *self._bounds(x)))))

    def start(self, dtype: Any = None) -> Tree:
        """The centre of the box."""
        lower, upper = self._bounds(self._shape().full(0.0, dtype))
        return jax.tree.map(lambda l, u: jnp.asarray(l / 2 + u / 2), lower, upper)

    def project(self, x: Tree) -> Tree:
        """Every coordinate moved to the nearest point of its interval."""
        return jax.tree.map(jnp.clip, x, *self._bounds(x))

    def project_in(self, metric: Metric, x: Tree) -> Tree:
        """The nearest point in a metric; where x is in the box, x."""
        return nearest_in_box(metric, x, self.project)

    def enclosing(self) -> "Box":
        """The box itself."""
        return self

    def conic(self, x: Tree) -> conic.Conic:
        """Two sides for every coordinate."""
        return conic.box(*(as_vector(bound) for bound in self._bounds(x)))

    def lmo(self, g: Tree) -> Tree:
        """The corner whose coordinates are low where g is positive and high elsewhere."""

        def corner(d, l, u):
            return jnp.where(d > 0, l, jnp.where(d <= 0, u, d))  # NaN in, NaN out

        return jax.tree.map(corner, g, *self._bounds(g))
