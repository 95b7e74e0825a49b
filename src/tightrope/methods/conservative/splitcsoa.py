"""Split-CSOA: projection-free at the rate of projections, by a copy of x in a simple set around X."""

from math import inf
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp

from tightrope.methods import measured
from tightrope.methods.base import Cost, Facts, Info, Power, Rates, Steps, dual_step
from tightrope.methods.measured import Measured, MeasuredSteps, SelfMeasuring, Tie
from tightrope.methods.widths import length_in, slope_in, step_along
from tightrope.problem import Problem
from tightrope.sets import ConvexSet, L2Ball
from tightrope.tree import Array, Tree, add_scaled, float_dtype, pytree, static, subtract


class SplitState(NamedTuple):
    """What the next step needs."""

    x: Tree  # x_t, in X
    lam: Array  # lambda_t
    y: Tree  # y_t, in Y
    q: Tree  # q_t, the multiplier of y = x
    memory: Tree  # of the set's linear minimisation
    t: Array  # step number, from 1
    horizon: Array  # T


class MeasuredSplitState(NamedTuple):
    """What the next step needs where no coefficients were given."""

    split: SplitState
    scales: Measured
    tie: Tie

    @property
    def x(self) -> Tree:
        """x_t."""
        return self.split.x

    @property
    def lam(self) -> Array:
        """lambda_t."""
        return self.split.lam


_PUBLISHED = Rates(
    gap=0.5, violation=inf, proof="of the coefficients of tr.theory; measured ones, the default, have none"
)


@pytree
class SplitCSOA(SelfMeasuring):
    """Split-CSOA: one linear minimisation a step, no projection onto X, no smoothness, and the rate of CSOA.

    A copy y of x lives in a simple set Y around X (`ConvexSet.enclosing`, a ball or a box) and moves as in CSOA; x in X is
    the vertex that the multiplier q of the tie y = x points to. From y_1 = x_1 in X, lambda_1 = 0 and q_1 = 0, on one
    sample theta_t a step::

        x_t          = argmin over x in X of -<q_t, x>
        y_{t+1}      = Proj_Y[ y_t - eta ( grad f(y_t, theta_t) + sum_i lambda_{i,t} grad h_i(y_t, theta_t) + q_t ) ]
        lambda_{t+1} = [ lambda_t + gamma ( h(y_t, theta_t) + upsilon 1 ) ]_+        cut at |lambda| <= lam_radius
        q_{t+1}      = q_t + kappa ( y_t - x_t )                                     cut at |q| <= q_radius

    with eta = eta0/sqrt(T), and so for gamma, kappa and upsilon. The output is the mean of x_1..x_T, which is in X. Its
    gap is O(T^-1/2) and its expected violation zero for the coefficients of `tightrope.theory.split_csoa`; the proof is
    in docs/projection_free.md. With `anytime`, t takes the place of T, and the mean is weighted by 1/sqrt(t).

    Where a set is its own Y (a ball, a box, a part of a product that is one), x = y holds by itself: there x_t is
    y_t, q stays zero and nothing is minimised. In a ball or a box the method is therefore CSOA, step by step, with
    its theorem and at its cost.

    f and h are evaluated at y, so that they must be defined and convex on Y; where they make sense on X alone, use
    `FWCSOA`. Only the mean is near a solution: x_t is a vertex, and y_t need not be in X. The sampled values that a run
    reports are those at y_t.

    Without coefficients the steps are made of scales that the run measures, as those of CSOA are (see
    `tightrope.methods.measured`), with y in widths of Y and q as one more block of multipliers, and the mean weighs x_t by
    t. That is a rule, not a theorem.

    Elsewhere a step costs one gradient, one linear minimisation and a few sums of vectors as long as x; the
    projection onto a ball or a box is one of them, and is not counted. A sparse vertex saves nothing of that,
    because y and q are dense.

    Args:
        eta0: coefficient of the step of y. Where only some coefficients are given, the others are eta0 = 1 and
            upsilon0 = 1, which suit f, h and x of order one.
        upsilon0: coefficient of the tightening.
        kappa0: coefficient of the step of q; left out, 1/eta0, because eta kappa has no units. (The theorem's eta0 kappa0 is
            at most 0.58, for the worst problem there is.)
        gamma0: coefficient of the step of lambda; left out, 1/eta0 as for q, which is a multiplier, too: eta0 then weighs
            the point against its multipliers, and how far both go is left alone.
        lam_radius: R, at which lambda is cut; without one it is not.
        q_radius: M, at which q is cut; without one it is not.
        anytime: step sizes against t instead of the horizon T.

    Example:
        >>> import tightrope as tr
        >>> tr.SplitCSOA(eta0=0.5).upsilon0
        1.0

    References:
        The splitting is that of K. Asgari, M. J. Neely: Projection-Free Non-Smooth Convex Programming, arXiv:2208.05127,
        and Nonsmooth Projection-Free Optimization with Functional Constraints, arXiv:2311.11180, and of
        K. K. Thekumparampil, P. Jain, P. Netrapalli, S. Oh: Projection Efficient Subgradient Method and Optimal
        Nonsmooth Frank-Wolfe Method, NeurIPS 2020; the tightening that removes the violation is ours.
    """

    eta0: Any = None
    upsilon0: Any = None
    kappa0: Any = None
    gamma0: Any = None
    lam_radius: Any = None
    q_radius: Any = None
    anytime: bool = static(default=False)

    name = "split-csoa"
    needs = frozenset({"lmo"})
    cost = Cost(samples=1, gradients=1, lmos=1)
    facts = Facts(
        vertices=True,
        published=_PUBLISHED,
        published_by_steps={"measured": Rates(), "others": Rates(), "of tr.theory": _PUBLISHED},
        positive=("eta0",),
        margin_power=1 / 2,
        margin="upsilon0",
    )
    tuned = ("eta0", "upsilon0")
    where_some_are_given: ClassVar = {"eta0": 1.0, "upsilon0": 1.0}
    coefficients = ("eta0", "upsilon0", "kappa0", "gamma0", "lam_radius", "q_radius")

    @property
    def steps(self) -> Steps:
        """From coefficients, or from what the run measures."""
        return _MeasuredEnclosed(self, Cost(0, 0, lmos=1)) if self.measures else _Enclosed(self)

    def init(self, problem: Problem, x: Tree, lam: Array, horizon: Array) -> Any:
        """x_1 = y_1, lambda_1 and q_1 = 0, to which every point of X is the best response."""
        memory = problem.domain.lmo_memory(float_dtype(x))
        zero = jax.tree.map(jnp.zeros_like, x)
        state = SplitState(x, lam, x, zero, memory, jnp.ones((), jnp.int32), horizon)
        if not self.measures:
            return state
        scales = measured.begin(x, lam, horizon, self.anytime)
        return MeasuredSplitState(state, scales, measured.begin_tie(x, lam.dtype))

    def step(self, problem: Problem, state: Any, theta: Tree) -> tuple[Any, Info]:
        """Descend in y, ascend in lambda and q, and answer q with a vertex."""
        return (self._measured_step if self.measures else self._step)(problem, state, theta)

    def _step(self, problem: Problem, state: SplitState, theta: Tree) -> tuple[SplitState, Info]:
        x, lam, y, q, memory, t, horizon = state
        gamma0, kappa0 = (1 / self.eta0 if given is None else given for given in (self.gamma0, self.kappa0))
        coefficients = (self.eta0, gamma0, kappa0, self.upsilon0)
        eta, gamma, kappa, upsilon = (Power(c, 0.5, self.anytime)(t, horizon) for c in coefficients)
        domain = problem.domain
        f, h, g = problem.value_and_gradient(y, lam, theta)
        y_next = domain.enclosing().project(jax.tree.map(lambda v, a, b: v - eta * (a + b), y, g, q))
        lam_next = _within(self.lam_radius, dual_step(lam, h, gamma=gamma, shrink=0.0, upsilon=upsilon))
        q_next = _within(self.q_radius, add_scaled(q, kappa, subtract(y, x)))
        x_next, memory = _answer(domain, y_next, q_next, memory)
        info = Info(x, lam, f, h, eta if self.anytime else jnp.ones_like(eta), domain.lmo_record(memory))
        return SplitState(x_next, lam_next, y_next, q_next, memory, t + 1, horizon), info

    def _measured_step(
        self, problem: Problem, state: MeasuredSplitState, theta: Tree
    ) -> tuple[MeasuredSplitState, Info]:
        (x, lam, y, q, memory, t, horizon), scales, tie = state
        domain, around = problem.domain, problem.domain.enclosing()
        w, apart = around.widths(y), length_in(around.widths(y), subtract(y, x))
        f, h, g = problem.value_and_gradient(y, measured.pressing(scales, lam), theta)
        pull = add_scaled(g, 1, q)
        scales = measured.observe(scales, y, lam, slope_in(w, pull), f, h, t)
        tie = measured.observe_tie(scales, tie, w, q, apart, t)
        y_next = around.project(step_along(w, y, measured.eta(scales), pull))
        lam_next = measured.dual_step(scales, lam, h, t)
        q_next = measured.tie_step(scales, tie, w, q, apart)

        def far(direction: Tree) -> Tree:
            away = measured.far_by_projection(around, scales.x, direction)
            return away if around is domain else _in_place(domain, domain.lmo(length_in(w, direction)), away)

        def turn_over(scales: Measured, tie: Tie, y: Tree, lam: Array, q: Tree) -> Any:
            following, y, lam = measured.turn(around, scales, y, lam, horizon, self.anytime, far)
            reach = jnp.asarray(around.scaled_diameter, lam.dtype)
            return following, *measured.turn_tie(scales, tie, w, q, following, reach), y, lam

        def go_on(scales: Measured, tie: Tie, y: Tree, lam: Array, q: Tree) -> Any:
            return scales, tie, q, y, lam

        due = measured.due(scales, t, horizon)
        scales, tie, q, y, lam_next = jax.lax.cond(due, turn_over, go_on, scales, tie, y_next, lam_next, q_next)
        vertex, memory = _answer(domain, y, q, memory)
        # the pilot stands still at points of X, which are their own answer
        x_next = jax.tree.map(lambda a, b: jnp.where(scales.stage < 2, a, b), y, vertex)
        weight = measured.weight(t, horizon, self.anytime, lam.dtype)
        info = Info(x, lam, f, h, weight, domain.lmo_record(memory))
        return MeasuredSplitState(SplitState(x_next, lam_next, y, q, memory, t + 1, horizon), scales, tie), info


class _Enclosed(Steps):
    """In a set that is its own Y, a projection in the place of every linear minimisation."""

    def cost(self, steps: int, domain: ConvexSet | None = None) -> Cost:
        """What so many steps cost in this set."""
        cost, its_own = super().cost(steps), domain is not None and domain.enclosing() is domain
        return cost._replace(projections=cost.lmos, lmos=0) if its_own else cost


class _MeasuredEnclosed(_Enclosed, MeasuredSteps):
    """The same of measured steps."""


def _answer(domain: ConvexSet, y: Tree, q: Tree, memory: Tree) -> tuple[Tree, Tree]:
    """The next x, and the memory of the linear minimisation: the vertex that q points to, and y itself where Y is X."""
    if domain.enclosing() is domain:
        return y, memory
    vertex, memory = domain.warm_lmo(jax.tree.map(jnp.negative, q), memory)
    return _in_place(domain, vertex, y), memory


def _in_place(domain: ConvexSet, vertex: Tree, y: Tree) -> Tree:
    """The vertex, with y in its place where Y is X."""
    return jax.tree.map(lambda tied, v, own: v if tied else own, domain.tied(y), vertex, y)


def _within(radius: Any, v: Tree) -> Tree:
    """v, cut at the radius where there is one."""
    return v if radius is None else L2Ball(radius).project(v)
