"""Rates by group, the p%-rule and bounds on it: see `tightrope.learn.fairness.metrics`."""

from tightrope.learn.fairness.metrics import PRuleBounds as PRuleBounds
from tightrope.learn.fairness.metrics import group_rates as group_rates
from tightrope.learn.fairness.metrics import is_positive as is_positive
from tightrope.learn.fairness.metrics import last_label as last_label
from tightrope.learn.fairness.metrics import p_rule as p_rule
from tightrope.learn.fairness.metrics import p_rule_bounds as p_rule_bounds
from tightrope.learn.fairness.metrics import weights as weights
