"""Classifiers side by side: accuracy, the p%-rule with a lower bound, and what each group is given."""

from collections.abc import Callable, Mapping, Sequence
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from rich import box
from rich.console import Console
from rich.table import Table

from tightrope.confidence import USUAL
from tightrope.files import Folder, replace_file
from tightrope.learn.fairness.metrics import group_rates, p_rule_bounds
from tightrope.learn.fairness.notions import RATES, labels_of, owners
from tightrope.learn.fairness.sensitive import Sensitive
from tightrope.names import in_terminal, visible

REPORT = "report.txt"
"""The name of the report in the folder of a model."""


def compare(
    decided: Mapping[str, Any], sensitive: Sensitive, truth: Any = None, notion: str = "demographic_parity"
) -> pd.DataFrame:
    """Classifiers side by side on the same rows: accuracy, the p%-rule with a lower bound, what each group is given.

    Args:
        decided: the decisions of each classifier, by what to call it: booleans, a row each.
        sensitive: the attributes of these rows. One without groups is given as its correlation with the decision.
        truth: the labels, as booleans, where they are known.
        notion: one of `NOTIONS`. Where the labels are known, each rate that it compares, such as that of true positives, is
            given as well: of each group, and how alike groups are by it.

    Returns:
        Columns measure, rows (how many it is measured on), and one for each classifier. What is not defined is NaN.

    Example:
        >>> from tightrope.learn.fairness.sensitive import read_sensitive
        >>> s = read_sensitive(["F", "F", "M", "M"], "sex")
        >>> compare({"model": [True, False, True, True]}, s)["model"].round(2).tolist()
        [0.5, 0.0, 0.5, 1.0]
    """
    decided = {name: np.asarray(d) for name, d in decided.items()}
    truth = None if truth is None else np.asarray(truth)
    n, rows = len(sensitive), []
    if truth is not None:
        rows.append(_row("accuracy", n, {name: np.mean(d == truth) for name, d in decided.items()}))
    grouped = _grouped(sensitive)
    for label in labels_of(notion) if truth is not None else (None,):
        among = owners(label, np.zeros(n, bool) if truth is None else truth)
        if grouped is not None and among.any():
            of = "" if label is None else f" of {RATES[label]}"
            own = {name: d[among] for name, d in decided.items()}
            rows += _rates(RATES[label], f"p%-rule{of}", own, grouped.take(among))
    for i, attribute in enumerate(sensitive.attributes):
        if attribute.kind == "continuous":
            value = sensitive.columns[:, sensitive.owners.index(i)]
            found = {name: _correlation(d, value) for name, d in decided.items()}
            rows.append(_row(f"correlation with {attribute.name}", n, found))
    return pd.DataFrame(rows)


def _row(measure: str, count: int, values: Mapping[str, Any]) -> dict[str, Any]:
    return {"measure": measure, "rows": count} | {name: float(value) for name, value in values.items()}


def _rates(measure: str, rule: str, decided: Mapping[str, np.ndarray], people: Sensitive) -> list[dict[str, Any]]:
    """How alike the rates of groups are, surely and by estimate, and each of them."""
    n, bounds = len(people), {name: p_rule_bounds(d, people, USUAL) for name, d in decided.items()}
    rows = [
        _row(rule, n, {name: bound.estimate[0] for name, bound in bounds.items()}),
        _row(f"{rule}, {USUAL:.0%} lower bound", n, {name: bound.lower[0] for name, bound in bounds.items()}),
    ]
    rates = {name: group_rates(d, people) for name, d in decided.items()}
    first = next(iter(rates.values()))
    named = zip(first["attribute"], first["group"], first["count"], strict=True)
    for i, (attribute, group, count) in enumerate(named):
        found = {name: table["selection_rate"].iloc[i] for name, table in rates.items()}
        rows.append(_row(f"{measure}, {attribute} = {group}", int(count), found))
    return rows


def _grouped(sensitive: Sensitive) -> Sensitive | None:
    """The attributes that have groups; None where none has."""
    kept = [i for i, attribute in enumerate(sensitive.attributes) if attribute.kind != "continuous"]
    return sensitive.only(kept) if kept else None


def _correlation(decided: np.ndarray, value: np.ndarray) -> float:
    d = decided.astype(float)
    return float(np.corrcoef(d, value)[0, 1]) if np.ptp(d) > 0 and np.ptp(value) > 0 else float("nan")


def as_table(comparison: pd.DataFrame) -> Table:
    """A comparison for people to read: what is not defined is a dash."""
    table = Table(box=box.SIMPLE_HEAD)
    for name in comparison.columns:
        table.add_column(
            in_terminal("" if name == "measure" else name), justify="left" if name == "measure" else "right"
        )
    for measure, count, *values in comparison.itertuples(index=False):
        table.add_row(in_terminal(measure), f"{count:,}", *("-" if np.isnan(v) else f"{v:.3f}" for v in values))
    return table


def as_text(comparison: pd.DataFrame) -> str:
    """The table of `as_table` as plain text, for reports."""
    text = StringIO()
    # as wide as it needs to be: names of groups can be long
    Console(file=text, width=1000, color_system=None).print(as_table(comparison))
    return "\n".join(line.rstrip() for line in text.getvalue().splitlines()).strip("\n")


def add_report(made: Folder, folder: Path, text: Sequence[str], picture: str, draw: Callable[[str], Any]) -> list[str]:
    """Put a report of several paragraphs and a picture beside the model; gives the names of all files.

    The picture, by `draw`, is left out where matplotlib is not installed.
    """
    replace_file(folder / REPORT, visible("\n\n".join(text) + "\n").encode())
    files = [made.arrays, made.meaning, REPORT]
    try:
        draw(str(folder / picture))
    except ImportError:
        return files
    return [*files, picture]
