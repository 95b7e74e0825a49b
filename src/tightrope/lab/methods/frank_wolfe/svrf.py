"""SVRF: variance-reduced Frank-Wolfe for data at hand."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tightrope.lab.methods.frank_wolfe.sfw import Pool, empty_pool, pool_and_move
from tightrope.methods.base import Cost, Facts, Info, Rates, Refreshing, Steps
from tightrope.methods.snapshot import Snapshot, correct, no_snapshot, take_snapshot
from tightrope.problem import Problem
from tightrope.sets import ConvexSet
from tightrope.tree import Array, Tree, pytree, static


class SVRFState(NamedTuple):
    """What the next step needs."""

    x: Tree  # x_k
    lam: Array  # stays zero: there are no constraints
    snap: Snapshot  # at w
    pool: Pool  # corrected gradients for the next move
    epoch: Array  # e, from 1; 0 before the first

    @property
    def answer(self) -> tuple[Tree, Array]:
        """The last w_e; x itself where the epoch has just been finished."""
        return jax.tree.map(lambda x, w: jnp.where(_finished(self), x, w), self.x, self.snap.w), self.lam


class _Steps(Steps):
    """Two gradients each, and a linear minimisation for every full batch."""

    method: "SVRF"

    def cost(self, steps: int, domain: ConvexSet | None = None) -> Cost:
        """A linear minimisation for every full batch, not for every step."""
        return Cost(samples=steps, gradients=2 * steps, lmos=sum(self.method._moves(steps)))

    def batch(self, n: int) -> int:
        """The paper's 96 rows, where there are as many."""
        return min(96, n)

    def looks(self, steps: int, n: int, domain: ConvexSet | None = None) -> Cost:
        """A pass for every epoch begun."""
        return Cost(samples=0, gradients=n * len(self.method._moves(steps)))


@pytree
class SVRF(Refreshing):
    """SVRF (Hazan & Luo): Frank-Wolfe on gradients corrected by a snapshot, in epochs that double.

    Epoch e = 1, 2, ... begins with u = grad F(w_{e-1}) over all rows and x_0 = w_{e-1}. Its k-th move, k = 1..N_e::

        d_k = u + mean over m_k rows of ( grad f(x_{k-1}, theta) - grad f(w_{e-1}, theta) )
        s_k = argmin over s in X of <d_k, s>
        x_k = x_{k-1} + 2/(k + 1) (s_k - x_{k-1})

    with N_e = 2^{e+3} - 2 and m_k = ceil(m0 (k + 1)), and w_e = x_{N_e}. The output is the last w_e: the first move of an
    epoch goes all the way to a vertex, so an epoch that is not finished does not count.

    A step of the library takes one batch of rows and adds its corrected gradient to d_k, while x stays put; every m_k
    steps there is a move. So m_k counts batches: the paper's 96 (k + 1) rows are m0 = 1 with batches of 96, the default.
    An epoch ends at the first multiple of `refresh_every` steps with N_e moves made; with the defaults these are exactly
    N_e. w_0 is the starting point; the paper minimises a linear function for it, at the price of another pass.

    For smooth convex functions the gap of w_e is at most L D^2 2^{-e-1} in expectation, hence O(T^-1/2) after T stochastic
    gradients, with log T passes on top.

    It knows no constraints E h <= 0; `tr.penalised` moves them into the objective.

    Args:
        m0: coefficient of the batch sizes.
        refresh_every: steps between looks at whether the epoch is over.

    Example:
        >>> from tightrope.lab.methods.frank_wolfe.svrf import SVRF
        >>> SVRF().steps.looks(steps=640, n=1000).gradients
        2000

    References:
        E. Hazan, H. Luo: Variance-Reduced and Projection-Free Stochastic Optimization, ICML 2016.
    """

    m0: Any = 1.0
    refresh_every: int | None = static(default=128)

    name = "svrf"
    needs = frozenset({"lmo", "rows", "unconstrained"})
    cost = Cost(samples=1, gradients=2, lmos=1)
    facts = Facts(output="own", published=Rates(gap=0.5))
    tuned = ("m0",)

    @property
    def steps(self) -> Steps:
        """With what they cost."""
        return _Steps(self)

    def init(self, problem: Problem, x: Tree, lam: Array, horizon: Array) -> SVRFState:
        """Everything that the first refresh will fill in."""
        return SVRFState(x, lam, no_snapshot(x, lam), empty_pool(problem, x), jnp.zeros((), jnp.int32))

    def refresh(self, problem: Problem, state: SVRFState, data: Tree) -> SVRFState:
        """Where the epoch is over, the next one: a snapshot at x and one pass over all rows."""

        def next_epoch() -> SVRFState:
            snap = take_snapshot(problem, state.x, state.lam, data)
            pool = state.pool._replace(seen=jnp.zeros_like(state.pool.seen), k=jnp.ones_like(state.pool.k))
            return state._replace(snap=snap, pool=pool, epoch=state.epoch + 1)

        return jax.lax.cond((state.epoch == 0) | _finished(state), next_epoch, lambda: state)

    def step(self, problem: Problem, state: SVRFState, theta: Tree) -> tuple[SVRFState, Info]:
        """One more corrected gradient at the same point; a move where they are enough."""
        x, lam, pool = state.x, state.lam, state.pool
        seen = correct(problem, state.snap, x, lam, theta)
        size = jnp.ceil(self.m0 * (pool.k.astype(lam.dtype) + 1))
        x_next, pool = pool_and_move(problem, x, pool, seen.gradient, size)
        info = Info(x, lam, seen.f, seen.h, record=problem.domain.lmo_record(pool.memory))
        return state._replace(x=x_next, pool=pool), info

    def snapshot(self, state: SVRFState) -> Snapshot:
        return state.snap

    def _moves(self, steps: int) -> list[int]:
        """How many moves the epochs of a run make, epoch by epoch."""
        moves, began, m0, every = [], 0, np.max(np.asarray(self.m0)), self.refresh_every or 1
        while began < steps:
            asked = 2 ** (len(moves) + 4) - 2  # N_e
            k = np.arange(1, asked + every + 1).astype(m0.dtype)  # moves go on until the epoch is seen to be over
            after = np.cumsum(np.maximum(np.ceil(m0 * (k + 1)), 1))  # steps that the first k moves take
            length = -(-int(after[asked - 1]) // every) * every
            moves.append(int(np.sum(after <= min(length, steps - began))))
            began += length
        return moves


def _finished(state: SVRFState) -> Array:
    """Whether the epoch has made its moves."""
    return state.pool.k > jnp.left_shift(8, state.epoch) - 2
