"""Data at hand made from the exact problems, and a linear programme on the simplex, each with its own optimum."""

import cvxpy as cp
import jax
import jax.numpy as jnp
import numpy as np

import tightrope as tr
from tightrope.problem import full_values
from tightrope.problems import EXACT
from tightrope.sampling import Plan

N = 2000
MERELY_CONVEX = ("l1-lp", "simplex-lp")


def finite(name: str) -> tuple[tr.Problem, tr.Rows, float]:
    """N samples of an exact problem (or "simplex-lp") as rows, and the optimum of the finite sum by cvxpy."""
    if name == "simplex-lp":
        return simplex_lp()
    solved = EXACT[name]()
    theta = jax.tree.map(lambda a: a[0, :N, 0, 0], solved.samples.open(Plan((5,))).take(0, N).items)
    m = {key: np.asarray(value).mean(0) for key, value in theta.items()}
    x = cp.Variable(len(solved.x))
    if name == "ball":  # a linear function on a ball around -b/k: by hand
        a, b, e = np.array([0.6, 0, -0.8, 0, 0]) + 0.5 * m["g"], 0.2 * m["w"], 0.2 * m["v"] - 0.5
        k = ((1 + np.asarray(theta["u"]) ** 2) / 2).mean()
        radius = np.sqrt(b @ b / k**2 - 2 * e / k)
        return solved.problem, tr.Rows(theta), float(-a @ b / k - np.linalg.norm(a) * radius)
    if name == "simplex":
        rows = np.array([[1, -1, 0, 0.5, 0], [0, 1, -1, 0, 0.5]])
        objective = cp.sum_squares(x - (solved.x + rows.T @ solved.dual)) / 2 + 0.5 * m["g"] @ x
        sides = (rows + 0.5 * m["w"]) @ x - rows @ solved.x + 0.2 * m["v"]
        constraints = [sides <= 0, x >= 0, cp.sum(x) == 1]
    elif name == "scalar":
        objective = cp.sum_squares(x - 2) / 2 + m["g"] * x[0]
        constraints = [(1 + 0.5 * m["w"][0]) * x[0] - 1 + 0.5 * m["v"][0] <= 0, x >= -1, x <= 2]
    else:
        cost = np.array([-2.0, -1.0] + [0.0] * 8)
        objective = (cost + 0.5 * m["g"]) @ x
        constraints = [x[0] + 0.3 * m["w"] @ x - 0.4 + 0.2 * m["v"] <= 0, cp.norm1(x) <= 1]
    return solved.problem, tr.Rows(theta), _optimum(objective, constraints)


def simplex_lp() -> tuple[tr.Problem, tr.Rows, float]:
    """Minimise <c + noise, x> over the simplex subject to x_1 + noise <= 0.4: the best vertex is forbidden in part."""
    cost, rng = np.array([-2.0, -1.0, 0.0, 0.0, 0.5, 1.0]), np.random.default_rng(5)
    theta = {"c": cost + 0.5 * rng.normal(size=(N, 6)), "a": np.eye(6)[0] + 0.3 * rng.normal(size=(N, 6))}
    x = cp.Variable(6)
    means = {key: value.mean(0) for key, value in theta.items()}
    optimum = _optimum(means["c"] @ x, [means["a"] @ x <= 0.4, x >= 0, cp.sum(x) == 1])
    return tr.Problem(_cost, _share, tr.Simplex(shape=6), levels=0.4), tr.Rows(theta), optimum


def _cost(x, theta):
    return jnp.dot(theta["c"], x)


def _share(x, theta):
    return jnp.dot(theta["a"], x)[None]


def _optimum(objective, constraints) -> float:
    model = cp.Problem(cp.Minimize(objective), constraints)
    model.solve(solver=cp.CLARABEL, tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)
    return float(np.asarray(model.value))


def error(problem: tr.Problem, data: tr.Rows, x, optimum: float) -> float:
    """Distance from the optimal value, or the violation where that is worse."""
    f, h = full_values(problem, x, data.data)
    return max(abs(float(f) - optimum), float(np.max(h)))
