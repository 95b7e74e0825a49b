"""Products: one set for each part of a pytree."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp

from tightrope._errors import MissingOracleError
from tightrope.sets.base import ConvexSet, Shape
from tightrope.tree import Array, Tree, pytree, set_field


def _is_set(s: Any) -> bool:
    return isinstance(s, ConvexSet)


def _product_shape(sets: Tree) -> Shape | None:
    parts = jax.tree.leaves(sets, is_leaf=_is_set)
    if any(part.shape is None for part in parts):
        return None
    return Shape(jax.tree.map(lambda part: part.shape.spec, sets, is_leaf=_is_set))


@pytree
class Product(ConvexSet):
    """Product: all x whose part at each place is in the set at that place.

    Args:
        sets: a pytree of sets (a dict, a tuple, nested as you like). Points have the same structure, with an
            array or a pytree of arrays in the place of each set.

    Example:
        >>> import jax.numpy as jnp
        >>> from tightrope.sets import L1Ball, Box, Product
        >>> domain = Product({"w": L1Ball(1.0, shape=2), "b": Box(-1.0, 1.0, shape=())})
        >>> point = domain.project({"w": jnp.array([0.0, 3.0]), "b": jnp.array(-2.0)})
        >>> point["w"].tolist(), float(point["b"])
        ([0.0, 1.0], -1.0)
    """

    sets: Tree
    shape: Any = dataclasses.field(init=False, metadata={"static": True})

    def __post_init__(self) -> None:
        parts = jax.tree.leaves(self.sets, is_leaf=_is_set)
        strangers = [part for part in parts if not _is_set(part)]
        if strangers or not parts:
            raise TypeError(
                f"Product: {strangers[0] if strangers else self.sets!r} was given in the place of a set; "
                'expected a pytree whose leaves are sets, such as {"w": L2Ball(1.0), "b": Box(-1.0, 1.0)}.'
            )
        set_field(self, "shape", _product_shape(self.sets))

    def _parts(self) -> list[ConvexSet]:
        return jax.tree.leaves(self.sets, is_leaf=_is_set)

    def _split(self, x: Tree) -> list[Tree]:
        """The piece of x that belongs to each part."""
        treedef = jax.tree.structure(self.sets, is_leaf=_is_set)
        try:
            return treedef.flatten_up_to(x)
        except ValueError as error:
            raise ValueError(
                f"Product: a point has the structure {jax.tree.structure(x)}; expected one piece for each "
                f"set in {treedef}, where * is a set."
            ) from error

    def _join(self, pieces: list[Tree]) -> Tree:
        return jax.tree.unflatten(jax.tree.structure(self.sets, is_leaf=_is_set), pieces)

    def _require(self, has: str, what: str) -> None:
        for path, part in jax.tree_util.tree_leaves_with_path(self.sets, is_leaf=_is_set):
            if not getattr(part, has):
                raise MissingOracleError(
                    f"Product has no {what}, and one was asked for: its part at "
                    f"{jax.tree_util.keystr(path)}, {part.name}, has none. "
                    "Use a method that does not need it, or another set there."
                )

    @property
    def has_projection(self) -> bool:
        """Whether every part can project."""
        return all(part.has_projection for part in self._parts())

    @property
    def cheap_projection(self) -> bool:
        """Whether every part projects cheaply."""
        return all(part.cheap_projection for part in self._parts())

    @property
    def has_lmo(self) -> bool:
        """Whether every part has a linear minimisation."""
        return all(part.has_lmo for part in self._parts())

    def project(self, x: Tree) -> Tree:
        """Part by part."""
        self._require("has_projection", "projection")
        return self._join([part.project(v) for part, v in zip(self._parts(), self._split(x), strict=True)])

    def lmo(self, g: Tree) -> Tree:
        """Part by part."""
        self._require("has_lmo", "linear minimisation")
        return self._join([part.lmo(v) for part, v in zip(self._parts(), self._split(g), strict=True)])

    @property
    def lmo_accuracy(self) -> float:
        """The worst of the parts, as a fraction of the sum of the parts' absolute support values."""
        return max(part.lmo_accuracy for part in self._parts())

    def lmo_memory(self, dtype: Any = None) -> Tree:
        """The memories of the parts."""
        return tuple(part.lmo_memory(dtype) for part in self._parts())

    def warm_lmo(self, g: Tree, memory: Tree) -> tuple[Tree, Tree]:
        """Part by part, each with its own memory."""
        self._require("has_lmo", "linear minimisation")
        pieces = zip(self._parts(), self._split(g), memory, strict=True)
        vertices, memories = zip(*(part.warm_lmo(v, m) for part, v, m in pieces), strict=True)
        return self._join(list(vertices)), memories

    def support(self, g: Tree) -> Array:
        """The sum of the parts' bounds."""
        self._require("has_lmo", "linear minimisation")
        bounds = [part.support(v) for part, v in zip(self._parts(), self._split(g), strict=True)]
        return jnp.sum(jnp.stack(bounds))

    @property
    def diameter(self) -> Array:
        """The Euclidean norm of the parts' diameters."""
        return jnp.linalg.norm(jnp.stack([jnp.asarray(part.diameter) for part in self._parts()]))

    def contains(self, x: Tree, tol: float | None = None) -> Array:
        """Whether every part contains its piece, up to tol times that part's size."""
        inside = [part.contains(v, tol) for part, v in zip(self._parts(), self._split(x), strict=True)]
        return jnp.all(jnp.stack(inside))

    def start(self, dtype: Any = None) -> Tree:
        """Every part's own start."""
        return self._join([part.start(dtype) for part in self._parts()])
