"""Parquet files, larger than memory: visited in shuffled passes, and read in slices by whoever looks at all of them."""

import itertools
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Lock
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from tightrope.sampling.all_rows import Reader, Streamed
from tightrope.sampling.base import Blocks, Buffer, Draws, Plan, Sampler, block_length
from tightrope.sampling.parquet_files import Columns, Decode, Files, decoded, names_in
from tightrope.sampling.rows import Order
from tightrope.tree import Array, Tree

if TYPE_CHECKING:
    import pyarrow as pa

_BUFFER_BYTES = 32 * 2**20  # rows that are shuffled together, by default
_AT_ONCE_BYTES = 2 * 2**20  # decoded at once
_KEPT_ROWS, _KEPT_BYTES, _KEPT_GROUPS = 65_536, 16 * 2**20, 32  # of a sample that stays in memory, and where it is from
_ALIGNMENT = 64  # bytes
_PASSES = 3  # that are under way at once
_AHEAD = 2  # batches or buffers that are read while one is computed on


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
    ):
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
        wanted = None if columns is None else names_in(columns)
        self.files = files = path if isinstance(path, Files) else Files(path, wanted)
        self.n: int = files.n  # pyright: ignore[reportIncompatibleVariableOverride]
        self.columns = wanted or files.columns
        self.categories: dict[str, list[Any]] = {}
        if decode is None:
            layout = {name: name for name in files.columns} if columns is None else columns
            made: Any = Columns(files, layout, dtypes, categories or {})
            self.categories, self.narrowed = made.categories, made.narrowed
        else:
            made = decode if getattr(decode, "numbered", False) else lambda batch, _: decode(batch)
        self.decode: Decode = made
        self._example, self.row_bytes = self._first()
        self.shuffle = max(1, _BUFFER_BYTES // self.row_bytes) if rows is None else rows
        self._rows: Tree = None  # what methods look at, once one has

    def __repr__(self) -> str:
        return f"Parquet({len(self.files.names):,} files, {self.n:,} rows, {len(self.columns)} columns)"

    def _first(self) -> tuple[Tree, int]:
        """The shapes and dtypes of a sample, and how many bytes it takes, by the first rows."""
        rows = next(decoded(self.files, 0, self.decode, self.columns, 64))
        length = min(64, self.files.groups[0].rows)
        leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(rows)]
        if not leaves or any(leaf.ndim == 0 or len(leaf) != length or leaf.dtype.kind not in "fiub" for leaf in leaves):
            raise TypeError(
                f"Parquet: decode returns {jax.tree.map(lambda a: (np.shape(a), np.asarray(a).dtype), rows)} for a batch of "
                f"{length} rows; expected arrays of numbers with a row for each."
            )
        kinds = jax.tree.map(
            lambda a: jax.ShapeDtypeStruct(np.shape(a)[1:], jax.dtypes.canonicalize_dtype(np.asarray(a).dtype)), rows
        )
        return kinds, max(1, sum(kind.size * kind.dtype.itemsize for kind in jax.tree.leaves(kinds)))

    @property
    def in_memory(self) -> bool:
        """Whether all rows fit into a buffer, and are kept as arrays."""
        return self.n <= self.shuffle and self.n * self.row_bytes <= _BUFFER_BYTES

    @property
    def rows(self) -> Tree:
        """All the data: arrays where they fit into a buffer; else read in slices, with a sample in memory."""
        if self._rows is None:
            if self.in_memory:
                self._rows = jax.tree.map(jnp.asarray, _joined(list(self.batches())))
            else:
                self._rows = Streamed(_InOrder(self), self.n, self._sample())
        return self._rows

    def _sample(self) -> Tree:
        """Rows spread evenly over some of the row groups, which are spread evenly over the files."""
        groups, most = self.files.groups, min(self.n, _KEPT_ROWS, max(1024, _KEPT_BYTES // self.row_bytes))
        if most == self.n:
            return _joined(list(self.batches()))
        every = max(1, len(groups) / _KEPT_GROUPS)
        some = [int(k * every) for k in range(min(len(groups), _KEPT_GROUPS))]
        step, parts, offset = -(-sum(groups[number].rows for number in some) // most), [], 0
        for number in some:
            for batch in self._of_groups([number], 0):
                parts.append(jax.tree.map(lambda a, k=offset: a[k::step].copy(), batch))
                offset = (offset - len(jax.tree.leaves(batch)[0])) % step
        return _joined(parts)

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
        return self._of_groups(range(first, len(self.files.groups)), start - int(self.files.starts[first]))

    def _of_groups(self, numbers: Sequence[int], skip: int) -> Iterator[Tree]:
        for number in numbers:
            for batch in decoded(self.files, number, self.decode, self.columns, self._at_once, skip):
                yield jax.tree.map(lambda a, kind: np.asarray(a).astype(kind.dtype, copy=False), batch, self._example)
            skip = 0

    @property
    def content(self) -> tuple[Any, ...]:
        """The files, and what is read of them in which order."""
        return self.files.content, str(self.columns), str(self.shuffle), str(self.categories)

    def example(self) -> Tree:
        """The shapes and dtypes of one sample."""
        return self._example

    def some(self, count: int, seed: int) -> Tree:
        """At most so many of the rows that are kept."""
        rows = self.rows.few if isinstance(self.rows, Streamed) else self.rows
        order = np.random.default_rng(seed).permutation(len(jax.tree.leaves(rows)[0]))[:count]
        return jax.tree.map(lambda a: a[jnp.asarray(order)], rows)

    def check(self, plan: Plan) -> None:
        """A batch cannot hold more rows than there are."""
        if plan.batch_size > self.n:
            raise ValueError(
                f"batch_size is {plan.batch_size} but the files have {self.n:,} rows. Use a smaller batch."
            )

    def open(self, plan: Plan) -> Draws:
        """Blocks of samples; a visit of its own for every seed and draw."""
        if self.in_memory:
            order, rows = Order(self.n, False, plan), self.rows
            return Blocks(plan, self.row_bytes, lambda start, count: _gathered(rows, order(start, count)))
        return _FileDraws(self, plan)


# To compiled code all of them are alike: what they read reaches it through buffers.
jax.tree_util.register_pytree_node(Parquet, lambda _: ((), None), lambda *_: object.__new__(Parquet))


@jax.jit
def _gathered(rows: Tree, order: Array) -> Tree:
    return jax.tree.map(lambda a: a[order], rows)


def _joined(parts: list[Tree]) -> Tree:
    return parts[0] if len(parts) == 1 else jax.tree.map(lambda *pieces: np.concatenate(pieces), *parts)


class _FileDraws(Draws):
    """Blocks of samples, a visit of its own for every seed and draw. A block begins at the step that is asked for, so that
    a resumed run reads nothing that it has used; rows follow from their number, so it does not matter where that is."""

    def __init__(self, source: Parquet, plan: Plan):
        self.source, self.plan = source, plan
        which, rows = itertools.product(plan.seeds, range(plan.draws)), plan.steps * plan.batch_size
        self.visits = {(seed, draw): _Visit(source, seed, draw, rows) for seed, draw in which}
        self.length = block_length(source.row_bytes * plan.draws * plan.batch_size * len(plan.seeds))
        self.start, self.end, self.items = 0, 0, ()

    def take(self, t: int, count: int) -> Buffer:
        if not self.start <= t < self.end:
            self.start, self.end = t, min(t + self.length, self.plan.steps)
            self.items = self._block(t, self.end - t)
        return Buffer(self.items, t - self.start, min(count, self.end - t))

    def _block(self, start: int, steps: int) -> Tree:
        (seeds, draws, b, _), shape = self.plan, (len(self.plan.seeds), self.plan.draws, self.length)
        out = jax.tree.map(lambda s: _aligned((*shape, b, *s.shape), s.dtype), self.source.example())
        for i, seed in enumerate(seeds):
            for draw in range(draws):
                places = jax.tree.map(lambda a, i=i, draw=draw: a[i, draw, :steps], out)
                self.visits[seed, draw].read(start * b, steps * b, places)
        for leaf in jax.tree.leaves(out):
            leaf[:, :, steps:] = 0  # these only fill the shape
        return jax.tree.map(lambda a: jnp.asarray(np.moveaxis(a, 1, 2)), out)


def _aligned(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """An array that begins where JAX can take it over on a CPU without copying it."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    room = np.empty(size + _ALIGNMENT, np.uint8)
    begin = -room.ctypes.data % _ALIGNMENT
    return room[begin : begin + size].view(dtype).reshape(shape)


class _Ahead:
    """An iterator that a thread reads a little ahead of whoever asks."""

    def __init__(self, items: Iterator[Any]):
        self.items, self.waiting = items, deque[Future]()
        self.thread = ThreadPoolExecutor(1, "tightrope-parquet")
        for _ in range(_AHEAD):
            self._ask()

    def _ask(self) -> None:
        self.waiting.append(self.thread.submit(next, self.items, None))

    def __next__(self) -> Any:
        """The next item; None when there is none."""
        self._ask()
        return self.waiting.popleft().result()

    def close(self) -> None:
        """Read no further."""
        self.thread.shutdown(wait=False, cancel_futures=True)


class _InOrder(Reader):
    """All rows in the order of the files, for passes over them. One program may have several passes under way at once, and
    each goes on where it stands."""

    def __init__(self, source: Parquet):
        self.source, self.lock = source, Lock()
        self.passes: list[_Pass] = []  # that of the last slice is the last

    def read(self, start: int, size: int) -> Tree:
        """Rows start..start+size-1."""
        with self.lock:
            going = next((one for one in self.passes if one.begin <= start <= one.end), None)
            if going is not None:
                self.passes.remove(going)
            else:
                going = _Pass(self.source, start)
                if len(self.passes) == _PASSES:
                    self.passes.pop(0).ahead.close()
            rows = going.read(start, size)
            self.passes.append(going)
            return rows


class _Pass:
    """One pass; what was read last is kept, because its last slice reaches back."""

    def __init__(self, source: Parquet, start: int):
        self.ahead = _Ahead(source.batches(start))
        self.held: deque[Tree] = deque()
        self.begin = self.end = start  # of what is held

    def read(self, start: int, size: int) -> Tree:
        """Rows start..start+size-1, where the first of them is held or the next to come."""
        while self.end < start + size:
            batch = next(self.ahead)
            assert batch is not None  # the files have as many rows as they say
            self.held.append(batch)
            self.end += len(jax.tree.leaves(batch)[0])
        while self.begin + (first := len(jax.tree.leaves(self.held[0])[0])) <= start:  # nobody reaches back this far
            self.held.popleft()
            self.begin += first
        parts, at = [], self.begin
        for batch in self.held:
            inside = slice(max(start - at, 0), max(start + size - at, 0))
            parts.append(jax.tree.map(lambda a, inside=inside: a[inside], batch))
            at += len(jax.tree.leaves(batch)[0])
        return _joined(parts)


class _Visit:
    """One order of all rows, pass after pass: row groups in a random order, cut into buffers, each shuffled.

    The order of pass k is that of a counter-based generator keyed by (seed, draw, k), the one within its buffer b by
    (seed, draw, k, b): where row number p stands follows from p, without reading what comes before.
    """

    def __init__(self, source: Parquet, seed: int, draw: int, rows: int):
        self.source, self.key, self.rows = source, (seed, draw), rows  # how many will be asked for
        self.size = source.shuffle or max(1, _BUFFER_BYTES // (4 * source.row_bytes))
        self.ahead: _Ahead | None = None
        self.position = -1
        self.rest: Tree = None

    def read(self, start: int, count: int, places: Tree) -> None:
        """Put rows number start..start+count-1 into these places, shaped (steps, batch, ...)."""
        if self.position != start:
            self._start(start)
        flat = [leaf.reshape(-1, *leaf.shape[2:]) for leaf in jax.tree.leaves(places)]
        done = 0
        while done < count:
            if self.rest is None:
                assert self.ahead is not None
                try:
                    self.rest = jax.tree.leaves(next(self.ahead))
                except BaseException:
                    self.position = -1
                    raise
            take = min(count - done, len(self.rest[0]))
            for out, rows in zip(flat, self.rest, strict=True):
                out[done : done + take] = rows[:take]
            self.rest = None if take == len(self.rest[0]) else [rows[take:] for rows in self.rest]
            done += take
        self.position = start + count

    def _start(self, start: int) -> None:
        if self.ahead is not None:
            self.ahead.close()
        self.ahead, self.rest = _Ahead(self._buffers(start)), None

    def _buffers(self, start: int) -> Iterator[Tree]:
        """Shuffled buffers, from row number `start` of the order on."""
        first, at = divmod(start, self.source.n)
        for k in range(first, -(-self.rows // self.source.n)):
            for b, rows in self._of_pass(k, at // self.size):
                skip = at - b * self.size if at > b * self.size else 0
                yield jax.tree.map(lambda a, skip=skip: a[skip:], rows)
            at = 0

    def _of_pass(self, k: int, first: int) -> Iterator[tuple[int, Tree]]:
        """The buffers of pass k from buffer number `first` on, with their numbers."""
        groups, shuffled = self.source.files.groups, bool(self.source.shuffle)
        order = self._generator(k).permutation(len(groups)) if shuffled else np.arange(len(groups))
        ends = np.cumsum([groups[g].rows for g in order])
        begin = first * self.size
        at = int(np.searchsorted(ends, begin, side="right"))
        skip = begin - (int(ends[at - 1]) if at else 0)
        batches = self.source._of_groups(order[at:].tolist(), skip)
        left: Tree = None  # of the last batch
        for b in range(first, -(-self.source.n // self.size)):
            if k * self.source.n + b * self.size >= self.rows:  # nobody will ask for these
                return
            count = min(self.size, self.source.n - b * self.size)
            places = self._generator(k, b).permutation(count) if shuffled else np.arange(count)
            buffer, done = jax.tree.map(lambda s, n=count: np.empty((n, *s.shape), s.dtype), self.source.example()), 0
            while done < count:
                batch = jax.tree.leaves(next(batches)) if left is None else left
                take = min(len(batch[0]), count - done)
                for rows, new in zip(jax.tree.leaves(buffer), batch, strict=True):
                    rows[places[done : done + take]] = new[:take]
                left = [new[take:] for new in batch] if take < len(batch[0]) else None
                done += take
            yield b, buffer

    def _generator(self, *number: int) -> np.random.Generator:
        return np.random.Generator(np.random.Philox(np.random.SeedSequence([*self.key, *number])))
