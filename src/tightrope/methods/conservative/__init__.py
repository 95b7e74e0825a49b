"""CSOA and what was made of it: a tightened, regularised dual step."""
