"""Madavan and Bose's primal-dual subgradient method: the dual step sees the new point on a new sample."""

from typing import Any

import jax.numpy as jnp

from tightrope.methods.base import Cost, Facts, Info, Method, Rates, State, dual_step
from tightrope.problem import Problem
from tightrope.tree import Tree, add_scaled, pytree


@pytree
class MadavanBose(Method):
    """The primal-dual subgradient method of Madavan & Bose, made for risk measures such as CVaR.

    For k = 1..K, on two independent samples w_k and w'_k::

        x_{k+1} = Proj_X[ x_k - gamma ( grad f(x_k, w_k) + sum_i z_{i,k} grad h_i(x_k, w_k) ) ]
        z_{k+1} = [ z_k + gamma h(x_{k+1}, w'_k) ]_+

    with gamma = eta0/sqrt(K), from z_1 = 0. x_{k+1} depends on w_k, which is why the dual step needs a sample of its
    own. The output is the mean of x_2..x_{K+1}, the points at which h was looked at: its gap and its violation are both
    O(K^-1/2) in expectation, for functions with kinks too, and no bound on the multipliers has to be known. A step
    takes two samples. `tightrope.lift_cvar` turns constraints on the mean into constraints on CVaR.

    Args:
        eta0: coefficient of the step size.

    Example:
        >>> from tightrope.lab.methods.primal_dual.madavanbose import MadavanBose
        >>> MadavanBose(eta0=0.5).eta0
        0.5

    References:
        A. N. Madavan, S. Bose: A Stochastic Primal-Dual Method for Optimization with Conditional Value at Risk
        Constraints, Journal of Optimization Theory and Applications, 2021, arXiv:1908.01086.
    """

    eta0: Any = 1.0

    name = "madavan-bose"
    needs = frozenset({"project"})
    cost = Cost(samples=2, gradients=1, projections=1)
    facts = Facts(published=Rates(gap=0.5, violation=0.5))
    tuned = ("eta0",)

    def step(self, problem: Problem, state: State, theta: Tree) -> tuple[State, Info]:
        """A primal step on the first sample, a dual step at the new point on the second."""
        x, lam, _, horizon = state
        gamma = self.eta0 / jnp.sqrt(horizon.astype(lam.dtype))
        f, _, g = problem.value_and_gradient(x, lam, theta[0])
        x_next = problem.domain.project(add_scaled(x, -gamma, g))
        h = problem.constraint_values(x_next, theta[1])
        lam_next = dual_step(lam, h, gamma=gamma, shrink=0, upsilon=0)
        return state.after(x_next, lam_next), Info(x_next, lam_next, f, h)
