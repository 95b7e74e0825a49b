"""Time to a gap of 1e-5 without violation on data at hand: tightrope against SLSQP and scikit-lego, in one run.

Fair classification: logistic loss, |covariance of score and sensitive attribute| <= c, the constraint known exactly to all.
Compilation is not counted. Run as `python benchmarks/finite_data.py [--big] [--lego]`.
"""

import argparse
import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import minimize as scipy_minimize

import tightrope as tr
from tightrope.datasets import adult_label_encoded

C, RADIUS, GAP = 0.05, 10.0, 1e-5
SEEDS = range(5)


def loss(x, theta, covariance):
    return jnp.logaddexp(0.0, -theta[1] * jnp.dot(theta[0], x))


def exact(x, covariance):
    q = jnp.dot(covariance, x)
    return jnp.stack([q, -q])


class Instance:
    """A data set, its functions in NumPy, and the optimal value by SLSQP run to the end."""

    def __init__(self, name: str, X: np.ndarray, y: np.ndarray, s: np.ndarray):
        self.name, self.X, self.y, self.s = name, X, y, s - s.mean()
        self.v = self.s @ X / len(X)
        self.signed = y[:, None] * X
        self.optimum = float(self.slsqp(1e-13).fun)

    def value(self, x: np.ndarray) -> float:
        return float(np.logaddexp(0, -(self.signed @ x)).mean())

    def gradient(self, x: np.ndarray) -> np.ndarray:
        return -(1 / (1 + np.exp(self.signed @ x))) @ self.signed / len(self.y)

    def slsqp(self, ftol: float):
        sides = [
            {"type": "ineq", "fun": lambda x: C - self.v @ x, "jac": lambda x: -self.v},
            {"type": "ineq", "fun": lambda x: C + self.v @ x, "jac": lambda x: self.v},
        ]
        return scipy_minimize(
            self.value,
            np.zeros(self.X.shape[1]),
            jac=self.gradient,
            method="SLSQP",
            constraints=sides,
            options={"ftol": ftol, "maxiter": 2000},
        )

    def good(self, x: np.ndarray) -> bool:
        x = np.asarray(x, float)
        return self.value(x) - self.optimum <= GAP and abs(np.mean(self.s * (self.X @ x))) <= C * (1 + 1e-12)


def time_slsqp(instance: Instance, repeats: int) -> float:
    """The best time over all tolerances that reach the gap: SLSQP's best case."""
    best = np.inf
    for ftol in (1e-4, 1e-5, 1e-6, 1e-7, 1e-8):
        for _ in range(repeats):
            began = time.perf_counter()
            x = instance.slsqp(ftol).x
            seconds = time.perf_counter() - began
            best = min(best, seconds) if instance.good(x) else best
    return best


def time_tightrope(instance: Instance, repeats: int) -> tuple[float, float]:
    """Default coefficients; the fewest passes that reach the gap in every seed, and their median time."""
    data = tr.Rows((instance.X, instance.y, instance.s))
    d = instance.X.shape[1]
    problem = tr.Problem(
        loss, None, tr.L2Ball(RADIUS, shape=d), levels=C, params=jnp.asarray(instance.v), exact_constraints=exact
    )
    for passes in (3.2, 6.2, 9.2, 12.2, 15, 18, 21, 24, 30, 45, 60, 90):
        options = {"passes": passes, "output": "feasible", "record": 0}
        runs, times = [], []
        for seed in SEEDS:
            x = np.zeros(d)
            for _ in range(repeats):
                began = time.perf_counter()
                x = np.asarray(tr.minimize(problem, data, seed=seed, **options).x)
                times.append(time.perf_counter() - began)
            runs.append(instance.good(x))
        if all(runs):
            return float(np.median(times[1:])), passes
    return float("inf"), float("nan")


def time_lego(instance: Instance) -> float:
    """scikit-lego's fair classifier on the same data, fitted once."""
    from sklego.linear_model import DemographicParityClassifier  # pyright: ignore[reportMissingImports]

    columns = np.column_stack([instance.X[:, :-1], instance.s])
    model: Any = DemographicParityClassifier(
        covariance_threshold=C, sensitive_cols=columns.shape[1] - 1, train_sensitive_cols=False, penalty="none"
    )
    began = time.perf_counter()
    model.fit(columns, instance.y)
    return time.perf_counter() - began


def wide(n: int = 28_350, d: int = 1_000, common: float = 0.0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Many features: Gaussians with a `common` part, labels from a sparse model, a sensitive attribute tied to a few."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d))
    X[:, 1:] = np.sqrt(1 - common) * X[:, 1:] + np.sqrt(common) * X[:, :1]
    X[:, -1] = 1.0
    s = (X[:, :5].sum(axis=1) + 2 * rng.normal(size=n) > 0).astype(float)
    y = np.where(X[:, :20] @ rng.normal(size=20) / 3 + rng.logistic(size=n) > 0, 1.0, -1.0)
    return X, y, s


def tall(copies: int = 100) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Adult a hundred times, with a little noise so that no two rows are equal."""
    X, y, s = adult_label_encoded()
    rng = np.random.default_rng(0)
    X = np.tile(X, (copies, 1))
    X[:, :-1] += 0.05 * rng.normal(size=X[:, :-1].shape)
    return X, np.tile(y, copies), np.tile(s, copies)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--big", action="store_true", help="also 100 times the rows, and 1,000 features")
    parser.add_argument("--lego", action="store_true", help="also scikit-lego, which must be installed")
    options = parser.parse_args()
    jobs = {"Adult, 28,350 x 14": adult_label_encoded}
    if options.big:
        jobs |= {"100 times the rows": tall, "28,350 x 1,000": wide, "same, correlated": lambda: wide(common=0.36)}
    with jax.enable_x64(True):
        for name, make in jobs.items():
            instance = Instance(name, *make())
            small = name.startswith("Adult")
            theirs = time_slsqp(instance, 5 if small else 1)
            ours, passes = time_tightrope(instance, 5 if small else 1)
            print(f"{name:20}  tightrope {ours:8.3f} s ({passes:g} passes)   SLSQP {theirs:8.3f} s   "
                  f"tightrope / SLSQP {ours / theirs:.2f}", flush=True)  # fmt: skip
            if options.lego and small:
                lego = time_lego(instance)
                print(f"{'':20}  scikit-lego {lego:.1f} s   scikit-lego / tightrope {lego / ours:.0f}", flush=True)


if __name__ == "__main__":
    main()
