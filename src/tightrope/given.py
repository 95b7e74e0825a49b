"""What users give, before it is read: masked values are refused, and what other libraries say of it becomes a sentence."""

import contextlib
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from tightrope.arrow import from_arrow

_OWN = str(Path(__file__).parent)


def unmasked(what: str, given: Any) -> Any:
    """The data as it was given, tables of Arrow as pandas has them; refuses an array of which something is masked.

    Args:
        what: whose argument it is or what it is called, the first words of the refusal.
        given: anything.

    Example:
        >>> unmasked("X", np.ma.array([1.0, 2.0])).tolist()
        [1.0, 2.0]
    """
    if not isinstance(given, np.ma.MaskedArray):
        return from_arrow(given)
    masked = int(np.ma.getmaskarray(given).sum())
    if masked:
        raise ValueError(
            f"{what} is a masked array with {masked:,} of {given.size:,} values masked; expected values everywhere. Leave "
            "out the rows that have none, or fill them in with given.filled(...)."
        )
    return given.data


@contextlib.contextmanager
def in_a_sentence(what: str, expected: str) -> Iterator[None]:
    """Turn errors of NumPy, pandas and others about what was given into a sentence; those of scikit-learn are sentences.

    A TypeError stays one, so that whoever tells the kinds apart still can; all others become a ValueError.

    Args:
        what: what it is called, "X".
        expected: what it should be.

    Example:
        >>> with in_a_sentence("X", "numbers"):
        ...     np.asarray([1.0, {2}], float)
        Traceback (most recent call last):
        TypeError: X cannot be read (float() argument must be a string or a real number, not 'set'); expected numbers.
    """
    try:
        yield
    except (ValueError, TypeError, ArithmeticError, MemoryError, AttributeError) as error:
        where = traceback.extract_tb(error.__traceback__)[-1].filename
        if type(error) in (ValueError, TypeError) and (where.startswith(_OWN) or "sklearn" in where):
            raise
        kind = TypeError if isinstance(error, TypeError) else ValueError
        said = " ".join(str(error).split()).rstrip(".")
        raise kind(f"{what} cannot be read ({said}); expected {expected}.") from error
