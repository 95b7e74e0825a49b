"""The duality gap that ends a run, rounding of means counted: never below F(x) - F* of the point that it speaks of, but for
digits that are lost inside f and h.

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
from tightrope.problem import Problem
from tightrope.problem.full_data import full_jacobian
from tightrope.problem.rounding import UNITS, Sizes, absolute, sizes_at
from tightrope.tree import Array, Tree, dot, eps_of, norm


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
    objective: float  # F at the snapshot
    best: Bound  # the lower bound on F* that it stands on


class _Seen(NamedTuple):
    """Values at a snapshot, the rounding of F, the margins below zero that a pull aims at, and a bound made there."""

    f: Any
    h: Any
    f_rounding: Any
    margin: Any
    bound: Any
    bound_rounding: Any


def inside_of(problem: Problem, s: Tree, data: Tree) -> Inside:
    """The bounds at s."""
    f, h, f_rounding, h_rounding = on_host(_values(problem, s, data))
    return Inside(float(f + f_rounding), h + h_rounding)


def gap_of(problem: Problem, snap: Snapshot, inside: Inside, data: Tree, best: Bound) -> Gap:
    """The gap that a snapshot proves together with the best bound of the earlier ones."""
    seen = _Seen(*on_host(_look(problem, snap, data)))
    f, h = float(seen.f), seen.h
    best = max(Bound(float(seen.bound), float(seen.bound_rounding)), best, key=lambda bound: bound.certain)
    rise = max(inside.f - f, 0.0)
    above = f + float(seen.f_rounding) + _pulled(h + seen.margin, inside.h + seen.margin) * rise
    value = above - best.certain
    return Gap(value, value - (f + _pulled(h, inside.h) * rise - best.value), f, best)


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
    f, h, grad, rows = full_jacobian(problem, x, data)
    sizes, eps = sizes_at(problem, x, data, f, h, grad, rows), eps_of(x)
    return f, h, UNITS * eps * sizes.f, UNITS * eps * sizes.h


@compiled(soon=True)
def _look(problem: Problem, snap: Snapshot, data: Tree) -> _Seen:
    eps = eps_of(snap.w)
    sizes = sizes_at(problem, snap.w, data, snap.f, snap.h, snap.grad, snap.rows)
    aim = MARGIN * (sizes.h + BEYOND * jnp.max(sizes.h, initial=0))
    parts = UNITS * eps * sizes.f, eps * aim
    return _Seen(snap.f, snap.h, *parts, *_bound(problem, snap, sizes))


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
