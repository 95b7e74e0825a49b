"""A point with every constraint strictly below its level: what a pull leads towards, and a duality gap needs."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tightrope.evidence.pull import with_rounding
from tightrope.precision import full_precision
from tightrope.problem import Problem
from tightrope.problem.full_data import full_constraints
from tightrope.problem.generic import step_length, zero_gradient
from tightrope.problem.nested import Nested
from tightrope.sets import Box, Product
from tightrope.tree import Array, Tree, float_dtype, pytree


def strictly_feasible(problem: Problem, data: Tree, candidates: list[Tree], solve: Callable[..., Any]) -> Tree | None:
    """A point with every H_i below zero by more than rounding: one of the candidates, or by a short phase one.

    Phase one minimises t over (x, t) subject to H_i(x) <= t, with the same library. Points that are held factored cannot be
    lifted, because derivatives by their factors are not those by the matrix: there it minimises the worst H_i itself. None
    where that finds nothing below zero.
    """

    def inside(point: Tree) -> bool:
        h, margin = with_rounding(problem, point, data)
        return bool(np.all(h + 2 * margin < 0))  # where there are no constraints, too

    for point in candidates:
        if inside(point):
            return point
    x = candidates[0]
    if not problem.domain.additive:
        lowest = _Lowest(_worst, None, problem.domain, params=problem)
        found = solve(lowest, data, x0=x, passes=30).x
        return found if inside(found) else None
    height = float(np.max(np.abs(np.asarray(full_constraints(problem, x, data), float)))) + 1
    domain = Product({"x": problem.domain, "t": Box(-height, height, shape=())})
    lifted = Problem(_height, _above, domain, params=problem)
    if isinstance(problem, Nested):
        lifted = Problem(_height, _nested_above, domain, params=problem, inner=_inner)
    start = {"x": x, "t": jnp.asarray(height, float_dtype(x))}
    found = solve(lifted, data, x0=start, passes=30).x["x"]
    return found if inside(found) else None


@pytree
class _Lowest(Problem):
    """The worst constraint of another problem, its `params`, with derivatives made of that problem's own."""

    def value_and_gradient(self, x: Tree, lam: Array, theta: Tree) -> tuple[Array, Array, Tree]:
        """Of the worst H_i; there are no constraints."""
        problem: Problem = self.params
        _, h, _, rows = problem.jacobian(x, theta)
        return jnp.max(h), lam, problem.lagrangian_gradient(zero_gradient(problem, x), rows, _of_worst(h))


@step_length.register(_Lowest)
@full_precision
def _(lowest: _Lowest, x: Tree, lam: Array, theta: Tree, g: Tree, d: Tree) -> Array:
    """That of the other problem, for the multipliers that the worst H_i stands for."""
    problem: Problem = lowest.params
    return step_length(problem, x, _of_worst(problem.constraint_values(x, theta)), theta, g, d)


def _of_worst(h: Array) -> Array:
    return jax.nn.one_hot(jnp.argmax(h), h.size, dtype=h.dtype)


def _worst(x: Tree, theta: Tree, problem: Problem) -> Array:
    return jnp.max(problem.sample_values(x, theta)[1])


def _height(z: Tree, theta: Tree, problem: Problem) -> Array:
    return z["t"]


def _above(z: Tree, theta: Tree, problem: Problem) -> Array:
    return problem.sample_values(z["x"], theta)[1] - z["t"]


def _nested_above(z: Tree, theta: Tree, problem: Nested, inner: Tree) -> Array:
    return problem.values_given(z["x"], theta, inner)[1] - z["t"]


def _inner(z: Tree, theta: Tree, problem: Nested) -> Tree:
    return problem.inner_values(z["x"], theta)
