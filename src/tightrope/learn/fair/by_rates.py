"""What a classifier is asked to keep by rates, which paths are walked for it, and the report of where a walk ended."""

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from tightrope.learn.fair.paths import PATHS
from tightrope.learn.fair.rate_rule import RateRule
from tightrope.learn.fair.rates import MEANS
from tightrope.learn.loss import LOSS
from tightrope.names import visible
from tightrope.pages.elements import fragment, write_page

if TYPE_CHECKING:
    from tightrope.learn.fair.classifier import FairLogisticRegression

CONSTRAINTS: dict[str, tuple[str, ...]] = {
    "auto": ("sharp", "logistic", "covariance"),
    "rates": ("sharp",),
    "covariance": ("covariance",),
}
"""The paths that are walked for a constraint. A p%-rule by the covariance has one of its own (`by_covariance.py`)."""


@dataclasses.dataclass(frozen=True, eq=False)
class RatesRun:
    """Where a walk ended.

    Attributes:
        path, threshold: which point of which path: the ratio (or the difference) that smoothed rates were trained to.
        objective: the smoothed loss on the rows trained on.
        constraints: what should be at most 0 there, by name: for each ordered pair of groups, of rates, and for the floors;
            on the path "covariance", of mean scores.
        dual: the multipliers of these constraints.
        settled: whether the last steps were small; a stationary point was found, which need not be the best one.
        frontier: all points that were judged.
        coef, intercept: the score, for features as given.
        sentence: what was asked, what was found, on which rows.
        beside: what else could be had: columns accuracy, p_rule (or difference) and selected, rows "without the rule",
            "nobody selected" (or "everybody selected", whichever is right more often), "50% confidence", "80% confidence"
            and "95% confidence", all by the rows that judged. NaN where nothing can be had.
    """

    path: str
    threshold: float
    objective: float
    constraints: pd.Series
    dual: np.ndarray
    settled: bool
    frontier: pd.DataFrame
    coef: np.ndarray
    intercept: float
    sentence: str
    beside: pd.DataFrame

    @property
    def price(self) -> str:
        """What the rule costs at some confidences, in a sentence."""
        plain, constant, *others = self.beside["accuracy"].map(
            lambda share: f"{share:.4f}" if share >= 0 else "nothing"
        )
        sure = [name.split()[0] for name in self.beside.index[2:]]
        at = ", ".join(f"{share} with {name}" for share, name in zip(others, sure, strict=True))
        column = self.beside.columns[1]
        return (
            f"Accuracy is {plain} without the rule ({column} {self.beside[column].iloc[0]:.3f}), {constant} with "
            f"{self.beside.index[1]}; with the rule it is {at} confidence."
        )

    def __str__(self) -> str:
        width, convex = max(map(len, self.constraints.index)), PATHS[self.path] is MEANS
        lines = [
            self.sentence,
            self.price,
            f"  objective    {self.objective:.6g}, {LOSS.name if convex else 'smoothed; a stationary point'}",
        ]
        lines += [] if self.settled else ["  note         the last steps were not small yet"]
        lines += [f"  {'constraint':<{width}}  {'value':>12}  {'multiplier':>12}"]
        for name, value, multiplier in zip(self.constraints.index, self.constraints, self.dual, strict=True):
            lines += [f"  {name:<{width}}  {value:>12.6g}  {multiplier:>12.6g}"]
        return visible("\n".join(lines))

    __repr__ = __str__

    def report(self, path: str | Path) -> Path:
        """Write the run as a page: one HTML file that opens without a network; gives its path."""
        from tightrope.learn.fair.page import rates_page

        return write_page(path, rates_page(self))

    def _repr_html_(self) -> str:
        from tightrope.learn.fair.page import rates_parts

        return fragment(*rates_parts(self))


def asked_of(model: "FairLogisticRegression") -> RateRule | None:
    """What a classifier is to keep by rates; None where it has no such rule, or keeps it by its covariance."""
    if model.difference is not None:
        return RateRule("difference", float(model.difference), _interval(model))
    by_covariance = model.constraint == "covariance" or model.search == "batch" or model.method != "auto"
    asked = model.p_rule is not None and not by_covariance
    return RateRule("ratio", 1 - float(model.p_rule or 0), _interval(model)) if asked else None


def _interval(model: "FairLogisticRegression") -> tuple[float, float] | None:
    """Between which shares the share selected is to lie."""
    return None if model.selected is None else (float(model.selected[0]), float(model.selected[1]))


def check_constraint(model: "FairLogisticRegression") -> None:
    """Refuse a constraint that does not go with what else was asked."""
    if model.constraint == "rates" and asked_of(model) is None and (model.p_rule or model.covariance):
        raise ValueError(
            f"constraint='rates' was given with covariance={model.covariance!r}, search={model.search!r} and "
            f"method={model.method!r}; rates are kept by p_rule or difference, with the other two as they are by default."
        )
    if model.selected is not None and asked_of(model) is None:
        raise ValueError(
            f"selected={model.selected!r} was given without a rule that is kept by rates; it goes with p_rule or difference "
            "and constraint='auto' or 'rates'."
        )
