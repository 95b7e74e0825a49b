"""The largest sizes that are taken. Beyond them a call is refused in a sentence, before anything is allocated.

Most are far beyond what a machine can do today. They are there because a slip of the keyboard, such as one zero too many,
should not end in hours of allocating, in a process that the system kills, or in numbers that overflowed on the way.
"""

import itertools
import os
from collections.abc import Iterable
from typing import Any

import jax
import numpy as np
from jax.core import Tracer

MOST_COORDINATES = np.iinfo(np.int32).max
"""Coordinates of one point, and rows or columns of a matrix: compiled code numbers them in 32 bits with a sign."""
MOST_LENGTH = 1e18
"""A radius, or a bound of a coordinate, in units of the coordinates: the square of twice as much, 4e36, is still a number in
float32, which ends at 3.4e38; with sums over coordinates and multipliers in mind a guess at how much room to leave."""
MOST_ROWS = 10_000_000
"""Rows of a trace or of a sweep's table: some gigabytes in pandas; a guess at what nobody asks for on purpose."""
_CERTAINLY_TOO_LARGE = 2**50
"""Bytes of one point that no machine has, whatever it says of itself: a pebibyte, a guess."""
_NOT_ASKED_BELOW = 2**32
"""Bytes up to which the machine is not even asked how much it has: 4 GiB, a guess."""
KEPT = 3
"""Points that every run keeps at the same time; derived: the iterate, the gradient, and the next iterate."""
SURELY_FIT = _NOT_ASKED_BELOW // (8 * KEPT)
"""Coordinates of a point for which the machine is not asked."""
AT_ONCE = 1 << 22
"""Numbers that are made, read or held at once, 32 MB of float64: a guess at what is soon done and fits anywhere."""


def memory() -> int | None:
    """The machine's memory in bytes; None where the system does not say."""
    if not hasattr(os, "sysconf"):
        return None
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def beyond_memory(size: float) -> bool:
    """Whether so many bytes are more than this machine has."""
    if size <= _NOT_ASKED_BELOW:
        return False
    have = memory()
    return size > _CERTAINLY_TOO_LARGE or (have is not None and size > have)


def refuse_points_beyond_memory(x: Any) -> None:
    """Refuse points that do not fit into memory: inside the compiler they would end the process.

    Args:
        x: a point, or only the shapes and dtypes of its arrays.
    """
    leaves = jax.tree.leaves(x)
    size = sum(leaf.size * leaf.dtype.itemsize for leaf in leaves)
    if beyond_memory(KEPT * size):
        count = sum(leaf.size for leaf in leaves)
        raise ValueError(
            f"The domain's points have {count:,} coordinates, {size / 2**30:,.0f} GiB each, of which a run keeps {KEPT}: "
            "that is more than this machine has. Use a smaller shape; for matrices there is "
            "tr.StructuredMatrixCompletion, which keeps factors."
        )


def length(owner: str, name: str, value: Any) -> None:
    """Refuse a radius that is not one finite number of a size with which one can compute, or that is negative.

    Values that are being traced have no size yet; they pass unchecked.
    """
    if isinstance(value, Tracer):
        return
    expected = f"expected one number from 0 to {MOST_LENGTH:g}, so that sums of squares do not overflow"
    if not isinstance(value, int | float | np.generic | np.ndarray | jax.Array):
        raise TypeError(f"{owner}: {name} is {value!r}; {expected}.")
    if np.ndim(value) != 0:
        raise ValueError(f"{owner}: {name} is an array of shape {np.shape(value)}; {expected}.")
    kind = np.asarray(value).dtype.kind
    if kind not in "fiub" and not jax.numpy.issubdtype(np.asarray(value).dtype, np.floating):
        huge = isinstance(value, int)  # NumPy keeps whole numbers beyond 64 bits as objects
        raise ValueError(f"{owner}: {name} is {'a number of more than 64 bits' if huge else repr(value)}; {expected}.")
    if not 0 <= float(value) <= MOST_LENGTH:
        raise ValueError(f"{owner}: {name} is {value!r}; {expected}.")


def at_most(values: Iterable[Any], most: int, owner: str, name: str) -> tuple[Any, ...]:
    """The values, of which there may be no end; refused where there are more than so many."""
    found = tuple(itertools.islice(values, most + 1))
    if len(found) > most:
        raise ValueError(f"{owner}: {name} has more than {most:,} values; expected at most so many.")
    return found
