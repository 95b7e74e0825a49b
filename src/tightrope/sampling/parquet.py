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

from tightrope._errors import whole_number
from tightrope.sampling.all_rows import Parts, Patient, Reader, Streamed, UnreadableError
from tightrope.sampling.base import Blocks, Buffer, Draws, Plan, Sampler, block_length
from tightrope.sampling.parquet_files import Columns, Decode, Files, decoded, names_in
from tightrope.sampling.processes import failing_together, said_by_all, spans_processes
from tightrope.sampling.rows import Order
from tightrope.sampling.shards import Share, Turns, asked_mesh, key_of, on_every_device, own_shards
from tightrope.tree import Array, Tree

if TYPE_CHECKING:
    import pyarrow as pa

_BUFFER_BYTES = 32 * 2**20  # rows that are shuffled together, by default
_AT_ONCE_BYTES = 2 * 2**20  # decoded at once
_KEPT_ROWS, _KEPT_BYTES, _KEPT_GROUPS = 65_536, 16 * 2**20, 32  # of a sample that stays in memory, and where it is from
_ALIGNMENT = 64  # bytes
_PASSES = 3  # that are under way at once
_AHEAD = 2  # batches or buffers that are read while one is computed on
_SHARDS = 16  # over a mesh: each has a row group open, and they are all open at once


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
        self.mesh = asked_mesh(mesh, [], shards)
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
        with failing_together(self.together, (UnreadableError, ValueError, TypeError, ImportError)):
            self._read(path, columns, dtypes, categories, decode, rows)
            self.shares = None if self.mesh is None else shared_out(self.files, shards)
        if self.together:
            self._refuse_other_files()

    def _read(self, path: Any, columns: Any, dtypes: Any, categories: Any, decode: Any, rows: int | None) -> None:
        """What the footers and the first rows say."""
        wanted = None if columns is None else names_in(columns)
        self.files = files = Files(path, wanted)
        self.n: int = files.n  # pyright: ignore[reportIncompatibleVariableOverride]
        self.columns = wanted or files.columns
        self.categories: dict[str, list[Any]] = {}
        if decode is None:
            layout = {name: name for name in files.columns} if columns is None else columns
            made: Any = Columns(files, layout, dtypes, categories or {})
            self.categories, self.narrowed = made.categories, made.narrowed
        else:
            made = lambda batch, _: decode(batch)  # noqa: E731
        self.decode: Decode = made
        self._example, self.row_bytes = self._first()
        self.shuffle = max(1, _BUFFER_BYTES // self.row_bytes) if rows is None else rows
        self._rows: Tree = None  # what methods look at, once one has

    def _refuse_other_files(self) -> None:
        """Processes have parts of one table: refuse where they see different ones."""
        said = said_by_all([self.n, self.files.content])
        for process, (n, content) in enumerate(said):
            if content != said[0][1]:
                raise UnreadableError(
                    f"Parquet: process {process} of {len(said)} sees other files ({n:,} rows) than process 0 "
                    f"({said[0][0]:,} rows); expected one folder that all processes see, of which each reads its own part."
                )

    @property
    def together(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Whether several processes read parts of the files."""
        return self.mesh is not None and spans_processes(self.mesh)

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
        return self.mesh is None and self.n <= self.shuffle and self.n * self.row_bytes <= _BUFFER_BYTES

    @property
    def rows(self) -> Tree:
        """All the data: arrays where they fit into a buffer; else read in slices, with a sample in memory."""
        if self._rows is None:
            if self.in_memory:
                self._rows = jax.tree.map(jnp.asarray, _joined(list(self.batches())))
            elif self.mesh is not None:
                self._rows = self._parts(self.mesh)
            else:
                self._rows = Streamed(_InOrder(self), self.n, self._sample())
        return self._rows

    def _parts(self, mesh: Any) -> Parts:
        """All rows, of which every device reads those of its own shards: they stand side by side."""
        assert self.shares is not None
        each, firsts = len(self.shares) // mesh.devices.size, [share[0] for share in self.shares]
        bounds = self.files.starts[[*firsts[::each], len(self.files.groups)]]
        own = own_shards(mesh, len(self.shares))[::each] // each  # devices of this process
        readers: list[Reader] = [Patient(_InOrder(self, int(bounds[device])), self._example) for device in own]
        return Parts(readers, _InOrder(self), tuple(np.diff(bounds).tolist()), self._sample(), mesh)

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
        shards = () if self.shares is None else (str(len(self.shares)),)
        return self.files.content, str(self.columns), str(self.shuffle), str(self.categories), *shards

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
        return _FileDraws(self, plan) if self.mesh is None else _SharedDraws(self, plan)

    def placed(self, point: Tree) -> Tree:
        """A point on every device of a mesh; without one, as it is."""
        return point if self.mesh is None else on_every_device(self.mesh, point)

    def pick(self, item: Tree) -> Tree:
        """The samples themselves; on a mesh each device has its own."""
        if self.mesh is None:
            return item
        rows, weights = item
        return Share(rows, weights, self.mesh)


def _of_mesh(mesh: Any, _: Any) -> Parquet:
    source = object.__new__(Parquet)
    source.mesh = mesh
    return source


# To compiled code all of them are alike, but for the mesh: what they read reaches it through buffers.
jax.tree_util.register_pytree_node(Parquet, lambda source: ((), source.mesh), _of_mesh)


def shared_out(files: Files, shards: int) -> list[range]:
    """The numbers of the row groups of every shard: they stay in their order, and cuts are where the shares of rows differ
    least from equal ones."""
    count, starts = len(files.groups), files.starts
    if count < shards:
        raise UnreadableError(
            f"Parquet: {count:,} row groups cannot be shared out among {shards} shards; expected one for each at least. "
            "Write smaller row groups, or give fewer shards, a multiple of the number of devices."
        )
    cuts = [0]
    for s in range(1, shards):
        wanted = files.n * s / shards
        after = int(np.searchsorted(starts, wanted))
        nearest = after - 1 if after and wanted - starts[after - 1] < starts[after] - wanted else after
        cuts.append(min(max(nearest, cuts[-1] + 1), count - (shards - s)))
    return [range(a, b) for a, b in zip(cuts, [*cuts[1:], count], strict=True)]


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
        every = range(len(source.files.groups))
        self.visits = {key: _Visit(source, key, every, rows, _buffer_rows(source)) for key in which}
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


def _buffer_rows(source: Parquet) -> int:
    """How many rows are read at a time, and shuffled together where they are shuffled."""
    return source.shuffle or max(1, _BUFFER_BYTES // (4 * source.row_bytes))


class _SharedDraws(Draws):
    """Blocks of samples of rows over a mesh: every shard of this process is visited by itself, pass after pass, and gives
    one row in every round (`shards.py` says in which order). Its buffers hold the shard's share of the rows that are
    shuffled together."""

    def __init__(self, source: Parquet, plan: Plan):
        assert source.shares is not None
        assert source.mesh is not None
        sizes = np.array([sum(source.files.groups[g].rows for g in share) for share in source.shares])
        self.source, self.plan = source, plan
        self.turns = turns = Turns(source.mesh, sizes, plan, lambda key, s, first, count: np.arange(count))
        rows = -(-plan.steps * plan.batch_size // turns.number) + 1
        at_once = max(1, _buffer_rows(source) // turns.number)
        self.visits = {
            (*key, s): _Visit(source, key_of(key, s), source.shares[s], rows, at_once)
            for key in itertools.product(plan.seeds, range(plan.draws))
            for s in turns.own.tolist()
        }
        self.length = block_length(source.row_bytes * plan.draws * plan.batch_size * len(plan.seeds))
        self.start, self.end, self.items = 0, 0, ()

    def take(self, t: int, count: int) -> Buffer:
        if not self.start <= t < self.end:
            end = min(t + self.length, self.plan.steps)
            with failing_together(self.source.together, (UnreadableError,)):
                rows, weights = self._block(t, end - t)
            spread = self.turns.spread
            self.items = jax.tree.map(spread, rows), spread(weights)
            self.start, self.end = t, end
        return Buffer(self.items, t - self.start, min(count, self.end - t))

    def _block(self, start: int, steps: int) -> tuple[Tree, np.ndarray]:
        """Rows and weights of steps start .. start+steps-1, shaped (seeds, steps, draws, devices, room, ...)."""
        plan, turns = self.plan, self.turns
        shape = len(plan.seeds), self.length, plan.draws, turns.here, turns.room
        out = jax.tree.map(lambda s: np.zeros((*shape, *s.shape), s.dtype), self.source.example())
        weights = np.zeros(shape, jnp.result_type(float))
        for i, seed in enumerate(plan.seeds):
            for draw in range(plan.draws):
                at = np.zeros((steps, turns.here, turns.room), np.int32)
                turns.fill(at, weights[i, :steps, draw], (seed, draw), start)
                self._gather((seed, draw), start, at, jax.tree.map(lambda a, i=i, d=draw: a[i, :, d], out))
        return out, weights

    def _gather(self, key: tuple[int, int], start: int, at: np.ndarray, out: Tree) -> None:
        """Read what the shards of this process give in the rounds of these steps, and put it where it belongs."""
        turns, (first, last) = self.turns, self.turns.rounds(start, len(at))
        each, count = len(turns.own) // turns.here, last + 1 - first
        for device in range(turns.here):
            found = jax.tree.map(lambda s: np.empty((each, count, *s.shape), s.dtype), self.source.example())
            for k, s in enumerate(turns.own[device * each : (device + 1) * each].tolist()):
                self.visits[*key, s].read(first, count, jax.tree.map(lambda a, k=k: a[k, :, None], found))

            def put(into: np.ndarray, rows: np.ndarray, device: int = device) -> None:
                into[: len(at), device] = rows.reshape(-1, *rows.shape[2:])[at[:, device]]

            jax.tree.map(put, out, found)


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

    def __init__(self, source: Parquet, first: int = 0):
        self.source, self.first, self.lock = source, first, Lock()
        self.passes: list[_Pass] = []  # that of the last slice is the last

    def read(self, start: int, size: int) -> Tree:
        """Rows start..start+size-1, counted from the first one that is this reader's."""
        start += self.first
        with self.lock:
            near = (one for one in self.passes if one.begin <= start and self._nearer(one, start))
            going = next(near, None)
            if going is not None:
                self.passes.remove(going)
            else:
                going = _Pass(self.source, start)
                if len(self.passes) == _PASSES:
                    self.passes.pop(0).ahead.close()
            rows = going.read(start, size)
            self.passes.append(going)
            return rows

    def _nearer(self, one: "_Pass", start: int) -> bool:
        """Whether a pass has not far to go to a row: a row group that is opened anew is read from its beginning."""
        starts = self.source.files.starts
        return int(starts[int(np.searchsorted(starts, start, side="right")) - 1]) <= one.end


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
    """One order of the rows of some row groups, pass after pass: groups in a random order, cut into buffers, each shuffled.

    The order of pass k is that of a counter-based generator keyed by (key, k), the one within its buffer b by
    (key, k, b): where row number p stands follows from p, without reading what comes before.

    Args:
        source: the files.
        key: has the seed in it.
        groups: the numbers of the row groups.
        rows: how many will be asked for.
        size: how many a buffer has.
    """

    def __init__(self, source: Parquet, key: tuple[int, ...], groups: Sequence[int], rows: int, size: int):
        self.source, self.key, self.rows, self.size = source, key, rows, size
        self.groups = np.asarray(groups)
        self.n = sum(source.files.groups[g].rows for g in groups)
        self.last: list[np.ndarray] | None = None  # row: blocks of steps share a round where it is not whole in either
        self.ahead: _Ahead | None = None
        self.position = -1
        self.rest: Tree = None

    def read(self, start: int, count: int, places: Tree) -> None:
        """Put rows number start..start+count-1 into these places, shaped (steps, batch, ...). The row that was read last
        may be asked for once more."""
        flat = [leaf.reshape(-1, *leaf.shape[2:]) for leaf in jax.tree.leaves(places)]
        done = 0
        if self.last is not None and self.position == start + 1:
            for out, row in zip(flat, self.last, strict=True):
                out[0] = row
            done = 1
        elif self.position != start:
            self._start(start)
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
        self.position, self.last = start + count, [out[-1].copy() for out in flat]

    def _start(self, start: int) -> None:
        if self.ahead is not None:
            self.ahead.close()
        self.ahead, self.rest = _Ahead(self._buffers(start)), None

    def _buffers(self, start: int) -> Iterator[Tree]:
        """Shuffled buffers, from row number `start` of the order on."""
        first, at = divmod(start, self.n)
        for k in range(first, -(-self.rows // self.n)):
            for b, rows in self._of_pass(k, at // self.size):
                skip = at - b * self.size if at > b * self.size else 0
                yield jax.tree.map(lambda a, skip=skip: a[skip:], rows)
            at = 0

    def _of_pass(self, k: int, first: int) -> Iterator[tuple[int, Tree]]:
        """The buffers of pass k from buffer number `first` on, with their numbers."""
        groups, shuffled = self.source.files.groups, bool(self.source.shuffle)
        order = self._generator(k).permutation(self.groups) if shuffled else self.groups
        ends = np.cumsum([groups[g].rows for g in order])
        begin = first * self.size
        at = int(np.searchsorted(ends, begin, side="right"))
        skip = begin - (int(ends[at - 1]) if at else 0)
        batches = self.source._of_groups(order[at:].tolist(), skip)
        left: Tree = None  # of the last batch
        for b in range(first, -(-self.n // self.size)):
            if k * self.n + b * self.size >= self.rows:  # nobody will ask for these
                return
            count = min(self.size, self.n - b * self.size)
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
