"""All the data, for whoever looks at it: arrays in memory, or a source that is read in slices as a pass goes on.

Compiled code asks the functions here and does not know which of the two it has. A `Streamed` source is a pytree whose arrays
are a few of its rows, spread evenly, and a number by which the host knows the reader: a slice inside a compiled loop is a
call back to it. So a pass over files is the same program as one over arrays, in constant memory, and a program that was
compiled for one source serves all of its shape.
"""

import contextlib
import itertools
import logging
import math
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from tightrope.sampling.shards import AXIS, Shards, on_every_device
from tightrope.tree import Array, Tree

_readers: "weakref.WeakValueDictionary[int, Reader]" = weakref.WeakValueDictionary()
_KEPT = 1 << 16  # rows of a mesh, where some are wanted on every device
_numbers = itertools.count()
_failures: list[BaseException] = []  # of calls back, until whoever has called hears of them


class UnreadableError(ValueError):
    """Data that cannot be read, or not used as it is: the sentence names the file."""


class Reader(ABC):
    """Reads rows for passes over all the data."""

    @abstractmethod
    def read(self, start: int, size: int) -> Tree:
        """Rows start..start+size-1, as NumPy arrays; passes ask for them in their order."""


@jax.tree_util.register_pytree_node_class
class Streamed:
    """All rows of a source that is read in slices.

    Args:
        reader: who reads them.
        n: how many there are.
        few: some of them, spread evenly, that are kept in memory.
    """

    def __init__(self, reader: Reader, n: int, few: Tree):
        self.few, self.n, self.reader = jax.tree.map(jnp.asarray, few), n, reader  # the reader lives as long as this
        self.number: Any = jnp.asarray(_known_as(reader), jnp.int32)

    def tree_flatten(self) -> tuple[tuple[Tree, Any], Any]:
        """Arrays, and what is static."""
        return (self.few, self.number), self.n

    @classmethod
    def tree_unflatten(cls, static: Any, children: tuple[Tree, Any]) -> "Streamed":
        """From arrays, inside compiled code."""
        new = object.__new__(cls)
        new.few, new.number = children
        new.n = static
        return new

    def slice(self, start: Array, size: int) -> Tree:
        """Rows from `start` on, which may be traced."""
        return _asked(self.number, self.few, start, size)


def _known_as(reader: Reader) -> int:
    """The number by which compiled code knows a reader."""
    number = next(_numbers)
    _readers[number] = reader
    return number


def _asked(number: Array, like: Tree, start: Array, size: int) -> Tree:
    """Rows from `start` on of the reader with this number, whose rows are like these."""
    leaves, kind = jax.tree.flatten(like)
    # Numbers of 64 bits come as pairs of words: whether JAX has them is known to one thread, and another may call back.
    wide = [leaf.dtype.itemsize == 8 for leaf in leaves]
    dtypes = [np.dtype(leaf.dtype) for leaf in leaves]
    shapes = [
        jax.ShapeDtypeStruct((size, *leaf.shape[1:], *([2] if w else [])), jnp.uint32 if w else leaf.dtype)
        for leaf, w in zip(leaves, wide, strict=True)
    ]

    def ask(number: Any, start: Any) -> list[np.ndarray]:
        try:
            rows = jax.tree.leaves(_readers[int(number)].read(int(start), size))
            whole = [np.ascontiguousarray(a, dtype) for a, dtype in zip(rows, dtypes, strict=True)]
            return [a.view(np.uint32).reshape(s.shape) if w else a for a, s, w in zip(whole, shapes, wide, strict=True)]
        except BaseException as error:
            _failures.append(error)
            raise

    words = jax.pure_callback(ask, shapes, number, start)
    rows = [
        jax.lax.bitcast_convert_type(a, leaf.dtype) if w else a for a, leaf, w in zip(words, leaves, wide, strict=True)
    ]
    return jax.tree.unflatten(kind, rows)


@jax.tree_util.register_pytree_node_class
class Parts(Streamed):
    """All rows of files of which every device of a mesh reads a part: sums over rows meet in one collective.

    Whoever wants some rows on every device (`slice`) has each process read them; all processes see all of the files.

    Args:
        own: who reads the part of each device of this process, in their order.
        whole: who reads all rows.
        counts: how many rows each device of the mesh has.
        few: some of all rows, spread evenly, that are kept in memory.
        mesh: the devices.
    """

    def __init__(self, own: list[Reader], whole: Reader, counts: tuple[int, ...], few: Tree, mesh: Mesh):
        self.readers = (*own, whole)  # they live as long as this
        self.n, self.counts, self.mesh = sum(counts), counts, mesh
        self.few = on_every_device(mesh, few)
        of_whole = _known_as(whole)
        numbers = np.array([[_known_as(reader), of_whole] for reader in own], np.int32)
        sharding = NamedSharding(mesh, PartitionSpec(AXIS))
        self.number = jax.make_array_from_process_local_data(sharding, numbers, (len(counts), 2))

    def tree_flatten(self) -> tuple[tuple[Tree, Any], Any]:
        """Arrays, and what is static."""
        return (self.few, self.number), (self.counts, self.mesh)

    @classmethod
    def tree_unflatten(cls, static: Any, children: tuple[Tree, Any]) -> "Parts":
        """From arrays, inside compiled code."""
        new = object.__new__(cls)
        new.few, new.number = children
        new.counts, new.mesh = static
        new.n = sum(new.counts)
        return new

    def slice(self, start: Array, size: int) -> Tree:
        """Rows from `start` on, on every device; the start may be traced."""

        def local(number: Array, few: Tree, start: Array) -> Tree:
            return _asked(number[0, 1], few, start, size)

        specs = PartitionSpec(AXIS), PartitionSpec(), PartitionSpec()
        return _on_mesh(self.mesh, local, specs)(self.number, self.few, jnp.asarray(start))

    def total(self, fn: Callable[[Tree, Array], Tree]) -> Tree:
        """The sum over devices of fn(part, rows), where a part is a source and has so many rows, in one collective.

        A part that cannot be read must not leave the others waiting: its reader goes on with nothing, and what has happened
        is said after the collective, by everybody.
        """

        def local(number: Array, few: Tree, count: Array) -> Tree:
            part = Streamed.tree_unflatten(self.n, (few, number[0, 0]))
            vector, back = ravel_pytree(fn(part, count[0]))
            failed = jax.pure_callback(_failed, jax.ShapeDtypeStruct((), jnp.int32), number[0, 0], vector[:1])
            sums, failed = jax.lax.psum(vector, AXIS), jax.lax.pmax(failed, AXIS)
            nothing = jax.pure_callback(_raised, jax.ShapeDtypeStruct((), jnp.int32), number[0, 0], failed)
            return back(sums + nothing.astype(sums.dtype))

        counts = np.asarray(self.counts, np.int32)
        specs = PartitionSpec(AXIS), PartitionSpec(), PartitionSpec(AXIS)
        return _on_mesh(self.mesh, local, specs)(self.number, self.few, jnp.asarray(counts))


def _on_mesh(mesh: Mesh, local: Callable[..., Tree], specs: Any) -> Callable[..., Tree]:
    return jax.shard_map(local, mesh=mesh, in_specs=specs, out_specs=PartitionSpec(), check_vma=False)


class Patient(Reader):
    """Reads a device's part. Where that fails it gives zeros, and remembers why until it is asked."""

    def __init__(self, reader: Reader, like: Tree):
        self.reader, self.like, self.error = reader, like, None

    def read(self, start: int, size: int) -> Tree:
        """Rows start..start+size-1, or zeros."""
        if self.error is None:
            try:
                return self.reader.read(start, size)
            except Exception as error:
                self.error = error
        return jax.tree.map(lambda s: np.zeros((size, *s.shape), s.dtype), self.like)


def _failed(number: Any, _: Any) -> np.ndarray:
    """Whether a part could not be read: the number of this process, counted from 1, or 0."""
    reader: Any = _readers[int(number)]
    return np.int32(0 if reader.error is None else jax.process_index() + 1)  # pyright: ignore[reportReturnType]


def _raised(number: Any, failed: Any) -> np.ndarray:
    """Raise what this process or another has met in its part; nothing where all could be read."""
    if int(failed):
        reader: Any = _readers[int(number)]
        said, reader.error = reader.error, None  # with the file back in place the next pass may do
        if said is None:
            said = UnreadableError(
                f"Process {int(failed) - 1} of {jax.process_count()} cannot read its part of the files; it says why."
            )
        _failures.append(said)
        raise said
    return np.int32(0)  # pyright: ignore[reportReturnType]


def _is_source(data: Any) -> bool:
    return isinstance(data, Streamed | Shards)


def _map(fn: Any, of_streamed: Any, of_shards: Any, data: Tree) -> Tree:
    def of(a: Any) -> Any:
        return of_streamed(a) if isinstance(a, Streamed) else of_shards(a) if isinstance(a, Shards) else fn(a)

    return jax.tree.map(of, data, is_leaf=_is_source)


def count(data: Tree) -> int:
    """How many rows there are."""
    first = jax.tree.leaves(data, is_leaf=_is_source)[0]
    return first.n if _is_source(first) else first.shape[0]


def in_memory(data: Tree) -> bool:
    """Whether all of it is there as arrays."""
    return not any(map(_is_source, jax.tree.leaves(data, is_leaf=_is_source)))


def one_row(data: Tree) -> Tree:
    """The shapes and dtypes of one row."""
    held = _map(lambda a: a, lambda s: s.few, lambda s: s.places, data)
    return jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape[1:], a.dtype), held)


def bytes_a_row(data: Tree) -> int:
    """How much memory a row takes."""
    held = _map(lambda a: a, lambda s: s.few, lambda s: s.places, data)
    return sum(a.dtype.itemsize * math.prod(a.shape[1:]) for a in jax.tree.leaves(held))


def slice_of(data: Tree, start: Any, size: int) -> Tree:
    """Rows start..start+size-1 as arrays; the start may be traced."""
    return _map(
        lambda a: jax.lax.dynamic_slice_in_dim(a, start, size),
        lambda s: s.slice(jnp.asarray(start), size),
        lambda s: s.take(start + jnp.arange(size)),
        data,
    )


def spread(data: Tree, step: int) -> Tree:
    """About every `step`-th row; of a streamed source among those that it keeps."""

    def of_kept(source: Streamed) -> Tree:
        return jax.tree.map(lambda a: a[:: max(1, step * count(source.few) // source.n)], source.few)

    return _map(lambda a: a[::step], of_kept, lambda s: s.take(np.arange(0, s.n, step)), data)


def kept(data: Tree) -> Tree:
    """The rows that are in memory: all of them, the few that a streamed source keeps, or as few of those on a mesh."""
    return _map(lambda a: a, lambda s: s.few, lambda s: s.take(np.arange(0, s.n, -(-s.n // _KEPT))), data)


def first_row(data: Tree) -> Tree:
    """One row, with an axis of rows."""
    held = _map(lambda a: a, lambda s: s.few, lambda s: s.take(np.arange(1)), data)
    return jax.tree.map(lambda a: a[:1], held)


def stepping(data: Tree, start: Any, size: int, step: Any) -> Tree:
    """Rows start, start + step, ..., `size` of them, repeated beyond the end; start and step may be traced. Of a streamed
    source those nearest among the ones that it keeps, unless the step is one."""
    index = start + jnp.arange(size) * step

    def of_streamed(source: Streamed) -> Tree:
        n, some = source.n, count(source.few)

        def one_by_one() -> Tree:
            begin = jnp.clip(start, 0, max(n - size, 0))
            rows = source.slice(begin, min(size, n))
            return jax.tree.map(lambda a: jnp.take(a, index - begin, axis=0, mode="clip"), rows)

        nearest = (index.astype(float) * (some / n)).astype(int) if some < n else index
        return jax.lax.cond(
            jnp.asarray(step) == 1,
            one_by_one,
            lambda: jax.tree.map(lambda a: jnp.take(a, nearest, axis=0, mode="clip"), source.few),
        )

    return _map(lambda a: jnp.take(a, index, axis=0, mode="clip"), of_streamed, lambda s: s.take(index), data)


@contextlib.contextmanager
def plain_errors() -> Iterator[None]:
    """What a reader raises inside compiled code comes out wrapped; here it is as it was said."""
    _failures.clear()  # of those whom nobody asked
    try:
        yield
    except Exception as error:
        said = [failure for failure in _failures if str(failure) in str(error)]
        _failures.clear()
        if not said:
            raise
        raise said[-1] from None


class _Known(logging.Filter):
    """JAX logs what a call back raises; what is about to be said in a sentence need not be said twice."""

    def filter(self, record: logging.LogRecord) -> bool:
        return not (record.exc_info and any(record.exc_info[1] is failure for failure in _failures))


logging.getLogger("jax._src.callback").addFilter(_Known())
