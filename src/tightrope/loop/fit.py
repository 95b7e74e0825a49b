"""A run on a stream whose samples are kept: the problem is solved on growing prefixes of them, each from the last one's
solution, and what the whole says is judged by folds of its own samples. It knows no solver, no set, no estimator.

Prefixes double, so that there are a trace, callbacks, time limits and an answer at any time, at the price of two passes in
the place of one. A prefix is solved no further than its own statistical error is worth: the next one moves the solution by
more. All that a later prefix needs of the earlier ones is their last point and multipliers, which is what is saved.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tightrope.evidence.at_a_point import Along, Means, Worth
from tightrope.evidence.folds import (
    FOLDS,
    Folds,
    Seen,
    along_the_last,
    cross_fitted,
    enough,
    lowered_by,
    of_all,
    path_choice,
    seen_at,
    verdict,
    worth_by,
)
from tightrope.loop.beyond import Near, near_of, nothing_near, problem_near
from tightrope.loop.checkpoint import Checkpoint
from tightrope.loop.choose import second_choice
from tightrope.loop.looks import run_looks
from tightrope.loop.prepare import MOST_PASSES, Prepared, asked_of, gradients_used, prepare
from tightrope.loop.record import Options, Outcome, Progress, Recorder
from tightrope.loop.run import run_steps
from tightrope.methods.base import Algorithm, Cost
from tightrope.precision import digits
from tightrope.problem.conflict import best_weights, least_violating, said_of_conflict
from tightrope.problem.problem import astype_problem
from tightrope.result import Status
from tightrope.sampling import Rows
from tightrope.sampling.kept import Kept, Part
from tightrope.sampling.rows import MOST_ROWS_OF_SLOPES
from tightrope.solvers import Solver
from tightrope.tree import Tree, astype, float_dtype, replace, size_of

# Samples of the first prefix at least: derived, a slice for each fold, so that all folds are one program.
_FIRST = FOLDS * MOST_ROWS_OF_SLOPES
_WORTH = 0.04  # of what samples leave open about the solution: what may be left to solve (a guess)
_NOISE = 1e-4  # standard errors of F, which are of first order: no prefix is solved further (a guess)
_PASSES = 30, 10  # of steps on the first prefix, and on others (a guess)


def run_fit(
    ready: Prepared, options: Options, checkpoint: Checkpoint | None, keep: Any, most: int
) -> tuple[Prepared, Outcome]:
    """Solve on growing prefixes until all samples are in or something ends the run; what is known then is always returned,
    with the run as it was prepared for the solver that was taken.

    Args:
        ready: the run, as for the steps of a method.
        options, checkpoint: as for these.
        keep: "expectation", or the probability with which constraints are to hold at the very point that is returned.
        most: samples that there is room for.
    """
    fit = _Fit(ready, options, checkpoint, keep, most)
    fit.resume()
    with fit.running() as bar, _wide():
        fit.go(bar)
    fit.save_the_last()
    return fit.taken, fit.ended()


def _wide(wide: bool = True) -> Any:
    """In float64, where the device has it: a solution is nearer to that of the samples than float32 can prove. Samples are
    kept as they come, and points given back in the precision that JAX is configured for."""
    return digits() if wide else jax.enable_x64(False)


def prefixes(steps: int, batch_size: int) -> list[int]:
    """How many steps' samples every prefix has: half as many as the next, and a first one that is worth a solution."""
    found = [steps]
    while found[0] % 2 >= 0 and (found[0] // 2) * batch_size >= _FIRST:
        found.insert(0, found[0] // 2)
    return found


class _Before(NamedTuple):
    """Where a prefix ended."""

    x: Tree
    lam: np.ndarray
    n: int  # samples that it has seen


class _Fit(Recorder):
    """The moving parts of such a run."""

    def __init__(self, ready: Prepared, options: Options, checkpoint: Checkpoint | None, keep: Any, most: int):
        super().__init__(ready, options, checkpoint)
        self.ambient, self.dtype = jnp.result_type(float) == np.float64, float_dtype(ready.x)
        with _wide():
            self.problem = astype_problem(ready.problem, jnp.result_type(float))
            self.start, domain = astype(ready.x, jnp.result_type(float)), self.problem.domain
            if domain.has_projection and not bool(domain.contains(self.start)):  # but for the digits that it had
                self.start = domain.project(self.start)
        self.keep, self.batch = keep, ready.plan.batch_size
        self.blocks = -(-ready.steps * self.batch // most)
        self.block = -(-ready.steps // self.blocks)  # steps whose samples are here at once
        self.ends = prefixes(self.block, self.batch)
        least = max(1, min(self.ends[0] * self.batch, _FIRST) // FOLDS)
        self.kept = Kept(ready.sampler, ready.plan._replace(draws=1), least, self.block)
        self.inner: Prepared | None = None  # for the solver
        self.x, self.lam, self.fall = self.start, np.asarray(ready.lam, float), np.nan
        self.noise = 0.0  # a standard error of the Lagrangian
        self.switched = False  # whether another solver has taken over
        self.near: Near | None = None  # where there are more samples than fit: those so far
        self.over = np.zeros((2, 1 + len(self.lam)))  # what the first block's folds say: optimism, and spread
        self.saved: tuple[Any, int] = (self._memory(), 0)
        self.gradients = 0
        self.folds: Folds | None = None
        self.worth: Worth | None = None
        self.notes: list[str] = []
        self.conflict: dict[int, float] = {}
        self.means = Means(np.nan, np.full(len(self.lam), np.nan), self.lam, {}, 1.0)
        self.share = 1.0  # of the way from the start to the solution

    # ---- prefixes ----------------------------------------------------------------------------------------------------

    def go(self, bar: Progress) -> None:
        """Solve on one prefix after the other, then judge by folds, or go on where there are more samples than fit."""
        for end in [e for e in self.ends if e > self.step]:
            part = self._read(end)
            if part is None:
                return
            if self.noise == 0:
                self._note_noise(seen_at(self.problem, self.x, part), part.n)
            before = _Before(self.x, self.lam, self.step * self.batch)
            outcome = self._solved(part, self.x, self.lam, None)
            self._adopt(outcome)
            if outcome.status.cut_short:
                self.stop(outcome.status, outcome.message)
                return
            self._note_fall(part, before.x)
            self.step = self.kept.steps if self.kept.ended else end
            last = self.step >= self.ends[-1] or self.kept.ended
            if last:
                self._finish(part, before)
            if self._ends_here(part, last and self.near is None, bar):
                return
        if self.near is not None:
            self._go_beyond(self.near, bar)

    def _ends_here(self, part: Part, last: bool, bar: Progress) -> bool:
        """Whether the run ends after these samples: they were the last, a callback says so, or time is up."""
        late = self.clock()
        stopped = self._recorded(part, bar)
        self.saved = (self._memory(), self.step) if not last else self.saved
        if stopped or last:
            return True
        if late:
            self.stop(Status.TIME_LIMIT)
        elif self.checkpoint is not None and self.checkpoint.due(self.step):
            self.save_the_last()
        return late

    def _go_beyond(self, near: Near, bar: Progress) -> None:
        """Look at what does not fit block by block, each where the solution of those before it is, and forget it."""
        while self.step < self.ready.steps:
            self.kept.forget(self.step)
            part = self._read(min(self.step + self.block, self.ready.steps))
            if part is None:
                return
            near = self.near = near.after(self.problem, self.x, part)
            self.gradients += part.n
            order, last = along_the_last(self.problem, self.x, part)
            folds = self._folds_near(near)
            if not self._adopt_near(near, lowered_by(folds, self.keep, self.lam, order)):
                return
            self.folds, self.step = self._folds_near(near), self.kept.steps
            self.worth = worth_by(self.folds, order, last, "first")
            ends = self.step >= self.ready.steps or self.kept.ended
            if ends:
                self._judge(part, self.folds, order)
            if self._ends_here(part, ends, bar):
                return

    def _folds_near(self, near: Near) -> Folds:
        """What folds of all samples so far would say: optimism falls like 1/T."""
        n, (optimism, spread) = int(near.n), self.over
        return of_all(Seen(near.value(self.x), spread), optimism * self.block * self.batch / n, n)

    def _adopt_near(self, near: Near, margin: np.ndarray) -> bool:
        """Go on to the solution of the quadratic functions; False where the run was ended."""
        made = prepare(
            problem_near(near, self.problem.domain, margin), Rows(np.zeros((1, 1))), "auto", steps=None, passes=MOST_PASSES,
            batch_size=None, seeds=self.ready.plan.seeds, x0=self.x,
        )  # fmt: skip
        tol = (self._tolerance(self.step * self.batch) or 0) / self.blocks or None
        options = Options(record=0, progress=False, tol=tol, until_solved=True)
        outcome = run_looks(dataclasses.replace(made, lam=jnp.asarray(self.lam, float_dtype(self.start))), options)
        if outcome.status.cut_short:
            self.stop(outcome.status, outcome.message)
        elif not outcome.conflict:
            self._adopt(outcome)
        return not outcome.status.cut_short

    def _read(self, end: int) -> Part | None:
        """The samples up to a step, or as many as there are; None, and the run stopped, where nothing is new."""
        try:
            with _wide(self.ambient):
                self.kept.read(end)
        except Exception as error:  # of a user's stream: it must not cost them the run
            self.unreadable(error)
            return None
        have = min(end, self.kept.steps)
        if self.kept.ended and have < end:
            self.stop(Status.STREAM_ENDED, f"The stream gave samples for {have:,} steps.")
            if have <= self.step:
                return None
            self.kept.least = max(1, self.kept.n // FOLDS)
        return self.kept.part(have)

    def _adopt(self, outcome: Outcome) -> None:
        """Go on from where a solution ended."""
        if outcome.steps:
            self.x, self.conflict = outcome.points["own"], dict(outcome.conflict)
            self.lam = np.nan_to_num(np.asarray(outcome.duals["own"], float))

    def _note_fall(self, part: Part, before: Tree) -> None:
        """Note by how much the Lagrangian fell from where the last prefix ended.

        With errors like c/n that is c/n on average: half of the samples were wrong by 2c/n, and c/n of that these share. By
        luck it may be nothing, so no more than a quarter of the last one is believed to be gone. The first prefix falls from
        the start, which says nothing of noise.
        """
        was, now = (seen_at(self.problem, x, part) for x in (before, self.x))
        fallen = max(float((was.mean - now.mean) @ np.append(1.0, self.lam)), 0.0)
        self._note_noise(now, part.n)
        first = not self.fall > 0
        self.fall = self.noise * 10 * _NOISE / _WORTH if first else max(fallen, self.fall * 0.25)

    def _note_noise(self, seen: Seen, n: int) -> None:
        """Note a standard error of the Lagrangian."""
        self.noise = float(seen.spread @ np.append(1.0, self.lam)) / np.sqrt(n)

    # ---- solving -----------------------------------------------------------------------------------------------------

    def _solved(self, part: Part, x: Tree, lam: np.ndarray, margin: np.ndarray | None) -> Outcome:
        """The solution on some samples with levels lowered by a margin, by the solver that "auto" takes for rows."""
        if self.inner is None:
            self.inner = self._chosen(part)
        inner = dataclasses.replace(
            self.inner,
            problem=self._tightened(margin),
            x=x,
            lam=jnp.asarray(lam, float_dtype(self.start)),
        )
        spent = self.options.time_limit
        left = None if spent is None else max(spent - self.out.seconds, 1e-3)
        tol = self._tolerance(part.n)
        options = Options(record=0, progress=False, time_limit=left, tol=tol, until_solved=True)
        if not isinstance(inner.method, Solver):
            return self._by_steps(inner, part, options)
        # Curvature of limited memory picks rows by numbers that are compiled in.
        inner = dataclasses.replace(inner, sampler=Rows(part.few() if getattr(inner.method, "pairs", 0) else part))
        outcome = run_looks(inner, options)
        self.gradients += gradients_used(inner.method, outcome.steps, 1, part.n)
        if outcome.conflict:  # looks may end anywhere; what proves it are tangents where all is violated least
            spread = seen_at(inner.problem, outcome.points["own"], part).spread[1:]
            units = jnp.asarray(np.where(spread > 0, spread, 1.0))
            outcome.points["own"] = least_violating(inner.problem, outcome.points["own"], part, units)
        lost = (
            outcome.status is Status.STALLED and outcome.stopping.gap > 1000 * _NOISE * self.noise
        )  # else it is as near as matters
        other = second_choice(inner.method, asked_of(inner)) if lost else None
        if other is None:
            return outcome
        self.inner, self.switched = self._with(self.inner, other), True
        self.notes.append(f"went on with {other.name} in the place of {inner.method.name}, whose gap fell no more.")
        return self._solved(part, outcome.points["own"], lam, margin)

    def _by_steps(self, inner: Prepared, part: Part, options: Options) -> Outcome:
        """By passes of a method for rows."""
        n, passes = part.n, _PASSES[0 if np.isnan(self.fall) else 1]
        made = prepare(
            inner.problem, Rows(part.few()), inner.method, steps=None, passes=passes, batch_size=None,
            seeds=inner.plan.seeds, x0=inner.x,
        )  # fmt: skip
        outcome = run_steps(
            dataclasses.replace(made, lam=inner.lam), dataclasses.replace(options, tol=None, until_solved=False)
        )
        self.gradients += gradients_used(made.method, outcome.steps, made.plan.batch_size, n)
        for kept in (outcome.points, outcome.duals):
            kept.setdefault("own", kept[made.method.facts.output])
        return outcome

    def _chosen(self, part: Part) -> Prepared:
        """The solver for rows, as "auto" chooses it on the first samples."""
        first = part.only(0, min(part.n, _FIRST))
        chosen = prepare(
            self._tightened(None), Rows(first), "auto", steps=None, passes=MOST_PASSES, batch_size=None,
            seeds=self.ready.plan.seeds, x0=self.start,
        )  # fmt: skip
        other = second_choice(chosen.method, asked_of(chosen)) if self.switched else None
        return chosen if other is None else self._with(chosen, other)

    def _with(self, inner: Prepared, other: Algorithm) -> Prepared:
        """The same for another solver."""
        fitted = other.fitted(inner.problem, inner.x, self.kept.n) if isinstance(other, Solver) else other
        return dataclasses.replace(inner, method=fitted)

    def _tightened(self, margin: np.ndarray | None) -> Any:
        """The problem with lowered levels: with a level for each constraint, so that one program serves all margins."""
        problem, dtype = self.problem, float_dtype(self.start)
        upsilon = np.zeros(len(self.ready.names)) if margin is None else margin
        return replace(problem, levels=jnp.asarray(np.asarray(problem.levels, float) - upsilon, dtype))

    def _tolerance(self, n: int) -> float | None:
        """A duality gap that is small beside what n samples leave open; None where nothing is known of that. It falls like
        1/n from what the last prefix has shown."""
        open_ = self.fall * self.step * self.batch / n
        tol = max(_WORTH * open_, _NOISE * self.noise) if open_ > 0 else 10 * _NOISE * self.noise
        return tol if tol > 0 else None

    # ---- the judgement -----------------------------------------------------------------------------------------------

    def _finish(self, part: Part, before: _Before) -> None:
        """Lower the levels by what folds show to be missing, solve once more, and judge, unless more samples come.

        Folds are of the samples that the prefix before has not seen, from whose solution they therefore may begin: how much
        means are too low falls like 1/n, so that half of the samples tell it of all. Only where there was no such prefix, or
        where they say that samples are few, folds are of all of them.
        """
        problem, raised = self.problem, self._raised_by_chance(part)
        if raised is not None and not self._again(part, raised):
            return
        if 2 * before.n > part.n:  # a stream has ended before its time
            before = _Before(self.start, np.zeros_like(self.lam), 0)
        fresh = part.only(before.n, part.n - before.n)
        begin, found = seen_at(problem, self.start, part), self._folded(fresh, [before.x] * FOLDS, before.lam, raised)
        if found is None:
            return
        (order, last), here = along_the_last(problem, self.x, part), seen_at(problem, self.x, part)
        optimism, every = found.optimism * (fresh.n / part.n), before.n == 0
        margin = lowered_by(of_all(here, optimism, part.n), self.keep, self.lam, order)
        folds, lowered = found, bool(np.any(margin > 0) and np.any(here.h > -margin) and not self.conflict)
        if not lowered:
            margin = raised
        else:
            margin = margin if raised is None else margin + raised
            if not self._again(part, margin):
                return
            here = seen_at(problem, self.x, part)
            folds = (self._folded(part, found.points, self.lam, margin) if every else None) or found
        if not every:
            folds = of_all(here, optimism, part.n)
            if not enough(folds, begin, here, self.lam):
                folds = self._folded(part, [self.start] * FOLDS, np.zeros_like(self.lam), margin) or folds
        if folds.points and not enough(folds, begin, here, self.lam):
            self.share, folds = path_choice(problem, part, folds, self.start)
            if self.share < 1:
                self.x = problem.domain.mix(self.start, self.x, self.share)
        self.folds, self.worth = folds, worth_by(folds, order, last)
        if self.blocks == 1 or self.kept.ended or self.conflict:
            self._judge(part, folds, order)
            return
        self.over = np.stack([folds.optimism, folds.error * np.sqrt(max(folds.n - 1, 1))])
        self.near = near_of(problem, self.x, part, before.x)
        self.gradients += 2 * len(self.near.at) * part.n

    def _raised_by_chance(self, part: Part) -> np.ndarray | None:
        """Where samples have no feasible point by less than two standard errors, which chance does: a margin below zero, by
        which there is one."""
        if not self.conflict:
            return None
        error = 2 * seen_at(self.problem, self.x, part).spread[1:] / np.sqrt(part.n)
        if any(violation > error[i] for i, violation in self.conflict.items()):
            return None
        raised = np.zeros_like(error)
        for i in self.conflict:
            raised[i] = -error[i]
        return raised

    def _again(self, part: Part, margin: np.ndarray) -> bool:
        """Go on from here to the solution with other levels, unless they leave no point; False where the run was ended."""
        outcome = self._solved(part, self.x, self.lam, margin)
        if outcome.status.cut_short:
            self.stop(outcome.status, outcome.message)
        elif not outcome.conflict:
            self._adopt(outcome)
        return not outcome.status.cut_short

    def _folded(self, part: Part, begin: Sequence[Tree], lam: np.ndarray, margin: np.ndarray | None) -> Folds | None:
        """Solutions without a fold each, begun at points that have not seen it: where the samples leave something open, a
        solution stays where it began."""

        def without(rest: Part, k: int) -> Tree | None:
            outcome = self._solved(rest, begin[k], lam, margin)
            if outcome.status.cut_short:
                self.stop(outcome.status, outcome.message)
                return None
            return outcome.points["own"]

        return cross_fitted(self.problem, part, without)

    def _judge(self, part: Part, folds: Folds, order: Along) -> None:
        """What the folds say of the answer, and how that ends the run."""
        assert self.worth is not None
        status, message = verdict(self.worth, folds, self.lam, self.share, self.keep, order)
        if self.conflict:
            units = np.maximum(np.ptp([seen.h for seen in folds.outside], axis=0), folds.error[1:])
            units = jnp.asarray(np.where(units > 0, units, 1.0))
            self.lam = np.asarray(best_weights(self.problem, self.x, part, units)[0] / units, float)
            said = said_of_conflict(self.conflict, self.ready.names).rstrip(".")
            status, message = Status.NO_FEASIBLE_POINT, f"{said}, by the means over these {part.n:,} samples."
        if self.out.status is Status.FINISHED:
            self.stop(status, message)

    # ---- what is kept ------------------------------------------------------------------------------------------------

    def _recorded(self, part: Part, bar: Progress) -> bool:
        """Add a row to the trace; True when the callback ends the run."""
        if self.folds is None:
            seen = seen_at(self.problem, self.x, part).mean
            distance = self.fall
        else:
            seen, distance = self.folds.mean, self.folds.distance(self.lam)
        with _wide(self.ambient):
            x = self._ambient(self.x)
            tracked = {} if self.options.track is None else self.options.track(x)
        self.means = Means(seen[0], seen[1:], self.lam, tracked, 1.0)
        more = {"distance": distance, **{name: tracked[name] for name in sorted(tracked)}}
        row = self.row(self.means, self.step * self.batch, self.gradients, more)
        with _wide(self.ambient):
            return self.written(row, bar, None, x, self.lam)

    def _ambient(self, x: Tree) -> Tree:
        """A point in the precision that JAX is configured for."""
        return jax.tree.map(lambda v: jnp.asarray(np.asarray(v), self.dtype), x)

    def _memory(self) -> dict[str, Any]:
        """All that the next prefix, or block, needs."""
        d = size_of(self.x) if self.blocks > 1 else 0
        return {
            "near": tuple(nothing_near(d, 1 + len(self.lam)) if self.near is None else self.near),
            "over": self.over,
            "x": jax.tree.map(np.asarray, self.x),
            "lam": np.asarray(self.lam, float),
            "fall": np.asarray([self.fall, self.noise], float),
            "switched": np.asarray(self.switched),
        }

    def resume(self) -> None:
        """Go on where the checkpoint stands, where there is one."""
        saved = self.resumed(self._memory())
        if saved is None:
            return
        state = saved.state
        self.lam = np.asarray(state["lam"], float)
        with _wide():
            self.x = jax.tree.map(jnp.asarray, state["x"])
        self.fall, self.noise = map(float, state["fall"])
        self.switched, self.over = bool(state["switched"]), state["over"]
        self.near = Near(*state["near"]) if float(state["near"][-1]) > 0 else None
        self.saved = state, saved.step

    def save_the_last(self) -> None:
        """Write what the last whole prefix has found."""
        self.save(*self.saved)

    @property
    def taken(self) -> Prepared:
        """The run as it was prepared, with the solver that was taken."""
        if self.inner is None:
            return self.ready
        note = f'method="auto" kept the samples and solved on them with {self.inner.method.name}'
        why = next((n.split(": ", 1)[1] for n in self.inner.notes if n.startswith("method=")), "")
        fit = (
            "they fit into memory" if self.blocks == 1 else f"of {self.blocks} blocks the first, which fits into memory"
        )
        why = why.replace("the data is at hand", fit)
        others = [n for n in self.ready.notes if not n.startswith("method=")]
        return dataclasses.replace(self.ready, method=self.inner.method, notes=(f"{note}: {why}", *others))

    def ended(self) -> Outcome:
        """What the run has found."""
        out = self.out
        out.steps, out.dual_last = self.step, self.lam
        every = ("own", "last", "average")
        out.points, out.duals = dict.fromkeys(every, self._ambient(self.x)), dict.fromkeys(every, self.lam)
        out.worth, out.note = self.worth, " ".join(self.notes) or None
        out.kept, out.cost, out.means = True, Cost(self.step * self.batch, self.gradients), self.means
        return out
