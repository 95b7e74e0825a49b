"""The few directions in which a Lagrangian bends most, and widths along them in which it bends there no more than elsewhere.

A step is as short as the largest curvature asks for. Where features are made of a few common factors that is hundreds of
times the usual one: with the domain said to be narrower along these few directions, all others take longer steps.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from tightrope.problem import Problem
from tightrope.tree import Array, Tree, nonzero, ravel
_ROUNDS = 3  # of products with the Hessian, of all directions at once
_SHARE = 0.5  # of a pass that they may cost
_LEAST, _MOST = 64, 512  # rows whose Hessian it is, and ...
_BATCHES = 4  # ... no fewer than one batch, no more than so many: what they miss is then less than a batch's own noise
_PAYS = 1.5  # times longer steps are worth the work
_FLOOR = 1e-4  # of the largest curvature: less than this is not told from none in single precision


class Along(NamedTuple):
    """Directions, and the widths along them."""

    directions: Array  # orthonormal rows
    widths: Array


def no_directions(k: int, x: Tree) -> Along:
    """Widths of one along the first k coordinates."""
    v = ravel(x)[0]
    return Along(jnp.eye(k, v.size, dtype=v.dtype), jnp.ones((k,), v.dtype))


def affordable(n: int, batch_size: int, most: int) -> int:
    """How many directions can be found on n rows."""
    return min(most, _budget(n) // max(_LEAST, batch_size))


def rows_for(n: int, batch_size: int, k: int) -> int:
    """How many of n rows are looked at for k directions."""
    return max(1, min(_budget(n) // k, max(_MOST, _BATCHES * batch_size)))


def gradients_for(n: int, batch_size: int, k: int) -> int:
    """Per-row gradients that k directions take: a product is two."""
    return rows_for(n, batch_size, k) * (1 + 2 * k * _ROUNDS) if k else 0


def _budget(n: int) -> int:
    """Rows times directions."""
    return int(_SHARE * n) // (2 * _ROUNDS)


def leading(problem: Problem, w: Tree, lam: Array, rows: Tree, widths: Tree, k: int, batch_size: int) -> Along:
    """By subspace iteration from random directions."""
    flat, back = ravel(w)
    scale = ravel(jax.tree.map(lambda a, v: jnp.broadcast_to(a, jnp.shape(v)), widths, w))[0]

    def lagrangian(v):
        f, h = problem.values(back(v), rows)
        return f + jnp.dot(lam, h)

    product = jax.linearize(jax.grad(lagrangian), flat)[1]

    def round_of(i, seen):
        _, Y, first = seen
        Q = jnp.linalg.qr(Y.T)[0].T
        Y = jax.vmap(product)(Q * scale) * scale
        return Q, Y, jax.tree.map(lambda new, old: jnp.where(i == 0, new, old), (Q, Y), first)

    start = jax.random.normal(jax.random.key(0), (k, flat.size), flat.dtype)
    Q, Y, (Q0, Y0) = jax.lax.fori_loop(0, _ROUNDS, round_of, (start, start, (start, start)))
    e, turn = jnp.linalg.eigh((Q @ Y.T + Y @ Q.T) / 2)
    e, U = jnp.maximum(e[::-1], 0), (turn[:, ::-1]).T @ Q
    # The trace of the rest, from what the first products did to random directions, less their parts along U.
    inside = Q0 @ U.T
    rest = jnp.sum(Q0 * Y0) - 2 * jnp.sum(inside * (Y0 @ U.T)) + jnp.sum(inside**2 * e)
    rest = jnp.maximum(rest, 0) * (flat.size / k)
    level = jnp.maximum(e[-1], rest / batch_size)  # the noise of a batch asks for steps as short as that
    level = jnp.maximum(level, _FLOOR * e[0])
    left = jnp.minimum(e, level)
    before, after = e[0] + (rest + jnp.sum(e)) / batch_size, left[0] + (rest + jnp.sum(left)) / batch_size
    pays = before > _PAYS * after
    return Along(U, jnp.where(pays, jnp.sqrt(left / nonzero(e)), 1))
