"""The bounds of a completion, chosen by the error on entries that are held out."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from tightrope.learn.completion.training import (
    EVERY,
    RANK,
    Completed,
    Effects,
    Start,
    fit_in_turn,
    largest_singular_value,
    never_reached,
)
from tightrope.learn.datasets.structured import entries_of
from tightrope.learn.problems.observed import Observed
from tightrope.loop.record import Progress
from tightrope.sets.low_rank import LowRank

# A try is a completion with one pair of bounds, which starts from its neighbour on the path.
_STEPS = 32  # steps at most; measured: ratings take 8 to 12, sharp optima all
_FLAT = 1e-3  # a share of the error: smaller differences are none, and end a try; by hand
_NEAR = 0.05  # a difference of logarithms of nuclear norms, below which they are not told apart; a guess
_MOST_REFINEMENTS = 6  # tries between neighbours, at most; a guess
_FRACTIONS = (0.7, 0.5, 0.35, 0.25)  # of the energy without a bound on it, tried in turn; by hand


class ChosenBounds(NamedTuple):
    """The bounds chosen, the error they had, all that were tried, and where to start from."""

    nuclear_norm: float
    unobserved_energy: float
    error: float
    path: pd.DataFrame
    start: Start


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
        self.options: dict[str, Any] = {
            "centre": centre,
            "rank": rank,
            "seed": seed,
            "like": seen,  # one program for the last fit, too
            "feasible": False,
        }
        self.bar = bar
        self.rows: list[dict[str, float]] = []
        self.found: list[Completed] = []

    def try_bounds(self, alpha: float, beta: float | None, warm: int | None) -> int:
        """Complete within these bounds, from the completion with the number `warm`; gives its own number.

        Once a multiplier has to be found for the energy, an error that stands still says little.
        """
        bound, start = never_reached(alpha) if beta is None else beta, None if warm is None else self.found[warm].start
        pains: dict[str, Any] = {"turns": 2}
        if beta is None:
            pains = {"turns": 1, "record": 2 * _STEPS // EVERY, "enough": self._settles()}
        effects, made, _ = fit_in_turn(self.kept, alpha, bound, start=start, steps=_STEPS, **self.options, **pains)
        error = self._error(effects, made.left, made.right)
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

    def _error(self, effects: Effects, left: np.ndarray, right: np.ndarray) -> float:
        rows, columns, values, _ = self.held
        predicted = effects.at(rows, columns) + entries_of(left, right, rows, columns)
        return float(np.sqrt(np.mean((predicted - values) ** 2)))

    def _settles(self) -> Callable[[int, Effects, LowRank], bool]:
        """Whether the error on the held-out entries has stayed the same since it was last asked for."""
        before = [np.inf]

        def settled(step: int, effects: Effects, x: LowRank) -> bool:
            if step % EVERY:
                return False
            before.append(self._error(effects, np.asarray(x.u) @ np.asarray(x.core), np.asarray(x.v)))
            return abs(before[-1] - before[-2]) < _FLAT * before[-1]

        return settled

    def error(self, number: int) -> float:
        """The error that a completion has on the held-out entries."""
        return self.rows[number]["held_out_error"]

    def best(self) -> int:
        """The number of the completion with the least error, the first of several."""
        return int(np.argmin([row["held_out_error"] for row in self.rows]))

    def by_nuclear_norm(self, beta: float | None) -> int:
        """Double alpha until it helps no more, then look nearer the best one while that makes a difference."""
        effects = Effects.fit(self.kept) if self.options["centre"] else Effects.none(self.kept.shape)
        alpha, last = largest_singular_value(effects.taken_from(self.kept)), None
        while True:  # it ends: what fits the entries best has a nuclear norm, and a larger ball changes nothing
            last = self.try_bounds(alpha, beta, last)
            slack = self.found[last].singular_values.sum() < 0.9 * alpha  # a larger ball changes nothing
            best = self.best()
            if slack or last - best >= 2 or self.error(last) > (1 + 10 * _FLAT) * self.error(best):
                break
            alpha *= 2
        for _ in range(_MOST_REFINEMENTS):
            before, alpha = self.error(self.best()), self._where_next()
            tried = self.try_bounds(alpha, beta, self._below(alpha))
            if abs(self.error(tried) - before) < _FLAT * before:
                break
        return self._largest_of_the_best()

    def _largest_of_the_best(self) -> int:
        """Of the completions with the least error the one with the largest nuclear norm: from all entries, which are more,
        more can be learnt before noise is."""
        least = self.error(self.best())
        same = [number for number in range(len(self.rows)) if self.error(number) <= (1 + _FLAT) * least]
        return max(same, key=lambda number: self.rows[number]["nuclear_norm"])

    def _where_next(self) -> float:
        """A nuclear norm to try, as Brent's method would: the lowest point of the parabola through the best one and its
        neighbours, in logarithms; the middle of the wider side where that is too near one that was tried."""
        tried = sorted((np.log(row["nuclear_norm"]), row["held_out_error"]) for row in self.rows)
        at = int(np.argmin([error for _, error in tried]))
        if at == 0:
            return float(np.exp(tried[0][0])) / 2**0.5
        if at == len(tried) - 1:
            return float(np.exp((tried[-2][0] + tried[-1][0]) / 2))
        x, y = (np.array(part) for part in zip(*tried[at - 1 : at + 2], strict=True))
        left, right = np.diff(y) / np.diff(x)
        lowest = (x[0] + x[1]) / 2 - left * (x[2] - x[0]) / 2 / (right - left) if right > left else x[1]
        if np.min(np.abs(x - lowest)) < _NEAR:
            wider = int(np.argmax(np.diff(x)))
            lowest = (x[wider] + x[wider + 1]) / 2
        return float(np.exp(lowest))

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
        return last


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
