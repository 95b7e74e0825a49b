"""Sensitive attributes, rates by group, and what can be said of them with confidence."""
