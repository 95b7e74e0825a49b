"""Many coordinates that bend differently: how many passes SVRG-CSOA takes until a gap is certified, with lengths counted in
widths of the domain alone, and with scales of columns and widths along leading directions (`methods/directions.py`); and how
many SQP takes, whose curvature is here made of such directions and its last steps (`solvers/limited.py`).

A part of `python -m studies.finite_data`; alone, `python -m studies.many_coordinates` prints its table.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd

import tightrope as tr
from studies.page import markdown

ROWS, COLUMNS, PASSES, TARGETS = 16_000, 600, 100, (1e-2, 1e-4, 1e-6)
BOUND = 0.05  # on the covariance of score and sensitive attribute


class Kind(NamedTuple):
    """What the columns are made of, the loss, and the set."""

    columns: str
    spread: float
    loss: str
    domain: str


KINDS = (
    Kind("independent", 1, "logistic", "ball"),
    Kind("three factors", 300, "logistic", "ball"),
    Kind("three factors", 300, "logistic", "active ball"),
    Kind("three factors", 300, "logistic", "box"),
    Kind("three factors", 300, "logistic", "active box"),
    Kind("three factors", 1e4, "squares", "ball"),
    Kind("eight factors", 300, "logistic", "ball"),
    Kind("power law", 1e2, "squares", "ball"),
    Kind("power law", 1e4, "logistic", "ball"),
    Kind("own units", 1e4, "logistic", "ball"),
    Kind("rare", 1, "logistic", "ball"),
    Kind("three factors", 300, "hinge", "ball"),
)
METHODS: dict[str, tr.Method | tr.Solver] = {
    "widths alone": tr.SVRGCSOA(directions=0),
    "all lengths": tr.SVRGCSOA(),
    "SQP": tr.SQP(),
}


def table(kind: Kind, n: int, d: int, rng: np.random.Generator) -> np.ndarray:
    """Columns of mean square one, but where they have units of their own; the last is an intercept."""
    if kind.columns == "own units":
        X = rng.normal(size=(n, d)) * kind.spread ** rng.uniform(-0.25, 0.25, size=d)
    elif kind.columns == "rare":
        X = 1.0 * (rng.random((n, d)) < 10 ** rng.uniform(-3, -0.5, size=d))
    elif kind.columns == "power law":
        decay = np.arange(1, d + 1.0) ** (-np.log(kind.spread) / np.log(d))
        X = (rng.normal(size=(n, d)) * np.sqrt(decay)) @ np.linalg.qr(rng.normal(size=(d, d)))[0]
    else:
        factors = {"independent": 0, "three factors": 3, "eight factors": 8}[kind.columns]
        common = rng.normal(size=(n, factors)) @ rng.normal(size=(factors, d))
        X = rng.normal(size=(n, d)) + np.sqrt(kind.spread / d) * common
    X = X if kind.columns == "own units" else X / np.sqrt(np.mean(X**2, axis=0) + 1e-12)
    X[:, -1] = 1
    return X


def problem_of(kind: Kind, n: int = ROWS, d: int = COLUMNS, seed: int = 0) -> tuple[tr.Problem, tr.Rows, float]:
    """A linear model with a bound on a covariance that is known exactly, its rows, and F at zero."""
    rng = np.random.default_rng(seed)
    X = table(kind, n, d, rng)
    few = X[:, :5].sum(axis=1)
    s = (few / few.std() + rng.normal(size=n) > 0).astype(float)
    s -= s.mean()
    score = X[:, :20] @ rng.normal(size=20)
    score /= score.std()
    squares = kind.loss == "squares"
    y = score + rng.normal(size=n) if squares else np.where(1.5 * score + rng.logistic(size=n) > 0, 1.0, -1.0)
    domains = {"ball": tr.L2Ball(10.0, d), "active ball": tr.L2Ball(0.5, d)}
    domains |= {"box": tr.Box(-5.0, 5.0, d), "active box": tr.Box(-0.05, 0.05, d)}

    def loss(x, theta, v):
        score = jnp.dot(theta[0], x)
        if squares:
            return (score - theta[1]) ** 2 / 2
        margin = theta[1] * score
        return jnp.maximum(0.0, 1 - margin) if kind.loss == "hinge" else jnp.logaddexp(0.0, -margin)

    def both_sides(x, v):
        return jnp.stack([jnp.dot(v, x), -jnp.dot(v, x)])

    at_zero = float(np.mean(y**2)) / 2 if squares else 1.0 if kind.loss == "hinge" else float(np.log(2))
    problem = tr.Problem(
        loss, None, domains[kind.domain], levels=BOUND, params=jnp.asarray(s @ X / n), exact_constraints=both_sides
    )
    return problem, tr.Rows((X, y)), at_zero


def passes_of(kind: Kind, method: tr.Method | tr.Solver) -> tuple[list[str], float]:
    """Passes until the gap is certified to be at most so much of F at zero, target by target, and the last gap."""
    problem, rows, unit = problem_of(kind)
    result = tr.minimize(problem, rows, method=method, passes=PASSES, tol=TARGETS[-1] * unit, seed=0)
    seen = result.trace[["passes", "gap"]].dropna()
    gaps = seen["gap"] / unit
    reached = (seen["passes"][gaps <= target] for target in TARGETS)
    return [f"{found.iloc[0]:.0f}" if len(found) else "-" for found in reached], float(gaps.min())


def measure(kinds: tuple[Kind, ...] = KINDS) -> pd.DataFrame:
    """A row per kind of problem."""
    rows = []
    with jax.enable_x64(True):
        for kind in kinds:
            row = {"columns": kind.columns, "spread": f"{kind.spread:g}", "loss": kind.loss, "set": kind.domain}
            for name, method in METHODS.items():
                if isinstance(method, tr.SQP) and kind.loss == "hinge":  # which it refuses
                    row[name] = ""
                    continue
                passes, last = passes_of(kind, method)
                row[name] = " / ".join(passes) + (f" ({last:.0e})" if passes[-1] == "-" else "")
            rows.append(row)
            print(row, flush=True)
    return pd.DataFrame(rows)


def section(table: pd.DataFrame) -> list[str]:
    """What docs/finite_data.md says of it."""
    return [
        "## Many coordinates: lengths in which curvatures are alike",
        "",
        "A step is as short as the largest curvature asks for. On balls and boxes of more than 500 coordinates, SVRG-CSOA",
        "looks at some rows before its first step, for scales of the columns and for up to 16 directions in which the",
        "Lagrangian bends most, and counts lengths so that curvatures are alike; projections are in that metric. Below:",
        "passes until the gap is certified to be 1e-2 / 1e-4 / 1e-6 of F at zero, in brackets the smallest gap where the",
        f"last was not reached ({ROWS:,} rows, {COLUMNS} columns, |covariance| <= {BOUND} known exactly, at most {PASSES}",
        'passes, float64). The look counts: 0.4 passes. SQP, which `method="auto"` takes up to 1,000 coordinates, stands',
        "beside it.",
        "",
        *markdown([*table.columns], table.itertuples(index=False)),
        "",
        "`spread` is the largest curvature over the usual one for factors, the condition number for a power law, and the",
        "ratio of variances for units of their own. Independent columns lose nothing but the look. Where rows have no",
        "curvature (hinges) there is nothing to find. `SVRGCSOA(directions=0)` does without, as all other sets do.",
        "",
        "**Where SQP has no matrix.** A Hessian needs no help from 4 rows a coordinate on. Eight passes pay for that where",
        "d^2 <= 16 n (673 coordinates for 28,350 rows), and up to there it is a matrix. Beyond, as above, curvature is made",
        "of scales, of the directions in which some rows bend more than rows at random would, and of the last 30 steps.",
        "Times on both sides of the crossover are in benchmarks/README.md.",
    ]


def main() -> None:
    """Print the table."""
    print("\n".join(section(measure())))


if __name__ == "__main__":
    main()
