"""How good a run is by its duality gap: solved, falling no more, or not there yet when the budget ends."""

import math

from tightrope.result import Status

# By hand, where nothing else is said; docs/decisions.md says what the statuses promise.
SOLVED = 1e-4  # the relative gap at which a run without a budget ends
CONVERGED = 1e-3  # the relative gap up to which a run that has spent its budget is called finished
_NOTHING = 1e-10  # the relative gap below which a run has no use for the rest of its budget
_BEYOND_DOUBT = 1000  # times the rounding that a few rows show; for more, the others would have to be so much larger
_PATIENCE = 30  # looks, at least, without a fall of the gap by a tenth, after which it is called stalled
ADVICE = (
    "Let tr.check_problem look for what is not convex; where nothing is, write differences of large numbers so that they "
    'lose no digits, or compute in float64: jax.config.update("jax_enable_x64", True).'
)
_CLOSE = 5  # looks that are enough where nothing but rounding stands between the gap and the tolerance


class Judge:
    """Sees the gap at every look at the data, and says when it ends the run.

    A gap is a bound on F(x) - F* for a feasible x. Relative means divided by the scale of F: by how much F is larger than at
    the output where the run began, or where it is safely feasible, whichever is more. That has no units.
    """

    def __init__(self, tol: float | None, until_solved: bool):
        self.tol, self.until_solved = tol, until_solved
        self.gap, self.scale = math.nan, math.nan
        self.best: list[float] = []  # the smallest gap so far, at every look

    def look(self, gap: float, rounding: float, scale: float) -> Status | None:
        """How this gap ends the run; None where it does not."""
        self.gap, self.scale = gap, scale
        if not gap < math.inf:
            return None
        if gap < -rounding:
            return Status.CONTRADICTION
        if self.tol is None and not self.until_solved:
            return Status.SOLVED if gap <= max(_NOTHING * scale, 2 * rounding) and gap <= SOLVED * scale else None
        if gap <= self.allowed:
            return self.solved
        self.best.append(min(gap, self.best[-1] if self.best else math.inf))
        if gap - rounding <= self.allowed and (gap <= 2 * rounding or self._rests_for(_CLOSE)):
            return Status.PRECISION
        return Status.STALLED if self.until_solved and self._stalled() else None

    @property
    def solved(self) -> Status:
        """How a run ends whose gap is small enough."""
        return Status.TOLERANCE if self.tol is not None else Status.SOLVED

    def sure(self, rounding: float) -> bool:
        """Whether the gap is small enough however few rows its rounding was judged by."""
        return self.gap + _BEYOND_DOUBT * rounding <= self.allowed

    @property
    def allowed(self) -> float:
        """The gap at which the run is solved."""
        return self.tol if self.tol is not None else SOLVED * self.scale

    def _stalled(self) -> bool:
        return self._rests_for(max(_PATIENCE, len(self.best) // 2))

    def _rests_for(self, looks: int) -> bool:
        """Whether so many looks have not lowered the gap by a tenth."""
        return len(self.best) > looks and self.best[-1] > 0.9 * self.best[-1 - looks]

    @property
    def relative(self) -> float:
        """The gap in units of the scale of F; NaN where none is known."""
        return self.gap / self.scale if self.scale > 0 else math.nan

    def at_the_end(self) -> Status:
        """How a run ends that has spent its budget."""
        return Status.NOT_CONVERGED if self.relative > CONVERGED or self.gap == math.inf else Status.FINISHED

    def out_of_reach(self) -> bool:
        """At half of a budget: whether the gap would still be too large at its end if the second half lowered it by as
        much as the first, from the scale of F to what it is now."""
        return self.relative**2 > (CONVERGED if self.tol is None else self.tol / self.scale)

    def __str__(self) -> str:
        if self.gap == math.inf:
            return "no feasible point is known yet"
        share = f" ({100 * self.relative:.2g} % of the scale of the objective)" if self.relative <= 1 else ""
        return f"the gap is {self.gap:.3g}{share}"
