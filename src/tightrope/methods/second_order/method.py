"""Sequential quadratic programming, as the loop sees it; what happens at a look is in look.py."""

from typing import Any

import jax
import numpy as np

from tightrope.methods.base import Cost, Info, Proof, Refreshing
from tightrope.methods.bundle.state import proven
from tightrope.methods.second_order.limited import LimitedTurn, Memory, rows_of
from tightrope.methods.second_order.look import PLENTY, Turn
from tightrope.methods.second_order.state import SQPState, before_the_first_look, packed, unpacked
from tightrope.problem import Problem
from tightrope.tree import Array, Tree, pytree, replace, static

_PAIRS = 30  # that curvature of limited memory is made of
_WORTH = 64  # rows times coordinates for each row of the data: products of a Hessian that eight passes pay for


@pytree
class SQP(Refreshing):
    """Sequential quadratic programming on full passes: for few coordinates and smooth functions, with a proof.

    A step is a look at all rows at one point. With F, H and their gradients there, on the host::

        step         min <grad F, p> + p'Bp/2  subject to  H + J p <= 0 and x + p in X, and its multipliers lam
        curvature    B is the Hessian of the Lagrangian on some of the rows, then corrected by damped BFGS updates with
                     the gradients of all rows
        line search  on the exact penalty F + <price, H_+>, prices a little above the multipliers
        lower bound  F* >= F + <lam, H> + min over v in X of <grad F + J'lam, v - x>, for any lam >= 0
        output       the point, pulled towards one that is strictly feasible where it violates a constraint: feasible by
                     convexity

    Where there are many rows and no multipliers are given, the first look is taken where a run on a part of the rows ends.
    That costs a pass or less, and is as close to the solution as these rows can tell. Where a step is refused again and
    again, and as long as no feasible point is known, looks are taken where the cuts of the last ones lead, as in the bundle
    method.

    Functions without curvature, or with kinks (hinges, absolute values), are refused: the bundle method is for these.

    Args:
        trust: the share of a step that is tried first; 1 or more for the whole step.
        memory: how many looks are kept.
        pairs: how many of the last steps curvature is made of, with leading directions and without a matrix; 0 for a
            matrix. By default 30 where there are many coordinates for the number of rows, and 0 elsewhere.
        coordinates: how many there are; set by the run.

    Example:
        >>> import numpy as np, tightrope as tr
        >>> theta = np.random.default_rng(0).normal([1.0, 1.0], 1.0, size=(1000, 2))
        >>> problem = tr.Problem(
        ...     lambda x, theta: ((x - theta) ** 2).sum() / 2,
        ...     lambda x, theta: (theta * x).sum()[None],
        ...     tr.L2Ball(2.0, shape=2),
        ...     levels=1.0,
        ... )
        >>> tr.minimize(problem, theta, method="sqp", tol=1e-4).status.name
        'TOLERANCE'

    References:
        M. J. D. Powell: A Fast Algorithm for Nonlinearly Constrained Optimization Calculations, 1978.
        S. P. Han: A Globally Convergent Method for Nonlinear Programming, JOTA 22, 1977 (the exact penalty).
        C. L. Lawson, R. J. Hanson: Solving Least Squares Problems, 1974 (the quadratic programme, by its dual).
    """

    trust: Any = 1.0
    memory: int = static(default=8, least=4)
    refresh_every: int | None = static(default=1)
    pairs: int | None = static(default=None, least=0)
    coordinates: int = static(default=0, least=0)

    name = "sqp"
    tuned = ("trust",)
    positive = ("trust",)
    needs = frozenset({"rows", "lmo", "conic", "values", "curvature"})
    cost = Cost(samples=0, gradients=0)
    output = "own"
    averages = False
    on_host = True
    feasible_output = True
    takes_nested = True

    def for_problem(self, problem: Problem, x: Tree, theta: Tree) -> "SQP":
        """With a matrix for the curvature of what is nested."""
        pairs = 0 if problem.nested and self.pairs is None else self.pairs
        return replace(self, coordinates=sum(np.size(leaf) for leaf in jax.tree.leaves(x)), pairs=pairs)

    def for_rows(self, n: int, batch_size: int) -> "SQP":
        """Without a matrix where eight passes do not pay for a Hessian on all rows, nor on as many as it needs."""
        d = self.coordinates
        starved = _WORTH * n < d * min(n, PLENTY * d)
        return replace(self, pairs=_PAIRS * starved) if self.pairs is None else self

    def gradients_of_refreshes(self, steps: int, n: int) -> int:
        """A pass for each look; four more for curvature and a first run on some of the rows, one with each doubling. One
        more where curvature takes a few products."""
        if self.pairs:
            return n * (steps + 1)
        return n * (steps + 4 + steps.bit_length())

    def init(self, problem: Problem, x: Tree, lam: Array, horizon: Array) -> SQPState:
        """Room for every look that is kept."""
        return before_the_first_look(x, lam, self.memory, rows_of(self.pairs))

    def refresh(self, problem: Problem, state: SQPState, data: Tree) -> SQPState:
        """A look where the last one said, and the step that follows from it."""
        turn = LimitedTurn if self.pairs else Turn
        known = unpacked(state, self.memory, rows_of(self.pairs))
        return packed(turn(problem, known, data).after(float(self.trust)), state)

    def step(self, problem: Problem, state: SQPState, theta: Tree) -> tuple[SQPState, Info]:
        """A report of the look, and nothing else: no sample is needed."""
        return state._replace(t=state.t + 1), Info(state.x, state.lam, state.seen[0], state.seen[1:])

    def answer(self, state: SQPState) -> tuple[Tree, Array]:
        """The best feasible point, and the multipliers of the best bound."""
        return state.x, state.lam

    def said(self, state: SQPState, names: list[str]) -> str | None:
        """What curvature is made of, where that is no matrix."""
        if not self.pairs:
            return None
        found = Memory(unpacked(state, self.memory, rows_of(self.pairs)).bend).leading
        return (
            f"curvature is made of {found} leading directions and of the last {self.pairs} steps, because a Hessian would "
            "take more rows than eight passes pay for."
        )

    def proof(self, state: SQPState) -> Proof:
        """What the looks so far prove."""
        return proven(unpacked(state, self.memory, rows_of(self.pairs)))
