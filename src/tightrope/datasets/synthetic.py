"""The synthetic data of the fairness experiments: two Gaussians, and a sensitive attribute tied to the label."""

import numpy as np

from tightrope._errors import whole_number
from tightrope.datasets.features import Features

POSITIVE = np.array([2.0, 2.0]), np.array([[5.0, 1.0], [1.0, 5.0]])
"""Mean and covariance of the features where y = +1."""

NEGATIVE = np.array([-2.0, -2.0]), np.array([[10.0, 1.0], [1.0, 3.0]])
"""Mean and covariance of the features where y = -1."""


def rotated_gaussians(n: int = 4000, phi: float = np.pi / 4, seed: int = 0) -> Features:
    """Labels at random, features from one of two Gaussians, and s that depends on the features turned by an angle.

    y is -1 or +1 with equal probability, x is drawn from N(y), and P(s = 1) = p1(x')/(p1(x') + p2(x')), where p1 and p2 are
    the densities of the two classes and x' = x [[cos phi, -sin phi], [sin phi, cos phi]]. The smaller phi, the closer s
    follows y. (Zafar et al., AISTATS 2017, who draw as many rows of each label.)

    Args:
        n: how many rows.
        phi: the angle; π/4 and π/8 in the experiments.
        seed: the seed of everything drawn; the same one gives the same rows.

    Example:
        >>> X, y, s, names = rotated_gaussians()
        >>> X.shape, names
        ((4000, 3), ('x1', 'x2', 'intercept'))
        >>> bool(np.mean(s == (y > 0)) < np.mean(rotated_gaussians(phi=np.pi / 8).s == (y > 0)))
        True
    """
    from scipy.special import expit

    n = whole_number("rotated_gaussians", "n", n)
    if not np.isfinite(phi):
        raise ValueError(f"rotated_gaussians: phi is {phi!r}; expected an angle in radians.")
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise ValueError(f"rotated_gaussians: seed is {seed!r}; expected a whole number of at least 0.")
    rng = np.random.default_rng(seed)
    y = rng.choice([-1.0, 1.0], size=n)
    of_each = [rng.multivariate_normal(*law, size=n) for law in (POSITIVE, NEGATIVE)]
    x = np.where(y[:, None] > 0, *of_each)
    turned = x @ np.array([[np.cos(phi), -np.sin(phi)], [np.sin(phi), np.cos(phi)]])
    # p1/(p1 + p2) by logarithms: far out, both densities vanish
    log_p1, log_p2 = (_log_density(turned, *law) for law in (POSITIVE, NEGATIVE))
    s = (rng.random(n) < expit(log_p1 - log_p2)).astype(float)
    return Features(np.column_stack([x, np.ones(n)]), y, s, ("x1", "x2", "intercept"))


def _log_density(x: np.ndarray, mean: np.ndarray, covariance: np.ndarray) -> np.ndarray:
    """The log density of N(mean, covariance) at each row of x, up to a constant that does not depend on the law."""
    away = x - mean
    return -(np.sum(away @ np.linalg.inv(covariance) * away, axis=1) + np.log(np.linalg.det(covariance))) / 2
