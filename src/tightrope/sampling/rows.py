"""All the rows of a source, `Data`, for whoever looks at them; and `Rows`, the source that is a finite data set at hand.

Data is arrays, files that are read in slices, or either over devices. Who looks at all rows asks what every kind can say,
and does not know which it has. Arrays come as they are, in whatever pytree; `data_of` is the one place that tells them from
the other kinds.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from operator import attrgetter
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding

from tightrope._errors import refuse_what_is_no_number, refuse_what_wraps, whole_number
from tightrope.given import unmasked
from tightrope.precision import digits, platform
from tightrope.sampling.sampler import BLOCK_BYTES, Blocks, Draws, Order, Plan, Sampler
from tightrope.sampling.stream import Stream
from tightrope.tree import Array, Tree, bytes_of, pytree, replace, set_field, static

KEPT_ROWS = 1 << 16  # rows of a sample that stays at hand, at most: a guess, by which a mean is known to half a percent
_LARGE = 8 * BLOCK_BYTES  # bytes of an array that is not brought to the host only to be looked at
SHARDS = 64  # logical shards by default: a guess, as many devices as most have
_MOST_ROWS = 1024  # rows in a slice on a CPU, at most; measured (docs/decisions.md): rows of few numbers gain no more
MOST_ROWS_OF_SLOPES = 256  # the same with gradients; measured (there): they take a third longer from 600 rows on
_CACHE = 1 << 18  # bytes of a slice that a core's cache holds beside what is made of them: a guess; long rows gain half
READ, _MOST_READ = 1 << 20, 1 << 14  # bytes and rows of one that is read from files: a guess; to ask takes 0.1 ms
_BUSY, _BUSY_ROWS = 2 * BLOCK_BYTES, 1 << 17  # bytes and rows of a slice on an accelerator, to keep it busy: a guess

OfSlice = Callable[[Tree, Array], Tree]  # what a slice adds to a sum, given its rows and what each of them weighs
Sums = Callable[[OfSlice, "Data", Any], Tree]  # the sum over the slices of a part, of which so many rows count


class Data(ABC):
    """All the rows there are."""

    n: int
    arrays: Tree  # those that are held: all rows, or some
    in_memory = False  # whether these are all rows, as they are

    @property
    def least(self) -> int:
        """How many rows there are at least, a number that is never traced: a slice is no longer."""
        return self.n

    @abstractmethod
    def take(self, start: Any, size: int, step: Any = None) -> Tree:
        """Rows start .. start+size-1, as arrays; with a step rows start, start + step, ..., repeated beyond the end, or of
        what is not at hand the nearest ones that are. Numbers may be traced."""

    @abstractmethod
    def few(self, step: int | None = None) -> Tree:
        """About every `step`-th row, from the first on, of those at hand without reading; by default all of these."""

    def fold(self, sums: Sums, of_slice: OfSlice) -> Tree:
        """What `sums` makes of all rows: added up over the parts, where they are in parts."""
        return sums(of_slice, self, self.n)

    @property
    def row(self) -> Tree:
        """The shapes and dtypes of one row."""
        return jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape[1:], a.dtype), self.arrays)

    @property
    def bytes_a_row(self) -> int:
        """How much memory a row takes."""
        return bytes_of(self.row)

    def a_slice(self, slopes: bool = False) -> int:
        """How many rows are taken at once: as many as a cache holds beside what is made of them, values or also slopes, or
        as keep an accelerator busy."""
        a_row = max(1, self.bytes_a_row)
        if platform() != "cpu":
            return max(_MOST_ROWS, min(_BUSY_ROWS, _BUSY // a_row))
        if not self.in_memory:
            return min(_MOST_READ, 1 << max(8, (READ // a_row).bit_length() - 1))
        most = MOST_ROWS_OF_SLOPES if slopes else _MOST_ROWS
        return min(most, 1 << max(4, (_CACHE // a_row).bit_length() - 1))


class Indexed(Data):
    """Rows that lie where the steps are taken: any of them can be had by its number, and a run draws from them."""

    together = False  # whether several processes have parts of them

    @property
    @abstractmethod
    def marks(self) -> Any:
        """What tells these rows from others, wherever they lie."""

    @abstractmethod
    def rows(self, index: Any) -> Tree:
        """The rows with these numbers, which may be traced; beyond the end the last one."""

    @abstractmethod
    def draws(self, plan: Plan, replace: bool) -> Draws:
        """Begin to draw, in reshuffled passes or independently; `pick` knows what is drawn."""

    @abstractmethod
    def pick(self, item: Tree) -> Tree:
        """The samples that an item of a buffer stands for; runs inside the compiled loop."""

    def some(self, count: int, seed: int) -> Tree:
        """At most so many rows, drawn without replacement."""
        return self.rows(jnp.asarray(np.random.default_rng(seed).permutation(self.n)[:count]))

    def placed(self, point: Tree) -> Tree:
        """A point where the steps are taken."""
        return point

    def take(self, start: Any, size: int, step: Any = None) -> Tree:
        return self.rows(start + jnp.arange(size) * (1 if step is None else step))


class Arrays(Indexed):
    """Arrays in memory, with a row per sample."""

    in_memory = True

    def __init__(self, arrays: Tree):
        self.arrays = arrays

    @property
    def n(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        """How many rows there are."""
        return jax.tree.leaves(self.arrays)[0].shape[0]

    @property
    def marks(self) -> Tree:
        return self.arrays

    def rows(self, index: Any) -> Tree:
        return jax.tree.map(lambda a: jnp.take(a, index, axis=0, mode="clip"), self.arrays)

    def take(self, start: Any, size: int, step: Any = None) -> Tree:
        """A slice, which is no lookup."""
        if step is not None:
            return super().take(start, size, step)
        return jax.tree.map(lambda a: jax.lax.dynamic_slice_in_dim(a, start, size), self.arrays)

    def few(self, step: int | None = None) -> Tree:
        return self.arrays if step is None else jax.tree.map(lambda a: a[::step], self.arrays)

    def draws(self, plan: Plan, replace: bool) -> Draws:
        return Blocks(plan, 4, Order(self.n, replace, plan))

    def pick(self, item: Tree) -> Tree:
        return jax.tree.map(lambda a: a[item], self.arrays)


class Numbered(Data):
    """Rows of any kind beside their numbers: a slice is (rows, numbers)."""

    def __init__(self, data: Tree):
        self.data = data_of(data)
        self.n, self.in_memory = self.data.n, self.data.in_memory
        self.arrays = self.data.arrays, np.zeros(0, jnp.result_type(int))

    def take(self, start: Any, size: int, step: Any = None) -> Tree:
        return self.data.take(start, size, step), start + jnp.arange(size) * (1 if step is None else step)

    def few(self, step: int | None = None) -> Tree:
        return self.data.few(step)


def data_of(rows: Tree) -> Data:
    """What can be asked of rows, whichever kind they are."""
    return rows if isinstance(rows, Data) else Arrays(rows)


def count(rows: Tree) -> int:
    """How many rows there are."""
    return data_of(rows).n


def one_row(rows: Tree) -> Tree:
    """The shapes and dtypes of one row."""
    return data_of(rows).row


def first_row(rows: Tree) -> Tree:
    """One row, with an axis of rows."""
    data = data_of(rows)
    return data.few(data.n)


def spread(rows: Tree, step: int) -> Tree:
    """About every `step`-th row; of files among those that are kept."""
    return data_of(rows).few(step)


def kept(rows: Tree) -> Tree:
    """The rows that are in memory: all of them, the few that are kept of files, or as few of those on a mesh."""
    return data_of(rows).few()


# ---- the data set of a run ---------------------------------------------------------------------------------------------


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
                from tightrope.sampling.mesh.shards import asked_mesh, spread_over  # which are made of what is above

                set_field(self, "data", spread_over(asked_mesh(mesh, self.shards), self.shards, self.data, _checked))

    @cached_property
    def _all(self) -> Any:
        return data_of(self.data)

    @cached_property
    def n(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        """How many rows there are."""
        return self._all.n

    together = property(attrgetter("_all.together"))  # pyright: ignore[reportAssignmentType]
    rows = property(attrgetter("data"))  # pyright: ignore[reportIncompatibleMethodOverride]

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


def as_held(leaf: Any) -> Any:
    """An array with the digits that JAX computes with now; refuses whole numbers that it could not hold."""
    if leaf.dtype == jax.dtypes.canonicalize_dtype(leaf.dtype):
        return leaf
    if leaf.is_fully_addressable:
        refuse_what_wraps("Rows", np.asarray(leaf))
    return leaf.astype(jax.dtypes.canonicalize_dtype(leaf.dtype))


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
    array = leaf if isinstance(leaf, jax.Array) else np.asarray(unmasked("Rows: the data", leaf))
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
