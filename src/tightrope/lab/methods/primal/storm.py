"""STORM: projected steps along a recursively corrected gradient, with step sizes that adapt; and that gradient."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from tightrope.methods.base import Cost, Facts, Info, Method, Rates
from tightrope.problem import Problem
from tightrope.tree import Array, Tree, add_scaled, dot, pytree, subtract


class Tracked(NamedTuple):
    """What a tracker has seen of a sample."""

    f: Array  # at x
    h: Array  # at x
    g: Tree  # grad f(x, theta)
    d: Tree  # the tracked gradient


def track_gradient(problem: Problem, x: Tree, x_before: Tree, d: Tree, a: Array, lam: Array, theta: Tree) -> Tracked:
    """d <- g(x) + (1 - a) (d - g(x_before)), both gradients on the same sample.

    With a = 1 it is the plain gradient. With a small a the noise of earlier samples is averaged out, and the difference
    of the two gradients carries d along with x. `lam` belongs to both points; zeros give the objective alone.
    """
    f, h, g = problem.value_and_gradient(x, lam, theta)
    _, _, g_before = problem.value_and_gradient(x_before, lam, theta)
    return Tracked(f, h, g, add_scaled(g, 1 - a, subtract(d, g_before)))


class STORMState(NamedTuple):
    """What the next step needs."""

    x: Tree  # x_t
    lam: Array  # stays zero: there are no constraints
    x_before: Tree  # x_{t-1}
    d: Tree  # d_{t-1}, the tracked gradient
    a: Array  # a_t
    total: Array  # of |grad f(x_i, theta_i)|^2, i < t


@pytree
class STORM(Method):
    """STORM (Cutkosky & Orabona), with a projection.

    For t = 1, 2, ..., the same sample theta_t evaluated at x_t and at x_{t-1}::

        d_t     = grad f(x_t, theta_t) + (1 - a_t) ( d_{t-1} - grad f(x_{t-1}, theta_t) ),        a_1 = 1
        eta_t   = k / ( w + sum over i <= t of |grad f(x_i, theta_i)|^2 )^{1/3}
        x_{t+1} = Proj_X[ x_t - eta_t d_t ],        a_{t+1} = min(c eta_t^2, 1)

    The paper has no set X and a smooth F that need not be convex; it outputs an iterate at random, with
    E |grad F| = O(T^-1/3). The projection is our addition, and so is the output, the mean of the iterates, because the
    problems here are convex: nothing is proven about its gap. No horizon is needed.

    It knows no constraints E h <= 0; `tr.penalised` moves them into the objective.

    Args:
        k: coefficient of the step size.
        w: what the sum of squares starts from; keeps the first steps short.
        c: coefficient of the tracker's forgetting. The paper's constants k, w, c need the smoothness and a bound on
            gradients; the defaults are ours, for problems of order one.

    Example:
        >>> from tightrope.lab.methods.primal.storm import STORM
        >>> STORM(k=0.1, w=0.1).k
        0.1

    References:
        A. Cutkosky, F. Orabona: Momentum-Based Variance Reduction in Non-Convex SGD, NeurIPS 2019.
    """

    k: Any = 0.5
    w: Any = 0.1
    c: Any = 10.0

    name = "storm"
    facts = Facts(positive=("w",), published=Rates(gap=None))
    needs = frozenset({"project", "unconstrained"})
    cost = Cost(samples=1, gradients=2, projections=1)
    tuned = ("k", "c")
    anytime = True

    def init(self, problem: Problem, x: Tree, lam: Array, horizon: Array) -> STORMState:
        """x_1; with a_1 = 1 the first step takes d_1 = g_1 whatever d_0 is."""
        zero = jnp.zeros((), lam.dtype)
        return STORMState(x, lam, x, jax.tree.map(jnp.zeros_like, x), zero + 1, zero)

    def step(self, problem: Problem, state: STORMState, theta: Tree) -> tuple[STORMState, Info]:
        """Track the gradient, step along it, and let the next one forget as much as the step allows."""
        x, lam = state.x, state.lam
        f, h, g, d = track_gradient(problem, x, state.x_before, state.d, state.a, lam, theta)
        total = state.total + dot(g, g)
        eta = self.k / jnp.cbrt(self.w + total)
        x_next = problem.domain.project(add_scaled(x, -eta, d))
        a = jnp.minimum(self.c * eta**2, 1)
        return STORMState(x_next, lam, x, d, a, total), Info(x, lam, f, h)
