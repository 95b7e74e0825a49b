"""Ready-made constraints on functions of means: a variance, an entropic risk, a ratio of means, a conditional mean.

Each knows what is averaged inside (`inner`) and what is made of it; `Problem(..., levels=...)` says at most what. They may
be stacked with each other and with plain constraints.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp

from tightrope._errors import coefficient
from tightrope.tree import Array, Tree, float_dtype, nonzero

Loss = Callable[..., Any]


def variance_at_most(loss: Loss) -> Loss:
    """Var loss(x, .) <= levels: E (loss - u)^2 with u = E loss(x, .).

    Convex where the loss is affine in x, as the return of a portfolio is. A batch's own variance is too small by a
    factor of 1 - 1/b, so that a bound kept batch by batch is not kept.

    Args:
        loss: loss(x, theta), a number or a vector of them; with `params` a third argument.

    Example:
        >>> import numpy as np, tightrope as tr
        >>> theta = np.random.default_rng(0).normal([0.1, 0.3], [0.5, 2.0], size=(500, 2))
        >>> gain = lambda x, theta: theta.dot(x)
        >>> problem = tr.Problem(
        ...     lambda x, theta: -gain(x, theta), tr.variance_at_most(gain), tr.Simplex(shape=2), levels=0.5
        ... )
        >>> shares = tr.minimize(problem, theta).x
        >>> bool(np.var(theta @ np.asarray(shares)) <= 0.5)
        True
    """
    return _Variance(loss)


def entropic_risk_at_most(loss: Loss, sharpness: float) -> Loss:
    """(1/a) log E exp(a loss(x, .)) <= levels, with a = `sharpness` > 0 in units of one over the loss.

    Convex where the loss is. Between the mean (a to 0) and the worst case (a to infinity); also the largest mean of the loss
    under distributions Q, less KL(Q | P)/a: a robust expectation. Where a times the loss is large, exp needs many samples:
    the few largest decide.

    Args:
        loss: loss(x, theta), a number or a vector of them; with `params` a third argument.
        sharpness: a.

    Example:
        >>> import tightrope as tr
        >>> problem = tr.Problem(
        ...     lambda x, theta: x.dot(x),
        ...     tr.entropic_risk_at_most(lambda x, theta: -theta.dot(x), sharpness=2.0),
        ...     tr.L2Ball(1.0, shape=3),
        ...     levels=-0.1,
        ... )
        >>> problem.nested
        True
    """
    return _EntropicRisk(loss, float(coefficient("entropic_risk_at_most", "sharpness", sharpness, above=0)))


def ratio_at_most(numerator: Loss, denominator: Loss) -> Loss:
    """E numerator(x, .) / E denominator(x, .) <= levels, where the denominator's mean is positive.

    Convex where the numerator is convex in x and the denominator depends on theta alone: a weighted mean whose weights have
    a mean that nobody knows. Where the denominator depends on x, the ratio is not convex, and E (numerator - r denominator)
    <= 0 says the same in a plain expectation: use that.

    Args:
        numerator: a function of (x, theta), a number or a vector of them; with `params` a third argument.
        denominator: likewise, as many numbers.

    Example:
        >>> import tightrope as tr
        >>> claims = tr.ratio_at_most(lambda x, theta: theta[0] * x[0] ** 2, lambda x, theta: theta[1])
        >>> tr.Problem(lambda x, theta: -x[0], claims, tr.Box(0.0, 1.0, shape=1), levels=0.7).nested
        True
    """
    return _Ratio(numerator, denominator)


def conditional_mean_at_most(loss: Loss, given: Loss) -> Loss:
    """E[loss(x, .) | given] <= levels: the mean of the loss where `given` holds, however often that is.

    E (loss 1_given) / E 1_given, convex where the loss is and `given` depends on theta alone. Where the condition never
    holds, the mean counts as 0.

    Args:
        loss: loss(x, theta), a number or a vector of them; with `params` a third argument.
        given: a condition on (x, theta), true or false, or a weight between.

    Example:
        >>> import numpy as np, tightrope as tr
        >>> rng = np.random.default_rng(0)
        >>> rows = {"a": rng.normal(size=(300, 2)), "y": rng.integers(0, 2, 300)}
        >>> false_alarms = tr.conditional_mean_at_most(
        ...     lambda x, theta: np.e ** theta["a"].dot(x), given=lambda x, theta: theta["y"] == 0
        ... )
        >>> problem = tr.Problem(lambda x, theta: -x[0], false_alarms, tr.L2Ball(1.0, shape=2), levels=1.2)
        >>> x = np.asarray(tr.minimize(problem, rows).x)
        >>> bool(np.exp(rows["a"] @ x)[rows["y"] == 0].mean() <= 1.2)
        True
    """
    return _Ratio(_Where(loss, given), given)


# ---- what they are: `inner` is averaged, and a call sees its mean --------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class _Variance:
    loss: Loss

    def inner(self, x: Tree, theta: Tree, *params: Any) -> Array:
        return _numbers(self.loss, x, theta, params)

    def __call__(self, x: Tree, theta: Tree, *params: Any, inner: Array) -> Array:
        return (_numbers(self.loss, x, theta, params) - inner) ** 2


@dataclasses.dataclass(frozen=True)
class _EntropicRisk:
    loss: Loss
    sharpness: float

    def inner(self, x: Tree, theta: Tree, *params: Any) -> Array:
        """(exp(a loss) - 1)/a, which has the size of the loss and loses no digits where a is small."""
        return jnp.expm1(self.sharpness * _numbers(self.loss, x, theta, params)) / self.sharpness

    def __call__(self, x: Tree, theta: Tree, *params: Any, inner: Array) -> Array:
        return jnp.log1p(self.sharpness * inner) / self.sharpness


@dataclasses.dataclass(frozen=True)
class _Ratio:
    numerator: Loss
    denominator: Loss

    def inner(self, x: Tree, theta: Tree, *params: Any) -> tuple[Array, Array]:
        return _numbers(self.numerator, x, theta, params), _numbers(self.denominator, x, theta, params)

    def __call__(self, x: Tree, theta: Tree, *params: Any, inner: tuple[Array, Array]) -> Array:
        above, below = inner
        return above / nonzero(below)  # a stream may begin with samples that weigh nothing


@dataclasses.dataclass(frozen=True)
class _Where:
    loss: Loss
    given: Loss

    def __call__(self, x: Tree, theta: Tree, *params: Any) -> Array:
        loss, given = (_numbers(fn, x, theta, params) for fn in (self.loss, self.given))
        return jnp.where(given == 0, 0, given * jnp.where(given == 0, 0, loss))  # a loss need not be finite elsewhere


def _numbers(fn: Loss, x: Tree, theta: Tree, params: tuple[Any, ...]) -> Array:
    return jnp.atleast_1d(jnp.asarray(fn(x, theta, *params), float_dtype(x)))
