"""Sensitive attributes, rates by group, and what can be said of them with confidence.

`read_sensitive` reads attributes in whatever form they are given, and `intersections` crosses them; `group_rates` and
`p_rule` measure decisions by group; `p_rule_bounds` says how low the p%-rule may truly be.
"""

from tightrope.learn.fairness.metrics import PRuleBounds, group_rates, is_positive, p_rule, p_rule_bounds
from tightrope.learn.fairness.sensitive import Attribute, Sensitive, read_sensitive

__all__ = [
    "Attribute",
    "PRuleBounds",
    "Sensitive",
    "group_rates",
    "is_positive",
    "p_rule",
    "p_rule_bounds",
    "read_sensitive",
]
