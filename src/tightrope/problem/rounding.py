"""By how much means over rows may be off because numbers are rounded: a few units of eps of the size of what is summed."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from tightrope.problem.full_data import full_mean, linearised
from tightrope.problem.problem import Problem
from tightrope.tree import Array, Tree, dot, float_dtype, replace

UNITS = 16  # of eps; the worst sum that was found, of one number repeated, was off by 8
LOOK = 256  # rows by which sizes are judged until a run is about to end
_NUMBERS = 1 << 22  # of per-row gradients that are held at once


class Sizes(NamedTuple):
    """Means over rows of the absolute values that are summed, and of what they are made of; rounding is counted in these."""

    f: Array
    h: Array
    grad: Tree
    rows: Tree


def sizes_of(problem: Problem, x: Tree, data: Tree, curvature: bool) -> Sizes:
    """Sizes at x over these rows.

    Values round like their own size and like the products of gradient and point that they are made of; gradients like
    theirs, and like the products of curvature and point: the residual of a fit may be small and what it is the difference
    of large. Of these products a signed one could vanish by accident, so there are two, the second with random signs.
    """
    if problem.exact_constraints is not None and count(data) > 1:  # they are the same in every row
        once = sizes_of(problem, x, jax.tree.map(lambda a: a[:1], data), curvature)
        free = replace(problem, constraints=None, exact_constraints=None, levels=0.0)
        return sizes_of(free, x, data, curvature)._replace(h=once.h, rows=once.rows)
    problem = linearised(problem, x, data)
    levels = jnp.abs(jnp.asarray(problem.levels, float_dtype(x)))
    mixed = jax.tree.map(lambda v: v * jax.random.rademacher(jax.random.key(0), v.shape, v.dtype), x)
    directions = jax.tree.map(lambda *v: jnp.stack(v), x, mixed)

    def of_row(theta: Tree) -> Sizes:
        one = jax.tree.map(lambda a: a[None], theta)

        def seen(point: Tree) -> tuple[Array, Array, Tree, Tree]:
            return problem.jacobian(point, one)

        bends = curvature and problem.oracle is None
        (f, h, *slopes), bend = jax.linearize(seen, x) if bends else (seen(x), None)
        grad, rows = absolute(slopes)
        made = [jnp.sum(r.reshape(h.size, v.size) * jnp.abs(v).reshape(1, -1), axis=1)
                for r, v in zip(jax.tree.leaves(rows), jax.tree.leaves(x), strict=True)]  # fmt: skip
        size_f, size_h = jnp.abs(f) + dot(grad, absolute(x)), jnp.abs(h) + sum(made) + levels
        if bend is not None:
            bent = jax.vmap(lambda direction: bend(direction)[2:])(directions)
            grad, rows = jax.tree.map(lambda size, b: size + jnp.sum(jnp.abs(b), axis=0), (grad, rows), bent)
        return Sizes(size_f, size_h, grad, rows)

    n_constraints = jax.eval_shape(of_row, jax.tree.map(lambda a: a[0], data)).h.size
    numbers = sum(v.size for v in jax.tree.leaves(x)) * (1 + n_constraints)
    return full_mean(of_row, data, max(1, min(1024, _NUMBERS // numbers)))


def absolute(tree: Tree) -> Tree:
    """The absolute value of every coordinate."""
    return jax.tree.map(jnp.abs, tree)


def count(data: Tree) -> int:
    """How many rows there are."""
    return jax.tree.leaves(data)[0].shape[0]


def few(data: Tree) -> Tree:
    """At most `LOOK` rows, spread evenly; all of them where there are no more."""
    return jax.tree.map(lambda a: a[:: -(-count(data) // LOOK)], data)


def eps_of(x: Tree) -> float:
    """The unit of rounding in a point's precision."""
    return float(jnp.finfo(float_dtype(x)).eps)
