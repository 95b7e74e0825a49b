"""CSOA: the conservative stochastic optimisation algorithm, with projections."""

from math import inf
from typing import Any, ClassVar, NamedTuple

import jax.numpy as jnp

from tightrope.methods.base import Cost, Facts, Info, Powers, Rates
from tightrope.methods.measured import MeasuredSteps, SelfMeasuring
from tightrope.problem import Problem
from tightrope.tree import Array, Tree, pytree, static


class CSOAState(NamedTuple):
    """What the next step needs."""

    x: Tree  # x_t
    lam: Array  # lambda_t
    t: Array  # step number, from 1
    horizon: Array  # T
    scales: Any = ()  # where no coefficients were given, what was measured


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
    def steps(self) -> Powers | MeasuredSteps:
        """From coefficients, or from what the run measures."""
        return MeasuredSteps(self, Cost(0, 0, projections=1)) if self.measures else Powers(self)

    def init(self, problem: Problem, x: Tree, lam: Array, horizon: Array) -> CSOAState:
        """x_1 and lambda_1."""
        return CSOAState(x, lam, jnp.ones((), jnp.int32), horizon, self.steps.begin(x, lam, horizon))

    def step(self, problem: Problem, state: CSOAState, theta: Tree) -> tuple[CSOAState, Info]:
        """One Jacobi step of the saddle-point problem."""
        x, lam, t, horizon, scales = state
        f, h, g = problem.value_and_gradient(x, self.steps.pressing(scales, lam), theta)
        scales, x_next, lam_next, weight = self.steps.taken(problem.domain, scales, x, lam, f, g, h, t, horizon)
        return CSOAState(x_next, lam_next, t + 1, horizon, scales), Info(x, lam, f, h, weight)
