"""Strictness for every test: rank promotion is an error, and dtype-sensitive tests run in both precisions."""

from pathlib import Path

import jax
import jax.numpy as jnp
import pytest

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_numpy_rank_promotion", "raise")


@pytest.fixture(params=["float32", "float64"])
def dtype(request):
    """Both precisions; float32 as users have it, with x64 off altogether."""
    with jax.enable_x64(request.param == "float64"):
        yield jnp.dtype(request.param)


_PIECES = 30_000
"""Pieces of memory after which compiled programs are let go: Linux ends a process that asks for more than 65,530."""


@pytest.fixture(autouse=True, scope="module")
def programs_do_not_pile_up():
    """What earlier tests compiled is kept for the next file's while there is room."""
    yield
    maps = Path("/proc/self/maps")
    if not maps.exists() or maps.read_bytes().count(b"\n") > _PIECES:
        jax.clear_caches()
