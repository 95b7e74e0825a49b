"""Many methods, coefficients, levels and seeds in few compiled calls: hyperparameters are leaves, a sweep is a vmap."""

import dataclasses
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd

from tightrope._errors import positive_int
from tightrope.loop.prepare import Prepared, prepare
from tightrope.loop.progress import Progress
from tightrope.loop.steps import Carry, Layout, output, start, summarise, take_steps, track_names
from tightrope.methods import Method
from tightrope.problem.full_data import full_values
from tightrope.problem.problem import Problem
from tightrope.sampling import Rows, as_sampler
from tightrope.tree import Array, Mean, Tree, replace


def sweep(
    problem: Problem,
    data: Any,
    methods: Method | Mapping[str, Method],
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
) -> pd.DataFrame:
    """Run every method with every combination of its coefficients, at every level, from every seed.

    A coefficient given as an array is a grid; several grids are combined. All combinations of one method run side by
    side in one compiled program, in slices that fit `memory`; the samples are drawn once per seed and shared.

    Args:
        problem, data, steps, passes, batch_size, x0, track: as for `minimize`.
        methods: a method, or several by name, e.g. `{"csoa": tr.CSOA(eta0=np.array([0.1, 1.0, 10.0]))}`.
        seeds: which seeds.
        levels: a grid of levels: L numbers, or an (L, N) array; the problem's own by default.
        record: the steps at which to record, or how many of them, evenly spread; by default the last only.
        points: also a column "x", the methods' outputs themselves.
        progress: a progress bar; by default only on a terminal.
        memory: bytes that the states of one slice may take.

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
    if not isinstance(methods, Method | Mapping):
        raise TypeError(f"sweep: methods is {methods!r}; expected a method, or several by name in a dict.")
    named = {type(methods).__name__: methods} if isinstance(methods, Method) else dict(methods)
    if not isinstance(seeds, Iterable):
        raise TypeError(f"sweep: seeds is {seeds!r}; expected several of them, such as range(20).")
    seeds = tuple(seeds)
    if not named or not seeds:
        raise ValueError("sweep: no methods or no seeds were given; expected at least one of each.")
    grid, sampler = _level_grid(problem, levels), as_sampler(data)
    prepared = {}
    for (name, method), (level, _) in itertools.product(named.items(), grid):  # every check before any work
        options: dict[str, Any] = {"steps": steps, "passes": passes, "batch_size": batch_size, "x0": x0}
        prepared[name] = prepare(_at(problem, level), sampler, method, seeds=seeds, **options)
    jobs = {name: _combinations(_as_given(named[name], ready), grid) for name, ready in prepared.items()}
    total = sum(len(combos) * ready.steps for combos, ready in zip(jobs.values(), prepared.values(), strict=True))
    tables, done = [], 0
    with Progress(total * len(seeds), progress, "steps of all runs") as bar:
        for name, ready in prepared.items():
            for rows, taken in _sweep_one(ready, jobs[name], _record_at(record, ready.steps), track, points, memory):
                done += taken
                bar.show(done)
                rows.insert(0, "method", name)
                tables.append(rows)
    return pd.concat(tables, ignore_index=True)


def _sweep_one(ready: Prepared, combos: list["_Combo"], records: list[int], track, points: bool, memory: int):
    """One method's combinations in slices of equal shape; yields (rows, steps taken) as they come."""
    layout = Layout(ready.sizes, track)
    track_names(layout, ready.x)  # refuses a wrong `track` before any work
    horizon = jnp.asarray(ready.steps, jnp.int32)
    one = jax.eval_shape(lambda: start(ready.method_at(0), ready.problem, ready.x, ready.lam, horizon, layout))
    size = sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(one))
    room = max(1, memory // (4 * size))  # states, their successors and gradients
    n_seeds = min(len(ready.plan.seeds), room)
    n_combos = min(len(combos), max(1, room // n_seeds))
    for seeds in _slices(list(ready.plan.seeds), n_seeds):
        plan = ready.plan._replace(seeds=tuple(seeds.padded))
        for part in _slices(combos, n_combos):
            yield from _run_slice(ready, part, seeds, plan, records, layout, horizon, points)


def _run_slice(ready, part: "_Slice", seeds: "_Slice", plan, records, layout: Layout, horizon, points: bool):
    method, levels = _stacked(ready, part.padded)
    carry = _start_many(method, ready.problem, levels, ready.x, ready.lam, horizon, layout, len(seeds.padded))
    draws, step, every = ready.sampler.open(plan), 0, ready.method.refresh_every
    for end in records:
        taken = 0
        while step < end:
            if every and step % every == 0:
                carry = _refresh_many(method, ready.problem, levels, carry, ready.sampler.data)
            until = min(end, (step // every + 1) * every) if every else end
            buffer = draws.take(step, until - step)
            if buffer.steps == 0:
                raise ValueError(f"sweep: the stream ended after {step:,} steps; expected samples for {records[-1]:,}.")
            where = np.int32(buffer.offset), np.int32(step), np.int32(buffer.steps)
            carry = _advance_many(method, ready.problem, levels, ready.sampler, carry, buffer.items, *where, layout)
            step, taken = step + buffer.steps, taken + buffer.steps
        yield _rows(ready, method, part, seeds, levels, carry, step, layout, points), taken * part.count * seeds.count


@partial(jax.jit, static_argnames=("layout", "n_seeds"))
def _start_many(method, problem, levels, x, lam, horizon, layout: Layout, n_seeds: int) -> Carry:
    def one(method, levels):
        carry = start(method, _at(problem, levels), x, lam, horizon, layout)
        return jax.tree.map(lambda a: jnp.broadcast_to(a, (n_seeds, *a.shape)), carry)

    return jax.vmap(one)(method, levels)


@partial(jax.jit, static_argnames="layout", donate_argnums=4)
def _advance_many(method, problem, levels, sampler, carry, items, offset, first, count, layout: Layout) -> Carry:
    """Leading axes of the carry: combinations, then seeds. Samples are shared by the combinations of a seed."""
    if not sampler.per_seed:
        items = jax.tree.map(lambda a: a[0], items)

    def one(method, levels, carry, items):
        return take_steps(method, _at(problem, levels), sampler, carry, items, offset, first, count, layout)

    over_seeds = jax.vmap(one, in_axes=(None, None, 0, 0 if sampler.per_seed else None))
    return jax.vmap(over_seeds, in_axes=(0, 0, 0, None))(method, levels, carry, items)


@jax.jit
def _refresh_many(method, problem, levels, carry, data) -> Carry:
    def one(method, levels, carry):
        return carry._replace(state=method.refresh(_at(problem, levels), carry.state, data))

    return jax.vmap(jax.vmap(one, in_axes=(None, None, 0)))(method, levels, carry)


@jax.jit
def _outputs_many(method, carry) -> Tree:
    return jax.vmap(jax.vmap(output, in_axes=(None, 0)))(method, carry)


@jax.jit
def _full_many(problem, levels, x, data):
    def one(levels, x):
        return full_values(_at(problem, levels), x, data)

    return jax.vmap(jax.vmap(one, in_axes=(None, 0)))(levels, x)


def _at(problem: Problem, levels: Array | np.ndarray) -> Problem:
    return replace(problem, levels=levels)


def _rows(
    ready: Prepared, method, part, seeds, levels, carry: Carry, step: int, layout: Layout, points: bool
) -> pd.DataFrame:
    """The slice's rows: combinations, and within them seeds."""
    names, knows_objective = ready.names, ready.problem.knows_objective
    shape = part.count, seeds.count

    def flat(values: Any) -> np.ndarray:
        values = np.asarray(values, float)[: part.count, : seeds.count]
        return values.reshape(part.count * seeds.count, *values.shape[2:])

    means = summarise(Mean(*map(flat, carry.totals.scalars)), len(names), track_names(layout, ready.x))
    columns: dict[str, Any] = {
        name: np.repeat(np.fromiter((combo.columns[name] for combo in part.real), object, shape[0]), shape[1])
        for name in part.real[0].columns
    }
    columns |= {"seed": np.tile(seeds.real, shape[0]), "step": step}
    columns["samples"] = step * ready.plan.draws * ready.plan.batch_size
    columns |= {"objective": means.objective} if knows_objective else {}
    columns |= dict(zip(names, means.h.T, strict=True))
    columns |= {f"dual {name}": column for name, column in zip(names, means.lam.T, strict=True)} | means.tracked
    x = _outputs_many(method, carry)
    if isinstance(ready.sampler, Rows):
        f, h = map(flat, _full_many(ready.problem, levels, x, ready.sampler.data))
        columns |= {"full objective": f} if knows_objective else {}
        columns |= {f"full {name}": column for name, column in zip(names, h.T, strict=True)}
    table = pd.DataFrame(columns).infer_objects()
    if points:
        x = jax.tree.map(np.asarray, x)
        at = itertools.product(range(shape[0]), range(shape[1]))
        table["x"] = pd.Series([jax.tree.map(lambda leaf, k=k, i=i: leaf[k, i], x) for k, i in at], dtype=object)
    return table


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
    grid = np.asarray(levels, float)
    if grid.ndim not in (1, 2) or grid.size == 0 or not np.all(np.isfinite(grid)):
        raise ValueError(f"sweep: levels has shape {grid.shape}; expected L finite numbers, or L rows of N.")
    return [(level, {"level": float(level) if level.ndim == 0 else tuple(level.tolist())}) for level in grid]


def _as_given(method: str | Method, ready: Prepared) -> Method:
    """The method with the coefficients as the user wrote them: in the table 0.1 is 0.1, not its float32."""
    return method if isinstance(method, Method) else ready.method


def _combinations(method: Method, levels) -> list[_Combo]:
    """The product of all coefficient grids and levels."""
    paths = jax.tree_util.tree_leaves_with_path(method)
    names = [jax.tree_util.keystr(path).lstrip(".") for path, _ in paths]
    for name, (_, leaf) in zip(names, paths, strict=True):
        if np.ndim(leaf) > 1:
            raise ValueError(f"sweep: the grid of {name} has shape {np.shape(leaf)}; expected a list of numbers.")
    grids = [np.atleast_1d(np.asarray(leaf, float)).tolist() for _, leaf in paths]
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
        count = positive_int("sweep", "record", record)
        return sorted({max(1, round(steps * (i + 1) / count)) for i in range(count)})
    at = sorted({positive_int("sweep", "record", k) for k in record})
    if not at or at[-1] > steps:
        raise ValueError(f"sweep: record is {list(record)}; expected steps from 1 to {steps}.")
    return at
