"""The leaderboard in pictures: who wins where, scores against calls, and fitted against published rates."""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pandas as pd

from tightrope.lab.leaderboard.divisions import DIVISIONS, SOURCES
from tightrope.lab.leaderboard.report import Board, last_budget, short
from tightrope.lab.leaderboard.runs import REFERENCE
from tightrope.plotting import new_figure

AUTO = "auto"
HUES = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#882255", "#777711")
MARKS = ("o", "s", "^", "D", "v", "P")  # with the hues, a style of its own for every method


def styles(methods: Iterable[str]) -> dict[str, dict[str, Any]]:
    """A colour and a marker for each method, the same in every panel; neighbours in the alphabet differ in colour.

    Example:
        >>> styles(["csoa", "g-oco"])["csoa"]
        {'color': '#0072B2', 'marker': 'o'}
    """
    names = sorted(set(methods) - {AUTO})
    found = {
        name: {"color": HUES[i % len(HUES)], "marker": MARKS[i // len(HUES) % len(MARKS)]}
        for i, name in enumerate(names)
    }
    return found | {AUTO: {"color": "#000000", "marker": "*"}}


def draw(found: Board) -> dict[str, Any]:
    """All pictures, by the names of their files."""
    pictures = {}
    for name, part in found.standings.groupby("division", sort=False):
        pictures |= {f"scores-{name}": draw_scores(part), f"curves-{name}": draw_curves(part)}
    return {**pictures, "profiles": draw_profiles(found.profiles), "rates": draw_rates(found.rates)}


def draw_scores(standings: pd.DataFrame) -> Any:
    """A cell for each method and problem: its score over the best one of those that were given nothing.

    Its colour is the place on that problem: scores may differ by ten decades, and one method would flatten all others.
    """
    last = last_budget(standings[standings.method != REFERENCE])
    table = last.pivot(index="method", columns="problem", values="score")[list(dict.fromkeys(last.problem))]
    equal = last[last.given == ""].groupby("problem").score.min()
    ratio = (table / equal.clip(lower=1e-12)).clip(lower=1e-3)[table.columns]  # division has sorted the columns
    given = last.groupby("method").given.first()
    order = sorted(table.index, key=lambda m: (given[m] != "", np.nanmean(np.log(ratio.loc[m]))))
    ratio = ratio.loc[order]
    figure, axes = new_figure(size=(max(4.5, 1.6 + 0.62 * len(ratio.columns)), 1.2 + 0.25 * len(order)))
    axis = axes[0, 0]
    axis.grid(False)
    cells = ratio.to_numpy(float)
    places = ratio.rank(method="min")
    shares = ((places - 1) / (places.max() - 1).clip(lower=1)).to_numpy(float)
    shown = axis.imshow(shares, cmap="viridis_r", vmin=0, vmax=1, aspect="auto")
    bar = figure.colorbar(shown, ax=axis, shrink=0.5, pad=0.01, aspect=30)
    bar.set_ticks([0, 0.5, 1], labels=["first", "middle", "last"], fontsize=7)
    bar.set_label("place on the problem", fontsize=8)
    axis.set_xlabel("problem")
    axis.set_ylabel("method (and what it was given)" if (given != "").any() else "method")
    axis.set_xticks(range(len(ratio.columns)), ratio.columns, rotation=40, ha="right", fontsize=8)
    chosen = last[last.auto & DIVISIONS[last.division.iloc[0]].defaults]
    for place in zip(chosen.problem, chosen.method, strict=True):
        j, i = list(ratio.columns).index(place[0]), order.index(place[1])
        axis.add_patch(_frame(j, i))
    axis.set_yticks(range(len(order)), [f"{m} ({short(given[m])})" if given[m] else m for m in order], fontsize=8)
    for (i, j), value in np.ndenumerate(cells):
        if np.isfinite(value):
            colour = "white" if shares[i, j] > 0.5 else "black"
            axis.text(j, i, _few_digits(value), ha="center", va="center", fontsize=6.5, color=colour)
    framed = '\nframed: what "auto" takes' if len(chosen) else ""
    axis.set_title(f"numbers: score, in units of the best\nthat was given nothing{framed}", loc="left", fontsize=10)
    return figure


def _frame(column: int, row: int) -> Any:
    from matplotlib.patches import Rectangle

    return Rectangle((column - 0.47, row - 0.45), 0.94, 0.9, fill=False, edgecolor="#D55E00", linewidth=1.8)


def _few_digits(value: float) -> str:
    return f"{value:.2g}" if value < 9.95 else f"{value:.0f}" if value < 9_999 else f"{value:.0e}"


def draw_curves(standings: pd.DataFrame) -> Any:
    """Scores against what is counted, a panel for each problem, every curve with a style of its own and its name at its end.

    A panel shows some decades around the median; a method that ends beyond them is named at the edge, with its score.
    Dotted: given what the others were not.
    """
    methods = styles(standings.method)
    figure, panels = _panels(standings)
    for name, axis in panels.items():
        part = standings[standings.problem == name].sort_values("budget")
        part = part.assign(score=part.score.clip(lower=1e-16))
        curves, reference = part[part.method != REFERENCE], part[part.method == REFERENCE]
        last = last_budget(curves)
        middle = float(last[last["rank"].notna()].score.median())
        low, high = middle * 10**-2.5, middle * 10**1.5  # the decades that a panel shows
        low, high = max(low, curves.score.min() / 1.2), min(high, curves.score.max() * 1.2)
        axis.set_ylim(low, high)
        for method, curve in curves.groupby("method"):
            line = "-" if curve["rank"].notna().any() else ":"
            axis.plot(curve.budget, curve.score, line, markersize=3, linewidth=1.1, **methods[str(method)])
        for at in reference.budget:
            axis.axvline(at, color="black", linewidth=0.8, linestyle="--")
            axis.annotate(
                REFERENCE, (at, 0.01), xycoords=("data", "axes fraction"), rotation=90, fontsize=6, ha="right"
            )
        first, right = float(curves.budget.min()), float(curves.budget.max())
        ends = {}
        for method, budget, score in zip(last.method, last.budget, last.score, strict=True):
            said = method if low <= score <= high else f"{method}: {score:.0e}"
            ends[method] = (said, budget, float(np.clip(score, low, high)))
        _name_ends(axis, ends, methods, right, (right / first) ** 0.5, np.log10, lambda h: 10**h)
    said = "A panel shows some decades around the median: who ends beyond them is named at the edge, with the score."
    given = " Dotted: given what the others were not." if standings["rank"].isna().any() else ""
    figure.supxlabel(said + given, fontsize=9, x=0.01, ha="left")
    return figure


def _name_ends(
    axis: Any, ends: dict[str, tuple[str, float, float]], methods: dict[str, dict[str, Any]], right: float, room: float,
    scale: Callable[[Any], Any], back: Callable[[Any], Any],
) -> None:  # fmt: skip
    """Write names to the right of a panel, each joined to the end of its curve, and none over another.

    Args:
        axis: a panel whose ordinate has its limits.
        ends: what to write of each method, and where its curve ends.
        methods: their styles.
        right: where the widest curve ends.
        room: by which factor the panel is to be wider.
        scale, back: the ordinate's scale, and its inverse.
    """
    low, high = (float(scale(end)) for end in axis.get_ylim())
    order = sorted(ends, key=lambda method: ends[method][2])
    tall = axis.figure.get_figheight() / axis.get_gridspec().nrows - 0.5  # inches, without what is around a panel
    least = min(0.115 / tall, 1 / (len(order) + 1)) * (high - low)
    heights = _apart([float(scale(ends[method][2])) for method in order], least)
    # those that would leave the panel are pushed back into it, and push the others
    count = np.arange(len(order))
    heights = np.maximum(heights, low + least * (count + 0.5))
    heights = np.minimum(heights, high - least * count[::-1])
    for method, height in zip(order, heights, strict=True):
        said, at, end = ends[method]
        colour = methods[method]["color"]
        line = axis.plot([at, right * room**0.12], [end, back(height)], color=colour, linewidth=0.4, alpha=0.6)[0]
        line.set_clip_on(False)
        axis.text(right * room**0.15, back(height), said, color=colour, fontsize=6, va="center")
    axis.set_xlim(right=right * room)


def draw_profiles(profiles: pd.DataFrame) -> Any:
    """How much of what there is to solve is solved within a budget of calls: a panel for each division, all curves named."""
    divisions = [name for name in dict.fromkeys(profiles.division) if DIVISIONS[name].counted == "calls"]
    rows = -(-len(divisions) // 2)
    figure, axes = new_figure(min(2, len(divisions)), rows, size=(5.0, 4.8))
    for axis in axes.flat[len(divisions) :]:
        axis.set_axis_off()
    methods = styles(profiles.method)
    for axis, name in zip(axes.flat, divisions, strict=False):
        part = profiles[profiles.division == name].sort_values("share")
        for method, curve in part.groupby("method"):
            auto = method == AUTO  # may lie on the one it takes
            style = {"linestyle": "--" if auto else "-", "zorder": 3 + auto, "linewidth": 1.8 if auto else 1.1}
            axis.plot(curve.share, curve.met, markersize=3, **style, **methods[str(method)])
        axis.set_ylim(0, min(1.0, 1.08 * float(part.met.max())))
        last = part[part.share == part.share.max()]
        ends = {method: (method, 1.0, met) for method, met in zip(last.method, last.met, strict=True)}
        _name_ends(axis, ends, methods, 1.0, 6.0, np.asarray, np.asarray)
        at = sorted(part.share.unique())
        axis.set_xscale("log")
        axis.set_xticks(at, [f"1/{1 / share:.0f}" if share < 1 else "1" for share in at], fontsize=7)
        axis.minorticks_off()
        axis.set_xlim(left=at[0] * 0.9)
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
    columns = min(3, len(names))
    named = standings.groupby("problem").method.nunique().max()  # a line of text each
    figure, axes = new_figure(columns, -(-len(names) // columns), size=(4.6, max(2.7, 0.9 + 0.135 * named)), dpi=110)
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
    low, high = -0.3, 2.2
    for i, method in enumerate(methods):
        part = known[known.method == method]
        for source, marker, colour in zip(SOURCES, "oD", ("#0072B2", "#009E73"), strict=True):
            dots = -part[part.division == source]["gap slope"]
            beyond = dots.clip(low + 0.03, high - 0.03)[(dots < low) | (dots > high)]
            style = {"color": colour, "alpha": 0.55, "linestyle": "none"}
            axis.plot(dots, [i] * len(dots), marker, markersize=3.5, label=None if i else f"fitted, {source}", **style)
            for end in beyond:
                axis.plot([end], [i], ">" if end > 0 else "<", markersize=6, color=colour, linestyle="none")
        published = part["published gap"].iloc[0]
        if pd.notna(published):
            axis.plot([float(published)], [i], "|", color="#D55E00", markersize=13, markeredgewidth=2)
    axis.plot([], [], "|", color="#D55E00", markersize=13, markeredgewidth=2, label="published")
    axis.plot([], [], ">", color="#555555", markersize=6, linestyle="none", label="beyond the axis")
    figure.legend(loc="outside upper center", ncols=4, frameon=False, fontsize=8)
    axis.set_yticks(range(len(methods)), methods, fontsize=8)
    axis.set_xlim(low, high)
    axis.axvline(0, color="black", linewidth=0.8)
    axis.set_xlabel("exponent p of the gap's rate, calls^-p; a mark for each problem")
    axis.set_ylabel("method")
    return figure
