"""How fast the solution on kept samples comes near the optimum, and on which side of its constraints it is in the mean.

Run as `python -m studies.fit_rates`; writes docs/fit_rates.md.
"""

import argparse
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd

import tightrope as tr
from studies.page import markdown
from studies.rates import quantities, violations
from tightrope.lab.leaderboard import slope
from tightrope.problems import EXACT, PROBLEMS, Solved

HORIZONS = (1_000, 3_162, 10_000, 31_623, 100_000, 1_000_000)
SEEDS = 50
FEWER = 10  # seeds of the largest T
SCORES = 12  # seeds beside the leaderboard, which has as many


def worth(solved: Solved, x: Any) -> tuple[float, np.ndarray]:
    """F - F* and H at a point, in float64."""
    with jax.enable_x64(True):
        x = jax.tree.map(lambda leaf: jnp.asarray(np.asarray(leaf, np.float64)), x)
        return float(solved.objective(x)) - solved.optimum, np.asarray(solved.constraints(x), float)


def measure(problems: Iterable[str], horizons: Sequence[int], seeds: int, fewer: int) -> pd.DataFrame:
    """A row per problem, T and seed: the gap and every H_i of the answer, by the true moments."""
    rows = []
    for name in problems:
        solved = EXACT[name]()
        for steps in horizons:
            for seed in range(fewer if steps >= HORIZONS[-1] else seeds):
                result = tr.minimize(solved.problem, solved.samples, steps=steps, seed=seed, record=0)
                gap, h = worth(solved, result.x)
                more = {f"H{i}": value for i, value in enumerate(h)}
                rows.append({"problem": name, "step": steps, "seed": seed, "gap": gap, **more})
            print(name, steps, np.mean([row["gap"] for row in rows if row["step"] == steps]), flush=True)
    return pd.DataFrame(rows)


def beside(seeds: int) -> list[list[str]]:
    """The leaderboard's streams: the score of the fit on as many samples as its methods had, and theirs."""
    board, lines = pd.read_csv("docs/leaderboard/leaderboard.csv"), []
    streams = board[board.division.isin(["streams", "streams-defaults"]) & board.given.isna()]
    for name, make in PROBLEMS.items():
        solved = make()
        part = streams[streams.problem == name]
        if part.empty or not np.isfinite(solved.optimum):
            continue
        part = part[part.budget == part.budget.max()]
        steps, scores, method = int(part.budget.max()), [], ""
        for seed in range(seeds):
            result = tr.minimize(solved.problem, solved.samples, steps=steps, seed=1000 + seed, record=0)
            gap, h = worth(solved, result.x)
            scores.append(gap + (1 + np.abs(solved.dual).sum()) * max(float(h.max()), 0.0))
            method = result.method.name
        score, half = float(np.mean(scores)), 1.96 * float(np.std(scores, ddof=1)) / seeds**0.5
        tuned, alone = (part[part.division == d] for d in ("streams", "streams-defaults"))
        best, csoa = tuned.loc[tuned.score.idxmin()], alone[alone.method == "csoa"].score
        lines.append([
            name, f"{steps:,}", method, f"{score:.2g} ± {half:.1g}", f"{best.method}: {best.score:.2g}",
            f"{best.score / score:.2g}", "-" if csoa.empty else f"{csoa.iloc[0] / score:.2g}",
            f"{1 + int((tuned.score < score).sum())} of {1 + len(tuned)}",
        ])  # fmt: skip
        print(*lines[-1], flush=True)
    return lines


def report(table: pd.DataFrame, others: list[list[str]]) -> str:
    """The page."""
    slopes, means = [], []
    for name, part in table.groupby("problem", sort=False):
        solved = EXACT[str(name)]()
        part = part.dropna(axis=1).assign(**quantities(part.dropna(axis=1), solved))
        every = part[part.seed < part.groupby("step").seed.nunique().min()]
        fitted = {
            what: slope(every.pivot(index="seed", columns="step", values=what), draws=500)
            for what in ("penalty", "lagrangian")
        }
        gone = part.lagrangian.groupby(part.step).mean().min() < 1e-7  # the digits of an answer in float32
        said = ["{:.2f} [{:.2f}, {:.2f}]".format(*found) for found in fitted.values()]
        slopes.append((name, said[0], "-" if gone else said[1]))
        worst = violations(part, solved).set_index("step")
        for step, runs in part.groupby("step", sort=False):
            above, width = float(worst["mean"][step]), float(worst["half width"][step])
            half = 1.96 * runs.gap.std() / len(runs) ** 0.5
            means.append((
                name, f"{step:,}", len(runs), f"{runs.gap.mean():+.2g} ± {half:.1g}", f"{runs.lagrangian.mean():.2g}",
                f"{runs.penalty.mean():.2g}", f"{above:+.2g} ± {width:.1g}", "no" if above <= width else "**yes**",
            ))  # fmt: skip
    heads = ("problem", "T", "seeds", "F - F*", "Lagrangian gap", "exact penalty", "worst mean H", "above by more")
    lines = [
        _HEAD, *markdown(("problem", "slope of the exact penalty", "slope of the Lagrangian gap"), slopes), "",
        *markdown(heads, means), "", _BESIDE,
        *markdown(
            ("problem", "samples", "solver", "score of the fit", "best tuned", "in units of the fit's", "csoa's, likewise",
             "place of the fit among the tuned"), others,
        ),
    ]  # fmt: skip
    return "\n".join(lines) + "\n"


_HEAD = f"""# Rates of a solution on kept samples

Written by `python -m studies.fit_rates`: what `minimize` makes of T samples of the four problems with exact solutions
(`tightrope.problems.EXACT`), all with noise in gradients and values, judged by their true moments; {SEEDS} seeds,
{FEWER} at the largest T. Intervals are at 95 %.

**Constraints in the mean.** The last columns say whether the mean of the worst constraint over seeds is above its level
by more than its interval, which chance alone shows in one of forty rows, and of `simplex`, with two constraints, in one of
twenty.

**Why two slopes.** A single answer has its constraints off by the noise of their means, T^-1/2, to either side, and F
goes the other way at the price of the multipliers. The exact penalty, F - F* + (1 + |dual*|_1) max_i [H_i]_+, counts one
side only, so its mean falls like T^-1/2 on any problem whose constraints are noisy. In the Lagrangian gap,
F - F* + <dual*, H>, the two cancel. What is left is of second order in x - x*: it falls like 1/T where the Lagrangian is
curved (`ball`, `simplex`, `scalar`). `l1-lp` is a linear programme whose solution is a vertex: from some T on it is
known for sure which coordinates are in use, nothing of second order is left, and no slope is fitted. The mean of F - F*
is that of the Lagrangian gap and the price of the margin, both of order 1/T, below the noise of so many seeds.
"""


_BESIDE = f"""## Beside the methods of the leaderboard, on as many samples

The score of the [leaderboard](leaderboard.md) is the exact penalty of the answer. The fit has nothing to tune; the best
of the tuned methods has had nine settings for each problem, chosen by this score, and is the best of twenty. Samples are as
many, and not the same. No method comes nearer to the optimum than samples tell in the mean over problems like this one, and
the fit comes as near as that, so its score stands for the statistical error, and the columns in its units say how many of
these another method is off. {SCORES} seeds, as there; the problem without a feasible point has no optimum and is left out.

Of `ill-scaled` the score says nothing: it charges the worst constraint at the sum of all multipliers, whatever its unit,
8,000 times its own for the one in hundreds. By each constraint's own multiplier the fit is 1e-5 to 4e-5 above the optimum.
"""


def main() -> None:
    """Measure, and write the page."""
    arguments = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    arguments.add_argument("--seeds", type=int, default=SEEDS)
    arguments.add_argument("--most", type=int, default=HORIZONS[-1])
    asked = arguments.parse_args()
    horizons = [T for T in HORIZONS if asked.most >= T]
    others = beside(min(SCORES, asked.seeds))
    table = measure(EXACT, horizons, asked.seeds, min(FEWER, asked.seeds))
    Path("docs/fit_rates.md").write_text(report(table, others))


if __name__ == "__main__":
    main()
