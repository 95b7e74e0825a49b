"""What every source of samples is: a `Sampler` opens into `Draws`, which prepare the samples of many steps at once."""

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple, Self

import jax
import jax.numpy as jnp
import numpy as np

from tightrope._limits import AT_ONCE
from tightrope.sampling.passes import Passes
from tightrope.tree import Array, Tree

_BLOCK_STEPS = 16_384  # steps in a block at most, a power of two: a guess
BLOCK_BYTES = 8 * AT_ONCE  # of a block, and of rows that are shuffled together, at most


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
