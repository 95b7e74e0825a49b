"""A run of a method: the driver's chunks, and between them plain Python, which records, calls back, reads the clock and
writes the checkpoint. It knows no method, no set, no estimator."""

import math
import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tightrope.evidence.at_a_point import Means
from tightrope.evidence.gap import Bound, Gap, gap_of
from tightrope.evidence.stopping import Stopping
from tightrope.loop.checkpoint import Checkpoint
from tightrope.loop.driver import Driver, NotFiniteError, OneRun, Position, refresh_period
from tightrope.loop.prepare import Prepared, cost_of
from tightrope.loop.record import Options, Outcome, Progress, Recorder
from tightrope.loop.steps import Carry, answer, average, output, summarise, track_names
from tightrope.methods import Cost, Method, Refreshing
from tightrope.result import Status
from tightrope.sampling import Buffer
from tightrope.sampling.mesh.processes import agreed


def run_steps(ready: Prepared, options: Options, checkpoint: Checkpoint | None = None) -> Outcome:
    """Take steps until they are all taken or something ends the run; what there is then is always returned."""
    loop = _Steps(ready, options, checkpoint)
    loop.resume()
    with loop.running(NotFiniteError) as bar:
        loop.go(bar)
    loop.save_position()
    return loop.ended()


class _Steps(Recorder):
    """The moving parts of such a run."""

    def __init__(self, ready: Prepared, options: Options, checkpoint: Checkpoint | None):
        super().__init__(ready, options, checkpoint)
        assert isinstance(ready.method, Method)
        self.method: Method = ready.method
        self.program = OneRun(ready, options.track)
        self.driver = Driver(self.program, ready.sampler.open(ready.plan), refresh_period(ready.method))
        self.position = Position(self.program.start(), 0)
        self.begun = self.sound = self.position  # the start; the last look at all the data that met no flaw
        self.track_names = track_names(self.program.variant, ready.x)
        self.bound = Bound()
        self.guess = Stopping(options.tol, until_solved=False)  # sees gaps that are estimates
        self.looked_from: Position | None = (
            None  # where the look was taken that ended the run: a resumed run takes it again
        )
        self.pace = 64  # steps a chunk may take, until their speed is known

    def go(self, bar: Progress) -> None:
        """Take chunk after chunk until the steps are taken or something ends the run."""
        while self.step < self.ready.steps:
            position, chunk_began = self.position, time.perf_counter()
            ready = self.driver.refreshed(position)
            if self._within_tolerance(position, ready, bar) or self._out_of_reach(position, ready, bar):
                return
            buffer = self._take(position.step)
            if buffer is None:
                return
            self._stand_at(self.driver.advance(position, ready, buffer))
            if self.driver.refresh_due(position.step):
                self.sound = position
            late = self.clock()
            due = self.checkpoint is not None and self.checkpoint.due(self.step)
            pace = self._next_pace(buffer.steps / (time.perf_counter() - chunk_began))
            pace, late, due = agreed(self.together, pace, late, due)
            self.pace = int(pace)
            if self.step in self.records and self._record(bar):
                return
            if late:
                self.stop(Status.FINISHED if self.step >= self.ready.steps else Status.TIME_LIMIT)
                return
            if due:
                self.save_position()
        self._spent()

    def _stand_at(self, position: Position) -> None:
        self.position, self.step = position, position.step

    # ---- what ends it ------------------------------------------------------------------------------------------------

    def _within_tolerance(self, position: Position, ready: Carry, bar: Progress) -> bool:
        """Whether a refresh shows that the duality gap is small enough, which ends the run."""
        judged = self.options.inside is not None and self.driver.refresh_due(position.step)
        if not judged or not isinstance(self.method, Refreshing):
            return False
        snap = self.method.snapshot(ready.state)
        found, status = self._gap(snap)
        self.bound, self.out.lower = found.best, found.best.certain
        if not position.step or status is None:
            return False
        self._end_at(position, ready, bar)
        self.stop_at_gap(status, found.rounding)
        return True

    def _gap(self, snap: Any) -> tuple[Gap, Status | None]:
        """The gap at a snapshot, and how it ends the run; None where it does not."""
        inside, ready = self.options.inside, self.ready
        assert inside is not None
        found = gap_of(ready.problem, snap, inside, ready.sampler.rows, self.bound)
        fall = inside.f - found.best.certain
        return found, self.stopping.look(found.value, found.rounding, found.objective, fall)

    def _out_of_reach(self, position: Position, ready: Carry, bar: Progress) -> bool:
        """Whether a look at half of the budget says that a solver had better have the rest, which ends the run."""
        every = self.driver.every or 1
        half = -(-self.ready.steps // (2 * every)) * every  # the first look there
        if not self.options.replaceable or self.options.until_solved or position.step != half:
            return False
        stopping = self._standing(ready)
        if not stopping.out_of_reach():
            return False
        self._end_at(position, ready, bar)
        self.stop(Status.STALLED, self.said_of_gap(stopping))
        return True

    def _end_at(self, position: Position, ready: Carry, bar: Progress) -> None:
        """Stand where a look ends the run, with a row of it. What is saved is what it was taken from, so that it can be
        taken again."""
        self.looked_from = position
        self._stand_at(position._replace(carry=ready))
        if not self.out.rows or self.out.rows[-1]["step"] < self.step:
            self._record(bar)

    def _standing(self, carry: Carry) -> Stopping:
        """The gap that stands after a look: the proven one or, where nothing is proven, that of the method's own
        estimate, which speaks of a feasible output."""
        if not np.isnan(self.stopping.gap) or not self.options.estimates or not isinstance(self.method, Refreshing):
            return self.stopping
        inner = self.method.inner(carry.state)
        if inner is not None:
            self.guess.look(inner.gap, 0.0, math.nan, inner.scale)
        return self.guess

    def _spent(self) -> None:
        """The budget has been spent: say what is known of the gap. An estimate is made by one look more, which like those
        that measure the output counts as no part of the run."""
        carry = self.position.carry
        if np.isnan(self.stopping.gap) and self.options.estimates and isinstance(self.method, Refreshing):
            carry = self.program.refresh(carry)
        self.spent(self._standing(carry))

    # ---- samples -----------------------------------------------------------------------------------------------------

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

    def back_to_the_last(self, error: NotFiniteError) -> None:
        """Stand where everything was finite, and say what was not: the last step may have left the place where there are
        any finite values, and only the next one saw it."""
        sums = self._means(error.broken)
        candidates = error.good, self.position, self.sound
        self._stand_at(next((at for at in candidates if self._is_sound(at)), self.begun))
        nowhere = self.position is self.begun and not self._is_sound(self.begun)
        self.not_finite(self.culprit(sums.objective, sums.h, sums.tracked), error.step, nowhere)

    def _is_sound(self, position: Position) -> bool:
        return self.ready.sampler.n is None or self.is_sound(output(self.method, position.carry))

    # ---- what is kept ------------------------------------------------------------------------------------------------

    def _means(self, carry: Carry) -> Means:
        return summarise(carry.totals.scalars, len(self.ready.names), self.track_names)

    def _record(self, bar: Progress) -> bool:
        """Add a row to the trace; True when the callback ends the run."""
        carry, means = self.position.carry, self._means(self.position.carry)
        more = {"weight": means.weight, **means.tracked, **self.position.record}
        if self.options.trace_full:
            more |= self.on_all_rows(output(self.method, carry, "average" if self.method.facts.averages else None))
        wanted = self.options.callback is not None and self.method.facts.averages
        mean = average(carry) if wanted else None
        cost = self._cost()
        row = self.row(means, cost.samples, cost.gradients, more)
        return self.written(row, bar, mean, carry.state.x, np.asarray(carry.state.lam))

    def _cost(self) -> Cost:
        ready = self.ready
        return cost_of(ready.method, ready.problem.domain, self.step, ready.plan.batch_size, ready.sampler.n or 0)

    def save_position(self) -> None:
        """Write what a resumed run goes on from."""
        at = self.looked_from or self.position
        self.save(at.carry, at.step, self.bound, self.stopping.best)

    def resume(self) -> None:
        """Go on where the checkpoint stands, where there is one."""
        saved = self.resumed(self.position.carry)
        if saved is not None:
            carry = self.ready.sampler.placed(jax.tree.map(jnp.asarray, saved.state))
            self.position, self.bound = Position(carry, saved.step), Bound(*saved.bound)

    def ended(self) -> Outcome:
        """What the run has found."""
        out, method, carry = self.out, self.method, self.position.carry
        means = summarise(carry.totals.scalars, len(self.ready.names), ())
        out.cost = self._cost()
        out.steps, out.state, out.means, out.dual_last = self.step, carry.state, means, np.asarray(carry.state.lam)
        own = method.facts.output == "own"
        out.points = {"last": carry.state.x} | ({"average": average(carry)} if method.facts.averages else {})
        out.duals = dict.fromkeys(("last", "average"), means.lam)
        if own:
            point, lam = answer(carry.state) if self.step else (self.ready.x, self.ready.lam)
            out.points["own"], out.duals["own"] = point, np.asarray(lam)
        if not self.step:
            out.points = dict.fromkeys(out.points, self.ready.x)
            return out
        steps = method.steps
        out.least_errors, out.note = steps.least_errors(carry.state), steps.said(carry.state, self.ready.names)
        if isinstance(method, Refreshing):
            out.inner, snap = method.inner(carry.state), method.snapshot(carry.state)
            out.looked_at = [] if snap is None else [snap.w]
        return out
