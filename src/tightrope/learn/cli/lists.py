"""`tightrope methods`, `tightrope sets` and `tightrope datasets`: what there is, from the library's own registries."""

import inspect
import json
from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from rich.table import Table

from tightrope.learn.cli.errors import Debug
from tightrope.learn.cli.options import Json
from tightrope.learn.cli.printing import print_table
from tightrope.names import in_terminal

if TYPE_CHECKING:
    from tightrope.methods import Rates
    from tightrope.methods.base import Algorithm
    from tightrope.sets import ConvexSet


def methods(as_json: Json = False, debug: Debug = False) -> None:
    """The methods: what each needs, what a step costs, and the proven rates; with --json also what they are."""
    from tightrope.loop.prepare import cost_of_a_step
    from tightrope.methods import registered

    if as_json:
        _print_json([_method(name, kind) for name, kind in registered().items()])
        return
    heads = ("S", "G", "P", "L", "gap", "violation")
    table = Table("name", "class", "needs", *heads, box=None, pad_edge=False)
    for name, kind in registered().items():
        published = kind.facts.published
        counts = [str(count or "") for count in cost_of_a_step(kind)]
        rates = [rate and rate + "*" * bool(published.proof) for rate in map(_rate, published[:2])]
        table.add_row(*map(in_terminal, (name, kind.__name__, ", ".join(sorted(kind.needs)), *counts, *rates)))
    print_table(table)
    print("A step takes S samples, G gradients, P projections and L linear minimisations.")
    print("Gap and violation are proven to fall like these powers of the samples T; --json says more.")
    print("* The proof is not of the method as it runs by default: --json and docs/methods.md say of what.")


def sets(as_json: Json = False, debug: Debug = False) -> None:
    """The convex sets: what each can do."""
    from tightrope.sets import SETS

    _print_list([_set(name, kind) for name, kind in SETS.items()], as_json)


def datasets(as_json: Json = False, debug: Debug = False) -> None:
    """The data that comes with tightrope, and how it is called."""
    from tightrope.learn import datasets as data

    functions = {name: getattr(data, name) for name in data.__all__}
    found = [
        {"name": name, "what": _first_paragraph(value), "arguments": list(inspect.signature(value).parameters)}
        for name, value in functions.items()
        if inspect.isfunction(value)
    ]
    _print_list(found, as_json)


def _method(name: str, kind: "type[Algorithm]") -> dict[str, Any]:
    from tightrope.loop.prepare import cost_of_a_step

    return {
        "name": name,
        "class": kind.__name__,
        "what": _first_paragraph(kind),
        "needs": sorted(kind.needs),
        "cost": {unit: count for unit, count in cost_of_a_step(kind)._asdict().items() if count},
        "published": _published(kind.facts.published),
        "published by steps": {steps: _published(rates) for steps, rates in kind.facts.published_by_steps.items()},
        "output": kind.facts.output,
        "tuned": list(kind.tuned),
        "margin": kind.facts.margin,
        "anytime": bool(getattr(kind, "anytime", False)),
    }


def _published(rates: "Rates") -> dict[str, Any]:
    return {what: "inf" if p == float("inf") else p for what, p in rates._asdict().items()}


def _rate(p: float | None) -> str:
    """A proven rate T^-p in words; an infinite p means that nothing is left."""
    return "" if p is None else "zero" if p == float("inf") else f"T^-{Fraction(p).limit_denominator(12)}"


def _set(name: str, kind: "type[ConvexSet]") -> dict[str, Any]:
    # a flag that depends on the set is a property of the class
    always = kind.has_projection is True and kind.cheap_projection is True
    project = "project" if always else "project (not always, or not cheaply)"
    can = [word for word, flag in ((project, kind.has_projection), ("lmo", kind.has_lmo)) if flag]
    return {"name": name, "what": _first_paragraph(kind), "can": can}


def _first_paragraph(value: Any) -> str:
    return " ".join((inspect.getdoc(value) or "").split("\n\n")[0].split())


def _print_list(entries: Sequence[dict[str, Any]], as_json: bool) -> None:
    if as_json:
        _print_json(entries)
        return
    table = Table(*entries[0])
    for entry in entries:
        said = (", ".join(value) if isinstance(value, list) else value for value in entry.values())
        table.add_row(*map(in_terminal, said))
    print_table(table)


def _print_json(entries: Sequence[dict[str, Any]]) -> None:
    print(json.dumps(entries, indent=2, ensure_ascii=False))
