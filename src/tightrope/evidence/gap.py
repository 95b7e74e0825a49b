"""The duality gap that ends a run, rounding of means counted: never below F(x) - F* of the point that it speaks of, but for
digits that are lost inside f and h. For these `confirm` takes it once more in float64.

That point is the last snapshot w, pulled towards a strictly feasible s where it violates a constraint (or may, for all that
is known in this precision). In exact arithmetic the gap is F(w) + a (F(s) - F(w)) minus the best lower bound on F* so far.
Every sum in it is rounded, by a few units of eps of the size of what is summed: means over rows of |f|, of |h| and of
absolute gradients. A gap of 0 in float32 for an objective near 100 says nothing below 1e-4; with these sizes it says so.
"""

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tightrope._jaxlib import compiled
from tightrope.evidence.pull import BEYOND, MARGIN
from tightrope.methods.snapshot import Snapshot, lower_bound
from tightrope.problem import Problem, full_values
from tightrope.problem.rounding import (
    LOOK,
    UNITS,
    Glance,
    Sizes,
    absolute,
    count,
    distance_across,
    eps_of,
    few,
    sizes_of,
)
from tightrope.tree import Array, Tree, dot, float_dtype, nonzero, norm

_NEVER = 1 / 32  # a run may end where rounding is less than where it began, but not by more than this; by hand


class Inside(NamedTuple):
    """Upper bounds on objective and constraints at a strictly feasible point."""

    f: float
    h: np.ndarray


class Bound(NamedTuple):
    """A lower bound on F* as computed, and by how much rounding may have raised it."""

    value: float = -math.inf
    rounding: float = 0.0

    @property
    def certain(self) -> float:
        """What F* is not below, whatever was rounded."""
        return self.value - self.rounding


class Gap(NamedTuple):
    """A bound on the gap, and the part of it that is there because numbers are rounded."""

    value: float
    rounding: float
    best: Bound  # the lower bound on F* that it stands on


class _Seen(NamedTuple):
    """Values at a snapshot, the rounding of F, the margins below zero that a pull aims at, and a bound made there."""

    f: Any
    h: Any
    f_rounding: Any
    margin: Any
    bound: Any
    bound_rounding: Any
    judged: Any  # rounding of the bound by the sizes of every row, over that by those of a few


def inside_of(problem: Problem, s: Tree, data: Tree) -> Inside:
    """The bounds at s."""
    f, h, f_rounding, h_rounding = on_host(_values(problem, s, data))
    return Inside(float(f + f_rounding), h + h_rounding)


def gap_of(problem: Problem, snap: Snapshot, inside: Inside, data: Tree, best: Bound, every_row: bool = False) -> Gap:
    """The gap that a snapshot proves together with the best bound of the earlier ones.

    Sizes are those of a few rows spread evenly, which cost a fraction of a pass, or of every row: what a run ends by should
    not depend on which rows were looked at.
    """
    seen = _Seen(*on_host(_look(problem, snap, data, every_row=every_row)))
    f, h = float(seen.f), seen.h
    before = best._replace(rounding=float(seen.judged) * best.rounding)  # it was judged by few rows
    best = max(Bound(float(seen.bound), float(seen.bound_rounding)), before, key=lambda bound: bound.certain)
    rise = max(inside.f - f, 0.0)
    above = f + float(seen.f_rounding) + _pulled(h + seen.margin, inside.h + seen.margin) * rise
    value = above - best.certain
    return Gap(value, value - (f + _pulled(h, inside.h) * rise - best.value), best)


def refuse_below_rounding(problem: Problem, x: Tree, lam: Array, seen: Glance, tol: float) -> None:
    """Refuse a tolerance far below what rounding leaves certain, as estimated by a glance at the starting point x."""
    dtype, weights = np.dtype(float_dtype(x)), np.asarray(lam, float)
    f, sizes = float(seen.f), seen.sizes
    sums, values = float(sizes.f), 0.0
    if problem.domain.has_lmo:  # as in `_bound`, with the support at its largest
        farthest, point = distance_across(problem), np.concatenate([np.ravel(v) for v in jax.tree.leaves(x)])
        slopes = float(np.linalg.norm(sizes.grad + weights @ sizes.rows)) * farthest
        products = float(np.abs(seen.grad + weights @ seen.rows) @ np.abs(point))
        sums += float(sizes.f + weights @ sizes.h) + 2 * (slopes + products)
        values = abs(f) + float(weights @ np.abs(seen.h))
    least = eps_of(x) * (UNITS * sums + 4 * values)
    of_level = 2 * UNITS * float(np.finfo(dtype).eps) * abs(f)  # an objective mostly keeps its level
    if tol < max(of_level, _NEVER * least):
        remedy = "" if dtype == np.float64 else ', or compute in float64: jax.config.update("jax_enable_x64", True)'
        raise ValueError(
            f"tol is {tol:.3g}; the smallest duality gap that can be certified here in {dtype} is about {least:.1g}, "
            f"because sums of this size are rounded. Give a larger tol{remedy}."
        )


def _pulled(h: np.ndarray, h_inside: np.ndarray) -> float:
    """How far a point with these constraints is pulled at most, by convexity, until they hold: a share in [0, 1]."""
    above, room = np.maximum(h, 0.0), np.maximum(-h_inside, 0.0)
    return float(np.max(np.divide(above, above + room, out=np.zeros_like(above), where=above > 0), initial=0.0))


def on_host(values: Any) -> list[np.ndarray]:
    """Everything in float64: differences of what was rounded are not rounded again."""
    return [np.asarray(v, float) for v in jax.device_get(tuple(values))]


# ---- compiled --------------------------------------------------------------------------------------------------------


@compiled(soon=True)
def _values(problem: Problem, x: Tree, data: Tree) -> tuple[Array, Array, Array, Array]:
    (f, h), sizes, eps = full_values(problem, x, data), sizes_of(problem, x, few(data), curvature=False), eps_of(x)
    return f, h, UNITS * eps * sizes.f, UNITS * eps * sizes.h


@compiled(static_argnames="every_row", soon=True)
def _look(problem: Problem, snap: Snapshot, data: Tree, every_row: bool) -> _Seen:
    x, eps = snap.w, eps_of(snap.w)
    sizes = sizes_of(problem, x, few(data), curvature=True)
    bound, by_few = _bound(problem, snap, sizes)
    rounding = by_few
    if every_row and count(data) > LOOK:
        sizes = jax.tree.map(jnp.maximum, sizes, sizes_of(problem, x, data, curvature=False))
        rounding = _bound(problem, snap, sizes)[1]
    aim = MARGIN * (sizes.h + BEYOND * jnp.max(sizes.h, initial=0))
    parts = UNITS * eps * sizes.f, eps * aim
    return _Seen(snap.f, snap.h, *parts, bound, rounding, rounding / nonzero(by_few))


def _bound(problem: Problem, snap: Snapshot, sizes: Sizes) -> tuple[Array, Array]:
    """The lower bound on F* at a snapshot, and its rounding.

    An error e of the gradient moves the bound by <e, v - x> for some v in the set: at most |e| times the diameter.
    """
    lam, x = snap.lam, snap.w
    bound = lower_bound(problem, x, lam, snap.f, snap.h, snap.grad, snap.rows)
    if not problem.domain.has_lmo:
        return bound, jnp.zeros_like(bound)
    g = problem.lagrangian_gradient(snap.grad, snap.rows, lam)
    slopes = norm(problem.lagrangian_gradient(sizes.grad, sizes.rows, lam)) * jnp.asarray(problem.domain.diameter)
    values = jnp.abs(snap.f) + jnp.dot(lam, jnp.abs(snap.h))
    support = jnp.abs(bound - snap.f - jnp.dot(lam, snap.h) + dot(g, x))
    sums = sizes.f + jnp.dot(lam, sizes.h) + slopes + dot(absolute(g), absolute(x)) + support
    return bound, (eps_of(x) * (UNITS * sums + 4 * values)).astype(bound.dtype)  # the values are added up once more
