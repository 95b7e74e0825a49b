"""What can be said about a threshold, with what confidence; and where nothing can, what is missing."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from tightrope.certificate import rounded_up
from tightrope.confidence import binomial_lower, binomial_upper, umbrella_least
from tightrope.learn.constrained.asked import COST, METRICS, Asked, Constraint
from tightrope.learn.constrained.held_out import HeldOut, Judges
from tightrope.learn.constrained.search import Walked, interval, passes
from tightrope.names import visible
from tightrope.pages.elements import fragment

_FAR = 10**9  # rows; beyond, "more than a billion" is answer enough; by hand


class CertificationWarning(UserWarning):
    """A classifier was fitted, and what it was asked to keep could not be certified."""


class CertificationError(ValueError):
    """What a classifier was asked to keep could not be certified, and `uncertified="raise"` was given."""


@dataclasses.dataclass(frozen=True)
class MeasuredMetric:
    """A metric at the threshold, on the rows that judged.

    Attributes:
        name: of the metric, with its group.
        value: what it is there.
        low, high: bounds on it, each of them one-sided at the certificate's confidence and for this metric alone; None for a
            cost.
        rows: which rows it is a share of, and how many there are.
        limit: the limit asked for, as it is written: "<= 0.003"; None for what is maximised.
    """

    name: str
    value: float
    low: float | None
    high: float | None
    rows: str
    limit: str | None = None

    def __str__(self) -> str:
        between = "" if self.low is None else f" ({self.low:.4g} to {self.high:.4g})"
        asked = "" if self.limit is None else f", asked for {self.limit}"
        return f"{self.name} {self.value:.4g}{between} of {self.rows}{asked}"


@dataclasses.dataclass(frozen=True)
class ThresholdCertificate:
    """Whether a classifier keeps its limits, in numbers; `print` it for words.

    Attributes:
        holds: whether every limit is kept with the confidence asked for.
        confidence: that confidence.
        proven: whether this holds at every sample size for rows drawn independently, as those to come will be. False for
            cross-fitted scores, where it holds for many rows at best, and where `holds` is False.
        threshold: rows with a higher score are selected.
        limits: what was asked for, as it is written.
        constraints: the metrics that have a limit, as measured on the rows that judged.
        objective: the metric that is maximised or minimised, measured there as well.
        basis: which rows judged, in words.
        missing: where `holds` is False, what stands in the way, in sentences.
        notes: what else there is to know.
    """

    holds: bool
    confidence: float
    proven: bool
    threshold: float
    limits: tuple[str, ...]
    constraints: tuple[MeasuredMetric, ...]
    objective: MeasuredMetric
    basis: str
    missing: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @classmethod
    def of_dict(cls, about: dict[str, Any]) -> "ThresholdCertificate":
        """The certificate of which `dataclasses.asdict` gave this, its tuples maybe lists."""
        words: dict[str, Any] = {name: tuple(about[name]) for name in ("limits", "missing", "notes")}
        constraints = tuple(MeasuredMetric(**one) for one in about["constraints"])
        return cls(**about | words | {"constraints": constraints, "objective": MeasuredMetric(**about["objective"])})

    @property
    def grade(self) -> str:
        """What stands behind the sentence: "proven", "asymptotic" (cross-fitted scores) or "not known"."""
        return "proven" if self.proven else "asymptotic" if self.holds else "not known"

    @property
    def verdict(self) -> str:
        """The certificate in one sentence."""
        limits, sure = ", ".join(self.limits), _percent(self.confidence)
        if not self.holds:
            return f"Not certified: {limits} could not be shown with {sure} confidence."
        how = "" if self.proven else ", for many rows (asymptotic, not proven)"
        return f"With {sure} confidence{how}: {limits}."

    def __str__(self) -> str:
        lines = [self.verdict, *self.missing, f"Selected: a score above {self.threshold:.6g}. {self.basis}", "There:"]
        alone = self.objective.name not in [measured.name for measured in self.constraints]
        lines += [f"  {measured}" for measured in ((self.objective,) * alone + self.constraints)]
        return visible("\n".join([*lines, *self.notes]))

    def _repr_html_(self) -> str:
        from tightrope.learn.constrained.page import threshold_parts

        return fragment(*threshold_parts(self))


def certificate_of(
    asked: Asked, constraints: Sequence[Constraint], found: Walked, threshold: float, confidence: float, judges: Judges,
    weights: str | None,
) -> ThresholdCertificate:  # fmt: skip
    """Everything there is to say about a threshold.

    Args:
        asked, constraints: what was asked for; the constraints of every group.
        found: the walk that judged.
        threshold: the cut that is used: the walk's, or another where nothing was certified.
        confidence: that of every claim.
        judges: the rows that judge, and how they came to.
        weights: "known" where `max_weight` was given with weights, "seen" where it was not, so that rows to come may weigh
            more than those seen; None where rows count alike.
    """
    rows = found.judging.once()
    holds = found.passed > 0 and weights != "seen" and not judges.trained_on
    measured = [
        _measure(c.metric, c.group, rows, threshold, confidence, asked.costs, f"{c.sign} {c.limit:g}")
        for c in constraints
    ]
    objective = _measure(asked.maximize, None, rows, threshold, confidence, asked.costs)
    missing: tuple[str, ...] = ()
    if not found.passed:
        missing = _missing(constraints, found, threshold, confidence, asked.costs, judges.share)
    elif weights == "seen":
        missing = (_weights_unknown(rows.most),)
    if judges.trained_on:
        missing += (
            f"{judges.trained_on:,} rows that judged are copies of rows that their model was trained on. Split so that "
            "copies stay together, as cv=0.5 or a number of folds does.",
        )
    notes = []
    if holds and not (rows.score > threshold).any():
        notes.append(
            "Nobody is selected: none of the rows that judged has a score above the threshold. Ask for less, or give more."
        )
    if weights is not None:
        known = "as max_weight says" if weights == "known" else "the largest weight given"
        notes.append(
            f"Rates are those of weighted rows. No row to come is taken to weigh more than {_most(rows.most)}, {known}."
        )
    if found.judging.draw is not None:
        notes.append(
            f"Copies: {len(found.judging.score) - len(rows.score):,} of {len(found.judging.score):,} rows that judged are "
            "equal to others in every feature and label, more than chance makes. Numbers count every such row once; limits "
            "are shown with copies and without."
        )
    basis = judges.basis.format(f"{len(rows.score):,}", f"{int(rows.positive.sum()):,}")
    if found.pilot is not None:
        basis += f" {len(found.pilot.score):,} others said where to begin."
    return ThresholdCertificate(
        holds, confidence, holds and not judges.cross_fitted, threshold, tuple(map(str, constraints)), tuple(measured),
        objective, basis, missing, tuple(notes),
    )  # fmt: skip


def _measure(
    name: str, group: Any, rows: HeldOut, cut: float, confidence: float, costs: Any, limit: str | None = None
) -> MeasuredMetric:
    part, cuts = rows.of(group), np.array([cut])
    value = float(part.estimate(name, cuts, costs)[0]) if len(part.score) else float("nan")
    called = name if group is None else f"{name} ({group[0]} = {group[1]})"
    if name == COST:
        return MeasuredMetric(called, value, None, None, f"{len(part.score):,} rows", limit)
    n = int(part.whole_counts(name, cuts)[1][0])
    low, high = interval(name, part, cut, confidence) if n else (0.0, 1.0)
    return MeasuredMetric(called, value, low, high, f"{n:,} {METRICS[name].rows}", limit)


def _missing(
    constraints: Sequence[Constraint], found: Walked, threshold: float, confidence: float, costs: Any, share: float
) -> tuple[str, ...]:
    """What stands in the way where the walk began, the threshold that looked safest, in sentences."""
    cuts, views = np.array([found.first]), list(found.judging.views())

    def worst(c: Constraint, cut: float) -> float:
        values = [float(view.of(c.group).estimate(c.metric, np.array([cut]), costs)[0]) for view in views]
        return max(values) if c.at_most else min(values)

    values = {c: worst(c, found.first) for c in constraints}
    broken = [c for c, value in values.items() if np.isfinite(value) and not c.holds(value)]
    seen = " and ".join(f"{c.name} is {values[c]:.4g}" for c in broken)
    all_of = " and ".join(map(str, constraints))
    if broken and all(c.holds(worst(c, threshold)) for c in constraints):
        return (
            f"The estimates keep {all_of} at {threshold:.4g}, and not at {found.first:.4g}, which had looked safest: there "
            f"{seen}. That is too narrow to tell by {len(found.judging.score):,} rows; give more.",
        )
    if broken:
        return (
            f"No threshold of these scores seems to keep {all_of}, however many rows there are: at {found.first:.4g}, which "
            f"looked safest, {seen}.",
        )
    failed = [c for c in constraints if not passes([c], found.judging, cuts, confidence, costs)[0]]
    return tuple(_too_few(c, values[c], found, confidence, share) for c in failed)


def _weights_unknown(most: tuple[float, float]) -> str:
    """What is missing where limits are kept for weights up to the largest seen: that no other is larger."""
    given = f"{most[0]}" if most[0] == most[1] else f"{most}"
    return (
        f"It is shown where no row to come weighs more than {_most(most)}, the largest weight given. No number of rows "
        f"tells how much a rare one may weigh; if none can weigh more, say so: max_weight={given}."
    )


def _most(most: tuple[float, float]) -> str:
    negative, positive = most
    return (
        f"{negative:.4g}"
        if negative == positive
        else f"{negative:.4g} (negative rows) and {positive:.4g} (positive rows)"
    )


def _too_few(c: Constraint, value: float, found: Walked, confidence: float, share: float) -> str:
    """The best that can be shown with the rows there are, and how many it would take."""
    rows, cuts = found.judging.once().of(c.group), np.array([found.first])
    if c.metric == COST or rows.weighted(c.metric):
        return (
            f"For {c}: at {found.first:.4g}, which looked safest, it is {value:.4g}, too close to tell by "
            f"{len(rows.score):,} rows; give more."
        )
    counts = [view.of(c.group).whole_counts(c.metric, cuts) for view in found.judging.views()]
    kind = METRICS[c.metric].rows + ("" if c.group is None else f" with {c.group[0]} = {c.group[1]}")
    bounds = [float((binomial_upper if c.at_most else binomial_lower)(*of, confidence)[0]) for of in counts]
    bound, (hits, n) = (max if c.at_most else min)(
        (bound, (int(hits[0]), int(n[0]))) for bound, (hits, n) in zip(bounds, counts, strict=True)
    )
    best = (
        f"with {n:,} {kind} to judge by, {c.name} {c.sign} {_outward(bound, c.at_most)} is the best that can be shown"
    )
    need = rows_needed(c, hits / n if n else float(not c.at_most), confidence)
    if need is None:
        return f"For {c}: {best}, and it would take more than a billion."
    in_all = "" if share >= 1 else f", hence some {rounded_up(need / share):,} in the data"
    return f"For {c}: {best}. It takes about {need:,} to judge by{in_all}."


def rows_needed(constraint: Constraint, value: float, confidence: float) -> int | None:
    """How many rows of its kind a constraint takes to be certified where the metric is `value`; None if over a billion.

    Example:
        >>> rows_needed(Constraint("fpr", 0.003, True), 0.0, 0.95)
        998
    """
    c = constraint
    if value == float(not c.at_most):
        return umbrella_least(c.limit if c.at_most else 1 - c.limit, confidence)

    def enough(n: int) -> bool:
        hits = np.ceil(value * n) if c.at_most else np.floor(value * n)
        return bool(c.holds((binomial_upper if c.at_most else binomial_lower)(hits, n, confidence)))

    high = 1
    while not enough(high):
        high *= 2
        if high > _FAR:
            return None
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def _percent(confidence: float) -> str:
    return f"{100 * confidence:g} %"


def _outward(bound: float, upwards: bool) -> str:
    """A bound in three digits, rounded so that it stays one."""
    if bound <= 0 or bound >= 1:
        return f"{bound:g}"
    unit = 10.0 ** (np.floor(np.log10(bound)) - 2)
    return f"{(np.ceil if upwards else np.floor)(bound / unit - (1e-9 if upwards else -1e-9)) * unit:.3g}"
