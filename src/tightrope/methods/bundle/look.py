"""One look at all the data, on the host: what was seen, what it proves, and where to look next."""

from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tightrope._jaxlib import COMPILED_SOON
from tightrope.methods.bundle.model import Bound, Combination, Looks, Model, Units, best_combination
from tightrope.methods.bundle.solve import one_thread, region_of
from tightrope.methods.bundle.state import BundleState, Kept, shapes_of_a_look
from tightrope.methods.curvature import is_flat, lagrangian_hessian, with_secants
from tightrope.problem import Problem
from tightrope.problem.full_data import Some, full_jacobian
from tightrope.problem.rounding import UNITS, count, distance_across, eps_of, glance_at, read_glance
from tightrope.sets import ConvexSet
from tightrope.sets.conic import Conic
from tightrope.tree import Array, Tree, ravel, shaped_like, taken_apart

MARGIN = 4  # roundings of H below zero at which an output is aimed: as many units of eps as the pull takes
_LOWEST = 0.01  # of the way from the lower bound to the value of the output
_LEAST_GAIN = 0.05  # in the logarithm of the distance: less is none
_LONGEST = 8  # level steps for which sequential programming pauses at most
_CLOSE = 1.1  # a violation this many times the least that is proven is as small as it need be
_OF_USE = 1e-9  # a smaller multiplier, in units, is none
NO_ROOM = 1e-9  # a smaller slack, in units, is none: programmes are solved to less


class Look:
    """A look at the point `state.ahead`.

    Args:
        problem: the problem.
        state: what is known, on the host: a `BundleState`, or one of another method with the fields that are used.
        data: all rows.
    """

    def __init__(self, problem: Problem, state: Any, data: Tree):
        self.problem, self.data, self.before = problem, data, state
        self.t, self.dtype = int(state.t), np.dtype(state.lam.dtype)
        self.widths = self._widths()
        seen = self._see(state.ahead)
        self.finite = all_finite(seen)
        self.kept, self.places = _with(state.kept, (*seen, self.t, self.t))
        self.looks = Looks(*(np.asarray(v[self.places], float) for v in self.kept[: len(Looks._fields)]))
        self.values = np.append(self.looks.f[-1], self.looks.h[-1])
        slopes = np.concatenate([self.looks.grad[-1:], self.looks.rows[-1]]) * self.widths
        self.steepest = np.maximum(np.asarray(state.units, float), np.linalg.norm(slopes, axis=1))
        self.units = units_of(self.values, self.steepest)

    def after(self, level: float, slack: float) -> Any:
        """The state with everything that follows from the look."""
        state = self.before._replace(seen=self.values, units=self.steepest)
        if not self.finite:
            return self._stored(state)  # the driver finds out, and says what is not finite
        with one_thread():
            output = best_combination(self.looks, self.units, MARGIN * self.looks.h_error)
            state = self._with_output(state, output)
            self.model = Model(self.looks, self.units, region_of(self.conic, self._vector(state.x)), self._support)
            bound = self.model.lower_bound()
            state = self._with_bound(state, bound)
            self.kept.used[self.places[self._of_use(output, bound)]] = self.t
            distance = output.worst
            inside = np.min(np.max(self.looks.h / self.units.h, axis=1, initial=-np.inf)) < -NO_ROOM
            found = None if inside else self.model.infeasibility()
            state = state._replace(interior=found is None or found.certain < -NO_ROOM)
            if state.feasible:
                distance = (float(state.upper) - float(state.lower)) / self.units.f
            else:
                state = self._with_conflict(state, found, output.worst)
            state = state._replace(hessian=self._hessian_at_times(state))
            return self._stored(self._with_next(state, max(distance, 0.0), level, slack))

    @cached_property
    def conic(self) -> Conic:
        """The domain as programmes have it."""
        return self.problem.domain.conic(self.before.x)

    def _widths(self) -> np.ndarray:
        """Of the domain; one for coordinates that are fixed."""
        return np.where(self.conic.upper > self.conic.lower, self.conic.upper - self.conic.lower, 1.0)

    def _see(self, x: Tree) -> list[np.ndarray]:
        """What a pass over all rows finds at a point."""
        return self._with_rounding(see(self.problem, x, self.data), x)

    def _with_rounding(self, seen: Array, x: Tree) -> list[np.ndarray]:
        """What `see` gives, and bounds on its rounding: one array for each field of `Kept`."""
        some, unit = glance_at(self.problem, x, self.data, False), UNITS * eps_of(x)
        point, f, h, grad, rows = self._taken_apart(seen)
        sizes, farthest = read_glance(some, x).sizes, distance_across(self.problem)
        lost = np.vstack([sizes.grad, sizes.rows])
        over = unit * np.minimum(lost @ self.widths, np.linalg.norm(lost, axis=1) * farthest)
        errors = unit * np.maximum(sizes.f, np.abs(f)), unit * np.maximum(sizes.h, np.abs(h))
        return [point, f, h, grad, rows, *errors, over[0], over[1:]]

    def _taken_apart(self, seen: Array) -> list[np.ndarray]:
        """The point, values and slopes."""
        return taken_apart(np.asarray(seen), shapes_of_a_look(len(self.widths), self.before.lam.size)[:5])

    # ---- what is proven ----------------------------------------------------------------------------------------------

    def _with_output(self, state: Any, output: Combination) -> Any:
        """The new output where it is better: feasible, and lower; until then, of less violation."""
        inner = self.looks.f[np.argmin(np.max(self.looks.h / self.units.h, axis=1, initial=-np.inf))]
        state = state._replace(inner=inner, start=self._start() if self.t == 1 else state.start)
        feasible = output.worst <= 0
        if state.feasible and not (feasible and output.f < float(state.upper)):
            return state
        x = self._point(output.weights @ self.looks.x)
        if not feasible:
            return state._replace(x=x)
        error, margin = output.weights @ self.looks.f_error, MARGIN * output.weights @ self.looks.h_error
        return state._replace(
            x=x, feasible=True, upper=self._rounded(output.f, np.inf), upper_error=error, margin=margin
        )

    def _start(self) -> float:
        """F where the run starts."""
        return float(self.looks.f[0])

    def _with_bound(self, state: Any, bound: Bound | None) -> Any:
        if bound is None or bound.certain <= float(state.lower) - float(state.lower_error):
            return state
        return state._replace(lower=self._rounded(bound.value, -np.inf), lower_error=bound.rounding, lam=bound.lam)

    def _with_conflict(self, state: Any, found: Bound | None, worst: float) -> Any:
        """Whether a bound on the worst of H proves that no point is feasible. The point of least violation is looked for
        until the worst one there is close to what is proven, or does not fall any more."""
        if found is None or found.certain <= 0:
            return state
        stuck = np.any(state.conflict) and worst > float(state.distance) / _CLOSE
        involved = found.lam * self.units.h > 1e-3 / len(self.units.h)
        return state._replace(
            conflict=np.where(involved, found.certain * self.units.h, 0.0),
            settled=stuck or worst <= _CLOSE * found.certain,
        )

    def _of_use(self, output: Combination, bound: Bound | None) -> np.ndarray:
        """Which looks the output or the bound stand on."""
        weights = output.weights
        if bound is not None:
            weights = weights + bound.mu + np.max(bound.nu * self.units.h, axis=1, initial=0.0) / self.units.f
        return weights > _OF_USE

    # ---- where to look next ------------------------------------------------------------------------------------------

    def _with_next(self, state: Any, distance: float, level: float, slack: float) -> BundleState:
        """Sequential quadratic programming as long as it does better than level steps, otherwise one of these."""
        pause, patience, pace = int(state.pause), int(state.patience), float(state.pace)
        gain = self._gain(state, distance)
        if not state.newton:
            pace = (pace + gain) / 2
        elif gain >= max(pace, _LEAST_GAIN):
            pause, patience = 0, 1
        else:
            pause, patience = patience, min(2 * patience, _LONGEST)
        x = self._newton_point(state) if pause == 0 else None
        newton = x is not None
        if x is None:
            lower, upper = float(state.lower), float(state.upper)
            aim = lower + self._aim(state, level) * (upper - lower) if state.feasible else None
            x, pause = self.model.level_point(aim, self.model.region.centre, slack), max(pause - 1, 0)
        ahead = state.x if x is None else self._point(x)
        return state._replace(
            ahead=ahead, promised=self.model.values(self._vector(ahead)), distance=distance, newton=newton, pace=pace,
            pause=pause, patience=patience,
        )  # fmt: skip

    def _gain(self, state: Any, distance: float) -> float:
        """By how much the last look has lowered the logarithm of the distance; one at most, and for a first feasible
        point."""
        if bool(self.before.feasible) != bool(state.feasible) or distance == 0:
            return 1.0
        return float(np.clip(np.log(float(state.distance) / distance), 0.0, 1.0))

    def _aim(self, state: Any, level: float) -> float:
        """Where between the bounds a level step aims: as low as the cuts' last promise was broken, in units of the gap."""
        short = self.values - np.asarray(state.promised, float)
        broken = short[0] + np.asarray(state.lam, float) @ np.maximum(short[1:], 0)
        return float(np.clip(broken / max(float(state.distance) * self.units.f, 1e-300), _LOWEST, level))

    def _newton_point(self, state: Any) -> np.ndarray | None:
        """Where a step of sequential quadratic programming leads; None without curvature, where it leads to a point that
        was looked at, and where only the least violation is looked for."""
        if np.any(state.conflict):
            return None
        looks, at, lam = self.looks, self._centre(state), np.asarray(state.lam, float)
        slopes = looks.grad + np.einsum("n,knd->kd", lam, looks.rows)
        rows = rows_for_hessian(count(self.data), len(self.widths))
        hessian = with_secants(np.asarray(state.hessian, float), rows, at, looks.x, slopes, self.widths)
        if is_flat(hessian, self.widths, self.units.f):
            return None
        x = self.model.newton_point(at, hessian, float(state.upper) if state.feasible else None)
        if x is None:
            return None
        nearest = np.min(np.linalg.norm((looks.x - x) / self.widths, axis=1))
        return x if nearest > 16 * np.finfo(self.dtype).eps else None

    def _centre(self, state: Any) -> int:
        """The look of least F + 2 <lam, H_+>."""
        return int(np.argmin(self.looks.f + 2 * np.maximum(self.looks.h, 0) @ np.asarray(state.lam, float)))

    def _hessian_at_times(self, state: Any) -> np.ndarray | Array:
        """The Hessian of the Lagrangian at looks 1, 2, 4, 8, ..., each time on other rows; else the one there is."""
        if self.t & (self.t - 1) or self.problem.oracle is not None:
            return state.hessian
        n = count(self.data)
        size = rows_for_hessian(n, len(self.widths))
        some = Some(np.int32(1), np.int32(self.t.bit_length() - 1))
        x, lam = (
            shaped_like(state.x, self.looks.x[self._centre(state)].astype(self.dtype)),
            jnp.asarray(state.lam, self.dtype),
        )
        found = np.asarray(lagrangian_hessian(self.problem, x, lam, self.data, some, size))
        return found if np.all(np.isfinite(found)) else state.hessian

    # ---- between the host and the problem ----------------------------------------------------------------------------

    def _point(self, x: np.ndarray) -> Tree:
        """A vector as a point of the domain: what a solver or a sum has left of it by rounding is put back."""
        return into_domain(self.problem, shaped_like(self.before.x, x.astype(self.dtype)))

    @staticmethod
    def _vector(x: Tree) -> np.ndarray:
        return np.concatenate([np.ravel(np.asarray(leaf, float)) for leaf in jax.tree.leaves(x)])

    def _rounded(self, value: float, towards: float) -> np.ndarray:
        """A bound in the run's precision, on the safe side."""
        return np.nextafter(np.asarray(value, self.dtype), np.asarray(towards, self.dtype))

    def _support(self, g: np.ndarray) -> float:
        """The domain's support function, in float64 whatever the run's precision is."""
        with jax.enable_x64(True):
            return float(reach(self.problem.domain, shaped_like(self.before.x, np.asarray(g, float))))

    def _stored(self, state: Any) -> Any:
        """Everything in arrays of the dtypes that it had."""
        state = state._replace(kept=self.kept)
        return jax.tree.map(lambda new, old: jnp.asarray(new, old.dtype), state, self.before)


def all_finite(seen: list[np.ndarray]) -> bool:
    """Whether a look has met finite numbers only."""
    return bool(np.isfinite(np.concatenate([np.ravel(v) for v in seen])).all())


def units_of(values: np.ndarray, steepest: np.ndarray) -> Units:
    """Of F and H, by the steepest slopes seen; where there is none yet, any unit will do."""
    units = np.where(steepest > 0, steepest, np.where(values != 0, np.abs(values), 1.0))
    return Units(float(units[0]), units[1:])


def rows_for_hessian(n: int, d: int) -> int:
    """So many of n rows that a Hessian in d coordinates, d products of two gradients a row, costs a pass at most."""
    return max(1, n // (2 * d))


def _with(kept: Kept, look: tuple) -> tuple[Kept, np.ndarray]:
    """What is kept with one look more, and the places of all, the latest last. Where there is no room left, it takes the
    place of the one that has been of no use for longest."""
    kept = jax.tree.map(np.array, kept)
    place = int(np.argmin(np.where(kept.number == 0, -1, kept.used)))
    for array, value in zip(kept, look, strict=True):
        array[place] = value
    places = np.flatnonzero(kept.number)
    return kept, places[np.argsort(kept.number[places], kind="stable")]


@jax.jit(static_argnames="rows_a_slice")
def see(problem: Problem, x: Tree, data: Tree, some: Some | None = None, rows_a_slice: int | None = None) -> Array:
    """One pass over all rows, or some: the point, values and slopes, one after the other in one array because every array
    that is brought to the host takes its time."""
    f, h, grad, rows = full_jacobian(problem, x, data, rows_a_slice, some)
    leaves = zip(jax.tree.leaves(rows), jax.tree.leaves(x), strict=True)
    each = jnp.concatenate([r.reshape(h.size, v.size) for r, v in leaves], axis=1)
    return jnp.concatenate([jnp.ravel(v) for v in (ravel(x)[0], f, h, ravel(grad)[0], each)])


@jax.jit(compiler_options=COMPILED_SOON)
def into_domain(problem: Problem, x: Tree) -> Tree:
    """What solvers and sums have left by rounding is put back."""
    return problem.domain.project(x) if problem.domain.has_projection else x


@jax.jit(compiler_options=COMPILED_SOON)
def reach(domain: ConvexSet, g: Tree) -> Array:
    """The domain's support function."""
    return domain.support(g)
