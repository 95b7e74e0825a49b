"""The problems that the estimators solve: fair classification and structured completion."""

from tightrope.learn.fairness.notions import NOTIONS
from tightrope.learn.problems.fair import FairProblem, carried_by_few, fair_classification
from tightrope.learn.problems.fair_pairs import paired_classification
from tightrope.learn.problems.observed import Observed
from tightrope.learn.problems.structured import CompletionProblem, structured_completion

__all__ = [
    "NOTIONS",
    "CompletionProblem",
    "FairProblem",
    "Observed",
    "carried_by_few",
    "fair_classification",
    "paired_classification",
    "structured_completion",
]
