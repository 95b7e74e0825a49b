"""A problem made into another: constraints moved into the objective."""

import jax.numpy as jnp
import numpy as np

from tightrope.problem.nested import Nested
from tightrope.problem.problem import Problem
from tightrope.tree import Array, Tree, float_dtype


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
    given = np.asarray(weights, float)
    if given.ndim > 1 or not np.all(np.isfinite(given)) or np.any(given < 0):
        raise ValueError(f"penalised: weights is {weights!r}; expected numbers >= 0, one or one per constraint.")
    if isinstance(problem, Nested):
        return Problem(_nested_penalty, None, problem.domain, params=(problem, given), inner=_inner)
    return Problem(_with_penalty, None, problem.domain, params=(problem, given))


def _with_penalty(x: Tree, theta: Tree, params: tuple[Problem, Array]) -> Array:
    return _sum(x, params[1], *params[0].sample_values(x, theta))


def _nested_penalty(x: Tree, theta: Tree, params: tuple[Nested, Array], inner: Tree) -> Array:
    return _sum(x, params[1], *params[0].values_given(x, theta, inner))


def _inner(x: Tree, theta: Tree, params: tuple[Nested, Array]) -> Tree:
    return params[0].inner_values(x, theta)


def _sum(x: Tree, weights: Array, f: Array, h: Array) -> Array:
    return f + jnp.sum(jnp.asarray(weights, float_dtype(x)) * h)
