"""scikit-learn estimators: see `tightrope.learn`. They assemble a problem and call `minimize`, and know nothing of loops."""

from tightrope.learn.completion.estimator import StructuredMatrixCompletion
from tightrope.learn.constrained.classifier import ConstrainedClassifier
from tightrope.learn.fair.classifier import FairLogisticRegression
from tightrope.learn.fair.refusal import Refused
from tightrope.learn.fair.report import FairnessReport, fairness_report

__all__ = [
    "ConstrainedClassifier",
    "FairLogisticRegression",
    "FairnessReport",
    "Refused",
    "StructuredMatrixCompletion",
    "fairness_report",
]
