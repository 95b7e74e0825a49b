"""The pull: from any output to one that satisfies every constraint on the data at hand.

By convexity, x(a) = (1 - a) x + a s with a strictly feasible s has H_i(x(a)) <= (1 - a) H_i(x) + a H_i(s). The smallest a
in [0, 1] that makes every H_i(x(a)) <= 0 costs at most a (F(s) - F(x)). A theorem's zero violation holds on average over
runs; the pull makes it true of this one.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tightrope._jaxlib import compiled
from tightrope.problem import Problem
from tightrope.problem.full_data import full_constraints, full_jacobian, full_mean, full_values, linearised
from tightrope.problem.generic import exact_slopes
from tightrope.problem.problem import n_constraints
from tightrope.result import Pull
from tightrope.sampling.rows import one_row
from tightrope.tree import Array, Tree, eps_of, float_dtype

MARGIN = 64  # units of eps of what is summed, which any order of summing stays within; by hand
BEYOND = 0.1  # of a margin, or rounding would decide on which side of zero the root falls; by hand


def pull(problem: Problem, data: Tree, x: Tree, towards: Tree) -> Pull:
    """The smallest pull of x towards a strictly feasible point that satisfies every constraint on the data."""
    from scipy.optimize import root_scalar

    h, margin = with_rounding(problem, x, data)
    if np.max(h + margin) <= 0:
        return Pull(x, 0.0, 0.0, 0.0, towards)

    def point(a: float) -> Tree:
        return x if a == 0 else between(problem, x, towards, a)

    def worst(a: float) -> float:
        return float(np.max(np.asarray(full_constraints(problem, point(a), data), float) + margin))

    beyond = BEYOND * margin.max()
    a = 1.0
    if worst(1.0) + beyond < 0:
        a = root_scalar(lambda a: worst(a) + beyond, bracket=(0.0, 1.0), method="brentq", xtol=1e-15, rtol=1e-9).root
    step = 1e-12
    while worst(a) > 0 and a < 1:  # Brent's root is known to rtol only
        a, step = min(1.0, a + step), 2 * step
    f_x, f_s, f = (float(full_values(problem, p, data)[0]) for p in (x, towards, point(a)))
    return Pull(point(a), a, f - f_x, a * (f_s - f_x), towards)


def mended(problem: Problem, data: Tree, x: Tree, points: list[Tree]) -> Pull | None:
    """An output that a solver took for feasible and that is not, pulled towards the point, of some that were looked at, that
    is deepest inside. None where none of them is inside by more than rounding."""
    depths = []
    for point in points:
        h, margin = with_rounding(problem, point, data)
        depths.append(float(np.max(h + 2 * margin, initial=-np.inf)))
    if not depths or min(depths) >= 0:
        return None
    return pull(problem, data, x, points[int(np.argmin(depths))])


@compiled(soon=True)
def between(problem: Problem, x: Tree, towards: Tree, a: Any) -> Tree:
    """The point (1 - a) x + a s, with s the point towards which it is pulled."""
    return problem.domain.mix(x, towards, a)


def with_rounding(problem: Problem, x: Tree, data: Tree) -> tuple[np.ndarray, np.ndarray]:
    """The constraints, and a generous bound on the rounding of each, whoever recomputes it and in which order.

    Its unit is the size of what is summed: sampled values, and the products of gradient and point that make them up.
    """
    h, size = jax.device_get(_values_and_sizes(problem, x, data))
    return np.asarray(h, float), MARGIN * eps_of(x) * np.asarray(size, float)


@compiled(soon=True)
def _values_and_sizes(problem: Problem, x: Tree, data: Tree) -> tuple[Array, Array]:
    problem = linearised(problem, x, data)
    if n_constraints(problem, x, one_row(data)) == 0:
        nothing = jnp.zeros(0, float_dtype(x))
        return nothing, nothing
    if problem.exact_constraints is not None:
        h = full_constraints(problem, x, data)
        values, rows = jnp.abs(h), exact_slopes(problem, x)
    else:
        values = full_mean(lambda theta: jnp.abs(problem.sample_values(x, theta)[1]), data)
        _, h, _, rows = full_jacobian(problem, x, data)
    products = [jnp.tensordot(jnp.abs(r).reshape(r.shape[0], -1), jnp.abs(v).reshape(-1), 1)
                for r, v in zip(jax.tree.leaves(rows), jax.tree.leaves(x), strict=True)]  # fmt: skip
    return h, values + sum(products) + jnp.abs(jnp.asarray(problem.levels, values.dtype))
