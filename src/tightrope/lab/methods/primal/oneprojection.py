"""Stochastic gradient steps with only one projection on the constraints, at the end."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from tightrope.methods.base import Cost, Facts, Info, Method, Rates, dual_step
from tightrope.problem import Problem
from tightrope.tree import Array, Mean, Tree, add_scaled, dot, nonzero, pytree, static, subtract


class OneProjectionState(NamedTuple):
    """What the next step needs, and the answer so far."""

    x: Tree  # x_t
    lam: Array  # lambda_t
    sums: Mean  # of x_1..x_t and lambda_1..lambda_t
    answer: tuple[Tree, Array]  # their means; after the last step, the mean of x projected on {h <= 0}
    t: Array  # step number, from 1
    horizon: Array  # T


@pytree
class OneProjection(Method):
    """SGD with only one projection (Mahdavi, Yang, Jin, Zhu & Yi).

    For t = 1..T, on a sample of f and with h known exactly::

        x_{t+1}   = Proj_X[ x_t - eta ( grad f(x_t, theta_t) + sum_i lambda_{i,t} grad h_i(x_t) ) ]
        lambda_{t+1} = [ (1 - delta eta^2) lambda_t + eta h(x_t) ]_+

    with eta = eta0/sqrt(T), from lambda_1 = 0; at the end the mean of x_1..x_T is projected on K = {x in X: h(x) <= 0}.
    In the paper X is a ball around K whose projection is a division, and the expensive projection on K is done once.
    The gap is then O(T^-1/2) up to a logarithm with high probability, if |grad h| is bounded away from zero on the
    border of K; the regulariser delta eta is of the order of the step, as the paper has it, without its logarithm.

    No set here knows the projection on K, so it is computed at step T, by `rounds` primal and dual steps:

        mu = [ mu + h(z)/|grad h(z)|^2 ]_+ ,      z = Proj_X[ z - s r ],      r = z - xbar + sum_i mu_i grad h_i(z) ,

    s = |r|^2/<r, B r> with B the derivative of r. One round is exact for one linear constraint away from the border of
    X. The steps are counted in `cost`, these rounds are not. A run that ends before step T answers with the plain mean.

    Args:
        eta0: coefficient of the step size.
        delta: regularisation of the multipliers.
        rounds: of the projection at the end.

    Example:
        >>> from tightrope.lab.methods.primal.oneprojection import OneProjection
        >>> OneProjection(eta0=0.5).eta0
        0.5

    References:
        M. Mahdavi, T. Yang, R. Jin, S. Zhu, J. Yi: Stochastic Gradient Descent with Only One Projection, NIPS 2012.
    """

    eta0: Any = 1.0
    delta: Any = 0.1
    rounds: int = static(default=100)

    name = "one-projection"
    needs = frozenset({"project", "exact_constraints"})
    cost = Cost(samples=1, gradients=1, projections=1)
    facts = Facts(output="own", published=Rates(gap=0.5, violation=0.5))
    tuned = ("eta0", "delta")

    def init(self, problem: Problem, x: Tree, lam: Array, horizon: Array) -> OneProjectionState:
        return OneProjectionState(x, lam, Mean.zeros_like((x, lam)), (x, lam), jnp.ones((), jnp.int32), horizon)

    def step(self, problem: Problem, state: OneProjectionState, theta: Tree) -> tuple[OneProjectionState, Info]:
        """One step of the regularised saddle-point problem; the last one also projects the mean."""
        x, lam, t, horizon = state.x, state.lam, state.t, state.horizon
        eta = self.eta0 / jnp.sqrt(horizon.astype(lam.dtype))
        f, h, g = problem.value_and_gradient(x, lam, theta)
        x_next = problem.domain.project(add_scaled(x, -eta, g))
        lam_next = dual_step(lam, h, gamma=eta, shrink=self.delta * eta**2, upsilon=0)
        sums = state.sums.add((x, lam)).close_group()
        mean, dual = jax.tree.map(lambda v: v / t.astype(lam.dtype), sums.sum())
        rounds = jnp.where(t == horizon, self.rounds, 0)  # a loop of no rounds costs nothing, also side by side
        answer = project_on_constraints(problem, mean, theta, rounds), dual
        return OneProjectionState(x_next, lam_next, sums, answer, t + 1, horizon), Info(x, lam, f, h)


def project_on_constraints(problem: Problem, point: Tree, theta: Tree, rounds: Any) -> Tree:
    """The point of {x in X: h(x) <= 0} nearest to a point of X, by so many rounds; h must be exact."""

    def constraints(z: Tree) -> Array:
        return problem.constraint_values(z, theta)

    def slope(z: Tree, mu: Array) -> Tree:  # of |z - point|^2/2 + <mu, h(z)>
        return add_scaled(subtract(z, point), 1, jax.vjp(constraints, z)[1](mu)[0])

    def improve(_, now: tuple[Tree, Array]) -> tuple[Tree, Array]:
        z, mu = now
        rows = jax.jacrev(constraints)(z)
        mu = jnp.maximum(mu + constraints(z) / nonzero(dot(rows, rows)), 0)
        r, bend = jax.jvp(lambda p: slope(p, mu), (z,), (slope(z, mu),))  # the slope, and its change along itself
        return problem.domain.project(add_scaled(z, -dot(r, r) / nonzero(dot(r, bend)), r)), mu

    mu = jnp.zeros_like(constraints(point))
    return jax.lax.fori_loop(0, rounds, improve, (point, mu))[0]
