"""Figure 3 (a to d): FW-CSOA against SCGD on matrix completion, with the paper's coefficients and with tuned ones.

The paper does not say in which units its coefficients are (sums over entries, as the problem is printed, or means),
which point it draws, or which batches it tries. Runs are made in both units, and drawn in means, where FW-CSOA is
stable; FW-CSOA is shown at its average, which its theorem speaks of, and at its current iterate, SCGD at the latter.
"""

import dataclasses
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import pandas as pd

from tightrope.lab.paper.drawing import curve, label, legend_below, zero
from tightrope.lab.paper.fig3_claims import (
    batch_claims,
    comparison,
    early_claim,
    end,
    exactness,
    pair,
    place_claims,
    reasons,
    tuning_claim,
)
from tightrope.lab.paper.figure import Figure, FigureReport, Size, by_seeds
from tightrope.lab.paper.matrices import BATCH, Amount, Case, SeparateTrackers, amount, follow, paper_cases, runs
from tightrope.lab.paper.matrix_tuning import (
    TUNING_SEED,
    attempt,
    best_cases,
    choices,
    choose,
    rivals,
    slug,
    tune,
    tuned_case,
)
from tightrope.lab.paper.tuning import grid
from tightrope.lab.work import Tables, Unit
from tightrope.methods import CFWCSOA, FWCSOA
from tightrope.plotting import new_figure
from tightrope.tree import replace

LINES = [("#0072B2", "-"), ("#56B4E9", "-"), ("#009E73", "-"), ("#CC79A7", "-"), ("#E69F00", "-"), ("#999999", "-")]
SHADES = (("#9ecae1", "#4292c6", "#08519c"), ("#fdae6b", "#f16913", "#a63603"))
"""Of FW-CSOA and of SCGD, for b from small to large."""

PLACES = {"half beta": {"beta": 0.5}, "double alpha": {"alpha": 2.0}}
"""Where else to compare: the constraint binds; the set is larger than the solution needs."""


# ---- units -----------------------------------------------------------------------------------------------------------


class Part(NamedTuple):
    """Runs of some cases from some seeds, which become a unit for each group of seeds.

    Attributes:
        name: the start of the units' names.
        seeds: how many.
        cases: given the tables so far; without them where nothing is `tuned`.
        tuned: whether the cases depend on what tuning chose.
        ends: whether only the ends of the runs are kept.
    """

    name: str
    seeds: int
    cases: Callable[[Tables], list[Case]]
    tuned: bool = False
    ends: bool = False

    def units(self, work: Amount, tuning: dict[str, Any]) -> list[Unit]:
        """A unit for each group of seeds; its settings say what the runs depend on."""
        described = {"after": tuning} if self.tuned else {"cases": [case.settings() for case in self.cases({})]}
        settings = work.settings() | described | {"part": self.name}
        return by_seeds(self.name, settings, self.seeds, partial(self.run, work))

    def run(self, work: Amount, seeds: range, done: Tables) -> pd.DataFrame:
        """The table of a unit."""
        return runs(self.cases(done), seeds, work, self.ends)


def units(size: Size) -> list[Unit]:
    """Why the paper's coefficients fail; runs with them; the tuning and runs with its choice; other places; the cost."""
    work = amount(size)
    steps, few = work.steps, min(3, work.few)
    seeds = list(range(TUNING_SEED, TUNING_SEED + work.tuning_seeds))
    tuning = {"seeds": seeds, "points": work.points, "grids": [r.settings() for r in rivals(steps).values()]}
    printed, on = partial(paper_cases, steps), work.settings()
    others = [b for b in work.batches if b != BATCH]
    first = [
        *(Part(f"why-{unit}", few, lambda _, u=unit: why_cases(work, u), ends=True) for unit in ("sum", "mean")),
        Part("paper", work.seeds, lambda _: [*printed("mean"), *printed("sum")]),
        *(Part(f"paper-b{batch}", work.seeds, lambda _, b=batch: printed("mean", b)) for batch in others),
    ]
    then = [
        Part("tuned", work.seeds, partial(tuned_cases, steps), tuned=True),
        *(Part(f"tuned-b{b}", work.seeds, partial(best_cases, steps=steps, batch=b), tuned=True) for b in others),
    ]
    found = [unit for part in first for unit in part.units(work, tuning)]
    for name, rival in rivals(steps).items():
        settings = on | tuning | {"grids": rival.settings()}
        found.append(Unit(slug("tuning", name), settings, partial(tune, rival, work, seeds)))
    found += [unit for part in then for unit in part.units(work, tuning)]
    for name in PLACES:
        found.append(Unit(slug("retuning", name), on | tuning | PLACES[name], partial(retune, name, work, seeds)))
        for kind in ("paper", "tuned", "retuned"):
            cases = partial(place_cases, name, kind, steps)
            found += Part(slug(name, kind), work.few, cases, tuned=True, ends=True).units(work, tuning)
    settings = on | {"after": tuning, "seeds": list(range(few))}
    return [*found, Unit("cost", settings, partial(cost, work, range(few)))]


def tuned_cases(steps: int, done: Tables) -> list[Case]:
    """Every rival with what tuning chose for it."""
    return [tuned_case(best, steps) for name, best in choices(done, steps).items() if name == best.name]


def retune(place: str, work: Amount, seeds: Sequence[int], done: Tables) -> pd.DataFrame:
    """Four values of one more coefficient for each method: its third one, where the constraint binds, else its step."""
    found, tables = choices(done, work.steps), []
    for name in ("FW-CSOA", "SCGD"):
        choice, rival = found[name], rivals(work.steps)[found[name].name]
        axis = rival.extra[0] if place == "half beta" else rival.step[0]
        values = (0.0, *rival.extra[1]) if place == "half beta" else grid(choice.settings[axis], 4, 3, 2.0)
        settings = [choice.settings | {axis: float(value)} for value in values]
        tables.append(attempt(rival, settings, work, seeds, **PLACES[place]).assign(rival=rival.name, name=name))
    return pd.concat(tables, ignore_index=True)


def place_cases(place: str, kind: str, steps: int, done: Tables) -> list[Case]:
    """Both methods somewhere else: with the paper's coefficients, with those tuned on its instance, or tuned there."""
    if kind == "paper":
        return [dataclasses.replace(case, **PLACES[place]) for case in paper_cases(steps, "mean")]
    if kind == "tuned":
        return best_cases(done, steps, **PLACES[place])
    table, found = done[slug("retuning", place)], []
    for name, part in table.groupby("name"):
        choice = choose(part, rivals(steps)[part.rival.iloc[0]])
        found.append(tuned_case(choice, steps, name=str(name), **PLACES[place]))
    return found


def why_cases(work: Amount, unit: Any) -> list[Case]:
    """FW-CSOA with the paper's coefficients, and with one thing changed at a time."""
    printed = paper_cases(work.steps, unit)[0]
    method = printed.method
    assert isinstance(method, FWCSOA)
    known = {name: getattr(method, name) for name in ("eta0", "rho0", "delta", "upsilon0")}
    made = {
        "as printed": {},
        "exact constraint": {"exact": ("constraints",)},
        "separate trackers": {"method": SeparateTrackers(schedule="paper", **known)},
        "relative units": {"units": "relative"},
        f"b = {work.batches[-1]:,}": {"batch": work.batches[-1]},
        "exact objective": {"exact": ("objective",)},
        "both exact": {"exact": ("objective", "constraints")},
        "a third of the step": {"method": replace(method, eta0=0.68 / 3)},
    }
    # these are programs of their own, whose compiling takes seconds
    dear = () if work.points > 2 else ("separate trackers", "both exact")
    return [dataclasses.replace(printed, name=name, **change) for name, change in made.items() if name not in dear]


def cost(work: Amount, seeds: Sequence[int], done: Tables) -> pd.DataFrame:
    """The best sampled methods and Frank-Wolfe on all entries, one run at a time, compiled before, for the clock."""
    cases = [*best_cases(done, work.steps), Case("CFW-CSOA", CFWCSOA())]
    return pd.concat([follow(case, seed, work, warm=True) for case in cases for seed in seeds], ignore_index=True)


# ---- pictures --------------------------------------------------------------------------------------------------------


def draw_runs(shown: pd.DataFrame, batches: pd.DataFrame, title: str):
    """Error and constraint against iterations at the paper's b, a line per method and point, and against samples."""
    figure, axes = new_figure(columns=2, rows=2, size=(5.4, 3.5))
    lines = iter(LINES)
    for (name, point), part in shown[shown.batch == BATCH].groupby(["name", "point"]):
        if name == "SCGD" and point == "average":
            continue
        colour, style = ("#D55E00", (0, (1, 1.2))) if name == "SCGD" else next(lines)
        words = f"{name}, {'current iterate' if point == 'last' else 'average'}"
        for axis, column in zip(axes[0], ("error", "excess"), strict=True):
            curve(axis, part, "step", column, color=colour, linestyle=style, linewidth=1.6, label=words)
    sizes = sorted(set(batches.batch))
    point = pair(end(batches[batches.batch == BATCH]))[2]
    for colours, (name, where) in zip(SHADES, (("FW-CSOA", point), ("SCGD", "last")), strict=True):
        for colour, b in zip(colours[-len(sizes) :], sizes, strict=True):
            part = batches[(batches.name == name) & (batches.point == where) & (batches.batch == b)]
            for axis, column in zip(axes[1], ("error", "excess"), strict=True):
                curve(axis, part, "samples", column, color=colour, linewidth=1.6, label=f"{name} ({where}), b = {b}")
    for row, x, letters in zip(
        axes, ("iteration", "observed entries drawn, step $\\times$ b"), ("ab", "cd"), strict=True
    ):
        row[0].set_yscale("log")
        zero(row[1])
        label(row[0], f"({letters[0]}) normalised error", x, "error on the observed entries")
        label(row[1], f"({letters[1]}) constraint; above 0: violated", x, "unobserved energy/$\\beta$ $-$ 1")
        row[0].legend(frameon=False, fontsize=7)
    for axis in axes[1]:
        axis.set_xscale("log")
    figure.suptitle(title, fontsize=8.5)
    return figure


def draw_cost(table: pd.DataFrame):
    """The error against linear minimisations, entry evaluations and seconds."""
    figure, axes = new_figure(columns=3, size=(4.6, 3.6))
    colours = {"CFW-CSOA": "#009E73", "FW-CSOA": "#0072B2", "SCGD": "#D55E00"}
    panels = {"step": "linear minimisations", "entries": "entry evaluations", "seconds": "seconds, compiling aside"}
    for axis, (column, words) in zip(axes.flat, panels.items(), strict=True):
        for (name, seed), part in table[table.point == "last"].groupby(["name", "seed"]):
            said = str(name) if seed == table.seed.min() else None
            axis.plot(part[column], part.error, color=colours[str(name)], linewidth=1.4, label=said)
        axis.set_xscale("log")
        axis.set_yscale("log")
        label(axis, "a line per seed", words, "normalised error, current iterate")
    legend_below(figure, axes[0, 0], columns=3)
    return figure


# ---- report ----------------------------------------------------------------------------------------------------------


def gather(tables: Tables, *starts: str) -> pd.DataFrame:
    """The tables of all units whose names begin so, and in the column "part" the names without their seeds."""
    parts = {name: table for name, table in tables.items() if name.startswith(starts)}
    return pd.concat([t.assign(part=name.split("-seeds")[0]) for name, t in parts.items()], ignore_index=True)


def followed(tables: Tables) -> pd.DataFrame:
    """The runs on the paper's instance, along their way; the column "variant" is "paper" or "tuned"."""
    curves = gather(tables, "paper", "tuned").drop(columns="seconds")
    variant = curves.part.str.split("-").str[0]
    return curves.assign(variant=variant, samples=curves.step * curves.batch, objective=curves.error)


def elsewhere(tables: Tables) -> pd.DataFrame:
    """The ends of the runs at other places, and whose coefficients they have."""
    ends = gather(tables, *map(slug, PLACES))
    split = ends.part.str.rsplit("-", n=1)
    return ends.assign(kind=split.str[-1], place=split.str[0].str.replace("-", " "))


def report(tables: Tables, size: Size) -> FigureReport:
    """Curves against iterations and samples, the cost of exactness, and the claims."""
    steps = amount(size).steps
    found = choices(tables, steps)
    curves, places, why, exact = followed(tables), elsewhere(tables), gather(tables, "why"), tables["cost"]
    printed, tuned = curves[curves.variant == "paper"], curves[curves.variant == "tuned"]
    best = tuned.assign(name=tuned.name.replace(found["FW-CSOA"].name, "FW-CSOA"))
    means, in_means = printed[printed.units == "mean"], "the paper's coefficients, units of means"
    claims = [
        *comparison(means, in_means),
        *comparison(printed[printed.units == "sum"], "the paper's coefficients, units of sums"),
        *comparison(best, "tuned coefficients"),
        tuning_claim(found["FW-CSOA paper"]),
        *batch_claims(means, in_means),
        *batch_claims(best, "tuned coefficients"),
        early_claim(means, in_means),
        early_claim(best, "tuned coefficients"),
        *place_claims(places),
        *reasons(why),
        exactness(exact),
    ]
    named = "; ".join(str(found[name]) for name in ("FW-CSOA", "SCGD"))
    pictures = {
        "fig3": draw_runs(means, means, "the paper's coefficients, f and h as means over entries"),
        "fig3-tuned": draw_runs(tuned[tuned.point == "last"], best, f"tuned: {named}"),
        "fig3-cost": draw_cost(exact),
    }
    tuning = pd.concat([tables[slug("tuning", name)] for name in rivals(steps)], ignore_index=True)
    written = {"fig3": curves, "fig3-tuning": tuning, "fig3-places": places, "fig3-why": why, "fig3-cost": exact}
    return FigureReport(written, pictures, claims)


FIGURE = Figure("FW-CSOA against SCGD on structured matrix completion: normalised error and violation", units, report)
