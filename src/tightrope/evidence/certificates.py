"""Held-out rows as judges of a run: what they show of its output, and the point they certify."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from tightrope.certificate import Certificate
from tightrope.confidence.means import checked_confidence
from tightrope.evidence.at_a_point import Worth, worth_on_rows, worth_on_samples
from tightrope.evidence.certified_pull import certified_pull, inner_point
from tightrope.evidence.constraint_bounds import Accept, bound_constraints, checked_accept, read_ranges
from tightrope.evidence.held_out_rows import copies_said, marks_of, marks_of_sampler, read_held_out, refuse_seen
from tightrope.problem import Problem
from tightrope.problem.problem import check_shapes, constraint_names
from tightrope.problem.rounding import count
from tightrope.result import Pull, Result, Status
from tightrope.sampling import Sampler
from tightrope.sampling.rows import one_row
from tightrope.tree import Tree

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
        self.problem, self.sampler, self.confidence = problem, sampler, checked_confidence(confidence)
        self.rows = read_held_out(heldout, sampler.example())
        self.names = constraint_names(problem, check_shapes(problem, x, one_row(self.rows)))
        self.ranges = read_ranges(ranges, self.names)
        self.accept: Accept = checked_accept(accept)
        if sampler.n is not None:
            refuse_seen(marks_of_sampler(sampler), self.rows)

    def judged(self, result: Result) -> Result:
        """The result with a certificate of its x."""
        asked = self.rows, self.names, self.ranges, self.confidence
        bounds = bound_constraints(self.problem, result.x, *asked, False, self.accept)
        return dataclasses.replace(result, certificate=self._certificate(result, bounds))

    def pulled(self, result: Result, again: Callable[[Problem], Result] | None, inside: Tree) -> Result:
        """The result whose x is certified, or with a status that says that none could be.

        Args:
            result: of the run.
            again: solves another problem on the rows at hand; None without rows.
            inside: what is pulled towards without rows.
        """
        x, asked = result.x, (self.names, self.ranges, self.confidence)
        status = result.status
        if not self.names or status.no_point or status.unproven or status is Status.NOT_FINITE:
            return self.judged(result)
        if again is None:
            inner = jax.tree.map(lambda p, v: jnp.asarray(p, v.dtype), inside, x)
        else:
            inner = inner_point(self.problem, x, self.sampler.rows, count(self.rows), *asked, again)
        found = None if inner is None else certified_pull(self.problem, x, inner, self.rows, *asked, self.accept)
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
        return Certificate(result.x, self.confidence, count(self.rows), False, bounds, result.gap, notes=notes)

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
