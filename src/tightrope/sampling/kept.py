"""Samples of a stream that are kept: all of them in arrays of a fixed length, and parts of them that share one program.

Whoever solves on growing parts of a stream, and on all but a fifth of it, would compile everything anew for each length. A
`Part` therefore is the same arrays each time, with numbers, which may be traced, that say which of their rows count.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from tightrope._jaxlib import compiled
from tightrope.sampling.rows import Arrays, Data
from tightrope.sampling.sampler import BLOCK_BYTES, Plan, Sampler
from tightrope.tree import Array, Tree, pytree, static


@pytree
class Part(Data):
    """Some of the rows of arrays: from `begin` on those before `cut`, then those after the `gap` rows left out there."""

    arrays: Tree  # with room for more rows than count
    begin: Any  # where the first row is
    count: Any  # how many rows count
    cut: Any  # where rows are left out ...
    gap: Any  # ... and how many
    shortest: int = static()  # rows that every part of these arrays has

    together = False

    @property
    def least(self) -> int:
        """How many rows there are at least."""
        return self.shortest

    @property
    def n(self) -> Any:  # pyright: ignore[reportIncompatibleVariableOverride]
        """How many rows count; inside a program a traced number."""
        return self.count if isinstance(self.count, Tracer) else int(self.count)

    def take(self, start: Any, size: int, step: Any = None) -> Tree:
        """Rows in their order. A slice on one side of the gap is no lookup."""
        every = Arrays(self.arrays)
        if step is not None:
            return every.rows(self._place(start + jnp.arange(size) * step))
        before, after = start + size <= self.cut, start >= self.cut

        def slice_() -> Tree:
            return every.take(self.begin + jnp.where(before, start, start + self.gap), size)

        return jax.lax.cond(before | after, slice_, lambda: every.rows(self._place(start + jnp.arange(size))))

    def few(self, step: int | None = None) -> Tree:
        if isinstance(self.count, Tracer):  # a number of rows that is known, spread evenly
            some = min(self.shortest, 256)
            return Arrays(self.arrays).rows(self._place(jnp.arange(some) * (self.count // some)))
        index = np.arange(0, self.n, 1 if step is None else step)
        return Arrays(self.arrays).rows(jnp.asarray(self._place(index)))

    def placed(self, point: Tree) -> Tree:
        """A point where the samples are."""
        return point

    def without(self, start: int, count: int) -> "Part":
        """These rows but for so many from `start` on; of a part that leaves out none yet."""
        return Part(self.arrays, self.begin, _whole(self.n - count), _whole(start), _whole(count), self.shortest)

    def only(self, start: int, count: int) -> "Part":
        """So many of these rows from `start` on; of a part that leaves out none yet."""
        return Part(self.arrays, self.begin + _whole(start), _whole(count), _whole(count), _whole(0), self.shortest)

    def _place(self, index: Any) -> Any:
        """Where in the arrays a row of this part lies; beyond the last one, there."""
        index = jnp.minimum(index, self.count - 1)
        return self.begin + jnp.where(index < self.cut, index, index + self.gap)


def _whole(number: int) -> np.ndarray:
    return np.asarray(number, np.int32)


class Kept:
    """The samples of a run, read from its draws block by block as more of them are asked for.

    Args:
        sampler: where they come from.
        plan: how the run draws them, one batch a step.
        least: rows that every part will have.
        most: steps whose samples there is room for; by default all.
    """

    def __init__(self, sampler: Sampler, plan: Plan, least: int, most: int | None = None):
        self.plan, self.least, self.draws = plan, least, sampler.open(plan)
        self.most = plan.steps if most is None else most
        self.steps, self.ended, self.arrays = 0, False, None
        self.begun = 0  # the step from whose samples on they are here

    @property
    def n(self) -> int:
        """How many are here."""
        return (self.steps - self.begun) * self.plan.batch_size

    def forget(self, steps: int) -> None:
        """Make room: the next to be read are those of the steps from this one on."""
        self.begun = self.steps = steps

    def read(self, steps: int) -> None:
        """Have the samples of at least so many steps, or of all that there are or there is room for."""
        while self.steps < steps and not self.ended:
            buffer = self.draws.take(self.steps, min(self.plan.steps, self.begun + self.most) - self.steps)
            if buffer.steps == 0:
                self.ended = True
                return
            block = jax.tree.map(_by_rows, buffer.items)
            if self.arrays is None:  # a block is written whole, and its end may have samples of no step
                room = _room(self.most * self.plan.batch_size + len(jax.tree.leaves(block)[0]), block)
                self.arrays = jax.tree.map(lambda a, room=room: jnp.zeros((room, *a.shape[1:]), a.dtype), block)
            at = buffer.offset * self.plan.batch_size
            self.arrays = _written(self.arrays, block, _whole(at), _whole(self.n))
            self.steps += buffer.steps

    def part(self, steps: int) -> Part:
        """The samples of the steps before this one that are here."""
        n = (steps - self.begun) * self.plan.batch_size
        return Part(self.arrays, _whole(0), _whole(n), _whole(n), _whole(0), self.least)


def _room(rows: int, like: Tree) -> int:
    """Rows to make room for: a power of two, so that runs of other lengths are the same program, up to eight blocks."""
    rounded = 1 << (rows - 1).bit_length()
    return rounded if rounded * Arrays(like).bytes_a_row <= 8 * BLOCK_BYTES else rows


def _by_rows(items: Array) -> Array:
    """A buffer's leaf (seeds, steps, draws, batch, ...) of one seed and draw, with a row per sample."""
    return items.reshape(-1, *items.shape[4:])


@compiled(donate_argnums=0)
def _written(arrays: Tree, block: Tree, begin: Array, at: Array) -> Tree:
    """The arrays with a block from its row `begin` on written at a place, and behind it what does not count."""

    def write(array: Array, rows: Array) -> Array:
        rows = jnp.roll(rows, -begin, axis=0)
        return jax.lax.dynamic_update_slice_in_dim(array, rows, at, axis=0)

    return jax.tree.map(write, arrays, block)
