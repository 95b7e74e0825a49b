"""Where samples come from: rows at hand, a generator of samples, a stream.

Step t's samples depend on (seed, t) alone, so a result does not depend on how a run is cut into chunks and a resumed
run equals an uninterrupted one. A sampler opens into `Draws`, which prepares many steps' samples in one vectorised
call before the compiled loop: a random number drawn inside the loop costs more than the step itself. For rows, what is
prepared is indices; the loop looks the rows up.
"""

import dataclasses
import inspect
import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tightrope._tree import Array, Tree, pytree, set_field, static

_BLOCK_STEPS = 16_384
_BLOCK_BYTES = 32 * 2**20
_INDICES_AT_ONCE = 4096


class Plan(NamedTuple):
    """How a run wants its samples."""

    seeds: tuple[int, ...]  # one for a run, several for a sweep
    draws: int = 1  # independent batches a step
    batch_size: int = 1
    steps: int = 2**31  # how many will be asked for at most


class Buffer(NamedTuple):
    """Samples (or their indices) of some steps, lying at `offset` in arrays of a fixed length."""

    items: Tree  # leaves (seeds, steps, draws, batch, ...)
    offset: int
    steps: int


class Draws(ABC):
    """An opened sampler: the samples of step t and after, a buffer at a time."""

    @abstractmethod
    def take(self, t: int, count: int) -> Buffer:
        """Samples for at most `count` steps from step t (counted from 0) on; none when the samples have ended."""


class Sampler(ABC):
    """A source of samples theta."""

    per_seed = True  # False where all seeds see the same samples; the axis of seeds then has length 1

    @abstractmethod
    def example(self) -> Tree:
        """The shapes and dtypes of one sample."""

    @abstractmethod
    def open(self, plan: Plan) -> Draws:
        """Start drawing."""

    def pick(self, item: Tree) -> Tree:
        """The samples that an item of a buffer stands for; runs inside the compiled loop."""
        return item

    def check(self, plan: Plan) -> None:  # noqa: B027 (nothing to refuse is a good answer)
        """Refuse a plan that cannot be met."""


# ---- rows at hand --------------------------------------------------------------------------------------------------


@pytree
class Rows(Sampler):
    """A finite data set: a pytree of arrays with one sample per row.

    Rows are visited in reshuffled passes; with `replace=True` they are drawn independently, as the theorems assume.
    Batches straddle passes, so their shapes never change.

    Example:
        >>> import numpy as np, tightrope as tr
        >>> tr.Rows((np.ones((10, 3)), np.zeros(10))).n
        10
    """

    data: Tree
    replace: bool = static(default=False)
    narrowed: bool = dataclasses.field(init=False, default=False, metadata={"static": True})

    def __post_init__(self):
        leaves = jax.tree.leaves(self.data)
        if not leaves:
            raise ValueError("Rows: the data is empty; expected at least one array with a row per sample.")
        set_field(self, "narrowed", any(_is_narrowed(leaf) for leaf in leaves))
        set_field(self, "data", jax.tree.map(_as_rows, self.data))
        lengths = {np.shape(leaf)[0] for leaf in jax.tree.leaves(self.data)}
        if len(lengths) > 1:
            raise ValueError(
                f"Rows: the arrays have {', '.join(map(str, sorted(lengths)))} rows; expected the same number in each."
            )
        if lengths == {0}:
            raise ValueError("Rows: the data set has no rows; expected at least one sample.")

    @property
    def n(self) -> int:
        """Number of rows."""
        return jax.tree.leaves(self.data)[0].shape[0]

    def example(self) -> Tree:
        """The shapes and dtypes of one row."""
        return jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape[1:], a.dtype), self.data)

    def check(self, plan: Plan) -> None:
        """Without replacement a batch cannot hold more rows than there are."""
        if plan.batch_size > self.n and not self.replace:
            raise ValueError(
                f"batch_size is {plan.batch_size} but the data has {self.n} rows. Use a smaller batch, or "
                "tr.Rows(data, replace=True) to draw with replacement."
            )

    def open(self, plan: Plan) -> Draws:
        """Indices by a counter-based generator on the host."""
        return _Blocks(plan, 4, _Order(self.n, self.replace, plan))

    def pick(self, item: Tree) -> Tree:
        """Look the rows up."""
        return jax.tree.map(lambda a: a[item], self.data)


def _is_narrowed(leaf: Any) -> bool:
    """Whether JAX, as configured, keeps fewer digits than the data has."""
    dtype = getattr(leaf, "dtype", None)
    return dtype == np.float64 and jax.dtypes.canonicalize_dtype(np.float64) != np.float64


def _as_rows(leaf: Any) -> Any:
    array = leaf if isinstance(leaf, jax.Array) else np.asarray(leaf)
    if array.dtype.kind not in "fiub":
        raise TypeError(
            f"Rows: an array of dtype {array.dtype} was given; expected numbers. Encode text and categories first."
        )
    if array.ndim == 0:
        raise ValueError("Rows: a single number was given; expected arrays with one row per sample.")
    if array.dtype.kind == "f" and not bool(np.all(np.isfinite(array))):
        bad = int(np.argwhere(~np.isfinite(np.asarray(array)))[0][0])
        raise ValueError(
            f"Rows: the data has NaN or infinite values (first in row {bad}); expected finite numbers. "
            "Drop or impute them first."
        )
    return jnp.asarray(array)


class _Order:
    """The order in which rows are visited: an endless sequence of passes, of which the current one is kept."""

    def __init__(self, n: int, replace: bool, plan: Plan):
        self.n, self.replace, self.plan = n, replace, plan
        self.passes = max(1, _INDICES_AT_ONCE // n)  # short passes are made several at a time
        self.kept: dict[tuple[int, int], tuple[int, np.ndarray]] = {}

    def __call__(self, start: int, count: int) -> Array:
        """Row numbers of steps start..start+count-1, shaped (seeds, count, draws, batch)."""
        plan, b = self.plan, self.plan.batch_size
        order = np.zeros((len(plan.seeds), count, plan.draws, b), np.int32)
        used = max(0, min(count, plan.steps - start))  # the rest only fills the shape, which must not depend on T
        for i, seed in enumerate(plan.seeds):
            for draw in range(plan.draws):
                order[i, :used, draw] = self._entries(seed, draw, start * b, used * b).reshape(used, b)
        return jnp.asarray(order)

    def _entries(self, seed: int, draw: int, start: int, count: int) -> np.ndarray:
        size = self.n * self.passes
        first, last = start // size, (start + count - 1) // size
        groups = np.concatenate([self._group(seed, draw, k) for k in range(first, last + 1)])
        return groups[start - first * size : start - first * size + count]

    def _group(self, seed: int, draw: int, k: int) -> np.ndarray:
        """Group k of passes: permutations, or independent draws; a function of (seed, draw, k) alone."""
        number, rows = self.kept.get((seed, draw), (-1, np.empty(0, np.int32)))
        if number != k:
            rng = np.random.Generator(np.random.Philox(np.random.SeedSequence([seed, draw, k])))
            if self.replace:
                rows = rng.integers(self.n, size=self.passes * self.n, dtype=np.int32)
            else:
                every = np.broadcast_to(np.arange(self.n, dtype=np.int32), (self.passes, self.n))
                rows = rng.permuted(every, axis=1).reshape(-1)
            self.kept[seed, draw] = k, rows
        return rows


# ---- a generator of samples ----------------------------------------------------------------------------------------


@pytree
class Generator(Sampler):
    """Samples made by a function of a JAX random key: fresh ones at every step, for ever.

    Args:
        fn: `fn(key) -> theta`, one sample (a pytree of arrays), written with JAX.

    Example:
        >>> import jax, tightrope as tr
        >>> noise = tr.Generator(lambda key: jax.random.normal(key, (3,)))
    """

    fn: Callable[[Array], Tree] = static()

    def __post_init__(self):
        if not callable(self.fn):
            raise TypeError(f"Generator: fn is {self.fn!r}; expected a function of a random key.")

    def example(self) -> Tree:
        """The shapes and dtypes of one sample."""
        return jax.eval_shape(self.fn, jax.random.key(0))

    def open(self, plan: Plan) -> Draws:
        """Blocks of samples, each from a key of its own."""
        size = sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(self.example()))
        seeds = jnp.asarray(plan.seeds, jnp.uint32)

        def make(start: int, count: int) -> Tree:
            shape = count, plan.draws, plan.batch_size
            return _apply(self.fn, _keys(seeds, np.int32(start), *shape), shape)

        return _Blocks(plan, size, make)


# Two programs rather than one: that of the keys is then compiled once for all generators.


@partial(jax.jit, static_argnums=(2, 3, 4))
def _keys(seeds: Array, start: Array, count: int, draws: int, batch_size: int) -> Array:
    """A key for every sample of steps start..start+count-1, shaped (seeds, count * draws * batch)."""
    t, place = jnp.divmod(jnp.arange(count * draws * batch_size), draws * batch_size)

    def of_seed(seed):
        root = jax.random.key(seed)
        return jax.vmap(lambda t, place: jax.random.fold_in(jax.random.fold_in(root, t), place))(start + t, place)

    return jax.vmap(of_seed)(seeds)


@partial(jax.jit, static_argnums=(0, 2))
def _apply(fn: Callable[[Array], Tree], keys: Array, shape: tuple[int, int, int]) -> Tree:
    samples = jax.vmap(jax.vmap(fn))(keys)
    return jax.tree.map(lambda a: a.reshape(a.shape[0], *shape, *a.shape[2:]), samples)


# ---- a stream ------------------------------------------------------------------------------------------------------


class Stream(Sampler):
    """Batches from anywhere: a file reader, a queue, a torch DataLoader; never more than a buffer in memory.

    Args:
        factory: `factory(skip)` returns an iterable of batches (pytrees of arrays, one sample per row, any number of
            rows) that starts after the first `skip` rows, so that a run can resume. An iterable, or a function
            without arguments, is accepted too; to resume, its first rows are then read and dropped. An iterator can be
            read only once.

    Example:
        >>> import numpy as np, tightrope as tr
        >>> stream = tr.Stream(lambda skip: (np.full((5, 2), i) for i in range(skip // 5, 100)))
    """

    per_seed = False

    def __init__(self, factory: Callable[..., Iterable[Tree]] | Iterable[Tree]):
        if not callable(factory) and not isinstance(factory, Iterable):
            raise TypeError(f"Stream: {factory!r} was given; expected factory(skip) or an iterable of batches.")
        self.factory = factory
        self._peeked: Iterator[Tree] | None = None
        self._spent = False  # an iterator that has been opened

    def example(self) -> Tree:
        """The shapes and dtypes of one sample, read off the first batch (which is kept, not lost)."""
        batches = self._batches(0)
        first = next(batches, None)
        if first is None:
            raise ValueError("Stream: the stream is empty; expected at least one batch.")
        self._peeked = itertools.chain([first], batches)
        return jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape[1:], jax.dtypes.canonicalize_dtype(a.dtype)), first)

    def open(self, plan: Plan) -> Draws:
        """Read batches as they are needed and cut them to size."""
        return _StreamDraws(self, plan)

    def _batches(self, skip: int) -> Iterator[Tree]:
        peeked, self._peeked = self._peeked, None
        seeks = callable(self.factory) and bool(inspect.signature(self.factory).parameters)
        if peeked is not None and (skip == 0 or not seeks):
            return _drop(peeked, skip)
        if not callable(self.factory):
            if self._spent:
                raise ValueError(
                    "Stream: an iterator was given, which can be read only once, and it has been read. Give a list, or "
                    "a function factory(skip) that starts anew."
                )
            self._spent = isinstance(self.factory, Iterator)
            return _drop(map(_as_batch, iter(self.factory)), skip)
        return map(_as_batch, iter(self.factory(skip))) if seeks else _drop(map(_as_batch, iter(self.factory())), skip)


# To compiled code all streams are alike: what they read reaches it through buffers.
jax.tree_util.register_pytree_node(Stream, lambda _: ((), None), lambda *_: object.__new__(Stream))


def _as_batch(batch: Tree) -> Tree:
    arrays = jax.tree.map(np.asarray, batch)
    lengths = {a.shape[0] if a.ndim else None for a in jax.tree.leaves(arrays)}
    if len(lengths) != 1 or None in lengths:
        raise ValueError(
            f"Stream: a batch has arrays of shapes {[a.shape for a in jax.tree.leaves(arrays)]}; expected arrays "
            "with the same number of rows."
        )
    return arrays


def _drop(batches: Iterator[Tree], skip: int) -> Iterator[Tree]:
    """The batches without their first `skip` rows."""
    for batch in batches:
        rows = len(jax.tree.leaves(batch)[0])
        if skip < rows:
            yield jax.tree.map(lambda a, k=skip: a[k:], batch)
        skip = max(0, skip - rows)


class _StreamDraws(Draws):
    def __init__(self, stream: Stream, plan: Plan):
        self.stream, self.draws, self.batch_size = stream, plan.draws, plan.batch_size
        self.position: int | None = None
        self.rest: list[Tree] = []  # rows read but not used yet
        example = stream.example()
        self.shapes = jax.tree.map(lambda s: s.shape, example)
        size = sum(s.size * s.dtype.itemsize for s in jax.tree.leaves(example))
        self.length = _block_length(size * self.draws * self.batch_size)

    def take(self, t: int, count: int) -> Buffer:
        if self.position != t:
            self.batches = self.stream._batches(t * self.draws * self.batch_size)
            self.rest, self.position = [], t
        rows_a_step = self.draws * self.batch_size
        rows = self._read(min(count, self.length) * rows_a_step)
        steps = 0 if rows is None else len(jax.tree.leaves(rows)[0]) // rows_a_step
        if steps == 0:
            return Buffer((), 0, 0)
        self.position = t + steps

        def shaped(a):
            fixed = np.zeros((self.length, self.draws, self.batch_size, *a.shape[1:]), a.dtype)
            fixed[:steps] = a[: steps * rows_a_step].reshape(steps, self.draws, self.batch_size, *a.shape[1:])
            return jnp.asarray(fixed[None])

        return Buffer(jax.tree.map(shaped, rows), 0, steps)

    def _read(self, wanted: int) -> Tree:
        """The next `wanted` rows, or what is left."""
        have = sum(len(jax.tree.leaves(r)[0]) for r in self.rest)
        while have < wanted and (batch := next(self.batches, None)) is not None:
            shapes = jax.tree.map(lambda a: a.shape[1:], batch)
            if shapes != self.shapes:
                raise ValueError(f"Stream: a batch has rows of shapes {shapes}; expected {self.shapes}, as before.")
            self.rest.append(batch)
            have += len(jax.tree.leaves(batch)[0])
        if not self.rest:
            return None
        rows = jax.tree.map(lambda *parts: np.concatenate(parts), *self.rest)
        self.rest = [jax.tree.map(lambda a: a[wanted:], rows)] if have > wanted else []
        return jax.tree.map(lambda a: a[:wanted], rows)


# ---- shared ----------------------------------------------------------------------------------------------------------


def _block_length(bytes_a_step: int) -> int:
    """Steps in a block: a power of two, so that blocks stay aligned, within a bound on memory."""
    fitting = max(1, _BLOCK_BYTES // max(1, bytes_a_step))
    return min(_BLOCK_STEPS, 1 << (fitting.bit_length() - 1))


class _Blocks(Draws):
    """Aligned blocks of steps, each made whole, so that no sample depends on where a chunk begins."""

    def __init__(self, plan: Plan, bytes_a_sample: int, make: Callable[[int, int], Tree]):
        self.length = _block_length(bytes_a_sample * plan.draws * plan.batch_size * len(plan.seeds))
        self.make, self.number, self.items = make, -1, ()

    def take(self, t: int, count: int) -> Buffer:
        number, offset = divmod(t, self.length)
        if number != self.number:
            self.number, self.items = number, self.make(number * self.length, self.length)
        return Buffer(self.items, offset, min(count, self.length - offset))


def as_sampler(data: Any) -> Sampler:
    """Arrays become `Rows`; samplers stay."""
    if isinstance(data, Sampler):
        return data
    if callable(data):
        raise TypeError(
            "data is a function; say what it is: tr.Generator(fn) for fn(key) -> theta, tr.Stream(factory) for "
            "factory(skip) -> batches."
        )
    if isinstance(data, Iterator):
        raise TypeError("data is an iterator; wrap it in tr.Stream, which reads batches from anywhere.")
    return Rows(data)
