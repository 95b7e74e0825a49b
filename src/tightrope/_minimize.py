"""The facade: what was asked for is checked and run, and another solver takes the rest where the first is lost."""

import dataclasses
import math
import operator
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tightrope._compilation_cache import hints_at_cache
from tightrope._errors import plain_errors, shown, whole_number
from tightrope._limits import MOST_ROWS
from tightrope.evidence.certificates import Judges
from tightrope.evidence.gap import inside_of
from tightrope.evidence.strictly_feasible import strictly_feasible
from tightrope.loop.checkpoint import Checkpoint, fingerprint
from tightrope.loop.choose import Stored, keeps_samples, second_choice
from tightrope.loop.findings import result_of
from tightrope.loop.fit import run_fit
from tightrope.loop.looks import run_looks
from tightrope.loop.prepare import MOST_PASSES, asked_of, prepare, refuse_mean, refuse_tracked
from tightrope.loop.record import Options, Snapshot
from tightrope.loop.run import run_steps
from tightrope.methods import Refreshing
from tightrope.methods.base import Algorithm
from tightrope.precision import digits, outside
from tightrope.problem import Problem
from tightrope.result import Result, Status, TotalCost, whole
from tightrope.sampling import Sampler, as_sampler
from tightrope.sets.base import Shape, checked_point
from tightrope.solvers import Solver
from tightrope.tree import Array, Tree, bytes_of, float_dtype

_PASSES_UNJUDGED = MOST_PASSES // 10  # of a run without a strictly feasible point, whose gap is not known
_UNWATCHED = Options(record=0, progress=False)  # of a run that is a part of another


@hints_at_cache
@plain_errors()
def minimize(
    problem: Problem,
    data: Any,
    *,
    method: str | Algorithm = "auto",
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
    precision: str | None = None,
    memory: int = 2**30,
    keep: str | float = "expectation",
) -> Result:
    """Minimise E f(x, theta) over x in the domain subject to E h(x, theta) <= levels.

    Args:
        problem: the problem.
        data: a pytree of arrays with a row per sample, or a `Rows`, `Parquet`, `Generator` or `Stream`.
        method: "auto", a name (see `tightrope.METHODS`) or a method object with coefficients. "auto" takes for rows, with
            at most 50 constraints and unless `steps` is given, SQP where functions are smooth and there are at most 1,000
            coordinates (500 without a cheap projection), and else the bundle method where there are at most 200; SVRG-CSOA
            otherwise. Of streams and generators it keeps the samples, where they fit into `memory`, and solves on them with
            the same; otherwise it takes CSOA, which measures its own scales. Where the domain has no
            cheap projection, SVRF-CSOA and Split-CSOA stand in for the latter two (FW-CSOA where f or h is not finite
            around the domain). The report says which was taken, and why. Where the duality gap of SQP, SVRG-CSOA or
            SVRF-CSOA falls no more, or is out of reach after half of the `passes`, the bundle goes on with the rest of
            them, up to 500 coordinates; the report says so.
        steps: how many steps to take, T. Streams and generators need it.
        passes: for rows, instead of `steps`; a pass is as many per-row gradients as there are rows. With neither, a run on
            rows ends when its duality gap is at most 1e-4 of the objective, or of its fall since the start where that is
            more (`Status.SOLVED`), when the gap no longer falls (`STALLED`), or after 1,000 passes, and gives back the point
            of output="feasible". Methods that know no duality gap need one of the two.
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
            full, so that of convex functions it is not below the true one; a run that comes no closer because numbers are
            rounded stops with `Status.PRECISION`.
        checkpoint: a file to write the run to and, if it is there, to resume from, bit for bit. Where "auto" changes the
            method, a second file beside it has the rest of the run.
        checkpoint_every: write it every so many steps; by default every 30 seconds and at the end.
        chunk: at most so many steps between two looks of Python at the run; the result does not depend on it.
        memory: with method="auto" on a stream or a generator, bytes that its samples may take. Where they fit they are kept
            and the problem is solved on them, on prefixes that double, with a margin and a verdict by folds. Of more,
            up to 200 coordinates, as many as fit are solved on, and of the others means of values and slopes are kept, by
            which the solution goes on. Otherwise, and with 0, every sample is seen once by a method of steps.
        keep: what such a solution keeps. "expectation": E H <= 0, the mean over runs of every constraint at the point that
            they return. A probability, such as 0.95: H <= 0 at the very point that is returned, with that probability
            where samples are many.
        precision: "float64" or "float32". By default rows are computed in float64, whatever JAX's switch `jax_enable_x64`
            says (they stay as they were given, and points come back as NumPy arrays), streams and generators in the
            precision that JAX is configured for. "float32" is for functions that can do no other; what sums lose by
            rounding is then counted, what numbers lose inside f and h is not.

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
    _check_kept(memory, keep)
    if output == "certified" and heldout is None:
        raise ValueError('output="certified" needs rows that judge; give some that are not in the data as heldout.')
    sampler, callback = as_sampler(data), None if callback is None else outside(callback)
    options = Options(record, trace_full, track, callback, progress, time_limit, tol, chunk)
    with digits(sampler.n is not None, precision):
        asked = _Asked(
            problem, sampler, method, steps, passes, batch_size, seed, x0, warm_start, output, feasible_point, options,
            checkpoint, checkpoint_every, memory, keep,
        )  # fmt: skip
        if heldout is None:
            return _solve(_Leg(asked))
        return _judged(asked, _Held(heldout, confidence, ranges, accept))


class _Held(NamedTuple):
    """Rows that judge a result, and how they do."""

    rows: Any
    confidence: float
    ranges: Any
    accept: str


def _judged(asked: "_Asked", held: _Held) -> Result:
    """A result with what rows that nothing was chosen on show of it; where that was asked for, one that they certify."""
    certified, at_hand = asked.output == "certified", asked.data.n is not None
    if certified:
        asked = asked._replace(output="feasible" if at_hand else None)
    leg = _Leg(asked)
    judges = Judges(leg.ready.problem, leg.ready.x, leg.ready.sampler, *held)  # or a refusal
    result = _solve(leg)
    if not certified:
        return judges.judged(result)

    def again(tightened: Problem) -> Result:
        same = asked._replace(
            problem=tightened, output="feasible", options=_UNWATCHED, warm_start=None, checkpoint=None
        )
        return whole(_solve(_Leg(same)))

    try:
        whole(result)
        return judges.pulled(result, again if at_hand else None, leg.ready.x if leg.inside is None else leg.inside)
    except KeyboardInterrupt:
        return judges.judged(dataclasses.replace(result, status=Status.INTERRUPTED))


class _Asked(NamedTuple):
    """What was asked for: the arguments of `minimize` but for those of held-out rows."""

    problem: Problem
    data: Sampler
    method: str | Algorithm = "auto"
    steps: int | None = None
    passes: float | None = None
    batch_size: int | tuple[int, int] | None = None
    seed: int = 0
    x0: Tree = None
    warm_start: Result | None = None
    output: str | None = None
    feasible_point: Tree = None
    options: Options = _UNWATCHED
    checkpoint: str | Path | None = None
    checkpoint_every: int | None = None
    memory: int = 0
    keep: str | float = "expectation"


class _Leg:
    """One run of one algorithm: everything is checked when it is made, and nothing computed before `run`."""

    def __init__(self, asked: _Asked):
        self.asked = asked
        self.open_ended = asked.steps is None and asked.passes is None
        if self.open_ended and asked.data.n is None:
            raise ValueError(
                "Give steps: how long to run. What comes in a stream has no end by which it could be known."
            )
        self.ready = prepare(
            asked.problem, asked.data, asked.method, steps=asked.steps,
            passes=MOST_PASSES if self.open_ended else asked.passes, batch_size=asked.batch_size, seeds=(asked.seed,),
            x0=asked.x0, warm_start=asked.warm_start,
        )  # fmt: skip
        if self.open_ended and asked.options.tol is None and not _knows_gap(self.ready.method):
            raise ValueError("Give either steps or passes: how long to run.")
        refuse_tracked(asked.options.track, self.ready)
        self.output = asked.output
        if self.output == "average":
            refuse_mean(self.ready.method)
        if self.output is None and (asked.options.tol is not None or self.open_ended):
            self.output = "feasible"
        if self.output == "feasible" or asked.options.tol is not None:
            self._refuse_without_rows()
        self.keeps = self._keeps()
        self.inside, x = None, self.ready.x
        if asked.feasible_point is not None:
            self.inside = checked_point("feasible_point", asked.feasible_point, Shape.of(x), float_dtype(x))

    def _keeps(self) -> int:
        """How many samples of a stream are kept and solved on; where only memory is lacking, a note says so."""
        ready, asked = self.ready, self.asked
        if asked.method != "auto" or ready.sampler.n is not None or self.output is not None or ready.sizes is not None:
            return 0
        size = bytes_of(ready.sampler.example())
        known = asked_of(ready)
        stored = Stored(ready.steps * ready.plan.batch_size, size, int(asked.memory))
        why = keeps_samples(known, stored)
        if why:
            notes = (*ready.notes, f"{why}.")
            self.ready = dataclasses.replace(ready, notes=notes)
        return stored.most if why is None else 0

    def _refuse_without_rows(self) -> None:
        """Refuse a feasible output, or a gap, of what cannot be looked at as a whole."""
        ready, tol = self.ready, self.asked.options.tol
        if ready.sampler.n is None:
            asked = 'output="feasible"' if self.output == "feasible" else "tol"
            raise TypeError(f"{asked} looks at all the data; expected arrays, not a stream or a generator.")
        if tol is not None and not _knows_gap(ready.method):
            raise TypeError(
                f"tol needs a duality gap, which {type(ready.method).__name__} does not know. "
                'Use method="svrg-csoa", "sqp" or "bundle" on arrays.'
            )

    @property
    def left_open(self) -> bool:
        """Whether neither the method nor the point was chosen by the user."""
        return self.asked.method == "auto" and self.output in (None, "feasible")

    def run(self, replaceable: bool) -> tuple[Result, bool]:
        """What the run has found, and whether it is lost: of one that is replaceable another solver may take the rest."""
        asked, ready = self.asked, self.ready
        towards = self._strictly_feasible()
        until_solved, own = self.open_ended, isinstance(ready.method, Solver)
        if until_solved and towards is None and not own:  # nothing would tell when to stop
            ready, until_solved = ready.within(_PASSES_UNJUDGED), False
        judged = towards is not None and (asked.options.tol is not None or until_solved)
        inside = inside_of(ready.problem, towards, ready.sampler.rows) if judged else None
        options = dataclasses.replace(
            asked.options, until_solved=until_solved, inside=inside, estimates=self.left_open, replaceable=replaceable
        )
        file = None
        if asked.checkpoint is not None:
            together = ready.sampler.together
            kept = {"what it keeps": f"{asked.keep} by {self.keeps} samples"} if self.keeps else {}
            file = Checkpoint(
                asked.checkpoint, fingerprint(ready, options.track) | kept, asked.checkpoint_every, together=together
            )
        if self.keeps:
            ready, outcome = run_fit(ready, options, file, asked.keep, self.keeps)
        else:
            outcome = (run_looks if own else run_steps)(ready, options, file)
        found = result_of(ready, outcome, self.output, towards, self.left_open)
        stopped = outcome.status.cut_short and outcome.status is not Status.NOT_FINITE
        nowhere = self.open_ended and found.status is Status.NO_FEASIBLE_POINT and not stopped
        return found, (outcome.status is Status.STALLED or nowhere) and not found.status.unproven

    def _strictly_feasible(self) -> Tree | None:
        """Where the pull and the duality gap need one, a strictly feasible point: the given one, the start, or one found
        by a phase one. None where nothing needs it, or where there is none."""
        ready, tol = self.ready, self.asked.options.tol
        if isinstance(ready.method, Solver) or (self.output != "feasible" and tol is None):
            return None
        candidates = [ready.x] if self.inside is None else [self.inside, ready.x]

        def solve(problem: Problem, _: Tree, **options: Any) -> Result:
            # The sampler knows more than its rows: an order.
            return whole(_solve(_Leg(_Asked(problem, ready.sampler, **options))))

        towards = strictly_feasible(ready.problem, ready.sampler.rows, candidates, solve)
        if towards is None and tol is not None:
            raise ValueError("tol needs a strictly feasible point and none was found; give one as feasible_point.")
        return towards


def _solve(leg: _Leg) -> Result:
    """The result of a leg; where "auto" took an algorithm that does not get there, of what goes on in its place."""
    asked, other = leg.asked, None
    if leg.left_open and asked.steps is None:
        other = second_choice(leg.ready.method, asked_of(leg.ready))
    first, lost = leg.run(replaceable=other is not None)
    if other is None or not lost:
        return first
    used = first.cost.gradients / (leg.ready.sampler.n or 1)
    limit = asked.options.time_limit
    left = None if limit is None else max(limit - first.cost.seconds, 1e-3)
    rest = asked._replace(
        method=other, passes=None if asked.passes is None else asked.passes - used, x0=first.x, output=leg.output,
        batch_size=None, warm_start=None, feasible_point=None, options=dataclasses.replace(asked.options, time_limit=left),
        checkpoint=None if asked.checkpoint is None else f"{asked.checkpoint}.{other.name}",
    )  # fmt: skip
    return _joined(first, _solve(_Leg(rest)), f"after {used:.0f} passes")


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


def _knows_gap(algorithm: Algorithm) -> bool:
    """Whether a run can tell how far above F* it is."""
    refreshing = isinstance(algorithm, Refreshing) and type(algorithm).snapshot is not Refreshing.snapshot
    return refreshing or isinstance(algorithm, Solver)


def _check_options(output: Any, record: Any, time_limit: Any, tol: Any, checkpoint_every: Any, chunk: Any) -> None:
    if not (output is None or (isinstance(output, str) and output in ("average", "last", "feasible", "certified"))):
        raise ValueError(f'output is {shown(output)}; expected "average", "last", "feasible" or "certified".')
    if not isinstance(record, int) or not 0 <= record <= MOST_ROWS:
        raise ValueError(f"record is {record!r}; expected how many rows the trace should have, at most {MOST_ROWS:,}.")
    for name, value in (("time_limit", time_limit), ("tol", tol)):
        if value is not None and not (isinstance(value, int | float | np.number) and value > 0 and _finite(value)):
            raise ValueError(f"{name} is {value!r}; expected a positive number.")
    for name, value in (("checkpoint_every", checkpoint_every), ("chunk", chunk)):
        if value is not None:
            whole_number("minimize", name, value)


def _finite(value: Any) -> bool:
    """Whether a number is neither infinite nor NaN, nor a whole one that no float holds."""
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def _check_kept(memory: Any, keep: Any) -> None:
    bytes_ = isinstance(memory, int | float | np.number) and not isinstance(memory, bool)
    if not (bytes_ and memory >= 0 and _finite(memory)):
        raise ValueError(f"memory is {memory!r}; expected how many bytes the samples of a stream may take, 0 for none.")
    share = isinstance(keep, float | np.floating) and 0.5 <= keep < 1
    if keep != "expectation" and not share:
        raise ValueError(f'keep is {keep!r}; expected "expectation", or a probability from 0.5 to below 1.')


def _check_handles(callback: Any, track: Any, checkpoint: Any) -> None:
    for name, value, what in (
        ("callback", callback, "a Snapshot"),
        ("track", track, "x that returns a dict of numbers"),
    ):
        if value is not None and not callable(value):
            raise TypeError(f"{name} is {value!r}; expected a function of {what}.")
    if checkpoint is not None and not isinstance(checkpoint, str | os.PathLike):
        raise TypeError(f"checkpoint is {checkpoint!r}; expected the path of a file.")
