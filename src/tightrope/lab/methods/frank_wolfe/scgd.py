"""SCGD: Frank-Wolfe on a running average of sampled gradients."""

from typing import Any

import jax.numpy as jnp

from tightrope.lab.methods.frank_wolfe.osfw import Tracking
from tightrope.methods.base import Cost, Facts, Info, Method, Rates
from tightrope.problem import Problem
from tightrope.tree import Array, Tree, add_scaled, pytree, subtract


@pytree
class SCGD(Method):
    """Stochastic conditional gradient descent (Mokhtari, Hassani & Karbasi): momentum, one linear minimisation a step.

    For t = 0, 1, ..., on one sample theta_t::

        d_t     = (1 - rho_t) d_{t-1} + rho_t grad f(x_t, theta_t),        d_{-1} = 0
        s_t     = argmin over s in X of <d_t, s>
        x_{t+1} = x_t + gamma_t (s_t - x_t)

    with rho_t = rho0/(t + 8)^{2/3} and gamma_t = gamma0/(t + 8), both capped at 1. The average forgets slowly enough for
    the noise to fade and fast enough to follow x_t, so no batch has to grow. The output is the last iterate. For a convex
    smooth F its gap is O(t^-1/3) in expectation; the proof has gamma_t = 1/(t + 1), the step here is the one used in
    practice. No horizon is needed.

    It knows no constraints E h <= 0; `tr.penalised` moves them into the objective.

    Args:
        gamma0: coefficient of the Frank-Wolfe step.
        rho0: coefficient of the weight of a new gradient.

    Example:
        >>> from tightrope.lab.methods.frank_wolfe.scgd import SCGD
        >>> SCGD(gamma0=1.0).rho0
        4.0

    References:
        A. Mokhtari, H. Hassani, A. Karbasi: Stochastic Conditional Gradient Methods: From Convex Minimization to
        Submodular Maximization, JMLR 21 (2020).
    """

    gamma0: Any = 2.0
    rho0: Any = 4.0

    name = "scgd"
    needs = frozenset({"lmo", "unconstrained"})
    cost = Cost(samples=1, gradients=1, lmos=1)
    facts = Facts(output="last", published=Rates(gap=1 / 3, proof="with steps 1/(t + 1)"))
    tuned = ("gamma0", "rho0")
    anytime = True

    def init(self, problem: Problem, x: Tree, lam: Array, horizon: Array) -> Tracking:
        """x_0, and no gradient yet."""
        return Tracking.begin(problem, x, lam)

    def step(self, problem: Problem, state: Tracking, theta: Tree) -> tuple[Tracking, Info]:
        """Average the gradient, move towards the vertex it points at."""
        x, lam, later = state.x, state.lam, state.t.astype(state.lam.dtype) + 7  # the state counts from 1: t + 8
        rho, gamma = jnp.minimum(self.rho0 / later ** (2 / 3), 1), jnp.minimum(self.gamma0 / later, 1)
        f, h, g = problem.value_and_gradient(x, lam, theta)
        d = add_scaled(state.d, rho, subtract(g, state.d))
        after, record = state.towards(problem, d, gamma, lam, d)
        return after, Info(x, lam, f, h, record=record)
