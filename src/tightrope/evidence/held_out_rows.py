"""Held-out rows: what was chosen on data is not certified on the same data, so rows that a run has seen are recognised."""

import weakref
from typing import Any, NamedTuple

import jax
import numpy as np

from tightrope._limits import AT_ONCE
from tightrope.confidence import binomial_lower, binomial_upper, copies
from tightrope.confidence.independence import row_codes
from tightrope.problem.rounding import count
from tightrope.sampling import Sampler, as_sampler
from tightrope.sampling.rows import KEPT_ROWS, data_of, kept
from tightrope.tree import Tree, size_of

_NUMBERS = 4 * AT_ONCE  # that are looked at for copies: about a second on the host
_SURE = 0.9999  # confidence of each of the two bounds by which rows are called seen; by hand
_LEAK = 0.01  # the share of seen rows that is let pass: it moves a mean by as little; by hand
_COINCIDENCE = 1e-6  # chance below which equal rows in the same order are the same rows; by hand


def read_held_out(heldout: Any, like: Tree = None) -> Tree:
    """Held-out rows as given; of a generator fresh samples, which no step of any run sees. `like` is a sample as the data
    has them: rows of other shapes are refused."""
    sampler = as_sampler(heldout).narrowed()
    given, expected = (jax.tree.map(lambda s: s.shape, one) for one in (sampler.example(), like))
    if like is not None and given != expected:
        raise ValueError(f"heldout has rows of shapes {given}; expected {expected}, as the data has.")
    if sampler.n is not None:
        return sampler.rows
    rows = sampler.fresh(2**32 - 1, KEPT_ROWS)
    if rows is None:
        raise TypeError(
            "heldout is a stream, which would be used up; expected arrays. For streams there is Online.certify."
        )
    return rows


def first_of_copies(rows: Tree) -> np.ndarray | None:
    """The numbers of the rows that are left when copies are dropped; None where there are none, and of files and
    arrays so long that a look would take longer than a pass."""
    tables = _tables(rows)
    return None if tables is None else copies(tables)


def codes_of(rows: Tree) -> np.ndarray:
    """A column with the same number for equal rows; no column where rows are not looked at for copies either."""
    tables = _tables(rows)
    return np.empty((count(rows), 0)) if tables is None else row_codes(tables)[:, None]


def _tables(rows: Tree) -> list[np.ndarray] | None:
    leaves = jax.tree.leaves(rows)
    if (
        not data_of(rows).in_memory
        or size_of(rows) > _NUMBERS
        or any(len(leaf) != count(rows) or jax.numpy.issubdtype(leaf.dtype, jax.dtypes.extended) for leaf in leaves)
    ):
        return None
    return [np.asarray(leaf) for leaf in leaves]


def copies_said(rows: Tree) -> tuple[str, ...]:
    """A note where there are copies."""
    once = first_of_copies(rows)
    if once is None:
        return ()
    n = count(rows)
    return (
        f"{n - len(once):,} of {n:,} held-out rows are copies of others; bounds are the worse of all rows and of each once.",
    )


class Marks(NamedTuple):
    """A number for each of some rows, equal for equal rows: to recognise them, and not to hide them."""

    of: int  # how many rows there are; marked ones are spread evenly among them
    numbers: np.ndarray

    def and_those(self, rows: Tree) -> "Marks":
        """With marks of more rows."""
        more = marks_of(rows)
        return Marks(self.of + more.of, np.concatenate([self.numbers, more.numbers]))


_of_samplers: weakref.WeakKeyDictionary[Sampler, Marks] = weakref.WeakKeyDictionary()


def marks_of_sampler(sampler: Sampler) -> Marks:
    """Marks of the rows that a sampler has, made once: they do not change, and a search runs on them many times."""
    if sampler not in _of_samplers:
        _of_samplers[sampler] = marks_of(sampler.rows)
    return _of_samplers[sampler]


def marks_of(rows: Tree) -> Marks:
    """Marks of at most 65,536 rows, spread evenly, and of fewer where they are wide; values are compared as float32,
    whatever they were computed in."""
    of, rows = count(rows), kept(rows)
    n, leaves = count(rows), jax.tree.leaves(rows)
    width = sum(max(int(np.prod(leaf.shape[1:])), 1) for leaf in leaves)
    step = -(-n // min(KEPT_ROWS, max(1024, AT_ONCE // width)))
    parts = [_every(step, leaf) for leaf in leaves if leaf.size]
    rng = np.random.default_rng(0)
    numbers = np.zeros(-(-n // step), np.uint64)
    for part in parts:
        values = part.reshape(len(part), -1)
        factors = rng.integers(2**63, size=values.shape[1], dtype=np.uint64) * np.uint64(2) + np.uint64(1)
        at_once = max(1, AT_ONCE // values.shape[1])
        for start in range(0, len(values), at_once):
            some = slice(start, start + at_once)
            words = (values[some].astype(np.float32) + np.float32(0)).view(np.uint32)  # -0 is 0
            numbers[some] += np.einsum("ij,j->i", words, factors)
    return Marks(of, numbers)


def _every(step: int, leaf: Any) -> np.ndarray:
    """Every so manieth row, on the host. What is in a CPU's memory is read where it lies."""
    near = not isinstance(leaf, jax.Array) or {device.platform for device in leaf.devices()} == {"cpu"}
    return np.asarray(leaf)[::step] if near else np.asarray(leaf[::step])


def refuse_seen(seen: Marks, heldout: Tree) -> None:
    """Refuse held-out rows among which are more of the rows that were seen than chance explains.

    Equal rows need not be the same: small discrete data repeats itself. How often is read off the rows that were seen: an
    independent row is found among them about as often as one of them is found among the others. Refused is a share that is
    larger than this by more than a hundredth, each side with its own error; and the same rows in the same order, where that
    is no coincidence.
    """
    new = marks_of(heldout)
    distinct, counts = np.unique(seen.numbers, return_counts=True)
    repeated = int(counts[counts > 1].sum())
    found = int(np.isin(new.numbers, distinct).sum())
    by_chance = binomial_upper(repeated, len(seen.numbers), _SURE)
    allowed = by_chance + _LEAK * len(seen.numbers) / seen.of
    if binomial_lower(found, len(new.numbers), _SURE) > allowed or _same(seen, new, distinct, counts):
        share = found / len(new.numbers)
        raise ValueError(
            f"{100 * share:.3g} % of the held-out rows are also among the rows that the point was made from; "
            f"expected rows that nothing was chosen on ({100 * by_chance:.2g} % would be coincidence). Split the data "
            "first: what was chosen on data is not certified on the same data."
        )


def _same(seen: Marks, new: Marks, distinct: np.ndarray, counts: np.ndarray) -> bool:
    """Whether these are the same rows in the same order, and that is no coincidence."""
    if seen.of != new.of or not np.array_equal(seen.numbers, new.numbers):
        return False
    shares = counts / counts.sum()
    return float(np.sum(counts * np.log(shares))) < np.log(_COINCIDENCE)
