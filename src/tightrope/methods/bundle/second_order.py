"""Curvature of the Lagrangian at a point: exact on some of the rows, corrected by the gradients of all that were seen."""

import jax
import jax.numpy as jnp
import numpy as np

from tightrope.problem import Problem
from tightrope.tree import Array, Tree, ravel

_DAMPED = 0.1  # Powell's: a pair must bend at least this much of what the matrix already does
_FLAT = 1e-10  # of the unit of F: less curvature than this over the whole domain is none


@jax.jit(static_argnames="count")
def lagrangian_hessian(problem: Problem, x: Tree, lam: Array, data: Tree, first: Array, count: int) -> Array:
    """The Hessian of the mean of f + <lam, h> over `count` rows from `first` on, as a matrix."""
    flat, back = ravel(x)
    rows = jax.tree.map(lambda a: jax.lax.dynamic_slice_in_dim(a, first, count), data)

    def lagrangian(v):
        f, h = problem.values(back(v), rows)
        return f + jnp.dot(lam, h)

    return jax.hessian(lagrangian)(flat)


def rows_for_hessian(n: int, d: int) -> int:
    """So many of n rows that a Hessian in d coordinates, d products of two gradients a row, costs a pass at most."""
    return max(1, n // (2 * d))


def with_secants(
    hessian: np.ndarray, rows: int, at: int, x: np.ndarray, slopes: np.ndarray, widths: np.ndarray
) -> np.ndarray:
    """A Hessian on some rows, after damped BFGS updates with the differences to every other point, the farthest first.

    The nearest points, whose differences say most about the curvature where the step begins, come last and count most.
    A Hessian in d coordinates on m rows is first mixed with d/(d + m) of a multiple of the identity, the curvature that
    is usual among the differences.
    """
    B = _positive(hessian, widths)
    distance = np.linalg.norm((x - x[at]) / widths, axis=1)
    others = distance > 1e-9
    if np.any(others):
        usual = np.median(np.sum((x - x[at]) * (slopes - slopes[at]), axis=1)[others] / distance[others] ** 2)
        share = len(widths) / (len(widths) + rows) if np.any(B) else 1.0
        B = (1 - share) * B + share * max(float(usual), 0.0) * np.diag(widths**-2.0)
    for k in np.argsort(-distance, kind="stable"):
        s, y = x[k] - x[at], slopes[k] - slopes[at]
        bent, Bs = s @ y, B @ s
        sBs = s @ Bs
        if distance[k] < 1e-9 or bent <= 0:
            continue
        if sBs <= 1e-12 * bent:
            B = B + np.outer(y, y) / bent
            continue
        mix = 1.0 if bent >= _DAMPED * sBs else (1 - _DAMPED) * sBs / (sBs - bent)
        y = mix * y + (1 - mix) * Bs
        B = B - np.outer(Bs, Bs) / sBs + np.outer(y, y) / (s @ y)
    return _positive(B, widths)


def is_flat(hessian: np.ndarray, widths: np.ndarray, unit: float) -> bool:
    """Whether the matrix bends nothing on the domain."""
    return float(np.max(np.abs(np.diag(hessian)) * widths**2, initial=0.0)) <= _FLAT * unit


def _positive(hessian: np.ndarray, widths: np.ndarray) -> np.ndarray:
    """The nearest semidefinite matrix, in units of the widths."""
    values, vectors = np.linalg.eigh((hessian + hessian.T) / 2 * widths[:, None] * widths)
    return (vectors * np.maximum(values, 0)) @ vectors.T / widths[:, None] / widths
