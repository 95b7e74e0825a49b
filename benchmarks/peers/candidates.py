"""What helps CFW-CSOA on the paper's instance and what does not: one choice changed at a time."""

import sys
import time
from typing import Any

import jax

import tightrope as tr
from benchmarks.peers.instance import Instance
from tightrope.methods import CFWCSOA

CALLS, SHARES = (30, 100, 300), (1.0, 0.5)
BUILD = {"rank": 64, "rounds": 10, "units": "relative"}
CANDIDATES: dict[str, dict[str, Any]] = {
    "as it comes: corrective, rank 64, 10 rounds": {},
    "open step 2/(t + 8)": {"move": "open"},
    "exact line search": {"move": "line"},
    "rank 20": {"rank": 20},
    "rank 40": {"rank": 40},
    "3 rounds": {"rounds": 3},
    "5 rounds": {"rounds": 5},
    "20 rounds": {"rounds": 20},
    "sums instead of relative units": {"units": "sum"},
    "gamma x 0.1": {"gamma": 0.1},
    "gamma x 0.3": {"gamma": 0.3},
    "gamma x 3": {"gamma": 3.0},
    "gamma x 10": {"gamma": 10.0},
    "float64": {"dtype": "float64"},
}


def measure_all() -> dict[str, dict[str, dict[str, Any]]]:
    """What each candidate comes to, by its name, the share of the paper's bound on the energy, and LMO calls."""
    found = {}
    for name in CANDIDATES:
        found[name] = {str(share): _measure(name, share) for share in SHARES}
        print(f"{name}: {found[name]}", file=sys.stderr, flush=True)
    return found


def _measure(name: str, share: float) -> dict[str, Any]:
    """Error and violation of the answer, made feasible, and seconds, by the number of LMO calls."""
    choice, instance = CANDIDATES[name], Instance(0, share)
    options: dict[str, Any] = BUILD | {k: v for k, v in choice.items() if k in BUILD}
    with jax.enable_x64("dtype" in choice):
        made = instance.problem(**options)
        known = made.method
        method = CFWCSOA(known.gamma * choice.get("gamma", 1.0), known.upsilon, choice.get("move", known.move))
        found = {}
        for calls in CALLS:
            _solve(made, method, calls)  # compiles
            seconds, result = _solve(made, method, calls)
            X, last = result.x.dense(), result.last.dense()
            found[str(calls)] = {
                "error": instance.error(X),
                "violation": instance.violation(X),
                "violation before": instance.violation(last),
                "seconds": seconds,
            }
    return found


def _solve(made: Any, method: CFWCSOA, calls: int) -> tuple[float, Any]:
    began = time.perf_counter()
    result = tr.minimize(*made, method=method, steps=calls, output="feasible", progress=False)
    jax.block_until_ready(result.x)
    return time.perf_counter() - began, result
