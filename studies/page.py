"""Tables in Markdown, for the pages that studies and benchmarks write."""

from collections.abc import Iterable, Sequence
from typing import Any


def row(*cells: Any) -> str:
    """A line of a table.

    Example:
        >>> row("gap", 3)
        '| gap | 3 |'
    """
    return f"| {' | '.join(map(str, cells))} |"


def markdown(heads: Sequence[str], rows: Iterable[Iterable[Any]] = ()) -> list[str]:
    """The lines of a table: its heads, a rule, its rows.

    Example:
        >>> markdown(["a", "b"], [[1, 2]])
        ['| a | b |', '|---|---|', '| 1 | 2 |']
    """
    return [row(*heads), "|---" * len(heads) + "|", *(row(*cells) for cells in rows)]
