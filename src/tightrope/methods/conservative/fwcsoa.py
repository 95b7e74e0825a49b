"""FW-CSOA: the projection-free form, by Frank-Wolfe with a recursive gradient tracker."""

from math import inf
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tightrope.methods import measured
from tightrope.methods.base import Cost, Facts, Info, Method, Power, Rates, Steps, dual_step, refuse_overshoot
from tightrope.methods.measured import Measured, MeasuredSteps
from tightrope.methods.widths import length_in, slope_in
from tightrope.problem import Problem
from tightrope.tree import Array, Tree, add_scaled, dot, float_dtype, nonzero, pytree, set_field, static, subtract


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


class MeasuredFWCSOAState(NamedTuple):
    """What the next step needs where no coefficients were given."""

    tracked: FWCSOAState
    scales: Measured
    size: Array  # mean of |w o g|^2, weighted by t
    change: Array  # of |w o (g(x_t) - g(x_{t-1}))|^2, on the same sample

    @property
    def x(self) -> Tree:
        """x_t."""
        return self.tracked.x

    @property
    def lam(self) -> Array:
        """lambda_t."""
        return self.tracked.lam


Schedule = Literal["measured", "paper", "two_scale", "sqrt"]


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


_PUBLISHED = Rates(
    gap=0.25,
    violation=inf,
    proof='of schedule="two_scale" with the coefficients of tr.theory; the default has none',
)


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

    =========== ======== ============ ========= ============ ================ =====================================
    schedule    eta/eta0 gamma/gamma0 rho/rho0  r            upsilon/upsilon0 what is known
    =========== ======== ============ ========= ============ ================ =====================================
    "measured"  n^-1/2   see below    see below none         see below        no proof; needs no coefficients
    "paper"     T^-3/4   T^-3/4       T^-1/2    delta eta    T^-1/4           as printed; the proof of T^-1/4 fails
    "two_scale" T^-1/2   T^-3/4       T^-1/2    delta T^-1/4 T^-1/4           T^-1/4, no violation: see tr.theory
    "sqrt"      T^-1/2   T^-1/2       T^-1/2    delta eta    T^-1/2           no proof; the best in practice
    =========== ======== ============ ========= ============ ================ =====================================

    eta and rho are capped at 1. The time-averaged violation without tightening is about lambda*/(gamma T): the dual
    step sets it, which is why "sqrt" wins.

    "measured" is the default: gamma_i and upsilon_i come from scales that the run measures in epochs of n steps (see
    `tightrope.methods.measured`), the output weighs x_t by t, and rho = rms |g(x_t) - g(x_{t-1})| / rms |g|, or 1/s in the
    s-th step after the pilot where that is more: a linear f has no changes to forget, and its tracker is the mean of all
    samples. That is where the tracker's noise is least: what it forgets too slowly are the changes of g, which add up over
    1/rho steps, and what it forgets too fast leaves the noise of g. On smooth problems such a rho is of the order of eta, as
    in the paper; where a gradient jumps it is larger, and a tracker with the paper's rho would carry noise that never falls.

    Args:
        schedule: "measured", "paper", "two_scale" or "sqrt". With coefficients and no schedule, "sqrt".
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

    schedule: Schedule = static(default="measured")
    eta0: Any = None
    rho0: Any = None
    delta: Any = None
    upsilon0: Any = None
    gamma0: Any = None

    name = "fw-csoa"
    needs = frozenset({"lmo"})
    cost = Cost(samples=1, gradients=2, lmos=1)
    facts = Facts(
        published=_PUBLISHED,
        published_by_steps={
            "measured": Rates(),
            "sqrt": Rates(),
            "paper": Rates(gap=0.25, violation=inf, standing="claimed, proof fails"),
            "two_scale": Rates(),
            "two_scale, of tr.theory": _PUBLISHED,
        },
        margin="upsilon0",
    )
    tuned = ("eta0", "upsilon0")

    def __post_init__(self):
        super().__post_init__()
        names = ("eta0", "rho0", "delta", "upsilon0", "gamma0")
        if self.schedule == "measured" and any(getattr(self, name) is not None for name in names):
            set_field(self, "schedule", "sqrt")
        for name in names:
            if self.schedule != "measured" and getattr(self, name) is None:
                set_field(self, name, getattr(SCHEDULES[self.schedule], name))

    @property
    def steps(self) -> Steps:
        """By a schedule, or from what the run measures."""
        return MeasuredSteps(self, Cost(0, 0, lmos=1)) if self.schedule == "measured" else _Scheduled(self)

    def init(self, problem: Problem, x: Tree, lam: Array, horizon: Array) -> Any:
        """x_1 and lambda_1; the first step takes d_1 = g_1 whatever d_0 is."""
        memory = problem.domain.lmo_memory(float_dtype(x))
        state = FWCSOAState(x, lam, x, lam, jax.tree.map(jnp.zeros_like, x), memory, jnp.ones((), jnp.int32), horizon)
        if self.schedule != "measured":
            return state
        zero = jnp.zeros((), lam.dtype)
        return MeasuredFWCSOAState(state, measured.begin(x, lam, horizon, anytime=False), zero, zero)

    def step(self, problem: Problem, state: Any, theta: Tree) -> tuple[Any, Info]:
        """Track the Lagrangian's gradient, move towards the best vertex, step in the dual."""
        return (self._measured_step if self.schedule == "measured" else self._step)(problem, state, theta)

    def _step(self, problem: Problem, state: FWCSOAState, theta: Tree) -> tuple[FWCSOAState, Info]:
        x, lam, t = state.x, state.lam, state.t
        eta, gamma, rho, shrink, upsilon = self.sizes(t, state.horizon)
        f, h, g = problem.value_and_gradient(x, lam, theta)
        _, _, g_before = problem.value_and_gradient(state.x_before, state.lam_before, theta)
        keep = jnp.where(t == 1, 0, 1 - rho)  # d_1 = g_1
        d = add_scaled(g, keep, subtract(state.d, g_before))
        s, memory = problem.domain.warm_lmo(d, state.memory)
        x_next = add_scaled(x, eta, subtract(s, x))
        lam_next = dual_step(lam, h, gamma=gamma, shrink=shrink, upsilon=upsilon)
        info = Info(x, lam, f, h, weight=jnp.ones_like(eta), record=problem.domain.lmo_record(memory))
        return FWCSOAState(x_next, lam_next, x, lam, d, memory, t + 1, state.horizon), info

    def _measured_step(
        self, problem: Problem, state: MeasuredFWCSOAState, theta: Tree
    ) -> tuple[MeasuredFWCSOAState, Info]:
        before, scales, domain = state.tracked, state.scales, problem.domain
        x, lam, t, horizon = before.x, before.lam, before.t, before.horizon
        f, h, g = problem.value_and_gradient(x, lam, theta)
        _, _, g_before = problem.value_and_gradient(before.x_before, before.lam_before, theta)
        w, fresh = (
            domain.widths(x),
            (scales.stage <= 2) & (t == scales.begin + 1),
        )  # x has jumped: nothing to go on from
        wg, share = slope_in(w, g), 2 / (t + 1).astype(lam.dtype)
        wc = slope_in(w, subtract(g, g_before))
        size = state.size + share * (dot(wg, wg) - state.size)
        change = state.change + share * (jnp.where(fresh, 0, dot(wc, wc)) - state.change)
        since = jnp.maximum(t - measured.end_of(jnp.ones((), jnp.int32), horizon, False), 1).astype(lam.dtype)
        rho = jnp.maximum(jnp.sqrt(change / nonzero(size)), 1 / since)  # where nothing changes, a plain mean of all
        keep = jnp.where(fresh, 0, jnp.maximum(1 - rho, 0))
        d = add_scaled(g, keep, subtract(before.d, g_before))
        s, memory = domain.warm_lmo(d, before.memory)
        scales = measured.observe(scales, x, lam, wg, f, h, t)
        eta = jnp.where(scales.stage < 2, 0, 1 / jnp.sqrt((scales.end - scales.begin).astype(lam.dtype)))
        x_next, lam_next = add_scaled(x, eta, subtract(s, x)), measured.dual_step(scales, lam, h, t)

        def far(direction: Tree) -> Tree:
            return domain.lmo(length_in(w, direction))

        stands = scales, x_next, lam_next, t, horizon  # after the pilot no jump, which the tracker could not follow
        scales, x_next, lam_next = measured.turned(domain, *stands, anytime=False, jumps=False, far=far)
        weight = measured.weight(t, horizon, False, lam.dtype)
        tracked = FWCSOAState(x_next, lam_next, x, lam, d, memory, t + 1, horizon)
        info = Info(x, lam, f, h, weight, record=domain.lmo_record(memory))
        return MeasuredFWCSOAState(tracked, scales, size, change), info

    def sizes(self, t: Any, horizon: Any) -> tuple[Array, Array, Array, Array, Array]:
        """eta, gamma, rho, gamma r and upsilon."""
        p = SCHEDULES[self.schedule]
        eta = jnp.minimum(Power(self.eta0, p.eta)(t, horizon), 1)
        gamma = eta if self.gamma0 is None else Power(self.gamma0, p.gamma)(t, horizon)
        rho = jnp.minimum(Power(self.rho0, p.rho)(t, horizon), 1)
        r = Power(self.delta, 1 / 4)(t, horizon) if self.schedule == "two_scale" else self.delta * eta
        return eta, gamma, rho, gamma * r, Power(self.upsilon0, p.upsilon)(t, horizon)


class _Scheduled(Steps):
    """By one of the schedules with coefficients."""

    method: FWCSOA

    def tightening(self, horizon: int) -> float:
        """upsilon at this horizon."""
        return float(np.max(self.method.upsilon0)) / horizon ** SCHEDULES[self.method.schedule].upsilon

    def check(self, horizon: int) -> None:
        """The dual step must not overshoot: gamma r < 1."""
        shrink = float(np.max(np.asarray(self.method.sizes(1, horizon)[3])))
        refuse_overshoot(self.method, "gamma r", shrink, f"at {horizon:,} steps", "gamma0 or delta, or more steps")
