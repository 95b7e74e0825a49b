"""No coefficients, on every problem with a known solution: does it hold its constraints, and what does that cost?

Run as `python -m studies.defaults`; writes docs/defaults.md.
"""

import argparse
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd

import tightrope as tr
from studies.page import markdown
from tightrope.problem.problem import constraint_names
from tightrope.problems import PROBLEMS, Solved
from tightrope.tree import astype

METHODS = {"CSOA": tr.CSOA(), "FW-CSOA": tr.FWCSOA(), "Split-CSOA": tr.SplitCSOA()}
HORIZONS = (1_000, 10_000, 100_000)
SEEDS = range(20)
BASELINE = Path(__file__).with_name("best_of_200.json")


def measure(
    names: Iterable[str] = tuple(PROBLEMS), horizons: Iterable[int] = HORIZONS, seeds: Iterable[int] = SEEDS
) -> pd.DataFrame:
    """A row per feasible problem, method that fits it, and horizon."""
    horizons, rows = tuple(horizons), []
    for solved in (PROBLEMS[name]() for name in names):
        for method in METHODS if solved.feasible else ():
            if method == "CSOA" and not solved.problem.domain.has_projection:
                continue
            for T in horizons:
                table = tr.sweep(solved.problem, solved.samples, METHODS[method], steps=T, seeds=seeds, points=True)
                rows.append({"problem": solved.name, "method": method, "T": T} | _judged(solved, table))
                print(*(f"{v:.3g}" if isinstance(v, float) else v for v in rows[-1].values()), flush=True)
    return pd.DataFrame(rows)


def _judged(solved: Solved, table: pd.DataFrame) -> dict[str, Any]:
    """What the runs of one method are worth, a run per row of the table: all of it in float64."""
    with jax.enable_x64(True):
        start = float(solved.objective(solved.problem.domain.start(jnp.float64)))
        points = [astype(x, np.float64) for x in table["x"]]
        gaps = np.array([float(solved.objective(x)) for x in points]) - solved.optimum
        H = np.array([np.asarray(solved.constraints(x)) for x in points])
    merits = gaps + 2 * np.maximum(H, 0) @ solved.dual
    over_the_run = table[constraint_names(solved.problem, len(solved.dual))].to_numpy()
    return {
        "gap": float(np.mean(np.abs(gaps)) / abs(start - solved.optimum)),
        "merit": float(np.mean(merits)),
        "constraints": len(solved.dual),
        **{f"output {k}": v for k, v in violation(H).items()},
        **{f"run {k}": v for k, v in violation(over_the_run).items()},
    }


def violation(H: np.ndarray) -> dict[str, Any]:
    """Of the constraint that is violated most significantly: the mean over seeds, half its 95 % interval, and the mean in
    standard errors; and how many constraints have an interval that lies above zero.

    Example:
        >>> violation(np.array([[1.0, -3.0], [1.2, -1.0], [1.1, -2.0]]))["violated"]
        1
    """
    from scipy.stats import t

    n = len(H)
    mean, error = H.mean(axis=0), H.std(axis=0, ddof=1) / np.sqrt(n)
    z = np.where(error > 0, mean / np.where(error > 0, error, 1), np.sign(mean) * np.inf)
    quantile, worst = float(t.ppf(0.975, n - 1)), int(np.argmax(z))
    half = quantile * float(error[worst])
    return {"H": float(mean[worst]), "half": half, "z": float(z[worst]), "violated": int(np.sum(z > quantile))}


def beside(table: pd.DataFrame, baseline: Path = BASELINE) -> pd.DataFrame:
    """The table with the best of 200 configurations of CSOA, where that was measured."""
    best = pd.DataFrame(json.loads(baseline.read_text())["rows"])
    best = best.rename(columns={"merit": "best merit", "merit_of_a": "best feasible"})
    return table.merge(best, how="left", on=["problem", "T"])


def summary(table: pd.DataFrame) -> pd.DataFrame:
    """For every method and horizon: how often a constraint is violated, and merit in units of the best of 200."""
    rows = []
    for (method, T), part in table.groupby(["method", "T"], sort=False):
        row: dict[str, Any] = {"method": method, "T": f"{T:,}", "constraints": int(part["constraints"].sum())}
        row |= {f"violated, {at}": int(part[f"{at} violated"].sum()) for at in ("output", "run")}
        for name in ("best merit", "best feasible"):
            ratio = pd.Series((part["merit"] / part[name]).to_numpy(), index=part["problem"]).dropna()
            row[f"/ {name}"] = f"{_geometric_mean(ratio):.2f}"
            row[f"/ {name}, without ill-scaled"] = f"{_geometric_mean(ratio.drop('ill-scaled', errors='ignore')):.2f}"
            row[f"worst / {name}"] = f"{ratio.max():.2f} ({ratio.idxmax()})"
        rows.append(row)
    return pd.DataFrame(rows)


def _geometric_mean(ratios: pd.Series) -> float:
    return float(np.exp(np.log(ratios).mean()))


def missed(table: pd.DataFrame) -> list[str]:
    """What a reader should not have to look for: significant violations, and merits of more than three times the best."""
    lines = []
    for _, row in table.iterrows():
        where = f"- {row['problem']}, {row['method']}, {row['T']:,} steps: "
        for at, place in (("output", "at the output"), ("run", "over the run")):
            if row[f"{at} violated"]:
                lines.append(f"{where}H = {' (z = '.join(_violation(row, at))}) {place}")
        if row["merit"] > 3 * row["best merit"]:
            lines.append(f"{where}{row['merit'] / row['best merit']:.1f} times the best merit")
    return lines


def report(table: pd.DataFrame) -> str:
    """The page docs/defaults.md."""
    total = summary(table)
    heads = ("problem", "method", "T", "H at the output", "z", "H over the run", "z", "gap", "merit")
    parts = [
        _RULE,
        *markdown(tuple(total.columns), total.itertuples(index=False)),
        "\nAll that is significantly above zero, or more than three times the best merit:\n",
        *(missed(table) or ["- nothing"]),
        _NOTES,
        *markdown((*heads, "best merit", "best feasible"), (_cells(row) for _, row in table.iterrows())),
    ]
    return "\n".join(parts) + "\n"


def _cells(row: Any) -> list[str]:
    best = ["" if np.isnan(row[name]) else f"{row[name]:.3g}" for name in ("best merit", "best feasible")]
    figures = [f"{row['gap']:.2g}", f"{row['merit']:.3g}"]
    return [
        row["problem"],
        row["method"],
        f"{row['T']:,}",
        *_violation(row, "output"),
        *_violation(row, "run"),
        *figures,
        *best,
    ]


def _violation(row: Any, at: str) -> list[str]:
    return [f"{row[f'{at} H']:.2g} ± {row[f'{at} half']:.1g}", f"{row[f'{at} z']:.1f}"]


_RULE = r"""# No coefficients

Written by `python -m studies.defaults`. `CSOA()`, `SplitCSOA()` and `FWCSOA()`, which `minimize` takes for streams, need no
coefficients: their steps are made of scales that the run measures (`tightrope/methods/measured.py`). f, any h_i, or x with
its domain may be written in other units and nothing changes but rounding. It is a rule, not a theorem.

## The rule

Lengths are counted in widths w of the domain. A run begins with a pilot of 32 to 63 steps (fewer in a run of fewer than 64),
which stands still: half of it at x_1, half of it as far off as the objective pulls. There gradients are taken with
the first Lam_i (below) as multipliers, so that sigma_g has in it what these add. Then come epochs, which end at ...,
T/4, T/2, T. Each starts from the mean point and multipliers of the second half of the one before, and
takes n steps of

    eta     = R / (2 sigma_g sqrt n)        sigma_g: root mean square of |w o (grad f + lambda' grad h)|
    gamma_i = Lam_i / (2 sigma_i sqrt n)    sigma_i: root mean square of h_i; lambda_i stays below 4 Lam_i

R is how far the solution may still be: first the diameter D, or a quarter of it where f is higher as far off as it
pulls than at x_1; later twice the distance from where the epoch before began to its mean, but at least 0.71 of the R before
and what x has travelled in the epoch. Lam_i is how large the multiplier may be: first what would make up for all that f can
change, |w o mean grad f| D / (sigma_i sqrt N), later what the epoch before has found. A scale that the pilot did not see is
caught up with: Lam_i is multiplied by 4 whenever lambda_i reaches 4 Lam_i, up to T times its first value, and where
the pilot saw no slope of f at all Lam_i becomes sigma_g R / (sigma_i sqrt N) with the first slope.

The margin is steered. The output is the mean that weighs x_t by t, and by Jensen's inequality its H_i is at most the same
mean m_i of h_i(x_t, theta_t), in expectation. m_i is known at every step; what is missing is made up for until the end of
the epoch by the tightening

    upsilon_i = (a m_i + margin_i) / (1 - a)        a = (t / end)^2: the share of the weight that is spent
    margin_i  = sigma_i / (4 sqrt(3 end / 4))       a quarter of the standard error of the mean

What a run has not seen it cannot keep. Where a constraint is made of rare events (h is 100 once in a hundred samples, and -1
otherwise) the first epochs know nothing of it, and its mean over a run that saw ten events is not steered below zero: H was
.6 above a level of 1 on average after 1,000 steps, within its error of zero after 4,642. A run in which fewer than 25
events decide says so, its fresh samples are not believed to know more than that, and the verdict is "undecided". Scales that
fall by orders of magnitude within a run are followed slowly: by a factor of three an epoch for gradients and h.

FW-CSOA takes the same multipliers, steps of n^-1/2 towards a vertex, and forgets its tracked gradient at the rate
rms |g(x_t) - g(x_{t-1})| / rms |g|, but never slower than a plain mean of all samples since the pilot would; it goes on from
where an epoch ended.

Split-CSOA's y moves as x does in CSOA, in widths of the set around X, and its q is one more block of multipliers:

    kappa = M / (2 sigma_q sqrt n)          sigma_q: root mean square of |(y - x)/w|; |w o q| stays below 4 M

M is how large |w o q| is: first |w o mean grad f|, later what the epoch before has found, raised as Lam_i is.

## Measured

Every feasible problem of [the registry](problems.md), 20 seeds, one sample a step, float32 as users have it. H is the mean
over seeds of the constraint that is violated most significantly, at the output and over the run (the mean of
h(x_t, theta_t), with the weights of the output), with half of its 95 % interval; z is that mean in standard errors. The
gap is |F(x) - F\*| / |F(x_1) - F\*|. The merit is `F(x) - F* + 2 sum_i lambda*_i [H_i(x)]_+`, which is never negative,
whether x violates or not.

Beside it stand two of 200 random configurations of CSOA for that problem and horizon (`studies/best_of_200.json`: eta0 and
upsilon0 log-uniform in [0.01, 100], dual_scale in [0.1, 10], delta = 0), chosen on 12 seeds and scored on 20 others. "Best
merit" has the least merit; "best feasible" the least gap after a pull, among those that did not violate in the mean where
they were chosen. Both were tuned to the problem; the defaults were not. FW-CSOA and Split-CSOA are compared with the
same two. Where there is no figure (completion, 100,000 steps) none was measured.

"Violated" counts constraints whose 95 % interval lies above zero; of constraints whose mean is exactly zero chance alone
would put 2.5 % there. The columns that begin with a stroke are merits in units of the best: the geometric mean over
problems, and the worst. CSOA with coefficients cannot solve ill-scaled, whatever they are, so that this one problem
lowers the means a good deal; they are also given without it.
"""

_NOTES = """
Two things to know before these tables are believed.

- **The registry is in-sample.** The constants of the rule (the halves and quarters above) were chosen looking at these
  problems. What the rule does on problems that nobody looked at is another measurement.
- **The gap of a pulled output is not the yardstick.** In few dimensions the segment from a point that violates to a
  strictly feasible one crosses the boundary next to the optimum: a pull from there lands on it. Chosen by that gap alone,
  the best of 200 are mostly configurations that violate: of 37 pairs of problem and horizon 26 had a mean H above zero.
  The merit charges for violation, at twice the price at which it could be bought.
"""


def main() -> None:
    """Measure, print, write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("docs/defaults.md"))
    out = parser.parse_args().out
    table = beside(measure())
    page = report(table)
    print(page[page.index("## Measured") :])
    out.write_text(page)


if __name__ == "__main__":
    main()
