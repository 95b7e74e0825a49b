"""scikit-learn estimators. They assemble a problem and call `minimize`, and know nothing of loops."""

from tightrope.estimators.completion.estimator import StructuredMatrixCompletion
from tightrope.estimators.constrained.classifier import ConstrainedClassifier
from tightrope.estimators.fair.classifier import FairLogisticRegression

__all__ = ["ConstrainedClassifier", "FairLogisticRegression", "StructuredMatrixCompletion"]
