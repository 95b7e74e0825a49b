"""Errors of NumPy, pandas and others about what a user gave, as sentences that say what it was and what was expected."""

import contextlib
import traceback
from collections.abc import Iterator
from pathlib import Path

import tightrope

_OWN = str(Path(tightrope.__file__).parent)


@contextlib.contextmanager
def in_a_sentence(what: str, expected: str) -> Iterator[None]:
    """Turn errors of NumPy, pandas and others about what was given into a sentence; those of scikit-learn are sentences.

    A TypeError stays one, for callers that tell the kinds apart; all others become a ValueError.

    Args:
        what: what it is called, "X".
        expected: what it should be.

    Example:
        >>> import numpy as np
        >>> with in_a_sentence("X", "numbers"):
        ...     np.asarray([1.0, {2}], float)
        Traceback (most recent call last):
        TypeError: X cannot be read (float() argument must be a string or a real number, not 'set'); expected numbers.
    """
    try:
        yield
    except (ValueError, TypeError, ArithmeticError, MemoryError, AttributeError) as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        own = last.filename.startswith(_OWN) and (last.line or "").startswith("raise")
        if own or (type(error) in (ValueError, TypeError) and "sklearn" in last.filename):
            raise
        kind = TypeError if isinstance(error, TypeError) else ValueError
        said = " ".join(str(error).split()).rstrip(".")
        raise kind(f"{what} cannot be read ({said}); expected {expected}.") from error
