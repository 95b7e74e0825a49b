"""What is learnt aside takes the place of what was known all at once, or not at all."""

import threading
from typing import Any

import numpy as np
import pandas as pd
import pytest
from core_cases import PROBLEM, ROWS
from sklearn.linear_model import LogisticRegression

import tightrope as tr
from tightrope.aside import aside, twin
from tightrope.datasets import rotated_gaussians

X, Y, S, _ = rotated_gaussians(n=640, phi=0.8)
X = X[:, :2]


class Refusal(Exception):
    """A result that is raised."""


class Model:
    """Something that learns."""

    score: int
    labels: tuple[str, ...]

    def __init__(self, **known: Any):
        vars(self).update(known)


def test_an_exception_leaves_everything_as_it_was():
    model = Model(score=1, labels=("a", "b"))
    before = dict(vars(model))

    def learn() -> None:
        with aside(model, even_after=Refusal) as new:
            new.score = 2
            del new.labels
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        learn()
    assert vars(model) == before


@pytest.mark.parametrize("raised", [None, Refusal])
def test_the_end_of_the_block_and_a_result_that_is_raised_change_everything_at_once(raised):
    model = Model(score=1, labels=("a", "b"))
    try:
        with aside(model, even_after=Refusal) as new:
            new.score = 2
            del new.labels
            assert (model.score, model.labels) == (1, ("a", "b"))
            if raised:
                raise raised
    except Refusal:
        assert raised is Refusal
    assert vars(model) == {"score": 2}


def test_a_twin_and_its_owner_do_not_hear_of_each_other():
    model = Model(score=1)
    other = twin(model)
    other.score = 2
    assert (type(other), model.score) == (Model, 1)


def test_a_fit_leaves_nothing_of_the_one_before():
    named = pd.DataFrame(X, columns=["a", "b"])
    for make, more in (
        (lambda: tr.FairLogisticRegression(covariance=0.1), {"sensitive_features": S}),
        (lambda: tr.ConstrainedClassifier(LogisticRegression(), subject_to={"fpr": 0.4}), {}),
    ):
        again = make().fit(named, Y, **more).fit(X, Y, **more)
        assert vars(again).keys() == vars(make().fit(X, Y, **more)).keys()
        assert not hasattr(again, "feature_names_in_")


def test_a_stream_that_begins_after_a_fit_has_no_report_of_that_fit():
    model = tr.FairLogisticRegression(p_rule=0.3).fit(X, Y, S)
    assert "p_rule" in str(model.result_)
    model.set_params(p_rule=None, covariance=0.1).partial_fit(X, Y, sensitive_features=S)
    assert not hasattr(model, "result_")
    assert model.frontier_ is None


def test_a_batch_that_is_refused_is_not_learnt_in_part():
    model = tr.FairLogisticRegression(covariance=0.1).partial_fit(X[:100], Y[:100], sensitive_features=S[:100])
    coef, classes = model.coef_.copy(), model.classes_
    with pytest.raises(ValueError, match="features"):
        model.partial_fit(X[:50, :1], Y[:50], sensitive_features=S[:50])
    assert model.classes_ is classes
    np.testing.assert_array_equal(model.coef_, coef)
    again = tr.FairLogisticRegression(covariance=0.1).partial_fit(X[:100], Y[:100], sensitive_features=S[:100])
    for part in (model, again):
        part.partial_fit(X[100:200], Y[100:200], sensitive_features=S[100:200])
    np.testing.assert_array_equal(model.coef_, again.coef_)


def test_an_update_that_warns_where_warnings_are_errors_was_taken(monkeypatch):
    """The warning comes after the steps: the samples would be fed a second time otherwise."""
    run = tr.Online(PROBLEM, tr.CSOA(0.8, 0.01, 0.3, anytime=True))
    monkeypatch.setattr(tr.Online, "_take", lambda self, rows: setattr(self, "_seconds", 1.0) or "They run off.")
    with pytest.raises(UserWarning, match="run off"):  # warnings are errors in all tests
        run.update(np.zeros((1, 3)))
    assert run._seconds == 1.0


def test_threads_that_feed_one_run_do_so_one_after_the_other():
    run, begun = tr.Online(PROBLEM), threading.Barrier(2)

    def feed():
        begun.wait()
        for part in np.array_split(ROWS, 10):
            run.update(part)

    threads = [threading.Thread(target=feed) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert run.step == 2 * len(ROWS)
