"""The paper's partly observed low-rank matrix, of any size: no array of rows x columns is ever made."""

from typing import NamedTuple

import numpy as np

from tightrope._errors import whole_number


class StructuredMatrix(NamedTuple):
    """Observed entries of a low-rank matrix with noise, and what is true of the whole of it.

    Attributes:
        rows, columns, values: the observed entries.
        shape: rows and columns of the matrix.
        nuclear_norm: the sum of the singular values of the true matrix, which has no noise.
        unobserved_energy: half the sum of squares of the true entries that were not observed.
        left, right: factors of the true matrix, which is left @ right.

    Example:
        >>> from tightrope.datasets import structured_matrix
        >>> given = structured_matrix(6, 8, rank=2)
        >>> (given.left @ given.right).shape, len(given.values) == len(given.rows)
        ((6, 8), True)
    """

    rows: np.ndarray
    columns: np.ndarray
    values: np.ndarray
    shape: tuple[int, int]
    nuclear_norm: float
    unobserved_energy: float
    left: np.ndarray
    right: np.ndarray

    @property
    def entries(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The observed entries as `structured_completion` takes them: rows, columns and values."""
        return self.rows, self.columns, self.values


def structured_matrix(
    rows: int = 200,
    columns: int = 300,
    rank: int = 10,
    *,
    observed: int | None = None,
    noise: float = 1e-3,
    seed: int = 0,
) -> StructuredMatrix:
    """A product of two sparse nonnegative factors, whose zeros are rarely observed and other entries mostly.

    Entries of the left factor are zero with probability 0.7 and otherwise uniform on (0, 1); of the right one with
    probability 0.5. Of the product's zeros 1 % are observed, of its other entries 90 %. Noise is Gaussian; over the whole
    matrix its norm would be `noise` times that of the true one.

    Args:
        rows, columns, rank: the size and the rank of the true matrix.
        observed: how many entries are observed, drawn in the same proportion of zeros and others. By default as many as
            the probabilities give; the whole matrix must then fit in memory.
        noise: the norm of the noise over the whole matrix, divided by the norm of the true matrix.
        seed: the seed of everything drawn; the same one gives the same matrix.

    Example:
        >>> made = structured_matrix(20, 15, rank=2)
        >>> made.shape, bool(made.nuclear_norm > 0)
        ((20, 15), True)
    """
    for name, value in (("rows", rows), ("columns", columns), ("rank", rank)):
        whole_number("structured_matrix", name, value)
    if not (np.isfinite(noise) and noise >= 0):
        raise ValueError(f"structured_matrix: noise is {noise!r}; expected a number >= 0.")
    rng = np.random.default_rng(seed)
    left = rng.uniform(size=(rows, rank)) * (rng.uniform(size=(rows, rank)) >= 0.7)
    right = rng.uniform(size=(rank, columns)) * (rng.uniform(size=(rank, columns)) >= 0.5)
    at = _all_places(rng, left, right) if observed is None else _some_places(rng, left, right, observed)
    i, j = np.divmod(at, columns)
    true = entries_of(left, right.T, i, j)
    energy = float(np.sum((left.T @ left) * (right @ right.T)))  # of the whole matrix
    size = noise * np.sqrt(energy / (rows * columns))
    values = true + size * rng.normal(size=len(true))
    nuclear = np.linalg.svd(np.linalg.qr(left)[1] @ np.linalg.qr(right.T)[1].T, compute_uv=False).sum()
    hidden = max(energy - float(true @ true), 0.0) / 2
    return StructuredMatrix(i, j, values, (rows, columns), float(nuclear), hidden, left, right)


_SLICE = 1 << 14  # entries at once, whose factors a core's cache holds; measured: five times as fast as all together


def entries_of(left: np.ndarray, right: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """left @ right.T at these places, in slices that fit in memory."""
    found = np.empty(len(rows))
    for start in range(0, len(rows), _SLICE):
        part = slice(start, start + _SLICE)
        found[part] = np.einsum("ak,ak->a", left.take(rows[part], 0), right.take(columns[part], 0))
    return found


def _kept(rng: np.random.Generator, true: np.ndarray) -> np.ndarray:
    return rng.uniform(size=true.shape) < np.where(true == 0, 0.01, 0.9)


def _all_places(rng: np.random.Generator, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    return np.flatnonzero(_kept(rng, left @ right))


def _some_places(rng: np.random.Generator, left: np.ndarray, right: np.ndarray, observed: int) -> np.ndarray:
    """`observed` distinct places, drawn at random and kept with the probability that belongs to the entry there."""
    cells = left.shape[0] * right.shape[1]
    if whole_number("structured_matrix", "observed", observed) > cells // 2:
        raise ValueError(
            f"structured_matrix: observed is {observed:,}; expected at most half of the {cells:,} entries."
        )
    found = np.empty(0, np.int64)
    while len(found) < observed:
        drawn = rng.integers(cells, size=int(1.6 * (observed - len(found))) + 100)
        i, j = np.divmod(drawn, right.shape[1])
        found = np.unique(np.concatenate([found, drawn[_kept(rng, entries_of(left, right.T, i, j))]]))
    return np.sort(rng.choice(found, observed, replace=False))
