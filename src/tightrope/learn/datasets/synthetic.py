"""The synthetic data of the fairness experiments: two Gaussians with a sensitive attribute tied to the label, and groups
whose true rates are known."""

import dataclasses
from typing import Any

import numpy as np

from tightrope._errors import whole_number
from tightrope.learn.datasets.features import Features

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
    rng = np.random.default_rng(whole_number("rotated_gaussians", "seed", seed, least=0))
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


@dataclasses.dataclass(frozen=True)
class GroupedGaussians:
    """People in groups, of whom the truth is known: rates and accuracy of every linear classifier, in closed form.

    Group g has the base rate P(y = +1 | g), and features are independent with deviation one around means that depend on the
    label and the group: x1 follows the label, x2 the label and the group, x3 and x4 the group alone, x5 the label a little
    and x6 nothing. A plain classifier trusts x2, and by it treats groups unlike; x3 and x4 can make up for that.

    Attributes:
        groups: how many; the first is the largest, and the last has the highest base rate.
        base_rate: the share of positive labels, over all groups.
        spread: by what share the base rates of the first and the last group lie below and above that.
        shift: how far apart the groups are in the features that follow them.

    Example:
        >>> law = GroupedGaussians(groups=4)
        >>> X, y, s, names = law.draw(1000, seed=2)
        >>> X.shape, sorted(set(s.tolist()))
        ((1000, 6), ['a', 'b', 'c', 'd'])
        >>> law.selection_rates([1, 0, 0, 0, 0, 0], 0.0).round(3).tolist()  # x1 knows the groups by their base rates
        [0.435, 0.486, 0.538, 0.589]
    """

    groups: int = 2
    base_rate: float = 0.5
    spread: float = 0.3
    shift: float = 0.7

    @property
    def shares(self) -> np.ndarray:
        """(groups,), how many people a group has, as a share of all."""
        weight = 1 / (1 + 0.25 * np.arange(self.groups))
        return weight / weight.sum()

    @property
    def base_rates(self) -> np.ndarray:
        """(groups,), P(y = +1 | group)."""
        place = np.linspace(-1, 1, self.groups)
        return self.base_rate * (1 + self.spread * (place - self.shares @ place))

    def means(self, label: float) -> np.ndarray:
        """(groups, 6), the means of the features of people with this label."""
        place, parity = np.linspace(-1, 1, self.groups), (-1.0) ** np.arange(self.groups)
        one = np.ones(self.groups)
        by_group = [0 * one, self.shift * place, self.shift * place, self.shift * parity, 0 * one, 0 * one]
        by_label = np.array([0.7, 0.7, 0.0, 0.0, 0.3, 0.0])
        return np.column_stack(by_group) + label * by_label

    def draw(self, n: int, seed: int = 0) -> Features:
        """n people: features, labels -1 and +1, and groups "a", "b", ... as text."""
        rng = np.random.default_rng(seed)
        group = rng.choice(self.groups, size=n, p=self.shares)
        y = np.where(rng.random(n) < self.base_rates[group], 1.0, -1.0)
        centre = np.where(y[:, None] > 0, self.means(1.0)[group], self.means(-1.0)[group])
        X = centre + rng.standard_normal((n, 6))
        letters = np.array([chr(ord("a") + g) for g in range(self.groups)])
        return Features(X, y, letters[group], tuple(f"x{j}" for j in range(1, 7)))

    def rates(self, coef: Any, intercept: float) -> np.ndarray:
        """(2, groups), P(score > 0 | label, group), those of negative labels first."""
        from scipy.special import ndtr

        w = np.asarray(coef, float)
        return np.stack([ndtr((self.means(label) @ w + intercept) / np.linalg.norm(w)) for label in (-1.0, 1.0)])

    def selection_rates(self, coef: Any, intercept: float) -> np.ndarray:
        """(groups,), P(score > 0 | group)."""
        negative, positive = self.rates(coef, intercept)
        return (1 - self.base_rates) * negative + self.base_rates * positive

    def accuracy(self, coef: Any, intercept: float) -> float:
        """The share of people whom a classifier decides about as their label says."""
        negative, positive = self.rates(coef, intercept)
        return float(self.shares @ ((1 - self.base_rates) * (1 - negative) + self.base_rates * positive))
