"""The contenders of benchmarks/fairness.py, one class each, with one contract: `grid`, `run` and, where it steps, `step`."""
