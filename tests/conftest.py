"""Strictness for every test: rank promotion is an error, and dtype-sensitive tests run in both precisions."""

import math
import os

import jax
import jax.numpy as jnp
import pytest

os.environ["TIGHTROPE_COMPILATION_CACHE"] = "off"  # tests compile what they test
jax.config.update("jax_enable_x64", True)
jax.config.update("jax_numpy_rank_promotion", "raise")


@pytest.fixture(params=["float32", "float64"])
def dtype(request):
    """Both precisions; float32 as users have it, with x64 off altogether."""
    with jax.enable_x64(request.param == "float64"):
        yield jnp.dtype(request.param)


@pytest.fixture(autouse=True, scope="module")
def programs_do_not_pile_up():
    """What was compiled is let go when there is much of it: a process may hold 65,530 pieces of memory on Linux and no more.
    Until then the next file may use it."""
    yield
    if pieces_of_memory() > 25_000:
        jax.clear_caches()


def pieces_of_memory() -> float:
    """How many pieces of memory this process holds; infinitely many where the system does not say."""
    try:
        with open("/proc/self/maps", "rb") as file:
            return sum(1 for _ in file)
    except OSError:
        return math.inf
