"""scikit-learn estimators. They assemble a problem and call `minimize`, and know nothing of loops."""

from tightrope.estimators.completion.estimator import StructuredMatrixCompletion
from tightrope.estimators.constrained.classifier import ConstrainedClassifier
from tightrope.estimators.fair.classifier import FairLogisticRegression
from tightrope.estimators.fair.refusal import Refused
from tightrope.estimators.fair.report import FairnessReport, fairness_report

__all__ = [
    "ConstrainedClassifier",
    "FairLogisticRegression",
    "FairnessReport",
    "Refused",
    "StructuredMatrixCompletion",
    "fairness_report",
]
