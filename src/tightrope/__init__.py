"""tightrope."""
