"""The leading singular pairs of a matrix that can be multiplied with: an array, or a sum of a sparse and a thin one.

And what sets share whose linear minimisation is a search for the first of these pairs.
"""

import functools
from abc import abstractmethod
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tightrope._jaxlib import compiled
from tightrope.sets.capabilities import ConvexSet
from tightrope.tree import Array, Tree, nonzero

RESTART = 0.03  # weight of the fixed random direction in a warm start; more of it spoils short iterations; by hand


@functools.cache
def _random_unit(n: int, seed: int) -> np.ndarray:
    """A fixed direction, drawn at compile time: inside a loop drawing it would cost as much as a round."""
    with jax.ensure_compile_time_eval():
        draw = jax.random.normal(jax.random.key(seed, impl="threefry2x32"), (n,), jnp.float32)
        draw = np.asarray(draw, np.float64)
    return draw / np.linalg.norm(draw)


def _next_direction(w: Array, basis: Array) -> Array:
    """The part of w outside the span of the basis (its rows), as a unit vector; 0 when there is none.

    A vector that loses most of its length to the second pass, or all but rounding to both, was noise from within the span.
    """
    w = w / nonzero(jnp.max(jnp.abs(w)))  # no square vanishes or overflows

    def outside(_, so_far):
        return so_far[0] - basis.T @ (basis @ so_far[0]), _length(so_far[0])

    twice, once = jax.lax.fori_loop(0, 2, outside, (w, jnp.zeros((), w.dtype)))  # the second is known by its length
    length, noise = _length(twice), 16 * float(jnp.finfo(w.dtype).eps) * _length(w)
    return twice * jnp.where(
        length > jnp.maximum(0.5 * once, noise), 1 / nonzero(length), length * 0
    )  # which keeps a NaN  # pyright: ignore[reportReturnType]


def _length(w: Array) -> Array:
    """|w|, from a product: it compiles in a third of the time that a sum takes."""
    return jnp.sqrt(jnp.vdot(w, w))


class _Krylov(NamedTuple):
    """Singular vectors of g in a Krylov space, as columns, largest first: v, g v, and g'g v."""

    v: Array
    images: Array
    echoes: Array


@compiled(static_argnames="rounds")
def _ritz_vectors(g: Array, first: Array, rounds: int) -> _Krylov:
    """The singular vectors of g in the Krylov space of g'g that begins with `first`.

    Golub-Kahan-Lanczos, reorthogonalised against every earlier vector. The small problem is solved on g times
    the basis itself (Rayleigh-Ritz) rather than on the recurrence's bidiagonal matrix, so an iteration that
    has found all there is to find simply continues with zeros.
    """

    def grow(j, so_far):
        *found, echo = so_far
        v = _next_direction(echo, found[0])
        image = g @ v
        echo = image @ g
        new = v, image, echo
        return *(jax.lax.dynamic_update_index_in_dim(a, b, j, 0) for a, b in zip(found, new, strict=True)), echo

    zeros = (jnp.zeros((rounds, length), g.dtype) for length in (g.shape[1], g.shape[0], g.shape[1]))
    *found, _ = jax.lax.fori_loop(0, rounds, grow, (*zeros, first))
    weights = jnp.linalg.eigh(found[1] @ found[1].T)[1][:, ::-1]
    return _Krylov(*(part.T @ weights for part in found))


class Pairs(NamedTuple):
    """Singular pairs of g, largest first, as columns of u and v: the first well known, the others roughly."""

    u: Array
    v: Array
    values: Array  # u' g v


class Memory(NamedTuple):
    """What one search leaves for the next."""

    vector: Array  # the singular vector on the shorter side
    residual: Array  # |g' u - value v| / value, 0 where the pair is exact; 1 before the first search


def fresh_memory(shape: tuple[int, ...], dtype: Any) -> Memory:
    """A fixed pseudo-random unit vector on the shorter side."""
    return Memory(jnp.asarray(_random_unit(min(shape), 0), dtype), jnp.ones((), dtype))


def leading_pairs(g: Any, start: Array, rounds: int) -> tuple[Pairs, Memory]:
    """As many singular pairs of g as there are rounds, of which the first is well known; and the memory for the next search.

    `start` is a vector on the shorter side, such as that of the last search. A little of a fixed random direction is added
    to it: started exactly at a singular vector, the iteration would never leave it.
    """
    tall = g if g.shape[0] >= g.shape[1] else g.T
    first = jnp.asarray(start, g.dtype) + RESTART * jnp.asarray(_random_unit(min(g.shape), 1), g.dtype)
    v, images, echoes = _ritz_vectors(tall, first, min(rounds, min(g.shape)))
    values = jnp.sqrt(jnp.diagonal(images.T @ images))
    real = values > jnp.sqrt(jnp.finfo(g.dtype).eps) * values[0]  # the others are rounding
    u, v = images * jnp.where(real, 1 / jnp.where(real, values, 1), 0)[None, :], v * real[None, :]  # pyright: ignore[reportOperatorIssue]
    square = nonzero(values[0]) ** 2
    residual = _length(echoes[:, 0] / square - v[:, 0])
    memory = Memory(jnp.where(real[0], v[:, 0], start), residual)  # pyright: ignore[reportArgumentType]
    return (Pairs(u, v, values) if tall is g else Pairs(v, u, values)), memory


def norm_bound(g: Any, pairs: Pairs, energy: Array) -> Array:
    """An upper bound on the largest singular value of g, from what a search found and the sum of the squared entries.

    The largest Ritz value s is never above it, and that s is near to some singular value does not say to which: the search
    may have missed the first. In bases that begin with those of the search, g is the blocks [[A, B], [0, C]] with |A| = s.
    B is known from one product with g', and of C what the energy leaves: |g| is at most the norm of the 2 x 2 matrix of
    the blocks' norms. It is s where the search found all there is, and never above the Frobenius norm.
    """
    eps = float(jnp.finfo(g.dtype).eps)
    values = jnp.where(jnp.any(pairs.u != 0, axis=0), pairs.values, 0)
    beside = jnp.sum((g.T @ pairs.u - pairs.v * values[None, :]) ** 2)
    left = jnp.maximum(energy - jnp.sum(values**2) - beside, 0) + 64 * eps * energy
    first = values[0] ** 2
    total = first + beside + left
    largest = (total + jnp.sqrt(jnp.maximum(total**2 - 4 * first * left, 0))) / 2
    frobenius = jnp.sqrt(energy)
    return jnp.minimum(jnp.sqrt(largest), frobenius) + 32 * eps * frobenius


class RemembersPair(ConvexSet):
    """A set of matrices whose linear minimisation looks for a singular pair, starting from the last one it found."""

    @abstractmethod
    def _size(self) -> tuple[int, ...]:
        """Rows and columns of a matrix in the set."""

    def lmo(self, g: Any) -> Tree:
        """-radius u v', where u, v is the leading singular pair of g as found from a fixed start; 0 for g = 0."""
        return self.warm_lmo(g, self.lmo_memory(g.dtype))[0]

    def lmo_memory(self, dtype: Any = None) -> Memory:
        """A fixed pseudo-random unit vector on the shorter side."""
        return fresh_memory(self._size(), dtype or jnp.result_type(float))

    def lmo_record(self, memory: Memory) -> dict[str, Array]:
        """How well the last singular pair was known."""
        return {"lmo residual": memory.residual}
