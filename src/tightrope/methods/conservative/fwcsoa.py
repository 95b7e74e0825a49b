"""FW-CSOA: the projection-free form, by Frank-Wolfe with a recursive gradient tracker."""

from math import inf
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tightrope.methods.base import Cost, Info, Method, Rates, dual_step, refuse_overshoot
from tightrope.methods.schedules import Power
from tightrope.problem import Problem
from tightrope.tree import Array, Tree, add_scaled, float_dtype, pytree, set_field, static, subtract


class FWCSOAState(NamedTuple):
    """What the next step needs."""

    x: Tree  # x_t
    lam: Array  # lambda_t
    x_before: Tree  # x_{t-1}
    lam_before: Array  # lambda_{t-1}
    d: Tree  # d_{t-1}, the tracked gradient of the Lagrangian
    memory: Tree  # of the set's linear minimisation
    t: Array  # step number, from 1
    horizon: Array  # T


Schedule = Literal["paper", "two_scale", "sqrt"]


class _Schedule(NamedTuple):
    """Exponents p of T^-p, and the coefficients used where the user gives none."""

    eta: float
    gamma: float
    rho: float
    upsilon: float
    eta0: float
    rho0: float
    delta: float
    upsilon0: float
    gamma0: float | None = None  # None: the paper's single step, gamma = eta


SCHEDULES = {
    "paper": _Schedule(3 / 4, 3 / 4, 1 / 2, 1 / 4, eta0=0.68, rho0=1.25, delta=0.25, upsilon0=0.77),
    "two_scale": _Schedule(1 / 2, 3 / 4, 1 / 2, 1 / 4, eta0=2.0, rho0=1.25, delta=0.05, upsilon0=0.5, gamma0=4.0),
    "sqrt": _Schedule(1 / 2, 1 / 2, 1 / 2, 1 / 2, eta0=1.0, rho0=1.25, delta=0.25, upsilon0=2.0),
}


@pytree
class FWCSOA(Method):
    """FW-CSOA (Akhtar, Bedi & Rajawat, algorithm 2): one linear minimisation a step, no projection.

    For t = 1..T, the same sample theta_t evaluated at x_t and at x_{t-1}::

        g(x, lambda) = grad f(x, theta_t) + sum_i lambda_i grad h_i(x, theta_t)
        d_t       = g(x_t, lambda_t) + (1 - rho) ( d_{t-1} - g(x_{t-1}, lambda_{t-1}) ),       d_1 = g(x_1, lambda_1)
        s_t       = argmin over s in X of <d_t, s>
        x_{t+1}   = x_t + eta (s_t - x_t)
        lambda_{t+1} = [ (1 - gamma r) lambda_t + gamma ( h(x_t, theta_t) + upsilon 1 ) ]_+

    from lambda_1 = 0. The output is the mean of x_1..x_T. Steps, by `schedule`:

    ============= =========== =========== ====== ============= =========== ==========================================
    schedule      eta/eta0    gamma/gamma0 rho/rho0 r           upsilon/upsilon0 what is known
    ============= =========== =========== ====== ============= =========== ==========================================
    "paper"       T^-3/4      T^-3/4      T^-1/2 delta eta     T^-1/4      as printed; the proof of its T^-1/4 fails
    "two_scale"   T^-1/2      T^-3/4      T^-1/2 delta T^-1/4  T^-1/4      gap T^-1/4 and zero violation, provable
    "sqrt"        T^-1/2      T^-1/2      T^-1/2 delta eta     T^-1/2      no proof; the best in practice
    ============= =========== =========== ====== ============= =========== ==========================================

    eta and rho are capped at 1. The time-averaged violation without tightening is about lambda*/(gamma T): the dual
    step sets it, which is why "sqrt" wins.

    Args:
        schedule: "paper", "two_scale" or "sqrt".
        eta0: coefficient of the Frank-Wolfe step. Left out, a value that suits the schedule; so for the others.
        rho0: coefficient of the tracker's forgetting.
        delta: regularisation of the multipliers.
        upsilon0: coefficient of the tightening.
        gamma0: coefficient of the dual step; without one, gamma = eta, the paper's
            single step, except for "two_scale".

    Example:
        >>> import tightrope as tr
        >>> tr.FWCSOA(schedule="paper").eta0
        0.68

    References:
        Z. Akhtar, A. S. Bedi, K. Rajawat: Conservative Stochastic Optimization with Expectation Constraints,
        arXiv:2008.05758. The tracker is that of A. Cutkosky, F. Orabona: Momentum-Based Variance Reduction in
        Non-Convex SGD, NeurIPS 2019.
    """

    schedule: Schedule = static(default="sqrt")
    eta0: Any = None
    rho0: Any = None
    delta: Any = None
    upsilon0: Any = None
    gamma0: Any = None

    name = "fw-csoa"
    needs = frozenset({"lmo"})
    cost = Cost(samples=1, gradients=2, lmos=1)
    published = Rates(gap=0.25, violation=inf)
    tuned = ("eta0", "upsilon0")
    margin = "upsilon0"

    def __post_init__(self):
        super().__post_init__()
        for name in ("eta0", "rho0", "delta", "upsilon0", "gamma0"):
            if getattr(self, name) is None:
                set_field(self, name, getattr(SCHEDULES[self.schedule], name))

    def init(self, problem: Problem, x: Tree, lam: Array, horizon: Array) -> FWCSOAState:
        """x_1 and lambda_1; the first step takes d_1 = g_1 whatever d_0 is."""
        memory = problem.domain.lmo_memory(float_dtype(x))
        return FWCSOAState(x, lam, x, lam, jax.tree.map(jnp.zeros_like, x), memory, jnp.ones((), jnp.int32), horizon)

    def step(self, problem: Problem, state: FWCSOAState, theta: Tree) -> tuple[FWCSOAState, Info]:
        """Track the Lagrangian's gradient, move towards the best vertex, step in the dual."""
        x, lam, t = state.x, state.lam, state.t
        eta, gamma, rho, shrink, upsilon = self.steps(t, state.horizon)
        f, h, g = problem.value_and_gradient(x, lam, theta)
        _, _, g_before = problem.value_and_gradient(state.x_before, state.lam_before, theta)
        keep = jnp.where(t == 1, 0, 1 - rho)  # d_1 = g_1
        d = add_scaled(g, keep, subtract(state.d, g_before))
        s, memory = problem.domain.warm_lmo(d, state.memory)
        x_next = add_scaled(x, eta, subtract(s, x))
        lam_next = dual_step(lam, h, gamma=gamma, shrink=shrink, upsilon=upsilon)
        info = Info(x, lam, f, h, weight=jnp.ones_like(eta), record=problem.domain.lmo_record(memory))
        return FWCSOAState(x_next, lam_next, x, lam, d, memory, t + 1, state.horizon), info

    def steps(self, t: Any, horizon: Any) -> tuple[Array, Array, Array, Array, Array]:
        """eta, gamma, rho, gamma r and upsilon."""
        p = SCHEDULES[self.schedule]
        eta = jnp.minimum(Power(self.eta0, p.eta)(t, horizon), 1)
        gamma = eta if self.gamma0 is None else Power(self.gamma0, p.gamma)(t, horizon)
        rho = jnp.minimum(Power(self.rho0, p.rho)(t, horizon), 1)
        r = Power(self.delta, 1 / 4)(t, horizon) if self.schedule == "two_scale" else self.delta * eta
        return eta, gamma, rho, gamma * r, Power(self.upsilon0, p.upsilon)(t, horizon)

    def tightening(self, horizon: int) -> float:
        """upsilon at this horizon."""
        return float(np.max(self.upsilon0)) / horizon ** SCHEDULES[self.schedule].upsilon

    def check(self, horizon: int) -> None:
        """The dual step must not overshoot: gamma r < 1."""
        shrink = float(np.max(np.asarray(self.steps(1, horizon)[3])))
        refuse_overshoot(self, "gamma r", shrink, f"at {horizon:,} steps", "gamma0 or delta, or more steps")
