"""Means over all the data at hand, in slices of fixed size: nothing per row is ever held for all rows at once."""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from tightrope.precision import full_precision
from tightrope.problem.problem import Problem, constraint_rows
from tightrope.tree import Array, Mean, Tree


@jax.jit
def full_values(problem: Problem, x: Tree, data: Tree) -> tuple[Array, Array]:
    """Objective and constraints (minus levels) at x over all rows."""
    return full_mean(lambda theta: problem.sample_values(x, theta), data)


@jax.jit
def full_constraints(problem: Problem, x: Tree, data: Tree) -> Array:
    """The constraints (minus levels) alone at x over all rows; no pass at all where they are known exactly."""
    if problem.exact_constraints is not None:
        return problem.constraint_values(x, jax.tree.map(lambda a: a[:1], data))
    return full_mean(lambda theta: problem.sample_values(x, theta)[1], data)


@full_precision
def full_mean(fn: Callable[[Tree], Tree], data: Tree, rows_a_slice: int = 1024) -> Tree:
    """The mean of fn over all rows; per-row results are never held all at once."""

    def of_slice(rows, weights):
        return jax.tree.map(lambda v: jnp.tensordot(weights.astype(v.dtype), v, 1), jax.vmap(fn)(rows))

    return fold_rows(of_slice, data, rows_a_slice)


@full_precision
def full_jacobian(problem: Problem, x: Tree, data: Tree, rows_a_slice: int = 1024) -> tuple[Array, Array, Tree, Tree]:
    """f, h, grad f and the rows grad h_i at x over all rows; per-row gradients are never made."""

    def of_slice(rows, weights):
        def weighted(point):
            f, h = jax.vmap(lambda one: problem.sample_values(point, one))(rows)
            return jnp.dot(weights.astype(f.dtype), f), weights.astype(h.dtype) @ h

        (f, h), pull = jax.vjp(weighted, x)
        (grad_f,) = pull((jnp.ones_like(f), jnp.zeros_like(h)))
        return f, h, grad_f, constraint_rows(pull, f, h, x)

    return fold_rows(of_slice, data, rows_a_slice)


def fold_rows(of_slice: Callable[[Tree, Array], Tree], data: Tree, rows_a_slice: int = 1024) -> Tree:
    """The sum over slices of of_slice(rows, weights): slices of fixed size, in which each row of the data weighs 1/n
    once and 0 where the last slice reaches back over rows that were counted before."""
    n = jax.tree.leaves(data)[0].shape[0]
    size = min(rows_a_slice, n)

    def sums_of(k):
        start = jnp.minimum(k * size, n - size)
        rows = jax.tree.map(lambda a: jax.lax.dynamic_slice_in_dim(a, start, size), data)
        weights = jnp.where(start + jnp.arange(size) >= k * size, 1.0, 0.0)
        return of_slice(rows, weights)

    zeros = Mean.zeros_like(jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), jax.eval_shape(sums_of, 0)))
    total = jax.lax.fori_loop(0, -(-n // size), lambda k, total: total.add(sums_of(k)).close_group(), zeros)
    return jax.tree.map(lambda v: v / n, total.sum())
