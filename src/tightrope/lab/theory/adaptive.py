"""Steps of theorem 3: with the brake, zero violation and T^-1/2 at every T without a Lipschitz constant (docs/theory.md)."""

from typing import Any, NamedTuple

import jax.numpy as jnp

from tightrope.lab.theory.brake import Braked
from tightrope.methods.base import Cost, Facts, Info, Method, Rates
from tightrope.problem import Problem
from tightrope.tree import Array, Tree, add_scaled, dot, pytree, static


class AdaGradState(NamedTuple):
    """What the next step needs."""

    x: Tree  # x_t
    lam: Array  # lambda_t
    t: Array  # its number, from 1
    horizon: Array  # T
    slopes: Array  # the sum of |g_s|^2
    values: Array  # the sum of |h_s|^2


@pytree
class AdaGrad(Method):
    """A saddle-point method whose steps are made of what it has seen.

    For t = 1..T, from lambda_1 = 0, with g_t = grad f + sum_i lambda_{i,t} grad h_i at x_t and theta_t::

        x_{t+1}      = Proj_X[ x_t - diameter g_t / sqrt(2 sum_{s <= t} |g_s|^2) ]
        lambda_{t+1} = Proj[ lambda_t + bound h(x_t, theta_t) / sqrt(sum_{s <= t} |h_s|^2) ]

    onto multipliers that are not negative, of a norm of at most `bound`. Theorem 3 is about it under the brake:
    `braked_adagrad`.

    Args:
        diameter: of X, or more.
        bound: on |lambda|; theorem 3 takes twice the rise of F to a strictly feasible point over its slack.
        anytime: for `tr.Online`; the steps are the same.

    Example:
        >>> from tightrope.theory import AdaGrad
        >>> AdaGrad(diameter=2.0, bound=5.0).name
        'adagrad'
    """

    diameter: Any
    bound: Any
    anytime: bool = static(default=False)

    name = "adagrad"
    needs = frozenset({"project"})
    cost = Cost(samples=1, gradients=1, projections=1)
    facts = Facts(published=Rates(gap=0.5, violation=0.5))

    def init(self, problem: Problem, x: Tree, lam: Array, horizon: Array) -> AdaGradState:
        """Nothing seen."""
        none = jnp.zeros((), lam.dtype)
        return AdaGradState(x, lam, jnp.ones((), jnp.int32), horizon, none, none)

    def step(self, problem: Problem, state: AdaGradState, theta: Tree) -> tuple[AdaGradState, Info]:
        """One step in x and one in lambda, from the old point."""
        x, lam, t, horizon, slopes, values = state
        f, h, g = problem.value_and_gradient(x, lam, theta)
        slopes, values = slopes + dot(g, g), values + jnp.sum(h**2)
        x_next = problem.domain.project(add_scaled(x, -self.diameter * _over_root(2 * slopes), g))
        free = jnp.maximum(lam + self.bound * _over_root(values) * h, 0.0)
        lam_next = free * jnp.minimum(1.0, self.bound * _over_root(jnp.sum(free**2)))
        return AdaGradState(x_next, lam_next, t + 1, horizon, slopes, values), Info(x, lam, f, h)


def braked_adagrad(*, diameter: float, rise: float, inside: Tree, slack: Any, low: Any, high: Any) -> Braked:
    """Theorem 3 as a method: E H_i <= 0 and a gap of order T^-1/2, for every T.

    Args:
        diameter: of X, or more.
        rise: by how much F at the point inside may be above the optimum, at most.
        inside, slack, low, high: as for `Braked`.

    Example:
        >>> import jax, jax.numpy as jnp, tightrope as tr
        >>> from tightrope.theory import braked_adagrad
        >>> problem = tr.Problem(lambda x, theta: -x[0], lambda x, theta: x * theta - 0.5, tr.Box(0.0, 1.0, shape=(1,)))
        >>> noise = tr.Generator(lambda key: 2 * jax.random.uniform(key))
        >>> method = braked_adagrad(diameter=1.0, rise=0.5, inside=jnp.zeros(1), slack=0.5, low=-0.5, high=1.5)
        >>> bool(tr.minimize(problem, noise, method=method, steps=2000).x[0] < 0.55)
        True
    """
    bound = 2 * rise / float(jnp.min(jnp.asarray(slack)))
    return Braked(AdaGrad(diameter=diameter, bound=bound), inside, slack, low, high)


def _over_root(square: Array) -> Array:
    """One over its root; 0 where nothing was seen yet."""
    return jnp.where(square > 0, 1 / jnp.sqrt(jnp.where(square > 0, square, 1)), 0.0)
