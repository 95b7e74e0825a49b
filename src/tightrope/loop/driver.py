"""THE driver of chunks, under `minimize`, `sweep` and `Online` alike.

A chunk is a look at all the data where one is due, samples from a buffer, steps in one compiled call, and a check that
everything is finite. The driver knows no algorithm and no set, keeps no clock and prints nothing: `run.py` does that.
"""

from typing import Any, NamedTuple, Protocol

import numpy as np

from tightrope.loop.prepare import Prepared
from tightrope.loop.steps import Carry, Variant, advance, advance_on_all_rows, refresh, start
from tightrope.methods import Method, Refreshing
from tightrope.sampling import Buffer, Draws
from tightrope.tree import Array


class Position(NamedTuple):
    """Where a run stands; replaced whole, so that an interrupt never sees half of it."""

    carry: Carry
    step: int
    record: dict[str, Array] = {}  # noqa: RUF012 (never changed) what the last step wants recorded


class NotFiniteError(FloatingPointError):
    """A step met a value that is not finite."""

    def __init__(self, good: Position, step: int, broken: Carry):
        super().__init__(f"a value is not finite in step {step:,}")
        self.good, self.step, self.broken = good, step, broken  # the last good position; the bad step, counted from 1


class Program(Protocol):
    """What is compiled, for one run or for many side by side."""

    def refresh(self, carry: Carry) -> Carry:
        """After the method's look at all the data."""
        ...

    def advance(self, carry: Carry, buffer: Buffer, first: int, count: int) -> tuple[Carry, dict[str, Array], bool]:
        """After steps first .. first+count-1: the carry, what is to be recorded, and whether all of it is finite."""
        ...


class OneRun:
    """The program of a single run."""

    def __init__(self, ready: Prepared, track: Any = None):
        assert isinstance(ready.method, Method)
        self.ready, self.method, self.variant = ready, ready.method, Variant(ready.sizes, track)

    def start(self) -> Carry:
        """The carry before the first step."""
        ready, horizon = self.ready, np.int32(self.ready.steps)
        return start(self.method, ready.problem, ready.x, ready.lam, horizon, self.variant)

    def refresh(self, carry: Carry) -> Carry:
        """After the method's look at all the data."""
        ready = self.ready
        assert isinstance(self.method, Refreshing)
        return carry._replace(state=refresh(self.method, ready.problem, carry.state, ready.sampler.rows))

    def advance(self, carry: Carry, buffer: Buffer, first: int, count: int) -> tuple[Carry, dict[str, Array], bool]:
        """After so many steps."""
        ready, where = self.ready, (np.int32(buffer.offset), np.int32(first), np.int32(count))
        carry, record, finite = (advance_on_all_rows if self.method.facts.full_batch else advance)(
            self.method, ready.problem, ready.sampler, carry, buffer.items, *where, variant=self.variant
        )
        return carry, record, bool(finite)


def refresh_period(method: Method) -> int | None:
    """How many steps a look at all the data serves; None for a method that takes none."""
    return method.refresh_every if isinstance(method, Refreshing) else None


class Driver:
    """Takes a program from position to position."""

    def __init__(self, program: Program, draws: Draws, refresh_every: int | None = None):
        self.program, self.draws, self.every = program, draws, refresh_every

    def chunk(self, position: Position, end: int) -> Position:
        """As many steps towards `end` as there are before the next refresh and in the buffer.

        The position stays as it is where the samples have ended.

        Raises:
            NotFiniteError: at a value that is not finite.
        """
        ready = self.refreshed(position)
        buffer = self.take(position.step, end)
        return self.advance(position, ready, buffer) if buffer.steps else position

    def refresh_due(self, step: int) -> bool:
        """Whether the method looks at all the data before this step."""
        return bool(self.every) and step % (self.every or 1) == 0

    def refreshed(self, position: Position) -> Carry:
        """The carry after a look at all the data, where one is due. It is kept only with the steps that follow, so an
        interrupted refresh is simply done again."""
        return self.program.refresh(position.carry) if self.refresh_due(position.step) else position.carry

    def take(self, step: int, end: int) -> Buffer:
        """Samples for steps from `step` on, not beyond `end` and the next refresh; none where they have ended."""
        end = min(end, (step // self.every + 1) * self.every) if self.every else end
        return self.draws.take(step, end - step)

    def advance(self, position: Position, ready: Carry, buffer: Buffer) -> Position:
        """After the buffer's steps, from the carry that is ready for them."""
        carry, record, finite = self.program.advance(ready, buffer, position.step, buffer.steps)
        if not finite:
            raise self._not_finite(position, ready, buffer)
        return Position(carry, position.step + buffer.steps, record)

    def _not_finite(self, position: Position, ready: Carry, buffer: Buffer) -> NotFiniteError:
        """Bisect for the first bad step: NaNs never leave the sums, and the same steps give the same values."""

        def after(count: int) -> tuple[Carry, dict[str, Array], bool]:
            return self.program.advance(ready, buffer, position.step, count)

        good, bad = 0, buffer.steps
        while bad - good > 1:
            middle = (good + bad) // 2
            good, bad = (middle, bad) if after(middle)[2] else (good, middle)
        last_good = Position(after(good)[0], position.step + good) if good else position
        return NotFiniteError(last_good, position.step + bad, after(bad)[0])
