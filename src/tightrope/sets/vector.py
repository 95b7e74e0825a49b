"""Sets of vectors with closed forms: balls of the l1, l-infinity and group norms, and the simplex.

A point may be an array of any shape or a pytree of arrays; either is one vector here.
"""

import dataclasses
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tightrope.sets import conic
from tightrope.sets.ball import Ball, BallAround, L2Ball, Radial, one_hot, project_l1, project_simplex, scale, unit
from tightrope.sets.base import Shape, rounding
from tightrope.sets.capabilities import ConvexSet
from tightrope.sets.metric import Metric, nearest_in_box
from tightrope.tree import Array, Tree, as_vector, nonzero, pytree, ravel, set_field, static


@pytree
class L1Ball(Ball):
    """Cross-polytope: all x with the sum of |x_i| <= radius. Its LMO gives points with one nonzero entry.

    Args:
        radius: the largest sum of absolute values.
        shape: the shape of a point, of one array or of a pytree; not needed where x0 is given.

    Example:
        >>> import jax.numpy as jnp
        >>> from tightrope.sets import L1Ball
        >>> L1Ball(2.0, shape=3).lmo(jnp.array([1.0, -3.0, 2.0])).tolist()
        [0.0, 2.0, 0.0]
    """

    radius: Any
    shape: Any = static(default=None)

    def gauge(self, x: Tree) -> Array:
        """The sum of absolute values."""
        return jnp.sum(jnp.abs(ravel(x)[0]))

    def project(self, x: Tree) -> Tree:
        """Shrink all absolute values by one threshold."""
        v, back = ravel(x)
        return back(project_l1(v, self.radius))

    def conic(self, x: Tree) -> conic.Conic:
        """A bound on every |x_i|, and on their sum."""
        return conic.group_ball(float(self.radius), np.arange(as_vector(x).size))

    def lmo(self, g: Tree) -> Tree:
        """The radius, against the sign of the largest |g_i|, there and nowhere else; zero for g = 0."""
        v, back = ravel(g)
        i = jnp.argmax(jnp.abs(v))
        return back(one_hot(i, -self.radius * jnp.sign(v[i]), v))


@pytree
class LinfBall(Ball):
    """Cube around zero: all x with every |x_i| <= radius.

    Args:
        radius: half the side.
        shape: the shape of a point, of one array or of a pytree. The diameter needs it.

    Example:
        >>> import jax.numpy as jnp
        >>> from tightrope.sets import LinfBall
        >>> LinfBall(2.0, shape=3).project(jnp.array([1.0, -3.0, 2.5])).tolist()
        [1.0, -2.0, 2.0]
    """

    radius: Any
    shape: Any = static(default=None)

    @property
    def diameter(self) -> Any:
        """The space diagonal of the cube."""
        return 2 * self.radius * math.sqrt(self._shape().size)

    def gauge(self, x: Tree) -> Array:
        """The largest absolute value of a coordinate."""
        return jnp.max(jnp.abs(ravel(x)[0]))

    def project(self, x: Tree) -> Tree:
        """Every coordinate moved to the nearest number between -radius and radius."""

        def clip(v):
            radius = jnp.asarray(self.radius, jnp.result_type(v))
            return jnp.clip(v, -radius, radius)

        return jax.tree.map(clip, x)

    def project_in(self, metric: Metric, x: Tree) -> Tree:
        """The nearest point in a metric; where x is in the cube, x."""
        return nearest_in_box(metric, x, self.project)

    def enclosing(self) -> "LinfBall":
        """The cube itself."""
        return self

    def conic(self, x: Tree) -> conic.Conic:
        """Two sides for every coordinate."""
        side = np.full(as_vector(x).size, float(self.radius))
        return conic.box(-side, side)

    def lmo(self, g: Tree) -> Tree:
        """The corner against the signs of g; zero where g is."""
        return scale(-self.radius, jax.tree.map(jnp.sign, g))


def _without_sum(v: Tree) -> Tree:
    """v, less the mean of all its coordinates."""
    flat, back = ravel(v)
    return back(flat - jnp.mean(flat))


@pytree
class Simplex(Radial):
    """Simplex: all x with every x_i >= 0 and the sum of x_i = radius.

    Args:
        radius: the sum; 1 for probabilities.
        shape: the shape of a point, of one array or of a pytree; not needed where x0 is given.

    Example:
        >>> import jax.numpy as jnp
        >>> from tightrope.sets import Simplex
        >>> Simplex(shape=3).lmo(jnp.array([1.0, -3.0, 2.0])).tolist()
        [0.0, 1.0, 0.0]
    """

    radius: Any = 1.0
    shape: Any = static(default=None)

    @property
    def diameter(self) -> Any:
        """The distance of two corners; 0 for one coordinate, where the simplex is a point."""
        one_point = self.shape is not None and self.shape.size == 1
        return 0.0 * self.radius if one_point else math.sqrt(2) * self.radius

    def contains(self, x: Tree, tol: float | None = None) -> Array:
        """Whether no entry is negative and the sum is right, both up to tol times the radius."""
        v, slack = ravel(x)[0], rounding(x, tol) * self.radius
        return (jnp.min(v) >= -slack) & (jnp.abs(jnp.sum(v) - self.radius) <= slack)

    def start(self, dtype: Any = None) -> Tree:
        """The centre, where all coordinates are equal."""
        return self._shape().full(self.radius / self._shape().size, dtype)

    def project(self, x: Tree) -> Tree:
        """Subtract one threshold and cut at zero."""
        v, back = ravel(x)
        return back(project_simplex(v, self.radius))

    def enclosing(self) -> ConvexSet:
        """The smallest ball, around the centre and in the plane of the simplex; the corners are on its sphere."""
        if self.shape is None:
            return L2Ball(self.radius)
        return BallAround(self.start(), self.radius * math.sqrt(1 - 1 / self.shape.size), along=_without_sum)

    def conic(self, x: Tree) -> conic.Conic:
        """One equation, and a side for every coordinate."""
        radius, n = float(self.radius), as_vector(x).size
        return conic.simplex(radius, n) if radius > 0 and n > 1 else conic.point(np.full(n, radius))

    def lmo(self, g: Tree) -> Tree:
        """The corner at the coordinate where g is smallest."""
        v, back = ravel(g)
        i = jnp.argmin(v)
        corner = jnp.where(jnp.isnan(v[i]), v[i], jnp.asarray(self.radius, v.dtype))  # NaN in, NaN out
        return back(one_hot(i, corner, v))


@pytree
class GroupBall(Ball):
    """Group-norm ball: all x with the sum over groups G of |x_G|_2 <= radius. Its LMO moves one group alone.

    Args:
        radius: the largest sum of group norms.
        groups: one whole number per coordinate, equal within a group; an array, or a pytree like the point.
        shape: the shape of a point; that of `groups` unless given.

    Example:
        >>> import jax.numpy as jnp
        >>> from tightrope.sets import GroupBall
        >>> GroupBall(5.0, groups=jnp.array([0, 0, 7])).project(jnp.array([6.0, 8.0, 0.0])).tolist()
        [3.0, 4.0, 0.0]
    """

    radius: Any
    groups: Any  # kept as one label in 0..count-1 per coordinate
    shape: Any = static(default=None)
    count: int = dataclasses.field(init=False, metadata={"static": True})

    def __post_init__(self) -> None:
        tree = np.asarray(self.groups) if isinstance(self.groups, list) else self.groups
        labels = np.concatenate([np.ravel(v) for v in jax.tree.leaves(tree)] or [np.zeros(0)])
        if not np.issubdtype(labels.dtype, np.integer):
            raise ValueError(f"GroupBall: groups has the dtype {labels.dtype}; expected a whole number per coordinate.")
        if self.shape is None:
            set_field(self, "shape", Shape.of(tree))
        super().__post_init__()
        if self._shape().size != labels.size:
            raise ValueError(
                f"GroupBall: groups has {labels.size} labels for points with {self._shape().size} "
                "coordinates; expected one label per coordinate."
            )
        names, index = np.unique(labels, return_inverse=True)
        set_field(self, "groups", index.astype(np.int32))
        set_field(self, "count", len(names))

    def _norms(self, v: Array) -> Array:
        return jnp.sqrt(jax.ops.segment_sum(v * v, jnp.asarray(self.groups), self.count))

    def gauge(self, x: Tree) -> Array:
        """The sum of the groups' Euclidean norms."""
        return jnp.sum(self._norms(ravel(x)[0]))

    def project(self, x: Tree) -> Tree:
        """Project the vector of group norms onto the l1 ball and rescale each group to its new norm."""
        v, back = ravel(x)
        norms = self._norms(v)
        factors = project_l1(norms, self.radius) / nonzero(norms)
        return back(factors[jnp.asarray(self.groups)] * v)

    def conic(self, x: Tree) -> conic.Conic:
        """A second-order cone for every group, and a bound on the sum."""
        return conic.group_ball(float(self.radius), np.asarray(self.groups))

    def lmo(self, g: Tree) -> Tree:
        """The radius against g in the group where g is largest, zero elsewhere and for g = 0."""
        v, back = ravel(g)
        v = v / nonzero(jnp.max(jnp.abs(v)))  # so that no square vanishes
        i = jnp.argmax(self._norms(v))
        group = jnp.where(jnp.asarray(self.groups) == i, v, v * 0)  # times 0 keeps a NaN
        return back(-jnp.asarray(self.radius, v.dtype) * unit(group))
