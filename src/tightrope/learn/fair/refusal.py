"""A p%-rule that cannot be promised: which groups bind, what can be had instead, and the path that shows it."""

import math

import numpy as np
import pandas as pd

from tightrope.learn.fair.rare import smallest_group
from tightrope.learn.fair.task import Task
from tightrope.learn.fairness.notions import cells_of


class Refused(ValueError):
    """A p%-rule cannot be promised on this data; `frontier` is the path that was tried.

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


def refusal(asked: float, table: pd.DataFrame, task: Task, column: str, how: str) -> Refused:
    """What to raise where no threshold of a path keeps the rule.

    Args:
        asked: the p%-rule that was asked for.
        table: the path, a row for each threshold.
        task: what it was judged on.
        column: the column of `table` that has to keep the rule.
        how: "with 95% confidence", or whatever completes "cannot be promised".
    """
    best = table.iloc[int(np.argmax(table[column].fillna(-1.0)))]
    reached = float(np.nan_to_num(best[column]))
    offered = math.floor(100 * reached) / 100
    sizes = {name: _rows(name, task) for name in (str(best["group"]), str(best["against"]))}
    binding = " against ".join(f"{name} ({rows:,} rows)" for name, rows in sizes.items())
    said = [
        f"p_rule={asked:g} cannot be promised {how}: the best on the path is {reached:.3f} (estimate {best['p_rule']:.3f}, "
        f"accuracy {best['accuracy']:.3f}) at covariance={best['threshold']:.3g}. What binds is {binding}."
    ]
    if offered > 0:
        cheapest = table[table[column] >= offered].iloc[0]
        said.append(
            f"p_rule={offered:g} can be had, at an accuracy of {cheapest['accuracy']:.3f} (--p-rule {offered:g} on the "
            "command line)."
        )
    smallest, rows = min(sizes.items(), key=lambda item: item[1])
    needed = smallest_group(float(np.clip(best["selected"], 0.01, 0.99)))
    if rows < needed:
        said.append(
            f"{smallest} is too small: were it selected like everybody, it would take some {needed:,} rows to show the 80 % "
            "rule. Make it one with another group, or leave the attribute out."
        )
    elif "confidence" in how and best["p_rule"] > asked and reached > 0:
        # more rows narrow a bound by the root of their number, and leave the estimate where it is
        times = (math.log(best["p_rule"] / reached) / math.log(best["p_rule"] / asked)) ** 2
        more = f"About {times:.2g} times" if times < 100 else "Many times"
        said.append(
            f"{more} as many rows of these groups would do, or less confidence (confidence=0.9, --confidence 0.9)."
        )
    said.append(
        "Bounds on rates reach further than a covariance: constraint='auto' (--constraint auto), with search and method as "
        "they are by default. Features that stand in for the sensitive attribute can be left out (--drop)."
    )
    return Refused(" ".join(said), table)


def _rows(name: str, task: Task) -> int:
    """How many rows a group is judged by."""
    assert task.sensitive is not None
    cells = cells_of(task.sensitive, task.y > 0, task.notion)
    return int(cells.members[cells.names.index(name)].sum())
