"""OFW: online Frank-Wolfe on the mean of all losses seen so far."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from tightrope.methods.base import Cost, Facts, Info, Rates, Refreshes, Refreshing
from tightrope.problem import Problem
from tightrope.problem.full_data import Numbered, count, fold_rows
from tightrope.sets import ConvexSet
from tightrope.tree import Array, Tree, add_scaled, float_dtype, pytree, replace, static, subtract


class OFWState(NamedTuple):
    """What the next step needs."""

    x: Tree  # x_t
    lam: Array  # stays zero: there are no constraints
    f: Array  # the mean of the losses so far, at x_t
    h: Array
    d: Tree  # its gradient
    memory: Tree  # of the set's linear minimisation
    t: Array  # round, from 1


class _Rounds(Refreshes):
    """Of round t the rows so far: b, 2b, ..., and n once all are in."""

    def looks(self, steps: int, n: int, domain: ConvexSet | None = None) -> Cost:
        """So many gradients."""
        size = self.method.batch_size
        growing = min(steps, n // size)
        return Cost(samples=0, gradients=size * growing * (growing + 1) // 2 + (steps - growing) * n)


@pytree
class OFW(Refreshing):
    """Online Frank-Wolfe (Hazan & Kale), the form for stochastic smooth losses.

    In round t = 1, 2, ... a new sample theta_t is in, and all samples so far are looked at again::

        d_t     = (1/t) sum over k <= t of grad f(x_t, theta_k)
        s_t     = argmin over s in X of <d_t, s>
        x_{t+1} = x_t + eta_t (s_t - x_t),        eta_t = eta0/t, at most 1

    Round t costs t gradients. The output is the last iterate. For smooth convex losses its gap is O(t^-1/2) after t
    samples, up to a logarithm, which is T^-1/4 in T = t^2/2 gradients. No horizon is needed.

    All samples have to be kept, so the method works on rows at hand: those of round t are the first t rows (with batches
    of b, the first t b), and once all rows are in, the mean is over all of them. The rows should be in random order.
    The seed changes nothing, because the rows are looked at in their own order.

    It knows no constraints E h <= 0; `tr.penalised` moves them into the objective.

    Args:
        eta0: coefficient of the Frank-Wolfe step.
        batch_size: rows that come in a round; `minimize` sets it.

    Example:
        >>> from tightrope.lab.methods.frank_wolfe.ofw import OFW
        >>> OFW().steps.looks(steps=4, n=1000).gradients
        10

    References:
        E. Hazan, S. Kale: Projection-free Online Learning, ICML 2012.
    """

    eta0: Any = 1.0
    batch_size: int = static(default=1)

    name = "ofw"
    refresh_every = 1
    needs = frozenset({"lmo", "rows", "unconstrained"})
    cost = Cost(samples=1, gradients=0, lmos=1)
    facts = Facts(output="last", published=Rates(gap=0.5))
    tuned = ("eta0",)

    def for_rows(self, n: int, batch_size: int) -> "OFW":
        """A round brings as many rows as a batch has."""
        return replace(self, batch_size=batch_size)

    @property
    def steps(self) -> "_Rounds":
        """With what rounds cost."""
        return _Rounds(self)

    def init(self, problem: Problem, x: Tree, lam: Array, horizon: Array) -> OFWState:
        """x_1; the first refresh fills in the rest."""
        memory = problem.domain.lmo_memory(float_dtype(x))
        zero, zeros = jnp.zeros((), lam.dtype), jax.tree.map(jnp.zeros_like, x)
        return OFWState(x, lam, zero, jnp.zeros_like(lam), zeros, memory, jnp.ones((), jnp.int32))

    def refresh(self, problem: Problem, state: OFWState, data: Tree) -> OFWState:
        """The mean of the losses so far and its gradient, both at x_t."""
        n = count(data)
        seen = jnp.minimum(state.t * self.batch_size, n)

        def of_slice(part, weights):
            rows, number = part

            def weighted(x):
                f, h = jax.vmap(lambda theta: problem.sample_values(x, theta))(rows)
                known = weights * (number < seen)
                return jnp.dot(known.astype(f.dtype), f), known.astype(h.dtype) @ h

            def looked_at():
                (f, h), g = jax.value_and_grad(weighted, has_aux=True)(state.x)
                return f.astype(state.f.dtype), h.astype(state.h.dtype), g

            to_come = jax.tree.map(jnp.zeros_like, (state.f, state.h, state.x))
            return jax.lax.cond(number[0] < seen, looked_at, lambda: to_come)

        sums = fold_rows(of_slice, Numbered(data))
        f, h, d = jax.tree.map(lambda v: v * (n / seen.astype(v.dtype)), sums)
        return state._replace(f=f, h=h, d=d)

    def step(self, problem: Problem, state: OFWState, theta: Tree) -> tuple[OFWState, Info]:
        """Move towards the best vertex for the losses so far; theta is one of the rows and is not looked at."""
        x, t = state.x, state.t.astype(state.lam.dtype)
        s, memory = problem.domain.warm_lmo(state.d, state.memory)
        x_next = add_scaled(x, jnp.minimum(self.eta0 / t, 1), subtract(s, x))
        info = Info(x, state.lam, state.f, state.h, record=problem.domain.lmo_record(memory))
        return state._replace(x=x_next, memory=memory, t=state.t + 1), info
