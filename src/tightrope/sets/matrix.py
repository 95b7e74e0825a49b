"""Sets of matrices: the nuclear-norm ball, whose LMO is a Lanczos iteration, and the spectraplex."""

import math
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np

from tightrope._errors import whole_number
from tightrope.sets import conic
from tightrope.sets.ball import Ball, BallAround, Radial, project_l1, project_simplex, unit
from tightrope.sets.base import Shape, as_shape, rounding
from tightrope.sets.lanczos import Memory, RemembersPair, leading_pairs
from tightrope.sets.low_rank import LowRank, corrective_step, from_pairs
from tightrope.tree import Array, nonzero, pytree, set_field, static


def _matrix_shape(owner: str, shape: Any) -> Shape:
    known = as_shape(shape)
    if known is None or len(known.leaves) != 1 or len(known.leaves[0]) != 2:
        raise ValueError(f"{owner}: shape is {shape!r}; expected that of one matrix, e.g. shape=(200, 300).")
    return known


@pytree
class NuclearBall(RemembersPair, Ball):
    """Nuclear-norm ball: all matrices X whose singular values sum to at most radius.

    The LMO returns -radius u v', where u, v is the leading singular pair of g up to the error of a fixed
    number of Lanczos rounds; a round is one product with g and one with its transpose. A caller that keeps
    the memory (`lmo_memory`, `warm_lmo`) starts from the last answer; the memory is the singular vector on
    the shorter side of the matrix.

    Measured on 200 x 300 matrices from a cold start (Gaussian, sparse, rank five plus noise and four prescribed
    spectra, clustered and spread; ten draws each, float32 and float64), the fraction of the support value that
    went missing was with 10, 20 and 30 rounds at most 3.1, 0.44 and 0.50 %, and on average over the draws of the
    hardest kind 0.80, 0.15 and 0.07 %.

    Args:
        radius: the largest sum of singular values.
        shape: rows and columns of a point.
        rounds: Lanczos rounds of an LMO. With min(rows, columns) or more it is exact up to rounding.

    Example:
        >>> import jax.numpy as jnp
        >>> from tightrope.sets import NuclearBall
        >>> vertex = NuclearBall(2.0, shape=(2, 3)).lmo(jnp.array([[0.0, 3.0, 0.0], [1.0, 0.0, 0.0]]))
        >>> [[round(v) for v in row] for row in vertex.tolist()]
        [[0, -2, 0], [0, 0, 0]]

    References:
        Golub and Kahan, Calculating the singular values and pseudo-inverse of a matrix (1965).
        Kuczynski and Wozniakowski, Estimating the largest eigenvalue by the power and Lanczos algorithms
        with a random start (1992).
    """

    radius: Any
    shape: Any = static()
    rounds: int = static(default=20)

    cheap_projection = (
        False  # it takes a singular value decomposition, some twenty times the cost of an LMO at 200 x 300
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        set_field(self, "shape", _matrix_shape(self.name, self.shape))
        set_field(self, "rounds", whole_number(self.name, "rounds", self.rounds))

    def _size(self) -> tuple[int, ...]:
        return self._shape().leaves[0]

    def gauge(self, x: Array) -> Array:
        """The sum of singular values."""
        return jnp.sum(jnp.linalg.svd(x, compute_uv=False))

    def project(self, x: Array) -> Array:
        """The matrix whose singular values are projected onto the l1 ball; a full decomposition, which the LMO avoids."""
        u, s, vt = jnp.linalg.svd(x, full_matrices=False)
        return (u * project_l1(s, self.radius)[None, :]) @ vt

    def conic(self, x: Array) -> conic.Conic:
        """One semidefinite matrix, of which a point is a corner."""
        n = self._shape().size
        return conic.nuclear_ball(float(self.radius), *self._size()) if self.radius > 0 else conic.point(np.zeros(n))

    def warm_lmo(self, g: Array, memory: Memory) -> tuple[Array, Memory]:
        """`lmo(g)` from the last singular vector, plus a little of a fixed random one against sticking."""
        pairs, memory = leading_pairs(g / nonzero(jnp.max(jnp.abs(g))), memory.vector, self.rounds)
        return -jnp.asarray(self.radius, g.dtype) * (pairs.u[:, :1] * pairs.v[:, :1].T), memory

    def corrective(self, x: Array, s: Array, g: Array, line: Callable[[Array], Array]) -> Array:
        """The step of `LowRankBall`, which keeps x decomposed; here x is decomposed first, so it is for small matrices."""
        u, values, vt = jnp.linalg.svd(x, full_matrices=False)
        known = from_pairs(u, values, vt.T)
        tall = s if s.shape[0] >= s.shape[1] else s.T
        pairs, _ = leading_pairs(g, unit(tall[jnp.argmax(jnp.sum(tall * tall, axis=1))]), self.rounds)
        vertex = LowRank(pairs.u, jnp.zeros((pairs.values.size,) * 2, x.dtype), pairs.v)  # its bases are what counts
        step = corrective_step(known, vertex, g, lambda d: line(d.dense()), self.radius, min(self._size()))
        return step.dense()

    def support(self, g: Array) -> Array:
        """The radius times the largest singular value, exactly; dearer than an LMO, for certificates."""
        return jnp.asarray(self.radius, g.dtype) * jnp.linalg.svd(g, compute_uv=False)[0]


def _symmetric(x: Array) -> Array:
    return (x + x.T) / 2


def _without_trace(x: Array) -> Array:
    """The symmetric part of x, less the multiple of the identity with the same trace."""
    return _symmetric(x) - jnp.trace(x) / len(x) * jnp.eye(len(x), dtype=x.dtype)


@pytree
class Spectraplex(Radial):
    """Spectraplex: all symmetric positive semidefinite X with trace X = radius.

    Args:
        radius: the trace; 1 for density matrices.
        shape: (n, n), or n for short.

    Example:
        >>> import jax.numpy as jnp
        >>> from tightrope.sets import Spectraplex
        >>> Spectraplex(shape=2).project(jnp.array([[3.0, 0.0], [0.0, 0.0]])).tolist()
        [[1.0, 0.0], [0.0, 0.0]]
    """

    radius: Any = 1.0
    shape: Any = static(default=None)

    def __post_init__(self) -> None:
        if isinstance(self.shape, int | np.integer):
            set_field(self, "shape", (self.shape, self.shape))
        super().__post_init__()
        rows, columns = _matrix_shape(self.name, self.shape).leaves[0]
        if rows != columns:
            raise ValueError(f"Spectraplex: shape is {self.shape}; expected a square, e.g. shape=5.")

    @property
    def _side(self) -> int:
        return self._shape().leaves[0][0]

    @property
    def diameter(self) -> Any:
        """The distance of two orthogonal points of rank one; 0 for 1 x 1 matrices, where the spectraplex is a point."""
        return 0.0 * self.radius if self._side == 1 else math.sqrt(2) * self.radius

    def contains(self, x: Array, tol: float | None = None) -> Array:
        """Whether x is symmetric, semidefinite and of the right trace, up to tol times the radius."""
        slack = rounding(x, tol) * self.radius
        symmetric = jnp.max(jnp.abs(x - x.T)) <= slack
        nonnegative = jnp.min(jnp.linalg.eigvalsh(_symmetric(x))) >= -slack
        return symmetric & nonnegative & (jnp.abs(jnp.trace(x) - self.radius) <= slack)

    def start(self, dtype: Any = None) -> Array:
        """The centre, a multiple of the identity."""
        eye = jnp.eye(self._side, dtype=dtype or jnp.result_type(float))
        return jnp.asarray(self.radius, eye.dtype) / self._side * eye

    def project(self, x: Array) -> Array:
        """The matrix whose eigenvalues are those of the symmetric part of x, projected onto the simplex."""
        values, vectors = jnp.linalg.eigh(_symmetric(x))
        return _symmetric((vectors * project_simplex(values, self.radius)[None, :]) @ vectors.T)

    def enclosing(self) -> BallAround:
        """The smallest ball, around the centre and among symmetric matrices of the same trace."""
        return BallAround(self.start(), self.radius * math.sqrt(1 - 1 / self._side), along=_without_trace)

    def conic(self, x: Array) -> conic.Conic:
        """A trace, a triangle that equals the other, and a semidefinite matrix."""
        radius, side = float(self.radius), self._side
        return conic.spectraplex(radius, side) if radius > 0 and side > 1 else conic.point(np.full(side * side, radius))

    def lmo(self, g: Array) -> Array:
        """radius q q' for an eigenvector q of the smallest eigenvalue."""
        values, vectors = jnp.linalg.eigh(_symmetric(g))
        q = jnp.where(jnp.isnan(values[0]), values[0], vectors[:, 0])  # NaN in, NaN out
        return jnp.asarray(self.radius, g.dtype) * (q[:, None] * q[None, :])
