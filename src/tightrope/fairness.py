"""Sensitive attributes, rates by group, and what can be said of them with confidence: see `tightrope.learn.fairness`."""

from tightrope.learn.fairness import *  # noqa: F403
