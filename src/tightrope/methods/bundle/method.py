"""The bundle method, as the loop sees it; what happens at a look is in look.py."""

from typing import Any

import jax

from tightrope.methods.base import Cost, Info, Proof, Refreshing
from tightrope.methods.bundle.look import Look
from tightrope.methods.bundle.state import BundleState, before_the_first_look, proven
from tightrope.problem import Problem
from tightrope.tree import Array, Tree, pytree, static


@pytree
class Bundle(Refreshing):
    """A bundle method on full passes: for few coordinates, with or without curvature.

    A step is a look at all rows at one point x_k. It gives F_k, H_k and their gradients, hence cuts: linear functions that
    F and H are nowhere below. From all of them, on the host::

        lower bound  F* >= min over x in X of max_k (cut of F), subject to every cut of H being <= 0; by a formula that
                     holds for any multipliers, so that a solver's inaccuracy never makes a false claim
        output       sum_k w_k x_k, the weights of least sum_k w_k F_k with sum_k w_k H_k <= 0: feasible by convexity
        next look    where sequential quadratic programming leads, with curvature from some rows and from differences of
                     gradients; where that lowers the gap by less than level steps do, and where there is no curvature, a
                     level step: of the points at which the cuts promise a value of F between the two bounds, and keep
                     half of the largest slack in H that this allows, the one nearest the output

    No step sizes, no strictly feasible point to begin with, and the same whatever the units of x, f and h_i are. Where
    the cuts of H alone prove that no point satisfies all constraints, the run ends and says so.

    A look costs a pass; looks 1, 2, 4, 8, ... cost one more, for curvature. Programmes on the host grow with the number of
    coordinates, constraints and looks.

    Args:
        level: where a level step aims at most between the lower bound (0) and the value of the output (1); lower where
            the cuts have kept what they promised.
        slack: the share of the largest slack in the constraints that it keeps.
        memory: how many looks are kept; those that have been of no use for longest give way.

    Example:
        >>> import numpy as np, tightrope as tr
        >>> theta = np.random.default_rng(0).normal([-1.0, 0.0, 1.0], 1.0, size=(500, 3))
        >>> problem = tr.Problem(
        ...     lambda x, theta: abs(x - theta).sum(),
        ...     lambda x, theta: x[2:] - x[:1],
        ...     tr.Box(-3.0, 3.0, shape=3),
        ...     levels=1.0,
        ... )
        >>> tr.minimize(problem, theta, method="bundle", tol=1e-3).status.name
        'TOLERANCE'

    References:
        C. Lemarechal, A. Nemirovskii, Yu. Nesterov: New Variants of Bundle Methods, Mathematical Programming 69, 1995.
        M. J. D. Powell: A Fast Algorithm for Nonlinearly Constrained Optimization Calculations, 1978 (damped updates).
    """

    level: Any = 0.5
    slack: Any = 0.5
    memory: int = static(default=128, least=8)
    refresh_every: int | None = static(default=1)

    name = "bundle"
    tuned = ("level", "slack")
    positive = ("level",)
    below_one = ("level", "slack")
    needs = frozenset({"rows", "lmo", "conic", "values"})
    cost = Cost(gradients=0)
    takes_nested = True
    output = "own"
    averages = False
    on_host = True
    feasible_output = True

    def gradients_of_refreshes(self, steps: int, n: int) -> int:
        """A pass for each look, and one more for the curvature at looks 1, 2, 4, 8, ..."""
        return n * (steps + steps.bit_length())

    def init(self, problem: Problem, x: Tree, lam: Array, horizon: Array) -> BundleState:
        """Room for every look that is kept."""
        return before_the_first_look(x, lam, self.memory)

    def refresh(self, problem: Problem, state: BundleState, data: Tree) -> BundleState:
        """A look where the last one said, and what follows from it."""
        return Look(problem, jax.device_get(state), data).after(float(self.level), float(self.slack))

    def step(self, problem: Problem, state: BundleState, theta: Tree) -> tuple[BundleState, Info]:
        """A report of the look, and nothing else: no sample is needed."""
        return state._replace(t=state.t + 1), Info(state.x, state.lam, state.seen[0], state.seen[1:])

    def answer(self, state: BundleState) -> tuple[Tree, Array]:
        """The best combination of the points looked at, and the multipliers of the best bound."""
        return state.x, state.lam

    def proof(self, state: BundleState) -> Proof:
        """What the cuts so far prove."""
        return proven(state)
