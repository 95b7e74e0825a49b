"""Lengths counted in widths of the domain: y = x / width, so that units of x, and of its leaves, do not matter.

Sets say what their widths are (`ConvexSet.widths`). A gradient in y is width times the gradient in x, and a step of length
eta in y is one of eta width^2 in x. In the place of widths there may be a `Metric`, which has others along a few directions.
"""

import math

import jax
import jax.numpy as jnp

from tightrope.sets import ConvexSet
from tightrope.sets.metric import Metric
from tightrope.tree import Array, Tree, nonzero, ravel


def slope_in(wid: Tree, gradient: Tree) -> Tree:
    """A gradient in y."""
    if isinstance(wid, Metric):
        return _stretched(wid, slope_in(wid.widths, gradient), 1)
    return jax.tree.map(jnp.multiply, gradient, wid)


def length_in(wid: Tree, move: Tree) -> Tree:
    """A difference of points in y."""
    if isinstance(wid, Metric):
        return _stretched(wid, length_in(wid.widths, move), -1)
    return jax.tree.map(lambda v, a: v / nonzero(a), move, wid)


def move_of(wid: Tree, length: Tree) -> Tree:
    """A difference of points in x, from one in y."""
    if isinstance(wid, Metric):
        return move_of(wid.widths, _stretched(wid, length, 1))
    return jax.tree.map(jnp.multiply, length, wid)


def rows_in(wid: Tree, rows: Tree) -> Array:
    """A Jacobian in y as a matrix, one row for each constraint."""
    if isinstance(wid, Metric):
        return wid.stretched(rows_in(wid.widths, rows), 1)

    def matrix(r: Array, a: Array) -> Array:
        return (r * (a[None] if a.ndim else a)).reshape(r.shape[0], math.prod(r.shape[1:]))

    parts = jax.tree.map(matrix, rows, wid)
    return jnp.concatenate(jax.tree.leaves(parts), axis=1)


def step_along(wid: Tree, x: Tree, eta: Array, gradient: Tree) -> Tree:
    """x after a step of length eta in y against a gradient in x."""
    if isinstance(wid, Metric):
        move = move_of(wid.widths, _stretched(wid, slope_in(wid.widths, gradient), 2))
        return jax.tree.map(lambda v, m: v - eta * m, x, move)
    return jax.tree.map(lambda v, g, a: v - eta * a**2 * g, x, gradient, wid)


def projected(wid: Tree, domain: ConvexSet, x: Tree) -> Tree:
    """The point of the domain that is nearest to x in y."""
    return domain.project_in(wid, x) if isinstance(wid, Metric) else domain.project(x)


def _stretched(metric: Metric, y: Tree, power: int) -> Tree:
    vector, back = ravel(y)
    return back(metric.stretched(vector, power))
