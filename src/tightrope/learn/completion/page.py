"""A completed matrix as a page: what it keeps, how far off it is on entries held out, its spectrum, and the run."""

from typing import TYPE_CHECKING

import numpy as np

from tightrope.pages.drawings import curve
from tightrope.pages.elements import Html, element, facts, heading, joined, page, paragraph, table
from tightrope.pages.run import sections, versions

if TYPE_CHECKING:
    from tightrope.learn.completion.estimator import StructuredMatrixCompletion


def completion_page(model: "StructuredMatrixCompletion") -> Html:
    """The whole report of a `StructuredMatrixCompletion`."""
    rows, columns = model.shape_
    known: list[tuple[str, object]] = [
        ("matrix", f"{rows:,} x {columns:,}, of rank {len(model.singular_values_)}"),
        ("nuclear norm", f"{np.sum(model.singular_values_):.6g}, at most {model.nuclear_norm_:.6g}"),
        ("unobserved energy", f"at most {model.unobserved_energy_:.6g}"),
        ("its multiplier", f"{model.dual_:.4g}, a weight of unobserved entries as zeros"),
        ("mean", f"{model.mean_:.6g}"),
        ("steps", f"{model.n_iter_:,}"),
    ]
    error = getattr(model, "held_out_error_", None)
    if error is not None:
        path = getattr(model, "path_", None)
        tried = "several" if path is None else len(path)
        said = f"{error:.4g}, root mean squared: about the smallest of {tried} tried, by which the bounds were chosen, of a "
        known.insert(
            0, ("held-out error", said + f"completion of {1 - model.held_out:.0%} of the entries; not of this one")
        )
    run = getattr(model, "result_", None)
    made = sections(run, level=3) if run is not None else [element("pre", getattr(model, "report_", ""))]
    return page(
        "A completed matrix",
        facts(known),
        *_spectrum(model.singular_values_),
        *_tried(model),
        heading("The run, in relative units"),
        *made,
        versions(),
    )


def _spectrum(values: np.ndarray) -> list[Html]:
    if not len(values):
        return []
    numbers = np.arange(1, len(values) + 1)
    drawn = curve(numbers, [np.asarray(values, float)], "singular value", "number", logarithmic=False)
    return [heading("Singular values"), element("div", drawn, "panels")]


def _tried(model: "StructuredMatrixCompletion") -> list[Html]:
    """The bounds that were tried, and the error of each on the entries held out."""
    path = getattr(model, "path_", None)
    if path is None:
        return []
    rows = [[f"{value:.4g}" for value in one] for one in path.itertuples(index=False)]
    said = "In the order in which they were tried; the energy of the first ones is one that is never reached."
    heads = ("nuclear norm", "unobserved energy", "held-out error", "rank")
    return [heading("Bounds that were tried"), joined([table(heads, rows), paragraph(said, "faint")])]
