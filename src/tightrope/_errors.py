"""Checks whose failures are sentences: what was given, what was expected, what to do."""

from typing import Any

import jax
import numpy as np
from jax.core import Tracer


class MissingOracleError(TypeError):
    """A set was asked for an operation it does not have."""


def is_concrete(value: Any) -> bool:
    """True for numbers and arrays with values; False for tracers and placeholders."""
    return not isinstance(value, Tracer) and isinstance(value, int | float | np.generic | np.ndarray | jax.Array)


def nonnegative(owner: str, name: str, value: Any) -> None:
    """Refuse a negative or non-finite coefficient."""
    if not is_concrete(value):
        raise TypeError(f"{owner}: {name} is {value!r}; expected a number or an array of numbers.")
    array = np.asarray(value)
    if not np.issubdtype(array.dtype, np.number) or not np.all(np.isfinite(array)) or np.any(array < 0):
        raise ValueError(f"{owner}: {name} is {value!r}; expected finite and not negative.")


def coefficient(owner: str, name: str, value: Any) -> Any:
    """A hyperparameter: a number, or an array of them for a sweep; finite and not negative."""
    nonnegative(owner, name, value)
    # an integer would be another dtype, hence another compiled program
    return float(value) if np.ndim(value) == 0 else np.asarray(value, float)


def positive_int(owner: str, name: str, value: Any) -> int:
    """Refuse anything that is not a whole number of at least one."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise ValueError(f"{owner}: {name} is {value!r}; expected a whole number of at least 1.")
    return int(value)
