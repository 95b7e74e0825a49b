"""Accelerators multiply float32 with fewer bits unless told otherwise: every product of the library tells them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import tightrope as tr

FULL = (lax.Precision.HIGHEST, lax.Precision.HIGHEST)


@pytest.fixture
def products(monkeypatch):
    """The precision of every product that is traced or computed, and whether the test's own code asked for it."""
    seen = []
    bind = lax.dot_general_p.bind

    def noted(*args, **params):
        seen.append(params["precision"])
        return bind(*args, **params)

    jax.clear_caches()  # what was traced before would not be seen
    monkeypatch.setattr(lax.dot_general_p, "bind", noted)
    return seen


def least_squares(n=40, d=3):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d)).astype(np.float32)
    y = (X @ np.ones(d) + rng.normal(size=n)).astype(np.float32)
    problem = tr.Problem(
        objective=lambda x, row: (row[0] @ x - row[1]) ** 2 / 2,
        constraints=lambda x, row: (row[0] @ x)[None],
        domain=tr.L2Ball(2.0, shape=d),
        levels=0.1,
    )
    return problem, (X, y)


@pytest.mark.parametrize("method", ["csoa", "svrg-csoa", "bundle", "fw-csoa"])
def test_every_product_of_a_run_has_full_precision(products, method):
    problem, data = least_squares()
    tr.minimize(problem, data, method=method, passes=3, output="feasible", progress=False)
    assert products
    assert set(products) == {FULL}


def test_every_product_of_a_step_by_hand_has_full_precision(products):
    problem, (X, y) = least_squares()
    method = tr.CSOA(eta0=0.5)
    state = method.init(problem, problem.domain.start(), jnp.zeros(1), jnp.asarray(10))
    method.step(problem, state, (X[:2], y[:2]))
    assert products
    assert set(products) == {FULL}


@pytest.mark.parametrize(
    "domain", [tr.NuclearBall(2.0, shape=(6, 5)), tr.Spectraplex(1.0, shape=(5, 5))], ids=lambda s: s.name
)
def test_every_product_of_a_set_has_full_precision(products, domain):
    x = jax.random.normal(jax.random.key(0), domain.shape.spec)
    x = x + x.T if x.shape[0] == x.shape[1] else x
    for compute in (domain.lmo, domain.project, domain.support):
        compute(x)
    assert products
    assert set(products) == {FULL}


def test_a_set_of_the_users_own_computes_in_full_precision(products):
    @tr.pytree
    class Rotated(tr.ConvexSet):
        """The unit cube, turned."""

        turn: jax.Array

        def project(self, x):
            return self.turn.T @ jnp.clip(self.turn @ x, 0, 1)

        @property
        def diameter(self):
            return 2.0

        def contains(self, x, tol=None):
            return jnp.ones((), bool)

        def start(self, dtype=None):
            return jnp.zeros(2)

    Rotated(jnp.eye(2)).project(jnp.ones(2))
    assert set(products) == {FULL}


def test_the_configuration_of_jax_is_left_alone():
    problem, data = least_squares()
    tr.minimize(problem, data, passes=2, progress=False)
    assert jax.make_jaxpr(jnp.dot)(jnp.ones(2), jnp.ones(2)).eqns[0].params["precision"] is None


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.float16])
def test_products_of_narrow_numbers_do_not_wrap(dtype):
    """A hundred squared is beyond 8 bits, two hundred beyond 16, three hundred beyond what float16 holds."""
    value = {np.int16: 200, np.float16: 300}.get(dtype, 100)
    problem = tr.Problem(
        lambda x, t: (x[0] - 1) ** 2,
        lambda x, t: jnp.stack([x[0] * (t[0] * t[0])]),
        tr.Box(0.0, 1.0, shape=1),
        value**2 / 2,
    )
    rows = np.full((8, 1), value, dtype)
    for result in (
        tr.minimize(problem, rows, progress=False),
        tr.minimize(problem, tr.Stream([rows] * 40), method="csoa", steps=320, progress=False),
    ):
        assert result.x[0] == pytest.approx(0.5, abs=0.05)
    assert not tr.certify(problem, np.array([0.6]), rows, ranges=(0, 2 * value**2)).holds
