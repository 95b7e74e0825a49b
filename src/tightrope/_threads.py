"""How many threads BLAS may take: for small matrices one, because on busy cores more wait for each other."""

from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache
from typing import Any

# Floating-point operations from which on more threads are worth it:
FACTORISATION = 2**27  # some hundredths of a second of one core
PRODUCT = 2**31  # A'A, which reads as much as it computes: a fit of 300,000 x 48 gains nothing by two


def one_thread() -> AbstractContextManager:
    """Within it, NumPy and SciPy use one thread: more take a hundred times as long for small matrices on busy cores."""
    return _libraries().limit(limits=1, user_api="blas")


def threads_for(rows: int, columns: int, worth: int = FACTORISATION) -> AbstractContextManager:
    """Within it, factorisations (or products) of thin matrices of at most this size use one thread, unless they are large
    enough to gain by more."""
    return one_thread() if 2 * rows * columns**2 < worth else nullcontext()


@lru_cache
def _libraries() -> Any:
    import scipy.linalg  # noqa: F401 (the one that JAX factorises with, too; a library that is loaded later is not found)
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
