"""The set in docs/new_set.md is what the guide says: a set like any other."""

import re
from pathlib import Path

import cvxpy as cp
import jax
import numpy as np
import pytest
from set_cases import Case
from set_contract import CHECKS, Oracles

from tightrope._errors import MissingOracleError

GUIDE = Path(__file__).parents[2] / "docs" / "new_set.md"
AXES = np.array([1.0, 2.0, 0.5])


@pytest.fixture(scope="module")
def ellipsoid():
    blocks = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), flags=re.DOTALL)
    names: dict = {"__name__": "new_set"}
    exec(blocks[0], names)
    return names["Ellipsoid"]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_example_keeps_the_contract(ellipsoid, dtype: str):
    case = Case("ellipsoid", ellipsoid(AXES), lambda v: [cp.norm(v / AXES, 2) <= 1], attained=False)
    with jax.enable_x64(dtype == "float64"), jax.numpy_rank_promotion("raise"):
        oracles = Oracles(case, dtype)
        for check in CHECKS:
            check(oracles)


def test_the_example_refuses_as_the_guide_says(ellipsoid):
    with pytest.raises(MissingOracleError, match="Ellipsoid has no cheap projection, and one was asked for"):
        ellipsoid(AXES).project(np.ones(3))
    with pytest.raises(ValueError, match="expected a vector of positive numbers"):
        ellipsoid(np.array([1.0, 0.0]))
