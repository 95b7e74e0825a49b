"""What a run gives back: its status as a sentence, its trace, the points and multipliers, a report for people."""

import dataclasses
from enum import Enum
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self, get_args

import numpy as np

from tightrope.methods.base import title_of
from tightrope.names import visible
from tightrope.tree import Tree

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd
    from matplotlib.figure import Figure

    from tightrope.certificate import Certificate


Implied = Literal[
    "proven",
    "ended well",
    "certified",
    "budget spent",
    "gap too large",
    "no point",
    "unproven",
    "went wrong",
    "cut short",
]
"""What the end of a run can imply."""


class Status(Enum):
    """How a run ended: a sentence for the user, and after it what that end implies, each word an attribute.

    A new status is one line of this class.

    Example:
        >>> import tightrope as tr
        >>> tr.Status.SOLVED.value
        'solved: the duality gap is at most 1e-4 of the objective, or of its fall since the start'
        >>> tr.Status.SOLVED.proven, tr.Status.FINISHED.proven
        (True, False)
    """

    FINISHED = "finished: all steps were taken", "ended well", "budget spent"
    FED = "fed by hand: a step was taken on every sample so far"
    SOLVED = "solved: the duality gap is at most 1e-4 of the objective, or of its fall since the start", "proven"
    NOT_CONVERGED = (
        "not converged: the budget was spent before the duality gap was small",
        "budget spent",
        "gap too large",
    )
    STALLED = "not converged: stopped because the duality gap no longer falls", "gap too large"
    TOLERANCE = "finished: the duality gap is below the tolerance", "proven"
    PRECISION = (
        "finished at the limit of this precision: the duality gap is above the tolerance, and rounding is the reason",
        "proven",
    )
    SETTLED = "finished: the error falls no more", "ended well"
    KEPT = (
        "finished: every constraint holds, by two standard errors of samples that did not make the point",
        "ended well",
        "budget spent",
    )
    UNDECIDED = (
        "finished: constraints are kept in the mean, and one is within two standard errors of its level",
        "ended well",
        "budget spent",
    )
    VIOLATED = (
        "finished, but a constraint is violated, by two standard errors of samples that did not make the point",
        "went wrong",
        "budget spent",
    )
    TIME_LIMIT = "stopped at the time limit; the result is that of the steps taken", "cut short"
    INTERRUPTED = "interrupted; the result is that of the steps taken", "cut short"
    CALLBACK_STOPPED = "stopped by the callback; the result is that of the steps taken", "cut short"
    CALLBACK_RAISED = (
        "stopped because the callback raised an error; the result is that of the steps taken",
        "went wrong",
        "cut short",
    )
    NOT_FINITE = (
        "stopped at a value that is not finite; the result is that of the last good step",
        "went wrong",
        "cut short",
    )
    INFEASIBLE = "stopped: no point of the domain satisfies all constraints, which is proven", "no point"
    INFEASIBLE_IN_SAMPLES = (
        "finished, but no point satisfies all constraints, by five standard errors of samples",
        "no point",
    )
    CERTIFIED = (
        "certified: every constraint holds with the confidence asked for, by rows that were held out",
        "proven",
        "certified",
    )
    ASYMPTOTIC = (
        "certified asymptotically: constraints hold with the confidence asked for if the held-out rows are many",
        "ended well",
        "certified",
    )
    CONTRADICTION = (
        "contradiction: the lower bound is above the value of a feasible point, so that the functions are not convex, or "
        "lose digits that are not counted; nothing is proven",
        "unproven",
    )
    NOT_CONVEX = "finished, but the functions are not convex: no duality gap holds, and nothing is proven", "unproven"
    NOT_CERTIFIED = (
        "finished, but no point could be certified: the constraints may be violated beyond the data",
        "went wrong",
    )
    NO_FEASIBLE_POINT = (
        "finished, but no strictly feasible point was found: the output may violate its constraints",
        "no point",
    )
    STREAM_RAISED = (
        "stopped because the stream raised an error; the result is that of the steps taken",
        "went wrong",
        "cut short",
    )
    STREAM_ENDED = "stopped because the stream ended early; the result is that of the steps taken", "cut short"

    _value_: str
    proven: bool  # the run has proven what it was asked for: a small gap, or constraints that hold with confidence
    ended_well: bool  # it came to its end, as far as is known with a good result
    certified: bool  # held-out rows certify every constraint, by bounds that are proven or, where asked for, asymptotic
    budget_spent: bool  # the run took all the steps that it was given
    gap_too_large: bool  # the duality gap is known not to be small
    no_point: bool  # no point is known that satisfies the constraints, or none is there
    unproven: bool  # what bounds stand on was found to be false: no gap, no lower bound and no pull by convexity holds
    cut_short: bool  # something ended the run before its time
    went_wrong: bool  # the result is not what was asked for, so that a reader should be warned

    def __new__(cls, sentence: str, *implied: Implied) -> Self:
        member = object.__new__(cls)
        member._value_ = sentence
        for what in get_args(Implied):
            setattr(member, what.replace(" ", "_"), what in implied)
        member.ended_well |= member.proven
        member.went_wrong |= member.no_point or member.unproven
        return member


@dataclasses.dataclass(frozen=True)
class TotalCost:
    """What a whole run has used."""

    steps: int
    samples: int
    gradients: int
    projections: int
    lmos: int
    seconds: float

    def __str__(self) -> str:
        parts = [f"{self.steps:,} steps"] + ([f"{self.samples:,} samples"] if self.samples else [])
        parts += [f"{self.gradients:,} gradients"]
        parts += [f"{self.projections:,} projections"] if self.projections else []
        parts += [f"{self.lmos:,} linear minimisations"] if self.lmos else []
        return ", ".join(parts) + f", {self.seconds:.2f} s"


class Pull(NamedTuple):
    """What the pull did."""

    x: Tree  # the feasible output
    a: float  # how far it was pulled, in [0, 1]
    cost: float  # rise of the objective
    bound: float  # on that rise: a (F(s) - F(x))
    towards: Tree  # s

    def __str__(self) -> str:
        if self.a == 0:
            return "the output satisfies every constraint as it is; nothing was pulled."
        return (
            f"pulled towards a strictly feasible point by a = {self.a:.3g}, which cost {self.cost:.3g} in the objective "
            f"(at most {self.bound:.3g})."
        )


@dataclasses.dataclass(frozen=True, eq=False)
class Result:
    """The outcome of `minimize`.

    Attributes:
        x: the method's output (see `output`).
        output: which point x is: "average", "last", "own" (what the method's documentation says), "feasible" or
            "certified".
        mean: mean of the iterates, as the theorems define it; None for a method that keeps none.
        last: the last iterate.
        dual: mean of the multipliers; NaN for methods that estimate none.
        dual_last: the last multipliers.
        objective: the objective at x on all rows; for a generator, on fresh samples; for a stream, on the last samples of
            the run (up to 8,192). None where an oracle gives gradients only.
        constraints: the same for the constraints (minus levels), by name; <= 0 is satisfied.
        measured_on: what `objective` and `constraints` were measured on, in words.
        point: which point x is, in words.
        status: how the run ended; `status.value` is a sentence.
        message: more on that, e.g. the step at which a value stopped being finite; may be empty.
        trace: a DataFrame of bounded length: step, samples, passes, seconds, the running means of objective and
            constraints over the samples of the run, multipliers, the weight of all steps in these means; full-data values
            where asked for.
        cost: steps, samples, gradients, projections, linear minimisations, seconds.
        state: the method's state, for experts; to go on from here pass the result as `warm_start`.
        method: the method, with its coefficients.
        objective_error: by how much the objective may be off: rounding on rows, two standard errors on samples; NaN
            where it is not known.
        errors: the same for the constraints.
        at_random: whether these are errors of samples.
        unsettled: the constraints whose multipliers were still changing.
        pull: for output="feasible" and "certified", how far the output was pulled, towards what, and what that cost.
        lower: a lower bound on the best objective possible on the data, rounding counted; None where none is known.
        certificate: with `heldout`, what can be said of x beyond the data, with what confidence: a `Certificate`.
        seen: marks of the rows the run has seen, by which `certify` recognises them among held-out ones.
        notes: anything a careful reader should know.
        error: the exception a callback or a stream raised, if any.

    Example:
        >>> import numpy as np, tightrope as tr
        >>> problem = tr.Problem(lambda x, theta: ((x - theta) ** 2).sum(), None, tr.L2Ball(1.0, shape=2))
        >>> result = tr.minimize(problem, np.ones((4, 2)), method=tr.CSOA(eta0=1.0), steps=4)
        >>> result.status.name, result.cost.steps, result.x.shape
        ('FINISHED', 4, (2,))
    """

    x: Tree
    output: str
    mean: Tree
    last: Tree
    dual: np.ndarray
    dual_last: np.ndarray
    objective: float | None
    constraints: "pd.Series[float]"
    measured_on: str
    point: str
    status: Status
    message: str
    trace: "pd.DataFrame"
    cost: TotalCost
    state: Any
    method: Any
    objective_error: float | None = None
    errors: "pd.Series[float] | None" = None
    at_random: bool = False
    unsettled: tuple[str, ...] = ()
    pull: Any = None
    lower: float | None = None
    certificate: "Certificate | None" = None
    seen: Any = None
    notes: tuple[str, ...] = ()
    error: BaseException | None = None

    @property
    def where_to_go_on(self) -> Tree:
        """Where a warm start begins: the last iterate, or the average for a method whose iterates are vertices."""
        vertices = self.mean is not None and self.method.facts.vertices
        return self.average if vertices else self.last

    @property
    def average(self) -> Tree:
        """The mean of the iterates; refused for a method that keeps none."""
        if self.mean is None:
            raise ValueError(
                f"{title_of(self.method)} keeps no mean of its iterates; expected `x`, its own output, or `last`."
            )
        return self.mean

    @property
    def violation(self) -> float:
        """The largest constraint value above zero; 0 when all are satisfied, NaN when one is not known."""
        return max(float(np.max(self.constraints.to_numpy())), 0.0) if len(self.constraints) else 0.0

    @property
    def gap(self) -> float | None:
        """A bound on F(x) - F* on the data, rounding counted; None where none is known."""
        if self.lower is None or self.objective is None or self.objective_error is None or self.at_random:
            return None
        return max(self.objective + self.objective_error - self.lower, 0.0)

    def plot(self, path: str | None = None) -> "Figure":
        """Draw objective and constraints against samples; saved to `path` where one is given."""
        from tightrope.plotting import plot_trace

        return plot_trace(self, path)

    def report(self, path: "str | Path") -> "Path":
        """Write the run as a page: one HTML file that opens without a network; gives its path.

        The certificate comes first where there is one. A notebook shows a shorter one by itself.

        Example:
            >>> import tempfile, pathlib, jax.numpy as jnp, tightrope as tr
            >>> f = lambda x, theta: (x[0] - theta) ** 2
            >>> problem = tr.Problem(f, lambda x, theta: x - 1.0, tr.Box(-2.0, 2.0, shape=(1,)))
            >>> result = tr.minimize(problem, jnp.array([1.0, 2.0, 3.0]), method="csoa", steps=9)
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     page = result.report(pathlib.Path(folder) / "run.html").read_text()
            >>> page.startswith("<!DOCTYPE html>")
            True
        """
        from tightrope.pages.elements import write_page
        from tightrope.pages.run import run_page

        return write_page(path, run_page(self))

    def _repr_html_(self) -> str:
        from tightrope.pages.run import run_fragment

        return run_fragment(self)

    @property
    def known(self) -> list[tuple[str, str]]:
        """What a report says of every run, as names and what there is to say of each: a line of text, or of a page."""
        return [("measured on", self.measured_on), ("point", self.point), ("cost", str(self.cost))]

    def _plus_minus(self, error: float | None) -> str:
        return f" +- {error:.2g}" if self.at_random and error is not None and error > 0 else ""

    def verdict_of(self, value: float, error: float) -> str:
        """What a constraint's value says: rounding is no violation, and what noise hides is not known."""
        if self.output == "certified":
            return "certified" if self.certificate is not None and self.certificate.holds else "not certified"
        if np.isnan(value):
            return "not known"
        if self.at_random and np.isnan(error):
            return f"not known; {'below' if value <= 0 else 'above'} its level on average over the run"
        if self.at_random and abs(value) <= error:
            return "undecided: within two standard errors of its level"
        return "satisfied" if value <= (0 if np.isnan(error) else error) else "VIOLATED"

    def __str__(self) -> str:
        lines = [f"{title_of(self.method)}: {self.status.value}."]
        lines += [f"  {self.message}"] if self.message else []
        value = "not given by the oracle" if self.objective is None else f"{self.objective:.6g}"
        lines += [f"  objective    {value}{self._plus_minus(self.objective_error)}"]
        if len(self.constraints):
            width = max(len("constraint"), *(len(n) for n in self.constraints.index))
            lines += [f"  {'constraint':<{width}}  {'value':>12}  {'multiplier':>12}"]
            errors = [np.nan] * len(self.constraints) if self.errors is None else self.errors
            for constraint, value, error, lam in zip(
                self.constraints.index, self.constraints, errors, self.dual, strict=True
            ):
                settled = " (still changing)" if constraint in self.unsettled else ""
                known = f"{value:>12.6g}{self._plus_minus(error)}  {lam:>12.6g}{settled}"
                lines += [f"  {constraint:<{width}}  {known}  {self.verdict_of(value, error)}"]
        lines += [f"  {name:<11}  {said}" for name, said in self.known]
        lines += [f"  note         {note}" for note in self.notes]
        lines += [f"  certificate  {self.certificate.verdict}"] if self.certificate is not None else []
        return visible("\n".join(lines))

    __repr__ = __str__


def whole(result: Result) -> Result:
    """The result of a run on which its caller builds. One that was interrupted has no use for that, and whoever pressed
    Ctrl-C waits: KeyboardInterrupt is raised."""
    if result.status is Status.INTERRUPTED:
        raise KeyboardInterrupt
    return result
