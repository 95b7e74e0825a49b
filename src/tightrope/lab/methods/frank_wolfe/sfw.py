"""SFW: Frank-Wolfe on batches of fresh samples that grow with the square of the move's number."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tightrope.methods.base import Cost, Facts, Info, Method, Rates, Steps
from tightrope.problem import Problem
from tightrope.sets import ConvexSet
from tightrope.tree import Array, Tree, add_scaled, float_dtype, pytree, subtract


class Pool(NamedTuple):
    """A batch in the making: gradients at one point, averaged until there are enough of them for a move."""

    mean: Tree  # of the gradients so far
    seen: Array  # how many they are
    k: Array  # the number of the move they are for, from 1
    memory: Tree  # of the set's linear minimisation


def empty_pool(problem: Problem, x: Tree) -> Pool:
    """Nothing seen, for the first move."""
    memory = problem.domain.lmo_memory(float_dtype(x))
    return Pool(jax.tree.map(jnp.zeros_like, x), jnp.zeros((), jnp.int32), jnp.ones((), jnp.int32), memory)


def pool_and_move(problem: Problem, x: Tree, pool: Pool, g: Tree, size: Array) -> tuple[Tree, Pool]:
    """Take g into the pool. With `size` gradients in it, make the k-th move, x + 2/(k + 1) (s - x), and begin anew."""
    seen = pool.seen + 1
    mean = add_scaled(pool.mean, 1 / seen.astype(size.dtype), subtract(g, pool.mean))  # forgets a mean of 0 gradients
    full = seen >= size

    def move() -> tuple[Tree, Tree]:
        s, memory = problem.domain.warm_lmo(mean, pool.memory)
        return add_scaled(x, 2 / (pool.k.astype(size.dtype) + 1), subtract(s, x)), memory

    x_next, memory = jax.lax.cond(full, move, lambda: (x, pool.memory))  # no minimisation where there is no move
    return x_next, Pool(mean, jnp.where(full, 0, seen), pool.k + full, memory)


class SFWState(NamedTuple):
    """What the next step needs."""

    x: Tree  # x_k
    lam: Array  # stays zero: there are no constraints
    pool: Pool


class _Steps(Steps):
    """A gradient each, and a linear minimisation for every full batch."""

    method: "SFW"

    def cost(self, steps: int, domain: ConvexSet | None = None) -> Cost:
        """A linear minimisation for every full batch, not for every step."""
        m0 = np.max(np.asarray(self.method.m0))
        most = min(steps, int(np.cbrt(3 * steps / m0**2)) + 1)  # m_1 + ... + m_K > m0^2 K^3/3
        k = np.arange(1, most + 1).astype(m0.dtype)
        moves = int(np.sum(np.cumsum(np.ceil((m0 * (k + 1)) ** 2)) <= steps))
        return Cost(samples=steps, gradients=steps, lmos=moves)


@pytree
class SFW(Method):
    """Mini-batch stochastic Frank-Wolfe (as analysed by Hazan & Luo).

    The k-th move, k = 1, 2, ..., on m_k fresh samples::

        d_k     = mean of grad f(x_k, theta) over the m_k samples,        m_k = ceil( (m0 (k + 1))^2 )
        s_k     = argmin over s in X of <d_k, s>
        x_{k+1} = x_k + 2/(k + 1) (s_k - x_k)

    A step of the library takes one batch of samples. It adds their mean gradient to d_k while x_k stays put; every m_k
    steps there is a move. So m_k counts batches, and with a batch of one, samples. K moves take about m0^2 K^3/3 steps.

    With m0 = G/(L D), for gradients of size G, smoothness L and a domain of diameter D, the gap after k moves is
    O(L D^2/k) in expectation, hence O(T^-1/3) after T samples. The output is the last iterate. No horizon is needed.

    It knows no constraints E h <= 0; `tr.penalised` moves them into the objective.

    Args:
        m0: coefficient of the batch sizes. The default is for gradients, smoothness and domains of order one.

    Example:
        >>> from tightrope.lab.methods.frank_wolfe.sfw import SFW
        >>> SFW(m0=1.0).steps.cost(4 + 9 + 16).lmos
        3

    References:
        E. Hazan, H. Luo: Variance-Reduced and Projection-Free Stochastic Optimization, ICML 2016.
    """

    m0: Any = 1.0

    name = "sfw"
    facts = Facts(positive=("m0",), output="last", published=Rates(gap=1 / 3))
    needs = frozenset({"lmo", "unconstrained"})
    cost = Cost(samples=1, gradients=1, lmos=1)
    tuned = ("m0",)
    anytime = True

    @property
    def steps(self) -> Steps:
        """With what they cost."""
        return _Steps(self)

    def init(self, problem: Problem, x: Tree, lam: Array, horizon: Array) -> SFWState:
        """x_1, and no gradient yet."""
        return SFWState(x, lam, empty_pool(problem, x))

    def step(self, problem: Problem, state: SFWState, theta: Tree) -> tuple[SFWState, Info]:
        """One more gradient at the same point; a move where they are enough."""
        x, lam, pool = state
        f, h, g = problem.value_and_gradient(x, lam, theta)
        size = jnp.ceil((self.m0 * (pool.k.astype(lam.dtype) + 1)) ** 2)
        x_next, pool = pool_and_move(problem, x, pool, g, size)
        return SFWState(x_next, lam, pool), Info(x, lam, f, h, record=problem.domain.lmo_record(pool.memory))
