"""Exceptions at random moments of a second `fit`: afterwards the estimator is whole, the old model or the new one.

A second fit learns from other data, with other labels, another number of features and other groups, so that anything of
one model beside anything of the other shows. A trace function raises at a line drawn at random: every other time of all
lines of the package that the fit comes to, otherwise of those of the estimator's own file, where attributes are assigned.
"""

import contextlib
import linecache
import random
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression

import tightrope as tr
from tightrope.learn.completion import estimator as completion
from tightrope.learn.constrained import classifier as constrained
from tightrope.learn.fair import classifier as fair
from tightrope.learn.fair.refusal import Refused
from torture.campaign import PROBLEM, ROWS, campaign, options

PACKAGE = str(Path(tr.__file__).parent)
TIMES = ("seconds", "took")  # what differs between two fits that are the same


class Broken(BaseException):
    """What is raised as often as a KeyboardInterrupt, which runs of `minimize` answer by giving what they have."""


def people(seed: int, labels: tuple[str, str], groups: str, features: int) -> tuple[Any, ...]:
    """Features, labels and groups of some people; with more than three features a table that names them."""
    chance = np.random.default_rng(seed)
    group = chance.choice(list(groups), 240)
    positive = chance.random(240) < 0.4 + 0.1 * (group == groups[0])
    X = chance.normal(size=(240, features)) + 0.8 * positive[:, None]
    named = pd.DataFrame(X, columns=[f"f{i}" for i in range(features)]) if features > 3 else X
    return named, np.where(positive, labels[1], labels[0]), group


def ratings(seed: int, shape: tuple[int, int]) -> np.ndarray:
    """A matrix of rank two of which half is missing."""
    chance = np.random.default_rng(seed)
    M = chance.normal(size=(shape[0], 2)) @ chance.normal(size=(2, shape[1]))
    return np.where(chance.random(shape) < 0.5, np.nan, M)


OLD, NEW = people(0, ("no", "yes"), "AB", 3), people(1, ("bad", "good"), "XYZ", 4)
LATER = people(2, ("no", "yes"), "AB", 3)


def _fair(**asked: Any) -> Callable[[], Any]:
    return lambda: tr.FairLogisticRegression(**asked).fit(OLD[0], OLD[1], OLD[2])


def _refit(model: Any) -> None:
    model.fit(NEW[0], NEW[1], sensitive_features=NEW[2])


def _streamed() -> Any:
    return tr.FairLogisticRegression(covariance=0.1).partial_fit(OLD[0], OLD[1], sensitive_features=OLD[2])


def _constrained(estimator: Any) -> Callable[[], Any]:
    def made() -> Any:
        return tr.ConstrainedClassifier(estimator, subject_to={"fpr": 0.4}).fit(OLD[0], OLD[1])

    return made


def _completed() -> Any:
    return tr.StructuredMatrixCompletion(20.0, 100.0, steps=8).fit(ratings(0, (12, 9)))


def _fed() -> tr.Online:
    run = tr.Online(PROBLEM, tr.CSOA(0.8, 0.01, 0.3, anytime=True), batch_size=3)
    run.update(ROWS[:100])
    run.certify(ranges=(-9.0, 9.0))
    return run


KINDS: dict[str, tuple[Callable[[], Any], Callable[[Any], Any], Any]] = {
    "by rates": (_fair(p_rule=0.2), _refit, fair),
    "by covariance": (_fair(covariance=0.1), _refit, fair),
    "refused": (lambda: _fair(p_rule=0.2)().set_params(p_rule=0.999), _refit, fair),
    "from a stream": (_streamed, lambda m: m.partial_fit(LATER[0], LATER[1], sensitive_features=LATER[2]), fair),
    "a stream after a fit": (
        lambda: _fair(p_rule=0.2)().set_params(p_rule=None, covariance=0.1),
        lambda m: m.partial_fit(NEW[0], NEW[1], sensitive_features=NEW[2]),
        fair,
    ),
    "with limits": (_constrained(None), lambda m: m.fit(NEW[0], NEW[1]), constrained),
    "with limits on another": (_constrained(LogisticRegression()), lambda m: m.fit(NEW[0], NEW[1]), constrained),
    "completion": (_completed, lambda m: m.fit(ratings(1, (9, 14))), completion),
    "completion, more": (_completed, lambda m: m.partial_fit(ratings(2, (14, 9))), completion),
    "fed": (_fed, lambda run: run.update(ROWS[100:230]), sys.modules["tightrope.online"]),
}
"""For each way of learning again: what makes the old model, what learns anew, and the file that assigns."""


def told(value: Any) -> Any:
    """A value as plain data that can be compared, without the times that runs took."""
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tobytes() if value.dtype != object else repr(value.tolist())
    if isinstance(value, pd.DataFrame):
        return value.drop(columns=[name for name in TIMES if name in value]).to_csv()
    if isinstance(value, tr.Result):
        return told((value.x, value.dual, value.status.name, dict(value.constraints)))
    if isinstance(value, tr.Online):
        watched = value.certificate if value._watch is not None else None
        last = None if value._seen is None else value._seen.last()
        return told((value.state_dict(), watched, last)) if value.step else "not begun"
    if isinstance(value, dict):
        return {str(name): told(part) for name, part in value.items()}
    if isinstance(value, tuple | list):
        return [told(part) for part in value]
    if hasattr(value, "get_params") and hasattr(value, "__dict__"):
        return type(value).__name__, told(vars(value))
    return repr(value)


def lets_go(frame: Any) -> bool:
    """Whether this line takes a lock or lets it go: Python hears of no signal in between, where it would stay locked."""
    said = linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip()
    return said.startswith("with ") and "lock" in said


@contextlib.contextmanager
def broken(at: int, only: str = "", raised: type[BaseException] = Broken) -> Iterator[list[int]]:
    """Raise at the line with this number, of those that the package, or only one file, comes to; counts them."""
    count, done = [0], list[bool]()

    def line(frame: Any, event: str, _: Any) -> Any:
        if event == "line":  # an exception that passes by may be that of a generator that is thrown away
            count[0] += 1
            if 0 < at <= count[0] and not done and not lets_go(frame):
                done.append(True)
                raise raised
        return line

    def call(frame: Any, event: str, _: Any) -> Any:
        file = frame.f_code.co_filename
        return line if (file == only if only else file.startswith(PACKAGE)) else None

    sys.settrace(call)
    try:
        yield count
    finally:
        sys.settrace(None)


_KNOWN: dict[tuple[str, bool], tuple[Any, Any, int]] = {}


def known(kind: str, own: bool) -> tuple[Any, Any, int]:
    """Old and new model as data, and how many lines there are to be interrupted at."""
    if (kind, own) not in _KNOWN:
        make, learn, file = KINDS[kind]
        learnt(make(), learn)  # which compiles
        model = make()
        old = told(model)
        with broken(0, file.__file__ if own else "") as count:
            learnt(model, learn)
        _KNOWN[kind, own] = old, told(model), count[0]
    return _KNOWN[kind, own]


def learnt(model: Any, learn: Callable[[Any], Any]) -> None:
    """Learn; a rule that is refused is a result as well."""
    with contextlib.suppress(Refused):
        learn(model)


def attack(k: int) -> str | None:
    """One exception; a sentence where the estimator is neither what it was nor what it was to become."""
    chance, kind = random.Random(k), list(KINDS)[k % len(KINDS)]
    own = k // len(KINDS) % 2 == 0
    raised = Broken if k // len(KINDS) % 4 < 2 else KeyboardInterrupt
    make, learn, file = KINDS[kind]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        old, new, lines = known(kind, own)
        model, at = make(), chance.randint(1, lines)
        with contextlib.suppress(raised), broken(at, file.__file__ if own else "", raised):
            learnt(model, learn)
        found = told(model)
    if found in (old, new):
        return None
    return f"refit {k}, {kind}, line {at:,} of {lines:,}: it is neither the old model nor the new one"


if __name__ == "__main__":
    asked = options(1000, workers=1)  # a trace function is of one thread
    campaign("interrupted refits", asked.count, attack, 1, first=asked.first)
