"""SVRG-CSOA: CSOA with variance reduction, for data at hand."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tightrope.methods.base import Cost, Facts, Info, Inner, Refreshes, Refreshing, dual_step
from tightrope.methods.directions import FEW, Bends, affordable, find_bends, gradients_for, nothing_known
from tightrope.methods.merit import Merit, judged, no_merit, pick
from tightrope.methods.snapshot import (
    Corrected,
    Snapshot,
    correct,
    correct_slope,
    no_snapshot,
    probe_rows,
    probe_size,
    take_snapshot,
)
from tightrope.methods.widths import length_in, move_of, projected, rows_in, slope_in, step_along
from tightrope.problem import Problem
from tightrope.problem.full_data import full_mean, tangent
from tightrope.problem.nested import Nested, Tangent, inner_size, with_inner_linear
from tightrope.sets import ConvexSet
from tightrope.tree import Array, Tree, add_scaled, dot, nonzero, norm, pytree, ravel, replace, static, subtract

# By hand, where nothing else is said; docs/decisions.md explains the epochs that they shape.
_PROBE_ROUNDS = 6  # products with the Hessian that look for its leading direction
MANY = 500  # coordinates from which on directions pay: for fewer, programmes on the host take half a second; measured
_TRUST = 0.05  # the share of the gap that noise may cost at first
_MORE = 1.5  # times that share after an epoch that was better than all before
_LEAST = 1e-4  # that share at least: the gap may be that loose
_TURN = 4.0  # by how much an epoch changes the weight, lowers the smoothness, or that share where it was not, at most
_DOUBT = 2.0  # times as much as one epoch has measured may be there, and this part of it is believed in the next


class Steps(NamedTuple):
    """What the step sizes of an epoch are made of; lengths are in widths of the domain."""

    smoothness: Array  # L, of the Lagrangian
    weight: Array  # q, how stiffly the multipliers hold x: a curvature, like L
    slopes: Array  # |grad H_i|, constraint by constraint
    gamma: Array  # dual steps, constraint by constraint
    trust: Array
    noise: Array  # what noise may cost, in units of F
    bends: Bends | None = None  # by which lengths are counted in widths of their own


class Sums(NamedTuple):
    """What the steps of an epoch add up. They keep it as one vector: on a CPU an operation costs about its dispatch."""

    lam: Array
    h: Array  # corrected values at x
    rises: Array  # (change of the sampled h_i)^2, where constraints are sampled
    f: Array  # corrected value at x
    taken: Array  # how many steps
    bent: Array  # |change of the sampled gradient since the snapshot|^2
    bends: Array  # <that change, x - w>
    apart: Array  # |x - w|^2, where constraints are sampled

    def packed(self) -> Array:
        """As one vector."""
        return jnp.concatenate([*self[:3], jnp.stack(self[3:])])

    @classmethod
    def unpacked(cls, vector: Array) -> "Sums":
        """From one vector."""
        n = (vector.size - 5) // 3
        return cls(*(vector[k * n : (k + 1) * n] for k in range(3)), *(vector[3 * n + k] for k in range(5)))


class Epoch(NamedTuple):
    """Sums over the steps of an epoch."""

    x: Tree
    packed: Array

    @property
    def sums(self) -> Sums:
        """The sums by name."""
        return Sums.unpacked(self.packed)

    def mean(self, x: Tree, lam: Array) -> tuple[Tree, Array]:
        """The mean of the iterates and multipliers; before the first step, those given."""
        sums = self.sums
        count = jnp.maximum(sums.taken, 1)
        return pick(sums.taken > 0, jax.tree.map(lambda total: total / count, (self.x, sums.lam)), (x, lam))

    def curvature(self, noise: Array | float) -> Array:
        """What the steps met: |change of gradient|^2 / <change of gradient, move>.

        That is at most L + L_max/b where rows are smooth. Where they have kinks it grows without bound as moves become
        short; `noise`, in the units of F, is where that stops.
        """
        sums = self.sums
        below = sums.bends + sums.taken * noise
        return jnp.where(below > 0, sums.bent / nonzero(below), 0)


class SVRGCSOAState(NamedTuple):
    """What the next step needs."""

    x: Tree  # x_t
    lam: Array  # lambda_t
    snap: Snapshot
    epoch: Epoch
    steps: Steps
    merit: Merit
    t: Array  # step number, from 1

    @property
    def answer(self) -> tuple[Tree, Array]:
        """The mean of this epoch's iterates and multipliers, where what its steps have seen is no reason against it; the
        best snapshot where it is, or where there was no step since the last one."""
        sums, best = self.epoch.sums, self.merit.best
        count = jnp.maximum(sums.taken, 1)
        good = (sums.taken > 0) & self.merit.tolerates(sums.f / count, sums.h / count)
        return pick(good, self.epoch.mean(self.x, self.lam), (best.w, best.lam))


class NestedState(NamedTuple):
    """What the next step needs on a nested problem."""

    x: Tree
    lam: Array
    snap: Snapshot
    epoch: Epoch
    steps: Steps
    merit: Merit
    t: Array
    tangent: Tangent  # at the snapshot

    @property
    def answer(self) -> tuple[Tree, Array]:
        """That of the plain problem that touches this one."""
        return SVRGCSOAState(*self[:-1]).answer


@pytree
class SVRGCSOA(Refreshing):
    """CSOA with SVRG snapshots and a look-ahead in the dual step, for finite data.

    An epoch begins with a snapshot w, the mean of the last epoch's iterates, and one pass over all rows for F(w), H(w) and
    their gradients. A step on the batch theta corrects every sampled quantity q by its snapshot, q(x) - q(w) + Q(w)::

        x_{t+1}   = Proj_X[ x_t - eta ( corrected grad f(x_t) + sum_i lambda_{i,t} corrected grad h_i(x_t) ) ]
        lambda_{i,t+1} = [ (1 - gamma_i r) lambda_{i,t}
                           + gamma_i ( corrected h_i(x_t) + 2 corrected grad h_i(x_t) (x_{t+1} - x_t) + upsilon ) ]_+

    The noise vanishes as x and w approach the solution, so no horizon is needed: the gap falls linearly on smooth, strongly
    convex problems (Palaniappan & Bach, for the saddle-point problem) and in practice on many that are not. The
    look-ahead, twice the step just taken, is what keeps constant steps from cycling where the problem is merely convex.
    Where the problem knows its constraints exactly, the dual step has no noise at all.

    Step sizes are made of what the run measures. Lengths are counted in widths of the domain (of a Box coordinate by
    coordinate, of a Product part by part) and constraints in their slopes |grad H_i|, so that units do not matter::

        eta     = primal_scale / (L + q)             gamma_i = dual_scale q / (|J|^2 |grad H_i|^2)

    L is the curvature of the Lagrangian: by a probe of some rows' second derivatives at first, then by differences of
    gradients between snapshots and along the epoch, which see the kinks of piecewise linear functions too. q, PDLP's
    primal weight times |J|, balances x and the multipliers: |J| times the distance that these travel in an epoch over that
    of x, its logarithm smoothed; at first |grad F|/D. |J| is the norm of the constraints' Jacobian divided by their slopes,
    and gamma is no more than the noise of the rows' own slopes allows.

    Where there are many coordinates, lengths are counted so that curvatures are alike: a look at some rows before the first
    step finds scales of columns and the directions in which the Lagrangian bends most (`tightrope.methods.directions`). It
    is the same method in other coordinates, with projections in their metric.

    Snapshots are compared by their merit (see `tightrope.methods.merit`). Near kinks noise does not vanish, and shorter
    steps are the price of accuracy: as long as snapshots become better, noise may cost a growing share of the gap, and a
    smaller one after an epoch that was not better. The output is the mean of the last epoch, or the best snapshot where the
    values that the epoch's steps have seen are more than twice as far from the best lower bound on F*.

    Of a nested problem an epoch sees the plain one that touches it at the snapshot, f(x, theta, u) + <c, inner(x, theta)>
    with the mean inside u and the slopes c = E grad_u f taken at w. Values and gradients there are exact, so that what the
    epochs come to rest at is a solution. Variances, entropic risks and ratios lie below it everywhere else, too: an epoch
    is a step of majorisation.

    Args:
        primal_scale: of eta.
        dual_scale: of gamma; below 1.
        upsilon: tightening of the constraints.
        r: regularisation of the multipliers.
        refresh_every: steps in an epoch; by default as many as visit every row once.
        batch_size: rows in a batch; set by the run.
        directions: the most directions along which lengths are counted in widths of their own, 0 for none. By default 16
            on balls and boxes of more than 500 coordinates, and none elsewhere; fewer where there are few rows.

    Example:
        >>> import tightrope as tr
        >>> tr.SVRGCSOA().for_rows(n=1000, batch_size=10).refresh_every
        100

    References:
        R. Johnson, T. Zhang: Accelerating Stochastic Gradient Descent using Predictive Variance Reduction, NeurIPS 2013.
        B. Palaniappan, F. Bach: Stochastic Variance Reduction Methods for Saddle-Point Problems, NeurIPS 2016.
        A. Chambolle, T. Pock: A First-Order Primal-Dual Algorithm for Convex Problems, JMIV 2011 (the look-ahead).
        D. Applegate et al.: Practical Large-Scale Linear Programming using Primal-Dual Hybrid Gradient, NeurIPS 2021 (PDLP).
        Y. Malitsky, K. Mishchenko: Adaptive Gradient Descent without Descent, ICML 2020 (curvature along the way).
    """

    primal_scale: Any = 1.0
    dual_scale: Any = 0.5
    upsilon: Any = 0.0
    r: Any = 0.0
    refresh_every: int | None = static(default=None)
    batch_size: int = static(default=1)
    directions: int | None = static(default=None, least=0)

    name = "svrg-csoa"
    tuned = ("primal_scale", "dual_scale")
    facts = Facts(margin="upsilon", margin_power=0.0, output="own", takes_nested=True)
    needs = frozenset({"project", "rows"})
    cost = Cost(samples=1, gradients=2, projections=1)

    def fitted(self, problem: Problem, x: Tree, theta: Tree) -> "SVRGCSOA":
        """With directions where they pay, and with room for the mean inside where the problem is nested."""
        domain, size = problem.domain, ravel(x)[0].size
        if self.directions and not domain.has_metrics:
            raise ValueError(
                f"SVRGCSOA: directions is {self.directions} and {domain.name} has no projection in other metrics than "
                "Euclid's; expected 0, or a ball or box (L2Ball, Box, LinfBall)."
            )
        usual = FEW if size > MANY and domain.has_metrics else 0
        method = replace(self, directions=min(usual if self.directions is None else self.directions, size))
        if not isinstance(problem, Nested):
            return method
        return replace(_NestedSVRGCSOA(inside=inner_size(problem, x, theta)), **vars(method))

    @property
    def steps(self) -> "_Refreshes":
        """With what refreshes cost."""
        return _Refreshes(self)

    def for_rows(self, n: int, batch_size: int) -> "SVRGCSOA":
        """An epoch visits every row about once."""
        every, directions = self.refresh_every or max(1, n // batch_size), self.directions
        directions = directions and affordable(n, batch_size, directions)
        return replace(self, refresh_every=every, batch_size=batch_size, directions=directions)

    def init(self, problem: Problem, x: Tree, lam: Array, horizon: Array) -> SVRGCSOAState:
        """Everything that the first refresh will fill in."""
        zero, none, snap = jnp.zeros((), lam.dtype), jnp.zeros_like(lam), no_snapshot(x, lam)
        bends = nothing_known(self.directions, x) if self.directions else None
        steps = Steps(zero, zero, none, none, zero, zero, bends)
        return SVRGCSOAState(x, lam, snap, _no_steps(x, lam), steps, no_merit(snap), jnp.ones((), jnp.int32))

    def refresh(self, problem: Problem, state: SVRGCSOAState, data: Tree) -> SVRGCSOAState:
        """A new snapshot, one pass over all rows, what it is worth, and step sizes to match."""
        first, old = state.t == 1, state.steps
        snap = take_snapshot(problem, *state.epoch.mean(state.x, state.lam), data)
        bends, probe = self._bends(problem, state, snap, data), probe_rows(data)
        wid = _lengths(problem, snap.w, bends)
        slopes = self._slopes(problem, state, snap, wid, probe)
        weight, size = self._weight(problem, state, snap, wid, slopes)
        of_mean, of_rows = self._probed(problem, state, snap, wid, probe, slopes)
        smoothness = self._smoothness(problem, state, snap, wid, of_mean, of_rows)
        gamma = self._dual_steps(problem, snap, wid, probe, slopes, weight, of_rows) / nonzero(size)
        merit, better = judged(problem, state.merit, snap, slopes, wid, first)
        trust = jnp.where(better, jnp.minimum(_MORE * old.trust, 1), jnp.maximum(old.trust / _TURN, _LEAST))
        trust = jnp.where(first, _TRUST, trust)
        steps = Steps(smoothness, weight, slopes, gamma, trust, trust * merit.gap, bends)
        new = SVRGCSOAState(snap.w, state.lam, snap, _no_steps(snap.w, snap.lam), steps, merit, state.t)
        return jax.tree.map(lambda a, b: jnp.asarray(a, b.dtype), new, state)

    def step(self, problem: Problem, state: SVRGCSOAState, theta: Tree) -> tuple[SVRGCSOAState, Info]:
        """A corrected primal step, then a corrected dual step that looks ahead."""
        x, lam, steps, wid = state.x, state.lam, state.steps, _lengths(problem, state.x, state.steps.bends)
        gamma = self.dual_scale * steps.gamma
        seen = correct(problem, state.snap, x, lam, theta)
        stiffness = jnp.maximum(steps.smoothness, state.epoch.curvature(steps.noise)) + steps.weight
        x_next = step_along(wid, x, self.primal_scale / nonzero(stiffness), seen.gradient)
        x_next = projected(wid, problem.domain, x_next)
        ahead = seen.value + 2 * correct_slope(problem, state.snap, x, subtract(x_next, x), theta)
        lam_next = dual_step(lam, ahead, gamma=gamma, shrink=gamma * self.r, upsilon=self.upsilon)
        exact = problem.exact_constraints is not None
        epoch = _with_step(state.epoch, state.snap, seen, wid, x, x_next, lam_next, exact)
        state = SVRGCSOAState(x_next, lam_next, state.snap, epoch, steps, state.merit, state.t + 1)
        return state, Info(x, lam, seen.f, seen.h)

    def snapshot(self, state: SVRGCSOAState) -> Snapshot:
        return state.merit.best

    def inner(self, state: SVRGCSOAState) -> Inner | None:
        """The snapshot that costs least to be pulled towards, if it satisfies every constraint strictly."""
        merit, h = state.merit, np.asarray(state.merit.safe.h)
        scale = max(float(merit.safe.f - merit.floor), float(merit.gap))
        return Inner(merit.safe.w, float(merit.gap), scale) if h.size and np.all(h < 0) else None

    # ---- what the step sizes are made of ------------------------------------------------------------------------------

    def _bends(self, problem: Problem, state: SVRGCSOAState, snap: Snapshot, data: Tree) -> Bends | None:
        """Where the Lagrangian bends, as found at the start."""
        known = state.steps.bends
        if known is None:
            return None

        def look(known: Bends) -> Bends:
            wid, k = problem.domain.widths(snap.w), known.along.size
            slopes = jnp.linalg.norm(rows_in(wid, snap.rows), axis=1)
            lam = jnp.maximum(state.lam, jnp.where(slopes > 0, _assumed(wid, snap, slopes), 0))
            return find_bends(problem, snap, lam, data, wid, k, self.batch_size)

        return jax.lax.cond(state.t == 1, look, lambda known: known, known)

    def _slopes(self, problem: Problem, state: SVRGCSOAState, snap: Snapshot, wid: Tree, probe: Tree) -> Array:
        """|grad H_i| at the snapshot, or how fast h_i changed along the last epoch where that is faster."""
        here = jnp.linalg.norm(rows_in(wid, snap.rows), axis=1)
        met = jnp.sqrt(state.epoch.sums.rises / nonzero(state.epoch.sums.apart))
        # Constraints may be flat at the start (|x|^2 <= 1 at zero): look where the objective pulls, too.
        across = problem.domain.scaled_diameter / nonzero(norm(slope_in(wid, snap.grad)))
        far = problem.domain.project(step_along(wid, snap.w, across, snap.grad))
        there = jnp.linalg.norm(rows_in(wid, problem.jacobian(far, probe)[3]), axis=1)
        remembered = jnp.where(state.t == 1, there, state.steps.slopes / _DOUBT)
        return jnp.maximum(jnp.maximum(here, met), remembered)  # pyright: ignore[reportArgumentType]

    def _weight(
        self, problem: Problem, state: SVRGCSOAState, snap: Snapshot, wid: Tree, slopes: Array
    ) -> tuple[Array, Array]:
        """q, and |J|^2 of the constraints divided by their slopes."""
        before, first = state.steps.weight, state.t == 1
        start = norm(slope_in(wid, snap.grad)) / problem.domain.scaled_diameter
        if slopes.size == 0:
            return start, jnp.ones_like(start)
        size = jnp.maximum(jnp.linalg.norm(rows_in(wid, snap.rows) / nonzero(slopes)[:, None], 2) ** 2, 1)
        moved = norm(length_in(wid, subtract(snap.w, state.snap.w)))
        dual_moved = jnp.linalg.norm((snap.lam - state.snap.lam) * slopes)
        turn = jnp.sqrt(jnp.sqrt(size) * dual_moved / nonzero(moved * before))
        turn = jnp.where(moved == 0, jnp.where(dual_moved == 0, 1, _TURN), jnp.clip(turn, 1 / _TURN, _TURN))
        return jnp.where(first, start, before * turn), size  # pyright: ignore[reportReturnType]

    def _probed(
        self, problem: Problem, state: SVRGCSOAState, snap: Snapshot, wid: Tree, probe: Tree, slopes: Array
    ) -> tuple[Array, Array]:
        """By the second derivatives of some rows: L of their mean, and L + L_max/b."""
        lam = jnp.maximum(state.lam, _assumed(wid, snap, slopes))
        return _smoothness(problem, snap.w, lam, probe, wid, self.batch_size)

    def _smoothness(
        self, problem: Problem, state: SVRGCSOAState, snap: Snapshot, wid: Tree, of_mean: Array, of_rows: Array
    ) -> Array:
        """L: what rows say, or less where an epoch has met less; and no less than what their mean says (an epoch that went
        along flat directions has not met the others), than the secant between the last two snapshots, and than a part of
        what the last epoch has met."""
        first, before, lam = state.t == 1, state.snap, state.lam
        met, noisy = state.epoch.curvature(0.0), state.epoch.curvature(state.steps.noise)
        believed = jnp.clip(jnp.maximum(_DOUBT * met, state.steps.smoothness / _TURN), of_mean, of_rows)
        believed = jnp.where(first | (met == 0), of_rows, believed)
        change = subtract(
            problem.lagrangian_gradient(snap.grad, snap.rows, lam),
            problem.lagrangian_gradient(before.grad, before.rows, lam),
        )
        bent, bends = slope_in(wid, change), dot(change, subtract(snap.w, before.w))
        secant = jnp.where(first | (bends <= 0), 0, dot(bent, bent) / nonzero(bends))
        return jnp.maximum(jnp.maximum(believed, secant), noisy / _DOUBT)

    def _dual_steps(
        self, problem: Problem, snap: Snapshot, wid: Tree, probe: Tree, slopes: Array, weight: Array, of_rows: Array
    ) -> Array:
        """gamma_i |J|^2: what the weight asks for, and no more than a batch's own slopes allow."""
        asked = weight / nonzero(slopes**2)
        if problem.exact_constraints is not None or slopes.size == 0:
            return asked

        def squares(theta: Tree) -> Array:
            rows = problem.jacobian(snap.w, jax.tree.map(lambda a: a[None], theta))[3]
            return jnp.sum(rows_in(wid, rows) ** 2, axis=1)

        noise = full_mean(squares, probe, rows_a_slice=16) / self.batch_size
        return jnp.minimum(asked, (of_rows + weight) / nonzero(slopes**2 + noise))


class _Refreshes(Refreshes):
    """A pass each and the probe: per row three gradients and 2 + rounds Hessian products, two gradients each; once the
    products that find directions. Of a nested problem a pass more each, for the slopes of what is around the mean inside.

    In the domain, a look where the objective pulls, and the lower bound: by a linear minimisation, or by a projection.
    """

    def batch(self, n: int) -> int:
        """64, where that leaves 64 to 2,048 steps an epoch: enough steps to converge, few enough to be quick."""
        return min(max(1, n // 64), max(64, n // 2048))

    def looks(self, steps: int, n: int, domain: ConvexSet | None = None) -> Cost:
        method, number, lmo = self.method, self.number(steps), domain is None or domain.has_lmo
        passes = 2 if isinstance(method, _NestedSVRGCSOA) else 1
        gradients = number * (passes * n + probe_size(n) * (7 + 2 * _PROBE_ROUNDS))
        gradients += gradients_for(n, method.batch_size, method.directions or 0)
        return Cost(0, gradients, projections=number if lmo else 2 * number, lmos=number if lmo else 0)


@pytree
class _NestedSVRGCSOA(SVRGCSOA):
    """SVRG-CSOA on a nested problem, made by `SVRGCSOA.fitted`: `inside` numbers are averaged inside."""

    inside: int = static(default=1, least=1)

    def init(self, problem: Problem, x: Tree, lam: Array, horizon: Array) -> Any:
        """Everything that the first refresh will fill in."""
        none = jnp.zeros((self.inside,), lam.dtype)
        tangent = Tangent(none, none, jnp.zeros((lam.size, self.inside), lam.dtype))
        return NestedState(*super().init(problem, x, lam, horizon), tangent)

    def refresh(self, problem: Problem, state: Any, data: Tree) -> Any:
        """The plain problem that touches this one where the snapshot is taken, and its snapshot."""
        assert isinstance(problem, Nested)
        *known, old = state
        known = SVRGCSOAState(*known)
        new = tangent(problem, known.epoch.mean(known.x, known.lam)[0], data)
        new = jax.tree.map(lambda a, b: jnp.asarray(a, b.dtype), new, old)
        return NestedState(*super().refresh(with_inner_linear(problem, *new), known, data), new)

    def step(self, problem: Problem, state: Any, theta: Tree) -> tuple[Any, Info]:
        """SVRG-CSOA's, on the plain problem of the epoch."""
        assert isinstance(problem, Nested)
        *known, touching = state
        after, info = super().step(with_inner_linear(problem, *touching), SVRGCSOAState(*known), theta)
        return NestedState(*after, touching), info


def _lengths(problem: Problem, x: Tree, bends: Bends | None) -> Tree:
    """How lengths are counted: in widths of the domain, or so that curvatures are alike."""
    wid = problem.domain.widths(x)
    return wid if bends is None else bends.metric(wid, x)


def _assumed(wid: Tree, snap: Snapshot, slopes: Array) -> Array:
    """Until multipliers are known: those that together can hold the objective's gradient."""
    return norm(slope_in(wid, snap.grad)) / nonzero(slopes) / max(1, slopes.size)


def _no_steps(x: Tree, lam: Array) -> Epoch:
    zero, none = jnp.zeros((), lam.dtype), jnp.zeros_like(lam)
    return Epoch(jax.tree.map(jnp.zeros_like, x), Sums(none, none, none, zero, zero, zero, zero, zero).packed())


def _with_step(
    epoch: Epoch, snap: Snapshot, seen: Corrected, wid: Tree, x: Tree, x_next: Tree, lam_next: Array, exact: bool
) -> Epoch:
    away = subtract(x, snap.w)
    bent, apart, zero = slope_in(wid, seen.change), length_in(wid, away), jnp.zeros((), lam_next.dtype)
    step = Sums(
        lam=lam_next,
        h=seen.value,
        rises=jnp.zeros_like(lam_next) if exact else (seen.value - snap.h) ** 2,  # slopes at snapshots say enough
        f=seen.objective,
        taken=zero + 1,
        bent=dot(bent, bent),
        bends=dot(seen.change, away),
        apart=zero if exact else dot(apart, apart),
    )
    return Epoch(add_scaled(epoch.x, 1, x_next), epoch.packed + step.packed())


def _smoothness(problem: Problem, w: Tree, lam: Array, probe: Tree, wid: Tree, batch_size: int) -> tuple[Array, Array]:
    """L and L + L_max/b of the Lagrangian at w, in widths of the domain: of the mean over the probed rows by power
    iteration, and of the worst row, whose curvature is taken along its own gradient (for linear models that is the
    direction of its largest)."""

    def lagrangian(x, theta):
        f, h = problem.values(x, theta)
        return f + jnp.dot(lam, h)

    def curvature(theta, v):
        move = move_of(wid, v)
        return slope_in(wid, jax.jvp(lambda x: jax.grad(lagrangian)(x, theta), (w,), (move,))[1])

    def of_row(theta):
        theta = jax.tree.map(lambda a: a[None], theta)
        return norm(curvature(theta, _unit(slope_in(wid, jax.grad(lagrangian)(w, theta)))))

    flat, back = ravel(w)
    start = back(jax.random.normal(jax.random.key(0), flat.shape, flat.dtype))
    leading = jax.lax.fori_loop(0, _PROBE_ROUNDS, lambda _, v: _unit(curvature(probe, v)), _unit(start))
    of_mean = norm(curvature(probe, leading))
    return of_mean, of_mean + jnp.max(jax.vmap(of_row)(probe)) / batch_size


def _unit(v: Tree) -> Tree:
    size = nonzero(norm(v))
    return jax.tree.map(lambda a: a / size, v)
