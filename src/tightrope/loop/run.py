"""THE loop. It knows no algorithm, no set, no estimator.

Compiled inside, Python outside: `steps.advance` takes a chunk of steps in one compiled call; between chunks plain Python
records, checks that everything is finite, draws the progress bar, calls back, reads the clock, writes the checkpoint.
"""

import dataclasses
import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple, cast

import jax
import numpy as np

from tightrope.loop.checkpoint import Checkpoint
from tightrope.loop.prepare import Prepared
from tightrope.loop.progress import Progress
from tightrope.loop.steps import Carry, Layout, advance, average, refresh, summarise, track_names
from tightrope.methods import gradients_used
from tightrope.problem.full_data import full_values
from tightrope.result import Status
from tightrope.sampling import Buffer, Draws, Rows
from tightrope.tree import Array, Tree


@dataclasses.dataclass(frozen=True)
class Options:
    """Run-wide options; every one of them is an argument of `minimize`."""

    record: int = 60
    trace_full: bool = False
    callback: Callable[["Snapshot"], Any] | None = None
    progress: bool | None = None
    time_limit: float | None = None
    tol: float | None = None
    inner: Any = None  # (F, H) of a strictly feasible point, for the duality gap
    chunk: int | None = None


class Snapshot(NamedTuple):
    """What a callback sees."""

    step: int
    average: Tree
    last: Tree
    dual: np.ndarray
    row: dict[str, float]


class Position(NamedTuple):
    """Where a run stands; replaced whole, so that an interrupt never sees half of it."""

    carry: Carry
    step: int


@dataclasses.dataclass
class Outcome:
    """Where a run ended and how."""

    position: Position
    rows: list[dict[str, float]]
    seconds: float
    status: Status = Status.FINISHED
    message: str = ""
    error: BaseException | None = None


def record_steps(steps: int, points: int) -> list[int]:
    """Steps worth a row of the trace: half spread evenly, half in ratio, and the last one."""
    half = max(1, points // 2)
    even = np.linspace(steps / half, steps, half)
    ratio = np.geomspace(1, steps, half)
    at = np.maximum(np.round(np.concatenate([even, ratio])), 1).astype(int).tolist() if points else []
    return sorted({steps, *at})


def run(
    ready: Prepared, carry: Carry, options: Options, layout: Layout, checkpoint: Checkpoint | None = None
) -> Outcome:
    """Take steps until they are all taken or something ends the run; what there is then is always returned."""
    loop = _Loop(ready, options, layout, Outcome(Position(carry, 0), [], 0.0), checkpoint)
    if checkpoint is not None and checkpoint.exists():
        loop.resume()
    with Progress(ready.steps, options.progress) as bar:
        try:
            loop.go(bar)
        except KeyboardInterrupt:
            loop.stop(Status.INTERRUPTED)
    loop.save()
    return loop.out


class _Loop:
    """The loop's moving parts."""

    def __init__(self, ready: Prepared, options: Options, layout: Layout, out: Outcome, checkpoint: Checkpoint | None):
        self.problem, self.sampler, self.method = ready.problem, ready.sampler, ready.method
        self.steps, self.plan, self.names = ready.steps, ready.plan, ready.names
        self.options, self.layout, self.out, self.checkpoint = options, layout, out, checkpoint
        self.track_names = track_names(layout, ready.x)
        self.records = record_steps(self.steps, options.record)
        self.gap = float("nan")  # known after the first refresh, where one was asked for
        self.pace = 64  # steps a chunk may take, until their speed is known

    def go(self, bar: Progress) -> None:
        """Chunk after chunk."""
        draws = self.sampler.open(self.plan)
        before, began = self.out.seconds, time.perf_counter()
        while self.out.position.step < self.steps:
            position, chunk_began = self.out.position, time.perf_counter()
            ready = self._refreshed(position, bar)
            if ready is None:
                return
            buffer = self._take(draws, position.step)
            if buffer is None:
                return
            carry, finite = self._advance(ready, buffer, buffer.steps)
            if not finite:
                self._back_to_last_good(ready, buffer)
                return
            self.out.position = Position(carry, position.step + buffer.steps)
            now = time.perf_counter()
            self.out.seconds = before + now - began
            self._set_pace(buffer.steps / (now - chunk_began))
            if self.out.position.step in self.records and self._record(bar):
                return
            if self.options.time_limit is not None and now - began >= self.options.time_limit:
                finished = self.out.position.step >= self.steps
                self.stop(Status.FINISHED if finished else Status.TIME_LIMIT)
                return
            if self.checkpoint is not None and self.checkpoint.due(self.out.position.step):
                self.save()

    def _take(self, draws: Draws, step: int) -> Buffer | None:
        """Samples for the next chunk; None, and the run stopped, where there are none or reading them failed."""
        try:
            buffer = draws.take(step, self._until_boundary(step))
        except Exception as error:  # of a user's stream: it must not cost them the run
            self.out.error = error
            self.stop(Status.STREAM_RAISED, f"After {step:,} steps: {type(error).__name__}: {error}")
            return None
        if buffer.steps == 0:
            self.stop(Status.STREAM_ENDED, f"The stream gave samples for {step:,} steps.")
            return None
        return buffer

    def _set_pace(self, steps_a_second: float) -> None:
        """Chunks of about half a second at most: nobody waits longer for Ctrl-C, a time limit or the bar."""
        self.pace = int(np.clip(steps_a_second / 2, max(1, self.pace // 8), self.pace * 8))

    def _until_boundary(self, step: int) -> int:
        """How many steps may be taken before Python has something to do."""
        ends = [next(r for r in self.records if r > step), step + self.pace]
        every = [self.method.refresh_every, self.checkpoint and self.checkpoint.every_steps]
        ends += [(step // k + 1) * k for k in every if k]
        ends += [step + self.options.chunk] if self.options.chunk else []
        return min(ends) - step

    def _refreshed(self, position: Position, bar: Progress) -> Carry | None:
        """After a look at all the data where one is due; kept only with the chunk that follows, so an interrupted
        refresh is simply redone. None, and the run stopped, where it shows that the tolerance is met."""
        every = self.method.refresh_every
        if not every or position.step % every:
            return position.carry
        assert isinstance(self.sampler, Rows)
        state = refresh(self.method, self.problem, position.carry.state, self.sampler.data)
        ready = position.carry._replace(state=state)
        if self.options.tol is not None:
            self.gap = float(cast(Array, self.method.gap(state, self.options.inner)))
            if self.gap <= self.options.tol and position.step:
                self.out.position = Position(ready, position.step)
                if not self.out.rows or self.out.rows[-1]["step"] < position.step:
                    self._record(bar)
                self.out.rows[-1]["gap"] = self.gap
                self.stop(Status.TOLERANCE, f"The gap is {self.gap:.3g} after {position.step:,} steps.")
                return None
        return ready

    def _advance(self, carry: Carry, buffer: Buffer, count: int) -> tuple[Carry, bool]:
        where = np.int32(buffer.offset), np.int32(self.out.position.step), np.int32(count)
        carry, finite = advance(
            self.method, self.problem, self.sampler, carry, buffer.items, *where, layout=self.layout
        )
        return carry, bool(finite)

    def _back_to_last_good(self, carry: Carry, buffer: Buffer) -> None:
        """Bisect for the first bad step: NaNs never leave the sums, and the same steps give the same values."""
        good, bad = 0, buffer.steps
        while bad - good > 1:
            middle = (good + bad) // 2
            good, bad = (middle, bad) if self._advance(carry, buffer, middle)[1] else (good, middle)
        first = self.out.position.step
        broken, _ = self._advance(carry, buffer, bad)
        self.out.position = Position(
            self._advance(carry, buffer, good)[0] if good else self.out.position.carry, first + good
        )
        self.stop(Status.NOT_FINITE, f"{self._culprit(broken)} is not finite in step {first + bad:,}.")

    def _culprit(self, carry: Carry) -> str:
        sums = summarise(carry.totals.scalars, len(self.names), self.track_names)
        if not np.isfinite(sums.objective):
            return "The objective"
        for name, value in zip(self.names, sums.h, strict=True):
            if not np.isfinite(value):
                return f"The constraint {name}"
        for name, value in sums.tracked.items():
            if not np.isfinite(value):
                return f"The tracked {name}"
        return "The gradient, the point or a multiplier"

    def _record(self, bar: Progress) -> bool:
        """Add a row to the trace, show it, call back; True when the callback ends the run."""
        carry, step = self.out.position
        sums = summarise(carry.totals.scalars, len(self.names), self.track_names)
        row: dict[str, float] = {"step": step, "samples": step * self.plan.draws * self.plan.batch_size}
        if isinstance(self.sampler, Rows):
            row["passes"] = gradients_used(self.method, step, self.plan.batch_size, self.sampler.n) / self.sampler.n
        row["seconds"] = self.out.seconds
        if self.options.tol is not None:
            row["gap"] = self.gap
        if self.problem.knows_objective:
            row["objective"] = float(sums.objective)
        row |= dict(zip(self.names, sums.h.tolist(), strict=True))
        row |= {f"dual {name}": v for name, v in zip(self.names, sums.lam.tolist(), strict=True)}
        row |= {name: float(value) for name, value in sums.tracked.items()}
        if hasattr(carry.state, "memory"):  # of linear minimisations
            row |= {name: float(v) for name, v in self.problem.domain.lmo_record(carry.state.memory).items()}
        if self.options.trace_full and isinstance(self.sampler, Rows):
            f, h = full_values(self.problem, average(carry), self.sampler.data)
            row |= {"full objective": float(f)} if self.problem.knows_objective else {}
            row |= {f"full {name}": float(v) for name, v in zip(self.names, h, strict=True)}
        self.out.rows.append(row)
        bar.show(step, sums.objective if self.problem.knows_objective else None, sums.h)
        return self._call_back(row)

    def _call_back(self, row: dict[str, float]) -> bool:
        if self.options.callback is None:
            return False
        carry, step = self.out.position
        try:
            said = self.options.callback(
                Snapshot(step, average(carry), carry.state.x, np.asarray(carry.state.lam), row)
            )
            stop = isinstance(said, bool | np.bool_ | jax.Array) and bool(said)  # comparisons of arrays give these
        except Exception as error:  # a user's mistake must not cost them the run
            self.out.error = error
            self.stop(Status.CALLBACK_RAISED, f"{type(error).__name__}: {error}")
            return True
        if stop:
            self.stop(Status.CALLBACK_STOPPED)
        return stop

    def stop(self, status: Status, message: str = "") -> None:
        """Say how the run ended."""
        self.out.status, self.out.message = status, message

    def save(self) -> None:
        """Write the checkpoint, where one is kept."""
        if self.checkpoint is not None:
            carry, step = self.out.position
            try:
                self.checkpoint.save(carry, step=step, seconds=self.out.seconds, rows=self.out.rows)
            except OSError as error:  # a full disk must not cost the run; the file of the last time is intact
                warnings.warn(f"The checkpoint could not be written ({error}); the run goes on.", stacklevel=2)

    def resume(self) -> None:
        """Go on where the checkpoint stands."""
        assert self.checkpoint is not None
        saved = self.checkpoint.load(self.out.position.carry)
        self.out.position, self.out.rows, self.out.seconds = (
            Position(saved.carry, saved.step),
            saved.rows,
            saved.seconds,
        )
