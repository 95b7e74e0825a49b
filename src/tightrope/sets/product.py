"""Products: one set for each part of a pytree."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from tightrope._errors import MissingOracleError
from tightrope.sets import conic
from tightrope.sets.base import Shape
from tightrope.sets.capabilities import ConvexSet
from tightrope.tree import Array, Tree, pytree, set_field


def _is_set(s: Any) -> bool:
    return isinstance(s, ConvexSet)


def _product_shape(sets: Tree) -> Shape | None:
    parts = jax.tree.leaves(sets, is_leaf=_is_set)
    if any(part.shape is None for part in parts):
        return None
    return Shape(jax.tree.map(lambda part: part.shape.spec, sets, is_leaf=_is_set))


def _where_all(flag: str) -> Any:
    """What a product can do where all its parts can."""
    return property(
        lambda product: all(getattr(part, flag) for part in product._parts()), doc=f"`{flag}` of all parts."
    )


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

    def _each(self, ask: Callable[..., Any], *points: Tree) -> list[Any]:
        """What every part answers about its own pieces of these points."""
        return [ask(*pieces) for pieces in zip(self._parts(), *map(self._split, points), strict=True)]

    def _places(self) -> list[str]:
        """Where each part stands in the pytree, as Python writes it: "['w'][0]"."""
        found = jax.tree_util.tree_leaves_with_path(self.sets, is_leaf=_is_set)
        return [jax.tree_util.keystr(path) for path, _ in found]

    def _require(self, has: str, what: str) -> None:
        for place, part in zip(self._places(), self._parts(), strict=True):
            if not getattr(part, has):
                raise MissingOracleError(
                    f"Product has no {what}, and one was asked for: its part at {place}, {part.name}, has none. "
                    "Use a method that does not need it, or another set there."
                )

    # ---- what the product can do: what all its parts can -----------------------------------------------------------

    additive = _where_all("additive")
    has_projection = _where_all("has_projection")
    cheap_projection = _where_all("cheap_projection")
    has_lmo = _where_all("has_lmo")
    has_conic = _where_all("has_conic")
    has_corrective = _where_all("has_corrective")

    # ---- the oracles -------------------------------------------------------------------------------------------------

    def project(self, x: Tree) -> Tree:
        """The projections of the pieces: the squared distance is the sum of theirs."""
        self._require("has_projection", "projection")
        return self._join(self._each(lambda part, v: part.project(v), x))

    def lmo(self, g: Tree) -> Tree:
        """The vertices of the parts: <g, v> is the sum of their values."""
        self._require("has_lmo", "linear minimisation")
        return self._join(self._each(lambda part, v: part.lmo(v), g))

    def lmo_memory(self, dtype: Any = None) -> tuple[Tree, ...]:
        """The memories of the parts, in their order."""
        return tuple(part.lmo_memory(dtype) for part in self._parts())

    def lmo_record(self, memory: Tree) -> dict[str, Array]:
        """The records of the parts, each name after the place of its part: "['w'][0] lmo residual"."""
        parts = zip(self._places(), self._parts(), memory, strict=True)
        return {f"{place} {name}": v for place, part, m in parts for name, v in part.lmo_record(m).items()}

    def warm_lmo(self, g: Tree, memory: Tree) -> tuple[Tree, Tree]:
        """The vertices of the parts, each found with that part's own memory, and the new memories."""
        self._require("has_lmo", "linear minimisation")
        pieces = zip(self._parts(), self._split(g), memory, strict=True)
        vertices, memories = zip(*(part.warm_lmo(v, m) for part, v, m in pieces), strict=True)
        return self._join(list(vertices)), memories

    def conic(self, x: Tree) -> conic.Conic:
        """The descriptions of the parts, block after block."""
        return conic.product(self._each(lambda part, v: part.conic(v), x))

    def support(self, g: Tree) -> Array:
        """The sum of the parts' bounds."""
        self._require("has_lmo", "linear minimisation")
        return jnp.sum(jnp.stack(self._each(lambda part, v: part.support(v), g)))

    def corrective(self, x: Tree, s: Tree, g: Tree, line: Callable[[Tree], Array]) -> Tree:
        """The best point on the segment from x to the corrective steps of all parts.

        Each part is corrected as if the others stood still, so all their steps together may go too far. On the way there,
        at 1/n of it for n parts, lies the mean of the n points that differ from x in one part alone. A convex objective
        is there at most the mean of its values at these points, and the best point of the segment is no worse.
        """
        self._require("has_corrective", "corrective step")
        still = [jax.tree.map(jnp.zeros_like, v) for v in self._split(x)]

        def alone(i: int) -> Callable[[Tree], Array]:
            return lambda d: line(self._join([*still[:i], d, *still[i + 1 :]]))

        lines = self._join([alone(i) for i in range(len(still))])
        steps = self._join(self._each(lambda part, *given: part.corrective(*given), x, s, g, lines))
        return self.mix(x, steps, jnp.clip(line(self.between(x, steps)), 0, 1))

    # ---- points ------------------------------------------------------------------------------------------------------

    def between(self, x: Tree, s: Tree) -> Tree:
        """The direction s - x, as each part writes it."""
        return self._join(self._each(lambda part, p, q: part.between(p, q), x, s))

    def mix(self, x: Tree, s: Tree, a: Any) -> Tree:
        """(1 - a) x + a s, as each part mixes."""
        return self._join(self._each(lambda part, p, q: part.mix(p, q, a), x, s))

    def enclosing(self) -> "Product":
        """The product of the sets around the parts; itself where every part is its own."""
        around = [part.enclosing() for part in self._parts()]
        own = all(a is part for a, part in zip(around, self._parts(), strict=True))
        return self if own else Product(self._join(around))

    def tied(self, x: Tree) -> Tree:
        """What each part says of its own piece."""
        return self._join(self._each(lambda part, v: part.tied(v), x))

    @property
    def diameter(self) -> Array:
        """The Euclidean norm of the parts' diameters."""
        return jnp.linalg.norm(jnp.stack([jnp.asarray(part.diameter) for part in self._parts()]))

    def widths(self, x: Tree) -> Tree:
        """The widths of the parts, each for its own piece."""
        return self._join(self._each(lambda part, v: part.widths(v), x))

    @property
    def scaled_diameter(self) -> Array:
        """The Euclidean norm of the parts' scaled diameters."""
        return jnp.linalg.norm(jnp.stack([jnp.asarray(part.scaled_diameter, float) for part in self._parts()]))

    def contains(self, x: Tree, tol: float | None = None) -> Array:
        """Whether every part contains its piece, up to tol times that part's size."""
        return jnp.all(jnp.stack(self._each(lambda part, v: part.contains(v, tol), x)))

    def start(self, dtype: Any = None) -> Tree:
        """The point made of every part's own start."""
        return self._join([part.start(dtype) for part in self._parts()])
