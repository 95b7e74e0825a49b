"""What a point is worth: on all rows, on fresh samples where those can be made, or else on the last ones of its run."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tightrope._jaxlib import compiled
from tightrope.confidence import ENOUGH, TESTED, serial_dependence
from tightrope.confidence.independence import LEAST_BLOCKS
from tightrope.confidence.means import right_skewness
from tightrope.evidence.constraint_bounds import values_at
from tightrope.precision import digits
from tightrope.problem import Problem
from tightrope.problem.conflict import conflict, said_of_conflict
from tightrope.problem.full_data import full_mean, linearised
from tightrope.problem.problem import astype_problem
from tightrope.problem.reach import reach_of_constraints
from tightrope.problem.rounding import UNITS, count
from tightrope.sampling import Plan, Sampler
from tightrope.sampling.rows import first_row, one_row
from tightrope.sampling.stream import MOST_KEPT
from tightrope.tree import Array, Tree, astype, eps_of

_FRESH = MOST_KEPT // 32, MOST_KEPT  # samples by which a point is measured; between the two a tenth of the run's


class Worth(NamedTuple):
    """Objective and constraints of a point, and what is known of their errors."""

    objective: float
    constraints: np.ndarray
    objective_error: float  # rounding for rows, two standard errors for samples, NaN for means over the run
    errors: np.ndarray  # of the constraints, likewise
    measured_on: str
    at_random: bool  # whether the errors are those of samples
    samples: Tree = None  # those that it was measured on, if any
    learned: bool = False  # whether x was made of these
    note: str | None = None  # on the samples


class Means(NamedTuple):
    """Running means over a run, on the host; of one run or, with leading axes, of many."""

    objective: Any
    h: np.ndarray
    lam: np.ndarray
    tracked: dict[str, Any]
    weight: Any  # of all steps so far


def worth_of(problem: Problem, x: Tree, sampler: Sampler, plan: Plan, step: int, means: Means | None) -> Worth:
    """What x is worth after so many steps, over which f and h had these means."""
    if sampler.n is not None:
        return worth_on_rows(problem, x, sampler.rows)
    assert means is not None
    samples = step * plan.draws * plan.batch_size
    fresh = sampler.fresh(plan.seeds[0], 1 << int(np.log2(np.clip(samples / 10, *_FRESH))))
    if fresh is not None:
        return worth_on_samples(problem, x, fresh, "fresh samples")
    return worth_of_a_run(problem, x, sampler.lately(plan, step), means)


def worth_of_a_run(problem: Problem, x: Tree, lately: Tree, means: Means) -> Worth:
    """What x is worth on the last samples of its run; where there are too few, its means are all that is known."""
    if lately is not None and count(lately) >= ENOUGH:
        return worth_on_the_last(problem, x, lately)
    said = "the samples of the run: means of f(x_t, theta_t) and h(x_t, theta_t) over its steps"
    unknown = np.full(len(means.h), np.nan)
    return Worth(float(means.objective), means.h, np.nan, unknown, said, True)


def worth_on_rows(problem: Problem, x: Tree, rows: Tree) -> Worth:
    """What x is worth on all the data, which is all there is."""
    f, h, size_f, size_h = (np.asarray(v, float) for v in jax.device_get(_with_sizes(problem, x, rows)))
    eps = UNITS * eps_of(x)
    return Worth(float(f), h, eps * float(size_f), eps * size_h, f"all {count(rows):,} rows", False)


def worth_on_samples(problem: Problem, x: Tree, samples: Tree, what: str) -> Worth:
    """What x is worth on samples, which stand for others."""
    f, h, error_f, error_h = (np.asarray(v, float) for v in _in_float64(_with_errors, problem, x, samples))
    said = f"{count(samples):,} {what}, with two standard errors"
    return Worth(float(f), h, 2 * float(error_f), 2 * error_h, said, True, samples)


def worth_on_the_last(problem: Problem, x: Tree, samples: Tree) -> Worth:
    """What x is worth on the last samples of its own run, in their order. Where neighbours are alike there are fewer of
    them than it seems, and the errors count that.
    """
    values, found = along(problem, x, samples)
    error, mean = found.widened(values.std(axis=0) / np.sqrt(found.n - 1)), values.mean(axis=0)
    said = f"the last {found.n:,} samples of the run, which has learned from them, with two standard errors"
    return Worth(float(mean[0]), mean[1:], 2 * error[0], 2 * error[1:], said, True, samples, True, found.note)


class Along(NamedTuple):
    """What values of f and h along samples, in their order, say of the errors of means."""

    inflation: np.ndarray  # (1 + N,) of the variances, over those of independent samples; inf where too few are that
    skewness: np.ndarray  # (1 + N,) to the right
    n: int
    note: str | None

    def widened(self, error: np.ndarray) -> np.ndarray:
        """Standard errors (1 + N,) of independent samples, as large as they are."""
        return np.where(np.isinf(self.inflation), np.inf, error * np.sqrt(np.minimum(self.inflation, self.n)))


def along(problem: Problem, x: Tree, samples: Tree) -> tuple[np.ndarray, Along]:
    """Values (n, 1 + N) at samples, and what their order says of the objective and of constraints off their levels."""
    f, h = _in_float64(_values, problem, x, samples)
    values = np.column_stack([f, h])
    n, note = len(f), None
    error = values.std(axis=0) / np.sqrt(n - 1)
    known = np.all(np.isfinite(values), axis=0)
    away = np.abs(values.mean(axis=0)) / np.where(error > 0, error, 1)  # standard errors from the level
    tested = [0, *(1 + np.argsort(away[1:])[: TESTED - 1])]
    tested = [i for i in tested if known[i]]
    told = serial_dependence(values[:, tested]).longer if tested else np.ones(0)
    same = np.ptp(values, axis=0) == 0
    if np.any(same[1:]):  # of functions of the samples: nobody knows for how long
        same[1:] &= reach_of_constraints(problem, x, one_row(samples)).varies
    if tested and np.all(same):
        told = np.full(len(tested), float(n))
    inflation = np.ones(len(error))
    if np.any(told > 1):
        inflation[:] = told.max()
        inflation[tested] = told
        inflation = np.where(n / inflation < ENOUGH, np.inf, inflation)
        note = dependence_note(float(told.max()), n)
    skewed = right_skewness(np.where(known, values, 0.0))
    # Of Bernoulli draws the square of the skewness is one over the probability.
    rare = same[1:] | (LEAST_BLOCKS * skewed[1:] ** 2 > n / inflation[1:])
    inflation[1:][rare] = np.inf
    if note is None and np.any(rare):
        note = (
            f"what decides the mean of {np.count_nonzero(rare)} of the constraints was seen fewer than {LEAST_BLOCKS} "
            f"times in {n:,} samples: no error of it is known, and nothing is decided"
        )
    return values, Along(inflation, skewed, n, note)


def _values(problem: Problem, x: Tree, samples: Tree) -> tuple[np.ndarray, np.ndarray]:
    return values_at(linearised(problem, x, samples), x, samples)


def _in_float64(fn: Callable[[Problem, Tree, Tree], Any], problem: Problem, x: Tree, samples: Tree) -> Any:
    """What a function says of a point that was computed with fewer digits, on the host; with these where the problem's own
    functions can do no other."""
    try:
        with digits():
            wide = jnp.result_type(float)
            return jax.device_get(fn(astype_problem(problem, wide), astype(x, wide), samples))
    except (TypeError, ValueError):
        return jax.device_get(fn(problem, x, samples))


def not_beyond(problem: Problem, start: Tree, x: Tree, samples: Tree) -> float:
    """The share of the way from the start to x, halved as often as samples surely have f higher there than at the start.

    All of it where the start does not keep the constraints, which may be what the way is for.
    """
    f0, h0 = values_at(problem, start, samples)
    if np.any(h0.mean(axis=0) > 0):
        return 1.0
    for share in 0.5 ** np.arange(6):
        higher = values_at(problem, problem.domain.mix(start, x, share), samples)[0] - f0
        if not higher.mean() > 2 * higher.std() / np.sqrt(len(higher)):
            return float(share)
    return 0.0


def dependence_note(inflation: float, n: int) -> str:
    """What samples that are alike mean for a run, and what to do."""
    enough = n / inflation >= ENOUGH
    known = "the errors above count that" if enough else "from so few no error is known, and nothing is decided"
    return (
        f"neighbouring samples are alike: {n:,} of them say as much as {n / inflation:,.0f} independent ones (correlation "
        f"time {'about' if enough else 'at least'} {inflation / 2:,.0f}); {known}. The run follows such samples, so that "
        "its own means, in the trace, look better than the constraints are. Shuffle the stream in a buffer of many such "
        f"times, take every {inflation:,.0f}th sample only, or take that many a step (batch_size)."
    )


@compiled(soon=True)
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


@compiled(soon=True)
def _with_errors(problem: Problem, x: Tree, data: Tree) -> tuple[Array, Array, Array, Array]:
    """Means over samples, and their standard errors."""
    problem = linearised(problem, x, data)
    f, h = full_mean(lambda theta: problem.sample_values(x, theta), data)

    def squares(theta: Tree) -> tuple[Array, Array]:
        f_one, h_one = problem.sample_values(x, theta)
        return (f_one - f) ** 2, (h_one - h) ** 2

    spread_f, spread_h = full_mean(squares, data)
    return f, h, jnp.sqrt(spread_f / (count(data) - 1)), jnp.sqrt(spread_h / (count(data) - 1))


def conflict_of(
    problem: Problem, x: Tree, dual: np.ndarray, sampler: Sampler, seed: int, names: list[str], worth: Worth
) -> str | None:
    """A sentence where samples say that every point of the domain violates a constraint; None where they do not. Those
    that x was measured on will do where they are many enough.

    The weights are the multipliers: without a feasible point they grow in the direction of weights that prove it.
    """
    if sampler.n is not None or not np.any(np.nan_to_num(dual) > 0):
        return None
    samples = worth.samples
    if not worth.learned and (samples is None or count(samples) < _FRESH[1]):
        samples = sampler.fresh(seed, _FRESH[1])
    if samples is None:
        return None
    found = conflict(problem, x, dual, samples, worth.learned)
    what = f"the last {count(samples):,} samples of the run" if worth.learned else f"{count(samples):,} fresh samples"
    return f"{said_of_conflict(found, names)[:-1]}, as {what} show." if found else None
