"""Where a Lagrangian bends: scales of the coordinates in which rows are equally steep, the few directions in which it bends
most, and widths along these in which it bends there no more than elsewhere.

A step is as short as the largest curvature asks for, and along the smallest it does not get anywhere. Columns in units of
their own differ by orders of magnitude, and features that are made of a few common factors bend hundreds of times more along
these than elsewhere.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from tightrope._jaxlib import compiled
from tightrope.methods.snapshot import Snapshot, probe_rows
from tightrope.precision import full_precision
from tightrope.problem import Problem
from tightrope.problem.full_data import count, full_mean
from tightrope.problem.rounding import MANY
from tightrope.sets.metric import Metric
from tightrope.tree import Array, Tree, nonzero, ravel

# By hand, where nothing else is said.
FEW = 16  # directions that are looked for: as a rule all that stand out are among them
_ROUNDS = 3  # rounds of products with the Hessian, of all directions at once
_SHARE = 1 / 3  # share of a pass that these products may cost
_LEAST, _MOST = 64, 512  # rows whose Hessian it is, at least and at most
_BATCHES = 4  # batches that these rows are, between the two: they miss less of a direction than a batch does
_PAYS = 1.5  # times longer steps are worth the work
_ALIKE = 3.0  # times as steep is what some rows say of columns that are equally steep
_SOME = 16  # rows of which one is looked at for scales
_ENOUGH = 4096  # rows that are looked at for scales, at most
_FLOOR = 1e-4  # of the largest curvature: less than this is not told from none in single precision
_FAR = 1e3  # the most that a scale differs from one


class Bends(NamedTuple):
    """What was found on some rows."""

    scales: Array  # of the coordinates, as a vector, beside their widths
    directions: Array  # orthonormal rows, in coordinates divided by their widths and scales
    along: Array  # the widths along them

    def metric(self, widths: Tree, x: Tree) -> Metric:
        """Lengths in which curvatures are alike, where those of the domain are `widths`."""
        scaled = jax.tree.map(jnp.multiply, widths, ravel(x)[1](self.scales))
        return Metric(scaled, self.directions, self.along)


def nothing_known(k: int, x: Tree) -> Bends:
    """Scales of one, and widths of one along k directions."""
    v = ravel(x)[0]
    return Bends(jnp.ones_like(v), jnp.eye(k, v.size, dtype=v.dtype), jnp.ones((k,), v.dtype))


def affordable(n: int, batch_size: int, most: int) -> int:
    """How many directions can be found on n rows: none, or two at least, because the last one tells how much to narrow."""
    k = min(most, _budget(n) // max(_LEAST, batch_size))
    return k if k > 1 else 0


def gradients_for(n: int, batch_size: int, k: int) -> int:
    """Per-row gradients that it takes: one a row for scales, one where products begin, and two for each of them."""
    return _rows_for_scales(n) + _rows_for(n, batch_size, k) * (1 + 2 * k * _ROUNDS) if k else 0


def _rows_for_scales(n: int) -> int:
    return max(1, min(n // _SOME, _ENOUGH))


def _rows_for(n: int, batch_size: int, k: int) -> int:
    """How many of n rows are looked at for k directions."""
    return max(1, min(_budget(n) // k, max(_MOST, _BATCHES * batch_size)))


def _budget(n: int) -> int:
    """Rows times directions."""
    return int(_SHARE * n) // (2 * _ROUNDS)


def find_bends(
    problem: Problem, snap: Snapshot, lam: Array, data: Tree, widths: Tree, k: int, batch_size: int
) -> Bends:
    """By gradients of some rows of the data at a snapshot, and by products with the Hessian of a few."""
    mean = ravel(problem.lagrangian_gradient(snap.grad, snap.rows, lam))[0]
    sizes = _rows_for_scales(count(data)), _rows_for(count(data), batch_size, k)
    scales, found = _look(problem, snap.w, mean, lam, data, widths, k, *sizes, keep_length=True)
    return Bends(scales, found.directions, _along(found, batch_size))


@compiled(static_argnames=("k", "rows"), soon=True)
@full_precision
def curvatures(
    problem: Problem, x: Tree, mean: Array, lam: Array, data: Tree, widths: Array, k: int, rows: int
) -> Array:
    """What `Leading` says of k directions at x, in scales of the coordinates: the scales, the directions, how much the
    Lagrangian bends along these and on average along all others, one after the other in one array.

    Args:
        problem, x, lam, data: the Lagrangian, the point, the multipliers, and all rows.
        mean: the gradient of the Lagrangian there, over all rows.
        widths: of the coordinates, beside which the scales are.
        k: how many directions.
        rows: on how many rows they are looked for.
    """
    sizes = max(rows, _rows_for_scales(count(data))), rows
    scales, found = _look(problem, x, mean, lam, data, ravel(x)[1](widths), k, *sizes, keep_length=False)
    usual = found.others / max(widths.size - k, 1)
    return jnp.concatenate([scales, jnp.ravel(found.directions), found.bends, usual[None]])


class Leading(NamedTuple):
    """The directions of the largest curvatures, the largest first."""

    directions: Array  # orthonormal rows
    bends: Array  # the curvature along each
    others: Array  # what all other directions have together


def _look(
    problem: Problem,
    x: Tree,
    mean: Array,
    lam: Array,
    data: Tree,
    widths: Tree,
    k: int,
    for_scales: int,
    rows: int,
    keep_length: bool,
) -> tuple[Array, Leading]:
    """Scales, by gradients of some rows beside their mean over all, whose length they keep or not; and leading directions,
    in widths and scales, by products with the Hessian on so many rows."""
    flat, back = ravel(x)
    width = ravel(jax.tree.map(lambda a, v: jnp.broadcast_to(a, jnp.shape(v)), widths, x))[0]

    def slope(v: Array, rows: Tree) -> Array:
        def lagrangian(v):
            f, h = problem.values(back(v), rows)
            return f + jnp.dot(lam, h)

        return jax.grad(lagrangian)(v)

    some, few = (probe_rows(data, size) for size in (for_scales, rows))
    mean = mean * width
    unit = nonzero(jnp.max(jnp.abs(mean)))

    def moments(theta: Tree) -> tuple[Array, Array, Array]:
        off = (slope(flat, jax.tree.map(lambda a: a[None], theta)) * width - mean) / unit
        return off, off**2, off**4

    scales = _scales(mean / unit if keep_length else None, full_mean(moments, some), for_scales)
    width = width * scales
    product = jax.linearize(lambda v: slope(v, few), flat)[1]
    return scales, _leading(lambda Q: jax.vmap(product)(Q * width[None]) * width[None], flat, k)


def _scales(mean: Array | None, moments: tuple[Array, Array, Array], m: int) -> Array:
    """Scales in which the gradients of m rows differ as much in any coordinate as in any other, by the first, second and
    fourth moments of what they differ by from the mean of all rows.

    What the m rows have in common says nothing of units: coordinates in which they do not differ are taken for usual ones.
    What a single row would add counts too, because a coordinate may be rare. The gradient of all rows is as long as before
    where it is given as `mean`; without it usual coordinates are.
    """
    first, second, fourth = moments
    squares = second - first**2
    seen = squares > MANY * float(jnp.finfo(first.dtype).eps) * second
    steep = squares + fourth / nonzero(squares) / m
    usual = jnp.exp(jnp.sum(jnp.where(seen, jnp.log(jnp.where(seen, steep, 1)), 0)) / jnp.maximum(jnp.sum(seen), 1))
    steep = jnp.where(seen, steep, usual)
    differ = jnp.any(seen) & (jnp.max(steep) > _ALIKE**2 * jnp.min(steep))
    unit = usual if mean is None else jnp.sum(mean**2) / nonzero(jnp.sum(mean**2 / nonzero(steep)))
    return jnp.where(differ, jnp.clip(jnp.sqrt(unit / nonzero(steep)), 1 / _FAR, _FAR), 1)


def _leading(products: Callable[[Array], Array], like: Array, k: int) -> Leading:
    """By subspace iteration from random ones."""

    def again(i, seen):
        _, Y, first = seen
        Q = jnp.linalg.qr(Y.T)[0].T
        Y = products(Q)
        return Q, Y, jax.tree.map(lambda new, old: jnp.where(i == 0, new, old), (Q, Y), first)

    start = jax.random.normal(jax.random.key(0), (k, like.size), like.dtype)
    Q, Y, (Q0, Y0) = jax.lax.fori_loop(0, _ROUNDS, again, (start, start, (start, start)))
    bends, turn = jnp.linalg.eigh((Q @ Y.T + Y @ Q.T) / 2)
    bends, U = jnp.maximum(bends[::-1], 0), turn[:, ::-1].T @ Q
    # What all other directions have together, from what became of the first random ones without their parts along U.
    part = Q0 @ U.T
    others = jnp.sum(Q0 * Y0) - 2 * jnp.sum(part * (Y0 @ U.T)) + jnp.sum(part**2 * bends[None])
    left = nonzero(
        jnp.maximum(k - jnp.sum(part**2), 0)
    )  # of their squares: U came of them, and has more than its share
    return Leading(U, bends, jnp.maximum(others, 0) * ((like.size - k) / left))


def _along(found: Leading, batch_size: int) -> Array:
    """Widths along leading directions.

    With those widths the curvature is that of the least of these directions, or what the noise of a batch asks steps to be
    as short for: the mean curvature of a row, all directions together, over the size of the batch.
    """
    bends, others = found.bends, found.others
    level = jnp.maximum(jnp.maximum(bends[-1], others / batch_size), _FLOOR * bends[0])
    left = jnp.minimum(bends, level)
    before, after = (c[0] + (others + jnp.sum(c)) / batch_size for c in (bends, left))
    return jnp.where(before > _PAYS * after, jnp.sqrt(left / nonzero(bends)), 1)
