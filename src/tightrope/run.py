"""THE loop. It knows no algorithm, no set, no estimator.

Compiled inside, Python outside: `advance` takes a chunk of steps in one compiled call; between chunks plain Python
records, checks that everything is finite, draws the progress bar, calls back, reads the clock, writes the checkpoint.
A chunk has a buffer of fixed length and a dynamic number of steps, so nothing but a new shape compiles again.
"""

import dataclasses
import time
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np

from tightrope._tree import Array, Mean, Tree, all_finite
from tightrope.checkpoint import Checkpoint
from tightrope.full_data import full_values
from tightrope.methods import Info, Method, gradients_used
from tightrope.prepare import Prepared
from tightrope.problem import Problem, Split
from tightrope.progress import Progress
from tightrope.result import Status
from tightrope.sampling import Buffer, Draws, Rows, Sampler

# ---- inside: compiled -----------------------------------------------------------------------------------------------


_GROUP = 64  # steps summed before rounding is made up for


class Totals(NamedTuple):
    """Weighted sums over the steps taken, compensated for rounding."""

    x: Mean  # of the iterates
    scalars: Mean  # of (1, f, h, lam, tracked) as one vector: one small operation a step instead of five


class Carry(NamedTuple):
    """Everything a run is: the method's state and the sums."""

    state: Any
    totals: Totals


class Layout(NamedTuple):
    """What changes the compiled program."""

    sizes: tuple[int, int] | None = None  # separate batch sizes for objective and constraints
    track: Callable[[Tree], dict[str, Array]] | None = None  # functions of the iterate to average along the run


@partial(jax.jit, static_argnames="layout")
def start(method: Method, problem: Problem, x: Tree, lam: Array, horizon: Array, layout: Layout) -> Carry:
    """The carry before the first step."""
    info = Info(x, lam, jnp.zeros((), lam.dtype), jnp.zeros_like(lam))
    sums = Totals(Mean.zeros_like(x), Mean.zeros_like(_scalars(info, layout)))
    return Carry(method.init(problem, x, lam, horizon), sums)


def take_steps(
    method: Method,
    problem: Problem,
    sampler: Sampler,
    carry: Carry,
    items: Tree,
    offset: Array,
    first: Array,
    count: Array,
    layout: Layout,
) -> Carry:
    """Steps first .. first+count-1 (counted from 0), on the samples from `offset` on in the buffer.

    Sums are closed every `_GROUP` steps of the run, wherever chunks begin and end, so that their rounding does not depend
    on it. Whole groups are loops of known length: for a loop of unknown length an accelerator asks the host before every
    round, and waits. What a chunk has before its first whole group and after its last one takes the slower loop.
    """

    def one(i, carry: Carry) -> Carry:
        theta = _samples(sampler, method, items, offset - first + i, layout)
        state, info = method.step(problem, carry.state, theta)
        weighted = jax.tree.map(lambda v: info.weight * v, info.x)
        sums = Totals(carry.totals.x.add(weighted), carry.totals.scalars.add(_scalars(info, layout)))
        return Carry(state, sums)

    def close(carry: Carry) -> Carry:
        return carry._replace(totals=Totals(*(mean.close_group() for mean in carry.totals)))

    def part_of_group(low, high, carry: Carry) -> Carry:
        carry = jax.lax.fori_loop(low, high, one, carry)
        closed = (high > low) & (high % _GROUP == 0)
        return jax.tree.map(lambda a, b: jnp.where(closed, a, b), close(carry), carry)

    def whole_group(k, carry: Carry) -> Carry:
        return close(jax.lax.fori_loop(0, _GROUP, lambda i, carry: one(k * _GROUP + i, carry), carry))

    last = first + count
    begin = jnp.minimum(-(-first // _GROUP) * _GROUP, last)  # of the first whole group
    end = jnp.maximum(last // _GROUP * _GROUP, begin)  # of the last one

    def head_then_tail(i, carry: Carry) -> Carry:  # one loop body instead of two: half the time to compile
        carry = part_of_group(jnp.where(i == 0, first, end), jnp.where(i == 0, begin, last), carry)
        return jax.lax.fori_loop(begin // _GROUP, jnp.where(i == 0, end // _GROUP, 0), whole_group, carry)

    return jax.lax.fori_loop(0, 2, head_then_tail, carry)


@partial(jax.jit, static_argnames="layout")
def advance(method, problem, sampler, carry, items, offset, first, count, layout: Layout) -> tuple[Carry, Array]:
    """`take_steps` for one run, and whether everything is still finite."""
    items = jax.tree.map(lambda a: a[0], items)  # the axis of seeds
    carry = take_steps(method, problem, sampler, carry, items, offset, first, count, layout)
    return carry, all_finite(carry)


@jax.jit
def _refresh(method: Method, problem: Problem, state: Any, data: Tree) -> Any:
    return method.refresh(problem, state, data)


def _samples(sampler: Sampler, method: Method, items: Tree, t: Array, layout: Layout) -> Tree:
    """Step t's batch, or one batch for each of the independent draws the method asks for."""

    def batch(draw: int) -> Tree:
        theta = sampler.pick(jax.tree.map(lambda a: a[t, draw], items))
        if layout.sizes is None:
            return theta
        return Split(*(jax.tree.map(lambda a, b=b: a[:b], theta) for b in layout.sizes))

    return batch(0) if method.draws == 1 else tuple(batch(draw) for draw in range(method.draws))


def _scalars(info: Info, layout: Layout) -> Array:
    tracked = () if layout.track is None else jax.tree.leaves(layout.track(info.x))
    dtype = info.lam.dtype
    heads = jnp.stack([jnp.ones((), dtype), info.f.astype(dtype), *(jnp.asarray(v, dtype) for v in tracked)])
    return info.weight * jnp.concatenate([heads, info.h.astype(dtype), info.lam])


class Summary(NamedTuple):
    """The running means, on the host; of one run or, with leading axes, of many."""

    objective: Any
    h: np.ndarray
    lam: np.ndarray
    tracked: dict[str, Any]


def summarise(scalars: Mean, n: int, track_names: Sequence[str]) -> Summary:
    """Unpack the sums of runs with `n` constraints; NaN where nothing was summed yet."""
    sums = np.asarray(scalars.total, float) + np.asarray(scalars.recent, float)
    weight = sums[..., :1]
    means = sums / np.where(weight > 0, weight, np.nan)
    k = sums.shape[-1] - 2 * n
    tracked = {name: means[..., 2 + i] for i, name in enumerate(track_names)}
    return Summary(means[..., 1], means[..., k : k + n], means[..., k + n :], tracked)


def track_names(layout: Layout, x: Tree) -> list[str]:
    """The names of what is tracked, in the order in which it is packed."""
    if layout.track is None:
        return []
    tracked = jax.eval_shape(layout.track, x)
    if not isinstance(tracked, dict) or any(getattr(v, "shape", None) != () for v in tracked.values()):
        raise ValueError(f"track returns {tracked}; expected a dict of scalars, name by name.")
    return sorted(tracked)


@jax.jit
def average(carry: Carry) -> Tree:
    """The weighted mean of the iterates so far."""
    weight = carry.totals.scalars.sum()[0]
    return jax.tree.map(lambda total: total / jnp.where(weight > 0, weight, 1), carry.totals.x.sum())


def output(method: Method, carry: Carry, which: str | None = None) -> Tree:
    """The point a run is judged by: the method's own choice, or "average" or "last"."""
    which = which or method.output
    if which == "average":
        return average(carry)
    return carry.state.x if which == "last" else method.answer(carry.state)[0]


# ---- outside: Python ------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Options:
    """Run-wide options; every one of them is an argument of `minimize`."""

    record: int = 60
    trace_full: bool = False
    callback: Callable[["Snapshot"], Any] | None = None
    progress: bool | None = None
    time_limit: float | None = None
    tol: float | None = None
    inner: Any = None  # (F, H) of a strictly feasible point, for the duality gap
    chunk: int | None = None


class Snapshot(NamedTuple):
    """What a callback sees."""

    step: int
    average: Tree
    last: Tree
    dual: np.ndarray
    row: dict[str, float]


class Position(NamedTuple):
    """Where a run stands; replaced whole, so that an interrupt never sees half of it."""

    carry: Carry
    step: int


@dataclasses.dataclass
class Outcome:
    """Where a run ended and how."""

    position: Position
    rows: list[dict[str, float]]
    seconds: float
    status: Status = Status.FINISHED
    message: str = ""
    error: BaseException | None = None


def record_steps(steps: int, points: int) -> list[int]:
    """Steps worth a row of the trace: half spread evenly, half in ratio, and the last one."""
    half = max(1, points // 2)
    even = np.linspace(steps / half, steps, half)
    ratio = np.geomspace(1, steps, half)
    at = np.maximum(np.round(np.concatenate([even, ratio])), 1).astype(int).tolist() if points else []
    return sorted({steps, *at})


def run(
    ready: Prepared, carry: Carry, options: Options, layout: Layout, checkpoint: Checkpoint | None = None
) -> Outcome:
    """Take steps until they are all taken or something ends the run; what there is then is always returned."""
    loop = _Loop(ready, options, layout, Outcome(Position(carry, 0), [], 0.0), checkpoint)
    if checkpoint is not None and checkpoint.exists():
        loop.resume()
    with Progress(ready.steps, options.progress) as bar:
        try:
            loop.go(bar)
        except KeyboardInterrupt:
            loop.stop(Status.INTERRUPTED)
    loop.save()
    return loop.out


class _Loop:
    """The loop's moving parts."""

    def __init__(self, ready: Prepared, options: Options, layout: Layout, out: Outcome, checkpoint: Checkpoint | None):
        self.problem, self.sampler, self.method = ready.problem, ready.sampler, ready.method
        self.steps, self.plan, self.names = ready.steps, ready.plan, ready.names
        self.options, self.layout, self.out, self.checkpoint = options, layout, out, checkpoint
        self.track_names = track_names(layout, ready.x)
        self.records = record_steps(self.steps, options.record)
        self.gap = float("nan")  # known after the first refresh, where one was asked for
        self.pace = 64  # steps a chunk may take, until their speed is known

    def go(self, bar: Progress) -> None:
        """Chunk after chunk."""
        draws = self.sampler.open(self.plan)
        before, began = self.out.seconds, time.perf_counter()
        while self.out.position.step < self.steps:
            position, chunk_began = self.out.position, time.perf_counter()
            ready = self._refreshed(position, bar)
            if ready is None:
                return
            buffer = self._take(draws, position.step)
            if buffer is None:
                return
            carry, finite = self._advance(ready, buffer, buffer.steps)
            if not finite:
                self._back_to_last_good(ready, buffer)
                return
            self.out.position = Position(carry, position.step + buffer.steps)
            now = time.perf_counter()
            self.out.seconds = before + now - began
            self._set_pace(buffer.steps / (now - chunk_began))
            if self.out.position.step in self.records and self._record(bar):
                return
            if self.options.time_limit is not None and now - began >= self.options.time_limit:
                finished = self.out.position.step >= self.steps
                self.stop(Status.FINISHED if finished else Status.TIME_LIMIT)
                return
            if self.checkpoint is not None and self.checkpoint.due(self.out.position.step):
                self.save()

    def _take(self, draws: Draws, step: int) -> Buffer | None:
        """Samples for the next chunk; None, and the run stopped, where there are none or reading them failed."""
        try:
            buffer = draws.take(step, self._until_boundary(step))
        except Exception as error:  # of a user's stream: it must not cost them the run
            self.out.error = error
            self.stop(Status.STREAM_RAISED, f"After {step:,} steps: {type(error).__name__}: {error}")
            return None
        if buffer.steps == 0:
            self.stop(Status.STREAM_ENDED, f"The stream gave samples for {step:,} steps.")
            return None
        return buffer

    def _set_pace(self, steps_a_second: float) -> None:
        """Chunks of about half a second at most: nobody waits longer for Ctrl-C, a time limit or the bar."""
        self.pace = int(np.clip(steps_a_second / 2, max(1, self.pace // 8), self.pace * 8))

    def _until_boundary(self, step: int) -> int:
        """How many steps may be taken before Python has something to do."""
        ends = [next(r for r in self.records if r > step), step + self.pace]
        every = [self.method.refresh_every, self.checkpoint and self.checkpoint.every_steps]
        ends += [(step // k + 1) * k for k in every if k]
        ends += [step + self.options.chunk] if self.options.chunk else []
        return min(ends) - step

    def _refreshed(self, position: Position, bar: Progress) -> Carry | None:
        """After a look at all the data where one is due; kept only with the chunk that follows, so an interrupted
        refresh is simply redone. None, and the run stopped, where it shows that the tolerance is met."""
        every = self.method.refresh_every
        if not every or position.step % every:
            return position.carry
        assert isinstance(self.sampler, Rows)
        state = _refresh(self.method, self.problem, position.carry.state, self.sampler.data)
        ready = position.carry._replace(state=state)
        if self.options.tol is not None:
            self.gap = float(cast(Array, self.method.gap(state, self.options.inner)))
            if self.gap <= self.options.tol and position.step:
                self.out.position = Position(ready, position.step)
                if not self.out.rows or self.out.rows[-1]["step"] < position.step:
                    self._record(bar)
                self.out.rows[-1]["gap"] = self.gap
                self.stop(Status.TOLERANCE, f"The gap is {self.gap:.3g} after {position.step:,} steps.")
                return None
        return ready

    def _advance(self, carry: Carry, buffer: Buffer, count: int) -> tuple[Carry, bool]:
        where = np.int32(buffer.offset), np.int32(self.out.position.step), np.int32(count)
        carry, finite = advance(
            self.method, self.problem, self.sampler, carry, buffer.items, *where, layout=self.layout
        )
        return carry, bool(finite)

    def _back_to_last_good(self, carry: Carry, buffer: Buffer) -> None:
        """Bisect for the first bad step: NaNs never leave the sums, and the same steps give the same values."""
        good, bad = 0, buffer.steps
        while bad - good > 1:
            middle = (good + bad) // 2
            good, bad = (middle, bad) if self._advance(carry, buffer, middle)[1] else (good, middle)
        first = self.out.position.step
        broken, _ = self._advance(carry, buffer, bad)
        self.out.position = Position(
            self._advance(carry, buffer, good)[0] if good else self.out.position.carry, first + good
        )
        self.stop(Status.NOT_FINITE, f"{self._culprit(broken)} is not finite in step {first + bad:,}.")

    def _culprit(self, carry: Carry) -> str:
        sums = summarise(carry.totals.scalars, len(self.names), self.track_names)
        if not np.isfinite(sums.objective):
            return "The objective"
        for name, value in zip(self.names, sums.h, strict=True):
            if not np.isfinite(value):
                return f"The constraint {name}"
        for name, value in sums.tracked.items():
            if not np.isfinite(value):
                return f"The tracked {name}"
        return "The gradient, the point or a multiplier"

    def _record(self, bar: Progress) -> bool:
        """Add a row to the trace, show it, call back; True when the callback ends the run."""
        carry, step = self.out.position
        sums = summarise(carry.totals.scalars, len(self.names), self.track_names)
        row: dict[str, float] = {"step": step, "samples": step * self.plan.draws * self.plan.batch_size}
        if isinstance(self.sampler, Rows):
            row["passes"] = gradients_used(self.method, step, self.plan.batch_size, self.sampler.n) / self.sampler.n
        row["seconds"] = self.out.seconds
        if self.options.tol is not None:
            row["gap"] = self.gap
        if self.problem.knows_objective:
            row["objective"] = float(sums.objective)
        row |= dict(zip(self.names, sums.h.tolist(), strict=True))
        row |= {f"dual {name}": v for name, v in zip(self.names, sums.lam.tolist(), strict=True)}
        row |= {name: float(value) for name, value in sums.tracked.items()}
        if self.options.trace_full and isinstance(self.sampler, Rows):
            f, h = full_values(self.problem, average(carry), self.sampler.data)
            row |= {"full objective": float(f)} if self.problem.knows_objective else {}
            row |= {f"full {name}": float(v) for name, v in zip(self.names, h, strict=True)}
        self.out.rows.append(row)
        bar.show(step, sums.objective if self.problem.knows_objective else None, sums.h)
        return self._call_back(row)

    def _call_back(self, row: dict[str, float]) -> bool:
        if self.options.callback is None:
            return False
        carry, step = self.out.position
        try:
            said = self.options.callback(
                Snapshot(step, average(carry), carry.state.x, np.asarray(carry.state.lam), row)
            )
            stop = isinstance(said, bool | np.bool_ | jax.Array) and bool(said)  # comparisons of arrays give these
        except Exception as error:  # a user's mistake must not cost them the run
            self.out.error = error
            self.stop(Status.CALLBACK_RAISED, f"{type(error).__name__}: {error}")
            return True
        if stop:
            self.stop(Status.CALLBACK_STOPPED)
        return stop

    def stop(self, status: Status, message: str = "") -> None:
        """Say how the run ended."""
        self.out.status, self.out.message = status, message

    def save(self) -> None:
        """Write the checkpoint, where one is kept."""
        if self.checkpoint is not None:
            carry, step = self.out.position
            try:
                self.checkpoint.save(carry, step=step, seconds=self.out.seconds, rows=self.out.rows)
            except OSError as error:  # a full disk must not cost the run; the file of the last time is intact
                warnings.warn(f"The checkpoint could not be written ({error}); the run goes on.", stacklevel=2)

    def resume(self) -> None:
        """Go on where the checkpoint stands."""
        assert self.checkpoint is not None
        saved = self.checkpoint.load(self.out.position.carry)
        self.out.position, self.out.rows, self.out.seconds = (
            Position(saved.carry, saved.step),
            saved.rows,
            saved.seconds,
        )
