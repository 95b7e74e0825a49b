"""Strictness for every test: rank promotion is an error, and dtype-sensitive tests run in both precisions."""

import os

import jax
import jax.numpy as jnp
import pytest
from haste import compiled_in_haste

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
    """What a file's tests compiled is let go: a process may hold some tens of thousands of pieces of memory and no more."""
    yield
    jax.clear_caches()


@pytest.fixture(scope="module")
def in_haste():
    """For files about options, sentences and files, in which no digit depends on how well a program was compiled."""
    with compiled_in_haste():
        yield
