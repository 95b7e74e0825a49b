"""A look of sequential quadratic programming at all rows: what it proves, and the step that follows from it."""

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from tightrope.precision import platform
from tightrope.problem.full_data import Some, see
from tightrope.problem.hessian import lagrangian_hessian
from tightrope.problem.rounding import count
from tightrope.sampling.rows import data_of
from tightrope.sets import L2Ball
from tightrope.solvers.bounds import Bounds
from tightrope.solvers.cuts import Combination, Looks, Model, best_combination
from tightrope.solvers.programmes import NONE, Region, one_thread, region_of
from tightrope.solvers.quadratic import (
    MOST,
    Ball,
    Inconsistent,
    Step,
    best_step,
    is_flat,
    mixed,
    onto,
    updated,
)
from tightrope.solvers.survey import Memory, Survey, all_finite, units_of
from tightrope.tree import as_vector, pytree, replace, shaped_like

# By hand, where nothing else is said.
_ENOUGH = 1e-4  # of the fall that the slope of the exact penalty promises: Armijo's
_DEARER = 1.1  # times the multipliers: the price of violations in the penalty
_FAR_LESS = 0.1  # of a share at whose end something overflows; by hand
_SHARES = 3  # shares of one move that are tried, at most
_OFF = 8.0  # times as much or as little curvature as was thought: time for a Hessian
_QUICK = 0.001  # what a step leaves of the slope where curvature is as good as exact
A_PRODUCT = 8  # Hessian-vector products, taken together, that cost as much as a gradient: they are matrix products
_SAMPLES = 30  # rows for each coordinate, from which a Hessian is off by a fifth
_ROUGHLY = 10  # the same, for a first run that need not come close
_AS_GOOD_AS_ALL = 4096  # the same, from which a Hessian is off by no more than a step changes it
PLENTY = 4  # rows for each coordinate, from which a Hessian needs no help where it bends least
_ENOUGH_ROWS = 8192  # fewer are not worth a first run on some of them
_PART = 8  # of the rows, in the first run on some of them
_FIRST_STEPS = 8  # at most, of that run
_INWARDS = 1e-3  # of the way from where it ends back to a start that is strictly feasible


@pytree
class SQPMemory(Memory):
    """What sequential quadratic programming remembers beside the looks that are kept."""

    widths: Any  # (d,) of the domain
    bend: Any  # (d, d) the curvature of the Lagrangian, in widths; of limited memory, what it is made of
    centre: Any  # the number of the look from which steps are made
    push: Any  # (N,) the multipliers of the programme there
    price: Any  # (N,) of violations in the exact penalty
    move: Any  # (d,) from the centre to the programme's solution, in widths
    share: Any  # of it that is tried; 0 where the look is taken elsewhere
    drop: Any  # by how much the exact penalty falls for a small share, over that share
    failures: Any  # shares tried in a row that were refused
    bent: Any  # the look at which the last Hessian was taken


class Place(NamedTuple):
    """A point and what was seen there, in widths of the domain: slopes are those in y, x = widths y."""

    x: np.ndarray
    f: float
    h: np.ndarray
    grad: np.ndarray
    rows: np.ndarray

    def slope(self, lam: np.ndarray) -> np.ndarray:
        """The gradient of the Lagrangian."""
        return self.grad + lam @ self.rows

    def penalty(self, price: np.ndarray) -> float:
        """The exact penalty: F + <price, H_+>."""
        return self.f + float(price @ np.maximum(self.h, 0))

    def rise(self, price: np.ndarray, move: np.ndarray) -> float:
        """How steeply it rises along a move."""
        return float((self.grad + (price * (self.h > 0)) @ self.rows) @ move)


class Goal(NamedTuple):
    """Where a run on some of the rows ends."""

    x: np.ndarray
    lam: np.ndarray
    fallen: float  # by how much the exact penalty has fallen on the way


class SQPSurvey(Survey):
    """A look at the point `memory.ahead`, and the step after it."""

    goal: Goal | None = None  # where a first run has ended
    begun: Place  # and begun, as some of its rows see it

    def _widths(self) -> np.ndarray:
        return super()._widths() if self.t == 1 else np.asarray(self.before.widths, float)

    def _pass(self, x: Any, slices: int) -> Any:
        """Over so many slices of the rows."""
        return see(self.problem, x, self.data, Some(np.int32(slices), np.int32(0)), rows_a_slice=self.size)

    @cached_property
    def radius(self) -> float | None:
        """Of a ball; None for other domains."""
        domain = self.problem.domain
        return float(domain.radius) if isinstance(domain, L2Ball) else None

    @cached_property
    def size(self) -> int:
        """Rows in a slice of a pass."""
        data = data_of(self.data)
        return min(data.least, data.a_slice(slopes=True))

    @cached_property
    def slices(self) -> int:
        """How many there are."""
        return -(-count(self.data) // self.size)

    @cached_property
    def block(self) -> int:
        """Rows in a slice of a Hessian: few enough for its products to be held at once, and enough to keep a device busy."""
        numbers = self.before.bend.shape[0] * (1 + self.before.lam.size)
        held, most = (1 << 22, 1024) if platform() == "cpu" else (1 << 26, 1 << 17)
        return min(data_of(self.data).least, max(64, min(most, held // numbers)))

    def after(self, trust: float) -> Any:
        """The memory with everything that follows from the look."""
        self.trust = min(trust, 1.0)
        memory = replace(self.before, seen=self.values, units=self.steepest, widths=self.widths)
        with one_thread():
            here = self._place(-1)
            memory = self._with_output(memory, self._best_output())
            memory = self._after_the_first(memory, here) if self.t == 1 else self._after(memory, here)
            self.kept.used[self.places[self._index(memory.centre)]] = self.t + 1
            return self._stored(memory)

    # ---- the first look ----------------------------------------------------------------------------------------------

    def _see(self, x: Any) -> list[np.ndarray]:
        ahead = self._after_a_first_run(x) if self.t == 1 and not np.any(self.before.push) else None
        if ahead is not None:
            seen = self._look(ahead)
            if all_finite(seen):
                return seen
            self.goal = None
        return self._look(x)

    def _look(self, x: Any) -> list[np.ndarray]:
        return self._with_rounding(self._pass(x, self.slices), x)

    def _after_a_first_run(self, x: Any) -> Any:
        """Where a run on some of the rows ends, and the first look had better be taken; None where rows are few. If these
        rows say that x is strictly feasible, a little nearer to it: other looks can then be pulled towards this one."""
        with one_thread():
            start = as_vector(x) / self.widths
            self.goal = self._on_some_rows(count(self.data), Goal(start, np.zeros(0), 0.0))
        if self.goal is None:
            return None
        inwards = _INWARDS if np.all(self.begun.h < 0) else 0.0
        return self._point((self.goal.x + inwards * (start - self.goal.x)) * self.widths)

    def _start(self) -> float:
        return super()._start() if self.goal is None else self.begun.f

    def _after_the_first(self, memory: Any, here: Place) -> Any:
        """Curvature where the first look was taken, and a step."""
        lam = np.asarray(memory.push, float)
        if not np.any(lam):
            lam = self.balanced if self.goal is None else self.goal.lam
        bend = self._hessian(here.x, lam, here, self.rows_for_hessian)
        return self._from(replace(memory, bend=bend, centre=self.t, bent=self.t), here)

    def _on_some_rows(self, rows: int, begin: Goal) -> Goal | None:
        """Where the same method ends on a part of so many rows, as near as that part can tell; None where they are few.
        It starts where it ends on a part of that part."""
        d = len(self.widths)
        slices = -(-max(rows // _PART, _SAMPLES * d) // self.size)
        if rows < _ENOUGH_ROWS or 2 * slices * self.size > rows:
            return None
        rows = slices * self.size
        x, lam, fallen = self._on_some_rows(rows, begin) or begin
        few = min(rows, max(_ROUGHLY * d, self.block, A_PRODUCT * rows // d // 4))
        often = few * d <= A_PRODUCT * rows  # Hessians cost no more than the gradients
        # A step leaves d/few of a fall by what its Hessian lacks, and the square of it by what bends on the way. These rows
        # tell a fall to d/rows; the last step is taken without a look.
        near = min(few / rows, np.sqrt(d / rows))
        c = self._partly(x, slices)
        if not len(lam):  # nothing is known yet
            self.begun, steepest = c, np.linalg.norm(np.vstack([c.grad, c.rows]), axis=1)
            self.units = units_of(np.append(c.f, c.h), steepest)
            lam = self.balanced
        bend = self._hessian(c.x, lam, c, few)
        price, share = np.zeros_like(lam), 1.0
        for turn in range(_FIRST_STEPS):
            step = self._programme(c, bend, self.before)
            if step is None:
                return None if turn == 0 else Goal(c.x, lam, fallen)
            y, lam = step
            price = _dearer(price, lam)
            drop = float(c.grad @ y - price @ np.maximum(c.h, 0))
            if -drop <= near * fallen:
                return Goal(c.x + y, lam, fallen)
            share = 1.0
            for _ in range(_SHARES):
                z = self._partly(c.x + share * y, slices)
                gain = c.penalty(price) - z.penalty(price)
                if not often:
                    bend = updated(bend, z.x - c.x, z.slope(lam) - c.slope(lam))
                if gain >= -_ENOUGH * share * drop:
                    break
                share = _less(share, drop, gain, z.rise(price, y)) if np.isfinite(gain) else _FAR_LESS * share
            else:
                return Goal(c.x, lam, fallen)
            fallen, c = fallen + gain, z
            if often:
                bend = self._hessian(c.x, lam, c, few)
        return Goal(c.x, lam, fallen)

    def _partly(self, x: np.ndarray, slices: int) -> Place:
        seen = self._taken_apart(self._pass(self._point(x * self.widths), slices))
        x, f, h, grad, rows = (np.asarray(v, float) for v in seen)
        return Place(x / self.widths, float(f), h, grad * self.widths, rows * self.widths)

    # ---- later looks -------------------------------------------------------------------------------------------------

    def _after(self, memory: Any, here: Place) -> Any:
        """Take the step if it was good, and go on from where it led; otherwise try less of it."""
        centre, lam, price = (
            self._place(self._index(memory.centre)),
            np.asarray(memory.push, float),
            np.asarray(memory.price, float),
        )
        bend, move = self._curvature(memory), here.x - centre.x
        change = here.slope(lam) - centre.slope(lam)
        thought, found = float(move @ (bend @ move)), float(move @ change)
        known = self.t == int(memory.bent)  # the curvature is that of this very point
        bend = bend if known else self._corrected(bend, move, change)
        lower = float(memory.lower)
        memory, step = replace(memory, bend=bend), None
        if lam.size:  # without constraints there are no multipliers to ask for, and no step from here may be wanted
            step = self._programme(here, bend, memory)
            if step is None:
                return self._level(memory, here)
        here_lam = lam if step is None else step.lam
        memory = self._with_lower(memory, here_lam)
        slack = self.looks.f_error[-1] + price @ self.looks.h_error[-1]
        gain = centre.penalty(price) - here.penalty(price)
        promised = -_ENOUGH * float(memory.share) * float(memory.drop)
        left, was = here.penalty(price) - float(memory.lower), centre.penalty(price) - lower
        if gain >= promised - slack or 2 * left <= was:  # or half of what was left to the lower bound is gone
            memory = replace(memory, centre=self.t, failures=0)
            if not known and self._stale(thought, found, centre.slope(lam), here.slope(here_lam), int(memory.bent)):
                bend = self._hessian(here.x, here_lam, here, self.rows_for_hessian)
                memory, step = replace(memory, bend=bend, bent=self.t), None
            return self._from(memory, here, step)
        if not memory.share:  # no step was tried: what it taught is in the curvature
            return self._from(memory, centre)
        failures = int(memory.failures) + 1
        if failures >= 2 * _SHARES:
            return self._level(replace(memory, failures=_SHARES), here)
        if failures == _SHARES:
            if int(memory.bent) != int(memory.centre):  # else curvature there is known, and says less than what was met
                memory = replace(memory, bend=self._hessian(centre.x, lam, centre, self.rows_for_hessian), bent=self.t)
            return self._from(replace(memory, failures=failures), centre)
        rise = here.rise(price, np.asarray(memory.move, float))
        share = _less(float(memory.share), float(memory.drop), gain, rise)
        return self._try(replace(memory, failures=failures), centre, share)

    def _stale(self, thought: float, found: float, was: np.ndarray, now: np.ndarray, bent: int) -> bool:
        """Whether it is time for another Hessian: at every look where one of all rows costs no more than a pass, unless
        steps gain three digits without it; else where curvature was much more or less than was thought, and seldom."""
        if self.rows_for_hessian >= min(count(self.data), _AS_GOOD_AS_ALL * len(self.widths)):
            return float(np.linalg.norm(now)) > _QUICK * float(np.linalg.norm(was))
        return not (thought <= _OFF * found and found <= _OFF * thought) and self.t >= 2 * bent

    def _from(self, memory: Any, c: Place, step: Step | None = None) -> Any:
        """The whole step of the programme at a place, to be tried next."""
        step = self._programme(c, self._curvature(memory), memory) if step is None else step
        if step is None:
            return self._level(memory, c)
        if self.t == 1:
            memory = self._with_lower(memory, step.lam)
        price = _dearer(np.asarray(memory.price, float), step.lam)
        drop = min(float(c.grad @ step.y - price @ np.maximum(c.h, 0)), 0.0)
        memory = replace(memory, push=step.lam, price=price, move=step.y, drop=drop)
        if not (self.roomy or (memory.feasible and np.any(memory.tight))) and self.t % 2 == 0:
            return self._level(memory, c)
        return self._try(memory, c, self.trust)

    def _try(self, memory: Any, c: Place, share: float) -> Any:
        y = c.x + share * np.asarray(memory.move, float)
        return replace(memory, share=share, ahead=self._point(y * self.widths))

    def _level(self, memory: Any, c: Place) -> Any:
        """Without a step: where the cuts of the looks that are kept lead, as in the bundle method. Until a look was taken
        that is strictly feasible, towards which others can be pulled, that is one with slack, near where the step would
        have led."""
        model = self.model = Model(self.looks, self.units, region_of(self.conic, self.looks.x[-1]), self._support)
        if self.roomy:
            bound = model.lower_bound()
            if bound is not None:
                memory = self._with_bound(memory, bound)
            aim = (float(memory.lower) + float(memory.upper)) / 2
            x = model.level_point(aim, as_vector(memory.x), 0.5)
        else:
            worst = float(np.max(self.looks.h / self.units.h, axis=1).min())
            found = model.infeasibility()
            memory = self._with_conflict(memory, found, worst)
            memory = replace(self._with_tight(memory, found), distance=worst)
            x = model.level_point(None, (c.x + np.asarray(memory.move, float)) * self.widths, 0.5)
        ahead = memory.x if x is None else self._point(x)
        return replace(memory, ahead=ahead, share=0.0, centre=memory.centre or self.t)

    # ---- what is proven ----------------------------------------------------------------------------------------------

    def _best_output(self) -> Combination:
        """The point looked at, pulled by convexity towards the one that is deepest inside where it violates something;
        as long as that makes no feasible point, the best combination of all looks that are kept."""
        looks, margin = self.looks, self.margins
        values = (looks.h + margin) / self.units.h
        held = np.asarray(self.before.tight) & (values <= 0)  # as well as can be
        depths = np.max(np.where(held, -np.inf, values), axis=1, initial=-np.inf)
        inside = int(np.argmin(depths))
        self.roomy = bool(np.all((values[inside] * self.gentler < -NONE) | held[inside]))
        self.kept.used[self.places[inside]] = self.t + 1  # it is needed as long as there is none better
        over, room = np.maximum(values[-1], 0), np.maximum(-values[inside], 0)
        pulled = float(np.max(np.divide(over, over + room, out=np.zeros_like(over), where=over > 0), initial=0.0))
        for more in (0.0, *np.finfo(float).eps * 4.0 ** np.arange(8)):  # what rounding leaves of a violation
            weights = np.zeros(len(looks.f))
            weights[-1] += 1 - min(pulled + more, 1.0)
            weights[inside] += min(pulled + more, 1.0)
            h = weights @ values
            worst = float(np.max(h, initial=-np.inf))
            if worst <= 0:
                return Combination(weights, float(weights @ looks.f), h, worst)
        return best_combination(looks, self.units, margin)

    def _with_lower(self, memory: Any, lam: np.ndarray) -> Any:
        """The bound that these multipliers give at the last look, where it is better."""
        last, none = Looks(*(v[-1:] for v in self.looks)), np.zeros(0)
        bare = Region(last.x[0], self.widths, np.zeros((0, len(self.widths))), none[:, None][:, :0], none, ())
        return self._with_bound(memory, Model(last, self.units, bare, self._support).bound(np.ones(1), lam[None]))

    # ---- programmes and curvature ------------------------------------------------------------------------------------

    def _curvature(self, memory: Any) -> Any:
        """Of the Lagrangian, as far as it is known: a matrix, or what stands for one."""
        return np.asarray(memory.bend, float)

    def _corrected(self, bend: Any, move: np.ndarray, change: np.ndarray) -> Any:
        """With what a move has met."""
        return updated(bend, move, change)

    def _programme(self, c: Place, bend: Any, memory: Any) -> Step | None:
        """The quadratic programme at a place; multipliers in the units of the problem."""
        f, h, tight = self.units.f, self.units.h, np.asarray(memory.tight)
        J, sides = c.rows / h[:, None], c.h / h
        try:
            step = best_step(c.grad / f, bend / f, J, sides, self._within(c.x))
        except Inconsistent:
            return None
        if step is None or not (np.all(np.isfinite(step.y)) and np.all(np.isfinite(step.lam))):
            return None
        region = region_of(self.conic, c.x * self.widths) if np.any(tight) else None
        y = step.y if region is None else onto(step.y, J[tight], sides[tight], region)
        return Step(y, step.lam * f / h)

    def _within(self, x: np.ndarray) -> Ball | Bounds | Region:
        """The domain around a point, as the programme has it."""
        if self.radius is not None and len(self.units.h) <= MOST:
            return Ball(x, self.radius / self.widths[0])
        if self.boxed and len(x) > MOST:
            low, high = (side / self.widths - x for side in (self.conic.lower, self.conic.upper))
            return Bounds(low, high, lambda: region_of(self.conic, x * self.widths))
        return region_of(self.conic, x * self.widths)

    @property
    def rows_for_hessian(self) -> int:
        """Of a Hessian: all where that costs two passes at most; else 30 for each coordinate, but as many as a pass
        allows, and no more than eight passes do. More than 4,096 for each coordinate say nothing new."""
        n, d = count(self.data), len(self.widths)
        a_pass = A_PRODUCT * n // d
        most = _AS_GOOD_AS_ALL * d
        if 2 * a_pass >= n:
            return min(n, most)
        return min(n, most, max(_SAMPLES * d, a_pass), max(8 * a_pass, 1))

    def _hessian(self, x: np.ndarray, lam: np.ndarray, c: Place, rows: int) -> Any:
        """The Hessian of the Lagrangian on so many rows, in widths; of few rows, mixed with a multiple of the identity."""
        every = -(-count(self.data) // self.block)
        slices = min(every, -(-rows // self.block))
        B = self._bends(x, lam, slices)
        if is_flat(B, np.ones(len(B)), self.units.f):  # a linear objective, until a constraint that bends is met
            B = self._bends(x, self.balanced, slices)
        if not np.all(np.isfinite(B)):
            return np.eye(len(B)) * self.units.f
        if slices == every or slices * self.block >= PLENTY * len(B):
            return B
        return mixed(B, slices * self.block, float(np.median(np.maximum(np.diag(B), 0))))

    def _bends(self, x: np.ndarray, lam: np.ndarray, slices: int) -> np.ndarray:
        point, some = self._point(x * self.widths), Some(np.int32(slices), np.int32(0))
        lam = np.asarray(lam, self.dtype)
        found = lagrangian_hessian(self.problem, point, lam, self.data, some, rows_a_slice=self.block)
        B = np.asarray(found, float) * self.widths[:, None] * self.widths
        return (B + B.T) / 2

    @property
    def balanced(self) -> np.ndarray:
        """The multipliers that make the constraints weigh as much as the objective, for want of better ones."""
        return self.units.f / self.units.h / max(len(self.units.h), 1)

    # ---- places ------------------------------------------------------------------------------------------------------

    def _point(self, x: np.ndarray) -> Any:
        """A vector as a point of the domain; what is inside a ball needs no projection."""
        if self.radius is not None and np.linalg.norm(x) <= self.radius * (1 - 1e-6):
            return shaped_like(self.before.x, x.astype(self.dtype))
        return super()._point(x)

    def _support(self, g: np.ndarray) -> float:
        """The domain's support function; that of a ball is known without asking JAX."""
        return super()._support(g) if self.radius is None else self.radius * float(np.linalg.norm(g))

    def _place(self, k: int) -> Place:
        looks, w = self.looks, self.widths
        return Place(looks.x[k] / w, float(looks.f[k]), looks.h[k], looks.grad[k] * w, looks.rows[k] * w)

    def _index(self, number: Any) -> int:
        """Where a look of that number is among those kept."""
        return int(np.flatnonzero(self.kept.number[self.places] == int(number))[0])


def _dearer(price: np.ndarray, lam: np.ndarray) -> np.ndarray:
    """The next price of violations: above the multipliers, and falling towards them by halves."""
    return np.maximum(_DEARER * lam, (price + _DEARER * lam) / 2)


def _less(share: float, drop: float, gain: float, rise: float) -> float:
    """The share of a move to try after one that gained too little: the least of the parabola through both, within bounds, or
    where both tangents meet, if that is less, as where slopes change all at once."""
    less = share * float(np.clip(-share * drop / max(2 * (-gain - share * drop), 1e-300), 0.1, 0.5))
    meet = (gain + rise * share) / (rise - drop) if rise > drop and np.isfinite(rise) else less
    return min(less, max(meet, _FAR_LESS**3 * share))
