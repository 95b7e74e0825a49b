"""Batches from anywhere, read as they are needed and cut to size."""

import inspect
import itertools
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import jax
import numpy as np

from tightrope._errors import refuse_what_is_no_number, refuse_what_wraps
from tightrope.given import unmasked
from tightrope.sampling.sampler import BLOCK_BYTES, Buffer, Draws, Plan, Sampler, block_length, filled, length
from tightrope.tree import Tree, bytes_of

MOST_KEPT = 8192  # samples kept of a run at most; derived: a mean is known to 1 / sqrt(8192), a hundredth of its spread


class Stream(Sampler):
    """Batches from anywhere: a file reader, a queue, a torch DataLoader; never more than a buffer in memory.

    Batches are read as libraries give them: arrays, or tensors of torch and TensorFlow (on whatever device), alone or in
    tuples, lists and dicts, and lists of numbers as Hugging Face datasets have them. Loaders that are no arrays need not be
    wrapped: `tr.minimize(problem, loader, steps=...)`.

    The library counts the samples. A run that resumes, or goes on in the middle of a batch, reads the stream from its
    beginning and drops what it has seen, sample by sample; so a stream must give the same samples whenever it is read.

    Args:
        factory: an iterable of batches (pytrees of arrays, one sample per row, any number of rows), or a function without
            arguments that returns one. An iterator can be read only once. A function with an argument called `skip` may
            return the batches after the first `skip` samples, which saves reading them. It is believed if it begins in the
            middle of its first batch where asked to; one that drops whole batches only is read from the beginning.

    Example:
        >>> import numpy as np, tightrope as tr
        >>> stream = tr.Stream(lambda: (np.full((5, 2), i) for i in range(100)))
        >>> rows = np.arange(1000.0).reshape(500, 2)
        >>> seeking = tr.Stream(lambda skip: (rows[i : i + 5] for i in range(skip, 500, 5)))
    """

    per_seed = False

    def __init__(self, factory: Callable[..., Iterable[Tree]] | Iterable[Tree]):
        array = hasattr(factory, "__array__") or isinstance(factory, str | bytes)  # iterable, but no batches
        if array or (not callable(factory) and not isinstance(factory, Iterable)):
            raise TypeError(f"Stream: {factory!r} was given; expected factory(skip) or an iterable of batches.")
        self.factory = factory
        self._opens = callable(factory) and not isinstance(factory, Iterable)  # some loaders are both
        self._seeks = self._opens and _takes_skip(factory)
        self._peeked: Iterator[Tree] | None = None
        self._spent: Any = None  # an iterator that has been opened
        self._opened: _StreamDraws | None = None  # by the latest run

    def example(self) -> Tree:
        """The shapes and dtypes of one sample, read off the first batch (which is kept, not lost)."""
        return jax.tree.map(
            lambda a: jax.ShapeDtypeStruct(a.shape[1:], jax.dtypes.canonicalize_dtype(a.dtype)), self._first()
        )

    @property
    def content(self) -> tuple[Tree, ...]:
        """The first batch: what comes after it is not known before it is read."""
        return (self._first(),)

    def _first(self) -> Tree:
        batches = self._batches(0)
        first = next(batches, None)
        if first is None:
            raise ValueError("Stream: the stream is empty; expected at least one batch.")
        self._peeked = itertools.chain([first], batches)
        return first

    def open(self, plan: Plan) -> Draws:
        self._opened = _StreamDraws(self, plan)
        return self._opened

    def lately(self, plan: Plan, step: int) -> Tree | None:
        """The last samples of a run, kept as they passed, or read once more; None where that fails."""
        opened = self._opened
        if step == 0:
            return None
        try:
            if opened is None or opened.plan != plan or not opened.seen.reaches(step * opened.rows_a_step):
                opened = _StreamDraws(self, plan)
                opened.begin(step)
        except Exception:  # of a source that has ended or broken, which must not cost the run
            return None
        return opened.seen.last(step * opened.rows_a_step)

    def _batches(self, skip: int) -> Iterator[Tree]:
        """The batches without their first `skip` samples."""
        if skip and self._seeks and self._skips_exactly():
            self._peeked = None
            return self._read(skip)
        peeked, self._peeked = self._peeked, None
        return _drop(self._read(0) if peeked is None else peeked, skip)

    def _read(self, skip: int) -> Iterator[Tree]:
        """The batches as the source gives them, after so many samples if it is asked for that."""
        if not self._opens:
            source = self.factory
        else:
            assert callable(self.factory)
            source = self.factory(skip=skip) if self._seeks else self.factory()
        if not isinstance(source, Iterable):
            raise TypeError(f"Stream: the function returned {source!r}; expected an iterable of batches.")
        if source is self._spent:
            raise ValueError(
                "Stream: an iterator was given, which can be read only once, and it has been read. Give a list, or "
                "a function that starts anew whenever it is called."
            )
        self._spent = source if isinstance(source, Iterator) else None
        return map(_as_batch, iter(source))

    def _skips_exactly(self) -> bool:
        """Whether the source, asked to skip some samples of its first batch, begins with the next. One that drops whole
        batches begins with the first sample again, so those two have to differ."""
        first = self._first()
        for k in range(1, length(first)):
            if not _same(_row(first, k), _row(first, 0)):
                began = next(self._read(k), None)
                return began is not None and _same(_row(began, 0), _row(first, k))
        return False


def _takes_skip(function: Any) -> bool:
    """Whether a function has an argument called skip; refuses one that asks for anything else."""
    try:
        arguments = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # of a function that was not written in Python
        return False
    given = inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD
    skips = [a for a in arguments if a.name == "skip" and a.kind not in (*given, inspect.Parameter.POSITIONAL_ONLY)]
    asked = [a.name for a in arguments if a.default is a.empty and a.kind not in given and a not in skips]
    if asked:
        raise TypeError(
            f"Stream: a function was given that asks for {asked[0]!r}; expected one without arguments, or with one called "
            "skip, the number of samples to leave out."
        )
    return bool(skips)


def _row(batch: Tree, k: int) -> Tree:
    return jax.tree.map(lambda a: a[k : k + 1], batch)


def _same(one: Tree, other: Tree) -> bool:
    """Whether two rows are the same, bit for bit."""
    rows = [[(a.shape, a.dtype, a.tobytes()) for a in jax.tree.leaves(row)] for row in (one, other)]
    return rows[0] == rows[1]


# To compiled code all streams are alike: what they read reaches it through buffers.
jax.tree_util.register_pytree_node(Stream, lambda _: ((), None), lambda *_: object.__new__(Stream))


def _as_batch(batch: Tree) -> Tree:
    arrays = jax.tree.map(_as_array, batch, is_leaf=_is_list_of_numbers)
    lengths = {a.shape[0] if a.ndim else None for a in jax.tree.leaves(arrays)}
    if len(lengths) != 1 or None in lengths:
        raise ValueError(
            f"Stream: a batch has arrays of shapes {[a.shape for a in jax.tree.leaves(arrays)]}; expected arrays "
            "with the same number of rows."
        )
    for array in jax.tree.leaves(arrays):
        refuse_what_wraps("Stream", array)
    return arrays


def _as_array(leaf: Any) -> np.ndarray:
    """An array of whatever a library calls a tensor."""
    for step in ("detach", "cpu", "numpy"):  # of torch all three, of TensorFlow the last
        if not isinstance(leaf, np.ndarray) and callable(getattr(leaf, step, None)):
            leaf = getattr(leaf, step)()
    array = np.asarray(unmasked("Stream: a batch", leaf))
    refuse_what_is_no_number("Stream: a batch has", array)
    return array


def _is_list_of_numbers(leaf: Any) -> bool:
    """Whether it is a column in Python's own numbers, or in rows of them, and not several arrays."""
    while isinstance(leaf, list) and leaf:
        leaf = leaf[0]
    return isinstance(leaf, int | float | np.number | str) or (isinstance(leaf, list) and not leaf)


def _drop(batches: Iterator[Tree], skip: int) -> Iterator[Tree]:
    """The batches without their first `skip` rows."""
    for batch in batches:
        rows = length(batch)
        if skip < rows:
            yield jax.tree.map(lambda a, k=skip: a[k:], batch)
        skip = max(0, skip - rows)


def _alike(batch: Tree, like: Tree) -> Tree:
    """The batch in the dtypes of the first one: what a run sees must not depend on which batches are read together."""
    shapes, expected = (jax.tree.map(lambda a: a.shape[1:], tree) for tree in (batch, like))
    if shapes != expected:
        raise ValueError(f"Stream: a batch has rows of shapes {shapes}; expected {expected}, as before.")
    for a, b in zip(jax.tree.leaves(batch), jax.tree.leaves(like), strict=True):
        if not np.can_cast(a.dtype, b.dtype, "same_kind"):
            raise TypeError(
                f"Stream: a batch has numbers of dtype {a.dtype}; expected {b.dtype}, as in the first batch. Give all of "
                "them as floats."
            )
    return jax.tree.map(lambda a, b: a.astype(b.dtype, copy=False), batch, like)


class Cut:
    """Batches one after the other, in pieces as long as they are asked for: views, however large a batch is."""

    def __init__(self, batches: Iterator[Tree]):
        self.batches, self.rest = batches, None

    def pieces(self, count: int) -> Iterator[Tree]:
        """The next `count` rows, or what is left."""
        while count > 0:
            piece = next(self.batches, None) if self.rest is None else self.rest
            if piece is None:
                return
            more, have = length(piece) > count, min(count, length(piece))
            self.rest = jax.tree.map(lambda a, k=have: a[k:], piece) if more else None
            yield jax.tree.map(lambda a, k=have: a[:k], piece) if more else piece
            count -= have


class Lately:
    """The last samples that have passed, in their order: so many that a mean over them is known to a hundredth of its
    spread, as long as they fit into memory."""

    def __init__(self, bytes_a_row: int, end: int = 0):
        self.bytes_a_row, self.end = bytes_a_row, end  # `end` counts the samples that have passed
        self.most = max(1, min(MOST_KEPT, BLOCK_BYTES // max(1, bytes_a_row)))
        self.parts: deque[Tree] = deque()
        self.held = 0

    def empty(self, end: int) -> "Lately":
        """The same without any samples, after so many."""
        return Lately(self.bytes_a_row, end)

    def copy(self) -> "Lately":
        """Another one that holds the same samples; what is added to it is not added to this one."""
        other = self.empty(self.end)
        other.parts, other.held = self.parts.copy(), self.held
        return other

    def add(self, rows: Tree) -> None:
        """These have passed."""
        count = 0 if rows is None else length(rows)
        if not count:
            return
        self.parts.append(jax.tree.map(lambda a: np.array(a[-self.most :]), rows))  # which keeps no buffer alive
        self.end, self.held = self.end + count, self.held + min(count, self.most)
        while self.held - (first := length(self.parts[0])) >= self.most:
            self.parts.popleft()
            self.held -= first

    def reaches(self, end: int) -> bool:
        """Whether samples before this one are held."""
        return self.end - self.held < end <= self.end

    def last(self, end: int | None = None) -> Tree | None:
        """The last of them (before number `end`): a power of two, so that few programs are compiled."""
        beyond = 0 if end is None else self.end - end
        held = self.held - beyond
        if held < 1:
            return None
        count = 1 << (min(held, self.most).bit_length() - 1)
        return jax.tree.map(lambda *a: np.concatenate(a)[held - count : held], *self.parts)


class _StreamDraws(Draws):
    def __init__(self, stream: Stream, plan: Plan):
        self.stream, self.plan, self.rows_a_step = stream, plan, plan.draws * plan.batch_size
        self.position: int | None = None
        self.like = jax.tree.map(lambda a: np.zeros((0, *a.shape[1:]), a.dtype), stream._first())
        size = bytes_of(stream.example())
        self.length = block_length(size * self.rows_a_step)
        self.seen = Lately(size)

    def begin(self, t: int) -> None:
        """Stand before step t, and have seen the last samples before it."""
        rows = t * self.rows_a_step
        first = max(0, rows - self.seen.most)
        self.position, self.cut = t, Cut(self.stream._batches(first))
        self.seen = self.seen.empty(first)
        if rows > first:
            self.seen.add(self._read(rows - first))

    def take(self, t: int, count: int) -> Buffer:
        if self.position != t:
            self.begin(t)
        rows = self._read(min(count, self.length) * self.rows_a_step)
        steps = 0 if rows is None else length(rows) // self.rows_a_step
        if steps == 0:
            return Buffer((), 0, 0)
        self.position = t + steps
        self.seen.add(jax.tree.map(lambda a: a[: steps * self.rows_a_step], rows))
        return filled(rows, steps, self.plan, self.length)

    def _read(self, wanted: int) -> Tree:
        """The next `wanted` rows, or what is left."""
        parts = [_alike(piece, self.like) for piece in self.cut.pieces(wanted)]
        return jax.tree.map(lambda *pieces: np.concatenate(pieces), *parts) if parts else None
