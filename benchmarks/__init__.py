"""What is measured on a clock, as ratios; benchmarks/README.md has the results."""
