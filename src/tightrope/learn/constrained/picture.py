"""The picture of a certified threshold: where it lies on the ROC curve of the rows that judged, and how surely."""

from typing import TYPE_CHECKING, Any

import numpy as np

from tightrope.learn.constrained.asked import Asked
from tightrope.learn.constrained.certificate import ThresholdCertificate
from tightrope.learn.constrained.held_out import HeldOut
from tightrope.learn.constrained.search import interval
from tightrope.names import in_picture
from tightrope.plotting import COLOURS, new_figure, saved

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_CURVE, _POINT, _LIMIT, *_ = COLOURS

_THRESHOLD = {
    "proven": "certified threshold",
    "asymptotic": "threshold for many rows, not proven",
    "not known": "threshold, NOT certified",
}


def draw_roc(rows: HeldOut, certificate: ThresholdCertificate, asked: Asked, path: str | None = None) -> "Figure":
    """The whole ROC curve, and the part around the threshold with the intervals of both rates."""
    figure, axes = new_figure(columns=2, size=(5.4, 4.4))
    cuts = rows.cuts()
    fpr, recall = (rows.estimate(name, cuts) for name in ("fpr", "recall"))
    point = np.array([certificate.threshold])
    x, y = (float(rows.estimate(name, point)[0]) for name in ("fpr", "recall"))
    wide, tall = (interval(name, rows, certificate.threshold, certificate.confidence) for name in ("fpr", "recall"))
    limits = {c.metric: (c.limit, c.at_most) for c in asked.constraints}
    whole, near = axes.flat
    for axis in (whole, near):
        axis.step(fpr, recall, where="post", color=_CURVE, linewidth=1.4, label="rows that judged")
        _draw_limits(axis, limits)
        bars = {"xerr": [[x - wide[0]], [wide[1] - x]], "yerr": [[y - tall[0]], [tall[1] - y]]}
        what = _THRESHOLD[certificate.grade]
        axis.errorbar(
            [x], [y], **bars, color=_POINT, marker="o", markersize=5, capsize=3, linestyle="none", zorder=5,
            label=f"{what},\nwith bounds at {100 * certificate.confidence:g} % each",
        )  # fmt: skip
        axis.set_xlabel("false-positive rate")
    whole.plot([0, 1], [0, 1], color="grey", linewidth=0.8, linestyle=":")
    whole.set_ylabel("recall (true-positive rate)")
    whole.set_title("all thresholds", loc="left", fontsize=11)
    whole.set_xlim(-0.02, 1.02)
    whole.set_ylim(-0.02, 1.02)
    reach = 1.5 * max(wide[1] - wide[0], abs(limits.get("fpr", (x,))[0] - x))
    left, right = max(0.0, x - reach), min(1.0, x + reach)
    shown = [*recall[(fpr >= left) & (fpr <= right)], *tall]
    pad = 0.1 * (max(shown) - min(shown))
    near.set_xlim(left, right)
    near.set_ylim(min(shown) - pad, max(shown) + pad)
    near.locator_params(axis="x", nbins=6)
    near.set_title("around it", loc="left", fontsize=11)
    whole.legend(frameon=False, fontsize=8, loc="lower right")
    figure.suptitle(in_picture(certificate.verdict), fontsize=10, x=0.01, ha="left", wrap=True)
    return saved(figure, path)


def _draw_limits(axis: Any, limits: dict[str, tuple[float, bool]]) -> None:
    """Limits on the two rates of the curve as lines; those on others have no place here."""
    for name, draw in (("fpr", axis.axvline), ("recall", axis.axhline)):
        if name in limits:
            limit, at_most = limits[name]
            draw(
                limit,
                color=_LIMIT,
                linewidth=1,
                linestyle="--",
                label=f"limit: {name} {'<=' if at_most else '>='} {limit:g}",
            )
