"""Nested problems: how fast is CSCGD, on which side of the constraints, how biased is what ignores the nesting, and are the
answers on rows those of another solver?

Run as `python -m studies.nested`; writes the tables at the end of docs/nested.md.
"""

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pandas as pd

import tightrope as tr
from studies.defaults import violation
from studies.page import markdown
from tightrope.lab.leaderboard import slope
from tightrope.problems import NESTED, Solved

HORIZONS = (1_000, 10_000, 100_000)
SEEDS = range(0, 100, 2)
STEEP = -0.2
NAMED = "ratio"  # where the violation of a run without a margin must be seen
BIASED = ("variance", "entropic")
BATCHES = (2, 8, 32)
METHODS = ("sqp", "bundle", "svrg-csoa")  # for data at hand
STREAMS = ("variance", "entropic", "ratio")  # whose only constraint is a function of means
COVERED = range(0, 400, 2)
SAMPLES = 160_000
HEADING = "## Measured"
STRANGERS = "## Problems that nothing was chosen on"  # by studies/nested_strangers.py, once
CASES = {
    "published": tr.CSCGD(upsilon0=0.5),
    "no margin": tr.CSCGD(upsilon0=0.0),
    "measured": tr.CSCGD(schedule="measured"),
}

# ---- rates and sides -------------------------------------------------------------------------------------------------


def along_runs(name: str, case: str, T: int, seeds: Iterable[int]) -> pd.DataFrame:
    """A row per seed: the means of F(x_t) - F* and H(x_t) over a run, weighted as its output is."""
    solved = NESTED[name]()
    options: dict[str, Any] = {"steps": T, "seeds": seeds, "track": solved.track, "progress": False}
    table = tr.sweep(solved.problem, solved.samples, CASES[case], **options).rename(columns={"F - F*": "gap"})
    return table[["seed", "gap", "H0"]].assign(problem=name, case=case, T=T)


def rates(horizons: Iterable[int] = HORIZONS, seeds: Iterable[int] = SEEDS) -> pd.DataFrame:
    """A row per problem and case: gaps at the ends, the slope, and the violation over horizons where it is most certain."""
    rows = []
    for name in NESTED:
        for case in CASES:
            runs = pd.concat([along_runs(name, case, T, seeds) for T in horizons])
            fitted, low, high = slope(runs.pivot(index="seed", columns="T", values="gap"), draws=500)
            seen = {T: violation(part[["H0"]].to_numpy(float)) for T, part in runs.groupby("T")}
            worst = max(seen, key=lambda T: seen[T]["z"])
            gaps = runs.groupby("T")["gap"].mean()
            rows.append(
                {"problem": name, "case": case, "first": gaps.iloc[0], "last": gaps.iloc[-1]}
                | {
                    "slope": fitted,
                    "low": low,
                    "high": high,
                    "T": worst,
                    "H": seen[worst]["H"],
                    "half": seen[worst]["half"],
                }
                | {"always above": all(v["violated"] for v in seen.values())}
            )
            print(rows[-1], flush=True)
    return pd.DataFrame(rows)


# ---- the bias of a plain treatment -----------------------------------------------------------------------------------


def batch_by_batch(solved: Solved, size: int) -> tuple[tr.Problem, tr.Generator]:
    """The plain problem whose samples are batches, each with its own mean inside: what one would write without nesting."""
    nested = solved.problem

    def draw(key):
        return jax.vmap(solved.samples.fn)(jax.random.split(key, size))

    def f(x, batch):
        return nested.values(x, batch)[0]

    def h(x, batch):
        return nested.values(x, batch)[1]

    return tr.Problem(f, h, nested.domain), tr.Generator(draw)


def bias(seeds: Iterable[int] = range(0, 20, 2), samples: int = SAMPLES) -> pd.DataFrame:
    """H at the outputs, in the mean over seeds: CSOA batch by batch, and CSCGD, on as many samples."""
    rows = []
    for name in BIASED:
        solved = NESTED[name]()
        ways: dict[str, tuple[Any, ...]] = {
            f"CSOA, batches of {b}": (*batch_by_batch(solved, b), tr.CSOA(), samples // b) for b in BATCHES
        }
        ways["CSCGD"] = solved.problem, solved.samples, CASES["measured"], samples // 2
        for way, (problem, data, method, steps) in ways.items():
            runs = tr.sweep(problem, data, method, steps=steps, seeds=seeds, points=True, progress=False)
            H = np.array([np.asarray(solved.constraints(x)) for x in runs["x"]])
            rows.append(
                {"problem": name, "way": way, "steps": steps, "level": float(np.ravel(solved.problem.levels)[0])}
            )
            rows[-1] |= violation(H)
            print(rows[-1], flush=True)
    return pd.DataFrame(rows)


# ---- data at hand, and another solver ---------------------------------------------------------------------------------


def by_cvxpy(name: str, rows: dict[str, np.ndarray]) -> float:
    """The optimum on these rows by cvxpy, from formulas of its own."""
    import cvxpy as cp

    solved, x = NESTED[name](), cp.Variable(3)
    level, n = float(np.ravel(solved.problem.levels)[0]), len(next(iter(rows.values())))
    ball = [cp.norm(x) <= (5.0 if name == "conditional" else 2.0)]
    if name == "variance":
        root = np.array([[0.8, 0, 0], [0.3, 0.6, 0], [0, -0.2, 0.5]])
        gains = np.array([0.5, 0.3, -0.2]) + rows["z"] @ root.T
        value, h = -gains.mean(axis=0) @ x, cp.sum_squares((gains - gains.mean(axis=0)) @ x) / n - level
    elif name == "entropic":
        risk = cp.log_sum_exp((np.array([0.2, 0.1, -0.2]) + rows["z"] / 2) @ x) - np.log(n)
        value = cp.sum_squares(x - np.array([1.0, 0.5, 0.2])) / 2 + rows["g"].mean(axis=0) @ x / 2
        h = risk - level
    elif name == "ratio":
        theta, w = np.array([0.3, -0.2, 0.1]) + rows["z"] / 2, np.exp(rows["z"] @ [0.6, 0.4, 0.0])
        centre, spread = np.average(theta, axis=0, weights=w), np.average(np.sum(theta**2, axis=1), weights=w) / 2
        value = (np.array([0.6, 0.0, -0.8]) + rows["g"].mean(axis=0) / 2) @ x
        h = cp.sum_squares(x) / 2 - centre @ x + spread - level
    elif name == "robust":
        value = cp.log_sum_exp((np.array([0.2, 0.1, -0.2]) + rows["z"] / 2) @ x) - np.log(n)
        h = 1 - (np.array([0.8, 0.6, 0.3]) + rows["b"].mean(axis=0) / 2) @ x
    else:
        y = rows["y"] > 0
        value = cp.sum(cp.logistic(-rows["a"][y] @ x)) / y.sum()
        h = cp.sum(cp.logistic(rows["a"][~y] @ x)) / (~y).sum() - level
    programme = cp.Problem(cp.Minimize(value), [*ball, h <= 0])
    accuracy = dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), 1e-9)
    programme.solve(solver=cp.CLARABEL, **accuracy)
    return float(programme.value)  # pyright: ignore[reportArgumentType]


def on_rows(name: str, method: str = "auto", n: int = 500, seed: int = 0) -> dict[str, Any]:
    """What `minimize` finds on rows beside cvxpy, in float64."""
    with jax.enable_x64(True):
        solved = NESTED[name]()
        rows = solved.rows(n, seed) if solved.table is None else solved.table
        result = tr.minimize(
            solved.problem, rows, method=method, tol=1e-8, passes=400, output="feasible", progress=False
        )
        assert result.objective is not None
        best = by_cvxpy(name, rows)
        return {
            "problem": name,
            "method": result.method.name,
            "passes": result.cost.gradients / len(next(iter(rows.values()))),
            "relative gap": (result.objective - best) / abs(best),
            "H": float(np.max(result.constraints)),
        }


# ---- certificates ----------------------------------------------------------------------------------------------------


def coverage(name: str, n: int, seeds: Iterable[int] = COVERED, confidence: float = 0.95) -> dict[str, Any]:
    """How often the bound of `certify` at the optimum, where H is zero, is above it; and 95 % limits on that rate."""
    from scipy.stats import beta

    solved = NESTED[name]()
    bounds = [
        tr.certify(solved.problem, solved.x, solved.rows(n, seed), confidence, population_gap=False).constraints[0]
        for seed in seeds
    ]
    above, total = sum(bound.upper >= 0 for bound in bounds), len(bounds)
    low = float(beta.ppf(0.025, above, total - above + 1))
    high = float(beta.ppf(0.975, above + 1, total - above)) if above < total else 1.0
    width = float(np.mean([bound.upper - bound.estimate for bound in bounds]))
    return {"problem": name, "rows": n, "covered": above, "of": total, "low": low, "high": high, "width": width}


# ---- the page ------------------------------------------------------------------------------------------------------------


def page(
    found: pd.DataFrame, biased: pd.DataFrame, hand: pd.DataFrame, covered: pd.DataFrame
) -> tuple[list[str], bool]:
    """The tables of the page, and whether everything that must hold does."""
    safe = found[found["case"] != "no margin"]
    named = found[(found["case"] == "no margin") & (found["problem"] == NAMED)]
    claims = {
        f"the gap falls with a slope of {STEEP} or steeper": bool((safe["slope"] <= STEEP).all()),
        "with a margin no mean violation is above zero by its 95 % interval": bool((safe["H"] <= safe["half"]).all()),
        f"without one it is, at every T, on {NAMED}": bool(named["always above"].all()),
        "batch by batch, every bound is violated; by CSCGD none is": bool(
            all((row["H"] > row["half"]) == (row["way"] != "CSCGD") for _, row in biased.iterrows())
        ),
        "on rows the relative gap to cvxpy is at most 1e-6, and every point feasible": bool(
            (hand["relative gap"] <= 1e-6).all() and (hand["H"] <= 0).all()
        ),
        "the rates at which bounds at 95 % hold are not shown to be below that, on 1,000 rows": bool(
            (covered[covered["rows"] == 1000]["high"] >= 0.95).all()
        ),
    }
    lines = [
        f"{len(SEEDS)} seeds, T from {HORIZONS[0]:,} to {HORIZONS[-1]:,}. Gaps are means of F(x_t) - F* over a run; H is",
        "that of the T at which a violation is most certain, with half its 95 % interval.",
        "",
        *markdown(
            ["problem", "CSCGD", "first gap", "last gap", "slope (95 %)", "H", "at T"], map(_of_rates, _each(found))
        ),
        "",
        f"The bias of a plain treatment: {SAMPLES:,} samples each, H at the output in the mean over 10 seeds; 0 is allowed.",
        "",
        *markdown(["problem", "way", "steps", "level", "H"], map(_of_bias, _each(biased))),
        "",
        "Data at hand, 500 rows (800 for conditional), `tol=1e-8`, beside cvxpy:",
        "",
        *markdown(["problem", "method", "passes", "relative gap", "H"], map(_of_rows, _each(hand))),
        "",
        f"Bounds of `tr.certify` at 95 %, at the optimum, on {len(COVERED)} sets of rows: how many are above H, which is 0.",
        "",
        *markdown(["problem", "rows", "hold", "rate (95 %)", "bound less estimate"], map(_of_bounds, _each(covered))),
        "",
        *(f"- {'holds' if ok else 'FAILS'}: {said}" for said, ok in claims.items()),
    ]
    return lines, all(claims.values())


def _each(table: pd.DataFrame) -> Iterable[Any]:
    return (row for _, row in table.iterrows())


def _of_rates(r: Any) -> list[str]:
    fitted = f"{r['slope']:.2f} ({r['low']:.2f} to {r['high']:.2f})" if np.isfinite(r["slope"]) else "-"
    gaps = f"{r['first']:.3g}", f"{r['last']:.3g}"
    return [r["problem"], r["case"], *gaps, fitted, f"{r['H']:+.4f} ± {r['half']:.4f}", f"{r['T']:,}"]


def _of_bias(r: Any) -> list[str]:
    return [r["problem"], r["way"], f"{r['steps']:,}", f"{r['level']:g}", f"{r['H']:+.4f} ± {r['half']:.4f}"]


def _of_rows(r: Any) -> list[str]:
    return [r["problem"], r["method"], f"{r['passes']:.0f}", f"{r['relative gap']:.1e}", f"{r['H']:.1e}"]


def _of_bounds(r: Any) -> list[str]:
    rate = f"{r['covered'] / r['of']:.3f} ({r['low']:.3f} to {r['high']:.3f})"
    return [r["problem"], f"{r['rows']:,}", f"{r['covered']} of {r['of']}", rate, f"{r['width']:.3f}"]


def main() -> None:
    """Measure, write the page, and fail where something does not hold."""
    hand = pd.DataFrame([on_rows(name, method) for name in NESTED for method in METHODS])
    covered = pd.DataFrame([coverage(name, n) for name in STREAMS for n in (100, 1000)])
    lines, holds = page(rates(), bias(), hand, covered)
    path = Path(__file__).parents[1] / "docs" / "nested.md"
    text, _, rest = path.read_text().partition(HEADING)
    others = rest[rest.index(STRANGERS) :] if STRANGERS in rest else ""
    path.write_text(f"{text}{HEADING}\n\n" + "\n".join(lines) + f"\n\n{others}".rstrip("\n") + "\n")
    sys.exit(0 if holds else 1)


if __name__ == "__main__":
    main()
