"""CSOA: the conservative stochastic optimisation algorithm, with projections."""

from functools import partial
from math import inf
from typing import Any, ClassVar, NamedTuple

import jax.numpy as jnp

from tightrope.methods import measured
from tightrope.methods.base import Cost, Facts, Info, Powers, Rates, State, Steps, dual_step
from tightrope.methods.measured import Measured, MeasuredSteps, SelfMeasuring
from tightrope.methods.schedules import Power
from tightrope.methods.widths import slope_in, step_along
from tightrope.problem import Problem
from tightrope.tree import Array, Tree, add_scaled, pytree, static


class MeasuredState(NamedTuple):
    """What the next step needs where no coefficients were given."""

    x: Tree  # x_t
    lam: Array  # lambda_t
    t: Array  # step number, from 1
    horizon: Array  # T
    scales: Measured


_PUBLISHED = Rates(
    gap=0.5, violation=inf, proof="of the coefficients of tr.theory; measured ones, the default, have none"
)


@pytree
class CSOA(SelfMeasuring):
    """CSOA (Akhtar, Bedi & Rajawat, algorithm 1).

    For t = 1..T, on one sample theta_t, both updates from the old point::

        x_{t+1}   = Proj_X[ x_t - eta ( grad f(x_t, theta_t) + sum_i lambda_{i,t} grad h_i(x_t, theta_t) ) ]
        lambda_{t+1} = [ (1 - eta^2 delta) lambda_t + s^2 eta ( h(x_t, theta_t) + upsilon 1 ) ]_+

    with eta = eta0/sqrt(T), upsilon = upsilon0/sqrt(T), from lambda_1 = 0. The output is the mean of x_1..x_T: its
    optimality gap is O(T^-1/2), and the average constraint violation is zero in expectation once upsilon0 is large
    enough and upsilon at most half the Slater margin. With `anytime`, eta_t = eta0/sqrt(t) and
    upsilon_t = upsilon0/sqrt(t), and the mean is weighted by eta_t (no proof in the paper; costs a logarithm).

    Without coefficients the steps are made of scales that the run measures, see `tightrope.methods.measured`: the same
    updates with an eta, gamma_i and upsilon_i for every constraint and epoch, in whatever units f, h and x come, and an
    average that weighs x_t by t. That is a rule, not a theorem: nothing is proven for it.

    With coefficients, f, h and x should be of order one. Summing the dual step shows what upsilon0 must cover: the mean of
    h(x_t, theta_t) is at most lambda_{T+1}/(s^2 eta T) + eta delta/s^2 mean(lambda_t) - upsilon, so upsilon0 has to
    exceed about lambda*/(s^2 eta0).

    Args:
        eta0: coefficient of the step size. Where only some coefficients are given, the others are eta0 = 1,
            delta = 0.01, upsilon0 = 2, dual_scale = 1.
        delta: regularisation of the multipliers, which keeps them bounded.
        upsilon0: coefficient of the tightening; 0 gives the plain regularised saddle-point method.
        dual_scale: s; the dual step is s^2 eta. 1 is the paper's single step.
        anytime: step sizes against t instead of the horizon T.

    Example:
        >>> import tightrope as tr
        >>> tr.CSOA(eta0=0.5, upsilon0=4.0).upsilon0
        4.0

    References:
        Z. Akhtar, A. S. Bedi, K. Rajawat: Conservative Stochastic Optimization with Expectation Constraints,
        arXiv:2008.05758.
    """

    eta0: Any = None
    delta: Any = None
    upsilon0: Any = None
    dual_scale: Any = None
    anytime: bool = static(default=False)

    name = "csoa"
    needs = frozenset({"project"})
    cost = Cost(samples=1, gradients=1, projections=1)
    facts = Facts(
        published=_PUBLISHED,
        published_by_steps={"measured": Rates(), "others": Rates(), "of tr.theory": _PUBLISHED},
        margin_power=1 / 2,
        margin="upsilon0",
    )
    tuned = ("eta0", "upsilon0")
    where_some_are_given: ClassVar = {"eta0": 1.0, "delta": 0.01, "upsilon0": 2.0, "dual_scale": 1.0}
    coefficients = tuple(where_some_are_given)

    @property
    def steps(self) -> Steps:
        """From coefficients, or from what the run measures."""
        return MeasuredSteps(self, Cost(0, 0, projections=1)) if self.measures else Powers(self)

    def init(self, problem: Problem, x: Tree, lam: Array, horizon: Array) -> State | MeasuredState:
        """x_1 and lambda_1."""
        state = State(x, lam, jnp.ones((), jnp.int32), horizon)
        if not self.measures:
            return state
        return MeasuredState(x, lam, state.t, horizon, measured.begin(x, lam, horizon, self.anytime))

    def step(self, problem: Problem, state: Any, theta: Tree) -> tuple[State | MeasuredState, Info]:
        """One Jacobi step of the saddle-point problem."""
        return (self._measured_step if self.measures else self._step)(problem, state, theta)

    def _step(self, problem: Problem, state: State, theta: Tree) -> tuple[State, Info]:
        x, lam, t, horizon = state
        eta = Power(self.eta0, 0.5, self.anytime)(t, horizon)
        upsilon = Power(self.upsilon0, 0.5, self.anytime)(t, horizon)
        f, h, g = problem.value_and_gradient(x, lam, theta)
        x_next = problem.domain.project(add_scaled(x, -eta, g))
        lam_next = dual_step(lam, h, gamma=self.dual_scale**2 * eta, shrink=eta**2 * self.delta, upsilon=upsilon)
        info = Info(x, lam, f, h, weight=eta if self.anytime else jnp.ones_like(eta))
        return state.after(x_next, lam_next), info

    def _measured_step(self, problem: Problem, state: MeasuredState, theta: Tree) -> tuple[MeasuredState, Info]:
        x, lam, t, horizon, scales = state
        domain, w = problem.domain, problem.domain.widths(x)
        f, h, g = problem.value_and_gradient(x, measured.pressing(scales, lam), theta)
        wg = slope_in(w, g)
        scales = measured.observe(scales, x, lam, wg, h, t)
        x_next = domain.project(step_along(w, x, measured.eta(scales), g))
        lam_next = measured.dual_step(scales, lam, h, t)
        far = partial(measured.far_by_projection, domain, scales.x)
        stands = scales, x_next, lam_next, t, horizon
        scales, x_next, lam_next = measured.turned(domain, *stands, anytime=self.anytime, jumps=True, far=far)
        weight = measured.weight(t, horizon, self.anytime, lam.dtype)
        return MeasuredState(x_next, lam_next, t + 1, horizon, scales), Info(x, lam, f, h, weight)
