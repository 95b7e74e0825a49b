"""How many threads BLAS may take: for small matrices one, because on busy cores more wait for each other."""

import os
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import lru_cache
from typing import Any

# Floating-point operations from which on more threads are worth it; measured:
FACTORISATION = 2**27  # some hundredths of a second of one core
PRODUCT = 2**31  # A'A, which reads as much as it computes: measured: a fit of 300,000 x 48 gains nothing by two


class _Limit:
    """The limit is one of the process, and not of a thread: it is set by the first of those who want it, and lifted by the
    last. If each restored what it had found, the last to leave could restore the limit of another for good."""

    def __init__(self):
        self.lock, self.wanted, self.limit = threading.RLock(), 0, None

    @contextmanager
    def held(self) -> Iterator[None]:
        """Within it, one thread."""
        with self.lock:
            if self.wanted == 0:
                self.limit = _libraries().limit(limits=1, user_api="blas")
            self.wanted += 1
        try:
            yield
        finally:
            with self.lock:
                self.wanted -= 1
                if self.wanted == 0:
                    self._lift()

    def forget(self) -> None:
        """In a process that was forked, which has none of the other threads: nobody wants the limit there."""
        self.lock, self.wanted = threading.RLock(), 0
        self._lift()

    def _lift(self) -> None:
        if self.limit is not None:
            self.limit.restore_original_limits()
            self.limit = None


_limit = _Limit()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_limit.forget)


def one_thread() -> AbstractContextManager:
    """Within it, NumPy and SciPy use one thread: more take a hundred times as long for small matrices on busy cores."""
    return _limit.held()


def threads_for(rows: int, columns: int, worth: int = FACTORISATION) -> AbstractContextManager:
    """Within it, factorisations (or products) of thin matrices of at most this size use one thread, unless they are large
    enough to gain by more."""
    return one_thread() if 2 * rows * columns**2 < worth else nullcontext()


@lru_cache
def _libraries() -> Any:
    import scipy.linalg  # noqa: F401 (the one that JAX factorises with, too; a library that is loaded later is not found)
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
