"""CSOA: the conservative stochastic optimisation algorithm, with projections."""

from math import inf
from typing import Any

import jax.numpy as jnp

from tightrope.methods.base import Cost, Info, Method, Rates, State, dual_step, refuse_overshoot
from tightrope.methods.schedules import Power
from tightrope.problem import Problem
from tightrope.tree import Tree, add_scaled, pytree, static


@pytree
class CSOA(Method):
    """CSOA (Akhtar, Bedi & Rajawat, algorithm 1).

    For t = 1..T, on one sample theta_t, both updates from the old point::

        x_{t+1}   = Proj_X[ x_t - eta ( grad f(x_t, theta_t) + sum_i lambda_{i,t} grad h_i(x_t, theta_t) ) ]
        lambda_{t+1} = [ (1 - eta^2 delta) lambda_t + s^2 eta ( h(x_t, theta_t) + upsilon 1 ) ]_+

    with eta = eta0/sqrt(T), upsilon = upsilon0/sqrt(T), from lambda_1 = 0. The output is the mean of x_1..x_T: its
    optimality gap is O(T^-1/2), and the average constraint violation is zero in expectation once upsilon0 is large
    enough and upsilon at most half the Slater margin. With `anytime`, eta_t = eta0/sqrt(t) and
    upsilon_t = upsilon0/sqrt(t), and the mean is weighted by eta_t (no proof in the paper; costs a logarithm).

    The defaults suit f, h and x of order one. Summing the dual step shows what upsilon0 must cover: the mean of
    h(x_t, theta_t) is at most lambda_{T+1}/(s^2 eta T) + eta delta/s^2 mean(lambda_t) - upsilon, so upsilon0 has to
    exceed about lambda*/(s^2 eta0).

    Args:
        eta0: coefficient of the step size.
        delta: regularisation of the multipliers, which keeps them bounded.
        upsilon0: coefficient of the tightening; 0 gives the plain regularised saddle-point method.
        dual_scale: s; the dual step is s^2 eta. 1 is the paper's single step.
        anytime: step sizes against t instead of the horizon T.

    Example:
        >>> import tightrope as tr
        >>> tr.CSOA(eta0=0.5, upsilon0=4.0).upsilon0
        4.0

    References:
        Z. Akhtar, A. S. Bedi, K. Rajawat: Conservative Stochastic Optimization with Expectation Constraints,
        arXiv:2008.05758.
    """

    eta0: Any = 1.0
    delta: Any = 0.01
    upsilon0: Any = 2.0
    dual_scale: Any = 1.0
    anytime: bool = static(default=False)

    name = "csoa"
    needs = frozenset({"project"})
    cost = Cost(samples=1, gradients=1, projections=1)
    published = Rates(gap=0.5, violation=inf)
    tuned = ("eta0", "upsilon0")
    margin = "upsilon0"
    margin_power = 1 / 2

    def step(self, problem: Problem, state: State, theta: Tree) -> tuple[State, Info]:
        """One Jacobi step of the regularised saddle-point problem."""
        x, lam, t, horizon = state
        eta = Power(self.eta0, 0.5, self.anytime)(t, horizon)
        upsilon = Power(self.upsilon0, 0.5, self.anytime)(t, horizon)
        f, h, g = problem.value_and_gradient(x, lam, theta)
        x_next = problem.domain.project(add_scaled(x, -eta, g))
        lam_next = dual_step(lam, h, gamma=self.dual_scale**2 * eta, shrink=eta**2 * self.delta, upsilon=upsilon)
        info = Info(x, lam, f, h, weight=eta if self.anytime else jnp.ones_like(eta))
        return state.after(x_next, lam_next), info

    def check(self, horizon: int) -> None:
        """The dual step must not overshoot: eta^2 delta < 1."""
        shrink = float(self.eta0**2 * self.delta) / (1 if self.anytime else horizon)
        where = "at the first step" if self.anytime else f"at {horizon:,} steps"
        refuse_overshoot(self, "eta^2 delta", shrink, where, "eta0 or delta")
