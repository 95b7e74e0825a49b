"""Curvature without a matrix, for many coordinates: scales of these, the few directions in which the Lagrangian bends most,
what is usual elsewhere, and damped BFGS updates with the last steps.

In d coordinates a Hessian that is better than a multiple of the identity takes several d rows, so d times as many products
as a gradient of theirs, and every programme with it d^3/3 operations. What is here takes a few hundred products at the
start, and programmes of d times some dozen operations.
"""

from functools import cached_property
from typing import Any

import numpy as np

from tightrope.methods.curvature import is_flat, secant
from tightrope.methods.directions import curvatures
from tightrope.methods.second_order.look import Place, Turn
from tightrope.methods.second_order.low_rank import LowRank
from tightrope.problem.rounding import count

LOOKS = ((16, 1), (64, 2))  # for so many directions on so many rows a coordinate: again where the first sees no end of them
DIRECTIONS = LOOKS[-1][0]

_LEAST = 1e-8  # of the largest curvature: less is none, and would be divided by
_APART = 2.0  # times what rows at random may bend more along one direction than another: one that bends more indeed


class Memory:
    """What the matrix is made of, as one table for checkpoints: a row of scales, one of curvatures, one for each leading
    direction, and one for the steps and one for the changes of the gradient that are remembered, the oldest first.

    Args:
        table: these rows.
    """

    def __init__(self, table: np.ndarray):
        self.table = table
        self.pairs = pairs_in(len(table))

    @classmethod
    def found(cls, scales: np.ndarray, directions: np.ndarray, bends: np.ndarray, usual: float, pairs: int) -> "Memory":
        """At the start: scales, the directions that bend more than others, how much, and how much all others do."""
        table = np.zeros((rows_of(pairs), len(scales)))
        table[0] = scales
        table[1, : len(bends)], table[1, DIRECTIONS] = bends, usual
        table[2 : 2 + len(bends)] = directions
        return cls(table)

    @classmethod
    def plain(cls, curvature: float, d: int, pairs: int) -> "Memory":
        """A multiple of the identity."""
        table = np.zeros((rows_of(pairs), d))
        table[0], table[1, DIRECTIONS] = 1, curvature
        return cls(table)

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return np.array(self.table, dtype)

    def __matmul__(self, v: np.ndarray) -> np.ndarray:
        return self.matrix @ v

    def __truediv__(self, unit: float) -> LowRank:
        return self.matrix / unit

    def after(self, step: np.ndarray, change: np.ndarray) -> "Memory":
        """With one pair more, and without the oldest."""
        table = self.table.copy()
        first = len(table) - 2 * self.pairs
        for start, new in ((first, step), (first + self.pairs, change)):
            table[start : start + self.pairs] = np.vstack([table[start + 1 : start + self.pairs], new])
        return Memory(table)

    @cached_property
    def matrix(self) -> LowRank:
        """In scales, what is usual everywhere but along the leading directions, and there what was found; then the updates.
        What is usual is what the last step met apart from these directions."""
        k, pairs, scales = DIRECTIONS, self.pairs, self.table[0]
        apart = self.table[1, :k] > 0
        bends, U = self.table[1, :k][apart], self.table[2 : 2 + k][apart]
        steps, changes = self.table[2 + k : 2 + k + pairs], self.table[2 + k + pairs :]
        usual = _met(steps[-1] / scales, changes[-1] * scales, U) or float(self.table[1, k])
        usual = max(usual, _LEAST * float(np.max(bends, initial=0)))
        diagonal = usual / scales**2
        vectors, signs = np.empty((len(U) + 2 * pairs, len(scales))), np.empty(len(U) + 2 * pairs)
        vectors[: len(U)] = U / scales * np.sqrt(np.maximum(bends - usual, 0))[:, None]
        signs[: len(U)] = 1
        used = len(U)
        known = np.any(steps, axis=1)
        for step, change in zip(steps[known], changes[known], strict=True):
            so_far = LowRank(diagonal, vectors[:used], signs[:used])
            for sign, v in secant(so_far @ step, step, change):
                vectors[used], signs[used] = v, sign
                used += 1
        return LowRank(diagonal, vectors[:used], signs[:used])


def rows_of(pairs: int | None) -> int:
    """Of the table with so many pairs; 0 without one."""
    return 2 + DIRECTIONS + 2 * pairs if pairs else 0


def pairs_in(rows: int) -> int:
    """How many pairs a table of so many rows has."""
    return (rows - 2 - DIRECTIONS) // 2


def _met(step: np.ndarray, change: np.ndarray, U: np.ndarray) -> float:
    """The curvature along a step without its parts along U: what a change of the gradient is to the step that made it;
    0 where there is none."""
    step, change = (v - (U @ v) @ U for v in (step, change))
    bent = float(step @ change)
    return float(change @ change) / bent if bent > 0 else 0.0


class LimitedTurn(Turn):
    """A look and the step after it, with curvature of limited memory."""

    def _curvature(self, state: Any) -> Memory:
        return state.bend if isinstance(state.bend, Memory) else Memory(np.asarray(state.bend, float))

    def _corrected(self, bend: Memory, move: np.ndarray, change: np.ndarray) -> Memory:
        return bend.after(move, change)

    def _on_some_rows(self, *_: Any) -> None:
        """None: as many rows as tell where the solution is would be most of them."""

    def _stale(self, *_: Any) -> bool:
        """Never: the updates forget."""
        return False

    def _hessian(self, x: np.ndarray, lam: np.ndarray, c: Place, rows: int) -> Memory:
        """Scales and leading directions on some of the rows, and no steps remembered."""
        pairs = pairs_in(len(self.before.bend))
        for weights in (lam, self.balanced):  # a linear objective, until a constraint that bends is met
            found = self._leading(x, weights, c, pairs)
            if not np.all(np.isfinite(found.table)):
                break
            if not is_flat(np.array([[found.matrix.trace]]), np.ones(1), self.units.f):
                return found
        return Memory.plain(self.units.f, len(self.widths), pairs)

    def _leading(self, x: np.ndarray, lam: np.ndarray, c: Place, pairs: int) -> Memory:
        """Directions that bend more than as many rows at random would: in d coordinates the Hessian on m rows bends up to
        (1 + sqrt(d/m))^2 times as much as usual where that on all rows bends the same everywhere (Marchenko and Pastur)."""
        n, d = count(self.data), len(self.widths)
        point = self._point(x * self.widths)
        mean, weights, widths = (np.asarray(v, self.dtype) for v in (c.slope(lam) / self.widths, lam, self.widths))
        for k, rows in LOOKS:
            k, rows = min(k, d), min(rows * d, n)
            seen = np.asarray(curvatures(self.problem, point, mean, weights, self.data, widths, k, rows), float)
            scales, directions, bends, usual = np.split(seen, np.cumsum([d, k * d, k]))
            edge = _APART * float(usual[0]) * (1 + np.sqrt(d / rows)) ** 2
            if not bends[-1] > edge:
                break
        apart = bends > edge
        return Memory.found(scales, directions.reshape(k, d)[apart], bends[apart], float(usual[0]), pairs)
