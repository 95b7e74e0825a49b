"""Robust and mirror-descent stochastic approximation, for one objective and for a saddle point."""

from typing import Any

import jax
import jax.numpy as jnp

from tightrope.methods.base import Cost, Facts, Info, Method, Rates, State
from tightrope.problem import Problem
from tightrope.sets import ConvexSet, Simplex
from tightrope.sets.ball import project_simplex
from tightrope.tree import Array, Tree, add_scaled, pytree, ravel


def bregman_step(domain: ConvexSet, x: Tree, gradient: Tree, step: Any) -> Tree:
    """argmin over y in X of step <gradient, y> + D(y, x), D the divergence that suits the set.

    On a `Simplex` D is the Kullback-Leibler divergence, and the step multiplies every coordinate by
    exp(-step gradient). On every other set D is |y - x|^2/2, and the step is a projected gradient step.
    """
    if not isinstance(domain, Simplex):
        return domain.project(add_scaled(x, -step, gradient))
    v, back = ravel(x)
    # a coordinate that was rounded to zero could never grow again
    logits = jnp.log(jnp.maximum(v, jnp.finfo(v.dtype).tiny)) - step * ravel(gradient)[0]
    return back(jnp.asarray(domain.radius, v.dtype) * jax.nn.softmax(logits))


@pytree
class RobustSA(Method):
    """Robust stochastic approximation (Nemirovski, Juditsky, Lan & Shapiro): long steps and an average.

    For t = 1..T::

        x_{t+1} = Proj_X[ x_t - gamma grad f(x_t, theta_t) ],     gamma = eta0 D/sqrt(T),

    D the diameter of X. The output is the mean of x_1..x_T. With eta0 = theta/M and M^2 >= E |grad f|^2, its gap is at
    most max(theta, 1/theta) D M/sqrt(T): a wrong guess of M costs a factor, not the rate. It knows no constraints
    E h <= 0; `tightrope.penalised` puts them into the objective.

    Args:
        eta0: theta/M. The default is ours: gradients of order one.

    Example:
        >>> from tightrope.lab.methods.primal_dual.mirror import RobustSA
        >>> RobustSA().eta0
        1.0

    References:
        A. Nemirovski, A. Juditsky, G. Lan, A. Shapiro: Robust Stochastic Approximation Approach to Stochastic
        Programming, SIAM Journal on Optimization 19, 2009.
    """

    eta0: Any = 1.0

    name = "rsa"
    needs = frozenset({"project", "unconstrained"})
    cost = Cost(samples=1, gradients=1, projections=1)
    facts = Facts(published=Rates(gap=0.5))
    tuned = ("eta0",)

    def step(self, problem: Problem, state: State, theta: Tree) -> tuple[State, Info]:
        """A projected gradient step."""
        x, lam, _, horizon = state
        root = jnp.sqrt(horizon.astype(lam.dtype))
        gamma = self.eta0 * jnp.asarray(problem.domain.diameter, lam.dtype) / root
        f, h, g = problem.value_and_gradient(x, lam, theta)
        x_next = problem.domain.project(add_scaled(x, -gamma, g))
        return state.after(x_next, lam), Info(x, lam, f, h)


@pytree
class MirrorSA(Method):
    """Mirror-descent stochastic approximation of the saddle point (Nemirovski, Juditsky, Lan & Shapiro).

    For t = 1..T, both steps from the old point::

        g_t       = grad f(x_t, theta_t) + sum_i lambda_{i,t} grad h_i(x_t, theta_t)
        x_{t+1}   = argmin over x in X of eta <g_t, x> + D(x, x_t)
        lambda_{t+1} = Proj[ lambda_t + gamma h(x_t, theta_t) ]  on  { lambda >= 0, sum_i lambda_i <= dual_radius }

    with eta = eta0/sqrt(T), gamma = gamma0/sqrt(T), from lambda_1 = 0. D is the Kullback-Leibler divergence where X is
    a `Simplex`, which replaces the dimension in the constants by its logarithm, and |x - x_t|^2/2 elsewhere. The output
    is the mean of x_1..x_T. The theory is that of a saddle point on a compact set: gap and violation are O(T^-1/2) if
    dual_radius exceeds the sum of the optimal multipliers, by one, say. Smaller ones solve another problem.

    The paper's joint step is eta = 2 gamma_t D_x^2 and gamma = 2 gamma_t D_y^2, where D_x^2 and D_y^2 are half the
    squared sizes of the two sets (log n for the Kullback-Leibler divergence) and gamma_t = 2/(M sqrt(5 T)),
    M^2 = 2 D_x^2 M_x^2 + 2 D_y^2 M_y^2. The defaults are ours.

    Args:
        eta0: coefficient of the primal step.
        gamma0: coefficient of the dual step.
        dual_radius: bound on the sum of the multipliers.

    Example:
        >>> from tightrope.lab.methods.primal_dual.mirror import MirrorSA
        >>> MirrorSA(dual_radius=5.0).dual_radius
        5.0

    References:
        A. Nemirovski, A. Juditsky, G. Lan, A. Shapiro: Robust Stochastic Approximation Approach to Stochastic
        Programming, SIAM Journal on Optimization 19, 2009.
    """

    eta0: Any = 1.0
    gamma0: Any = 1.0
    dual_radius: Any = 10.0

    name = "mirror-sa"
    facts = Facts(positive=("dual_radius",), published=Rates(gap=0.5, violation=0.5))
    needs = frozenset({"project"})
    cost = Cost(samples=1, gradients=1, projections=1)
    tuned = ("eta0", "gamma0")

    def step(self, problem: Problem, state: State, theta: Tree) -> tuple[State, Info]:
        """One joint step of mirror descent."""
        x, lam, _, horizon = state
        root = jnp.sqrt(horizon.astype(lam.dtype))
        f, h, g = problem.value_and_gradient(x, lam, theta)
        x_next = bregman_step(problem.domain, x, g, self.eta0 / root)
        lam_next = _bounded(lam + self.gamma0 / root * h, self.dual_radius)
        return state.after(x_next, lam_next), Info(x, lam, f, h)


def _bounded(lam: Array, radius: Any) -> Array:
    """The nearest point with no negative entry and a sum of at most radius."""
    positive = jnp.maximum(lam, 0)
    if lam.shape[0] == 0:  # nothing to project
        return positive
    return jnp.where(jnp.sum(positive) <= radius, positive, project_simplex(lam, radius))
