"""SVRG-CSOA: CSOA with variance reduction, for data at hand."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from tightrope.methods.base import Cost, Info, Refreshing, dual_step
from tightrope.methods.snapshot import (
    Snapshot,
    correct,
    correct_slope,
    jacobian_norm,
    no_snapshot,
    probe_rows,
    probe_size,
    take_snapshot,
)
from tightrope.problem import Problem
from tightrope.tree import Array, Tree, add_scaled, nonzero, norm, pytree, ravel, replace, static, subtract

_PROBE_ROUNDS = 6
_SHORTEST = 2.0**-10  # damping of eta


class Steps(NamedTuple):
    """The step sizes of an epoch, and what they were made from."""

    eta: Array  # primal
    gamma: Array  # dual
    jacobian: Array  # |J|^2, the squared norm of the constraints' Jacobian
    damping: Array  # of eta, in (0, 1]
    residual: Array  # of the saddle point's conditions at the snapshot, measured with ...
    first: Array  # ... the steps (eta, gamma) of the first epoch


class SVRGCSOAState(NamedTuple):
    """What the next step needs."""

    x: Tree  # x_t
    lam: Array  # lambda_t
    snap: Snapshot
    x_sum: Tree  # of this epoch's iterates
    lam_sum: Array
    taken: Array  # how many of them
    steps: Steps
    t: Array  # step number, from 1


@pytree
class SVRGCSOA(Refreshing):
    """CSOA with SVRG snapshots and a look-ahead in the dual step, for finite data.

    An epoch begins with a snapshot w, the mean of the last epoch's iterates, and one pass over all rows for F(w), H(w) and
    their gradients. A step on the batch theta corrects every sampled quantity q by its snapshot, q(x) - q(w) + Q(w)::

        x_{t+1}   = Proj_X[ x_t - eta ( corrected grad f(x_t) + sum_i lambda_{i,t} corrected grad h_i(x_t) ) ]
        lambda_{t+1} = [ (1 - gamma r) lambda_t
                         + gamma ( corrected h(x_t) + 2 corrected J(x_t) (x_{t+1} - x_t) + upsilon 1 ) ]_+

    The noise vanishes as x and w approach the solution, so the step sizes are constant and no horizon is needed: the gap
    falls linearly on smooth, strongly convex problems (Palaniappan & Bach, for the saddle-point problem) and in practice
    on many that are not. The look-ahead, twice the step just taken, is what keeps constant steps from cycling where the
    problem is merely convex. The output is the mean of the last epoch. Where the problem knows its constraints exactly,
    the dual step has no noise at all.

    Step sizes come from a probe of some rows at every snapshot: eta = primal_scale / (L + L_max/b + |grad F|/D) with
    L the smoothness of the Lagrangian, L_max that of its worst row, b the batch and D the domain's diameter;
    gamma = dual_scale / (eta |J|^2). Curvature is looked at where the snapshot is. Steps that are too long for where they
    lead make the residual leap at the next snapshot; eta is then halved, and grows again slowly.

    Args:
        primal_scale: of eta.
        dual_scale: of gamma; eta gamma |J|^2 must stay below 1.
        upsilon: tightening of the constraints.
        r: regularisation of the multipliers.
        refresh_every: steps in an epoch; by default as many as visit every row once.

    Example:
        >>> import tightrope as tr
        >>> tr.SVRGCSOA().for_rows(n=1000, batch_size=10).refresh_every
        100

    References:
        R. Johnson, T. Zhang: Accelerating Stochastic Gradient Descent using Predictive Variance Reduction, NeurIPS 2013.
        B. Palaniappan, F. Bach: Stochastic Variance Reduction Methods for Saddle-Point Problems, NeurIPS 2016.
        A. Chambolle, T. Pock: A First-Order Primal-Dual Algorithm for Convex Problems, JMIV 2011 (the look-ahead).
    """

    primal_scale: Any = 1.0
    dual_scale: Any = 0.5
    upsilon: Any = 0.0
    r: Any = 0.0
    refresh_every: int | None = static(default=None)
    batch_size: int = static(default=1)

    name = "svrg-csoa"
    tuned = ("primal_scale", "dual_scale")
    margin = "upsilon"
    margin_power = 0.0
    needs = frozenset({"project", "rows"})
    cost = Cost(samples=1, gradients=2, projections=1)
    output = "own"

    def default_batch(self, n: int) -> int:
        """64, where that leaves 64 to 2,048 steps an epoch: enough steps to converge, few enough to be quick."""
        return min(max(1, n // 64), max(64, n // 2048))

    def for_rows(self, n: int, batch_size: int) -> "SVRGCSOA":
        """An epoch visits every row about once."""
        return replace(self, refresh_every=self.refresh_every or max(1, n // batch_size), batch_size=batch_size)

    def gradients_a_refresh(self, n: int) -> int:
        """A pass, and the probe: per row two gradients and 2 + rounds Hessian products, two gradients each."""
        return n + probe_size(n) * (6 + 2 * _PROBE_ROUNDS)

    def init(self, problem: Problem, x: Tree, lam: Array, horizon: Array) -> SVRGCSOAState:
        """Everything that the first refresh will fill in."""
        zero, zeros = jnp.zeros((), lam.dtype), jax.tree.map(jnp.zeros_like, x)
        steps = Steps(zero, zero, zero, zero + 1, zero, jnp.zeros((2,), lam.dtype))
        snap = no_snapshot(x, lam)
        return SVRGCSOAState(x, lam, snap, zeros, jnp.zeros_like(lam), zero, steps, jnp.ones((), jnp.int32))

    def refresh(self, problem: Problem, state: SVRGCSOAState, data: Tree) -> SVRGCSOAState:
        """A new snapshot, one pass over all rows, and step sizes to match."""
        w, lam = self.answer(state)
        snap = take_snapshot(problem, w, lam, data, state.snap.bound)
        x_sum, lam_sum, taken = jax.tree.map(jnp.zeros_like, (w, lam, state.taken))
        steps = self._step_sizes(problem, state, snap, lam, probe_rows(data))
        return SVRGCSOAState(w, state.lam, snap, x_sum, lam_sum, taken, steps, state.t)

    def step(self, problem: Problem, state: SVRGCSOAState, theta: Tree) -> tuple[SVRGCSOAState, Info]:
        """A corrected primal step, then a corrected dual step that looks ahead."""
        x, lam, eta, gamma = state.x, state.lam, state.steps.eta, state.steps.gamma
        seen = correct(problem, state.snap, x, lam, theta)
        x_next = problem.domain.project(add_scaled(x, -eta, seen.gradient))
        ahead = seen.value + 2 * correct_slope(problem, state.snap, x, subtract(x_next, x), theta)
        lam_next = dual_step(lam, ahead, gamma=gamma, shrink=gamma * self.r, upsilon=self.upsilon)
        sums = add_scaled(state.x_sum, 1, x_next), state.lam_sum + lam_next, state.taken + 1
        state = SVRGCSOAState(x_next, lam_next, state.snap, *sums, state.steps, state.t + 1)
        return state, Info(x, lam, seen.f, seen.h)

    def answer(self, state: SVRGCSOAState) -> tuple[Tree, Array]:
        """The mean of this epoch's iterates and multipliers; where it has none yet, the point it starts from."""
        some, count = state.taken > 0, jnp.maximum(state.taken, 1)
        x = jax.tree.map(lambda total, x: jnp.where(some, total / count, x), state.x_sum, state.x)
        return x, jnp.where(some, state.lam_sum / count, state.lam)

    def snapshot(self, state: SVRGCSOAState) -> Snapshot:
        return state.snap

    def _step_sizes(self, problem: Problem, state: SVRGCSOAState, snap: Snapshot, lam: Array, probe: Tree) -> Steps:
        diameter, slope = jnp.asarray(problem.domain.diameter, state.lam.dtype), norm(snap.grad)
        # Constraints may be flat at the start (|x|^2 <= 1 at zero): look where the objective pulls, too.
        far = problem.domain.project(add_scaled(snap.w, -diameter / nonzero(slope), snap.grad))
        there = jacobian_norm(problem.jacobian(far, probe)[3]) ** 2
        jacobian = jnp.maximum(
            jacobian_norm(snap.rows) ** 2, jnp.where(state.t == 1, there, state.steps.jacobian / 4)
        )  # fmt: skip
        # Until multipliers are known, assume that together they can hold the objective's gradient.
        assumed = slope / nonzero(jnp.sqrt(jacobian)) / max(1, state.lam.size)
        smoothness = _smoothness(problem, snap.w, jnp.maximum(state.lam, assumed), probe, self.batch_size)
        eta = self.primal_scale / (smoothness + slope / nonzero(diameter))
        gamma = self.dual_scale / nonzero(eta * jacobian)
        start = state.t == 1
        first = jnp.where(start, jnp.stack([eta, gamma]), state.steps.first)
        residual = _residual(problem, snap, lam, self.upsilon, first)
        before = state.steps.damping
        # Logistic loss of classes that are all but separable is flat at the snapshot and steep a step away: the residual
        # then leaps. While multipliers settle it may rise a little, and that is no reason.
        shorter = jnp.maximum(before / 2, _SHORTEST)
        damping = jnp.where(residual > 2 * state.steps.residual, shorter, jnp.minimum(1.1 * before, 1))
        damping = jnp.where(start, 1, damping)
        values = damping * eta, gamma, jacobian, damping, residual, first
        return Steps(*(jnp.asarray(v, state.lam.dtype) for v in values))


def _residual(problem: Problem, snap: Snapshot, lam: Array, upsilon: Any, steps: Array) -> Array:
    """How far a step of given sizes, on all rows, would move the snapshot and its multipliers."""
    eta, gamma = steps
    g = problem.lagrangian_gradient(snap.grad, snap.rows, lam)
    move = norm(subtract(problem.domain.project(add_scaled(snap.w, -eta, g)), snap.w))
    push = jnp.linalg.norm(dual_step(lam, snap.h, gamma=gamma, shrink=0.0, upsilon=upsilon) - lam)
    return move**2 / nonzero(eta) + push**2 / nonzero(gamma)


def _smoothness(problem: Problem, w: Tree, lam: Array, probe: Tree, batch_size: int) -> Array:
    """L + L_max/b of the Lagrangian at w: of the mean over the probed rows by power iteration, and of the worst row,
    whose curvature is taken along its own gradient (for linear models that is the direction of its largest)."""

    def lagrangian(x, theta):
        f, h = problem.values(x, theta)
        return f + jnp.dot(lam, h)

    def curvature(theta, v):
        return jax.jvp(lambda x: jax.grad(lagrangian)(x, theta), (w,), (v,))[1]

    def of_row(theta):
        theta = jax.tree.map(lambda a: a[None], theta)
        return norm(curvature(theta, _unit(jax.grad(lagrangian)(w, theta))))

    flat, back = ravel(w)
    start = back(jax.random.normal(jax.random.key(0), flat.shape, flat.dtype))
    leading = jax.lax.fori_loop(0, _PROBE_ROUNDS, lambda _, v: _unit(curvature(probe, v)), _unit(start))
    return norm(curvature(probe, leading)) + jnp.max(jax.vmap(of_row)(probe)) / batch_size


def _unit(v: Tree) -> Tree:
    size = nonzero(norm(v))
    return jax.tree.map(lambda a: a / size, v)
