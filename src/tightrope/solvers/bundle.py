"""The bundle method: cuts from full passes, small programmes on the host. What cuts prove is in cuts.py."""

from collections.abc import Iterator
from typing import Any

import jax.numpy as jnp
import numpy as np

from tightrope.methods.base import Facts
from tightrope.problem import Problem
from tightrope.problem.full_data import Some
from tightrope.problem.hessian import lagrangian_hessian
from tightrope.problem.kinks import kinks_in
from tightrope.problem.problem import bends
from tightrope.problem.rounding import count
from tightrope.sampling.rows import one_row
from tightrope.solvers.base import Look, Solver
from tightrope.solvers.cuts import Bound, Combination, Model, best_combination
from tightrope.solvers.path import ALONG, BESIDE, CLOSED, INSIDE, Path, no_path, pays
from tightrope.solvers.programmes import NONE, one_thread, region_of
from tightrope.solvers.quadratic import is_flat, with_secants
from tightrope.solvers.survey import Memory, Survey, look_of, no_looks
from tightrope.tree import Array, Tree, as_vector, pytree, replace, shaped_like, size_of, static

# By hand, where nothing else is said.
_LOWEST = 0.01  # share of the way from the lower bound to the output's value: a level step aims no lower
_LEAST_GAIN = 0.05  # in the logarithm of the distance: less is none


@pytree
class Bundle(Solver):
    """A bundle method on full passes: for few coordinates, with or without curvature.

    A look at all rows at one point x_k gives F_k, H_k and their gradients, hence cuts: linear functions that
    F and H are nowhere below. From all of them, on the host::

        lower bound  F* >= min over x in X of max_k (cut of F), subject to every cut of H being <= 0; by a formula that
                     holds for any multipliers, so that a solver's inaccuracy never makes a false claim
        output       sum_k w_k x_k, the weights of least sum_k w_k F_k with sum_k w_k H_k <= 0: feasible by convexity
        next look    where sequential quadratic programming leads, with curvature from some rows and from differences of
                     gradients; where that lowers the gap by less than level steps do, and where there is no curvature, a
                     level step: of the points at which the cuts promise a value of F between the two bounds, and keep
                     half of the largest slack in H that this allows, the one nearest the output

    No step sizes, no strictly feasible point to begin with, and the same whatever the units of x, f and h_i are. Where
    the cuts of H alone prove that no point satisfies all constraints, the run ends and says so.

    A look costs a pass; looks 1, 2, 4, 8, ... cost one more, for curvature. Programmes on the host grow with the number of
    coordinates, constraints and looks.

    With `path`, where programs show kinks (maxima, minima, absolute values) and rows are so few that passes cost less than
    programmes, looks begin along a path: at functions whose kinks are smooth over less and less, by sequential quadratic
    programming, and then at the functions themselves, along the one line on which rows that are near their kinks move across
    these. What is proven is proven by the functions themselves. On 2,000 rows that took an eightieth of the time; but little
    is known of F* before some forty looks.

    Args:
        level: where a level step aims at most between the lower bound (0) and the value of the output (1); lower where
            the cuts have kept what they promised.
        slack: the share of the largest slack in the constraints that it keeps.
        memory: how many looks are kept; those that have been of no use for longest give way.
        path: whether to begin along smooth functions. "auto" does where the budget allows for it.

    Example:
        >>> import numpy as np, tightrope as tr
        >>> theta = np.random.default_rng(0).normal([-1.0, 0.0, 1.0], 1.0, size=(500, 3))
        >>> problem = tr.Problem(
        ...     lambda x, theta: abs(x - theta).sum(),
        ...     lambda x, theta: x[2:] - x[:1],
        ...     tr.Box(-3.0, 3.0, shape=3),
        ...     levels=1.0,
        ... )
        >>> tr.minimize(problem, theta, method="bundle", tol=1e-3).status.name
        'TOLERANCE'

    References:
        C. Lemarechal, A. Nemirovskii, Yu. Nesterov: New Variants of Bundle Methods, Mathematical Programming 69, 1995.
        M. J. D. Powell: A Fast Algorithm for Nonlinearly Constrained Optimization Calculations, 1978 (damped updates).
    """

    level: Any = 0.5
    slack: Any = 0.5
    memory: int = static(default=128, least=8)
    path: bool = static(default=False)

    name = "bundle"
    tuned = ("level", "slack")
    facts = Facts(output="own", averages=False, positive=("level",), below_one=("level", "slack"), takes_nested=True)
    needs = frozenset({"rows", "lmo", "conic", "values"})

    def fitted(self, problem: Problem, x: Tree, n: int) -> "Bundle":
        """Without a path where looks at smooth functions would cost more than they save."""
        return replace(self, path=self.path and pays(problem, n, size_of(x)))

    def start(self, x: Tree, lam: np.ndarray) -> "BundleMemory":
        """Room for every look that is kept."""
        known = no_looks(x, lam, self.memory)
        d, dtype, number = known["kept"].x.shape[1], lam.dtype, np.zeros((), np.int32)
        return BundleMemory(
            **known, promised=known["seen"], hessian=np.zeros((d, d), dtype), newton=np.zeros((), bool),
            pace=np.zeros((), dtype), pause=number, patience=number + np.int32(1),
            path=no_path(known["x"], lam, self.memory) if self.path else None,
        )  # fmt: skip

    def looks(self, problem: Problem, rows: Tree, memory: "BundleMemory") -> Iterator[Look]:
        """Each where the last one said."""
        conic = problem.domain.conic(memory.x)
        kinks = kinks_in(problem, memory.x, one_row(rows)) if self.path else 0
        path = Path(problem, rows, conic, kinks, memory.path, memory.x) if kinks else None
        while True:
            was = memory.path
            if path is None or was.phase == CLOSED:
                memory = BundleSurvey(problem, memory, rows, conic).after(float(self.level), float(self.slack))
            elif was.phase == INSIDE:
                memory = path.inside(memory)
            else:
                memory = BundleSurvey(problem, memory, rows, conic).on(path)
            waits = path is not None and (was.phase == INSIDE or (was.phase == ALONG and was.left > 1))
            yield look_of(memory)._replace(news=not waits)

    def gradients(self, looks: int, n: int) -> int:
        """A pass for each look, and one more for the curvature at looks 1, 2, 4, 8, ..."""
        return n * (looks + looks.bit_length())


@pytree
class BundleMemory(Memory):
    """What the bundle method remembers beside the looks that are kept."""

    promised: Any  # (1 + N,) F and H where the next look is taken, by the cuts so far
    hessian: Any  # (d, d) of the Lagrangian, on some rows, the last time it was taken
    newton: Any  # whether the next look is where sequential quadratic programming leads
    pace: Any  # by how much level steps have lowered the logarithm of the distance of late
    pause: Any  # for how many level steps sequential programming pauses ...
    patience: Any  # ... and would, if it failed again
    path: Any = None  # over smooth functions, where it is taken


class BundleSurvey(Survey):
    """A look, what follows from it, and where to look next."""

    def after(self, level: float, slack: float) -> Any:
        """The memory with everything that follows from the look."""
        with one_thread():
            memory, distance = self._weighed()
            return self._stored(self._with_next(memory, distance, level, slack))

    def on(self, path: Path) -> Any:
        """The same along a path over smooth functions, on which most looks are made one after the other, and weighed at its
        end."""
        was = self.before.path
        with one_thread():
            closer = False
            if was.first == 0 or was.left == 1 or was.phase == BESIDE:
                memory, distance = self._weighed()
                closer = was.left == 1 or distance <= 0.9 * float(self.before.distance)
                memory = replace(memory, distance=distance)
            else:
                memory = replace(self.before, seen=self.values, units=self.steepest)
                if was.phase != ALONG:
                    memory = self._with_output(memory, best_combination(self.looks, self.units, self.margins))
            if was.first == 0:
                balance = self.units.f / self.units.h / max(len(self.units.h), 1)
                now = path.begun(was, self.looks.x[-1], balance, self.units.f)
            elif was.phase in (ALONG, BESIDE):
                now = path.along(was, closer)
            else:
                scale = (
                    max(abs(float(memory.upper)), float(memory.start) - float(memory.upper)) if memory.feasible else 0.0
                )
                now = path.at(was, self.values, scale)
                if now.phase == ALONG:  # what was seen on another line is of no use, but for what bounds stand on
                    self.kept.number[(self.kept.used == self.kept.number) & (self.kept.number < self.t)] = 0
            memory = path.led(replace(memory, path=now))
            if now.phase == BESIDE:
                x = self.model.curved_point(np.asarray(now.bend, float), np.asarray(now.at[0], float))
                memory = memory if x is None else replace(memory, ahead=self._point(x))
            return self._stored(memory)

    def _weighed(self) -> tuple[Any, float]:
        """The memory with all that the looks prove together, and how far that is from the goal."""
        memory = replace(self.before, seen=self.values, units=self.steepest)
        output = best_combination(self.looks, self.units, self.margins)
        memory = self._with_output(memory, output)
        self.model = Model(self.looks, self.units, region_of(self.conic, as_vector(memory.x)), self._support)
        bound = self.model.lower_bound()
        memory = self._with_bound(memory, bound)
        self.kept.used[self.places[self._of_use(output, bound)]] = self.t
        distance = output.worst
        inside = np.min(np.max(self.looks.h / self.units.h, axis=1, initial=-np.inf)) < -NONE
        found = None if inside else self.model.infeasibility()
        memory = self._with_tight(memory, found)
        if memory.feasible:
            distance = (float(memory.upper) - float(memory.lower)) / self.units.f
        else:
            memory = self._with_conflict(memory, found, output.worst)
        return replace(memory, hessian=self._hessian_at_times(memory)), max(distance, 0.0)

    def _of_use(self, output: Combination, bound: Bound | None) -> np.ndarray:
        """Which looks the output or the bound stand on."""
        weights = output.weights
        if bound is not None:
            weights = weights + bound.mu + np.max(bound.nu * self.units.h, axis=1, initial=0.0) / self.units.f
        return weights > NONE

    # ---- where to look next ------------------------------------------------------------------------------------------

    def _with_next(self, memory: Any, distance: float, level: float, slack: float) -> Any:
        """Sequential quadratic programming as long as it does better than level steps, otherwise one of these."""
        pause, patience, pace = int(memory.pause), int(memory.patience), float(memory.pace)
        gain = self._gain(memory, distance)
        if not memory.newton:
            pace = (pace + gain) / 2
        elif gain >= max(pace, _LEAST_GAIN):
            pause, patience = 0, 1
        else:
            pause, patience = patience, 2 * patience
        x = self._newton_point(memory) if pause == 0 else None
        newton = x is not None
        if x is None:
            lower, upper = float(memory.lower), float(memory.upper)
            aim = lower + self._aim(memory, level) * (upper - lower) if memory.feasible else None
            x, pause = self.model.level_point(aim, self.model.region.centre, slack), max(pause - 1, 0)
        ahead = memory.x if x is None else self._point(x)
        return replace(memory,
            ahead=ahead, promised=self.model.values(as_vector(ahead)), distance=distance, newton=newton, pace=pace,
            pause=pause, patience=patience,
        )  # fmt: skip

    def _gain(self, memory: Any, distance: float) -> float:
        """By how much the last look has lowered the logarithm of the distance; one at most, and for a first feasible
        point."""
        if bool(self.before.feasible) != bool(memory.feasible) or distance == 0:
            return 1.0
        return float(np.clip(np.log(float(memory.distance) / distance), 0.0, 1.0))

    def _aim(self, memory: Any, level: float) -> float:
        """Where between the bounds a level step aims: as low as the cuts' last promise was broken, in units of the gap."""
        short = self.values - np.asarray(memory.promised, float)
        broken = short[0] + np.asarray(memory.lam, float) @ np.maximum(short[1:], 0)
        return float(np.clip(broken / max(float(memory.distance) * self.units.f, 1e-300), _LOWEST, level))

    def _newton_point(self, memory: Any) -> np.ndarray | None:
        """Where a step of sequential quadratic programming leads; None without curvature, where it leads to a point that
        was looked at, and where only the least violation is looked for."""
        if np.any(memory.conflict):
            return None
        looks, at, lam = self.looks, self._centre(memory), np.asarray(memory.lam, float)
        slopes = looks.grad + np.einsum("n,knd->kd", lam, looks.rows)
        rows = rows_for_hessian(count(self.data), len(self.widths))
        hessian = with_secants(np.asarray(memory.hessian, float), rows, at, looks.x, slopes, self.widths)
        if is_flat(hessian, self.widths, self.units.f):
            return None
        x = self.model.newton_point(at, hessian, float(memory.upper) if memory.feasible else None)
        if x is None:
            return None
        nearest = np.min(np.linalg.norm((looks.x - x) / self.widths, axis=1))
        return x if nearest > 16 * np.finfo(self.dtype).eps else None

    def _centre(self, memory: Any) -> int:
        """The look of least F + 2 <lam, H_+>."""
        return int(np.argmin(self.looks.f + 2 * np.maximum(self.looks.h, 0) @ np.asarray(memory.lam, float)))

    def _hessian_at_times(self, memory: Any) -> np.ndarray | Array:
        """The Hessian of the Lagrangian at looks 1, 2, 4, 8, ..., each time on other rows; else the one there is."""
        if self.t & (self.t - 1) or not bends(self.problem):
            return memory.hessian
        n = count(self.data)
        size = rows_for_hessian(n, len(self.widths))
        some = Some(np.int32(1), np.int32(self.t.bit_length() - 1))
        x, lam = (
            shaped_like(memory.x, self.looks.x[self._centre(memory)].astype(self.dtype)),
            jnp.asarray(memory.lam, self.dtype),
        )
        found = np.asarray(lagrangian_hessian(self.problem, x, lam, self.data, some, size))
        return found if np.all(np.isfinite(found)) else memory.hessian


def rows_for_hessian(n: int, d: int) -> int:
    """So many of n rows that a Hessian in d coordinates, d products of two gradients a row, costs a pass at most."""
    return max(1, n // (2 * d))
