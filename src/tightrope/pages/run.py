"""A run as a page: the certificate first, how it ended, what it found, and how it came there."""

import math
import platform
from collections.abc import Iterable, Sequence
from importlib.metadata import version
from typing import Any

import numpy as np

from tightrope.certificate import Certificate
from tightrope.methods.base import title_of
from tightrope.pages.drawings import bar, curve
from tightrope.pages.elements import (
    Html,
    cell,
    element,
    facts,
    fragment,
    heading,
    joined,
    listed,
    page,
    paragraph,
    row,
    table,
)
from tightrope.result import Result

_MOST_ROWS = 40  # constraints; of more, the worst are shown and the others counted; by hand
_ROUNDING = 1e-6  # share of a constraint's largest value that colours no bar, where nobody has judged it; by hand
_MOST = 12  # panels of a page, where a notebook shows fewer, and numbers of a point that are printed; by hand


def run_page(result: Result) -> Html:
    """The whole report of a run."""
    return page(f"A run of {title_of(result.method)}", *_certified(result), *sections(result), versions())


def run_fragment(result: Result) -> Html:
    """What a notebook shows of a run."""
    said = [] if result.certificate is None else [certificate_verdict(result.certificate)]
    return fragment(*said, _status(result), _objective(result), _constraints(result), _notes(result), trace(result, 3))


def certificate_fragment(certificate: Certificate) -> Html:
    """What a notebook shows of a certificate."""
    return fragment(*certificate_parts(certificate))


def sections(result: Result, level: int = 2) -> list[Html]:
    """How a run ended, what it found, how it came there: the parts that every page about a run has, under such headings."""
    return [
        _status(result),
        heading("Objective", level),
        _objective(result),
        heading("Constraints", level),
        _constraints(result),
        _notes(result),
        heading("Along the run", level),
        trace(result),
        heading("The point", level),
        _point(result),
        heading("The method", level),
        facts([("method", title_of(result.method)), ("coefficients", _coefficients(result.method))]),
    ]


def versions() -> Html:
    """What made the page."""
    packages = [f"{name} {version(name)}" for name in ("tightrope", "jax", "numpy")]
    return paragraph(f"Made by {', '.join(packages)}, Python {platform.python_version()}.", "faint")


def verdict(said: str, holds: bool | None) -> Html:
    """A sentence that comes first; None where it is neither good nor bad."""
    return paragraph(said, "said" if holds is None else "said kept" if holds else "said broken")


def certificate_verdict(certificate: Certificate) -> Html:
    """Its sentence: in the colour of what is kept where it is proven, of what is broken where it is not shown, in neither
    where it is asymptotic."""
    within = all(bound.upper <= 0 for bound in certificate.constraints)
    return verdict(certificate.verdict, None if within and certificate.grade == "asymptotic" else certificate.holds)


# ---- the certificate -------------------------------------------------------------------------------------------------


def _certified(result: Result) -> list[Html]:
    return [] if result.certificate is None else certificate_parts(result.certificate)


def certificate_parts(certificate: Certificate) -> list[Html]:
    """The verdict, a bound for each constraint, and what warns."""
    bounds = certificate.constraints
    rows = [
        row(
            [
                cell(bound.name, "words"),
                cell(_drawn(bound.estimate, bound.upper)),
                cell(f"{bound.estimate:.4g}"),
                cell(f"{bound.upper:.4g}"),
                cell(mark(bound.shown, bound.holds if bound.upper > 0 or bound.grade == "proven" else None)),
                cell(bound.why, "words"),
            ]
        )
        for bound in bounds
    ]
    heads = ("constraint", "kept | violated", "estimate", "at most", "", "by what")
    always = ", at all times together" if certificate.anytime else ""
    known = [
        ("held out", f"{certificate.samples:,} samples{always}"),
        ("confidence", f"{100 * certificate.confidence:g} %"),
    ]
    known += [] if certificate.gap is None else [("gap on the data", f"at most {certificate.gap:.3g}")]
    known += (
        []
        if certificate.population_gap is None
        else [("gap in expectation", f"at most {certificate.population_gap:.3g} (asymptotic)")]
    )
    return [
        certificate_verdict(certificate),
        table(
            heads,
            rows,
            "On held-out rows, minus each level",
            {0: "words", 1: "drawn", 5: "words"},
        )
        if rows
        else Html(""),
        facts(known),
        listed([*certificate.warnings, *certificate.notes]),
    ]


def _drawn(estimate: float, upper: float) -> Html:
    """The estimate as a bar and its bound as the end of the line, in units of the larger of both."""
    known = [abs(number) for number in (estimate, upper) if math.isfinite(number)]
    return bar(
        estimate, max(known, default=0.0), estimate > 0, upper - estimate, f"{estimate:.4g}, at most {upper:.4g}"
    )


# ---- the run ---------------------------------------------------------------------------------------------------------


def _status(result: Result) -> Html:
    said = f"{title_of(result.method)}: {result.status.value}."
    good = True if result.status.proven else False if result.status.went_wrong else None
    return verdict(f"{said} {result.message}".strip(), good)


def _objective(result: Result) -> Html:
    value = "not given by the oracle" if result.objective is None else f"{result.objective:.6g}"
    error = result.objective_error
    value += f" ± {error:.2g}" if result.at_random and error is not None and error > 0 else ""
    known: list[tuple[str, object]] = [("objective", value)]
    if result.gap is not None:
        known.append(("above the best possible", f"by at most {result.gap:.3g}, on the data, rounding counted"))
    return facts([*known, *result.known])


def _constraints(result: Result) -> Html:
    names = [str(name) for name in result.constraints.index]
    if not names:
        return paragraph("There are none.", "faint")
    values = result.constraints.to_numpy(float)
    errors = np.full(len(names), np.nan) if result.errors is None else result.errors.to_numpy(float)
    both = list(zip(values.tolist(), errors.tolist(), strict=True))
    wholes = [_whole(result, name, value) for name, (value, _) in zip(names, both, strict=True)]
    verdicts = [result.verdict_of(value, error) for value, error in both]
    shown_errors = errors if result.at_random else np.full(len(names), np.nan)  # rounding has no width to draw
    multipliers = np.asarray(result.dual, float)
    unsettled = [name in result.unsettled for name in names]
    return constraint_table(names, values, shown_errors, multipliers, verdicts, wholes, unsettled)


def _whole(result: Result, name: str, value: float) -> float:
    """The largest value that the constraint has had along the run: what its bar is a share of, whatever its units."""
    seen = [abs(value)]
    for column in (name, f"full {name}"):
        if column in result.trace:
            seen += np.abs(result.trace[column].to_numpy(float)).tolist()
    return max((number for number in seen if math.isfinite(number)), default=0.0)


def constraint_table(
    names: Sequence[str],
    values: np.ndarray,
    errors: np.ndarray,
    multipliers: np.ndarray,
    verdicts: Sequence[str],
    wholes: Sequence[float],
    unsettled: Sequence[bool],
    share_of: str = "the largest value along the run",
) -> Html:
    """Constraints with bars and multipliers, the worst first where they are many.

    Args:
        names: of the constraints.
        values: minus their levels; at most 0 is kept.
        errors: by how much each may be off; NaN where that is not drawn.
        multipliers: NaN where a method estimates none.
        verdicts: what each value says; "" where nobody has judged it.
        wholes: what the length of each bar is a share of.
        unsettled: whether a multiplier was still changing.
        share_of: what that is, in words.
    """
    order = list(range(len(names)))
    if len(names) > _MOST_ROWS:
        badness = np.nan_to_num(np.stack([values / np.where(wholes, wholes, 1.0), values]), nan=np.inf)
        order = np.lexsort(-badness[::-1])[:_MOST_ROWS].tolist()  # by shares, and where these are the same by values
    rows = []
    for i in order:
        error = f" ± {errors[i]:.2g}" if math.isfinite(errors[i]) and errors[i] > 0 else ""
        moving = " (still changing)" if unsettled[i] else ""
        said = verdicts[i]
        kept = None if not said or said.startswith(("undecided", "not known")) else not said.startswith("VIOLATED")
        broken = said.startswith("VIOLATED") if said else values[i] > _ROUNDING * wholes[i]
        rows.append(
            row(
                [
                    cell(names[i], "words"),
                    cell(bar(values[i], wholes[i], broken, errors[i], f"{values[i]:.4g} {said}".strip())),
                    cell(f"{values[i]:.4g}{error}"),
                    cell("-" if np.isnan(multipliers[i]) else f"{multipliers[i]:.4g}{moving}"),
                    cell(mark(said, kept), "words"),
                ]
            )
        )
    made = table(
        ("constraint", "kept | violated", "value", "multiplier", ""), rows, roles={0: "words", 1: "drawn", 4: "words"}
    )
    said = f"Values are minus their levels: at most 0 is kept. A bar is a share of {share_of}."
    if len(names) > len(order):
        said += f" These are the {len(order)} worst of {len(names):,} constraints."
    return joined([made, paragraph(said, "faint")])


def mark(said: str, good: bool | None) -> Html:
    """A word in the colour of what it means; the word says it, too."""
    return element("b", said, "" if good is None else "kept" if good else "broken")


def _notes(result: Result) -> Html:
    return listed(result.notes)


def trace(result: Result, most: int = _MOST - 1) -> Html:
    """Small panels side by side: objective, gap where it was followed, and the constraints nearest to their levels."""
    steps = result.trace
    if steps.empty:
        return paragraph("The run took no recorded step.", "faint")
    along = "samples" if steps["samples"].max() > 0 else "passes"
    names = [str(name) for name in result.constraints.index if name in steps]
    names = _nearest(result, names)[:most]
    panels = [_panel(steps, along, "objective")] if "objective" in steps else []
    if "gap" in steps:
        panels.append(curve(steps[along].to_numpy(), [steps["gap"].to_numpy()], "gap", along, decades=True))
    panels += [_panel(steps, along, name, level=0.0) for name in names]
    said = "Means over the samples of the run so far" if along == "samples" else "At each look"
    said += "; dashed: on all rows." if any(str(column).startswith("full ") for column in steps) else "."
    said += " Shaded: violated." if names else ""
    left = len(result.constraints) - len(names)
    said += f" {left:,} constraints further from their levels are not drawn." if left else ""
    return joined([element("div", joined(panels), "panels"), paragraph(said, "faint")])


def _nearest(result: Result, names: Iterable[str]) -> list[str]:
    """Constraints by how near to their levels, or beyond, they ended, in units of what they were along the run."""
    shares = {
        name: result.constraints[name] / (_whole(result, name, result.constraints[name]) or 1.0) for name in names
    }
    return sorted(shares, key=lambda name: -np.nan_to_num(shares[name], nan=np.inf))


def _panel(steps: Any, along: str, name: str, level: float | None = None) -> Html:
    lines = [steps[column].to_numpy(float) for column in (name, f"full {name}") if column in steps]
    return curve(steps[along].to_numpy(float), lines, name, along, level=level)


def _point(result: Result) -> Html:
    """The shape of every leaf of x, and its numbers where they are few."""
    import jax

    leaves = jax.tree_util.tree_leaves_with_path(result.x)
    return facts([(f"x{jax.tree_util.keystr(path)}", _numbers(np.asarray(leaf))) for path, leaf in leaves[:_MOST_ROWS]])


def _numbers(leaf: np.ndarray) -> str:
    if leaf.size <= _MOST:
        return ", ".join(f"{number:.6g}" for number in leaf.reshape(-1))
    size = " x ".join(f"{length:,}" for length in leaf.shape)
    return f"{size} numbers from {leaf.min():.4g} to {leaf.max():.4g}"


def _coefficients(method: Any) -> str:
    """A method's coefficients by name, without those that it was not given."""
    import jax

    leaves = jax.tree_util.tree_leaves_with_path(method)
    known = [
        f"{jax.tree_util.keystr(path).lstrip('.')} = {np.asarray(leaf):.6g}"
        for path, leaf in leaves
        if not np.ndim(leaf)
    ]
    return ", ".join(known) or "none were given: what it needs is measured along the run"
