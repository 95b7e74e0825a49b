"""Cuts: what looks at all the data prove of F and H everywhere, a lower bound on F*, and points to look at next.

By convexity F(x) >= F_k + <g_k, x - x_k> and H_i(x) >= H_ki + <J_ki, x - x_k> for every look k, and a convex combination of
the points looked at has at most the same combination of their values. Everything is in NumPy, in float64, and without
units: x in widths of the domain, F and H_i in units of what their steepest slope seen does over these widths.
"""

from collections.abc import Callable
from functools import cached_property
from typing import NamedTuple

import numpy as np

from tightrope.sets.conic import simplex
from tightrope.solvers.programmes import NONE, NOTHING, ROUNDS, Region, Solution, region_of, solve

# By hand, where nothing else is said.
_ALL = 400  # cuts of the constraints that enter a programme together; of more, those that matter, found in rounds
_EPS = float(np.finfo(float).eps)


class Looks(NamedTuple):
    """What was seen at the points looked at; the last one is the latest. Errors are bounds on what was lost to rounding."""

    x: np.ndarray  # (K, d)
    f: np.ndarray  # (K,)
    h: np.ndarray  # (K, N)
    grad: np.ndarray  # (K, d)
    rows: np.ndarray  # (K, N, d)
    f_error: np.ndarray  # (K,) of the values ...
    h_error: np.ndarray  # (K, N)
    f_tilt: np.ndarray  # (K,) ... and of slopes, over the widths of the domain
    h_tilt: np.ndarray  # (K, N)


class Units(NamedTuple):
    """What the steepest slopes seen do over the widths of the domain."""

    f: float
    h: np.ndarray


class Bound(NamedTuple):
    """A lower bound as computed, by how much rounding may have raised it, and the multipliers it stands on."""

    value: float
    rounding: float
    mu: np.ndarray  # (K,) weights of the cuts of F
    nu: np.ndarray  # (K, N) multipliers of those of H

    @property
    def certain(self) -> float:
        """What holds whatever was rounded."""
        return self.value - self.rounding

    @property
    def lam(self) -> np.ndarray:
        """One multiplier for each constraint."""
        return self.nu.sum(axis=0)


class Combination(NamedTuple):
    """A convex combination of the points looked at, and the same combination of their values."""

    weights: np.ndarray
    f: float
    h: np.ndarray  # H plus margins, in units
    worst: float  # the largest of them: the combination is feasible where it is not above zero


class Model:
    """The cuts around a centre.

    Args:
        looks: what was seen.
        units: of F and H.
        region: the domain around the centre.
        support: the domain's support function, in its own units.
    """

    def __init__(self, looks: Looks, units: Units, region: Region, support: Callable[[np.ndarray], float]):
        self.looks, self.units, self.region, self.support = looks, units, region, support
        self.away = region.centre - looks.x

    @cached_property
    def f(self) -> np.ndarray:
        """The cuts of F at the centre, above the least value seen."""
        looks = self.looks
        return (looks.f - looks.f.min() + np.sum(looks.grad * self.away, axis=1)) / self.units.f

    @cached_property
    def h(self) -> np.ndarray:
        """Those of H, look after look."""
        looks = self.looks
        return ((looks.h + np.einsum("knd,kd->kn", looks.rows, self.away)) / self.units.h).ravel()

    @cached_property
    def F(self) -> np.ndarray:
        """Their slopes."""
        return self.looks.grad * self.region.widths / self.units.f

    @cached_property
    def H(self) -> np.ndarray:
        """Those of H."""
        K, N, d = self.looks.rows.shape
        return (self.looks.rows * self.region.widths / self.units.h[:, None]).reshape(K * N, d)

    # ---- bounds ------------------------------------------------------------------------------------------------------

    def bound(self, mu: np.ndarray, nu: np.ndarray) -> Bound:
        """What these multipliers prove: sum mu_k F_k + sum nu_ki H_ki is nowhere on the domain below this.

        With weights mu of sum 1 that is a bound on F*; with mu = 0 a positive one says that no point is feasible.
        """
        looks, c, away = self.looks, self.region.centre, self.away
        slope = mu @ looks.grad + np.einsum("kn,knd->d", nu, looks.rows)
        values = mu * (looks.f + np.sum(looks.grad * away, axis=1))
        sides = nu * (looks.h + np.einsum("knd,kd->kn", looks.rows, away))
        reach, level = self.support(-slope), slope @ c
        value = float(values.sum() + sides.sum() - (reach + level))
        lost = mu @ (looks.f_error + looks.f_tilt) + np.sum(nu * (looks.h_error + looks.h_tilt))
        here = np.abs(values).sum() + np.abs(sides).sum() + abs(reach) + np.abs(slope) @ np.abs(c)
        return Bound(value, float(lost + 16 * _EPS * here), mu, nu)

    def lower_bound(self) -> Bound | None:
        """The best bound on F*, by the linear programme min t s.t. cuts of F <= t, cuts of H <= 0."""
        answer = self._programme(cost=1.0, f=-1.0)
        found = None if answer is None else self._normalised(*self._split(answer))
        polished = None if found is None else self._polished(found)
        return polished if found is None or (polished is not None and polished.certain > found.certain) else found

    def _polished(self, bound: Bound) -> Bound | None:
        """The bound with multipliers by which slopes that all but cancel do: on a wide domain a programme's tolerance costs
        more than all else. None where these would be below zero."""
        mu, nu = bound.mu, bound.nu * self.units.h / self.units.f
        of_f, of_h = np.flatnonzero(mu > NONE), np.flatnonzero(nu.ravel() > NONE)
        slopes = np.vstack([self.F[of_f], self.H[of_h]])
        weights = np.append(mu[of_f], nu.ravel()[of_h])
        cancel = np.abs(weights @ slopes) <= np.sqrt(NONE) * (weights @ np.abs(slopes))
        ones = np.append(np.ones(len(of_f)), np.zeros(len(of_h)))
        sums = np.vstack([slopes[:, cancel].T, ones])
        for _ in range(2):  # the second time what was rounded
            off = sums @ weights - np.append(np.zeros(np.count_nonzero(cancel)), 1.0)
            weights = weights - np.linalg.lstsq(sums, off, rcond=None)[0]
        if np.any(weights < 0):
            return None
        mu, nu = np.zeros_like(mu), np.zeros(nu.size)
        mu[of_f], nu[of_h] = weights[: len(of_f)], weights[len(of_f) :]
        return self.bound(mu, nu.reshape(self.looks.h.shape) * self.units.f / self.units.h)

    def _normalised(self, mu: np.ndarray, nu: np.ndarray) -> Bound | None:
        total = mu.sum()
        return None if total <= 0 else self.bound(mu / total, nu / total * self.units.f / self.units.h)

    def infeasibility(self) -> Bound | None:
        """The best bound on the worst of the H_i in units, over all points of the domain."""
        answer = self._programme(cost=-1.0, h=1.0)
        if answer is None:
            return None
        mu, nu = self._split(answer)
        return self.bound(mu, nu / nu.sum() / self.units.h) if nu.sum() > 0 else None

    def values(self, x: np.ndarray) -> np.ndarray:
        """What the cuts promise at a point: F, then H."""
        y = (x - self.region.centre) / self.region.widths
        f = (self.f + self.F @ y).max() * self.units.f + self.looks.f.min()
        return np.append(f, (self.h + self.H @ y).reshape(self.looks.h.shape).max(axis=0) * self.units.h)

    # ---- points ------------------------------------------------------------------------------------------------------

    def level_point(self, level: float | None, target: np.ndarray, share: float) -> np.ndarray | None:
        """Of the points whose cuts of F are at most `level`, and whose cuts of H keep a share of the largest slack that
        this allows, the one nearest the target. Without a level the cuts of H alone count."""
        room = None if level is None else (level - self.looks.f.min()) / self.units.f
        slack = 0.0
        if len(self.h):
            deepest = self._programme(cost=-1.0, h=1.0, room=room)
            if deepest is None:
                return None
            slack = float(deepest.v[-1])
            if slack <= 0:  # there is no room to keep a share of
                return self.region.point(deepest.v[:-1])
        y = (target - self.region.centre) / self.region.widths
        near = self._programme(quadratic=np.eye(len(y)), linear=-y, room=room, slack=share * slack)
        return None if near is None else self.region.point(near.v)

    def newton_point(self, at: int, hessian: np.ndarray, room: float | None) -> np.ndarray | None:
        """The minimum of the quadratic model of the Lagrangian around a look, under the cuts: a step of sequential
        quadratic programming. F may not rise above `room`."""
        widths, units = self.region.widths, self.units
        Q = hessian * widths[:, None] * widths / units.f
        y = (self.looks.x[at] - self.region.centre) / widths
        above = None if room is None else (room - self.looks.f.min()) / units.f
        answer = self._programme(quadratic=Q, linear=self.F[at] - Q @ y, room=above)
        return None if answer is None else self.region.point(answer.v)

    def curved_point(self, hessian: np.ndarray, centre: np.ndarray) -> np.ndarray | None:
        """The minimum of the cuts of F, bent like this around a centre, under those of H."""
        widths = self.region.widths
        Q = hessian * widths[:, None] * widths / self.units.f
        linear = -Q @ ((centre - self.region.centre) / widths)
        answer = self._programme(cost=1.0, f=-1.0, quadratic=Q, linear=linear)
        return None if answer is None else self.region.point(answer.v[:-1])

    # ---- programmes --------------------------------------------------------------------------------------------------

    def _programme(
        self,
        *,
        cost: float | None = None,
        f: float | None = None,
        h: float = 0.0,
        linear: np.ndarray | None = None,
        quadratic: np.ndarray | None = None,
        room: float | None = None,
        slack: float = 0.0,
    ) -> Solution | None:
        """Minimise a cost of y, and of one further variable u where `cost` is given, under the cuts.

        Cuts of F read f_k + F_k y + f u <= 0 where `f` is given, <= room where that is, and are left out otherwise; those
        of H read h_ki + H_ki y + h u <= -slack.
        """
        d, extra = len(self.region.widths), cost is not None
        price = np.concatenate([np.zeros(d) if linear is None else linear, [cost] if cost is not None else []])
        heads = np.zeros((0, d + extra))
        tops = np.zeros(0)
        if f is not None or room is not None:
            heads = np.hstack([self.F, np.full((len(self.F), 1), f or 0.0)]) if extra else self.F
            tops = (room or 0.0) - self.f
        cuts = np.hstack([self.H, np.full((len(self.H), 1), h)]) if extra else self.H
        sides = -slack - self.h
        used = self._first_cuts()
        answer = None
        for _ in range(ROUNDS):
            rows, limits = np.vstack([heads, cuts[used]]), np.concatenate([tops, sides[used]])
            answer = solve(self.region, price, rows, limits, quadratic)
            if answer is None or len(used) == len(cuts):
                break
            broken = cuts @ answer.v - sides
            broken[used] = 0
            worst = np.argsort(-broken, kind="stable")[: _ALL // 4]
            worst = worst[broken[worst] > NONE]
            if not len(worst):
                break
            used = np.sort(np.concatenate([used, worst]))
        if answer is None:
            return None
        dual = np.zeros(len(self.F) + len(cuts))
        dual[: len(heads)] = answer.dual[: len(heads)]
        dual[len(self.F) + used] = answer.dual[len(heads) :]
        return Solution(answer.v, dual)

    def _first_cuts(self) -> np.ndarray:
        """All cuts of H where they are few; else those of the last look, and those that bind most at the centre."""
        if len(self.h) <= _ALL:
            return np.arange(len(self.h))
        N = self.looks.h.shape[1]
        chosen = np.argsort(-self.h, kind="stable")[: _ALL // 2]
        return np.union1d(chosen, np.arange(len(self.h) - N, len(self.h)))

    def _split(self, answer: Solution) -> tuple[np.ndarray, np.ndarray]:
        mu, nu = answer.dual[: len(self.F)], answer.dual[len(self.F) :]
        return mu, nu.reshape(self.looks.h.shape)


# ---- combinations of the points looked at ----------------------------------------------------------------------------


def best_combination(looks: Looks, units: Units, margins: np.ndarray) -> Combination:
    """The combination of least F whose H_i are at most minus the margins; where there is none, that of least violation.

    Margins are those of each look, and combined like values. A linear programme over the weights, whose inaccuracy is
    mended by a little of the combination deepest inside.
    """

    def combined(weights: np.ndarray) -> Combination:
        h = weights @ values
        return Combination(weights, float(weights @ looks.f), h, float(np.max(h, initial=-np.inf)))

    K = len(looks.f)
    singles, values = np.eye(K), (looks.h + margins) / units.h
    depth = np.max(values, axis=1, initial=-np.inf)
    if not units.h.size:
        return combined(singles[np.argmin(looks.f)])
    inside = combined(singles[np.argmin(depth)])
    region = region_of(simplex(1.0, K), np.full(K, 1 / K)) if K > 1 else None
    if inside.worst >= 0 and region is not None:
        rows = np.hstack([values.T, -np.ones((len(units.h), 1))])
        answer = solve(region, np.eye(K + 1)[K], rows, -values.mean(axis=0))
        if answer is not None:
            inside = min(inside, combined(_weights(region.point(answer.v[:-1]))), key=lambda c: c.worst)
    if inside.worst > 0 or region is None:
        return inside
    within = [combined(singles[k]) for k in np.flatnonzero(depth <= 0)]
    candidates = [inside, *within]
    answer = solve(region, (looks.f - looks.f.min()) / units.f, values.T, -values.mean(axis=0))
    if answer is not None:
        mixed = combined(_weights(region.point(answer.v)))
        over, room = np.maximum(mixed.h, 0), np.maximum(-inside.h, 0)
        share = float(np.max(np.divide(over, over + room, out=np.zeros_like(over), where=over > 0)))
        while share < 1:
            mended = combined((1 - share) * mixed.weights + share * inside.weights)
            if mended.worst <= 0:
                candidates.append(mended)
                break
            share = min(1.0, 2 * share + _EPS)
    return min((c for c in candidates if c.worst <= 0), key=lambda c: c.f)


def _weights(w: np.ndarray) -> np.ndarray:
    w = np.where(w > NOTHING, w, 0.0)
    return w / w.sum()
