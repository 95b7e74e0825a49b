"""What the parameters of an estimator may be: rules to declare in a table, and one function that applies the table.

scikit-learn's `_validate_params` would do, but its refusals name types and ranges where these say what to give.
"""

from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator

from tightrope._errors import shown
from tightrope.methods import registered
from tightrope.methods.base import Algorithm


class Allowed(NamedTuple):
    """What a parameter has to be: as a test of its value, and in words that complete "expected ..."."""

    test: Callable[[Any], Any]
    expected: str
    error: type[Exception] = ValueError

    def holds(self, value: Any) -> bool:
        """Whether a value passes; one that the test cannot judge, such as an array, does not."""
        try:
            return bool(self.test(value))
        except Exception:  # anything may be given, and do anything when it is compared
            return False

    def or_none(self) -> "Allowed":
        """The same rule for a parameter that may be None as well."""
        return self._replace(test=lambda v: v is None or self.holds(v))


def check_parameters(estimator: BaseEstimator, rules: Mapping[str, Allowed]) -> None:
    """Refuse the first parameter that breaks its rule."""
    for name, rule in rules.items():
        value = getattr(estimator, name)
        if not rule.holds(value):
            raise rule.error(f"{name} is {shown(value)}; expected {rule.expected}.")


def number(holds: Callable[[Any], bool], expected: str) -> Allowed:
    """A finite number, not a boolean, for which `holds`."""
    kinds = int | float | np.integer | np.floating
    return Allowed(lambda v: isinstance(v, kinds) and not isinstance(v, bool) and np.isfinite(v) and holds(v), expected)


def share(expected: str) -> Allowed:
    """A number between 0 and 1, both excluded."""
    return number(lambda v: 0 < v < 1, expected)


def whole_number(least: int) -> Allowed:
    """A whole number of at least `least`."""
    whole = f"a whole number of at least {least}"
    return Allowed(lambda v: isinstance(v, int | np.integer) and not isinstance(v, bool) and v >= least, whole)


def one_of(choices: Collection[str]) -> Allowed:
    """One of a few words."""
    return Allowed(lambda v: v in choices, " or ".join(map(repr, choices)))


FLAG = Allowed(lambda v: v in (False, True), "True or False")
POSITIVE = number(lambda v: v > 0, "a positive number")
METHOD = Allowed(
    lambda v: isinstance(v, Algorithm) or v in ("auto", *registered()),
    f"auto, {', '.join(registered())} or a method object",
)
