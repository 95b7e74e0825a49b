"""The loss of this wing's linear classifiers, in NumPy and traced. Another one is another `Loss` here: no other file knows
which it is."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit

from tightrope.losses import logistic_loss
from tightrope.tree import Array


class Loss(NamedTuple):
    """A convex loss of the margin, label (-1 or +1) times score; over its value at 0 it bounds the 0/1 loss.

    Attributes:
        name: what a report calls it.
        traced: of margins, in JAX.
        values: of scores and labels.
        derivatives: by the score, the first and the second, each times a factor: of scores, labels and that factor.
        at_zero: what every row loses at the start.
        bend: the largest second derivative.
        chance: how likely the positive label is, of scores.
        off: by how much chances may be off, root mean square, where the mean loss is at most so much above the best.
    """

    name: str
    traced: Callable[[Any], Array]
    values: Callable[[np.ndarray, np.ndarray], np.ndarray]
    derivatives: Callable[[np.ndarray, np.ndarray, Any], tuple[np.ndarray, np.ndarray]]
    at_zero: float
    bend: float
    chance: Callable[[np.ndarray], np.ndarray]
    off: Callable[[float], float]


def sigmoid(z: np.ndarray) -> np.ndarray:
    """1 / (1 + exp(-z)), by an exponential that cannot overflow."""
    small = np.exp(-np.abs(z))
    return np.where(z >= 0, 1.0, small) / (1 + small)


def _logistic_values(z: np.ndarray, label: np.ndarray) -> np.ndarray:
    return np.maximum(-label * z, 0) + np.log1p(np.exp(-np.abs(z)))


def _logistic_derivatives(z: np.ndarray, label: np.ndarray, times: Any) -> tuple[np.ndarray, np.ndarray]:
    p = sigmoid(z)
    return times * (p - (label > 0)), times * p * (1 - p)


def _logistic_off(gap: float) -> float:
    """The mean of KL(p*, p) over the rows is at most the gap, since the slope of F at the optimum points nowhere down within
    the constraints; and it is at least twice the mean of (p* - p)^2, by Pinsker."""
    return min(1.0, np.sqrt(gap / 2))


LOSS = Loss(
    "logistic loss",
    logistic_loss,
    _logistic_values,
    _logistic_derivatives,
    at_zero=float(np.log(2)),
    bend=0.25,
    chance=expit,
    off=_logistic_off,
)
