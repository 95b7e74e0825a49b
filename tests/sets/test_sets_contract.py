"""Every set in the registry keeps the contract, in both precisions."""

import contextlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from set_cases import CASES, FIRST, Case
from set_contract import CHECKS, check_dtype, oracles

from tightrope.sets import SETS, ConvexSet, L1Ball, L2Ball, LinfBall, NuclearBall, Simplex, Spectraplex
from tightrope.tree import pytree

# Compiling is what costs here: float32 for the first instance of every set, float64 for all.
ROWS = [(case, dtype) for case in CASES for dtype in ("float64", "float32") if dtype == "float64" or case.name in FIRST]


@contextlib.contextmanager
def strict(dtype: str):
    """The precision of a test, with implicit rank promotion refused."""
    with jax.enable_x64(dtype == "float64"), jax.numpy_rank_promotion("raise"):
        yield


@pytest.mark.parametrize("check", CHECKS, ids=lambda f: f.__name__)
@pytest.mark.parametrize(("case", "dtype"), ROWS, ids=lambda v: getattr(v, "name", v))
def test_contract(case: Case, dtype: str, check):
    with strict(dtype):
        check(oracles(case, dtype))


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_float32_stays_float32_when_x64_is_on(case: Case):
    with strict("float64"):
        check_dtype(oracles(case, "float32"))


def test_every_registered_set_has_a_case_and_a_model():
    modelled = {type(c.set) for c in CASES if c.model is not None}
    assert modelled == set(SETS.values())


@pytest.mark.parametrize("kind", [L1Ball, L2Ball, LinfBall, Simplex])
def test_radius_is_a_leaf(kind):
    """A new radius compiles nothing, and a vector of radii can be mapped over."""
    traces = []

    @jax.jit
    def project(s, x):
        traces.append(s)
        return s.project(x)

    with strict("float64"):
        x, radii = jnp.array([3.0, -1.0, 2.0]), np.array([0.0, 1.0, 100.0])
        alone = [project(kind(float(r), shape=3), x) for r in radii]
        assert len(traces) == 1
        mapped = jax.jit(jax.vmap(lambda r: kind(r, shape=3).project(x)))(radii)
        np.testing.assert_allclose(mapped, np.stack(alone), atol=1e-12)


def test_large_offset_does_not_cost_feasibility():
    """Simplex in float32: a common offset of 1e6 must not reach the sum."""
    with strict("float32"):
        x = jnp.asarray(1e6 + np.random.default_rng(0).normal(size=1000), jnp.float32)
        assert jax.jit(lambda s, x: s.contains(s.project(x)))(Simplex(shape=1000), x)


def test_many_coordinates_are_contained():
    with strict("float32"):
        for s in (Simplex(shape=200_000), L1Ball(1.0, shape=200_000), L2Ball(1.0, shape=200_000)):
            x = jnp.asarray(np.random.default_rng(0).normal(size=200_000), jnp.float32)
            assert all(jax.jit(lambda s, x: (s.contains(s.project(x)), s.contains(s.start())))(s, x)), s


@pytest.mark.parametrize(
    ("tight", "radius"),
    [
        (L1Ball(1.5, shape=4), 1.5),
        (Simplex(1.5, shape=4), 1.5 * np.sqrt(3 / 4)),
        (Spectraplex(1.5, shape=4), 1.5 * np.sqrt(3 / 4)),
        (NuclearBall(1.5, shape=(3, 4)), 1.5),
    ],
)
def test_the_enclosing_ball_is_the_smallest(tight, radius):
    """Every vertex is on its sphere, and the centre is in the set: no smaller ball has room for the vertices' hull."""
    with strict("float64"):
        around = tight.enclosing()
        assert float(around.diameter) == pytest.approx(2 * radius)
        assert tight.contains(around.start())
        for key in range(5):
            v = tight.lmo(jax.random.normal(jax.random.key(key), tight.start().shape))
            assert float(jnp.linalg.norm(v - around.start())) == pytest.approx(radius)


def test_the_ball_of_a_simplex_keeps_to_its_plane():
    with strict("float64"):
        x = Simplex(2.0, shape=5).enclosing().project(jnp.array([3.0, -1.0, 4.0, 1.0, -5.0]))
        assert float(jnp.sum(x)) == pytest.approx(2.0)
        assert not Simplex(2.0, shape=5).enclosing().contains(x + 0.1)
        y = Spectraplex(shape=3).enclosing().project(jnp.arange(9.0).reshape(3, 3))
        assert float(jnp.trace(y)) == pytest.approx(1.0)
        np.testing.assert_allclose(y, y.T)


def test_a_set_of_ones_own_is_enclosed_by_its_diameter_and_start():
    @pytree
    class Corner(ConvexSet):
        """The triangle 0 <= x, y and x + y <= 1, by its corners."""

        def lmo(self, g):
            corners = jnp.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]], g.dtype)
            return corners[jnp.argmin(corners @ g)]

        @property
        def diameter(self):
            return np.sqrt(2.0)

        def contains(self, x, tol=None):
            return jnp.all(x >= -1e-9) & (jnp.sum(x) <= 1 + 1e-9)

        def start(self, dtype=None):
            return jnp.zeros(2, dtype or jnp.result_type(float))

    with strict("float64"):
        around = Corner().enclosing()
        assert all(around.contains(jnp.array(v)) for v in ([0.0, 0.0], [1.0, 0.0], [0.0, 1.0]))
        assert float(around.diameter) == pytest.approx(2 * np.sqrt(2))
        np.testing.assert_allclose(around.project(jnp.array([3.0, 4.0])), np.sqrt(2) * np.array([0.6, 0.8]))
