"""The paper's way of choosing coefficients, as functions.

First the step size and the regularisation for the best optimality gap in training; then the tightening, to have the least
violation without giving up much of that gap, where the p%-rule holds in validation. G-OCO is tuned likewise and tries at
least as many settings.
"""

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from tightrope._sweep import sweep
from tightrope.lab.paper.fairness import (
    PAPER,
    Experiment,
    Optimum,
    coordinates,
    fairness,
    measure,
    paper_problem,
    with_measures,
)
from tightrope.lab.paper.figure import coefficients
from tightrope.learn.fairness.notions import FOUR_FIFTHS
from tightrope.methods import Method
from tightrope.tree import replace

SACRIFICE = 0.01
"""What "without significantly sacrificing the gap" means here: the objective rises by at most 1 % of the optimal
value; by hand."""

RULE = FOUR_FIFTHS
"""The p%-rule that has to hold in validation; the paper's."""

UPSILON0 = (0.0, 1.0, 2.0, 4.0, 8.0, 20.0, 40.0, 80.0)
"""Tightenings that are tried; by hand, from none to the paper's."""

CSOA_NAMES, GOCO_NAMES = ("eta0", "delta", "upsilon0"), ("v0", "alpha0")


@dataclasses.dataclass(frozen=True)
class TunedCoefficients:
    """Coefficients, and whether the p%-rule holds in validation with them.

    Attributes:
        coefficients: by name.
        keeps_rule: False when no setting within the allowed sacrifice keeps the rule; then these have the best p%.
        objective, violation, p: means over seeds of the first two, median of the last (in validation).
    """

    coefficients: dict[str, float]
    keeps_rule: bool
    objective: float
    violation: float
    p: float

    def __str__(self) -> str:
        named = ", ".join(f"{name} = {value:.3g}" for name, value in self.coefficients.items())
        kept = "keeps" if self.keeps_rule else "misses"
        worth = f"objective {self.objective:.4f}, violation {self.violation:.2g}"
        return f"{named}: {worth}, {kept} the rule with p = {self.p:.2f}"


def settings(table: pd.DataFrame, names: Sequence[str], optimum: Optimum) -> pd.DataFrame:
    """A row per setting: means over seeds of objective, violation and gap, and the median p%.

    The gap is F(x) - F* + multiplier * violation, with the multiplier of the batch optimum. By duality it is never
    negative, and zero only at an optimum; F(x) - F* alone would reward points that violate the constraint.
    """
    gap = table.objective - optimum.objective + optimum.multiplier * table.violation
    grouped = table.assign(gap=gap).groupby(list(names), sort=True)
    found = grouped.agg(
        objective=("objective", "mean"), violation=("violation", "mean"), gap=("gap", "mean"), p=("p", "median")
    )
    return found.reset_index()


def best_gap(table: pd.DataFrame, names: Sequence[str], optimum: Optimum) -> dict[str, float]:
    """The setting with the least gap."""
    found = settings(table, names, optimum)
    best = found.iloc[int(np.argmin(found.gap.to_numpy()))]
    return {name: float(best[name]) for name in names}


def least_violation(
    table: pd.DataFrame, names: Sequence[str], optimum: Optimum, start: dict[str, float]
) -> TunedCoefficients:
    """The setting with the least violation (then the least objective) among those whose objective is at most SACRIFICE
    times F* above that of `start`, and which keep the rule; where none keeps it, the one with the best p%.

    Example:
        >>> import numpy as np, pandas as pd
        >>> optimum = Optimum(np.zeros(1), 1.0, 0.05, 0.3)
        >>> rows = [(0.0, 1.0, 0.01, 0.7), (1.0, 1.005, 0.0, 0.82), (2.0, 1.2, 0.0, 0.9)]
        >>> table = pd.DataFrame(rows, columns=["upsilon0", "objective", "violation", "p"])
        >>> least_violation(table, ["upsilon0"], optimum, {"upsilon0": 0.0}).coefficients
        {'upsilon0': 1.0}
    """
    found = settings(table, names, optimum)
    here = np.logical_and.reduce([np.isclose(found[name], value) for name, value in start.items()])
    if not here.any():
        raise ValueError(f"least_violation: the start {start} is not in the table; expected one of its settings.")
    allowed = found[found.objective <= found.objective[here].min() + SACRIFICE * optimum.objective]
    kept = allowed[allowed.p >= RULE]
    if len(kept):
        best = kept.sort_values(["violation", "objective"], kind="stable").iloc[0]
    else:
        best = allowed.sort_values(["p", "objective"], ascending=[False, True], kind="stable").iloc[0]
    coefficients = {name: float(best[name]) for name in names}
    return TunedCoefficients(coefficients, bool(len(kept)), float(best.objective), float(best.violation), float(best.p))


def grid(around: float, points: int, below: int, factor: float) -> np.ndarray:
    """A geometric grid through a value, with `below` smaller ones.

    Example:
        >>> grid(0.01, points=3, below=1, factor=10.0).tolist()
        [0.001, 0.01, 0.1]
    """
    return np.array([float(f"{around * factor ** (k - below):.4g}") for k in range(points)])


def tuning_table(task: Experiment, steps: int, seeds: range, points: int) -> pd.DataFrame:
    """Every setting that the protocol looks at, a row per setting and seed: objective and violation of the average in
    training, accuracy and p% in validation."""
    csoa, goco = PAPER["CSOA"], PAPER["G-OCO"]
    around, half = coefficients(csoa) | coefficients(goco), np.sqrt(10.0)
    eta0, delta = grid(around["eta0"], points, 0, half), grid(around["delta"], points, 1, 10.0)
    first = _sweep(task, replace(csoa, eta0=eta0, delta=delta, upsilon0=0.0), steps, seeds)
    best = best_gap(first, ("eta0", "delta"), task.optimum)
    second = _sweep(task, replace(csoa, **best, upsilon0=np.array(UPSILON0[1:])), steps, seeds)
    # at least as many settings as CSOA has tried
    side = int(np.ceil(np.sqrt(len(eta0) * len(delta) + len(UPSILON0) - 1)))
    v0, alpha0 = grid(around["v0"], side, side // 3, half), grid(around["alpha0"], side, side - 2, half)
    rival = replace(goco, v0=v0, alpha0=alpha0)
    tables = {"CSOA": pd.concat([first, second]), "G-OCO": _sweep(task, rival, steps, seeds)}
    kept = ["seed", *CSOA_NAMES, *GOCO_NAMES, "objective", "violation", "accuracy", "p"]
    whole = [table.assign(method=name) for name, table in tables.items()]
    return pd.concat(whole, ignore_index=True).reindex(columns=["method", *kept])


def _sweep(task: Experiment, method: Method, steps: int, seeds: range) -> pd.DataFrame:
    problem, data = paper_problem(task.train, task.c)
    table = sweep(problem, data, method, steps=steps, seeds=seeds, track=coordinates, progress=False)

    def seen(x: np.ndarray) -> dict[str, float]:
        return measure(x, task) | fairness(x, task.validation)

    return with_measures(table, seen)


def tuned(table: pd.DataFrame, optimum: Optimum) -> dict[str, TunedCoefficients]:
    """What the protocol chooses from `tuning_table`, by method."""
    csoa, goco = table[table.method == "CSOA"], table[table.method == "G-OCO"]
    start = best_gap(csoa[csoa.upsilon0 == 0], ("eta0", "delta"), optimum)
    along = csoa[np.isclose(csoa.eta0, start["eta0"]) & np.isclose(csoa.delta, start["delta"])]
    return {
        "CSOA": least_violation(along, CSOA_NAMES, optimum, start | {"upsilon0": 0.0}),
        "G-OCO": least_violation(goco, GOCO_NAMES, optimum, best_gap(goco, GOCO_NAMES, optimum)),
    }


def as_methods(choices: Mapping[str, TunedCoefficients]) -> dict[str, Method]:
    """The chosen coefficients as methods."""
    return {name: replace(PAPER[name], **choice.coefficients) for name, choice in choices.items()}
