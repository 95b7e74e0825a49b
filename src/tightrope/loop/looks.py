"""A run of a solver: look after look, and between them plain Python, which records, calls back, reads the clock, writes the
checkpoint and judges what is proven. It knows no solver, no set, no estimator."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tightrope.evidence.at_a_point import Means
from tightrope.loop.checkpoint import Checkpoint
from tightrope.loop.prepare import Prepared
from tightrope.loop.record import Options, Outcome, Progress, Recorder
from tightrope.methods.base import Cost
from tightrope.problem.conflict import said_of_conflict
from tightrope.problem.full_data import full_constraints, full_values
from tightrope.result import Status
from tightrope.sampling.mesh.processes import agreed
from tightrope.solvers import Look, NotFiniteLook, Solver
from tightrope.tree import Tree, float_dtype, shaped_like

_NO_ROOM = (
    "No point satisfies every constraint strictly, or only by a billionth of its range, as where an equality is written as "
    "two inequalities"
)


def run_looks(ready: Prepared, options: Options, checkpoint: Checkpoint | None = None) -> Outcome:
    """Look until every look of the budget is taken or something ends the run; what is known then is always returned."""
    loop = _Looks(ready, options, checkpoint)
    with loop.running(NotFiniteLook) as bar:
        loop.go(bar)
    loop.save_the_last()
    return loop.ended()


class _Looks(Recorder):
    """The moving parts of such a run."""

    def __init__(self, ready: Prepared, options: Options, checkpoint: Checkpoint | None):
        super().__init__(ready, options, checkpoint)
        assert isinstance(ready.method, Solver)
        self.solver: Solver = ready.method
        self.look: Look | None = None
        self.fall = np.inf  # of F from the domain's own starting point, once it matters
        # What the last look was taken from. That is what is saved, so that a run which is resumed ends by it again.
        self.before: tuple[Any, int, list[float]] = (self.solver.start(ready.x, np.asarray(ready.lam)), 0, [])

    def go(self, bar: Progress) -> None:
        """Take look after look."""
        memory = self._begin()
        looks = self.solver.looks(self.ready.problem, self.ready.sampler.rows, memory)
        while self.step < self.ready.steps:
            gaps = list(self.stopping.best)
            look = next(looks)
            self.before, memory = (memory, self.step, gaps), look.memory
            self.look, self.step = look, self.step + 1
            late = self.clock()
            due = self.checkpoint is not None and self.checkpoint.due(self.step)
            if self.together:
                late, due = agreed(self.together, late, due)
            if self._proves_enough(look, bar) or self._out_of_reach(look, bar):
                return
            if self.step in self.records and self._record(look, bar):
                return
            if late:
                self.stop(Status.FINISHED if self.step >= self.ready.steps else Status.TIME_LIMIT)
                return
            if due:
                self.save_the_last()
        self.spent(self.stopping)

    def _begin(self) -> Any:
        """The memory to go on from: that of a checkpoint, where there is one."""
        saved = self.resumed(self.before[0])
        if saved is not None:
            self.before = (saved.state, saved.step, saved.gaps)
        return self.before[0]

    # ---- what ends it ------------------------------------------------------------------------------------------------

    def _proves_enough(self, look: Look, bar: Progress) -> bool:
        """Whether what a look proves ends the run: a gap that is small enough, or that no point is feasible."""
        ready = self.ready
        if look.conflict and (look.settled or self.step >= ready.steps):
            self._record(look, bar)
            self.stop(Status.INFEASIBLE, said_of_conflict(look.conflict, ready.names))
            return True
        if not look.news:
            return False
        status = self.stopping.look(look.gap, look.rounding, look.upper, min(look.scale, self.fall))
        if status is Status.SOLVED and self.fall == np.inf and self.stopping.fall > abs(look.upper):
            self.fall = self._own_fall(look)
            return self._proves_enough(look, bar)
        self.out.lower = look.lower - look.rounding
        if status is None:
            return False
        self._record(look, bar)
        self.stop_at_gap(status, look.rounding)
        return True

    def _own_fall(self, look: Look) -> float:
        """The fall of F to this look from the domain's own starting point: a start that somebody gives may be as bad as they
        like, and says nothing of what a small gap is."""
        ready = self.ready
        start = ready.problem.domain.start(float_dtype(ready.x)) if ready.problem.domain.shape is not None else ready.x
        same = all(np.array_equal(a, b) for a, b in zip(*map(jax.tree.leaves, (start, ready.x)), strict=True))
        f = np.nan if same else float(full_values(ready.problem, start, ready.sampler.rows)[0])
        return f - look.upper if np.isfinite(f) else look.scale

    def _out_of_reach(self, look: Look, bar: Progress) -> bool:
        """Whether a look at half of the budget says that another solver had better have the rest, which ends the run."""
        asked, all_of_it = self.options.replaceable and not self.options.until_solved, self.ready.steps
        if not (asked and self.step == -(-all_of_it // 2) < all_of_it and self.stopping.out_of_reach()):
            return False
        self._record(look, bar)
        self.stop(Status.STALLED, self.said_of_gap(self.stopping))
        return True

    def said_of_interior(self) -> str:
        """What is missing where it is proven that nothing lies strictly inside the constraints; empty where it is not, or
        where the output satisfies them all the same."""
        look, ready = self.look, self.ready
        if look is None or look.interior or look.conflict or look.upper < np.inf:
            return ""
        h = np.asarray(full_constraints(ready.problem, look.x, ready.sampler.rows), float)
        worst = int(np.argmax(h))
        return (
            f" {_NO_ROOM}: a bound needs room. The output violates {ready.names[worst]} by {max(h[worst], 0.0):.3g}; raise "
            "the levels by what you can bear."
        )

    def back_to_the_last(self, error: NotFiniteLook) -> None:
        """Stand at the last look whose point is finite on all rows, and say what was not."""
        what, at = self.culprit(error.seen[0], error.seen[1:], {}), self.step + 1
        if self.look is not None and not self.is_sound(self.look.x):
            self.look, self.step = None, 0
        self.not_finite(what, at, self.look is None and not self.is_sound(self.ready.x))

    # ---- what is kept ------------------------------------------------------------------------------------------------

    def _record(self, look: Look, bar: Progress) -> bool:
        """Add a row to the trace; True when the callback ends the run."""
        tracked = {} if self.options.track is None else self.options.track(look.x)
        means = Means(look.seen[0], look.seen[1:], np.asarray(look.lam), tracked, 1.0)
        more = {name: tracked[name] for name in sorted(tracked)} | self.on_all_rows(look.x)
        row = self.row(means, 0, self._gradients(), more)
        return self.written(row, bar, None, look.x, np.asarray(look.lam))

    def _gradients(self) -> int:
        n = self.ready.sampler.n
        assert n is not None
        return self.solver.gradients(self.step, n)

    def save_the_last(self) -> None:
        """Write what the last look was taken from."""
        memory, step, gaps = self.before
        self.save(memory, step, gaps=gaps)

    def ended(self) -> Outcome:
        """What the run has found."""
        out, look, x = self.out, self.look, self.ready.x
        point, lam = (x, self.ready.lam) if look is None else (jax.tree.map(jnp.asarray, look.x), look.lam)
        out.steps, out.dual_last, out.cost = self.step, np.asarray(lam), Cost(samples=0, gradients=self._gradients())
        out.points, out.duals = dict.fromkeys(("own", "last"), point), dict.fromkeys(("own", "last"), out.dual_last)
        if look is None:
            return out
        most = np.max(look.over, initial=0.0)
        kept = most > 0 and f"{_NO_ROOM}: the output keeps them up to rounding, which is {most:.2g} at most."
        out.state, out.conflict, out.least_errors = look.memory, look.conflict, look.over
        out.note = " ".join(filter(None, (look.note, kept))) or None
        out.looked_at = [_point(at, x) for at in look.points]
        return out


def _point(vector: np.ndarray, like: Tree) -> Tree:
    return shaped_like(like, vector.astype(float_dtype(like)))
