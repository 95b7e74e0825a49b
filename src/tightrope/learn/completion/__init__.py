"""Structured matrix completion, and what it is made of."""
