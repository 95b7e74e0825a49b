"""All rows of a source that is read in slices as a pass goes on.

A `Streamed` source is a pytree whose arrays are a few of its rows, spread evenly, and a number by which the host knows the
reader: a slice inside a compiled loop is a call back to it. So a pass over files is the same program as one over arrays, in
constant memory, and a program that was compiled for one source serves all of its shape.
"""

import itertools
import weakref
from abc import ABC, abstractmethod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tightrope._errors import failures
from tightrope.sampling.rows import Arrays, Data
from tightrope.tree import Array, Tree, pytree, set_field, static

readers: "weakref.WeakValueDictionary[int, Reader]" = weakref.WeakValueDictionary()
_numbers = itertools.count()


class Reader(ABC):
    """Reads rows for passes over all the data."""

    @abstractmethod
    def read(self, start: int, size: int) -> Tree:
        """Rows start..start+size-1, as NumPy arrays; passes ask for them in their order."""


@pytree
class Streamed(Data):
    """All rows of a source that is read in slices (`streamed` makes one)."""

    arrays: Tree  # some of them, spread evenly, that are kept in memory
    number: Any  # by which compiled code knows the reader
    n: int = static()

    def take(self, start: Any, size: int, step: Any = None) -> Tree:
        """Rows as they are read; those some steps apart are the nearest among the ones that are kept, unless the step is
        one."""
        if step is None:
            return self._read(jnp.asarray(start), size)
        index, (n, some) = start + jnp.arange(size) * step, (self.n, self.held)

        def one_by_one() -> Tree:
            begin = jnp.clip(start, 0, max(n - size, 0))
            rows = self._read(jnp.asarray(begin), min(size, n))
            return Arrays(rows).rows(index - begin)

        nearest = (index.astype(float) * (some / n)).astype(int) if some < n else index
        return jax.lax.cond(jnp.asarray(step) == 1, one_by_one, lambda: Arrays(self.arrays).rows(nearest))

    def few(self, step: int | None = None) -> Tree:
        return Arrays(self.arrays).few(None if step is None else max(1, step * self.held // self.n))

    @property
    def held(self) -> int:
        """How many rows are kept in memory."""
        return jax.tree.leaves(self.arrays)[0].shape[0]

    def _read(self, start: Array, size: int) -> Tree:
        return asked(self.number, self.arrays, start, size)


def streamed(reader: Reader, n: int, few: Tree) -> Streamed:
    """The n rows of a reader, few of which are kept in memory; it lives as long as what is made here."""
    made = Streamed(jax.tree.map(jnp.asarray, few), jnp.asarray(known_as(reader), jnp.int32), n)
    set_field(made, "readers", (reader,))
    return made


def known_as(reader: Reader) -> int:
    """The number by which compiled code knows a reader."""
    number = next(_numbers)
    readers[number] = reader
    return number


def asked(number: Array, like: Tree, start: Array, size: int) -> Tree:
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
            rows = jax.tree.leaves(readers[int(number)].read(int(start), size))
            whole = [np.ascontiguousarray(a, dtype) for a, dtype in zip(rows, dtypes, strict=True)]
            return [a.view(np.uint32).reshape(s.shape) if w else a for a, s, w in zip(whole, shapes, wide, strict=True)]
        except BaseException as error:
            failures.append(error)
            raise

    words = jax.pure_callback(ask, shapes, number, start)
    rows = [
        jax.lax.bitcast_convert_type(a, leaf.dtype) if w else a for a, leaf, w in zip(words, leaves, wide, strict=True)
    ]
    return jax.tree.unflatten(kind, rows)
