"""The observed entries of a matrix, laid out so that products with vectors need no scattered writes.

Entries are kept by rows and by columns, in blocks of a fixed width that belong to one row (or column) each; the last block
of a row is filled up. A product is then a gather, a sum over the width of each block, and a short sorted sum over blocks.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from tightrope.sampling.mesh.turns import AXIS
from tightrope.sets.low_rank import LowRank
from tightrope.tree import Array, Tree, pytree, static


class Blocks(NamedTuple):
    """Entries in blocks of one row each: (blocks, width) arrays; `owner` is the row of a block, `other` the columns."""

    owner: Array
    other: Array
    real: Array  # False where a block is filled up


@pytree
class SpreadBlocks:
    """Blocks over a mesh: every device has those of its own rows of the matrix; arrays have a first axis of devices."""

    blocks: Blocks
    mesh: Mesh = static()

    @property
    def real(self) -> Array:
        """False where a block is filled up, on all devices."""
        return self.blocks.real

    def each(self, fn: Callable[..., Array], spread: tuple[Array, ...] = (), whole: Tree = ()) -> Array:
        """fn(blocks, *spread, *whole) of every device: with its own part of `spread`, and all of `whole`."""
        return self._mapped(lambda own, whole: fn(*own, *whole)[None], PartitionSpec(AXIS), spread, whole)

    def total(self, fn: Callable[..., Array], spread: tuple[Array, ...] = (), whole: Tree = ()) -> Array:
        """The sum over devices of that, in one collective."""
        return self._mapped(lambda own, whole: jax.lax.psum(fn(*own, *whole), AXIS), PartitionSpec(), spread, whole)

    def _mapped(self, fn: Callable[..., Array], out: PartitionSpec, spread: tuple[Array, ...], whole: Tree) -> Array:
        def local(parts, whole):
            return fn(jax.tree.map(lambda a: a[0], parts), whole)

        specs = PartitionSpec(AXIS), PartitionSpec()
        return jax.shard_map(local, mesh=self.mesh, in_specs=specs, out_specs=out, check_vma=False)(
            (self.blocks, *spread), whole
        )


@pytree
class Entries:
    """The places and values of the observed entries of a large matrix."""

    by_row: Blocks | SpreadBlocks
    by_column: Blocks | SpreadBlocks
    source: Array  # where the entries of `by_column` stand in `by_row`, flattened
    values: Array  # in the layout of `by_row`; 0 where filled up

    def seen(self, x: LowRank) -> Array:
        """The entries of x at the observed places, in the layout of `values`."""
        return seen_at(self.by_row, x)

    def matrix(self, values: Array, weight: Any, x: LowRank) -> "SparsePlusLowRank":
        """The matrix with these values at the observed places, plus weight times x."""
        by_column = _by_column(self.by_column, values, self.source)
        return SparsePlusLowRank(self.by_row, self.by_column, values, by_column, x * weight)

    def inner(self, g: "SparsePlusLowRank", d: LowRank, seen: Array) -> Array:
        """<g, d>, where `seen` is what d has at the observed places."""
        across = (g.low.u.T @ d.u) @ d.core @ (d.v.T @ g.low.v)
        return jnp.vdot(g.values, seen) + jnp.vdot(g.low.core, across)


@pytree
class Grid:
    """The same for a matrix of which much is observed: it is kept whole, which takes no more memory and is faster."""

    real: Array
    values: Array

    def seen(self, x: LowRank) -> Array:
        """The entries of x at the observed places, 0 elsewhere."""
        return jnp.where(self.real, x.dense(), 0)

    def matrix(self, values: Array, weight: Any, x: LowRank) -> Array:
        """The matrix with these values at the observed places, plus weight times x (which `seen` has made already)."""
        return values + weight * x.dense()

    def inner(self, g: Array, d: LowRank, seen: Array) -> Array:
        """<g, d>; `seen` is not needed, since g is known entry by entry."""
        return jnp.vdot(g, d.dense())


def _by_column(blocks: Blocks | SpreadBlocks, values: Array, source: Array) -> Array:
    """Values in the layout by columns, from that by rows."""
    if isinstance(blocks, SpreadBlocks):
        return blocks.each(_by_column, (values, source))
    return jnp.where(blocks.real, values.reshape(-1)[source], 0)


def seen_at(blocks: Blocks | SpreadBlocks, x: LowRank) -> Array:
    """The entries of x at the places of the blocks, 0 where they are filled up."""
    if isinstance(blocks, SpreadBlocks):
        return blocks.each(seen_at, whole=(x,))
    owner, other, real = blocks
    left = x.u @ x.core

    def at_once(left, v):
        return jnp.sum(left[owner][:, None, :] * v[other], axis=-1)

    def some_at_a_time(left, v):  # as in `product`
        def add(sum, some):
            return _unless_zero(some[0], lambda: sum + at_once(*some), lambda: sum), None

        return jax.lax.scan(add, jnp.zeros(other.shape, left.dtype), (_in_groups(left), _in_groups(v)))[0]

    found = jax.lax.platform_dependent(left, x.v, cpu=some_at_a_time, default=at_once)
    return jnp.where(real, found, 0)


def product(blocks: Blocks | SpreadBlocks, values: Array, w: Array, length: int) -> Array:
    """The sparse matrix of these values times w, a vector or a thin matrix; `length` is the number of owners."""
    if isinstance(blocks, SpreadBlocks):
        return blocks.total(lambda own, values, w: product(own, values, w, length), (values,), (w,))

    def at_once(w):
        sums = jnp.sum(values.reshape(values.shape + (1,) * (w.ndim - 1)) * w[blocks.other], axis=1)
        return jax.ops.segment_sum(sums, blocks.owner, length, indices_are_sorted=True)

    def some_at_a_time(w):
        none = jnp.zeros((length, _TOGETHER), w.dtype)
        groups = jax.lax.map(lambda some: _unless_zero(some, lambda: at_once(some), lambda: none), _in_groups(w))
        return groups.transpose(1, 0, 2).reshape(length, -1)[:, : w.shape[1]]

    if w.ndim == 1:
        return at_once(w)
    return jax.lax.platform_dependent(w, cpu=some_at_a_time, default=jax.vmap(at_once, 1, 1))


_TOGETHER = 16
"""Columns that a CPU takes together, a cache line or two; measured: one by one takes thrice as long, all at once ten."""


def _in_groups(columns: Array) -> Array:
    """A thin matrix as groups of columns, the last of which is filled up."""
    rows, count = columns.shape
    more = -count % _TOGETHER
    return jnp.pad(columns, ((0, 0), (0, more))).reshape(rows, -1, _TOGETHER).transpose(1, 0, 2)


def _unless_zero(columns: Array, made: Callable[[], Array], otherwise: Callable[[], Array]) -> Array:
    """What is made of columns, or something else where they are all zero, such as those of a rank that is not used up."""
    return jax.lax.cond(jnp.vdot(jnp.sign(columns), columns) != 0, made, otherwise)  # no square, which could vanish


@pytree
class SparsePlusLowRank:
    """A sparse matrix on the places of some entries plus a thin one; vectors and thin matrices can be multiplied with it."""

    by_row: Blocks | SpreadBlocks
    by_column: Blocks | SpreadBlocks
    values: Array
    values_by_column: Array
    low: LowRank

    @property
    def shape(self) -> tuple[int, int]:
        """How many rows and columns the matrix has."""
        return self.low.shape

    @property
    def dtype(self) -> Any:
        """The dtype of its values."""
        return self.values.dtype

    def energy(self) -> Array:
        """The sum of the squared entries: at the places, where both matrices add up, and of the thin one elsewhere."""
        seen = seen_at(self.by_row, self.low)
        outside = jnp.maximum(self.low.energy() - jnp.sum(seen**2), 0)
        lost = 64 * float(jnp.finfo(self.dtype).eps) * self.low.energy()  # at most, by rounding of the difference
        return jnp.sum(jnp.where(self.by_row.real, self.values + seen, 0) ** 2) + outside + lost

    @property
    def T(self) -> "SparsePlusLowRank":
        """The transpose, whose entries are already laid out by its rows."""
        return SparsePlusLowRank(self.by_column, self.by_row, self.values_by_column, self.values, self.low.T)

    def __matmul__(self, w: Array) -> Array:
        return product(self.by_row, self.values, w, self.shape[0]) + self.low @ w

    def __rmatmul__(self, w: Array) -> Array:
        return product(self.by_column, self.values_by_column, w, self.shape[1]) + w @ self.low


CELLS_PER_ENTRY = 4
"""A matrix with at most this many cells for each observed entry is kept as a `Grid`; derived: entries in blocks, with their
places by rows and by columns, take as much memory. Measured: a product of a grid is ten times as fast."""


def entries(
    rows: np.ndarray,
    columns: np.ndarray,
    values: np.ndarray,
    shape: tuple[int, int],
    like: tuple[np.ndarray, np.ndarray] | None = None,
) -> Entries | Grid:
    """Lay out the observed entries; places must be distinct.

    Args:
        rows, columns, values, shape: the entries, and the size of the matrix.
        like: rows and columns of these and more entries, whose shapes the layout gets, so that a program fits both.
    """
    all_rows, all_columns = (rows, columns) if like is None else like
    if shape[0] * shape[1] <= CELLS_PER_ENTRY * len(all_rows):
        real, held = np.zeros(shape, bool), np.zeros(shape, values.dtype)
        real[rows, columns], held[rows, columns] = True, values
        return Grid(jnp.asarray(real), jnp.asarray(held))
    by_row, by_column, source, held = _laid_out(rows, columns, values, shape, all_rows, all_columns)
    by_row, by_column, source, held = jax.tree.map(jnp.asarray, (by_row, by_column, source, held))
    return Entries(by_row, by_column, source, held)


def spread_entries(
    rows: np.ndarray, columns: np.ndarray, values: np.ndarray, shape: tuple[int, int], mesh: Mesh
) -> Entries:
    """Lay the observed entries out over a mesh: every device has the entries of some rows, about as many as the others.

    Every process is given all entries, and keeps those of its own devices.
    """
    count = mesh.devices.size
    ends = np.cumsum(np.bincount(rows, minlength=shape[0]))
    owner = (ends[rows] - 1) * count // len(rows)  # of an entry, by its row
    widths = _width(len(rows), shape[0]), _width(len(rows), shape[1])
    parts = [
        _laid_out(rows[mine], columns[mine], values[mine], shape, rows[mine], columns[mine], widths)
        for mine in (owner == device for device in range(count))
    ]
    sharding = NamedSharding(mesh, PartitionSpec(AXIS))

    def stacked(*leaves: np.ndarray) -> Array:
        whole = np.zeros((count, max(map(len, leaves)), *leaves[0].shape[1:]), leaves[0].dtype)
        for device, own in enumerate(leaves):
            whole[device, : len(own)] = own
            if own.ndim == 1 and len(own):  # owners stay sorted
                whole[device, len(own) :] = own[-1]
        return jax.make_array_from_callback(whole.shape, sharding, lambda index: whole[index])

    by_row, by_column, source, held = jax.tree.map(stacked, *parts)
    return Entries(SpreadBlocks(by_row, mesh), SpreadBlocks(by_column, mesh), source, held)


def _laid_out(
    rows: np.ndarray,
    columns: np.ndarray,
    values: np.ndarray,
    shape: tuple[int, int],
    all_rows: np.ndarray,
    all_columns: np.ndarray,
    widths: tuple[int, int] | None = None,
) -> tuple[Blocks, Blocks, np.ndarray, np.ndarray]:
    """What `Entries` is made of, on the host."""
    small = map(np.min_scalar_type, shape)  # to sort fast
    rows, columns = (at.astype(kind) for at, kind in zip((rows, columns), small, strict=True))
    order = np.lexsort((columns, rows))
    wide, high = widths or (None, None)
    by_row, at = _blocks(rows[order], columns[order], np.bincount(all_rows, minlength=shape[0]), wide)
    place = np.empty(len(rows), np.int32)
    place[order] = at
    order = np.lexsort((rows, columns))
    by_column, at_column = _blocks(columns[order], rows[order], np.bincount(all_columns, minlength=shape[1]), high)
    source = np.zeros(by_column.other.size, np.int32)
    source[at_column] = place[order]
    held = np.zeros(by_row.other.size, values.dtype)
    held[place] = values
    return by_row, by_column, source.reshape(by_column.other.shape), held.reshape(by_row.other.shape)


def _blocks(
    owner: np.ndarray, other: np.ndarray, room: np.ndarray, width: int | None = None
) -> tuple[Blocks, np.ndarray]:
    """Blocks of entries sorted by owner, with room for so many of each, and the place of each entry, flattened."""
    n = len(room)
    lengths = np.bincount(owner, minlength=n)
    width = width or _width(int(room.sum()), n)
    blocks = -(-room // width)
    first = np.concatenate([[0], np.cumsum(blocks)])
    total = few_sizes(int(first[-1]))
    within = np.arange(len(owner)) - np.repeat(np.concatenate([[0], np.cumsum(lengths)[:-1]]), lengths)
    at = (np.repeat(first[:-1], lengths) * width + within).astype(np.int64)
    owners = np.full(total, n - 1, np.int32)  # blocks that only fill up come last, where they keep the order
    owners[: first[-1]] = np.repeat(np.arange(n, dtype=np.int32), blocks)
    others, real = np.zeros(total * width, np.int32), np.zeros(total * width, bool)
    others[at], real[at] = other, True
    shape = total, width
    return Blocks(owners, others.reshape(shape), real.reshape(shape)), at  # pyright: ignore[reportArgumentType]


def _width(count: int, n: int) -> int:
    """About a sixth of a mean row: wide blocks save sums over blocks, narrow ones are filled up less."""
    return int(2 ** np.clip(np.round(np.log2(max(count / max(n, 1), 1) / 6)), 2, 6))


def few_sizes(count: int, least: int = 1) -> int:
    """The number rounded up to four significant bits and a multiple of `least`, a power of two: at most an eighth more, so
    that data sets of similar sizes share a compiled program.

    Example:
        >>> few_sizes(33), few_sizes(1000), few_sizes(5, least=64)
        (36, 1024, 64)
    """
    step = max(least, 1 << max(0, (count - 1).bit_length() - 4))
    return -(-count // step) * step
