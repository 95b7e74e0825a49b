"""A run that is fed: for samples that arrive in batches which the user holds, with no end known beforehand."""

import time
import warnings
from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tightrope._errors import refuse_after_fork, shown
from tightrope.aside import aside
from tightrope.certificate import Certificate
from tightrope.confidence.means import checked_confidence
from tightrope.evidence.at_a_point import conflict_of, worth_of_a_run
from tightrope.evidence.constraint_bounds import follow, read_ranges, sampled
from tightrope.evidence.watched_point import Watch
from tightrope.given import unmasked
from tightrope.loop.choose import Setting, automatic_for_a_fed_run, misfit, refuse_grids
from tightrope.loop.driver import Driver, NotFiniteError, OneRun, Position
from tightrope.loop.prepare import Prepared, cost_of, prepare, refuse_mean
from tightrope.loop.steps import GROUP, Carry, average, output, summarise
from tightrope.methods import Method
from tightrope.methods.base import title_of
from tightrope.precision import full_precision
from tightrope.problem import Problem
from tightrope.result import Result, Status, TotalCost
from tightrope.sampling import Buffer, Draws, Plan, Stream
from tightrope.sampling.rows import Arrays
from tightrope.sampling.sampler import block_length, filled, length
from tightrope.sampling.stream import Lately
from tightrope.sets.base import Shape, checked_point
from tightrope.tree import Tree, float_dtype

_MOST_STEPS = np.iinfo(np.int32).max  # of a run, and its horizon, at which no anytime method looks; derived
_WATCHED = 2048  # steps from which on multipliers are looked at, at every power of two (a guess)
_GROWING = 1.5  # times their mean at half of the steps: 2 where they grow steadily, 1 where settled; by hand


class Standing(NamedTuple):
    """Where a fed run stands."""

    carry: Carry
    step: np.ndarray  # steps taken
    waiting: Tree  # samples too few for a step; they open the next update


class Online:
    """A run that is fed by hand: one step per sample, in the order given, for as long as samples come.

    It takes the same steps as `minimize` on a `Stream` of the same samples, bit for bit, however they are cut into
    updates. Memory does not grow: the state is kept, and the last samples (up to 8,192), by which `result` measures the
    output. An update is taken whole or not at all: one that is interrupted, or meets a value that is not finite, leaves the
    run where it was. `print(run)` is a report. Where multipliers run off because no point satisfies all constraints, an
    update warns once.

    Args:
        problem: the problem.
        method: a method that needs no horizon (its `anytime` is true) and no look at all the data;
            `CSOA(anytime=True)` by default, which measures its own scales, `SplitCSOA(anytime=True)` where the domain
            has no cheap projection, and for nested problems `CSCGD(schedule="measured", anytime=True)`, whose steps take
            two samples.
        x0: where to start; the domain's own starting point by default.
        batch_size: samples a step; a pair gives separate sizes for objective and constraints. Samples left over wait for
            the next update.
        warm_start: a result of `minimize` whose last point and multipliers to start from.
        example: a batch of which only shapes and dtypes are read (it may have no rows). With it the problem is checked
            at once and `load_state_dict` can be called; otherwise the first update does this.

    Example:
        >>> import numpy as np, tightrope as tr
        >>> problem = tr.Problem(
        ...     objective=lambda x, theta: ((x - theta) ** 2).sum() / 2,
        ...     constraints=lambda x, theta: x[:1],
        ...     domain=tr.L2Ball(2.0, shape=2),
        ...     levels=0.5,
        ... )
        >>> run = tr.Online(problem)
        >>> rng = np.random.default_rng(0)
        >>> for _ in range(3):
        ...     batch = rng.normal(1.0, 1.0, size=(1000, 2)).astype(np.float32)
        ...     run.update(batch)
        >>> run.step, bool(run.average[0] < 0.55)
        (3000, True)

        What the point x reached by now is worth, as later samples show; one may look after every update:

        >>> run.certify(ranges=(-2.0, 2.0))
        >>> run.update(rng.normal(1.0, 1.0, size=(1000, 2)).astype(np.float32))
        >>> run.certificate.samples
        1000
    """

    def __init__(
        self,
        problem: Problem,
        method: Method | None = None,
        x0: Tree = None,
        *,
        batch_size: int | tuple[int, int] = 1,
        warm_start: Result | None = None,
        example: Tree = None,
    ):
        method = automatic_for_a_fed_run(problem.domain, problem.nested) if method is None else method
        _check_method(method, problem)
        self._asked: dict[str, Any] = {
            "problem": problem, "method": method, "x0": x0, "batch_size": batch_size, "warm_start": warm_start,
        }  # fmt: skip
        self._ready: Prepared | None = None
        self._standing: Standing | None = None
        self._kept: dict[str, Any] | None = None  # what a pickle brought, until it is needed
        self._watch: Watch | None = None
        self._seen: Lately | None = None
        self._then: np.ndarray | None  # the multipliers at the last power of two
        self._seconds, self._then, self._warned = 0.0, None, False
        if example is not None:
            self._begin(_as_batch(example))

    @full_precision
    def update(self, batch: Tree) -> None:
        """Take a step on every sample of a batch, a pytree of arrays with one sample per row.

        Raises:
            FloatingPointError: at a value that is not finite; the run stays where it was before the update.
        """
        refuse_after_fork()
        with aside(self, even_after=FloatingPointError) as new:
            said = new._take(_as_batch(batch))
        if said:
            warnings.warn(said, stacklevel=3)

    def _take(self, rows: Tree) -> str:
        """Take the steps; gives a sentence to warn of, or an empty one."""
        begun = time.perf_counter()
        ready, (carry, step, waiting) = self._begin(rows)
        rows = _join(waiting, rows)
        a_step = ready.plan.draws * ready.plan.batch_size
        first, kept = int(step), length(waiting)
        end = first + length(rows) // a_step
        if end > _MOST_STEPS:
            raise ValueError(f"Online: {end:,} steps are more than 2^31 - 1. Start another run from this one.")
        driver, position = Driver(OneRun(ready), _Given(rows, first, ready.plan)), Position(carry, first)
        try:
            while position.step < end:
                position = driver.chunk(position, end)
        except NotFiniteError as error:
            self._refuse(error.step - first - 1, a_step, kept)
        if self._watch is not None:
            self._watch = self._watch.after(ready.problem, _cut(rows, kept, None))
        self._standing = Standing(position.carry, np.asarray(end), _copy(_cut(rows, (end - first) * a_step, None)))
        self._seen = Lately(Arrays(rows).bytes_a_row) if self._seen is None else self._seen.copy()
        self._seen.add(_cut(rows, 0, (end - first) * a_step))
        looks = end >= _WATCHED and first.bit_length() < end.bit_length()
        said = self._look_at_multipliers() if looks else ""
        self._seconds += time.perf_counter() - begun
        return said

    def _look_at_multipliers(self) -> str:
        """A sentence where they still grow and samples show that no point satisfies all constraints; once."""
        then, self._then = self._then, self.dual
        if not self._warned and then is not None and np.any(self._then > _GROWING * then):
            found = self.result()
            if found.status is Status.INFEASIBLE_IN_SAMPLES:
                self._warned = True
                return f"Online: {found.message} The multipliers run off."
        return ""

    @full_precision
    def result(self) -> Result:
        """The run as it stands, with the report that `minimize` gives: what `x` is worth on the last samples, whether
        neighbours among them are alike, and whether they show that no point satisfies all constraints."""
        import pandas as pd

        standing, method = self._known("result"), self._method
        ready, step = self._ready, self.step
        assert ready is not None
        sums = summarise(standing.carry.totals.scalars, len(ready.names), ())
        worth = worth_of_a_run(ready.problem, self.x, None if self._seen is None else self._seen.last(), sums)
        dual = self.dual if method.facts.multipliers else np.full(len(ready.names), np.nan)
        conflict = None
        if step and np.any(worth.constraints > 0):
            conflict = conflict_of(ready.problem, self.x, dual, ready.sampler, 0, ready.names, worth)
        notes = (*ready.notes, method.steps.said(standing.carry.state, ready.names) if step else None, worth.note)
        cost = cost_of(method, ready.problem.domain, step, ready.plan.batch_size, 0)
        return Result(
            x=self.x,
            output=method.facts.output,
            mean=self.average if method.facts.averages else None,
            last=self.last,
            dual=dual,
            dual_last=self.dual_last,
            objective=worth.objective if ready.problem.knows_objective else None,
            constraints=pd.Series(worth.constraints, index=pd.Index(ready.names, dtype=object)),
            measured_on=worth.measured_on,
            point="where the run stands",
            status=Status.FED if conflict is None else Status.INFEASIBLE_IN_SAMPLES,
            message=conflict or "",
            trace=pd.DataFrame(),
            cost=TotalCost(step, *cost, self._seconds),
            state=standing.carry.state,
            method=method,
            objective_error=worth.objective_error if ready.problem.knows_objective else None,
            errors=pd.Series(worth.errors, index=pd.Index(ready.names, dtype=object)),
            at_random=True,
            notes=tuple(note for note in notes if note),
        )

    def __str__(self) -> str:
        self._unpack()
        return repr(self) if self._standing is None else str(self.result())

    def __repr__(self) -> str:
        return f"Online({title_of(self._method)}, {self.step:,} steps)"

    def certify(self, point: Tree = None, *, ranges: Any = None, confidence: float = 0.95) -> None:
        """From now on, watch a point: every sample that passes also judges it, before and apart from the steps.

        The point is fixed, and it was chosen before the samples that judge it; the run itself goes on. `certificate` says
        what is known, at any time and as often as one likes: with probability `confidence` none of the certificates of any
        point this run ever watches is wrong. Of the error 1/2 is spent on the first point, 1/6 on the second, 1/12 on the
        third, so that watching one after the other until one looks good is not free.

        Args:
            point: `x` as it stands by default.
            ranges: of h for every possible sample, as for `tr.certify`; bounds for all times need them where they do not
                follow from the program of h.
            confidence: that no certificate of this run is ever wrong.
        """
        self._known("certify")
        assert self._ready is not None
        ready, x = self._ready, self.x if point is None else point
        fixed = checked_point("point", x, Shape.of(ready.x), float_dtype(ready.x))
        fixed = jax.tree.map(jnp.array, fixed)  # a copy: the user may change what was given
        number = 1 if self._watch is None else self._watch.number + 1
        given = read_ranges(ranges, ready.names)
        known, _ = follow(sampled(ready.problem), fixed, ready.sampler.example(), given)
        self._watch = Watch.begin(ready.problem, fixed, ready.names, known, checked_confidence(confidence), number)

    @property
    def certificate(self) -> Certificate:
        """What the samples since `certify` show of the point it fixed."""
        self._unpack()
        if self._watch is None or self._ready is None:
            raise ValueError("Online: no point is watched; call certify first, which fixes one.")
        return self._watch.certificate(self._ready.names)

    @property
    def x(self) -> Tree:
        """The method's output: its average, or whichever point it gives back; before the first step, the start."""
        standing = self._known("x")
        return output(self._method, standing.carry) if standing.step else standing.carry.state.x

    @property
    def average(self) -> Tree:
        """The method's weighted mean of the iterates; before the first step, the starting point."""
        standing = self._known("average")
        refuse_mean(self._method)
        return average(standing.carry) if standing.step else standing.carry.state.x

    @property
    def _method(self) -> Method:
        return self._asked["method"]

    @property
    def last(self) -> Tree:
        """The iterate after the last step; before the first one, the starting point."""
        return self._known("last").carry.state.x

    @property
    def dual(self) -> np.ndarray:
        """The mean of the multipliers; before the first step, those it starts from."""
        carry, step, _ = self._known("dual")
        return summarise(carry.totals.scalars, carry.state.lam.size, ()).lam if step else self.dual_last

    @property
    def dual_last(self) -> np.ndarray:
        """The multipliers after the last step; before the first one, those it starts from."""
        return np.asarray(self._known("dual_last").carry.state.lam)

    @property
    def step(self) -> int:
        """How many steps were taken."""
        self._unpack()
        return 0 if self._standing is None else int(self._standing.step)

    @property
    def samples(self) -> int:
        """How many samples they used; those that wait for a full batch are not counted."""
        self._unpack()
        return 0 if self._ready is None else self.step * self._ready.plan.draws * self._ready.plan.batch_size

    def state_dict(self) -> dict[str, np.ndarray]:
        """Everything the run is, as plain arrays by name: for `numpy.savez`, safetensors or a dict of one's own.

        A point that is watched is no part of it; a pickle has that too.
        """
        leaves = jax.tree_util.tree_leaves_with_path(self._known("state_dict"))
        return {_name(path): np.array(leaf) for path, leaf in leaves}

    def load_state_dict(self, arrays: dict[str, np.ndarray]) -> None:
        """Stand where another run of the same problem, method and batch size stood when it gave `arrays`."""
        if not isinstance(arrays, Mapping) or not all(isinstance(name, str) for name in arrays):
            raise TypeError(f"Online: the arrays are {shown(arrays)}; expected a dict such as `state_dict` gives.")
        paths, structure = jax.tree_util.tree_flatten_with_path(self._known("load_state_dict"))
        own = {_name(path): leaf for path, leaf in paths}
        if set(arrays) != set(own):
            differ = ", ".join(sorted(set(arrays) ^ set(own)))
            raise ValueError(
                f"Online: the arrays differ from this run's in {differ}; expected those of a run like this."
            )
        for name, leaf in own.items():
            given, waits = np.asarray(arrays[name]), name.startswith("waiting")
            shapes = (given.shape[waits:], np.shape(leaf)[waits:])  # of waiting samples there may be any number
            if shapes[0] != shapes[1] or given.dtype != leaf.dtype:
                raise ValueError(
                    f"Online: {name} is {given.dtype} of shape {given.shape}; expected {leaf.dtype} of shape "
                    f"{np.shape(leaf)}, as in this run."
                )
        standing: Standing = jax.tree.unflatten(structure, [np.array(arrays[name]) for name in own])
        self._standing = standing._replace(carry=jax.tree.map(jnp.asarray, standing.carry))

    def __getstate__(self) -> dict[str, Any]:
        """For pickle: what was asked for, and the arrays."""
        if self._standing is None:
            return {"asked": self._asked, "kept": self._kept, "watch": self._watch, "seen": self._seen}
        kept = {"like": _cut(self._standing.waiting, 0, 0), "arrays": self.state_dict()}
        return {"asked": self._asked, "kept": kept, "watch": self._watch, "seen": self._seen}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """The run stands where it stood once it is used, in whatever precision is then in force."""
        self._asked, self._kept, self._ready, self._standing = state["asked"], state["kept"], None, None
        self._watch, self._seen = state["watch"], state.get("seen")
        self._seconds, self._then, self._warned = 0.0, None, False

    # ---- inside ------------------------------------------------------------------------------------------------

    def _begin(self, rows: Tree) -> tuple[Prepared, Standing]:
        """What a run starts from, once a batch shows what samples look like."""
        self._unpack()
        if self._ready is None or self._standing is None:
            like = Stream([jax.tree.map(lambda a: np.zeros((1, *a.shape[1:]), a.dtype), rows)])  # read for its shapes
            ready = prepare(data=like, steps=_MOST_STEPS, passes=None, seeds=(0,), endless=True, **self._asked)
            self._ready = ready
            self._standing = Standing(OneRun(ready).start(), np.asarray(0), _copy(_cut(rows, 0, 0)))
        return self._ready, self._standing

    def _unpack(self) -> None:
        if self._kept is not None:
            with aside(self) as new:
                kept, new._kept = new._kept, None
                assert kept is not None
                new._begin(kept["like"])
                new.load_state_dict(kept["arrays"])

    def _known(self, what: str) -> Standing:
        self._unpack()
        if self._standing is None:
            raise ValueError(f"Online: {what} is not known before the first update; call update, or give an example.")
        return self._standing

    def _refuse(self, bad: int, a_step: int, kept: int) -> None:
        """Say which samples of this update met a value that is not finite; `bad` counts its steps from 0."""
        low, high = bad * a_step - kept, (bad + 1) * a_step - kept - 1
        rows = f"row {high}" if low == high else f"rows {max(low, 0)} to {high}"
        said = "The run stays where it was before this update; drop or repair the samples and update again."
        if low < 0:  # kept for ever, they would fail every update to come
            assert self._standing is not None
            self._standing = self._standing._replace(waiting=_copy(_cut(self._standing.waiting, 0, 0)))
            rows, said = f"{rows} and {-low} kept from before", f"The samples kept from before are dropped. {said}"
        raise FloatingPointError(
            f"Online: a value, a gradient or the point is not finite in step {self.step + bad + 1:,}, on {rows} of the "
            f"batch (counted from 0). {said}"
        )


class _Given(Draws):
    """The samples of an update, for the steps from `first` on."""

    def __init__(self, rows: Tree, first: int, plan: Plan):
        self.rows, self.first, self.plan = rows, first, plan
        self.rows_a_step = plan.draws * plan.batch_size
        self.longest = max(GROUP, block_length(Arrays(rows).bytes_a_row * self.rows_a_step))

    def take(self, t: int, count: int) -> Buffer:
        """A buffer filled up to a power of two, of groups at least, so that few programs are compiled."""
        steps, begin = min(count, self.longest), (t - self.first) * self.rows_a_step
        rows = _cut(self.rows, begin, begin + steps * self.rows_a_step)
        return filled(rows, steps, self.plan, max(GROUP, 1 << (steps - 1).bit_length()))


def _check_method(method: Any, problem: Problem) -> None:
    """Refuse what a run without an end and without its data at hand cannot do, before the first batch comes."""
    if not isinstance(method, Method):
        raise TypeError(f"Online: method is {method!r}; expected a method object such as tr.CSOA(anytime=True).")
    sentence = misfit(method, Setting(problem.domain, rows=False, nested=problem.nested, endless=True))
    if sentence is not None:
        raise TypeError(f"Online: {sentence}")
    refuse_grids(method)


def _as_batch(batch: Tree) -> Tree:
    """The batch as NumPy arrays, in dtypes that compiled code has."""
    arrays = jax.tree.map(lambda part: np.asarray(unmasked("Online: a part of the batch", part)), batch)
    shapes = [a.shape for a in jax.tree.leaves(arrays)]
    if not shapes or () in shapes or len({shape[0] for shape in shapes}) > 1:
        raise ValueError(
            f"Online: a batch has arrays of shapes {shapes}; expected arrays with one row per sample, as many in each."
        )
    for a in jax.tree.leaves(arrays):
        if not (jnp.issubdtype(a.dtype, np.number) or a.dtype == np.bool_):
            raise TypeError(f"Online: an array of dtype {a.dtype} was given; expected numbers. Encode text first.")
    return jax.tree.map(lambda a: a.astype(jax.dtypes.canonicalize_dtype(a.dtype), copy=False), arrays)


def _join(waiting: Tree, rows: Tree) -> Tree:
    """The waiting samples, then the new ones, which must look like them."""
    old, new = (jax.tree.map(lambda a: f"{a.dtype}{list(a.shape[1:])}", tree) for tree in (waiting, rows))
    if jax.tree.structure(waiting) != jax.tree.structure(rows) or not all(
        b.shape[1:] == a.shape[1:] and np.can_cast(b.dtype, a.dtype, "same_kind")
        for a, b in zip(jax.tree.leaves(waiting), jax.tree.leaves(rows), strict=True)
    ):
        raise ValueError(f"Online: a batch has samples {new}; expected {old}, as before.")
    rows = jax.tree.map(lambda a, b: b.astype(a.dtype, copy=False), waiting, rows)
    return jax.tree.map(lambda a, b: np.concatenate([a, b]), waiting, rows) if length(waiting) else rows


def _cut(rows: Tree, low: int, high: int | None) -> Tree:
    return jax.tree.map(lambda a: a[low:high], rows)


def _copy(rows: Tree) -> Tree:
    """Copies, which do not keep the arrays alive that they were cut from."""
    return jax.tree.map(np.array, rows)


def _name(path: Any) -> str:
    return jax.tree_util.keystr(path, simple=True, separator=".")
