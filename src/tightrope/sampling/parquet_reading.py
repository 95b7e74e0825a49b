"""How Parquet files are read: a little ahead, for passes over all rows and for samples in a random order."""

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Lock
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from tightrope.sampling.passes import drawn_by
from tightrope.sampling.sampler import length
from tightrope.sampling.stream import Cut
from tightrope.sampling.streamed import Reader
from tightrope.tree import Tree

if TYPE_CHECKING:
    from tightrope.sampling.parquet import Parquet

_PASSES = 3  # over all rows that are under way at once, at most: a guess
_AHEAD = 2  # batches or buffers that are read while one is computed on: a guess


def joined(parts: list[Tree]) -> Tree:
    """One batch of several."""
    return parts[0] if len(parts) == 1 else jax.tree.map(lambda *pieces: np.concatenate(pieces), *parts)


class Ahead(Iterator[Any]):
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


class InOrder(Reader):
    """All rows in the order of the files, for passes over them. One program may have several passes under way at once, and
    each goes on where it stands."""

    def __init__(self, source: "Parquet", first: int = 0):
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

    def __init__(self, source: "Parquet", start: int):
        self.ahead = Ahead(source.batches(start))
        self.held: deque[Tree] = deque()
        self.begin = self.end = start  # of what is held

    def read(self, start: int, size: int) -> Tree:
        """Rows start..start+size-1, where the first of them is held or the next to come."""
        while self.end < start + size:
            batch = next(self.ahead)
            assert batch is not None  # the files have as many rows as they say
            self.held.append(batch)
            self.end += length(batch)
        while self.begin + (first := length(self.held[0])) <= start:  # nobody reaches back this far
            self.held.popleft()
            self.begin += first
        parts, at = [], self.begin
        for batch in self.held:
            inside = slice(max(start - at, 0), max(start + size - at, 0))
            parts.append(jax.tree.map(lambda a, inside=inside: a[inside], batch))
            at += length(batch)
        return joined(parts)


class Visit:
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

    def __init__(self, source: "Parquet", key: tuple[int, ...], groups: Sequence[int], rows: int, size: int):
        self.source, self.key, self.rows, self.size = source, key, rows, size
        self.groups = np.asarray(groups)
        self.n = sum(source.files.groups[g].rows for g in groups)
        self.last: list[np.ndarray] | None = None  # row: blocks of steps share a round where it is not whole in either
        self.ahead: Ahead | None = None
        self.position = -1

    def read(self, start: int, count: int, places: Tree) -> None:
        """Put rows number start..start+count-1 into these places, shaped (steps, batch, ...). The row that was read last
        may be asked for once more."""
        flat = [leaf.reshape(-1, *leaf.shape[2:]) for leaf in jax.tree.leaves(places)]
        done, position = 0, self.position
        if self.last is not None and position == start + 1:
            for out, row in zip(flat, self.last, strict=True):
                out[0] = row
            done = 1
        elif position != start:
            self._start(start)
        self.position = -1  # until all of it is there
        for piece in self.cut.pieces(count - done):
            for out, rows in zip(flat, jax.tree.leaves(piece), strict=True):
                out[done : done + len(rows)] = rows
            done += length(piece)
        self.position, self.last = start + count, [out[-1].copy() for out in flat]

    def _start(self, start: int) -> None:
        if self.ahead is not None:
            self.ahead.close()
        self.ahead = Ahead(self._buffers(start))
        self.cut = Cut(self.ahead)

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
        order = drawn_by(*self.key, k).permutation(self.groups) if shuffled else self.groups
        ends = np.cumsum([groups[g].rows for g in order])
        begin = first * self.size
        at = int(np.searchsorted(ends, begin, side="right"))
        skip = begin - (int(ends[at - 1]) if at else 0)
        batches = Cut(self.source.of_groups(order[at:].tolist(), skip))
        for b in range(first, -(-self.n // self.size)):
            if k * self.n + b * self.size >= self.rows:  # nobody will ask for these
                return
            count = min(self.size, self.n - b * self.size)
            places = drawn_by(*self.key, k, b).permutation(count) if shuffled else np.arange(count)
            buffer, done = jax.tree.map(lambda s, n=count: np.empty((n, *s.shape), s.dtype), self.source.example()), 0
            for piece in batches.pieces(count):
                for rows, new in zip(jax.tree.leaves(buffer), jax.tree.leaves(piece), strict=True):
                    rows[places[done : done + len(new)]] = new
                done += length(piece)
            yield b, buffer
