"""A convex set is what it can do: project, minimise a linear function, bound distances, give a start."""

import math
from abc import ABC, abstractmethod
from typing import Any

import jax
import jax.numpy as jnp

from tightrope._errors import MissingOracleError
from tightrope._tree import Array, Tree, dot, float_dtype


def _is_array_shape(s: Any) -> bool:
    return isinstance(s, int) or (isinstance(s, tuple) and all(isinstance(n, int) for n in s))


class Shape:
    """The shape of a point: of one array (`14`, `(200, 300)`) or of a pytree (`{"w": 14, "b": ()}`). Hashable."""

    def __init__(self, spec: Any):
        self.spec = spec
        leaves, self.treedef = jax.tree.flatten(spec, is_leaf=_is_array_shape)
        self.leaves: tuple[tuple[int, ...], ...] = tuple(
            (s,) if isinstance(s, int) else tuple(s) for s in leaves
        )

    @classmethod
    def of(cls, x: Tree) -> "Shape":
        """The shape of an existing point."""
        return cls(jax.tree.map(jnp.shape, x))

    def full(self, value: Any, dtype: Any = None) -> Tree:
        """A point with one value everywhere."""
        arrays = [jnp.full(s, value, dtype or jnp.result_type(float)) for s in self.leaves]
        return jax.tree.unflatten(self.treedef, arrays)

    @property
    def size(self) -> int:
        """Number of coordinates."""
        return sum(math.prod(s) for s in self.leaves)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Shape) and (self.treedef, self.leaves) == (other.treedef, other.leaves)

    def __hash__(self) -> int:
        return hash((self.treedef, self.leaves))

    def __repr__(self) -> str:
        return repr(self.leaves[0]) if self.treedef == jax.tree.structure(0) else repr(self.spec)


class ConvexSet(ABC):
    """A convex compact set X.

    To write your own, decorate a subclass with `tightrope.pytree` and give it `lmo` or `project` (or both),
    `diameter`, `contains` and `start`. Numbers are leaves; declare with `static()` what changes the program.
    """

    shape: Shape | None = None

    def project(self, x: Tree) -> Tree:
        """The nearest point of the set in the Euclidean norm."""
        raise MissingOracleError(
            f"{self.name} has no cheap projection, and one was asked for. Use a projection-free method such as "
            'FWCSOA (method="fw-csoa"), which needs only the set\'s linear minimisation.'
        )

    def lmo(self, g: Tree) -> Tree:
        """A minimiser of <g, v> over v in the set."""
        raise MissingOracleError(
            f"{self.name} has no linear minimisation oracle, and one was asked for. Use a projection method such "
            'as CSOA (method="csoa").'
        )

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

    @property
    def has_projection(self) -> bool:
        """Whether `project` is there to be used."""
        return type(self).project is not ConvexSet.project

    @property
    def has_lmo(self) -> bool:
        """Whether `lmo` is there to be used."""
        return type(self).lmo is not ConvexSet.lmo

    def support(self, g: Tree) -> Array:
        """An upper bound on max <g, v> over the set; exact wherever the LMO is."""
        return dot(g, self.lmo(jax.tree.map(jnp.negative, g)))

    def lmo_memory(self, dtype: Any = None) -> Tree:
        """What `warm_lmo` remembers between calls; nothing for a closed form."""
        return ()

    def warm_lmo(self, g: Tree, memory: Tree) -> tuple[Tree, Tree]:
        """`lmo(g)` started from the memory of the last call, and the new memory."""
        return self.lmo(g), memory

    def _shape(self) -> Shape:
        if self.shape is None:
            raise ValueError(
                f"{self.name} does not know the shape of its points. Give it one, e.g. "
                f"{self.name}(..., shape=14), or pass x0."
            )
        return self.shape


def rounding(x: Tree, tol: float | None) -> Any:
    """The tolerance of `contains`: the given one, or a generous bound on the rounding of one projection."""
    if tol is not None:
        return tol
    return 64 * float(jnp.finfo(float_dtype(x)).eps)
