"""Many methods, coefficients, levels and seeds in few compiled calls: hyperparameters are leaves, a sweep is a vmap."""

import dataclasses
import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from tightrope._errors import plain_errors, whole_number
from tightrope._jaxlib import compiled
from tightrope._limits import MOST_ROWS, at_most
from tightrope.columns import of_constraints, of_means, on_all_rows, refuse_taken
from tightrope.loop.driver import Driver, Position, refresh_period
from tightrope.loop.prepare import Prepared, prepare
from tightrope.loop.record import Progress
from tightrope.loop.steps import Carry, Variant, output, start, summarise, take_steps, track_names
from tightrope.methods import Method
from tightrope.methods.base import Algorithm, title_of
from tightrope.precision import digits, handed_out
from tightrope.problem import Problem, full_values
from tightrope.sampling import Buffer, as_sampler
from tightrope.solvers import Look, NotFiniteLook, Solver
from tightrope.tree import Array, Mean, Tree, bytes_of, replace

if TYPE_CHECKING:
    import pandas as pd


@plain_errors()
def sweep(
    problem: Problem,
    data: Any,
    methods: Algorithm | Mapping[str, Algorithm],
    *,
    steps: int | None = None,
    passes: float | None = None,
    seeds: Iterable[int] = (0,),
    levels: Sequence[float] | np.ndarray | None = None,
    batch_size: int | tuple[int, int] | None = None,
    x0: Tree = None,
    record: int | Sequence[int] = 1,
    track: Callable[[Tree], dict[str, Array]] | None = None,
    points: bool = False,
    progress: bool | None = None,
    memory: int = 2**30,
    mesh: Mesh | None = None,
    precision: str | None = None,
) -> "pd.DataFrame":
    """Run every method with every combination of its coefficients, at every level, from every seed.

    A coefficient given as an array is a grid; several grids are combined. All combinations of one method run side by
    side in one compiled program, in slices that fit `memory`; the samples are drawn once per seed and shared. Solvers, which
    draw none, run one after the other, once for all seeds.

    Args:
        problem, data, steps, passes, batch_size, x0, track, precision: as for `minimize`.
        methods: a method, or several by name, e.g. `{"csoa": tr.CSOA(eta0=np.array([0.1, 1.0, 10.0]))}`.
        seeds: which seeds.
        levels: a grid of levels: L numbers, or an (L, N) array; the problem's own by default.
        record: the steps at which to record, or how many of them, evenly spread; by default the last only.
        points: also a column "x", the methods' outputs themselves.
        progress: a progress bar; by default only on a terminal or in a notebook.
        memory: bytes that the states of one slice may take, on each device.
        mesh: devices of this process, a `jax.sharding.Mesh`, among which the combinations are shared out; by default all
            are computed where JAX computes. The data are then copied to each of them.

    Returns:
        A tidy DataFrame with a row per method, combination, level, seed and recorded step. Columns: method, the
        coefficients, level (where swept), seed, step, samples, objective and the constraints by name (running means
        over the samples), "dual ..." (mean multipliers), what `track` gives, and for rows "full ..." (objective and
        constraints of the method's output on all rows).

    Example:
        >>> import numpy as np, tightrope as tr
        >>> problem = tr.Problem(lambda x, theta: ((x - theta) ** 2).sum(), None, tr.L2Ball(1.0, shape=2))
        >>> table = tr.sweep(problem, np.ones((50, 2)), tr.CSOA(eta0=np.array([0.1, 1.0])), steps=20, seeds=range(3))
        >>> len(table)
        6
    """
    if not isinstance(methods, Algorithm | Mapping):
        raise TypeError(f"sweep: methods is {methods!r}; expected a method, or several by name in a dict.")
    named = {title_of(methods): methods} if isinstance(methods, Algorithm) else dict(methods)
    if not isinstance(seeds, Iterable) or getattr(seeds, "shape", None) == ():
        raise TypeError(f"sweep: seeds is {seeds!r}; expected several of them, such as range(20).")
    seeds = at_most(seeds, MOST_ROWS, "sweep", "seeds")
    memory = whole_number("sweep", "memory", memory)
    if not named or not seeds:
        raise ValueError("sweep: no methods or no seeds were given; expected at least one of each.")
    devices = _devices(mesh)
    grid, sampler = _level_grid(problem, levels), as_sampler(data)
    options: dict[str, Any] = {"steps": steps, "passes": passes, "batch_size": batch_size, "x0": x0}
    options |= {"levels": np.stack([level for level, _ in grid])}
    with digits(sampler.n is not None, precision):
        prepared = {  # every check before any work
            name: prepare(problem, sampler, method, seeds=seeds, grids=True, **options)
            for name, method in named.items()
        }
        given = {name: m if isinstance(m, Algorithm) else prepared[name].method for name, m in named.items()}
        jobs = {name: _combinations(m, grid) for name, m in given.items()}  # in the table 0.1 is 0.1, not its float32
        for name, ready in prepared.items():
            coefficients, constraints = list(jobs[name][0].columns), of_constraints(ready.names)
            refuse_taken(f"names of constraints, beside the coefficients of {name},", constraints, coefficients)
            track_names(Variant(ready.sizes, track), ready.x, (*coefficients, *constraints))
        records = {name: _record_at(record, ready.steps) for name, ready in prepared.items()}
        _refuse_too_many(sum(len(jobs[name]) * len(seeds) * len(records[name]) for name in prepared))
        runs = sum(len(combos) * ready.steps for combos, ready in zip(jobs.values(), prepared.values(), strict=True))
        tables, done = [], 0
        with Progress(runs * len(seeds), progress, "steps of all runs") as bar:
            for name, ready in prepared.items():
                if isinstance(ready.method, Solver):
                    found = _solve_each(ready, jobs[name], records[name], track, points)
                else:
                    found = _sweep_one(ready, jobs[name], records[name], track, points, memory, devices)
                for rows, taken in found:
                    done += taken
                    bar.show(done)
                    rows.insert(0, "method", name)
                    tables.append(rows)
    import pandas as pd

    return pd.concat(tables, ignore_index=True)


def _devices(mesh: Any) -> NamedSharding | None:
    """Combinations, the first axis of everything that a slice has, over the devices of a mesh."""
    if mesh is None:
        return None
    if not isinstance(mesh, Mesh):
        raise TypeError(
            f"sweep: mesh is {mesh!r}; expected a jax.sharding.Mesh, such as jax.make_mesh((8,), ('runs',))."
        )
    flat = Mesh(mesh.devices.reshape(-1), ("runs",))
    if any(device.process_index != jax.process_index() for device in flat.devices):
        raise ValueError(
            "sweep: the mesh has devices of other processes; expected those of this one. Give each process combinations or "
            "seeds of its own, and put the tables together."
        )
    return NamedSharding(flat, PartitionSpec("runs"))


def _sweep_one(
    ready: Prepared,
    combos: list["_Combo"],
    records: list[int],
    track,
    points: bool,
    memory: int,
    devices: NamedSharding | None,
):
    """One method's combinations in slices of equal shape; yields (rows, steps taken) as they come."""
    variant = Variant(ready.sizes, track)
    horizon = jnp.asarray(ready.steps, jnp.int32)
    first: Any = jax.tree.map(lambda v: v if np.ndim(v) == 0 else v[0], ready.method)  # of every grid
    one = jax.eval_shape(lambda: start(first, ready.problem, ready.x, ready.lam, horizon, variant))
    room = max(1, memory // (4 * bytes_of(one)))  # states, their successors and gradients
    n_seeds = min(len(ready.plan.seeds), room)
    n_combos = min(len(combos), max(1, room // n_seeds))
    if devices is not None:  # as many on each
        count = devices.mesh.size
        n_combos = count * max(1, min(-(-len(combos) // count), room // n_seeds))
    for seeds in _slices(list(ready.plan.seeds), n_seeds):
        for part in _slices(combos, n_combos):
            yield from _run_slice(_ManyRuns(ready, part, seeds, variant, devices), records, points)


class _ManyRuns:
    """The program of a slice: combinations of coefficients and levels, and several seeds of each, side by side."""

    def __init__(
        self, ready: Prepared, part: "_Slice", seeds: "_Slice", variant: Variant, devices: NamedSharding | None
    ):
        self.ready, self.part, self.seeds, self.variant, self.devices = ready, part, seeds, variant, devices
        self.method, self.levels = self._shared_out(_stacked(ready, part.padded))

    def _shared_out(self, tree: Tree) -> Tree:
        return tree if self.devices is None else jax.device_put(tree, self.devices)

    def start(self) -> Carry:
        """The carry before the first step, with axes for combinations and seeds."""
        ready, horizon = self.ready, jnp.asarray(self.ready.steps, jnp.int32)
        start = ready.x, ready.lam, horizon, self.variant, len(self.seeds.padded)
        return self._shared_out(_start_many(self.method, ready.problem, self.levels, *start))

    def refresh(self, carry: Carry) -> Carry:
        """After every run's look at all the data, side by side."""
        ready = self.ready
        return _refresh_many(self.method, ready.problem, self.levels, carry, ready.sampler.rows)

    def advance(self, carry: Carry, buffer: Buffer, first: int, count: int) -> tuple[Carry, dict[str, Array], bool]:
        """After so many steps; a run that is not finite any more stops none of the others."""
        ready, where = self.ready, (np.int32(buffer.offset), np.int32(first), np.int32(count))
        given = ready.sampler, carry, buffer.items, *where, self.variant
        return _advance_many(self.method, ready.problem, self.levels, *given), {}, True


def _run_slice(runs: _ManyRuns, records: list[int], points: bool):
    """The rows of a slice at the recorded steps, each with the number of steps taken since the one before."""
    ready, side_by_side = runs.ready, runs.part.count * runs.seeds.count
    assert isinstance(ready.method, Method)
    draws = ready.sampler.open(ready.plan._replace(seeds=tuple(runs.seeds.padded)))
    driver, position = Driver(runs, draws, refresh_period(ready.method)), Position(runs.start(), 0)
    for end in records:
        began = position.step
        while position.step < end:
            before, position = position.step, driver.chunk(position, end)
            if position.step == before:
                raise ValueError(
                    f"sweep: the stream ended after {before:,} steps; expected samples for {records[-1]:,}."
                )
        yield _rows(runs, position, points), (position.step - began) * side_by_side


@compiled(static_argnames=("variant", "n_seeds"))
def _start_many(method, problem, levels, x, lam, horizon, variant: Variant, n_seeds: int) -> Carry:
    def one(method, levels):
        carry = start(method, _at(problem, levels), x, lam, horizon, variant)
        return jax.tree.map(lambda a: jnp.broadcast_to(a, (n_seeds, *a.shape)), carry)

    return jax.vmap(one)(method, levels)


@compiled(static_argnames="variant", donate_argnums=4)
def _advance_many(method, problem, levels, sampler, carry, items, offset, first, count, variant: Variant) -> Carry:
    """Leading axes of the carry: combinations, then seeds. Samples are shared by the combinations of a seed."""
    if not sampler.per_seed:
        items = jax.tree.map(lambda a: a[0], items)

    def one(method, levels, carry, items):
        return take_steps(method, _at(problem, levels), sampler, carry, items, offset, first, count, variant)[0]

    over_seeds = jax.vmap(one, in_axes=(None, None, 0, 0 if sampler.per_seed else None))
    return jax.vmap(over_seeds, in_axes=(0, 0, 0, None))(method, levels, carry, items)


@compiled
def _refresh_many(method, problem, levels, carry, data) -> Carry:
    def one(method, levels, carry):
        return carry._replace(state=method.refresh(_at(problem, levels), carry.state, data))

    return jax.vmap(jax.vmap(one, in_axes=(None, None, 0)))(method, levels, carry)


@compiled
def _outputs_many(method, carry) -> Tree:
    return jax.vmap(jax.vmap(output, in_axes=(None, 0)))(method, carry)


@compiled
def _full_many(problem, levels, x, data):
    def one(levels, x):
        return full_values(_at(problem, levels), x, data)

    return jax.vmap(jax.vmap(one, in_axes=(None, 0)))(levels, x)


def _at(problem: Problem, levels: Array | np.ndarray) -> Problem:
    return replace(problem, levels=levels)


def _rows(runs: _ManyRuns, position: Position, points: bool) -> "pd.DataFrame":
    """The slice's rows: combinations, and within them seeds."""
    import pandas as pd

    ready, part, seeds, (carry, step, _) = runs.ready, runs.part, runs.seeds, position
    names, knows_objective = ready.names, ready.problem.knows_objective
    shape = part.count, seeds.count

    def flat(values: Any) -> np.ndarray:
        values = np.asarray(values, float)[: part.count, : seeds.count]
        return values.reshape(part.count * seeds.count, *values.shape[2:])

    means = summarise(Mean(*map(flat, carry.totals.scalars)), len(names), track_names(runs.variant, ready.x))
    columns: dict[str, Any] = {
        name: np.repeat(np.fromiter((combo.columns[name] for combo in part.real), object, shape[0]), shape[1])
        for name in part.real[0].columns
    }
    columns |= {"seed": np.tile(seeds.real, shape[0]), "step": step}
    columns["samples"] = step * ready.plan.draws * ready.plan.batch_size
    columns |= of_means(names, means.objective if knows_objective else None, means.h.T, means.lam.T) | means.tracked
    x = _outputs_many(runs.method, carry)
    if ready.sampler.n is not None:
        f, h = map(flat, _full_many(ready.problem, runs.levels, x, ready.sampler.rows))
        columns |= on_all_rows(names, f if knows_objective else None, h.T)
    table = pd.DataFrame(columns).infer_objects()
    if points:
        x = jax.tree.map(np.asarray, x)
        at = itertools.product(range(shape[0]), range(shape[1]))
        table["x"] = pd.Series([jax.tree.map(lambda leaf, k=k, i=i: leaf[k, i], x) for k, i in at], dtype=object)
    return table


# ---- solvers ----------------------------------------------------------------------------------------------------------


def _solve_each(ready: Prepared, combos: list["_Combo"], records: list[int], track, points: bool):
    """A solver's combinations in turn; yields (rows, looks taken) of each."""
    import pandas as pd

    for combo in combos:
        solver, levels = _stacked(ready, [combo])
        solver, problem = jax.tree.map(lambda v: v[0], solver), _at(ready.problem, levels[0])
        rows = [
            dict(combo.columns) | {"seed": seed} | _row_of_a_look(ready, problem, step, look, track, points)
            for step, look in _looks_at(solver, problem, ready, records)
            for seed in ready.plan.seeds
        ]
        yield pd.DataFrame(rows).infer_objects(), records[-1] * len(ready.plan.seeds)


def _looks_at(solver: Solver, problem: Problem, ready: Prepared, records: list[int]) -> Iterable[tuple[int, Look]]:
    """The looks that are recorded; where one is not finite, nothing is known from there on."""
    lam = np.asarray(ready.lam)
    looks = solver.looks(problem, ready.sampler.rows, solver.start(ready.x, lam))
    look, broken = Look(ready.x, np.nan * ready.lam, np.full(1 + lam.size, np.nan), None), False
    for step in range(1, records[-1] + 1):
        try:
            look = look if broken else next(looks)
        except NotFiniteLook:
            look, broken = look._replace(seen=np.full_like(look.seen, np.nan)), True
        if step in records:
            yield step, look


def _row_of_a_look(ready: Prepared, problem: Problem, step: int, look: Look, track, points: bool) -> dict[str, Any]:
    names, known, (f, *h) = ready.names, problem.knows_objective, look.seen.tolist()
    row: dict[str, Any] = {"step": step, "samples": 0}
    row |= of_means(names, f if known else None, h, np.asarray(look.lam).tolist())
    row |= {} if track is None else {name: float(value) for name, value in sorted(track(look.x).items())}
    f, h = full_values(problem, look.x, ready.sampler.rows)
    row |= on_all_rows(names, float(f) if known else None, map(float, h))
    return row | ({"x": handed_out(look.x)} if points else {})


# ---- grids and slices -------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class _Combo:
    """One combination of coefficients and level."""

    leaves: tuple[float, ...]  # the method's, in order
    level: np.ndarray
    columns: dict[str, Any]  # what the table says of it


@dataclasses.dataclass(frozen=True)
class _Slice:
    """Things to run side by side, the last repeated to fill the shape."""

    real: list
    padded: list

    @property
    def count(self) -> int:
        return len(self.real)


def _slices(things: list, size: int) -> list[_Slice]:
    parts = [things[k : k + size] for k in range(0, len(things), size)]
    return [_Slice(part, part + [part[-1]] * (size - len(part))) for part in parts]


def _level_grid(problem: Problem, levels) -> list[tuple[np.ndarray, dict[str, Any]]]:
    if levels is None:
        return [(np.asarray(problem.levels, float), {})]
    try:
        grid = np.asarray(levels, float)
    except (ValueError, TypeError, OverflowError) as error:
        raise ValueError(f"sweep: levels is {levels!r}; expected L finite numbers, or L rows of N.") from error
    if grid.ndim not in (1, 2) or grid.size == 0 or not np.all(np.isfinite(grid)):
        raise ValueError(f"sweep: levels has shape {grid.shape}; expected L finite numbers, or L rows of N.")
    return [(level, {"level": float(level) if level.ndim == 0 else tuple(level.tolist())}) for level in grid]


def _combinations(method: Algorithm, levels) -> list[_Combo]:
    """The product of all coefficient grids and levels."""
    paths = jax.tree_util.tree_leaves_with_path(method)
    names = [jax.tree_util.keystr(path).lstrip(".") for path, _ in paths]
    for name, (_, leaf) in zip(names, paths, strict=True):
        if np.ndim(leaf) > 1:
            raise ValueError(f"sweep: the grid of {name} has shape {np.shape(leaf)}; expected a list of numbers.")
    grids = [np.atleast_1d(np.asarray(leaf, float)).tolist() for _, leaf in paths]
    _refuse_too_many(math.prod(map(len, grids)) * len(levels))
    return [
        _Combo(leaves, level, dict(zip(names, leaves, strict=True)) | column)
        for leaves in itertools.product(*grids)
        for level, column in levels
    ]


def _stacked(ready: Prepared, combos: list[_Combo]) -> tuple[Method, Array]:
    """The method and the levels with a leading axis of combinations."""
    treedef, dtype = jax.tree.structure(ready.method), ready.lam.dtype
    columns = np.asarray([combo.leaves for combo in combos]).T
    method = jax.tree.unflatten(treedef, [jnp.asarray(column, dtype) for column in columns])
    return method, jnp.asarray(np.stack([combo.level for combo in combos]), dtype)


def _record_at(record: int | Sequence[int], steps: int) -> list[int]:
    if isinstance(record, int | np.integer):
        count = whole_number("sweep", "record", record, most=MOST_ROWS)
        return sorted({max(1, round(steps * (i + 1) / count)) for i in range(count)})
    if not isinstance(record, Iterable) or isinstance(record, str | bytes):
        raise TypeError(f"sweep: record is {record!r}; expected how many steps to record, or a list of them.")
    given = at_most(record, MOST_ROWS, "sweep", "record")
    at = sorted({whole_number("sweep", "record", k) for k in given})
    if not at or at[-1] > steps:
        raise ValueError(f"sweep: record is {list(given)}; expected steps from 1 to {steps}.")
    return at


def _refuse_too_many(rows: int) -> None:
    if rows > MOST_ROWS:
        raise ValueError(
            f"sweep: all methods, combinations, seeds and recorded steps together make a table of {rows:,} rows; expected "
            f"at most {MOST_ROWS:,}. Sweep over part of them at a time."
        )
