"""What a run of either kind records and says: its options, rows of its trace, callbacks, its gap, how it ended."""

import contextlib
import dataclasses
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Self

import jax
import numpy as np

from tightrope._errors import UnreadableError, plain_errors
from tightrope.columns import of_means, on_all_rows
from tightrope.evidence.at_a_point import Means, Worth
from tightrope.evidence.gap import Inside
from tightrope.evidence.stopping import ADVICE, Stopping
from tightrope.files import FileError
from tightrope.loop.checkpoint import Checkpoint, Saved
from tightrope.loop.prepare import Prepared
from tightrope.loop.progress import NotebookBar, terminal_bar
from tightrope.methods.base import Cost, Inner
from tightrope.problem import full_values
from tightrope.result import Status
from tightrope.sampling.mesh.processes import leads, said_by_first
from tightrope.tree import Array, Tree, float_dtype

_OTHER_UNITS = (
    " Fewer digits are lost in other units: with a smaller domain, coordinates of like size, and f and h without "
    "differences of large numbers."
)


@dataclasses.dataclass(frozen=True)
class Options:
    """Run-wide options; every one of them is an argument of `minimize`, or follows from its arguments."""

    record: int = 60
    trace_full: bool = False
    track: Callable[[Tree], dict[str, Array]] | None = None
    callback: Callable[["Snapshot"], Any] | None = None
    progress: bool | None = None
    time_limit: float | None = None
    tol: float | None = None
    chunk: int | None = None
    until_solved: bool = False  # whether the run has no budget, and ends when its gap is small or stalls
    inside: Inside | None = None  # a strictly feasible point, for the duality gap
    estimates: bool = False  # whether the gap that a method estimates speaks of the output, where none is proven
    replaceable: bool = False  # whether another algorithm could go on where this one is far from a solution


class Snapshot(NamedTuple):
    """What a callback sees."""

    step: int
    average: Tree  # the mean of the iterates so far; None for a method that keeps none
    last: Tree
    dual: np.ndarray
    row: dict[str, float]


@dataclasses.dataclass
class Outcome:
    """Where a run ended and how, whatever kind it was."""

    steps: int = 0
    seconds: float = 0.0
    rows: list[dict[str, float]] = dataclasses.field(default_factory=list)
    status: Status = Status.FINISHED
    message: str = ""
    error: BaseException | None = None
    lower: float = -np.inf  # a bound on F* on the data, rounding counted
    stopping: Stopping = dataclasses.field(
        default_factory=lambda: Stopping(None, False)
    )  # of the gap that stands on it
    points: dict[str, Tree] = dataclasses.field(
        default_factory=dict
    )  # "average", "last", "own", as far as there are any
    duals: dict[str, np.ndarray] = dataclasses.field(default_factory=dict)  # the multipliers of each ...
    dual_last: np.ndarray = dataclasses.field(default_factory=lambda: np.zeros(0))  # ... and those to go on with
    means: Means | None = None  # over the steps
    state: Any = None  # of the algorithm
    looked_at: list[Tree] = dataclasses.field(default_factory=list)  # points at which it looked at all rows
    conflict: dict[int, float] = dataclasses.field(default_factory=dict)  # as that of a `Look`
    inner: Inner | None = None  # a strictly feasible point that it came upon
    least_errors: Any = 0.0  # what two standard errors of every constraint are at least, by what it saw
    note: str | None = None  # on what it chose for itself
    worth: Worth | None = None  # of the answer, where the run has measured it
    kept: bool = False  # whether it has kept its samples, and solved on them
    cost: Cost = Cost(samples=0, gradients=0)  # of all steps  # noqa: RUF009 (never changed)


def record_steps(steps: int, points: int) -> list[int]:
    """Steps worth a row of the trace: half spread evenly, half in ratio, and the last one."""
    half = max(1, min(points, 2 * steps) // 2)
    even = np.linspace(steps / half, steps, half)
    ratio = np.geomspace(1, steps, half)
    at = np.maximum(np.round(np.concatenate([even, ratio])), 1).astype(int).tolist() if points else []
    return sorted({steps, *at})


class Progress:
    """A bar on a terminal and in a notebook, elsewhere only if asked for: steps taken, objective and worst constraint so
    far; nothing at all where nobody watches."""

    def __init__(self, total: int, wanted: bool | None, label: str = "steps"):
        self.bar: Any = None
        notebook = in_notebook()
        if wanted or (wanted is None and (notebook or sys.stderr.isatty())):
            self.bar = NotebookBar() if notebook else terminal_bar()
            self.task: Any = self.bar.add_task(label, total=total)
            self.label = label

    def __enter__(self) -> Self:
        if self.bar is not None:
            self.bar.start()
        return self

    def __exit__(self, *exc: object) -> None:
        if self.bar is not None:
            self.bar.stop()

    def show(self, done: int, objective: float | None = None, h: np.ndarray | None = None) -> None:
        """Move the bar to so many steps, and say how they went."""
        if self.bar is None:
            return
        words = ["steps"] if h is not None else [self.label]
        words += [f"objective {objective:.5g}"] if objective is not None else []
        words += [f"worst constraint {np.max(h):+.3g}"] if h is not None and len(h) else []
        self.bar.update(self.task, completed=done, description="  ".join(words))


def in_notebook() -> bool:
    """Whether a notebook shows what is displayed: a shell of IPython with a kernel behind it."""
    shell = sys.modules.get("IPython")
    return shell is not None and hasattr(shell.get_ipython(), "kernel")


class Recorder:
    """What runs of methods and of solvers have in common; it takes no step."""

    def __init__(self, ready: Prepared, options: Options, checkpoint: Checkpoint | None):
        self.ready, self.options, self.checkpoint = ready, options, checkpoint
        self.together = ready.sampler.together  # of several processes the first decides what clocks and users decide
        self.leads = not self.together or leads()
        self.records = record_steps(ready.steps, options.record)
        self.out = Outcome()
        self.stopping = self.out.stopping = Stopping(options.tol, options.until_solved)
        self.step = 0
        self.resumed_at = 0.0  # seconds that the run had taken when it was resumed
        self.began = time.perf_counter()

    @contextlib.contextmanager
    def running(self, not_finite: type[FloatingPointError] = FloatingPointError) -> Iterator[Progress]:
        """A bar, and what breaks a run off does not cost it: what there is then is kept.

        Args:
            not_finite: what is raised at a value that is not finite.
        """
        with Progress(self.ready.steps, self.options.progress if self.leads else False) as bar:
            try:
                with plain_errors():
                    yield bar
            except not_finite as error:
                self.back_to_the_last(error)
            except UnreadableError as error:  # in a pass over files
                if self.step == 0:
                    raise
                self.unreadable(error)
            except KeyboardInterrupt:
                if self.together:  # the other processes have no way to know where this one stands
                    raise
                self.stop(Status.INTERRUPTED)

    def back_to_the_last(self, error: Any) -> None:
        """Stand where everything was finite, and say what was not."""
        raise error

    def resumed(self, like: Tree) -> Saved | None:
        """What the checkpoint holds, where there is one, after which the run stands where it was written."""
        if self.checkpoint is None or not self.checkpoint.exists():
            return None
        saved = self.checkpoint.load(like)
        self.step, self.out.rows, self.stopping.best = saved.step, saved.rows, list(saved.gaps)
        self.out.seconds = self.resumed_at = saved.seconds
        return saved

    def clock(self) -> bool:
        """Look at the clock; whether the time limit has passed."""
        spent = time.perf_counter() - self.began
        self.out.seconds = self.resumed_at + spent
        return self.options.time_limit is not None and spent >= self.options.time_limit

    # ---- rows of the trace -------------------------------------------------------------------------------------------

    def row(self, means: Means, samples: int, gradients: int, more: dict[str, Any]) -> dict[str, float]:
        """What every row of a trace has, and what this one has more."""
        n = self.ready.sampler.n
        row: dict[str, float] = {"step": self.step, "samples": samples} | (
            {} if n is None else {"passes": gradients / n}
        )
        row["seconds"] = self.out.seconds
        row |= {} if self.options.tol is None and not np.isfinite(self.stopping.gap) else {"gap": self.stopping.gap}
        f = float(means.objective) if self.ready.problem.knows_objective else None
        row |= of_means(self.ready.names, f, means.h.tolist(), means.lam.tolist())
        return row | {name: float(value) for name, value in more.items()}

    def on_all_rows(self, x: Tree) -> dict[str, float]:
        """Objective and constraints on all rows, where they are at hand and asked for."""
        if self.ready.sampler.n is None or not self.options.trace_full:
            return {}
        f, h = full_values(self.ready.problem, x, self.ready.sampler.rows)
        return on_all_rows(self.ready.names, float(f) if self.ready.problem.knows_objective else None, map(float, h))

    def written(self, row: dict[str, float], bar: Progress, average: Tree, last: Tree, dual: np.ndarray) -> bool:
        """Add a row to the trace, show it, call back; True when the callback ends the run."""
        self.out.rows.append(row)
        bar.show(self.step, row.get("objective"), np.array([row[name] for name in self.ready.names]))
        if self.options.callback is None:
            return False
        stop, raised = False, ""
        try:
            if self.leads:
                said = self.options.callback(Snapshot(self.step, average, last, dual, row))
                stop = isinstance(said, bool | np.bool_ | jax.Array) and bool(said)  # comparisons of arrays give these
        except Exception as error:  # a user's mistake must not cost them the run
            self.out.error, raised = error, f"{type(error).__name__}: {error}"
        stop, raised = said_by_first([stop, raised]) if self.together else (stop, raised)
        if raised:
            self.stop(Status.CALLBACK_RAISED, raised)
        elif stop:
            self.stop(Status.CALLBACK_STOPPED)
        return bool(stop or raised)

    # ---- how it ends -------------------------------------------------------------------------------------------------

    def stop(self, status: Status, message: str = "") -> None:
        """Say how the run ended."""
        self.out.status, self.out.message = status, message

    def stop_at_gap(self, status: Status, rounding: float) -> None:
        """End the run because of its gap, which the last row then has."""
        self.out.rows[-1]["gap"] = self.stopping.gap
        if status is Status.PRECISION:
            wide = float_dtype(self.ready.x) == np.float64
            remedy = _OTHER_UNITS if wide else ' Leave out precision="float32".'
            said = self._said(self.stopping, f", of which rounding is {rounding:.3g}")
            self.stop(status, said + remedy)
            return
        advice = f" {ADVICE}" * (status is Status.CONTRADICTION)
        self.stop(status, self.said_of_gap(self.stopping) + advice)

    def said_of_gap(self, stopping: Stopping) -> str:
        """The gap in a sentence, and what to do about a large one."""
        if stopping.at_the_end() is Status.FINISHED:
            return self._said(stopping)
        return self._said(stopping) + (self.said_of_interior() or self._remedy(stopping))

    def _said(self, stopping: Stopping, more: str = "") -> str:
        said = str(stopping) if stopping is self.stopping else str(stopping).replace("gap is", "gap is about")
        return f"{said[:1].upper()}{said[1:]} after {self.step:,} steps{more}."

    def _remedy(self, stopping: Stopping) -> str:
        """What would make the gap smaller, as far as it has shown."""
        looks = stopping.looks_to_go()
        if looks is None or not stopping.best or self.ready.sampler.n is None:
            return " Let tr.check_problem look at the problem: the gap has not fallen at a rate that would get there."
        more = max(1.0, looks * self.out.rows[-1]["passes"] / len(stopping.best))
        return f" At the rate of the second half of this run about {more:,.0f} passes more would do."

    def said_of_interior(self) -> str:
        """What is missing where it is proven that nothing lies strictly inside the constraints; empty where it is not."""
        return ""

    def spent(self, stopping: Stopping) -> None:
        """The budget has been spent: say what is known of the gap."""
        if stopping.gap == np.inf:
            self.stop(Status.NO_FEASIBLE_POINT, self.said_of_interior().strip())
        elif np.isfinite(stopping.gap):
            self.stop(stopping.at_the_end(), self.said_of_gap(stopping))

    def unreadable(self, error: Exception) -> None:
        """Stop where the samples cannot be read any further."""
        self.out.error = error
        said = str(error) if isinstance(error, UnreadableError) else f"{type(error).__name__}: {error}"
        self.stop(Status.STREAM_RAISED, f"After {self.step:,} steps: {said}")

    def is_sound(self, x: Tree) -> bool:
        """Whether all rows have finite values at a point. What is not at hand cannot be asked."""
        if self.ready.sampler.n is None:
            return True
        f, h = full_values(self.ready.problem, x, self.ready.sampler.rows)
        return bool(np.isfinite(f) and np.all(np.isfinite(h)))

    def not_finite(self, what: str, step: int, nowhere: bool) -> None:
        """Stop at a value that is not finite."""
        self.out.rows = [row for row in self.out.rows if row["step"] <= self.step]
        said = f"{what} is not finite in step {step:,}."
        self.stop(Status.NOT_FINITE, said + " Nor is it at the starting point: give an x0 where it is." * nowhere)

    def culprit(self, objective: float, h: Sequence[float] | np.ndarray, tracked: dict[str, Any]) -> str:
        """What was not finite."""
        if not np.isfinite(objective):
            return "The objective"
        for name, value in zip(self.ready.names, h, strict=True):
            if not np.isfinite(value):
                return f"The constraint {name}"
        for name, value in tracked.items():
            if not np.isfinite(value):
                return f"The tracked {name}"
        return "The gradient, the point or a multiplier"

    def save(self, state: Tree, step: int, bound: Sequence[float] = (), gaps: Sequence[float] = ()) -> None:
        """Write the checkpoint, where one is kept."""
        if self.checkpoint is None or not self.leads:
            return
        rows = [row for row in self.out.rows if row["step"] <= step]
        try:
            self.checkpoint.save(state, step=step, seconds=self.out.seconds, rows=rows, bound=bound, gaps=gaps)
        except (OSError, FileError) as error:
            # a full disk, or a folder that is gone, must not cost the run; the file of the last time is intact
            warnings.warn(f"The checkpoint could not be written ({error}); the run goes on.", stacklevel=2)
