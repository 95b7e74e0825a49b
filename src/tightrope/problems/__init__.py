"""Ready-made problems."""

from tightrope.problems.exact import EXACT, Solved

__all__ = ["EXACT", "Solved"]
