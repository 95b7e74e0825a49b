"""The quadratic programme of a step between bounds on many coordinates, by block principal pivoting: coordinates that the
solution without their bounds would take across are put onto them, those that it would pull away are let go, all at once
(J. J. Judice and F. M. Pires, Computers and Operations Research 21, 1994)."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from tightrope.solvers.low_rank import LowRank, restricted
from tightrope.solvers.programmes import NOTHING, ROUNDS, Region

# By hand, where nothing else is said.
_PATIENCE = 5  # rounds without fewer coordinates on the wrong side than ever before, until they are moved one by one
ROUNDED = 1e-12  # of a width, or the largest of its kind: a smaller slack, square or trace is rounding; by hand


class Bounds(NamedTuple):
    """The domain low <= y <= high."""

    low: np.ndarray
    high: np.ndarray
    region: Callable[[], Region]  # the same set, for other solvers


def within_bounds(
    g: np.ndarray, B: np.ndarray | LowRank, J: np.ndarray, h: np.ndarray, bounds: Bounds, free: Callable[..., tuple]
) -> tuple[np.ndarray, np.ndarray] | None:
    """The y between the bounds with the least <g, y> + y'By/2 subject to h + J y <= 0, and the multipliers of J; None where
    that does not end soon.

    Args:
        g, B, J, h, bounds: the programme.
        free: solves it without bounds.
    """
    low, high = bounds.low, bounds.high
    side = np.where(low == high, -1, 0)  # -1 on the lower bound, 1 on the upper one
    fewest, patience = len(g) + 1, _PATIENCE
    for _ in range(ROUNDS):
        y = np.where(side < 0, low, np.where(side > 0, high, 0.0))
        inside = side == 0
        if not np.any(inside):
            return None
        part, lam = free((g + B @ y)[inside], restricted(B, inside), J[:, inside], h + J @ y)
        y[inside] = part
        slope = g + B @ y + lam @ J
        small = NOTHING * max(float(np.max(np.abs(g))), float(np.max(np.abs(slope))))
        across = np.where(inside & (y < low - ROUNDED), -1, np.where(inside & (y > high + ROUNDED), 1, 0))
        away = (side * slope > small) & (low < high)
        wrong = int(np.count_nonzero(across) + np.count_nonzero(away))
        if wrong == 0:
            return np.clip(y, low, high), lam
        patience = _PATIENCE if wrong < fewest else patience - 1
        fewest = min(fewest, wrong)
        change = np.where(away, -side, across)
        if patience <= 0:  # one alone, the last: that ends where all at once might go round in circles
            change[: np.flatnonzero(change)[-1]] = 0
        side = side + change
    return None
