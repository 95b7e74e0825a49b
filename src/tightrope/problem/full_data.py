"""Means over all the data, in slices of fixed size: nothing per row is ever held for all rows at once, and no more than a
slice of the rows themselves where they are read from files (`sampling/rows.py`).

A nested problem takes two of them: the mean inside comes first, and what is around it sees that.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.extend.core import jaxpr_as_fun
from jax.flatten_util import ravel_pytree

from tightrope._jaxlib import compiled
from tightrope.precision import full_precision
from tightrope.problem.nested import (
    Nested,
    Tangent,
    in_point_and_inner,
    inner_alone,
    with_inner_given,
    with_inner_linear,
    with_inner_moving,
)
from tightrope.problem.problem import (
    Problem,
    bends,
    constraint_rows,
    constraints_alone,
    jacobian_of,
    n_constraints,
    objective_alone,
)
from tightrope.sampling.rows import MOST_ROWS_OF_SLOPES, Data, OfSlice, data_of, first_row, one_row
from tightrope.sampling.rows import Numbered as Numbered
from tightrope.sampling.rows import count as count
from tightrope.sampling.rows import spread as spread
from tightrope.tree import Array, Mean, Tree, ravel, size_of

_FEW = 8  # constraints for which a backward pass each costs nothing to speak of: a guess


class Some(NamedTuple):
    """A few of the slices of all rows, spread evenly. Numbers may be traced: all rows and some are then one program."""

    slices: Any  # how many
    first: Any = 0  # where they begin


@compiled
def full_values(problem: Problem, x: Tree, data: Tree) -> tuple[Array, Array]:
    """Objective and constraints (minus levels) at x over all rows."""
    problem = _with_exact_inner(problem, x, data)
    return full_mean(lambda theta: problem.sample_values(x, theta), data)


@compiled
def full_constraints(problem: Problem, x: Tree, data: Tree) -> Array:
    """The constraints (minus levels) alone at x over all rows; no pass at all where they are known exactly."""
    if problem.exact_constraints is not None:
        return problem.constraint_values(x, first_row(data))
    problem = _with_exact_inner(problem, x, data)
    return full_mean(lambda theta: problem.sample_values(x, theta)[1], data)


def _with_exact_inner(problem: Problem, x: Tree, data: Tree) -> Problem:
    """The plain problem that a nested one is at x: with its mean inside over all rows."""
    if not isinstance(problem, Nested):
        return problem
    inner = inner_alone(problem)
    return with_inner_given(problem, full_mean(lambda theta: inner.sample_values(x, theta)[1], data))


def linearised(problem: Problem, x: Tree, data: Tree) -> Problem:
    """A plain problem with the values and gradients at x that the problem has on this data; itself where it is plain.

    Everything that is asked of single rows at a point (sizes of what is summed, spreads, bounds) is asked of this one. A
    row's value is its influence on the nested one, so that spreads are those of the delta method.
    """
    return _linearised(problem, x, data) if isinstance(problem, Nested) else problem


@compiled
def _linearised(problem: Nested, x: Tree, data: Tree) -> Problem:
    return with_inner_linear(problem, *tangent(problem, x, data))


def tangent(problem: Nested, x: Tree, data: Tree) -> Tangent:
    """What `linearised` makes the plain problem of."""
    inner = inner_alone(problem)
    u = full_mean(lambda theta: inner.sample_values(x, theta)[1], data)
    _, _, slope, slopes = full_jacobian(in_point_and_inner(problem), {"x": x, "u": u}, data)
    return Tangent(u, slope["u"], slopes["u"])


def bent_like(problem: Problem, x: Tree, data: Tree, some: Some, rows_a_slice: int) -> Problem:
    """A plain problem with the values, gradients and Hessians at x that the problem has on some rows; itself where it is
    plain."""
    if not isinstance(problem, Nested):
        return problem
    _, u, _, inside = full_jacobian(inner_alone(problem), x, data, rows_a_slice, some)
    around = in_point_and_inner(problem)
    _, _, slope, slopes = full_jacobian(around, {"x": x, "u": u}, data, rows_a_slice, some)
    return with_inner_moving(problem, x, u, inside, slope["u"], slopes["u"])


@full_precision
def full_mean(fn: Callable[[Tree], Tree], data: Tree, rows_a_slice: int | None = None) -> Tree:
    """The mean of fn over all rows; per-row results are never held all at once."""

    def of_slice(rows, weights):
        return jax.tree.map(lambda v: jnp.tensordot(weights.astype(v.dtype), v, 1), jax.vmap(fn)(rows))

    return fold_rows(of_slice, data, rows_a_slice)


@full_precision
def full_jacobian(
    problem: Problem, x: Tree, data: Tree, rows_a_slice: int | None = None, some: Some | None = None
) -> tuple[Array, Array, Tree, Tree]:
    """f, h, grad f and the rows grad h_i at x over all rows, or some of them; per-row gradients are never made.

    A backward pass gives one row, and goes through all N constraints for it; a forward pass gives one column. Where there
    are many constraints and not many more coordinates, columns are cheaper: time N d instead of N^2.
    """
    if isinstance(problem, Nested):
        return _chain_rule(problem, x, data, rows_a_slice, some)
    if problem.exact_constraints is not None:  # they are the same in every row
        f, _, grad_f, _ = full_jacobian(objective_alone(problem), x, data, rows_a_slice, some)
        _, h, _, each = constraints_alone(problem).jacobian(x, first_row(data))
        return f, h, grad_f, each

    def values(point, rows, weights):
        f, h = jax.vmap(lambda one: problem.sample_values(point, one))(rows)
        return jnp.dot(weights.astype(f.dtype), f), weights.astype(h.dtype) @ h

    def by_rows(rows, weights):
        if not bends(problem):  # an oracle, gives both at once
            return jacobian_of(lambda point: values(point, rows, weights), x)
        f, pull_f = jax.vjp(lambda point: values(point, rows, weights)[0], x)
        h, pull_h = jax.vjp(lambda point: values(point, rows, weights)[1], x)
        return f, h, pull_f(jnp.ones_like(f))[0], constraint_rows(pull_h, h, x)

    def by_columns(rows, weights):
        def twice(point):
            both = values(point, rows, weights)
            return both, both

        (grad_f, jacobian), (f, h) = jax.jacfwd(twice, has_aux=True)(x)
        return f, h, grad_f, jacobian

    one = one_row(data)
    if _columns_pay(problem, x, one):
        size = rows_a_slice or data_of(data).a_slice()  # who counts slices knows theirs
        return fold_rows(by_columns, data, size if some is not None else min(size, MOST_ROWS_OF_SLOPES), some)
    return fold_rows(by_rows, data, rows_a_slice or data_of(data).a_slice(slopes=True), some)


@compiled(static_argnames="rows_a_slice")
def see(problem: Problem, x: Tree, data: Tree, some: Some | None = None, rows_a_slice: int | None = None) -> Array:
    """One pass over all rows, or some: the point, values and slopes, one after the other in one array because every array
    that is brought to the host takes its time."""
    f, h, grad, rows = full_jacobian(problem, x, data, rows_a_slice, some)
    leaves = zip(jax.tree.leaves(rows), jax.tree.leaves(x), strict=True)
    each = jnp.concatenate([r.reshape(h.size, v.size) for r, v in leaves], axis=1)
    return jnp.concatenate([jnp.ravel(v) for v in (ravel(x)[0], f, h, ravel(grad)[0], each)])


def _chain_rule(
    problem: Nested, x: Tree, data: Tree, rows_a_slice: int | None, some: Some | None
) -> tuple[Array, Array, Tree, Tree]:
    """`full_jacobian` of a nested problem: the mean inside with its slopes, then what is around it in both arguments. On
    some rows both means are theirs: of the problem that these rows are alone."""
    _, u, _, inside = full_jacobian(inner_alone(problem), x, data, rows_a_slice, some)
    f, h, grad, rows = full_jacobian(in_point_and_inner(problem), {"x": x, "u": u}, data, rows_a_slice, some)

    def chain(at_x: Tree, at_u: Array) -> Tree:
        return problem.lagrangian_gradient(at_x, inside, at_u)

    jacobian = jax.vmap(chain)(rows["x"], rows["u"]) if h.size else rows["x"]
    return f, h, chain(grad["x"], grad["u"]), jacobian


def _columns_pay(problem: Problem, x: Tree, one: Tree) -> bool:
    """Whether the Jacobian of one sample is better made column by column, and its functions allow it."""
    n, d = n_constraints(problem, x, one), size_of(x)
    if n <= max(_FEW, d / 2):
        return False
    try:
        jax.eval_shape(jax.jacfwd(lambda point, row: problem.sample_values(point, row)[1]), x, one)
    except TypeError:  # functions of the user's that were given a derivative of their own for backward passes only
        return False
    return True


def each_row(fn: Callable[[Tree], Array], data: Tree, rows_a_slice: int | None = None) -> Array:
    """What fn gives for every row, all of it held: for numbers, not for gradients."""
    data = data_of(data)
    n, size = data.n, min(rows_a_slice or data.a_slice(), data.n)
    if data.in_memory:
        return jax.lax.map(fn, data.arrays, batch_size=size)
    starts = jnp.minimum(jnp.arange(-(-n // size)) * size, n - size)
    slices = jax.lax.map(lambda start: jax.vmap(fn)(data.take(start, size)), starts)
    before, last = slices[:-1].reshape(-1, *slices.shape[2:]), slices[-1]
    return jnp.concatenate([before, last[size - (n - len(before)) :]])


def fold_rows(of_slice: OfSlice, data: Tree, rows_a_slice: int | None = None, some: Some | None = None) -> Tree:
    """The sum over slices of of_slice(rows, weights): slices of fixed size, in which each row of the data weighs 1/n
    once and 0 where the last slice reaches back over rows that were counted before. With `some` of them, rows of these
    alone count. On a mesh every device goes through its own rows, and the sums meet once."""
    data = data_of(data)
    if some is not None:
        sums, weight = _sums(of_slice, data, data.n, rows_a_slice, some)
        return jax.tree.map(lambda v: v / weight.astype(v.dtype), sums)
    sums = data.fold(lambda of_slice, part, n: _sums(of_slice, part, n, rows_a_slice)[0], of_slice)
    return jax.tree.map(lambda v: v / data.n, sums)


def _sums(
    of_slice: OfSlice, data: Data, n: Any, rows_a_slice: int | None, some: Some | None = None
) -> tuple[Tree, Array]:
    """The sum over slices of the first n rows, which may be traced, and how many rows it counts."""
    size = min(rows_a_slice or data.a_slice(), data.least)
    every = -(-n // size)

    def sums_of(k):
        which = k if some is None else (some.first + k * every // some.slices) % every
        start = jnp.minimum(which * size, n - size)
        rows = data.take(start, size)
        weights = jnp.where(start + jnp.arange(size) >= which * size, 1.0, 0.0)
        return of_slice(rows, weights), jnp.sum(weights)

    program, shapes = jax.make_jaxpr(sums_of, return_shape=True)(jnp.zeros((), jnp.int32))
    zeros, back = ravel_pytree(jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), shapes))
    last = every if some is None else some.slices

    def add(k: Array, total: Mean) -> Mean:
        """As one vector, because each array that is summed by itself is more to compile."""
        return total.add(ravel_pytree(jaxpr_as_fun(program)(jnp.asarray(k, jnp.int32)))[0]).close_group()

    return back(jax.lax.fori_loop(0, last, add, Mean.zeros_like(zeros)).sum())
