"""Structured completion as dense arrays in NumPy: a judge, and the optimum by a batch method that shares no code with the
library: accelerated projected gradient steps with full decompositions on the Lagrangian, and bisection over the multiplier.
"""

from typing import Any, NamedTuple

import numpy as np

from tightrope.datasets import StructuredMatrix


class Optimum(NamedTuple):
    """Bounds of the least normalised error, by duality and by a feasible point, and the multiplier of energy/beta - 1."""

    lower: float
    upper: float
    multiplier: float


class Dense:
    """A partly observed matrix.

    Attributes:
        M, mask: the observed values, 0 elsewhere, and where they are.
        alpha: the bound on the nuclear norm, that of the true matrix.
        half: half the sum of the squared observed values, by which errors are normalised.
    """

    def __init__(self, given: StructuredMatrix):
        self.alpha = given.nuclear_norm
        self.mask, self.M = np.zeros(given.shape, bool), np.zeros(given.shape)
        self.mask[given.rows, given.columns], self.M[given.rows, given.columns] = True, given.values
        self.half = float(np.sum(self.M**2) / 2)

    def error(self, X: Any) -> float:
        """The normalised error: 0 where all observed values are met, 1 at X = 0."""
        return float(np.sum((np.asarray(X, float) - self.M)[self.mask] ** 2) / 2 / self.half)

    def energy(self, X: Any) -> float:
        """Half the sum of squares where nothing was observed."""
        return float(np.sum(np.asarray(X, float)[~self.mask] ** 2) / 2)

    def minimise(self, weight: float, X: np.ndarray, tol: float = 1e-7) -> np.ndarray:
        """Observed squares plus `weight` times the others over the nuclear-norm ball, by FISTA with restarts from X."""
        w = np.where(self.mask, 1.0, weight)
        Y, t = X, 1.0
        for _ in range(300):
            new = self._project(Y - w * (Y - self.M) / max(1.0, weight))
            t_next = (1 + np.sqrt(1 + 4 * t * t)) / 2
            if np.sum((Y - new) * (new - X)) > 0:  # momentum points uphill: start it again
                t, t_next = 1.0, 1.0
            Y, moved, X, t = new + (t - 1) / t_next * (new - X), np.linalg.norm(new - X), new, t_next
            if moved <= tol * np.linalg.norm(new):
                break
        return X

    def optimum(self, beta: float, tol: float = 1e-3) -> Optimum:
        """With energy at most beta; bisection ends when the multiplier is known to a share of `tol`."""
        low, high, lower, upper, weight, X = 0.0, 2.0, -np.inf, np.inf, 1.0, np.zeros_like(self.M)
        for _ in range(40):
            weight = (low + high) / 2
            X = self.minimise(weight, X)
            excess = self.energy(X) - beta
            lower = max(lower, self.error(X) + (weight * excess - self._gap(weight, X)) / self.half)
            upper = min(upper, self.error(X / np.sqrt(max(1 + excess / beta, 1))))
            low, high = (weight, high) if excess > 0 else (low, weight)
            if high - low < tol * high:
                break
        return Optimum(lower, upper, weight * beta / self.half)

    def _gap(self, weight: float, X: np.ndarray) -> float:
        """The Frank-Wolfe gap: by how much `minimise` may have missed the least value, at most."""
        slope = np.where(self.mask, 1.0, weight) * (X - self.M)
        return float(np.sum(slope * X) + self.alpha * np.linalg.norm(slope, 2))

    def _project(self, X: np.ndarray) -> np.ndarray:
        u, s, vt = np.linalg.svd(X, full_matrices=False)
        if s.sum() <= self.alpha:
            return X
        excess = (np.cumsum(s) - self.alpha) / np.arange(1, len(s) + 1)
        return (u * np.maximum(s - excess[np.flatnonzero(s > excess)[-1]], 0)) @ vt
