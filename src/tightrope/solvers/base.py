"""What a solver is: an algorithm that sees all rows, one look after the other, and says what each look proves.

A solver is a plain Python generator. It draws no samples, averages nothing and keeps no clock: what is done with its looks
(when they end, what is recorded, where they are saved) stands in `loop/looks.py`.
"""

from abc import abstractmethod
from collections.abc import Iterator
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from tightrope.methods.base import Algorithm, Facts, Need
from tightrope.problem import Problem
from tightrope.tree import Array, Tree

SOLVED = (
    1e-4  # of the scale of F: the gap at which a run without a budget ends; what a user sees of four digits; by hand
)


class Look(NamedTuple):
    """What is known after a look at all rows.

    Example:
        >>> import numpy as np, tightrope as tr
        >>> look = tr.Look(
        ...     x=np.zeros(2), lam=np.zeros(1), seen=np.array([3.0, -1.0]), memory=None, upper=3.0, lower=2.5
        ... )
        >>> look.gap
        0.5
    """

    x: Tree  # the answer: feasible where `upper` is finite, else of least violation
    lam: Array  # the multipliers of the best bound
    seen: np.ndarray  # F and H at the point that was looked at
    memory: Any  # all that the next look needs, and all that a checkpoint holds: arrays of shapes that stay
    upper: float = np.inf  # F(x) but for rounding, with x feasible; inf where no feasible point was found yet
    lower: float = -np.inf  # a bound on F* but for rounding
    rounding: float = 0.0  # by how much upper - lower may be below F(x) - F*, because numbers are rounded
    scale: float = np.nan  # of F over the domain: a gap is small or large beside this
    conflict: dict[int, float] = {}  # noqa: RUF012 (never changed) every point of the domain violates one of these
    # constraints by as much; empty where no such thing is proven
    settled: bool = True  # whether a conflict is as well known as it need be
    interior: bool = True  # False where it is proven that no point satisfies every constraint by more than rounding
    over: np.ndarray | float = 0.0  # then, by how much H(x) may be above zero because of it; otherwise 0
    points: tuple[np.ndarray, ...] = ()  # vectors: where all rows were looked at, the points that matter most first
    news: bool = True  # whether anything could be proven by this look
    note: str | None = None  # for the report, on what the solver chose for itself

    @property
    def gap(self) -> float:
        """A bound on F(x) - F*, rounding counted."""
        return self.upper - self.lower + self.rounding


class NotFiniteLook(FloatingPointError):
    """A look met a value that is not finite."""

    def __init__(self, seen: np.ndarray):
        super().__init__("a look met a value that is not finite")
        self.seen = seen  # F and H there


class Solver(Algorithm):
    """An algorithm on all rows: `looks`, and its coefficients as fields, as those of a `Method`.

    Example:
        >>> import tightrope as tr
        >>> issubclass(tr.SQP, tr.Solver), issubclass(tr.CSOA, tr.Solver)
        (True, False)
    """

    needs: ClassVar[frozenset[Need]] = frozenset({"rows"})
    facts: ClassVar[Facts] = Facts(output="own", averages=False)

    def fitted(self, problem: Problem, x: Tree, n: int) -> Self:
        """The solver fitted to a problem, its point x and the number of its rows."""
        return self

    @abstractmethod
    def start(self, x: Tree, lam: np.ndarray) -> Any:
        """The memory before the first look, which is taken at x with multipliers lam."""

    @abstractmethod
    def looks(self, problem: Problem, rows: Tree, memory: Any) -> Iterator[Look]:
        """Looks without end, from a memory on: that of `start`, or of the last look of an earlier run.

        Raises:
            NotFiniteLook: at a value that is not finite.
        """

    @abstractmethod
    def gradients(self, looks: int, n: int) -> int:
        """Per-row gradients that so many looks at n rows take."""
