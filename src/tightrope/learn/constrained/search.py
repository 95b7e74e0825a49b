"""Which threshold: the best of those that are certified, by fixed-sequence testing from the safest one on.

The cuts are walked in an order that was fixed without the judging rows, and the test at every cut is "all constraints hold",
each of them with the full confidence (intersection-union: no Bonferroni over constraints). All cuts up to the first that
fails are certified together (`confidence.fixed_sequence` has the argument), and the judging rows choose the best of them.

- The safest cut is at the end where all limits pull the same way: nobody selected for a rate that must stay small. The
  order is then that of ALL numbers, not of a grid: between two neighbouring scores the counts do not change, so a walk over
  the judging rows' scores is a walk over all cuts. For the false-positive rate alone this is the Neyman-Pearson umbrella.
- Where limits pull in different ways, or where it is not known (precision, cost), a quarter of the rows is set aside as a
  pilot. It says which cut seems the safest, in which direction there is something to gain, and 64 cuts to walk over; it
  judges nothing. So it is, too, where rows carry weights: a test then takes a pass over them.
"""

from collections.abc import Sequence
from itertools import product
from typing import NamedTuple

import numpy as np
from scipy.special import betaincinv

from tightrope.confidence import binomial_lower, binomial_upper, bounded_below, fixed_sequence
from tightrope.learn.constrained.asked import COST, METRICS, Asked, Constraint
from tightrope.learn.constrained.held_out import HeldOut

PILOT = 0.25
"""The share of the held-out rows that finds where to begin, where that is not known beforehand; a guess."""

_PLACES = 64  # cuts of a walk that a pilot prepares; a guess: each takes a pass over the rows
_STREAM = 0x9B1D  # names a stream of random numbers, as in `classifier.py`; any would do


class Walked(NamedTuple):
    """Where a walk began, what it passed, and what came of it.

    Attributes:
        cut: the threshold chosen; the first of the walk where nothing was passed.
        passed: how many cuts were passed.
        judging: the rows that judged.
        pilot: the rows that were set aside to find the beginning; None where it was known.
        first: the first cut of the walk.
    """

    cut: float
    passed: int
    judging: HeldOut
    pilot: HeldOut | None
    first: float


def walk(asked: Asked, constraints: Sequence[Constraint], rows: HeldOut, confidence: float, seed: int) -> Walked:
    """The best cut of those certified."""
    wants = {c.wants for c in constraints}
    one_way = len(wants) == 1 and 0 not in wants
    if one_way and not any(_needs_a_pass(c, rows) for c in constraints):
        step, pilot, judging = -next(iter(wants)), None, rows
        cuts = judging.cuts()[::step]
        # a rule with these counts may have any cut between two scores; the farthest along the walk is taken
        upper = np.concatenate([[np.inf], np.nextafter(judging.cuts()[:-1], -np.inf)])[::step]
        ends = cuts if step > 0 else upper
    else:
        pilot, judging = _set_aside(rows, seed)
        step = -next(iter(wants)) if one_way else _direction(asked, constraints, pilot)
        cuts = ends = _few_cuts(asked, constraints, pilot, step, one_way)
    passed = fixed_sequence(passes(constraints, judging, cuts, confidence, asked.costs))
    if not passed:
        return Walked(float(ends[0]), 0, judging, pilot, float(cuts[0]))
    worth = _worth(asked, judging, cuts[:passed], confidence)
    best = passed - 1 - int(np.argmax(worth[::-1]))  # of equal ones the farthest
    return Walked(float(ends[best]), passed, judging, pilot, float(cuts[0]))


def passes(
    constraints: Sequence[Constraint],
    rows: HeldOut,
    cuts: np.ndarray,
    confidence: float,
    costs: tuple[float, float] | None,
) -> np.ndarray:
    """At each cut, whether every constraint holds with the confidence asked for: exact for independent rows."""
    fine = np.ones(len(cuts), bool)
    for view, c in product(rows.views(), constraints):
        if _needs_a_pass(c, view):
            value, low, high = view.losses(c, cuts, costs)
            fine &= bounded_below(value, low, high, 0.0, confidence) if len(value) else False
        else:
            bound = binomial_upper if c.at_most else binomial_lower
            fine &= c.holds(bound(*view.of(c.group).whole_counts(c.metric, cuts), confidence))
    return fine


def danger(
    constraints: Sequence[Constraint], rows: HeldOut, cuts: np.ndarray, costs: tuple[float, float] | None
) -> np.ndarray:
    """At each cut, by how many standard errors the worst constraint seems to be broken: to order by, no proof.

    The error is that of a share at its limit, with as many rows as these are worth; a cost counts as a share of the largest.
    """
    worst = np.full(len(cuts), -np.inf)
    for view, c in product(rows.views(), constraints):
        part = view.of(c.group)
        value, limit = part.estimate(c.metric, cuts, costs), c.limit
        if c.metric == COST:
            n, most = np.full(len(cuts), float(len(part.score))), max(costs or (1.0,))
            value, limit = value / most, min(limit / most, 1 - 1e-9)
        else:
            n = part.effective(c.metric, cuts)[1]
        excess = (value - limit) * np.sqrt(n / (limit * (1 - limit))) * (1 if c.at_most else -1)
        worst = np.maximum(worst, np.where(n > 0, np.nan_to_num(excess, nan=np.inf), np.inf))
    return worst


def interval(name: str, rows: HeldOut, cut: float, confidence: float) -> tuple[float, float]:
    """Clopper and Pearson's bounds of a share at one cut, each one-sided; weighted rows by how many they are worth."""
    hits, n = (float(part[0]) for part in rows.effective(name, np.array([cut])))
    low = float(betaincinv(hits, n - hits + 1, 1 - confidence)) if hits > 0 else 0.0
    high = float(betaincinv(hits + 1, n - hits, confidence)) if n > hits else 1.0
    return low, high


def by_estimate(asked: Asked, constraints: Sequence[Constraint], rows: HeldOut) -> float | None:
    """The best cut by estimates alone, where nothing could be certified; None where the rows say nothing.

    Among the cuts at which the estimates keep all limits the one with the best objective, and of equal ones the safest; the
    safest of all where the estimates keep the limits nowhere.
    """
    cuts = rows.cuts()
    z = danger(constraints, rows, cuts, asked.costs)
    keep = np.ones(len(cuts), bool)
    for c in constraints:
        keep &= c.holds(rows.of(c.group).estimate(c.metric, cuts, asked.costs))
    value = asked.sign * rows.estimate(asked.maximize, cuts, asked.costs)
    keep &= np.isfinite(value)
    if keep.any():
        best = keep & (value >= value[keep].max())
        return float(cuts[np.flatnonzero(best)[np.argmin(z[best])]])
    return float(cuts[np.argmin(z)]) if np.isfinite(z).any() else None


def _needs_a_pass(constraint: Constraint, rows: HeldOut) -> bool:
    """Whether a test needs every row's value, because what is counted is no number of rows."""
    return constraint.metric == COST or rows.of(constraint.group).weighted(constraint.metric)


def _set_aside(rows: HeldOut, seed: int) -> tuple[HeldOut, HeldOut]:
    """A pilot and the rows that judge, at random."""
    draw = np.arange(len(rows.score)) if rows.draw is None else np.unique(rows.draw, return_inverse=True)[1]
    order = np.random.default_rng([_STREAM, seed]).permutation(draw.max(initial=-1) + 1)
    pilot = np.isin(draw, order[: max(1, round(PILOT * len(order)))])
    return rows.take(pilot), rows.take(~pilot)


def _direction(asked: Asked, constraints: Sequence[Constraint], pilot: HeldOut) -> int:
    """+1 to go on by selecting more rows, -1 by selecting fewer: where the objective is better, as the pilot sees it."""
    grows = 0 if asked.maximize == COST else asked.sign * METRICS[asked.maximize].grows
    if grows:
        return grows
    cuts = pilot.cuts()
    safest, best = danger(constraints, pilot, cuts, asked.costs), _worth(asked, pilot, cuts, 0.8)
    return 1 if np.argmax(best) > np.argmin(safest) else -1


def _few_cuts(asked: Asked, constraints: Sequence[Constraint], pilot: HeldOut, step: int, one_way: bool) -> np.ndarray:
    """The cuts of a walk with few tests: from the safest on, to where the pilot's estimates no longer keep the limits."""
    cuts = pilot.cuts()[::step]
    z = danger(constraints, pilot, cuts, asked.costs)
    begin = 0 if one_way else int(np.argmin(z))
    hopeless = np.flatnonzero(z[begin:] > 2)
    end = begin + int(hopeless[0]) if len(hopeless) else len(cuts) - 1
    return cuts[np.unique(np.linspace(begin, max(end, begin), _PLACES).round().astype(int))]


def _worth(asked: Asked, rows: HeldOut, cuts: np.ndarray, confidence: float) -> np.ndarray:
    """What is to be maximised: a bound on it, which a share of a handful of rows cannot make large by luck."""
    if asked.maximize == COST:
        return -np.nan_to_num(rows.estimate(COST, cuts, asked.costs), nan=np.inf)
    hits, n = rows.effective(asked.maximize, cuts)
    if asked.sign > 0:
        return np.where(hits > 0, betaincinv(np.maximum(hits, 1e-9), n - hits + 1, 1 - confidence), 0.0)
    return -np.where(n > hits, betaincinv(hits + 1, np.maximum(n - hits, 1e-9), confidence), 1.0)
