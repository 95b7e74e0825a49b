"""Matrices held as a product of thin ones, and the nuclear-norm ball made of them: no array is ever rows x columns."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.lax.linalg import SvdAlgorithm, svd

from tightrope._errors import whole_number
from tightrope.sets.ball import Ball
from tightrope.sets.base import Shape
from tightrope.sets.lanczos import Memory, RemembersPair, leading_pairs, norm_bound
from tightrope.tree import Array, pytree, set_field, static

_NARROWEST = 16  # columns; for fewer a smaller step saves less than compiling it costs; by hand


@pytree
class LowRank:
    """The matrix u core v', with orthonormal columns in u and in v, or zero ones where the rank is not used up.

    Example:
        >>> import jax.numpy as jnp
        >>> LowRank(jnp.array([[1.0], [0.0]]), jnp.array([[2.0]]), jnp.array([[0.0], [1.0]])).dense().tolist()
        [[0.0, 2.0], [0.0, 0.0]]
    """

    u: Array  # rows x rank
    core: Array  # rank x rank
    v: Array  # columns x rank

    @property
    def shape(self) -> tuple[int, int]:
        """How many rows and columns the matrix has."""
        return self.u.shape[0], self.v.shape[0]

    @property
    def dtype(self) -> Any:
        """The dtype of the factors."""
        return self.core.dtype

    @property
    def T(self) -> "LowRank":
        """The transpose v core' u'."""
        return LowRank(self.v, self.core.T, self.u)

    def __matmul__(self, w: Array) -> Array:
        return self.u @ (self.core @ (self.v.T @ w))

    def __rmatmul__(self, w: Array) -> Array:
        return ((w @ self.u) @ self.core) @ self.v.T

    def __mul__(self, a: Any) -> "LowRank":
        return LowRank(self.u, a * self.core, self.v)

    def at(self, rows: Array, columns: Array) -> Array:
        """The entries of the matrix at these places, one for each pair of a row and a column."""
        return jnp.sum((self.u @ self.core)[rows] * self.v[columns], axis=-1)

    def energy(self) -> Array:
        """The sum of the squared entries of the matrix."""
        return jnp.vdot(self.core, self.core)

    def singular_values(self) -> Array:
        """The singular values of the matrix, the largest first; as many as the rank, so that some may be 0."""
        return jnp.linalg.svd(self.core, compute_uv=False)

    def dense(self) -> Array:
        """The matrix as one array of rows x columns; only for small ones."""
        return (self.u @ self.core) @ self.v.T


def from_pairs(u: Array, values: Array, v: Array) -> LowRank:
    """The matrix of these singular pairs, the largest first, with zeros in the columns of both bases whose singular value
    is 0 up to rounding."""
    real = values > 8 * len(values) * jnp.finfo(values.dtype).eps * values[0]
    return LowRank(u * real[None, :], jnp.diag(jnp.where(real, values, 0)), v * real[None, :])  # pyright: ignore[reportArgumentType]


def _added(basis: Array, w: Array) -> Array:
    """Orthonormal columns for what the columns of w add to the basis; zero ones where they add nothing but rounding.

    By the eigenvectors of the Gram matrix and not by QR: for a column that adds nothing QR makes one up. Lengths are read
    off the Gram matrices as well: a product of matrices compiles in a quarter of the time that a sum takes.
    """
    small = jnp.sqrt(jnp.finfo(w.dtype).eps)

    def once(_, w):
        left = w - basis @ (basis.T @ w)
        gram, before = left.T @ left, w.T @ w
        size = jnp.sqrt(jnp.diagonal(gram))
        scale = _inverse(size, size > small * jnp.sqrt(jnp.diagonal(before)))
        values, vectors = jnp.linalg.eigh(scale[:, None] * gram * scale[None, :])
        lengths = jnp.sqrt(jnp.maximum(values, 0))
        return left @ (scale[:, None] * vectors * _inverse(lengths, values > small * values[-1])[None, :])

    return jax.lax.fori_loop(0, 2, once, w)  # the second round makes up for what the first lost to rounding


def _inverse(sizes: Array, real: Array) -> Array:
    """1 / sizes where they are real, and 0 elsewhere."""
    return jnp.where(real, 1 / jnp.where(real, sizes, 1), 0)  # pyright: ignore[reportReturnType, reportOperatorIssue]


def expand(x: LowRank, u: Array, v: Array) -> LowRank:
    """The same matrix on bases that have the columns of u and of v in their spans, too."""
    left, right = (jnp.column_stack([basis, _added(basis, w)]) for basis, w in ((x.u, u), (x.v, v)))
    return LowRank(left, jnp.pad(x.core, ((0, u.shape[1]), (0, v.shape[1]))), right)


def _sum(x: LowRank, y: LowRank) -> LowRank:
    """x + y, on bases for both."""
    left, p = jnp.linalg.qr(jnp.column_stack([x.u, y.u]))
    right, q = jnp.linalg.qr(jnp.column_stack([x.v, y.v]))
    return LowRank(left, p @ jax.scipy.linalg.block_diag(x.core, y.core) @ q.T, right)


# ---- corrective steps ------------------------------------------------------------------------------------------------


def corrective_step(
    x: LowRank, s: LowRank, g: Any, line: Callable[[LowRank], Array], radius: Any, rank: int
) -> LowRank:
    """A projected gradient step on all matrices with the row and column spaces of x, of s, and of g seen from them.

    On orthonormal bases that is a step on a small core, which has a nuclear-norm ball of its own. The bases of the vertex s
    bring what is new. g v and g' u let the spaces of x turn; without them a rank that is used up freezes them. Columns of x
    that are not in use yet cost little in products with g; where the rank is large a smaller core is decomposed as well.
    """

    def with_columns(width: int) -> Callable[[LowRank], LowRank]:
        return lambda x: _pad(_correct(_head(x, width), s, g, line, radius, rank), rank)

    widths = [w for w in (rank // 4,) if w >= _NARROWEST] + [rank]
    used = jnp.any(x.core != 0, axis=0) | jnp.any(x.core != 0, axis=1)
    count = jnp.max(jnp.where(used, 1 + jnp.arange(rank), 0))
    which = sum((count > w).astype(jnp.int32) for w in widths[:-1])
    return jax.lax.switch(which, [with_columns(w) for w in widths], x)


def _correct(x: LowRank, s: LowRank, g: Any, line: Callable[[LowRank], Array], radius: Any, rank: int) -> LowRank:
    """Twice the same, so that it is compiled once: go along a direction as far as the line says, and project. The first
    direction is downhill, the second leads from x to the point found there, but not beyond it."""
    right, left = g @ x.v, g.T @ x.u
    wide = expand(x, jnp.column_stack([s.u, right]), jnp.column_stack([s.v, left]))
    u, core, v = wide.u, wide.core, wide.v
    slope = u.T @ jnp.column_stack([right, g @ v[:, x.core.shape[0] :]])

    def go(i, so_far):
        direction, *_ = so_far
        far = line(LowRank(u, direction, v))
        p, values, qt = decomposed(core + jnp.where(i == 0, far, jnp.clip(far, 0, 1)) * direction)
        values = _within(jnp.where(jnp.arange(len(values)) < rank, values, 0), radius)
        return (p * values[None, :]) @ qt - core, p, values, qt

    nowhere = jnp.zeros_like(core)
    _, p, values, qt = jax.lax.fori_loop(0, 2, go, (-slope, nowhere, nowhere[0], nowhere))
    return from_pairs(u @ p[:, :rank], values[:rank], v @ qt[:rank].T)


def _within(values: Array, radius: Any) -> Array:
    """The nearest nonnegative numbers that sum to at most the radius, of numbers >= 0 that are sorted, the largest first.

    All are lowered by the same amount, or to 0: by the largest excess that the first k of them share, for any k.
    """
    count = jnp.arange(1, 1 + len(values), dtype=values.dtype)
    excess = (jnp.tri(len(values), dtype=values.dtype) @ values - radius) / count
    return jnp.maximum(values - jnp.maximum(jnp.max(excess), 0), 0)


def _head(x: LowRank, width: int) -> LowRank:
    return LowRank(x.u[:, :width], x.core[:width, :width], x.v[:, :width])


def _pad(x: LowRank, rank: int) -> LowRank:
    """x with columns of zeros up to this rank."""
    more = rank - x.core.shape[0]
    return LowRank(*(jnp.pad(part, ((0, below), (0, more))) for part, below in ((x.u, 0), (x.core, more), (x.v, 0))))


def decomposed(core: Array) -> tuple[Array, Array, Array]:
    """The singular value decomposition of a small square matrix.

    LAPACK's divide and conquer, which is fast, does not converge on rare matrices that are finite and harmless. QR
    iteration, several times slower, then does.
    """
    fast = jnp.linalg.svd(core)
    failed = jnp.isnan(fast[1][0]) & jnp.all(jnp.isfinite(core))
    return jax.lax.cond(
        failed, lambda: tuple(svd(core, algorithm=SvdAlgorithm.QR)), lambda: (fast[0], fast[1], fast[2])
    )


def compress(x: LowRank, rank: int) -> LowRank:
    """The nearest matrix of this rank, its core diagonal: a decomposition of the small core alone."""
    p, values, qt = decomposed(x.core)
    return from_pairs(x.u @ p[:, :rank], values[:rank], x.v @ qt[:rank].T)


@pytree
class LowRankBall(RemembersPair, Ball):
    """The nuclear-norm ball, restricted to matrices of at most some rank that are held factored.

    Its linear minimisation takes anything that can be multiplied with vectors from both sides (`@`), so a
    gradient may be a sum of a sparse and a thin matrix. Memory is rank x (rows + columns).

    Args:
        radius: the largest sum of singular values.
        size: rows and columns.
        rank: the largest rank that is kept; what exceeds it is cut off after every step.
        rounds: Lanczos rounds of a linear minimisation, started from the last answer.
    """

    radius: Any
    size: tuple[int, int] = static()
    rank: int = static(default=32)
    rounds: int = static(default=10)
    shape: Any = dataclasses.field(init=False, metadata={"static": True})  # of the factors

    additive = False  # the mean of two matrices does not have the means of their factors

    def __post_init__(self) -> None:
        super().__post_init__()
        set_field(self, "rank", min(whole_number(self.name, "rank", self.rank), *self.size))
        set_field(self, "rounds", whole_number(self.name, "rounds", self.rounds))
        (m, n), r = self.size, self.rank
        set_field(self, "shape", Shape(LowRank((m, r), (r, r), (n, r))))  # pyright: ignore[reportArgumentType]

    def _size(self) -> tuple[int, ...]:
        return self.size

    def gauge(self, x: LowRank) -> Array:
        """The sum of singular values."""
        return jnp.sum(x.singular_values())

    def warm_lmo(self, g: Any, memory: Memory) -> tuple[LowRank, Memory]:
        """`lmo(g)` from the last singular vector.

        The bases of the vertex hold the other singular pairs that the search came upon, too. Its core gives them no weight,
        and a corrective step finds in them what it would have to search for later.
        """
        pairs, memory = leading_pairs(g, memory.vector, self.rounds)
        core = jnp.zeros((pairs.values.size,) * 2, g.dtype).at[0, 0].set(-jnp.asarray(self.radius, g.dtype))
        return LowRank(pairs.u, core, pairs.v), memory

    def corrective(self, x: LowRank, s: LowRank, g: Any, line: Callable[[LowRank], Array]) -> LowRank:
        """A projected gradient step on the spaces of x, of s, and of g seen from x; cut to the rank."""
        return corrective_step(x, s, g, line, self.radius, self.rank)

    def between(self, x: LowRank, s: LowRank) -> LowRank:
        """The direction s - x."""
        return _sum(x * -1, s)

    def mix(self, x: LowRank, s: LowRank, a: Any) -> LowRank:
        """(1 - a) x + a s, cut to the rank."""
        return compress(_sum(x * (1 - a), s * a), self.rank)

    def support(self, g: Any) -> Array:
        """The radius times an upper bound on the largest singular value: tight where the search finds most of g, and never
        more than the Frobenius norm, for which g is an array or has `energy()`, the sum of its squared entries."""
        pairs, _ = leading_pairs(g, self.lmo_memory(g.dtype).vector, self.rounds)
        energy = jnp.sum(g**2) if isinstance(g, jax.Array) else g.energy()
        return jnp.asarray(self.radius, g.dtype) * norm_bound(g, pairs, energy)
