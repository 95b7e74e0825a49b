"""CoexCG and CoexDurCG: conditional gradients with multipliers, for objectives and constraints known without noise."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from tightrope.methods.base import Cost, Facts, Info, Method, Rates
from tightrope.problem import Problem
from tightrope.tree import Array, Tree, add_scaled, float_dtype, pytree, subtract


class CoexCGState(NamedTuple):
    """What the next step needs."""

    x: Tree  # x_{k-1}
    lam: Array  # q_{k-1}
    x_before: Tree  # x_{k-2}
    p: Tree  # p_{k-1}, the last vertex
    line: Array  # l(x_{k-3}; p_{k-2})
    memory: Tree  # of the set's linear minimisation
    k: Array  # step number, from 1
    horizon: Array  # K


@pytree
class CoexCG(Method):
    """CoexCG (Lan, Romeijn & Zhou): constraint-extrapolated conditional gradients, one linear minimisation a step.

    With l(y; x) = h(y) + J(y) (x - y), for k = 1..K::

        ht  = l(x_{k-2}; p_{k-1}) + (k - 1)/k ( l(x_{k-2}; p_{k-1}) - l(x_{k-3}; p_{k-2}) )
        q_k = [ q_{k-1} + ht/tau_k ]_+,        tau_k = beta K^{3/2}/k
        p_k = argmin over p in X of < grad f(x_{k-1}) + J(x_{k-1})' q_k, p >
        x_k = x_{k-1} + 2/(k + 1) (p_k - x_{k-1})

    from x_0 = x_{-1} = p_0 = x_1 and q_0 = 0. The output is the last iterate, which is itself a mean of the vertices, p_k
    with weight k; the multipliers are averaged with the same weights. For smooth convex f and h its gap and its
    violation are both O(K^-1/2) after K steps.

    f and h are meant to be known without noise: by default a step looks at all the rows. Smaller batches put sampled
    values in their place, and nothing is proven for that. The paper's beta is made of constants of the problem; here it
    is a coefficient, and the steps are put together from the paper's summary of them.

    Args:
        beta: coefficient of tau; larger is a slower dual step.

    Example:
        >>> from tightrope.lab.methods.frank_wolfe.coexcg import CoexCG
        >>> CoexCG(beta=0.2).facts.full_batch
        True

    References:
        G. Lan, E. Romeijn, Z. Zhou: Conditional Gradient Methods for Convex Optimization with General Affine and
        Nonlinear Constraints, SIAM Journal on Optimization 31 (2021), arXiv:2007.00153.
    """

    beta: Any = 0.5

    name = "coexcg"
    facts = Facts(positive=("beta",), full_batch=True, output="last", published=Rates(gap=0.5, violation=0.5))
    needs = frozenset({"lmo", "rows"})
    cost = Cost(samples=1, gradients=1, lmos=1)
    tuned = ("beta",)

    def init(self, problem: Problem, x: Tree, lam: Array, horizon: Array) -> CoexCGState:
        """Every earlier point is x_0; the first extrapolation has weight 0, so it needs no value to start from."""
        memory = problem.domain.lmo_memory(float_dtype(x))
        return CoexCGState(x, lam, x, x, jnp.zeros_like(lam), memory, jnp.ones((), jnp.int32), horizon)

    def step(self, problem: Problem, state: CoexCGState, theta: Tree) -> tuple[CoexCGState, Info]:
        """Extrapolate the linearised constraints, step in the dual, then towards the best vertex."""
        x, k = state.x, state.k.astype(state.lam.dtype)
        move = subtract(state.p, state.x_before)
        value, slope = jax.jvp(lambda y: problem.constraint_values(y, theta), (state.x_before,), (move,))
        line = value + slope
        lam = self.dual(state, k, line + (k - 1) / k * (line - state.line))
        f, h, g = problem.value_and_gradient(x, lam, theta)
        p, memory = problem.domain.warm_lmo(g, state.memory)
        x_next = add_scaled(x, 2 / (k + 1), subtract(p, x))
        after = CoexCGState(x_next, lam, x, p, line, memory, state.k + 1, state.horizon)
        return after, Info(x, lam, f, h, weight=k, record=problem.domain.lmo_record(memory))

    def dual(self, state: CoexCGState, k: Array, ahead: Array) -> Array:
        """The multipliers q_k, from the constraints as the line sees them ahead."""
        tau = self.beta * state.horizon.astype(k.dtype) ** 1.5 / k
        return jnp.maximum(state.lam + ahead / tau, 0)


@pytree
class CoexDurCG(CoexCG):
    """CoexDurCG (Lan, Romeijn & Zhou): CoexCG with a regularised dual step, which needs no horizon.

    As CoexCG, but::

        q_k = [ (tau_k q_{k-1} + ht) / (tau_k + gamma_k) ]_+,
        tau_k = beta sqrt(k),        gamma_k = beta/k ( (k + 1)^{3/2} - k^{3/2} )

    which pulls the multipliers towards zero, less and less. Gap and violation are O(k^-1/2), at every k.

    Args:
        beta: coefficient of tau and gamma; larger is a slower dual step.

    Example:
        >>> from tightrope.lab.methods.frank_wolfe.coexcg import CoexDurCG
        >>> CoexDurCG(beta=0.2).anytime
        True

    References:
        G. Lan, E. Romeijn, Z. Zhou: Conditional Gradient Methods for Convex Optimization with General Affine and
        Nonlinear Constraints, SIAM Journal on Optimization 31 (2021), arXiv:2007.00153.
    """

    name = "coexdurcg"
    anytime = True

    def dual(self, state: CoexCGState, k: Array, ahead: Array) -> Array:
        """The regularised multipliers q_k."""
        tau = self.beta * jnp.sqrt(k)
        gamma = self.beta / k * ((k + 1) ** 1.5 - k**1.5)
        return jnp.maximum((tau * state.lam + ahead) / (tau + gamma), 0)
