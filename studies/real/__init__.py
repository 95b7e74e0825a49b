"""Convex problems on real data in raw units, solved as a NumPy user would: how often and how fast `minimize` is right."""
