"""Checks whose failures are sentences: what was given, what was expected, what to do.

Values that are being traced (`jax.vmap`, `jax.grad` or `jax.jit` around the call) have no numbers yet; they pass unchecked.
"""

import contextlib
import logging
import os
import reprlib
import sys
import threading
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
from jax.core import Tracer


class MissingOracleError(TypeError):
    """A set was asked for an operation it does not have."""


def coefficient(owner: str, name: str, value: Any, *, above: float | None = None, below: float | None = None) -> Any:
    """A hyperparameter: a number, or an array of them for a sweep; finite, not negative, and within strict bounds."""
    if isinstance(value, Tracer):
        return value
    if not isinstance(value, int | float | np.generic | np.ndarray | jax.Array):
        raise TypeError(f"{owner}: {name} is {value!r}; expected a number or an array of numbers.")
    array = np.asarray(value)
    if not np.issubdtype(array.dtype, np.number) or not np.all(np.isfinite(array)) or np.any(array < 0):
        raise ValueError(f"{owner}: {name} is {value!r}; expected finite and not negative.")
    # an integer would be another dtype, hence another compiled program
    number = float(value) if np.ndim(value) == 0 else np.asarray(value, float)
    if above is not None and np.any(np.asarray(number) <= above):
        raise ValueError(f"{owner}: {name} is {number!r}; expected more than {_spelled(above)}.")
    if below is not None and np.any(np.asarray(number) >= below):
        raise ValueError(f"{owner}: {name} is {number!r}; expected less than {_spelled(below)}.")
    return number


def _spelled(number: float) -> str:
    return "zero" if number == 0 else f"{number:g}"


def numbers(owner: str, name: str, value: Any, expected: str) -> np.ndarray:
    """An array of finite real numbers in float64; refuses what is none with what was expected, a sentence's end."""
    try:
        array = np.asarray(value)
        array = array.astype(float) if array.dtype.kind in "fiubO" else np.asarray(np.nan)
    except Exception as error:  # anything may be given, and its conversion may do anything
        raise TypeError(f"{owner}: {name} is {shown(value)}; {expected}") from error
    if array.size == 0 or not np.all(np.isfinite(array)):
        raise ValueError(f"{owner}: {name} is {shown(value)}; {expected}")
    return array


def one_of(owner: str, name: str, value: Any, options: tuple[Any, ...]) -> Any:
    """Refuse anything that is not among the options."""
    if not any(value is option or (isinstance(value, type(option)) and value == option) for option in options):
        raise ValueError(f"{owner}: {name} is {shown(value)}; expected one of {', '.join(map(str, options))}.")
    return value


class _Short(reprlib.Repr):
    """Python's shortener, for values whose own `repr` may be long, or fail."""

    def repr_instance(self, x: Any, level: int) -> str:
        try:
            said = " ".join(repr(x).split())
        except Exception:  # anything may be given, and its repr may do anything
            return f"<{type(x).__name__}>"
        return said if len(said) <= self.maxother else f"{said[: self.maxother - 3]}..."


_short = _Short()
_short.maxother = _short.maxstring = 100  # characters; by hand: about a line, of which the sentence needs a part


def shown(value: Any) -> str:
    """A value as a sentence can show it: short, on one line."""
    try:
        return _short.repr(value)
    except Exception:  # such as the whole number that is too long to be written
        return f"<{type(value).__name__}>"


def whole_number(owner: str, name: str, value: Any, least: int = 1, most: int | None = None) -> int:
    """Refuse anything that is not a whole number of at least `least` and, where that is given, of at most `most`."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise ValueError(f"{owner}: {name} is {value!r}; expected a whole number of at least {least}.")
    if most is not None and value > most:
        given = (
            f"{value:,}" if value < 10**30 else "a number of more than 30 digits"
        )  # Python refuses to print the longest
        raise ValueError(f"{owner}: {name} is {given}; expected at most {most:,}.")
    return int(value)


# ---- what readers raise -------------------------------------------------------------------------------------------------

failures: list[BaseException] = []  # of calls back, until whoever has called hears of them


class UnreadableError(ValueError):
    """Data that cannot be read, or not used as it is: the sentence names the file."""


@contextlib.contextmanager
def plain_errors() -> Iterator[None]:
    """What a reader raises inside compiled code comes out wrapped; here it is as it was said.

    Callbacks run in threads of JAX's own, so that all calls share one list. It is cleared only where no other call is under
    way: it may hold what a call in another thread is about to ask for.
    """
    with _calls.one_more():
        try:
            yield
        except Exception as error:
            said = [failure for failure in failures if str(failure) in str(error)]
            if not said:
                raise
            raise said[-1] from None


class _Calls:
    """How many calls are under way, over all threads.

    The lock may be taken again by the thread that has it, so that one which an interrupt has left behind does not stop it.
    """

    def __init__(self):
        self.lock, self.under_way, self.orphaned = threading.RLock(), 0, False

    def forget(self) -> None:
        """In a process that was forked: it has the counts of its parent, but none of its parent's threads, not even those
        with which JAX computes, if it did."""
        self.lock, self.under_way, self.orphaned = threading.RLock(), 0, _jax_has_begun()

    @contextlib.contextmanager
    def one_more(self) -> Iterator[None]:
        """Within it there is one more; the first one finds no failures, and the last one leaves none."""
        refuse_after_fork()
        with self.lock:
            if self.under_way == 0:
                failures.clear()
            self.under_way += 1
        try:
            yield
        finally:
            with self.lock:
                self.under_way -= 1
                if self.under_way == 0:
                    failures.clear()


def _jax_has_begun() -> bool:
    """Whether JAX has begun to compute in this process, which starts its threads."""
    bridge = sys.modules.get("jax._src.xla_bridge")  # JAX says so nowhere in public
    return bool(getattr(bridge, "backends_are_initialized", lambda: False)())


def refuse_after_fork() -> None:
    """Refuse to compute where JAX would wait for threads that stayed behind, for ever."""
    if _calls.orphaned:
        raise RuntimeError(
            "This process was forked from one that had already computed with JAX, whose threads do not exist here: any "
            "computation would hang. Start processes by multiprocessing's method 'spawn' or 'forkserver', or with joblib's "
            "backend 'loky'; or fork before anything is computed."
        )


_calls = _Calls()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_calls.forget)


class _Known(logging.Filter):
    """JAX logs what a call back raises; what is about to be said in a sentence need not be said twice."""

    def filter(self, record: logging.LogRecord) -> bool:
        return not (record.exc_info and any(record.exc_info[1] is failure for failure in failures))


logging.getLogger("jax._src.callback").addFilter(_Known())


def refuse_what_is_no_number(who: str, array: Any) -> None:
    """Refuse an array that a step cannot compute with."""
    if array.dtype.kind not in "fiub":
        raise TypeError(
            f"{who} an array of dtype {array.dtype}; expected numbers. Encode text and categories first, or leave them out."
        )


def refuse_what_wraps(who: str, array: np.ndarray, held: Any = None) -> None:
    """Refuse whole numbers that JAX, as configured or as they are to be held, has no room for: it would keep their last 32
    bits without a word."""
    kept = jax.dtypes.canonicalize_dtype(array.dtype) if held is None else held
    if array.dtype.kind not in "iu" or kept == array.dtype or not array.size:
        return
    least, most = int(array.min()), int(array.max())
    limits = np.iinfo(kept)
    if least < limits.min or most > limits.max:
        strange = most if most > limits.max else least
        raise ValueError(
            f"{who}: the data has the whole number {strange:,} ({array.dtype}), and JAX as it is configured holds "
            f"{limits.min:,} to {limits.max:,}. Number what it stands for from 0 on, give it as floats, or enable 64 bits "
            '(jax.config.update("jax_enable_x64", True) before anything else).'
        )
