"""Curvature of the Lagrangian: exact on some of the rows, corrected by the gradients of all rows at points looked at.

What the bundle's turns of sequential quadratic programming and `SQP` share. Matrices are in widths of the domain: W B W for
points x = centre + W y, in units of F.
"""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tightrope._jaxlib import compiled
from tightrope.precision import full_precision
from tightrope.problem import Problem
from tightrope.problem.full_data import Some, bent_like, fold_rows, slopes_by_few
from tightrope.problem.matrix_of import matrix_of
from tightrope.problem.problem import bends
from tightrope.problem.rounding import few
from tightrope.tree import Array, Tree, add_scaled, float_dtype, norm, ravel, shaped_like, subtract

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


# ---- is there any, and are there kinks ------------------------------------------------------------------------------

_LATE = 6  # the last of them, over which a smooth function's slope changes by 2^-6; by hand
_SHARES = 1.0, 0.1, 1e-2, 1e-3, 1e-4, 1e-6  # of the line, until nothing overflows on it; by hand
_JUMP = 0.25  # share of the change left after them: more is a jump; by hand, between 2^-6 and 1


def lacks(problem: Problem, x: Tree, data: Tree) -> str | None:
    """What the functions lack for a method of second order: "second derivatives", "curvature" or "smoothness"; None for
    nothing.

    On some of the rows: the slope of f, and that of sum h_i with each h_i in the units in which it weighs as much as f,
    along lines from x to where either pulls, or away from there if that is farther. Of an interval the half is kept in
    which the slope changes more. For a smooth function the change goes to zero with the interval; at a kink it stays. Each
    is asked by itself: what bends strongly would hide the kinks of the other, and where f pulls there may be none of h.
    """
    if not bends(problem):
        return "second derivatives"
    try:
        grad, rows = slopes_by_few(problem, x, data)
        steep, lengths = float(np.linalg.norm(grad)), np.linalg.norm(rows, axis=1)
        lam = np.divide(steep, lengths, out=np.ones_like(lengths), where=(lengths > 0) & (steep > 0))
        slope = grad + lam @ rows
        ways = [next((g for g in (own, slope) if np.any(g)), np.ones_like(slope)) for own in (grad, slope - grad)]
        dtype = float_dtype(x)
        pulls = [shaped_like(x, way.astype(dtype)) for way in ways[: 1 + min(len(lam), 1)]]
        pulls = jax.tree.map(lambda *v: np.stack(v), *pulls)
        changes = np.full((1, 4), np.nan)
        for share in _SHARES:  # of the line, until nothing overflows on it
            changes = np.asarray(_changes(problem, x, pulls, lam.astype(dtype), data, np.asarray(share, dtype)), float)
            if np.all(np.isfinite(changes)):
                break

    except TypeError:  # a derivative of its own that was given for backward passes only
        return "second derivatives"
    whole, late, last, noise = changes.T
    if np.all(whole <= noise):
        return "curvature"
    return "smoothness" if np.any((last > _JUMP * late) & (last > noise)) else None


@compiled(soon=True)
@full_precision
def _changes(problem: Problem, x: Tree, pulls: Tree, lam: Array, data: Tree, share: Array) -> Array:
    """By how much the slope changes along a share of the line, in the interval that is left late, and at last; and what
    rounding does: of the objective, and of the constraints where there are any."""
    rows = few(data)
    halvings = jnp.finfo(lam.dtype).nmant + 1  # as many as there are digits: kinks may lie close together

    def look(weights: Array, ahead: Tree, k: Any, seen: Any) -> Any:
        """First at the two ends, then in the middle of what is left; the change is noted at first, late, and at last."""
        low, high, at_low, at_high, changes = seen
        a: Any = jnp.where(k < 2, k, (low + high) / 2)
        _, (df, dh) = jax.jvp(lambda p: problem.values(p, rows), (add_scaled(x, a, ahead),), (ahead,))
        at = jnp.dot(weights, jnp.stack([df, jnp.dot(lam, dh)]))
        upper = (k != 1) & ((k == 0) | (at - at_low < at_high - at))
        low, at_low = jnp.where(upper, a, low), jnp.where(upper, at, at_low)
        high, at_high = jnp.where(upper, high, a), jnp.where(upper, at_high, at)
        now = k == 1 + jnp.array([0, halvings - _LATE, halvings, 0])
        return (
            low,
            high,
            at_low,
            at_high,
            jnp.where(now, jnp.stack([at_high - at_low] * 3 + [abs(at_low) + abs(at_high)]), changes),
        )

    def of(weights: Array, pulls: Tree) -> Array:
        down, up = (subtract(problem.domain.lmo(g), x) for g in (pulls, jax.tree.map(jnp.negative, pulls)))
        ahead = jax.tree.map(lambda a, b: share * jnp.where(norm(down) >= norm(up), a, b), down, up)
        zero = jnp.zeros((), lam.dtype)
        begin = zero, zero + 1, zero, zero, jnp.zeros((4,), lam.dtype)
        return jax.lax.fori_loop(0, halvings + 2, functools.partial(look, weights, ahead), begin)[-1]

    changes = jax.vmap(of)(jnp.eye(2, dtype=lam.dtype)[: 1 + min(lam.size, 1)], pulls)
    return changes.at[:, 3].multiply(1e3 * float(jnp.finfo(lam.dtype).eps))
