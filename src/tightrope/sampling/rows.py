"""Rows at hand: a finite data set, visited in reshuffled passes."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tightrope.sampling.base import Blocks, Draws, Plan, Sampler, refuse_what_wraps
from tightrope.tree import Array, Tree, pytree, set_field, static

_INDICES_AT_ONCE = 4096


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
    def n(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        """How many rows there are."""
        return jax.tree.leaves(self.data)[0].shape[0]

    @property
    def rows(self) -> Tree:
        """All the data, a pytree of arrays with one sample per row."""
        return self.data

    @property
    def content(self) -> tuple[Any, ...]:
        """The data, and how it is drawn."""
        return self.data, str(self.replace)

    def some(self, count: int, seed: int) -> Tree:
        """At most so many rows, drawn without replacement."""
        return self.pick(jnp.asarray(np.random.default_rng(seed).permutation(self.n)[:count]))

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
        return Blocks(plan, 4, Order(self.n, self.replace, plan))

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
        raise ValueError(
            "Rows: a single number was given; expected arrays with one row per sample. Lists become one by np.array(data)."
        )
    if isinstance(array, np.ndarray):
        refuse_what_wraps("Rows", array)
    if array.dtype.kind == "f" and not bool(np.all(np.isfinite(array))):
        bad = int(np.argwhere(~np.isfinite(np.asarray(array)))[0][0])
        raise ValueError(
            f"Rows: the data has NaN or infinite values (first in row {bad}); expected finite numbers. "
            "Drop or impute them first."
        )
    return jnp.asarray(array)


class Order:
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
