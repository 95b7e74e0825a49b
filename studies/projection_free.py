"""Split-CSOA on every problem with a known solution: how fast, on which side of the constraints, and within its theorems?

Run as `python -m studies.projection_free`; writes the tables at the end of docs/projection_free.md and its pictures. What
was measured is kept under out/projection_free, a file for each unit, and not measured again; `--unit` measures one.
"""

import argparse
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
import pandas as pd

import tightrope as tr
from studies.defaults import violation
from studies.page import markdown
from studies.theory import affordable, few, known
from tightrope.lab.leaderboard import slope
from tightrope.plotting import new_figure
from tightrope.problems import EXACT, PROBLEMS
from tightrope.theory import Constants, Rule
from tightrope.tree import astype

HORIZONS = (1_000, 3_162, 10_000, 31_623, 100_000)
LONG = (1_000_000,)
LONG_ON = ("l1-lp", "simplex")
NAMED = "simplex"  # where the violation of a run without a margin must be seen, both of its constraints being active
STEEP = -0.45
LIMIT = 7_000_000  # steps; a tenth of them for matrices
CHANCE = 0.05
HEADING = "## Measured"


class Case(NamedTuple):
    """A method, and on which problems it runs."""

    method: tr.Method
    everywhere: bool
    colour: str


CASES = {
    "Split-CSOA": Case(tr.SplitCSOA(), True, "#D55E00"),
    "Split-CSOA, no margin": Case(tr.SplitCSOA(upsilon0=0.0, kappa0=1.0, gamma0=1.0), False, "#CC79A7"),
    "FW-CSOA": Case(tr.FWCSOA(), True, "#0072B2"),
    "FW-CSOA sqrt": Case(tr.FWCSOA("sqrt"), False, "#56B4E9"),
    "FW-CSOA two_scale": Case(tr.FWCSOA("two_scale"), False, "#009E73"),
    "FW-CSOA paper": Case(tr.FWCSOA("paper", eta0=2.0, upsilon0=0.7), False, "#E69F00"),
}
FEASIBLE = tuple(name for name, make in PROBLEMS.items() if make().feasible and make().problem.domain.has_lmo)

# ---- runs --------------------------------------------------------------------------------------------------------------


def outputs(name: str, method: tr.Method, T: int, seeds: Iterable[int]) -> tuple[np.ndarray, np.ndarray]:
    """F - F* and H at the output of each run; run as users do, judged in float64."""
    solved = PROBLEMS[name]()
    table = tr.sweep(solved.problem, solved.samples, method, steps=T, seeds=seeds, points=True, progress=False)
    with jax.enable_x64(True):
        points = [astype(x, np.float64) for x in table["x"]]
        gaps = np.array([float(solved.objective(x)) for x in points]) - solved.optimum
        return gaps, np.array([np.asarray(solved.constraints(x)) for x in points])


def rows_of(name: str, case: str, T: int, seeds: Iterable[int]) -> list[dict[str, Any]]:
    """A row per seed."""
    seeds = list(seeds)
    gaps, H = outputs(name, CASES[case].method, T, seeds)
    values = [{f"H{i}": v for i, v in enumerate(row)} for row in H]
    return [
        {"problem": name, "case": case, "T": T, "seed": s, "gap": g} | v
        for s, g, v in zip(seeds, gaps, values, strict=True)
    ]


def slopes(table: pd.DataFrame) -> pd.DataFrame:
    """A row per problem and case: gaps at the ends, the slope, and the worst violation over horizons."""
    rows = []
    for (name, case), part in table.groupby(["problem", "case"], sort=False):
        gaps = part[part["T"] <= HORIZONS[-1]].pivot(index="seed", columns="T", values="gap").abs()
        fitted, low, high = slope(gaps, draws=500)
        seen = {T: violation(_H(part[part["T"] == T], str(name))) for T in sorted(set(part["T"]))}
        worst = max(seen, key=lambda T: seen[T]["z"])
        rows.append(
            {"problem": name, "case": case, "slope": fitted, "low": low, "high": high}
            | {T: part[part["T"] == T]["gap"].abs().mean() for T in seen}
            | {"worst T": worst, "H": seen[worst]["H"], "half": seen[worst]["half"]}
            | {"violated": sum(v["violated"] for v in seen.values()), "positive": _all_above(part, str(name))}
        )
    return pd.DataFrame(rows)


def _H(runs: pd.DataFrame, name: str) -> np.ndarray:
    return runs[[f"H{i}" for i in range(len(PROBLEMS[name]().dual))]].to_numpy(float)


def _all_above(part: pd.DataFrame, name: str) -> bool:
    """Whether some constraint is significantly above zero at every T."""
    return all(violation(_H(runs, name))["violated"] > 0 for _, runs in part.groupby("T"))


# ---- theorems ----------------------------------------------------------------------------------------------------------


def reach_of(domain: tr.ConvexSet) -> float:
    """How far a point of the enclosing set can be from the set, at most: balls are around points of the set."""
    if isinstance(domain, tr.Product):
        return float(np.linalg.norm([reach_of(s) for s in jax.tree.leaves(domain.sets, is_leaf=_is_set)]))
    if isinstance(domain, tr.Box | tr.L2Ball | tr.LinfBall):
        return 0.0
    return float(domain.enclosing().diameter) / 2


def _is_set(part: Any) -> bool:
    return isinstance(part, tr.ConvexSet)


@lru_cache
def known_around(name: str) -> tuple[Constants, float]:
    """The constants of a problem on the enclosing set, and its diameter."""
    domain = PROBLEMS[name]().problem.domain
    linear = (
        {"L_f": 0.0, "L_h": 0.0} if name == "portfolio" else {}
    )  # piecewise linear: its slopes are bounded everywhere
    return known(name).around(reach_of(domain), **linear), float(domain.enclosing().diameter)


def at_smallest(name: str, p: float | None = None) -> Rule:
    """The rule at the smallest T at which it holds: in expectation, or for a run with probability 1 - p."""
    k, D_Y = known_around(name)
    if p is None:
        return tr.theory.split_csoa(k, int(tr.theory.split_csoa(k, 1, D_Y).smallest), D_Y)
    k = k.light_tailed()
    return tr.theory.split_csoa_one_run(k, int(tr.theory.split_csoa_one_run(k, 1, p, D_Y).smallest), p, D_Y)


def theorem(name: str) -> list[dict[str, Any]]:
    """The theorem in expectation beside runs at its smallest T; one row without runs where that is too long."""
    rule = at_smallest(name)
    row = {"problem": name, "T": rule.T, "predicted": rule.gap, "margin": rule.margin}
    if affordable(name, LIMIT) < rule.T:
        return [row | {"seeds": 0}]
    seeds = few(20, rule.T)
    gaps, H = outputs(name, rule.method, rule.T, range(seeds))
    worst = violation(H)
    half = 1.96 * gaps.std(ddof=1) / np.sqrt(seeds)
    return [row | {"seeds": seeds, "gap": gaps.mean(), "gap half": half, "H": worst["H"], "half": worst["half"]}]


def one_run(name: str, runs: int = 1_000) -> list[dict[str, Any]]:
    """The theorem on one run beside a thousand runs at its smallest T."""
    rule = at_smallest(name, CHANCE)
    gaps, H = outputs(name, rule.method, rule.T, range(runs))
    worst = H.max(axis=1)
    quantile, failed = 1 - CHANCE, np.mean((gaps > rule.gap) | (worst > 0))
    found = {"gap": np.quantile(gaps, quantile), "largest gap": gaps.max(), "H": np.quantile(worst, quantile)}
    row = {"problem": name, "T": rule.T, "runs": runs, "predicted": rule.gap, "margin": rule.margin}
    return [row | found | {"largest H": worst.max(), "failed": failed}]


# ---- units -------------------------------------------------------------------------------------------------------------


def units() -> list[str]:
    """Everything that is measured, piece by piece: "kind/problem/case"."""
    everywhere = [f"slopes/{name}/{case}" for name in FEASIBLE for case in CASES if CASES[case].everywhere]
    exact = [f"slopes/{name}/{case}" for name in EXACT for case in CASES if not CASES[case].everywhere]
    long = [f"long/{name}/Split-CSOA" for name in LONG_ON]
    return [*everywhere, *exact, *long, *(f"theorem/{name}" for name in FEASIBLE), "one run/scalar", "one run/l1-lp"]


def measured(unit: str, seeds: int, folder: Path) -> pd.DataFrame:
    """A unit: read where it was measured before."""
    file = folder / f"{unit.replace('/', '--').replace(' ', '_')}.csv"
    if file.exists():
        return pd.read_csv(file)
    kind, name, *case = unit.split("/")
    if kind in ("slopes", "long"):
        horizons = HORIZONS if kind == "slopes" else LONG
        table = pd.DataFrame([row for T in horizons for row in rows_of(name, case[0], T, range(seeds))])
    else:
        table = pd.DataFrame(theorem(name) if kind == "theorem" else one_run(name))
    folder.mkdir(parents=True, exist_ok=True)
    table.to_csv(file, index=False)
    print(unit, flush=True)
    return table


def collected(kind: str, seeds: int, folder: Path) -> pd.DataFrame:
    """All units of a kind."""
    return pd.concat([measured(u, seeds, folder) for u in units() if u.split("/")[0] == kind], ignore_index=True)


# ---- the page ----------------------------------------------------------------------------------------------------------


def claims(rates: pd.DataFrame, theorems: pd.DataFrame, runs: pd.DataFrame) -> list[tuple[str, bool]]:
    """Every claim as a sentence with its verdict."""
    said = []
    for r in rates[rates["case"] == "Split-CSOA"].to_dict("records"):
        said.append((f"{r['problem']}: slope {r['slope']:.2f} <= {STEEP}", bool(r["slope"] <= STEEP)))
        said.append((f"{r['problem']}: no constraint is significantly above zero at any T", r["violated"] == 0))
    bare = rates[(rates["case"] == "Split-CSOA, no margin") & (rates["problem"] == NAMED)]
    said.append(
        (
            f"{NAMED}: without a margin the violation is significantly above zero at every T",
            bool(bare["positive"].all()),
        )
    )
    for r in theorems[theorems["seeds"] > 0].to_dict("records"):
        within = r["gap"] - r["gap half"] <= r["predicted"] and r["H"] - r["half"] <= 0
        said.append((f"{r['problem']}: gap and violation are within the theorem at T = {r['T']:,}", bool(within)))
    for r in runs.to_dict("records"):
        within = r["gap"] <= r["predicted"] and r["H"] <= 0
        said.append(
            (
                f"{r['problem']}: the 95 % quantiles of {r['runs']:,} runs are within the theorem on one run",
                bool(within),
            )
        )
    return said


def draw(table: pd.DataFrame, path: Path) -> None:
    """The gap against T, a panel for each exact problem."""
    figure, axes = new_figure(columns=len(EXACT), rows=1, size=(3.4, 3.0))
    for axis, name in zip(axes[0], EXACT, strict=True):
        for label, case in CASES.items():
            part = table[(table.problem == name) & (table.case == label)].assign(gap=lambda t: t.gap.abs())
            gaps = part.groupby("T").gap.agg(["mean", "sem"])
            if label != "Split-CSOA, no margin":  # its gap means nothing, for it violates
                axis.plot(gaps.index, gaps["mean"], color=case.colour, marker="o", markersize=3, label=label)
                low, high = gaps["mean"] - 1.96 * gaps["sem"], gaps["mean"] + 1.96 * gaps["sem"]
                axis.fill_between(gaps.index, low, high, color=case.colour, alpha=0.2)
        first = axis.get_ylim()[1]
        axis.plot(
            HORIZONS, [first * (T / HORIZONS[0]) ** -0.5 for T in HORIZONS], color="black", linestyle=":", linewidth=1
        )
        axis.set(xscale="log", yscale="log", title=name, xlabel="steps T")
    axes[0, 0].set_ylabel("mean of |F(x) - F*|")
    axes[0, -1].legend(frameon=False, fontsize=6)
    figure.savefig(path)


def draw_runs(runs: pd.DataFrame, path: Path) -> None:
    """What is proven of one run beside what a thousand of them did."""
    figure, axes = new_figure(columns=1, rows=1, size=(4.6, 2.6))
    axis, places = axes[0, 0], np.arange(len(runs))
    axis.bar(places - 0.2, runs["predicted"], 0.35, color="#999999", label="bound on the gap, with probability 0.95")
    axis.bar(places + 0.2, runs["gap"], 0.35, color="#D55E00", label="95 % quantile of the gap over 1,000 runs")
    axis.set_xticks(places, [f"{r.problem}, T = {r.T:,}" for r in runs.itertuples()])
    axis.set_ylim(0, 1.45 * runs["predicted"].max())
    axis.legend(frameon=False, fontsize=7)
    figure.savefig(path)


def report(table: pd.DataFrame, rates: pd.DataFrame, theorems: pd.DataFrame, runs: pd.DataFrame) -> str:
    """The part of the page that this study writes."""

    def number(v: Any) -> str:
        return "" if pd.isna(v) else f"{v:.2g}"

    ends = (HORIZONS[0], HORIZONS[2], HORIZONS[-1], *LONG)
    first = [
        (
            r["problem"], r["case"], *(number(r.get(T)) for T in ends),
            f"{r['slope']:.2f} [{r['low']:.2f}, {r['high']:.2f}]",
            f"{r['H']:+.2g} ± {r['half']:.1g} (T = {r['worst T']:,})", r["violated"],
        )
        for r in rates.to_dict("records")
    ]  # fmt: skip
    second = [
        (r["problem"], f"{r['T']:,}", r["seeds"], f"{r['predicted']:.3g}", f"{r['gap']:+.4f} ± {r['gap half']:.4f}",
         f"{r['margin']:.3g}", f"{r['H']:+.4f} ± {r['half']:.4f}")
        for r in theorems[theorems["seeds"] > 0].to_dict("records")
    ]  # fmt: skip
    away = [f"{r['problem']} ({r['T']:.1e})" for r in theorems[theorems["seeds"] == 0].to_dict("records")]
    third = [
        (r["problem"], f"{r['T']:,}", f"{r['predicted']:.3g}", f"{r['gap']:.3g}", f"{r['largest gap']:.3g}",
         f"{r['margin']:.3g}", f"{r['H']:+.3g}", f"{r['largest H']:+.3g}", f"{r['failed']:.1%}")
        for r in runs.to_dict("records")
    ]  # fmt: skip
    lines = [
        HEADING,
        "",
        f"Written by `python -m studies.projection_free`: {table.seed.nunique()} seeds, one sample a step, float32 as",
        "users have it, on the problems of [known solutions](problems.md). The gap is the mean over seeds of |F(x) - F\\*|",
        "at the output, F free of noise; the slope is that of its logarithm over T = 1,000 to 100,000, with a bootstrap",
        "interval. H is the mean over seeds of the constraint, and at the T, where it is most significantly above zero,",
        "with half of its 95 % interval; the last column counts constraints and horizons whose interval lies above zero.",
        "Split-CSOA and FW-CSOA without more words are the methods without coefficients; the dotted line falls as T^-1/2.",
        "",
        "![gap against T](projection_free.png)",
        "",
        *markdown(("problem", "method", *(f"gap, {T:,}" for T in ends), "slope", "most significant H", "above zero"), first),
        "",
        "### The theorem in expectation",
        "",
        "At the smallest T at which its condition holds, with the constants of each problem on the enclosing set; means",
        "over seeds at the output, with 95 % intervals. The smallest T is too long to run on "
        + (", ".join(away) or "none")
        + "; in brackets the T that it would take.",
        "",
        *markdown(("problem", "T", "seeds", "predicted gap", "gap", "margin", "worst H_i"), second),
        "",
        "### The theorem on one run",
        "",
        f"1,000 runs at the smallest T of its condition, p = {CHANCE}. Runs that failed had a gap above the bound or",
        "violated a constraint; the theorem allows 5 %.",
        "",
        "![bound and quantile](projection_free_one_run.png)",
        "",
        *markdown(
            ("problem", "T", "bound on the gap", "95 % quantile", "largest", "margin", "95 % quantile of H", "largest H",
             "failed"),
            third,
        ),
        "",
        "### Claims",
        "",
        *(f"- {'holds' if ok else '**does not hold**'}: {said}" for said, ok in claims(rates, theorems, runs)),
    ]  # fmt: skip
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure, write, and fail when a claim does."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=50)
    parser.add_argument("--out", type=Path, default=Path("docs"))
    parser.add_argument("--parts", type=Path, default=Path("out/projection_free"))
    parser.add_argument("--unit", help="measure this one alone")
    parser.add_argument("--list", action="store_true", help="say what the units are")
    options = parser.parse_args()
    if options.list:
        print("\n".join(units()))
        return
    if options.unit:
        measured(options.unit, options.seeds, options.parts)
        return
    table = pd.concat([collected(kind, options.seeds, options.parts) for kind in ("slopes", "long")], ignore_index=True)
    theorems, runs = (collected(kind, options.seeds, options.parts) for kind in ("theorem", "one run"))
    rates = slopes(table)
    draw(table, options.out / "projection_free.png")
    draw_runs(runs, options.out / "projection_free_one_run.png")
    page = options.out / "projection_free.md"
    text = page.read_text() if page.exists() else ""
    page.write_text(text.partition(HEADING)[0] + report(table, rates, theorems, runs))
    verdicts = claims(rates, theorems, runs)
    print(f"\n{sum(ok for _, ok in verdicts)} of {len(verdicts)} claims hold; see {page}")
    if not all(ok for _, ok in verdicts):
        raise SystemExit("\n".join(said for said, ok in verdicts if not ok))


if __name__ == "__main__":
    main()
