"""PFS: Polyak feasible steps, for constraints that are known exactly."""

from math import inf
from typing import Any

import jax
import jax.numpy as jnp

from tightrope.lab.methods.primal.csa import worst
from tightrope.methods.base import Cost, Facts, Info, Method, Rates, State
from tightrope.problem import Problem
from tightrope.tree import Tree, add_scaled, dot, pytree, subtract


@pytree
class PFS(Method):
    """PFS (Hutchinson & Alizadeh): a gradient step, then Polyak's step for the constraint.

    For t = 1..T, on one sample theta_t, with h known without noise and s_t = grad h(x_t)::

        y_t     = x_t - eta grad f(x_t, theta_t)
        x_{t+1} = Proj_X[ y_t - [ h(x_t) + <s_t, y_t - x_t> + rho ]_+ s_t/|s_t|^2 ]

    with eta = eta0/sqrt(T) and rho = rho0/sqrt(T). From a feasible x_1 (give `minimize` an x0) EVERY iterate satisfies
    h(x_t) <= 0 once rho is large enough against eta and at most half the Slater margin; the mean of x_1..x_T has a gap of
    O(T^-1/2). Why: the Polyak step shrinks the distance to {h <= -rho} by a factor, the gradient step adds at most
    eta |grad f|; so h stays below -rho plus a multiple of eta. That takes gradients of f that are bounded, and rho0 above
    a multiple of eta0 |grad f| |grad h|. With rho0 = 0 the iterates leave, unless h is linear.

    Published for one constraint; of several the largest is taken, which is convex too. It has kinks, so it takes more
    margin than a smooth constraint, of which the step misses second-order terms only: for eta0 = 1 and f, h, x of order
    one, rho0 = 0.25 was seen to be enough for one smooth constraint, and 6 for the larger of two. There are no multipliers:
    they stay as they were given. The defaults are ours.

    Args:
        eta0: coefficient of the step size.
        rho0: coefficient of the margin.

    Example:
        >>> from tightrope.lab.methods.primal.pfs import PFS
        >>> PFS(rho0=3.0).rho0
        3.0

    References:
        S. Hutchinson, M. Alizadeh: Constrained Online Convex Optimization with Polyak Feasibility Steps, ICML 2025.
    """

    eta0: Any = 1.0
    rho0: Any = 2.0

    name = "pfs"
    facts = Facts(multipliers=False, published=Rates(gap=0.5, violation=inf), margin="rho0", margin_power=1 / 2)
    needs = frozenset({"project", "exact_constraints"})
    cost = Cost(samples=1, gradients=1, projections=1)
    tuned = ("eta0", "rho0")

    def step(self, problem: Problem, state: State, theta: Tree) -> tuple[State, Info]:
        """Step on the objective, then back to where the linearised constraint is rho below its level."""
        x, lam, _, horizon = state
        root = jnp.sqrt(horizon.astype(lam.dtype))
        (f, h), pull = jax.vjp(lambda point: problem.values(point, theta), x)
        largest, index = worst(h)
        (grad_f,) = pull((jnp.ones_like(f), jnp.zeros_like(h)))
        (s,) = pull((jnp.zeros_like(f), index))
        y = add_scaled(x, -self.eta0 / root, grad_f)
        excess = jnp.maximum(largest + dot(s, subtract(y, x)) + self.rho0 / root, 0)
        square = dot(s, s)
        x_next = problem.domain.project(add_scaled(y, -excess / jnp.where(square > 0, square, 1), s))
        return state.after(x_next, lam), Info(x, lam, f, h, weight=jnp.ones_like(root))
