"""What the parameters of an estimator may be: a declared table of rules, and one function that applies it.

scikit-learn's own `_validate_params` does the same with other words; here every refusal says what was given and what was
expected, as everywhere in this package.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator

from tightrope.methods import METHODS, Method


class Rule(NamedTuple):
    """What a parameter has to be: as a test of its value, and in words that complete "expected ..."."""

    holds: Callable[[Any], bool]
    expected: str
    error: type[Exception] = ValueError

    def or_none(self, words: str = "") -> "Rule":
        """The same rule for a parameter that may be None as well."""
        return self._replace(holds=lambda value: value is None or self.holds(value), expected=self.expected + words)


def check_parameters(estimator: BaseEstimator, rules: Mapping[str, Rule]) -> None:
    """Refuse the first parameter that breaks its rule."""
    for name, rule in rules.items():
        value = getattr(estimator, name)
        if not rule.holds(value):
            raise rule.error(f"{name} is {value!r}; expected {rule.expected}.")


def is_number(value: Any) -> bool:
    """Whether a value is a finite number, and not a boolean."""
    return (
        isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool) and np.isfinite(value)
    )


def between_0_and_1(expected: str = "a number between 0 and 1") -> Rule:
    """A share or a probability, both ends excluded."""
    return Rule(lambda value: is_number(value) and 0 < value < 1, expected)


def whole_number(least: int) -> Rule:
    """A whole number of at least `least`."""
    return Rule(
        lambda value: isinstance(value, int | np.integer) and not isinstance(value, bool) and value >= least,
        f"a whole number of at least {least}",
    )


def one_of(choices: Sequence[str]) -> Rule:
    """One of a few words."""
    return Rule(lambda value: value in choices, " or ".join(map(repr, choices)))


POSITIVE = Rule(lambda value: is_number(value) and value > 0, "a positive number")
NOT_NEGATIVE = Rule(lambda value: is_number(value) and value >= 0, "a number of at least 0")
METHOD = Rule(
    lambda value: isinstance(value, Method) or value in ("auto", *METHODS),
    f"auto, {', '.join(METHODS)} or a method object",
)
