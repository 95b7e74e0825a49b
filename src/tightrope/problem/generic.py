"""What methods ask of a problem that some kinds of problems do in a way of their own.

Each is a generic function: here stands what it does for a problem whose points are arrays. A kind that knows better
registers its own, as factored completion does with `@step_length.register`.
"""

from functools import singledispatch

import jax
import jax.numpy as jnp

from tightrope.precision import full_precision
from tightrope.problem.problem import Problem
from tightrope.tree import Array, Tree, add_scaled, dot

_FAR = 1e3  # the step along a line without curvature, in lengths of the direction: a guess


@singledispatch
@full_precision
def exact_slopes(problem: Problem, x: Tree) -> Tree:
    """The derivatives of the constraints that are known exactly, by all numbers that x is held as; like `jacobian`'s
    rows where those are the coordinates themselves."""
    assert problem.exact_constraints is not None
    extra = () if problem.params is None else (problem.params,)
    return jax.jacrev(problem.exact_constraints)(x, *extra)


@singledispatch
def zero_gradient(problem: Problem, x: Tree) -> Tree:
    """Zeros in the form in which `jacobian` gives grad f."""
    return jax.tree.map(jnp.zeros_like, x)


@singledispatch
@full_precision
def step_length(problem: Problem, x: Tree, lam: Array, theta: Tree, g: Tree, d: Tree) -> Array:
    """The step a >= 0 that minimises f + <lam, h> along x + a d; g is its gradient at x.

    By the secant of the slopes at 0 and 1, which is exact for a quadratic. Where that turns out to be too far, by a
    second secant.
    """

    def slope(a: Array | float) -> Array:
        _, (df, dh) = jax.jvp(lambda point: problem.values(point, theta), (add_scaled(x, a, d),), (d,))
        return df + jnp.dot(lam, dh)

    def root(b: Array | float, at_0: Array, at_b: Array) -> Array:
        return jnp.where(at_b > at_0, b * at_0 / jnp.where(at_b > at_0, at_0 - at_b, 1), _FAR * b)

    at_0 = dot(g, d)
    once = root(1.0, at_0, slope(1.0))
    there = slope(once)
    return jnp.where(at_0 < 0, jnp.where(there > 0, root(once, at_0, there), once), 0).astype(at_0.dtype)
