"""The split of the fairness experiments, and its training rows as arrays."""

from typing import NamedTuple

import numpy as np

from tightrope._errors import whole_number
from tightrope.learn.datasets.adult import load_adult
from tightrope.learn.datasets.features import label_encoded

TRAINING = 28_350  # rows of Adult to train on; the paper's
VALIDATION = TRAINING // 9  # to tune on: a tenth of those that no test sees


class Split(NamedTuple):
    """The row numbers of three parts: no row is in two of them, and every row is in one.

    Example:
        >>> from tightrope.datasets import split
        >>> [len(part) for part in split(45_222)]
        [28350, 3150, 13722]
    """

    train: np.ndarray
    validation: np.ndarray
    test: np.ndarray


def split(n: int = 45_222, seed: int = 0, train: int = TRAINING, validation: int = VALIDATION) -> Split:
    """A random split of n rows: 28,350 for training, 3,150 for validation, the rest (13,722 of Adult) for tests.

    Example:
        >>> [len(part) for part in split(seed=3)]
        [28350, 3150, 13722]
    """
    n, train = whole_number("split", "n", n), whole_number("split", "train", train)
    validation, seed = whole_number("split", "validation", validation), whole_number("split", "seed", seed, least=0)
    if n <= train + validation:
        raise ValueError(
            f"split: {n:,} rows cannot be split into {train:,} for training, {validation:,} for validation and some for "
            f"tests; give more rows, or smaller parts."
        )
    order = np.random.default_rng(seed).permutation(n)
    return Split(order[:train], order[train : train + validation], order[train + validation :])


def adult_label_encoded(seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """X (28,350 × 14), y and s of the training rows of `split(seed=seed)`, label-encoded and standardised on them.

    Example:
        >>> X, y, s = adult_label_encoded()
        >>> X.shape, sorted(set(y)) == [-1, 1], sorted(set(s)) == [0, 1]
        ((28350, 14), True, True)
    """
    frame = load_adult()
    rows = split(len(frame), seed).train
    X, y, s, _ = label_encoded(frame, fit_on=rows)
    return X[rows], y[rows], s[rows]
