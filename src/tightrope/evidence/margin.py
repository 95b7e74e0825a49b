"""Whether the margin that a run keeps below its levels leaves room: a tightening that eats the Slater margin.

Some point satisfies every constraint by the Slater margin sigma, and none by more. A method that asks for H_i <= -upsilon
with upsilon above sigma asks for what there is not: its multipliers run off and its output is far from the solution,
without a violation that would tell. For any weights nu >= 0 of sum 1 the mixture sum_i nu_i H_i is convex, hence nowhere
below its tangent at x, and the least value of that over the domain is at most min over x of max_i H_i(x) = -sigma.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from tightrope.evidence.gap import on_host
from tightrope.problem import Problem
from tightrope.problem.conflict import SURE, best_weights, tangents_of
from tightrope.tree import Tree, float_dtype

_LONGEST = np.iinfo(np.int64).max // 2  # steps; more than that is never; derived: twice as many can be counted


class Margin(NamedTuple):
    """What a run keeps below its levels."""

    name: str  # of the coefficient
    value: float  # of it, the largest
    after: Callable[[int], float]  # the margin after so many steps
    constraints: int  # how many keep it


def margin_note(problem: Problem, x: Tree, data: Tree, all_rows: bool, margin: Margin, step: int) -> str | None:
    """A sentence where the margin after so many steps is more than half of the room there is, as the theory asks for; None
    where it is not, or where nothing is known.

    Args:
        problem, x: the problem, and the output of the run.
        data: all rows, or fresh samples; None where there are neither.
        all_rows: which of them.
        margin, step: of the run.
    """
    upsilon = margin.after(step)
    sigma = _room(problem, x, data, all_rows, margin.constraints) if upsilon > 0 and data is not None else np.inf
    if not 0 < sigma < 2 * upsilon:
        return None
    name = margin.name
    what = "leaves no feasible point" if upsilon >= sigma else "takes more than half of the room there is"
    enough, smaller = _steps_for(margin, sigma / 2), margin.value * sigma / 2 / upsilon
    longer = f"{enough:,} steps or more, or " if enough is not None else ""
    return (
        f"the margin {what}: upsilon is {upsilon:.3g} at {step:,} steps, and no point satisfies every constraint by more "
        f"than {sigma:.3g}. The theory asks for at most half of that: {longer}{name} = {smaller:.3g} or less."
    )


def _room(problem: Problem, x: Tree, data: Tree, all_rows: bool, n: int) -> float:
    """An upper bound on the Slater margin; inf where nothing is known."""
    if n == 0 or not (problem.domain.has_lmo and problem.domain.additive):
        return np.inf
    if problem.nested and not all_rows:  # the error of a tangent is not that of its samples
        return np.inf
    nu, least = best_weights(problem, x, data, jnp.ones(n, float_dtype(x)))
    if all_rows:
        return -float(least)
    tangents, _ = on_host(tangents_of(problem, x, nu, data))
    return float(SURE * tangents.std() / np.sqrt(len(tangents) - 1) - tangents.mean())


def _steps_for(margin: Margin, upsilon: float) -> int | None:
    """The fewest steps after which the margin is at most this; None where no number of them will do."""
    if not margin.after(_LONGEST) <= upsilon:
        return None
    low, high = 0, _LONGEST
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if margin.after(middle) <= upsilon else (middle, high)
    return high
