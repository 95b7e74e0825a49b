"""Rivals without multipliers: they switch, step towards feasibility, or project once."""
