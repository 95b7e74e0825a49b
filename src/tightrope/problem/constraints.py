"""Ready-made shapes of constraints: two-sided, equality, several stacked, and a penalty in the place of them."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tightrope._errors import numbers
from tightrope.problem.problem import Problem
from tightrope.tree import Array


def two_sided(q: Callable[..., Any]) -> Callable[..., Any]:
    """-levels <= E q(x, theta) <= levels, as the pair (q, -q).

    The two sides sum to -2 levels: a tightening upsilon >= levels has no feasible point, both multipliers then grow
    together and the method solves E q = 0 instead, whatever upsilon is. `minimize` knows this and refuses.

    Args:
        q: q(x, theta), a scalar or a vector.

    Example:
        >>> import tightrope as tr
        >>> covariance = tr.two_sided(lambda x, theta: theta[0] * theta[1:].dot(x))
        >>> problem = tr.Problem(lambda x, theta: x.dot(x), covariance, tr.L2Ball(1.0, shape=3), levels=0.05)
    """
    return _TwoSided(q)


def equality(q: Callable[..., Any]) -> Callable[..., Any]:
    """E q(x, theta) = 0 within a tolerance, which is `Problem(..., levels=tolerance)` and must be positive.

    An exact equality has no strictly feasible point, so no method here can promise zero violation of it; a tolerance
    makes the promise possible.

    Example:
        >>> import jax.numpy as jnp, tightrope as tr
        >>> balance = tr.equality(lambda x, theta: (x - theta)[:1])
        >>> balance(jnp.array([3.0, 0.0]), jnp.ones(2)).tolist()  # with levels=0.1: within 0.1 from both sides
        [2.0, -2.0]
    """
    return _TwoSided(q, tolerance=True)


def stack(*constraints: Callable[..., Any]) -> Callable[..., Any]:
    """Several constraint functions as one; `levels` then lists their levels one after the other.

    Among them may be functions of means such as `tr.variance_at_most`, each of which then sees its own.

    Example:
        >>> import jax.numpy as jnp, tightrope as tr
        >>> both = tr.stack(lambda x, theta: x[:1], lambda x, theta: jnp.stack([jnp.dot(x, theta)]))
        >>> both(jnp.array([3.0, 0.0]), jnp.ones(2)).tolist()
        [3.0, 3.0]
    """
    return _NestedStack(constraints) if any(hasattr(part, "inner") for part in constraints) else _Stacked(constraints)


def penalised(problem: Problem, weights: float | np.ndarray) -> Problem:
    """The problem without constraints whose objective is f + <weights, h - levels>.

    For methods that know no constraints. The penalty is linear on purpose: a sample of it is unbiased, whereas a sample of
    [h]_+ or of h^2 is not a sample of [E h]_+ or of (E h)^2. With the optimal multipliers as weights, a solution of the
    constrained problem minimises it; smaller weights give a point that violates the constraints, larger ones a timid one.

    Args:
        problem: a problem with constraints.
        weights: one number for all constraints, or one for each; at least 0.

    Example:
        >>> import tightrope as tr
        >>> from tightrope.problems import EXACT
        >>> solved = EXACT["simplex"]()
        >>> tr.penalised(solved.problem, solved.dual).constraints is None
        True
    """
    given = numbers("penalised", "weights", weights, "expected numbers >= 0, one or one per constraint.")
    if given.ndim > 1 or not np.all(np.isfinite(given)) or np.any(given < 0):
        raise ValueError(f"penalised: weights is {weights!r}; expected numbers >= 0, one or one per constraint.")
    return problem._penalised(given)  # pyright: ignore[reportPrivateUsage]


@dataclasses.dataclass(frozen=True)
class _TwoSided:
    q: Callable[..., Any]
    tolerance: bool = False

    def __call__(self, x, theta, *params) -> Array:
        value = jnp.atleast_1d(self.q(x, theta, *params))
        return jnp.concatenate([value, -value])

    def tightening_ceiling(self, levels: np.ndarray, x, theta, *params) -> float:
        n = jax.eval_shape(self, x, theta, *params).shape[0] // 2
        upper, lower = np.split(np.broadcast_to(levels, (*levels.shape[:-1], 2 * n)), 2, axis=-1)
        room = np.min((upper + lower) / 2, axis=-1)
        if np.any(room <= 0):
            what = "an equality needs a tolerance" if self.tolerance else "a two-sided constraint needs room"
            none = levels if np.ndim(room) == 0 else levels[np.argmin(room)]
            raise ValueError(
                f"Problem: {what}, but levels is {none.tolist()}, which leaves no strictly feasible point. "
                "Give a positive level."
            )
        return float(np.min(room))


@dataclasses.dataclass(frozen=True)
class _Stacked:
    parts: tuple[Any, ...]

    def __call__(self, x, theta, *params) -> Array:
        return jnp.concatenate([jnp.atleast_1d(part(x, theta, *params)) for part in self.parts])

    def tightening_ceiling(self, levels: np.ndarray, x, theta, *params) -> float:
        sizes = [jax.eval_shape(lambda *a, p=p: _alone(p, *a), x, theta, *params).shape[0] for p in self.parts]
        pieces = np.split(np.broadcast_to(levels, (*levels.shape[:-1], sum(sizes))), np.cumsum(sizes)[:-1], axis=-1)
        ceilings = [
            part.tightening_ceiling(piece, x, theta, *params)
            for part, piece in zip(self.parts, pieces, strict=True)
            if hasattr(part, "tightening_ceiling")
        ]
        return min(ceilings, default=float("inf"))


@dataclasses.dataclass(frozen=True)
class _NestedStack(_Stacked):
    """A stack in which some parts are functions of means, and which sees theirs."""

    def inner(self, x, theta, *params) -> tuple[Any, ...]:
        return tuple(part.inner(x, theta, *params) if hasattr(part, "inner") else () for part in self.parts)

    def __call__(self, x, theta, *params, inner=()) -> Array:
        values = [
            part(x, theta, *params, inner=u) if hasattr(part, "inner") else part(x, theta, *params)
            for part, u in zip(self.parts, inner, strict=True)
        ]
        return jnp.concatenate([jnp.atleast_1d(value) for value in values])


def _alone(part: Any, x, theta, *params) -> Array:
    """The values of a part, for their shape: where it is a function of a mean, with one sample's."""
    seen = {"inner": part.inner(x, theta, *params)} if hasattr(part, "inner") else {}
    return jnp.atleast_1d(part(x, theta, *params, **seen))
