"""Curvature without a matrix, for many coordinates: scales of these, the few directions in which the Lagrangian bends most,
what is usual elsewhere, and damped BFGS updates with the last steps.

In d coordinates a Hessian says more than a multiple of the identity from several d rows on, which is d products with each
of them, and every programme with it takes d^3/3 operations. What is here takes a few dozen products with d rows, and
programmes of d times some hundred operations.
"""

from functools import cached_property
from typing import Any

import numpy as np

from tightrope.methods.directions import FEW, curvatures
from tightrope.problem.rounding import count
from tightrope.solvers.low_rank import LowRank
from tightrope.solvers.quadratic import is_flat, secant
from tightrope.solvers.sqp_survey import Place, SQPSurvey

# By hand, where nothing else is said.
MANY = 64  # directions that are looked for where the few are not all that stand out
_ROWS, _MORE_ROWS = 1, 2  # for each coordinate, on which they are looked for
_APART = 2.0  # times what rows at random may bend more along one direction than another: one that stands out
_LEAST = 1e-8  # of the largest curvature: less is none, and would be divided by
_NUMBERS = 3  # rows of the table that are neither directions nor pairs


def rows_of(pairs: int | None) -> int:
    """How many rows the table has that so many pairs are kept in; 0 without one."""
    return _NUMBERS + MANY + 2 * pairs if pairs else 0


class Bends:
    """What the matrix is made of, in one table for checkpoints. Its rows are the scales of the coordinates, the curvatures
    along the leading directions, what is usual elsewhere, these directions, and then the steps and the changes of the
    gradient that are remembered, the oldest first.

    Args:
        table: these rows, of d numbers each.
    """

    def __init__(self, table: np.ndarray):
        self.table, self.pairs = table, (len(table) - _NUMBERS - MANY) // 2

    @classmethod
    def of(
        cls, scales: np.ndarray, directions: np.ndarray, bends: np.ndarray, usual: float, pairs: np.ndarray
    ) -> "Bends":
        """Of what was found, with steps and changes that are remembered: as many rows of zeros where there are none yet."""
        first = np.zeros((_NUMBERS + MANY, len(scales)))
        first[0], first[1, : len(bends)], first[2] = scales, bends, usual
        first[_NUMBERS : _NUMBERS + len(directions)] = directions
        return cls(np.vstack([first, pairs]))

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return np.array(self.table, dtype)

    def __matmul__(self, v: np.ndarray) -> np.ndarray:
        return self.matrix @ v

    def __truediv__(self, unit: float) -> LowRank:
        return self.matrix / unit

    def after(self, step: np.ndarray, change: np.ndarray) -> "Bends":
        """With one pair more, and without the oldest."""
        first, (steps, changes) = self.table[: _NUMBERS + MANY], self._remembered
        return Bends(np.vstack([first, steps[1:], step, changes[1:], change]))

    @cached_property
    def matrix(self) -> LowRank:
        """In scales, what is usual everywhere but along the leading directions, and there what was found; then the updates.
        What is usual is what the last step met apart from these directions."""
        scales, bends, usual = self.table[0], self.table[1], float(self.table[2, 0])
        k = self.leading
        bends, directions, (steps, changes) = bends[:k], self.table[_NUMBERS : _NUMBERS + k], self._remembered
        usual = _met(steps[-1] / scales, changes[-1] * scales, directions) or usual
        usual = max(usual, _LEAST * float(np.max(bends, initial=0)))
        vectors, signs = np.empty((k + 2 * self.pairs, len(scales))), np.ones(k + 2 * self.pairs)
        vectors[:k] = directions / scales * np.sqrt(np.maximum(bends - usual, 0))[:, None]
        diagonal, known, used = usual / scales**2, np.any(steps, axis=1), k
        for step, change in zip(steps[known], changes[known], strict=True):
            so_far = LowRank(diagonal, vectors[:used], signs[:used])
            for sign, v in secant(so_far @ step, step, change):
                vectors[used], signs[used], used = v, sign, used + 1
        return LowRank(diagonal, vectors[:used], signs[:used])

    @property
    def leading(self) -> int:
        """How many directions stand out."""
        return int(np.count_nonzero(self.table[1]))

    @property
    def _remembered(self) -> tuple[np.ndarray, np.ndarray]:
        return self.table[-2 * self.pairs : -self.pairs], self.table[-self.pairs :]


def _met(step: np.ndarray, change: np.ndarray, directions: np.ndarray) -> float:
    """The curvature that a step has met apart from some directions: how long the change of the gradient is beside the step
    that made it. 0 where there is none."""
    step, change = (v - (directions @ v) @ directions for v in (step, change))
    bent = float(step @ change)
    return float(change @ change) / bent if bent > 0 else 0.0


class LimitedSurvey(SQPSurvey):
    """A look and the step after it, with curvature of limited memory."""

    def _curvature(self, memory: Any) -> Bends:
        return memory.bend if isinstance(memory.bend, Bends) else Bends(np.asarray(memory.bend, float))

    def _corrected(self, bend: Bends, move: np.ndarray, change: np.ndarray) -> Bends:
        return bend.after(move, change)

    def _on_some_rows(self, rows: int, begin: Any) -> None:
        """None: as many rows as tell where the solution is would be most of them."""

    def _stale(self, thought: float, found: float, was: np.ndarray, now: np.ndarray, bent: int) -> bool:
        """Never: updates forget what is past."""
        return False

    def _hessian(self, x: np.ndarray, lam: np.ndarray, c: Place, rows: int) -> Any:
        """A `Bends` with scales and leading directions as some rows have them here, and with the steps so far."""
        d, pairs = len(self.widths), np.asarray(self.before.bend, float)[_NUMBERS + MANY :]
        for weights in (lam, self.balanced):  # a linear objective, until a constraint that bends is met
            found = self._leading(x, weights, c, pairs, FEW, _ROWS)
            if not np.all(np.isfinite(found.table)):
                break
            if not is_flat(np.array([[found.matrix.trace]]), np.ones(1), self.units.f):
                return found
        return Bends.of(np.ones(d), np.zeros((0, d)), np.zeros(0), self.units.f, pairs)

    def _leading(self, x: np.ndarray, lam: np.ndarray, c: Place, pairs: np.ndarray, k: int, rows: int) -> Bends:
        """With the directions that stand out: in d coordinates the Hessian on m rows bends up to (1 + sqrt(d/m))^2 times as
        much as usual where that on all rows bends the same everywhere (Marchenko and Pastur)."""
        n, d = count(self.data), len(self.widths)
        few, some = max(1, min(k, d // 2)), min(rows * d, n)
        point, of = self._point(x * self.widths), (c.slope(lam) / self.widths, lam, self.widths)
        mean, weights, widths = (np.asarray(v, self.dtype) for v in of)
        seen = curvatures(self.problem, point, mean, weights, self.data, widths, few, some)
        scales, directions, bends, usual = np.split(np.asarray(seen, float), np.cumsum([d, few * d, few]))
        apart = bends > _APART * (1 + np.sqrt(d / some)) ** 2 * usual
        if k == FEW and np.all(apart):
            return self._leading(x, lam, c, pairs, MANY, _MORE_ROWS)
        return Bends.of(scales, directions.reshape(few, d)[apart], bends[apart], float(usual[0]), pairs)
