"""A fair classifier as a page: what was promised, what each group was given, the path that was judged, and the run."""

from typing import Any

import numpy as np
import pandas as pd

from tightrope.learn.fair.by_rates import RatesRun
from tightrope.learn.fair.report import FairnessReport
from tightrope.pages.drawings import curve
from tightrope.pages.elements import Html, element, facts, heading, joined, listed, page, paragraph
from tightrope.pages.run import constraint_table, sections, verdict, versions


def classifier_page(model: Any, report: FairnessReport) -> Html:
    """The report of a `FairLogisticRegression` on some rows, and of how it was made."""
    run = getattr(model, "result_", None)
    promised, made = _run(run, getattr(model, "report_", ""))
    path = getattr(model, "frontier_", None)
    return page(
        "A fair classifier",
        *promised,
        heading("What each group was given"),
        *report.page_parts(),
        *([] if path is None else frontier(path, model.threshold_, getattr(run, "path", None))),
        heading("How it was made"),
        *made,
        versions(),
    )


def _run(run: Any, saved: str) -> tuple[list[Html], list[Html]]:
    """What a run promises, which comes first, and the rest of it; a classifier from a file has text alone."""
    if isinstance(run, RatesRun):
        promised, *made = rates_parts(run)
        return [promised], made
    if run is None:
        return [], [element("pre", saved)] if saved else [paragraph("It learnt from a stream, with CSOA.")]
    return [], sections(run, level=3)


def rates_page(run: RatesRun) -> Html:
    """The report of a fit by rates."""
    return page("A fair classifier", *rates_parts(run), *frontier(run.frontier, run.threshold, run.path), versions())


def rates_parts(run: RatesRun) -> list[Html]:
    """What was asked and found, first; objective and constraints of the rows trained on."""
    values = run.constraints.to_numpy(float)
    whole = float(np.max(np.abs(values), initial=0.0))
    n, names = len(values), [str(name) for name in run.constraints.index]
    errors, verdicts, unsettled = np.full(n, np.nan), [""] * n, [False] * n  # nobody has judged them
    constraints = constraint_table(
        names, values, errors, run.dual, verdicts, [whole] * n, unsettled, "the largest of these values"
    )
    notes = [run.price] if run.settled else [run.price, "The last steps were not small yet."]
    return [
        verdict(run.sentence, True),
        facts([("objective", f"{run.objective:.6g}"), ("path", run.path), ("held at", f"{run.threshold:g}")]),
        constraints,
        listed(notes),
    ]


def frontier(path: pd.DataFrame, chosen: Any, taken: str | None) -> list[Html]:
    """Accuracy and the rule along each path, with the point that was chosen on the one that was taken."""
    rule = "p_rule" if "p_rule" in path else "difference"
    parts = path.groupby("path", sort=False) if "path" in path else [("covariance", path)]
    panels = []
    for name, part in parts:
        part = part.sort_values("threshold")
        here = isinstance(chosen, float) and taken in (None, name)
        at = part[part["threshold"] == chosen] if here else part[:0]
        for column, title in ((rule, "p%-rule" if rule == "p_rule" else "difference"), ("accuracy", "accuracy")):
            dot = (float(chosen), float(at[column].iloc[0])) if len(at) else None
            lines = [part[kind].to_numpy(float) for kind in (column, f"{column}_bound") if kind in part]
            along = part["threshold"].to_numpy(float)
            panels.append(curve(along, lines, f"{title} ({name})", "threshold", logarithmic=False, dot=dot))
    said = "Out of fold; dashed: its bound, with the confidence asked for. The orange dot is what was chosen."
    return [heading("The path that was judged"), element("div", joined(panels), "panels"), paragraph(said, "faint")]
