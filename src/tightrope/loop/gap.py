"""The duality gap that ends a run, rounding counted: never below F(x) - F* of the point that it speaks of.

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

from tightrope.loop.feasible import BEYOND, MARGIN
from tightrope.methods.snapshot import Snapshot, lower_bound
from tightrope.problem import Problem, full_values
from tightrope.problem.full_data import full_jacobian, full_mean
from tightrope.tree import Array, Tree, dot, float_dtype, nonzero, norm, replace

_UNITS = 16  # of eps; the worst sum that was found, of one number repeated, was off by 8
_LOOK = 256  # rows by which sizes are judged until a run is about to end
_NUMBERS = 1 << 22  # of per-row gradients that are held at once
_NEVER = 1 / 32  # a run may end where rounding is less than where it began, but not by more than this


class Sizes(NamedTuple):
    """Means over rows of the absolute values that are summed, and of what they are made of; rounding is counted in these."""

    f: Array
    h: Array
    grad: Tree
    rows: Tree


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
    f, h, f_rounding, h_rounding = _on_host(_values(problem, s, data))
    return Inside(float(f + f_rounding), h + h_rounding)


def gap_of(problem: Problem, snap: Snapshot, inside: Inside, data: Tree, best: Bound, every_row: bool = False) -> Gap:
    """The gap that a snapshot proves together with the best bound of the earlier ones.

    Sizes are those of a few rows spread evenly, which cost a fraction of a pass, or of every row: what a run ends by should
    not depend on which rows were looked at.
    """
    seen = _Seen(*_on_host(_look(problem, snap, data, every_row=every_row)))
    f, h = float(seen.f), seen.h
    before = best._replace(rounding=float(seen.judged) * best.rounding)  # it was judged by few rows
    best = max(Bound(float(seen.bound), float(seen.bound_rounding)), before, key=lambda bound: bound.certain)
    rise = max(inside.f - f, 0.0)
    above = f + float(seen.f_rounding) + _pulled(h + seen.margin, inside.h + seen.margin) * rise
    value = above - best.certain
    return Gap(value, value - (f + _pulled(h, inside.h) * rise - best.value), best)


def refuse_below_rounding(problem: Problem, x: Tree, lam: Array, data: Tree, tol: float) -> None:
    """Refuse a tolerance far below what rounding leaves certain, as estimated by a few rows at the starting point."""
    dtype = np.dtype(float_dtype(x))
    f, f_rounding, bound_rounding = map(float, _at_start(problem, x, lam, data))
    least = f_rounding + bound_rounding
    of_level = 2 * _UNITS * float(np.finfo(dtype).eps) * abs(f)  # an objective mostly keeps its level
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


def _on_host(values: Any) -> list[np.ndarray]:
    """Everything in float64: differences of what was rounded are not rounded again."""
    return [np.asarray(v, float) for v in jax.device_get(tuple(values))]


# ---- compiled --------------------------------------------------------------------------------------------------------


@jax.jit
def _values(problem: Problem, x: Tree, data: Tree) -> tuple[Array, Array, Array, Array]:
    (f, h), sizes, eps = full_values(problem, x, data), _sizes(problem, x, _few(data), curvature=False), _eps(x)
    return f, h, _UNITS * eps * sizes.f, _UNITS * eps * sizes.h


@jax.jit(static_argnames="every_row")
def _look(problem: Problem, snap: Snapshot, data: Tree, every_row: bool) -> _Seen:
    x, eps = snap.w, _eps(snap.w)
    sizes = _sizes(problem, x, _few(data), curvature=True)
    bound, few = _bound(problem, snap, sizes)
    rounding = few
    if every_row and _count(data) > _LOOK:
        sizes = jax.tree.map(jnp.maximum, sizes, _sizes(problem, x, data, curvature=False))
        rounding = _bound(problem, snap, sizes)[1]
    aim = MARGIN * (sizes.h + BEYOND * jnp.max(sizes.h, initial=0))
    parts = _UNITS * eps * sizes.f, eps * aim
    return _Seen(snap.f, snap.h, *parts, bound, rounding, rounding / nonzero(few))


@jax.jit
def _at_start(problem: Problem, x: Tree, lam: Array, data: Tree) -> tuple[Array, Array, Array]:
    rows = _few(data)
    sizes, (f, h, grad, jacobian) = _sizes(problem, x, rows, curvature=True), full_jacobian(problem, x, rows)
    bound = _bound(problem, Snapshot(x, lam, f, h, grad, jacobian), sizes)
    return f, _UNITS * _eps(x) * sizes.f, bound[1]


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
    sums = sizes.f + jnp.dot(lam, sizes.h) + slopes + dot(_absolute(g), _absolute(x)) + support
    return bound, (_eps(x) * (_UNITS * sums + 4 * values)).astype(bound.dtype)  # the values are added up once more


def _sizes(problem: Problem, x: Tree, data: Tree, curvature: bool) -> Sizes:
    """Sizes at x over these rows.

    Values round like their own size and like the products of gradient and point that they are made of; gradients like
    theirs, and like the products of curvature and point: the residual of a fit may be small and what it is the difference
    of large. Of these products a signed one could vanish by accident, so there are two, the second with random signs.
    """
    if problem.exact_constraints is not None and _count(data) > 1:  # they are the same in every row
        once = _sizes(problem, x, jax.tree.map(lambda a: a[:1], data), curvature)
        free = replace(problem, constraints=None, exact_constraints=None, levels=0.0)
        return _sizes(free, x, data, curvature)._replace(h=once.h, rows=once.rows)
    levels = jnp.abs(jnp.asarray(problem.levels, float_dtype(x)))
    mixed = jax.tree.map(lambda v: v * jax.random.rademacher(jax.random.key(0), v.shape, v.dtype), x)

    def of_row(theta: Tree) -> Sizes:
        one = jax.tree.map(lambda a: a[None], theta)
        f, h, *slopes = problem.jacobian(x, one)
        grad, rows = _absolute(slopes)
        made = [jnp.sum(r.reshape(h.size, v.size) * jnp.abs(v).reshape(1, -1), axis=1)
                for r, v in zip(jax.tree.leaves(rows), jax.tree.leaves(x), strict=True)]  # fmt: skip
        size_f, size_h = jnp.abs(f) + dot(grad, _absolute(x)), jnp.abs(h) + sum(made) + levels
        for direction in (x, mixed) if curvature and problem.oracle is None else ():
            bent = jax.jvp(lambda p: problem.jacobian(p, one)[2:], (x,), (direction,))[1]
            grad, rows = jax.tree.map(lambda size, b: size + jnp.abs(b), (grad, rows), bent)
        return Sizes(size_f, size_h, grad, rows)

    n_constraints = jax.eval_shape(of_row, jax.tree.map(lambda a: a[0], data)).h.size
    numbers = sum(v.size for v in jax.tree.leaves(x)) * (1 + n_constraints)
    return full_mean(of_row, data, max(1, min(1024, _NUMBERS // numbers)))


def _absolute(tree: Tree) -> Tree:
    return jax.tree.map(jnp.abs, tree)


def _count(data: Tree) -> int:
    return jax.tree.leaves(data)[0].shape[0]


def _few(data: Tree) -> Tree:
    """At most `_LOOK` rows, spread evenly; all of them where there are no more."""
    return jax.tree.map(lambda a: a[:: -(-_count(data) // _LOOK)], data)


def _eps(x: Tree) -> float:
    return float(jnp.finfo(float_dtype(x)).eps)
