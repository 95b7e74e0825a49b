"""The batch reference: SciPy's SLSQP on the objective and the constraints of all rows at once.

Every evaluation is a pass over the data. It is what stochastic methods for data at hand are compared with, and the way in
which fair classifiers with covariance constraints were first trained (Zafar, Valera, Gomez Rodriguez & Gummadi, AISTATS
2017).
"""

import math
import time
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import minimize as scipy_minimize
from scipy.optimize import nnls

from tightrope._jaxlib import compiled
from tightrope.precision import in_float64
from tightrope.problem import Problem
from tightrope.problem.full_data import full_jacobian
from tightrope.problem.problem import astype_problem, check_shapes
from tightrope.sampling import Rows, as_sampler
from tightrope.sets import Box, ConvexSet, L2Ball, LinfBall, Simplex
from tightrope.tree import Tree, astype, ravel


class BatchResult(NamedTuple):
    """What `slsqp` found; all numbers are in float64."""

    x: Tree  # the solution
    dual: np.ndarray  # (N,) multipliers: nonnegative least squares on the active constraints
    objective: float  # over all rows, at x
    constraints: np.ndarray  # (N,) over all rows, minus levels
    residual: float  # norm of what the multipliers leave of the Lagrangian's gradient, zero at a solution
    evaluations: int  # how often values and all gradients were computed, each time over all rows
    seconds: float  # without compiling


class _Values(NamedTuple):
    """Objective, constraints and their derivatives at one point, as NumPy arrays."""

    f: float
    h: np.ndarray
    grad_f: np.ndarray
    rows: np.ndarray  # (N, d)


_jacobian = compiled(full_jacobian)


@in_float64
def slsqp(problem: Problem, data: Any, x0: Tree = None, tol: float = 1e-10, max_iterations: int = 1000) -> BatchResult:
    """Minimise the mean of f over all rows subject to the means of h, by sequential quadratic programming.

    For a few hundred coordinates at most: SciPy's SLSQP keeps a dense quadratic model. The domain must be one that it can
    be told: a Box, LinfBall, L2Ball or Simplex.

    Args:
        problem: the problem.
        data: a pytree of arrays with a row per sample, or a `Rows`.
        x0: where to start; the domain's own starting point by default.
        tol: SLSQP's tolerance on the objective.
        max_iterations: the number after which it gives up.

    Example:
        >>> import numpy as np, tightrope as tr
        >>> from tightrope.slsqp import slsqp
        >>> problem = tr.Problem(lambda x, theta: ((x - theta) ** 2).sum() / 2, None, tr.Box(0.0, 1.0, shape=2))
        >>> slsqp(problem, np.array([[2.0, 0.0], [2.0, 1.0]])).x.round(6).tolist()
        [1.0, 0.5]
    """
    sampler = as_sampler(data)
    if not isinstance(sampler, Rows):
        raise TypeError(f"slsqp looks at all the data and a {type(sampler).__name__} was given; expected arrays.")
    start, back = ravel(astype(problem.domain.start() if x0 is None else x0, np.float64))
    n = check_shapes(problem, back(start), sampler.example())
    bounds, extra = _domain_for_scipy(problem.domain, back(start))
    see = _Seer(astype_problem(problem, np.dtype("float64")), astype(sampler.data, np.float64), back)
    see(np.asarray(start))  # compiles
    see.evaluations, see.last, begin = 0, None, time.perf_counter()
    below = {"type": "ineq", "fun": lambda v: -see(v).h, "jac": lambda v: -see(v).rows}
    found = scipy_minimize(
        lambda v: see(v).f,
        np.asarray(start),
        jac=lambda v: see(v).grad_f,
        bounds=bounds,
        constraints=[*extra, *([below] if n else [])],
        method="SLSQP",
        options={"ftol": tol, "maxiter": max_iterations},
    )
    seconds, evaluations = time.perf_counter() - begin, see.evaluations
    x = np.asarray(ravel(problem.domain.project(back(jnp.asarray(found.x))))[0])  # SLSQP may be outside by rounding
    at = see(x)
    dual, residual = _multipliers(at, _normals(problem.domain, back(jnp.asarray(x)), x))
    if not found.success and residual > 1e-4 * (1 + np.linalg.norm(at.grad_f)):
        raise RuntimeError(f"slsqp: SLSQP gave up ({found.message}), {residual:.2g} from a stationary point.")
    point = jax.tree.map(np.asarray, back(jnp.asarray(x)))
    return BatchResult(point, dual, at.f, at.h, residual, evaluations, seconds)


class _Seer:
    """Values and derivatives at a vector. SLSQP asks for each of them by itself, so those of the last point are kept."""

    def __init__(self, problem: Problem, data: Tree, back: Any):
        self.problem, self.data, self.back = problem, data, back
        self.evaluations, self.last = 0, None

    def __call__(self, v: np.ndarray) -> _Values:
        if self.last is None or not np.array_equal(self.last[0], v):
            f, h, grad_f, rows = _jacobian(self.problem, self.back(jnp.asarray(v)), self.data)
            flat = [np.reshape(r, (h.shape[0], math.prod(r.shape[1:]))) for r in jax.tree.leaves(rows)]
            values = _Values(float(f), np.asarray(h), np.asarray(ravel(grad_f)[0]), np.concatenate(flat, axis=1))
            self.last, self.evaluations = (v.copy(), values), self.evaluations + 1
        return self.last[1]


def _box(domain: ConvexSet, x: Tree) -> tuple[np.ndarray, np.ndarray] | None:
    """The bounds of a box, coordinate by coordinate; of a simplex, those of its coordinates."""
    size = ravel(x)[0].size
    if isinstance(domain, Box):  # corners, by the set's own minimisation
        ones = jax.tree.map(jnp.ones_like, x)
        corners = domain.lmo(ones), domain.lmo(jax.tree.map(jnp.negative, ones))
        return np.asarray(ravel(corners[0])[0]), np.asarray(ravel(corners[1])[0])
    if isinstance(domain, LinfBall | Simplex):
        low = 0.0 if isinstance(domain, Simplex) else -float(domain.radius)
        return np.full(size, low), np.full(size, float(domain.radius))
    return None


def _domain_for_scipy(domain: ConvexSet, x: Tree) -> tuple[list[tuple[float, float]] | None, list[dict[str, Any]]]:
    """The domain in SciPy's form: bounds of the coordinates, and further constraints."""
    box = _box(domain, x)
    bounds = None if box is None else list(zip(*(b.tolist() for b in box), strict=True))
    if isinstance(domain, L2Ball):
        square = float(domain.radius) ** 2
        return None, [{"type": "ineq", "fun": lambda v: (square - v @ v) / 2, "jac": lambda v: -v}]
    if isinstance(domain, Simplex):
        total = float(domain.radius)
        return bounds, [{"type": "eq", "fun": lambda v: v.sum() - total, "jac": np.ones_like}]
    if bounds is None:
        raise TypeError(
            f"slsqp cannot write down {domain.name}; expected a Box, LinfBall, L2Ball or Simplex. For other sets use "
            'tr.minimize(..., method="svrg-csoa") or "svrf-csoa".'
        )
    return bounds, []


def _normals(domain: ConvexSet, x: Tree, v: np.ndarray, near: float = 1e-7) -> np.ndarray:
    """Outward normals of the domain at x, one per row."""
    if isinstance(domain, L2Ball):
        return v[None] if np.linalg.norm(v) >= float(domain.radius) * (1 - near) else np.zeros((0, v.size))
    box = _box(domain, x)
    assert box is not None
    eye, room = np.eye(v.size), near * np.maximum(1, box[1] - box[0])
    plane = np.ones((1, v.size))
    of_sum = [plane, -plane] if isinstance(domain, Simplex) else []
    return np.concatenate([-eye[v <= box[0] + room], eye[v >= box[1] - room], *of_sum])


def _multipliers(at: _Values, normals: np.ndarray, near: float = 1e-6) -> tuple[np.ndarray, float]:
    """Nonnegative weights of the active constraints and normals that come closest to -grad f, and what they leave."""
    active = np.flatnonzero(at.h >= -near * np.maximum(1, np.linalg.norm(at.rows, axis=1)))
    columns = np.concatenate([at.rows[active], normals]).T
    dual = np.zeros(at.h.size)
    if columns.shape[1] == 0:
        return dual, float(np.linalg.norm(at.grad_f))
    weights, residual = nnls(columns, -at.grad_f)
    dual[active] = weights[: active.size]
    return dual, float(residual)
