"""CSA and multi-CSA: cooperative stochastic approximation, which steps on the objective or on a violated constraint."""

import dataclasses
from typing import Any, Literal

import jax
import jax.numpy as jnp

from tightrope.methods.base import Cost, Facts, Info, Method, Rates, State
from tightrope.problem import Problem
from tightrope.tree import Array, Tree, add_scaled, pytree, static

_PUBLISHED = Rates(gap=0.5, violation=0.5, proof="with a mean of many samples in the switch; with one it fails")


@pytree
class CSA(Method):
    """CSA (Lan & Zhou), a primal method that switches.

    For k = 1..K, on a sample theta_k and an independent one xi_k::

        G_k     = max_i h_i(x_k, xi_k), attained at i = i_k
        g_k     = grad f(x_k, theta_k)          if G_k <= eta_k,
                  grad h_{i_k}(x_k, theta_k)    otherwise
        x_{k+1} = Proj_X[ x_k - gamma_k g_k ]

    with gamma_k = gamma0/sqrt(K) and the tolerance eta_k = tol0/sqrt(K). The output is the mean of those x_k that were
    found within the tolerance, weighted by gamma_k; of a run that found none, the last iterate. Published for one
    constraint, with gap and violation of O(K^-1/2); of several the largest mean is taken here. There are no
    multipliers: they stay as they were given.

    The proof lets G_k be the mean of J samples, J growing with K, because its noise does not average out: with one
    constraint a run settles where G_k is above eta_k in a share lambda*/(1 + lambda*) of the steps, and not where the
    constraint itself is eta_k. Give the switch more samples with batch_size=(objective, constraints). The defaults are
    ours.

    Args:
        gamma0: coefficient of the step size.
        tol0: coefficient of the tolerance eta_k.

    Example:
        >>> from tightrope.lab.methods.primal.csa import CSA
        >>> CSA(gamma0=2.0).gamma0
        2.0

    References:
        G. Lan, Z. Zhou: Algorithms for Stochastic Optimization with Function or Expectation Constraints,
        Computational Optimization and Applications 76, 2020.
    """

    gamma0: Any = 1.0
    tol0: Any = 1.0

    name = "csa"
    facts = Facts(
        multipliers=False,
        published=_PUBLISHED,
        published_by_steps={"one sample in the switch": Rates(), "a mean of many": _PUBLISHED},
    )
    needs = frozenset({"project"})
    cost = Cost(samples=2, gradients=1, projections=1)
    tuned = ("gamma0", "tol0")

    def step(self, problem: Problem, state: State, theta: Tree) -> tuple[State, Info]:
        """Judge the constraints on one sample, step on the other."""
        x, lam, t, horizon = state
        of_gradient, of_switch = theta
        root = jnp.sqrt(horizon.astype(lam.dtype))
        gamma, eta = self.gamma0 / root, self.tol0 / root
        estimate = problem.constraint_values(x, of_switch)
        within = worst(estimate)[0] <= eta
        (f, h), pull = jax.vjp(lambda point: problem.values(point, of_gradient), x)
        on_h = jnp.where(within, 0, self.choose(estimate, eta, t))
        (g,) = pull((within.astype(f.dtype), on_h))  # one backward pass, whichever it is
        x_next = problem.domain.project(add_scaled(x, -gamma, g))
        info = Info(x, lam, f, h, weight=jnp.where(within, gamma, 0))
        return state.after(x_next, lam), info

    def choose(self, estimate: Array, eta: Array, t: Array) -> Array:
        """The constraint to step on, as a vector with a one at its index."""
        return worst(estimate)[1]


@pytree
class MultiCSA(CSA):
    """CSA for several constraints (Basu & Nandy): a step on any one of the violated constraints.

    The update is CSA's with another choice of i_k among the indices with h_i(x_k, xi_k) > eta_k: one of them at
    random, each as likely as the others, or the most violated one, which is CSA on the maximum. Gap and violation are
    O(K^-1/2), by a proof that covers the sampling error of the switch. Reconstructed from the abstract and a
    secondary source; the constants are ours. The picks depend on k alone: they are the same in every run.

    Args:
        gamma0: coefficient of the step size.
        tol0: coefficient of the tolerance eta_k, the same for all constraints.
        choice: "random" or "worst".

    Example:
        >>> from tightrope.lab.methods.primal.csa import MultiCSA
        >>> MultiCSA(choice="worst").choice
        'worst'

    References:
        K. Basu, P. Nandy: Optimal Convergence for Stochastic Optimization with Multiple Expectation Constraints,
        arXiv:1906.03401.
    """

    choice: Literal["random", "worst"] = static(default="random")

    name = "multi-csa"
    facts = dataclasses.replace(
        CSA.facts,
        published=Rates(
            gap=0.5, violation=0.5, proof="of the published method; this is reconstructed from its abstract"
        ),
        published_by_steps={},
        multipliers=False,
    )

    def choose(self, estimate: Array, eta: Array, t: Array) -> Array:
        """One of the violated constraints."""
        if self.choice == "worst" or estimate.shape[0] < 2:
            return worst(estimate)[1]
        lot = jax.random.uniform(jax.random.key(t), estimate.shape, estimate.dtype)
        return worst(jnp.where(estimate > eta, lot, -1))[1]  # the largest lot of those that are violated


def worst(h: Array) -> tuple[Array, Array]:
    """The largest h_i and a vector with a one at its index; minus infinity where there are no constraints."""
    if h.shape[0] == 0:
        return jnp.asarray(-jnp.inf, h.dtype), h
    return jnp.max(h), (jnp.arange(h.shape[0]) == jnp.argmax(h)).astype(h.dtype)
