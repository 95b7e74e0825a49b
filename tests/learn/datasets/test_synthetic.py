"""The two Gaussians, against their moments and a direct computation of the probabilities."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from tightrope.datasets import rotated_gaussians

MEANS = {1: [2, 2], -1: [-2, -2]}
COVARIANCES = {1: [[5, 1], [1, 5]], -1: [[10, 1], [1, 3]]}


def test_shapes_and_values():
    X, y, s, names = rotated_gaussians()
    assert X.dtype == y.dtype == s.dtype == np.float64
    assert (X.shape, len(names), names[-1]) == ((4000, 3), 3, "intercept")
    assert np.all(X[:, 2] == 1)
    assert set(y) == {-1, 1}
    assert set(s) == {0, 1}


def test_labels_and_features_have_their_laws():
    X, y, _, _ = rotated_gaussians(n=60_000, seed=1)
    assert np.mean(y > 0) == pytest.approx(0.5, abs=0.01)
    for label in (-1, 1):
        part = X[y == label, :2]
        np.testing.assert_allclose(part.mean(axis=0), MEANS[label], atol=0.07)
        np.testing.assert_allclose(np.cov(part.T), COVARIANCES[label], atol=0.25)


@pytest.mark.parametrize("phi", [np.pi / 4, np.pi / 8])
def test_the_sensitive_attribute_has_its_probability(phi):
    """Calibrated: among rows where the formula gives p, a share p has s = 1."""
    X, _, s, _ = rotated_gaussians(n=60_000, phi=phi, seed=2)
    a, b = X[:, 0], X[:, 1]
    turned = np.column_stack([a * np.cos(phi) + b * np.sin(phi), -a * np.sin(phi) + b * np.cos(phi)])
    laws = [multivariate_normal(MEANS[k], np.array(COVARIANCES[k])) for k in (1, -1)]  # pyright: ignore[reportArgumentType]
    p1, p2 = (law.pdf(turned) for law in laws)
    p = p1 / (p1 + p2)
    for low in np.arange(0, 1, 0.2):
        part = (p >= low) & (p < low + 0.2)
        assert np.mean(s[part]) == pytest.approx(p[part].mean(), abs=0.03)
    assert abs(np.sum(s - p)) < 4 * np.sqrt(np.sum(p * (1 - p)))


def test_a_smaller_angle_ties_s_closer_to_y():
    agreement = []
    for phi in (np.pi / 2, np.pi / 4, np.pi / 8, 0.0):
        _, y, s, _ = rotated_gaussians(phi=phi)
        agreement.append(np.mean((y > 0) == s))
    assert agreement == sorted(agreement)


def test_the_seed_decides():
    one, again, other = rotated_gaussians(50, seed=3), rotated_gaussians(50, seed=3), rotated_gaussians(50, seed=4)
    np.testing.assert_array_equal(one.X, again.X)
    np.testing.assert_array_equal(one.s, again.s)
    assert np.any(one.X != other.X)


@pytest.mark.parametrize(
    ("options", "sentence"), [({"n": 0}, "n is 0"), ({"phi": np.nan}, "phi is nan"), ({"seed": -1}, "seed is -1")]
)
def test_bad_input(options, sentence):
    with pytest.raises(ValueError, match=sentence):
        rotated_gaussians(**options)
