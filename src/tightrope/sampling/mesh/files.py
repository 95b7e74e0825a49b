"""Parquet files over a mesh: every device reads the row groups of its own shards."""

import contextlib
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from tightrope._errors import UnreadableError, failures
from tightrope.sampling.mesh.processes import failing_together, said_by_all, spans_processes
from tightrope.sampling.mesh.shards import Share, on_every_device, over_mesh
from tightrope.sampling.mesh.turns import AXIS, Turns, key_of, own_shards
from tightrope.sampling.parquet_files import Files
from tightrope.sampling.parquet_reading import InOrder, Visit
from tightrope.sampling.rows import OfSlice, Sums
from tightrope.sampling.sampler import Blocks, Draws, Plan
from tightrope.sampling.streamed import Reader, Streamed, asked, known_as, readers
from tightrope.tree import Array, Tree, pytree, set_field, static

if TYPE_CHECKING:
    from tightrope.sampling.parquet import Parquet


@dataclass(frozen=True)
class OnMesh:
    """How files are read where they have a mesh, whose devices own so many shards together."""

    mesh: Mesh
    number: int

    @property
    def together(self) -> bool:
        """Whether several processes read parts of the files."""
        return spans_processes(self.mesh)

    @contextlib.contextmanager
    def opening(self, source: "Parquet") -> Iterator[None]:
        """What is wrong in one process is wrong in all; they have parts of one table."""
        with failing_together(self.together, (UnreadableError, ValueError, TypeError, ImportError)):
            yield
            shared_out(source.files, self.number)
        said = said_by_all([source.n, source.files.content]) if self.together else []
        for process, (n, content) in enumerate(said):
            if content != said[0][1]:
                raise UnreadableError(
                    f"Parquet: process {process} of {len(said)} sees other files ({n:,} rows) than process 0 "
                    f"({said[0][0]:,} rows); expected one folder that all processes see, of which each reads its own part."
                )

    def rows(self, source: "Parquet") -> "Parts":
        """All rows, of which every device reads those of its own shards: they stand side by side."""
        shares, devices = shared_out(source.files, self.number), self.mesh.devices.size
        each, firsts = len(shares) // devices, [share[0] for share in shares]
        bounds = source.files.starts[[*firsts[::each], len(source.files.groups)]]
        own = own_shards(self.mesh, len(shares))[::each] // each  # devices of this process
        parts = [Patient(InOrder(source, int(bounds[device])), source.example()) for device in own]
        whole = InOrder(source)
        of_whole = known_as(whole)
        numbers = np.array([[known_as(part), of_whole] for part in parts], np.int32)
        number = jax.make_array_from_process_local_data(
            NamedSharding(self.mesh, PartitionSpec(AXIS)), numbers, (devices, 2)
        )
        few, counts = on_every_device(self.mesh, source.sample()), tuple(np.diff(bounds).tolist())
        made = Parts(few, number, source.n, counts, self.mesh)
        set_field(made, "readers", (*parts, whole))  # they live as long as this
        return made

    def draws(self, source: "Parquet", plan: Plan) -> Draws:
        """Blocks of samples; a visit of its own for every seed, draw and shard."""
        made = _ShardVisits(source, shared_out(source.files, self.number), self.mesh, plan)
        return Blocks(plan, source.row_bytes, made, aligned=False)

    def placed(self, point: Tree) -> Tree:
        """A point on every device."""
        return on_every_device(self.mesh, point)

    def pick(self, item: tuple[Tree, Array]) -> Share:
        """Each device has its own rows."""
        rows, weights = item
        return Share(rows, weights, self.mesh)


def shared_out(files: Files, shards: int) -> list[range]:
    """The numbers of the row groups of every shard: they stay in their order, and cuts are where the shares of rows differ
    least from equal ones."""
    count, starts = len(files.groups), files.starts
    if count < shards:
        raise UnreadableError(
            f"Parquet: {count:,} row groups cannot be shared out among {shards} shards; expected one for each at least. "
            "Write smaller row groups, or give fewer shards, a multiple of the number of devices."
        )
    cuts = [0]
    for s in range(1, shards):
        wanted = files.n * s / shards
        after = int(np.searchsorted(starts, wanted))
        nearest = after - 1 if after and wanted - starts[after - 1] < starts[after] - wanted else after
        cuts.append(min(max(nearest, cuts[-1] + 1), count - (shards - s)))
    return [range(a, b) for a, b in zip(cuts, [*cuts[1:], count], strict=True)]


@pytree
class Parts(Streamed):
    """All rows of files of which every device of a mesh reads a part: sums over rows meet in one collective.

    Whoever wants some rows on every device (`take`) has each process read them; all processes see all of the files.
    """

    counts: tuple[int, ...] = static()  # how many rows each device has
    mesh: Mesh = static()

    def _read(self, start: Array, size: int) -> Tree:
        """Rows from `start` on, on every device."""

        def local(number: Array, few: Tree, start: Array) -> Tree:
            return asked(number[0, 1], few, start, size)

        specs = PartitionSpec(AXIS), PartitionSpec(), PartitionSpec()
        return over_mesh(self.mesh, local, specs)(self.number, self.arrays, start)

    def fold(self, sums: Sums, of_slice: OfSlice) -> Tree:
        """The sum over devices, in one collective.

        A part that cannot be read must not leave the others waiting: its reader goes on with nothing, and what has happened
        is said after the collective, by everybody.
        """
        least = min(self.counts)  # a slice is no longer than any part

        def local(number: Array, few: Tree, count: Array) -> Tree:
            part = Streamed(few, number[0, 0], least)
            vector, back = ravel_pytree(sums(of_slice, part, count[0]))
            failed = jax.pure_callback(_failed, jax.ShapeDtypeStruct((), jnp.int32), number[0, 0], vector[:1])
            sum_, failed = jax.lax.psum(vector, AXIS), jax.lax.pmax(failed, AXIS)
            nothing = jax.pure_callback(_raised, jax.ShapeDtypeStruct((), jnp.int32), number[0, 0], failed)
            return back(sum_ + nothing.astype(sum_.dtype))

        counts = np.asarray(self.counts, np.int32)
        specs = PartitionSpec(AXIS), PartitionSpec(), PartitionSpec(AXIS)
        return over_mesh(self.mesh, local, specs)(self.number, self.arrays, jnp.asarray(counts))


class Patient(Reader):
    """Reads a device's part. Where that fails it gives zeros, and remembers why until it is asked."""

    def __init__(self, reader: Reader, like: Tree):
        self.reader, self.like, self.error = reader, like, None

    def read(self, start: int, size: int) -> Tree:
        """Rows start..start+size-1, or zeros."""
        if self.error is None:
            try:
                return self.reader.read(start, size)
            except Exception as error:
                self.error = error
        return jax.tree.map(lambda s: np.zeros((size, *s.shape), s.dtype), self.like)


def _failed(number: Any, _: Any) -> np.ndarray:
    """Whether a part could not be read: the number of this process, counted from 1, or 0."""
    reader: Any = readers[int(number)]
    return np.int32(0 if reader.error is None else jax.process_index() + 1)  # pyright: ignore[reportReturnType]


def _raised(number: Any, failed: Any) -> np.ndarray:
    """Raise what this process or another has met in its part; nothing where all could be read."""
    if int(failed):
        reader: Any = readers[int(number)]
        said, reader.error = reader.error, None  # with the file back in place the next pass may do
        if said is None:
            said = UnreadableError(
                f"Process {int(failed) - 1} of {jax.process_count()} cannot read its part of the files; it says why."
            )
        failures.append(said)
        raise said
    return np.int32(0)  # pyright: ignore[reportReturnType]


class _ShardVisits:
    """The samples of steps, of files over a mesh: every shard of this process is visited by itself, pass after pass, and
    gives one row in every round (`turns.py` says in which order). Its buffers hold the shard's share of the rows that are
    shuffled together."""

    def __init__(self, source: "Parquet", shares: list[range], mesh: Mesh, plan: Plan):
        sizes = np.array([sum(source.files.groups[g].rows for g in share) for share in shares])
        self.source, self.plan = source, plan
        self.turns = turns = Turns(mesh, sizes, plan, lambda key, s, first, count: np.arange(count))
        rows = -(-plan.steps * plan.batch_size // turns.number) + 1
        at_once = max(1, source.buffer_rows // turns.number)
        self.visits = {
            (*key, s): Visit(source, key_of(key, s), shares[s], rows, at_once)
            for key in itertools.product(plan.seeds, range(plan.draws))
            for s in turns.own.tolist()
        }

    def __call__(self, start: int, steps: int, length: int) -> tuple[Tree, Array]:
        """Rows and weights of so many steps, shaped (seeds, length, draws, devices * room, ...); the rest is none."""
        with failing_together(self.source.together, (UnreadableError,)):
            rows, weights = self._here(start, steps, length)
        return jax.tree.map(self.turns.spread, rows), self.turns.spread(weights)

    def _here(self, start: int, steps: int, length: int) -> tuple[Tree, np.ndarray]:
        """Those of this process, shaped (seeds, length, draws, devices, room, ...)."""
        plan, (at, weights) = self.plan, self.turns.places(start, steps, length)
        out = jax.tree.map(lambda s: np.zeros((*at.shape, *s.shape), s.dtype), self.source.example())
        for (i, seed), draw in itertools.product(enumerate(plan.seeds), range(plan.draws)):
            of_draw = jax.tree.map(lambda a, i=i, d=draw: a[i, :, d], out)
            self._gather((seed, draw), start, at[i, :steps, draw], of_draw)
        assert weights is not None
        return out, weights

    def _gather(self, key: tuple[int, int], start: int, at: np.ndarray, out: Tree) -> None:
        """Read what the shards of this process give in the rounds of these steps, and put it where it belongs."""
        turns, (first, last) = self.turns, self.turns.rounds(start, len(at))
        each, count = len(turns.own) // turns.here, last + 1 - first
        for device in range(turns.here):
            found = jax.tree.map(lambda s: np.empty((each, count, *s.shape), s.dtype), self.source.example())
            for k, s in enumerate(turns.own[device * each : (device + 1) * each].tolist()):
                self.visits[*key, s].read(first, count, jax.tree.map(lambda a, k=k: a[k, :, None], found))

            def put(into: np.ndarray, rows: np.ndarray, device: int = device) -> None:
                into[: len(at), device] = rows.reshape(-1, *rows.shape[2:])[at[:, device]]

            jax.tree.map(put, out, found)
