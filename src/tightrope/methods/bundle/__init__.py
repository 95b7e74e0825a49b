"""Bundles: cuts from full passes, small programmes on the host."""
