"""Rivals that need only linear minimisations."""
