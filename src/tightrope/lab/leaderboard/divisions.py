"""The divisions: who is compared with whom, with which coefficients, and at equal numbers of what."""

from itertools import product
from typing import Literal, NamedTuple, get_args

import pandas as pd

from tightrope.lab.leaderboard.hidden import is_hidden
from tightrope.loop.prepare import cost_of_a_step
from tightrope.methods.base import Algorithm

Source = Literal["streams", "finite"]
"""Where samples come from: fresh ones only, or a data set at hand."""

Counted = Literal["calls", "lmos"]
"""What a budget counts: oracle calls, or linear minimisations."""

SOURCES: tuple[Source, ...] = ("streams", "finite")


class Division(NamedTuple):
    """A division: runs on equal terms, of which each method's are ranked against all the others'."""

    source: Source
    defaults: bool = False  # whether methods are as they are without coefficients, or else the best of nine settings
    counted: Counted = "calls"
    hidden: bool = False  # whether the problems are instances that nobody has looked at, or else those of the registry

    @property
    def name(self) -> str:
        """Its name in tables and files, such as "streams-lmos-defaults"; the plain ones are tuned and count calls."""
        if self.hidden:  # always with defaults
            return f"{self.source}-hidden"
        lmos = "-lmos" if self.counted == "lmos" else ""
        return f"{self.source}{lmos}{'-defaults' if self.defaults else ''}"

    def of(self, runs: pd.DataFrame) -> pd.DataFrame:
        """The runs of this division."""
        with_these = runs["default" if self.defaults else "tuned"]
        these = runs.problem.map(is_hidden) == self.hidden
        return runs[(runs.source == self.source) & (runs.counted == self.counted) & with_these & these]


DIVISIONS = {
    division.name: division
    for division in (
        *(
            Division(source, defaults, counted)
            for counted, defaults, source in product(get_args(Counted), (False, True), SOURCES)
        ),
        *(Division(source, defaults=True, hidden=True) for source in SOURCES),
    )
}
"""By their names: first those that count calls, of them first the tuned ones; last those of hidden instances."""


def counts(kind: type[Algorithm]) -> tuple[Counted, ...]:
    """The budgets that a method is measured at. Linear minimisations are for methods that move by nothing else, and that
    are given nothing that others are not."""
    special = kind.needs & {"project", "unconstrained", "exact_constraints"}
    return ("calls", "lmos") if cost_of_a_step(kind).lmos and not special else ("calls",)
