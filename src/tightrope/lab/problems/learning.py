"""Learning from rows: classifiers under a constraint on another error or on fairness.

The rows of a finite table are the distribution, so that expectations are means over the table and the optimality conditions
can be solved to the last digits; the constraints that are active are known beforehand.
"""

from functools import lru_cache
from typing import Any

import jax.numpy as jnp
import numpy as np

from tightrope.lab.problems.solved import Constants, Solved, solve_equations
from tightrope.learn.datasets import rotated_gaussians
from tightrope.learn.problems.fair import fair_classification
from tightrope.problem import Problem
from tightrope.sets import L2Ball


@lru_cache
def neyman_pearson() -> Solved:
    """Neyman-Pearson classification: min E log(1 + exp(-<a, x>)) s.t. E log(1 + exp(<b, x>)) <= 1/5, |x| <= 5.

    a is a positive row and b a negative one, two features from a Gaussian each and an intercept: few positives are missed
    while false alarms are rare. A sample is a pair (a, b), one of 500.
    """
    rng, n, level, radius = np.random.default_rng(6), 500, 0.2, 5.0
    b = _with_intercept(np.array([-1.0, -0.5]) + rng.normal(size=(n, 2)) @ np.array([[1.0, 0.3], [0.0, 0.95]]))
    a = _with_intercept(np.array([1.0, 0.5]) + rng.normal(size=(n, 2)) @ np.array([[1.0, -0.2], [0.0, 0.7]]))

    def f(x, theta):
        return jnp.logaddexp(0.0, -jnp.dot(theta["a"], x))

    def h(x, theta):
        return (jnp.logaddexp(0.0, jnp.dot(theta["b"], x)) - level)[None]

    answer = rare_alarms(a, b, level, radius)
    lengths_a, lengths_b = np.linalg.norm(a, axis=1), np.linalg.norm(b, axis=1)
    return Solved.of_table(
        "neyman-pearson",
        Problem(f, h, L2Ball(radius, shape=3)),
        {"a": a, "b": b},
        **answer,
        constants=Constants(
            D=2 * radius,
            G_f=float(lengths_a.mean()),
            G_h=float(lengths_b.mean()),
            sigma_f=_root_mean(lengths_a**2),
            sigma_h=_root_mean(lengths_b**2),
            sigma_lam=_root_mean(np.maximum(np.logaddexp(0, radius * lengths_b) - level, level) ** 2),
            L_f=_root_mean(lengths_a**4 / 16),
            L_h=_root_mean(lengths_b**4 / 16),
        ),
        noise="a pair of rows, one of each class, of 500 pairs",
    )


@lru_cache
def fair_logistic() -> Solved:
    """Fair logistic regression: min E log(1 + exp(-y <a, x>)) s.t. |E (s - E s) <a, x>| <= 1/10, |x| <= 2.

    The data are `rotated_gaussians(1000)`: y and the sensitive s are tied, and the fair score must not follow s. Of the two
    sides one is active; the origin has the largest margin, because the two sides sum to -1/5.
    """
    from scipy.special import expit

    features, y, s, _ = rotated_gaussians(n=1000, seed=7)
    level, radius, n = 0.1, 2.0, len(y)
    problem, table = fair_classification(features, y, s, level, radius, exact=False)
    centred = table[3][:, 0]
    V = centred @ features / n

    def conditions(z):
        return np.append(-(y * expit(-y * (features @ z[:3]))) @ features / n + z[3] * V, V @ z[:3] - level)

    *x, multiplier = solve_equations(conditions, [0.3, 0.0, 0.0, 0.8])
    lengths = np.linalg.norm(features, axis=1)
    return Solved.of_table(
        "fair-logistic",
        problem,
        table,
        x=np.array(x),
        dual=np.array([multiplier, 0.0]),
        optimum=float(np.logaddexp(0, -y * (features @ np.array(x))).mean()),
        slater=level,
        constants=Constants(
            D=2 * radius,
            G_f=float(lengths.mean()),
            G_h=float(np.linalg.norm(V)),
            sigma_f=_root_mean(lengths**2),
            sigma_h=_root_mean((centred * lengths) ** 2),
            sigma_lam=_root_mean((np.abs(centred) * lengths * radius + level) ** 2),
            L_f=_root_mean(lengths**4 / 16),
            L_h=0.0,
        ),
        noise="one of 1,000 rows",
    )


def rare_alarms(positive: np.ndarray, negative: np.ndarray, level: float, radius: float) -> dict[str, Any]:
    """Where the mean of log(1 + exp(-<a, x>)) over positive rows is least with that of log(1 + exp(<b, x>)) over negative
    ones at a level that binds: x, its multiplier, the value, and the margin, for three coordinates in a ball that does not.
    """
    from scipy.special import expit

    def alarms(x: np.ndarray) -> tuple[float, np.ndarray]:
        return np.logaddexp(0, negative @ x).mean(), expit(negative @ x) @ negative / len(negative)

    def conditions(z: np.ndarray) -> np.ndarray:
        value, slope = alarms(z[:3])
        return np.append(-expit(-(positive @ z[:3])) @ positive / len(positive) + z[3] * slope, value - level)

    def calmest(z: np.ndarray) -> np.ndarray:  # the fewest alarms, on the sphere: what the margin is measured at
        return np.append(alarms(z[:3])[1] + z[3] * z[:3], (z[:3] @ z[:3] - radius**2) / 2)

    *point, multiplier = solve_equations(conditions, [2.0, 1.0, -1.0, 2.0])
    x, safest = np.array(point), solve_equations(calmest, [0.8, 0.2, -4.9, 0.001])[:3]
    optimum, margin = float(np.logaddexp(0, -positive @ x).mean()), float(level - alarms(safest)[0])
    return {"x": x, "dual": np.array([multiplier]), "optimum": optimum, "slater": margin}


def _with_intercept(features: np.ndarray) -> np.ndarray:
    return np.column_stack([features, np.ones(len(features))])


def _root_mean(values: np.ndarray) -> float:
    return float(np.sqrt(np.mean(values)))
