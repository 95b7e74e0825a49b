"""scikit-learn's own checks, all of them, for the classifier as it is constructed by default."""

from sklearn.utils.estimator_checks import parametrize_with_checks

import tightrope as tr


@parametrize_with_checks([tr.FairLogisticRegression()])
def test_scikit_learns_checks(estimator, check):
    check(estimator)
