"""Resolve what was asked for and check it once, before the first step: each refusal is a sentence. What steps cost, and how
many of them a budget pays for, stands here too, in one place for methods and solvers."""

import dataclasses
import functools
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from tightrope._errors import whole_number
from tightrope._limits import SURELY_FIT, refuse_points_beyond_memory
from tightrope.columns import of_constraints
from tightrope.loop.choose import Setting, lacks, misfit, missing, projection_free, refuse_grids, resolve_method
from tightrope.loop.steps import Variant, track_names
from tightrope.methods import Cost, Method, Refreshing
from tightrope.methods.base import Algorithm, title_of
from tightrope.problem import Problem
from tightrope.problem.check import finite_around
from tightrope.problem.problem import astype_problem, called_back, check_shapes, constraint_names
from tightrope.sampling import Plan, Sampler, Stream, as_sampler
from tightrope.sets import ConvexSet
from tightrope.sets.base import checked_point
from tightrope.solvers import Solver
from tightrope.tree import Array, Tree, astype, float_dtype, replace, size_of

if TYPE_CHECKING:
    from tightrope.result import Result


MOST_PASSES = 1000  # over the rows, of a run that ends when its gap is small or stalls; by hand
_GLANCE = 16  # samples by which it is judged whether f and h are finite around the domain; by hand


@dataclasses.dataclass(frozen=True)
class Prepared:
    """Everything a run needs, checked and in one dtype."""

    problem: Problem
    sampler: Sampler
    method: Algorithm
    x: Tree  # x_1
    lam: Array  # lambda_1
    steps: int
    plan: Plan
    sizes: tuple[int, int] | None  # separate batch sizes for objective and constraints
    names: list[str]  # of the constraints
    notes: tuple[str, ...]

    def within(self, passes: float) -> "Prepared":
        """The same run of at most so many passes over its rows."""
        steps = steps_within(self.method, passes, self.plan.batch_size, self.sampler.n or 1)
        return dataclasses.replace(self, steps=steps, plan=self.plan._replace(steps=steps))

    def without_rows(self) -> "Prepared":
        """The same run, of which nothing can be asked of all the data any more."""
        return dataclasses.replace(self, sampler=Stream(()))


def prepare(
    problem: Problem,
    data: Any,
    method: str | Algorithm,
    *,
    steps: int | None,
    passes: float | None,
    batch_size: int | tuple[int, int] | None,
    seeds: tuple[int, ...],
    x0: Tree,
    warm_start: "Result | None" = None,
    grids: bool = False,
    levels: np.ndarray | None = None,
    endless: bool = False,
) -> Prepared:
    """Resolve and check everything; raises a sentence, or returns what `minimize`, `sweep` and `Online` start from.

    Args:
        problem, data, method, steps, passes, batch_size, x0, warm_start: as for `minimize`.
        seeds: one, or several for a sweep.
        grids: whether a coefficient may have several values.
        levels: those of a sweep, L of them or L rows, in the place of the problem's own.
        endless: whether the run is fed by hand and has no end.
    """
    if not isinstance(problem, Problem):
        raise TypeError(f"problem is a {type(problem).__name__}; expected a tightrope.Problem.")
    if levels is not None:
        problem = replace(problem, levels=levels[0])
    sampler = as_sampler(data).narrowed()
    rows, theta = sampler.n is not None, sampler.example()
    x = _starting_point(problem, x0, warm_start, jnp.result_type(float) if rows else None)
    n = check_shapes(problem, x, theta)
    dtype = float_dtype(x)
    typed = astype_problem(problem, dtype)
    look = functools.cache(functools.partial(lacks, typed, x, sampler))
    asked = Setting(
        problem.domain, rows, size_of(x), n, problem.knows_objective, steps is not None, look, nested=problem.nested,
        exact=problem.exact_constraints is not None, endless=endless, looks=passes or 0,
    )  # fmt: skip
    if method == "auto" and not rows and problem.domain.additive and projection_free(problem.domain):
        some = sampler.fresh(0, _GLANCE)  # None of a stream, which would lose them: there a NaN stops the run
        finite = some is None or finite_around(typed, x, some)
        asked = asked._replace(around=finite)
    chosen, notes = resolve_method(method, asked)
    if not grids:
        refuse_grids(chosen)
    _refuse(misfit(chosen, asked) or missing(chosen, look))
    if isinstance(chosen, Method):
        chosen = chosen.fitted(problem, x, theta)
    elif isinstance(chosen, Solver):
        chosen = chosen.fitted(problem, x, sampler.n or 1)
    usual = chosen.steps.batch(sampler.n) if isinstance(chosen, Method) and sampler.n is not None else 1
    size, sizes = _batch_sizes(usual if batch_size is None else batch_size)
    if problem.nested and sizes is not None:
        raise ValueError(f"batch_size is {batch_size!r}; expected one number, because the problem is nested.")
    chosen = for_rows(chosen, sampler.n, size)
    plan = Plan(tuple(_checked_seed(seed) for seed in seeds), max(1, cost_of_a_step(type(chosen)).samples), size)
    sampler.check(plan)
    lam = jnp.asarray(np.zeros((n,), dtype)) if warm_start is None else _warm_multipliers(warm_start, n, dtype)
    total = _steps(steps, passes, sampler, chosen, size)
    if isinstance(chosen, Method):
        jax.tree.map(np.max, chosen).steps.check(total)  # of a grid, the largest
        ceiling = tightening_ceiling(problem, x, theta, levels)
        if not isinstance(method, Method):
            chosen, notes = _default_tightening(chosen, ceiling, total, notes)
        _check_tightening(chosen, ceiling, total)
    return Prepared(
        problem=typed,
        sampler=sampler,
        method=astype(chosen, dtype),
        x=sampler.placed(x),
        lam=sampler.placed(lam),
        steps=total,
        plan=plan._replace(steps=total),
        sizes=sizes,
        names=constraint_names(problem, n),
        notes=notes + _numeric_notes(problem),
    )


def asked_of(ready: Prepared) -> Setting:
    """What a prepared run knows of its problem and data."""
    problem, rows = ready.problem, ready.sampler.n is not None
    known = problem.knows_objective
    return Setting(
        problem.domain, rows, size_of(ready.x), len(ready.names), known, nested=problem.nested, looks=ready.steps
    )


def refuse_mean(method: Algorithm) -> None:
    """Refuse to call another point the mean of the iterates of what keeps none."""
    if not method.facts.averages:
        raise ValueError(
            f"{title_of(method)} keeps no mean of its iterates; expected its own output, or the last iterate."
        )


def refuse_tracked(track: Callable[..., Any] | None, ready: Prepared) -> None:
    """Refuse a wrong `track` before any work."""
    if track is not None:
        track_names(Variant(ready.sizes, track), ready.x, of_constraints(ready.names))


def _refuse(sentence: str | None) -> None:
    if sentence is not None:
        raise TypeError(sentence)


def _batch_sizes(batch_size: int | tuple[int, int]) -> tuple[int, tuple[int, int] | None]:
    """How many samples to draw a step, and how many of them objective and constraints use where that differs."""
    if isinstance(batch_size, tuple):
        if len(batch_size) != 2:
            raise ValueError(f"batch_size is {batch_size!r}; expected a number or a pair (objective, constraints).")
        f, h = (whole_number("minimize", "batch_size", b) for b in batch_size)
        return max(f, h), (None if f == h else (f, h))
    return whole_number("minimize", "batch_size", batch_size), None


def _checked_seed(seed: Any) -> int:
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or not 0 <= seed < 2**32:
        raise ValueError(f"seed is {seed!r}; expected a whole number from 0 to 2^32 - 1.")
    return int(seed)


def _steps(steps: int | None, passes: float | None, sampler: Sampler, method: Algorithm, batch_size: int) -> int:
    if (steps is None) == (passes is None):
        raise ValueError("Give either steps or passes: how long to run.")
    if steps is not None:
        if whole_number("minimize", "steps", steps) >= 2**31:
            raise ValueError(f"steps is {steps:,}; expected fewer than 2^31. Use a larger batch, or several runs.")
        return int(steps)
    assert passes is not None
    if sampler.n is None:
        raise ValueError(f"passes needs rows at hand and a {type(sampler).__name__} was given; give steps instead.")
    if not np.isfinite(passes) or passes <= 0:
        raise ValueError(f"passes is {passes!r}; expected a positive number.")
    total = steps_within(method, passes, batch_size, sampler.n)
    if total >= 2**31:
        raise ValueError(f"passes is {passes:g}, {total:.3g} steps; expected fewer than 2^31. Use a larger batch.")
    return total


def _starting_point(problem: Problem, x0: Tree, warm_start: "Result | None", dtype: Any) -> Tree:
    """x_1: inside the domain, in this dtype, or in its own."""
    domain = problem.domain
    if warm_start is not None:
        if x0 is not None:
            raise ValueError("x0 and warm_start were both given; expected one of them: they say where to start.")
        if not hasattr(warm_start, "where_to_go_on"):
            raise TypeError(
                f"warm_start is {warm_start!r}; expected the Result of an earlier run. A point is given as x0."
            )
        x0 = warm_start.where_to_go_on
    if x0 is None:
        if domain.shape is None or domain.shape.size > SURELY_FIT:
            refuse_points_beyond_memory(jax.eval_shape(domain.start))
        return domain.start()
    x = checked_point("x0", x0, domain.shape)
    inside, x = bool(domain.contains(x)), astype(x, dtype or float_dtype(x))
    if inside and (not domain.has_projection or bool(domain.contains(x))):
        return x
    if inside:  # but for the digits that it was given in
        return domain.project(x)
    if not domain.has_projection:
        raise ValueError(f"x0 is outside the domain {domain.name}, which has no projection; give a point inside.")
    warnings.warn(f"x0 is outside the domain {domain.name}; starting at its projection instead.", stacklevel=4)
    return domain.project(x)


def _warm_multipliers(warm_start: "Result", n: int, dtype: Any) -> Array:
    if np.shape(warm_start.dual_last) != (n,):
        raise ValueError(
            f"warm_start has {np.size(warm_start.dual_last)} multipliers for {n} constraints; expected a result of the "
            "same problem."
        )
    return jnp.asarray(warm_start.dual_last, dtype)


def tightening_ceiling(problem: Problem, x: Tree, theta: Tree, grid: np.ndarray | None = None) -> float:
    """The largest upsilon that leaves a feasible point, as far as the structure of the constraints tells.

    For two-sided constraints |E q| <= c the two sides sum to -2c, so no tightening of c or more can be met. With a
    grid of levels, L numbers or L rows: the largest that leaves one at each of them.
    """
    ceiling = getattr(problem.constraints, "tightening_ceiling", None)
    levels = np.asarray(problem.levels) if grid is None else grid.reshape(len(grid), *grid.shape[1:] or (1,))
    extra = () if problem.params is None else (problem.params,)
    return float("inf") if ceiling is None else ceiling(levels, x, theta, *extra)


def _default_tightening(method: Method, ceiling: float, steps: int, notes: tuple[str, ...]) -> tuple[Method, tuple]:
    """Default coefficients give way to the constraints: at most half of the room there is, as the theory asks for.

    This is the place where coefficients that nobody gave are chosen.
    """
    if method.steps.tightening(steps) <= ceiling / 2:
        return method, notes
    name = method.facts.margin
    assert name is not None  # a tightening has one
    value = getattr(method, name) * ceiling / 2 / method.steps.tightening(steps)
    note = f"{name} was set to {value:.3g}, half of the room that the two-sided constraint leaves."
    return replace(method, **{name: value}), (*notes, note)


def _check_tightening(method: Method, ceiling: float, steps: int) -> None:
    """Refuse a tightening that leaves no feasible point; warn where it leaves less than the theory asks for."""
    upsilon = method.steps.tightening(steps)
    said = f"upsilon is {upsilon:.4g} at {steps:,} steps and the two-sided constraint has room for {ceiling:.4g}"
    if upsilon >= ceiling:
        raise ValueError(
            f"{title_of(method)}: {said}, so the tightened problem has no feasible point and the method would drive "
            f"the constrained quantity to zero instead. Use a smaller {method.facts.margin}, or more steps."
        )
    if upsilon > ceiling / 2 * (1 + 1e-9):
        warnings.warn(
            f"{said}; the theory covers at most half of that. Use a smaller {method.facts.margin}.", stacklevel=4
        )


def _numeric_notes(problem: Problem) -> tuple[str, ...]:
    if called_back(problem):
        return ("the oracle is a NumPy function called back once a sample; written in JAX it would be far faster.",)
    return ()


# ---- what steps cost -------------------------------------------------------------------------------------------------

# A step of a solver is a look. It draws no samples, projects nothing and minimises no linear function that would be counted
# here: its programmes on the host are small.


def gradients_used(algorithm: Algorithm, steps: int, batch_size: int, n: int) -> int:
    """Per-row gradients of a run on n rows, those of looks at all of them included; n of them are a pass."""
    if isinstance(algorithm, Solver):
        return algorithm.gradients(steps, n)
    assert isinstance(algorithm, Method)
    return algorithm.steps.cost(steps).gradients * batch_size + algorithm.steps.looks(steps, n).gradients


def steps_within(algorithm: Algorithm, passes: float, batch_size: int, n: int) -> int:
    """The most steps whose gradients are at most so many passes; at least one."""
    budget = round(passes * n)
    low, high = 1, max(2, budget + 1)  # a step takes one gradient or more
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if gradients_used(algorithm, middle, batch_size, n) <= budget else (low, middle)
    return low


def cost_of(algorithm: Algorithm, domain: ConvexSet, steps: int, batch_size: int, n: int) -> Cost:
    """What so many steps cost on n rows."""
    gradients = gradients_used(algorithm, steps, batch_size, n)
    if not isinstance(algorithm, Method):
        return Cost(samples=0, gradients=gradients)
    one, looks = algorithm.steps.cost(steps, domain), algorithm.steps.looks(steps, n, domain)
    return Cost(one.samples * batch_size, gradients, one.projections + looks.projections, one.lmos + looks.lmos)


def cost_of_a_step(kind: type[Algorithm]) -> Cost:
    """What a step costs with a batch of one; of a solver nothing but gradients, as many as there are rows."""
    return kind.cost if issubclass(kind, Method) else Cost(samples=0, gradients=0)


def for_rows(algorithm: Algorithm, n: int | None, batch_size: int) -> Algorithm:
    """The method fitted to data of n rows, where they are at hand."""
    return algorithm.for_rows(n, batch_size) if isinstance(algorithm, Refreshing) and n is not None else algorithm
