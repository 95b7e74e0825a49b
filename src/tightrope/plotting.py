"""Pictures from a trace. matplotlib is needed here and nowhere else."""

from typing import TYPE_CHECKING, Any

from tightrope.result import Result

if TYPE_CHECKING:
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
