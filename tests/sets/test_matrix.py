"""How good the Lanczos LMO of the nuclear ball is, against NumPy's decomposition."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tightrope.sets import NuclearBall, Product


def with_singular_values(rng: np.random.Generator, m: int, n: int, s: np.ndarray) -> np.ndarray:
    u = np.linalg.qr(rng.normal(size=(m, len(s))))[0]
    v = np.linalg.qr(rng.normal(size=(n, len(s))))[0]
    return (u * s) @ v.T


def missing(g: np.ndarray, vertex: jax.Array, radius: float = 1.0) -> float:
    """The fraction of the support value that a vertex misses."""
    return 1 + float(np.sum(g * np.asarray(vertex, np.float64))) / (radius * np.linalg.svd(g, compute_uv=False)[0])


LMO = jax.jit(lambda ball, g: ball.lmo(g))
WARM_LMO = jax.jit(lambda ball, g, memory: ball.warm_lmo(g, memory))
CONTAINS = jax.jit(lambda ball, x: ball.contains(x))
CLUSTERED = np.r_[1 - 1e-3 * np.arange(20), np.linspace(0.9, 0, 40)]


@pytest.fixture(autouse=True)
def double():
    with jax.enable_x64(True), jax.numpy_rank_promotion("raise"):
        yield


def matrices() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    m, n = 60, 90
    return {
        "gaussian": rng.normal(size=(m, n)),
        "clustered": with_singular_values(rng, m, n, CLUSTERED),
        "flat": with_singular_values(rng, m, n, np.linspace(1, 0.99, m)),
        "low rank plus noise": rng.normal(size=(m, 3)) @ rng.normal(size=(3, n)) + rng.normal(size=(m, n)),
        "sparse": rng.normal(size=(m, n)) * (rng.random((m, n)) < 0.05),
        "equal": np.eye(m, n),
    }


@pytest.mark.parametrize("kind", matrices())
@pytest.mark.parametrize("transpose", [False, True])
@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
def test_misses_less_than_the_bound(kind: str, transpose: bool, dtype):
    g = matrices()[kind]
    g = g.T if transpose else g
    ball = NuclearBall(3.0, shape=g.shape, rounds=20)
    vertex = LMO(ball, jnp.asarray(g, dtype))
    fraction = missing(g, vertex, 3.0)
    assert -16 * jnp.finfo(dtype).eps <= fraction <= 0.01  # the norms of two unit vectors round
    assert CONTAINS(ball, vertex)
    assert vertex.dtype == dtype


@pytest.mark.parametrize("kind", matrices())
@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
def test_as_many_rounds_as_the_shorter_side_are_exact(kind: str, dtype):
    g = matrices()[kind]
    ball = NuclearBall(1.0, shape=g.shape, rounds=1000)
    assert abs(missing(g, LMO(ball, jnp.asarray(g, dtype)))) <= 200 * float(jnp.finfo(dtype).eps)


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
def test_rank_one_is_exact_and_finite(dtype):
    """The Krylov space ends after two vectors; what follows is rounding noise and must not be believed."""
    rng, ball = np.random.default_rng(1), NuclearBall(1.0, shape=(40, 30))
    for scale in (1e-12, 1.0, 1e12):
        g = scale * np.outer(rng.normal(size=40), rng.normal(size=30))
        vertex = LMO(ball, jnp.asarray(g, dtype))
        assert abs(missing(g, vertex)) <= 100 * float(jnp.finfo(dtype).eps)
        assert CONTAINS(ball, vertex)


def test_zero_matrix_gives_zero_and_keeps_the_memory():
    ball = NuclearBall(1.0, shape=(4, 3))
    memory = ball.lmo_memory()
    vertex, after = WARM_LMO(ball, jnp.zeros((4, 3)), memory)
    assert not np.any(vertex)
    np.testing.assert_array_equal(memory.vector, after.vector)
    assert float(after.residual) == 0


def test_warm_start_improves():
    """On a slowly turning matrix with a cluster at the top, three remembered rounds beat three fresh ones."""
    rng = np.random.default_rng(2)
    ball = NuclearBall(1.0, shape=(60, 90), rounds=3)
    g = with_singular_values(rng, 60, 90, CLUSTERED)
    turn = 1e-3 * with_singular_values(rng, 60, 90, np.ones(60))
    memory, warm = ball.lmo_memory(), 0.0
    for _ in range(10):
        g = g + turn
        vertex, memory = WARM_LMO(ball, jnp.asarray(g), memory)
        warm = missing(g, vertex)
    cold = missing(g, LMO(ball, jnp.asarray(g)))
    assert warm < cold / 3


def test_a_memory_orthogonal_to_the_answer_does_not_stick():
    g = np.diag([3.0, 2.0, 1.0, 1.0, 1.0])
    ball = NuclearBall(1.0, shape=(5, 5), rounds=3)
    memory = ball.lmo_memory()._replace(vector=jnp.array([0.0, 1.0, 0.0, 0.0, 0.0]))  # a singular vector, not the first
    for _ in range(3):
        _, memory = WARM_LMO(ball, jnp.asarray(g), memory)
    assert missing(g, WARM_LMO(ball, jnp.asarray(g), memory)[0]) < 1e-4


def test_memories_of_a_product_are_threaded():
    ball = NuclearBall(1.0, shape=(60, 90), rounds=3)
    both = Product((ball, ball))
    rng = np.random.default_rng(3)
    g = tuple(jnp.asarray(with_singular_values(rng, 60, 90, CLUSTERED)) for _ in range(2))
    memory = both.lmo_memory()
    for _ in range(6):
        _, memory = WARM_LMO(both, g, memory)
    for direction, vertex, cold in zip(g, WARM_LMO(both, g, memory)[0], LMO(both, g), strict=True):
        assert missing(np.asarray(direction), vertex) < missing(np.asarray(direction), cold) / 2


def test_support_is_exact_where_the_lmo_is_not():
    g = matrices()["clustered"]
    ball = NuclearBall(2.0, shape=g.shape, rounds=2)
    assert float(ball.support(jnp.asarray(g))) == pytest.approx(2.0 * np.linalg.svd(g, compute_uv=False)[0])
