"""The columns of traces and of a sweep's table, in one place: two things of one name would share one, and are refused."""

from collections.abc import Iterable, Sequence
from typing import Any

OWN = frozenset(
    {"step", "samples", "passes", "seconds", "gap", "objective", "full objective", "weight"}  # of a trace
    | {"method", "level", "seed", "x"}  # of a sweep
)
"""The columns that every trace or table may have, whatever the problem."""


def of_constraints(names: Iterable[str]) -> list[str]:
    """The columns that constraints have: their means, their multipliers, and their values on all rows."""
    return [column for name in names for column in (name, f"dual {name}", f"full {name}")]


def of_means(names: Sequence[str], f: Any, h: Any, lam: Any) -> dict[str, Any]:
    """Means of the objective, where it is known, and of the constraints, and multipliers, by their columns."""
    row = {} if f is None else {"objective": f}
    row |= dict(zip(names, h, strict=True))
    return row | {f"dual {name}": value for name, value in zip(names, lam, strict=True)}


def on_all_rows(names: Sequence[str], f: Any, h: Any) -> dict[str, Any]:
    """The same on all rows, without multipliers."""
    row = {} if f is None else {"full objective": f}
    return row | {f"full {name}": value for name, value in zip(names, h, strict=True)}


def refuse_taken(where: str, given: Sequence[str], taken: Iterable[str] = ()) -> None:
    """Refuse names of which two are the same, or one is that of another column.

    Args:
        where: the argument they were given as, for the sentence.
        given: the names.
        taken: names of columns that are there besides `OWN`.
    """
    others = OWN | set(taken)
    wrong = [name for k, name in enumerate(given) if name in others or name in given[:k]]
    if wrong:
        raise ValueError(
            f"{where} has {wrong[0]!r}, and the trace or table has another column of that name; expected names that differ "
            f"from each other and from {', '.join(sorted(others))}. Call it something else."
        )
