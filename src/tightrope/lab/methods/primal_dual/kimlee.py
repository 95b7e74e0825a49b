"""Kim and Lee's drift plus penalty with a margin that fades: zero violation without a horizon."""

from math import inf
from typing import Any

import jax.numpy as jnp

from tightrope.methods.base import Cost, Facts, Info, Method, Rates, State, look_ahead
from tightrope.problem import Problem
from tightrope.tree import Tree, add_scaled, pytree


@pytree
class KimLee(Method):
    """Pessimistic drift plus penalty at any time (after Kim & Lee).

    At step t, on one sample theta_t::

        d(t)     = V_t grad f(x(t), theta_t) + sum_k Q_k(t) grad h_k(x(t), theta_t)
        x(t+1)   = Proj_X[ x(t) - d(t)/(2 alpha_t) ]
        Q_k(t+1) = max{ Q_k(t) + h_k(x(t), theta_t) + rho_t + <grad h_k(x(t), theta_t), x(t+1) - x(t)>, 0 }

    with V_t = v0 sqrt(t), alpha_t = alpha0 t, rho_t = margin0/sqrt(t), from Q(1) = 0. The state keeps lambda = Q/V_t.
    The output is the mean of x(1), x(2), ... with equal weights, because the theorem is on sums over steps: the regret
    is O(sqrt(T)), and the summed violation is zero after a fixed number of steps, for every T beyond it.

    The update is a reconstruction: the orders of V_t, alpha_t and rho_t are published, the place of the margin is that
    of G-OCO-T, and the constants are ours. Summing the queues shows what margin0 must cover: the sum of h over T steps
    is at most Q(T+1) - 2 margin0 sqrt(T) plus what the look-ahead adds, and Q(T+1) is about lambda* v0 sqrt(T).

    Args:
        v0: coefficient of V, the weight of the objective against the queues.
        alpha0: coefficient of alpha, the weight of the proximal term.
        margin0: coefficient of the margin; 0 gives G-OCO at any time.

    Example:
        >>> from tightrope.lab.methods.primal_dual.kimlee import KimLee
        >>> KimLee().anytime
        True

    References:
        Y. Kim, D. Lee: Online Convex Optimization with Stochastic Constraints: Zero Constraint Violation and Bandit
        Feedback, arXiv:2301.11267.
    """

    v0: Any = 1.0
    alpha0: Any = 0.5
    margin0: Any = 2.0

    name = "kim-lee"
    facts = Facts(
        positive=("v0", "alpha0"),
        published=Rates(
            gap=0.5, violation=inf, proof="of the published method; the place of the margin is reconstructed"
        ),
        margin="margin0",
        margin_power=1 / 2,
    )
    needs = frozenset({"project"})
    cost = Cost(samples=1, gradients=1, projections=1)
    tuned = ("v0", "alpha0", "margin0")
    anytime = True

    def step(self, problem: Problem, state: State, theta: Tree) -> tuple[State, Info]:
        """A primal step, then the queues, which look along it on the same sample."""
        x, lam, t, _ = state
        number = t.astype(lam.dtype)
        root = jnp.sqrt(number)
        V, V_next = self.v0 * root, self.v0 * jnp.sqrt(number + 1)
        f, h, g = problem.value_and_gradient(x, lam, theta)
        x_next = problem.domain.project(add_scaled(x, -V / (2 * self.alpha0 * number), g))
        ahead = look_ahead(problem, x, x_next, h, theta)
        Q_next = jnp.maximum(V * lam + ahead + self.margin0 / root, 0)
        return state.after(x_next, Q_next / V_next), Info(x, lam, f, h)
