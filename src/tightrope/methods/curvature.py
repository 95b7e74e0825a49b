"""Curvature of the Lagrangian: exact on some of the rows, corrected by the gradients of all rows at points looked at.

What the bundle's turns of sequential quadratic programming and `SQP` share. Matrices are in widths of the domain: W B W for
points x = centre + W y, in units of F.
"""

import jax
import jax.numpy as jnp
import numpy as np

from tightrope._jaxlib import compiled
from tightrope.precision import full_precision
from tightrope.problem import Problem
from tightrope.problem.full_data import Some, bent_like, fold_rows
from tightrope.problem.matrix_of import matrix_of
from tightrope.tree import Array, Tree, ravel

_DAMPED = 0.1  # Powell's: a pair must bend at least this much of what the matrix already does
_FLAT = 1e-10  # of the unit of F: less curvature than this over the whole domain is none; by hand


@compiled(static_argnames="rows_a_slice", soon=True)
@full_precision
def lagrangian_hessian(problem: Problem, x: Tree, lam: Array, data: Tree, some: Some, rows_a_slice: int) -> Array:
    """The Hessian of the mean of f + <lam, h> over some slices of the rows, as a matrix."""
    flat, back = ravel(x)
    problem = bent_like(problem, x, data, some, rows_a_slice)

    def of_slice(rows, weights):
        def lagrangian(v):
            f, h = jax.vmap(lambda one: problem.sample_values(back(v), one))(rows)
            return jnp.dot(weights.astype(f.dtype), f) + jnp.dot(weights.astype(h.dtype) @ h, lam)

        return matrix_of(jax.linearize(jax.grad(lagrangian), flat)[1], flat)

    return fold_rows(of_slice, data, rows_a_slice, some)


def positive(hessian: np.ndarray) -> np.ndarray:
    """The nearest semidefinite matrix."""
    values, vectors = np.linalg.eigh((hessian + hessian.T) / 2)
    return (vectors * np.maximum(values, 0)) @ vectors.T


def usual(steps: np.ndarray, changes: np.ndarray) -> float:
    """The curvature that is usual among pairs of a step and the change of the gradient along it."""
    return max(float(np.median(np.sum(steps * changes, axis=1) / np.sum(steps * steps, axis=1))), 0.0)


def mixed(hessian: np.ndarray, rows: int, curvature: float) -> np.ndarray:
    """A Hessian in d coordinates on m rows with d/(d + m) of a multiple of the identity: m rows do not see them all."""
    d = len(hessian)
    share = d / (d + rows) if np.any(hessian) else 1.0
    return (1 - share) * hessian + share * curvature * np.eye(d)


def updated(B: np.ndarray, step: np.ndarray, change: np.ndarray) -> np.ndarray:
    """After a damped BFGS update with a step and the change of the gradient along it."""
    for sign, v in secant(B @ step, step, change):
        B = B + sign * np.outer(v, v)
    return B


def secant(Bs: np.ndarray, step: np.ndarray, change: np.ndarray) -> list[tuple[float, np.ndarray]]:
    """What a damped BFGS update adds to B: vectors v of terms vv', with their signs. Nothing where the gradient does not
    rise along the step."""
    bent, sBs = step @ change, step @ Bs
    if bent <= 0:
        return []
    if sBs <= 1e-12 * bent:
        return [(1.0, change / np.sqrt(bent))]
    mix = 1.0 if bent >= _DAMPED * sBs else (1 - _DAMPED) * sBs / (sBs - bent)
    change = mix * change + (1 - mix) * Bs
    return [(-1.0, Bs / np.sqrt(sBs)), (1.0, change / np.sqrt(step @ change))]


def with_secants(
    hessian: np.ndarray, rows: int, at: int, x: np.ndarray, slopes: np.ndarray, widths: np.ndarray
) -> np.ndarray:
    """A Hessian on some rows (not in widths, nor is what comes back), after damped BFGS updates with the differences to
    every other point, the farthest first.

    The nearest points, whose differences say most about the curvature where the step begins, come last and count most.
    """
    B = positive(hessian * widths[:, None] * widths)
    steps, changes = (x - x[at]) / widths, (slopes - slopes[at]) * widths
    distance = np.linalg.norm(steps, axis=1)
    others = distance > 1e-9
    if np.any(others):
        B = mixed(B, rows, usual(steps[others], changes[others]))
    for k in np.argsort(-distance, kind="stable"):
        if others[k]:
            B = updated(B, steps[k], changes[k])
    return positive(B) / widths[:, None] / widths


def is_flat(hessian: np.ndarray, widths: np.ndarray, unit: float) -> bool:
    """Whether the matrix bends nothing on the domain."""
    return float(np.max(np.abs(np.diag(hessian)) * widths**2, initial=0.0)) <= _FLAT * unit
