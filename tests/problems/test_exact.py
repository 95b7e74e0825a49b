"""The exact solutions, against solvers that share no code with the library."""

from typing import Any

import cvxpy as cp
import jax
import numpy as np
import pytest
from scipy.optimize import linprog, minimize

from tightrope.problems import EXACT


def solve(name) -> tuple[Any, Any, Any]:
    """The problem once more, as a cvxpy model: optimal value, point, multipliers."""
    if name == "ball":
        x = cp.Variable(5)
        objective, constraints = np.array([0.6, 0, -0.8, 0, 0]) @ x, [cp.sum_squares(x) / 2 <= 0.5]
        domain = [cp.norm(x) <= 2]
    elif name == "simplex":
        x = cp.Variable(5)
        rows = np.array([[1, -1, 0, 0.5, 0], [0, 1, -1, 0, 0.5]])
        point, dual = np.array([0.4, 0.3, 0.15, 0.1, 0.05]), np.array([0.5, 0.3])
        objective = cp.sum_squares(x - (point + rows.T @ dual)) / 2
        constraints, domain = [rows[i] @ x <= rows[i] @ point for i in range(2)], [x >= 0, cp.sum(x) == 1]
    elif name == "scalar":
        x = cp.Variable(1)
        objective, constraints, domain = cp.sum_squares(x - 2) / 2, [x <= 1], [x >= -1, x <= 2]
    else:
        x = cp.Variable(10)
        objective, constraints, domain = -2 * x[0] - x[1], [x[0] <= 0.4], [cp.norm1(x) <= 1]
    model = cp.Problem(cp.Minimize(objective), [*constraints, *domain])
    model.solve(solver=cp.CLARABEL, tol_gap_abs=1e-11, tol_gap_rel=1e-11, tol_feas=1e-11)
    return model.value, x.value, np.array([np.ravel(np.asarray(c.dual_value))[0] for c in constraints])


@pytest.mark.parametrize("name", EXACT)
def test_primal_dual_and_value_agree_with_cvxpy(name):
    solved, (value, x, dual) = EXACT[name](), solve(name)
    np.testing.assert_allclose(solved.optimum, value, atol=1e-8)
    np.testing.assert_allclose(solved.x, x, atol=1e-6)
    np.testing.assert_allclose(solved.dual, dual, atol=1e-6)


@pytest.mark.parametrize("name", EXACT)
def test_the_slater_margin_is_the_largest(name):
    solved = EXACT[name]()
    if name == "ball":  # the constraint is smallest at the origin
        largest = -minimize(lambda x: float(solved.constraints(x)[0]), np.ones(5)).fun
    else:  # linear constraints: maximise t subject to H(x) + t <= 0 over the domain
        n, d = len(solved.dual), len(solved.x)
        rows = np.asarray(jax.jacobian(solved.constraints)(jax.numpy.asarray(solved.x)))
        offset = np.asarray(solved.constraints(jax.numpy.zeros(d)))
        # x = u - v with u, v >= 0 covers all three domains
        upper = np.hstack([rows, -rows, np.ones((n, 1))])
        right = -offset
        extra = {"simplex": (None, 1.0), "scalar": (None, None), "l1-lp": (1.0, None)}[name]
        ones = np.r_[np.ones(2 * d), 0][None]
        bounds = (
            [(0, 2.0 if name == "scalar" else None)] * d + [(0, 0 if name == "simplex" else None)] * d + [(None, None)]
        )
        if name == "scalar":
            bounds[d] = (0, 1)
        upper, right = (np.vstack([upper, ones]), np.r_[right, extra[0]]) if extra[0] else (upper, right)
        equal = {"A_eq": ones, "b_eq": [extra[1]]} if extra[1] else {}
        largest = -linprog(np.r_[np.zeros(2 * d), -1], upper, right, bounds=bounds, **equal).fun
    np.testing.assert_allclose(solved.slater, largest, atol=1e-6)
