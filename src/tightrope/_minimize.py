"""The facade: prepare, run, choose the output, measure it on the full data."""

import dataclasses
import operator
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from tightrope._compilation_cache import hints_at_cache
from tightrope._errors import whole_number
from tightrope.columns import of_constraints
from tightrope.evidence.at_a_point import Worth, conflict_of, worth_of
from tightrope.evidence.certificates import Judges
from tightrope.evidence.confirm import Confirmed, confirmed, looked_at
from tightrope.evidence.gap import inside_of, refuse_below_rounding
from tightrope.evidence.held_out_rows import marks_of_sampler
from tightrope.evidence.margin import margin_note
from tightrope.evidence.oscillation import oscillation_note
from tightrope.evidence.pull import Pull, mended, pull
from tightrope.evidence.strictly_feasible import strictly_feasible
from tightrope.loop.checkpoint import Checkpoint, fingerprint
from tightrope.loop.choose import Asked, second_choice
from tightrope.loop.driver import OneRun
from tightrope.loop.prepare import Prepared, checked_point, prepare
from tightrope.loop.run import Options, Outcome, Snapshot, run
from tightrope.loop.steps import Carry, Summary, answer, refuse_mean, running_mean, summarise, track_names
from tightrope.loop.steps import output as output_of
from tightrope.methods import Method, Refreshing, gradients_used
from tightrope.precision import full_precision
from tightrope.problem import Problem
from tightrope.problem.wide import said_of_narrow
from tightrope.result import Result, Status, TotalCost
from tightrope.sampling import as_sampler
from tightrope.sampling.data import UnreadableError, plain_errors
from tightrope.sets.base import Shape
from tightrope.tree import Array, Tree, float_dtype

if TYPE_CHECKING:
    import pandas as pd

_MOST_PASSES = 1000  # of a run that ends when its gap is small or stalls
_MOST_NUMBER = 1e300  # beyond it are infinity and whole numbers that no float holds
_MOST_ROWS = 10_000_000  # of a trace
_PASSES_UNJUDGED = 100  # of one without a strictly feasible point, whose gap is not known


@hints_at_cache
@plain_errors()
@full_precision
def minimize(
    problem: Problem,
    data: Any,
    *,
    method: str | Method = "auto",
    steps: int | None = None,
    passes: float | None = None,
    batch_size: int | tuple[int, int] | None = None,
    seed: int = 0,
    x0: Tree = None,
    warm_start: Result | None = None,
    output: str | None = None,
    feasible_point: Tree = None,
    heldout: Any = None,
    confidence: float = 0.95,
    ranges: Any = None,
    accept: str = "proven",
    record: int = 60,
    trace_full: bool = False,
    track: Callable[[Tree], dict[str, Array]] | None = None,
    callback: Callable[[Snapshot], Any] | None = None,
    progress: bool | None = None,
    time_limit: float | None = None,
    tol: float | None = None,
    checkpoint: str | Path | None = None,
    checkpoint_every: int | None = None,
    chunk: int | None = None,
) -> Result:
    """Minimise E f(x, theta) over x in the domain subject to E h(x, theta) <= levels.

    Args:
        problem: the problem.
        data: a pytree of arrays with a row per sample, or a `Rows`, `Parquet`, `Generator` or `Stream`.
        method: "auto", a name (see `tightrope.METHODS`) or a method object with coefficients. "auto" takes for rows, with
            at most 50 constraints and unless `steps` is given, SQP where functions are smooth and there are at most 1,000
            coordinates (500 without a cheap projection), and else the bundle method where there are at most 200; SVRG-CSOA
            otherwise. For streams and generators it takes CSOA, which measures its own scales. Where the domain has no
            cheap projection, SVRF-CSOA and Split-CSOA stand in for the latter two (FW-CSOA where f or h is not finite
            around the domain). The report says which was taken, and why. Where the duality gap of SQP, SVRG-CSOA or
            SVRF-CSOA falls no more, or is out of reach after half of the `passes`, the bundle goes on with the rest of
            them, up to 500 coordinates; the report says so.
        steps: how many steps to take, T. Streams and generators need it.
        passes: for rows, instead of `steps`; a pass is as many per-row gradients as there are rows. With neither, a run on
            rows ends when its duality gap is at most 1e-4 of the scale of the objective (`Status.SOLVED`), when the gap no
            longer falls (`STALLED`), or after 1,000 passes, and gives back the point of output="feasible". Methods that
            know no duality gap need one of the two.
        batch_size: samples a step; a pair gives separate sizes for objective and constraints. The method's own choice by
            default: one sample for CSOA and FW-CSOA.
        seed: of the samples; the same seed gives the same result.
        x0: where to start; the domain's own starting point by default.
        warm_start: an earlier result whose last point (of Split-CSOA the average) and multipliers to start from. Steps and
            averages count anew.
        output: which point is `result.x`: "average" or "last"; the method's own choice by default. For rows also
            "feasible": the method's own, pulled towards a strictly feasible point just so far that every constraint
            holds on the data; the report says how far and what it cost. That is the default with `tol`, without
            `steps` and `passes`, and with method="auto" where the run comes upon a strictly feasible point. With
            `heldout` also "certified": that point, pulled further until every constraint holds beyond the data, with the
            confidence asked for (`Status.CERTIFIED`, or `ASYMPTOTIC` where such bounds were asked for), where the held-out
            rows can show it (else `NOT_CERTIFIED`). On rows
            this solves the problem once more, with lower levels.
        feasible_point: a point with every constraint strictly below its level, for the pull and the duality gap. Without
            one the point where the run starts is tried, then a short run looks for one. SQP and the bundle method need
            none. On streams it is what output="certified" pulls towards, by default the starting point.
        heldout: rows like the data that nothing is chosen on: `result.certificate` says what they show of `result.x`, as
            `tr.certify` does (which also bounds the gap in expectation). Rows that are also in the data are refused.
        confidence: of that certificate.
        ranges: what is known of h for every possible sample, as for `tr.certify`.
        accept: "asymptotic" to count such bounds as an answer, as for `tr.certify`.
        record: about how many rows the trace has.
        trace_full: also evaluate the running average on all rows at each of them.
        track: a function of the iterate whose values (a dict of scalars) are averaged along the run into the trace.
        callback: called with a `Snapshot` at every row of the trace; return True to stop.
        progress: a progress bar; by default only on a terminal or in a notebook.
        time_limit: seconds.
        tol: for rows, stop when the duality gap is at most this, in the units of the objective. The gap is a bound on
            F(x) - F* for the x of output="feasible", and not for that of "average" or "last"; the bundle method makes one
            at every step, SVRG-CSOA and SVRF-CSOA once an epoch, and the trace has it. At the end it is computed in
            float64, so that of convex functions it is not below the true one; a tolerance far below rounding is refused,
            and a run that comes no closer in its own precision stops with `Status.PRECISION`.
        checkpoint: a file to write the run to and, if it is there, to resume from, bit for bit. Where "auto" changes the
            method, a second file beside it has the rest of the run.
        checkpoint_every: write it every so many steps; by default every 30 seconds and at the end.
        chunk: at most so many steps between two looks of Python at the run; the result does not depend on it.

    Returns:
        A `Result`; `print(result)` is a report. `result.status` says how the run ended and what that proves; objective and
        constraints are those of `result.x` on all rows; with two standard errors, on fresh samples of a generator, and of
        a stream on the last samples of the run.

    Example:
        >>> import numpy as np, tightrope as tr
        >>> theta = np.random.default_rng(0).normal([1.0, 1.0], 1.0, size=(1000, 2))
        >>> problem = tr.Problem(
        ...     objective=lambda x, theta: ((x - theta) ** 2).sum() / 2,
        ...     constraints=lambda x, theta: (theta * x).sum()[None],
        ...     domain=tr.L2Ball(2.0, shape=2),
        ...     levels=1.0,
        ... )
        >>> result = tr.minimize(problem, theta)
        >>> result.status.name, result.violation
        ('SOLVED', 0.0)
    """
    _check_options(output, record, time_limit, tol, checkpoint_every, chunk)
    _check_handles(callback, track, checkpoint)
    certified = output == "certified"
    if certified and heldout is None:
        raise ValueError('output="certified" needs rows that judge; give some that are not in the data as heldout.')
    open_ended = steps is None and passes is None
    sampler = as_sampler(data)
    if open_ended and sampler.n is None:
        raise ValueError("Give steps: how long to run. What comes in a stream has no end by which it could be known.")
    ready = prepare(
        problem, sampler, method, steps=steps, passes=_MOST_PASSES if open_ended else passes, batch_size=batch_size,
        seeds=(seed,), x0=x0, warm_start=warm_start,
    )  # fmt: skip
    until_solved = open_ended and tol is None
    if until_solved and not _knows_gap(type(ready.method)):
        raise ValueError("Give either steps or passes: how long to run.")
    if output == "average":
        refuse_mean(ready.method)
    judges = (
        None if heldout is None else Judges(ready, heldout, confidence, ranges, accept)
    )  # refuses what cannot judge
    if certified:
        output = None if sampler.n is None else "feasible"
    output = "feasible" if output is None and (tol is not None or until_solved) else output
    program = OneRun(ready, track)
    track_names(program.variant, ready.x, of_constraints(ready.names))  # refuses a wrong `track` before any work
    towards = _strictly_feasible(ready, feasible_point, output, tol)
    if until_solved and towards is None and not _gives_feasible(ready.method):  # nothing would tell when to stop
        ready = ready.within(_PASSES_UNJUDGED)
        program, until_solved = OneRun(ready, track), False
    judged = towards is not None and (tol is not None or until_solved)
    inside = inside_of(ready.problem, towards, ready.sampler.rows) if judged else None
    left_open = method == "auto" and output in (None, "feasible")
    other = _second_choice(ready) if left_open and steps is None else None
    options = Options(
        record=record, trace_full=trace_full, callback=callback, progress=progress, time_limit=time_limit, tol=tol,
        until_solved=until_solved, inside=inside, estimates=left_open, replaceable=other is not None, chunk=chunk,
    )  # fmt: skip
    file = None
    if checkpoint is not None:
        together = ready.sampler.together
        file = Checkpoint(checkpoint, fingerprint(ready, track), checkpoint_every, together=together)
    outcome = run(program, options, file)
    result = _result(ready, outcome, output, towards, left_open)
    lost = outcome.status is Status.STALLED or (open_ended and result.status is Status.NO_FEASIBLE_POINT)
    if other is not None and lost and not result.status.unproven:
        used = result.cost.gradients / (ready.sampler.n or 1)
        second = minimize(
            problem, data, method=other, passes=None if passes is None else passes - used, seed=seed, x0=result.x,
            output=output, record=record, trace_full=trace_full, track=track, callback=callback, progress=progress,
            time_limit=None if time_limit is None else max(time_limit - result.cost.seconds, 1e-3), tol=tol,
            checkpoint=None if checkpoint is None else f"{checkpoint}.{other.name}", checkpoint_every=checkpoint_every,
            chunk=chunk,
        )  # fmt: skip
        result = _joined(result, second, f"after {used:.0f} passes")
    if judges is None:
        return result
    if not certified:
        return judges.judged(result)

    def again(tightened: Problem) -> Result:
        return minimize(
            tightened, sampler, method=method, steps=steps, passes=passes, batch_size=batch_size, seed=seed, x0=x0,
            output="feasible", feasible_point=feasible_point, record=0, progress=False,
        )  # fmt: skip

    inside_of_stream = ready.x if feasible_point is None else _inside(ready, feasible_point)
    return judges.pulled(result, again if sampler.n is not None else None, inside_of_stream)


def _second_choice(ready: Prepared) -> Method | None:
    """What goes on where what "auto" has chosen does not get there."""
    coordinates = sum(np.size(leaf) for leaf in jax.tree.leaves(ready.x))
    problem = ready.problem
    asked = Asked(problem.domain, ready.sampler.n is not None, coordinates, len(ready.names), problem.knows_objective)
    return second_choice(ready.method, asked)


def _joined(first: Result, second: Result, when: str) -> Result:
    """One result of a run that has changed its method: the second's, with what the first has cost and recorded."""
    import pandas as pd

    said = f"{first.message[:1].lower()}{first.message[1:]}".split(". ")[0].rstrip(".") or first.status.value
    note = f"went on with {second.method.name} in the place of {first.method.name} {when}: {said}."
    both = dataclasses.astuple(first.cost), dataclasses.astuple(second.cost)
    trace = second.trace.copy()
    for column in ("step", "samples", "passes", "seconds"):
        if column in trace and len(first.trace):
            trace[column] += first.trace[column].iloc[-1]
    return dataclasses.replace(
        second,
        trace=pd.concat([first.trace, trace], ignore_index=True),
        cost=TotalCost(*map(operator.add, *both)),
        notes=tuple(dict.fromkeys((*(n for n in first.notes if n != str(first.pull)), note, *second.notes))),
    )


def _strictly_feasible(ready: Prepared, given: Tree, output: str | None, tol: float | None) -> Tree | None:
    """Where the pull and the duality gap need one, a strictly feasible point: the given one, the start, or one found by
    a phase one. None where nothing needs it, or where there is none."""
    if output != "feasible" and tol is None:
        return None
    if ready.sampler.n is None:
        asked = 'output="feasible"' if output == "feasible" else "tol"
        raise TypeError(f"{asked} looks at all the data; expected arrays, not a stream or a generator.")
    if tol is not None:
        _refuse_without_gap(type(ready.method))
        refuse_below_rounding(ready.problem, ready.x, ready.lam, ready.at_start(), tol)
    if _gives_feasible(ready.method):
        return None
    candidates = [ready.x] if given is None else [_inside(ready, given), ready.x]

    def solve(problem: Problem, _: Tree, **options: Any) -> Result:
        return minimize(problem, ready.sampler, **options)  # which knows more than its rows: files have an order

    towards = strictly_feasible(ready.problem, ready.sampler.rows, candidates, solve)
    if towards is None and tol is not None:
        raise ValueError("tol needs a strictly feasible point and none was found; give one as feasible_point.")
    return towards


def _inside(ready: Prepared, given: Tree) -> Tree:
    """The user's `feasible_point`, checked, in the dtype of the run."""
    return checked_point("feasible_point", given, Shape.of(ready.x), float_dtype(ready.x))


def _gives_feasible(method: Method) -> bool:
    """Whether the method's own output satisfies the constraints, so that nothing need be pulled."""
    return isinstance(method, Refreshing) and method.feasible_output


def _knows_gap(kind: type[Method]) -> bool:
    return issubclass(kind, Refreshing) and (
        kind.snapshot is not Refreshing.snapshot or kind.proof is not Refreshing.proof
    )


def _refuse_without_gap(kind: type[Method]) -> None:
    if not _knows_gap(kind):
        raise TypeError(
            f"tol needs a duality gap, which {kind.__name__} does not know. "
            'Use method="svrg-csoa", "sqp" or "bundle" on arrays.'
        )


def _check_options(output: Any, record: Any, time_limit: Any, tol: Any, checkpoint_every: Any, chunk: Any) -> None:
    if output not in (None, "average", "last", "feasible", "certified"):
        raise ValueError(f'output is {output!r}; expected "average", "last", "feasible" or "certified".')
    if not isinstance(record, int) or not 0 <= record <= _MOST_ROWS:
        raise ValueError(f"record is {record!r}; expected how many rows the trace should have, at most {_MOST_ROWS:,}.")
    for name, value in (("time_limit", time_limit), ("tol", tol)):
        if value is not None and not (isinstance(value, int | float | np.number) and 0 < value < _MOST_NUMBER):
            raise ValueError(f"{name} is {value!r}; expected a positive number.")
    for name, value in (("checkpoint_every", checkpoint_every), ("chunk", chunk)):
        if value is not None:
            whole_number("minimize", name, value)


def _check_handles(callback: Any, track: Any, checkpoint: Any) -> None:
    for name, value, what in (
        ("callback", callback, "a Snapshot"),
        ("track", track, "x that returns a dict of numbers"),
    ):
        if value is not None and not callable(value):
            raise TypeError(f"{name} is {value!r}; expected a function of {what}.")
    if checkpoint is not None and not isinstance(checkpoint, str | os.PathLike):
        raise TypeError(f"checkpoint is {checkpoint!r}; expected the path of a file.")


_POINTS = {
    "average": "average of the iterates",
    "last": "last iterate",
    "own": "method's own output",
}


def _result(ready: Prepared, outcome: Outcome, output: str | None, towards: Tree | None, left_open: bool) -> Result:
    """What a run has found. Where files have become unreadable nothing can be measured on all rows any more; what there is
    is returned all the same."""
    if outcome.status is not Status.STREAM_RAISED or ready.sampler.n is None:
        try:
            with plain_errors():
                return _measured(ready, outcome, output, towards, left_open)
        except UnreadableError as error:
            said = f"After all {outcome.position.step:,} steps: {error}"
            outcome = dataclasses.replace(outcome, status=Status.STREAM_RAISED, message=said, error=error)
    if output == "feasible":
        outcome = dataclasses.replace(outcome, message=f"{outcome.message} The output was not made feasible.")
    cost = _cost(ready, outcome.position.step, outcome.seconds)
    return dataclasses.replace(_measured(ready.without_rows(), outcome, None, None, False), cost=cost)


def _measured(ready: Prepared, outcome: Outcome, output: str | None, towards: Tree | None, left_open: bool) -> Result:
    """Choose the point, make it feasible where that was asked for or nothing was, and measure it on the full data."""
    import pandas as pd

    method, sampler, (carry, step, _) = ready.method, ready.sampler, outcome.position
    chosen = method.output if output in (None, "feasible") else output
    x = output_of(method, carry, chosen) if step else ready.x
    sums = summarise(carry.totals.scalars, len(ready.names), ())
    dual = _dual(method, carry, chosen, sums)
    status, pulled, where = outcome.status, None, f"the {_POINTS[chosen]}"
    own = _gives_feasible(method) and chosen == "own"
    came = method.inner(carry.state) if isinstance(method, Refreshing) and step else None
    if output is None and left_open and came is not None:
        output = "feasible"
    towards = came.x if towards is None and came is not None else towards
    if output == "feasible" and ready.names:
        if own:  # it is feasible as it is, or there is nothing to be pulled towards
            pulled = None if status.no_point else Pull(x, 0.0, 0.0, 0.0, x)
        elif towards is None:
            status = Status.NO_FEASIBLE_POINT
        else:
            pulled = pull(ready.problem, ready.sampler.rows, x, towards)
            x, chosen, where = pulled.x, "feasible", f"{where}, made feasible"
    worth, said = worth_of(ready, x, step, sums), outcome.message
    if step and worth.at_random:
        least = np.broadcast_to(method.least_errors(carry.state), worth.errors.shape)
        worth = worth._replace(errors=np.where(least > 0, np.fmax(worth.errors, least), worth.errors))
    if own and ready.names and not status.no_point and np.any(worth.constraints > worth.errors):
        pulled = mended(ready.problem, sampler.rows, x, looked_at(ready, carry.state))
        if pulled is None:
            worst = int(np.argmax(worth.constraints))
            said = f"In float64 the output violates {ready.names[worst]} by {worth.constraints[worst]:.3g}. {said}"
            status = Status.NO_FEASIBLE_POINT
        else:
            x, chosen, where = pulled.x, "feasible", f"{where}, made feasible"
            worth = worth_of(ready, x, step, sums)
    ended = Confirmed(status, said, outcome.lower)
    if sampler.n is not None and step:
        ended = confirmed(ready, x, dual, worth, ended, outcome.judge, carry.state)
    status, message = ended.status, ended.message
    if status.proven and pulled is None and output != "feasible" and not own:
        worst = max(float(np.max(worth.constraints, initial=0.0)), 0.0)
        said = f"violates a constraint by {worst:.3g}" if worst > 0 else "satisfies every constraint on the data"
        message += f' It is that of output="feasible", not of the {_POINTS[chosen]}, which was asked for and {said}.'
    violated = step and np.any(worth.constraints > 0)
    conflict = conflict_of(ready, x, dual, worth) if violated else None
    if conflict is not None and status is Status.FINISHED:
        status, message, conflict = Status.INFEASIBLE_IN_SAMPLES, conflict, None
    names, trace = pd.Index(ready.names, dtype=object), pd.DataFrame(outcome.rows)
    if "gap" in trace and np.isfinite(ended.gap):
        trace.loc[trace.index[-1], "gap"] = ended.gap
    trace = trace.drop(columns="gap", errors="ignore") if status.unproven else trace
    margin = margin_note(ready, x, step, worth.samples) if step else None
    swings = oscillation_note(ready, trace, worth) if step else None
    notes = (*ready.notes, method.said(carry.state, ready.names) if step else None, margin, swings)
    notes += (conflict, worth.note)
    notes += (said_of_narrow(ready.problem, x) if status.proven else None, pulled and str(pulled))
    return Result(
        x=x,
        output=chosen,
        mean=running_mean(method, carry),
        last=carry.state.x,
        dual=dual,
        dual_last=np.asarray(carry.state.lam),
        objective=worth.objective if ready.problem.knows_objective else None,
        constraints=pd.Series(worth.constraints, index=names),
        measured_on=worth.measured_on,
        point=where,
        status=status,
        message=message,
        trace=trace,
        cost=_cost(ready, step, outcome.seconds),
        state=carry.state,
        method=method,
        objective_error=worth.objective_error if ready.problem.knows_objective else None,
        errors=pd.Series(worth.errors, index=names),
        at_random=worth.at_random,
        unsettled=_unsettled(method, trace, dual, worth, ready.names),
        pull=pulled,
        lower=ended.lower if np.isfinite(ended.lower) and status is not Status.INFEASIBLE else None,
        seen=None if ready.sampler.n is None else marks_of_sampler(ready.sampler),
        notes=tuple(note for note in notes if note),
        error=outcome.error,
    )


def _unsettled(
    method: Method, trace: "pd.DataFrame", dual: np.ndarray, worth: Worth, names: list[str]
) -> tuple[str, ...]:
    """The constraints whose mean multiplier still changed by a third over the second half of the run, and matters."""
    if not method.multipliers or method.output == "own" or len(trace) < 2:
        return ()
    half = trace.iloc[(trace["step"] - trace["step"].iloc[-1] / 2).abs().argmin()]
    force = np.nan_to_num(dual * np.where(np.isfinite(worth.errors), worth.errors, 0.0))  # multipliers in common units
    changed = np.abs(dual - [half[f"dual {name}"] for name in names]) > np.abs(dual) / 3
    matters = force > 0.1 * np.max(force, initial=0.0)
    return tuple(name for name, yes in zip(names, changed & matters, strict=True) if yes)


def _dual(method: Method, carry: Carry, chosen: str, sums: Summary) -> np.ndarray:
    """The multipliers that belong to the chosen point; NaN where the method estimates none."""
    if not method.multipliers:
        return np.full_like(sums.lam, np.nan)
    return np.asarray(answer(method, carry.state)[1]) if chosen == "own" else sums.lam


def _cost(ready: Prepared, step: int, seconds: float) -> TotalCost:
    size, cost = ready.plan.batch_size, ready.method.cost_in(ready.problem.domain, step)
    gradients = gradients_used(ready.method, step, size, ready.sampler.n or 0)
    return TotalCost(step, cost.samples * size, gradients, cost.projections, cost.lmos, seconds)
