"""Parquet files, larger than memory: visited in shuffled passes, and read in slices by whoever looks at all of them."""

import contextlib
import copy
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from tightrope._errors import refuse_what_wraps, whole_number
from tightrope._jaxlib import compiled
from tightrope.precision import digits
from tightrope.sampling.mesh.files import OnMesh
from tightrope.sampling.mesh.shards import asked_mesh
from tightrope.sampling.parquet_files import Columns, Decode, Files, decoded, names_in
from tightrope.sampling.parquet_reading import InOrder, Visit, joined
from tightrope.sampling.rows import KEPT_ROWS, READ, Arrays, kept
from tightrope.sampling.sampler import BLOCK_BYTES, Blocks, Draws, Order, Plan, Sampler, length
from tightrope.sampling.streamed import streamed
from tightrope.tree import Array, Tree, bytes_of

if TYPE_CHECKING:
    import pyarrow as pa

_AT_ONCE_BYTES = 2 * READ  # bytes that are decoded at once
_KEPT_BYTES = BLOCK_BYTES // 2  # of that sample, at most
_KEPT_GROUPS = 32  # row groups that it is from, at most: a guess, because each is read whole
_ALIGNMENT = 64  # bytes; what JAX asks of an array that it takes over without a copy
_SHARDS = 16  # over a mesh, by default: a guess, fewer than of rows, because each has a row group open, all at once


class Parquet(Sampler):
    """Rows of Parquet files, in shuffled passes, never more than two buffers of them in memory.

    Row groups are visited in a random order, another one in every pass, and cut into buffers; rows within a buffer are
    shuffled. Each is a function of (seed, pass) alone, so a run resumes where it stood, and reads only the row groups that
    it still needs. A thread reads ahead. Files that fit into one buffer are read once and are then the same as `Rows`.

    Methods that look at all the data do so in one pass over the files, a slice at a time: a refresh of SVRG-CSOA, the gap,
    `output="feasible"` and `trace_full` mean the same as on arrays.

    Args:
        path: a folder, a file, a pattern such as "data/2024-*.parquet", a list of these, or an address that Arrow opens
            ("s3://bucket/folder").
        columns: what a sample is made of: the name of a column gives a number, a list of names a vector, and tuples or
            dicts of these what they look like. By default a dict of all columns.
        dtypes: one for all columns, or by name; by default those of the files.
        categories: the values of columns of text, by name: a value becomes its place in the list. Where none are given
            they are found by reading that column once, in alphabetical order.
        shuffle: how many rows are shuffled together; True for as many as take 32 MiB, False for the order of the files.
            Rows that stand together in a file should not be alike, or row groups small: a buffer should hold several.
        decode: a function of a `pyarrow.RecordBatch` that returns a sample's arrays, one row per row, for what the
            arguments above cannot say. `columns` is then the list of columns to read.
        mesh: devices, a `jax.sharding.Mesh`, of this process or of several that all see the same files: each reads the row
            groups of its own devices, and they add up what they find in one collective a step. Samples do not depend on how
            many devices there are.
        shards: on a mesh, into how many logical shards the row groups are shared out, in their order: a multiple of the
            number of devices, and no more than there are row groups.

    Example:
        >>> import os, tempfile, pyarrow as pa, pyarrow.parquet as pq, tightrope as tr
        >>> folder = tempfile.TemporaryDirectory()
        >>> table = pa.table({"age": [31.0, 52.0, 47.0], "income": [1.0, 2.5, 2.0], "sex": ["f", "m", "f"]})
        >>> pq.write_table(table, os.path.join(folder.name, "part-0.parquet"))
        >>> people = tr.Parquet(folder.name, columns=(["age", "income"], "sex"))
        >>> people.n, people.categories
        (3, {'sex': ['f', 'm']})
        >>> problem = tr.Problem(lambda x, theta: ((x - theta[0]) ** 2).sum(), None, tr.Box(0.0, 100.0, shape=2))
        >>> [f"{v:.1f}" for v in tr.minimize(problem, people).x]
        ['43.3', '1.8']
        >>> folder.cleanup()
    """

    def __init__(
        self,
        path: Any,
        columns: Any = None,
        *,
        dtypes: Any = None,
        categories: Mapping[str, Sequence[Any]] | None = None,
        shuffle: bool | int = True,
        decode: Callable[["pa.RecordBatch"], Tree] | None = None,
        mesh: Any = None,
        shards: int = _SHARDS,
    ):
        whole_number("Parquet", "shards", shards)
        self.place = Alone() if mesh is None else OnMesh(asked_mesh(mesh, shards), shards)
        if isinstance(shuffle, bool):
            rows = None if shuffle else 0
        elif isinstance(shuffle, int | np.integer) and shuffle > 0:
            rows = int(shuffle)
        else:
            raise ValueError(
                f"Parquet: shuffle is {shuffle!r}; expected True, False, or how many rows are shuffled together."
            )
        if decode is not None and (dtypes is not None or categories is not None):
            raise ValueError(
                "Parquet: decode was given, and dtypes or categories, too; expected decode to see to them."
            )
        with self.place.opening(self), digits():
            self._read(path, columns, dtypes, categories, decode, rows)

    def _read(self, path: Any, columns: Any, dtypes: Any, categories: Any, decode: Any, rows: int | None) -> None:
        """What the footers and the first rows say."""
        wanted = None if columns is None else names_in(columns)
        self.files = files = Files(path, wanted)
        self.n: int = files.n  # pyright: ignore[reportIncompatibleVariableOverride]
        self.columns = wanted or files.columns
        self.categories: dict[str, list[Any]] = {}
        self.decode: Decode
        if decode is None:
            layout = {name: name for name in files.columns} if columns is None else columns
            self.decode = made = Columns(files, layout, dtypes, categories or {})
            self.categories = made.categories
        else:
            self.decode = decode
        self._example, self.row_bytes = self._first()
        self.shuffle = max(1, BLOCK_BYTES // self.row_bytes) if rows is None else rows
        self._rows: Tree = None  # what methods look at, once one has

    @property
    def together(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.place.together

    def __repr__(self) -> str:
        return f"Parquet({len(self.files.names):,} files, {self.n:,} rows, {len(self.columns)} columns)"

    def _first(self) -> tuple[Tree, int]:
        """The shapes and dtypes of a sample, and how many bytes it takes, by the first rows."""
        rows = next(decoded(self.files, 0, self.decode, self.columns, 64))
        kinds = jax.tree.map(
            lambda a: jax.ShapeDtypeStruct(np.shape(a)[1:], jax.dtypes.canonicalize_dtype(np.asarray(a).dtype)), rows
        )
        return kinds, max(1, bytes_of(kinds))

    @property
    def fits(self) -> bool:
        """Whether all rows fit into a buffer."""
        return self.n <= self.shuffle and self.n * self.row_bytes <= BLOCK_BYTES

    @property
    def buffer_rows(self) -> int:
        """How many rows are read at a time, and shuffled together where they are shuffled."""
        return self.shuffle or max(1, BLOCK_BYTES // (4 * self.row_bytes))

    @property
    def rows(self) -> Tree:
        """All the data: arrays where they fit into a buffer; else read in slices, with a sample in memory."""
        if self._rows is None:
            with digits():  # in the dtypes of `example`, whoever asks first
                self._rows = self.place.rows(self)
        return self._rows

    def narrowed(self) -> "Parquet":
        kinds = jax.tree.map(lambda k: jax.dtypes.canonicalize_dtype(k.dtype), self._example)
        if kinds == jax.tree.map(lambda k: k.dtype, self._example):
            return self
        other = copy.copy(self)
        other._example = jax.tree.map(lambda k, kind: jax.ShapeDtypeStruct(k.shape, kind), self._example, kinds)
        other._rows = None
        return other

    def sample(self) -> Tree:
        """Rows spread evenly over some of the row groups, which are spread evenly over the files."""
        groups, most = self.files.groups, min(self.n, KEPT_ROWS, max(1024, _KEPT_BYTES // self.row_bytes))
        if most == self.n:
            return joined(list(self.batches()))
        every = max(1, len(groups) / _KEPT_GROUPS)
        some = [int(k * every) for k in range(min(len(groups), _KEPT_GROUPS))]
        step, parts, offset = -(-sum(groups[number].rows for number in some) // most), [], 0
        for number in some:
            for batch in self.of_groups([number], 0):
                parts.append(jax.tree.map(lambda a, k=offset: a[k::step].copy(), batch))
                offset = (offset - length(batch)) % step
        return joined(parts)

    @property
    def _at_once(self) -> int:
        return max(64, _AT_ONCE_BYTES // self.row_bytes)

    def batches(self, start: int = 0) -> Iterator[Tree]:
        """All rows from row `start` on in the order of the files, as NumPy arrays, batch by batch.

        Example:
            >>> import os, tempfile, pyarrow as pa, pyarrow.parquet as pq, tightrope as tr
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     pq.write_table(pa.table({"age": [31, 52, 47]}), os.path.join(folder, "a.parquet"))
            ...     [batch.tolist() for batch in tr.Parquet(folder, "age").batches(start=1)]
            [[52, 47]]
        """
        first = int(np.searchsorted(self.files.starts, start, side="right")) - 1
        return self.of_groups(range(first, len(self.files.groups)), start - int(self.files.starts[first]))

    def of_groups(self, numbers: Sequence[int], skip: int) -> Iterator[Tree]:
        """The rows of these row groups, without so many of the first one's."""
        for number in numbers:
            for batch in decoded(self.files, number, self.decode, self.columns, self._at_once, skip):
                yield jax.tree.map(_as_declared, batch, self._example)
            skip = 0

    @property
    def content(self) -> tuple[Any, ...]:
        """The files, and what is read of them in which order."""
        shards = () if self.place.number is None else (str(self.place.number),)
        return self.files.content, str(self.columns), str(self.shuffle), str(self.categories), *shards

    def example(self) -> Tree:
        return self._example

    def some(self, count: int, seed: int) -> Tree:
        return Arrays(kept(self.rows)).some(count, seed)

    def check(self, plan: Plan) -> None:
        """A batch cannot hold more rows than there are."""
        if plan.batch_size > self.n:
            raise ValueError(
                f"batch_size is {plan.batch_size} but the files have {self.n:,} rows. Use a smaller batch."
            )

    def open(self, plan: Plan) -> Draws:
        return self.place.draws(self, plan)

    def placed(self, point: Tree) -> Tree:
        return self.place.placed(point)

    def pick(self, item: Tree) -> Tree:
        return self.place.pick(item)


def _as_declared(rows: Any, kind: jax.ShapeDtypeStruct) -> np.ndarray:
    """Rows with the digits that are asked for; whole numbers that would wrap are refused."""
    array = np.asarray(rows)
    if array.shape[1:] != kind.shape:
        raise TypeError(
            f"Parquet: decode returns rows of shapes {kind.shape} and {array.shape[1:]}; expected them alike."
        )
    if kind.dtype.kind in "iu":
        refuse_what_wraps("Parquet", array, kind.dtype)
    return array.astype(kind.dtype, copy=False)


def _at(place: Any, _: Any) -> Parquet:
    source = object.__new__(Parquet)
    source.place = place
    return source


# To compiled code all of them are alike, but for the mesh: what they read reaches it through buffers.
jax.tree_util.register_pytree_node(Parquet, lambda source: ((), source.place), _at)


@dataclass(frozen=True)
class Alone:
    """How files are read where they have no mesh."""

    together = False
    number = None  # of shards

    def opening(self, source: Parquet) -> contextlib.AbstractContextManager[None]:
        """Nobody else has to know."""
        return contextlib.nullcontext()

    def rows(self, source: Parquet) -> Tree:
        """Arrays where they fit into a buffer, else a source that is read in slices."""
        if source.fits:
            return jax.tree.map(jnp.asarray, joined(list(source.batches())))
        return streamed(InOrder(source), source.n, source.sample())

    def draws(self, source: Parquet, plan: Plan) -> Draws:
        """Blocks of samples: looked up where all rows are in memory, else read."""
        if source.fits:
            order, rows = Order(source.n, False, plan), source.rows
            return Blocks(plan, source.row_bytes, lambda *block: _gathered(rows, order(*block)))
        return Blocks(plan, source.row_bytes, _Visits(source, plan), aligned=False)

    def placed(self, point: Tree) -> Tree:
        """It is where it is."""
        return point

    def pick(self, item: Tree) -> Tree:
        """They are the samples."""
        return item


@compiled
def _gathered(rows: Tree, order: Array) -> Tree:
    return jax.tree.map(lambda a: a[order], rows)


class _Visits:
    """The samples of steps, a visit of its own for every seed and draw. Rows follow from their number, so it does not matter
    where a block begins."""

    def __init__(self, source: Parquet, plan: Plan):
        self.source, self.plan = source, plan
        rows, every = plan.steps * plan.batch_size, range(len(source.files.groups))
        keys = itertools.product(plan.seeds, range(plan.draws))
        self.visits = {key: Visit(source, key, every, rows, source.buffer_rows) for key in keys}

    def __call__(self, start: int, steps: int, length: int) -> Tree:
        """Samples of so many steps, shaped (seeds, length, draws, batch, ...); the rest only fills the shape."""
        b, shape = self.plan.batch_size, (len(self.plan.seeds), self.plan.draws, length)
        out = jax.tree.map(lambda s: _aligned((*shape, b, *s.shape), s.dtype), self.source.example())
        for (i, seed), draw in itertools.product(enumerate(self.plan.seeds), range(self.plan.draws)):
            places = jax.tree.map(lambda a, i=i, draw=draw: a[i, draw, :steps], out)
            self.visits[seed, draw].read(start * b, steps * b, places)
        for leaf in jax.tree.leaves(out):
            leaf[:, :, steps:] = 0
        return jax.tree.map(lambda a: jnp.asarray(np.moveaxis(a, 1, 2)), out)


def _aligned(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """An array that begins where JAX can take it over on a CPU without copying it."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    room = np.empty(size + _ALIGNMENT, np.uint8)
    begin = -room.ctypes.data % _ALIGNMENT
    return room[begin : begin + size].view(dtype).reshape(shape)
