"""The search for laws that break promises: one that is kept passes, one that is not does not, halves do not mix."""

import numpy as np

from studies.adverse.report import failures, page
from studies.adverse.search import Count, Promise, worst
from studies.adverse.work import promises


def coin(rng: np.random.Generator) -> float:
    return float(rng.uniform(0.0, 0.1))


def lands(law: float, rng: np.random.Generator) -> bool | None:
    return bool(rng.random() < law) if rng.random() < 0.5 else None


PROMISE = Promise("coin", "It does not land.", coin, lands, repetitions=400)


def test_counts_are_reproduced_and_phases_have_samples_of_their_own():
    first = PROMISE.attack(3, "develop", 200)
    assert first == PROMISE.attack(3, "develop", 200) != PROMISE.attack(3, "again", 200)
    assert (first.attempts, 0 < first.false < first.promised < 200) == (200, True)
    assert not set(PROMISE.halves["develop"]) & set(PROMISE.halves["unseen"])


def test_a_promise_that_is_broken_too_often_fails():
    often, seldom = Count(100, 50, 9), Count(100, 50, 2)
    assert worst({0: seldom, 1: often}) == [1, 0]
    counts = {"coin": {"develop": {}, "again": {4: often}, "unseen": {20: seldom, 21: often}}}
    assert len(failures({"coin": PROMISE}, counts)) == 2
    assert "9 of 100 (9.0 % [4.2, 16.4]), law 4" in page({"coin": PROMISE}, counts)
    kept = {"coin": {"develop": {}, "again": {4: seldom}, "unseen": {20: seldom}}}
    assert failures({"coin": PROMISE}, kept) == []


def test_every_promise_has_laws_that_describe_themselves_and_can_be_attacked_once():
    """One attempt on one law that is looked at during development."""
    for name, promise in promises().items():
        assert name == promise.name
        assert str(promise.law(0)) == str(promise.law(0)) != str(promise.law(1))
        assert promise.attack(0, "test", 1).attempts == 1
