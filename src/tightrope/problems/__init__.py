"""Ready-made problems."""

from tightrope.problems.exact import EXACT, Solved
from tightrope.problems.fair import FairProblem, carried_by_few, fair_classification

__all__ = ["EXACT", "FairProblem", "Solved", "carried_by_few", "fair_classification"]
