"""The picture of a frontier: accuracy and fairness along paths of thresholds."""

from typing import TYPE_CHECKING, Any

from tightrope.plotting import COLOURS, new_figure, saved

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


def plot_frontier(
    frontier: "pd.DataFrame", target: float | None = None, chosen: float | None = None, path: str | None = None
) -> "Figure":
    """Accuracy and the p%-rule along paths of thresholds, with intervals: against the threshold, and against each other.

    Args:
        frontier: a row for each threshold, as the classifier's `frontier` gives it.
        target: the p%-rule that was asked for, to be marked.
        chosen: the threshold that was chosen, to be marked.
        path: where to save the figure, if anywhere.
    """
    figure, axes = new_figure(columns=3)
    rule, accuracy, trade_off = axes.flat
    _draw_thresholds(rule, frontier, "p_rule", "p%-rule")
    _draw_thresholds(accuracy, frontier, "accuracy", "accuracy")
    _draw_trade_off(trade_off, frontier)
    if target is not None:
        for line in (rule.axhline, trade_off.axvline):
            line(target, color="black", linewidth=0.8, linestyle="--", label=f"asked for: {target:g}")
    if chosen is not None:
        label = f"chosen: {chosen:.3g}"
        for axis in (rule, accuracy):
            axis.axvline(chosen, color=COLOURS[3], linewidth=1, label=label)
        passed = frontier[frontier["passed"]] if "passed" in frontier else frontier
        nearest = min(
            (row for _, row in passed.iterrows()), key=lambda r: (abs(r["threshold"] - chosen), -r["accuracy"])
        )
        diamond = {"marker": "D", "markersize": 7, "color": COLOURS[3], "linestyle": "none"}
        trade_off.plot(nearest["p_rule"], nearest["accuracy"], label=label, **diamond)
    _legend_below(figure, axes)
    return saved(figure, path)


def _legend_below(figure: "Figure", axes: Any) -> None:
    """One legend for all panels, below them, where it covers nothing."""
    entries: dict[str, Any] = {}
    for axis in axes.flat:
        entries |= {label: handle for handle, label in zip(*axis.get_legend_handles_labels(), strict=True)}
    names = list(entries)
    figure.legend(
        [entries[name] for name in names], names, loc="outside lower center", ncols=4, frameon=False, fontsize=8
    )


def _by_path(frontier: "pd.DataFrame") -> list[tuple[str, str, "pd.DataFrame"]]:
    """The parts of a frontier that belong to one path each: colour, how its name goes into a legend, rows."""
    if "path" not in frontier:
        return [(COLOURS[0], "", frontier)]
    parts = frontier.groupby("path", sort=False)
    return [(colour, f" ({name})", part) for colour, (name, part) in zip(COLOURS, parts, strict=False)]


def _draw_thresholds(axis: Any, frontier: "pd.DataFrame", name: str, title: str) -> None:
    """The p%-rule or the accuracy against the threshold, with a band for its interval and a line for its lower bound."""
    for colour, path, part in _by_path(frontier):
        marked = {"color": colour, "marker": "o", "markersize": 3}  # a path may have a single point
        axis.plot(part["threshold"], part[name], label=f"out of fold, with its 95 % interval{path}", **marked)
        band = part[f"{name}_low"], part[f"{name}_high"]
        axis.fill_between(part["threshold"], *band, color=colour, alpha=0.15, linewidth=0 if len(part) > 1 else 3)
        if f"{name}_bound" in part:
            bound = marked | {"marker": "v", "linestyle": ":", "label": f"lower bound{path}"}
            axis.plot(part["threshold"], part[f"{name}_bound"], **bound)
    by_rates = "path" in frontier
    axis.set_xscale("linear" if by_rates else "log")
    axis.set_xlabel("what smoothed rates are held at" if by_rates else "threshold c of the covariance")
    axis.set_ylabel(title)
    axis.set_title(f"{title}, by threshold", loc="left", fontsize=11)


def _draw_trade_off(axis: Any, frontier: "pd.DataFrame") -> None:
    """The accuracy against the p%-rule, with bars for the intervals of both."""
    for colour, path, part in _by_path(frontier):
        width, height = (
            (part[name] - part[f"{name}_low"], part[f"{name}_high"] - part[name]) for name in ("p_rule", "accuracy")
        )
        axis.errorbar(
            part["p_rule"], part["accuracy"], xerr=width, yerr=height, color=colour, marker="o", markersize=3,
            linewidth=1, elinewidth=0.5, alpha=0.8, label=f"out of fold, with its 95 % interval{path}",
        )  # fmt: skip
    axis.set_xlabel("p%-rule")
    axis.set_ylabel("accuracy")
    axis.set_title("the trade-off", loc="left", fontsize=11)
