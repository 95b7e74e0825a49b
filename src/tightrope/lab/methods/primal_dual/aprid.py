"""APriD: an adaptive primal-dual method, with Adam's scaling of the gradient."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from tightrope.methods.base import Cost, Facts, Info, Method, Rates, dual_step
from tightrope.problem import Problem
from tightrope.sets import Box, ConvexSet, LinfBall
from tightrope.tree import Array, Tree, add_scaled, dot, pytree, ravel


class APriDState(NamedTuple):
    """What the next step needs."""

    x: Tree  # x_k
    lam: Array  # z_k
    m: Tree  # momentum
    v: Tree  # tracked squares of the gradient
    v_max: Tree  # the largest of each so far, vhat
    t: Array  # step number k, from 1
    horizon: Array  # K


@pytree
class APriD(Method):
    """APriD (Yan & Xu).

    For k = 1..K, on independent samples theta_k and xi_k, squares and roots by coordinate::

        u_k     = grad f(x_k, theta_k) + sum_i z_{i,k} grad h_i(x_k, theta_k)
        m_k     = beta1 m_{k-1} + (1 - beta1) u_k
        v_k     = beta2 v_{k-1} + (1 - beta2) u_k^2 / max(1, |u_k|^2/clip)
        vhat_k  = max(v_k, vhat_{k-1})
        x_{k+1} = Proj_X in the metric sqrt(vhat_k) of  x_k - alpha m_k/sqrt(vhat_k)
        z_{k+1} = [ z_k + rho h(x_k, xi_k) ]_+

    with alpha = alpha0/sqrt(K) and rho = rho0/sqrt(K), from zeros. The output is the mean of x_1..x_K with weights
    1 - beta1^(K-k+1); gap and violation are O(K^-1/2).

    In that metric the projection on a box (Box, LinfBall) is clipping. For other sets the metric is not theirs to
    project in, so vhat_k is replaced by its largest coordinate: one adaptive step size for all coordinates, for
    which the Euclidean projection is the right one. beta1, beta2 and clip are the authors' values; alpha0 and rho0
    are ours, for x and multipliers of order one.

    Args:
        alpha0: coefficient of the primal step, in units of x: the gradient's size is divided out.
        rho0: coefficient of the dual step.
        beta1: momentum, below 1.
        beta2: memory of the squares, below 1.
        clip: what |u|^2 is cut to in the squares.

    Example:
        >>> from tightrope.lab.methods.primal_dual.aprid import APriD
        >>> APriD(alpha0=10.0).beta1
        0.9

    References:
        Y. Yan, Y. Xu: Adaptive Primal-Dual Stochastic Gradient Method for Expectation-Constrained Convex Stochastic
        Programs, Mathematical Programming Computation 14, 2022.
    """

    alpha0: Any = 1.0
    rho0: Any = 1.0
    beta1: Any = 0.9
    beta2: Any = 0.99
    clip: Any = 10.0

    name = "aprid"
    facts = Facts(below_one=("beta1", "beta2"), positive=("clip",), published=Rates(gap=0.5, violation=0.5))
    needs = frozenset({"project"})
    cost = Cost(samples=2, gradients=1, projections=1)
    tuned = ("alpha0", "rho0")

    def init(self, problem: Problem, x: Tree, lam: Array, horizon: Array) -> APriDState:
        """x_1 and z_1; no momentum, no squares."""
        zeros = jax.tree.map(jnp.zeros_like, x)
        return APriDState(x, lam, zeros, zeros, zeros, jnp.ones((), jnp.int32), horizon)

    def step(self, problem: Problem, state: APriDState, theta: Tree) -> tuple[APriDState, Info]:
        """An adaptive primal step on one sample, a plain dual step on the other."""
        x, lam, m, v, v_max, t, horizon = state
        of_primal, of_dual = theta
        root = jnp.sqrt(horizon.astype(lam.dtype))
        f, h, u = problem.value_and_gradient(x, lam, of_primal)
        cut = jnp.maximum(1, dot(u, u) / self.clip)
        m = jax.tree.map(lambda a, b: self.beta1 * a + (1 - self.beta1) * b, m, u)
        v = jax.tree.map(lambda a, b: self.beta2 * a + (1 - self.beta2) * b**2 / cut, v, u)
        v_max = jax.tree.map(jnp.maximum, v_max, v)
        direction = jax.tree.map(_over_root, m, metric(problem.domain, v_max))
        x_next = problem.domain.project(add_scaled(x, -self.alpha0 / root, direction))
        lam_next = dual_step(lam, problem.constraint_values(x, of_dual), gamma=self.rho0 / root, shrink=0, upsilon=0)
        weight = 1 - jnp.asarray(self.beta1, lam.dtype) ** (horizon - t + 1)
        return APriDState(x_next, lam_next, m, v, v_max, t + 1, horizon), Info(x, lam, f, h, weight)


def metric(domain: ConvexSet, v: Tree) -> Tree:
    """v itself where clipping projects in any diagonal metric; its largest coordinate, everywhere, for other sets."""
    if isinstance(domain, Box | LinfBall):
        return v
    largest = jnp.max(ravel(v)[0])
    return jax.tree.map(lambda leaf: jnp.broadcast_to(largest.astype(leaf.dtype), leaf.shape), v)


def _over_root(m: Array, v: Array) -> Array:
    """m/sqrt(v); 0 for v = 0, where no gradient was seen yet."""
    return m / jnp.sqrt(jnp.where(v > 0, v, 1))
