"""Upper bounds on constraints from held-out rows, by what is known of h."""

import dataclasses
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tightrope._errors import shown
from tightrope._jaxlib import compiled
from tightrope.certificate import KINDS, ConstraintBound, Kind
from tightrope.confidence import (
    ENOUGH,
    Anytime,
    binomial_upper,
    bounded_upper,
    leeway,
    serial_dependence,
    skewness_shortfall,
    studentised_upper,
)
from tightrope.evidence.gap import inside_of, on_host
from tightrope.evidence.held_out_rows import codes_of, first_of_copies
from tightrope.problem import Problem
from tightrope.problem.full_data import each_row, linearised
from tightrope.problem.reach import reach_of_constraints
from tightrope.sampling.rows import one_row
from tightrope.tree import Array, Tree, replace

Accept = Literal["proven", "asymptotic"]

_HEAVY = 0.2  # of 1 - confidence: with a larger shortfall a tail is too heavy to tell; by hand
_BLOCK = 4  # rows in a block over the variance's inflation; derived: 8 correlation times of an autoregression
_WIDER = (1 - 1 / (2 * _BLOCK)) ** -0.5  # because neighbouring blocks are still alike, to first order of such a one
_ALONE = 0.1  # of the sum of squares: a row with more may carry a constraint alone, so that there are few; by hand


class Range(NamedTuple):
    """What is known of h_i(x, theta) for every theta, the level not subtracted."""

    low: float
    high: float
    two_values: bool  # whether it takes these two values only


Ranges = tuple[Range | None, ...]


class Terms(NamedTuple):
    """On what terms constraints are bounded."""

    names: list[str]
    ranges: Ranges
    confidence: float  # of each bound
    accept: Accept = "proven"  # the lowest grade of a bound by which a constraint may hold
    anytime: bool = False  # whether bounds are to hold at all times together


def checked_accept(accept: Any) -> Accept:
    """The lowest grade of a bound by which a constraint may hold."""
    if not (isinstance(accept, str) and accept in ("proven", "asymptotic")):
        raise ValueError(f'accept is {shown(accept)}; expected "proven", or "asymptotic" to count such bounds too.')
    return accept


def read_ranges(ranges: Any, names: list[str]) -> Ranges:
    """Ranges as given: for each constraint (low, high), the set {a, b} of its only values, or None; or one for all."""
    if ranges is None or isinstance(ranges, set | frozenset) or _is_pair(ranges):
        return tuple(_range(ranges, name) for name in names)
    if isinstance(ranges, Mapping):
        other = [name for name in ranges if name not in names]
        if other:
            raise ValueError(f"ranges has {other[0]!r}; expected names of constraints: {', '.join(names)}.")
        return tuple(_range(ranges.get(name), name) for name in names)
    if not isinstance(ranges, list | tuple) or len(ranges) != len(names):
        raise ValueError(
            f"ranges is {shown(ranges)}; expected a pair (low, high) or a set of two values for all constraints, a dict of "
            f"these by name, or a list of {len(names)}."
        )
    return tuple(_range(one, name) for one, name in zip(ranges, names, strict=True))


def _is_pair(given: Any) -> bool:
    return isinstance(given, tuple) and len(given) == 2 and all(map(_is_number, given))


def _is_number(given: Any) -> bool:
    number = isinstance(given, int | float | np.number | np.ndarray | jax.Array)
    return number and np.shape(given) == () and bool(np.isreal(given))


def _range(given: Any, name: str) -> Range | None:
    if given is None:
        return None
    two = isinstance(given, set | frozenset)
    pair = tuple(given) if isinstance(given, set | frozenset | list | tuple | np.ndarray | jax.Array) else ()
    if not _is_pair(pair):
        raise ValueError(
            f"ranges: {name} has {shown(given)}; expected a pair (low, high), or the set of its two values."
        )
    try:
        low, high = sorted(map(float, pair)) if two else map(float, pair)
    except OverflowError:
        low, high = np.nan, np.nan
    if not (np.isfinite(low) and np.isfinite(high) and low < high):
        raise ValueError(f"ranges: {name} has {shown(given)}; expected finite numbers, low < high.")
    return Range(low, high, two)


def sampled(problem: Problem) -> Problem:
    """The problem with sampled constraints, where it has any: an exact mean is often that of the training rows."""
    return problem if problem.constraints is None else replace(problem, exact_constraints=None)


def values_at(problem: Problem, x: Tree, rows: Tree) -> tuple[np.ndarray, np.ndarray]:
    """f and h (minus levels) of every row, in float64 on the host: (n,) and (n, N)."""
    (values,) = on_host([_each(problem, x, rows)])
    return values[:, 0], values[:, 1:]


@compiled(soon=True)
def _each(problem: Problem, x: Tree, rows: Tree) -> Array:
    def both(theta: Tree) -> Array:  # in one array: without constraints the other would be empty
        f, h = problem.sample_values(x, theta)
        return jnp.concatenate([jnp.asarray(f, h.dtype)[None], h])

    return each_row(both, rows)


def follow(problem: Problem, x: Tree, one: Tree, ranges: Ranges) -> tuple[Ranges, np.ndarray]:
    """The ranges that were given or follow from the program of h, and which constraints no sample enters; `one` is a
    sample, of which only the form is looked at."""
    reach = reach_of_constraints(problem, x, one)
    if problem.nested:  # what a sample can do to a function of means is not said by its values
        return ranges, ~reach.varies
    found = [
        Range(float(low), float(high), bool(two)) if np.isfinite(low) and np.isfinite(high) and low < high else None
        for low, high, two in zip(reach.low, reach.high, reach.ends, strict=True)
    ]
    merged = tuple(given or known for given, known in zip(ranges, found, strict=True))
    return merged, ~reach.varies | (reach.low == reach.high)


def refuse_nested(problem: Problem, given: str) -> None:
    """Ranges prove nothing about a function of means."""
    if problem.nested:
        raise ValueError(
            f"{given}, and the constraints of a nested problem are functions of means, whose bounds are asymptotic (by the "
            "delta method); expected neither ranges nor a bound for all times. tr.certify(problem, x, rows) gives them."
        )


def bound_constraints(problem: Problem, x: Tree, rows: Tree, terms: Terms) -> tuple[ConstraintBound, ...]:
    """An upper bound on every E h_i(x, .) - level_i from rows that nothing was chosen on; each has this confidence.

    Where rows are copies of others, the worse of two bounds: by all rows, and by each of them once.
    """
    names, ranges, confidence, accept, anytime = terms
    if not names:
        return ()
    if anytime or any(ranges):
        refuse_nested(problem, "a bound for all times was asked for" if anytime else "ranges were given")
    given, problem = ranges, sampled(problem)
    ranges, known = follow(problem, x, one_row(rows), ranges)
    problem = linearised(problem, x, rows)
    h = values_at(problem, x, rows)[1]
    bad = np.flatnonzero(~np.all(np.isfinite(h), axis=1))
    if len(bad):
        raise ValueError(f"a constraint is not finite on held-out row {bad[0]}; expected numbers. Drop or repair it.")
    rounding = np.maximum(inside_of(problem, x, rows).h - h.mean(axis=0), 0.0)
    levels = np.broadcast_to(np.asarray(problem.levels, float), (len(names),))
    fits = [r is None or own is not None or _fits(r, h[:, i] + levels[i], 2 * rounding[i])
            for i, (r, own) in enumerate(zip(ranges, given, strict=True))]  # fmt: skip
    ranges = tuple(r if fit else None for r, fit in zip(ranges, fits, strict=True))
    lacking = [name for name, r, k in zip(names, ranges, known, strict=True) if r is None and not k]
    if anytime and lacking:
        raise ValueError(f"a bound for all times on {lacking[0]} needs the range of h; give it as ranges=(low, high).")
    once = first_of_copies(rows)
    seen = np.column_stack([h[:, ~known], codes_of(rows)])
    alike = serial_dependence(seen if once is None else seen[once]) if not np.all(known) else None

    def judged(values: np.ndarray) -> list[ConstraintBound]:
        kinds, uppers, heavy = bounds_of(values, levels, ranges, confidence, anytime, 2 * rounding)
        at = [i for i, kind in enumerate(kinds) if KINDS[kind][0] == "proven"]
        uppers[at] += (leeway(values[:, at]) - 1) * (uppers[at] - values[:, at].mean(axis=0))
        if alike is not None and alike.found:
            kinds, uppers, heavy = over_blocks(values, kinds, float(alike.inflation.max()), confidence, anytime)
        found = [
            _known(name, float(values[0, i]))
            if known[i]
            else _described(name, values[:, i], uppers[i] + rounding[i], kinds[i], bool(heavy[i]))
            for i, name in enumerate(names)
        ]
        inflation = 1.0 if alike is None else float(alike.inflation.max())
        return [dataclasses.replace(one, inflation=inflation, accepted=accept == "asymptotic") for one in found]

    if once is None:
        return tuple(judged(h))
    pairs = zip(judged(h), judged(h[once]), strict=True)
    return tuple(max(pair, key=lambda bound: bound.upper) for pair in pairs)


def _fits(known: Range, values: np.ndarray, slack: float) -> bool:
    """False where rounding has put a value outside of what follows for real numbers: then nothing is known of it."""
    if known.two_values:
        off = np.minimum(np.abs(values - known.low), np.abs(values - known.high))
        return bool(np.all(off <= slack))
    return bool(np.all((values >= known.low - slack) & (values <= known.high + slack)))


def bounds_of(
    h: np.ndarray, levels: np.ndarray, ranges: Ranges, confidence: float, anytime: bool, slack: np.ndarray
) -> tuple[list[Kind], np.ndarray, np.ndarray]:
    """For each column of h (minus levels): how it is bounded, its bound, and whether it looks heavy-tailed.

    Values may lie outside of their range by the slack, which is rounding.
    """
    kinds: list[Kind] = [kind_of(known, h[:, i], anytime) for i, known in enumerate(ranges)]
    uppers = np.full(h.shape[1], np.inf)
    known = [(r.low, r.high) if r else (np.nan, np.nan) for r in ranges]
    low, high = (np.asarray(side) - levels for side in np.asarray(known, float).reshape(-1, 2).T)
    h = np.where((h < low) & (h >= low - slack), low, np.where((h > high) & (h <= high + slack), high, h))
    for i in (i for i, kind in enumerate(kinds) if kind == "two values"):
        above = np.abs(h[:, i] - high[i]) <= slack[i]
        if not np.all(above | (np.abs(h[:, i] - low[i]) <= slack[i])):
            raise ValueError(
                f"ranges says that a constraint takes two values only, and {h[:, i].min() + levels[i]:.6g} to "
                f"{h[:, i].max() + levels[i]:.6g} were seen; give the pair (low, high) instead of the set."
            )
        uppers[i] = low[i] + (high[i] - low[i]) * binomial_upper(int(above.sum()), len(h), confidence)
    at = [i for i, kind in enumerate(kinds) if kind == "range"]
    if at and anytime:
        uppers[at] = Anytime.start(low[at], high[at]).add(h[:, at]).upper(confidence)
    elif at:
        uppers[at] = bounded_upper(h[:, at], low[at], high[at], confidence)
    at = [i for i, kind in enumerate(kinds) if kind == "asymptotic"]
    if at:
        uppers[at] = studentised_upper(h[:, at], confidence)
    shortfall = skewness_shortfall(h, confidence)
    heavy = (shortfall > _HEAVY * (1 - confidence)) & np.isin(kinds, "asymptotic")
    return kinds, uppers, heavy


def over_blocks(
    h: np.ndarray, kinds: list[Kind], inflation: float, confidence: float, anytime: bool
) -> tuple[list[Kind], np.ndarray, np.ndarray]:
    """The same where neighbouring rows are alike: means over blocks long beside what is alike are studentised."""
    blocks = int(len(h) // (_BLOCK * inflation))
    if anytime or blocks < ENOUGH:
        return (
            ["none" if kind == "none" else "alike" for kind in kinds],
            np.full(h.shape[1], np.inf),
            np.zeros(h.shape[1]),
        )
    edges = np.linspace(0, len(h), blocks + 1).astype(int)
    means = np.add.reduceat(h, edges[:-1]) / np.diff(edges)[:, None]
    uppers = h.mean(axis=0) + _WIDER * (studentised_upper(means, confidence) - means.mean(axis=0))
    heavy = skewness_shortfall(means, confidence) > _HEAVY * (1 - confidence)
    still = np.array([kind == "none" for kind in kinds])
    found: list[Kind] = ["none" if none else "blocks" for none in still]
    return found, np.where(still, np.inf, uppers), heavy & ~still


def kind_of(known: Range | None, values: np.ndarray, anytime: bool) -> Kind:
    """By what a constraint is bounded. What did not vary may hide a rare event: without a range nothing is said of it."""
    if known is not None:
        return "two values" if known.two_values and not anytime else "range"
    return "asymptotic" if len(values) > 1 and np.ptp(values) > 0 else "none"


def _known(name: str, value: float) -> ConstraintBound:
    return ConstraintBound(name, value, value, "known", 0.0 if value <= 0 else np.inf)


def _described(name: str, h: np.ndarray, upper: float, kind: Kind, heavy: bool) -> ConstraintBound:
    mean, carried_by = float(h.mean()), _carriers(h, upper)
    kind, upper = ("heavy", np.inf) if heavy else (kind, upper)
    needed = rows_needed(mean, float(upper), len(h)) if np.isfinite(upper) else np.inf
    return ConstraintBound(name, mean, float(upper), kind, needed, carried_by)


def rows_needed(mean: float, upper: float, n: int) -> float:
    """About how many rows it would take for the bound to be at most 0, if the mean is what it is: it closes in like
    1/sqrt(n)."""
    if upper <= 0:
        return float(n)
    return n * ((upper - mean) / -mean) ** 2 if mean < 0 and n else np.inf


def _carriers(h: np.ndarray, upper: float) -> tuple[int, ...]:
    """Rows without which the verdict would be the opposite, and which make up a tenth of the variance or more."""
    n = len(h)
    if n < 3 or not np.isfinite(upper):
        return ()
    away = h - h.mean()
    total = float(away @ away)
    if not total > 0:
        return ()
    candidates = np.flatnonzero(away**2 > _ALONE * total)
    width = (upper - h.mean()) / max(np.sqrt(total / n), np.finfo(float).tiny)  # in standard deviations
    flips = []
    for k in candidates:
        rest = np.delete(h, k)
        if (rest.mean() + width * rest.std() <= 0) != (upper <= 0):
            flips.append((abs(away[k]), int(k)))
    return tuple(k for _, k in sorted(flips, reverse=True))
