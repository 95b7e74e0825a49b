"""The saddle-point method with a PI controller in the place of dual ascent."""

from typing import Any, NamedTuple

import jax.numpy as jnp

from tightrope.methods.base import Cost, Facts, Info, Method, Rates
from tightrope.problem import Problem
from tightrope.tree import Array, Tree, add_scaled, pytree


class NuPIState(NamedTuple):
    """What the next step needs."""

    x: Tree  # x_t
    lam: Array  # lambda_t
    xi: Array  # xi_t, the moving average of the constraints
    t: Array  # step number, from 1
    horizon: Array  # T


@pytree
class NuPI(Method):
    """CSOA's primal step with the multipliers of a nuPI controller (Sohrabi et al.).

    For t = 1..T, with e_t = h(x_t, theta_t), both updates from the old point::

        x_{t+1}   = Proj_X[ x_t - eta ( grad f(x_t, theta_t) + sum_i lambda_{i,t} grad h_i(x_t, theta_t) ) ]
        lambda_{t+1} = [ lambda_t + k_i e_t + kp (1 - nu) (e_t - xi_t) ]_+
        xi_{t+1}  = nu xi_t + (1 - nu) e_t,                                        xi_1 = e_1

    with eta = eta0/sqrt(T), k_i = ki0/sqrt(T), from lambda_1 = 0. Without the clipping, lambda is k_i times the sum of
    e plus kp times its moving average: the second part answers at once and damps the oscillation of plain dual ascent.
    The output is the mean of x_1..x_T. No rate is proven, and the paper has neither noise nor a schedule: that eta and
    k_i shrink with the horizon and kp does not is our choice. The noise of e enters lambda by kp (1 - nu), so a larger
    nu suits noisy constraints. kp = 0 gives CSOA without regulariser and tightening.

    Args:
        eta0: coefficient of the primal step.
        ki0: coefficient of the integral gain.
        kp: proportional gain.
        nu: forgetting of the moving average, from 0 to below 1; 0 is the plain PI controller.

    Example:
        >>> from tightrope.lab.methods.primal_dual.nupi import NuPI
        >>> NuPI(kp=0.5).kp
        0.5

    References:
        M. Sohrabi, J. Ramirez, T. H. Zhang, S. Lacoste-Julien, J. Gallego-Posada: On PI Controllers for Updating
        Lagrange Multipliers in Constrained Optimization, ICML 2024, arXiv:2406.04558.
    """

    eta0: Any = 1.0
    ki0: Any = 1.0
    kp: Any = 1.0
    nu: Any = 0.9

    name = "nupi"
    facts = Facts(below_one=("nu",), published=Rates())
    needs = frozenset({"project"})
    cost = Cost(samples=1, gradients=1, projections=1)
    tuned = ("eta0", "ki0", "kp")

    def init(self, problem: Problem, x: Tree, lam: Array, horizon: Array) -> NuPIState:
        """x_1 and lambda_1; the first step sets xi_1."""
        return NuPIState(x, lam, jnp.zeros_like(lam), jnp.ones((), jnp.int32), horizon)

    def step(self, problem: Problem, state: NuPIState, theta: Tree) -> tuple[NuPIState, Info]:
        """A gradient step in x, a controller's step in the multipliers."""
        x, lam, _, t, horizon = state
        root = jnp.sqrt(horizon.astype(lam.dtype))
        f, h, g = problem.value_and_gradient(x, lam, theta)
        xi = jnp.where(t == 1, h, state.xi)
        x_next = problem.domain.project(add_scaled(x, -self.eta0 / root, g))
        lam_next = jnp.maximum(lam + self.ki0 / root * h + self.kp * (1 - self.nu) * (h - xi), 0)
        xi_next = self.nu * xi + (1 - self.nu) * h
        return NuPIState(x_next, lam_next, xi_next, t + 1, horizon), Info(x, lam, f, h)
