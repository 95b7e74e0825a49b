"""A survey: one look at all rows, on the host. What was seen, what that and the looks before prove, and what is kept.

A `Memory` is made of NumPy arrays in the precision of the run, so that a run which was saved and resumed takes the
same looks, bit for bit. What a solver remembers beside it stands in its own file.
"""

import math
from functools import cached_property
from typing import Any, NamedTuple

import jax
import numpy as np

from tightrope._jaxlib import compiled
from tightrope.precision import digits
from tightrope.problem import Problem
from tightrope.problem.full_data import see
from tightrope.problem.rounding import MANY, UNITS, counted_on_few
from tightrope.sets import Box, ConvexSet, LinfBall
from tightrope.sets.conic import Conic
from tightrope.solvers.base import Look, NotFiniteLook
from tightrope.solvers.cuts import Bound, Combination, Looks, Units
from tightrope.solvers.programmes import NONE
from tightrope.tree import Array, Tree, as_numpy, as_vector, eps_of, pytree, replace, shaped_like, size_of, taken_apart

# By hand, where nothing else is said.
_BACK = (
    0.5,
    0.25,
    0.1,
    0.03,
    0.01,
    1e-3,
    1e-4,
    1e-6,
    0.0,
)  # shares of a step that are tried where it overflows; a guess
_WILD = 1e6  # times what slopes promise: a value beyond it is stepped back from; a guess
MARGIN = 4  # roundings of H below zero at which outputs are aimed: as many units of eps as the pull takes
_CLOSE = 1.1  # a violation this many times the least that is proven is as small as it need be


class Kept(NamedTuple):
    """What is kept of looks; arrays with a place for each. Errors are bounds on what was lost to rounding."""

    x: np.ndarray  # (places, d)
    f: np.ndarray  # (places,)
    h: np.ndarray  # (places, N)
    grad: np.ndarray  # (places, d)
    rows: np.ndarray  # (places, N, d)
    f_error: np.ndarray  # (places,) of the values ...
    h_error: np.ndarray  # (places, N)
    f_tilt: np.ndarray  # (places,) ... and of slopes, over the widths of the domain
    h_tilt: np.ndarray  # (places, N)
    number: np.ndarray  # (places,) of the look, from 1; 0 where there is none
    used: np.ndarray  # (places,) the last look at which it was of use


def shapes_of_a_look(d: int, N: int) -> list[tuple[int, ...]]:
    """The shapes of what is seen at a look, as `Kept` has it."""
    return [(d,), (), (N,), (d,), (N, d), (), (N,), (), (N,)]


@pytree
class Memory:
    """What the next look needs; arrays in NumPy, of shapes and dtypes that stay."""

    x: Any  # the output: feasible if `feasible`, else of least violation
    lam: Any  # the multipliers of the best bound
    t: Any  # the number of the next look, from 1
    ahead: Any  # where it is taken
    seen: Any  # (1 + N,) F and H where the last one was taken
    kept: Kept
    units: Any  # (1 + N,) of F and H: what the steepest slope seen does over the widths of the domain
    start: Any  # F at the first look
    feasible: Any  # whether a feasible point is known
    upper: Any  # F at the output is at most this ...
    upper_error: Any  # ... but for rounding
    margin: (
        Any  # (N,) how far below zero the output was aimed, because H is rounded too; above zero where it is negative
    )
    lower: Any  # F* is at least this ...
    lower_error: Any  # ... but for rounding
    distance: Any  # from the goal, in units: the gap; without a feasible point, the worst violation
    conflict: Any  # (N,) by how much every point violates one of these constraints; 0 where nothing is proven
    settled: Any  # whether a conflict is as well known as it need be
    tight: Any  # (N,) the constraints that are proven to leave no room together


def no_looks(x: Tree, lam: np.ndarray, places: int) -> dict[str, Any]:
    """The fields of a memory before the first look; with room for so many."""
    x, lam = as_numpy(x), np.asarray(lam)
    d, N, dtype = size_of(x), lam.size, lam.dtype
    zero, most, no = np.zeros((), dtype), np.asarray(np.finfo(dtype).max, dtype), np.zeros((), bool)
    values, each = np.zeros(1 + N, dtype), np.zeros(N, dtype)
    seen = (np.zeros((places, *shape), dtype) for shape in shapes_of_a_look(d, N))
    kept = Kept(*seen, *np.zeros((2, places), np.int32))
    return {
        "x": x, "lam": lam, "t": np.ones((), np.int32), "ahead": x, "seen": values, "kept": kept, "units": values,
        "start": zero, "feasible": no, "upper": most, "upper_error": zero, "margin": each, "lower": -most,
        "lower_error": zero, "distance": most, "conflict": each, "settled": no, "tight": each > 0,
    }  # fmt: skip


def look_of(memory: Memory, note: str | None = None) -> Look:
    """What a memory knows of its output."""
    conflict, upper, lower = np.asarray(memory.conflict, float), float(memory.upper), float(memory.lower)
    margin = float(np.asarray(memory.lam, float) @ np.asarray(memory.margin, float))  # what it costs, for small ones
    feasible = bool(memory.feasible)
    return Look(
        x=memory.x,
        lam=memory.lam,
        seen=memory.seen,
        memory=memory,
        upper=upper - max(margin, 0.0) if feasible else np.inf,
        lower=lower if lower > -np.finfo(memory.lower.dtype).max else -np.inf,
        rounding=float(memory.upper_error) + float(memory.lower_error) + abs(margin),
        scale=abs(float(memory.start) - upper) if feasible else np.nan,
        conflict={int(i): float(conflict[i]) for i in np.flatnonzero(conflict)},
        settled=bool(memory.settled),
        interior=not np.any(memory.tight),
        over=np.maximum(-np.asarray(memory.margin, float), 0.0),
        points=_points(memory.kept),
        note=note,
    )


def _points(kept: Kept) -> tuple[np.ndarray, ...]:
    """Where was looked, the points that were of use last first, and of these the latest."""
    order = np.lexsort((-kept.number, -kept.used))
    return tuple(kept.x[k].astype(float) for k in order if kept.number[k])


class Survey:
    """A look at the point `memory.ahead`.

    Args:
        problem: the problem.
        memory: what is known so far.
        data: all rows.
        conic: the domain as programmes have it, the same at every look.

    Raises:
        NotFiniteLook: where what is seen is not finite.
    """

    def __init__(self, problem: Problem, memory: Any, data: Tree, conic: Conic):
        self.problem, self.data, self.before, self.conic = problem, data, memory, conic
        self.boxed = isinstance(problem.domain, Box | LinfBall)  # then much is known without asking JAX
        self.t, self.dtype = int(memory.t), memory.lam.dtype
        self.widths = self._widths()
        seen = self._seen_stepping_back(memory.ahead)
        self.kept, self.places = _with(memory.kept, (*seen, self.t, self.t))
        self.looks = Looks(*(np.asarray(v[self.places], float) for v in self.kept[: len(Looks._fields)]))
        self.values = np.append(self.looks.f[-1], self.looks.h[-1])
        slopes = np.concatenate([self.looks.grad[-1:], self.looks.rows[-1]]) * self.widths
        self.steepest = np.maximum(np.asarray(memory.units, float), np.linalg.norm(slopes, axis=1))
        self.units = units_of(self.values, self.steepest)

    def _widths(self) -> np.ndarray:
        """Of the domain; one for coordinates that are fixed."""
        return np.where(self.conic.upper > self.conic.lower, self.conic.upper - self.conic.lower, 1.0)

    def _seen_stepping_back(self, x: Tree) -> list[np.ndarray]:
        """What a pass over all rows finds at a point or, as long as something overflows there, on the way back from it: to
        the output so far or, from a start, to the point of the domain nearest to zero."""
        seen = first = self._see(x)
        back = None
        for share in _BACK if self.t > 1 else (0.0,):  # a start that overflows is nothing to go by
            if self._is_sound(seen):
                return seen
            back = self._behind() if back is None else back
            there = np.nan_to_num(as_vector(x), posinf=0.0, neginf=0.0)
            seen = self._see(self._point(back + share * (there - back)))
        if not all_finite(seen):
            raise NotFiniteLook(np.append(first[1], first[2]))
        return seen

    def _is_sound(self, seen: list[np.ndarray]) -> bool:
        """Whether values are finite, and not so large beside what slopes promise of the whole domain that something like an
        exponential must be on its way to overflow: cuts of such values say nothing."""
        if not all_finite(seen):
            return False
        known = np.abs(np.asarray(self.before.seen)) + np.asarray(self.before.units)
        return self.t == 1 or bool(
            np.all(np.abs(np.append(seen[1], seen[2])) <= _WILD * np.where(known > 0, known, np.inf))
        )

    def _behind(self) -> np.ndarray:
        """Where a step back leads."""
        if self.t > 1:
            return as_vector(self.before.x)
        zero = shaped_like(self.before.x, np.zeros(len(self.widths), self.dtype))
        return as_vector(into_domain(self.problem, zero) if self.problem.domain.has_projection else self.before.x)

    def _see(self, x: Tree) -> list[np.ndarray]:
        """What a pass over all rows finds at a point."""
        return self._with_rounding(see(self.problem, x, self.data), x)

    def _with_rounding(self, seen: Array, x: Tree) -> list[np.ndarray]:
        """What `see` gives, and bounds on its rounding: one array for each field of `Kept`."""
        counted = None if self.dtype == np.float64 else counted_on_few(self.problem, x, self.data)
        point, f, h, grad, rows = self._taken_apart(seen)
        values, slopes = np.append(f, h), np.vstack([grad, rows])
        if not all_finite([values, slopes]):  # nothing is made of these
            counted, values, slopes = None, np.zeros_like(values), np.zeros_like(slopes)
        if counted is None:
            sizes = MANY * (np.abs(values) + np.abs(slopes) @ np.abs(point))
            sizes[1:] += MANY * np.abs(np.asarray(self.problem.levels))
            over = MANY * np.linalg.norm(slopes * self.widths, axis=1)
        else:
            by_few = jax.device_get(counted)
            sizes = np.maximum(np.append(by_few.f, by_few.h), np.abs(values))
            lost = np.vstack([as_vector(by_few.grad), _flat(by_few.rows, rows.shape)])
            diameter = float(as_numpy(self.problem.domain).diameter)  # computed on the host
            over = np.minimum(lost @ self.widths, np.linalg.norm(lost, axis=1) * diameter)
        unit = UNITS * eps_of(x)
        return [point, f, h, grad, rows, unit * sizes[0], unit * sizes[1:], unit * over[0], unit * over[1:]]

    def _taken_apart(self, seen: Array) -> list[np.ndarray]:
        """The point, values and slopes."""
        return taken_apart(np.asarray(seen), shapes_of_a_look(len(self.widths), self.before.lam.size)[:5])

    # ---- what is proven ----------------------------------------------------------------------------------------------

    @property
    def margins(self) -> np.ndarray:
        """How far below zero H is aimed at, by each look. Constraints that leave no room together, as opposite ones, are
        satisfied by a point that is above zero by no more than rounding: there is nothing else."""
        return np.where(self.before.tight, -1, MARGIN) * self.looks.h_error

    def _with_output(self, memory: Any, output: Combination) -> Any:
        """The new output where it is better: feasible, and lower; until then, of less violation."""
        memory = replace(memory, start=self._start() if self.t == 1 else memory.start)
        feasible = output.worst <= 0
        if memory.feasible and not (feasible and output.f < float(memory.upper)):
            return memory
        x = self._point(output.weights @ self.looks.x)
        if not feasible:
            return replace(memory, x=x)
        error, margin = output.weights @ self.looks.f_error, output.weights @ self.margins
        return replace(
            memory, x=x, feasible=True, upper=self._rounded(output.f, np.inf), upper_error=error, margin=margin
        )

    def _start(self) -> float:
        """F where the run starts."""
        return float(self.looks.f[0])

    def _with_bound(self, memory: Any, bound: Bound | None) -> Any:
        if bound is None or bound.certain <= float(memory.lower) - float(memory.lower_error):
            return memory
        return replace(memory, lower=self._rounded(bound.value, -np.inf), lower_error=bound.rounding, lam=bound.lam)

    def _with_conflict(self, memory: Any, found: Bound | None, worst: float) -> Any:
        """Whether a bound on the worst of H proves that no point is feasible. The point of least violation is looked for
        until the worst one there is close to what is proven, or does not fall any more."""
        if found is None or found.certain <= 0:
            return memory
        stuck = np.any(memory.conflict) and worst > float(memory.distance) / _CLOSE
        return replace(
            memory,
            conflict=np.where(self._involved(found), found.certain * self.units.h, 0.0),
            settled=stuck or worst <= _CLOSE * found.certain,
        )

    def _with_tight(self, memory: Any, found: Bound | None) -> Any:
        """Whether it proves that nothing lies strictly inside the constraints, or only less than any programme can tell."""
        if found is None or np.any(found.certain * self.gentler < -NONE):
            return memory
        return replace(memory, tight=memory.tight | self._involved(found))

    @cached_property
    def gentler(self) -> np.ndarray:
        """How many times the unit of each constraint is that of the look with the least slope: one look that went far out
        must not make room look like none."""
        slopes = np.linalg.norm(self.looks.rows * self.widths, axis=2)
        least = np.min(slopes, axis=0, initial=np.inf, where=slopes > 0)
        return np.maximum(self.units.h / least, 1.0)

    def _involved(self, found: Bound) -> np.ndarray:
        """The constraints that a bound on the worst of H stands on."""
        return found.lam * self.units.h > 1e-3 / len(self.units.h)

    # ---- between the host and the problem ----------------------------------------------------------------------------

    def _point(self, x: np.ndarray) -> Tree:
        """A vector as a point of the domain: what a solver or a sum has left of it by rounding is put back."""
        x = x.astype(self.dtype)
        if self.boxed:
            x = np.clip(x, self.conic.lower.astype(self.dtype), self.conic.upper.astype(self.dtype))
            return shaped_like(self.before.x, x)
        return into_domain(self.problem, shaped_like(self.before.x, x))

    def _rounded(self, value: float, towards: float) -> np.ndarray:
        """A bound in the run's precision, on the safe side."""
        return np.nextafter(np.asarray(value, self.dtype), np.asarray(towards, self.dtype))

    def _support(self, g: np.ndarray) -> float:
        """The domain's support function, in float64 whatever the run's precision is."""
        if self.boxed:
            return float(np.sum(np.maximum(g * self.conic.lower, g * self.conic.upper)))
        with digits():
            return float(reach(self.problem.domain, shaped_like(self.before.x, np.asarray(g, float))))

    def _stored(self, memory: Any) -> Any:
        """The memory after this look, in the dtypes that it had."""
        memory = replace(memory, kept=self.kept, t=self.t + 1)
        return jax.tree.map(lambda new, old: np.asarray(new, old.dtype), memory, self.before)


def _flat(slopes: Tree, shape: tuple[int, int]) -> np.ndarray:
    """A gradient for each constraint, as rows of a matrix."""
    n, d = shape
    leaves = [np.asarray(leaf).reshape(n, math.prod(np.shape(leaf)[1:])) for leaf in jax.tree.leaves(slopes)]
    return np.concatenate(leaves, axis=1).reshape(n, d)


def all_finite(seen: list[np.ndarray]) -> bool:
    """Whether a look has met finite numbers only, whose squares are finite, too: lengths are made of these."""
    flat = np.concatenate([np.ravel(v) for v in seen])
    return bool(np.all(np.abs(flat) < np.sqrt(np.finfo(flat.dtype).max) / flat.size))


def units_of(values: np.ndarray, steepest: np.ndarray) -> Units:
    """Of F and H, by the steepest slopes seen; where there is none yet, any unit will do."""
    units = np.where(steepest > 0, steepest, np.where(values != 0, np.abs(values), 1.0))
    return Units(float(units[0]), units[1:])


def _with(kept: Kept, look: tuple) -> tuple[Kept, np.ndarray]:
    """What is kept with one look more, and the places of all, the latest last. Where there is no room left, it takes the
    place of the one that has been of no use for longest."""
    kept = jax.tree.map(np.array, kept)
    place = int(np.argmin(np.where(kept.number == 0, -1, kept.used)))
    for array, value in zip(kept, look, strict=True):
        array[place] = value
    places = np.flatnonzero(kept.number)
    return kept, places[np.argsort(kept.number[places], kind="stable")]


@compiled(soon=True)
def into_domain(problem: Problem, x: Tree) -> Tree:
    """What solvers and sums have left by rounding is put back."""
    return problem.domain.project(x) if problem.domain.has_projection else x


@compiled(soon=True)
def reach(domain: ConvexSet, g: Tree) -> Array:
    """The domain's support function."""
    return domain.support(g)
