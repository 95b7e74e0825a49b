"""Affine-FW: Frank-Wolfe for affine constraints that are known, by a penalty that hardens step by step."""

from typing import Any

import jax
import jax.numpy as jnp

from tightrope.lab.methods.frank_wolfe.osfw import Tracking
from tightrope.lab.methods.primal.storm import track_gradient
from tightrope.methods.base import Cost, Facts, Info, Method, Rates
from tightrope.problem import Problem
from tightrope.tree import Array, Tree, add_scaled, pytree


@pytree
class AffineFW(Method):
    """Projection-free method for affine constraints (Akhtar & Rajawat): homotopy smoothing and a gradient tracker.

    For t = 1, 2, ..., the same sample theta_t evaluated at x_t and at x_{t-1}, with h(x) = A x - b known::

        d_t     = grad f(x_t, theta_t) + (1 - rho_t) ( d_{t-1} - grad f(x_{t-1}, theta_t) ),        rho_1 = 1
        v_t     = d_t + (1/mu_t) A' [h(x_t)]_+
        s_t     = argmin over s in X of <v_t, s>
        x_{t+1} = x_t + eta_t (s_t - x_t)

    with eta_t = 2/(t + 1), rho_t = rho0/t capped at 1, mu_t = mu0/sqrt(t + 1). The second term of v_t is the gradient of
    the squared distance of A x to {y <= b} over 2 mu_t: the indicator of the constraints, smoothed less and less. The
    output is the last iterate. For affine h its gap and its violation are O(t^-1/2) in expectation. Other convex h are
    linearised at x_t; the penalty stays convex, but nothing is proven. [h(x_t)]_+ / mu_t are reported as multipliers.

    The constraints have to be known, `Problem(..., exact_constraints=...)`. The orders of the steps are the paper's;
    their constants are ours.

    Args:
        mu0: coefficient of the smoothing; smaller is a harder penalty.
        rho0: coefficient of the tracker's forgetting.

    Example:
        >>> from tightrope.lab.methods.frank_wolfe.affinefw import AffineFW
        >>> AffineFW(mu0=0.5).rho0
        1.0

    References:
        Z. Akhtar, K. Rajawat: Momentum based Projection-free Stochastic Optimization under Affine Constraints, ACC 2021.
        F. Locatello, A. Yurtsever, O. Fercoq, V. Cevher: Stochastic Frank-Wolfe for Composite Convex Minimization,
        NeurIPS 2019 (the smoothing).
    """

    mu0: Any = 1.0
    rho0: Any = 1.0

    name = "affine-fw"
    facts = Facts(positive=("mu0",), output="last", published=Rates(gap=0.5, violation=0.5))
    needs = frozenset({"lmo", "exact_constraints"})
    cost = Cost(samples=1, gradients=2, lmos=1)
    tuned = ("mu0", "rho0")
    anytime = True

    def init(self, problem: Problem, x: Tree, lam: Array, horizon: Array) -> Tracking:
        """x_1, and nothing tracked; multipliers, [h(x_{t-1})]_+ / mu_{t-1}, follow from x alone."""
        return Tracking.begin(problem, x, lam)

    def step(self, problem: Problem, state: Tracking, theta: Tree) -> tuple[Tracking, Info]:
        """Track the objective's gradient, add the penalty's, move towards the best vertex."""
        x, t = state.x, state.t.astype(state.lam.dtype)
        rho = jnp.where(t == 1, 1, jnp.minimum(self.rho0 / t, 1))
        none = jnp.zeros_like(state.lam)  # the tracker is for the objective alone
        f, _, _, d = track_gradient(problem, x, state.x_before, state.d, rho, none, theta)
        h, pull = jax.vjp(lambda y: problem.constraint_values(y, theta), x)
        lam = jnp.maximum(h, 0) * jnp.sqrt(t + 1) / self.mu0
        after, record = state.towards(problem, add_scaled(d, 1, pull(lam)[0]), 2 / (t + 1), lam, d)
        return after, Info(x, lam, f, h, record=record)
