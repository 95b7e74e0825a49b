"""The pull: from any output to one that satisfies every constraint on the data at hand.

By convexity, x(a) = (1 - a) x + a s with a strictly feasible s has H_i(x(a)) <= (1 - a) H_i(x) + a H_i(s). The smallest a
in [0, 1] that makes every H_i(x(a)) <= 0 costs at most a (F(s) - F(x)). A theorem's zero violation holds on average over
runs; the pull makes it true of this one.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tightrope._jaxlib import COMPILED_SOON
from tightrope.problem import Problem
from tightrope.problem.full_data import full_constraints, full_jacobian, full_mean, full_values, linearised
from tightrope.problem.wide import exactly
from tightrope.sampling.all_rows import one_row
from tightrope.sets import Box, Product
from tightrope.tree import Array, Tree, float_dtype, pytree

MARGIN = 64  # units of eps of what is summed
BEYOND = 0.1  # of a margin, or rounding would decide on which side of zero the root falls


class Pull(NamedTuple):
    """What the pull did."""

    x: Tree  # the feasible output
    a: float  # how far it was pulled, in [0, 1]
    cost: float  # rise of the objective
    bound: float  # on that rise: a (F(s) - F(x))
    towards: Tree  # s

    def __str__(self) -> str:
        if self.a == 0:
            return "the output satisfies every constraint as it is; nothing was pulled."
        return (
            f"pulled towards a strictly feasible point by a = {self.a:.3g}, which cost {self.cost:.3g} in the objective "
            f"(at most {self.bound:.3g})."
        )


def pull(problem: Problem, data: Tree, x: Tree, towards: Tree) -> Pull:
    """The smallest pull of x towards a strictly feasible point that satisfies every constraint on the data."""
    from scipy.optimize import root_scalar

    h, margin = _with_rounding(problem, x, data)
    if np.max(h + margin) <= 0:
        return Pull(x, 0.0, 0.0, 0.0, towards)

    def point(a: float) -> Tree:
        return x if a == 0 else _between(problem, x, towards, a)

    def worst(a: float) -> float:
        return float(np.max(np.asarray(exactly(full_constraints, problem, point(a), data), float) + margin))

    beyond = BEYOND * margin.max()
    a = 1.0
    if worst(1.0) + beyond < 0:
        a = root_scalar(lambda a: worst(a) + beyond, bracket=(0.0, 1.0), method="brentq", xtol=1e-15, rtol=1e-9).root
    step = 1e-12
    while worst(a) > 0 and a < 1:  # Brent's root is known to rtol only
        a, step = min(1.0, a + step), 2 * step
    f_x, f_s, f = (float(exactly(full_values, problem, p, data)[0]) for p in (x, towards, point(a)))
    return Pull(point(a), a, f - f_x, a * (f_s - f_x), towards)


def mended(problem: Problem, data: Tree, x: Tree, points: list[Tree]) -> Pull | None:
    """An output that a method took for feasible, pulled where float64 says that it is not: towards the point, of some that
    were looked at, that is deepest inside. None where none of them is inside by more than rounding."""
    depths = []
    for point in points:
        h, margin = _with_rounding(problem, point, data)
        depths.append(float(np.max(h + 2 * margin, initial=-np.inf)))
    if not depths or min(depths) >= 0:
        return None
    return pull(problem, data, x, points[int(np.argmin(depths))])


@jax.jit(compiler_options=COMPILED_SOON)
def _between(problem: Problem, x: Tree, towards: Tree, a: Any) -> Tree:
    return problem.domain.mix(x, towards, a)


def strictly_feasible(problem: Problem, data: Tree, candidates: list[Tree], solve: Callable[..., Any]) -> Tree | None:
    """A point with every H_i below zero by more than rounding: one of the candidates, or by a short phase one.

    Phase one minimises t over (x, t) subject to H_i(x) <= t, with the same library. Points that are held factored cannot be
    lifted, because derivatives by their factors are not those by the matrix: there it minimises the worst H_i itself. None
    where that finds nothing below zero.
    """

    def inside(point: Tree) -> bool:
        h, margin = _with_rounding(problem, point, data)
        return bool(np.all(h + 2 * margin < 0))  # where there are no constraints, too

    for point in candidates:
        if inside(point):
            return point
    x = candidates[0]
    if not problem.domain.additive:
        lowest = _Lowest(_worst, None, problem.domain, params=problem)
        found = solve(lowest, data, x0=x, passes=30, record=0, progress=False).x
        return found if inside(found) else None
    height = float(np.max(np.abs(np.asarray(full_constraints(problem, x, data), float)))) + 1
    domain = Product({"x": problem.domain, "t": Box(-height, height, shape=())})
    lifted = Problem(_height, _above, domain, params=problem)
    if problem.nested:
        lifted = Problem(_height, _nested_above, domain, params=problem, inner=_inner)
    start = {"x": x, "t": jnp.asarray(height, float_dtype(x))}
    found = solve(lifted, data, x0=start, passes=30, record=0, progress=False).x["x"]
    return found if inside(found) else None


@pytree
class _Lowest(Problem):
    """The worst constraint of another problem, its `params`, with derivatives made of that problem's own."""

    def value_and_gradient(self, x: Tree, lam: Array, theta: Tree) -> tuple[Array, Array, Tree]:
        """Of the worst H_i; there are no constraints."""
        problem: Problem = self.params
        _, h, _, rows = problem.jacobian(x, theta)
        return jnp.max(h), lam, problem.lagrangian_gradient(problem.zero_gradient(x), rows, _of_worst(h))

    def step_length(self, x: Tree, lam: Array, theta: Tree, g: Tree, d: Tree) -> Array:
        """That of the other problem, for the multipliers that the worst H_i stands for."""
        problem: Problem = self.params
        return problem.step_length(x, _of_worst(problem.constraint_values(x, theta)), theta, g, d)


def _of_worst(h: Array) -> Array:
    return jax.nn.one_hot(jnp.argmax(h), h.size, dtype=h.dtype)


def _worst(x: Tree, theta: Tree, problem: Problem) -> Array:
    return jnp.max(problem.sample_values(x, theta)[1])


def _height(z: Tree, theta: Tree, problem: Problem) -> Array:
    return z["t"]


def _above(z: Tree, theta: Tree, problem: Problem) -> Array:
    return problem.sample_values(z["x"], theta)[1] - z["t"]


def _nested_above(z: Tree, theta: Tree, problem: Problem, inner: Tree) -> Array:
    return problem.values_given(z["x"], theta, inner)[1] - z["t"]


def _inner(z: Tree, theta: Tree, problem: Problem) -> Tree:
    return problem.inner_values(z["x"], theta)


def _with_rounding(problem: Problem, x: Tree, data: Tree) -> tuple[np.ndarray, np.ndarray]:
    """The constraints, and a generous bound on the rounding of each, whoever recomputes it and in which order.

    Its unit is the size of what is summed: sampled values, and the products of gradient and point that make them up.
    """
    h, size = exactly(_values_and_sizes, problem, x, data)
    return np.asarray(h, float), MARGIN * float(jnp.finfo(float_dtype(x)).eps) * np.asarray(size, float)


@jax.jit(compiler_options=COMPILED_SOON)
def _values_and_sizes(problem: Problem, x: Tree, data: Tree) -> tuple[Array, Array]:
    problem = linearised(problem, x, data)
    if problem.n_constraints(x, one_row(data)) == 0:
        nothing = jnp.zeros(0, float_dtype(x))
        return nothing, nothing
    if problem.exact_constraints is not None:
        h = full_constraints(problem, x, data)
        values, rows = jnp.abs(h), problem.exact_slopes(x)
    else:
        values = full_mean(lambda theta: jnp.abs(problem.sample_values(x, theta)[1]), data)
        _, h, _, rows = full_jacobian(problem, x, data)
    products = [jnp.tensordot(jnp.abs(r).reshape(r.shape[0], -1), jnp.abs(v).reshape(-1), 1)
                for r, v in zip(jax.tree.leaves(rows), jax.tree.leaves(x), strict=True)]  # fmt: skip
    return h, values + sum(products) + jnp.abs(jnp.asarray(problem.levels, values.dtype))
