"""Where functions with kinks lead when these are made smooth, over less and less.

Sequential quadratic programming solves the problem with smooth functions in a few looks; its solution for the next width is
near. What is smooth proves nothing of the functions themselves. But where the widths are small, looks along one line through
the solution prove nearly everything: the line on which every row that is near its kink moves across by the same number of
widths. Between neighbours on it lie all the slopes of which the smooth one is a mean, and a combination of cuts that has the
slope of the smooth function bounds F* by what rows are off their kinks.
"""

from typing import Any

import jax
import numpy as np

from tightrope.problem import Problem
from tightrope.problem.kinks import Smoothed, between_rows, smoothed, weighed
from tightrope.problem.problem import bends
from tightrope.problem.rounding import count
from tightrope.sets import Box, LinfBall
from tightrope.solvers.base import SOLVED, NotFiniteLook
from tightrope.solvers.bounds import ROUNDED
from tightrope.solvers.programmes import ROUNDS, one_thread
from tightrope.solvers.sqp import SQP
from tightrope.solvers.sqp_survey import Place, SQPMemory, SQPSurvey
from tightrope.solvers.survey import into_domain
from tightrope.tree import Tree, as_numpy, as_vector, pytree, replace, shaped_like

INSIDE, AT, ALONG, BESIDE, CLOSED = map(np.int32, range(5))
"""What the next look is: at smooth functions, at their solution, along the line, where cuts lead beside it, or elsewhere."""

# By hand, where nothing else is said.
_NARROWER = 0.2  # times the width: the next one at least
_NEAR = 0.1  # of what smooth kinks are thought to be worth: the fall that the last step to their solution promises
_MOST = (
    1 << 27
)  # products that a Hessian on all rows takes, a tenth of a second: with more, looks at smooth functions cost
# more than the programmes that they save


@pytree
class PathMemory:
    """What the next look needs; arrays in NumPy."""

    phase: Any  # what the next look is
    begin: Any  # (d,) where kinks were weighed ...
    balance: Any  # (N,) ... and the multipliers
    first: Any  # the first width, in units of F
    width: Any  # the present one
    solved: Any  # (2,) the last ones whose solutions are known, the latest first; 0 for none
    at: Any  # (2, d) these solutions
    share: Any  # of the width: what smooth kinks were worth at the last one
    proving: Any  # whether looks along the line are next
    looks: Any  # at smooth functions of this width
    line: Any  # (places, d) where to look along the line
    left: Any  # how many of these are left
    bend: Any  # (d, d) the Hessian of the Lagrangian at the solution, away from kinks
    inner: Any  # of sequential quadratic programming, on smooth functions


def pays(problem: Problem, n: int, d: int) -> bool:
    """Whether looks at smooth functions may be had for less than they save."""
    return not problem.nested and bends(problem) and n * d * d <= _MOST


def no_path(x: Tree, lam: np.ndarray, places: int) -> PathMemory:
    """The memory before the first look."""
    inner = SQP(pairs=0).start(x, lam)
    d, zero, number = len(inner.widths), np.zeros((), lam.dtype), np.zeros((), np.int32)
    points = np.zeros((2, d), lam.dtype)
    return PathMemory(
        phase=number + np.int32(AT), begin=points[0], balance=lam, first=zero, width=zero, solved=np.zeros(2, lam.dtype),
        at=points, share=zero + 1, proving=np.zeros((), bool), looks=number, line=np.zeros((places, d), lam.dtype),
        left=number, bend=np.zeros((d, d), lam.dtype), inner=inner,
    )  # fmt: skip


class SmoothSurvey(SQPSurvey):
    """A look at smooth functions. Few rows are near their kinks, so that curvature is taken of all, each time."""

    @property
    def rows_for_hessian(self) -> int:
        """All of them."""
        return count(self.data)

    def _stale(self, thought: float, found: float, was: np.ndarray, now: np.ndarray, bent: int) -> bool:
        return True

    def _after_a_first_run(self, x: Any) -> None:
        return None

    def hessian_here(self, lam: np.ndarray) -> np.ndarray:
        """Of the Lagrangian, in x."""
        c = self._place(-1)
        return self._hessian(c.x, lam, c, self.rows_for_hessian) / self.widths[:, None] / self.widths

    def way(self, other: "SmoothSurvey", apart: float) -> np.ndarray | None:
        """Where the solution goes if all kinks are moved by a width, in x; None where no programme tells. Another look at
        the same point, with kinks moved by a little less, tells what becomes of values and slopes."""
        memory, here, there = self.before, self._place(-1), other._place(-1)
        c = self._place(self._index(memory.centre))
        moved = Place(*(v + (a - b) / apart for v, a, b in zip(c, here, there, strict=True)))  # pyright: ignore
        steps = [self._programme(place, self._curvature(memory), memory) for place in (moved._replace(x=c.x), c)]
        found = [step.y for step in steps if step is not None]
        return (found[0] - found[1]) * self.widths if len(found) == 2 else None


class Path:
    """The way to the solution over smooth functions.

    Args:
        problem: the problem.
        rows: all of them.
        conic: its domain as programmes have it.
        kinks: how many it has.
        path: where it is, if it has begun.
        like: a point.
    """

    def __init__(self, problem: Problem, rows: Tree, conic: Any, kinks: int, path: PathMemory, like: Tree):
        self.problem, self.rows, self.conic, self.kinks, self.like = problem, rows, conic, kinks, like
        self.dtype, self.parts = path.width.dtype, np.ones(kinks)
        if path.first > 0:
            self._weigh(path)

    def begun(self, path: PathMemory, x: np.ndarray, balance: np.ndarray, unit: float) -> PathMemory:
        """The path from x on; the first width is what kinks are worth there, where they are worth anything."""
        path = replace(path, begin=x, at=np.stack([x, x]), balance=balance)
        worth = self._weigh(path)
        first = worth if worth > 0 else unit
        return self._narrowed(replace(path, first=first), first, balance)

    def _weigh(self, path: PathMemory) -> float:
        """Note how much of each kink the Lagrangian has; what all are worth."""
        parts, worth, _ = self._weighed(path.begin, path.balance, np.ones(self.kinks))
        self.parts = np.where(parts > ROUNDED * np.max(parts, initial=0.0), parts, np.max(parts, initial=0.0) or 1.0)
        return float(np.sum(worth))

    def _weighed(self, x: Any, lam: Any, widths: np.ndarray) -> list[np.ndarray]:
        point, lam, widths = self._point(x), np.asarray(lam, self.dtype), widths.astype(self.dtype)
        return [np.asarray(v, float) for v in weighed(self.problem, point, lam, self.rows, widths)]

    def _point(self, x: Any) -> Tree:
        return shaped_like(self.like, np.asarray(x, self.dtype))

    def _within(self, x: np.ndarray) -> Tree:
        """The nearest point of the domain."""
        if isinstance(self.problem.domain, Box | LinfBall):
            return self._point(np.clip(x, self.conic.lower, self.conic.upper))
        return as_numpy(into_domain(self.problem, self._point(x)))

    def _smooth(self, width: Any, shift: float = 0.0) -> Smoothed:
        widths = (float(width) / self.parts).astype(self.dtype)
        return replace(smoothed(self.problem, widths), shift=np.asarray(shift, self.dtype))

    # ---- looks at smooth functions -----------------------------------------------------------------------------------

    def inside(self, memory: Any) -> Any:
        """The memory after a look at smooth functions."""
        now = self.led(replace(memory, path=self._inside(memory.path)))
        return jax.tree.map(lambda new, old: np.asarray(new, old.dtype), now, memory)

    def led(self, memory: Any) -> Any:
        """The memory with the point where the next look is taken."""
        path = memory.path
        if path.phase == AT:
            return replace(memory, ahead=self._point(path.at[0]))
        return replace(memory, ahead=self._point(path.line[path.left - 1])) if path.phase == ALONG else memory

    def _inside(self, path: PathMemory) -> PathMemory:
        try:
            inner = SmoothSurvey(self._smooth(path.width), path.inner, self.rows, self.conic).after(1.0)
        except NotFiniteLook:
            return self._back(path)
        looks = int(path.looks) + 1
        near, gap = _NEAR * float(path.share) * float(path.width), float(inner.upper) - float(inner.lower)
        left = gap if path.proving else -float(inner.drop)
        if inner.share and not inner.failures and left <= near:
            return replace(path, inner=inner, looks=looks, phase=AT, at=np.stack([as_vector(inner.ahead), path.at[0]]))
        if looks >= ROUNDS or np.any(inner.conflict):
            return self._back(path)
        return replace(path, inner=inner, looks=looks)

    def _back(self, path: PathMemory) -> PathMemory:
        """Where a solution was not found: a width that is nearer to the one before; none where that is near already."""
        solved = float(path.solved[0])
        width = np.sqrt(solved * float(path.width))
        if width == 0 or width > solved * np.sqrt(_NARROWER) ** 0.25:
            return replace(path, phase=CLOSED)
        return self._narrowed(path, width, np.asarray(path.inner.push))

    def _narrowed(self, path: PathMemory, width: float, lam: np.ndarray) -> PathMemory:
        """On to a width, from where the last two solutions lead."""
        (last, before), x = path.solved, path.at[0]
        if 0 < last < before:
            x = x + (path.at[0] - path.at[1]) * (last - width) / (before - last)
        inner = SQP(pairs=0).start(self._within(x), np.asarray(lam, path.at.dtype))
        return replace(
            path,
            phase=INSIDE if width > ROUNDED * float(path.first) else CLOSED,
            width=width,
            looks=0,
            inner=inner,
            proving=False,
        )

    # ---- looks at the functions themselves ---------------------------------------------------------------------------

    def at(self, path: PathMemory, values: np.ndarray, scale: float) -> PathMemory:
        """After a look at the functions where smooth ones have their solution: on to the line, or to a smaller width.

        Args:
            path: the memory.
            values: F and H there.
            scale: of F.
        """
        worth = self._worth(path.inner, values)
        solved, share = np.stack([path.width, path.solved[0]]), np.asarray(max(worth, 0.0) / float(path.width))
        path = replace(path, solved=solved, share=np.minimum(share, 1.0))
        if worth > SOLVED * scale:
            return self._on(path, SOLVED * scale / (2 * worth))
        if not path.proving:  # where the domain is wide, a small slope that is left costs much
            return replace(path, phase=INSIDE, proving=np.ones((), bool))
        line = self._line(path)
        if line is None:
            return self._on(path, _NARROWER)
        points, bend = line
        places = np.zeros_like(path.line)
        places[: len(points)] = points
        return replace(path, phase=ALONG, line=places, left=len(points), bend=bend)

    def _worth(self, inner: SQPMemory, values: np.ndarray) -> float:
        """By how much the Lagrangian of smooth functions is above."""
        k = int(np.flatnonzero(inner.kept.number == inner.centre)[0])
        above = np.append(inner.kept.f[k], inner.kept.h[k]) - values
        return float(above[0] + np.asarray(inner.push, float) @ above[1:])

    def _on(self, path: PathMemory, share: float) -> PathMemory:
        return self._narrowed(path, float(path.width) * max(share, _NARROWER), np.asarray(path.inner.push))

    def along(self, path: PathMemory, closer: bool) -> PathMemory:
        """After a look along the line, or beside it: there as long as that brings bounds closer, then to a smaller width."""
        left = max(int(path.left) - 1, 0)
        if left:
            return replace(path, left=left)
        return replace(path, phase=BESIDE, left=left) if closer else self._on(path, _NARROWER)

    def _line(self, path: PathMemory) -> tuple[np.ndarray, np.ndarray] | None:
        """Points between which rows near their kinks move across these, one after the other, and the Hessian of all others;
        None where none are known."""
        here, apart = replace(path.inner, ahead=self._point(path.at[0])), float(np.cbrt(np.finfo(self.dtype).eps))
        with one_thread():
            up, down = (
                SmoothSurvey(self._smooth(path.width, by), here, self.rows, self.conic)
                for by in (apart / 2, -apart / 2)
            )
            way = up.way(down, apart)
            up.problem = self._smooth(ROUNDED * float(path.width))
            bend = up.hessian_here(np.asarray(path.inner.push))
        if way is None:
            return None
        *_, rows_at = self._weighed(path.at[0], path.inner.push, float(path.width) / self.parts)
        return np.asarray(path.at[0], float) + between_rows(rows_at, len(path.line) // 2)[:, None] * way, bend
