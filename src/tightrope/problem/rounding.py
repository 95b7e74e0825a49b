"""By how much means over rows may be off because numbers are rounded: a few units of eps of the size of what is summed."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tightrope._jaxlib import compiled
from tightrope.precision import full_precision
from tightrope.problem.full_data import full_mean, linearised
from tightrope.problem.problem import Problem, bends, constraints_alone, objective_alone
from tightrope.sampling.data import count as count
from tightrope.sampling.data import data_of, first_row, one_row, spread
from tightrope.tree import Array, Tree, as_numpy, dot, float_dtype, ravel

# Roundings of eps/2 that a mean over rows may be off by, in eps of the mean of absolute values. Derived: on a CPU
# a slice of 1,024 rows is summed in 32 lanes of 32 numbers: 31 roundings along a lane, 5 where lanes meet in a tree,
# which is (31 + 5)/2; one
# more for the slices, added by Kahan's summation, and for the division. That is 19, and 20 are counted; 16.45 is the
# worst that was found. Slices on an accelerator have up to 131,072 rows: if these were added one after the other they
# could be off by more; by trees of warps and blocks they are off by less. Which of the two a compiler takes is not known.
UNITS = 20
LOOK = 256  # rows by which sizes are judged until a run is about to end; by hand
_NUMBERS = 1 << 22  # numbers of per-row gradients that are held at once, 32 MB in float64; by hand


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
        once = sizes_of(problem, x, first_row(data), curvature)
        return sizes_of(objective_alone(problem), x, data, curvature)._replace(h=once.h, rows=once.rows)
    problem = linearised(problem, x, data)
    levels = jnp.abs(jnp.asarray(problem.levels, float_dtype(x)))
    mixed = jax.tree.map(_with_any_signs, x)
    directions = jax.tree.map(lambda *v: jnp.stack(v), x, mixed)

    def of_row(theta: Tree) -> Sizes:
        one = jax.tree.map(lambda a: a[None], theta)

        def seen(point: Tree) -> tuple[Array, Array, Tree, Tree]:
            return problem.jacobian(point, one)

        bent = curvature and bends(problem)
        (f, h, *slopes), bend = jax.linearize(seen, x) if bent else (seen(x), None)
        grad, rows = absolute(slopes)
        made = [jnp.sum(r.reshape(h.size, v.size) * jnp.abs(v).reshape(1, -1), axis=1)
                for r, v in zip(jax.tree.leaves(rows), jax.tree.leaves(x), strict=True)]  # fmt: skip
        size_f, size_h = jnp.abs(f) + dot(grad, absolute(x)), jnp.abs(h) + sum(made) + levels
        if bend is not None:
            bent = jax.vmap(lambda direction: bend(direction)[2:])(directions)
            grad, rows = jax.tree.map(lambda size, b: size + jnp.sum(jnp.abs(b), axis=0), (grad, rows), bent)
        return Sizes(size_f, size_h, grad, rows)

    n_constraints = jax.eval_shape(of_row, one_row(data)).h.size
    numbers = sum(v.size for v in jax.tree.leaves(x)) * (1 + n_constraints)
    return full_mean(of_row, data, max(1, min(1024, _NUMBERS // numbers)))


class Glance(NamedTuple):
    """What some rows say of a point, on the host and in float64: means of values and slopes, and the sizes of what was
    summed; slopes as vectors."""

    f: np.ndarray
    h: np.ndarray
    grad: np.ndarray
    rows: np.ndarray
    sizes: Sizes


def glance(problem: Problem, x: Tree, data: Tree, every_row: bool = False) -> Glance:
    """A glance at a few rows, spread evenly, or at every one. It is one program whichever they are: bounds on rounding take
    long to compile, and a run needs them at its start, at its looks and at its end."""
    return read_glance(glance_at(problem, x, data, every_row), x)


def read_glance(seen: Array, x: Tree) -> Glance:
    """What `glance_at` has found."""
    d = sum(np.size(leaf) for leaf in jax.tree.leaves(x))
    values, slopes = np.split(np.asarray(seen, float).reshape(2, -1, 1 + d), [1], axis=2)
    means, sizes = ((v[0, 0], v[1:, 0], s[0], s[1:]) for v, s in zip(values, slopes, strict=True))
    return Glance(*means, Sizes(*sizes))


@compiled(soon=True)
@full_precision
def glance_at(problem: Problem, x: Tree, data: Tree, every_row: Any) -> Array:
    """`glance`, for a program to go on while the device looks: a value and a slope for F and each H_i, as means and as
    sizes, one after the other in one array, because each that is brought to the host takes its time."""
    problem = linearised(problem, x, data)
    n, d, dtype = count(data), sum(v.size for v in jax.tree.leaves(x)), float_dtype(x)
    kinds = 1 + jax.eval_shape(problem.sample_values, x, one_row(data))[1].size
    size = max(1, min(LOOK, data_of(data).least, _NUMBERS // (kinds * (1 + d))))
    varying, same = problem, jnp.zeros((2, 0, 1 + d), dtype)
    if problem.exact_constraints is not None:  # they are the same in every row
        varying, kinds = objective_alone(problem), 1
        same = _sums(constraints_alone(problem), x, first_row(data), jnp.ones(1, dtype))[:, 1:]
    stride = jnp.where(every_row, 1, -(-n // LOOK))

    def add(k: Array, sums: Array) -> Array:
        index = (k * size + jnp.arange(size)) * stride
        rows = data_of(data).take(k * size * stride, size, stride)
        return sums + _sums(varying, x, rows, (index < n).astype(dtype))

    of = -(-n // stride)
    sums = jax.lax.fori_loop(0, -(-of // size), add, jnp.zeros((2, kinds, 1 + d), dtype))
    return jnp.ravel(jnp.concatenate([sums / of.astype(dtype), same], axis=1))


def _sums(problem: Problem, x: Tree, rows: Tree, weights: Array) -> Array:
    """Over weighted rows, the sums of a value and a slope of f and each h_i, and of their sizes: (2, 1 + N, 1 + d)."""
    flat, back = ravel(x)

    def seen(point: Array) -> tuple[Array, Array]:
        def of_row(theta: Tree) -> tuple[Array, Array]:
            f, h, grad, each = problem.jacobian(back(point), jax.tree.map(lambda a: a[None], theta))
            leaves = zip(jax.tree.leaves(each), jax.tree.leaves(x), strict=True)
            each = jnp.concatenate([r.reshape(h.size, v.size) for r, v in leaves], axis=1)
            return jnp.append(f, h), jnp.concatenate([ravel(grad)[0][None], each])

        return jax.vmap(of_row)(rows)

    if bends(problem):
        (values, slopes), bend = jax.linearize(seen, flat)
        bent = _bent(bend, flat, weights)
    else:
        (values, slopes), bent = seen(flat), 0

    def total(v: Array) -> Array:
        return jnp.tensordot(weights, v, 1)

    steep = total(jnp.abs(slopes))
    levels = jnp.sum(weights) * jnp.abs(jnp.asarray(problem.levels, steep.dtype))
    sizes = (total(jnp.abs(values)) + steep @ jnp.abs(flat)).at[1:].add(levels)
    both = ((total(values), total(slopes)), (sizes, steep + bent))
    return jnp.stack([jnp.concatenate([v[:, None], s], axis=1) for v, s in both]).astype(weights.dtype)


def _bent(bend: Any, x: Array, weights: Array) -> Array:
    """The size of curvature times point: once as it is and once with random signs."""
    mixed = _with_any_signs(x)
    each = jax.vmap(lambda direction: bend(direction)[1])(jnp.stack([x, mixed]))
    return jnp.tensordot(weights, jnp.sum(jnp.abs(each), axis=0), 1)


def _with_any_signs(v: Array) -> Array:
    """With a sign for each coordinate that has nothing to do with the problem: bits of a hash of its number, because a
    generator of random ones takes longer to compile than all the rest."""
    numbers = jnp.arange(v.size, dtype=jnp.uint32) * jnp.uint32(0x9E3779B1)
    numbers = (numbers ^ (numbers >> 15)) * jnp.uint32(0x85EBCA77)
    return jnp.where(numbers >> 31 == 1, -1, 1).astype(v.dtype).reshape(v.shape) * v


def distance_across(problem: Problem) -> float:
    """The diameter of the domain, computed on the host."""
    return float(as_numpy(problem.domain).diameter)


def absolute(tree: Tree) -> Tree:
    """The absolute value of every coordinate."""
    return jax.tree.map(jnp.abs, tree)


def few(data: Tree) -> Tree:
    """At most `LOOK` rows, spread evenly; all of them where there are no more."""
    return spread(data, -(-count(data) // LOOK))


def eps_of(x: Tree) -> float:
    """The unit of rounding in a point's precision."""
    return float(jnp.finfo(float_dtype(x)).eps)


def judged_by_every_row(problem: Problem, x: Tree, data: Tree) -> float:
    """How many times larger the sizes at x are by every row than by a few; at least one."""
    if count(data) <= LOOK:
        return 1.0
    few, every = (glance(problem, x, data, each).sizes for each in (False, True))
    return max(float(np.max(b / np.where(a == 0, 1, a), initial=1)) for a, b in zip(few, every, strict=True))
