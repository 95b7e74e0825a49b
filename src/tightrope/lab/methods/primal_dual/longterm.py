"""Long-term constraints: the online saddle-point methods of Mahdavi, Jin & Yang and of Jenatton, Huang & Archambeau."""

from typing import Any

import jax.numpy as jnp

from tightrope.methods.base import Cost, Facts, Info, Method, Powers, Rates, State, dual_step
from tightrope.problem import Problem
from tightrope.tree import Tree, add_scaled, pytree


@pytree
class MahdaviJinYang(Method):
    """Online gradient descent with long-term constraints (Mahdavi, Jin & Yang).

    For t = 1..T, both updates from the old point::

        x_{t+1}   = Proj_X[ x_t - eta ( grad f(x_t, theta_t) + sum_i lambda_{i,t} grad h_i(x_t) ) ]
        lambda_{t+1} = [ (1 - delta eta^2) lambda_t + eta ( h(x_t) + gamma ) ]_+

    with eta = eta0/sqrt(T), gamma = margin0/T^(1/4), from lambda_1 = 0. The output is the mean of x_1..x_T. Without a
    margin the gap is O(T^-1/2) and the violation O(T^-1/4). With a margin0 that is large enough the violation is zero,
    and the gap O(T^-1/4). This is proven for constraints without noise (`exact_constraints`); sampled ones work as
    well.

    The theory's constants, for |x| <= R, |grad| <= G, |h_i| <= D_h and m constraints, with
    a = R sqrt((m + 1) G^2 + 2 m D_h^2): eta0 = R^2/a, delta = 2 (m + 1) G^2 for large T, and
    margin0 = 2 sqrt(F_0 (delta R^2/a + m a/R^2)), where F_0 bounds differences of the objective. They were put together
    from second-hand accounts. The defaults are ours, for f, h and x of order one.

    Args:
        eta0: coefficient of the step size.
        delta: regularisation of the multipliers.
        margin0: coefficient of the margin; 0 gives the plain method.

    Example:
        >>> from tightrope.lab.methods.primal_dual.longterm import MahdaviJinYang
        >>> MahdaviJinYang(margin0=0.5).margin0
        0.5

    References:
        M. Mahdavi, R. Jin, T. Yang: Trading Regret for Efficiency: Online Convex Optimization with Long Term
        Constraints, Journal of Machine Learning Research 13, 2012.
    """

    eta0: Any = 1.0
    delta: Any = 1.0
    margin0: Any = 0.0

    name = "mjy"
    needs = frozenset({"project"})
    cost = Cost(samples=1, gradients=1, projections=1)
    # the rates are those of the plain method
    facts = Facts(
        published=Rates(gap=0.5, violation=0.25, proof="of constraints without noise"),
        margin="margin0",
        margin_power=1 / 4,
    )
    tuned = ("eta0", "delta")

    @property
    def steps(self) -> Powers:
        """From coefficients."""
        return Powers(self)

    def step(self, problem: Problem, state: State, theta: Tree) -> tuple[State, Info]:
        """One step of the regularised saddle-point problem, with the margin in the constraints."""
        x, lam, _, horizon = state
        root = jnp.sqrt(horizon.astype(lam.dtype))
        eta, gamma = self.eta0 / root, self.margin0 / jnp.sqrt(root)
        f, h, g = problem.value_and_gradient(x, lam, theta)
        x_next = problem.domain.project(add_scaled(x, -eta, g))
        lam_next = dual_step(lam, h, gamma=eta, shrink=self.delta * eta**2, upsilon=gamma)
        return state.after(x_next, lam_next), Info(x, lam, f, h)


@pytree
class Jenatton(Method):
    """The adaptive form of Jenatton, Huang & Archambeau: no horizon.

    At step t::

        x_{t+1}   = Proj_X[ x_t - eta_t ( grad f(x_t, theta_t) + sum_i lambda_{i,t} grad h_i(x_t) ) ]
        lambda_{t+1} = [ (1 - mu_t r_t) lambda_t + mu_t h(x_t) ]_+

    with eta_t = eta0/sqrt(t), a regulariser r_t = r0/sqrt(t) that fades, and the dual step mu_t = 1/(r_t (t + 1)), so
    that lambda is nearly a running mean of h/r. The output is the mean of x_1, x_2, ..., each with the same weight,
    because the theorem is on the sum of f(x_t): the gap is O(T^-1/2) and the violation O(T^-1/4), for constraints
    without noise.

    The theory takes eta0 = R/G and r0 = 6 R G for |x| <= R and |grad| <= G (as a public implementation has it). The
    mean violation is about 2 r0 lambda*/sqrt(T), so a smaller r0 helps until the multipliers oscillate; the defaults
    are ours.

    Args:
        eta0: coefficient of the step size.
        r0: coefficient of the regulariser; the dual step is about 1/(r0 sqrt(t)).

    Example:
        >>> from tightrope.lab.methods.primal_dual.longterm import Jenatton
        >>> Jenatton().anytime
        True

    References:
        R. Jenatton, J. Huang, C. Archambeau: Adaptive Algorithms for Online Convex Optimization with Long-term
        Constraints, ICML 2016.
    """

    eta0: Any = 1.0
    r0: Any = 1.0

    name = "jenatton"
    facts = Facts(positive=("r0",), published=Rates(gap=0.5, violation=0.25, proof="of constraints without noise"))
    needs = frozenset({"project"})
    cost = Cost(samples=1, gradients=1, projections=1)
    tuned = ("eta0", "r0")
    anytime = True

    def step(self, problem: Problem, state: State, theta: Tree) -> tuple[State, Info]:
        """One step of the saddle-point problem with the regulariser of step t."""
        x, lam, t, _ = state
        number = t.astype(lam.dtype)
        eta, r = self.eta0 / jnp.sqrt(number), self.r0 / jnp.sqrt(number)
        mu = 1 / (r * (number + 1))
        f, h, g = problem.value_and_gradient(x, lam, theta)
        x_next = problem.domain.project(add_scaled(x, -eta, g))
        lam_next = dual_step(lam, h, gamma=mu, shrink=mu * r, upsilon=0)
        return state.after(x_next, lam_next), Info(x, lam, f, h)
