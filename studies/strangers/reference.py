"""Solutions of random problems, by cvxpy with Clarabel in natural units, each with a proof.

A solver's word is not taken. From its multipliers and, at kinks, its slopes a lower bound is made: with lam >= 0,
L(x) = F(x) + lam'H(x) is nowhere above F on the feasible set, and nowhere below its own tangent at the solver's point,
whose least value over X a linear minimisation gives. The solver's point pulled to feasibility gives the upper bound, which
is the optimum of record. A reference whose bounds differ by more than `TOLERANCE` is refused.
"""

import dataclasses
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from studies.strangers.generate import Stranger
from studies.strangers.model import KINKED, Model, link_values

TOLERANCE = 1e-7  # of the scale of F, or of h for the least violation
LEAST_MARGIN = 1e-4  # in scales of h
POLISHED = 6  # programmes solved at most: the first is exact, the others are quadratic models near its answer


class NotSolved(ArithmeticError):
    """No reference that is good enough."""


@dataclasses.dataclass(frozen=True)
class Reference:
    """What is known about a random problem, in natural units.

    Attributes:
        optimum: F*; NaN without a feasible point.
        x: the solution; without a feasible point, a point of least violation.
        dual: multipliers; without a feasible point, weights (of sum one for H_i/scale_i) that prove it.
        inner: the point of the largest Slater margin, or of least violation.
        margin: the largest sigma such that some point has H_i <= -sigma scale_i for all i; negative if infeasible.
        f_scale: the scale of F: the largest |F - F*| among the domain's starting point and `inner`. Both are what one has
            before optimising: the middle of the domain, and the best for the constraints alone. NaN if infeasible.
        gap: the difference between the upper and the lower bound, in that scale.
        margin_gap: the same for the margin, in scales of h.
        levels: those of the problem, by which a cache is recognised.
    """

    optimum: float
    x: np.ndarray
    dual: np.ndarray
    inner: np.ndarray
    margin: float
    f_scale: float
    gap: float
    margin_gap: float
    levels: np.ndarray


def solve(one: Stranger, tolerance: float = TOLERANCE) -> Reference:
    """The reference of a problem; raises `NotSolved` where it is not good enough."""
    inner, weights, worst, lower = _safest(one, tolerance)
    margin_gap, levels = worst - lower, one.model.levels
    if margin_gap > tolerance:
        raise NotSolved(f"seed {one.seed}: the margin is known to {margin_gap:.1e} scales of h only.")
    if not one.feasible:
        if abs(worst - one.least_violation) > 10 * tolerance:
            raise NotSolved(f"seed {one.seed}: the least violation is {worst:.9g}, not {one.least_violation:.9g}.")
        return Reference(np.nan, inner, weights, inner, -worst, np.nan, np.nan, margin_gap, levels)
    if -worst <= LEAST_MARGIN:
        raise NotSolved(f"seed {one.seed}: the Slater margin is {-worst:.1e} scales of h, too small to judge by.")
    x, dual, F, lower, scale = _best(one, inner, tolerance)
    gap = (F - lower) / scale
    if gap > tolerance:
        raise NotSolved(f"seed {one.seed}: the optimum is known to {gap:.1e} scales of F only.")
    return Reference(F, x, dual, inner, -worst, scale, gap, margin_gap, levels)


def _safest(one: Stranger, tolerance: float) -> tuple[np.ndarray, np.ndarray, float, float]:
    """min over x of max_i H_i/scale_i: the point, weights of sum one, and an upper and a lower bound."""
    model, near, x, worst = one.model, None, one.anchor, np.inf
    weights, lower = np.zeros(one.N), -np.inf
    for _ in range(POLISHED):
        near = _programme(one, False, near)
        weights = near.dual / (near.dual.sum() or 1.0)
        lower = max(lower, _lower_bound(model, near, np.append(0.0, weights / one.h_scales)))
        value = float(np.max(model.means(near.x)[1:] / one.h_scales))
        x, worst = (near.x, value) if value < worst else (x, worst)
        if worst - lower <= tolerance / 10:
            break
    return x, weights, worst, lower


def _best(one: Stranger, inner: np.ndarray, tolerance: float) -> tuple[np.ndarray, np.ndarray, float, float, float]:
    """The solution, its multipliers, an upper and a lower bound on F*, and the scale of F."""
    model, near, x, F = one.model, None, inner, float(one.model.means(inner)[0])
    dual, lower, scale = np.zeros(one.N), -np.inf, 1.0
    for _ in range(POLISHED):
        near = _programme(one, True, near)
        bound = _lower_bound(model, near, np.append(1.0, near.dual / one.h_scales))
        dual, lower = (near.dual / one.h_scales, bound) if bound > lower else (dual, lower)
        there = model.pulled(near.x, inner)
        value = float(model.means(there)[0])
        x, F = (there, value) if value < F else (x, F)
        scale = max(abs(float(model.means(p)[0]) - F) for p in (model.domain.start(), inner))
        if F - lower <= tolerance / 10 * scale:
            break
    return x, dual, F, lower, scale


# ---- the programme ---------------------------------------------------------------------------------------------------


class _Point(NamedTuple):
    """What the solver gives: a point, multipliers of H_i/scale_i, and for kinked scores the share of the upper branch."""

    x: np.ndarray
    dual: np.ndarray
    shares: dict[int, np.ndarray]


def _programme(one: Stranger, with_objective: bool, near: _Point | None) -> _Point:
    """Minimise F under the constraints, or else the largest H_i/scale_i, exactly or by a quadratic model near a point."""
    import cvxpy as cp

    model, x, t = one.model, cp.Variable(one.d), cp.Variable()
    rules, kinks = model.domain.cvxpy(x), {}
    smooth = _tangents(model, x, near.x) if near is not None else partial(_smooth, model, x)

    def function(k: int) -> Any:
        return smooth(k) + _kinked(model, x, k, rules, kinks) - np.append(0.0, model.levels)[k]

    limit = 0.0 if with_objective else t
    bounds = [function(1 + i) / scale <= limit for i, scale in enumerate(one.h_scales)]
    size = (
        (abs(float(model.means(model.domain.start())[0] - model.means(one.anchor)[0])) or 1.0)
        if with_objective
        else 1.0
    )
    cost = function(0) / size if with_objective else t
    if near is not None:
        bend = model.curvature(near.x, np.append(float(with_objective), near.dual / one.h_scales))
        cost = cost + cp.quad_form(x - near.x, cp.psd_wrap(bend / size)) / 2
    if not _run(cp.Problem(cp.Minimize(cost), [*bounds, *rules])):
        if near is None:  # go on by quadratic models from a point that is known
            return _Point(one.anchor, np.zeros(one.N), {})
        raise NotSolved(f"seed {one.seed}: the solver failed.")
    dual = np.maximum([np.squeeze(bound.dual_value) for bound in bounds], 0.0) * size
    point = np.concatenate([leaf.restored(part) for leaf, part in model.domain.parts(np.asarray(x.value))])
    return _Point(point, dual, {p: _share(*pair) for p, pair in kinks.items()})


def _run(programme: Any) -> bool:
    """Solve, to less accuracy where more is refused: bounds are judged afterwards."""
    import cvxpy as cp
    from cvxpy.error import SolverError

    for accuracy in (1e-11, 1e-8):
        options = dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), accuracy)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # "may be inaccurate"
                programme.solve(solver=cp.CLARABEL, max_iter=200, **options)
        except SolverError:
            continue
        if programme.status in ("optimal", "optimal_inaccurate"):
            return True
    return False


def _smooth(model: Model, x: Any, k: int) -> Any:
    """The smooth part of function k, without its level; means of squares are one quadratic form."""
    import cvxpy as cp

    n, d, weights, shifts = len(model.xi), model.domain.d, model.spread[k], model.b + model.offset
    squares = [np.append(np.diag(np.sqrt(model.Q[k])), np.zeros((d, 1)), axis=1)]
    total = cp.Constant(0.0)
    for name, group in model.groups:
        used = [p for p in range(group.start, group.stop) if weights[p]]
        if name == "log-sum-exp" and used:
            scores = cp.vstack([model.row_slopes(p) @ x + shifts[:, p] for p in used])
            total += weights[used[0]] / n * cp.sum(cp.log_sum_exp(scores, axis=0))
        elif name == "square":
            squares += [np.sqrt(weights[p] / n) * np.column_stack([model.row_slopes(p), shifts[:, p]]) for p in used]
        elif name == "logistic":
            total += sum(weights[p] / n * cp.sum(cp.logistic(model.row_slopes(p) @ x + shifts[:, p])) for p in used)
        elif name == "identity":
            total += sum(weights[p] * (model.row_slopes(p).mean(axis=0) @ x + shifts[:, p].mean()) for p in used)
    stacked = np.concatenate(squares)
    stacked = stacked[np.any(stacked, axis=1)]
    if len(stacked):
        factor = np.asarray(np.linalg.qr(stacked, mode="r"))
        total += cp.sum_squares(factor[:, :d] @ x + factor[:, d]) / 2
    return total


def _tangents(model: Model, x: Any, near: np.ndarray) -> Callable[[int], Any]:
    """The smooth parts of functions, by their tangents at a point."""
    values, slopes = model.smooth_part(near)
    return lambda k: slopes[k] @ x + (values[k] - slopes[k] @ near)


def _kinked(model: Model, x: Any, k: int, rules: list[Any], kinks: dict[int, tuple[Any, Any]]) -> Any:
    """The means of the hinges and absolute values of function k: a variable for each row, above both branches.

    The two rules that say so are added to `rules` and, by score, to `kinks`: their multipliers are slopes at the kink.
    """
    import cvxpy as cp

    n, weights, total = len(model.xi), model.spread[k], 0.0
    for name, group in model.groups:
        for p in range(group.start, group.stop):
            if name in KINKED and weights[p]:
                above, score = cp.Variable(n), model.row_slopes(p) @ x + (model.b[:, p] + model.offset[p])
                kinks[p] = above >= score, above >= (0 if name == "hinge" else -score)
                rules += kinks[p]
                total = total + weights[p] / n * cp.sum(above)
    return total


def _share(upper: Any, lower: Any) -> np.ndarray:
    """The upper branch's share in the slopes; NaN where neither is heard."""
    up, down = (np.maximum(np.asarray(rule.dual_value, float), 0.0) for rule in (upper, lower))
    heard = up + down > 0
    return np.where(heard, up / np.where(heard, up + down, 1.0), np.nan)


def _lower_bound(model: Model, near: _Point, lam: np.ndarray) -> float:
    """The least value over X of a tangent of sum_k lam_k function_k: any slopes between those of the branches will do."""
    x = near.x
    s, slopes = model.scores(x), model.slopes(x)
    for name, group in model.groups:
        for p in range(group.start, group.stop):
            if name in KINKED and p in near.shares:
                share = np.where(np.isnan(near.shares[p]), s[:, p] > 0, near.shares[p])
                slopes[:, p] = share if name == "hinge" else 2 * share - 1
    tangents = [
        slopes[:, at] * s[:, at] if name in KINKED else link_values(name, s[:, at], np) for name, at in model.groups
    ]
    values = np.concatenate(tangents, axis=1).mean(axis=0) @ model.W.T + model.Q @ (x * x) / 2
    gradient = lam @ model.gradients(x, slopes)
    return float(lam @ (values - np.append(0.0, model.levels)) + gradient @ (model.domain.lmo(gradient) - x))
