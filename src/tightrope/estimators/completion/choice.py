"""The bounds of a completion, chosen by the error on entries that are held out."""

from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from tightrope.estimators.completion.training import (
    RANK,
    Completed,
    Effects,
    Start,
    entries_of,
    fit_in_turn,
    largest_singular_value,
)
from tightrope.loop.progress import Progress
from tightrope.problems.observed import Observed

_STEPS = 30  # a completion on the path starts from its neighbour, and decisions do not see the last digits
_FRACTIONS = (0.7, 0.5, 0.35, 0.25)
_MOST_DOUBLINGS = 20
_REFINEMENTS = (2**0.5, 2**0.25, 2**0.125)
_FLAT = 1e-3  # where neighbours' errors differ by a smaller share, another look is not worth its time


class ChosenBounds(NamedTuple):
    """The bounds chosen, the error they had, all that were tried, and where to start from."""

    nuclear_norm: float
    unobserved_energy: float
    error: float
    path: pd.DataFrame
    start: Start


def never_reached(nuclear_norm: float) -> float:
    """A bound on the unobserved energy that no matrix of this nuclear norm exceeds."""
    return nuclear_norm**2 / 2


def hold_out(seen: Observed, share: float, seed: int) -> tuple[Observed, Observed]:
    """The entries to learn from, and a random share of all that is held out."""
    count = len(seen.values)
    held = round(share * count)
    if not 0 < held < count:
        raise ValueError(
            f"A share of {share:g} of {count:,} observed entries is {held:,}; expected at least one to hold out and one to "
            "learn from. Give more entries, another held_out, or nuclear_norm and unobserved_energy."
        )
    order = np.random.default_rng(seed).permutation(count)
    first, last = np.sort(order[held:]), np.sort(order[:held])
    rows, columns, values, shape = seen
    kept, tested = (Observed(rows[at], columns[at], values[at], shape) for at in (first, last))
    return kept, tested


class _Path:
    """Completions of the entries that were kept, each judged by those held out."""

    def __init__(self, seen: Observed, centre: bool, rank: int | None, held_out: float, seed: int, bar: Progress):
        self.kept, self.held = hold_out(seen, held_out, seed)
        self.options = {"centre": centre, "rank": rank, "seed": seed, "steps": _STEPS, "turns": 2}
        self.bar = bar
        self.rows: list[dict[str, float]] = []
        self.found: list[Completed] = []

    def try_bounds(self, alpha: float, beta: float | None, warm: int | None) -> int:
        """Complete within these bounds, from the completion with the number `warm`; gives its own number."""
        bound = never_reached(alpha) if beta is None else beta
        start = None if warm is None else self.found[warm].start
        effects, made, _ = fit_in_turn(self.kept, alpha, bound, start=start, **self.options)
        rows, columns, values, _ = self.held
        predicted = effects.at(rows, columns) + entries_of(made.left, made.right, rows, columns)
        error = float(np.sqrt(np.mean((predicted - values) ** 2)))
        self.found.append(made)
        self.rows.append(
            {
                "nuclear_norm": alpha,
                "unobserved_energy": bound,
                "held_out_error": error,
                "rank": len(made.singular_values),
            }
        )
        self.bar.show(len(self.rows))
        return len(self.rows) - 1

    def error(self, number: int) -> float:
        """The error that a completion has on the held-out entries."""
        return self.rows[number]["held_out_error"]

    def best(self) -> int:
        """The number of the completion with the least error, the first of several."""
        return int(np.argmin([row["held_out_error"] for row in self.rows]))

    def by_nuclear_norm(self, beta: float | None) -> int:
        """Double alpha until it helps no more, then look to both sides, nearer each time, while that makes a difference."""
        effects = Effects.fit(self.kept) if self.options["centre"] else Effects.none(self.kept.shape)
        alpha, last = largest_singular_value(effects.taken_from(self.kept)), None
        for _ in range(_MOST_DOUBLINGS):
            last = self.try_bounds(alpha, beta, last)
            slack = self.found[last].singular_values.sum() < 0.9 * alpha  # a larger ball changes nothing
            if slack or last - self.best() >= 2:
                break
            alpha *= 2
        for ratio in _REFINEMENTS:
            centre, before = self.rows[self.best()]["nuclear_norm"], self.error(self.best())
            sides = [self.try_bounds(alpha, beta, self._below(alpha)) for alpha in (centre / ratio, centre * ratio)]
            if max(map(self.error, sides)) < (1 + _FLAT) * before:
                break
        return self.best()

    def _below(self, alpha: float) -> int | None:
        """The number of the completion with the next smaller nuclear norm."""
        smaller = [(row["nuclear_norm"], number) for number, row in enumerate(self.rows) if row["nuclear_norm"] < alpha]
        return max(smaller)[1] if smaller else None

    def by_energy(self, alpha: float, warm: int | None) -> int:
        """Tighten the bound from the energy that there is without one, while that helps."""
        first = self.try_bounds(alpha, None, None) if warm is None else warm
        energy, last = self.found[first].energy, first
        for fraction in _FRACTIONS if energy > 0 else ():
            tighter = self.try_bounds(alpha, fraction * energy, last)
            if self.error(tighter) >= self.error(last):
                break
            last = tighter
        return self.best()


def choose(
    seen: Observed,
    nuclear_norm: float | None,
    unobserved_energy: float | None,
    *,
    centre: bool,
    rank: int | None,
    held_out: float,
    seed: int,
    progress: bool | None = None,
) -> ChosenBounds:
    """Choose the bounds that are None: first the nuclear norm, without a bound on the energy, then the energy.

    Args:
        seen: all observed entries.
        nuclear_norm, unobserved_energy: what the user gave, or None for a bound that is to be chosen.
        centre: whether mean and effects are subtracted, those of the entries that are not held out.
        rank: the largest rank of a completion.
        held_out: the share of the entries that the completions are judged by.
        seed: decides which entries are held out.
        progress: whether to show a progress bar; by default on a terminal only.
    """
    total = (nuclear_norm is None) * 12 + (unobserved_energy is None) * len(_FRACTIONS)
    with Progress(total, progress, "completions tried on held-out entries") as bar:
        path = _Path(seen, centre, min(rank or RANK, *seen.shape), held_out, seed, bar)
        best = None if nuclear_norm is not None else path.by_nuclear_norm(unobserved_energy)
        if unobserved_energy is None:
            alpha = path.rows[best]["nuclear_norm"] if best is not None else nuclear_norm
            assert alpha is not None
            best = path.by_energy(alpha, best)
    assert best is not None
    row: dict[str, Any] = path.rows[best]
    return ChosenBounds(
        row["nuclear_norm"],
        row["unobserved_energy"],
        row["held_out_error"],
        pd.DataFrame(path.rows),
        path.found[best].start,
    )
