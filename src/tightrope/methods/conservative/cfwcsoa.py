"""CFW-CSOA: Frank-Wolfe with corrective steps on all the data at once, and CSOA's dual step."""

from typing import Any, Literal, NamedTuple

import jax.numpy as jnp

from tightrope.methods.base import Cost, Facts, Info, Method, dual_step
from tightrope.problem import Problem
from tightrope.problem.generic import step_length
from tightrope.tree import Array, Tree, float_dtype, pytree, static

_RECOVERY = 1.03  # of the dual step, where the violation keeps its sign: by hand: slow, or multipliers swing for ever


class CFWCSOAState(NamedTuple):
    """What the next step needs."""

    x: Tree  # x_t
    lam: Array  # lambda_t
    memory: Tree  # of the set's linear minimisation
    gain: Array  # a_t, what is left of gamma
    h: Array  # H(x_{t-1})
    total: Array  # sum of H(x_1) .. H(x_{t-1})
    t: Array  # step number, from 1


@pytree
class CFWCSOA(Method):
    """Frank-Wolfe with exact gradients and CSOA's dual step, for data at hand.

    For t = 1, 2, ..., with F, H and their gradients over all the data::

        g_t       = grad F(x_t) + sum_i lambda_i grad H_i(x_t)
        s_t       = argmin over s in X of <g_t, s>
        x_{t+1}   = a better point among those made of x_t and s_t
        lambda_{t+1} = [ lambda_t + a_t gamma ( H(x_t) + upsilon_t ) ]_+

    from lambda_1 = 0 and a_0 = 1. a_t is halved for a constraint whose H has changed sign since the last step, and otherwise
    recovers by 3 % a step up to 1: how steeply H falls with lambda is not known beforehand, and a step too long for it
    would swing between too much and too little for ever. What x_{t+1} is depends on `move`:

    - "corrective": what the set can do with x_t and s_t. The nuclear-norm balls take a projected gradient step on all
      matrices whose row and column spaces are spanned by those of x_t, by the singular pairs that the search for s_t came
      upon, and by g_t seen from x_t, which is a problem as small as twice their rank. Sets that know nothing of the kind
      take the "open" step;
    - "open": x_t + 2/(t + 7) (s_t - x_t), the classical step;
    - "line": the best point on the segment from x_t to s_t (exactly, where the Lagrangian is quadratic). It needs curvature:
      on a linear programme it jumps from vertex to vertex for ever.

    The output is the last iterate, which no average spoils: its rank stays bounded. The tightening is upsilon/t^2 plus the
    mean of H(x_1) .. H(x_{t-1}) where that is positive: spent early it makes the average violation negative and costs
    nothing later, and an average that is above zero all the same is worked off. There is no proof of a rate with a moving
    multiplier; for a fixed one "line" and "open" have Frank-Wolfe's 1/t.

    Args:
        gamma: the longest dual step, in units of multiplier per violation.
        upsilon: the tightening of the first step.
        move: "corrective", "line" or "open". A line search looks at all the data once or twice more; `cost` does not
            count that.

    Example:
        >>> from tightrope.methods import CFWCSOA
        >>> CFWCSOA(gamma=0.1).move
        'corrective'

    References:
        M. Jaggi: Revisiting Frank-Wolfe: projection-free sparse convex optimization, ICML 2013 (fully corrective steps).
        Z. Akhtar, A. S. Bedi, K. Rajawat: Conservative Stochastic Optimization with Expectation Constraints,
        arXiv:2008.05758 (the tightened dual step).
    """

    gamma: Any = 0.5
    upsilon: Any = 1.2
    move: Literal["corrective", "line", "open"] = static(default="corrective")

    name = "cfw-csoa"
    needs = frozenset({"lmo", "rows"})
    cost = Cost(samples=1, gradients=1, lmos=1)
    facts = Facts(
        output="last", averages=False, full_batch=True, margin="upsilon", margin_power=2.0
    )  # what works off a violation on top of that vanishes with it
    anytime = True
    tuned = ("gamma", "upsilon")

    def init(self, problem: Problem, x: Tree, lam: Array, horizon: Array) -> CFWCSOAState:
        memory, none = problem.domain.lmo_memory(float_dtype(x)), jnp.zeros_like(lam)
        return CFWCSOAState(x, lam, memory, jnp.ones_like(lam), none, none, jnp.ones((), jnp.int32))

    def step(self, problem: Problem, state: CFWCSOAState, theta: Tree) -> tuple[CFWCSOAState, Info]:
        """One linear minimisation, one move, one dual step."""
        x, lam, t = state.x, state.lam, state.t
        f, h, g = problem.value_and_gradient(x, lam, theta)
        s, memory = problem.domain.warm_lmo(g, state.memory)
        x_next = self._move(problem, state, theta, g, s)
        gain = jnp.where(h * state.h < 0, state.gain / 2, jnp.minimum(_RECOVERY * state.gain, 1))
        count = t.astype(lam.dtype)
        upsilon = self.upsilon / count**2 + jnp.maximum(state.total / count, 0)
        lam_next = dual_step(lam, h, gamma=self.gamma * gain, shrink=0.0, upsilon=upsilon)
        info = Info(x, lam, f, h, record=problem.domain.lmo_record(memory))
        return CFWCSOAState(x_next, lam_next, memory, gain, h, state.total + h, t + 1), info

    def _move(self, problem: Problem, state: CFWCSOAState, theta: Tree, g: Tree, s: Tree) -> Tree:
        x, domain = state.x, problem.domain

        def line(d: Tree) -> Array:
            return step_length(problem, x, state.lam, theta, g, d)

        if self.move == "corrective" and domain.has_corrective:
            return domain.corrective(x, s, g, line)
        if self.move == "line":
            return domain.mix(x, s, jnp.clip(line(domain.between(x, s)), 0, 1))
        return domain.mix(x, s, 2 / (state.t + 7).astype(state.lam.dtype))
