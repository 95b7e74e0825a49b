"""scikit-learn's own checks, all of them, for the classifier as it is constructed by default."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

import tightrope as tr

pytestmark = pytest.mark.usefixtures("in_haste")


@parametrize_with_checks([tr.FairLogisticRegression()])
def test_scikit_learns_checks(estimator, check):
    check(estimator)
