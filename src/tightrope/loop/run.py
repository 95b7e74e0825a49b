"""A run: the driver's chunks, and between them plain Python, which records, draws the progress bar, calls back, reads the
clock and writes the checkpoint. It knows no algorithm, no set, no estimator."""

import dataclasses
import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np

from tightrope.evidence.gap import Bound, Gap, Inside, gap_of, judged_by_every_row
from tightrope.evidence.stopping import ADVICE, Judge
from tightrope.loop.checkpoint import Checkpoint
from tightrope.loop.driver import Driver, NotFiniteError, OneRun, Position, refresh_period
from tightrope.loop.progress import Progress
from tightrope.loop.steps import Carry, answer, output, running_mean, summarise, track_names
from tightrope.methods import Refreshing, gradients_used
from tightrope.problem import full_values
from tightrope.problem.conflict import said_of_conflict
from tightrope.problem.full_data import full_constraints
from tightrope.result import Status
from tightrope.sampling import Buffer
from tightrope.sampling.data import UnreadableError, plain_errors
from tightrope.sampling.mesh.processes import agreed, leads, said_by_first
from tightrope.tree import Tree


@dataclasses.dataclass(frozen=True)
class Options:
    """Run-wide options; every one of them is an argument of `minimize`."""

    record: int = 60
    trace_full: bool = False
    callback: Callable[["Snapshot"], Any] | None = None
    progress: bool | None = None
    time_limit: float | None = None
    tol: float | None = None
    until_solved: bool = False  # whether the run has no budget, and ends when its gap is small or stalls
    inside: Inside | None = None  # a strictly feasible point, for the duality gap
    estimates: bool = False  # whether the gap that a method estimates speaks of the output, where none is proven
    replaceable: bool = False  # whether another method could go on where this one is far from a solution
    chunk: int | None = None


class Snapshot(NamedTuple):
    """What a callback sees."""

    step: int
    average: Tree  # the mean of the iterates so far; None for a method that keeps none
    last: Tree
    dual: np.ndarray
    row: dict[str, float]


@dataclasses.dataclass
class Outcome:
    """Where a run ended and how."""

    position: Position
    rows: list[dict[str, float]]
    seconds: float
    status: Status = Status.FINISHED
    message: str = ""
    error: BaseException | None = None
    lower: float = -np.inf  # a bound on F* on the data, rounding counted
    judge: Judge = dataclasses.field(default_factory=lambda: Judge(None, False))  # of the gap that stands on it


def record_steps(steps: int, points: int) -> list[int]:
    """Steps worth a row of the trace: half spread evenly, half in ratio, and the last one."""
    half = max(1, min(points, 2 * steps) // 2)
    even = np.linspace(steps / half, steps, half)
    ratio = np.geomspace(1, steps, half)
    at = np.maximum(np.round(np.concatenate([even, ratio])), 1).astype(int).tolist() if points else []
    return sorted({steps, *at})


def run(program: OneRun, options: Options, checkpoint: Checkpoint | None = None) -> Outcome:
    """Take steps until they are all taken or something ends the run; what there is then is always returned."""
    loop = _Run(program, options, checkpoint)
    if checkpoint is not None and checkpoint.exists():
        loop.resume(checkpoint)
    with Progress(loop.ready.steps, options.progress if loop.leads else False) as bar:
        try:
            with plain_errors():
                loop.go(bar)
        except NotFiniteError as error:
            loop.back_to_last_good(error)
        except UnreadableError as error:  # in a pass over files; it must not cost the run
            if loop.out.position.step == 0:
                raise
            loop.unreadable(error)
        except KeyboardInterrupt:
            if loop.together:  # the other processes have no way to know where this one stands
                raise
            loop.stop(Status.INTERRUPTED)
    loop.save()
    return loop.out


class _Run:
    """A run's moving parts."""

    def __init__(self, program: OneRun, options: Options, checkpoint: Checkpoint | None):
        ready = program.ready
        self.ready, self.options, self.checkpoint = ready, options, checkpoint
        self.together = ready.sampler.together  # of several processes the first decides what clocks and users decide
        self.leads = not self.together or leads()
        self.driver = Driver(program, ready.sampler.open(ready.plan), refresh_period(ready.method))
        self.out = Outcome(Position(program.start(), 0), [], 0.0)
        self.begun = self.sound = self.out.position  # the start; the last look at all the data that met no flaw
        self.track_names = track_names(program.variant, ready.x)
        self.records = record_steps(ready.steps, options.record)
        self.judge = self.out.judge = Judge(options.tol, options.until_solved)
        self.bound = Bound()
        self.guess = Judge(options.tol, until_solved=False)  # sees gaps that are estimates
        self.looked_from: Position | None = (
            None  # where the look was taken that ended the run: a resumed run takes it again
        )
        self.pace = 64  # steps a chunk may take, until their speed is known

    def go(self, bar: Progress) -> None:
        """Take chunk after chunk until the steps are taken or something ends the run."""
        before, began = self.out.seconds, time.perf_counter()
        while self.out.position.step < self.ready.steps:
            position, chunk_began = self.out.position, time.perf_counter()
            ready = self.driver.refreshed(position)
            if self._within_tolerance(position, ready, bar) or self._out_of_reach(position, ready, bar):
                return
            buffer = self._take(position.step)
            if buffer is None:
                return
            self.out.position = self.driver.advance(position, ready, buffer)
            if self.driver.refresh_due(position.step):
                self.sound = position
            now = time.perf_counter()
            self.out.seconds = before + now - began
            late = self.options.time_limit is not None and now - began >= self.options.time_limit
            due = self.checkpoint is not None and self.checkpoint.due(self.out.position.step)
            pace, late, due = agreed(self.together, self._next_pace(buffer.steps / (now - chunk_began)), late, due)
            self.pace = int(pace)
            if self._proven(bar):
                return
            if self.out.position.step in self.records and self._record(bar):
                return
            if late:
                finished = self.out.position.step >= self.ready.steps
                self.stop(Status.FINISHED if finished else Status.TIME_LIMIT)
                return
            if due:
                self.save()
        self._spent()

    def _within_tolerance(self, position: Position, ready: Carry, bar: Progress) -> bool:
        """Whether a refresh shows that the duality gap is small enough, which ends the run."""
        method = self.ready.method
        judged = self.options.inside is not None and self.driver.refresh_due(position.step)
        if not judged or not isinstance(method, Refreshing):
            return False
        found, status = self._gap(method.snapshot(ready.state))
        if position.step and status is not None and not self.judge.sure(found.rounding):
            found, status = self._gap(method.snapshot(ready.state), every_row=True)
        self.bound, self.out.lower = found.best, found.best.certain
        if not position.step or status is None:
            return False
        self._stand_at(position, ready)
        self._stop_at(status, found.rounding, bar)
        return True

    def _out_of_reach(self, position: Position, ready: Carry, bar: Progress) -> bool:
        """Whether a look at half of the budget says that another method had better have the rest, which ends the run."""
        every = self.driver.every or 1
        half = -(-self.ready.steps // (2 * every)) * every  # the first look there
        if not self.options.replaceable or self.options.until_solved or position.step != half:
            return False
        judge = self._judge(ready)
        if not judge.out_of_reach():
            return False
        self._stand_at(position, ready)
        self._last_row(bar)
        self.stop(Status.STALLED, self._said_of_gap(judge))
        return True

    def _stand_at(self, position: Position, ready: Carry) -> None:
        """Stand where a look ends the run. What is saved is what it was taken from, so that it can be taken again."""
        self.out.position, self.looked_from = position._replace(carry=ready), position

    def _judge(self, carry: Carry) -> Judge:
        """Who knows the gap after a look: the judge of what is proven or, where nothing is, that of the method's own
        estimate, which speaks of a feasible output."""
        method = self.ready.method
        if not np.isnan(self.judge.gap) or not self.options.estimates or not isinstance(method, Refreshing):
            return self.judge
        inner = method.inner(carry.state)
        if inner is not None:
            self.guess.look(inner.gap, 0.0, inner.scale)
        return self.guess

    def _proven(self, bar: Progress) -> bool:
        """Whether what the method itself proves ends the run: a gap that is small enough, or that no point is feasible."""
        ready, state, last = self.ready, self.out.position.carry.state, self.out.position.step >= self.ready.steps
        proof = ready.method.proof(state) if isinstance(ready.method, Refreshing) else None
        if proof is None:
            return False
        if proof.conflict and (proof.settled or last):
            self._last_row(bar)
            self.stop(Status.INFEASIBLE, said_of_conflict(proof.conflict, ready.names))
            return True
        rounding, status = proof.rounding, self.judge.look(proof.gap, proof.rounding, proof.scale)
        if status not in (None, Status.STALLED) and not self.judge.sure(rounding):  # judge again, by every row
            more = judged_by_every_row(ready.problem, answer(ready.method, state)[0], ready.sampler.rows)
            rounding = more * proof.rounding
            status = self.judge.look(proof.gap + (more - 1) * proof.rounding, rounding, proof.scale)
        self.out.lower = proof.lower - rounding
        if status is not None:
            self._stop_at(status, rounding, bar)
        return status is not None

    def _spent(self) -> None:
        """The budget has been spent: say what is known of the gap. An estimate is made by one look more, which like those
        that measure the output counts as no part of the run."""
        carry = self.out.position.carry
        if np.isnan(self.judge.gap) and self.options.estimates and isinstance(self.ready.method, Refreshing):
            carry = self.driver.program.refresh(carry)
        judge = self._judge(carry)
        if judge.gap == np.inf:
            self.stop(Status.NO_FEASIBLE_POINT, self._said_of_interior().strip())
        elif np.isfinite(judge.gap):
            self.stop(judge.at_the_end(), self._said_of_gap(judge))

    def _stop_at(self, status: Status, rounding: float, bar: Progress) -> None:
        """End the run because of its gap, which the last row then has."""
        self._last_row(bar)
        self.out.rows[-1]["gap"] = self.judge.gap
        more = f", of which rounding is {rounding:.3g}" * (status is Status.PRECISION)
        advice = f" {ADVICE}" * (status is Status.CONTRADICTION)
        self.stop(status, self._said_of_gap(self.judge, more) + advice)

    def _said_of_gap(self, judge: Judge, more: str = "") -> str:
        """The gap in a sentence, and what to do about a large one."""
        said = str(judge) if judge is self.judge else str(judge).replace("gap is", "gap is about")
        remedy = (
            " Give more passes, or let tr.check_problem look at the problem."
            if judge.at_the_end() is not Status.FINISHED
            else ""
        )
        remedy = (remedy and self._said_of_interior()) or remedy
        return f"{said[:1].upper()}{said[1:]} after {self.out.position.step:,} steps{more}.{remedy}"

    def _said_of_interior(self) -> str:
        """What is missing where it is proven that nothing lies strictly inside the constraints; empty where it is not."""
        ready, state = self.ready, self.out.position.carry.state
        proof = ready.method.proof(state) if isinstance(ready.method, Refreshing) else None
        if proof is None or proof.interior or proof.conflict:
            return ""
        h = np.asarray(full_constraints(ready.problem, answer(ready.method, state)[0], ready.sampler.rows), float)
        worst = int(np.argmax(h))
        return (
            " No point satisfies every constraint strictly, as where an equality is written as two inequalities: a bound "
            f"needs room. The output violates {ready.names[worst]} by {max(h[worst], 0.0):.3g}; raise the levels by what "
            "you can bear."
        )

    def _last_row(self, bar: Progress) -> None:
        """See to it that the trace has a row of where the run stands."""
        if not self.out.rows or self.out.rows[-1]["step"] < self.out.position.step:
            self._record(bar)

    def _gap(self, snap: Any, every_row: bool = False) -> tuple[Gap, Status | None]:
        """The gap at a snapshot, and how it ends the run; None where it does not."""
        options, ready = self.options, self.ready
        assert options.inside is not None
        found = gap_of(ready.problem, snap, options.inside, ready.sampler.rows, self.bound, every_row)
        return found, self.judge.look(found.value, found.rounding, options.inside.f - found.best.certain)

    def _take(self, step: int) -> Buffer | None:
        """Samples for the next chunk; None, and the run stopped, where there are none or reading them failed."""
        try:
            buffer = self.driver.take(step, self._next_stop(step))
        except Exception as error:  # of a user's stream: it must not cost them the run
            self.unreadable(error)
            return None
        if buffer.steps == 0:
            self.stop(Status.STREAM_ENDED, f"The stream gave samples for {step:,} steps.")
            return None
        return buffer

    def unreadable(self, error: Exception) -> None:
        """Stop where the samples cannot be read any further."""
        self.out.error = error
        said = str(error) if isinstance(error, UnreadableError) else f"{type(error).__name__}: {error}"
        self.stop(Status.STREAM_RAISED, f"After {self.out.position.step:,} steps: {said}")

    def _next_pace(self, steps_a_second: float) -> int:
        """Chunks of about half a second at most: nobody waits longer for Ctrl-C, a time limit or the bar."""
        return int(np.clip(steps_a_second / 2, max(1, self.pace // 8), self.pace * 8))

    def _next_stop(self, step: int) -> int:
        """The step after which Python has something to do."""
        stops = [next(r for r in self.records if r > step), step + self.pace]
        if self.checkpoint is not None and self.checkpoint.every_steps:
            stops.append((step // self.checkpoint.every_steps + 1) * self.checkpoint.every_steps)
        if self.options.chunk:
            stops.append(step + self.options.chunk)
        return min(stops)

    def back_to_last_good(self, error: NotFiniteError) -> None:
        """Stand where everything was finite, and say what was not."""
        self.out.position = next(filter(self._is_sound, (error.good, self.out.position, self.sound)), self.begun)
        self.out.rows = [row for row in self.out.rows if row["step"] <= self.out.position.step]
        said = f"{self._culprit(error.broken)} is not finite in step {error.step:,}."
        nowhere = self.out.position is self.begun and not self._is_sound(self.begun)
        self.stop(Status.NOT_FINITE, said + " Nor is it at the starting point: give an x0 where it is." * nowhere)

    def _is_sound(self, position: Position) -> bool:
        """Whether all rows have finite values at the point that would be returned: the last step may have left the place
        where there are any, and only the next one saw it. What is not at hand cannot be asked."""
        if self.ready.sampler.n is None:
            return True
        f, h = full_values(self.ready.problem, output(self.ready.method, position.carry), self.ready.sampler.rows)
        return bool(np.isfinite(f) and np.all(np.isfinite(h)))

    def _culprit(self, carry: Carry) -> str:
        names, sums = self.ready.names, summarise(carry.totals.scalars, len(self.ready.names), self.track_names)
        if not np.isfinite(sums.objective):
            return "The objective"
        for name, value in zip(names, sums.h, strict=True):
            if not np.isfinite(value):
                return f"The constraint {name}"
        for name, value in sums.tracked.items():
            if not np.isfinite(value):
                return f"The tracked {name}"
        return "The gradient, the point or a multiplier"

    def _record(self, bar: Progress) -> bool:
        """Add a row to the trace, show it, call back; True when the callback ends the run."""
        knows_objective = self.ready.problem.knows_objective
        sums = summarise(self.out.position.carry.totals.scalars, len(self.ready.names), self.track_names)
        row = self._row(sums.objective if knows_objective else None, sums.h, sums.lam)
        row |= {"weight": float(sums.weight)}
        row |= {name: float(value) for name, value in sums.tracked.items()}
        row |= {name: float(value) for name, value in self.out.position.record.items()}
        row |= self._on_all_rows() if self.options.trace_full else {}
        self.out.rows.append(row)
        bar.show(self.out.position.step, sums.objective if knows_objective else None, sums.h)
        return self._call_back(row)

    def _row(self, objective: float | None, h: np.ndarray, lam: np.ndarray) -> dict[str, float]:
        """What every row of a trace has."""
        step, plan, n = self.out.position.step, self.ready.plan, self.ready.sampler.n
        row: dict[str, float] = {"step": step, "samples": step * plan.draws * plan.batch_size}
        row |= {} if n is None else {"passes": gradients_used(self.ready.method, step, plan.batch_size, n) / n}
        row["seconds"] = self.out.seconds
        row |= {} if self.options.tol is None and not np.isfinite(self.judge.gap) else {"gap": self.judge.gap}
        row |= {} if objective is None else {"objective": float(objective)}
        row |= dict(zip(self.ready.names, h.tolist(), strict=True))
        return row | {f"dual {name}": v for name, v in zip(self.ready.names, lam.tolist(), strict=True)}

    def _on_all_rows(self) -> dict[str, float]:
        """Objective and constraints on all rows, at the mean of the iterates (without one, at the method's output)."""
        if self.ready.sampler.n is None:
            return {}
        method, carry = self.ready.method, self.out.position.carry
        x = output(method, carry, "average" if method.averages else None)
        f, h = full_values(self.ready.problem, x, self.ready.sampler.rows)
        row = {"full objective": float(f)} if self.ready.problem.knows_objective else {}
        return row | {f"full {name}": float(v) for name, v in zip(self.ready.names, h, strict=True)}

    def _call_back(self, row: dict[str, float]) -> bool:
        if self.options.callback is None:
            return False
        carry, step, _ = self.out.position
        mean, state = running_mean(self.ready.method, carry), carry.state
        stop, raised = False, ""
        try:
            if self.leads:
                said = self.options.callback(Snapshot(step, mean, state.x, np.asarray(state.lam), row))
                stop = isinstance(said, bool | np.bool_ | jax.Array) and bool(said)  # comparisons of arrays give these
        except Exception as error:  # a user's mistake must not cost them the run
            self.out.error, raised = error, f"{type(error).__name__}: {error}"
        stop, raised = said_by_first([stop, raised]) if self.together else (stop, raised)
        if raised:
            self.stop(Status.CALLBACK_RAISED, raised)
        elif stop:
            self.stop(Status.CALLBACK_STOPPED)
        return bool(stop or raised)

    def stop(self, status: Status, message: str = "") -> None:
        """Say how the run ended."""
        self.out.status, self.out.message = status, message

    def save(self) -> None:
        """Write the checkpoint, where one is kept."""
        if self.checkpoint is not None and self.leads:
            carry, step, _ = self.looked_from or self.out.position
            try:
                self.checkpoint.save(
                    carry, step=step, seconds=self.out.seconds, rows=self.out.rows, bound=self.bound,
                    gaps=self.judge.best,
                )  # fmt: skip
            except OSError as error:  # a full disk must not cost the run; the file of the last time is intact
                warnings.warn(f"The checkpoint could not be written ({error}); the run goes on.", stacklevel=2)

    def resume(self, checkpoint: Checkpoint) -> None:
        """Go on where the checkpoint stands."""
        saved = checkpoint.load(self.out.position.carry)
        self.out.position = Position(self.ready.sampler.placed(saved.carry), saved.step)
        self.out.rows, self.out.seconds, self.bound = saved.rows, saved.seconds, Bound(*saved.bound)
        self.judge.best = saved.gaps
