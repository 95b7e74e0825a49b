"""Conditional value at risk: a constraint, or the objective, on the worst cases instead of on the mean."""

from typing import Any, Literal

import jax.numpy as jnp
import numpy as np

from tightrope._errors import numbers, one_of
from tightrope.problem.problem import Problem, bends
from tightrope.sets import Box, Product
from tightrope.tree import Array, Tree, replace


def lift_cvar(
    problem: Problem, alpha: Any, lower: Any, upper: Any, of: Literal["constraints", "objective"] = "constraints"
) -> Problem:
    """The problem whose constraints (or objective) are CVaR_alpha of what they were the mean of.

    CVaR_alpha of a loss y is its mean over the worst share 1 - alpha of the cases. It is also the least value over u of

        u + E [y - u]_+ / (1 - alpha),

    reached at the quantile of level alpha. So E h_i(x, theta) <= levels_i becomes, in x and u,

        E ( u_i + [h_i(x, theta) - u_i]_+ / (1 - alpha) ) <= levels_i :

    again an expectation, convex where h is, and every method applies. A point of the new problem is {"x": x, "u": u},
    with one u_i for each constraint, or a single number u for the objective. To have both, lift twice. What a run
    reports is an upper bound on CVaR, tight once u has converged. Only the worst cases are heard, so gradients are up
    to 1/(1 - alpha) times as large and the samples needed grow like the square of that; and the functions have kinks.

    Args:
        problem: the problem with means.
        alpha: the level, from 0 (the mean) to below 1 (the worst case); a number, or one for each constraint.
        lower: a bound below every u, because the set has to be bounded; a number, or one for each constraint.
        upper: likewise a bound above every u.
        of: what to lift, "constraints" or "objective".

    Example:
        >>> import tightrope as tr
        >>> from tightrope.problem.cvar import lift_cvar
        >>> problem = tr.Problem(
        ...     lambda x, theta: x.dot(theta), lambda x, theta: -x[:1] * theta[:1], tr.Simplex(shape=3)
        ... )
        >>> sorted(lift_cvar(problem, 0.95, lower=-1.0, upper=1.0).domain.sets)
        ['u', 'x']

    References:
        R. T. Rockafellar, S. Uryasev: Optimization of Conditional Value-at-Risk, Journal of Risk 2, 2000.
    """
    level = numbers("lift_cvar", "alpha", alpha, "expected numbers from 0 to below 1.")
    if level.ndim > 1 or not np.all((level >= 0) & (level < 1)):
        raise ValueError(f"lift_cvar: alpha is {alpha!r}; expected numbers from 0 to below 1.")
    if problem.nested:
        raise ValueError(
            "lift_cvar: the problem is nested, and CVaR is made of values of single samples; expected a plain one. Write "
            "CVaR's own u as a coordinate of x instead."
        )
    if one_of("lift_cvar", "of", of, ("constraints", "objective")) == "objective":
        return _with_tail_objective(problem, level, lower, upper)
    if problem.constraints is None and bends(problem):
        raise ValueError(
            "lift_cvar: the problem has no sampled constraints, and CVaR is made of samples. "
            'Give Problem(..., constraints=...), or lift of="objective".'
        )
    counts = [() if problem.names is None else (len(problem.names),), np.shape(problem.levels), np.shape(lower)]
    try:
        shape = np.broadcast_shapes(*counts, np.shape(upper), level.shape) or (1,)
    except ValueError as error:
        raise ValueError(
            f"lift_cvar: lower and upper have the shapes {np.shape(lower)} and {np.shape(upper)}, alpha {level.shape}; "
            "expected a number, or one for each constraint."
        ) from error
    # levels stay outside, where they can be swept; what is exact for the mean says nothing of the tail
    inner = replace(problem, levels=0.0, exact_constraints=None)
    domain = Product({"x": problem.domain, "u": Box(lower, upper, shape=shape)})
    return Problem(_objective, _tail_constraints, domain, problem.levels, (inner, level), problem.names)


def _with_tail_objective(problem: Problem, level: np.ndarray, lower: Any, upper: Any) -> Problem:
    if level.ndim or np.ndim(lower) or np.ndim(upper):
        raise ValueError("lift_cvar: the objective is one function; expected alpha, lower and upper to be numbers.")
    if not problem.knows_objective:
        raise ValueError("lift_cvar: the oracle gives no values of the objective, and CVaR is made of them.")
    exact, sampled = (
        problem.exact_constraints is not None,
        problem.constraints is not None or not bends(problem),
    )
    inner = replace(problem, levels=0.0)
    return Problem(
        _tail_objective,
        _constraints if sampled else None,
        Product({"x": problem.domain, "u": Box(lower, upper, shape=())}),
        problem.levels,
        (inner, level),
        problem.names,
        _exact_constraints if exact else None,
    )


def _tail(values: Array, u: Array, alpha: Any) -> Array:
    """u + [values - u]_+ / (1 - alpha)."""
    return u + jnp.maximum(values - u, 0) / (1 - jnp.asarray(alpha, u.dtype))


# ---- one sample each; params is (the problem with means, alpha) ------------------------------------------------------


def _objective(point: Tree, theta: Tree, params: tuple[Problem, Any]) -> Array:
    return params[0].sample_values(point["x"], theta)[0]


def _tail_objective(point: Tree, theta: Tree, params: tuple[Problem, Any]) -> Array:
    return _tail(_objective(point, theta, params), point["u"], params[1])


def _constraints(point: Tree, theta: Tree, params: tuple[Problem, Any]) -> Array:
    return params[0].sample_values(point["x"], theta)[1]


def _exact_constraints(point: Tree, params: tuple[Problem, Any]) -> Array:
    inner = params[0]
    assert inner.exact_constraints is not None
    return inner.exact_constraints(point["x"], *(() if inner.params is None else (inner.params,)))


def _tail_constraints(point: Tree, theta: Tree, params: tuple[Problem, Any]) -> Array:
    values, u = _constraints(point, theta, params), point["u"]
    if values.shape != u.shape:  # would be broadcast, and share a quantile
        raise ValueError(
            f"lift_cvar: there are {values.size} constraints; expected as many bounds, {u.size} were given."
        )
    return _tail(values, u, params[1])
