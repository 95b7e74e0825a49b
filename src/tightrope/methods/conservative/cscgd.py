"""CSCGD: CSOA with tracked values of the constraints, after the method for compositional problems."""

from math import inf
from typing import Any, NamedTuple

import jax.numpy as jnp

from tightrope.methods.base import Cost, Info, Method, Rates, dual_step, refuse_overshoot
from tightrope.methods.schedules import Power
from tightrope.problem import Problem
from tightrope.tree import Array, Tree, add_scaled, pytree


class CSCGDState(NamedTuple):
    """What the next step needs."""

    x: Tree  # x_t
    lam: Array  # lambda_t
    z: Array  # z_t, the tracked constraints
    t: Array  # step number, from 1
    horizon: Array  # T


@pytree
class CSCGD(Method):
    """CSCGD (Thomdapu & Rajawat), where the outer functions are the identity: CSOA plus value tracking.

    For t = 1..T, on one sample theta_t::

        z_{t+1}      = (1 - beta) z_t + beta h(x_t, theta_t),      z_2 = h(x_1, theta_1)
        x_{t+1}      = Proj_X[ x_t - eta ( grad f(x_t, theta_t) + sum_i lambda_{i,t} grad h_i(x_t, theta_t) ) ]
        lambda_{t+1} = [ (1 - eta^2 delta) lambda_t + eta ( z_{t+1} + upsilon 1 ) ]_+

    with eta = eta0 T^-3/4, beta = min(beta0 T^-1/2, 1), upsilon = upsilon0 T^-1/4, from lambda_1 = 0. The output is the
    mean of x_1..x_T: gap O(T^-1/4), zero average violation.

    The published method is for nested expectations, f(E g(x)) and l(E q(x)), and tracks the inner ones. This
    library's constraints are E h(x, theta) with nothing around, so the tracked value is that of h, and what is left of
    the method is this. Reconstructed from its abstract and its family; the coefficients are ours.

    Args:
        eta0: coefficient of the step size.
        beta0: coefficient of the tracker's step; from sqrt(T) on it does not track and the method is CSOA.
        delta: regularisation of the multipliers.
        upsilon0: coefficient of the tightening.

    Example:
        >>> from tightrope.methods.conservative.cscgd import CSCGD
        >>> CSCGD(beta0=4.0).beta0
        4.0

    References:
        S. T. Thomdapu, Harshvardhan, K. Rajawat: Stochastic Compositional Gradient Descent under Compositional Constraints,
        arXiv:2012.09400.
    """

    eta0: Any = 4.0
    beta0: Any = 4.0
    delta: Any = 0.01
    upsilon0: Any = 0.25

    name = "cscgd"
    needs = frozenset({"project"})
    cost = Cost(samples=1, gradients=1, projections=1)
    published = Rates(gap=0.25, violation=inf, proof="of the published method; this is reconstructed from its abstract")
    tuned = ("eta0", "upsilon0", "beta0")
    margin = "upsilon0"
    margin_power = 1 / 4

    def init(self, problem: Problem, x: Tree, lam: Array, horizon: Array) -> CSCGDState:
        """x_1 and lambda_1; the first step takes its sample for z whatever is here."""
        return CSCGDState(x, lam, jnp.zeros_like(lam), jnp.ones((), jnp.int32), horizon)

    def step(self, problem: Problem, state: CSCGDState, theta: Tree) -> tuple[CSCGDState, Info]:
        """CSOA's step, with the tracked constraints in the dual."""
        x, lam, z, t, horizon = state
        eta, upsilon = Power(self.eta0, 0.75)(t, horizon), Power(self.upsilon0, 0.25)(t, horizon)
        beta = jnp.where(t == 1, 1, jnp.minimum(Power(self.beta0, 0.5)(t, horizon), 1))
        f, h, g = problem.value_and_gradient(x, lam, theta)
        z_next = z + beta * (h - z)
        x_next = problem.domain.project(add_scaled(x, -eta, g))
        lam_next = dual_step(lam, z_next, gamma=eta, shrink=eta**2 * self.delta, upsilon=upsilon)
        info = Info(x, lam, f, h, weight=jnp.ones_like(eta))
        return CSCGDState(x_next, lam_next, z_next, t + 1, horizon), info

    def check(self, horizon: int) -> None:
        """The dual step must not overshoot: eta^2 delta < 1."""
        shrink = float(self.eta0**2 * self.delta) / horizon**1.5
        refuse_overshoot(self, "eta^2 delta", shrink, f"at {horizon:,} steps", "eta0 or delta")
