"""All the rows of a source, for whoever looks at them: arrays, files that are read in slices, or either over devices.

Who looks at all rows asks what every kind can say (`Data`), and does not know which it has. Arrays come as they are, in
whatever pytree; `data_of` is the one place that tells them from the other kinds.
"""

import contextlib
import logging
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tightrope.sampling.base import Blocks, Draws, Plan
from tightrope.sampling.passes import Order
from tightrope.tree import Array, Tree

OfSlice = Callable[[Tree, Array], Tree]  # what a slice adds to a sum, given its rows and what each of them weighs
Sums = Callable[[OfSlice, "Data", Any], Tree]  # the sum over the slices of a part, of which so many rows count


class Data(ABC):
    """All the rows there are."""

    n: int
    arrays: Tree  # those that are held: all rows, or some
    in_memory = False  # whether these are all rows, as they are

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
        return sum(a.dtype.itemsize * math.prod(a.shape) for a in jax.tree.leaves(self.row))


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


# ---- what readers raise -------------------------------------------------------------------------------------------------

failures: list[BaseException] = []  # of calls back, until whoever has called hears of them


class UnreadableError(ValueError):
    """Data that cannot be read, or not used as it is: the sentence names the file."""


@contextlib.contextmanager
def plain_errors() -> Iterator[None]:
    """What a reader raises inside compiled code comes out wrapped; here it is as it was said."""
    failures.clear()  # of those whom nobody asked
    try:
        yield
    except Exception as error:
        said = [failure for failure in failures if str(failure) in str(error)]
        failures.clear()
        if not said:
            raise
        raise said[-1] from None


class _Known(logging.Filter):
    """JAX logs what a call back raises; what is about to be said in a sentence need not be said twice."""

    def filter(self, record: logging.LogRecord) -> bool:
        return not (record.exc_info and any(record.exc_info[1] is failure for failure in failures))


logging.getLogger("jax._src.callback").addFilter(_Known())
