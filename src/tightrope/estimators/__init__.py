"""scikit-learn estimators. They assemble a problem and call `minimize`, and know nothing of loops."""

from tightrope.estimators.completion.estimator import StructuredMatrixCompletion
from tightrope.estimators.fair.classifier import FairLogisticRegression

__all__ = ["FairLogisticRegression", "StructuredMatrixCompletion"]
