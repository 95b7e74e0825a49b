"""A rule that cannot be promised: which groups bind, what can be had instead, and the path that shows it."""

import math
from typing import Any

import numpy as np
import pandas as pd

from tightrope.learn.fair.rare import smallest_group
from tightrope.learn.fair.rate_rule import RateRule
from tightrope.learn.fair.task import Task
from tightrope.learn.fairness.notions import cells_of


class Refused(ValueError):
    """A rule cannot be promised on this data; `frontier` is the path that was tried.

    Example:
        >>> from tightrope.estimators import Refused
        >>> issubclass(Refused, ValueError)
        True
    """

    def __init__(self, sentence: str, frontier: pd.DataFrame):
        super().__init__(sentence)
        self.frontier = frontier

    def __reduce__(self):
        return type(self), (str(self), self.frontier)  # from another process, such as one of a grid search


def refusal(
    asked: RateRule, task: Task, table: pd.DataFrame, *, confidence: float | None, every: bool = False
) -> Refused:
    """What to raise where nothing passed: why, by the safest points alone, whose bounds are true since nobody chose them.

    Args:
        asked: the rule.
        task: what was judged.
        table: all points of the paths that were walked.
        confidence: that of the bounds by which points were judged; None where estimates judged.
        every: whether every path was walked, so that there is no other to be tried.
    """
    ratio, sure, more = asked.is_ratio, "on the rows it was solved on", ""
    first = table.groupby("path", sort=False).head(1) if "path" in table else table.head(1)
    bounds = first[f"{asked.column}_bound"].to_numpy(float)
    best: Any = first.iloc[int(np.argmax(bounds if ratio else -bounds))]
    reached = float(np.nan_to_num(best[asked.column], nan=0.0 if ratio else 1.0))
    if confidence is not None:
        reached, sure = float(best[f"{asked.column}_bound"]), f"with {confidence:.0%} confidence"
        more = "lower the confidence (confidence=0.9, --confidence 0.9), give more rows, "
    names = str(best["group"]), str(best["against"])
    sizes = {name: _rows(name, task) for name in names}
    binding = " and ".join(f"{name} ({rows:,} rows)" for name, rows in sizes.items())
    estimate = "not known, because nobody is selected," if np.isnan(best[asked.column]) else f"{best[asked.column]:.3f}"
    said = [
        f"{asked.sentence} cannot be promised {sure}: where rates are most alike, {asked.column} is {estimate} and "
        f"{'at least' if ratio else 'at most'} {reached:.3f}, at accuracy {best['accuracy']:.3f}. The groups that bind are "
        f"{binding}."
    ]
    offered = math.floor(100 * reached) / 100 if ratio else math.ceil(100 * reached) / 100
    if 0 < offered < 1:
        option = f"--{asked.column.replace('_', '-')} {offered:g}"
        said.append(f"{asked.column}={offered:g} could be had, at accuracy {best['accuracy']:.3f} or more ({option}).")
    smallest, rows = min(sizes.items(), key=lambda size: size[1])
    needed = smallest_group(float(np.average(task.y > 0, weights=task.judged)))
    if rows < needed:
        said.append(
            f"{smallest} is too small: were as many of it selected as have a positive label, it would take some {needed:,} "
            "rows to show the 80 % rule of it. Make it one with another group, or leave the attribute out."
        )
        if _could_be_merged(smallest, task):
            said.append("Groups as rare as this are made one by merge_rare=True (--merge-rare).")
    elif ratio and confidence is not None and best["p_rule"] > 1 - asked.slack and reached > 0:
        # more rows narrow a bound by the root of their number, and leave the estimate where it is
        times = (math.log(best["p_rule"] / reached) / math.log(best["p_rule"] / (1 - asked.slack))) ** 2
        said.append(
            f"{f'About {times:.2g} times' if times < 100 else 'Many times'} as many rows of these groups would do."
        )
    if asked.selected is not None:
        said.append(f"The share selected was to lie within {asked.selected}; a wider interval leaves more to choose.")
    further = "" if every else "try the other surrogates (constraint='auto', --constraint auto), "
    said.append(
        f"Ask for less, {further}{more}or leave out features that stand in for the sensitive attribute (--drop)."
    )
    return Refused(" ".join(said), table)


def _could_be_merged(name: str, task: Task) -> bool:
    """Whether a cell is a group of an attribute that has several others, none of them merged."""
    assert task.sensitive is not None
    own = (a for a in task.sensitive.attributes if name.startswith(f"{a.name}="))
    return any(len(a.groups) > 2 and not a.merged for a in own)


def _rows(name: str, task: Task) -> int:
    """How many rows a group is judged by."""
    assert task.sensitive is not None
    cells = cells_of(task.sensitive, task.y > 0, task.notion)
    return int(cells.members[cells.names.index(name)].sum())
