"""The bundle method: looks at all the data, cuts from each, and small programmes on the host that say where to look next."""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tightrope.methods.base import Certificate, Cost, Info, Refreshing
from tightrope.methods.bundle.model import Bound, Combination, Looks, Model, Units, best_combination
from tightrope.methods.bundle.second_order import is_flat, lagrangian_hessian, rows_for_hessian, with_secants
from tightrope.methods.bundle.solve import region_of
from tightrope.problem import Problem
from tightrope.problem.full_data import full_jacobian
from tightrope.problem.rounding import UNITS, eps_of, few, sizes_of
from tightrope.tree import Array, Tree, pytree, ravel, static

_MARGIN = 64  # units of eps below zero at which an output is aimed, as the pull does
_ROWS = 64  # by which sizes are judged
_CUT = 2 / 3  # a step of sequential programming that leaves more than this of the gap is followed by a level step


_LONGEST = 8  # level steps for which sequential programming pauses at most
_LOWEST = 0.01  # of the way from the lower bound to the value of the output


class Kept(NamedTuple):
    """What is kept of every look; arrays with a place for each, of which the first `count` are filled."""

    x: Array  # (memory, d)
    f: Array
    h: Array  # (memory, N)
    grad: Array
    rows: Array  # (memory, N, d)
    f_error: Array
    h_error: Array
    f_tilt: Array
    h_tilt: Array
    order: Array  # (memory,) the number of the look, from 1; 0 where there is none
    used: Array  # (memory,) the last look at which its cuts or its point were of use


class BundleState(NamedTuple):
    """What the next look needs."""

    x: Tree  # where it is taken
    lam: Array  # multipliers of the best bound
    t: Array  # its number, from 1
    seen: Array  # F and H at the last look: (1 + N,)
    kept: Kept
    units: Array  # (1 + N,) of F and H
    hessian: Array  # (d, d) of the Lagrangian, on some rows, the last time it was taken
    best: Tree  # the output: feasible if `feasible`, else of least violation
    feasible: Array
    upper: Array  # F there is at most this ...
    upper_error: Array  # ... but for this
    lower: Array  # F* is at least this ...
    lower_error: Array  # ... but for this
    gap: Array  # what progress is judged by, before this look
    promised: Array  # (1 + N,) F and H at the next look by the cuts so far
    newton: Array  # whether the next look is where sequential quadratic programming leads
    pace: Array  # by how much level steps have lowered the logarithm of the gap of late
    pause: Array  # how many level steps it pauses for ...
    patience: Array  # ... and would, if it failed again
    conflict: Array  # (N,) weights that prove that no point is feasible; zero where nothing is proven
    violation: Array  # the least violation proven, in units


@pytree
class Bundle(Refreshing):
    """A bundle method for few coordinates, with or without curvature; for finite data.

    A step is a look at all rows at one point x_k. It gives F_k, H_k and their gradients, hence cuts: linear functions that
    F and H are nowhere below. From all of them, on the host:

        lower bound  F* >= min over x in X of max_k cut of F, subject to all cuts of H being <= 0; by a formula that holds
                     for any multipliers, so that a solver's inaccuracy never makes a false claim
        output       sum_k w_k x_k of the least sum_k w_k F_k with sum_k w_k H_k <= 0: feasible by convexity
        next look    a step of sequential quadratic programming, with curvature from some of the rows and from differences
                     of gradients; where that does not cut the gap by a third, or there is no curvature, a level step: of
                     the points at which the cuts promise a value of F between the bounds, and keep half of the largest
                     slack in H that there is, the one nearest the output

    No step sizes, no strictly feasible point, and the same whatever the units of x, f and h_i. Where the cuts of H alone
    prove that no point satisfies all constraints, the run ends and says so.

    Looks cost a pass each; looks 1, 2, 4, 8, ... one pass more, for curvature.

    Args:
        level: where a level step aims between the lower bound (0) and the value of the output (1).
        slack: the share of the largest slack in the constraints that it keeps.
        memory: how many looks are kept; those whose cuts have not been of use for longest give way.

    Example:
        >>> import numpy as np, tightrope as tr
        >>> losses = np.random.default_rng(0).normal([-1.0, 0.0, 1.0], 1.0, size=(500, 3))
        >>> problem = tr.Problem(
        ...     lambda x, theta: abs(x - theta).sum(),
        ...     lambda x, theta: x[:1] - theta[:1],
        ...     tr.Box(-3.0, 3.0, shape=3),
        ...     levels=-0.5,
        ... )
        >>> tr.minimize(problem, losses, method="bundle", tol=1e-3).status.name
        'TOLERANCE'

    References:
        C. Lemarechal, A. Nemirovskii, Yu. Nesterov: New Variants of Bundle Methods, Mathematical Programming 69, 1995.
    """

    level: Any = 0.5
    slack: Any = 0.5
    memory: int = static(default=128, least=8)
    refresh_every: int | None = static(default=1)

    name = "bundle"
    tuned = ("level", "slack")
    positive = ("level",)
    below_one = ("level", "slack")
    needs = frozenset({"rows", "lmo", "conic"})
    cost = Cost(samples=1, gradients=0)
    output = "own"
    averages = False
    on_host = True
    feasible_output = True

    def gradients_of_refreshes(self, steps: int, n: int) -> int:
        """A pass each, and one more for the curvature at looks 1, 2, 4, 8, ..."""
        return n * (steps + steps.bit_length())

    def init(self, problem: Problem, x: Tree, lam: Array, horizon: Array) -> BundleState:
        """Room for every look that is kept."""
        d, N, dtype = ravel(x)[0].size, lam.size, lam.dtype
        zero, flags, most = jnp.zeros((), dtype), jnp.zeros((), bool), jnp.asarray(jnp.finfo(dtype).max, dtype)

        def room(*shape: int) -> Array:
            return jnp.zeros((self.memory, *shape), dtype)

        numbers = jnp.zeros((self.memory,), jnp.int32)
        kept = Kept(room(d), room(), room(N), room(d), room(N, d), room(), room(N), room(), room(N), numbers, numbers)
        return BundleState(
            x=x, lam=lam, t=jnp.ones((), jnp.int32), seen=jnp.zeros((1 + N,), dtype), kept=kept,
            units=jnp.zeros((1 + N,), dtype), hessian=jnp.zeros((d, d), dtype), best=x, feasible=flags, upper=most,
            upper_error=zero, lower=-most, lower_error=zero, gap=most,
            promised=jnp.zeros((1 + N,), dtype), newton=flags, pace=zero + 0.4, pause=numbers[0], patience=numbers[0] + 1, conflict=jnp.zeros((N,), dtype),
            violation=zero,
        )  # fmt: skip

    def step(self, problem: Problem, state: BundleState, theta: Tree) -> tuple[BundleState, Info]:
        """Nothing but a report of the look: the sample is not needed."""
        last = jax.tree.map(jnp.asarray, state.x)
        return state._replace(t=state.t + 1), Info(last, state.lam, state.seen[0], state.seen[1:])

    def answer(self, state: BundleState) -> tuple[Tree, Array]:
        """The best combination of the points looked at, and the multipliers of the best bound."""
        return state.best, state.lam

    def certificate(self, state: BundleState) -> Certificate:
        """What the cuts so far prove."""
        conflict = np.asarray(state.conflict, float)
        units = np.asarray(state.units, float)
        return Certificate(
            upper=float(state.upper) if state.feasible else np.inf,
            lower=float(state.lower),
            rounding=float(state.upper_error) + float(state.lower_error),
            scale=float(units[0]),
            conflict={int(i): float(state.violation) * units[1 + i] for i in np.flatnonzero(conflict)},
        )

    def refresh(self, problem: Problem, state: BundleState, data: Tree) -> BundleState:
        """A look at the point that the last one chose, and what follows from it."""
        return _Look(self, problem, state, data).after()


class _Look:
    """One look, on the host: what was seen, what it proves, where to look next."""

    def __init__(self, method: Bundle, problem: Problem, state: BundleState, data: Tree):
        self.method, self.problem, self.data = method, problem, data
        self.t, self.dtype = int(state.t), np.asarray(state.lam).dtype
        self.n = jax.tree.leaves(data)[0].shape[0]
        self.back = ravel(state.x)[1]
        conic = problem.domain.conic(state.x)
        self.conic, self.widths = conic, np.where(conic.upper > conic.lower, conic.upper - conic.lower, 1.0)
        seen = _look(problem, state.x, data, jnp.asarray(conic.upper - conic.lower, self.dtype))
        self.state = state._replace(seen=np.concatenate([seen.f[None], seen.h]))
        self._keep(seen)

    def _keep(self, seen: "_Seen") -> None:
        """Put the look where there is room, or in the place of the one that has been of no use for longest."""
        kept = Kept(*(np.array(v) for v in self.state.kept))
        place = int(np.argmin(np.where(kept.order == 0, -1, kept.used)))
        for array, value in zip(kept, (*seen, self.t, self.t), strict=True):
            array[place] = value
        self.kept = kept
        self.at = np.flatnonzero(kept.order)
        self.at = self.at[np.argsort(kept.order[self.at], kind="stable")]  # the latest is the last
        self.looks = Looks(*(np.asarray(v[self.at], float) for v in kept[:9]))
        slopes = np.concatenate([seen.grad[None], seen.rows]) * self.widths
        units = np.maximum(np.asarray(self.state.units, float), np.linalg.norm(np.asarray(slopes, float), axis=1))
        values = np.abs(np.concatenate([seen.f[None], seen.h]))
        safe = np.where(units > 0, units, np.where(values > 0, values, 1.0))
        self.units, self.state = Units(float(safe[0]), safe[1:]), self.state._replace(units=units)

    def after(self) -> BundleState:
        """The state with all of it."""
        state = self.state
        if not all(np.all(np.isfinite(v)) for v in self.looks):
            return self._stored(state)  # the driver says what is not finite, and where
        margin = _MARGIN / UNITS * self.looks.h_error.max(axis=0, initial=0.0)
        output = best_combination(self.looks, self.units, margin)
        state = self._with_output(state, output)
        centre = np.asarray(ravel(state.best)[0], float)
        self.model = Model(self.looks, self.units, region_of(self.conic, centre), self._support)
        bound = self.model.lower_bound()
        state = self._with_bound(state, bound)
        if not state.feasible:
            state = self._with_conflict(state)
        self._mark(output, bound)
        state = state._replace(hessian=self._hessian(state))
        return self._stored(self._next(state, output))

    # ---- what is proven ----------------------------------------------------------------------------------------------

    def _with_output(self, state: BundleState, output: Combination) -> BundleState:
        """The new output where it is better: the first feasible one, the lowest, or the one of least violation."""
        feasible = output.worst <= 0
        if (state.feasible and not feasible) or (state.feasible and output.f >= float(state.upper)):
            return state
        error = float(output.weights @ self.looks.f_error)
        best = self._into(output.weights @ self.looks.x)
        upper = output.f if feasible else float(np.finfo(self.dtype).max)
        return state._replace(best=best, feasible=feasible, upper=upper, upper_error=error if feasible else 0.0)

    def _with_bound(self, state: BundleState, bound: Bound | None) -> BundleState:
        if bound is None or bound.certain <= float(state.lower) - float(state.lower_error):
            return state
        value = np.nextafter(np.asarray(bound.value, self.dtype), -np.inf, dtype=self.dtype)
        return state._replace(lower=value, lower_error=bound.rounding, lam=bound.lam)

    def _with_conflict(self, state: BundleState) -> BundleState:
        found = self.model.infeasibility()
        if found is None or found.certain <= 0:
            return state
        weights = found.lam * self.units.h
        return state._replace(conflict=np.where(weights > 1e-6, weights, 0.0), violation=found.certain)

    def _mark(self, output: Combination, bound: Bound | None) -> None:
        """Which looks were of use: in the output, or in the bound."""
        active = output.weights > 0
        if bound is not None:
            share = bound.mu + np.max(bound.nu * self.units.h, axis=1, initial=0.0) / self.units.f
            active = active | (share > 1e-9)
        self.kept.used[self.at[active]] = self.t

    # ---- where to look next ------------------------------------------------------------------------------------------

    def _next(self, state: BundleState, output: Combination) -> BundleState:
        lower, upper = float(state.lower), float(state.upper)
        gap = (upper - lower) / self.units.f if state.feasible else 1e6 * (1 + max(output.worst, 0.0))
        pause, patience = int(state.pause), int(state.patience)
        gain, pace = np.log(max(float(state.gap), 1e-300) / max(gap, 1e-300)), float(state.pace)
        if state.newton:
            pause, patience = (0, 1) if gain >= max(pace, 0.05) else (patience, min(2 * patience, _LONGEST))
        else:
            pace = (pace + min(max(gain, 0.0), 1.0)) / 2
        x = self._newton_point(state) if pause == 0 else None
        newton = x is not None
        if x is None:
            level = lower + self._aim(state) * (upper - lower) if state.feasible else None
            x = self.model.level_point(level, self.model.region.centre, float(self.method.slack))
            pause = max(pause - 1, 0)
        x = self._into(self.model.region.centre if x is None else x)
        promised = self.model.values(np.asarray(ravel(x)[0], float))
        return state._replace(
            pace=pace, x=x, gap=min(gap, float(np.finfo(self.dtype).max)), promised=promised, newton=newton, pause=pause, patience=patience
        )

    def _aim(self, state: BundleState) -> float:
        """Where between the bounds a level step aims: low where the cuts have just kept what they promised."""
        short = np.asarray(state.seen, float) - np.asarray(state.promised, float)
        broken = short[0] + np.asarray(state.lam, float) @ np.maximum(short[1:], 0)
        share = broken / max(float(state.gap) * self.units.f, np.finfo(float).tiny)
        return float(np.clip(share, _LOWEST, float(self.method.level)))

    def _newton_point(self, state: BundleState) -> np.ndarray | None:
        """A step of sequential quadratic programming from the look of least merit F + 2 <lam, H_+>; None without curvature
        and where it leads nowhere new."""
        looks, lam = self.looks, np.asarray(state.lam, float)
        at = int(np.argmin(looks.f + 2 * np.maximum(looks.h, 0) @ lam))
        slopes = looks.grad + np.einsum("n,knd->kd", lam, looks.rows)
        hessian = with_secants(np.asarray(state.hessian, float), rows_for_hessian(self.n, len(self.widths)), at, looks.x, slopes, self.widths)
        if is_flat(hessian, self.widths, self.units.f):
            return None
        x = self.model.newton_point(at, hessian, float(state.upper) if state.feasible else None)
        if x is None:
            return None
        distance = np.min(np.linalg.norm((looks.x - x) / self.widths, axis=1))
        return x if distance > 16 * np.finfo(self.dtype).eps else None

    def _hessian(self, state: BundleState) -> Any:
        """The Hessian on some rows at looks 1, 2, 4, 8, ..., each time on others; the last one otherwise."""
        if self.t & (self.t - 1) or self.problem.oracle is not None:
            return state.hessian
        looks, lam, n = self.looks, np.asarray(state.lam, float), self.n
        at = int(np.argmin(looks.f + 2 * np.maximum(looks.h, 0) @ lam))
        count = rows_for_hessian(n, looks.x.shape[1])
        first = (self.t.bit_length() - 1) * count % max(1, n - count + 1)
        x = self.back(jnp.asarray(looks.x[at], self.dtype))
        found = lagrangian_hessian(self.problem, x, jnp.asarray(lam, self.dtype), self.data, np.int32(first), count)
        found = np.asarray(found)
        return found if np.all(np.isfinite(found)) else state.hessian

    # ---- between the host and the problem ----------------------------------------------------------------------------

    def _into(self, x: np.ndarray) -> Tree:
        """A vector as a point of the domain: what a solver or a sum has left of it by rounding is put back."""
        return _project(self.problem, self.back(jnp.asarray(x, self.dtype)))

    def _support(self, g: np.ndarray) -> float:
        """The support function in float64, whatever the precision of the run."""
        with jax.enable_x64(True):
            shaped = jax.tree.map(lambda v: jnp.asarray(v, float), _unravel(self.state.x, g))
            return float(self.problem.domain.support(shaped))

    def _stored(self, state: BundleState) -> BundleState:
        """Everything as arrays of the dtypes they had."""
        state = state._replace(kept=self.kept)
        return jax.tree.map(lambda new, old: jnp.asarray(new, old.dtype), state, self.like)

    @property
    def like(self) -> BundleState:
        """A state of the right dtypes."""
        dtype = self.dtype
        floats = jax.tree.map(lambda _: np.zeros((), dtype), self.state)
        numbers = {"order": np.zeros((), np.int32), "used": np.zeros((), np.int32)}
        flags = {"feasible": np.zeros((), bool), "newton": np.zeros((), bool), "t": np.zeros((), np.int32)}
        flags |= {"pause": np.zeros((), np.int32), "patience": np.zeros((), np.int32)}
        return floats._replace(kept=floats.kept._replace(**numbers), x=self.state.x, best=self.state.x, **flags)


def _unravel(like: Tree, vector: np.ndarray) -> Tree:
    leaves, treedef = jax.tree.flatten(like)
    cuts = np.cumsum([leaf.size for leaf in leaves])[:-1]
    pieces = np.split(np.asarray(vector, float), cuts)
    return jax.tree.unflatten(treedef, [p.reshape(leaf.shape) for p, leaf in zip(pieces, leaves, strict=True)])


class _Seen(NamedTuple):
    """What is kept of a look, but for its number."""

    x: Any
    f: Any
    h: Any
    grad: Any
    rows: Any
    f_error: Any
    h_error: Any
    f_tilt: Any
    h_tilt: Any


def _look(problem: Problem, x: Tree, data: Tree, widths: Array) -> _Seen:
    return _Seen(*(np.asarray(v) for v in jax.device_get(_look_compiled(problem, x, data, widths))))


@jax.jit
def _look_compiled(problem: Problem, x: Tree, data: Tree, widths: Array) -> tuple[Array, ...]:
    f, h, grad, rows = full_jacobian(problem, x, data)
    sizes = sizes_of(problem, x, few(data, _ROWS), curvature=True)
    unit = UNITS * eps_of(x)

    def flat(rows: Tree) -> Array:
        return jnp.concatenate([r.reshape(r.shape[0], -1) for r in jax.tree.leaves(rows)], axis=1)

    errors = unit * jnp.maximum(sizes.f, jnp.abs(f)), unit * jnp.maximum(sizes.h, jnp.abs(h))
    tilts = unit * jnp.dot(ravel(sizes.grad)[0], widths), unit * flat(sizes.rows) @ widths
    return ravel(x)[0], f, h, ravel(grad)[0], flat(rows), *errors, *tilts


@jax.jit
def _project(problem: Problem, x: Tree) -> Tree:
    return problem.domain.project(x) if problem.domain.has_projection else x
