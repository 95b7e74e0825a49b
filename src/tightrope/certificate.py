"""What can be said of a point, with what confidence: one bound for each constraint, one for the gap, one sentence."""

import dataclasses
import math
from typing import TYPE_CHECKING, Literal

from tightrope.names import visible
from tightrope.tree import Tree

if TYPE_CHECKING:
    import pandas as pd

Grade = Literal["proven", "asymptotic", "not known"]
"""How sure a bound is: at this number of rows, as their number grows, or not at all."""

Kind = Literal["known", "two values", "range", "asymptotic", "blocks", "heavy", "alike", "none"]

KINDS: dict[Kind, tuple[Grade, str]] = {
    "known": ("proven", "no sample enters it"),
    "two values": ("proven", "exact for two values"),
    "range": ("proven", "from its range"),
    "asymptotic": ("asymptotic", "studentised"),
    "blocks": ("asymptotic", "studentised over blocks of rows"),
    "heavy": ("not known", "the tail is too heavy"),
    "alike": ("not known", "neighbouring rows are alike"),
    "none": ("not known", "give its range"),
}
"""By what a constraint is bounded: the grade, and the rest in words."""


@dataclasses.dataclass(frozen=True)
class ConstraintBound:
    """What held-out rows say of one constraint; both numbers are minus its level, so <= 0 is satisfied.

    Attributes:
        name: of the constraint.
        estimate: the mean on the held-out rows.
        upper: E h is at most this, with the certificate's confidence; infinite where nothing can be said.
        kind: by what: "known" (no sample enters it), "two values" and "range" (proven); "asymptotic" (studentised) and
            "blocks" (the same, of means over blocks of rows that are alike); "heavy", "alike" and "none" (nothing is known).
        rows_needed: about how many held-out rows it would take for `upper` to be at most 0; infinite where none would do.
        inflation: the variance of the mean over that of independent rows, an estimate; 1 where rows are not alike.
        accepted: True where an asymptotic bound was asked for by name, so that it may hold.
        carried_by: rows that carry the verdict alone: without one of them it would be the opposite.
    """

    name: str
    estimate: float
    upper: float
    kind: Kind
    rows_needed: float = math.inf
    carried_by: tuple[int, ...] = ()
    inflation: float = 1.0
    accepted: bool = False

    @property
    def grade(self) -> Grade:
        """How sure the bound is: "proven", "asymptotic" or "not known"."""
        return KINDS[self.kind][0]

    @property
    def holds(self) -> bool:
        """True where the constraint is shown to hold, with the certificate's confidence: by a proven bound, or by an
        asymptotic one where that was asked for."""
        return self.upper <= 0 and (self.grade == "proven" or (self.accepted and self.grade == "asymptotic"))

    @property
    def shown(self) -> str:
        """The answer in a word or two, another one for each grade."""
        if self.holds:
            return "holds" if self.grade == "proven" else "holds asymptotically"
        return "only asymptotically" if self.upper <= 0 else "NOT SHOWN"

    @property
    def why(self) -> str:
        """The grade and what the bound stands on."""
        return f"{self.grade}: {KINDS[self.kind][1]}"


@dataclasses.dataclass(frozen=True, eq=False)
class Certificate:
    """What `tr.certify` found out about a point; `print(certificate)` is a report.

    Attributes:
        x: the point.
        confidence: of each bound alone, and of the sentence that all constraints hold.
        samples: how many held-out rows it stands on.
        anytime: whether it may be looked at again and again as rows come.
        constraints: a `ConstraintBound` each.
        gap: a bound on F(x) - F* on the data that x was made from, exact but for rounding, which is counted; None where
            the run knows none.
        population_gap: an upper bound on the gap in expectation, asymptotic; None where it was not asked for or cannot be
            made.
        notes: anything a careful reader should know.

    Example:
        >>> import tightrope as tr
        >>> from tightrope.certificate import ConstraintBound
        >>> bound = ConstraintBound("budget", estimate=-0.2, upper=-0.1, kind="range")
        >>> shown = tr.Certificate(x=0.0, confidence=0.95, samples=500, anytime=False, constraints=(bound,))
        >>> print(shown.verdict)
        Every constraint holds with 95 % confidence.
    """

    x: Tree
    confidence: float
    samples: int
    anytime: bool
    constraints: tuple[ConstraintBound, ...]
    gap: float | None = None
    population_gap: float | None = None
    notes: tuple[str, ...] = ()

    @property
    def holds(self) -> bool:
        """True where every constraint is shown to hold, with the confidence of one: max_i U_i bounds max_i H_i, no
        Bonferroni needed. Asymptotic bounds show it only where that was asked for (`accept="asymptotic"`)."""
        return all(bound.holds for bound in self.constraints)

    @property
    def grade(self) -> Grade:
        """The least sure of all bounds: "proven", "asymptotic" or "not known"."""
        grades = {bound.grade for bound in self.constraints}
        return "not known" if "not known" in grades else "asymptotic" if "asymptotic" in grades else "proven"

    @property
    def proven(self) -> bool:
        """True where every bound holds at this number of rows, and not only as it grows."""
        return self.grade == "proven"

    @property
    def verdict(self) -> str:
        """The certificate in one sentence: what holds, or what is missing and how many more samples it would take."""
        return f"{self._of_constraints()}{self._of_gap()}."

    @property
    def table(self) -> "pd.DataFrame":
        """A row for each constraint."""
        import pandas as pd

        return pd.DataFrame(
            [dataclasses.asdict(bound) | {"grade": bound.grade, "holds": bound.holds} for bound in self.constraints]
        )

    @property
    def warnings(self) -> tuple[str, ...]:
        """What is suspicious about the rows that it stands on, in sentences."""
        found = []
        for bound in self.constraints:
            if bound.carried_by:
                rows = ", ".join(map(str, bound.carried_by))
                found.append(f"{bound.name}: the verdict is carried by row {rows} alone; look at it")
            if bound.kind == "heavy":
                found.append(
                    f"{bound.name}: the sample looks heavy-tailed, so that too little of it may have been seen"
                )
        alike = [bound for bound in self.constraints if bound.kind in ("blocks", "alike")]
        if alike:
            most = max(bound.inflation for bound in alike)
            found.append(
                f"neighbouring rows are alike: means over them vary about {most:.2g} times as much as if rows were "
                "independent. Where independent rows were sorted or grouped afterwards, give them in random order; where "
                "they come in time, it is right as it is, and more time is needed"
            )
        return tuple(found)

    def _repr_html_(self) -> str:
        from tightrope.pages.run import certificate_fragment

        return certificate_fragment(self)

    def _of_constraints(self) -> str:
        sure = f"{100 * self.confidence:g} % confidence"
        if not self.constraints:
            return "There are no constraints"
        if self.holds:
            return f"Every constraint holds with {sure}{'' if self.proven else ', asymptotically'}"
        failing = [bound for bound in self.constraints if not bound.holds]

        def named(*kinds: Kind) -> str:
            return _listed([bound.name for bound in failing if bound.kind in kinds])

        over = [bound for bound in failing if bound.estimate > 0]
        if named("none"):
            return f"Not certified: nothing can be said of {named('none')}, which did not vary; give ranges="
        rows = "samples" if self.anytime else "held-out rows"
        if over:
            worst = max(over, key=lambda bound: bound.estimate)
            return (
                f"Not certified: {worst.name} is above its level by {worst.estimate:.2g} on the {rows}; more of them would "
                "hardly help, it takes a point further inside"
            )
        if not self.samples:
            return (
                f"Not certified: no samples have passed since {_listed([b.name for b in failing])} began to be watched"
            )
        if named("alike"):
            return f"Not certified: neighbouring {rows} are alike, and too few stand on their own to bound {named('alike')}"
        if named("heavy"):
            return f"Not shown: the tail of {named('heavy')} is too heavy to tell; give its range as ranges="
        beyond = [bound for bound in failing if bound.upper > 0]
        if not beyond:
            return (
                f"Not proven: {_listed([bound.name for bound in failing])} would hold with {sure} if there were many rows; "
                'give ranges= for a proof, or accept="asymptotic" to count that as an answer'
            )
        worst = max(beyond, key=lambda bound: bound.rows_needed)
        more = rounded_up(worst.rows_needed - self.samples)
        names = _listed([bound.name for bound in beyond])
        for_what = "" if worst.accepted or worst.grade == "proven" else " for an asymptotic bound, ranges= for a proof"
        return (
            f"Not certified: {names} cannot be told to hold with {sure}; about {more:,} more {rows} would do{for_what}"
        )

    def _of_gap(self) -> str:
        if self.gap is not None:
            return f"; the objective is within {self.gap:.2g} of the best possible on this data"
        if self.population_gap is not None:
            return f"; the objective is within {self.population_gap:.2g} of the best possible, asymptotically"
        return ""

    def __str__(self) -> str:
        lines = [self.verdict]
        if self.constraints:
            width = max(len("constraint"), *(len(bound.name) for bound in self.constraints))
            wide = max(len(bound.shown) for bound in self.constraints)
            lines += [f"  {'constraint':<{width}}  {'estimate':>11}  {'at most':>11}"]
            for bound in self.constraints:
                known = f"{bound.estimate:>11.4g}  {bound.upper:>11.4g}  {bound.shown:<{wide}}"
                lines += [f"  {bound.name:<{width}}  {known}  {bound.why}"]
        at_all_times = ", at all times together" if self.anytime else ""
        lines += [f"  held out    {self.samples:,} samples{at_all_times}"]
        if self.gap is not None:
            lines += [f"  gap         at most {self.gap:.3g} on the data it was made from"]
        if self.population_gap is not None:
            lines += [f"  gap         at most {self.population_gap:.3g} in expectation (asymptotic)"]
        lines += [f"  warning     {warning}" for warning in self.warnings]
        lines += [f"  note        {note}" for note in self.notes]
        return visible("\n".join(lines))

    __repr__ = __str__


def _listed(names: list[str]) -> str:
    if not names:
        return ""
    if len(names) > 4:
        return f"{', '.join(names[:3])} and {len(names) - 3} others"
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def rounded_up(number: float) -> int:
    """Two significant digits, upwards: it is an estimate."""
    unit = 10 ** max(math.floor(math.log10(max(number, 1))) - 1, 0)
    return math.ceil(number / unit) * unit
