"""The folder of a reproduction as one page, made from what lies in it: verdicts, pictures, tables and their settings."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tightrope.lab.paper.claims import VERDICTS
from tightrope.lab.paper.figure import Figure
from tightrope.lab.work import settings_in
from tightrope.pages.elements import Html, element, facts, heading, joined, link, page, paragraph, picture, table
from tightrope.pages.run import mark, versions

PAPER = (
    "Z. Akhtar, A. S. Bedi, K. Rajawat: Conservative Stochastic Optimization with Expectation Constraints, "
    "arXiv:2008.05758."
)
HOW = (
    "Every verdict is computed from runs, by the same code for every reader; none is written by hand. Numbers are "
    "medians over seeds, with their 10 % and 90 % quantiles in brackets. The paper's own pictures were not at hand, "
    "so that verdicts rest on its sentences. A claim of the paper is marked so; ours are what an analysis of the "
    "paper predicts, or what lies beyond it."
)
SOURCES = {"paper": "the paper's", "analysis": "ours", "beyond": "ours"}
CAPTIONS = {
    "fig1": "At the end of the runs, against the tightening upsilon0: objective, |covariance| - c (above "
    "0: violated), and the p%-rule on the test rows. Lines are medians over seeds, bands their 10 "
    "% to 90 % quantiles.",
    "fig1-iterations": "Along the runs, a line for each upsilon0, a row of panels for each horizon T: objective, "
    "|covariance| - c, and the smaller of the two multipliers. Dashed: the margin is at least c, "
    "and nothing is feasible.",
    "fig2": "CSOA against G-OCO with the paper's coefficients, over one pass.",
    "fig2-paper": "CSOA against G-OCO with the paper's coefficients, over several passes.",
    "fig2-tuned": "CSOA against G-OCO, tuned by the paper's protocol.",
    "fig3": "FW-CSOA against SCGD with the paper's coefficients: normalised error on the observed entries,"
    " and unobserved energy relative to its bound, minus one (above 0: violated).",
    "fig3-tuned": "The same, each method tuned.",
    "fig3-cost": "Error against linear minimisations, entries looked at and seconds; with exact residuals "
    "beside the sampled methods.",
    "fig4-convergence": "Synthetic data: objective, normalised error and violation along the runs.",
    "fig4-tradeoff": "Synthetic data: the p%-rule and the accuracy against the covariance allowed.",
    "fig4-boundaries": "Synthetic data: how the decision boundary turns as less covariance is allowed.",
    "beyond": "A dot for each seed, a line for the median. Left: what variance reduction gains in as many "
    "passes. Middle: Split-CSOA and FW-CSOA after as many samples. Right: constraints of points in "
    "truth (above 0: violated), feasible on the data or certified by rows that were held out; hollow: "
    "these rows could not certify it.",
}
"""What a picture shows, by its name or by how that begins."""
ERRATA = (
    (
        "E1",
        "Theorem 2",
        "Its proof needs 2 A_2/eta + 2 delta^2 eta^2 <= delta, which fails for every T with the steps that it "
        "prescribes. The rate T^-1/4 of FW-CSOA is not proved as printed (figure 3).",
    ),
    (
        "E2, E3",
        "both theorems",
        "|lam* + 1_i|^2 is up to (1 + C)^2, not 1 + C^2, and C2 is too small, down to one half: the margins printed "
        "do not guarantee zero violation.",
    ),
    (
        "E11",
        "Proposition 1",
        "Its condition delta > 4 B^2 contradicts Theorem 1's delta = 4 B^2. It is not needed: weak duality gives the"
        " bound wherever the constraints hold on average.",
    ),
    ("E12", "matrix experiment", "upsilon is of the order T^-1/2 there and T^-1/4 in the theorem (figure 3)."),
    (
        "E13",
        "fairness experiment",
        "upsilon = 80/sqrt T is above c = 0.05 for all T < 2.56 million: the tightened problem has no feasible "
        "point, and what runs is covariance = 0 (figures 1 and 2).",
    ),
    (
        "E26",
        "abstract, Theorem 1",
        "Zero violation is that of the expectation of the average over a run; a single run may violate.",
    ),
)


def folder_page(out: Path, figures: Mapping[str, Figure]) -> Html:
    """The page of all figures that the folder has."""
    there = {name: figure for name, figure in figures.items() if (out / f"{name}.verdicts.json").exists()}
    claims = {name: json.loads((out / f"{name}.verdicts.json").read_text()) for name in there}
    return page(
        "The paper's figures, computed again",
        paragraph(PAPER),
        paragraph(HOW),
        heading("In short"),
        _counts(there, claims),
        *(part for name, figure in there.items() for part in _figure(out, name, figure, claims[name])),
        heading("Errata of the paper that touch a result", place="errata"),
        table(("", "where", "what"), ERRATA, roles={1: "words", 2: "words"}),
        versions(),
    )


def _counts(figures: Mapping[str, Figure], claims: Mapping[str, Sequence[Any]]) -> Html:
    """How many claims of each figure have which verdict, the paper's and ours."""
    rows = []
    for name, figure in figures.items():
        kinds = [kind for kind in SOURCES if any(claim["source"] == kind for claim in claims[name])]
        for kind in kinds:
            counts = [
                sum(c["verdict"] == verdict and c["source"] == kind for c in claims[name]) for verdict in VERDICTS
            ]
            rows.append([link(f"#{name}", name), SOURCES[kind], *(count or "" for count in counts), figure.title])
    heads = ("", "claims", *VERDICTS, "about")
    return table(heads, rows, roles={1: "left", 5: "words aside"})


def _figure(out: Path, name: str, figure: Figure, claims: Sequence[Any]) -> list[Html]:
    rows = [
        (claim["sentence"], SOURCES[claim["source"]], _verdict(claim["verdict"]), claim["evidence"]) for claim in claims
    ]
    heads = ("claim", "whose", "verdict", "numbers")
    pictures = [picture(path.name, caption(path.stem)) for path in _files(out, name, "png")]
    tables = [link(path.name, path.name) for path in _files(out, name, "csv")]
    files = [made for file in tables for made in (file, " ")]
    return [
        heading(f"{name}: {figure.title}", place=name),
        *pictures,
        table(heads, rows, f"Claims of {name}", {0: "words", 1: "left", 2: "left", 3: "words"}),
        element("p", joined(["Tables: ", *files])),
        _settings(out, name),
    ]


def _verdict(said: str) -> Html:
    return mark(said, {"reproduced": True, "not reproduced": False}.get(said))


def caption(stem: str) -> str:
    """What a picture shows: the caption of the longest name that its own begins with.

    Example:
        >>> caption("fig2-paper-passes3")
        "CSOA against G-OCO with the paper's coefficients, over several passes."
    """
    return CAPTIONS[max((name for name in CAPTIONS if f"{stem}-".startswith(f"{name}-")), key=len)]


def _files(out: Path, name: str, kind: str) -> list[Path]:
    """The files of a figure: its name, and what begins with it."""
    found = sorted(out.glob(f"*.{kind}"), key=lambda path: path.stem)
    return [path for path in found if f"{path.stem}-".startswith(f"{name}-")]


def _settings(out: Path, name: str) -> Html:
    """What each part was computed from, parameters and seeds, as its file says in its first line."""
    pairs = [
        (path.stem, "; ".join(f"{key}: {_value(value)}" for key, value in settings_in(path).items()))
        for path in sorted((out / "parts").glob(f"{name}-*.csv"))
    ]
    summary = element("summary", f"Parameters, seeds and version of its {len(pairs)} parts")
    return element("details", joined([summary, facts(pairs)]))


def _value(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(_value, value))
    return json.dumps(value) if isinstance(value, dict) else str(value)
