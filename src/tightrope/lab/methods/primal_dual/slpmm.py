"""SLPMM: the stochastic linearised proximal method of multipliers."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from tightrope.methods.base import Cost, Facts, Info, Method, Rates, State, Steps
from tightrope.problem import Problem
from tightrope.sets import ConvexSet
from tightrope.tree import Array, Tree, add_scaled, norm, pytree, static, subtract


class _Rounds(Steps):
    """What is solved inside a step costs."""

    method: "Proximal"

    def cost(self, steps: int, domain: ConvexSet | None = None) -> Cost:
        """A projection for every round; gradients as declared, for every round where the sample is evaluated anew."""
        rounds, gradients = self.method.rounds, self.method.cost.gradients
        return Cost(steps, steps * (gradients if gradients == 1 else rounds), steps * rounds)


@pytree
class Proximal(Method):
    """What proximal methods of multipliers have in common: a proximal weight, a penalty, and rounds to solve a step by."""

    alpha0: Any = 1.0
    sigma0: Any = 1.0
    rounds: int = static(default=5)

    needs = frozenset({"project"})
    tuned = ("alpha0", "sigma0")

    @property
    def steps(self) -> Steps:
        """With what they cost."""
        return _Rounds(self)


@pytree
class SLPMM(Proximal):
    """SLPMM (Zhang, Zhang, Wu & Xiao): an augmented Lagrangian of the linearised sample, with a proximal term.

    For t = 1..T, on one sample theta_t, with l(x) = h(x_t, theta_t) + <grad h(x_t, theta_t), x - x_t>::

        x_{t+1}      = argmin over X of  <grad f(x_t, theta_t), x> + |[lambda_t + sigma l(x)]_+|^2/(2 sigma)
                                         + alpha/2 |x - x_t|^2
        lambda_{t+1} = [ lambda_t + sigma l(x_{t+1}) ]_+

    with alpha = alpha0 sqrt(T) and sigma = sigma0/sqrt(T), from lambda_1 = 0. The output is the mean of x_1..x_T. Gap
    and violation are O(T^-1/2) in expectation, and up to logarithms with high probability. The implicit dual step
    makes it insensitive to the scale of the constraints.

    The argmin is found by projected gradient steps from x_t, each a projection and no new gradient of the sample. Their
    error shrinks by sigma |J|^2/(alpha + sigma |J|^2) a round, J the Jacobian of the sampled h: at the horizons one
    uses that is a small number, and a few rounds are exact in practice. A step takes the gradient of f and those of all
    h_i: one evaluation of the sample and N + 1 backward passes.

    Args:
        alpha0: coefficient of the proximal weight; 1/alpha is the primal step.
        sigma0: coefficient of the penalty, which is also the dual step.
        rounds: projected gradient steps to solve for x_{t+1}.

    Example:
        >>> from tightrope.lab.methods.primal_dual.slpmm import SLPMM
        >>> SLPMM(alpha0=0.5).alpha0
        0.5

    References:
        L. Zhang, Y. Zhang, J. Wu, X. Xiao: Solving Stochastic Optimization with Expectation Constraints Efficiently by
        a Stochastic Augmented Lagrangian-Type Algorithm, INFORMS Journal on Computing 34, 2022.
    """

    name = "slpmm"
    facts = Facts(positive=("alpha0", "sigma0"), published=Rates(gap=0.5, violation=0.5))
    cost = Cost(samples=1, gradients=1, projections=5)

    def step(self, problem: Problem, state: State, theta: Tree) -> tuple[State, Info]:
        """Solve the linearised proximal problem; its penalty gives the new multipliers."""
        x, lam, _, horizon = state
        root = jnp.sqrt(horizon.astype(lam.dtype))
        alpha, sigma = self.alpha0 * root, self.sigma0 / root
        f, h, grad_f, rows = problem.jacobian(x, theta)

        def multipliers(point: Tree) -> Array:
            return jnp.maximum(lam + sigma * (h + _times(rows, subtract(point, x))), 0)

        def gradient(point: Tree) -> Tree:
            g = problem.lagrangian_gradient(grad_f, rows, multipliers(point))
            return add_scaled(g, alpha, subtract(point, x))

        curvature = alpha + sigma * norm(rows) ** 2  # the Frobenius norm bounds the spectral one
        x_next = proximal_rounds(gradient, gradient(x), problem.domain.project, x, curvature, self.rounds)
        return state.after(x_next, multipliers(x_next)), Info(x, lam, f, h, weight=jnp.ones_like(root))


def proximal_rounds(
    gradient: Callable[[Tree], Tree],
    first: Tree,
    project: Callable[[Tree], Tree],
    x: Tree,
    curvature: Array,
    rounds: int,
) -> Tree:
    """Projected gradient steps of length 1/curvature from x, where the gradient is `first`.

    Where two gradients show that the function is more curved than was said, the steps get shorter. Written out instead of
    looped: a few rounds compile fast and run faster.
    """
    g = first
    for k in range(rounds):
        x_before, x = x, project(add_scaled(x, -1 / curvature, g))
        if k + 1 < rounds:
            g_before, g = g, gradient(x)
            moved = norm(subtract(x, x_before))
            curvature = jnp.maximum(curvature, norm(subtract(g, g_before)) / jnp.where(moved > 0, moved, 1))
    return x


def _times(rows: Tree, d: Tree) -> Array:
    """The N products <row_i, d>."""
    products = jax.tree.leaves(jax.tree.map(lambda r, v: jnp.tensordot(r, v, v.ndim), rows, d))
    return functools.reduce(jnp.add, products)
