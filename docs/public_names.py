"""The names that the reference owes a reader: the site fails without an entry for each, the tests without an example."""

import importlib
import inspect
from collections.abc import Iterator
from typing import Any

import tightrope as tr
from tightrope import confidence, datasets, estimators, problems, theory

_ROOMS = {
    "estimators": estimators,
    "problems": problems,
    "datasets": datasets,
    "theory": theory,
    "confidence": confidence,
    "metrics": importlib.import_module("tightrope.metrics"),  # the door, whatever `tr.metrics` has been loaded as
}
_WINGS = {
    "estimators": "tightrope.learn",
    "problems": ("tightrope.lab.problems", "tightrope.learn.problems"),
    "datasets": "tightrope.learn",
    "metrics": "tightrope.learn",
    "theory": "tightrope.lab",
}
"""Doors, whose names stand in a wing."""


def public_names() -> Iterator[tuple[str, Any]]:
    """Every public class and function, as "module.name" and what it is."""
    yield from ((f"tightrope.{name}", getattr(tr, name)) for name in tr.__all__ if not _plain(getattr(tr, name)))
    yield from (
        (f"tightrope.methods.{kind.__name__}", kind) for kind in tr.METHODS.values() if kind.__name__ not in tr.__all__
    )
    for called, room in _ROOMS.items():
        for name, value in vars(room).items():
            listed = name in getattr(room, "__all__", (name,)) and not name.startswith("_")
            own = getattr(value, "__module__", "").startswith(_WINGS.get(called, room.__name__))
            if listed and own and not _plain(value) and name not in tr.__all__:
                yield f"tightrope.{called}.{name}", value


def _plain(value: Any) -> bool:
    """Modules and collections, which have no docstring of their own."""
    return not (inspect.isclass(value) or inspect.isfunction(value))
