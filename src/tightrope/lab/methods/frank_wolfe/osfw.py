"""1-SFW: Frank-Wolfe with one sample a step and a recursive gradient tracker."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from tightrope.lab.methods.primal.storm import track_gradient
from tightrope.methods.base import Cost, Facts, Info, Method, Rates
from tightrope.problem import Problem
from tightrope.tree import Array, Tree, add_scaled, float_dtype, pytree, subtract


class Tracking(NamedTuple):
    """What the next step needs of a method that tracks a gradient."""

    x: Tree  # x_t
    lam: Array  # of the last step; zero where there are no constraints
    x_before: Tree  # x_{t-1}
    d: Tree  # d_{t-1}, the tracked gradient
    memory: Tree  # of the set's linear minimisation
    t: Array  # step number, from 1

    @classmethod
    def begin(cls, problem: Problem, x: Tree, lam: Array) -> "Tracking":
        """x_1; the first step takes d_1 = g_1 whatever d_0 is."""
        memory = problem.domain.lmo_memory(float_dtype(x))
        return cls(x, lam, x, jax.tree.map(jnp.zeros_like, x), memory, jnp.ones((), jnp.int32))

    def towards(
        self, problem: Problem, slope: Tree, length: Array, lam: Array, d: Tree
    ) -> tuple["Tracking", dict[str, Array]]:
        """A step of this length towards the vertex that is lowest along the slope, and what the trace says of the search."""
        s, memory = problem.domain.warm_lmo(slope, self.memory)
        x_next = add_scaled(self.x, length, subtract(s, self.x))
        return Tracking(x_next, lam, self.x, d, memory, self.t + 1), problem.domain.lmo_record(memory)


@pytree
class OSFW(Method):
    """One-sample stochastic Frank-Wolfe, 1-SFW (Zhang et al.), also known as ORGFW (Xie et al.).

    For t = 1, 2, ..., the same sample theta_t evaluated at x_t and at x_{t-1}::

        d_t     = grad f(x_t, theta_t) + (1 - rho_t) ( d_{t-1} - grad f(x_{t-1}, theta_t) ),        rho_1 = 1
        s_t     = argmin over s in X of <d_t, s>
        x_{t+1} = x_t + eta_t (s_t - x_t)

    with eta_t = eta0/t and rho_t = rho0/(t - 1), both capped at 1; with the defaults these are the papers' steps for a
    convex F. The output is the last iterate, its gap O(t^-1/2) in expectation up to a logarithm, for functions that are
    smooth for every sample. No batch grows and no horizon is needed.

    It knows no constraints E h <= 0; `tr.penalised` moves them into the objective, and FW-CSOA is the same tracker with
    multipliers.

    Args:
        eta0: coefficient of the Frank-Wolfe step.
        rho0: coefficient of the tracker's forgetting.

    Example:
        >>> from tightrope.lab.methods.frank_wolfe.osfw import OSFW
        >>> OSFW(eta0=2.0).rho0
        1.0

    References:
        M. Zhang, Z. Shen, A. Mokhtari, H. Hassani, A. Karbasi: One Sample Stochastic Frank-Wolfe, AISTATS 2020.
        J. Xie, Z. Shen, C. Zhang, B. Wang, H. Qian: Efficient Projection-Free Online Methods with Stochastic Recursive
        Gradient, AAAI 2020.
    """

    eta0: Any = 1.0
    rho0: Any = 1.0

    name = "1-sfw"
    needs = frozenset({"lmo", "unconstrained"})
    cost = Cost(samples=1, gradients=2, lmos=1)
    facts = Facts(output="last", published=Rates(gap=0.5))
    tuned = ("eta0", "rho0")
    anytime = True

    def init(self, problem: Problem, x: Tree, lam: Array, horizon: Array) -> Tracking:
        """x_1, and nothing tracked."""
        return Tracking.begin(problem, x, lam)

    def step(self, problem: Problem, state: Tracking, theta: Tree) -> tuple[Tracking, Info]:
        """Track the gradient, move towards the vertex it points at."""
        x, lam = state.x, state.lam
        t = state.t.astype(lam.dtype)
        rho = jnp.where(t == 1, 1, jnp.minimum(self.rho0 / jnp.maximum(t - 1, 1), 1))
        f, h, _, d = track_gradient(problem, x, state.x_before, state.d, rho, lam, theta)
        after, record = state.towards(problem, d, jnp.minimum(self.eta0 / t, 1), lam, d)
        return after, Info(x, lam, f, h, record=record)
