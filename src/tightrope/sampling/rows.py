"""Rows at hand: a finite data set, visited in reshuffled passes."""

from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding

from tightrope._errors import whole_number
from tightrope.precision import digits
from tightrope.sampling.data import Draws, Plan, Sampler, as_held, data_of, refuse_what_is_no_number
from tightrope.sampling.mesh.shards import SHARDS, asked_mesh, spread_over
from tightrope.sampling.stream import Stream
from tightrope.tree import Tree, pytree, replace, set_field, static

_LARGE = 1 << 28  # bytes of an array that is not brought to the host only to be looked at: a guess


@pytree
class Rows(Sampler):
    """A finite data set: a pytree of arrays with one sample per row.

    Rows are visited in reshuffled passes; with `replace=True` they are drawn independently, as the theorems assume.
    Batches straddle passes, so their shapes never change.

    With a mesh, rows are spread over its devices in logical shards; each batch takes its share from every shard, and
    devices add up what they find in one collective a step. Samples depend on the number of shards and not on that of
    devices. Arrays that are spread over devices already need no mesh. Where the mesh has devices of several processes, each
    process gives its own rows: together, in the order of processes, they are the data set.

    Args:
        data: a pytree of arrays with a row per sample.
        replace: whether rows are drawn independently (on a mesh, within a shard).
        mesh: the devices, a `jax.sharding.Mesh`; by default the one where everything is computed.
        shards: on a mesh, how many logical shards there are: a multiple of the number of devices.

    Example:
        >>> import numpy as np, tightrope as tr
        >>> tr.Rows((np.ones((10, 3)), np.zeros(10))).n
        10
    """

    data: Tree
    replace: bool = static(default=False)
    mesh: Any = static(default=None)
    shards: int = static(default=SHARDS)

    def __post_init__(self):
        if data_of(self.data) is self.data:  # those of an earlier sampler
            return
        whole_number("Rows", "shards", self.shards)
        spread = (leaf.sharding.mesh for leaf in jax.tree.leaves(self.data) if _on_devices(leaf))
        mesh = next(spread, None) if self.mesh is None else self.mesh
        with digits():  # rows keep the digits that they have
            if mesh is None:
                set_field(self, "data", jax.tree.map(jnp.asarray, _checked(self.data)))
            else:
                set_field(self, "data", spread_over(asked_mesh(mesh, self.shards), self.shards, self.data, _checked))

    @cached_property
    def _all(self) -> Any:
        return data_of(self.data)

    @cached_property
    def n(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        """How many rows there are."""
        return self._all.n

    @cached_property
    def together(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self._all.together

    @cached_property
    def rows(self) -> Tree:  # pyright: ignore[reportIncompatibleMethodOverride]
        return self.data

    @property
    def content(self) -> tuple[Any, ...]:
        return self._all.marks, str(self.replace)

    def some(self, count: int, seed: int) -> Tree:
        return self._all.some(count, seed)

    def in_order(self, count: int) -> Tree | None:
        """Eight stretches of neighbouring rows, evenly spaced, or all rows."""
        if not self._all.in_memory:
            return None
        each = max(1, count // 8)
        starts = np.linspace(0, max(self.n - each, 0), 8).astype(int) if self.n > count else np.arange(0, self.n, each)
        return self._all.rows(jnp.asarray(np.unique(starts[:, None] + np.arange(each))[:count]))

    def example(self) -> Tree:
        return self._all.row

    def check(self, plan: Plan) -> None:
        """Without replacement a batch cannot hold more rows than there are."""
        if plan.batch_size > self.n and not self.replace:
            raise ValueError(
                f"batch_size is {plan.batch_size} but the data has {self.n} rows. Use a smaller batch, or "
                "tr.Rows(data, replace=True) to draw with replacement."
            )

    def open(self, plan: Plan) -> Draws:
        return self._all.draws(plan, self.replace)

    def placed(self, point: Tree) -> Tree:
        return self._all.placed(point)

    def pick(self, item: Tree) -> Tree:
        return self._all.pick(item)

    def narrowed(self) -> "Rows":
        if all(leaf.dtype == jax.dtypes.canonicalize_dtype(leaf.dtype) for leaf in jax.tree.leaves(self.data)):
            return self
        return replace(self, data=jax.tree.map(as_held, self.data))


def _on_devices(leaf: Any) -> bool:
    """Whether an array is spread over devices by its rows already."""
    kind = getattr(leaf, "sharding", None)
    return isinstance(kind, NamedSharding) and bool(leaf.ndim) and kind.shard_shape(leaf.shape)[0] < leaf.shape[0]


def _checked(data: Tree) -> Tree:
    """The rows as arrays; refuses what is none."""
    if not jax.tree.leaves(data):
        raise ValueError("Rows: the data is empty; expected at least one array with a row per sample.")
    rows = jax.tree.map(_as_rows, data)
    lengths = {np.shape(leaf)[0] for leaf in jax.tree.leaves(rows)}
    if len(lengths) > 1:
        raise ValueError(
            f"Rows: the arrays have {', '.join(map(str, sorted(lengths)))} rows; expected the same number in each."
        )
    if lengths == {0}:
        raise ValueError("Rows: the data set has no rows; expected at least one sample.")
    return rows


def _as_rows(leaf: Any) -> Any:
    array = leaf if isinstance(leaf, jax.Array) else np.asarray(leaf)
    refuse_what_is_no_number("Rows: the data has", array)
    if array.ndim == 0:
        raise ValueError(
            "Rows: a single number was given; expected arrays with one row per sample. Lists become one by np.array(data)."
        )
    if array.dtype.kind == "f" and not _all_finite(array):
        bad = int(np.argwhere(~np.isfinite(np.asarray(array)))[0][0])
        raise ValueError(
            f"Rows: the data has NaN or infinite values (first in row {bad}); expected finite numbers. "
            "Drop or impute them first."
        )
    return array


def _all_finite(array: Any) -> bool:
    """Whether it is finite; where it lies, if that is no ordinary memory."""
    at_hand = isinstance(array, np.ndarray) or (array.is_fully_addressable and array.nbytes < _LARGE)
    return bool(np.all(np.isfinite(array))) if at_hand else bool(jnp.all(jnp.isfinite(array)))


# ---- what data is ----------------------------------------------------------------------------------------------------


def as_sampler(data: Any) -> Sampler:
    """Arrays become `Rows`, loaders that give batches a `Stream`; samplers stay."""
    if isinstance(data, Sampler):
        return data
    if callable(data):
        raise TypeError(
            "data is a function; say what it is: tr.Generator(fn) for fn(key) -> theta, tr.Stream(factory) for "
            "factory(skip) -> batches."
        )
    if isinstance(data, Iterator):
        raise TypeError("data is an iterator; wrap it in tr.Stream, which reads batches from anywhere.")
    if _is_loader(data):
        return Stream(data)
    return Rows(data)


def _is_loader(data: Any) -> bool:
    """Whether it gives batches one after the other, as a DataLoader does, and is no array or container of arrays."""
    array = any(hasattr(data, name) for name in ("__array__", "shape", "columns", "__dataframe__"))
    return isinstance(data, Iterable) and not array and jax.tree_util.all_leaves([data]) and not isinstance(data, str)
