"""The figures of the paper, one module each: what it computes, what it draws, and a verdict on every claim.

`reproduce` does the work in parts that are stored as they finish; a second call goes on where the first was stopped.
"""

from collections.abc import Sequence
from pathlib import Path

import jax

from tightrope.lab.paper import beyond, fig1, fig2, fig3, fig4
from tightrope.lab.paper.claims import Claim
from tightrope.lab.paper.figure import FULL, QUICK, Figure, Size, check, compute, write
from tightrope.lab.paper.page import folder_page
from tightrope.lab.work import OtherSettingsError, goes_on_later, ready_to_write
from tightrope.loop.record import Progress
from tightrope.pages.elements import write_page

FIGURES: dict[str, Figure] = {
    "fig1": fig1.FIGURE,
    "fig2": fig2.FIGURE,
    "fig3": fig3.FIGURE,
    "fig4": fig4.FIGURE,
    "beyond": beyond.FIGURE,
}
"""The figures, by the names that `reproduce` takes; "beyond" is not the paper's but ours."""

__all__ = ["FIGURES", "FULL", "QUICK", "Claim", "Figure", "OtherSettingsError", "Size", "reproduce"]


def reproduce(
    figures: Sequence[str] = (),
    out: str | Path = "report",
    quick: bool = False,
    progress: bool | None = None,
    size: Size | None = None,
) -> dict[str, list[Claim]]:
    """Compute figures of the paper and judge its claims by them.

    Into the folder `out` go, for each figure, tidy CSV files, PNG pictures, `<figure>.verdicts.json` and `<figure>.txt`;
    and `index.html`, a page of all figures that are there.
    Finished parts lie in `out/parts`; they are not computed again, so that an interrupted call can be repeated. A folder
    with parts of other settings is refused.

    Args:
        figures: names of `FIGURES`; all of them by default.
        out: the folder to write to; made where it is not there.
        quick: fewer seeds and shorter runs, for a first look: under a minute a figure.
        progress: a progress bar; by default only on a terminal or in a notebook.
        size: how much work exactly, instead of `quick`.

    Returns:
        The claims with their verdicts, by figure.

    Example:
        >>> from tightrope.lab.paper import FIGURES
        >>> sorted(FIGURES)
        ['beyond', 'fig1', 'fig2', 'fig3', 'fig4']
    """
    chosen = {name: _figure(name) for name in (figures or FIGURES)}
    out, size = Path(out), size or (QUICK if quick else FULL)
    ready_to_write("reproduce", out)
    missing, verdicts = check(chosen, size, out), {}
    # in float64 whatever the user's configuration, so that the figures do not depend on it
    with goes_on_later(out / "parts"), jax.enable_x64(True), Progress(missing, progress, "parts") as bar:
        for name, figure in chosen.items():
            report = figure.report(compute(name, figure, size, out, bar), size)
            write(out, name, figure, report)
            verdicts[name] = report.claims
    write_page(out / "index.html", folder_page(out, FIGURES))
    return verdicts


def _figure(name: str) -> Figure:
    if name not in FIGURES:
        raise ValueError(f"reproduce: there is no figure {name!r}; expected some of {', '.join(FIGURES)}.")
    return FIGURES[name]
