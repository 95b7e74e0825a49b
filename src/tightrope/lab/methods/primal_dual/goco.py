"""G-OCO: drift plus penalty, a virtual queue for every constraint."""

from typing import Any

import jax.numpy as jnp

from tightrope.methods.base import Cost, Facts, Info, Method, Rates, State, dual_step, look_ahead
from tightrope.problem import Problem
from tightrope.tree import Tree, add_scaled, pytree


@pytree
class GOCO(Method):
    """G-OCO (Yu, Neely & Wei), with a margin also its tightened form, G-OCO-T.

    For t = 1..T, on one sample theta_t::

        d(t)     = V grad f(x(t), theta_t) + sum_k Q_k(t) grad h_k(x(t), theta_t)
        x(t+1)   = Proj_X[ x(t) - d(t)/(2 alpha) ]
        Q_k(t+1) = max{ Q_k(t) + h_k(x(t), theta_t) + rho + <grad h_k(x(t), theta_t), x(t+1) - x(t)>, 0 }

    with V = v0 sqrt(T), alpha = alpha0 T, rho = margin0/sqrt(T), from Q(1) = 0. The state keeps lambda = Q/V, which
    estimates the Lagrange multipliers; in it the steps are V/(2 alpha) for x and 1/V for lambda. The output is the
    mean of x(1)..x(T): without a margin its optimality gap and its constraint violation are both O(T^-1/2) in
    expectation; a margin0 that is large enough, with rho at most half the Slater margin, makes the violation zero.

    Args:
        v0: coefficient of V, the weight of the objective against the queues.
        alpha0: coefficient of alpha, the weight of the proximal term.
        margin0: coefficient of the margin; 0 gives the method as published.

    Example:
        >>> import tightrope as tr
        >>> tr.GOCO(v0=0.5, alpha0=2.5).alpha0
        2.5

    References:
        H. Yu, M. J. Neely, X. Wei: Online Convex Optimization with Stochastic Constraints, NeurIPS 2017.
    """

    v0: Any = 1.0
    alpha0: Any = 1.0
    margin0: Any = 0.0

    name = "g-oco"
    facts = Facts(
        positive=("v0", "alpha0"), published=Rates(gap=0.5, violation=0.5), margin="margin0", margin_power=1 / 2
    )
    needs = frozenset({"project"})
    cost = Cost(samples=1, gradients=1, projections=1)
    tuned = ("v0", "alpha0")

    def step(self, problem: Problem, state: State, theta: Tree) -> tuple[State, Info]:
        """A primal step, then the queues, which look along it on the same sample."""
        x, lam, _, horizon = state
        root = jnp.sqrt(horizon.astype(lam.dtype))
        V, rho = self.v0 * root, self.margin0 / root
        f, h, g = problem.value_and_gradient(x, lam, theta)
        x_next = problem.domain.project(add_scaled(x, -V / (2 * self.alpha0 * horizon), g))
        ahead = look_ahead(problem, x, x_next, h, theta)
        lam_next = dual_step(lam, ahead, gamma=1 / V, shrink=0, upsilon=rho)
        return state.after(x_next, lam_next), Info(x, lam, f, h, weight=jnp.ones_like(V))
