"""The set in docs/new_set.md is what the guide says: a set like any other."""

import re
from pathlib import Path

import cvxpy as cp
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from set_cases import Case
from set_contract import CHECKS, Oracles

import tightrope as tr
from tightrope._errors import MissingOracleError
from tightrope.sets import Shape

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


@tr.pytree
class Pyramid(tr.ConvexSet):
    """All x >= 0 whose sum is at most 1, by the kernel alone."""

    shape = Shape(3)

    def lmo(self, g):
        corner = jnp.where(jnp.arange(3) == jnp.argmin(g), 1.0, 0.0).astype(g.dtype)
        return jnp.where(jnp.min(g) < 0, corner, 0.0)

    @property
    def diameter(self):
        return 2**0.5

    def contains(self, x, tol=None):
        slack = 1e-5 if tol is None else tol
        return (jnp.min(x) >= -slack) & (jnp.sum(x) <= 1 + slack)

    def start(self, dtype=None):
        return jnp.zeros(3, dtype or jnp.result_type(float))


@pytest.mark.parametrize("method", ["auto", "split-csoa", "fw-csoa"])
def test_minimising_over_a_set_that_has_the_kernel_only(method: str):
    """The nearest point to (1, 1/2, -1) with x_1 <= 1/2 is (1/2, 1/2, 0)."""
    rows = np.random.default_rng(0).normal([1.0, 0.5, -1.0], 0.1, size=(500, 3))
    problem = tr.Problem(lambda x, theta: ((x - theta) ** 2).sum() / 2, lambda x, theta: x[:1], Pyramid(), levels=0.5)
    result = tr.minimize(problem, rows, method=method, passes=100, record=0, progress=False)
    np.testing.assert_allclose(result.x, [0.5, 0.5, 0.0], atol=0.03)
    assert bool(problem.domain.contains(result.x))


def test_a_kernel_that_stands_in_a_product_and_is_asked_for_more():
    both = tr.Product({"w": Pyramid(), "b": tr.Box(-1.0, 1.0, shape=())})
    assert both.has_lmo
    assert not both.has_projection
    with pytest.raises(MissingOracleError, match="Pyramid has no description by linear maps and simple cones"):
        both.conic(both.start())
