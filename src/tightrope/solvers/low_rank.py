"""Matrices that are a diagonal and a few terms of rank one: what is done with them costs as much as with these vectors."""

from typing import NamedTuple

import numpy as np


class LowRank(NamedTuple):
    """The matrix diag(diagonal) + vectors' diag(signs) vectors."""

    diagonal: np.ndarray
    vectors: np.ndarray
    signs: np.ndarray

    def __matmul__(self, v: np.ndarray) -> np.ndarray:
        return self.diagonal * v + (self.signs * (self.vectors @ v)) @ self.vectors

    def __truediv__(self, unit: float) -> "LowRank":
        return LowRank(self.diagonal / unit, self.vectors, self.signs / unit)

    def plus(self, tau: float) -> "LowRank":
        """With a multiple of the identity added."""
        return self._replace(diagonal=self.diagonal + tau) if tau else self

    @property
    def trace(self) -> float:
        """The sum of the diagonal."""
        return float(np.sum(self.diagonal) + self.signs @ np.sum(self.vectors**2, axis=1))

    def matrix(self) -> np.ndarray:
        """All its entries."""
        return np.diag(self.diagonal) + (self.vectors.T * self.signs) @ self.vectors

    def solve(self, columns: np.ndarray) -> np.ndarray:
        """The inverse times some columns, by Woodbury's formula, with what that leaves solved for once more: the updates
        that subtract lose digits."""
        V, thin = self.vectors, self.vectors / self.diagonal
        small = np.diag(1 / self.signs) + thin @ V.T

        def once(M: np.ndarray) -> np.ndarray:
            return M / self.diagonal[:, None] - thin.T @ np.linalg.solve(small, thin @ M)

        found = once(columns)
        left = columns - self.diagonal[:, None] * found - V.T @ (self.signs[:, None] * (V @ found))
        return found + once(left)


def restricted(B: np.ndarray | LowRank, which: np.ndarray) -> np.ndarray | LowRank:
    """B in some of the coordinates."""
    if isinstance(B, LowRank):
        return LowRank(B.diagonal[which], B.vectors[:, which], B.signs)
    return B[np.ix_(which, which)]
