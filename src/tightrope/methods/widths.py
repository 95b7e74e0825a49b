"""Lengths counted in widths of the domain: y = x / width, so that units of x, and of its leaves, do not matter.

The width of a coordinate of a Box is that of its interval; that of any other set is its diameter, the same for all its
coordinates, because its projection knows no other scaling. A Product has the widths of its parts. A gradient in y is
width times the gradient in x, and a step of length eta in y is one of eta width^2 in x.
"""

import math

import jax
import jax.numpy as jnp

from tightrope.sets import Box, ConvexSet, Product
from tightrope.tree import Array, Tree, nonzero, subtract


def widths(domain: ConvexSet, x: Tree) -> Tree:
    """The width of every coordinate; one number for a leaf whose coordinates share it. x is any point of the set."""
    if isinstance(domain, Box):
        ones = jax.tree.map(jnp.ones_like, x)
        return subtract(domain.lmo(jax.tree.map(jnp.negative, ones)), domain.lmo(ones))
    if isinstance(domain, Product):
        return jax.tree.map(widths, domain.sets, x, is_leaf=_is_set)
    return jax.tree.map(lambda v: jnp.asarray(domain.diameter, v.dtype), x)


def reach(domain: ConvexSet, x: Tree) -> float:
    """The diameter of the domain in y."""
    if isinstance(domain, Box):
        return math.sqrt(sum(v.size for v in jax.tree.leaves(x)))
    if isinstance(domain, Product):
        parts = jax.tree.map(reach, domain.sets, x, is_leaf=_is_set)
        return math.hypot(*jax.tree.leaves(parts))
    return 1.0


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


def _is_set(part: object) -> bool:
    return isinstance(part, ConvexSet)
