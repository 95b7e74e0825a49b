"""Solutions of random problems, by cvxpy with Clarabel in natural units, each with a proof.

A solver's word is not taken. From its multipliers and, at kinks, its slopes a lower bound is made: with lam >= 0,
L(x) = F(x) + lam'H(x) is nowhere above F on the feasible set, and nowhere below its own tangent at the solver's point,
whose least value over X a linear minimisation gives. The solver's point pulled to feasibility gives the upper bound, which
is the optimum of record. A reference whose bounds differ by more than `TOLERANCE` is refused.
"""

import dataclasses
import warnings
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
    model, near, best, lower = one.model, None, (np.inf, None), -np.inf
    weights = np.zeros(one.N)
    for _ in range(POLISHED):
        near = _programme(one, False, near)
        weights = near.dual / (near.dual.sum() or 1.0)
        lower = max(lower, _lower_bound(model, near, np.append(0.0, weights / one.h_scales)))
        worst = float(np.max(model.means(near.x)[1:] / one.h_scales))
        best = min(best, (worst, near.x), key=lambda pair: pair[0])
        if best[0] - lower <= tolerance / 10:
            break
    return best[1], weights, best[0], lower


def _best(one: Stranger, inner: np.ndarray, tolerance: float) -> tuple[np.ndarray, np.ndarray, float, float, float]:
    """The solution, its multipliers, an upper and a lower bound on F*, and the scale of F."""
    model, near, best, lower, scale = one.model, None, (np.inf, None), -np.inf, 1.0
    dual = np.zeros(one.N)
    for _ in range(POLISHED):
        near = _programme(one, True, near)
        bound = _lower_bound(model, near, np.append(1.0, near.dual / one.h_scales))
        lower, dual = (bound, near.dual / one.h_scales) if bound > lower else (lower, dual)
        x = model.pulled(near.x, inner)
        best = min(best, (float(model.means(x)[0]), x), key=lambda pair: pair[0])
        scale = max(abs(float(model.means(p)[0]) - best[0]) for p in (model.domain.start(), inner))
        if best[0] - lower <= tolerance / 10 * scale:
            break
    return best[1], dual, best[0], lower, scale


class _Point(NamedTuple):
    """What the solver gives: a point, multipliers of H_i/scale_i, and slopes at kinks."""

    x: np.ndarray
    dual: np.ndarray
    slopes: dict[int, np.ndarray]


def _programme(one: Stranger, with_objective: bool, near: _Point | None) -> _Point:
    """Minimise F under the constraints, or else the largest H_i/scale_i, exactly or by a quadratic model near a point."""
    import cvxpy as cp

    model, t = one.model, cp.Variable()
    x, (F, *H), rules, kinks = _cvxpy(model, None if near is None else near.x, with_objective)
    size = abs(float(np.ptp([model.means(p)[0] for p in (model.domain.start(), one.anchor)]))) or 1.0
    size = size if with_objective else 1.0
    bounds = [h / s <= (0 if with_objective else t) for h, s in zip(H, one.h_scales, strict=True)]
    cost = F / size if with_objective else t
    if near is not None:
        lam = np.append(float(with_objective), near.dual / one.h_scales)
        cost = cost + cp.quad_form(x - near.x, cp.psd_wrap(model.curvature(near.x, lam) / size)) / 2
    programme = cp.Problem(cp.Minimize(cost), [*bounds, *rules])
    if not _run(programme):
        if near is None:  # go on by quadratic models from a point that is known
            return _Point(one.anchor, np.zeros(one.N), {})
        raise NotSolved(f"seed {one.seed}: the solver failed.")
    dual = np.maximum([np.squeeze(b.dual_value) for b in bounds], 0.0) * size
    slopes = {}
    for p, rule in kinks.items():
        up, down = (np.maximum(np.asarray(r.dual_value, float), 0.0) for r in rule)
        slopes[p] = np.where(up + down > 0, up / np.where(up + down > 0, up + down, 1.0), np.nan)
    point = np.concatenate([leaf.restored(part) for leaf, part in model.domain.parts(np.asarray(x.value))])
    return _Point(point, dual, slopes)


def _run(programme: Any) -> bool:
    """Solve, to less accuracy where more is refused: bounds are judged afterwards."""
    import cvxpy as cp

    for accuracy in (1e-11, 1e-8):
        options = dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), accuracy)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # "may be inaccurate"
                programme.solve(solver=cp.CLARABEL, max_iter=200, **options)
        except cp.error.SolverError:
            continue
        if programme.status in ("optimal", "optimal_inaccurate"):
            return True
    return False


def _cvxpy(
    model: Model, near: np.ndarray | None, with_objective: bool
) -> tuple[Any, list[Any], list[Any], dict[int, Any]]:
    """x, the functions, rules, and by score the two rules whose multipliers are the slopes at a kink.

    Means of squares are one quadratic form each. Hinges and absolute values get a variable for each row, above both
    branches. Near a point what is smooth is replaced by its tangent.
    """
    import cvxpy as cp

    n, d = len(model.xi), model.domain.d
    x = cp.Variable(d)
    rules, kinks, made = model.domain.cvxpy(x), {}, []
    shifts = model.b + model.offset

    smooth_values, smooth_slopes = (None, None) if near is None else model.smooth_part(near)
    for k, weights in enumerate(model.spread):
        if k == 0 and not with_objective:
            made.append(0.0)
            continue
        linear, constant = np.zeros(d), 0.0 if k == 0 else -model.levels[k - 1]
        squares, total = [np.append(np.diag(np.sqrt(model.Q[k])), np.zeros((d, 1)), axis=1)], []
        for name, group in model.groups:
            used = [p for p in range(group.start, group.stop) if weights[p]]
            if near is not None and name not in KINKED:
                continue
            if name == "log-sum-exp" and used:
                scores = cp.vstack([model.row_slopes(p) @ x + shifts[:, p] for p in used])
                total.append(weights[used[0]] / n * cp.sum(cp.log_sum_exp(scores, axis=0)))
                continue
            for p in used:
                if name == "identity":
                    slope = model.row_slopes(p).mean(axis=0)
                    linear, constant = linear + weights[p] * slope, constant + weights[p] * shifts[:, p].mean()
                elif name == "square":
                    squares.append(np.sqrt(weights[p] / n) * np.column_stack([model.row_slopes(p), shifts[:, p]]))
                elif name == "logistic":
                    total.append(weights[p] / n * cp.sum(cp.logistic(model.row_slopes(p) @ x + shifts[:, p])))
                else:
                    above = cp.Variable(n)
                    score = model.row_slopes(p) @ x + shifts[:, p]
                    kinks[p] = above >= score, above >= (0 if name == "hinge" else -score)
                    rules += kinks[p]
                    total.append(weights[p] / n * cp.sum(above))
        stacked = np.concatenate(squares)
        if near is not None:
            linear = smooth_slopes[k]
            constant += smooth_values[k] - smooth_slopes[k] @ near
        elif np.any(stacked):
            factor = np.linalg.qr(stacked[np.any(stacked, axis=1)], mode="r")
            total.append(cp.sum_squares(factor[:, :d] @ x + factor[:, d]) / 2)
        made.append(sum(total, linear @ x + constant))
    return x, made, rules, kinks


def _lower_bound(model: Model, near: _Point, lam: np.ndarray) -> float:
    """The least value over X of a tangent of sum_k lam_k function_k: any slopes between those of the branches will do."""
    x = near.x
    s, slopes = model.scores(x), model.slopes(x)
    for name, group in model.groups:
        for p in range(group.start, group.stop):
            if name in KINKED and p in near.slopes:
                share = np.where(np.isnan(near.slopes[p]), s[:, p] > 0, near.slopes[p])
                slopes[:, p] = share if name == "hinge" else 2 * share - 1
    tangents = [
        slopes[:, at] * s[:, at] if name in KINKED else link_values(name, s[:, at], np) for name, at in model.groups
    ]
    values = np.concatenate(tangents, axis=1).mean(axis=0) @ model.W.T + model.Q @ (x * x) / 2
    gradient = lam @ model.gradients(x, slopes)
    return float(lam @ (values - np.append(0.0, model.levels)) + gradient @ (model.domain.lmo(gradient) - x))
