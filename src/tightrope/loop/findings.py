"""What a run has found: the point is chosen, made feasible where that was asked for and measured on all the data; what is
claimed of it is held against that, and against chords. Evidence is asked here, and nowhere else on the way from a run to its
`Result`."""

import copy
import dataclasses
import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tightrope._errors import UnreadableError, plain_errors
from tightrope.evidence.at_a_point import Worth, conflict_of, not_beyond, worth_of
from tightrope.evidence.chords import above_a_chord
from tightrope.evidence.held_out_rows import marks_of_sampler
from tightrope.evidence.margin import Margin, margin_note
from tightrope.evidence.oscillation import oscillation_note
from tightrope.evidence.pull import mended, pull
from tightrope.evidence.stopping import ADVICE, Stopping
from tightrope.loop.prepare import Prepared
from tightrope.loop.record import Outcome
from tightrope.methods import Method
from tightrope.methods.measured import SelfMeasuring
from tightrope.precision import handed_out
from tightrope.result import Pull, Result, Status, TotalCost
from tightrope.solvers import Solver
from tightrope.tree import Tree

if TYPE_CHECKING:
    import pandas as pd

_POINTS = {
    "average": "average of the iterates",
    "last": "last iterate",
    "own": "method's own output",
}


def result_of(ready: Prepared, outcome: Outcome, output: str | None, towards: Tree | None, left_open: bool) -> Result:
    """The result of a run. Where files have become unreadable nothing can be measured on all rows any more; what there is
    is returned all the same.

    Args:
        ready, outcome: the run.
        output: the point that was asked for.
        towards: a strictly feasible point, where one is known.
        left_open: whether the output may be made feasible though nobody asked for it.
    """
    if outcome.status is not Status.STREAM_RAISED or ready.sampler.n is None:
        try:
            with plain_errors():
                return _measured(ready, outcome, output, towards, left_open)
        except UnreadableError as error:
            said = f"After all {outcome.steps:,} steps: {error}"
            outcome = dataclasses.replace(outcome, status=Status.STREAM_RAISED, message=said, error=error)
    if output == "feasible":
        outcome = dataclasses.replace(outcome, message=f"{outcome.message} The output was not made feasible.")
    return _measured(ready.without_rows(), outcome, None, None, False)


def _measured(ready: Prepared, outcome: Outcome, output: str | None, towards: Tree | None, left_open: bool) -> Result:
    """Choose the point, make it feasible where that was asked for or nothing was, and measure it on the full data."""
    import pandas as pd

    method, sampler, problem, step = ready.method, ready.sampler, ready.problem, outcome.steps
    chosen = method.facts.output if output in (None, "feasible") else output
    x, dual = outcome.points[chosen], outcome.duals[chosen]
    sampled = method if isinstance(method, Method) and not outcome.kept else None  # of which every sample was seen once
    if not method.facts.multipliers:
        dual = np.full_like(dual, np.nan)
    what = "solution on the samples" if outcome.kept else _POINTS[chosen]
    status, pulled, where = outcome.status, None, f"the {what}"
    own = isinstance(method, Solver)
    if output is None and left_open and outcome.inner is not None:
        output = "feasible"
    towards = outcome.inner.x if towards is None and outcome.inner is not None else towards
    if output == "feasible" and ready.names:
        if own:  # it is feasible as it is, or there is nothing to be pulled towards
            pulled = None if status.no_point or np.any(outcome.least_errors) else Pull(x, 0.0, 0.0, 0.0, x)
        elif towards is None:
            status = _nowhere(status)
        else:
            pulled = pull(problem, sampler.rows, x, towards)
            x, chosen, where = pulled.x, "feasible", f"{where}, made feasible"
    worth = outcome.worth or worth_of(problem, x, sampler, ready.plan, step, outcome.means)
    said = outcome.message
    if sampled is not None and step and chosen == "average" and sampler.n is None and worth.samples is not None:
        share = 1.0  # of the way from the start: the last line of defence of steps that nobody has chosen
        if worth.objective > sampled.steps.at_start(outcome.state):
            share = not_beyond(problem, ready.x, x, worth.samples)
        if share < 1:
            x = problem.domain.mix(ready.x, x, share)
            worth = worth_of(problem, x, sampler, ready.plan, step, outcome.means)
            where = f"{100 * share:.3g} % of the way from the start to the {what}"
            said = f"All of that way samples have the objective higher than at the start: more steps would tell. {said}"
    if step:
        least = np.broadcast_to(outcome.least_errors, worth.errors.shape)
        worth = worth._replace(errors=np.where(least > 0, np.fmax(worth.errors, least), worth.errors))
    if own and not outcome.kept and ready.names and not status.no_point and np.any(worth.constraints > worth.errors):
        pulled = mended(problem, sampler.rows, x, outcome.looked_at)
        if pulled is None:
            worst = int(np.argmax(worth.constraints))
            said = f"The output violates {ready.names[worst]} by {worth.constraints[worst]:.3g}. {said}"
            status = _nowhere(status)
        else:
            x, chosen, where = pulled.x, "feasible", f"{where}, made feasible"
            worth = worth_of(problem, x, sampler, ready.plan, step, outcome.means)
    ended = _Ended(status, said, outcome.lower)
    if sampler.n is not None and step:
        ended = _confirmed(ready, outcome, ended, x, dual, worth)
    status, message = ended.status, ended.message
    if status.proven and pulled is None and output != "feasible" and not own:
        worst = max(float(np.max(worth.constraints, initial=0.0)), 0.0)
        said = f"violates a constraint by {worst:.3g}" if worst > 0 else "satisfies every constraint on the data"
        message += f' It is that of output="feasible", not of the {_POINTS[chosen]}, which was asked for and {said}.'
    conflict = None
    if step and np.any(worth.constraints > 0):
        conflict = conflict_of(problem, x, dual, sampler, ready.plan.seeds[0], ready.names, worth)
    found_wanting = outcome.kept and status.went_wrong and not status.cut_short
    if conflict is not None and (status is Status.FINISHED or found_wanting):
        status, message, conflict = Status.INFEASIBLE_IN_SAMPLES, conflict, None
    names, trace = pd.Index(ready.names, dtype=object), pd.DataFrame(outcome.rows)
    if "gap" in trace and np.isfinite(ended.gap):
        trace.loc[trace.index[-1], "gap"] = ended.gap
    trace = trace.drop(columns="gap", errors="ignore") if status.unproven else trace
    notes = [*ready.notes, outcome.note]
    if sampled is not None and step:
        notes += _notes_on_steps(ready, sampled, x, step, worth, trace)
    notes += [conflict, worth.note, pulled and str(pulled)]
    points = x, outcome.points.get("average"), outcome.points["last"], outcome.state, method, pulled
    x, mean, last, state, own_method, pulled = handed_out(points) if sampler.n is not None else points
    return Result(
        x=x,
        output=chosen,
        mean=mean,
        last=last,
        dual=dual,
        dual_last=outcome.dual_last,
        objective=worth.objective if problem.knows_objective else None,
        constraints=pd.Series(worth.constraints, index=names),
        measured_on=worth.measured_on,
        point=where,
        status=status,
        message=message,
        trace=trace,
        cost=TotalCost(outcome.steps, *outcome.cost, outcome.seconds),
        state=state,
        method=own_method,
        objective_error=worth.objective_error if problem.knows_objective else None,
        errors=pd.Series(worth.errors, index=names),
        at_random=worth.at_random,
        unsettled=() if sampled is None else _unsettled(sampled, trace, dual, worth, ready.names),
        pull=pulled,
        lower=ended.lower if np.isfinite(ended.lower) and status is not Status.INFEASIBLE else None,
        seen=None if sampler.n is None else marks_of_sampler(sampler),
        notes=tuple(note for note in notes if note),
        error=outcome.error,
    )


def _nowhere(status: Status) -> Status:
    """How a run ended whose output may violate constraints; that somebody interrupted it is for its callers to hear."""
    return status if status is Status.INTERRUPTED else Status.NO_FEASIBLE_POINT


class _Ended(NamedTuple):
    """How a run ended, and its lower bound."""

    status: Status
    message: str
    lower: float  # rounding counted; -inf where none is known
    gap: float = math.nan  # of the output, where that is known better than by the run


def _confirmed(ready: Prepared, outcome: Outcome, ended: _Ended, x: Tree, dual: np.ndarray, worth: Worth) -> _Ended:
    """What is left of what a run on rows claims of its output: nothing where a function is above a chord; the gap is that of
    the output as it was measured."""
    status, stopping = ended.status, outcome.stopping
    claims = status.proven or status.unproven or status is Status.INFEASIBLE
    if not (ended.lower > -math.inf or claims or "gap" in ended.message):
        return ended
    conflict = outcome.conflict if status is Status.INFEASIBLE else {}
    weights = np.nan_to_num(dual)
    if conflict:
        weights = np.isin(np.arange(dual.size), list(conflict)).astype(float)
    bent = above_a_chord(ready.problem, ready.sampler.rows, x, ready.x, weights, ready.names)
    if bent is not None:
        return _Ended(Status.NOT_CONVEX, bent, -math.inf)
    if (
        conflict or not ended.lower > -math.inf or np.any(worth.constraints > worth.errors)
    ):  # of no gap, or of another point
        return ended
    gap = worth.objective + worth.objective_error - ended.lower
    if gap < 0:
        said = f"The lower bound, {ended.lower:.6g}, is above the objective of the output by {-gap:.3g}."
        return _Ended(Status.CONTRADICTION, f"{said} {ADVICE}", -math.inf)
    if math.isnan(stopping.gap):
        return ended._replace(gap=gap)
    now = copy.copy(stopping)
    now.gap = gap
    message = ended.message.replace(_sentence(stopping), _sentence(now))
    status = now.at_the_end() if status.budget_spent else status
    return ended._replace(status=status, message=message, gap=gap)


def _sentence(stopping: Stopping) -> str:
    return f"{str(stopping)[:1].upper()}{str(stopping)[1:]}"


def _notes_on_steps(
    ready: Prepared, method: Method, x: Tree, step: int, worth: Worth, trace: "pd.DataFrame"
) -> list[str | None]:
    """What the steps of a method have to say: on its margin, and on swings."""
    notes, rows = [], ready.sampler.n is not None
    name = method.facts.margin
    if name is not None:
        value = getattr(method, name)
        given = float(np.max(value)) if value is not None else np.nan
        margin = Margin(name, given, method.steps.tightening, len(ready.names))
        data = ready.sampler.rows if rows else worth.samples
        notes.append(margin_note(ready.problem, x, data, rows, margin, step))
    if method.facts.multipliers and method.facts.averages:
        measures = isinstance(method, SelfMeasuring) and method.measures
        notes.append(oscillation_note(trace, ready.names, worth, ready.plan.batch_size, measures))
    return notes


def _unsettled(
    method: Method, trace: "pd.DataFrame", dual: np.ndarray, worth: Worth, names: list[str]
) -> tuple[str, ...]:
    """The constraints whose mean multiplier still changed by a third over the second half of the run, and matters."""
    if not method.facts.multipliers or method.facts.output == "own" or len(trace) < 2:
        return ()
    half = trace.iloc[(trace["step"] - trace["step"].iloc[-1] / 2).abs().argmin()]
    force = np.nan_to_num(dual * np.where(np.isfinite(worth.errors), worth.errors, 0.0))  # multipliers in common units
    changed = np.abs(dual - [half[f"dual {name}"] for name in names]) > np.abs(dual) / 3
    matters = force > 0.1 * np.max(force, initial=0.0)
    return tuple(name for name, yes in zip(names, changed & matters, strict=True) if yes)
