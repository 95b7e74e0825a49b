"""What the runs come to: standings with intervals, fitted rates beside published ones, and who wins where."""

import dataclasses
import itertools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from rich.table import Table

from tightrope.confidence import TWO_SIDED
from tightrope.lab.leaderboard.divisions import DIVISIONS, SOURCES
from tightrope.lab.leaderboard.entrants import PENALTY
from tightrope.lab.leaderboard.hidden import SOLVED
from tightrope.lab.leaderboard.runs import REFERENCE
from tightrope.methods import Cost, Rates, registered
from tightrope.names import in_terminal

SLACK = 0.15
"""By how much a fitted exponent may be worse than the published one; by hand."""

FAMILY = ("csoa", "fw-csoa", "split-csoa")
"""Whose places are told everywhere, also where others win."""

MEASURES = ("score", "gap", "violation", "lagrangian")
COSTS = ("steps", "samples", "gradients", "projections", "lmos", "seconds")


@dataclasses.dataclass(frozen=True)
class Board:
    """The leaderboard.

    Attributes:
        standings: a row for each division, problem, method and budget: means over seeds with the half widths of their 95 %
            intervals, costs, the rank among the methods that were given nothing special, the coefficients, and whether
            it is what "auto" takes.
        profiles: a row for each division, method and share of the largest budget: how much of what there is to solve was.
        rates: a row for each problem and method, tuned: fitted slopes with intervals, and published exponents.
        sentences: who wins where, and where CSOA loses; by the names of the divisions.
        exceptions: methods whose fitted rate is worse than published by more than 0.15, and what was refused.
    """

    standings: pd.DataFrame
    profiles: pd.DataFrame
    rates: pd.DataFrame
    sentences: dict[str, list[str]]
    exceptions: list[str]


def board(runs: pd.DataFrame) -> Board:
    """The leaderboard that a table of all runs comes to."""
    if "refused" not in runs:
        runs = runs.assign(refused=None)
    refused = runs[runs.refused.notna()]
    kept = runs[runs.refused.isna()]
    flags = {name: kept[name].astype(bool) for name in ("tuned", "default", "auto")}  # beside refusals they are objects
    kept = kept.assign(given=kept.given.fillna("") if "given" in kept else "", **flags)
    of_divisions = {name: division.of(kept) for name, division in DIVISIONS.items()}
    standings = pd.concat([_standings(name, part) for name, part in of_divisions.items() if len(part)])
    rates = _rates(pd.concat([of_divisions[name].assign(division=name) for name in SOURCES]))
    said = [f"{r.method} on {r.problem} ({r.source}): refused, {r.refused}" for r in refused.itertuples()]
    sentences = {str(name): list(_winners(part)) for name, part in standings.groupby("division", sort=False)}
    profiles = pd.concat([_profiles(name, part) for name, part in of_divisions.items() if len(part)])
    return Board(standings.reset_index(drop=True), profiles, rates, sentences, [*_slower(rates), *dict.fromkeys(said)])


# ---- standings -------------------------------------------------------------------------------------------------------


def _standings(division: str, runs: pd.DataFrame) -> pd.DataFrame:
    keys = ["problem", "method", "given", "auto", "budget"]
    rows = []
    for key, part in runs.groupby(keys, sort=False):
        row = {"division": division} | dict(zip(keys, key, strict=True))
        for name in MEASURES:
            row |= {name: part[name].mean(), f"{name} ±": half_width(part[name])}
        row |= {name: part[name].iloc[0] for name in COSTS}
        rows.append(row | {"coefficients": part.setting.iloc[0]})
    found = pd.DataFrame(rows)
    equal = (found.given == "") & (found.method != REFERENCE)
    ranks = found[equal].groupby(["problem", "budget"]).score.rank(method="min", na_option="bottom")
    return found.assign(rank=ranks)


def half_width(values: pd.Series) -> float:
    """Half the width of the 95 % interval of the mean."""
    return TWO_SIDED * float(np.std(values, ddof=1)) / math.sqrt(len(values)) if len(values) > 1 else 0.0


def last_budget(standings: pd.DataFrame) -> pd.DataFrame:
    """The rows at the largest budget of each method on each problem."""
    largest = standings.groupby(["division", "problem", "method"]).budget.transform("max")
    return standings[standings.budget == largest]


# ---- profiles ---------------------------------------------------------------------------------------------------------


TARGETS = 10.0 ** (-np.arange(1, 17) / 4)
"""Scores to come down to, in units of that of the starting point: four to a decade, down to 1e-4."""


def _profiles(division: str, runs: pd.DataFrame) -> pd.DataFrame:
    """The share of all targets, on all problems and from all seeds, that a method meets within each budget.

    A target that was met at a smaller budget counts as met. The budgets of a problem are in units of its largest, so that
    problems whose steps are slow count like the others. Without coefficients "auto" is a method, too.
    """
    runs = runs[(runs.method != REFERENCE) & (runs.given == "")].sort_values("budget")
    if DIVISIONS[division].defaults:
        runs = pd.concat([runs, runs[runs.auto].assign(method="auto")], ignore_index=True)
    reached = runs.score.fillna(np.inf) / runs.start.clip(lower=SOLVED)
    best = reached.groupby([runs[key] for key in ("problem", "method", "seed")]).cummin()
    met = (best.to_numpy()[:, None] <= TARGETS).mean(axis=1)
    share = runs.budget / runs.groupby("problem").budget.transform("max")
    # first over seeds: a method that has one run on a problem counts there like any other
    on_problem = runs.assign(met=met, share=share).groupby(["method", "share", "problem"]).met.mean()
    found = on_problem.groupby(["method", "share"]).mean().reset_index()
    return found.assign(division=division)


# ---- rates -----------------------------------------------------------------------------------------------------------


def _rates(runs: pd.DataFrame) -> pd.DataFrame:
    """Slopes of log means in log calls. A published gap holds with the published violation, so the slower of the two
    bounds the Lagrangian gap. That gap is flat at a solution with curvature: of second order in the distance, it falls
    faster than a rate may promise. The score is of first order, and its slope stands beside. A violation has a slope where
    it is there at every budget, beyond noise."""
    rows, keys = [], ["division", "problem", "method"]
    for key, part in runs[runs.method != REFERENCE].groupby(keys, sort=False):
        kind = registered().get(str(key[2]))  # None where the runs are of a method that is not here any more
        published = kind.facts.published if kind else Rates()
        gaps, violations = (part.pivot(index="seed", columns="budget", values=v) for v in ("lagrangian", "violation"))
        there = all(violations[budget].mean() > half_width(violations[budget]) for budget in violations)
        gap, violation = slope(gaps), slope(violations if there else violations * math.nan)
        score = slope(part.pivot(index="seed", columns="budget", values="score"))
        last = violations.iloc[:, -1]
        rows.append(
            dict(zip(keys, key, strict=True))
            | {"gap slope": gap[0], "gap low": gap[1], "gap high": gap[2], "published gap": _slower_of(published)}
            | {"score slope": score[0], "score low": score[1], "score high": score[2]}
            | {"violation slope": violation[0], "violation low": violation[1], "violation high": violation[2]}
            | {"published violation": published.violation}
            | {"last gap": gaps.iloc[:, -1].mean(), "last violation": last.mean(), "last violation ±": half_width(last)}
        )
    return pd.DataFrame(rows)


def _slower_of(published: Rates) -> float | None:
    if published.gap is None:
        return None
    return published.gap if published.violation is None else min(published.gap, published.violation)


def slope(values: pd.DataFrame, draws: int = 200) -> tuple[float, float, float]:
    """The slope of log(mean over seeds) in log(budget), and its 95 % bootstrap interval; NaN where a mean is not positive.

    Example:
        >>> import pandas as pd
        >>> [round(v, 2) for v in slope(pd.DataFrame([[1.0, 0.1], [1.0, 0.1]], columns=[100, 10_000]))]
        [-0.5, -0.5, -0.5]
    """
    table, logs = values.to_numpy(float), np.log(values.columns.to_numpy(float))
    if len(logs) < 2 or not np.all(np.isfinite(table)) or table.mean(axis=0).min() <= SOLVED:
        return math.nan, math.nan, math.nan
    rng = np.random.default_rng(0)
    resampled = table[rng.integers(len(table), size=(draws, len(table)))].mean(axis=1)
    means = np.maximum(np.vstack([table.mean(axis=0), resampled]), SOLVED)
    slopes = np.polyfit(logs, np.log(means).T, 1)[0]
    low, high = np.quantile(slopes[1:], [0.025, 0.975])
    return float(slopes[0]), float(low), float(high)


def slower(rates: pd.DataFrame, what: str = "gap") -> pd.DataFrame:
    """The rows in which the gap, the score or the violation falls more slowly than published by more than the slack; what is
    published of gap and violation together bounds the score."""
    published = rates[f"published {'gap' if what == 'score' else what}"].astype(float).replace(math.inf, math.nan)
    return rates[rates[f"{what} slope"] > -(published - SLACK)]


def _slower(rates: pd.DataFrame) -> Iterator[str]:
    for what in ("gap", "violation"):
        for row in slower(rates, what).to_dict("records"):
            fitted = f"{-row[f'{what} slope']:.2f} [{-row[f'{what} high']:.2f}, {-row[f'{what} low']:.2f}]"
            where = f"{row['method']} on {row['problem']} ({row['division']}), {what}"
            published = row[f"published {what}"]
            doubt = ", and its interval allows that" if -row[f"{what} low"] >= published - SLACK else ""
            yield f"{where}: exponent {fitted}, published {published:.2f}{doubt}; {row[f'last {what}']:.2g} at the end"


# ---- who wins where --------------------------------------------------------------------------------------------------


def _winners(standings: pd.DataFrame) -> Iterator[str]:
    """Sentences on one division."""
    for problem, part in last_budget(standings).groupby("problem", sort=False):
        equal = part[part["rank"].notna()].sort_values("rank")
        if equal.empty:
            continue
        best, division = equal.iloc[0], DIVISIONS[part.division.iloc[0]]
        close = [m for m in equal.method[1:] if _near(equal, m)]
        ties = f", within the noise of {', '.join(close[:4])}{' and others' if len(close) > 4 else ''}" if close else ""
        won = f"{best.method} wins with a score of {_show(best, 'score')}{ties}."
        budget = f"{int(best.budget):,} {'calls' if division.counted == 'calls' else 'LMO calls'}"
        others = _family(equal, best) + (_auto(equal, best) if division.defaults else "")
        yield f"{problem} ({division.name}, {budget}): {won}{others}{_given(part, best)}"


def _near(equal: pd.DataFrame, method: str) -> bool:
    """Whether a method's score is not worse than the best by more than noise explains."""
    best, other = equal.iloc[0], equal[equal.method == method].iloc[0]
    return bool(other.score - best.score <= math.hypot(best["score ±"], other["score ±"]))


def _family(equal: pd.DataFrame, best: pd.Series) -> str:
    """Where the methods of the paper come, and the one made for their place without projections."""
    rows = [row for name in FAMILY for _, row in equal[(equal.method == name) & (best.method != name)].iterrows()]
    return "".join(f" {registered()[row.method].__name__} comes {_place(row, equal, best)}." for row in rows)


def _auto(equal: pd.DataFrame, best: pd.Series) -> str:
    if best.auto:
        return ' "auto" takes the winner.'
    return "".join(
        f' "auto" takes {row.method}: {_place(row, equal, best)}.' for _, row in equal[equal.auto].iterrows()
    )


def _place(row: pd.Series, equal: pd.DataFrame, best: pd.Series) -> str:
    times = row.score / best.score if best.score > 0 else math.inf
    return f"{_ordinal(row['rank'])} of {len(equal)}, at {times:.3g} times that"


def _given(part: pd.DataFrame, best: pd.Series) -> str:
    rows = part[(part.given != "") & (part.budget == best.budget) & (part.score < best.score)].sort_values("score")
    if rows.empty:
        return ""
    top = rows.iloc[0]
    return f" Given {top.given}, {top.method} has {_show(top, 'score')}."


def _ordinal(rank: float) -> str:
    number = int(rank)
    ending = "th" if 10 <= number % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def _show(row: Any, name: str) -> str:
    return f"{row[name]:.2g} ± {row[f'{name} ±']:.1g}"


def summary(found: Board) -> Table:
    """A row for each problem: the winner on equal terms, and where CSOA and its relatives come, and "auto"."""
    told = [name for name in FAMILY if name in set(found.standings.method)]
    table = Table("division", "problem", "winner", "score", *told, "auto")
    for (division, problem), part in last_budget(found.standings).groupby(["division", "problem"], sort=False):
        equal = part[part["rank"].notna()].sort_values("rank")
        if equal.empty:
            continue
        chosen = equal.auto & DIVISIONS[str(division)].defaults
        places = [*(equal[equal.method == name] for name in told), equal[chosen]]
        ranks = [f"{row.iloc[0]['rank']:.0f} of {len(equal)}" if len(row) else "" for row in places]
        first = equal.iloc[0]
        table.add_row(*map(in_terminal, (division, problem, first.method, _show(first, "score"), *ranks)))
    return table


# ---- text ------------------------------------------------------------------------------------------------------------


def text(found: Board) -> str:
    """The whole leaderboard for people: a table for each problem, the winners, the exceptions."""
    lines = ["Who wins where", "", *itertools.chain.from_iterable(found.sentences.values()), ""]
    rates = {(row["division"], row["problem"], row["method"]): row for row in found.rates.to_dict("records")}
    for (division, problem), part in last_budget(found.standings).groupby(["division", "problem"], sort=False):
        lines += [f"{problem}, {division}", "", *_table(part, rates), ""]
    lines += [f"Slower than published by more than {SLACK}, or refused", "", *(found.exceptions or ["nothing"]), ""]
    return "\n".join(lines)


def _table(part: pd.DataFrame, rates: dict[Any, dict[Any, Any]]) -> list[str]:
    costs = ["budget", "samples", "gradients", "proj.", "LMOs", "ms"]
    rows = [["method", "score", "gap", "worst H", "rate", "of score", "published", *costs, "given"]]
    for row in part.sort_values("score").to_dict("records"):
        rate = rates.get((row["division"], row["problem"], row["method"]), {})
        exponents = [_exponent(-rate.get(f"{what} slope", math.nan)) for what in ("gap", "score")]
        exponents += [_exponent(rate.get("published gap", math.nan))]
        counts = [f"{int(row[name]):,}" for name in ("budget", *Cost._fields)]
        shown = [_show(row, name) for name in ("score", "gap", "violation")]
        rows.append([row["method"], *shown, *exponents, *counts, f"{1000 * row['seconds']:.1f}", short(row["given"])])
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def _exponent(p: float | None) -> str:
    return "" if p is None or math.isnan(p) else f"{p:.2f}"


def short(given: str) -> str:
    """What a method was given, in a word or two."""
    return "multipliers" if given == PENALTY else "exact h, start" if "," in given else "exact h" if given else ""
