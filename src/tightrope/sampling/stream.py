"""Batches from anywhere, read as they are needed and cut to size."""

import inspect
import itertools
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import jax
import numpy as np

from tightrope.sampling.base import Buffer, Draws, Plan, Sampler, block_length, filled, refuse_what_wraps
from tightrope.tree import Tree


class Stream(Sampler):
    """Batches from anywhere: a file reader, a queue, a torch DataLoader; never more than a buffer in memory.

    Batches are read as libraries give them: arrays, or tensors of torch and TensorFlow (on whatever device), alone or in
    tuples, lists and dicts, and lists of numbers as Hugging Face datasets have them. Loaders that are no arrays need not be
    wrapped: `tr.minimize(problem, loader, steps=...)`.

    Args:
        factory: `factory(skip)` returns an iterable of batches (pytrees of arrays, one sample per row, any number of
            rows) that starts after the first `skip` rows, so that a run can resume. An iterable, or a function
            without arguments, is accepted too; to resume, its first rows are then read and dropped. An iterator can be
            read only once.

    Example:
        >>> import numpy as np, tightrope as tr
        >>> stream = tr.Stream(lambda skip: (np.full((5, 2), i) for i in range(skip // 5, 100)))
    """

    per_seed = False

    def __init__(self, factory: Callable[..., Iterable[Tree]] | Iterable[Tree]):
        if not callable(factory) and not isinstance(factory, Iterable):
            raise TypeError(f"Stream: {factory!r} was given; expected factory(skip) or an iterable of batches.")
        self.factory = factory
        self._peeked: Iterator[Tree] | None = None
        self._spent = False  # an iterator that has been opened

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
        """Read batches as they are needed and cut them to size."""
        return _StreamDraws(self, plan)

    def _batches(self, skip: int) -> Iterator[Tree]:
        peeked, self._peeked = self._peeked, None
        seeks = callable(self.factory) and bool(inspect.signature(self.factory).parameters)
        if peeked is not None and (skip == 0 or not seeks):
            return _drop(peeked, skip)
        if not callable(self.factory):
            if self._spent:
                raise ValueError(
                    "Stream: an iterator was given, which can be read only once, and it has been read. Give a list, or "
                    "a function factory(skip) that starts anew."
                )
            self._spent = isinstance(self.factory, Iterator)
            return _drop(map(_as_batch, iter(self.factory)), skip)
        return map(_as_batch, iter(self.factory(skip))) if seeks else _drop(map(_as_batch, iter(self.factory())), skip)


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
    array = np.asarray(leaf)
    if array.dtype.kind not in "fiub":
        raise TypeError(
            f"Stream: a batch has an array of dtype {array.dtype}; expected numbers. Encode text and categories first, or "
            "leave them out."
        )
    return array


def _is_list_of_numbers(leaf: Any) -> bool:
    """Whether it is a column in Python's own numbers, or in rows of them, and not several arrays."""
    while isinstance(leaf, list) and leaf:
        leaf = leaf[0]
    return isinstance(leaf, int | float | np.number | str) or (isinstance(leaf, list) and not leaf)


def _drop(batches: Iterator[Tree], skip: int) -> Iterator[Tree]:
    """The batches without their first `skip` rows."""
    for batch in batches:
        rows = len(jax.tree.leaves(batch)[0])
        if skip < rows:
            yield jax.tree.map(lambda a, k=skip: a[k:], batch)
        skip = max(0, skip - rows)


class _StreamDraws(Draws):
    def __init__(self, stream: Stream, plan: Plan):
        self.stream, self.plan, self.rows_a_step = stream, plan, plan.draws * plan.batch_size
        self.position: int | None = None
        self.rest: deque[Tree] = deque()  # rows read but not used yet
        example = stream.example()
        self.shapes = jax.tree.map(lambda s: s.shape, example)
        size = sum(s.size * s.dtype.itemsize for s in jax.tree.leaves(example))
        self.length = block_length(size * self.rows_a_step)

    def take(self, t: int, count: int) -> Buffer:
        if self.position != t:
            self.batches = self.stream._batches(t * self.rows_a_step)
            self.rest, self.position = deque(), t
        rows = self._read(min(count, self.length) * self.rows_a_step)
        steps = 0 if rows is None else len(jax.tree.leaves(rows)[0]) // self.rows_a_step
        if steps == 0:
            return Buffer((), 0, 0)
        self.position = t + steps
        return filled(rows, steps, self.plan, self.length)

    def _read(self, wanted: int) -> Tree:
        """The next `wanted` rows, or what is left."""
        have = sum(len(jax.tree.leaves(r)[0]) for r in self.rest)
        while have < wanted and (batch := next(self.batches, None)) is not None:
            shapes = jax.tree.map(lambda a: a.shape[1:], batch)
            if shapes != self.shapes:
                raise ValueError(f"Stream: a batch has rows of shapes {shapes}; expected {self.shapes}, as before.")
            self.rest.append(batch)
            have += len(jax.tree.leaves(batch)[0])
        parts = []
        while self.rest and wanted > 0:  # what is left over stays where it is: a view, however large the batch
            batch = self.rest.popleft()
            rows = len(jax.tree.leaves(batch)[0])
            if rows > wanted:
                self.rest.appendleft(jax.tree.map(lambda a, k=wanted: a[k:], batch))
                batch = jax.tree.map(lambda a, k=wanted: a[:k], batch)
            parts.append(batch)
            wanted -= rows
        return jax.tree.map(lambda *pieces: np.concatenate(pieces), *parts) if parts else None
