"""Cases of which `make test` takes some, and `make verify` the others."""

from collections.abc import Iterable
from typing import Any

import pytest


def quick_first(cases: Iterable[Any], quick: int | Iterable[Any]) -> list[Any]:
    """The cases, all but the quick ones marked slow: the first so many of them, or those that are named."""
    cases = list(cases)
    kept = cases[:quick] if isinstance(quick, int) else list(quick)

    def mark(case: Any) -> Any:
        values = case if isinstance(case, tuple) else (case,)
        return case if case in kept else pytest.param(*values, marks=pytest.mark.slow)

    return [mark(case) for case in cases]
