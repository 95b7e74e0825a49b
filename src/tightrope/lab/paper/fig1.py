"""Figure 1: objective and constraint violation on Adult for different tightenings upsilon0."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from tightrope._sweep import sweep
from tightrope.lab.paper.claims import ALMOST_ZERO, Claim, band, decide, trend
from tightrope.lab.paper.drawing import curve, label, legend_below, optimum, shades, zero
from tightrope.lab.paper.fairness import PAPER, C, Experiment, adult_task, coordinates, measure, paper_problem, points
from tightrope.lab.paper.figure import Figure, FigureReport, Size, by_seeds, coefficients
from tightrope.lab.paper.tuning import SACRIFICE, UPSILON0
from tightrope.lab.work import Tables, Unit
from tightrope.plotting import new_figure
from tightrope.tree import replace

ETA0 = (coefficients(PAPER["CSOA"])["eta0"], 1.0)
"""The paper's step size and, for comparison, the library's where coefficients are given but this one is not."""


def units(size: Size) -> list[Unit]:
    """A sweep over upsilon0 for some seeds at each of two horizons: one pass, and several."""
    on = {"rows": size.rows, "tests": size.tests, "c": C, "delta": coefficients(PAPER["CSOA"])["delta"]}
    on |= {"records": size.records, "upsilon0": list(UPSILON0), "eta0": list(ETA0)}

    def sweeps(passes: int) -> list[Unit]:
        def table(seeds: range, _: Tables) -> pd.DataFrame:
            return run(adult_task(size), passes, seeds, size.records)

        return by_seeds(f"passes{passes}", on | {"passes": passes}, size.seeds, table)

    return [unit for passes in dict.fromkeys((1, size.passes)) for unit in sweeps(passes)]


def run(task: Experiment, passes: int, seeds: Sequence[int], records: int) -> pd.DataFrame:
    """Objective, |covariance| - c and mean multipliers along the runs, at the running average; p% at their ends."""
    problem, data = paper_problem(task.train, task.c)
    method = replace(PAPER["CSOA"], eta0=np.array(ETA0), upsilon0=np.array(UPSILON0))
    steps = passes * len(task.train.y)
    table = sweep(problem, data, method, steps=steps, seeds=seeds, record=records, track=coordinates, progress=False)
    rows = pd.DataFrame(
        {
            "passes": passes,
            "eta0": table.eta0,
            "upsilon0": table.upsilon0,
            "upsilon": table.upsilon0 / np.sqrt(steps),
            "seed": table.seed,
            "step": table.step,
            "objective": table["full objective"],
            "excess": table[["full cov", "full -cov"]].max(axis=1),
            "dual cov": table["dual cov"],
            "dual -cov": table["dual -cov"],
        }
    )
    last = rows.step == rows.step.max()
    seen = pd.DataFrame([measure(x, task) for x in points(table[last])], index=rows.index[last])
    return rows.assign(accuracy=seen.accuracy, p=seen.p)


# ---- claims ----------------------------------------------------------------------------------------------------------


def final(table: pd.DataFrame) -> pd.DataFrame:
    """The rows at the last step of each horizon, with the violation."""
    ends = table[table.step == table.groupby("passes").step.transform("max")]
    return ends.assign(violation=ends.excess.clip(lower=0))


def claims(table: pd.DataFrame, task: Experiment) -> list[Claim]:
    """The paper's claims with the paper's step size, and what our analysis predicts, at each horizon."""
    found = []
    for _, ends in final(table).groupby("passes"):
        paper = ends[ends.eta0 == ETA0[0]]
        where = f"T = {int(paper.step.max()):,}"
        found += [*paper_claims(paper, task, where), *predictions(paper, task, where)]
    return found


def paper_claims(ends: pd.DataFrame, task: Experiment, where: str) -> list[Claim]:
    """Whether upsilon0 trades violation against objective as the paper says."""
    optimum = task.optimum.objective
    by_seed = ends.pivot(index="seed", columns="upsilon0", values="excess")
    verdict, correlation = trend(by_seed.columns, by_seed, sign=-1)
    said = "; ".join(f"upsilon0 = {u:g}: {band(by_seed[u])}" for u in (by_seed.columns[0], by_seed.columns[-1]))
    falls = Claim(
        f"A larger upsilon0 gives a smaller violation ({where}).",
        verdict,
        f"rank correlation of upsilon0 with |cov| - c {correlation}; |cov| - c at {said}",
    )
    objective = ends.pivot(index="seed", columns="upsilon0", values="objective")
    rise = objective.sub(objective[0.0], axis=0) / optimum
    violation = ends.pivot(index="seed", columns="upsilon0", values="violation") / task.c
    ups = [float(u) for u in by_seed.columns]
    cost = {u: float(rise[u].median()) for u in ups}
    left = {u: band(violation[u]) for u in ups}
    free = any(left[u].high <= ALMOST_ZERO and cost[u] <= SACRIFICE for u in ups)
    cheap = any(left[u].middle <= ALMOST_ZERO and cost[u] <= 2 * SACRIFICE for u in ups)
    cheapest = next((u for u in ups if left[u].middle <= ALMOST_ZERO), ups[-1])
    possible = Claim(
        f"The violation can be made almost zero without significantly sacrificing the objective ({where}).",
        decide(free, cheap),
        f"the smallest upsilon0 with a violation of at most {ALMOST_ZERO:.0%} of c is {cheapest:g}: violation "
        f"{left[cheapest]} of c, objective up by {band(100 * rise[cheapest])} % of F*; "
        f"{SACRIFICE:.0%} counts as significant",
    )
    return [falls, possible, chosen_claim(ends, rise, task, where)]


def chosen_claim(ends: pd.DataFrame, rise: pd.DataFrame, task: Experiment, where: str) -> Claim:
    """Whether upsilon0 = 80, the paper's choice, is a good one."""
    chosen = max(UPSILON0)
    last = ends[ends.upsilon0 == chosen]
    fits, cost = last.violation.median() <= ALMOST_ZERO * task.c, float(rise[chosen].median())
    error = last.objective / task.optimum.objective - 1
    return Claim(
        f"upsilon0 = {chosen:g} makes the violation almost zero at no significant cost to the objective ({where}).",
        decide(fits and cost <= SACRIFICE, fits and cost <= 2 * SACRIFICE),
        f"objective up by {band(100 * rise[chosen])} % of F* against upsilon0 = 0, (F - F*)/F* {band(error)}; "
        f"|cov| - c {band(last.excess)}; p% on the test rows {band(last.p)}",
    )


def predictions(ends: pd.DataFrame, task: Experiment, where: str) -> list[Claim]:
    """The two sides sum to -2c, so that upsilon >= c leaves no feasible point. What must then be seen."""
    smaller = ends.assign(smaller=ends[["dual cov", "dual -cov"]].min(axis=1))
    beyond = smaller[smaller.upsilon >= task.c]
    inside = smaller[smaller.upsilon < task.c]
    which = ", ".join(f"{u:g}" for u in sorted(set(beyond.upsilon0)))
    if beyond.empty or inside.empty:
        return []
    up, down = band(beyond.smaller), band(inside.smaller)
    # with a feasible point, at most one side binds, and its multiplier is near the optimal one; the other's is near zero
    drift = Claim(
        f"Where upsilon >= c (upsilon0 = {which}), no point meets both tightened sides and both multipliers grow together "
        f"({where}).",
        decide(up.low > task.optimum.multiplier > down.high, up.middle > task.optimum.multiplier > down.middle),
        f"the smaller of the two mean multipliers is {up} there and {down} where upsilon < c; the optimal multiplier of "
        f"the problem is {task.optimum.multiplier:.3g}",
        "analysis",
    )
    size = (beyond.excess + task.c) / task.c
    by_seed = beyond.pivot(index="seed", columns="upsilon0", values="excess") / task.c
    spread = by_seed.max(axis=1) - by_seed.min(axis=1)
    near, same = band(size).high <= 0.25, band(spread).high <= ALMOST_ZERO
    vanishes = Claim(
        f"The covariance is then driven to zero instead of c, whatever upsilon0 is ({where}).",
        decide(near and same, near or same),
        f"|cov| is {band(size)} of c; between upsilon0 = {which} it differs by {band(spread)} of c",
        "analysis",
    )
    return [drift, vanishes]


# ---- pictures --------------------------------------------------------------------------------------------------------


def report(tables: Tables, size: Size) -> FigureReport:
    """Curves over the iterations, and the ends of the runs against upsilon0."""
    table, task = pd.concat(tables.values(), ignore_index=True), adult_task(size)
    pictures = {"fig1-iterations": draw_iterations(table, task), "fig1": draw_final(final(table), task)}
    return FigureReport({"fig1": table}, pictures, claims(table, task))


def draw_iterations(table: pd.DataFrame, task: Experiment):
    """A row of panels per horizon: objective, |cov| - c, and the smaller multiplier, a line per upsilon0."""
    horizons = sorted(set(table.passes))
    figure, axes = new_figure(columns=3, rows=len(horizons), size=(4.6, 3.4))
    for row, passes in zip(axes, horizons, strict=True):
        part = table[(table.passes == passes) & (table.eta0 == ETA0[0])]
        part = part.assign(smaller=part[["dual cov", "dual -cov"]].min(axis=1))
        for colour, upsilon0 in zip(shades(len(UPSILON0)), UPSILON0, strict=True):
            runs = part[part.upsilon0 == upsilon0]
            line = "--" if (runs.upsilon >= task.c).any() else "-"
            style = {"color": colour, "linestyle": line, "linewidth": 1.6}
            for axis, name in zip(row, ("objective", "excess", "smaller"), strict=True):
                curve(axis, runs, "step", name, label=f"$\\upsilon_0$ = {upsilon0:g}", **style)
        title = f"T = {int(part.step.max()):,}"
        optimum(row[0], task.optimum.objective)
        zero(row[1])
        row[2].set_yscale("symlog", linthresh=0.1)
        row[2].set_ylim(bottom=0)
        label(row[0], f"objective, {title}", "iteration", "F(average)")
        label(row[1], f"above 0: violated, {title}", "iteration", "|cov| $-$ c")
        label(row[2], f"smaller of the two multipliers, {title}", "iteration", "running mean")
    legend_below(
        figure,
        axes[0, 0],
        columns=len(UPSILON0),
        title="dashed: $\\upsilon \\geq c$; in the legend as in the upper row",
    )
    return figure


def draw_final(ends: pd.DataFrame, task: Experiment):
    """Objective, |cov| - c and p% at the end of the runs against upsilon0."""
    figure, axes = new_figure(columns=3, size=(4.6, 3.6))
    styles = zip(("#0072B2", "#56B4E9", "#D55E00", "#E69F00"), ("o", "s", "^", "v"), strict=True)
    cases = [(eta0, passes) for eta0 in ETA0 for passes in sorted(set(ends.passes))]
    for (colour, marker), (eta0, passes) in zip(styles, cases, strict=False):
        runs = ends[(ends.eta0 == eta0) & (ends.passes == passes)]
        named = f"$\\eta_0$ = {eta0:g}, T = {int(runs.step.max()):,}"
        for axis, name in zip(axes[0], ("objective", "excess", "p"), strict=True):
            curve(axis, runs, "upsilon0", name, color=colour, marker=marker, markersize=4, label=named)
    for axis in axes[0]:
        axis.set_xscale("symlog", linthresh=1)
        axis.set_xticks(UPSILON0, [f"{u:g}" for u in UPSILON0])
        axis.minorticks_off()
    optimum(axes[0, 0], task.optimum.objective)
    axes[0, 2].axhline(0.8, color="black", linewidth=0.8, linestyle=":")
    axes[0, 2].annotate("80 % rule", (0.01, 0.8), xycoords=("axes fraction", "data"), va="bottom", fontsize=8)
    zero(axes[0, 1])
    label(axes[0, 0], "objective", "$\\upsilon_0$", "F(average)")
    label(axes[0, 1], "above 0: violated", "$\\upsilon_0$", "|cov| $-$ c")
    label(axes[0, 2], "p% on the test rows", "$\\upsilon_0$", "p%, as a share")
    legend_below(figure, axes[0, 0], columns=len(cases))
    return figure


FIGURE = Figure("objective and constraint violation on Adult for different upsilon0", units, report)
