"""The leaderboard in pictures: who wins where, scores against calls, and fitted against published rates."""

from typing import Any

import numpy as np
import pandas as pd

from tightrope.experiments.leaderboard.divisions import DIVISIONS, SOURCES
from tightrope.experiments.leaderboard.report import Board, last_budget, short
from tightrope.experiments.leaderboard.runs import REFERENCE
from tightrope.plotting import new_figure

COLOURS = {"auto": "#000000", "csoa": "#0072B2", "fw-csoa": "#009E73", "split-csoa": "#E69F00", "g-oco": "#D55E00"}
OTHERS = ("#0072B2", "#CC79A7", "#D55E00", "#56B4E9", "#000000", "#999933", "#882255")  # where no one is told apart
WORST = 2.0  # decades above the best score at which the colour ends


def draw(found: Board) -> dict[str, Any]:
    """All pictures, by the names of their files."""
    pictures = {}
    for name, part in found.standings.groupby("division", sort=False):
        curves = draw_curves if DIVISIONS[str(name)].counted == "calls" else draw_labelled_curves
        pictures |= {f"scores-{name}": draw_scores(part), f"curves-{name}": curves(part)}
    return {**pictures, "profiles": draw_profiles(found.profiles), "rates": draw_rates(found.rates)}


def draw_scores(standings: pd.DataFrame) -> Any:
    """A cell for each method and problem: its score over the best one of those that were given nothing."""
    last = last_budget(standings[standings.method != REFERENCE])
    table = last.pivot(index="method", columns="problem", values="score")[list(dict.fromkeys(last.problem))]
    equal = last[last.given == ""].groupby("problem").score.min()
    ratio = (table / equal.clip(lower=1e-12)).clip(lower=1e-3)[table.columns]  # which a division sorts
    given = last.groupby("method").given.first()
    order = sorted(table.index, key=lambda m: (given[m] != "", np.nanmean(np.log(ratio.loc[m]))))
    ratio = ratio.loc[order]
    figure, axes = new_figure(size=(max(4.5, 1.6 + 0.62 * len(ratio.columns)), 1.2 + 0.25 * len(order)))
    axis = axes[0, 0]
    axis.grid(False)
    cells = ratio.to_numpy(float)
    axis.imshow(np.log10(cells), cmap="viridis_r", vmin=0, vmax=WORST, aspect="auto")
    axis.set_xticks(range(len(ratio.columns)), ratio.columns, rotation=40, ha="right", fontsize=8)
    chosen = last[last.auto & DIVISIONS[last.division.iloc[0]].defaults]
    for place in zip(chosen.problem, chosen.method, strict=True):
        j, i = list(ratio.columns).index(place[0]), order.index(place[1])
        axis.add_patch(_frame(j, i))
    axis.set_yticks(range(len(order)), [f"{m} ({short(given[m])})" if given[m] else m for m in order], fontsize=8)
    for (i, j), value in np.ndenumerate(cells):
        if np.isfinite(value):
            colour = "white" if value > 10 else "black"
            axis.text(j, i, _few_digits(value), ha="center", va="center", fontsize=6.5, color=colour)
    framed = '\nframed: what "auto" takes' if len(chosen) else ""
    axis.set_title(f"score, in units of the best\nthat was given nothing{framed}", loc="left", fontsize=10)
    return figure


def _frame(column: int, row: int) -> Any:
    from matplotlib.patches import Rectangle

    return Rectangle((column - 0.47, row - 0.45), 0.94, 0.9, fill=False, edgecolor="#D55E00", linewidth=1.8)


def _few_digits(value: float) -> str:
    return f"{value:.2g}" if value < 9.95 else f"{value:.0f}" if value < 9_999 else f"{value:.0e}"


def draw_curves(standings: pd.DataFrame) -> Any:
    """Scores against calls, a panel for each problem: three methods and the winner in colour, the others in grey."""
    figure, panels = _panels(standings)
    for name, axis in panels.items():
        part = standings[standings.problem == name]
        last = last_budget(part)
        winners = last[last["rank"] == 1].method
        for method, curve in part[part.method != REFERENCE].groupby("method"):
            special = method in COLOURS or method in set(winners)
            colour = COLOURS.get(str(method), "#CC79A7" if special else "#BBBBBB")
            curve = curve.sort_values("budget")
            label = str(method) if special else None
            axis.plot(
                curve.budget,
                curve.score,
                color=colour,
                linewidth=1.6 if special else 0.6,
                label=label,
                zorder=2 + special,
            )
        for _, row in part[part.method == REFERENCE].iterrows():
            axis.axvline(row.budget, color="black", linewidth=0.8, linestyle=":", label=REFERENCE)
        axis.legend(frameon=False, fontsize=6)
    return figure


def draw_labelled_curves(standings: pd.DataFrame) -> Any:
    """Scores against linear minimisations, a panel for each problem, every curve named at its end."""
    methods = sorted(set(standings.method), key=lambda m: (m not in COLOURS, m))
    others = iter(OTHERS)
    colours = {method: COLOURS.get(method) or next(others, "#BBBBBB") for method in methods}
    figure, panels = _panels(standings)
    for name, axis in panels.items():
        part = standings[standings.problem == name].sort_values("budget")
        for method, curve in part.groupby("method"):
            axis.plot(curve.budget, curve.score, "o-", color=colours[str(method)], markersize=2.5, linewidth=1.3)
        last = last_budget(part).sort_values("score")
        heights = _apart(np.log10(last.score.clip(lower=1e-16)), 0.06 * np.ptp(np.log10(axis.get_ylim())))
        right = float(part.budget.max())
        for (_, row), height in zip(last.iterrows(), heights, strict=True):
            at = right * 1.12, 10**height
            axis.text(*at, row.method, color=colours[row.method], fontsize=6.5, va="center")
        axis.set_xlim(right=right * (right / part.budget.min()) ** 0.42)  # room for the names
    return figure


def draw_profiles(profiles: pd.DataFrame) -> Any:
    """How much of what there is to solve is solved within a budget of calls: a panel for each division, all curves named."""
    divisions = [name for name in dict.fromkeys(profiles.division) if DIVISIONS[name].counted == "calls"]
    rows = -(-len(divisions) // 2)
    figure, axes = new_figure(min(2, len(divisions)), rows, size=(4.6, 4.4))
    for axis in axes.flat[len(divisions) :]:
        axis.set_axis_off()
    for axis, name in zip(axes.flat, divisions, strict=False):
        part = profiles[profiles.division == name].sort_values("share")
        for method, curve in part.groupby("method"):
            special, line = method in COLOURS, "--" if method == "auto" else "-"  # "auto" may lie on the one it takes
            style = {"color": COLOURS.get(str(method), "#999999"), "linewidth": 1.8 if special else 0.7}
            axis.plot(
                curve.share, curve.met, "o" + line, markersize=2, zorder=2 + special + (method == "auto"), **style
            )
        last = part[part.share == part.share.max()].sort_values("met")
        heights = _apart(last.met, 0.036 * float(np.ptp(axis.get_ylim())))
        for (_, row), height in zip(last.iterrows(), heights, strict=True):
            axis.plot([1.03, 1.25], [row.met, height], color="#CCCCCC", linewidth=0.5, zorder=1)
            axis.text(1.3, height, row.method, color=COLOURS.get(row.method, "#555555"), fontsize=6.5, va="center")
        at = sorted(part.share.unique())
        axis.set_xscale("log")
        axis.set_xticks(at, [f"1/{1 / share:.0f}" if share < 1 else "1" for share in at], fontsize=7)
        axis.minorticks_off()
        axis.set_xlim(at[0] * 0.9, max(4.0, at[0] ** -0.55))
        axis.set_title(name, loc="left", fontsize=9)
    for axis in axes[:, 0]:
        axis.set_ylabel("share of targets met")
    for axis in axes[-1]:
        axis.set_xlabel("budget, in units of the largest")
    return figure


def _apart(heights: Any, least: float) -> np.ndarray:
    """Ascending heights, moved as little as need be so that neighbours are so far apart: each group that would overlap
    is spread about its mean."""
    groups = [[float(h)] for h in heights]
    middles = [group[0] for group in groups]
    i = 1
    while i < len(groups):
        if middles[i] - middles[i - 1] < least * (len(groups[i]) + len(groups[i - 1])) / 2:
            groups[i - 1] += groups.pop(i)
            middles.pop(i)
            middles[i - 1] = float(np.mean(groups[i - 1]))
            i = max(1, i - 1)
        else:
            i += 1
    return np.concatenate(
        [m + least * (np.arange(len(g)) - (len(g) - 1) / 2) for g, m in zip(groups, middles, strict=True)]
    )


def _panels(standings: pd.DataFrame) -> tuple[Any, dict[str, Any]]:
    """A panel for each problem of a division, with the axes that its budgets ask for."""
    names = list(dict.fromkeys(standings.problem))
    columns = min(4, len(names))
    figure, axes = new_figure(columns, -(-len(names) // columns), size=(3.4, 2.7))
    for axis in axes.flat[len(names) :]:
        axis.set_axis_off()
    for axis, name in zip(axes.flat, names, strict=False):
        part = standings[(standings.problem == name) & standings["rank"].notna()]
        at = sorted(part.budget.unique())
        axis.set(xscale="log", yscale="log")
        axis.set_xticks(at, [f"{int(b):,}" for b in at], fontsize=7)
        axis.tick_params(axis="y", labelsize=7)
        axis.minorticks_off()
        axis.set_title(name, loc="left", fontsize=9)
    for axis in axes[:, 0]:
        axis.set_ylabel("score")
    counted = DIVISIONS[standings.division.iloc[0]].counted
    for axis in axes.flat[: len(names)][-columns:]:  # the lowest of each column
        axis.set_xlabel("oracle calls" if counted == "calls" else "linear minimisations")
    return figure, dict(zip(names, axes.flat, strict=False))


def draw_rates(rates: pd.DataFrame) -> Any:
    """The fitted exponents of every method, a dot for each problem, and the published one."""
    known = rates[rates["gap slope"].notna()]
    methods = sorted(dict.fromkeys(known.method), key=lambda m: -known[known.method == m]["gap slope"].median())
    figure, axes = new_figure(size=(6.4, 1.0 + 0.22 * max(4, len(methods))))
    axis = axes[0, 0]
    for i, method in enumerate(methods):
        part = known[known.method == method]
        for division, marker in zip(SOURCES, "oD", strict=True):
            dots = -part[part.division == division]["gap slope"]
            axis.plot(dots, [i] * len(dots), marker, color="#0072B2", markersize=3.5, alpha=0.55, linestyle="none")
        published = part["published gap"].iloc[0]
        if pd.notna(published):
            axis.plot([float(published)], [i], "|", color="#D55E00", markersize=13, markeredgewidth=2)
    axis.set_yticks(range(len(methods)), methods, fontsize=8)
    axis.set_xlim(-0.3, 2.2)
    axis.axvline(0, color="black", linewidth=0.8)
    axis.set_xlabel("p of calls^-p: fitted on each problem (dots), published (bars)")
    return figure
