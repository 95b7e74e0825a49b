"""CFW-CSOA: Frank-Wolfe with corrective steps on all the data at once, and CSOA's dual step."""

from typing import Any, NamedTuple

import jax.numpy as jnp

from tightrope._errors import coefficient
from tightrope._tree import Array, Tree, float_dtype, pytree, set_field, static
from tightrope.methods.base import Cost, Info, Method, dual_step
from tightrope.problem import Problem

MOVES = ("corrective", "line", "open")


class CFWCSOAState(NamedTuple):
    """What the next step needs."""

    x: Tree  # x_t
    lam: Array  # lambda_t
    memory: Tree  # of the set's linear minimisation
    t: Array  # step number, from 1


@pytree
class CFWCSOA(Method):
    """Frank-Wolfe with exact gradients and CSOA's dual step, for data at hand.

    For t = 1, 2, ..., with F, H and their gradients over all the data::

        g_t       = grad F(x_t) + sum_i lambda_i grad H_i(x_t)
        s_t       = argmin over s in X of <g_t, s>
        x_{t+1}   = a better point among those made of x_t and s_t
        lambda_{t+1} = [ lambda_t + gamma ( H(x_t) + upsilon/t^2 ) ]_+

    from lambda_1 = 0. What x_{t+1} is depends on `move`:

    - "corrective": what the set can do with x_t and s_t. The nuclear-norm balls take a projected gradient step on all
      matrices whose row and column spaces are spanned by those of x_t and s_t, which is a problem as small as their rank;
      other sets know nothing better than "line";
    - "line": the best point on the segment from x_t to s_t (exactly, where the Lagrangian is quadratic);
    - "open": x_t + 2/(t + 8) (s_t - x_t), the classical step.

    The output is the last iterate, which no average spoils: its rank stays bounded. As lambda_{T+1} >= gamma (sum of H(x_t)
    + upsilon sum 1/t^2), the mean of H(x_t) is at most (lambda_{T+1}/gamma - upsilon sum 1/t^2)/T: a tightening that is
    spent early makes the average violation zero and costs nothing later. There is no proof of a rate with a moving
    multiplier; for a fixed one "line" and "open" have Frank-Wolfe's 1/t.

    Args:
        gamma: the dual step, in units of multiplier per violation.
        upsilon: the tightening of the first step.
        move: "corrective", "line" or "open".

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
    move: str = static(default="corrective")

    name = "cfw-csoa"
    needs = frozenset({"lmo", "rows"})
    cost = Cost(samples=1, gradients=3, lmos=1)
    output = "last"
    averages = False
    anytime = True
    tuned = ("gamma", "upsilon")
    margin = "upsilon"

    def __post_init__(self):
        for name in ("gamma", "upsilon"):
            set_field(self, name, coefficient("CFWCSOA", name, getattr(self, name)))
        if self.move not in MOVES:
            raise ValueError(f"CFWCSOA: move is {self.move!r}; expected one of {', '.join(MOVES)}.")

    def default_batch(self, n: int | None) -> int:
        """All rows."""
        return n or 1

    def init(self, problem: Problem, x: Tree, lam: Array, horizon: Array) -> CFWCSOAState:
        """x_1 and lambda_1."""
        return CFWCSOAState(x, lam, problem.domain.lmo_memory(float_dtype(x)), jnp.ones((), jnp.int32))

    def step(self, problem: Problem, state: CFWCSOAState, theta: Tree) -> tuple[CFWCSOAState, Info]:
        """One linear minimisation, one move, one dual step."""
        x, lam, memory, t = state
        f, h, g = problem.value_and_gradient(x, lam, theta)
        s, memory = problem.domain.warm_lmo(g, memory)
        x_next = self._move(problem, state, theta, g, s)
        upsilon = self.upsilon / t.astype(lam.dtype) ** 2
        lam_next = dual_step(lam, h, gamma=self.gamma, shrink=0.0, upsilon=upsilon)
        return CFWCSOAState(x_next, lam_next, memory, t + 1), Info(x, lam, f, h)

    def _move(self, problem: Problem, state: CFWCSOAState, theta: Tree, g: Tree, s: Tree) -> Tree:
        x, domain = state.x, problem.domain
        if self.move == "open":
            return domain.mix(x, s, 2 / (state.t + 7).astype(state.lam.dtype))

        def line(d: Tree) -> Array:
            return problem.step_length(x, state.lam, theta, g, d)

        if self.move == "corrective":
            return domain.corrective(x, s, g, line)
        return domain.mix(x, s, jnp.clip(line(domain.between(x, s)), 0, 1))
