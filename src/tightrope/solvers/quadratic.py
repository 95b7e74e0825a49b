"""The small quadratic programme of a step: min <g, y> + y'By/2 subject to h + J y <= 0 and y in the domain.

Everything is without units, in widths of the domain around the present point. Constraints are few, so the dual is small:
a Cholesky factor of B turns the programme into finding the shortest vector under N inequalities, which nonnegative least
squares solves exactly (Lawson and Hanson). The Euclidean ball is one more multiplier, found as the root of a scalar
function. Faces of a polytope that the solution would leave join the inequalities as long as these are few. What remains
goes to Clarabel.
"""

from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

from tightrope.solvers.bounds import ROUNDED, Bounds, within_bounds
from tightrope.solvers.low_rank import LowRank
from tightrope.solvers.programmes import NONE, Region, solve

MOST = 50  # inequalities up to which nonnegative least squares is the fastest way; measured


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
