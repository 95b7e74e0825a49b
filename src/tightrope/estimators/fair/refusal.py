"""A p%-rule that cannot be promised: which groups bind, what can be had instead, and the path that shows it."""

import math

import numpy as np
import pandas as pd

from tightrope.estimators.fair.task import Task


class Refused(ValueError):
    """A p%-rule cannot be promised on this data; `frontier` is the path that was tried."""

    def __init__(self, sentence: str, frontier: pd.DataFrame):
        super().__init__(sentence)
        self.frontier = frontier


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
    offered = math.floor(100 * reached) / 100 or None
    said = [
        f"p_rule={asked:g} cannot be promised {how}: the best on the path is {reached:.3f} (estimate {best['p_rule']:.3f}, "
        f"accuracy {best['accuracy']:.3f}) at covariance={best['threshold']:.3g}.",
        f"What binds is {_sized(best['group'], task)} against {_sized(best['against'], task)}.",
    ]
    if offered is not None:
        cheapest = table[table[column] >= offered].iloc[0]
        said.append(
            f"p_rule={offered:g} can be had, at an accuracy of {cheapest['accuracy']:.3f} (--p-rule {offered:g} on the "
            "command line)."
        )
    said.append(_advice(asked, float(best["p_rule"]), reached, "confidence" in how))
    return Refused(" ".join(said), table)


def _advice(asked: float, estimate: float, bound: float, confident: bool) -> str:
    """What else can be done; more rows narrow a bound by the root of their number and leave the estimate where it is."""
    features = "leave out features that stand in for the sensitive attribute (--drop)"
    if not (confident and estimate > asked and bound > 0):
        return f"More rows alone would not do. You may {features}."
    times = (math.log(estimate / bound) / math.log(estimate / asked)) ** 2
    more = f"about {times:.2g} times as many rows of these groups" if times < 100 else "many more rows of these groups"
    return f"Otherwise it takes {more}, or less confidence (confidence=0.9, --confidence 0.9); or {features}."


def _sized(name: str, task: Task) -> str:
    """A group and how many rows it is judged by."""
    assert task.sensitive is not None
    names, members = judged_groups(task)
    rows = int(members[names.index(name)].sum())
    return f"{name} ({rows:,} {'positive ' if task.notion == 'equal_opportunity' else ''}rows)"


def judged_groups(task: Task) -> tuple[list[str], np.ndarray]:
    """The names of all groups, in the order of `p_rule_bounds`, and (groups, n) which rows each is judged by."""
    assert task.sensitive is not None
    counted = task.y > 0 if task.notion == "equal_opportunity" else np.ones(len(task.y), bool)
    names, members = [], []
    for i, attribute in enumerate(task.sensitive.attributes):
        codes = task.sensitive.groups(i)
        names += [f"{attribute.name}={group}" for group in attribute.groups]
        members += [(codes == code) & counted for code in range(len(attribute.groups))]
    return names, np.stack(members)
