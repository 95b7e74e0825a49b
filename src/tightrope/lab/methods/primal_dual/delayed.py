"""The asynchronous saddle-point method: gradients arrive late."""

from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp

from tightrope.methods.base import Cost, Facts, Info, Method, Power, Powers, Rates
from tightrope.problem import Problem
from tightrope.tree import Array, Tree, add_scaled, pytree, static


class DelayedState(NamedTuple):
    """What the next step needs."""

    x: Tree  # x_t
    lam: Array  # lambda_t
    past: tuple[Tree, Array]  # the last delay + 1 of (x, lambda), in a ring
    t: Array  # step number, from 1
    horizon: Array  # T


@pytree
class DelayedSaddle(Method):
    """The asynchronous saddle-point method (Bedi, Koppel & Rajawat), in one place instead of a network.

    What arrives at step t was computed at the earlier point and multipliers of [t] = t - tau(t)::

        x_{t+1}   = Proj_X[ x_t - eta ( grad f(x_[t], theta_t) + sum_i lambda_{i,[t]} grad h_i(x_[t], theta_t) ) ]
        lambda_{t+1} = [ lambda_t + eta ( h(x_[t], theta_t) - eta delta lambda_[t] ) ]_+

    with eta = eta0/sqrt(T) and 0 <= tau(t) <= delay, from lambda_1 = 0. theta_t is the sample drawn for the earlier
    point: it is fresh, so it is independent of that point. The output is the mean of x_1..x_T. For bounded delays its
    gap is O(T^-1/2), and the violation summed over the constraints O(T^-1/4) by the paper's analysis. Without delay it
    is CSOA with upsilon0 = 0.

    A delay feeds the oscillation between x and lambda: over a run it grows by about exp(eta0^2 |grad h|^2 tau), less
    what delta takes. The defaults, which are ours, allow for that; for longer delays use a smaller eta0.

    Args:
        eta0: coefficient of the step size.
        delta: regularisation of the multipliers; the theory wants it of the order of N |grad h|^2.
        delay: the largest delay, in steps.
        pattern: "constant": every answer is `delay` steps old (as old as there is, at first); "cyclic": ages
            0, 1, ..., delay in turn, like agents of different speeds.

    Example:
        >>> from tightrope.lab.methods.primal_dual.delayed import DelayedSaddle
        >>> DelayedSaddle(delay=3).delay
        3

    References:
        A. S. Bedi, A. Koppel, K. Rajawat: Asynchronous Saddle Point Algorithm for Stochastic Optimization in
        Heterogeneous Networks, IEEE Transactions on Signal Processing, 2019, arXiv:1707.05816.
    """

    eta0: Any = 0.5
    delta: Any = 1.0
    delay: int = static(default=8, least=0)
    pattern: Literal["constant", "cyclic"] = static(default="constant")

    name = "async-saddle"
    needs = frozenset({"project"})
    cost = Cost(samples=1, gradients=1, projections=1)
    facts = Facts(published=Rates(gap=0.5, violation=0.25))
    tuned = ("eta0", "delta")

    @property
    def steps(self) -> Powers:
        """From coefficients."""
        return Powers(self)

    def init(self, problem: Problem, x: Tree, lam: Array, horizon: Array) -> DelayedState:
        """x_1 and lambda_1; nothing older is ever asked for."""
        past = jax.tree.map(lambda v: jnp.broadcast_to(v, (self.delay + 1, *jnp.shape(v))), (x, lam))
        return DelayedState(x, lam, past, jnp.ones((), jnp.int32), horizon)

    def step(self, problem: Problem, state: DelayedState, theta: Tree) -> tuple[DelayedState, Info]:
        """Remember the current point, then step along what an older one says."""
        x, lam, past, t, horizon = state
        eta = Power(self.eta0, 0.5)(t, horizon).astype(lam.dtype)
        room = self.delay + 1
        past = jax.tree.map(lambda ring, v: ring.at[t % room].set(v), past, (x, lam))
        x_old, lam_old = jax.tree.map(lambda ring: ring[(t - self.age(t)) % room], past)
        f, h, g = problem.value_and_gradient(x_old, lam_old, theta)
        x_next = problem.domain.project(add_scaled(x, -eta, g))
        lam_next = (1 - eta**2 * self.delta) * lam_old + eta * h + (lam - lam_old)  # this order is CSOA's without delay
        return DelayedState(x_next, jnp.maximum(lam_next, 0), past, t + 1, horizon), Info(x, lam, f, h)

    def age(self, t: Any) -> Array:
        """tau(t), at most t - 1."""
        return jnp.minimum(self.delay, t - 1) if self.pattern == "constant" else (t - 1) % (self.delay + 1)
