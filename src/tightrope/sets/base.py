"""What every convex set owes: to project or to minimise a linear function, to bound distances, to give a start."""

import math
from abc import ABC, abstractmethod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tightrope._errors import MissingOracleError, shown
from tightrope._limits import MOST_COORDINATES
from tightrope.precision import in_full_precision
from tightrope.tree import Array, Tree, dot, eps_of, float_dtype

_COMPUTES = ("project", "project_in", "lmo", "warm_lmo", "support", "contains", "corrective", "between", "mix")
_SMALL = 1 << 16  # numbers of an array that may stand in a program as they are, at most; by hand


def _is_whole(n: Any) -> bool:
    return isinstance(n, int | np.integer) and not isinstance(n, bool)


def _is_array_shape(s: Any) -> bool:
    return _is_whole(s) or (isinstance(s, tuple) and all(_is_whole(n) for n in s))


def _array_shape(s: Any, spec: Any) -> tuple[int, ...]:
    if not _is_array_shape(s) or any(n < 0 for n in np.atleast_1d(s)):
        raise ValueError(
            f"Shape: {spec!r} was given; expected a whole number (14), a tuple of them ((200, 300)) or a "
            'pytree of such ({"w": 14, "b": ()}).'
        )
    return (int(s),) if _is_whole(s) else tuple(int(n) for n in s)


def _full(shape: tuple[int, ...], value: Any, dtype: Any) -> Array:
    """An array of one value; a small one by NumPy, which compiles nothing."""
    if isinstance(value, int | float) and math.prod(shape) <= _SMALL:
        return jnp.asarray(np.full(shape, value, dtype))
    return jnp.full(shape, value, dtype)


class Shape:
    """The shape of a point: an array's (`14`, `(200, 300)`) or a pytree's (`{"w": 14, "b": ()}`); hashable."""

    def __init__(self, spec: Any):
        leaves, self.treedef = jax.tree.flatten(spec, is_leaf=_is_array_shape)
        self.leaves: tuple[tuple[int, ...], ...] = tuple(_array_shape(s, spec) for s in leaves)
        self.size = sum(math.prod(s) for s in self.leaves)  # the number of coordinates of a point, over all its arrays
        if self.size == 0:
            raise ValueError(f"Shape: {spec!r} was given, which has no coordinates; expected at least one.")
        if self.size > MOST_COORDINATES:
            raise ValueError(
                f"Shape: {spec!r} was given, which has {self.size:,} coordinates; expected at most {MOST_COORDINATES:,}, "
                "because compiled code numbers them in 32 bits. Use a smaller shape; for matrices there is "
                "tr.StructuredMatrixCompletion, which keeps factors."
            )

    @classmethod
    def of(cls, x: Tree) -> "Shape":
        """The shape that an existing point has."""
        return cls(jax.tree.map(jnp.shape, x))

    @property
    def spec(self) -> Any:
        """The tree of array shapes. Each is a tuple, so that two vectors do not read as one matrix."""
        return jax.tree.unflatten(self.treedef, self.leaves)

    def full(self, value: Any, dtype: Any = None) -> Tree:
        """The point of this shape whose coordinates all have one value."""
        arrays = [_full(s, value, dtype or jnp.result_type(float)) for s in self.leaves]
        return jax.tree.unflatten(self.treedef, arrays)

    def unravel(self, vector: Array) -> Tree:
        """The point whose coordinates, leaf after leaf, are those of a vector."""
        cuts = np.cumsum([math.prod(s) for s in self.leaves])[:-1]
        pieces = jnp.split(vector, [int(c) for c in cuts])
        arrays = [jnp.reshape(v, s) for v, s in zip(pieces, self.leaves, strict=True)]
        return jax.tree.unflatten(self.treedef, arrays)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Shape) and (self.treedef, self.leaves) == (other.treedef, other.leaves)

    def __hash__(self) -> int:
        return hash((self.treedef, self.leaves))

    def __repr__(self) -> str:
        return repr(self.spec)


def as_shape(spec: Any) -> Shape | None:
    """The shape that a user gave to a set as its argument `shape`; None where there was none."""
    return spec if spec is None or isinstance(spec, Shape) else Shape(spec)


def no_projection(name: str) -> str:
    """What to say when a projection is asked of a set that has none."""
    return (
        f"{name} has no cheap projection, and one was asked for. Use a projection-free method such as SplitCSOA "
        '(method="split-csoa") or FWCSOA (method="fw-csoa"), which need only the set\'s linear minimisation.'
    )


def no_lmo(name: str) -> str:
    """What to say when a linear minimisation is asked of a set that has none."""
    return (
        f"{name} has no linear minimisation oracle, and one was asked for. Use a projection method such as "
        'CSOA (method="csoa").'
    )


def checked_point(name: str, given: Tree, shape: Shape | None, dtype: Any = None) -> Tree:
    """A point that a user gave, in a floating dtype; refuses what is no real number, not finite, or of another shape.

    Where points are one array, a list of numbers is one, too.
    """
    like = "" if shape is None else f" of shape {shape}, like the points of the domain"
    one_array = shape is not None and jax.tree.structure(shape.spec, is_leaf=_is_tuple) == jax.tree.structure(0)
    try:
        whole = np.asarray(given) if one_array and isinstance(given, list | tuple) else given
        masked = any(np.ma.is_masked(leaf) for leaf in jax.tree.leaves(whole))
        arrays = jax.tree.map(lambda v: v if isinstance(v, jax.Array) else np.asarray(v), whole)
        real = bool(jax.tree.leaves(arrays)) and all(_is_real(leaf.dtype) for leaf in jax.tree.leaves(arrays))
    except Exception as error:  # NumPy and JAX meet all kinds of objects here, whose conversion may fail in any way
        raise TypeError(f"{name} is {shown(given)}; expected arrays of real numbers{like}.") from error
    if not real:
        raise TypeError(f"{name} is {shown(given)}; expected arrays of real numbers{like}.")
    if masked:
        raise ValueError(f"{name} is a masked array with values masked; expected numbers everywhere{like}.")
    if any(np.shape(leaf).count(0) for leaf in jax.tree.leaves(arrays)):
        raise ValueError(f"{name} is {shown(given)}, which has no numbers; expected arrays of real numbers{like}.")
    dtype = float_dtype(arrays) if dtype is None else dtype
    with np.errstate(over="ignore"):  # what is too large for the dtype is infinite, and refused below
        point = jax.tree.map(lambda v: jnp.asarray(v, dtype), arrays)
    if shape is not None and Shape.of(point) != shape:
        raise ValueError(f"{name} has shape {Shape.of(point)}; expected {shape}, the shape of the domain's points.")
    if not all(np.isfinite(np.asarray(leaf)).all() for leaf in jax.tree.leaves(point)):  # nothing is compiled for that
        raise ValueError(f"{name} has NaN or infinite values; expected finite numbers.")
    return point


def _is_tuple(spec: Any) -> bool:
    return isinstance(spec, tuple)


def _is_real(dtype: Any) -> bool:
    return any(jnp.issubdtype(dtype, kind) for kind in (jnp.floating, jnp.integer, jnp.bool_))


class Kernel(ABC):
    """What a convex compact set X owes: `diameter`, `contains`, `start`, and `lmo` or `project` or both."""

    shape: Shape | None = None

    def __init_subclass__(cls, **kwargs: Any):
        super().__init_subclass__(**kwargs)
        in_full_precision(cls, _COMPUTES)

    def project(self, x: Tree) -> Tree:
        """The nearest point of the set in the Euclidean norm."""
        raise MissingOracleError(no_projection(self.name))

    def lmo(self, g: Tree) -> Tree:
        """A minimiser of <g, v> over v in the set."""
        raise MissingOracleError(no_lmo(self.name))

    def support(self, g: Tree) -> Array:
        """An upper bound on max <g, v> over the set; exact wherever the LMO is."""
        return dot(g, self.lmo(jax.tree.map(jnp.negative, g)))

    @property
    @abstractmethod
    def diameter(self) -> Any:
        """An upper bound on the distance of any two points."""

    @abstractmethod
    def contains(self, x: Tree, tol: float | None = None) -> Array:
        """Whether x is in the set, up to `tol` relative to the set's size (default: a bound on rounding)."""

    @abstractmethod
    def start(self, dtype: Any = None) -> Tree:
        """A point of the set to start from."""

    @property
    def name(self) -> str:
        """What to call the set in a sentence."""
        return type(self).__name__

    def _shape(self) -> Shape:
        if self.shape is None:
            raise ValueError(
                f"{self.name} does not know the shape of its points. Give it one, e.g. "
                f"{self.name}(..., shape=14), or pass x0."
            )
        return self.shape


in_full_precision(Kernel, _COMPUTES)


def rounding(x: Tree, tol: float | None) -> Any:
    """The tolerance of `contains`: the given one, or a generous bound on the rounding of one projection."""
    if tol is not None:
        return tol
    size = sum(math.prod(jnp.shape(v)) for v in jax.tree.leaves(x))  # sums round like a random walk
    return 8 * (8 + math.sqrt(size)) * eps_of(x)
