"""Sequential quadratic programming on all rows, for smooth functions of few coordinates; a look is in sqp_survey.py."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from tightrope.methods.base import Facts
from tightrope.problem import Problem
from tightrope.solvers.base import Look, Solver
from tightrope.solvers.limited import Bends, LimitedSurvey, rows_of
from tightrope.solvers.sqp_survey import A_PRODUCT, PLENTY, SQPMemory, SQPSurvey
from tightrope.solvers.survey import look_of, no_looks
from tightrope.tree import Tree, pytree, replace, size_of, static

_PAIRS = 30  # pairs of steps and changes that curvature of limited memory is made of; by hand
_WORTH = 8 * A_PRODUCT  # rows times coordinates for each row of the data: of a Hessian that eight passes pay for


@pytree
class SQP(Solver):
    """Sequential quadratic programming on full passes: for few coordinates and smooth functions, with a proof.

    A look is one at all rows, at one point. With F, H and their gradients there, on the host::

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
    pairs: int | None = static(default=None, least=0)

    name = "sqp"
    tuned = ("trust",)
    facts = Facts(output="own", averages=False, positive=("trust",), takes_nested=True)
    needs = frozenset({"rows", "lmo", "conic", "values", "curvature"})

    def fitted(self, problem: Problem, x: Tree, n: int) -> "SQP":
        """Without a matrix where eight passes do not pay for a Hessian on all rows, nor on as many as it needs; with one
        for what is nested."""
        d = size_of(x)
        starved = not problem.nested and _WORTH * n < d * min(n, PLENTY * d)
        return replace(self, pairs=_PAIRS * starved) if self.pairs is None else self

    def start(self, x: Tree, lam: np.ndarray) -> SQPMemory:
        """Room for every look that is kept."""
        known = no_looks(x, lam, self.memory)
        d, number, none = known["kept"].x.shape[1], np.zeros((), np.int32), known["margin"]
        zero, widths = np.zeros((), lam.dtype), np.zeros(d, lam.dtype)
        bend = np.zeros((rows_of(self.pairs) if self.pairs else d, d), lam.dtype)
        return SQPMemory(
            **known, widths=widths, bend=bend, centre=number, push=lam, price=none, move=widths, share=zero, drop=zero,
            failures=number, bent=number,
        )  # fmt: skip

    def looks(self, problem: Problem, rows: Tree, memory: SQPMemory) -> Iterator[Look]:
        """Each where the last one said, and the step that follows from it."""
        survey, conic = LimitedSurvey if self.pairs else SQPSurvey, problem.domain.conic(memory.x)
        while True:
            memory = survey(problem, memory, rows, conic).after(float(self.trust))
            yield look_of(memory, self._said(memory))

    def gradients(self, looks: int, n: int) -> int:
        """A pass for each look; four more for curvature and a first run on some of the rows, one with each doubling. One
        more where curvature takes a few products."""
        if self.pairs:
            return n * (looks + 1)
        return n * (looks + 4 + looks.bit_length())

    def _said(self, memory: SQPMemory) -> str | None:
        """What curvature is made of, where that is no matrix."""
        if not self.pairs:
            return None
        return (
            f"curvature is made of {Bends(memory.bend).leading} leading directions and of the last {self.pairs} steps, "
            "because a Hessian would take more rows than eight passes pay for."
        )
