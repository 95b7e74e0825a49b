"""Lengths counted in widths of the domain: y = x / width, so that units of x, and of its leaves, do not matter.

Sets say what their widths are (`ConvexSet.widths`). A gradient in y is width times the gradient in x, and a step of length
eta in y is one of eta width^2 in x.
"""

import math

import jax
import jax.numpy as jnp

from tightrope.tree import Array, Tree, nonzero


def slope_in(wid: Tree, gradient: Tree) -> Tree:
    """A gradient in y."""
    return jax.tree.map(jnp.multiply, gradient, wid)


def length_in(wid: Tree, move: Tree) -> Tree:
    """A difference of points in y."""
    return jax.tree.map(lambda v, a: v / nonzero(a), move, wid)


def rows_in(wid: Tree, rows: Tree) -> Array:
    """A Jacobian in y as a matrix, one row for each constraint."""

    def matrix(r: Array, a: Array) -> Array:
        return (r * (a[None] if a.ndim else a)).reshape(r.shape[0], math.prod(r.shape[1:]))

    parts = jax.tree.map(matrix, rows, wid)
    return jnp.concatenate(jax.tree.leaves(parts), axis=1)


def step_along(wid: Tree, x: Tree, eta: Array, gradient: Tree) -> Tree:
    """x after a step of length eta in y against a gradient in x."""
    return jax.tree.map(lambda v, g, a: v - eta * a**2 * g, x, gradient, wid)
