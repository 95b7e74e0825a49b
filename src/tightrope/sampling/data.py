"""What every source of samples is: a `Sampler` opens into `Draws`, which prepare the samples of many steps at once; and all
the rows of a source, `Data`, for whoever looks at them: arrays, files that are read in slices, or either over devices.

Who looks at all rows asks what every kind can say, and does not know which it has. Arrays come as they are, in whatever
pytree; `data_of` is the one place that tells them from the other kinds.
"""

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple, Self

import jax
import jax.numpy as jnp
import numpy as np

from tightrope.sampling.passes import Passes
from tightrope.tree import Array, Tree

_BLOCK_STEPS = 16_384  # steps in a block at most, a power of two: a guess
KEPT_ROWS = 1 << 16  # rows of a sample that stays at hand, at most: a guess, by which a mean is known to half a percent
BLOCK_BYTES = 32 * 2**20  # bytes of a block, and of rows that are shuffled together, at most: a guess


class Plan(NamedTuple):
    """How a run wants its samples."""

    seeds: tuple[int, ...]  # one for a run, several for a sweep
    draws: int = 1  # independent batches a step
    batch_size: int = 1
    steps: int = 2**31  # how many will be asked for at most


class Buffer(NamedTuple):
    """Samples (or their indices) of some steps, lying at `offset` in arrays of a fixed length."""

    items: Tree  # leaves (seeds, steps, draws, batch, ...)
    offset: int
    steps: int


class Draws(ABC):
    """An opened sampler: the samples of step t and after, a buffer at a time."""

    @abstractmethod
    def take(self, t: int, count: int) -> Buffer:
        """Samples for at most `count` steps from step t (counted from 0) on; none when the samples have ended."""


class Sampler(ABC):
    """A source of samples theta."""

    per_seed = True  # False where all seeds see the same samples; the axis of seeds then has length 1
    n: int | None = None  # how many rows there are, where they are all at hand
    together: bool = False  # True where several processes have parts of the data, and take every step together

    @property
    def rows(self) -> Tree:
        """All the data, where it is at hand: a pytree of arrays with one sample per row."""
        raise TypeError(f"All the data was asked for and a {type(self).__name__} was given; expected arrays.")

    @property
    def content(self) -> tuple[Any, ...]:
        """Strings and arrays that tell this source from others of its kind, as far as that can be known."""
        return ()

    def some(self, count: int, seed: int) -> Tree:
        """At most so many samples to look at, stacked."""
        buffer = self.open(Plan((seed,))).take(0, count)
        return jax.tree.map(lambda a: a[0, : buffer.steps, 0, 0], buffer.items)

    def fresh(self, seed: int, count: int) -> Tree | None:
        """So many samples, stacked, that no run of this seed uses; None where the source would lose them."""
        return None

    def lately(self, plan: Plan, step: int) -> Tree | None:
        """The last samples that a run has drawn up to a step, in their order; None where they cannot be had again."""
        return None

    def in_order(self, count: int) -> Tree | None:
        """At most so many samples in stretches of neighbours, where the source has an order of its own."""
        return None

    @abstractmethod
    def example(self) -> Tree:
        """The shapes and dtypes of one sample."""

    @abstractmethod
    def open(self, plan: Plan) -> Draws:
        """Begin to draw samples as the plan says."""

    def pick(self, item: Tree) -> Tree:
        """The samples that an item of a buffer stands for; runs inside the compiled loop."""
        return item

    def placed(self, point: Tree) -> Tree:
        """A point where the steps are taken, so that what is compiled for the first of them serves them all."""
        return point

    def narrowed(self) -> Self:
        """The same source with no more digits than JAX computes with now, which are fewer than rows are kept with where
        somebody asks for float32."""
        return self

    def check(self, plan: Plan) -> None:  # noqa: B027 (nothing to refuse is a good answer)
        """Refuse a plan that cannot be met."""


def refuse_what_is_no_number(who: str, array: Any) -> None:
    """Refuse an array that a step cannot compute with."""
    if array.dtype.kind not in "fiub":
        raise TypeError(
            f"{who} an array of dtype {array.dtype}; expected numbers. Encode text and categories first, or leave them out."
        )


def refuse_what_wraps(who: str, array: np.ndarray) -> None:
    """Refuse whole numbers that JAX, as configured, cannot hold: it would keep their last 32 bits without a word."""
    kept = jax.dtypes.canonicalize_dtype(array.dtype)
    if array.dtype.kind not in "iu" or kept == array.dtype or not array.size:
        return
    least, most = int(array.min()), int(array.max())
    limits = np.iinfo(kept)
    if least < limits.min or most > limits.max:
        strange = most if most > limits.max else least
        raise ValueError(
            f"{who}: the data has the whole number {strange:,} ({array.dtype}), and JAX as it is configured holds "
            f"{limits.min:,} to {limits.max:,}. Number what it stands for from 0 on, give it as floats, or enable 64 bits "
            '(jax.config.update("jax_enable_x64", True) before anything else).'
        )


def as_held(leaf: Any) -> Any:
    """An array with the digits that JAX computes with now; refuses whole numbers that it could not hold."""
    if leaf.dtype == jax.dtypes.canonicalize_dtype(leaf.dtype):
        return leaf
    if leaf.is_fully_addressable:
        refuse_what_wraps("Rows", np.asarray(leaf))
    return leaf.astype(jax.dtypes.canonicalize_dtype(leaf.dtype))


def length(rows: Tree) -> int:
    """How many there are of samples that are stacked."""
    return len(jax.tree.leaves(rows)[0])


def filled(rows: Tree, steps: int, plan: Plan, length: int) -> Buffer:
    """A buffer for `length` steps whose first ones are made of the given rows; the rest only fills the shape."""

    def shaped(a):
        fixed = np.zeros((length, plan.draws, plan.batch_size, *a.shape[1:]), a.dtype)
        fixed[:steps] = a[: steps * plan.draws * plan.batch_size].reshape(steps, *fixed.shape[1:])
        return jnp.asarray(fixed[None])

    return Buffer(jax.tree.map(shaped, rows), 0, steps)


def block_length(bytes_a_step: int) -> int:
    """Steps in a block: a power of two, so that blocks stay aligned, within a bound on memory."""
    fitting = max(1, BLOCK_BYTES // max(1, bytes_a_step))
    return min(_BLOCK_STEPS, 1 << (fitting.bit_length() - 1))


class Blocks(Draws):
    """Blocks of steps, each made at once.

    Args:
        plan: how a run wants its samples.
        bytes_a_sample: how much memory one takes.
        make: `make(start, steps, length)`, arrays for `length` steps of which the first ones are used; their shape must not
            depend on how many.
        aligned: whether blocks begin where they do in every run, so that no bit depends on where a chunk begins; else at
            the step that is asked for, so that a resumed run reads nothing that it has used.
    """

    def __init__(self, plan: Plan, bytes_a_sample: int, make: Callable[[int, int, int], Tree], aligned: bool = True):
        self.length = block_length(bytes_a_sample * plan.draws * plan.batch_size * len(plan.seeds))
        self.plan, self.make, self.aligned = plan, make, aligned
        self.start, self.end, self.items = 0, 0, ()

    def take(self, t: int, count: int) -> Buffer:
        if not self.start <= t < self.end:
            start = t - t % self.length if self.aligned else t
            end = min(start + self.length, self.plan.steps)
            self.items = self.make(start, end - start, self.length)
            self.start, self.end = start, end
        return Buffer(self.items, t - self.start, min(count, self.end - t))


class Order:
    """The rows of steps, by their numbers."""

    def __init__(self, n: int, replace: bool, plan: Plan):
        self.passes, self.plan = Passes(n, replace), plan

    def __call__(self, start: int, steps: int, length: int) -> Array:
        """Row numbers of so many steps, shaped (seeds, length, draws, batch); the rest only fills the shape."""
        plan, b = self.plan, self.plan.batch_size
        order = np.zeros((len(plan.seeds), length, plan.draws, b), np.int32)
        for (i, seed), draw in itertools.product(enumerate(plan.seeds), range(plan.draws)):
            order[i, :steps, draw] = self.passes.entries((seed, draw), start * b, steps * b).reshape(steps, b)
        return jnp.asarray(order)


# ---- all rows --------------------------------------------------------------------------------------------------------

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
