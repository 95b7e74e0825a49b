"""SVRF-CSOA: the projection-free form with variance reduction, for data at hand."""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from tightrope.methods.base import Cost, Facts, Info, Refreshes, Refreshing, dual_step
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
from tightrope.sets import ConvexSet
from tightrope.tree import Array, Tree, add_scaled, float_dtype, nonzero, norm, pytree, replace, static, subtract


class SVRFCSOAState(NamedTuple):
    """What the next step needs."""

    x: Tree  # x_t
    lam: Array  # lambda_t
    snap: Snapshot
    x_mean: Tree  # of the iterates so far, x_k with weight k^2
    lam_mean: Array
    gradient: Array  # the largest |grad F| seen
    jacobian: Array  # the largest |J| seen
    gamma: Array  # dual step
    memory: Tree  # of the set's linear minimisation
    t: Array  # step number, from 1


@pytree
class SVRFCSOA(Refreshing):
    """FW-CSOA with SVRF snapshots and a look-ahead in the dual step, for finite data: one linear minimisation a step.

    An epoch begins with a snapshot w, the mean of the iterates so far, and one pass over all rows for F(w), H(w) and their
    gradients. A step on the batch theta corrects every sampled quantity q by its snapshot, q(x) - q(w) + Q(w)::

        d_t       = corrected grad f(x_t) + sum_i lambda_{i,t} corrected grad h_i(x_t)
        s_t       = argmin over s in X of <d_t, s>
        x_{t+1}   = x_t + 2/(t + 2) (s_t - x_t)
        lambda_{t+1} = [ (1 - gamma r) lambda_t
                         + gamma ( corrected h(x_t) + 2 corrected J(x_t) (x_{t+1} - x_t) + upsilon 1 ) ]_+

    The output is the mean of the iterates, x_t with weight t^2: late iterates count, and the jumps from vertex to vertex
    cancel. No horizon is needed. gamma = dual_scale |grad F| / (|J|^2 D), with the largest norms seen at snapshots (at
    first also on some rows at the vertex that the objective pulls to) and D the domain's diameter.

    What is known: for smooth convex objectives without constraints and for epochs and batches that grow, Hazan & Luo prove
    a gap of 1/t after t linear minimisations. With constraints nothing is proved. On four small problems the error fell
    faster than 1/t; without the look-ahead the iterates stalled on the linear programme among them.

    Args:
        dual_scale: of gamma.
        upsilon: tightening of the constraints.
        r: regularisation of the multipliers.
        refresh_every: steps in an epoch; by default as many as visit every row once.

    Example:
        >>> import tightrope as tr
        >>> tr.SVRFCSOA().for_rows(n=1000, batch_size=10).refresh_every
        100

    References:
        E. Hazan, H. Luo: Variance-Reduced and Projection-Free Stochastic Optimization, ICML 2016.
        Z. Akhtar, A. S. Bedi, K. Rajawat: Conservative Stochastic Optimization with Expectation Constraints,
        arXiv:2008.05758.
        A. Chambolle, T. Pock: A First-Order Primal-Dual Algorithm for Convex Problems, JMIV 2011 (the look-ahead).
    """

    dual_scale: Any = 1.0
    upsilon: Any = 0.0
    r: Any = 0.0
    refresh_every: int | None = static(default=None)

    name = "svrf-csoa"
    tuned = ("dual_scale",)
    facts = Facts(margin="upsilon", margin_power=0.0)
    needs = frozenset({"lmo", "rows"})
    cost = Cost(samples=1, gradients=2, lmos=1)

    @property
    def steps(self) -> "_Refreshes":
        """With what refreshes cost."""
        return _Refreshes(self)

    def for_rows(self, n: int, batch_size: int) -> "SVRFCSOA":
        """An epoch visits every row about once."""
        return replace(self, refresh_every=self.refresh_every or max(1, n // batch_size))

    def init(self, problem: Problem, x: Tree, lam: Array, horizon: Array) -> SVRFCSOAState:
        """Everything that the first refresh will fill in."""
        zero, memory = jnp.zeros((), lam.dtype), problem.domain.lmo_memory(float_dtype(x))
        snap, t = no_snapshot(x, lam), jnp.ones((), jnp.int32)
        return SVRFCSOAState(x, lam, snap, x, lam, zero, zero, zero, memory, t)

    def refresh(self, problem: Problem, state: SVRFCSOAState, data: Tree) -> SVRFCSOAState:
        """A new snapshot, one pass over all rows, and a dual step to match."""
        snap = take_snapshot(problem, state.x_mean, state.lam_mean, data)
        # Constraints may be flat at the start (|x|^2 <= 1 at zero), or the objective: look where it pulls, too.
        vertex = problem.domain.warm_lmo(snap.grad, state.memory)[0]
        _, _, far_grad, far_rows = problem.jacobian(vertex, probe_rows(data))
        first = state.t == 1
        gradient = _largest(state.gradient, norm(snap.grad), jnp.where(first, norm(far_grad), 0))
        jacobian = _largest(state.jacobian, jacobian_norm(snap.rows), jnp.where(first, jacobian_norm(far_rows), 0))
        diameter = jnp.asarray(problem.domain.diameter, state.lam.dtype)
        gamma = self.dual_scale * nonzero(gradient) / nonzero(jacobian**2 * diameter)
        return state._replace(snap=snap, gradient=gradient, jacobian=jacobian, gamma=gamma.astype(state.lam.dtype))

    def step(self, problem: Problem, state: SVRFCSOAState, theta: Tree) -> tuple[SVRFCSOAState, Info]:
        """A step towards the best vertex for the corrected gradient, then a corrected dual step that looks ahead."""
        x, lam, t = state.x, state.lam, state.t.astype(state.lam.dtype)
        seen = correct(problem, state.snap, x, lam, theta)
        s, memory = problem.domain.warm_lmo(seen.gradient, state.memory)
        move = jax.tree.map(lambda a, b: 2 / (t + 2) * (a - b), s, x)
        ahead = seen.value + 2 * correct_slope(problem, state.snap, x, move, theta)
        lam_next = dual_step(lam, ahead, gamma=state.gamma, shrink=state.gamma * self.r, upsilon=self.upsilon)
        share = 6 * t / ((t + 1) * (2 * t + 1))  # t^2 / (1 + 4 + ... + t^2)
        state = state._replace(
            x=add_scaled(x, 1, move), lam=lam_next, x_mean=add_scaled(state.x_mean, share, subtract(x, state.x_mean)),
            lam_mean=state.lam_mean + share * (lam - state.lam_mean), memory=memory, t=state.t + 1,
        )  # fmt: skip
        return state, Info(x, lam, seen.f, seen.h, weight=t**2, record=problem.domain.lmo_record(memory))

    def snapshot(self, state: SVRFCSOAState) -> Snapshot:
        return state.snap


class _Refreshes(Refreshes):
    """A pass each, the vertex to which the objective pulls, and some rows that are looked at there."""

    def batch(self, n: int) -> int:
        """About 64 steps an epoch: a snapshot serves no more steps than it stays near for, at one LMO each."""
        return min(64, max(1, n // 64))

    def looks(self, steps: int, n: int, domain: ConvexSet | None = None) -> Cost:
        return Cost(0, self.number(steps) * (n + probe_size(n)), lmos=self.number(steps))


def _largest(*values: Array) -> Array:
    return functools.reduce(jnp.maximum, values).astype(values[0].dtype)
