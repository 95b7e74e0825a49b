"""Rows over a mesh of devices, in logical shards, so that samples do not depend on how many devices there are.

The rows of a data set belong to L logical shards of equal size (but for one row), in the order in which they stand; L is
chosen once, and a device owns L / P shards that lie side by side. Samples are numbered. Number j is the one of round j // L
that comes from shard `order[(j + r) % L]`, where r is a random rotation of the round, so a round takes one row from every
shard, and every sample comes from every shard with the same probability. `order` is the van der Corput sequence: any P
samples in a row of a round come from P different devices, whatever power of two P is. A shard gives its rows in
reshuffled passes of its own. All of this is a function of the seed and the number of the sample alone.

A row of a shard with n_s rows counts n_s L / n: 1 where L divides n, and else what makes means unbiased.
"""

import hashlib
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from tightrope.sampling.base import Plan
from tightrope.sampling.passes import Passes
from tightrope.sampling.processes import exchanged, said_by_all, spans_processes
from tightrope.tree import Array, Tree, pytree, static

AXIS = "shards"
SHARDS = 64
_AT_ONCE = 1 << 15  # rows of a shard whose order is made at once: to begin with new random numbers takes 12 us
_IN_CACHE = 512  # rounds that are put in their order at once
_ROUNDS = 1024  # whose rotations are drawn at once
_ROTATIONS, _OF_SHARD = 1, 2  # what random numbers are for; shards count on from the second


@pytree
class Shards:
    """All rows, spread over a mesh: what the data of a run is where it lies on many devices."""

    places: Tree  # leaves (L * width, ...): every shard has room for `width` rows, of which the last may be empty
    n: int = static()  # rows
    number: int = static()  # L
    mesh: Mesh = static()

    @property
    def width(self) -> int:
        """How many rows the largest shard has."""
        return -(-self.n // self.number)

    @property
    def starts(self) -> np.ndarray:
        """The first row of every shard, and the end."""
        return starts_of(self.n, self.number)

    def example(self) -> Tree:
        """The shapes and dtypes of one row."""
        return jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape[1:], a.dtype), self.places)

    def total(self, fn: Callable[[Tree, Array], Tree]) -> Tree:
        """The sum over devices of fn(rows, weights), in one collective; a weight is 0 where a place is empty, or 1."""
        counts, width = np.diff(self.starts).astype(np.int32), self.width

        def local(places, counts):
            real = jnp.arange(width)[None] < counts[:, None]
            return fn(places, real.reshape(-1).astype(jnp.result_type(float)))

        return _total(self.mesh, local, self.places, jnp.asarray(counts))

    def marks(self) -> str:
        """A hash of every shard, so that the same rows are recognised on other numbers of devices and processes."""
        own, counts, mine = own_shards(self.mesh, self.number), np.diff(self.starts), {}
        for leaf in jax.tree.leaves(self.places):
            parts = sorted(leaf.addressable_shards, key=lambda part: part.index[0].start or 0)
            held = np.concatenate([np.asarray(part.data) for part in parts]).reshape(len(own), self.width, -1)
            for shard, rows in zip(own.tolist(), held, strict=True):
                mark = f"{mine.get(shard, '')} {leaf.dtype} {leaf.shape[1:]}".encode()
                mine[shard] = hashlib.sha256(mark + rows[: counts[shard]].tobytes()).hexdigest()
        said = said_by_all(list(mine.values())) if spans_processes(self.mesh) else [list(mine.values())]
        return " ".join([str(self.n), *(mark for marks in said for mark in marks)])

    def take(self, index: Any) -> Tree:
        """The rows with these numbers, on every device."""
        return _take(self, jnp.asarray(index))


@pytree
class Share:
    """A batch that is spread over a mesh: each device has some of its rows, and what they count."""

    rows: Tree
    weights: Array
    mesh: Mesh = static()

    def total(self, fn: Callable[[Tree, Array], Tree]) -> Tree:
        """The sum over devices of fn(rows, weights), in one collective."""
        return _total(self.mesh, fn, self.rows, self.weights)

    def mean(self, fn: Callable[[Tree], Tree]) -> Tree:
        """The mean of a function of one row."""
        return self.total(lambda rows, weights: summed(weights, jax.vmap(fn)(rows)))


def summed(weights: Array, values: Tree) -> Tree:
    """Sums over the rows of a batch, each times its weight: like a mean, they become part of what has made the values."""

    def of(v: Array) -> Array:
        return jnp.sum(v * weights.astype(v.dtype).reshape(-1, *(1,) * (v.ndim - 1)), axis=0)

    return jax.tree.map(of, values)


def weighted(weights: Array, values: Tree) -> Tree:
    """Sums over the rows of a slice, each times its weight, as products of matrices."""
    return jax.tree.map(lambda v: jnp.tensordot(weights.astype(v.dtype), v, 1), values)


def starts_of(n: int, number: int) -> np.ndarray:
    """The first row of every shard, and the end."""
    return np.arange(number + 1) * n // number


def _total(mesh: Mesh, fn: Callable[..., Tree], *spread: Tree) -> Tree:
    """Sums of what devices make of their own parts. They meet as one vector: a collective costs its latency first."""

    def local(*parts):
        if mesh.size == 1:
            return fn(*parts)
        vector, back = ravel_pytree(fn(*parts))
        return back(jax.lax.psum(vector, AXIS))

    # Derivatives inside are local ones, so nothing is to be checked or inserted there.
    return jax.shard_map(local, mesh=mesh, in_specs=PartitionSpec(AXIS), out_specs=PartitionSpec(), check_vma=False)(
        *spread
    )


@jax.jit
def _take(data: Shards, index: Array) -> Tree:
    starts = jnp.asarray(np.asarray(data.starts, np.int32))
    shard = jnp.clip(jnp.searchsorted(starts, index, side="right") - 1, 0, data.number - 1)
    place = jnp.minimum(index, data.n - 1) - starts[shard] + shard * data.width

    def local(places):
        def rows(a):
            at = place - jax.lax.axis_index(AXIS) * a.shape[0]
            here = (at >= 0) & (at < a.shape[0])
            found = a[jnp.clip(at, 0, a.shape[0] - 1)]
            kept = jnp.where(here.reshape(-1, *(1,) * (a.ndim - 1)), found, jnp.zeros_like(found))
            return jax.lax.psum(kept.astype(jnp.int32) if a.dtype == bool else kept, AXIS).astype(a.dtype)  # pyright: ignore[reportAttributeAccessIssue]

        return jax.tree.map(rows, places)

    spec = PartitionSpec(AXIS)
    return jax.shard_map(local, mesh=data.mesh, in_specs=spec, out_specs=PartitionSpec(), check_vma=False)(data.places)


def on_every_device(mesh: Mesh, tree: Tree) -> Tree:
    """Arrays that every process has, whole on every device."""
    sharding = NamedSharding(mesh, PartitionSpec())

    def whole(leaf: Any) -> Array:
        array = np.asarray(leaf)
        return jax.make_array_from_callback(array.shape, sharding, lambda index: array[index])

    return jax.tree.map(whole, tree)


def share_of(data: Shards, item: tuple[Array, Array]) -> Share:
    """The batch that an item of a buffer stands for."""
    at, weights = item
    spec = PartitionSpec(AXIS)

    def local(places, at):
        return jax.tree.map(lambda a: a[at], places)

    rows = jax.shard_map(local, mesh=data.mesh, in_specs=spec, out_specs=spec, check_vma=False)(data.places, at)
    return Share(rows, weights, data.mesh)


# ---- laying rows out -------------------------------------------------------------------------------------------------


def asked_mesh(mesh: Any, leaves: list[Any], number: int) -> Mesh | None:
    """The mesh that was given, or that arrays are spread over already; None where there is none."""
    if mesh is not None:
        return _with_shards(flat_mesh(mesh), number)
    spread = [leaf.sharding.mesh for leaf in leaves if isinstance(leaf, jax.Array) and _spread_by_rows(leaf)]  # pyright: ignore[reportAttributeAccessIssue]
    return _with_shards(flat_mesh(spread[0]), number) if spread else None


def _spread_by_rows(leaf: Array) -> bool:
    kind = leaf.sharding
    return isinstance(kind, NamedSharding) and bool(leaf.ndim) and kind.shard_shape(leaf.shape)[0] < leaf.shape[0]


def flat_mesh(mesh: Any) -> Mesh:
    """The devices of a mesh in a row, those of a process side by side."""
    if not isinstance(mesh, Mesh):
        raise TypeError(f"mesh is {mesh!r}; expected a jax.sharding.Mesh, such as jax.make_mesh((8,), ('rows',)).")
    devices = np.array(sorted(mesh.devices.flat, key=lambda device: device.process_index))
    missing = set(range(jax.process_count())) - {device.process_index for device in devices}
    if missing and spans_processes(mesh):
        raise ValueError(
            f"The mesh has no device of process {', '.join(map(str, sorted(missing)))}; expected devices of all "
            f"{jax.process_count()} processes, which take every step together, or of one alone."
        )
    return Mesh(devices, (AXIS,))


def _with_shards(mesh: Mesh, number: int) -> Mesh:
    """The mesh, each of whose devices owns the same number of shards."""
    devices = mesh.devices.size
    if number % devices:
        raise ValueError(
            f"{number} logical shards cannot be shared out among {devices} devices; expected a multiple of their "
            f"number. Give shards={-(-number // devices) * devices}, and keep to it: samples depend on it."
        )
    return mesh


def spread_over(mesh: Mesh, number: int, data: Tree, check: Callable[[Tree], Tree]) -> Shards:
    """Rows in shards on the devices of a mesh; `check` gives them as arrays, or says what is wrong with them."""
    if not spans_processes(mesh):
        rows = check(data)
        return lay_out(rows, _length(rows), number, mesh)
    if any(isinstance(leaf, jax.Array) and not leaf.is_fully_addressable for leaf in jax.tree.leaves(data)):
        rows = check(data)  # all processes see the same ones
        return lay_out(rows, _length(rows), number, mesh)
    rows, parts = _agreed(data, check)
    starts = starts_of(sum(parts), number)
    owned = [own_shards(mesh, number, process) for process in range(len(parts))]
    needed = [(int(starts[shards[0]]), int(starts[shards[-1] + 1])) for shards in owned]
    rows = exchanged(jax.tree.map(np.asarray, rows), parts, needed)
    return lay_out(rows, sum(parts), number, mesh, needed[jax.process_index()][0])


def _agreed(data: Tree, check: Callable[[Tree], Tree]) -> tuple[Tree, list[int]]:
    """This process's rows, and how many every process has; what is wrong in one of them is said in all."""
    rows, mine = None, {}
    try:
        rows = check(data)
        mine["columns"] = [f"{a.dtype} of shape {a.shape[1:]}" for a in jax.tree.leaves(rows)]
        mine["rows"] = _length(rows)
    except (TypeError, ValueError) as error:
        mine["error"] = str(error)
    said = said_by_all(mine)
    for process, words in enumerate(said):
        if "error" in words:
            raise ValueError(f"The rows of process {process} of {len(said)}: {words['error']}")
        if words["columns"] != said[0]["columns"]:
            raise ValueError(
                f"Rows: process {process} has columns {', '.join(words['columns'])} and process 0 has "
                f"{', '.join(said[0]['columns'])}; expected the same in every process."
            )
    return rows, [words["rows"] for words in said]


def _length(rows: Tree) -> int:
    return jax.tree.leaves(rows)[0].shape[0]


def lay_out(rows: Tree, n: int, number: int, mesh: Mesh, first: int = 0) -> Shards:
    """Shards of rows that stand on this process (numbers `first` and on of n), which has those of its own devices."""
    if n < number:
        raise ValueError(
            f"Rows: {n} rows leave some of {number} logical shards empty; expected a row for each. Give fewer shards."
        )
    starts, width = starts_of(n, number), -(-n // number)
    sharding = NamedSharding(mesh, PartitionSpec(AXIS))

    def index_of(shards: np.ndarray) -> np.ndarray | None:
        """The row of every place; empty places repeat the last. None where rows are in their places as they are."""
        index = np.minimum(starts[shards, None] + np.arange(width), starts[shards + 1, None] - 1)
        return index.reshape(-1) - first if n < number * width else None

    def placed(a: Any) -> Array:
        if isinstance(a, jax.Array):  # all rows, wherever they lie
            index = index_of(np.arange(number))
            if index is None:
                return jax.device_put(a, sharding)
            return jax.jit(lambda a: a[index], out_shardings=sharding)(a)
        index = index_of(own_shards(mesh, number))
        shape = number * width, *a.shape[1:]
        return jax.make_array_from_process_local_data(sharding, a if index is None else a[index], shape)

    return Shards(jax.tree.map(placed, rows), n, number, mesh)


def own_shards(mesh: Mesh, number: int, process: int | None = None) -> np.ndarray:
    """The numbers of the shards that lie on devices of a process, by default of this one."""
    devices, here = mesh.devices, jax.process_index() if process is None else process
    mine = np.flatnonzero([device.process_index == here for device in devices])
    each = number // devices.size
    return (mine[:, None] * each + np.arange(each)).reshape(-1)


# ---- the order of samples --------------------------------------------------------------------------------------------


def van_der_corput(number: int) -> np.ndarray:
    """0 .. number-1 in an order whose every beginning is spread evenly: bits reversed, what is too large left out."""
    bits = max(1, (number - 1).bit_length())
    reversed_bits = [int(format(k, f"0{bits}b")[::-1], 2) for k in range(1 << bits)]
    return np.array([k for k in reversed_bits if k < number])


class Turns:
    """Which samples of steps come from which shard: for every device, where its own are found, and what they count.

    Args:
        mesh: the devices, which own the same number of shards each, side by side.
        sizes: how many rows every shard has.
        plan: how a run wants its samples.
        entries: what shard s gives in rounds first .. first+count-1 to the key (seed, draw): numbers of rows, by which a
            device finds them among those of the shard.
        width: how far apart shards lie in the memory of their device; by default as many rows as were asked for.
    """

    def __init__(
        self, mesh: Mesh, sizes: np.ndarray, plan: Plan, entries: Callable[..., np.ndarray], width: int | None = None
    ):
        self.sizes, self.plan, self.entries, self.width = sizes, plan, entries, width
        self.n, self.number, self.devices = int(sizes.sum()), len(sizes), mesh.devices.size
        self.own, self.order = own_shards(mesh, self.number), van_der_corput(self.number)
        self.here = len(self.own) * self.devices // self.number  # devices of this process
        self.where = np.argsort(self.order)
        self.room = _room(self.order, self.number // self.devices, plan.batch_size)
        self.sharding = NamedSharding(mesh, PartitionSpec(None, None, None, AXIS))

    def spread(self, a: np.ndarray) -> Array:
        """What this process has for its devices, shaped (seeds, steps, draws, devices, room, ...), over the mesh."""
        before, after = a.shape[:3], a.shape[5:]
        flat, total = ((*before, count * self.room, *after) for count in (self.here, self.devices))
        return jax.make_array_from_process_local_data(self.sharding, a.reshape(flat), total)

    def rounds(self, start: int, steps: int) -> tuple[int, int]:
        """The first and the last round of which these steps have samples."""
        b = self.plan.batch_size
        return start * b // self.number, ((start + steps) * b - 1) // self.number

    @property
    def whole_rounds(self) -> bool:
        """Whether a step has whole rounds, so that every step's rows count alike, and their order in it does not matter."""
        return self.plan.batch_size % self.number == 0

    def fill(self, at: np.ndarray, weights: np.ndarray | None, key: tuple[int, int], start: int) -> None:
        """Places and weights of this process's samples, shaped (steps, devices, room); a round has one of each shard."""
        (steps, mine, room), number, b = at.shape, self.number, self.plan.batch_size
        if not steps:
            return
        first, last = self.rounds(start, steps)
        each, counts = len(self.own) // mine, self.sizes[self.own] * (number / self.n / b)
        offsets = (np.arange(each) * (self.width or last + 1 - first)).astype(np.int32)
        rotations = self._rotations(key, first, last)
        alone = self.devices == 1 and not self.whole_rounds  # every sample is this device's, and its slot is its number
        for k in range(mine):
            its = slice(k * each, (k + 1) * each)
            rows = np.empty((each, last + 1 - first), np.int32)
            for column, s in enumerate(self.own[its]):
                rows[self.where[s] if alone else column] = (
                    self.entries(key, int(s), first, rows.shape[1]) + offsets[column]
                )
            place = _turned_over(rows)
            if self.whole_rounds:
                at[:, k] = place.reshape(steps, room)
                if weights is not None:
                    weights[:, k] = np.tile(counts[its], room // each)[None]
                continue
            if alone:
                skipped = start * b - first * number
                for found, into in ((place, at), (np.broadcast_to(counts[self.order], place.shape), weights)):
                    if into is not None:
                        by_number = _rotated(found, rotations).reshape(-1)
                        into[:, 0] = by_number[skipped : skipped + steps * b].reshape(steps, b)
                continue
            assert weights is not None
            step, slot = self._slots(self.own[its], rotations, first, start, steps)
            kept = slot >= 0
            at[step[kept], k, slot[kept]] = place[kept]
            weights[step[kept], k, slot[kept]] = np.broadcast_to(counts[its][None], place.shape)[kept]

    def _slots(
        self, shards: np.ndarray, rotations: np.ndarray, first: int, start: int, steps: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """For one sample of each of a device's shards in every round from `first` on: its step, counted from `start`, and
        its slot in the batch of that step; -1 where the step is not among the `steps`."""
        number, b = self.number, self.plan.batch_size
        j = (
            self._turned(shards, rotations)
            + (np.arange(len(rotations)) * number + first * number - start * b).astype(np.int32)[:, None]
        )
        step = j // np.int32(b)
        within = (step >= 0) & (step < steps)
        flat = step.reshape(-1)
        used = np.flatnonzero(within)
        used = used[np.argsort(flat[used], kind="stable")]
        begun = np.concatenate([[0], np.cumsum(np.bincount(flat[used], minlength=steps))])
        slot = np.full(flat.shape, -1, np.int32)
        slot[used] = np.arange(len(used)) - begun[flat[used]]
        return step, slot.reshape(step.shape)

    def _turned(self, shards: np.ndarray, rotations: np.ndarray) -> np.ndarray:
        """The places of shards in rounds that are turned so."""
        turned = self.where[shards].astype(np.int32)[None] - rotations.astype(np.int32)[:, None]
        return np.where(turned < 0, turned + np.int32(self.number), turned)

    def _rotations(self, key: tuple[int, int], first: int, last: int) -> np.ndarray:
        """Those of rounds first .. last."""
        groups = range(first // _ROUNDS, last // _ROUNDS + 1)
        drawn = [
            np.random.Generator(np.random.Philox(np.random.SeedSequence([*key, _ROTATIONS, group]))) for group in groups
        ]
        every = np.concatenate([rng.integers(self.number, size=_ROUNDS) for rng in drawn])
        return every[first - groups[0] * _ROUNDS : last + 1 - groups[0] * _ROUNDS]


class ShardOrder:
    """The samples of steps, of rows in memory: for every device the places of its rows, and what they count."""

    def __init__(self, data: Shards, replace: bool, plan: Plan):
        sizes = np.diff(data.starts)
        passes = {int(s): Passes(int(sizes[s]), replace, _AT_ONCE) for s in own_shards(data.mesh, data.number)}

        def entries(key: tuple[int, int], s: int, first: int, count: int) -> np.ndarray:
            return passes[s].entries(key_of(key, s), first, count)

        self.plan, self.turns = plan, Turns(data.mesh, sizes, plan, entries, data.width)
        self.weights: Array | None = None  # of a whole block of steps, where they are the same for all

    def __call__(self, start: int, count: int) -> tuple[Array, Array]:
        """Places and weights of steps start .. start+count-1, shaped (seeds, count, draws, devices * room)."""
        plan, turns = self.plan, self.turns
        shape = len(plan.seeds), count, plan.draws, turns.here, turns.room
        at = np.zeros(shape, np.int32)
        weights = None if self.weights is not None else np.zeros(shape, jnp.result_type(float))
        used = max(0, min(count, plan.steps - start))  # the rest only fills the shape, which must not depend on T
        for i, seed in enumerate(plan.seeds):
            for draw in range(plan.draws):
                own = None if weights is None else weights[i, :used, draw]
                turns.fill(at[i, :used, draw], own, (seed, draw), start)
        kept = self.weights if weights is None else turns.spread(weights)
        if used == count and (turns.whole_rounds or (turns.devices == 1 and np.ptp(turns.sizes) == 0)):
            self.weights = kept
        assert kept is not None
        return turns.spread(at), kept


def _turned_over(rows: np.ndarray) -> np.ndarray:
    """The transpose, written in parts that a cache holds."""
    turned = np.empty(rows.shape[::-1], rows.dtype)
    for k in range(0, len(turned), _IN_CACHE):
        turned[k : k + _IN_CACHE] = rows[:, k : k + _IN_CACHE].T
    return turned


def _rotated(rounds: np.ndarray, rotations: np.ndarray) -> np.ndarray:
    """Every round from the place of its rotation on, and then from its beginning: windows of rounds that stand twice."""
    twice = np.concatenate([rounds, rounds], axis=1)
    windows = np.lib.stride_tricks.sliding_window_view(twice, rounds.shape[1], axis=1)
    return windows[np.arange(len(rounds)), rotations]


def key_of(key: tuple[int, int], s: int) -> tuple[int, int, int]:
    """By which the random numbers of a shard are drawn."""
    return *key, _OF_SHARD + s


def _room(order: np.ndarray, each: int, batch_size: int) -> int:
    """The most samples of a batch that one device can have, when every device owns `each` shards."""
    number = len(order)
    owner = np.concatenate([order, order]) // each
    seen = np.cumsum(owner[:, None] == np.arange(number // each), axis=0)
    seen = np.concatenate([np.zeros_like(seen[:1]), seen])

    def most(m: int) -> int:  # in m samples in a row of one round, whatever its rotation
        return int(np.max(seen[m : m + number] - seen[:number])) if m else 0

    def within(head: int) -> int:  # where the batch begins `head` samples before a round ends
        rounds, tail = divmod(batch_size - head, number)
        return most(head) + rounds * each + most(tail)

    heads = {(-start) % number for start in range(0, number * batch_size, batch_size)}
    return max(within(min(head, batch_size)) for head in heads)
