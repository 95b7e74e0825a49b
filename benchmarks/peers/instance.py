"""The paper's instance of matrix completion, who judges an answer, and its optimum by a batch method."""

from collections.abc import Callable
from typing import Any

import numpy as np

from tightrope.datasets import structured_matrix

TARGET = 1e-2  # normalised error


class Instance:
    """A 200 x 300 matrix of rank 10, its judge in float64, and half the energy if asked for, so that the constraint binds.

    Attributes:
        M, mask: the observed values, 0 elsewhere, and where they are.
        alpha, beta: the bounds on the nuclear norm and on the energy of what was not observed.
        total: the sum of the squared observed values.
    """

    def __init__(self, seed: int, share: float = 1.0):
        self.data = structured_matrix(seed=seed)
        self.alpha, self.beta = self.data.nuclear_norm, share * self.data.unobserved_energy
        self.M, self.mask = np.zeros(self.data.shape), np.zeros(self.data.shape, bool)
        self.M[self.data.rows, self.data.columns] = self.data.values
        self.mask[self.data.rows, self.data.columns] = True
        self.total = float(np.sum(self.M**2))

    def error(self, X: Any) -> float:
        """Normalised."""
        return float(np.sum((np.asarray(X, float) - self.M)[self.mask] ** 2) / self.total)

    def violation(self, X: Any) -> float:
        """Energy over its bound, less one."""
        return float(np.sum(np.asarray(X, float)[~self.mask] ** 2) / 2 / self.beta - 1)

    def optimum(self, rounds: int = 14, say: Callable[[str], Any] = print) -> tuple[float, float, float]:
        """A lower and an upper bound of the least error, and the multiplier of the energy.

        For a multiplier the Lagrangian is minimised by accelerated projected gradients with full decompositions; bisection
        finds the multiplier at which the energy is its bound. Duality gives the lower bound, shrinking X the upper one.
        """
        low, high, lower, upper, multiplier = 1e-4, 1.0, 0.0, 1.0, 0.0
        X = np.zeros_like(self.M)
        for _ in range(rounds):
            lam = float(np.sqrt(low * high))
            X, gap = self._minimise_lagrangian(lam, X)
            h = self.violation(X)
            bound = self.error(X) + lam * h - gap
            if bound > lower:
                lower, multiplier = bound, lam
            upper = min(upper, self.error(X / np.sqrt(max(1 + h, 1))))
            low, high = (lam, high) if h > 0 else (low, lam)
            say(
                f"multiplier {lam:.5f}: error {self.error(X):.6f}, violation {h:+.5f}, F* in [{lower:.6f}, {upper:.6f}]"
            )
            if upper - lower <= 1e-3 * upper:
                break
        return lower, upper, multiplier

    def _minimise_lagrangian(self, lam: float, X: np.ndarray) -> tuple[np.ndarray, float]:
        """The minimiser over the ball and the Frank-Wolfe gap that is left."""
        weight = np.where(self.mask, 2 / self.total, lam / self.beta)
        longest, Y, t, gap = weight.max(), X, 1.0, np.inf
        for k in range(2000):
            u, s, vt = np.linalg.svd(Y - weight * (Y - self.M) / longest, full_matrices=False)
            after = (u * _onto_l1_ball(s, self.alpha)) @ vt
            if np.sum((Y - after) * (after - X)) > 0:  # momentum points uphill: start it again
                t = 1.0
            t_after = (1 + np.sqrt(1 + 4 * t * t)) / 2
            X, Y, t = after, after + (t - 1) / t_after * (after - X), t_after
            if k % 20 == 19:
                slope = weight * (X - self.M)
                gap = float(np.sum(slope * X) + self.alpha * np.linalg.norm(slope, 2))
                if gap < 3e-6:
                    break
        return X, gap


def _onto_l1_ball(s: np.ndarray, radius: float) -> np.ndarray:
    """For singular values, largest first."""
    if s.sum() <= radius:
        return s
    levels = (np.cumsum(s) - radius) / np.arange(1, len(s) + 1)
    return np.maximum(s - levels[np.flatnonzero(s > levels)[-1]], 0)
