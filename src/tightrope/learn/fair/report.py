"""What a classifier gives to each group and intersection: rates, ratios and differences, as a table and a page."""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd

from tightrope.confidence import difference_interval, ratio_interval, wilson
from tightrope.learn.fairness.intersections import combinations_of, grouped_attributes, intersection, with_intersection
from tightrope.learn.fairness.metrics import is_positive, last_label, p_rule_bounds, weights
from tightrope.learn.fairness.sensitive import INTERSECTION, Sensitive, read_sensitive
from tightrope.names import visible
from tightrope.pages import elements
from tightrope.pages.drawings import interval
from tightrope.pages.elements import Html, cell

METRICS = {
    "selection_rate": "selected",
    "accuracy": "accuracy",
    "true_positive_rate": "true positives, among positive labels",
    "false_positive_rate": "false positives, among negative labels",
}
"""What is measured, by the names that fairlearn has for it, and in words."""


@dataclasses.dataclass(frozen=True, eq=False)
class FairnessReport:
    """Rates by group, compared with the group that has the highest; print it, or let a notebook show it.

    Intervals are two-sided, for one number at a time, from effective numbers of rows: Wilson's for rates, and those that
    recover variances from Wilson's for ratios and differences.

    Attributes:
        frame: a row for each attribute, group and metric: attribute, group, metric, rows (that the rate is over), effective
            (how many of equal weight would say as much), rate, low, high; and against the group of this attribute that has
            the highest rate, the columns against, ratio, ratio_low, ratio_high, difference, difference_low, difference_high.
        overall: for each metric the rate of everybody: rows, effective, rate, low, high.
        p_rule: for each attribute the p%-rule, the smallest ratio of two groups' selection rates, and its one-sided lower
            bound: columns p_rule and bound.
        confidence: that of the intervals and bounds.
        attributes: the attributes that each intersection is made of, by its name; those of an attribute are itself.
        notes: what else to know, in sentences.

    Example:
        >>> import tightrope as tr
        >>> report = tr.fairness_report([1, 1, 0, 0], [1, 0, 1, 0], ["a", "a", "b", "b"])
        >>> report.overall["rate"].round(2).tolist()
        [0.5, 0.0, 0.0, 1.0]
    """

    frame: pd.DataFrame
    overall: pd.DataFrame
    p_rule: pd.DataFrame
    confidence: float
    attributes: dict[str, tuple[str, ...]]
    notes: tuple[str, ...] = ()

    def by_group(self, attribute: str | None = None) -> pd.DataFrame:
        """Rates by group as `by_group` of fairlearn's MetricFrame has them: a row for each group, a column for each metric.

        Args:
            attribute: which; by default the last one, which is the intersection where there are several.
        """
        name = next(reversed(self.attributes)) if attribute is None else attribute
        if name not in self.attributes:
            raise ValueError(f"attribute is {name!r}; expected one of {', '.join(map(repr, self.attributes))}.")
        part = self.frame[self.frame["attribute"] == name]
        keys = list(dict.fromkeys(part["group"]))
        table = part.pivot(index="group", columns="metric", values="rate").loc[keys]  # pyright: ignore[reportArgumentType]
        table = table[[metric for metric in METRICS if metric in table]].rename_axis(columns=None)
        names = self.attributes[name]
        index: Any = pd.MultiIndex.from_tuples(keys, names=names) if len(names) > 1 else pd.Index(keys, name=name)
        return table.set_axis(index)

    def summary(self) -> pd.DataFrame:
        """For each attribute and metric, the smallest ratio and the largest difference of two groups, with intervals.

        They are `ratio()` and `difference()` of fairlearn's MetricFrame. Columns attribute, metric, group (the lowest),
        against (the highest), and the others of `frame`.
        """
        known = self.frame[self.frame["difference"].notna()]
        lowest = known.loc[known.groupby(["attribute", "metric"], sort=False)["difference"].idxmin()]
        kept = ["attribute", "metric", "group", "against", *_COMPARED]
        table = lowest[kept].reset_index(drop=True)
        signs = dict.fromkeys(("difference", "difference_low", "difference_high"), -1.0)
        table = table.assign(**{name: signs[name] * table[name] for name in signs})
        return table.rename(columns={"difference_low": "difference_high", "difference_high": "difference_low"})[kept]

    def __str__(self) -> str:
        parts = [*self._sentences()]
        for metric in self.overall.index:
            parts += ["", METRICS[metric], *self._lines(metric)]
        return visible("\n".join(parts))

    def _repr_html_(self) -> str:
        return elements.fragment(*self.page_parts())

    def page_parts(self) -> list[Html]:
        """The sentences and tables as parts of a page."""
        sentences = [elements.paragraph(sentence) for sentence in self._sentences()]
        return [*sentences, *(self._html_table(metric) for metric in self.overall.index)]

    def _sentences(self) -> list[str]:
        rows = int(self.overall["rows"].iloc[0])
        sure = f"with {self.confidence:.0%} confidence"
        return [
            *(
                f"p%-rule of {attribute}: {_number(estimate)}, "
                + (f"at least {bound:.3f} {sure}." if bound > 0 else f"and nothing is known of it {sure}.")
                for attribute, estimate, bound in self.p_rule.itertuples()
            ),
            f"{rows:,} rows. Intervals are of {self.confidence:.0%}, each for itself; ratios and differences are against "
            "the group with the highest rate.",
            *self.notes,
        ]

    def _rows(self, metric: str) -> Iterator[tuple[str, str, Any, list[str]]]:
        """The rows of a table, everybody first: attribute, group, its numbers, and these in words."""
        everybody: Any = self.overall.loc[metric]
        yield "", "everybody", everybody, [*_interval(everybody, "rate"), "", "", "", ""]
        for row in self.frame[self.frame["metric"] == metric].to_dict("records"):
            words = [*_interval(row, "rate"), *_interval(row, "ratio"), *_interval(row, "difference", "+")]
            yield row["attribute"], _group(row["group"]), row, words

    def _lines(self, metric: str) -> list[str]:
        """A table as text, the first column to the left and the others to the right."""
        table: list[list[str]] = [list(_HEADS)]
        for attribute, name, row, words in self._rows(metric):
            table.append([f"{attribute} = {name}" if attribute else name, f"{int(row['rows']):,}", *words])
        first, *widths = (max(map(len, column)) for column in zip(*table, strict=True))
        return ["  ".join([name.ljust(first), *map(str.rjust, words, widths)]).rstrip() for name, *words in table]

    def _html_table(self, metric: str) -> Html:
        """The same table for a page, with intervals drawn from 0 to the largest; a mark is everybody's rate."""
        rows, found, last = [], list(self._rows(metric)), ""
        overall, widest = found[0][2]["rate"], np.fmax.reduce([float(row["high"]) for _, _, row, _ in found])
        for attribute, name, row, (rate, _, *others) in found:
            if attribute != last:
                rows.append(Html(f'<tr><th class="heading" colspan="8">{elements.text(attribute)}</th></tr>'))
            last = attribute
            drawn = interval(row["low"], row["rate"], row["high"], widest, overall)
            cells = [cell(name), cell(f"{int(row['rows']):,}"), cell(rate), cell(drawn)]
            rows.append(elements.row([*cells, *(cell(w, "interval" if i % 2 else "") for i, w in enumerate(others))]))
        return elements.table(_HEADS, rows, METRICS[metric], {3: "drawn"})


_HEADS = ("", "rows", "rate", "", "ratio", "", "difference", "")


def fairness_report(
    y_pred: Any,
    sensitive: Any,
    y_true: Any = None,
    *,
    sample_weight: Any = None,
    confidence: float = 0.95,
    pos_label: Any = None,
) -> FairnessReport:
    """Measure decisions by group and intersection; see `FairnessReport`.

    Every combination of groups that is there is an intersection, however few people it has: its interval says how little is
    known. Continuous attributes have no groups and are left out.

    Args:
        y_pred: the decisions: booleans, 0 and 1, -1 and +1, or two labels in text.
        sensitive: attributes, as `read_sensitive` takes them, at least one of them with groups.
        y_true: the labels; without them there are selection rates alone.
        sample_weight: a weight for each row, not negative.
        confidence: the confidence of intervals and bound.
        pos_label: the label that means being selected; by default 1, or the last in order of two labels in text.

    Example:
        >>> import pandas as pd
        >>> people = pd.DataFrame({"sex": ["F", "M"] * 50, "town": ["A", "A", "B", "B"] * 25})
        >>> report = fairness_report([1, 1, 0, 1] * 25, people, [1, 1, 1, 0] * 25)
        >>> report.by_group("sex").loc["F"].round(2).to_dict()
        {'selection_rate': 0.5, 'accuracy': 0.5, 'true_positive_rate': 0.5, 'false_positive_rate': nan}
        >>> report.by_group()["selection_rate"].to_dict()
        {('F', 'A'): 1.0, ('F', 'B'): 0.0, ('M', 'A'): 1.0, ('M', 'B'): 1.0}
    """
    read = _with_all_intersections(read_sensitive(sensitive))
    n = len(read)
    pos_label = last_label(y_pred, y_true) if pos_label is None else pos_label
    decided = is_positive(y_pred, "y_pred", n, pos_label)
    truth = None if y_true is None else is_positive(y_true, "y_true", n, pos_label)
    weight = weights(sample_weight, n)
    measured = _measured(decided, truth)
    rows = []
    for i, attribute in enumerate(read.attributes):
        codes = read.groups(i)
        keys = [cells[0] for cells in attribute.cells] if attribute.kind == INTERSECTION else attribute.groups
        for metric, (event, among) in measured.items():
            found = [_rate(event, weight * (among & (codes == code))) for code in range(len(keys))]
            about = {"attribute": attribute.name, "metric": metric}
            rows += [
                about | {"group": key} | row for key, row in zip(keys, _compared(found, keys, confidence), strict=True)
            ]
    frame = pd.DataFrame(rows)[["attribute", "group", "metric", *_RATE, "against", *_COMPARED]]
    everybody = [_with_interval(_rate(event, weight * among), confidence) for event, among in measured.values()]
    bounds = [
        p_rule_bounds(decided, read.only([i]), confidence, sample_weight=sample_weight)
        for i in range(len(read.attributes))
    ]
    grouped = [read.attributes[i].name for i in grouped_attributes(read)]
    made_of = {a.name: tuple(grouped) if a.kind == INTERSECTION else (a.name,) for a in read.attributes}
    rules = pd.DataFrame(
        {"p_rule": [b.estimate[0] for b in bounds], "bound": [b.lower[0] for b in bounds]},
        index=pd.Index([a.name for a in read.attributes], name="attribute"),
    )
    overall = pd.DataFrame(everybody, index=pd.Index(list(measured), name="metric"))[_RATE]
    return FairnessReport(frame, overall, rules, confidence, made_of)


_RATE = ["rows", "effective", "rate", "low", "high"]
_COMPARED = ["ratio", "ratio_low", "ratio_high", "difference", "difference_low", "difference_high"]


def _with_all_intersections(read: Sensitive) -> Sensitive:
    """The attributes that have groups, and their intersection with every combination that is there."""
    grouped = grouped_attributes(read)
    if not grouped:
        names = ", ".join(attribute.name for attribute in read.attributes)
        raise TypeError(
            f"A report is about groups and {names} is continuous. Cut it into ranges first, e.g. with pandas.cut, or say "
            "that its numbers are codes of groups: sensitive_kind='categorical'."
        )
    kept = read.only(grouped)
    if len(grouped) < 2:
        return kept
    return with_intersection(kept, intersection(kept, [[cell] for cell in combinations_of(kept)[0]]))


def _measured(decided: np.ndarray, truth: np.ndarray | None) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """For each metric what is counted, and among which rows."""
    everybody = np.ones(len(decided), bool)
    found = {"selection_rate": (decided, everybody)}
    if truth is not None:
        found["accuracy"] = (decided == truth, everybody)
        found |= {"true_positive_rate": (decided, truth), "false_positive_rate": (decided, ~truth)}
    return found


def _rate(event: np.ndarray, weight: np.ndarray) -> dict[str, Any]:
    """A weighted rate, over how many rows it is, and how many rows of equal weight would know it as well.

    That is at most (sum of w)^2 / (sum of w^2), after Kish, and fewer where the weights go with what is counted.
    """
    rows, total, squares = int(np.sum(weight > 0)), weight.sum(), weight @ weight
    if not rows:
        return {"rows": 0, "effective": 0.0, "rate": np.nan}
    rate = float(weight @ event / total)
    effective, spread = float(total**2 / squares), float(weight**2 @ (event - rate) ** 2)
    if 0 < rate < 1:
        effective = min(effective, rate * (1 - rate) * float(total) ** 2 / spread)
    return {"rows": rows, "effective": effective, "rate": rate}


def _with_interval(found: dict[str, Any], confidence: float) -> dict[str, Any]:
    low, high = wilson(np.array(found["rate"]), np.array(found["effective"]), confidence)
    return found | ({"low": float(low), "high": float(high)} if found["rows"] else {"low": np.nan, "high": np.nan})


def _compared(found: Sequence[dict[str, Any]], keys: Sequence[Any], confidence: float) -> list[dict[str, Any]]:
    """The rates of the groups of one attribute with intervals, each against the highest of them."""
    rates = [row["rate"] for row in found]
    highest = int(np.nanargmax(rates)) if not np.all(np.isnan(rates)) else 0
    compared = []
    for code, row in enumerate(found):
        pair = (np.array(row["rate"]), np.array(rates[highest]))
        sizes = (np.array(row["effective"]), np.array(found[highest]["effective"]))
        more: dict[str, Any] = {"against": keys[highest]} | dict.fromkeys(_COMPARED, np.nan)
        if code == highest:  # against itself: nothing is uncertain
            more |= dict.fromkeys(_COMPARED[:3], 1.0 if rates[highest] > 0 else np.nan) | dict.fromkeys(
                _COMPARED[3:], 0.0
            )
        elif row["rows"]:
            more["difference"] = float(pair[0] - pair[1])
            more["difference_low"], more["difference_high"] = map(float, difference_interval(pair, sizes, confidence))
            if rates[highest] > 0:
                more["ratio"] = float(pair[0] / pair[1])
                more["ratio_low"], more["ratio_high"] = map(float, ratio_interval(pair, sizes, confidence))
        compared.append(_with_interval(row, confidence) | more)
    return compared


# ---- as text and as a page -------------------------------------------------------------------------------------------


def _group(group: Any) -> str:
    return " & ".join(map(str, group)) if isinstance(group, tuple) else str(group)


def _number(value: float, sign: str = "") -> str:
    return "-" if np.isnan(value) else f"{value:{sign}.3f}"


def _interval(row: Any, name: str, sign: str = "") -> list[str]:
    """A number and its interval."""
    low, high = (row[end] if name == "rate" else row[f"{name}_{end}"] for end in ("low", "high"))
    if np.isnan(row[name]):
        return ["-", ""]
    return [_number(row[name], sign), "" if low == high else f"{_number(low, sign)} to {_number(high, sign)}"]
