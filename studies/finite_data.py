"""Data at hand: how close SVRG-CSOA comes to the optimum on Adult in fifteen passes, seed by seed.

Run as `python -m studies.finite_data`; writes docs/finite_data.md.
"""

import argparse
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from scipy.optimize import minimize as scipy_minimize

import tightrope as tr
from tightrope.datasets import adult_label_encoded

C, PASSES = 0.05, 15
TARGETS = {"float64": 1e-6, "float32": 1e-5}


def loss(x, theta, covariance):
    """Logistic loss of one row."""
    return jnp.logaddexp(0.0, -theta[1] * jnp.dot(theta[0], x))


def exact(x, covariance):
    """The covariance of score and sensitive attribute, both signs."""
    q = jnp.dot(covariance, x)
    return jnp.stack([q, -q])


class Adult:
    """The data, the loss in NumPy, and the optimal value by SLSQP."""

    def __init__(self) -> None:
        self.X, self.y, s = adult_label_encoded()
        self.s = s - s.mean()
        self.v = self.s @ self.X / len(self.X)
        sides = [
            {"type": "ineq", "fun": lambda x: C - self.v @ x, "jac": lambda x: -self.v},
            {"type": "ineq", "fun": lambda x: C + self.v @ x, "jac": lambda x: self.v},
        ]
        options = {"ftol": 1e-15, "maxiter": 500}
        start = np.zeros(self.X.shape[1])
        best = scipy_minimize(self.value, start, jac=self.gradient, method="SLSQP", constraints=sides, options=options)
        self.optimum = float(best.fun)

    def value(self, x: np.ndarray) -> float:
        """Mean logistic loss."""
        return float(np.logaddexp(0, -self.y * (self.X @ x)).mean())

    def gradient(self, x: np.ndarray) -> np.ndarray:
        """Its gradient."""
        return -(self.y / (1 + np.exp(self.y * (self.X @ x)))) @ self.X / len(self.y)

    def covariance(self, x: np.ndarray) -> float:
        """Recomputed row by row, in float64."""
        return float(np.mean(self.s * (self.X @ x)))


def measure(adult: Adult, precision: str, seeds: range, method: str = "auto", output: str = "feasible") -> pd.DataFrame:
    """A row per seed: gap, |cov| - c, passes used, how far the pull went."""
    rows = []
    with jax.enable_x64(precision == "float64"):
        data = tr.Rows(tuple(a.astype(precision) for a in (adult.X, adult.y, adult.s)))
        domain, v = tr.L2Ball(10.0, shape=adult.X.shape[1]), jnp.asarray(adult.v, precision)
        problem = tr.Problem(loss, None, domain, levels=C, params=v, exact_constraints=exact)
        for seed in seeds:
            result = tr.minimize(problem, data, method=method, passes=PASSES, seed=seed, output=output, record=0)
            x = np.asarray(result.x, np.float64)
            gap, excess = adult.value(x) - adult.optimum, abs(adult.covariance(x)) - C
            passes, pulled = result.trace["passes"].iloc[-1], result.pull.a
            rows.append({"seed": seed, "gap": gap, "excess": excess, "passes": passes, "pull": pulled})
    return pd.DataFrame(rows).assign(precision=precision, method=method)


def report(table: pd.DataFrame) -> str:
    """The page docs/finite_data.md."""
    lines = [
        "# Data at hand: Adult in fifteen passes",
        "",
        "Written by `make verify`. Adult, label-encoded, 28,350 rows and 14 columns, |covariance| <= 0.05 known exactly,",
        '|x| <= 10, no coefficient given, `output="feasible"`, at most 15 passes (n per-row gradients each, snapshots and',
        "the probe for step sizes included). The gap is against SLSQP run to 1e-15; the covariance is recomputed in",
        "float64, row by row, from the point returned.",
        "",
        "| method | precision | seeds | largest gap | median gap | gap <= target | abs(cov) <= c | passes | largest pull |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for (method, precision), part in table.groupby(["method", "precision"], sort=False):
        target = TARGETS[str(precision)]
        lines.append(
            f"| {method} | {precision} | {len(part)} | {part.gap.max():.1e} | {part.gap.median():.1e} | "
            f"{int((part.gap <= target).sum())} of {len(part)} ({target:g}) | "
            f"{int((part.excess <= 0).sum())} of {len(part)} | {part.passes.max():.3f} | {part.pull.max():.1e} |"
        )
    lines += ["", '"auto" is SVRG-CSOA here; CSOA stands beside it at the same number of passes.']
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure, write, and fail when the claim does."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--out", type=Path, default=Path("docs"))
    options = parser.parse_args()
    adult, seeds = Adult(), range(options.seeds)
    parts = [measure(adult, precision, seeds) for precision in TARGETS]
    parts.append(measure(adult, "float64", range(min(20, options.seeds)), method="csoa"))
    table = pd.concat(parts, ignore_index=True)
    (options.out / "finite_data.md").write_text(report(table))
    print(report(table))
    claimed = table[table.method == "auto"]
    if not (claimed.gap <= claimed.precision.map(TARGETS)).all() or not (claimed.excess <= 0).all():
        raise SystemExit("A seed missed its target; see the table.")


if __name__ == "__main__":
    main()
