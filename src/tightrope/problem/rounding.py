"""By how much means over rows may be off because numbers are rounded: a few units of eps of the size of what is summed.

In float64 that is far below any gap that is asked for, and sizes are thought to be a generous multiple of what a look has
found anyway. In float32 it may be all that there is of a gap: sizes are then counted, on a few rows.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tightrope._jaxlib import compiled
from tightrope._limits import AT_ONCE
from tightrope.precision import full_precision
from tightrope.problem.full_data import full_mean, linearised
from tightrope.problem.problem import Problem, bends, objective_alone
from tightrope.sampling.rows import MOST_ROWS_OF_SLOPES, first_row, one_row, spread
from tightrope.sampling.rows import count as count
from tightrope.tree import Array, Tree, dot, float_dtype, size_of

# Roundings of eps/2 that a mean over rows may be off by, in eps of the mean of absolute values. Derived: on a CPU
# a slice of 1,024 rows is summed in 32 lanes of 32 numbers: 31 roundings along a lane, 5 where lanes meet in a tree,
# which is (31 + 5)/2; one
# more for the slices, added by Kahan's summation, and for the division. That is 19, and 20 are counted; 16.45 is the
# worst that was found. Slices on an accelerator have up to 131,072 rows: if these were added one after the other they
# could be off by more; by trees of warps and blocks they are off by less. Which of the two a compiler takes is not known.
UNITS = 20
MANY = 64  # times: how much larger what is summed may be than its sum, where nobody counts (float64); a guess


class Sizes(NamedTuple):
    """Means over rows of the absolute values that are summed, and of what they are made of; rounding is counted in these."""

    f: Array
    h: Array
    grad: Tree
    rows: Tree


def sizes_at(problem: Problem, x: Tree, data: Tree, f: Array, h: Array, grad: Tree, rows: Tree) -> Sizes:
    """Sizes at x, where a look at all rows has found these values and gradients."""
    if float_dtype(x) != np.float64:
        return counted_sizes(problem, x, few(data))
    flat = [r.reshape(h.size, v.size) for r, v in zip(jax.tree.leaves(rows), jax.tree.leaves(x), strict=True)]
    along = sum(jnp.abs(r) @ jnp.abs(jnp.ravel(v)) for r, v in zip(flat, jax.tree.leaves(x), strict=True))
    size_f = jnp.abs(f) + dot(absolute(grad), absolute(x))
    size_h = jnp.abs(h) + along + jnp.abs(jnp.asarray(problem.levels, h.dtype))
    return jax.tree.map(lambda v: MANY * v, Sizes(size_f, size_h, absolute(grad), absolute(rows)))


def counted_sizes(problem: Problem, x: Tree, data: Tree) -> Sizes:
    """Sizes at x over these rows.

    Values round like their own size and like the products of gradient and point that they are made of; gradients like
    theirs, and like the products of curvature and point: the residual of a fit may be small and what it is the difference
    of large. Of these products a signed one could vanish by accident, so there are two, the second with random signs.
    """
    if problem.exact_constraints is not None and count(data) > 1:  # they are the same in every row
        once = counted_sizes(problem, x, first_row(data))
        return counted_sizes(objective_alone(problem), x, data)._replace(h=once.h, rows=once.rows)
    problem = linearised(problem, x, data)
    levels = jnp.abs(jnp.asarray(problem.levels, float_dtype(x)))
    mixed = jax.tree.map(_with_any_signs, x)
    directions = jax.tree.map(lambda *v: jnp.stack(v), x, mixed)

    def of_row(theta: Tree) -> Sizes:
        one = jax.tree.map(lambda a: a[None], theta)

        def seen(point: Tree) -> tuple[Array, Array, Tree, Tree]:
            return problem.jacobian(point, one)

        (f, h, *slopes), bend = jax.linearize(seen, x) if bends(problem) else (seen(x), None)
        grad, rows = absolute(slopes)
        made = [jnp.sum(r.reshape(h.size, v.size) * jnp.abs(v).reshape(1, -1), axis=1)
                for r, v in zip(jax.tree.leaves(rows), jax.tree.leaves(x), strict=True)]  # fmt: skip
        size_f, size_h = jnp.abs(f) + dot(grad, absolute(x)), jnp.abs(h) + sum(made) + levels
        if bend is not None:
            bent = jax.vmap(lambda direction: bend(direction)[2:])(directions)
            grad, rows = jax.tree.map(lambda size, b: size + jnp.sum(jnp.abs(b), axis=0), (grad, rows), bent)
        return Sizes(size_f, size_h, grad, rows)

    n_constraints = jax.eval_shape(of_row, one_row(data)).h.size
    numbers = size_of(x) * (1 + n_constraints)
    return full_mean(of_row, data, max(1, min(1024, AT_ONCE // numbers)))


@compiled(soon=True)
@full_precision
def counted_on_few(problem: Problem, x: Tree, data: Tree) -> Sizes:
    """`counted_sizes` of a few rows, for a program to go on while the device counts."""
    return counted_sizes(problem, x, few(data))


def _with_any_signs(v: Array) -> Array:
    """With a sign for each coordinate that has nothing to do with the problem: bits of a hash of its number, because a
    generator of random ones takes longer to compile than all the rest."""
    numbers = jnp.arange(v.size, dtype=jnp.uint32) * jnp.uint32(0x9E3779B1)
    numbers = (numbers ^ (numbers >> 15)) * jnp.uint32(0x85EBCA77)
    return jnp.where(numbers >> 31 == 1, -1, 1).astype(v.dtype).reshape(v.shape) * v


def absolute(tree: Tree) -> Tree:
    """The absolute value of every coordinate."""
    return jax.tree.map(jnp.abs, tree)


def few(data: Tree) -> Tree:
    """At most 256 rows, spread evenly; all of them where there are no more."""
    return spread(data, -(-count(data) // MOST_ROWS_OF_SLOPES))
