"""Two million steps of a stream: memory does not grow."""

import resource
import sys

import tightrope as tr
from torture.campaign import PROBLEM, SAMPLERS, campaign, options

MOST = 5  # MB


def peak() -> float:
    """The most memory this process has had so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)


def attack(method: str, steps: int) -> str | None:
    """A short run to compile, then a long one."""
    tr.minimize(PROBLEM, SAMPLERS["stream"](), method=method, steps=100_000, progress=False)
    before = peak()
    tr.minimize(PROBLEM, SAMPLERS["stream"](), method=method, steps=steps, progress=False)
    grown = peak() - before
    print(f"  {method}: {grown:.1f} MB more after {steps:,} steps")
    return f"{method}: {grown:.1f} MB" if grown > MOST else None


if __name__ == "__main__":
    asked = options(2_000_000, endless=False)
    methods = ["csoa", "fw-csoa", "split-csoa"]
    campaign(
        f"{asked.count:,} steps of a stream within {MOST} MB", len(methods), lambda k: attack(methods[k], asked.count)
    )
