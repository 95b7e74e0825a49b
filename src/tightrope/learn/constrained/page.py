"""A certified threshold as a page: the certificate first, what was measured, the ROC curve, and the run behind the score."""

import math

import numpy as np

from tightrope.learn.constrained.certificate import MeasuredMetric, ThresholdCertificate
from tightrope.learn.constrained.held_out import HeldOut
from tightrope.pages.drawings import PANEL, curve, interval
from tightrope.pages.elements import Html, cell, element, facts, heading, joined, listed, page, paragraph, row, table
from tightrope.pages.run import sections, verdict, versions
from tightrope.result import Result


def threshold_page(certificate: ThresholdCertificate, judged: HeldOut | None, run: Result | None) -> Html:
    """The whole report of a `ConstrainedClassifier`."""
    return page(
        "A classifier with limits",
        *threshold_parts(certificate),
        *([] if judged is None else [heading("All thresholds"), _roc(judged, certificate.threshold)]),
        *([] if run is None else [heading("How the score was trained"), *sections(run, level=3)]),
        versions(),
    )


def threshold_parts(certificate: ThresholdCertificate) -> list[Html]:
    """The verdict, what stands in its way, and the metrics at the threshold."""
    objective = certificate.objective
    alone = objective.name not in [measured.name for measured in certificate.constraints]
    measured = [*([objective] if alone else []), *certificate.constraints]
    heads = ("metric", "dashed: the limit", "value", "bounds", "asked for", "share of")
    said = (
        f"At the threshold; bounds are of {100 * certificate.confidence:g} % each, one-sided, for one metric at a time"
    )
    return [
        verdict(certificate.verdict, None if certificate.grade == "asymptotic" else certificate.holds),
        listed(certificate.missing),
        table(heads, [_row(one) for one in measured], said, {0: "words", 1: "drawn", 5: "words"}),
        facts([("selected", f"a score above {certificate.threshold:.6g}"), ("judged by", certificate.basis)]),
        listed(certificate.notes),
    ]


def _row(measured: MeasuredMetric) -> Html:
    low, high = (math.nan if end is None else end for end in (measured.low, measured.high))
    limit = math.nan if measured.limit is None else float(measured.limit.split()[-1])
    longest = 1.1 * np.nanmax([high, measured.value, limit, 0.0])
    drawn = Html("") if math.isnan(low) else interval(low, measured.value, high, longest, limit)
    between = "" if math.isnan(low) else f"{low:.4g} to {high:.4g}"
    return row(
        [
            cell(measured.name, "words"),
            cell(drawn),
            cell(f"{measured.value:.4g}"),
            cell(between, "interval"),
            cell(measured.limit or "the best"),
            cell(measured.rows, "words"),
        ]
    )


def _roc(judged: HeldOut, threshold: float) -> Html:
    cuts = judged.cuts()
    # as many points as pixels: more are not to be seen
    cuts = cuts[np.unique(np.linspace(0, len(cuts) - 1, PANEL[0]).astype(int))]
    at = np.array([threshold])
    fpr, recall = (judged.estimate(name, cuts) for name in ("fpr", "recall"))
    dot = tuple(float(judged.estimate(name, at)[0]) for name in ("fpr", "recall"))
    drawn = curve(fpr, [recall], "recall", "false-positive rate", logarithmic=False, dot=(dot[0], dot[1]))
    said = "Of the rows that judged. The dot is the threshold; `plot` draws the part around it."
    return joined([element("div", drawn, "panels"), paragraph(said, "faint")])
