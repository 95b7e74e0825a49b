"""SAPMM: the stochastic approximation proximal method of multipliers."""

import jax
import jax.numpy as jnp

from tightrope.lab.methods.primal_dual.slpmm import Proximal, proximal_rounds
from tightrope.methods.base import Cost, Facts, Info, Rates, State
from tightrope.problem import Problem
from tightrope.tree import Array, Tree, add_scaled, pytree, subtract


@pytree
class SAPMM(Proximal):
    """SAPMM (Zhang, Zhang & Wu): an augmented Lagrangian of the sample itself, with a proximal term.

    For t = 1..T, on one sample theta_t::

        x_{t+1}      = argmin over X of  f(x, theta_t) + |[lambda_t + sigma h(x, theta_t)]_+|^2/(2 sigma)
                                         + alpha/2 |x - x_t|^2
        lambda_{t+1} = [ lambda_t + sigma h(x_{t+1}, theta_t) ]_+

    with alpha = alpha0 sqrt(T) and sigma = sigma0/sqrt(T), from lambda_1 = 0. The output is the mean of x_1..x_T: gap and
    violation are O(T^-1/4) in expectation. SLPMM is the same with f and h linearised; it has the better proof and the
    cheaper step.

    The published method solves for x_{t+1} exactly. Here it takes projected gradient steps from x_t, of length 1/alpha or
    shorter where two gradients show more curvature; each evaluates the sample. Their error shrinks by
    L/(alpha + L) a round, L the curvature of the sample, so a few do. Known from its abstract and from SLPMM, its
    successor; the coefficients are ours.

    Args:
        alpha0: coefficient of the proximal weight; 1/alpha is the primal step.
        sigma0: coefficient of the penalty, which is also the dual step.
        rounds: projected gradient steps to solve for x_{t+1}.

    Example:
        >>> from tightrope.lab.methods.primal_dual.sapmm import SAPMM
        >>> SAPMM(sigma0=2.0).sigma0
        2.0

    References:
        L. Zhang, Y. Zhang, J. Wu: Stochastic Approximation Proximal Method of Multipliers for Convex Stochastic
        Programming, arXiv:1907.12226.
    """

    name = "sapmm"
    facts = Facts(positive=("alpha0", "sigma0"), published=Rates(gap=0.25, violation=0.25))
    cost = Cost(samples=1, gradients=5, projections=5)

    def step(self, problem: Problem, state: State, theta: Tree) -> tuple[State, Info]:
        """Solve the proximal problem of the sample, then step in the dual where it ended."""
        x, lam, _, horizon = state
        root = jnp.sqrt(horizon.astype(lam.dtype))
        alpha, sigma = self.alpha0 * root, self.sigma0 / root

        def multipliers(h: Array) -> Array:
            return jnp.maximum(lam + sigma * h, 0)

        def gradient(point: Tree) -> tuple[Array, Array, Tree]:
            (f, h), pull = jax.vjp(lambda p: problem.values(p, theta), point)
            (g,) = pull((jnp.ones_like(f), multipliers(h)))
            return f, h, add_scaled(g, alpha, subtract(point, x))

        f, h, first = gradient(x)
        project = problem.domain.project
        x_next = proximal_rounds(lambda point: gradient(point)[2], first, project, x, alpha, self.rounds)
        lam_next = multipliers(problem.constraint_values(x_next, theta))
        return state.after(x_next, lam_next), Info(x, lam, f, h, weight=jnp.ones_like(root))
