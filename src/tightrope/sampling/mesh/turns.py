"""Which row of which logical shard is whose, and when: samples that do not depend on how many devices there are.

The rows of a data set belong to L logical shards of equal size (but for one row), in the order in which they stand; L is
chosen once, and a device owns L / P shards that lie side by side. Samples are numbered. Number j is the one of round j // L
that comes from shard `order[(j + r) % L]`, where r is a random rotation of the round, so a round takes one row from every
shard, and every sample comes from every shard with the same probability. `order` is the van der Corput sequence: any P
samples in a row of a round come from P different devices, whatever power of two P is. A shard gives its rows in
reshuffled passes of its own. All of this is a function of the seed and the number of the sample alone.

A row of a shard with n_s rows counts n_s L / n: 1 where L divides n, and else what makes means unbiased.
"""

import itertools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from tightrope.sampling.passes import AT_ONCE, Passes, drawn_by
from tightrope.sampling.sampler import Plan
from tightrope.tree import Array

AXIS = "shards"  # of every mesh, whatever a user has called theirs
_ROUNDS = 1024  # rounds whose rotations are drawn at once: a guess. Samples depend on it
_ROTATIONS = 1  # names what random numbers are for; any would do, and shards count on from the next


def starts_of(n: int, number: int) -> np.ndarray:
    """The first row of every shard, and the end."""
    return np.arange(number + 1) * n // number


def own_shards(mesh: Mesh, number: int, process: int | None = None) -> np.ndarray:
    """The numbers of the shards that lie on devices of a process, by default of this one."""
    devices, here = mesh.devices, jax.process_index() if process is None else process
    mine = np.flatnonzero([device.process_index == here for device in devices])
    each = number // devices.size
    return (mine[:, None] * each + np.arange(each)).reshape(-1)


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

    def places(self, start: int, steps: int, length: int, weighed: bool = True) -> tuple[np.ndarray, np.ndarray | None]:
        """Places and weights of this process's samples, shaped (seeds, length, draws, devices, room); beyond the first
        `steps` they are none."""
        plan = self.plan
        shape = len(plan.seeds), length, plan.draws, self.here, self.room
        at, weights = np.zeros(shape, np.int32), np.zeros(shape, jnp.result_type(float)) if weighed else None
        for (i, seed), draw in itertools.product(enumerate(plan.seeds), range(plan.draws)):
            self._fill(at[i, :steps, draw], None if weights is None else weights[i, :steps, draw], (seed, draw), start)
        return at, weights

    def _fill(self, at: np.ndarray, weights: np.ndarray | None, key: tuple[int, int], start: int) -> None:
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
            place = np.ascontiguousarray(rows.T)
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
        every = np.concatenate([drawn_by(*key, _ROTATIONS, k).integers(self.number, size=_ROUNDS) for k in groups])
        return every[first - groups[0] * _ROUNDS : last + 1 - groups[0] * _ROUNDS]


class ShardOrder:
    """The samples of steps, of rows in memory: for every device the places of its rows, and what they count."""

    def __init__(self, mesh: Mesh, starts: np.ndarray, replace: bool, plan: Plan):
        sizes = np.diff(starts)
        passes = {int(s): Passes(int(sizes[s]), replace, AT_ONCE) for s in own_shards(mesh, len(sizes))}

        def entries(key: tuple[int, int], s: int, first: int, count: int) -> np.ndarray:
            return passes[s].entries(key_of(key, s), first, count)

        self.turns = Turns(mesh, sizes, plan, entries, int(sizes.max()))
        self.weights: Array | None = None  # of a whole block of steps, where they are the same for all

    def __call__(self, start: int, steps: int, length: int) -> tuple[Array, Array]:
        """Places and weights of so many steps, shaped (seeds, length, draws, devices * room); the rest fills the shape."""
        turns = self.turns
        at, weights = turns.places(start, steps, length, weighed=self.weights is None)
        kept = self.weights if weights is None else turns.spread(weights)
        if steps == length and (turns.whole_rounds or (turns.devices == 1 and np.ptp(turns.sizes) == 0)):
            self.weights = kept
        assert kept is not None
        return turns.spread(at), kept


def _rotated(rounds: np.ndarray, rotations: np.ndarray) -> np.ndarray:
    """Every round from the place of its rotation on, and then from its beginning: windows of rounds that stand twice."""
    twice = np.concatenate([rounds, rounds], axis=1)
    windows = np.lib.stride_tricks.sliding_window_view(twice, rounds.shape[1], axis=1)
    return windows[np.arange(len(rounds)), rotations]


def key_of(key: tuple[int, int], s: int) -> tuple[int, int, int]:
    """By which the random numbers of a shard are drawn."""
    return *key, _ROTATIONS + 1 + s


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
