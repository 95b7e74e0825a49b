"""Small convex programmes on a set, by Clarabel: linear and quadratic ones, with whatever cones the set is made of.

Nothing here has to be exact. A lower bound is made of multipliers by a formula that holds for any of them, and a point is
looked at before anything is said of it; an inaccurate solution costs a look, never a wrong claim.
"""

from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

from tightrope._threads import one_thread as one_thread
from tightrope.sets.conic import Conic

# By hand, where nothing else is said.
_TOLERANCE = 1e-11  # of a unit-free programme; what cannot be reached is left at "almost solved"
NOTHING = 1e-10  # of the largest slope, weight or curvature: a smaller one is rounding of programmes; by hand
NONE = 1e-9  # of a unit: a smaller slack, violation or multiplier is none; by hand: programmes are solved to less
ROUNDS = 50  # of any iteration on the host, at most: 20 are usual, and where these are not enough more seldom help


class Region(NamedTuple):
    """The set in unit-free coordinates y, x = centre + widths y: b - A y - E z in its cones, every row of length one."""

    centre: np.ndarray
    widths: np.ndarray
    A: np.ndarray
    E: np.ndarray
    b: np.ndarray
    cones: tuple[Any, ...]

    def point(self, y: np.ndarray) -> np.ndarray:
        """The x of a y."""
        return self.centre + self.widths * y


class Solution(NamedTuple):
    """A point, and the multipliers of the inequalities."""

    v: np.ndarray
    dual: np.ndarray


def region_of(conic: Conic, centre: np.ndarray) -> Region:
    """The set around a centre, in units of its widths."""
    widths = np.where(conic.upper > conic.lower, conic.upper - conic.lower, 1.0)
    A, b = conic.A * widths, conic.b - conic.A @ centre
    lengths, row = np.maximum(np.abs(A).max(axis=1, initial=0.0), np.abs(conic.E).max(axis=1, initial=0.0)), 0
    for kind, size in conic.cones:  # rows of one cone are scaled together, but for those that are cones of their own
        block = slice(row, row + size)
        lengths[block] = lengths[block] if kind in ("zero", "nonnegative") else lengths[block].max()
        row += size
    lengths = np.where(lengths > 0, lengths, 1.0)
    return Region(centre, widths, A / lengths[:, None], conic.E / lengths[:, None], b / lengths, conic.cones)


def solve(
    region: Region, cost: np.ndarray, rows: np.ndarray, sides: np.ndarray, quadratic: np.ndarray | None = None
) -> Solution | None:
    """Minimise v'Qv/2 + <cost, v> over v = (y, u), y in the region, subject to rows v <= sides; None where that fails.

    u are further variables without bounds, as many as `cost` is longer than a point. The quadratic form is of y alone.
    """
    from scipy.sparse import csc_matrix

    clarabel: Any = import_module("clarabel")  # it has no stubs
    n, columns, helpers = len(region.widths), len(cost), region.E.shape[1]
    total = columns + helpers
    A = np.zeros((len(rows) + len(region.A), total))
    A[: len(rows), :columns] = rows
    A[len(rows) :, :n], A[len(rows) :, columns:] = region.A, region.E
    Q = np.zeros((total, total))
    if quadratic is not None:
        Q[:n, :n] = np.triu(quadratic)
    kinds = {
        "zero": clarabel.ZeroConeT,
        "nonnegative": clarabel.NonnegativeConeT,
        "second order": clarabel.SecondOrderConeT,
        "semidefinite": lambda rows: clarabel.PSDTriangleConeT(int((8 * rows + 1) ** 0.5 - 1) // 2),
    }
    cones = [clarabel.NonnegativeConeT(len(rows))] if len(rows) else []
    cones += [kinds[kind](size) for kind, size in region.cones]
    settings = clarabel.DefaultSettings()
    settings.verbose, settings.max_threads, settings.max_iter = False, 1, ROUNDS
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = _TOLERANCE
    q, b = np.concatenate([cost, np.zeros(helpers)]), np.concatenate([sides, region.b])
    answer = clarabel.DefaultSolver(csc_matrix(Q), q, csc_matrix(A), b, cones, settings).solve()
    v, dual = np.asarray(answer.x)[:columns], np.asarray(answer.z)[: len(rows)]
    bad = ("PrimalInfeasible", "DualInfeasible", "AlmostPrimalInfeasible", "AlmostDualInfeasible", "NumericalError")
    if str(answer.status) in bad or not (np.all(np.isfinite(v)) and np.all(np.isfinite(dual))):
        return None
    return Solution(v, np.maximum(dual, 0.0))
