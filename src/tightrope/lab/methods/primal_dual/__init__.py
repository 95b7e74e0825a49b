"""Rivals with multipliers: saddle-point methods, virtual queues, proximal multipliers."""
