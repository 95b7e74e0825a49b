"""How fast, and on which side of the constraints: CSOA and FW-CSOA on problems with exact solutions.

Run as `python -m studies.rates`; writes docs/rates.md and docs/rates.png.
"""

import argparse
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

import tightrope as tr
from studies.page import markdown
from tightrope.lab.leaderboard import slope
from tightrope.plotting import new_figure
from tightrope.problems import EXACT, Solved


class Case(NamedTuple):
    """A method with coefficients, and what is claimed of it."""

    method: tr.Method
    slope: float  # gap and exact penalty must fall at least this steeply; a run that violates constraints has no gap
    feasible: bool  # whether the average violation must be <= 0 (or, where False, must be > 0)
    colour: str


# eta0 of the paper's schedule is larger than the paper's 0.68: the violation to be covered by the tightening is about
# lambda*/(eta0 T^1/4), which for 0.68 exceeds half the Slater margin of two of these problems at a thousand steps.
CASES = {
    "CSOA": Case(tr.CSOA(upsilon0=2.0), -0.4, True, "#0072B2"),
    "CSOA, upsilon = 0": Case(tr.CSOA(upsilon0=0.0), -0.4, False, "#56B4E9"),
    "FW-CSOA paper": Case(tr.FWCSOA("paper", eta0=2.0, upsilon0=0.7), -0.15, True, "#E69F00"),
    "FW-CSOA two_scale": Case(tr.FWCSOA("two_scale", upsilon0=0.5), -0.2, True, "#D55E00"),
    "FW-CSOA sqrt": Case(tr.FWCSOA("sqrt", upsilon0=2.0), -0.2, True, "#009E73"),
}
HORIZONS = (1_000, 3_162, 10_000, 31_623, 100_000)


def measure(
    problems: Iterable[str], cases: Iterable[str], horizons: Sequence[int], seeds: Iterable[int]
) -> pd.DataFrame:
    """A row per problem, case, horizon and seed: mean gap, mean H_i and mean multipliers along the run."""
    seeds, tables = list(seeds), []
    for name in problems:
        solved = EXACT[name]()
        for case in cases:
            for steps in horizons:
                table = tr.sweep(
                    solved.problem, solved.samples, CASES[case].method, steps=steps, seeds=seeds, track=solved.track
                )
                table = table.rename(columns={"F - F*": "gap"})
                tables.append(table.assign(problem=name, case=case))
                print(f"{name:8}  {case:18}  T = {steps:>7,}  gap {table.gap.mean():+.5f}", flush=True)
    return pd.concat(tables, ignore_index=True)


def summarise(table: pd.DataFrame) -> pd.DataFrame:
    """A row per problem and case: the fitted slope with a bootstrap interval, the violation, the error of the dual."""
    rows = []
    for (name, case), part in table.groupby(["problem", "case"], sort=False):
        solved = EXACT[str(name)]()
        gaps = part.pivot(index="seed", columns="step", values="gap")
        feasible = CASES[str(case)].feasible
        fitted, low, high = slope(gaps, draws=500) if feasible else (np.nan,) * 3
        part = part.assign(**quantities(part, solved))
        penalty, lagrangian = (
            slope(part.pivot(index="seed", columns="step", values=name), draws=500)
            for name in ("penalty", "lagrangian")
        )
        price = prices(CASES[str(case)].method, solved, list(map(int, gaps.columns))) / gaps.mean()
        values = violations(part, solved)
        dual = part[part.step == part.step.max()][[f"dual h[{i}]" for i in range(len(solved.dual))]].mean()
        rows.append(
            {
                "problem": name,
                "case": case,
                "gap at smallest T": gaps.iloc[:, 0].mean(),
                "gap at largest T": gaps.iloc[:, -1].mean(),
                "penalty slope": penalty[0],
                "penalty low": penalty[1],
                "penalty high": penalty[2],
                "lagrangian slope": lagrangian[0],
                "price at smallest T": price.iloc[0],
                "price at largest T": price.iloc[-1],
                "slope": fitted,
                "slope low": low,
                "slope high": high,
                "violation high": (values["mean"] - values["half width"]).max(),
                "violation low": (values["mean"] - values["half width"]).min(),
                "violation at largest T": values["mean"].iloc[-1],
                "half width": values["half width"].iloc[-1],
                "dual error": float(np.abs(dual.to_numpy() - solved.dual).max()),
            }
        )
    return pd.DataFrame(rows)


def quantities(part: pd.DataFrame, solved: Solved) -> dict[str, Any]:
    """Of every run, the exact penalty, F - F* + (1 + |dual*|_1) max_i [H_i]_+, and the Lagrangian gap, F - F* + <dual*, H>,
    from the means of F and H along it."""
    values = part[[f"H{i}" for i in range(len(solved.dual))]]
    return {
        "penalty": part.gap + (1 + np.abs(solved.dual).sum()) * values.max(axis=1).clip(lower=0),
        "lagrangian": part.gap + values @ np.asarray(solved.dual),
    }


def prices(method: tr.Method, solved: Solved, horizons: list[int]) -> "pd.Series[float]":
    """What the margin alone costs to first order, <dual*, upsilon>, at every horizon."""
    return pd.Series([float(solved.dual.sum()) * method.steps.tightening(steps) for steps in horizons], horizons)


def violations(part: pd.DataFrame, solved: Solved) -> pd.DataFrame:
    """The worst constraint's mean over seeds at each horizon, with the half width of its 95 % interval."""
    rows = []
    for step, runs in part.groupby("step"):
        values = runs[[f"H{i}" for i in range(len(solved.dual))]]
        half = 1.96 * values.std() / np.sqrt(len(values))
        worst = str(values.mean().idxmax())
        rows.append({"step": step, "mean": values.mean()[worst], "half width": half[worst]})
    return pd.DataFrame(rows)


def claims(table: pd.DataFrame) -> pd.DataFrame:
    """Every claim as a sentence with its verdict."""
    rows = []
    for row in summarise(table).to_dict("records"):
        case, where = CASES[row["case"]], f"{row['case']} on {row['problem']}"
        if case.feasible:
            said = (
                f"{where}: slope {row['slope']:.2f} [{row['slope low']:.2f}, {row['slope high']:.2f}] <= {case.slope}"
            )
            rows.append((said, row["slope"] <= case.slope))
        interval = f"[{row['penalty low']:.2f}, {row['penalty high']:.2f}]"
        said = f"{where}: slope of the exact penalty {row['penalty slope']:.2f} {interval} <= {case.slope}"
        rows.append((said, row["penalty slope"] <= case.slope))
        if case.feasible:
            rows.append(
                (f"{where}: mean violation <= 0 within its 95 % interval at every T", row["violation high"] <= 0)
            )
        else:
            rows.append((f"{where}: mean violation significantly > 0 at every T", row["violation low"] > 0))
        rows.append(
            (f"{where}: multipliers within 0.05 of the exact ones ({row['dual error']:.3f})", row["dual error"] < 0.05)
        )
    return pd.DataFrame(rows, columns=["claim", "holds"])


def draw(table: pd.DataFrame, path: Path) -> None:
    """Gap and violation against T, a column per problem."""
    names = list(dict.fromkeys(table.problem))
    figure, axes = new_figure(columns=len(names), rows=2, size=(4.0, 3.2))
    for column, name in enumerate(names):
        solved, (top, bottom) = EXACT[name](), axes[:, column]
        for label, case in CASES.items():
            part = table[(table.problem == name) & (table.case == label)]
            gaps = part.groupby("step").gap.agg(["mean", "sem"])
            if case.feasible:  # the gap of a run that violates its constraints means nothing
                half = 1.96 * gaps["sem"]
                top.plot(gaps.index, gaps["mean"], color=case.colour, marker="o", markersize=3, label=label)
                top.fill_between(gaps.index, gaps["mean"] - half, gaps["mean"] + half, color=case.colour, alpha=0.2)
            values = violations(part, solved).set_index("step")
            middle, half = values["mean"], values["half width"]
            bottom.plot(middle.index, middle, color=case.colour, marker="o", markersize=3, label=label)
            bottom.fill_between(middle.index, middle - half, middle + half, color=case.colour, alpha=0.2)
        top.set(xscale="log", yscale="log", title=name)
        bottom.set(xscale="log", xlabel="steps T")
        bottom.axhline(0, color="black", linewidth=0.8)
    axes[0, 0].set_ylabel("mean of F(x_t) - F*")
    axes[1, 0].set_ylabel("worst mean of H_i(x_t)")
    axes[1, 0].legend(frameon=False, fontsize=7)
    figure.savefig(path)


def report(table: pd.DataFrame) -> str:
    """The page docs/rates.md."""
    seeds, horizons = table.seed.nunique(), sorted(table.step.unique())
    heads = (
        "problem",
        "method",
        "gap, smallest T",
        "gap, largest T",
        "slope",
        "of the exact penalty",
        "of the Lagrangian gap",
        "margin's share",
        "violation, largest T",
        "error of the dual",
    )
    rows = []
    for row in summarise(table).to_dict("records"):
        gaps = f"{row['gap at smallest T']:.4f}", f"{row['gap at largest T']:.4f}"
        interval = f"{row['slope']:.2f} [{row['slope low']:.2f}, {row['slope high']:.2f}]"
        penalty = f"{row['penalty slope']:.2f} [{row['penalty low']:.2f}, {row['penalty high']:.2f}]"
        share = f"{row['price at smallest T']:.0%} to {row['price at largest T']:.0%}"
        fitted, share = ("-", "-") if np.isnan(row["slope"]) else (interval, share)
        slopes = fitted, penalty, f"{row['lagrangian slope']:.2f}", share
        violation = f"{row['violation at largest T']:+.5f} ± {row['half width']:.5f}"
        rows.append((row["problem"], row["case"], *gaps, *slopes, violation, f"{row['dual error']:.3f}"))
    lines = [
        "# Measured rates",
        "",
        f"Written by `make verify`: {seeds} seeds, T from {horizons[0]:,} to {horizons[-1]:,}, on the problems with exact",
        "solutions of `tightrope.problems.EXACT`, all with noise in gradients and values. The gap is the mean over the run",
        "of F(x_t) - F*, F free of noise; the violation is the mean of H_i(x_t) for the worst i; both are means over",
        "seeds, the intervals are at 95 % (bootstrap over seeds for slopes). The gap of a run that violates its",
        "constraints means nothing, so no slope is fitted there. The tightening upsilon is at most half the Slater margin",
        "at the smallest T.",
        "",
        "Three quantities, because each sees something else. **The gap** is of first order, and most of it is the price of",
        'the margin, <dual*, upsilon> to first order: the column "margin\'s share" says how much, at the smallest and at',
        "the largest T (more than all, where a run without the margin would end below F*). Where that is nearly all, the",
        "slope is that of upsilon, T^-1/2 or T^-1/4, which was chosen and not found; what such a slope shows is that",
        "nothing slower is left beside it. **The exact penalty**, F - F* + (1 +",
        "|dual*|_1) max_i [H_i]_+ of the means along each run, cannot be made small by violating constraints, so it has a",
        "slope without a margin as well: there it is the rate of the method itself. **The Lagrangian gap**, F - F* +",
        "<dual*, H>, is free of the price, and of second order in the distance to the solution where there is curvature: it",
        "falls faster than theorems promise, and a test of it could hardly fail.",
        "",
        f"{len(horizons)} horizons and {seeds} seeds give a slope of the gap to within {_precision(table):.2f} (the largest",
        "half width of its intervals), so an exponent is told from one that is 0.1 smaller; whether the rate at",
        "infinity is the same, or has a logarithm in it, so few decades cannot show.",
        "",
        "![gap and violation against T](rates.png)",
        "",
        *markdown(heads, rows),
        "",
        "## Claims",
        "",
        *(f"- {'holds' if row.holds else '**does not hold**'}: {row.claim}" for row in claims(table).itertuples()),
    ]
    return "\n".join(lines) + "\n"


def _precision(table: pd.DataFrame) -> float:
    fitted = summarise(table)
    return float(((fitted["slope high"] - fitted["slope low"]) / 2).max())


def main() -> None:
    """Measure, write, and fail when a claim does."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=50)
    parser.add_argument("--out", type=Path, default=Path("docs"))
    options = parser.parse_args()
    table = measure(EXACT, CASES, HORIZONS, range(options.seeds))
    options.out.mkdir(parents=True, exist_ok=True)
    draw(table, options.out / "rates.png")
    (options.out / "rates.md").write_text(report(table))
    verdicts = claims(table)
    print(f"\n{int(verdicts.holds.sum())} of {len(verdicts)} claims hold; see {options.out / 'rates.md'}")
    if not verdicts.holds.all():
        raise SystemExit("\n".join(verdicts[~verdicts.holds].claim))


if __name__ == "__main__":
    main()
