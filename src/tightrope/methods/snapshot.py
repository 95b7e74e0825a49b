"""Snapshots: what methods for data at hand share. Values and gradients over all rows at one point w, by which every sampled
quantity q is corrected: q(x) - q(w) + Q(w) has the right mean, and a noise that vanishes as x and w come together."""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp

from tightrope.problem import Problem
from tightrope.problem.full_data import count, full_jacobian, spread
from tightrope.tree import Array, Tree, add_scaled, dot, subtract


class Snapshot(NamedTuple):
    """The point, and what a pass over all rows found there."""

    w: Tree
    lam: Array  # the multipliers that belong to w
    f: Array  # F(w)
    h: Array  # H(w)
    grad: Tree  # grad F(w)
    rows: Tree  # J_H(w), a leading axis of N on every leaf


def no_snapshot(x: Tree, lam: Array) -> Snapshot:
    """A snapshot of the right shapes, before the first one is taken."""
    zero = jnp.zeros((), lam.dtype)
    rows = jax.tree.map(lambda v: jnp.zeros((lam.size, *v.shape), v.dtype), x)
    none = jnp.zeros_like(lam)
    return Snapshot(x, none, zero, none, jax.tree.map(jnp.zeros_like, x), rows)


def take_snapshot(problem: Problem, w: Tree, lam: Array, data: Tree) -> Snapshot:
    """One pass over all rows at w."""
    return Snapshot(w, lam, *full_jacobian(problem, w, data))


def lower_bound(problem: Problem, x: Tree, lam: Array, f: Array, h: Array, grad: Tree, rows: Tree) -> Array:
    """A lower bound on F* from values and gradients at any x in X and any lam >= 0.

    F* >= F(x*) + <lam, H(x*)> >= L(x, lam) + <g, x* - x> >= L(x, lam) - <g, x> + min over v in X of <g, v>, with g the
    gradient of the Lagrangian L; the minimum by the set's bound on its support function.
    """
    if not problem.domain.has_lmo:
        return jnp.full_like(f, -jnp.finfo(f.dtype).max)
    g = problem.lagrangian_gradient(grad, rows, lam)
    lowest = -problem.domain.support(jax.tree.map(jnp.negative, g))
    return f + jnp.dot(lam, h) - dot(g, x) + lowest


class Corrected(NamedTuple):
    """What a step sees at x: the sampled values, and the corrected ones."""

    f: Array  # sampled
    h: Array  # sampled
    objective: Array  # corrected f
    value: Array  # corrected h
    gradient: Tree  # corrected gradient of the Lagrangian
    change: Tree  # of the sampled gradient of the Lagrangian since the snapshot


def correct(problem: Problem, snap: Snapshot, x: Tree, lam: Array, theta: Tree) -> Corrected:
    """Evaluate the batch at x and at the snapshot."""
    f, h, g = problem.value_and_gradient(x, lam, theta)
    f_then, h_then, g_then = problem.value_and_gradient(snap.w, lam, theta)
    change = subtract(g, g_then)
    gradient = add_scaled(problem.lagrangian_gradient(snap.grad, snap.rows, lam), 1, change)
    return Corrected(f, h, f - f_then + snap.f, h - h_then + snap.h, gradient, change)


def correct_slope(problem: Problem, snap: Snapshot, x: Tree, move: Tree, theta: Tree) -> Array:
    """The corrected J(x) times a move."""

    def slope(point):
        return jax.jvp(lambda p: problem.constraint_values(p, theta), (point,), (move,))[1]

    parts = jax.tree.map(lambda r, a: jnp.tensordot(r.reshape(r.shape[0], a.size), a.reshape(-1), 1), snap.rows, move)
    return slope(x) - slope(snap.w) + functools.reduce(jnp.add, jax.tree.leaves(parts))


def jacobian_norm(rows: Tree) -> Array:
    """The norm of a Jacobian as an operator; 0 where there are no constraints."""
    leaves = jax.tree.leaves(rows)
    if leaves[0].shape[0] == 0:
        return jnp.zeros((), leaves[0].dtype)
    return jnp.linalg.norm(jnp.concatenate([leaf.reshape(leaf.shape[0], -1) for leaf in leaves], axis=1), 2)


def probe_size(n: int) -> int:
    """How many of n rows are looked at for step sizes: few enough to cost a fraction of a pass."""
    return min(128, n, max(8, n // 64))


def probe_rows(data: Tree, size: int | None = None) -> Tree:
    """These rows, or so many, spread evenly."""
    n = count(data)
    size = probe_size(n) if size is None else size
    return jax.tree.map(lambda a: a[:size], spread(data, n // size))
