"""The tuning of FW-CSOA and SCGD on matrix completion: equally many settings of each, judged when made feasible."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from tightrope.lab.methods.frank_wolfe.scgd import SCGD
from tightrope.lab.paper.matrices import Amount, Case, runs
from tightrope.lab.paper.tuning import grid
from tightrope.lab.work import Tables
from tightrope.methods import FWCSOA, Method
from tightrope.methods.conservative.fwcsoa import Schedule
from tightrope.tree import replace

TUNING_SEED = 1_000
"""The first seed of the instances that are tuned on; others than those that are shown; by hand."""


def slug(*words: Any) -> str:
    """A name for a part's file.

    Example:
        >>> slug("tuning", "FW-CSOA sqrt")
        'tuning-fw-csoa-sqrt'
    """
    return "-".join(str(word).replace(" ", "-") for word in words).lower()


@dataclasses.dataclass(frozen=True)
class Rival:
    """A method to tune: two coefficients on a grid, then a third one, always with the same number of settings.

    Attributes:
        name: what to call it.
        method: the method with its first settings.
        step, forgetting: the two coefficients, each with a value that its grid goes through.
        extra: a coefficient of the method, or "tau" for SCGD's penalty, and the values tried after 0.
    """

    name: str
    method: Method
    step: tuple[str, float]
    forgetting: tuple[str, float]
    extra: tuple[str, tuple[float, ...]]

    def case(self, **settings: Any) -> Case:
        """A run in relative units, with these coefficients."""
        tau = settings.pop("tau", 0.0)
        return Case(self.name, replace(self.method, **settings), "relative", tau=tau)

    def settings(self) -> dict[str, Any]:
        """What a tuning table depends on, in values that JSON can hold."""
        return self.case().settings() | {
            "grid": [list(self.step), list(self.forgetting), self.extra[0], *self.extra[1]]
        }


def rivals(steps: int) -> dict[str, Rival]:
    """FW-CSOA's three schedules, and SCGD. The grids were placed by a first look at the instances that are tuned on.

    FW-CSOA's step is constant, so that its sum over the run has to be about the same for every horizon and schedule.
    """
    forgetting, eta = ("rho0", 1.25), 1.65 / steps
    made: list[tuple[Schedule, float, tuple[float, ...]]] = [
        ("paper", eta * steps**0.75, (0.1, 0.2, 0.5)),
        ("two_scale", eta * steps**0.5, (0.1, 0.2, 0.5)),
        ("sqrt", eta * steps**0.5, (0.5, 1.0, 2.0)),
    ]
    found = [
        Rival(f"FW-CSOA {name}", FWCSOA(schedule=name, upsilon0=0.0), ("eta0", eta0), forgetting, ("upsilon0", extra))
        for name, eta0, extra in made
    ]
    found.append(Rival("SCGD", SCGD(), ("gamma0", 1.0), ("rho0", 2.0), ("tau", (0.005, 0.02, 0.05))))
    return {rival.name: rival for rival in found}


def tune(rival: Rival, work: Amount, seeds: Sequence[int], _: Tables) -> pd.DataFrame:
    """The grid without the third coefficient, then that one at the best setting; the ends of all runs."""
    step, forgetting = (rival.step[0], grid(rival.step[1], work.points, 1, 2.0)), rival.forgetting[0]
    rates = grid(rival.forgetting[1], work.points, min(2, work.points - 1), 2.0)
    first = attempt(rival, [{step[0]: a, forgetting: b} for a in step[1] for b in rates], work, seeds)
    best = choose(first, rival)
    kept = {name: value for name, value in best.settings.items() if name != rival.extra[0]}
    second = attempt(rival, [kept | {rival.extra[0]: value} for value in rival.extra[1]], work, seeds)
    return pd.concat([first, second], ignore_index=True)


def attempt(
    rival: Rival, settings: list[dict[str, float]], work: Amount, seeds: Sequence[int], **place: float
) -> pd.DataFrame:
    """The ends of runs with each of these settings, from each seed."""
    cases = [dataclasses.replace(rival.case(**one), name=str(i), **place) for i, one in enumerate(settings)]
    table = runs(cases, seeds, work, ends=True)
    known = pd.DataFrame([{rival.extra[0]: 0.0, **settings[int(i)]} for i in table.name], index=table.index)
    return pd.concat([table.assign(name=rival.name), known], axis=1)


@dataclasses.dataclass(frozen=True)
class TunedRival:
    """What tuning chose for a rival: coefficients, the better of its points, and the error there when made feasible."""

    name: str
    settings: dict[str, float]
    point: str
    pulled: float

    def __str__(self) -> str:
        named = ", ".join(f"{key} = {value:.3g}" for key, value in self.settings.items())
        return f"{self.name}: {named} ({self.point} iterate{'s' if self.point == 'average' else ''}, {self.pulled:.3g})"


def choose(table: pd.DataFrame, rival: Rival) -> TunedRival:
    """The setting and point with the least mean error, where points that violate the constraint are scaled first.

    SCGD has one point, its last iterate.
    """
    names = [rival.step[0], rival.forgetting[0], rival.extra[0]]
    table = table[table.point == "last"] if rival.method.facts.output == "last" else table
    mean = table.groupby([*names, "point"]).pulled.mean()
    *values, point = mean.index[int(np.argmin(mean.to_numpy()))]
    return TunedRival(rival.name, dict(zip(names, map(float, values), strict=True)), str(point), float(mean.min()))


def choices(tables: Tables, steps: int) -> dict[str, TunedRival]:
    """What tuning chose for every rival, by name; and as "FW-CSOA", for the best of its schedules."""
    found = {name: choose(tables[slug("tuning", name)], rival) for name, rival in rivals(steps).items()}
    best = min((c for c in found.values() if c.name != "SCGD"), key=lambda choice: choice.pulled)
    return found | {"FW-CSOA": best}


def tuned_case(choice: TunedRival, steps: int, **changes: Any) -> Case:
    """A run with the coefficients that tuning chose."""
    return dataclasses.replace(rivals(steps)[choice.name].case(**choice.settings), **changes)


def best_cases(tables: Tables, steps: int, **changes: Any) -> list[Case]:
    """Runs of SCGD and of FW-CSOA in its best schedule, with the coefficients that tuning chose."""
    found = choices(tables, steps)
    return [tuned_case(found[name], steps, name=name, **changes) for name in ("FW-CSOA", "SCGD")]
