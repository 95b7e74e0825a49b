"""What a problem of this study consists of, and the list of all of them.

A problem is a function with a docstring that says what it is. It is given `kept`, which every array that goes into the rows
has to pass through: it rounds to float32 where that is how rows are stored, so that the problem and its reference see the
same numbers. It gives back a `Task`. Its name says by a hash which half it is in; nobody chooses.
"""

import dataclasses
import hashlib
import importlib
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import numpy as np

import tightrope as tr

Half = Literal["develop", "unseen", "later"]
Kept = Callable[[np.ndarray], np.ndarray]
FAMILIES = ("regression", "counts", "classification", "choice", "portfolio", "shapes", "later")


class Programme(NamedTuple):
    """The problem as written for cvxpy."""

    problem: Any  # a cvxpy.Problem, in units in which an interior-point method is accurate
    x: Callable[[], Any]  # its solution in the user's units, once it is solved
    unit: float = 1.0  # F is its objective times this
    logarithm: bool = False  # or, where this is True, the exponential of its objective

    @property
    def value(self) -> float:
        """F at the solution, as the solver says."""
        return float(np.exp(self.problem.value)) if self.logarithm else self.unit * self.problem.value


@dataclasses.dataclass(frozen=True)
class Task:
    """One problem with its rows, as a user would write them, and where its solution comes from."""

    problem: tr.Problem
    rows: Any  # a pytree of float64 arrays
    programme: Callable[[], Programme] | None = None  # makes the programme anew
    solution: Callable[[], Any] | None = None  # x*, by a formula or by Newton's method, where cvxpy has no exact form
    room: bool = True  # whether some point satisfies every constraint strictly
    smooth: bool = True  # whether derivatives are there and SLSQP can be expected to work


@dataclasses.dataclass(frozen=True)
class Entry:
    """A problem in the list."""

    name: str
    family: str
    needs: str
    build: Callable[[Kept], Task]

    @property
    def about(self) -> str:
        """The first line of what is said of it."""
        return (self.build.__doc__ or "").strip().split("\n")[0]

    @property
    def half(self) -> Half:
        """The half that its name falls in; what was written after both had been developed on is apart."""
        return "later" if self.family == "later" else half_of(self.name)

    def task(self, storage: str) -> Task:
        """The problem on rows as stored in "float64" or "float32" (and widened again: see `Task.rows`)."""
        return self.build(lambda values: np.asarray(values, float).astype(storage).astype(float))


_ENTRIES: dict[str, Entry] = {}


def real(family: str, needs: str = "sklearn") -> Callable[[Callable[[Kept], Task]], Callable[[Kept], Task]]:
    """Put a problem into the list, under its function's name."""

    def enter(build: Callable[[Kept], Task]) -> Callable[[Kept], Task]:
        name = build.__name__.replace("_", "-")
        if name in _ENTRIES:
            raise ValueError(f"studies.real: two problems are called {name}; expected names that differ.")
        _ENTRIES[name] = Entry(name, family, needs, build)
        return build

    return enter


def entries(half: Half | None = None, only: tuple[str, ...] = ()) -> dict[str, Entry]:
    """The problems of a half (of both for None) whose names contain one of `only`."""
    for family in FAMILIES:
        importlib.import_module(f"studies.real.families.{family}")
    chosen = {name: e for name, e in _ENTRIES.items() if half in (None, e.half)}
    return {name: e for name, e in chosen.items() if not only or any(part in name for part in only)}


def half_of(name: str) -> Half:
    """Which half a name falls in, by its hash.

    Example:
        >>> half_of("lasso-diabetes") in ("develop", "unseen")
        True
    """
    return "unseen" if hashlib.sha256(name.encode()).digest()[0] % 2 else "develop"
