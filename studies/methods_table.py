"""A page with all methods of the registry: what each needs, what a step costs, what is proven.

Run as `python -m studies.methods_table`; writes docs/methods.md.
"""

import inspect
from dataclasses import fields
from fractions import Fraction
from math import inf
from pathlib import Path

from studies.page import markdown
from tightrope.loop.prepare import cost_of_a_step
from tightrope.methods import METHODS
from tightrope.methods.base import Algorithm

PAGE = Path(__file__).parent.parent / "docs" / "methods.md"


def rate(p: float | None) -> str:
    """An exponent p of T^-p, in words."""
    return "-" if p is None else "zero" if p == inf else f"T^-{Fraction(p).limit_denominator(12)}"


def cells(name: str, kind: type[Algorithm]) -> list[str]:
    """A method's line of the table."""
    what = " ".join((inspect.getdoc(kind) or "").split("\n\n")[0].split()).replace("|", "\\|")
    needs = ", ".join(sorted(kind.needs))
    defaults = ", ".join(f"{field.name} {field.default}" for field in fields(kind) if field.default is not None)  # pyright: ignore
    published, margin = kind.facts.published, kind.facts.margin
    falls = rate(kind.facts.margin_power)
    return [
        f"`{name}`",
        f"`{kind.__name__}`",
        needs,
        *map(str, cost_of_a_step(kind)),
        *map(rate, published[:2]),
        published.proof or "-",
        f"{margin} {falls}".removesuffix(" -") if margin else "-",
        defaults or "-",
        what,
    ]


def steps(name: str, kind: type[Algorithm]) -> list[list[str]]:
    """Lines on what is known of each kind of steps, for methods of which that differs."""
    return [
        [f"`{name}`", words, *map(rate, known[:2]), known.standing if known.gap else "nothing is proven"]
        for words, known in kind.facts.published_by_steps.items()
    ]


def page() -> str:
    """The page docs/methods.md."""
    lines = [
        "# Methods",
        "",
        'Written from the registry by `python -m studies.methods_table`. Use one as `tr.minimize(..., method="name")`; the',
        "docstring of its class has the update rule, the coefficients and the references.",
        "",
        "- **needs**: `project` and `lmo` of the set; `exact_constraints`, constraints without noise; `rows`, data at hand;",
        "  `unconstrained`, no constraints but those of the set (`tr.penalised` moves the others into the objective).",
        "- **S, G, P, L**: samples, gradients, projections and linear minimisations of a step on a batch of one. Methods",
        "  that look at all the data from time to time say what that costs (`steps.looks`).",
        "  `bundle` and `sqp` are solvers: a look takes the gradients of all rows, and the programmes that they solve",
        "  between looks are not counted.",
        '- **gap, violation**: proven to fall like this with the number T of samples; "zero" where the mean violation is',
        "  proven to vanish with a margin that is large enough; - where nothing is proven.",
        "- **the proof is**: of what, where that is not the method as it runs by default.",
        "- **margin**: the coefficient of the tightening, and how it falls where that depends on nothing else.",
        "- **by default**: the coefficients; those that a run measures are left out.",
        "",
        "`tightrope leaderboard` compares them: [who wins where](leaderboard.md).",
        "",
        *markdown(
            (
                "name",
                "class",
                "needs",
                "S",
                "G",
                "P",
                "L",
                "gap",
                "violation",
                "the proof is",
                "margin",
                "by default",
                "what",
            ),
            (cells(name, kind) for name, kind in METHODS.items()),
        ),
        "",
        "## What is proven of which steps",
        "",
        'Of some methods it depends on the steps, and the first are those taken by default. "of tr.theory" are coefficients',
        "that [its rules](theory.md) make of a problem's constants; others may do as well, but no theorem says so.",
        "",
        *markdown(
            ("name", "steps", "gap", "violation", "standing"),
            (line for name, kind in METHODS.items() for line in steps(name, kind)),
        ),
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page())
