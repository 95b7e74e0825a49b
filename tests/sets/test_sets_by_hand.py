"""Sets by hand, where the contract of all sets asks for less than there is to know."""

import jax.numpy as jnp
import numpy as np
import pytest

import tightrope as tr
from tightrope.sets.ball import BallAround
from tightrope.sets.low_rank import _added


def test_diameters():
    assert tr.LinfBall(2.0, shape=9).diameter == 12
    assert tr.Box(np.zeros(3), np.array([1.0, 2.0, 2.0])).diameter == 3
    assert tr.Spectraplex(3.0, shape=(2, 2)).diameter == pytest.approx(3 * 2**0.5)


def test_a_symmetric_matrix_with_a_negative_eigenvalue_is_not_in_the_spectraplex():
    domain = tr.Spectraplex(1.0, shape=(2, 2))
    assert bool(domain.contains(jnp.diag(jnp.array([1.0, 0.0]))))
    assert not bool(domain.contains(jnp.diag(jnp.array([1.5, -0.5]))))  # of trace one
    assert not bool(domain.contains(jnp.diag(jnp.array([0.5, 0.4]))))
    assert not bool(domain.contains(jnp.array([[0.5, 0.1], [0.0, 0.5]])))


def test_a_ball_around_a_point_starts_in_the_precision_asked_for():
    ball = BallAround(np.array([1, 2]), 1.0)
    assert ball.start().dtype == jnp.result_type(float)
    assert ball.start(jnp.float32).dtype == jnp.float32


def test_a_box_knows_its_points_by_its_bounds():
    assert tr.Box([0.0, 0.0], [1.0, 2.0]).shape == tr.Box(0.0, 1.0, shape=2).shape


def test_what_columns_add_to_a_basis_does_not_depend_on_their_units():
    basis = np.eye(4)[:, :1]
    found = np.asarray(_added(jnp.asarray(basis), jnp.asarray(np.eye(4)[:, 1:3] * [1.0, 1e-12])))
    np.testing.assert_allclose(found @ found.T, np.diag([0.0, 1.0, 1.0, 0.0]), atol=1e-12)
