"""The logistic loss, with derivatives that share its one exponential and a logarithm that is a polynomial.

`jnp.logaddexp` and `jax.nn.softplus` take three exponentials where a gradient is wanted, and a logarithm that costs five
times as much as one: together more than half of a pass over rows of few numbers. Written in `jax.lax`, because functions of
`jax.numpy` take longer to trace.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from tightrope.tree import Array

# (artanh(s) / s - 1) / s^2 as a polynomial in s^2 up to 1/9, highest power first, derived by mpmath.chebyfit: log1p is off
# by 5e-18 of itself, a fortieth of what float64 rounds.
_ARTANH = (
    0.0808202280597176611, 0.0440036924307233694, 0.0600053640479535627, 0.0665707210482746808, 0.0769278503247931155,
    0.0909089471806642908, 0.111111113587139315, 0.142857142835543786, 0.200000000000072913, 0.333333333333333293,
)  # fmt: skip


@jax.custom_jvp
def logistic_loss(margin: Any) -> Array:
    """log(1 + exp(-margin)), without overflow: the loss of a margin, label (-1 or +1) times score.

    Example:
        >>> import jax, tightrope as tr
        >>> round(float(tr.logistic_loss(0.0)), 4), float(jax.grad(tr.logistic_loss)(-1000.0))
        (0.6931, -1.0)
    """
    margin = jnp.asarray(margin)
    return _log1p(lax.exp(-lax.abs(margin))) + lax.max(-margin, lax.full_like(margin, 0))


@logistic_loss.defjvp
def _(points: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    return logistic_loss(*points), -_other_side(*points) * tangents[0]


def _log1p(u: Array) -> Array:
    """log(1 + u) for u between 0 and 1, where it is 2 artanh(s) with s = u / (2 + u)."""
    half, one, factor, *others = np.asarray((0.5, 1.0, *_ARTANH), u.dtype)
    twice = lax.div(u, lax.add(one, lax.mul(half, u)))
    s = lax.mul(half, twice)
    square = lax.mul(s, s)
    for other in others:
        factor = lax.add(lax.mul(factor, square), other)
    return lax.add(twice, lax.mul(twice, lax.mul(square, factor)))


@jax.custom_jvp
def _other_side(margin: Array) -> Array:
    """1 / (1 + exp(margin)): how likely the other label is. A derivative of its own, because that of |margin| is not
    there at 0."""
    small, one = lax.exp(-lax.abs(margin)), lax.full_like(margin, 1)
    return lax.select(margin > 0, small, one) / (one + small)


@_other_side.defjvp
def _(points: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    (margin,) = points
    chance = _other_side(margin)
    return chance, -chance * _other_side(-margin) * tangents[0]
