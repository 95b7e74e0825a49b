"""scikit-learn's own checks, all of them, for the classifier as it is constructed by default; and odd arguments."""

from typing import Any

import numpy as np
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

import tightrope as tr

X: Any = np.random.default_rng(0).normal(
    size=(30, 4)
)  # of any type: some are given on purpose where they do not belong
Y: Any = np.array(["a", "b"] * 15)
ODD: Any = 2.5

STARS = np.where(np.arange(120).reshape(30, 4) % 5, X, np.nan)
BARE = tr.StructuredMatrixCompletion(nuclear_norm=5.0, unobserved_energy=10.0, steps=3, rank=2)


@parametrize_with_checks([tr.FairLogisticRegression()])
def test_scikit_learns_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: tr.FairLogisticRegression(0.8, merge_rare=X).fit(X, Y, sensitive_features=Y), "merge_rare is array"),
        (lambda: tr.FairLogisticRegression(0.8, search=Y).fit(X, Y, sensitive_features=Y), "search is array"),
        (lambda: tr.FairLogisticRegression.load(ODD), "path is 2.5; expected the path of a file"),
        (lambda: tr.ConstrainedClassifier(()).fit(X, Y), r"estimator is \(\); expected an estimator"),
        (lambda: tr.ConstrainedClassifier(positive_label=X).fit(X, Y), "positive_label is array"),
        (lambda: tr.ConstrainedClassifier(cv={}).fit(X, Y), "cv has no splits; expected at least one"),
        (lambda: tr.ConstrainedClassifier(cv=X).fit(X, Y), "cv cannot be read .* expected a share, a number of folds"),
        (lambda: tr.StructuredMatrixCompletion(centre=X).fit(X), "centre is array"),
        (lambda: tr.StructuredMatrixCompletion(held_out=10**30).fit(X), "held_out is 1000"),
        (lambda: BARE.fit(STARS).predict([1, 2], [1, 2, 3]), "rows and columns cannot be read .* as many of both"),
        (lambda: tr.StructuredMatrixCompletion().fit([[1, 2], [3]]), "the matrix cannot be read"),
    ],
)
def test_what_numpy_or_python_would_have_said_is_a_sentence(call, sentence):
    with pytest.raises((ValueError, TypeError), match=sentence):
        call()
