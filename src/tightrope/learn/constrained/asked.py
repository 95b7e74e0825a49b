"""What a classifier is asked for: metrics of its decisions, which of them to maximise, and limits on others.

Every metric but the cost is a share: of some rows (the negative ones, the selected ones), how many are hits. That is what
makes it a binomial rate, whose bounds are exact.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

COST = "cost"
BY_GROUP = " by group"


class Counts(NamedTuple):
    """How many rows, or what sum of weights, are selected at each threshold, by label; and how many there are."""

    positive: Any
    negative: Any
    all_positive: Any
    all_negative: Any


class Metric(NamedTuple):
    """A share of some rows.

    Attributes:
        hits, of: from counts, how many are counted, of how many.
        rows: which rows it is a share of, in words.
        natural: whether a limit without a direction is one from above ("<=") or below (">="); None where both make sense.
        grows: +1 where selecting more rows cannot lower it, -1 where it cannot raise it, 0 where either may happen.
    """

    hits: Callable[[Counts], Any]
    of: Callable[[Counts], Any]
    rows: str
    natural: str | None
    grows: int

    @property
    def within_a_class(self) -> bool:
        """Whether it is a share of the rows with one label, and so does not depend on how frequent the labels are."""
        return self.rows in ("negative rows", "positive rows")


def _negatives(c: Counts) -> Any:
    return c.all_negative


def _positives(c: Counts) -> Any:
    return c.all_positive


def _everybody(c: Counts) -> Any:
    return c.all_positive + c.all_negative


def _selected(c: Counts) -> Any:
    return c.positive + c.negative


METRICS = {
    "fpr": Metric(lambda c: c.negative, _negatives, "negative rows", "<=", +1),
    "fnr": Metric(lambda c: c.all_positive - c.positive, _positives, "positive rows", "<=", -1),
    "recall": Metric(lambda c: c.positive, _positives, "positive rows", ">=", +1),
    "specificity": Metric(lambda c: c.all_negative - c.negative, _negatives, "negative rows", ">=", -1),
    "precision": Metric(lambda c: c.positive, _selected, "selected rows", ">=", 0),
    "accuracy": Metric(lambda c: c.positive + c.all_negative - c.negative, _everybody, "rows", ">=", 0),
    "selection_rate": Metric(_selected, _everybody, "rows", None, +1),
}
"""The metrics by name. The cost, which is no share, is made from `costs=`; see `Asked`."""


class Constraint(NamedTuple):
    """A limit that a metric has to keep, among all rows or in one group.

    Attributes:
        metric: its name.
        limit: a number.
        at_most: whether the metric has to stay below the limit, or above it.
        group: the name of an attribute and one of its groups; None for all rows.
    """

    metric: str
    limit: float
    at_most: bool
    group: tuple[str, Any] | None = None

    @property
    def sign(self) -> str:
        """The direction as it is written."""
        return "<=" if self.at_most else ">="

    @property
    def name(self) -> str:
        """What is limited: "fpr", or "fpr (sex = F)"."""
        return self.metric if self.group is None else f"{self.metric} ({self.group[0]} = {self.group[1]})"

    @property
    def wants(self) -> int:
        """+1 where it is safer to select more rows, -1 where it is to select fewer, 0 where neither is known."""
        grows = 0 if self.metric == COST else METRICS[self.metric].grows
        return -grows if self.at_most else grows

    def holds(self, value: Any) -> Any:
        """Whether a value of the metric, or a bound on it, keeps the limit."""
        return value <= self.limit if self.at_most else value >= self.limit

    def __str__(self) -> str:
        return f"{self.name} {self.sign} {self.limit:g}"


class Asked(NamedTuple):
    """Everything asked for, read and checked.

    Attributes:
        maximize: a metric's name.
        sign: +1 to maximise it, -1 to minimise it.
        constraints: what has to hold; those by group are one for each group once groups are known.
        by_group: the constraints that hold in every group.
        costs: of a false positive and of a false negative; None where no cost is asked about.
    """

    maximize: str
    sign: int
    constraints: tuple[Constraint, ...]
    by_group: tuple[Constraint, ...] = ()
    costs: tuple[float, float] | None = None

    def in_groups(self, groups: Sequence[tuple[str, Any]]) -> tuple[Constraint, ...]:
        """All constraints, those by group for each of these."""
        return (*self.constraints, *(c._replace(group=group) for c in self.by_group for group in groups))

    @property
    def within_classes(self) -> bool:
        """Whether all limits are on shares of rows with one label."""
        limited = [c.metric for c in (*self.constraints, *self.by_group)]
        return all(name != COST and METRICS[name].within_a_class for name in limited)


def read_asked(maximize: Any, subject_to: Any, costs: Any) -> Asked:
    """What `maximize=`, `subject_to=` and `costs=` ask for.

    Example:
        >>> asked = read_asked("recall", {"fpr": 0.01, "selection_rate": "<= 0.2"}, None)
        >>> [str(constraint) for constraint in asked.constraints]
        ['fpr <= 0.01', 'selection_rate <= 0.2']
    """
    if not isinstance(subject_to, Mapping) or not subject_to:
        raise TypeError(
            f"subject_to is {subject_to!r}; expected a dict of limits, such as {{'fpr': 0.01}} or "
            "{'precision': 0.9, 'selection_rate': '<= 0.2'}."
        )
    read = [_read_limit(str(key), limit) for key, limits in subject_to.items() for limit in _several(limits)]
    together = tuple(constraint for constraint, by_group in read if not by_group)
    by_group = tuple(constraint for constraint, grouped in read if grouped)
    sign = -1 if str(maximize).startswith("-") else 1
    name = _known(str(maximize).removeprefix("-"), "maximize")
    smaller_is_better = name == COST or METRICS[name].natural == "<="
    if smaller_is_better and sign > 0:
        raise ValueError(
            f"maximize is {maximize!r}, which is better when it is small; expected '-{name}' to minimise it."
        )
    needed = COST in (name, *(c.metric for c in (*together, *by_group)))
    return Asked(name, sign, together, by_group, _read_costs(costs, needed))


def _several(limits: Any) -> Sequence[Any]:
    return limits if isinstance(limits, list | tuple) else [limits]


def _known(name: str, where: str) -> str:
    if name != COST and name not in METRICS:
        raise ValueError(f"{where} names the metric {name!r}; expected one of {', '.join(METRICS)}, {COST}.")
    return name


def _read_limit(key: str, limit: Any) -> tuple[Constraint, bool]:
    """A constraint, and whether it is meant for every group."""
    by_group = key.endswith(BY_GROUP)
    name = _known(key.removesuffix(BY_GROUP).strip(), "subject_to")
    natural = "<=" if name == COST else METRICS[name].natural
    written = re.fullmatch(r"\s*(<=|>=)?\s*([-+.\deE]+)\s*", str(limit))
    try:
        sign, number = (written[1], float(written[2])) if written and not isinstance(limit, bool) else (None, np.nan)
    except ValueError:
        sign, number = None, np.nan
    sign = sign or natural
    if not np.isfinite(number):
        raise ValueError(f"subject_to[{key!r}] is {limit!r}; expected a number, or text such as '<= 0.1' or '>= 0.6'.")
    if sign is None:
        raise ValueError(
            f"subject_to[{key!r}] is {limit!r}; expected a direction with it: '<= {number:g}' or '>= {number:g}'."
        )
    if name == COST and (sign == ">=" or number <= 0):
        raise ValueError(f"subject_to[{key!r}] is {limit!r}; expected a positive number, the most that a row may cost.")
    if name != COST and not 0 < number < 1:
        raise ValueError(f"subject_to[{key!r}] is {limit!r}; expected a share between 0 and 1, such as 0.05.")
    return Constraint(name, number, sign == "<="), by_group


def _read_costs(costs: Any, needed: bool) -> tuple[float, float] | None:
    if costs is None and not needed:
        return None
    given: dict[str, float] = {}
    right = False
    if isinstance(costs, Mapping) and set(map(str, costs)) == {"fp", "fn"}:
        try:
            given = {str(key): float(value) for key, value in costs.items()}
        except (TypeError, ValueError):
            given = {"fp": np.nan, "fn": np.nan}
        right = all(np.isfinite(v) and v >= 0 for v in given.values()) and any(given.values())
    if not right:
        raise ValueError(
            f"costs is {costs!r}; expected what a false positive and a false negative cost, such as {{'fp': 1, 'fn': 10}}."
        )
    return given["fp"], given["fn"]
