"""What a point is worth: on all rows, on fresh samples where those can be made, or else as a mean over the run."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tightrope._jaxlib import COMPILED_SOON
from tightrope.loop.gap import on_host
from tightrope.loop.prepare import Prepared
from tightrope.loop.steps import Summary
from tightrope.problem import Problem
from tightrope.problem.full_data import full_mean, linearised
from tightrope.problem.rounding import UNITS, count
from tightrope.problem.wide import exact_eps, exactly
from tightrope.sampling.all_rows import first_row
from tightrope.tree import Array, Tree, float_dtype, subtract

_FRESH = 256, 8192  # samples by which a point is measured, at least and at most; between them a tenth of the run's
SURE = 5  # standard errors


class Worth(NamedTuple):
    """Objective and constraints of a point, and what is known of their errors."""

    objective: float
    constraints: np.ndarray
    objective_error: float  # rounding for rows, two standard errors for samples, NaN for means over the run
    errors: np.ndarray  # of the constraints, likewise
    measured_on: str
    at_random: bool  # whether the errors are those of samples
    samples: Tree = None  # the fresh ones that it was measured on, if any


def worth_of(ready: Prepared, x: Tree, step: int, sums: Summary) -> Worth:
    """What x is worth after so many steps, in which the means of f and h were those of `sums`."""
    sampler, plan = ready.sampler, ready.plan
    if sampler.n is not None:
        return worth_on_rows(ready.problem, x, sampler.rows)
    samples = step * plan.draws * plan.batch_size
    fresh = sampler.fresh(plan.seeds[0], 1 << int(np.log2(np.clip(samples / 10, *_FRESH))))
    if fresh is None:
        said = "the samples of the run: means of f(x_t, theta_t) and h(x_t, theta_t) over its steps"
        unknown = np.full(len(ready.names), np.nan)
        return Worth(float(sums.objective), sums.h, np.nan, unknown, said, True)
    return worth_on_samples(ready.problem, x, fresh, "fresh samples")


def worth_on_rows(problem: Problem, x: Tree, rows: Tree) -> Worth:
    """What x is worth on all the data, which is all there is; in float64."""
    f, h, size_f, size_h = on_host(exactly(_with_sizes, problem, x, rows))
    eps = UNITS * exact_eps(problem, x)
    return Worth(float(f), h, eps * float(size_f), eps * size_h, f"all {count(rows):,} rows", False)


def worth_on_samples(problem: Problem, x: Tree, samples: Tree, what: str) -> Worth:
    """What x is worth on samples, which stand for others."""
    f, h, error_f, error_h = on_host(_with_errors(problem, x, samples))
    said = f"{count(samples):,} {what}, with two standard errors"
    return Worth(float(f), h, 2 * float(error_f), 2 * error_h, said, True, samples)


@jax.jit(compiler_options=COMPILED_SOON)
def _with_sizes(problem: Problem, x: Tree, data: Tree) -> tuple[Array, Array, Array, Array]:
    """Means over rows, and of absolute values: rounding is counted in these."""
    problem = linearised(problem, x, data)

    def of_row(theta: Tree) -> tuple[Array, Array, Array, Array]:
        f, h = problem.sample_values(x, theta)
        return f, h, jnp.abs(f), jnp.abs(h) + jnp.abs(jnp.asarray(problem.levels, h.dtype))

    if problem.exact_constraints is None:
        return full_mean(of_row, data)
    f, size_f = full_mean(lambda theta: of_row(theta)[::2], data)
    _, h, _, size_h = of_row(jax.tree.map(lambda a: a[0], first_row(data)))  # they are the same in every row
    return f, h, size_f, size_h


@jax.jit(compiler_options=COMPILED_SOON)
def _with_errors(problem: Problem, x: Tree, data: Tree) -> tuple[Array, Array, Array, Array]:
    """Means over samples, and their standard errors."""
    problem = linearised(problem, x, data)
    f, h = full_mean(lambda theta: problem.sample_values(x, theta), data)

    def squares(theta: Tree) -> tuple[Array, Array]:
        f_one, h_one = problem.sample_values(x, theta)
        return (f_one - f) ** 2, (h_one - h) ** 2

    spread_f, spread_h = full_mean(squares, data)
    return f, h, jnp.sqrt(spread_f / (count(data) - 1)), jnp.sqrt(spread_h / (count(data) - 1))


def conflict_of(ready: Prepared, x: Tree, dual: np.ndarray, samples: Tree) -> str | None:
    """A sentence where fresh samples say that every point of the domain violates a constraint; None where they do not.
    Those that x was measured on will do where they are many enough.

    For any weights nu >= 0, sum_i nu_i H_i is convex, hence nowhere below its tangent at x. If the least value of that
    over the domain is above zero by five standard errors, no point is feasible. The weights are the multipliers: without a
    feasible point they grow in the direction of weights that prove it.
    """
    problem, sampler = ready.problem, ready.sampler
    if problem.nested:  # the error of a tangent is not that of its samples: its slope is a function of means, too
        return None
    if sampler.n is not None or not problem.domain.has_lmo or not np.any(np.nan_to_num(dual) > 0):
        return None
    enough = samples is not None and len(jax.tree.leaves(samples)[0]) == _FRESH[1]
    fresh = samples if enough else sampler.fresh(ready.plan.seeds[0], _FRESH[1])
    if fresh is None:
        return None
    mean, error, scales = on_host(least_mixture(problem, x, jnp.asarray(dual, float_dtype(x)), fresh))
    if not mean > SURE * error > 0:
        return None
    share = np.asarray(dual) * scales
    names = [name for name, s in zip(ready.names, share / share.sum(), strict=True) if s > 0.05]
    return f"On {_FRESH[1]:,} fresh samples every point of the domain violates one of {', '.join(names)}."


@jax.jit(compiler_options=COMPILED_SOON)
def least_mixture(problem: Problem, x: Tree, dual: Array, data: Tree) -> tuple[Array, Array, Array]:
    """The least value of the tangent at x of sum_i dual_i H_i over the domain, its standard error, and the noise of h_i."""
    _, h = jax.vmap(lambda theta: problem.sample_values(x, theta))(data)

    def mixture(point: Tree, theta: Tree) -> Array:
        return jnp.dot(dual, problem.sample_values(point, theta)[1])

    slope = jax.grad(lambda point: jnp.mean(jax.vmap(lambda theta: mixture(point, theta))(data)))(x)
    away = subtract(problem.domain.lmo(slope), x)
    tangents = jax.vmap(lambda theta: jnp.sum(jnp.stack(jax.jvp(lambda p: mixture(p, theta), (x,), (away,)))))(data)
    return jnp.mean(tangents), jnp.std(tangents) / jnp.sqrt(count(data) - 1), jnp.std(h, axis=0)
