"""Figure 3 (a to d): FW-CSOA against SCGD on matrix completion, with the paper's coefficients and with tuned ones.

The paper does not say in which units its coefficients are (sums over entries, as the problem is printed, or means),
which point it draws, or which batches it tries. Runs are made in both units, and drawn in means, where FW-CSOA is
stable; FW-CSOA is shown at its average, which its theorem speaks of, and at its current iterate, SCGD at the latter.
"""

import dataclasses
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from tightrope.experiments.claims import Claim, at_most, band, decide, trend, worst
from tightrope.experiments.paper.drawing import curve, label, legend_below, zero
from tightrope.experiments.paper.fairness import groups
from tightrope.experiments.paper.fig1 import ALMOST_ZERO
from tightrope.experiments.paper.matrices import (
    BATCH,
    TUNING_SEED,
    Amount,
    Case,
    Choice,
    SeparateTrackers,
    amount,
    attempt,
    best_cases,
    choices,
    choose,
    follow,
    paper_cases,
    rivals,
    runs,
    slug,
    tune,
    tuned_case,
)
from tightrope.experiments.paper.tuning import grid
from tightrope.experiments.work import Figure, Report, Size, Tables, Unit
from tightrope.methods import CFWCSOA, FWCSOA
from tightrope.plotting import new_figure
from tightrope.tree import replace

MUCH = 0.5
"""An error counts as much smaller up to this ratio."""

LOOKS = [("#0072B2", "-"), ("#56B4E9", "-"), ("#009E73", "-"), ("#CC79A7", "-"), ("#E69F00", "-"), ("#999999", "-")]
SHADES = (
    ("#9ecae1", "#4292c6", "#08519c"),
    ("#fdae6b", "#f16913", "#a63603"),
)  # FW-CSOA and SCGD, b from small to large

PLACES = {"half beta": {"beta": 0.5}, "double alpha": {"alpha": 2.0}}
"""Where else to compare: the constraint binds; the set is larger than the solution needs."""


# ---- units -----------------------------------------------------------------------------------------------------------


def units(size: Size) -> list[Unit]:
    """Why the paper's coefficients fail; runs with them; the tuning and runs with its choice; other places; the cost."""
    work = amount(size)
    seeds = list(range(TUNING_SEED, TUNING_SEED + work.tuning_seeds))
    on, found = work.settings(), []
    tuning = {"seeds": seeds, "points": work.points, "grids": [r.settings() for r in rivals(work.steps).values()]}

    def add(name: str, count: int, cases: Callable[[Tables], list[Case]], after: bool, ends: bool = False) -> None:
        described = {"after": tuning} if after else {"cases": [case.settings() for case in cases({})]}
        for part in groups(count):
            settings = on | described | {"part": name, "seeds": list(part)}
            found.append(Unit(f"{name}-seeds{part[0]}-{part[-1]}", settings, partial(_run, cases, part, work, ends)))

    printed, why = partial(paper_cases, work.steps), min(3, work.few)
    others = [b for b in work.batches if b != BATCH]
    for unit in ("sum", "mean"):
        add(f"why-{unit}", why, lambda _, u=unit: why_cases(work, u), after=False, ends=True)
    add("paper", work.seeds, lambda _: [*printed("mean"), *printed("sum")], after=False)
    for batch in others:
        add(f"paper-b{batch}", work.seeds, lambda _, b=batch: printed("mean", b), after=False)
    for name, rival in rivals(work.steps).items():
        settings = on | tuning | {"grids": rival.settings()}
        found.append(Unit(slug("tuning", name), settings, partial(tune, rival, work, seeds)))
    add("tuned", work.seeds, lambda t: [tuned_case(c, work.steps) for c in _each(t, work.steps)], after=True)
    for batch in others:
        add(f"tuned-b{batch}", work.seeds, lambda t, b=batch: best_cases(t, work.steps, batch=b), after=True)
    for name in PLACES:
        found.append(Unit(slug("retuning", name), on | tuning | PLACES[name], partial(retune, name, work, seeds)))
        for kind in ("paper", "tuned", "retuned"):
            add(slug(name, kind), work.few, partial(place_cases, name, kind, work.steps), after=True, ends=True)
    settings = on | {"after": tuning, "seeds": list(range(why))}
    found.append(Unit("cost", settings, partial(cost, work, range(why))))
    return found


def _run(cases: Callable[[Tables], list[Case]], seeds: range, work: Amount, ends: bool, done: Tables) -> pd.DataFrame:
    return runs(cases(done), seeds, work, ends)


def _each(tables: Tables, steps: int) -> list[Choice]:
    return [choice for name, choice in choices(tables, steps).items() if name == choice.name]


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
    dear = (
        () if work.points > 2 else ("separate trackers", "both exact")
    )  # programs of their own; compiling takes seconds
    return [dataclasses.replace(printed, name=name, **change) for name, change in made.items() if name not in dear]


def cost(work: Amount, seeds: Sequence[int], done: Tables) -> pd.DataFrame:
    """The best sampled methods and Frank-Wolfe on all entries, one run at a time, compiled before, for the clock."""
    cases = [*best_cases(done, work.steps), Case("CFW-CSOA", CFWCSOA())]
    return pd.concat([follow(case, seed, work, warm=True) for case in cases for seed in seeds], ignore_index=True)


# ---- claims ----------------------------------------------------------------------------------------------------------


def end(table: pd.DataFrame) -> pd.DataFrame:
    """The ends of the runs."""
    return table[table.step == table.step.max()]


def pair(ends: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame, str]:
    """The ends of FW-CSOA at the better of its two points, those of SCGD at its last iterate, by seed; the point."""
    fw = ends[ends.name == "FW-CSOA"]
    point = str(fw.groupby("point").pulled.median().idxmin())
    scgd = ends[(ends.name == "SCGD") & (ends.point == "last")]
    return fw[fw.point == point].set_index("seed"), scgd.set_index("seed"), point


def comparison(table: pd.DataFrame, words: str) -> list[Claim]:
    """FW-CSOA against SCGD at the paper's batch; runs with the same seed have the same instance."""
    ends = end(table[table.batch == BATCH])
    fw, scgd, point = pair(ends)
    ratio, less = band(fw.error / scgd.error), band(scgd.excess.clip(lower=0) - fw.excess.clip(lower=0))
    other = ends[(ends.name == "FW-CSOA") & (ends.point != point)].error
    path = table[(table.batch == BATCH) & (table.name == "FW-CSOA")].groupby("seed").excess.max()
    return [
        Claim(
            f"FW-CSOA reaches a much smaller normalised error than SCGD ({words}).",
            decide(ratio.high <= MUCH, ratio.middle < 1),
            f"FW-CSOA {band(fw.error)} ({point}; {band(other)} at its other point), SCGD {band(scgd.error)}, ratio "
            f"{ratio}; up to {MUCH:g} counts as much smaller",
        ),
        Claim(
            f"FW-CSOA's constraint violation is almost zero ({words}).",
            at_most(fw.excess.clip(lower=0), ALMOST_ZERO, ALMOST_ZERO),
            f"energy/beta - 1 is {band(fw.excess)} at the end and at most {band(path)} on the way, at both points; up "
            f"to {ALMOST_ZERO:.0%} counts as almost zero",
        ),
        Claim(
            f"FW-CSOA violates the constraint less than SCGD ({words}).",
            decide(less.low > 0, less.middle > 0),
            f"violation of SCGD minus that of FW-CSOA {less}; energy/beta - 1 of SCGD {band(scgd.excess)}",
        ),
    ]


def early_claim(table: pd.DataFrame, words: str) -> Claim:
    """Whether FW-CSOA is ahead at a quarter of the run, before its longer step has met its noise."""
    last = table[(table.batch == BATCH) & (table.point == "last")]
    steps = last.step.unique()
    here = steps[np.argmin(np.abs(steps - last.step.max() / 4))]
    errors = last[last.step == here].pivot(index="seed", columns="name", values="error")
    ratio = band(errors["FW-CSOA"] / errors["SCGD"])
    return Claim(
        f"A quarter of the way FW-CSOA's current iterate is ahead of SCGD's ({words}).",
        decide(ratio.high < 1, ratio.middle < 1),
        f"at step {here:,}: FW-CSOA {band(errors['FW-CSOA'])}, SCGD {band(errors['SCGD'])}, ratio {ratio}",
        "analysis",
    )


def tuning_claim(choice: Choice) -> Claim:
    """Whether our tuning leads to the paper's step and forgetting."""
    same = [np.isclose(choice.settings[key], value, rtol=0.5) for key, value in (("eta0", 0.68), ("rho0", 1.25))]
    return Claim(
        "Tuning FW-CSOA in the paper's schedule leads to eta0 = 0.68 and rho0 = 1.25.",
        decide(all(same), any(same)),
        f"the least error is found at {choice}; within half counts as the same",
    )


def batch_claims(table: pd.DataFrame, words: str) -> list[Claim]:
    """More samples a step help both; FW-CSOA is ahead at every b."""
    ends = end(table)
    point = pair(ends[ends.batch == BATCH])[2]
    verdicts, said, ahead = [], [], []
    for name, where in (("FW-CSOA", point), ("SCGD", "last")):
        errors = ends[(ends.name == name) & (ends.point == where)].pivot(index="seed", columns="batch", values="error")
        verdict, correlation = trend(errors.columns, errors, sign=-1)
        verdicts.append(verdict)
        listed = ", ".join(f"b = {b}: {band(errors[b])}" for b in errors)
        said.append(f"{name} ({where}) {listed}, rank correlation {correlation}")
        ahead.append(errors)
    ratio = {b: band(ahead[0][b] / ahead[1][b]) for b in ahead[0]}
    fw = ends[(ends.name == "FW-CSOA") & (ends.point == point)]
    return [
        Claim(f"More samples a step lower the error of both methods ({words}).", worst(verdicts), "; ".join(said)),
        Claim(
            f"FW-CSOA has the smaller error at every b, after as many samples ({words}).",
            decide(all(r.high < 1 for r in ratio.values()), any(r.middle < 1 for r in ratio.values())),
            "error of FW-CSOA over that of SCGD: " + ", ".join(f"b = {b}: {r}" for b, r in ratio.items()),
        ),
        Claim(
            f"FW-CSOA's violation is negligible at every b ({words}).",
            worst(at_most(v.clip(lower=0), ALMOST_ZERO, ALMOST_ZERO) for _, v in fw.groupby("batch").excess),
            "energy/beta - 1: " + ", ".join(f"b = {b}: {band(v)}" for b, v in fw.groupby("batch").excess),
        ),
    ]


def place_claims(table: pd.DataFrame) -> list[Claim]:
    """Whether FW-CSOA is ahead elsewhere; points that violate the constraint are scaled towards 0 until it holds."""
    whose = {"paper": "the paper's coefficients", "tuned": "tuned on the paper's instance", "retuned": "tuned there"}
    found = []
    for (place, kind), part in table.groupby(["place", "kind"], sort=False):
        fw, scgd, point = pair(end(part))
        ratio = band(fw.pulled / scgd.pulled)
        found.append(
            Claim(
                f"With {place}, FW-CSOA's error is smaller than SCGD's among feasible points ({whose[str(kind)]}).",
                decide(ratio.high < 1, ratio.middle < 1),
                f"error when made feasible: FW-CSOA {band(fw.pulled)} ({point}), SCGD {band(scgd.pulled)}, ratio "
                f"{ratio}; energy/beta - 1: FW-CSOA {band(fw.excess)}, SCGD {band(scgd.excess)}",
                "analysis",
            )
        )
    return found


def reasons(table: pd.DataFrame) -> list[Claim]:
    """Why the paper's coefficients do not work: one thing changed at a time, judged by the current iterate."""
    last = end(table[table.point == "last"])
    made = [
        ("sum", "exact constraint", "the samples of the constraint spoil FW-CSOA, through the multiplier: exact ones"),
        ("sum", "separate trackers", "it is their product with the multiplier's jumps in one tracker: two trackers"),
        ("mean", "exact objective", "the samples of the objective spoil FW-CSOA, at this length of step: exact ones"),
    ]
    found = []
    for unit, change, sentence in made:
        errors = last[last.part == f"why-{unit}"].pivot(index="seed", columns="name", values="error")
        if change not in errors:  # a quick look leaves it out
            continue
        gain = band(errors["as printed"] / errors[change])
        listed = ", ".join(f"{name} {band(errors[name])}" for name in errors.median().sort_values().index)
        found.append(
            Claim(
                f"In units of {unit}s, {sentence} at least halve the error.",
                decide(gain.low >= 2, gain.middle > 1.25),
                f"by a factor of {gain}; error of the last iterate: {listed}",
                "analysis",
            )
        )
    return found


def exactness(table: pd.DataFrame) -> Claim:
    """What exact residuals cost and save: until the best error that a sampled method ends with."""
    runs = table[table.point == "last"]
    ratios: dict[str, list[float]] = {"LMO calls": [], "seconds": [], "entries": []}
    for _, part in runs.groupby("seed"):
        ends = end(part[part.name != "CFW-CSOA"])
        best = ends.iloc[int(np.argmin(ends.error.to_numpy()))]
        exact = part[(part.name == "CFW-CSOA") & (part.error <= best.error)]
        for name, column in (("LMO calls", "step"), ("seconds", "seconds"), ("entries", "entries")):
            ratios[name].append(float(exact[column].min() / best[column]) if len(exact) else np.inf)
    got = {name: band(values) for name, values in ratios.items()}
    finals = {name: band(end(part).error) for name, part in runs.groupby("name")}
    return Claim(
        "With exact residuals and corrective steps, Frank-Wolfe reaches the best final error of the sampled methods in "
        "fewer linear minimisations and in less time.",
        decide(got["LMO calls"].high < 1 and got["seconds"].high < 1, got["LMO calls"].high < 1),
        "relative to that method: "
        + ", ".join(f"{name} {value}" for name, value in got.items())
        + "; final errors: "
        + ", ".join(f"{name} {value}" for name, value in finals.items()),
        "analysis",
    )


# ---- pictures --------------------------------------------------------------------------------------------------------


def draw_runs(shown: pd.DataFrame, batches: pd.DataFrame, title: str):
    """Error and constraint against iterations at the paper's b, a line per method and point, and against samples."""
    figure, axes = new_figure(columns=2, rows=2, size=(5.4, 3.5))
    looks = iter(LOOKS)
    for (name, point), part in shown[shown.batch == BATCH].groupby(["name", "point"]):
        if name == "SCGD" and point == "average":
            continue
        colour, style = ("#D55E00", (0, (1, 1.2))) if name == "SCGD" else next(looks)
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


def report(tables: Tables, size: Size) -> Report:
    """Curves against iterations and samples, the cost of exactness, and the claims."""
    work = amount(size)
    found = choices(tables, work.steps)

    def gather(*starts: str) -> pd.DataFrame:
        parts = {name: table for name, table in tables.items() if name.startswith(starts)}
        return pd.concat([t.assign(part=name.split("-seeds")[0]) for name, t in parts.items()], ignore_index=True)

    curves = gather("paper", "tuned").drop(columns="seconds")
    curves["variant"] = curves.part.str.split("-").str[0]
    curves["samples"] = curves.step * curves.batch
    curves["objective"] = curves.error
    places, why, exact = gather(*map(slug, PLACES)), gather("why"), tables["cost"]
    places["kind"] = places.part.str.rsplit("-", n=1).str[-1]
    places["place"] = places.part.str.rsplit("-", n=1).str[0].str.replace("-", " ")
    printed = curves[curves.variant == "paper"]
    tuned = curves[curves.variant == "tuned"]
    best = tuned.assign(name=tuned.name.replace(found["FW-CSOA"].name, "FW-CSOA"))
    means = printed[printed.units == "mean"]
    claims = [
        *comparison(means, "the paper's coefficients, units of means"),
        *comparison(printed[printed.units == "sum"], "the paper's coefficients, units of sums"),
        *comparison(best, "tuned coefficients"),
        tuning_claim(found["FW-CSOA paper"]),
        *batch_claims(means, "the paper's coefficients, units of means"),
        *batch_claims(best, "tuned coefficients"),
        early_claim(means, "the paper's coefficients, units of means"),
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
    tuning = pd.concat([tables[slug("tuning", name)] for name in rivals(work.steps)], ignore_index=True)
    written = {"fig3": curves, "fig3-tuning": tuning, "fig3-places": places, "fig3-why": why, "fig3-cost": exact}
    return Report(written, pictures, claims)


FIGURE = Figure("FW-CSOA against SCGD on structured matrix completion: normalised error and violation", units, report)
