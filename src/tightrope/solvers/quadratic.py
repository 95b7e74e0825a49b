"""The small quadratic programme of a step: min <g, y> + y'By/2 subject to h + J y <= 0 and y in the domain.

Everything is without units, in widths of the domain around the present point. Constraints are few, so the dual is small:
a Cholesky factor of B turns the programme into finding the shortest vector under N inequalities, which nonnegative least
squares solves exactly (Lawson and Hanson). The Euclidean ball is one more multiplier, found as the root of a scalar
function. Faces of a polytope that the solution would leave join the inequalities as long as these are few. What remains
goes to Clarabel.

B is the curvature of the Lagrangian on some of the rows, corrected by the gradients of all rows at points looked at.
"""

from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

from tightrope.solvers.bounds import ROUNDED, Bounds, within_bounds
from tightrope.solvers.low_rank import LowRank
from tightrope.solvers.programmes import NONE, NOTHING, Region, solve

MOST = 50  # inequalities up to which nonnegative least squares is the fastest way; measured
_DAMPED = 0.1  # Powell's: a pair must bend at least this much of what the matrix already does


class Step(NamedTuple):
    """Where to go, and the multipliers of the constraints."""

    y: np.ndarray
    lam: np.ndarray


class Inconsistent(Exception):
    """No point of the domain satisfies the linearised constraints."""


class Ball(NamedTuple):
    """The domain |centre + y| <= radius."""

    centre: np.ndarray
    radius: float


def best_step(
    g: np.ndarray, B: np.ndarray | LowRank, J: np.ndarray, h: np.ndarray, within: Ball | Bounds | Region
) -> Step | None:
    """The solution; None where no solver finds it.

    Raises:
        Inconsistent: where the constraints cannot hold together.
    """
    if isinstance(within, Bounds):
        step = _between(g, B, J, h, within) if len(h) <= MOST else None
        if step is not None:
            return step
        within = within.region()
    if len(h) <= MOST:
        try:
            found = _on_ball(g, B, J, h, within) if isinstance(within, Ball) else _on_faces(g, B, J, h, within)
        except Inconsistent:  # or nothing bends where constraints lead, and the factor is too close to singular to tell
            if isinstance(within, Ball):
                raise
            found = None
        if found is not None:
            return found
    assert isinstance(within, Region)
    answer = solve(within, g, J, -h, B.matrix() if isinstance(B, LowRank) else B)
    return None if answer is None else Step(answer.v, answer.dual)


def onto(y: np.ndarray, J: np.ndarray, h: np.ndarray, region: Region) -> np.ndarray:
    """The nearest point with h + J y = 0 on the flat faces of the region where y is: programmes are solved to a tolerance,
    and where there is no room that is not enough."""
    flat = np.repeat([kind in ("zero", "nonnegative") for kind, _ in region.cones], [size for _, size in region.cones])
    left = region.b - region.A @ y
    faces = flat & (left < NONE) & ~np.any(region.E, axis=1)
    rows, off = np.vstack([J, region.A[faces]]), np.append(h + J @ y, -left[faces])
    return y - np.linalg.lstsq(rows, off, rcond=NONE)[0]


def _on_ball(g: np.ndarray, B: np.ndarray | LowRank, J: np.ndarray, h: np.ndarray, ball: Ball) -> Step:
    """On a ball: B + tau I with the tau >= 0 at which the solution is not outside."""
    from scipy.optimize import brentq

    def at(tau: float) -> Step:
        return _free(g + tau * ball.centre, _lifted(B, tau) if tau else B, J, h)

    def outside(step: Step) -> float:
        return float(np.linalg.norm(ball.centre + step.y)) / ball.radius - 1

    first = at(0.0)
    if outside(first) <= ROUNDED:
        return first
    trace = B.trace if isinstance(B, LowRank) else float(np.trace(B))
    high = 1e-3 * max(trace / len(g), ROUNDED)
    while outside(at(high)) > 0:
        high *= 10
        if high > 1e30:
            raise Inconsistent
    low = high / 10 if outside(at(high / 10)) > 0 else 0.0
    root: Any = brentq(lambda tau: outside(at(tau)), low, high, xtol=1e-15 * high)
    return at(float(root))


def _between(g: np.ndarray, B: np.ndarray | LowRank, J: np.ndarray, h: np.ndarray, bounds: Bounds) -> Step | None:
    """Between bounds; None where it takes another solver, or another solver may say that no point satisfies all."""
    try:
        found = within_bounds(g, B, J, h, bounds, _free)
    except Inconsistent:
        return None
    return None if found is None else Step(*found)


def _on_faces(g: np.ndarray, B: np.ndarray | LowRank, J: np.ndarray, h: np.ndarray, region: Region) -> Step | None:
    """On a set of inequalities without helpers: those that are broken join the constraints. None where that does not end
    soon, or the set is of another kind."""
    kinds = {kind for kind, _ in region.cones}
    if region.E.shape[1] or not kinds <= {"nonnegative"}:
        return None
    joined = np.zeros(len(region.b), bool)
    for _ in range(MOST):
        rows, sides = np.vstack([J, region.A[joined]]), np.concatenate([h, -region.b[joined]])
        step = _free(g, B, rows, sides)
        if not np.all(np.isfinite(step.y)):  # the factor is too close to singular
            return None
        broken = (region.A @ step.y - region.b > ROUNDED) & ~joined
        if not np.any(broken):
            return Step(step.y, step.lam[: len(h)])
        joined |= broken
        if len(h) + np.sum(joined) > MOST:
            return None
    return None


def _free(g: np.ndarray, B: np.ndarray | LowRank, J: np.ndarray, h: np.ndarray) -> Step:
    """Without a domain, by the dual: the shortest u = L'y + L^-1 g with -J L^-T u >= h - J B^-1 g, where B = L L'."""
    if isinstance(B, LowRank):
        return _free_of_low_rank(g, B, J, h)
    dtrtrs = _lapack().dtrtrs

    L = _factor(B)
    both, _ = dtrtrs(L, np.column_stack([g, J.T]), lower=1)
    u, rows = both[:, 0], both[:, 1:]
    need = h - rows.T @ u
    lam = _multipliers(rows, need) if np.any(need > 0) else np.zeros(len(h))
    y, _ = dtrtrs(L, u + rows @ lam, lower=1, trans=1)
    return Step(-y, lam)


def _free_of_low_rank(g: np.ndarray, B: LowRank, J: np.ndarray, h: np.ndarray) -> Step:
    """The same without a factor of B: the dual needs J B^-1 J' and J B^-1 g alone."""
    solved = B.solve(np.column_stack([g, J.T]))
    gram, need = J @ solved[:, 1:], h - J @ solved[:, 0]
    lam = np.zeros(len(h))
    if np.any(need > 0):
        values, vectors = np.linalg.eigh((gram + gram.T) / 2)
        lam = _multipliers(np.sqrt(np.maximum(values, 0))[:, None] * vectors.T, need)
    return Step(-(solved @ np.append(1.0, lam)), lam)


def _lifted(B: np.ndarray | LowRank, tau: float) -> Any:
    """B + tau I."""
    return B.plus(tau) if isinstance(B, LowRank) else B + tau * np.eye(len(B))


def _multipliers(rows: np.ndarray, need: np.ndarray) -> np.ndarray:
    """The lam >= 0 with rows'rows lam >= need, and equal where lam is positive.

    Mostly the constraints that are broken without multipliers are the ones that have some, and it takes one small system to
    find that out; otherwise nonnegative least squares finds them.
    """
    gram, active = rows.T @ rows, need > 0
    squares = gram.diagonal()
    if (squares[active] <= ROUNDED**2 * squares.max()).any():
        raise Inconsistent
    for _ in range(3):
        lam = _with(gram, need, active)
        if lam is None:
            break
        short = need - gram @ lam > 1e-11 * (np.abs(need) + np.abs(gram) @ lam)
        if (lam >= 0).all() and not (short & ~active).any():
            return lam
        active = (active & (lam > 0)) | (short & ~active)
    return _by_least_squares(rows, need, gram)


def _with(gram: np.ndarray, need: np.ndarray, active: np.ndarray) -> np.ndarray | None:
    """The multipliers with which these constraints hold with equality; None where they depend on each other."""
    lam, which = np.zeros(len(need)), np.flatnonzero(active)
    if len(which) <= 1:
        lam[which] = need[which] / gram[which, which]
        return lam
    size = np.sqrt(gram[which, which])
    scaled = gram[np.ix_(which, which)] / size[:, None] / size
    if np.linalg.cond(scaled) > 1e10:
        return None
    lam[which] = np.linalg.solve(scaled, need[which] / size) / size
    return lam


def _by_least_squares(rows: np.ndarray, need: np.ndarray, gram: np.ndarray) -> np.ndarray:
    """The same by Lawson and Hanson: min |E w - e|, w >= 0, whose residual is the shortest vector but for its length."""
    from scipy.optimize import nnls

    sizes = np.linalg.norm(rows, axis=0)
    sizes = np.where(sizes > 0, sizes, 1.0)
    unit = float(np.max(np.abs(need / sizes)))
    E = np.vstack([-rows / sizes, need / sizes / unit])
    weights, _ = nnls(E, np.eye(len(E))[-1])
    short = 1.0 - float(E[-1] @ weights)  # the squared length of the residual
    if short <= ROUNDED:
        raise Inconsistent
    lam = weights / short * unit / sizes
    exact = _with(gram, need, lam > 0) if np.any(lam > 0) else None
    return exact if exact is not None and np.all(exact >= 0) else lam  # without what the long way lost


def _factor(B: np.ndarray) -> np.ndarray:
    """The Cholesky factor of a matrix that is semidefinite but for rounding."""
    dpotrf = _lapack().dpotrf

    floor = 1e-14 * max(float(np.max(np.diag(B))), 1e-300)
    while True:
        lifted = np.array(B, order="F")
        lifted.flat[:: len(B) + 1] += floor
        L, failed = dpotrf(lifted, lower=1, overwrite_a=1)
        if not failed:
            return L
        floor *= 100


def _lapack() -> Any:
    return import_module("scipy.linalg.lapack")  # without stubs, and without the wrappers that cost more than the work


# ---- the matrix ------------------------------------------------------------------------------------------------------


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
    return float(np.max(np.abs(np.diag(hessian)) * widths**2, initial=0.0)) <= NOTHING * unit
