"""Held-out rows as judges of a run: what they show of its output, and the point they certify, which is pulled to where its
constraints hold beyond the data, with a confidence.

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

from tightrope.certificate import Certificate, ConstraintBound
from tightrope.confidence.means import checked_confidence
from tightrope.evidence.at_a_point import Worth, worth_on_rows, worth_on_samples
from tightrope.evidence.constraint_bounds import (
    Terms,
    bound_constraints,
    checked_accept,
    read_ranges,
    sampled,
    values_at,
)
from tightrope.evidence.held_out_rows import copies_said, marks_of, marks_of_sampler, read_held_out, refuse_seen
from tightrope.evidence.pull import between
from tightrope.problem import Problem
from tightrope.problem.full_data import linearised
from tightrope.problem.problem import check_shapes, constraint_names
from tightrope.problem.rounding import count
from tightrope.result import Pull, Result, Status
from tightrope.sampling import Sampler
from tightrope.sampling.rows import kept, one_row
from tightrope.tree import Tree, eps_of, replace

_GRADES = ("proven", "asymptotic", "not known")  # from the surest
_AT_INNER = 0.1  # of 1 - confidence is spent on the inner point, which has room; by hand
_WIDTHS = (3.0, 1.5)  # by which the inner point is inside on its own data: one for its bound, the rest to move; by hand
_NO_INNER = (
    "No point to pull towards is shown to be inside by the held-out rows; give one as feasible_point, or more rows."
)


class Judges:
    """Rows that nothing is chosen on, checked before the run begins."""

    def __init__(
        self,
        problem: Problem,
        x: Tree,
        sampler: Sampler,
        heldout: Any,
        confidence: float,
        ranges: Any,
        accept: Any = "proven",
    ):
        self.problem, self.sampler, confidence = problem, sampler, checked_confidence(confidence)
        self.rows = read_held_out(heldout, sampler.example())
        names = constraint_names(problem, check_shapes(problem, x, one_row(self.rows)))
        self.terms = Terms(names, read_ranges(ranges, names), confidence, checked_accept(accept))
        if sampler.n is not None:
            refuse_seen(marks_of_sampler(sampler), self.rows)

    def judged(self, result: Result) -> Result:
        """The result with a certificate of its x."""
        bounds = bound_constraints(self.problem, result.x, self.rows, self.terms)
        return dataclasses.replace(result, certificate=self._certificate(result, bounds))

    def pulled(self, result: Result, again: Callable[[Problem], Result] | None, inside: Tree) -> Result:
        """The result whose x is certified, or with a status that says that none could be.

        Args:
            result: of the run.
            again: solves another problem on the rows at hand; None without rows.
            inside: what is pulled towards without rows.
        """
        x, status = result.x, result.status
        if not self.terms.names or status.no_point or status.unproven or status is Status.NOT_FINITE:
            return self.judged(result)
        if again is None:
            inner = jax.tree.map(lambda p, v: jnp.asarray(p, v.dtype), inside, x)
        else:
            inner = inner_point(self.problem, x, self.sampler.rows, count(self.rows), self.terms, again)
        found = None if inner is None else certified_pull(self.problem, x, inner, self.rows, self.terms)
        undecided = status.ended_well or status.gap_too_large
        if found is None:
            judged = self.judged(result)
            status = Status.NOT_CERTIFIED if undecided else status
            return dataclasses.replace(judged, status=status, message=_NO_INNER)
        moved = self._moved(result, found.x, found.a, inner)
        certificate = self._certificate(moved, found.bounds)
        certified = dataclasses.replace(moved, certificate=certificate)
        if not certificate.holds:
            return dataclasses.replace(certified, status=Status.NOT_CERTIFIED if undecided else status)
        by_grade = Status.CERTIFIED if certificate.proven else Status.ASYMPTOTIC
        return dataclasses.replace(certified, status=by_grade) if status.ended_well else certified

    def _certificate(self, result: Result, bounds: Any) -> Certificate:
        notes = copies_said(self.rows)
        return Certificate(result.x, self.terms.confidence, count(self.rows), False, bounds, result.gap, notes=notes)

    def _moved(self, result: Result, x: Tree, a: float, inner: Tree) -> Result:
        """The result at a pulled point, measured on the data where it is at hand and on the held-out rows where not."""
        import pandas as pd

        if a == 0:
            return dataclasses.replace(result, output="certified", message="Nothing had to be pulled.")
        problem, sampler, index = self.problem, self.sampler, result.constraints.index

        def worth(point: Tree) -> Worth:
            if sampler.n is not None:
                return worth_on_rows(problem, point, sampler.rows)
            return worth_on_samples(problem, point, self.rows, "held-out rows")

        at_x, before, at_inner = worth(x), worth(result.x).objective, worth(inner).objective
        pulled = Pull(x, a, at_x.objective - before, a * (at_inner - before), inner)
        known = problem.knows_objective
        return dataclasses.replace(
            result,
            x=x,
            output="certified",
            point=f"{result.point}, pulled until the held-out rows certify it",
            pull=pulled,
            message=f"The certified point was {pulled}",
            notes=tuple(note for note in result.notes if note != str(result.pull)),
            seen=marks_of(self.rows) if result.seen is None else result.seen.and_those(self.rows),  # they chose a
            objective=at_x.objective if known else None,
            objective_error=at_x.objective_error if known else None,
            constraints=pd.Series(at_x.constraints, index=index),
            errors=pd.Series(at_x.errors, index=index),
            measured_on=at_x.measured_on,
            at_random=at_x.at_random,
        )


# ---- the pull --------------------------------------------------------------------------------------------------------


class CertifiedPull(NamedTuple):
    """How far a point was pulled towards an inner one so that bounds at the two certify what lies between."""

    x: Tree
    a: float
    bounds: tuple[ConstraintBound, ...]  # at x


def certified_pull(problem: Problem, x: Tree, inner: Tree, rows: Tree, terms: Terms) -> CertifiedPull | None:
    """The least pull of x towards an inner point that bounds at these two bring to its levels, of whatever grade; None where
    there is none."""

    def bounded(point: Tree, share: float) -> tuple[ConstraintBound, ...]:
        """Bounds on which this share of the error is spent."""
        return bound_constraints(problem, point, rows, terms._replace(confidence=1 - share * (1 - terms.confidence)))

    at_x = bounded(x, 1 - _AT_INNER)
    if all(bound.upper <= 0 for bound in at_x):
        return CertifiedPull(x, 0.0, at_x)
    at_inner = bounded(inner, _AT_INNER)
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
    problem: Problem, x: Tree, rows: Tree, heldout: int, terms: Terms, again: Callable[[Problem], Any]
) -> Tree | None:
    """A point to pull towards: the solution with every level lowered by some widths of the bounds to come.

    That is cheaper than a point deep inside: on the way to it the objective rises by the multipliers times the room that is
    gained, which is the least that any way costs. Widths are those of bounds on as many of the rows at hand. None where the
    lowered levels cannot be met.

    Args:
        problem, x, rows: the problem, its solution on the rows at hand, and these.
        heldout: how many rows will judge.
        terms: of the bounds.
        again: solves another problem on the rows at hand like the first one; its result has a feasible x or no `pull`.
    """
    some = jax.tree.map(lambda a: a[:heldout], kept(rows))
    seen = bound_constraints(problem, x, some, terms)
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
