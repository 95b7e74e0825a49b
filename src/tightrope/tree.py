"""Pytree arithmetic, the `pytree` class decorator and compensated running means."""

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar, dataclass_transform

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

T = TypeVar("T")
Tree = Any  # a pytree of arrays; JAX gives it no better type
Array = jax.Array


def static(*, default: Any = dataclasses.MISSING, least: int = 1) -> Any:
    """A field that changes the shape of the program: hashed and compiled in, not traced.

    Args:
        default: its value where none is given.
        least: of a whole number that belongs to a method, the smallest that is allowed.

    Example:
        >>> import tightrope as tr
        >>> @tr.pytree
        ... class Ring:
        ...     radius: float
        ...     corners: int = tr.static(default=8)
        >>> import jax
        >>> jax.tree.leaves(Ring(2.0))
        [2.0]
    """
    return dataclasses.field(default=default, metadata={"static": True, "least": least})


@dataclass_transform(frozen_default=True, eq_default=False, field_specifiers=(dataclasses.field, static))
def pytree(cls: type[T]) -> type[T]:
    """Make a class a frozen dataclass and a pytree: its fields are leaves, `static()` ones are not.

    Rebuilding from leaves skips `__post_init__`, so validation there sees only what a user passed and never
    a tracer.

    Example:
        >>> import jax, tightrope as tr
        >>> @tr.pytree
        ... class Interval:
        ...     low: float
        ...     high: float
        >>> jax.tree.map(lambda end: 2 * end, Interval(1.0, 3.0))
        Interval(low=2.0, high=6.0)
    """
    cls = dataclasses.dataclass(frozen=True, eq=False)(cls)
    fields = dataclasses.fields(cls)  # pyright: ignore[reportArgumentType]
    leaf_names = tuple(f.name for f in fields if not f.metadata.get("static"))
    static_names = tuple(f.name for f in fields if f.metadata.get("static"))

    def flatten_with_keys(obj):
        children = tuple((jax.tree_util.GetAttrKey(n), getattr(obj, n)) for n in leaf_names)
        return children, tuple(getattr(obj, n) for n in static_names)

    def flatten(obj):
        return tuple(getattr(obj, n) for n in leaf_names), tuple(getattr(obj, n) for n in static_names)

    def unflatten(aux, children):
        obj = object.__new__(cls)
        for name, value in (*zip(leaf_names, children, strict=True), *zip(static_names, aux, strict=True)):
            object.__setattr__(obj, name, value)
        return obj

    jax.tree_util.register_pytree_with_keys(cls, flatten_with_keys, unflatten, flatten)
    return cls


def replace(obj: T, **changes: Any) -> T:
    """A copy with other leaves; like rebuilding from leaves, it skips validation, so tracers may go in. What was made of
    the old leaves and is kept beside them is not copied."""
    copy, fields = object.__new__(type(obj)), obj.__dataclass_fields__  # pyright: ignore[reportAttributeAccessIssue]
    for name, value in (vars(obj) | changes).items():
        if name in fields:
            object.__setattr__(copy, name, value)
    return copy


def set_field(obj: Any, name: str, value: Any) -> None:
    """Normalise a field of a frozen dataclass; for `__post_init__` only."""
    object.__setattr__(obj, name, value)


def add_scaled(x: Tree, a: Any, y: Tree) -> Tree:
    """x + a y."""
    return jax.tree.map(lambda p, q: p + a * q, x, y)


def subtract(x: Tree, y: Tree) -> Tree:
    """x - y, leaf by leaf."""
    return jax.tree.map(jnp.subtract, x, y)


def dot(x: Tree, y: Tree) -> Array:
    """<x, y> over the whole tree."""
    return functools.reduce(jnp.add, jax.tree.leaves(jax.tree.map(jnp.vdot, x, y)))  # no start: it would set the dtype


def norm(x: Tree) -> Array:
    """Euclidean norm of the whole tree as one vector."""
    return jnp.sqrt(dot(x, x))


def nonzero(divisor: Array) -> Array:
    """The divisor, or 1 in the place of 0.

    Not the smallest positive number: XLA turns (a / b) / c into a / (b c), and the product of two such is 0.
    """
    return jnp.where(divisor == 0, 1, divisor)


def ravel(x: Tree) -> tuple[Array, Callable[[Array], Tree]]:
    """The tree as one vector, and the way back."""
    if isinstance(x, jax.Array | np.ndarray):  # the usual case needs no concatenation
        shape = jnp.shape(x)
        return jnp.reshape(x, (-1,)), lambda v: jnp.reshape(v, shape)
    return ravel_pytree(x)


def taken_apart(vector: np.ndarray, shapes: list[tuple[int, ...]]) -> list[np.ndarray]:
    """The arrays that were put one after the other into a vector."""
    arrays, first = [], 0
    for shape in shapes:
        last = first + math.prod(shape)
        arrays.append(vector[first:last].reshape(shape))
        first = last
    return arrays


def shaped_like(x: Tree, vector: np.ndarray) -> Tree:
    """A vector as a point like x, on the host."""
    if isinstance(x, np.ndarray | jax.Array):
        return vector.reshape(x.shape)
    leaves, treedef = jax.tree.flatten(x)
    return treedef.unflatten(taken_apart(vector, [leaf.shape for leaf in leaves]))


def astype(x: Tree, dtype: Any) -> Tree:
    """Every floating leaf as an array of one dtype; integer leaves (labels, indices) stay as they are."""

    def cast(leaf):
        if isinstance(leaf, jax.Array) and leaf.dtype == dtype and not leaf.weak_type:
            return leaf
        leaf = leaf if isinstance(leaf, jax.Array) else np.asarray(leaf)  # which is converted without being compiled
        return jnp.asarray(leaf, dtype) if jnp.issubdtype(jnp.result_type(leaf), jnp.floating) else jnp.asarray(leaf)

    return jax.tree.map(cast, x)


def as_numpy(x: Tree) -> Tree:
    """The same in NumPy's arrays, which on a CPU share their memory."""
    return jax.tree.map(np.asarray, x)


def as_vector(x: Tree) -> np.ndarray:
    """The coordinates of a point on the host, leaf after leaf, in float64."""
    return np.concatenate([np.ravel(np.asarray(leaf, float)) for leaf in jax.tree.leaves(x)])


def float_dtype(x: Tree) -> Any:
    """The floating dtype of a tree; JAX's default where it has none."""
    kinds = {v.dtype if isinstance(v, jax.Array) else jnp.result_type(v) for v in jax.tree.leaves(x)}
    floats = [kind for kind in kinds if jnp.issubdtype(kind, jnp.floating)]
    return floats[0] if len(floats) == 1 else jnp.result_type(*(floats or [float]))


def eps_of(x: Tree) -> float:
    """The unit of rounding in a point's precision."""
    return float(jnp.finfo(float_dtype(x)).eps)


def size_of(x: Tree) -> int:
    """How many numbers a tree has, or its shapes stand for."""
    return sum(map(np.size, jax.tree.leaves(x)))


def bytes_of(x: Tree) -> int:
    """How much memory a tree takes, or its shapes stand for."""
    return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(x))


def all_finite(x: Tree) -> Array:
    """True when no leaf holds a NaN or an infinity."""
    checks = [jnp.all(jnp.isfinite(v)) for v in jax.tree.leaves(x) if jnp.issubdtype(jnp.result_type(v), jnp.inexact)]
    return jnp.all(jnp.stack(checks)) if checks else jnp.asarray(True)


class Mean(NamedTuple):
    """A running mean that does not drift: a plain float32 sum is off by percents after 1e7 terms.

    Terms are added plainly in short groups; each group's sum then enters the total by Kahan's summation. That costs no
    more than a plain sum, and the error stays that of a group.
    """

    total: Tree  # sum of the groups so far, rounded
    lost: Tree  # what rounding took from `total`
    recent: Tree  # sum of the current group

    @classmethod
    def zeros_like(cls, v: Tree) -> "Mean":
        """An empty mean of values shaped like `v`."""
        zeros = jax.tree.map(jnp.zeros_like, v)
        return cls(zeros, zeros, zeros)

    def add(self, v: Tree) -> "Mean":
        """With `v` (already times its weight) in the current group."""
        return self._replace(recent=jax.tree.map(jnp.add, self.recent, v))

    def close_group(self) -> "Mean":
        """With the current group in the total, compensated for rounding."""
        term = jax.tree.map(jnp.subtract, self.recent, self.lost)
        total = jax.tree.map(jnp.add, self.total, term)
        lost = jax.tree.map(lambda new, old, y: (new - old) - y, total, self.total, term)
        return Mean(total, lost, jax.tree.map(jnp.zeros_like, self.recent))

    def sum(self) -> Tree:
        """Everything added so far."""
        return jax.tree.map(jnp.add, self.total, self.recent)
