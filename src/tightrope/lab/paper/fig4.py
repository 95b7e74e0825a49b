"""Figure 4 (a to e), the appendix: CSOA on synthetic data, and what the constraint does to the decision boundary."""

from collections.abc import Sequence
from functools import lru_cache, partial

import numpy as np
import pandas as pd

from tightrope._sweep import sweep
from tightrope.lab.paper.claims import ALMOST_ZERO, Claim, at_most, band, decide, trend, worst
from tightrope.lab.paper.drawing import COLOURS, curve, label, legend_below, optimum, shades, zero
from tightrope.lab.paper.fairness import (
    Experiment,
    People,
    batch_optimum,
    coordinates,
    follow,
    measure,
    paper_problem,
    points,
)
from tightrope.lab.paper.figure import Figure, FigureReport, Size, by_seeds, coefficients
from tightrope.lab.work import TUNING, Tables, Unit
from tightrope.learn.datasets import rotated_gaussians
from tightrope.methods import CSOA
from tightrope.plotting import new_figure

ANGLES = {"pi/4": np.pi / 4, "pi/8": np.pi / 8}
LEVELS = (0.05, 0.1, 0.2, 0.3, 0.5, 0.75)
"""Values of c; by hand, so that at each of them the constraint binds for both angles."""

FREE = 1e3
"""A level that no point of the domain reaches, which is no constraint; by hand."""

SHOWN = LEVELS[2]
"""The c of the convergence panels."""

METHOD = CSOA(eta0=1.0, delta=0.01, upsilon0=2.0)
"""The paper names no coefficients for this experiment; upsilon stays below half of the smallest c."""


@lru_cache(maxsize=64)
def task(phi: str, seed: int, rows: int, c: float) -> Experiment:
    """A data set, a second one of the same kind to test on, and the batch optimum at c."""
    train, test = (People(*rotated_gaussians(n=rows, phi=ANGLES[phi], seed=draw)[:3]) for draw in (seed, seed + TUNING))
    return Experiment(train, test, test, c, batch_optimum(train, c))


def units(size: Size) -> list[Unit]:
    """Runs at one c that are followed; then runs at every c, on several data sets for each angle."""
    on = {"rows": size.synthetic_rows, "passes": size.synthetic_passes, **coefficients(METHOD)}
    found = by_seeds("convergence", on | {"c": SHOWN, "records": size.records}, size.seeds, partial(converge, size))
    for phi in ANGLES:
        settings, name = on | {"phi": phi, "levels": list(LEVELS)}, f"path-{phi.replace('/', '')}"
        found += by_seeds(name, settings, size.data_seeds, partial(path, size, phi), called="data")
    return found


def converge(size: Size, seeds: Sequence[int], _: Tables) -> pd.DataFrame:
    """CSOA at one c, from several seeds, measured along the way."""
    steps = size.synthetic_passes * size.synthetic_rows
    on = task("pi/4", 0, size.synthetic_rows, SHOWN)
    return pd.concat([follow(on, METHOD, steps, seed, size.records) for seed in seeds], ignore_index=True)


def path(size: Size, phi: str, seeds: Sequence[int], _: Tables) -> pd.DataFrame:
    """The average at every c and without constraint, on each data set: where it lies, what it is worth, how far the
    boundary has turned; and the turn of the batch solution."""
    steps = size.synthetic_passes * size.synthetic_rows
    tables = []
    for seed in seeds:
        on = task(phi, seed, size.synthetic_rows, SHOWN)
        problem, data = paper_problem(on.train, SHOWN)
        found = sweep(
            problem, data, METHOD, steps=steps, seeds=[seed], levels=[*LEVELS, FREE], track=coordinates, progress=False
        )
        x = points(found)
        rows = pd.DataFrame([measure(point, on._replace(c=c)) for c, point in zip(found.level, x, strict=True)])
        rows = rows.drop(columns="error")  # its optimum is that of another c
        batch = [batch_optimum(on.train, np.inf if c == FREE else c).x for c in found.level]
        for i, column in enumerate(x.T):
            rows[f"x{i}"] = column
        rows = rows.assign(c=found.level, turn=turn(x), batch_turn=turn(np.stack(batch)), phi=phi, data=seed)
        tables.append(rows)
    return pd.concat(tables, ignore_index=True)


def turn(x: np.ndarray) -> np.ndarray:
    """By how many degrees each boundary x[0] a + x[1] b + x[2] = 0 is turned against the last one.

    Example:
        >>> import numpy as np
        >>> turn(np.array([[1.0, 0.0, 5.0], [1.0, 1.0, 0.0], [0.0, 2.0, 0.0]])).round(6).tolist()
        [90.0, 45.0, 0.0]
    """
    angle = np.degrees(np.arctan2(x[:, 1], x[:, 0]))
    return np.abs((angle - angle[-1] + 180) % 360 - 180)


# ---- claims ----------------------------------------------------------------------------------------------------------


def claims(runs: pd.DataFrame, table: pd.DataFrame) -> list[Claim]:
    """Every claim of the appendix, judged."""
    return [*convergence_claims(runs), *turning_claims(table), *tradeoff_claims(table)]


def convergence_claims(runs: pd.DataFrame) -> list[Claim]:
    """The violation is almost zero; the error gets small."""
    ends = runs[(runs.point == "average") & (runs.step == runs.step.max())]
    where = f"phi = pi/4, c = {SHOWN:g}, T = {int(ends.step.max()):,}"
    return [
        Claim(
            f"CSOA achieves almost zero constraint violation on the synthetic data ({where}).",
            at_most(ends.violation / SHOWN, ALMOST_ZERO, ALMOST_ZERO),
            f"violation {band(ends.violation / SHOWN)} of c, |cov| - c {band(ends.excess)}; up to {ALMOST_ZERO:.0%} of c "
            "counts as almost zero",
        ),
        Claim(
            f"The normalised error of CSOA converges towards zero ({where}).",
            at_most(ends.error.abs(), 0.02, 0.03),
            f"(F - F*)/F* {band(ends.error)} at the end; up to 0.02 counts as converged",
        ),
    ]


def _by_data(table: pd.DataFrame, phi: str, name: str) -> pd.DataFrame:
    """A row per data set, a column per c."""
    part = table[(table.phi == phi) & (table.c < FREE)]
    return part.pivot(index="data", columns="c", values=name)


def turning_claims(table: pd.DataFrame) -> list[Claim]:
    """The boundary turns; more for smaller c; more for a smaller phi."""
    found = []
    for phi in ANGLES:
        turns, batch = _by_data(table, phi, "turn"), _by_data(table, phi, "batch_turn")
        verdict, correlation = trend(turns.columns, turns, sign=-1)
        said = ", ".join(f"c = {c:g}: {band(turns[c])} (batch {band(batch[c]).middle:.3g})" for c in turns)
        found.append(
            Claim(
                f"The boundary turns further as c decreases (phi = {phi}).",
                verdict,
                f"degrees at {said}; rank correlation with c {correlation}",
            )
        )
    more = _by_data(table, "pi/8", "turn") - _by_data(table, "pi/4", "turn")
    batch = _by_data(table, "pi/8", "batch_turn") - _by_data(table, "pi/4", "batch_turn")
    bands = {c: band(more[c]) for c in more}
    larger = [got.low > 0 for got in bands.values()]
    said = ", ".join(f"c = {c:g}: {got} (batch {band(batch[c]).middle:.3g})" for c, got in bands.items())
    found.append(
        Claim(
            "More correlation in the data, phi = pi/8 instead of pi/4, turns the boundary further at the same c.",
            decide(all(larger), any(larger)),
            f"degrees at pi/8 minus degrees at pi/4, same data seed: {said}",
        )
    )
    return found


def tradeoff_claims(table: pd.DataFrame) -> list[Claim]:
    """p% against c, accuracy against p%, and what fairness costs."""
    falls, costs, losses, small = {}, {}, {}, []
    for phi in ANGLES:
        p, accuracy = _by_data(table, phi, "p"), _by_data(table, phi, "accuracy")
        free = table[(table.phi == phi) & (table.c == FREE)].set_index("data")
        falls[phi] = *trend(p.columns, p, sign=-1), p
        costs[phi] = trend(p, accuracy, sign=-1)
        c = min(p.columns)
        loss = free.accuracy - accuracy[c]
        small.append(at_most(loss, 0.02, 0.03))
        losses[phi] = f"phi = {phi}: p% from {band(free.p)} to {band(p[c])} for {band(loss)} of accuracy (c = {c:g})"
    said = "; ".join(
        f"phi = {phi}: " + ", ".join(f"c = {c:g}: {band(p[c])}" for c in p) + f", rank correlation {got}"
        for phi, (_, got, p) in falls.items()
    )
    return [
        Claim("The higher the covariance allowed, the lower the p%.", worst(v for v, *_ in falls.values()), said),
        Claim(
            "A higher p% costs accuracy.",
            worst(verdict for verdict, _ in costs.values()),
            "rank correlation of p% and accuracy: "
            + ", ".join(f"phi = {phi}: {got}" for phi, (_, got) in costs.items()),
        ),
        Claim(
            "Fairness is controlled at a small loss of accuracy, from no constraint to the smallest c.",
            worst(small),
            "; ".join(losses.values()) + "; a loss of 0.02 counts as small",
        ),
    ]


# ---- pictures --------------------------------------------------------------------------------------------------------


def report(tables: Tables, size: Size) -> FigureReport:
    """Draw convergence, trade-off and boundaries, and judge the claims."""
    runs = pd.concat([part for name, part in tables.items() if name.startswith("convergence")], ignore_index=True)
    table = pd.concat([part for name, part in tables.items() if name.startswith("path")], ignore_index=True)
    pictures = {
        "fig4-convergence": draw_convergence(runs, size),
        "fig4-tradeoff": draw_tradeoff(table),
        "fig4-boundaries": draw_boundaries(table, size),
    }
    return FigureReport({"fig4-convergence": runs, "fig4-path": table}, pictures, claims(runs, table))


def draw_convergence(runs: pd.DataFrame, size: Size):
    """(a) objective and normalised error, (b) violation, over the iterations."""
    figure, axes = new_figure(columns=3, size=(4.6, 3.4))
    average = runs[runs.point == "average"]
    for axis, name in zip(axes[0], ("objective", "error", "excess"), strict=True):
        curve(axis, average, "step", name, color=COLOURS["CSOA"], linewidth=1.8, label="CSOA, running average")
        axis.set_xscale("log")
    optimum(axes[0, 0], task("pi/4", 0, size.synthetic_rows, SHOWN).optimum.objective)
    zero(axes[0, 1])
    zero(axes[0, 2])
    label(axes[0, 0], f"(a) objective, c = {SHOWN:g}", "iteration", "F(average)")
    label(axes[0, 1], "(a) normalised error", "iteration", "(F $-$ F*)/F*")
    label(axes[0, 2], "(b) constraint; above 0: violated", "iteration", "|cov| $-$ c")
    return figure


def draw_tradeoff(table: pd.DataFrame):
    """(c) p% and accuracy against c, and against each other."""
    figure, axes = new_figure(columns=3, size=(4.6, 3.5))
    styles = {"pi/4": ("#0072B2", "o", "-"), "pi/8": ("#D55E00", "s", "--")}
    for phi, (colour, marker, line) in styles.items():
        part = table[(table.phi == phi) & (table.c < FREE)]
        named = f"$\\varphi = \\pi/{phi[-1]}$"
        for axis, name in zip(axes[0, :2], ("p", "accuracy"), strict=True):
            curve(axis, part, "c", name, color=colour, marker=marker, markersize=4, linestyle=line, label=named)
        middle = part.groupby("c")[["p", "accuracy"]].median()
        axes[0, 2].plot(middle.p, middle.accuracy, color=colour, marker=marker, markersize=4, linestyle=line)
        free = table[(table.phi == phi) & (table.c == FREE)][["p", "accuracy"]].median()
        axes[0, 2].plot(free.p, free.accuracy, color=colour, marker="*", markersize=12, linestyle="none")
    label(axes[0, 0], "(c) p%, unseen data", "covariance threshold c", "p%, as a share")
    label(axes[0, 1], "(c) accuracy, unseen data", "covariance threshold c", "share")
    label(axes[0, 2], "(c) medians over data sets; star: no constraint", "p%, as a share", "accuracy")
    legend_below(figure, axes[0, 0], columns=2)
    return figure


def draw_boundaries(table: pd.DataFrame, size: Size):
    """(d, e) some people of the first data set and the boundaries: solid without constraint, dashed for several c."""
    figure, axes = new_figure(columns=2, size=(5.6, 5.2))
    for axis, letter, phi in zip(axes[0], "de", ANGLES, strict=True):
        people = task(phi, 0, size.synthetic_rows, SHOWN).train.take(slice(0, 250))
        for y, colour in ((1, "#56B4E9"), (-1, "#E69F00")):
            for s, marker in ((1, "o"), (0, "x")):
                here = (people.y == y) & (people.s == s)
                edge = {"facecolors": "none", "edgecolors": colour} if marker == "o" else {"color": colour}
                axis.scatter(
                    *people.X[here, :2].T, marker=marker, s=22, linewidths=0.9, label=f"y = {y:+d}, s = {s}", **edge
                )
        part = table[(table.phi == phi) & (table.data == table.data.min())].sort_values("c", ascending=False)
        for colour, row in zip(["black", *shades(len(part) - 1)], part.to_dict("records"), strict=True):
            free = row["c"] == FREE
            named = "no constraint" if free else f"c = {row['c']:g}"
            style = {"linestyle": "-" if free else (0, (4, 2)), "linewidth": 2.4 if free else 1.6, "color": colour}
            across, along = _line(row["x0"], row["x1"], row["x2"])
            worth = f"{named}: p {row['p']:.2f}, acc. {row['accuracy']:.2f}"
            axis.plot(across, along, label=worth, **style)
        axis.set(xlim=(-10, 10), ylim=(-8, 8))
        label(axis, f"({letter}) $\\varphi = \\pi/{phi[-1]}$", "$x_1$", "$x_2$")
        axis.legend(loc="upper center", bbox_to_anchor=(0.5, -0.12), ncols=2, frameon=False, fontsize=8)
    return figure


def _line(a: float, b: float, offset: float) -> tuple[np.ndarray, np.ndarray]:
    """Two far points of the line a u + b v + offset = 0, whichever way it runs."""
    normal = np.array([a, b]) / np.hypot(a, b)
    foot, direction = -offset / np.hypot(a, b) * normal, np.array([-normal[1], normal[0]])
    ends = np.stack([foot - 30 * direction, foot + 30 * direction])
    return ends[:, 0], ends[:, 1]


FIGURE = Figure("CSOA on synthetic data: convergence, trade-off, decision boundaries", units, report)
