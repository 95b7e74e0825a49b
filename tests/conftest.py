"""Strictness for every test: rank promotion is an error, and dtype-sensitive tests run in both precisions."""

import os
from importlib.metadata import version

import jax
import jax.numpy as jnp
import pytest

os.environ["TIGHTROPE_COMPILATION_CACHE"] = "off"  # tests compile what they test
# A third less time without optimisations; `make verify` compiles as users do.
_QUICK = ["--xla_backend_optimization_level=0"]
if version("jaxlib").startswith(("0.9.", "0.10.")):  # XLA ends a process that names a flag which it does not know
    _QUICK.append("--xla_cpu_use_fusion_emitters=false")
os.environ.setdefault("XLA_FLAGS", " ".join(_QUICK))
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
