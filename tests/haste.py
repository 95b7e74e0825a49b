"""Programs that are run once, for what is done with their results, not for their digits: the compiler need not try hard."""

import contextlib
from collections.abc import Iterator

import jax


@contextlib.contextmanager
def compiled_in_haste() -> Iterator[None]:
    """Compile with most optimisations off, which takes three quarters of the time; forgotten afterwards, so that no other
    test meets such a program."""
    jax.config.update("jax_disable_most_optimizations", True)
    try:
        yield
    finally:
        jax.config.update("jax_disable_most_optimizations", False)
        jax.clear_caches()
