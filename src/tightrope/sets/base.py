"""A convex set is what it can do: project, minimise a linear function, bound distances, give a start."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tightrope._errors import MissingOracleError
from tightrope.precision import in_full_precision
from tightrope.sets.conic import Conic
from tightrope.sets.metric import Metric
from tightrope.tree import Array, Tree, dot, float_dtype, subtract

_COMPUTES = ("project", "project_in", "lmo", "warm_lmo", "support", "contains", "corrective", "between", "mix")
_SMALL = 1 << 16  # numbers of an array that may stand in a program as they are


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
        if self.size == 0:
            raise ValueError(f"Shape: {spec!r} was given, which has no coordinates; expected at least one.")

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

    @property
    def size(self) -> int:
        """The number of coordinates of a point, over all its arrays."""
        return sum(math.prod(s) for s in self.leaves)

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


class ConvexSet(ABC):
    """A convex compact set X.

    To write your own, decorate a subclass with `tightrope.pytree` and give it `lmo` or `project` (or both),
    `diameter`, `contains` and `start`. Numbers are leaves; declare with `static()` what changes the program.

    Example:
        >>> import jax.numpy as jnp, tightrope as tr
        >>> box = tr.Box(0.0, 1.0, shape=2)
        >>> box.project(jnp.array([2.0, 0.5])).tolist(), box.lmo(jnp.array([1.0, -1.0])).tolist()
        ([1.0, 0.5], [0.0, 1.0])
        >>> box.has_projection, bool(box.contains(jnp.array([2.0, 0.5])))
        (True, False)
    """

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

    def project_in(self, metric: Metric, x: Tree) -> Tree:
        """The nearest point of the set in a metric."""
        raise MissingOracleError(f"{self.name} has no projection in other metrics than Euclid's.")

    @property
    def has_metrics(self) -> bool:
        """Whether `project_in` is there to be used."""
        return type(self).project_in is not ConvexSet.project_in

    @property
    @abstractmethod
    def diameter(self) -> Any:
        """An upper bound on the distance of any two points."""

    def widths(self, x: Tree) -> Tree:
        """A scale for each coordinate of x, or one for all of a leaf: the diameter, unless coordinates move on their own.

        A step that is scaled by them and projected is a projected step in the coordinates x/w.
        """
        return jax.tree.map(lambda v: jnp.asarray(self.diameter, float_dtype(v)), x)

    @property
    def scaled_diameter(self) -> Any:
        """The diameter in the coordinates x/w, with w the widths."""
        return 1.0

    def enclosing(self) -> "ConvexSet":
        """A set around this one with a cheap projection: the smallest ball or box that is known in closed form.

        Where nothing better is known, a ball around the starting point whose radius is the diameter. A ball or a box is its
        own: it returns itself, and so says that no other set is needed around it.
        """
        from tightrope.sets.enclosing import BallAround  # a set itself, so that it cannot be imported above

        return BallAround(self.start(), self.diameter)

    def tied(self, x: Tree) -> Tree:
        """For every leaf of x, whether the enclosing set is another one there, so that a point of it has to be tied to X."""
        another = self.enclosing() is not self
        return jax.tree.map(lambda _: another, x)

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

    @property
    def has_projection(self) -> bool:
        """Whether `project` is there to be used."""
        return type(self).project is not ConvexSet.project

    @property
    def cheap_projection(self) -> bool:
        """Whether a projection method is the natural choice; not where a projection decomposes a matrix at every step."""
        return self.has_projection

    @property
    def has_lmo(self) -> bool:
        """Whether `lmo` is there to be used."""
        return type(self).lmo is not ConvexSet.lmo

    def support(self, g: Tree) -> Array:
        """An upper bound on max <g, v> over the set; exact wherever the LMO is."""
        return dot(g, self.lmo(jax.tree.map(jnp.negative, g)))

    @property
    def lmo_accuracy(self) -> float:
        """What an LMO may miss of the support value, as a fraction of it in [0, 1]; 0 when it is exact."""
        return 0.0

    def lmo_memory(self, dtype: Any = None) -> Tree:
        """What `warm_lmo` remembers between calls; nothing for a closed form."""
        return ()

    def lmo_record(self, memory: Tree) -> dict[str, Array]:
        """What the trace of a run says of its last linear minimisation; nothing for a closed form."""
        return {}

    def warm_lmo(self, g: Tree, memory: Tree) -> tuple[Tree, Tree]:
        """`lmo(g)` started from the memory of the last call, and the new memory."""
        return self.lmo(g), memory

    def conic(self, x: Tree) -> Conic:
        """The set written down for a solver, as one of vectors with as many coordinates as x has."""
        raise MissingOracleError(f"{self.name} has no description by linear maps and simple cones.")

    @property
    def has_conic(self) -> bool:
        """Whether `conic` is there to be used."""
        return type(self).conic is not ConvexSet.conic

    def corrective(self, x: Tree, s: Tree, g: Tree, line: Callable[[Tree], Array]) -> Tree:
        """A better point among those made of x and the vertex s, for sets that know what x is made of.

        g is the gradient at x, and `line(d)` the step length that minimises the objective along d from x.
        """
        raise MissingOracleError(f"{self.name} does not know what its points are made of; it has no corrective step.")

    @property
    def has_corrective(self) -> bool:
        """Whether `corrective` is there to be used."""
        return type(self).corrective is not ConvexSet.corrective

    @property
    def additive(self) -> bool:
        """Whether points are vectors, so that sums and means of them are taken leaf by leaf; not where they are factored.

        A set that says no gives its own `between` and `mix`.
        """
        return True

    def between(self, x: Tree, s: Tree) -> Tree:
        """The direction s - x."""
        return subtract(s, x)

    def mix(self, x: Tree, s: Tree, a: Any) -> Tree:
        """The point (1 - a) x + a s, between x and s where a is between 0 and 1."""
        return jax.tree.map(lambda p, q: ((1 - a) * p + a * q).astype(p.dtype), x, s)

    def _shape(self) -> Shape:
        if self.shape is None:
            raise ValueError(
                f"{self.name} does not know the shape of its points. Give it one, e.g. "
                f"{self.name}(..., shape=14), or pass x0."
            )
        return self.shape


in_full_precision(ConvexSet, _COMPUTES)


def as_vector(x: Tree) -> np.ndarray:
    """The coordinates of a point on the host, leaf after leaf, in float64."""
    return np.concatenate([np.ravel(np.asarray(leaf, float)) for leaf in jax.tree.leaves(x)])


def rounding(x: Tree, tol: float | None) -> Any:
    """The tolerance of `contains`: the given one, or a generous bound on the rounding of one projection."""
    if tol is not None:
        return tol
    size = sum(math.prod(jnp.shape(v)) for v in jax.tree.leaves(x))  # sums round like a random walk
    return 8 * (8 + math.sqrt(size)) * float(jnp.finfo(float_dtype(x)).eps)
