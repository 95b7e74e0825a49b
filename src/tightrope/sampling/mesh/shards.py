"""Rows over a mesh of devices, in logical shards (`turns.py` says which row is whose, and when)."""

import hashlib
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from tightrope._jaxlib import compiled
from tightrope.sampling.batch import Part, Spread
from tightrope.sampling.mesh.processes import exchanged, said_by_all, spans_processes
from tightrope.sampling.mesh.turns import AXIS, ShardOrder, own_shards, starts_of
from tightrope.sampling.rows import KEPT_ROWS, Arrays, Indexed, OfSlice, Sums
from tightrope.sampling.sampler import Blocks, Draws, Plan, length
from tightrope.tree import Array, Tree, pytree, static

_WHOLE = PartitionSpec()  # on every device


@pytree
class Share(Spread):
    """A batch that is spread over a mesh: each device has some of its rows, and what they count."""

    rows: Tree
    weights: Array
    mesh: Mesh = static()

    def total(self, fn: Callable[[Tree], Tree]) -> Tree:
        return _total(self.mesh, lambda rows, weights: fn(Part(rows, weights)), self.rows, self.weights)

    def mean(self, fn: Callable[[Tree], Tree]) -> Tree:
        return self.total(lambda part: part.mean(fn))


@pytree
class Shards(Indexed):
    """All rows, spread over a mesh: what the data of a run is where it lies on many devices."""

    arrays: Tree  # leaves (L * width, ...): every shard has room for `width` rows, of which the last may be empty
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

    def few(self, step: int | None = None) -> Tree:
        return self.rows(np.arange(0, self.n, -(-self.n // KEPT_ROWS) if step is None else step))

    def fold(self, sums: Sums, of_slice: OfSlice) -> Tree:
        """The sum over devices, in one collective; places that are empty weigh nothing."""
        counts, width = np.diff(self.starts).astype(np.int32), self.width

        def local(places, counts):
            real = (jnp.arange(width)[None] < counts[:, None]).reshape(-1).astype(jnp.result_type(float))
            own = Arrays((places, real))
            return sums(lambda part, w: of_slice(part[0], w * part[1]), own, own.n)

        return _total(self.mesh, local, self.arrays, jnp.asarray(counts))

    @property
    def together(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return spans_processes(self.mesh)

    @property
    def marks(self) -> str:
        """A hash of every shard, so that the same rows are recognised on other numbers of devices and processes."""
        own, counts, mine = own_shards(self.mesh, self.number), np.diff(self.starts), {}
        for leaf in jax.tree.leaves(self.arrays):
            parts = sorted(leaf.addressable_shards, key=lambda part: part.index[0].start or 0)
            held = np.concatenate([np.asarray(part.data) for part in parts]).reshape(len(own), self.width, -1)
            for shard, rows in zip(own.tolist(), held, strict=True):
                mark = f"{mine.get(shard, '')} {leaf.dtype} {leaf.shape[1:]}".encode()
                mine[shard] = hashlib.sha256(mark + rows[: counts[shard]].tobytes()).hexdigest()
        said = said_by_all(list(mine.values())) if self.together else [list(mine.values())]
        return " ".join([str(self.n), *(mark for marks in said for mark in marks)])

    def rows(self, index: Any) -> Tree:
        return _rows(self, jnp.asarray(index))

    def draws(self, plan: Plan, replace: bool) -> Draws:
        """Places of rows and what they count, by a counter-based generator for each shard."""
        return Blocks(plan, 12, ShardOrder(self.mesh, self.starts, replace, plan))

    def pick(self, item: tuple[Array, Array]) -> Share:
        """Each device looks its own rows up."""
        at, weights = item
        spec = PartitionSpec(AXIS)

        def local(places, at):
            return jax.tree.map(lambda a: a[at], places)

        return Share(over_mesh(self.mesh, local, spec, spec)(self.arrays, at), weights, self.mesh)

    def placed(self, point: Tree) -> Tree:
        return on_every_device(self.mesh, point)


def over_mesh(mesh: Mesh, local: Callable[..., Tree], specs: Any, out: Any = _WHOLE) -> Callable[..., Tree]:
    """What devices make of their own parts. Derivatives inside are local ones, so nothing is to be checked or inserted."""
    return jax.shard_map(local, mesh=mesh, in_specs=specs, out_specs=out, check_vma=False)


def _total(mesh: Mesh, fn: Callable[..., Tree], *spread: Tree) -> Tree:
    """Sums of what devices make of their own parts. They meet as one vector: a collective costs its latency first."""

    def local(*parts):
        if mesh.size == 1:
            return fn(*parts)
        vector, back = ravel_pytree(fn(*parts))
        return back(jax.lax.psum(vector, AXIS))

    return over_mesh(mesh, local, PartitionSpec(AXIS))(*spread)


@compiled
def _rows(data: Shards, index: Array) -> Tree:
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

    return over_mesh(data.mesh, local, PartitionSpec(AXIS))(data.arrays)


def on_every_device(mesh: Mesh, tree: Tree) -> Tree:
    """Arrays that every process has, whole on every device."""
    sharding = NamedSharding(mesh, PartitionSpec())

    def whole(leaf: Any) -> Array:
        array = np.asarray(leaf)
        return jax.make_array_from_callback(array.shape, sharding, lambda index: array[index])

    return jax.tree.map(whole, tree)


# ---- laying rows out -------------------------------------------------------------------------------------------------


def asked_mesh(mesh: Any, number: int) -> Mesh:
    """The devices of a mesh in a row, which own the same number of shards each."""
    mesh = flat_mesh(mesh)
    devices = mesh.devices.size
    if number % devices:
        raise ValueError(
            f"{number} logical shards cannot be shared out among {devices} devices; expected a multiple of their "
            f"number. Give shards={-(-number // devices) * devices}, and keep to it: samples depend on it."
        )
    return mesh


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


def spread_over(mesh: Mesh, number: int, data: Tree, check: Callable[[Tree], Tree]) -> Shards:
    """Rows in shards on the devices of a mesh; `check` gives them as arrays, or says what is wrong with them."""
    if not spans_processes(mesh):
        rows = check(data)
        return lay_out(rows, length(rows), number, mesh)
    if any(isinstance(leaf, jax.Array) and not leaf.is_fully_addressable for leaf in jax.tree.leaves(data)):
        rows = check(data)  # all processes see the same ones
        return lay_out(rows, length(rows), number, mesh)
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
        mine["rows"] = length(rows)
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
            return compiled(lambda a: a[index], out_shardings=sharding)(a)
        index = index_of(own_shards(mesh, number))
        shape = number * width, *a.shape[1:]
        return jax.make_array_from_process_local_data(sharding, a if index is None else a[index], shape)

    return Shards(jax.tree.map(placed, rows), n, number, mesh)
