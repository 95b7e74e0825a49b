"""The leading singular pairs of a matrix that can be multiplied with: an array, or a sum of a sparse and a thin one."""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tightrope._tree import Array
from tightrope.sets.ball import unit

RESTART = 0.03  # weight of the fixed random direction in a warm start; more of it spoils short iterations


@functools.cache
def _random_unit(n: int, seed: int) -> np.ndarray:
    """A fixed direction, drawn at compile time: inside a loop drawing it would cost as much as a round."""
    with jax.ensure_compile_time_eval():
        draw = jax.random.normal(jax.random.key(seed, impl="threefry2x32"), (n,), jnp.float32)
        draw = np.asarray(draw, np.float64)
    return draw / np.linalg.norm(draw)


def _next_direction(w: Array, basis: Array) -> Array:
    """The part of w outside the span of the basis (its rows), as a unit vector; 0 when there is none.

    A vector that loses most of its length to the second pass was rounding noise from within the span.
    """
    once = unit(w - basis.T @ (basis @ w))
    twice = once - basis.T @ (basis @ once)
    return jnp.where(jnp.linalg.norm(twice) > 0.5, unit(twice), twice * 0)  # times 0 keeps a NaN


@functools.partial(jax.jit, static_argnames="rounds")
def _ritz_vectors(g: Array, first: Array, rounds: int) -> tuple[Array, Array]:
    """The singular vectors of g in the Krylov space of g'g from `first`, largest first, and g times them, as columns.

    Golub-Kahan-Lanczos, reorthogonalised against every earlier vector. The small problem is solved on g times
    the basis itself (Rayleigh-Ritz) rather than on the recurrence's bidiagonal matrix, so an iteration that
    has found all there is to find simply continues with zeros.
    """

    def grow(carry, j):
        basis, images, v = carry
        image = g @ v
        basis, images = basis.at[j].set(v), images.at[j].set(image)
        return (basis, images, _next_direction(image @ g, basis)), None

    zeros = jnp.zeros((rounds, g.shape[1]), g.dtype), jnp.zeros((rounds, g.shape[0]), g.dtype)
    (basis, images, _), _ = jax.lax.scan(grow, (*zeros, unit(first)), jnp.arange(rounds))
    weights = jnp.linalg.eigh(images @ images.T)[1][:, ::-1]
    return basis.T @ weights, images.T @ weights


class Pairs(NamedTuple):
    """Singular pairs of g, largest first, as columns of u and v: the first well known, the others roughly."""

    u: Array
    v: Array
    values: Array  # u' g v
    residual: Array  # of the first: |g' u - value v| / value, 0 for an exact pair


def start_vector(shape: tuple[int, ...], dtype: Any) -> Array:
    """A fixed pseudo-random unit vector on the shorter side."""
    return jnp.asarray(_random_unit(min(shape), 0), dtype)


def leading_pairs(g: Any, memory: Array, rounds: int) -> tuple[Pairs, Array]:
    """The leading singular pair of g from the vector of the last call, those that came with it, one for each round, and the
    vector for the next call.

    `memory` lies on the shorter side. A little of a fixed random direction is added to it: started exactly at a singular
    vector, the iteration would never leave it.
    """
    tall = g if g.shape[0] >= g.shape[1] else g.T
    first = jnp.asarray(memory, g.dtype) + RESTART * jnp.asarray(_random_unit(min(g.shape), 1), g.dtype)
    v, images = _ritz_vectors(tall, first, min(rounds, min(g.shape)))
    values = jnp.linalg.norm(images, axis=0)
    real = values > jnp.sqrt(jnp.finfo(g.dtype).eps) * values[0]  # the others are rounding
    u, v = images * jnp.where(real, 1 / jnp.where(real, values, 1), 0)[None, :], v * real[None, :]
    residual = jnp.linalg.norm(u[:, 0] @ tall - values[0] * v[:, 0]) / jnp.where(real[0], values[0], 1)
    memory = jnp.where(real[0], v[:, 0], memory)
    return (Pairs(u, v, values, residual) if tall is g else Pairs(v, u, values, residual)), memory
