"""SVRG-CSOA: CSOA with variance reduction, for data at hand."""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from tightrope._errors import coefficient
from tightrope._tree import Array, Tree, add_scaled, dot, norm, pytree, ravel, replace, set_field, static, subtract
from tightrope.full_data import full_jacobian
from tightrope.methods.base import Cost, Info, Method, dual_step
from tightrope.problem import Problem

_PROBE_ROWS, _PROBE_ROUNDS = 128, 6


class Steps(NamedTuple):
    """The step sizes of an epoch, and what they were made from."""

    eta: Array  # primal
    gamma: Array  # dual
    jacobian: Array  # |J|^2, the squared norm of the constraints' Jacobian


class SVRGCSOAState(NamedTuple):
    """What the next step needs."""

    x: Tree  # x_t
    lam: Array  # lambda_t
    w: Tree  # the snapshot
    f_w: Array  # F(w)
    h_w: Array  # H(w)
    grad_w: Tree  # grad F(w)
    rows_w: Tree  # J_H(w), a leading axis of N on every leaf
    x_sum: Tree  # of this epoch's iterates
    lam_sum: Array
    taken: Array  # how many of them
    bound: Array  # the best lower bound on F* so far
    steps: Steps
    t: Array  # step number, from 1


@pytree
class SVRGCSOA(Method):
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
    gamma = dual_scale / (eta |J|^2).

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

    needs = frozenset({"project", "rows"})
    cost = Cost(samples=1, gradients=2, projections=1)
    output = "epoch"

    def __post_init__(self):
        for name in ("primal_scale", "dual_scale", "upsilon", "r"):
            set_field(self, name, coefficient("SVRGCSOA", name, getattr(self, name)))

    def default_batch(self, n: int | None) -> int:
        """64, where that leaves 64 to 2,048 steps an epoch: enough steps to converge, few enough to be quick."""
        return 1 if n is None else min(max(1, n // 64), max(64, n // 2048))

    def for_rows(self, n: int, batch_size: int) -> "SVRGCSOA":
        """An epoch visits every row about once."""
        return replace(self, refresh_every=self.refresh_every or max(1, n // batch_size), batch_size=batch_size)

    def refresh_gradients(self, n: int) -> int:
        """A pass, and the probe: per row two gradients and 2 + rounds Hessian products, two gradients each."""
        return n + _probe_size(n) * (6 + 2 * _PROBE_ROUNDS)

    def tightening(self, horizon: int) -> float:
        """The upsilon given."""
        return float(jnp.max(jnp.asarray(self.upsilon)))

    def init(self, problem: Problem, x: Tree, lam: Array, horizon: Array) -> SVRGCSOAState:
        """Everything that the first refresh will fill in."""
        zero, zeros = jnp.zeros((), lam.dtype), jax.tree.map(jnp.zeros_like, x)
        rows = jax.tree.map(lambda v: jnp.zeros((lam.size, *v.shape), v.dtype), x)
        steps = Steps(zero, zero, zero)
        none, lowest = jnp.zeros_like(lam), jnp.full_like(zero, -jnp.finfo(lam.dtype).max)
        return SVRGCSOAState(
            x, lam, x, zero, none, zeros, rows, zeros, none, zero, lowest, steps, jnp.ones((), jnp.int32)
        )  # fmt: skip

    def refresh(self, problem: Problem, state: SVRGCSOAState, data: Tree) -> SVRGCSOAState:
        """A new snapshot, one pass over all rows, and step sizes to match."""
        w, lam = self.answer(state)
        f, h, grad, rows = full_jacobian(problem, w, data)
        bound = jnp.maximum(state.bound, lower_bound(problem, w, lam, f, h, grad, rows).astype(f.dtype))
        steps = self._step_sizes(problem, state, w, grad, rows, data)
        zeros = jax.tree.map(jnp.zeros_like, w)
        return state._replace(
            x=w, w=w, f_w=f, h_w=h, grad_w=grad, rows_w=rows,
            x_sum=zeros, lam_sum=jnp.zeros_like(state.lam), taken=jnp.zeros_like(state.taken), bound=bound, steps=steps,
        )  # fmt: skip

    def step(self, problem: Problem, state: SVRGCSOAState, theta: Tree) -> tuple[SVRGCSOAState, Info]:
        """A corrected primal step, then a corrected dual step that looks ahead."""
        x, lam, w, (eta, gamma, _) = state.x, state.lam, state.w, state.steps
        f, h, g = problem.value_and_gradient(x, lam, theta)
        _, h_then, g_then = problem.value_and_gradient(w, lam, theta)
        g_all = jax.tree.map(lambda a, rows: a + jnp.tensordot(lam, rows, 1), state.grad_w, state.rows_w)
        corrected = jax.tree.map(lambda now, then, all_: now - then + all_, g, g_then, g_all)
        x_next = problem.domain.project(add_scaled(x, -eta, corrected))
        move = subtract(x_next, x)

        def slope(point):
            return jax.jvp(lambda p: problem.constraint_values(p, theta), (point,), (move,))[1]

        ahead = slope(x) - slope(w) + _times(state.rows_w, move)
        value = h - h_then + state.h_w + 2 * ahead
        lam_next = dual_step(lam, value, gamma=gamma, shrink=gamma * self.r, upsilon=self.upsilon)
        state = state._replace(
            x=x_next, lam=lam_next, x_sum=jax.tree.map(jnp.add, state.x_sum, x_next),
            lam_sum=state.lam_sum + lam_next, taken=state.taken + 1, t=state.t + 1,
        )  # fmt: skip
        return state, Info(x, lam, f, h)

    def answer(self, state: SVRGCSOAState) -> tuple[Tree, Array]:
        """The mean of this epoch's iterates and multipliers; where it has none yet, the point it starts from."""
        some, count = state.taken > 0, jnp.maximum(state.taken, 1)
        x = jax.tree.map(lambda total, x: jnp.where(some, total / count, x), state.x_sum, state.x)
        return x, jnp.where(some, state.lam_sum / count, state.lam)

    def gap(self, state: SVRGCSOAState, inner: tuple[Array, Array]) -> Array:
        """F at the snapshot, pulled where it violates a constraint, minus the best lower bound."""
        f_s, h_s = inner
        violation = jnp.maximum(state.h_w, 0)
        a = jnp.max(violation / jnp.where(violation > 0, violation - h_s, 1), initial=0)
        return state.f_w + a * jnp.maximum(f_s - state.f_w, 0) - state.bound

    def _step_sizes(self, problem: Problem, state: SVRGCSOAState, w: Tree, grad: Tree, rows: Tree, data: Tree) -> Steps:
        first, diameter = state.t == 1, jnp.asarray(problem.domain.diameter, state.lam.dtype)
        n = jax.tree.leaves(data)[0].shape[0]
        size = _probe_size(n)
        probe = jax.tree.map(lambda a: a[:: n // size][:size], data)
        # Constraints may be flat at the start (|x|^2 <= 1 at zero): look where the objective pulls, too.
        far = problem.domain.project(add_scaled(w, -diameter / _nonzero(norm(grad)), grad))
        far_rows = problem.jacobian(far, probe)[3]
        here = _squared_norm(rows)
        jacobian = jnp.where(
            first, jnp.maximum(here, _squared_norm(far_rows)), jnp.maximum(here, state.steps.jacobian / 4)
        )
        # Until multipliers are known, assume that together they can hold the objective's gradient.
        assumed = norm(grad) / _nonzero(jnp.sqrt(jacobian)) / max(1, state.lam.size)
        smoothness = _smoothness(problem, w, jnp.maximum(state.lam, assumed), probe, self.batch_size)
        eta = self.primal_scale / (smoothness + norm(grad) / _nonzero(diameter))
        gamma = self.dual_scale / _nonzero(eta * jacobian)
        return Steps(*(jnp.asarray(v, state.lam.dtype) for v in (eta, gamma, jacobian)))


def lower_bound(problem: Problem, x: Tree, lam: Array, f: Array, h: Array, grad: Tree, rows: Tree) -> Array:
    """A lower bound on F* from values and gradients at any x in X and any lam >= 0.

    F* >= F(x*) + <lam, H(x*)> >= L(x, lam) + <g, x* - x> >= L(x, lam) - <g, x> + min over v in X of <g, v>, with g the
    gradient of the Lagrangian L; the minimum by the set's bound on its support function.
    """
    if not problem.domain.has_lmo:
        return jnp.full_like(f, -jnp.finfo(f.dtype).max)
    g = jax.tree.map(lambda a, r: a + jnp.tensordot(lam, r, 1), grad, rows)
    lowest = -problem.domain.support(jax.tree.map(jnp.negative, g))
    return f + jnp.dot(lam, h) - dot(g, x) + lowest


def _probe_size(n: int) -> int:
    return min(_PROBE_ROWS, n, max(8, n // 64))


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


def _squared_norm(rows: Tree) -> Array:
    """The squared operator norm of a Jacobian; 0 where there are no constraints."""
    leaves = jax.tree.leaves(rows)
    if leaves[0].shape[0] == 0:
        return jnp.zeros((), leaves[0].dtype)
    matrix = jnp.concatenate([leaf.reshape(leaf.shape[0], -1) for leaf in leaves], axis=1)
    return jnp.linalg.norm(matrix, 2) ** 2


def _times(rows: Tree, v: Tree) -> Array:
    """The Jacobian times a vector."""
    parts = jax.tree.map(lambda r, a: jnp.tensordot(r.reshape(r.shape[0], a.size), a.reshape(-1), 1), rows, v)
    return functools.reduce(jnp.add, jax.tree.leaves(parts))


def _unit(v: Tree) -> Tree:
    size = _nonzero(norm(v))
    return jax.tree.map(lambda a: a / size, v)


def _nonzero(divisor: Array) -> Array:
    return jnp.where(divisor == 0, 1, divisor)
