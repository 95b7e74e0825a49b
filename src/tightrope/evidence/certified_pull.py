"""The certified pull: from a point to one whose constraints hold beyond the data, with a confidence.

For x(a) = (1 - a) x + a s, convexity says H_i(x(a)) <= (1 - a) U_i(x) + a U_i(s) where both bounds hold, so that
a = max_i U_i(x)_+ / (U_i(x)_+ - U_i(s)) makes all of them at most 0. Nothing is searched on the held-out rows: they judge
two points that were fixed beforehand. The errors of the two add up; those of the constraints do not, because x(a) violates
one only if the bounds of that one fail which needs the largest a.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tightrope.certificate import ConstraintBound
from tightrope.evidence.constraint_bounds import Accept, Ranges, bound_constraints, sampled, values_at
from tightrope.evidence.pull import between
from tightrope.problem import Problem
from tightrope.problem.full_data import linearised
from tightrope.problem.rounding import count
from tightrope.sampling.rows import kept
from tightrope.tree import Tree, eps_of, replace

_GRADES = ("proven", "asymptotic", "not known")  # from the surest
_AT_INNER = 0.1  # of 1 - confidence is spent on the inner point, which has room; by hand
_WIDTHS = (3.0, 1.5)  # by which the inner point is inside on its own data: one for its bound, the rest to move; by hand


class CertifiedPull(NamedTuple):
    """How far a point was pulled towards an inner one so that bounds at the two certify what lies between."""

    x: Tree
    a: float
    bounds: tuple[ConstraintBound, ...]  # at x


def certified_pull(
    problem: Problem, x: Tree, inner: Tree, rows: Tree, names: list[str], ranges: Ranges, confidence: float,
    accept: Accept = "proven",
) -> CertifiedPull | None:  # fmt: skip
    """The least pull of x towards an inner point that bounds at these two bring to its levels, of whatever grade; None where
    there is none."""
    alpha = 1 - confidence
    asked = rows, names, ranges
    at_x = bound_constraints(problem, x, *asked, 1 - (1 - _AT_INNER) * alpha, False, accept)
    if all(bound.upper <= 0 for bound in at_x):
        return CertifiedPull(x, 0.0, at_x)
    at_inner = bound_constraints(problem, inner, *asked, 1 - _AT_INNER * alpha, False, accept)
    above = np.array([max(bound.upper, 0.0) for bound in at_x])
    room = -np.array([bound.upper for bound in at_inner])
    if not np.all(np.isfinite(above)) or np.any(room < 0) or np.any((above > 0) & (room <= 0)):
        return None
    a = float(np.max(np.divide(above, above + room, out=np.zeros_like(above), where=above > 0)))
    a = min(1.0, a + 64 * eps_of(x))  # rounding of the mixture
    point = between(problem, x, inner, jnp.asarray(a, jax.tree.leaves(x)[0].dtype))
    means = values_at(linearised(sampled(problem), point, rows), point, rows)[1].mean(axis=0)
    bounds = tuple(
        dataclasses.replace(
            max(b, s, key=lambda one: _GRADES.index(one.grade)), estimate=float(mean), upper=(1 - a) * b.upper + a * s.upper,
            rows_needed=0.0, carried_by=b.carried_by,
        )
        for b, s, mean in zip(at_x, at_inner, means, strict=True)
    )  # fmt: skip
    return CertifiedPull(point, a, bounds)


def inner_point(
    problem: Problem, x: Tree, rows: Tree, heldout: int, names: list[str], ranges: Ranges, confidence: float,
    again: Callable[[Problem], Any],
) -> Tree | None:  # fmt: skip
    """A point to pull towards: the solution with every level lowered by some widths of the bounds to come.

    That is cheaper than a point deep inside: on the way to it the objective rises by the multipliers times the room that is
    gained, which is the least that any way costs. Widths are those of bounds on as many of the rows at hand. None where the
    lowered levels cannot be met.

    Args:
        problem, x, rows: the problem, its solution on the rows at hand, and these.
        heldout: how many rows will judge.
        names, ranges, confidence: as for the bounds.
        again: solves another problem on the rows at hand like the first one; its result has a feasible x or no `pull`.
    """
    some = jax.tree.map(lambda a: a[:heldout], kept(rows))
    seen = bound_constraints(problem, x, some, names, ranges, confidence)
    width = np.array([bound.upper - bound.estimate for bound in seen]) * np.sqrt(count(some) / heldout)
    if not np.all(np.isfinite(width)):
        return None
    for widths in _WIDTHS:
        lower = np.asarray(problem.levels, float) - widths * width
        shaped = lower.reshape(np.shape(problem.levels)) if lower.size == 1 else lower  # the same program
        found = again(replace(problem, levels=jnp.asarray(shaped, jax.tree.leaves(x)[0].dtype)))
        if found.pull is not None:
            return found.x
    return None
