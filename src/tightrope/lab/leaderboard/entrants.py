"""Which method fits which problem, and what it has to be given to fit."""

import dataclasses
import itertools
from bisect import bisect_right
from functools import lru_cache
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np

from tightrope._jaxlib import compiled
from tightrope.lab.leaderboard.divisions import Counted, Source
from tightrope.lab.leaderboard.hidden import ROWS, hidden, is_hidden
from tightrope.lab.problems import PROBLEMS, Solved
from tightrope.lab.slsqp import BatchResult, slsqp
from tightrope.loop import choose
from tightrope.loop.prepare import cost_of, for_rows, tightening_ceiling
from tightrope.methods import Cost, Method
from tightrope.methods.base import Algorithm
from tightrope.problem import Problem, penalised
from tightrope.problem.problem import astype_problem
from tightrope.sampling import Rows, Sampler
from tightrope.tree import Array, Tree, add_scaled, dot, float_dtype, replace

PENALTY, EXACT, INSIDE = "the optimal multipliers", "the constraints without noise", "a feasible start"
"""What a method may be given that others are not."""


@dataclasses.dataclass(frozen=True, eq=False)
class Entry:
    """A method as it enters for a problem.

    Attributes:
        method: the method with its default coefficients; that of the margin is within the room that the constraints leave.
        problem: the problem in the form that the method takes.
        data: where its samples come from.
        x0: where it starts; None for the set's own point.
        batch_size: how many samples each draw of a step takes.
        given: what the method is given that others are not.
    """

    method: Algorithm
    problem: Problem
    data: Sampler
    x0: Tree
    batch_size: int
    given: tuple[str, ...]

    @property
    def n(self) -> int:
        """How many rows are at hand; 0 for a stream."""
        return self.data.n or 0

    def calls(self, steps: int) -> int:
        """Oracle calls of this number of steps: samples of a stream; of rows, gradients or samples, whichever are more."""
        cost = self.cost(steps)
        if not self.n:
            return cost.samples
        of_steps = cost_of(self.method, self.problem.domain, steps, self.batch_size, 0).gradients  # without looks
        return cost.gradients + max(cost.samples - of_steps, 0)

    def cost(self, steps: int) -> Cost:
        """What this number of steps costs."""
        return cost_of(self.method, self.problem.domain, steps, self.batch_size, self.n)

    def steps(self, budget: int, counted: Counted = "calls") -> int:
        """The most steps whose calls, or linear minimisations, are within the budget; at least one."""
        spent = self.calls if counted == "calls" else lambda steps: self.cost(steps).lmos
        return max(1, bisect_right(range(1, budget + 1), budget, key=spent))


def misfit(kind: type[Algorithm], solved: Solved, source: Source) -> str | None:
    """Why the method cannot enter for the problem; None where it can."""
    penalised_away = "unconstrained" in kind.needs
    if penalised_away and not solved.feasible:
        return f"{kind.__name__} knows no constraints, and there are no multipliers to penalise with: no point is feasible."
    n = 0 if penalised_away else len(solved.dual)
    return choose.misfit(
        kind, choose.Setting(solved.problem.domain, source == "finite", constraints=n)
    ) or choose.missing(kind, lambda: _lacks(solved))


def _lacks(solved: Solved) -> str | None:
    """What second order misses in the problem, by a look at some rows of it."""
    x = solved.problem.domain.start()
    return choose.lacks(astype_problem(solved.problem, float_dtype(x)), x, Rows(solved.rows(ROWS)))


def enter(kind: type[Algorithm], solved: Solved, source: Source, first_budget: int) -> Entry:
    """The method as it enters; `first_budget` is the smallest, at which a margin is largest."""
    problem, given, x0 = solved.problem, (), None
    if "unconstrained" in kind.needs:
        problem, given = penalised(problem, solved.dual), (PENALTY,)
    if "exact_constraints" in kind.needs:
        problem, given = replace(problem, exact_constraints=_exact(solved)), (EXACT,)
        if issubclass(kind, Method) and kind.facts.margin and solved.feasible:  # all iterates are if the first is
            x0, given = feasible_point(solved), (EXACT, INSIDE)
    data = solved.samples if source == "streams" else Rows(solved.table)
    method = tunable(kind)
    size = method.steps.batch(data.n) if isinstance(method, Method) and data.n is not None else 1
    entry = Entry(for_rows(method, data.n, size), problem, data, x0, size, given)
    return dataclasses.replace(entry, method=_within_room(entry, entry.steps(first_budget)))


def tunable(kind: type[Algorithm]) -> Algorithm:
    """The method with coefficients: also where it would measure its own scales if it were given none."""
    method: Any = kind()
    return method if jax.tree.leaves(method) else cast(Any, kind)(**{kind.tuned[0]: 1.0})


def untouched(entry: Entry, steps: int) -> Algorithm:
    """The method as `minimize` takes it from its name alone, for a run of this number of steps."""
    method = for_rows(type(entry.method)(), entry.data.n, entry.batch_size)
    return _within_room(dataclasses.replace(entry, method=method), steps)


def automatic(solved: Solved, source: Source) -> str:
    """The name of the method that "auto" takes for the problem."""
    coordinates = sum(np.size(leaf) for leaf in jax.tree.leaves(solved.x))
    asked = choose.Setting(
        solved.problem.domain, source == "finite", coordinates, len(solved.dual), lacks=lambda: _lacks(solved)
    )
    return choose.automatic(asked)[0].name


def _exact(solved: Solved) -> Any:
    def constraints(x: Tree, *params: Any) -> Array:
        return solved.constraints(x) + jnp.asarray(solved.problem.levels, jnp.result_type(float))

    return constraints


def margin_of(method: Algorithm) -> str | None:
    """The coefficient of the margin; None of what keeps none."""
    return method.facts.margin if isinstance(method, Method) else None


def room(entry: Entry, steps: int) -> float:
    """The largest coefficient of the margin with which the tightening takes at most half of the room that there is."""
    name, domain, method = margin_of(entry.method), entry.problem.domain, entry.method
    if name is None or not isinstance(method, Method):
        return np.inf
    ceiling = tightening_ceiling(entry.problem, domain.start(), entry.data.example())
    unit = replace(method, **{name: 1.0}).steps.tightening(steps)
    return ceiling / 2 / unit if unit > 0 else np.inf


def _within_room(entry: Entry, steps: int) -> Algorithm:
    name = margin_of(entry.method)
    if name is None or getattr(entry.method, name) is None or getattr(entry.method, name) <= room(entry, steps):
        return entry.method  # None: the run measures the margin, and where it may end
    return replace(entry.method, **{name: room(entry, steps)})


def grid(entry: Entry, first_budget: int) -> dict[str, np.ndarray]:
    """Nine settings for every method: factors of 1/4, 1 and 4 on two coefficients, or nine from 1/16 to 16 on one.

    A method that declares nothing to tune has one setting.
    """
    names = entry.method.tuned[:2]
    powers = np.arange(-1.0, 2.0) if len(names) > 1 else np.arange(-2.0, 2.5, 0.5)
    found = {name: (getattr(entry.method, name) or 1.0) * 4.0**powers for name in names}
    name = margin_of(entry.method)
    if name in found:  # the whole grid gives way, so that it keeps its size
        found[name] *= min(1.0, room(entry, entry.steps(first_budget)) / found[name].max())
    return found


def settings(entry: Entry, first_budget: int) -> list[dict[str, float]]:
    """The settings of the grid, each with the margin, also where it is not tuned."""
    tuned, margin = grid(entry, first_budget), margin_of(entry.method)
    fixed = {margin: float(getattr(entry.method, margin))} if margin and margin not in tuned else {}
    return [fixed | dict(zip(tuned, map(float, values), strict=True)) for values in itertools.product(*tuned.values())]


def feasible_point(solved: Solved) -> Tree:
    """A point with every H_i <= -slater/2, or nearly: Polyak's steps on the largest of them, from the set's own point."""

    @compiled
    def search(x: Tree) -> Tree:
        def step(_, x: Tree) -> Tree:
            value, slope = jax.value_and_grad(lambda point: jnp.max(solved.constraints(point)))(x)
            excess = jnp.maximum(value + solved.slater / 2, 0)
            square = dot(slope, slope)
            return solved.problem.domain.project(add_scaled(x, -excess / jnp.where(square > 0, square, 1), slope))

        return jax.lax.fori_loop(0, 2_000, step, x)

    start = solved.problem.domain.start()
    inside = bool(jnp.max(solved.constraints(start)) <= -solved.slater / 2)
    return jax.tree.map(np.asarray, start if inside else search(start))


# ---- data at hand ----------------------------------------------------------------------------------------------------


def on_rows(solved: Solved, n: int) -> tuple[Solved, BatchResult | None]:
    """The problem of a data set, with its own optimum, and what SLSQP found of it.

    Where the samples are rows of a table, the table is the data set; elsewhere n fresh samples, whose optimum is SLSQP's.
    """
    if solved.table is not None:
        return solved, _reference(solved.problem, solved.table)
    rows = solved.rows(n)
    found = slsqp(solved.problem, rows, tol=1e-13)
    known = {name: getattr(solved, name) for name in ("slater", "constants", "noise")}
    answer = {"x": found.x, "dual": found.dual, "optimum": found.objective, **known}
    return Solved.of_table(solved.name, solved.problem, rows, **answer), found


def _reference(problem: Problem, table: Tree) -> BatchResult | None:
    try:
        return slsqp(problem, table)
    except (TypeError, RuntimeError):  # a set that SLSQP cannot be told, or no success
        return None


@lru_cache(maxsize=32)
def challenge(name: str, source: Source, n: int) -> tuple[Solved, BatchResult | None]:
    """The problem of this name from this source, made once."""
    solved = hidden(name) if is_hidden(name) else PROBLEMS[name]()
    return (solved, None) if source == "streams" else on_rows(solved, n)
