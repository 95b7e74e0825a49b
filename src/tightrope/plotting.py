"""Pictures of a trace, and the look of all pictures; matplotlib is loaded when the first one is drawn."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from tightrope.files import as_path, beside
from tightrope.names import in_picture
from tightrope.result import Result

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")  # told apart by colour-blind readers


def new_figure(
    columns: int = 1, rows: int = 1, size: tuple[float, float] = (5.2, 3.6), dpi: int = 150
) -> tuple["Figure", Any]:
    """A figure outside pyplot's global state, with the library's look."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("Pictures need matplotlib: pip install 'tightrope[plot]'.") from error
    figure = Figure(figsize=(size[0] * columns, size[1] * rows), layout="constrained", dpi=dpi)
    axes = figure.subplots(rows, columns, squeeze=False)
    for axis in axes.flat:
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(True, alpha=0.25, linewidth=0.6)
    return figure, axes


def plot_trace(result: Result, path: str | None = None) -> "Figure":
    """Objective and constraints of a run against samples, or passes where it draws none; saved to `path` where given."""
    trace = result.trace
    if trace.empty:
        raise ValueError("The trace is empty: the run took no recorded step, so there is nothing to draw.")
    names = list(result.constraints.index)
    panels = {"objective": ["objective"] if "objective" in trace else [], "constraints": names}
    panels = {title: drawn for title, drawn in panels.items() if drawn}
    along = "samples" if trace["samples"].max() > 0 else "passes"
    figure, axes = new_figure(columns=max(1, len(panels)))
    for axis, (title, drawn) in zip(axes.flat, panels.items(), strict=False):
        axis.set_xscale("log")
        axis.set_xlabel(along)
        axis.set_title(title, loc="left", fontsize=11)
        for i, name in enumerate(drawn):
            colour = COLOURS[i % len(COLOURS)]
            named = in_picture(name)
            label = named if along == "passes" else f"{named}, mean over the run"
            axis.plot(trace[along], trace[name], color=colour, label=label)
            if f"full {name}" in trace:
                full = trace[f"full {name}"]
                axis.plot(trace[along], full, color=colour, linestyle="--", label=f"{named}, all rows")
        if title == "constraints":
            _shade_violations(axis)
        if len(axis.lines) <= 12:
            axis.legend(frameon=False, fontsize=8)
    return saved(figure, path)


def _shade_violations(axis: Any) -> None:
    """Colour what lies above zero, where a constraint is violated."""
    low, high = axis.get_ylim()
    low, high = min(low, 0.0), max(high, 0.0)
    pad = 0.05 * (high - low)
    axis.set_ylim(low - pad, high + pad)
    axis.axhspan(0, high + pad, color="#D55E00", alpha=0.08, linewidth=0)
    axis.axhline(0, color="black", linewidth=0.8)


def saved(figure: "Figure", path: str | None) -> "Figure":
    """The figure, written to a file where one is named, whole or not at all."""
    if path is not None:
        write_figure(figure, path)
    return figure


def write_figure(figure: "Figure", path: str | Path) -> None:
    """Write a figure, whole or not at all, in the form that the name of its file says."""
    path = as_path(path)
    path = path if path.suffix else path.with_name(f"{path.name}.png")  # matplotlib's own default
    with beside(path) as unfinished:
        figure.savefig(unfinished, format=path.suffix.removeprefix("."))
