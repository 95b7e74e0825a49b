"""What the figures share: curves with bands over seeds, in colours that colour-blind readers tell apart."""

from typing import Any

import numpy as np
import pandas as pd

COLOURS = {"CSOA": "#0072B2", "G-OCO": "#D55E00"}
STYLES = {"CSOA": "-", "G-OCO": (0, (1, 1.2))}  # solid and dotted, as in the paper


def shades(count: int) -> list[Any]:
    """Colours from dark to light, for values in ascending order."""
    from matplotlib import colormaps

    return [colormaps["viridis"](v) for v in np.linspace(0.0, 0.9, count)]


def curve(axis: Any, table: pd.DataFrame, x: str, y: str, **style: Any) -> None:
    """Draw the median over seeds against x, and a band from the 10 % to the 90 % quantile."""
    grouped = table.groupby(x)[y]
    low, middle, high = (grouped.quantile(q) for q in (0.1, 0.5, 0.9))
    axis.plot(middle.index, middle, **style)
    axis.fill_between(middle.index, low, high, color=style.get("color"), alpha=0.18, linewidth=0)


def label(axis: Any, title: str, x: str, y: str) -> None:
    """Give a panel its title and the names of its axes."""
    axis.set_title(title, loc="left", fontsize=10)
    axis.set_xlabel(x)
    axis.set_ylabel(y)


def zero(axis: Any) -> None:
    """Draw the line above which a constraint is violated."""
    axis.axhline(0, color="black", linewidth=0.8)


def legend_below(figure: Any, axis: Any, columns: int, **options: Any) -> None:
    """Draw one legend for all panels below them, from the lines of one panel."""
    figure.legend(
        *axis.get_legend_handles_labels(),
        loc="outside lower center",
        ncols=columns,
        frameon=False,
        fontsize=9,
        **options,
    )


def optimum(axis: Any, value: float) -> None:
    """Draw a dotted line at the optimal value, with its name below it, where no curve runs."""
    axis.axhline(value, color="black", linewidth=0.8, linestyle=":")
    low, high = axis.get_ylim()
    axis.set_ylim(min(low, value - 0.1 * (high - value)), high)
    axis.annotate("F*", (0.99, value), xycoords=("axes fraction", "data"), ha="right", va="top")
