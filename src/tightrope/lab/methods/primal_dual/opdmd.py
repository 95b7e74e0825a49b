"""Online primal-dual mirror descent: drift plus penalty with a Bregman divergence."""

from typing import Any

import jax
import jax.numpy as jnp

from tightrope.lab.methods.primal_dual.mirror import bregman_step
from tightrope.methods.base import Cost, Facts, Info, Method, Rates, State, dual_step, look_ahead
from tightrope.problem import Problem
from tightrope.sets import Simplex
from tightrope.tree import Array, Tree, pytree


@pytree
class OPDMD(Method):
    """Online primal-dual mirror descent (Wei, Yu & Neely): G-OCO with a divergence that suits the set.

    For t = 1..T, on one sample theta_t::

        d(t)     = V grad f(x(t), theta_t) + sum_k Q_k(t) grad h_k(x(t), theta_t)
        x(t+1)   = argmin over x in X of <d(t), x> + alpha D(x, y(t))
        Q_k(t+1) = max{ Q_k(t) + h_k(x(t), theta_t) + <grad h_k(x(t), theta_t), x(t+1) - x(t)>, 0 }

    with V = v0 sqrt(T), alpha = alpha0 T, from Q(1) = 0. On a `Simplex` of n coordinates D is the Kullback-Leibler
    divergence, and y(t) = (1 - 1/T) x(t) + (1/T) centre: mixing keeps D bounded. On other sets D(x, y) = |x - y|^2/2
    and y(t) = x(t), which is G-OCO with half its alpha0. The state keeps lambda = Q/V. The output is the mean of
    x(1)..x(T): gap and violation are O(T^-1/2), on the simplex with a factor log(n) only, and a multiplier has to exist
    but no strictly feasible point. The defaults are ours, for f, h and x of order one.

    Args:
        v0: coefficient of V, the weight of the objective against the queues.
        alpha0: coefficient of alpha, the weight of the divergence.

    Example:
        >>> from tightrope.lab.methods.primal_dual.opdmd import OPDMD
        >>> OPDMD(alpha0=2.0).alpha0
        2.0

    References:
        X. Wei, H. Yu, M. J. Neely: Online Primal-Dual Mirror Descent under Stochastic Constraints, Proceedings of the
        ACM on Measurement and Analysis of Computing Systems, 2020, arXiv:1908.00305.
    """

    v0: Any = 1.0
    alpha0: Any = 1.0

    name = "opdmd"
    facts = Facts(positive=("v0", "alpha0"), published=Rates(gap=0.5, violation=0.5))
    needs = frozenset({"project"})
    cost = Cost(samples=1, gradients=1, projections=1)
    tuned = ("v0", "alpha0")

    def step(self, problem: Problem, state: State, theta: Tree) -> tuple[State, Info]:
        """A mirror step from the mixed point, then the queues, which look along it on the same sample."""
        x, lam, _, horizon = state
        T = horizon.astype(lam.dtype)
        V = self.v0 * jnp.sqrt(T)
        f, h, g = problem.value_and_gradient(x, lam, theta)
        mixed = _mix(problem.domain.radius, x, 1 / T) if isinstance(problem.domain, Simplex) else x
        x_next = bregman_step(problem.domain, mixed, g, V / (self.alpha0 * T))
        ahead = look_ahead(problem, x, x_next, h, theta)
        lam_next = dual_step(lam, ahead, gamma=1 / V, shrink=0, upsilon=0)
        return state.after(x_next, lam_next), Info(x, lam, f, h)


def _mix(radius: Any, x: Tree, share: Array) -> Tree:
    """x with a share of the simplex's centre."""
    size = sum(leaf.size for leaf in jax.tree.leaves(x))
    return jax.tree.map(lambda v: (1 - share) * v + share * jnp.asarray(radius, v.dtype) / size, x)
