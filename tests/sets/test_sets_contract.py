"""Every set in the registry keeps the contract, in both precisions."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from set_cases import CASES, Case
from set_contract import FIXED_CHECKS, RANDOM_CHECKS, check_against_cvxpy, check_dtype, oracles

import tightrope.sets
from tightrope.sets import SETS, ConvexSet, L1Ball, L2Ball, LinfBall, Simplex

DTYPES = ["float32", "float64"]
every_case = pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)


def strict(dtype: str):
    """The precision of a test, with implicit rank promotion refused."""
    stack = __import__("contextlib").ExitStack()
    stack.enter_context(jax.enable_x64(dtype == "float64"))
    stack.enter_context(jax.numpy_rank_promotion("raise"))
    return stack


@every_case
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("check", RANDOM_CHECKS, ids=lambda f: f.__name__)
@settings(derandomize=True, deadline=None, max_examples=6, database=None)
@given(seed=st.integers(0, 2**32 - 1), exponent=st.integers(-3, 3))
def test_on_random_points(case: Case, dtype: str, check, seed: int, exponent: int):
    with strict(dtype):
        check(oracles(case, dtype), np.random.default_rng(seed), 10.0**exponent)


@every_case
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("check", FIXED_CHECKS, ids=lambda f: f.__name__)
def test_once(case: Case, dtype: str, check):
    with strict(dtype):
        check(oracles(case, dtype))
