"""ConEx: a primal-dual method whose dual step extrapolates the linearised constraints."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from tightrope.methods.base import Cost, Facts, Info, Method, Rates, dual_step
from tightrope.problem import Problem
from tightrope.tree import Array, Tree, add_scaled, pytree, subtract


class ConExState(NamedTuple):
    """What the next step needs."""

    x: Tree  # x_t
    lam: Array  # y_t
    x_before: Tree  # x_{t-1}
    ell_before: Array  # l_h(x_{t-1})
    t: Array  # step number, from 0
    horizon: Array  # T


@pytree
class ConEx(Method):
    """ConEx (Boob, Deng & Lan) for convex stochastic problems.

    For t = 0..T-1, on independent samples xi_t and zeta_t::

        l_h(x_t) = h(x_{t-1}, zeta_t) + <grad h(x_{t-1}, zeta_t), x_t - x_{t-1}>
        s_t      = (1 + theta) l_h(x_t) - theta l_h(x_{t-1})
        y_{t+1}  = [ y_t + s_t/tau ]_+
        x_{t+1}  = Proj_X[ x_t - ( grad f(x_t, xi_t) + sum_i y_{i,t+1} grad h_i(x_t, xi_t) )/eta ]

    with eta = eta0 sqrt(T), tau = tau0 sqrt(T) and theta = 1, from y_0 = 0 and x_{-1} = x_0, so that s_0 = h(x_0, zeta_0).
    The constraints are linearised at the point before and extrapolated to the point after. The output is the mean of
    x_1..x_T; gap and violation are O(T^-1/2).

    The published eta and tau have constant terms beside those in sqrt(T), from the smoothness of f and h, and know the
    Lipschitz constants, the noise and a bound on |y*|; here two coefficients stand for them, and the defaults suit f, h
    and x of order one. Weights and steps are those for problems without strong convexity.

    Args:
        eta0: coefficient of eta; 1/eta is the primal step.
        tau0: coefficient of tau; 1/tau is the dual step.

    Example:
        >>> from tightrope.lab.methods.primal_dual.conex import ConEx
        >>> ConEx(tau0=0.5).tau0
        0.5

    References:
        D. Boob, Q. Deng, G. Lan: Stochastic First-Order Methods for Convex and Nonconvex Functional Constrained
        Optimization, Mathematical Programming 197, 2023.
    """

    eta0: Any = 1.0
    tau0: Any = 1.0

    name = "conex"
    facts = Facts(positive=("eta0", "tau0"), published=Rates(gap=0.5, violation=0.5))
    needs = frozenset({"project"})
    cost = Cost(samples=2, gradients=2, projections=1)  # h is differentiated on zeta, along one direction
    tuned = ("eta0", "tau0")

    def init(self, problem: Problem, x: Tree, lam: Array, horizon: Array) -> ConExState:
        """x_0 and y_0; the first step takes l_h(x_{-1}) = l_h(x_0) whatever is here."""
        return ConExState(x, lam, x, jnp.zeros_like(lam), jnp.zeros((), jnp.int32), horizon)

    def step(self, problem: Problem, state: ConExState, theta: Tree) -> tuple[ConExState, Info]:
        """Extrapolate the constraints, step in the dual, then in the primal with the new multipliers."""
        x, lam, x_before, ell_before, t, horizon = state
        xi, zeta = theta  # the new multipliers have seen zeta, so the gradient must not
        root = jnp.sqrt(horizon.astype(lam.dtype))
        moved = subtract(x, x_before)
        h_before, along = jax.jvp(lambda point: problem.constraint_values(point, zeta), (x_before,), (moved,))
        ell = h_before + along
        s = 2 * ell - jnp.where(t == 0, ell, ell_before)  # theta = 1
        lam_next = dual_step(lam, s, gamma=1 / (self.tau0 * root), shrink=0, upsilon=0)
        f, h, g = problem.value_and_gradient(x, lam_next, xi)
        x_next = problem.domain.project(add_scaled(x, -1 / (self.eta0 * root), g))
        info = Info(x_next, lam_next, f, h, weight=jnp.ones_like(root))
        return ConExState(x_next, lam_next, x, ell, t + 1, horizon), info
