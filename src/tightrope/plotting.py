"""Pictures from a trace or a frontier. matplotlib is needed here and nowhere else."""

from typing import TYPE_CHECKING, Any

from tightrope.result import Result

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")  # told apart by colour-blind readers


def new_figure(columns: int = 1, rows: int = 1, size: tuple[float, float] = (5.2, 3.6)) -> tuple["Figure", Any]:
    """A figure outside pyplot's global state, with the library's look."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("Pictures need matplotlib: pip install 'tightrope[plot]'.") from error
    figure = Figure(figsize=(size[0] * columns, size[1] * rows), layout="constrained", dpi=150)
    axes = figure.subplots(rows, columns, squeeze=False)
    for axis in axes.flat:
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(True, alpha=0.25, linewidth=0.6)
    return figure, axes


def plot_trace(result: Result, path: str | None = None) -> "Figure":
    """Objective and constraints of a run against samples; saved to `path` where one is given."""
    trace = result.trace
    if trace.empty:
        raise ValueError("The trace is empty: the run took no recorded step, so there is nothing to draw.")
    names = list(result.constraints.index)
    panels = [p for p, there in (("objective", "objective" in trace), ("constraints", bool(names))) if there]
    figure, axes = new_figure(columns=max(1, len(panels)))
    for axis, panel in zip(axes.flat, panels, strict=False):
        axis.set_xscale("log")
        axis.set_xlabel("samples")
        axis.set_title(panel, loc="left", fontsize=11)
        drawn = ["objective"] if panel == "objective" else names
        for i, name in enumerate(drawn):
            colour = _COLOURS[i % len(_COLOURS)]
            axis.plot(trace["samples"], trace[name], color=colour, label=f"{name}, mean over the run")
            if f"full {name}" in trace:
                axis.plot(
                    trace["samples"], trace[f"full {name}"], color=colour, linestyle="--", label=f"{name}, all rows"
                )
        if panel == "constraints":
            low, high = axis.get_ylim()
            low, high = min(low, 0.0), max(high, 0.0)
            pad = 0.05 * (high - low)
            axis.set_ylim(low - pad, high + pad)
            axis.axhspan(0, high + pad, color="#D55E00", alpha=0.08, linewidth=0)  # where a constraint is violated
            axis.axhline(0, color="black", linewidth=0.8)
        if len(axis.lines) <= 12:
            axis.legend(frameon=False, fontsize=8)
    if path is not None:
        figure.savefig(path)
    return figure


def plot_frontier(
    frontier: "pd.DataFrame", target: float | None = None, chosen: float | None = None, path: str | None = None
) -> "Figure":
    """Accuracy and the p%-rule along a path of thresholds, with intervals; left against the threshold, right against each
    other."""
    figure, axes = new_figure(columns=2)
    left, right = axes.flat
    for name, colour, label in (("p_rule", _COLOURS[0], "p%-rule"), ("accuracy", _COLOURS[1], "accuracy")):
        left.plot(frontier["threshold"], frontier[name], color=colour, label=label)
        band = frontier[f"{name}_low"], frontier[f"{name}_high"]
        left.fill_between(frontier["threshold"], *band, color=colour, alpha=0.2, linewidth=0)
    left.plot(
        frontier["threshold"], frontier["p_rule_bound"], color=_COLOURS[0], linestyle=":", label="p%-rule, lower bound"
    )
    left.set_xscale("log")
    left.set_ylim(0, 1.02)
    left.set_xlabel("threshold c of the covariance")
    left.set_title("what a threshold gives", loc="left", fontsize=11)
    size = frontier["p_rule"] - frontier["p_rule_low"], frontier["p_rule_high"] - frontier["p_rule"]
    height = frontier["accuracy"] - frontier["accuracy_low"], frontier["accuracy_high"] - frontier["accuracy"]
    right.errorbar(
        frontier["p_rule"], frontier["accuracy"], xerr=size, yerr=height, color=_COLOURS[2], marker="o", markersize=3,
        linewidth=1, elinewidth=0.6, alpha=0.8, label="out-of-fold, 95 % intervals",
    )  # fmt: skip
    right.set_xlabel("p%-rule")
    right.set_ylabel("accuracy")
    right.set_title("the trade-off", loc="left", fontsize=11)
    if target is not None:
        left.axhline(target, color="black", linewidth=0.8, linestyle="--", label=f"asked for: {target:g}")
        right.axvline(target, color="black", linewidth=0.8, linestyle="--", label=f"asked for: {target:g}")
    if chosen is not None:
        left.axvline(chosen, color=_COLOURS[3], linewidth=1, label=f"chosen: c = {chosen:.3g}")
        nearest = frontier.iloc[(frontier["threshold"] - chosen).abs().argmin()]
        right.plot(
            nearest["p_rule"], nearest["accuracy"], marker="D", markersize=7, color=_COLOURS[3], linestyle="none",
            label=f"chosen: c = {chosen:.3g}",
        )  # fmt: skip
    for axis in (left, right):
        axis.legend(frameon=False, fontsize=8)
    if path is not None:
        figure.savefig(path)
    return figure
