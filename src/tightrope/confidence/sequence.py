"""Fixed-sequence testing: choosing along a path without paying for the number of its points."""

from collections.abc import Iterable
from itertools import takewhile


def fixed_sequence(passed: Iterable[bool]) -> int:
    """How many tests at the head of a sequence are passed; nothing after the first failure is looked at.

    Order the candidates from the safest on WITHOUT looking at the judging data, test each with the full confidence, and
    stop at the first failure. Then every one before it may be used with that confidence: a wrong one can only be among
    them if the first wrong one in the order passed its test (Learn-then-Test, Angelopoulos et al.).

    Example:
        >>> fixed_sequence(bound <= 0.1 for bound in [0.02, 0.06, 0.13, 0.09])
        2
    """
    return sum(1 for _ in takewhile(bool, passed))
