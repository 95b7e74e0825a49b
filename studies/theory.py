"""Predicted and measured: every rule with a proof, on every problem with a known solution whose conditions can be met.

Run as `python -m studies.theory`; writes the tables at the end of docs/theory.md.
"""

import argparse
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd

import tightrope as tr
from studies.page import markdown
from tightrope.problems import PROBLEMS, Solved
from tightrope.theory import Constants, Rule

RULES = ("csoa printed", "csoa corrected", "csoa tight", "fw-csoa printed", "fw-csoa two scales")  # those of Split-CSOA
# need constants around X, and are in studies/projection_free.py
RUNNABLE = ("csoa corrected", "csoa tight", "fw-csoa two scales")  # with a proof
LIMIT = 7_000_000  # steps that a study can afford; a tenth of them where each decomposes a matrix
HEADING = "## Predicted and measured"


@lru_cache
def known(name: str) -> Constants:
    """The constants of a problem, with C and sigma of a strictly feasible point, C = 2 (F(x) - F*)/sigma.

    Where none is found (scales far apart), the largest margin and C = 2 G_f D/sigma.
    """
    solved = PROBLEMS[name]()
    x = strictly_feasible(solved)
    sigma = -float(jnp.max(solved.constraints(x)))
    if sigma < solved.slater / 2:
        return solved.constants
    C = tr.theory.multiplier_bound(max(float(solved.objective(x)) - solved.optimum, 0.0), sigma)
    return solved.constants._replace(sigma=sigma, C=C)


def strictly_feasible(solved: Solved, share: float = 0.98) -> tr.tree.Tree:
    """A point with almost the largest margin, by Polyak's steps on the worst constraint."""
    domain, target = solved.problem.domain, -share * solved.slater

    @jax.jit
    def search(x):
        def step(_, x):
            value, slope = jax.value_and_grad(lambda point: jnp.max(solved.constraints(point)))(x)
            square = tr.tree.dot(slope, slope)
            length = jnp.maximum(value - target, 0) / jnp.where(square > 0, square, 1)
            return domain.project(tr.tree.add_scaled(x, -length, slope))

        return jax.lax.fori_loop(0, 20_000, step, x)

    return search(domain.start())


def rules(names: Iterable[str] = tuple(PROBLEMS)) -> pd.DataFrame:
    """A row per feasible problem, with the smallest T of every rule; NaN where a rule cannot be made."""
    rows = []
    for name in names:
        if PROBLEMS[name]().feasible:
            k = known(name)
            rows.append(
                {"problem": name, "C": k.multipliers, "sigma": k.sigma} | {rule: smallest(rule, k) for rule in RULES}
            )
    return pd.DataFrame(rows)


def smallest(rule: str, constants: Constants) -> float:
    """The smallest T of a rule; NaN where it does not apply."""
    try:
        return tr.theory.RULES[rule](constants, 1).smallest
    except ValueError:  # smoothness that is not there
        return float("nan")


def measure(name: str, rule: Rule, seeds: Iterable[int]) -> dict[str, Any]:
    """A run of the rule's method at its T: means over seeds of the gap and of the worst H_i, with 95 % half widths."""
    solved = PROBLEMS[name]()
    table = tr.sweep(
        solved.problem, solved.samples, rule.method, steps=rule.T, seeds=seeds, track=solved.track, progress=False
    )
    values = table[[f"H{i}" for i in range(len(solved.dual))]]
    worst = str(values.mean().idxmax())
    half = {column: 1.96 * table[column].std() / np.sqrt(len(table)) for column in ("F - F*", worst)}
    return {
        "problem": name,
        "rule": rule.name,
        "T": rule.T,
        "predicted gap": rule.gap,
        "gap": table["F - F*"].mean(),
        "gap half width": half["F - F*"],
        "margin": rule.margin,
        "H": values[worst].mean(),
        "H half width": half[worst],
        "seeds": len(table),
    }


def measure_all(smallest_T: pd.DataFrame, seeds: int, limit: int) -> pd.DataFrame:
    """Every runnable rule at its smallest T, where that is affordable; fewer seeds (at least 4) where it is long."""
    rows = []
    for row in smallest_T.to_dict("records"):
        for rule in RUNNABLE:
            if row[rule] <= affordable(row["problem"], limit):
                T = int(row[rule])
                found = measure(row["problem"], tr.theory.RULES[rule](known(row["problem"]), T), range(few(seeds, T)))
                print(
                    ", ".join(f"{k} {v:.4g}" if isinstance(v, float) else f"{k} {v}" for k, v in found.items()),
                    flush=True,
                )
                rows.append(found)
    return pd.DataFrame(rows)


def affordable(name: str, limit: int) -> int:
    """The most steps for a problem."""
    return limit if PROBLEMS[name]().problem.domain.cheap_projection else limit // 10


def few(seeds: int, T: int) -> int:
    """As many seeds as 20 million steps allow, at least 4."""
    return int(np.clip(20_000_000 // T, 4, seeds))


def verdicts(table: pd.DataFrame) -> pd.DataFrame:
    """Whether gap and violation are within what is proven, up to their intervals."""
    gap = table["gap"] - table["gap half width"] <= table["predicted gap"]
    return table.assign(holds=gap & (table["H"] - table["H half width"] <= 0))


def report(smallest_T: pd.DataFrame, measured: pd.DataFrame, limit: int) -> str:
    """The part of the page that this study writes."""

    def count(T: float) -> str:
        return "-" if np.isnan(T) else "never" if np.isinf(T) else f"{T:,.0f}" if T < 1e7 else f"{T:.1e}"

    names = list(RULES)
    first = [
        (r["problem"], f"{r['C']:.3g}", f"{r['sigma']:.3g}", *(count(r[n]) for n in names))
        for r in smallest_T.to_dict("records")
    ]
    second = [
        (
            r["problem"], r["rule"], f"{r['T']:,}", r["seeds"], f"{r['predicted gap']:.3g}",
            f"{r['gap']:+.4f} ± {r['gap half width']:.4f}", f"{r['margin']:.3g}", f"{r['H']:+.4f} ± {r['H half width']:.4f}",
            "yes" if r["holds"] else "**no**",
        )
        for r in verdicts(measured).to_dict("records")
    ]  # fmt: skip
    away = [
        f"{r['problem']} ({min(r[n] for n in RUNNABLE if not np.isnan(r[n])):.1e})"
        for r in smallest_T.to_dict("records")
        if not any(r[n] <= affordable(r["problem"], limit) for n in RUNNABLE)
    ]
    lines = [
        HEADING,
        "",
        "Written by `python -m studies.theory`. The problems are those of [known solutions](problems.md), with the",
        "constants given there; sigma is the margin of a point x found by Polyak's steps, and C = 2 (F(x) - F\\*)/sigma",
        "(ill-scaled, where they find none: the largest margin and C = 2 G_f D/sigma). The smallest T at which the",
        'conditions of each rule hold ("-": the rule needs smoothness that is not there):',
        "",
        *markdown(("problem", "C", "sigma", *names), first),
        "",
        f"No T up to {limit:,} ({limit // 10:,} for matrices) satisfies the conditions of a rule that can be run on: "
        + (", ".join(away) or "none")
        + ". In brackets the T that would.",
        "",
        "At the smallest T, wherever that is affordable: means along the run of F(x_t) - F\\* and of the worst H_i(x_t),",
        'over seeds, with 95 % intervals. "Within": the gap is at most the predicted one and H at most zero, up to the',
        "intervals.",
        "",
        *markdown(("problem", "rule", "T", "seeds", "predicted gap", "gap", "margin", "worst H_i", "within"), second),
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure, write, and fail when a bound does."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--limit", type=int, default=LIMIT)
    parser.add_argument("--out", type=Path, default=Path("docs"))
    options = parser.parse_args()
    first = rules()
    measured = measure_all(first, options.seeds, options.limit)
    page = options.out / "theory.md"
    text = page.read_text() if page.exists() else ""
    page.write_text(text.partition(HEADING)[0] + report(first, measured, options.limit))
    judged = verdicts(measured)
    print(f"\n{int(judged.holds.sum())} of {len(judged)} runs are within their bounds; see {page}")
    if not judged.holds.all():
        raise SystemExit(judged[~judged.holds].to_string())


if __name__ == "__main__":
    main()
