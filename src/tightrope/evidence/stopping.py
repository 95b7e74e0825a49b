"""How good a run is by its duality gap: solved, falling no more, or not there yet when the budget ends."""

import math

from tightrope.result import Status
from tightrope.solvers.base import SOLVED

CONVERGED = 10 * SOLVED  # the same for a run that has spent its budget, to be called finished
_NOTHING = 1e-10  # the relative gap below which a run has no use for the rest of its budget; a guess
_PATIENCE = 30  # looks, at least, without a fall of the gap by a tenth, after which it is called stalled; a guess
_CLOSE = 5  # looks that are enough where nothing but rounding stands between the gap and the tolerance; a guess
_MOSTLY = 4  # times the rounding: a gap that rests below it rests because of it; a guess
ADVICE = (
    "Let tr.check_problem look for what is not convex; where nothing is, write differences of large numbers so that they "
    "lose no digits."
)


class Stopping:
    """Sees the gap at every look at the data, and says when it ends the run.

    A gap is a bound on F(x) - F* for a feasible x. Relative means divided by the scale of F, which has no units: the value
    |F(x)| that a user sees, or, where that is more, the fall of F from where the run began, or is safely feasible, to the
    output.
    """

    def __init__(self, tol: float | None, until_solved: bool):
        self.tol, self.until_solved = tol, until_solved
        self.gap, self.value, self.fall = math.nan, math.nan, math.nan
        self.best: list[float] = []  # the smallest gap so far, at every look

    def look(self, gap: float, rounding: float, value: float, fall: float) -> Status | None:
        """How this gap ends the run; None where it does not.

        Args:
            gap: a bound on F(x) - F*.
            rounding: the part of it that is there because numbers are rounded.
            value: F(x).
            fall: of F to F(x), from where it is larger.
        """
        self.gap, self.value, self.fall = gap, value, fall
        if not gap < math.inf:
            return None
        if gap < -rounding:
            return Status.CONTRADICTION
        self.best.append(min(gap, self.best[-1] if self.best else math.inf))
        if self.tol is None and not self.until_solved:
            scale = self.scale
            return Status.SOLVED if gap <= max(_NOTHING * scale, 2 * rounding) and gap <= SOLVED * scale else None
        if gap <= self.allowed:
            return self.solved
        if gap - rounding <= self.allowed and (gap <= 2 * rounding or self._rests_for(_CLOSE)):
            return Status.PRECISION
        if not (self.until_solved and self._stalled()):
            return None
        return Status.PRECISION if gap <= _MOSTLY * rounding else Status.STALLED

    @property
    def scale(self) -> float:
        """What a gap is small or large beside."""
        return max((v for v in (abs(self.value), self.fall) if not math.isnan(v)), default=math.nan)

    @property
    def solved(self) -> Status:
        """How a run ends whose gap is small enough."""
        return Status.TOLERANCE if self.tol is not None else Status.SOLVED

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

    def looks_to_go(self) -> int | None:
        """How many looks more would make the gap small enough, at the rate of the second half of those so far; None where
        that is not known."""
        last, allowed = self.best[len(self.best) // 2 :], self.allowed
        if len(last) < 2 or not 0 < last[-1] < last[0] < math.inf or not 0 < allowed < last[-1]:
            return None
        return math.ceil((len(last) - 1) * math.log(last[-1] / allowed) / math.log(last[0] / last[-1]))

    def __str__(self) -> str:
        if self.gap == math.inf:
            return "no feasible point is known yet"
        what = "the objective" if not self.fall > abs(self.value) else "its fall since the start"
        share = f" ({100 * self.relative:.2g} % of {what})" if self.relative <= 1 else ""
        return f"the gap is {self.gap:.3g}{share}"
