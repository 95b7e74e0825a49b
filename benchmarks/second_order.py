"""CPU time to a certified gap of 1e-8 without violation: `SQP` beside SLSQP at its best tolerance for that gap, and beside
the other methods for data at hand.

Fair logistic regression as in `benchmarks.finite_data`, the constraint known exactly to all. One thread, compiled before the
clock starts, in turns within one run; the least of several times, and the largest in brackets. SLSQP certifies nothing:
of its tolerances it is given the one that comes within the gap fastest. Run as
`python -m benchmarks.second_order [--only NAME] [--rows 1000000] [--others]`.
"""

import argparse
import os
import time
from collections.abc import Callable
from typing import Any

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(name, "1")
os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1")

import jax  # noqa: E402 (threads are counted when it is loaded)
import numpy as np  # noqa: E402

import tightrope as tr  # noqa: E402
from benchmarks.finite_data import wide  # noqa: E402
from benchmarks.plain_slsqp import plain_slsqp  # noqa: E402
from studies.fair_logistic import C, Instance  # noqa: E402
from tightrope.datasets import adult_label_encoded  # noqa: E402

GAP = 1e-8
COMMON = 0.36


def cpu(call: Callable[[], object]) -> float:
    began = time.process_time()
    call()
    return time.process_time() - began


def best_tolerance(instance: Instance, optimum: float) -> float:
    """The fastest of SLSQP's tolerances that comes within the gap; NaN where none does."""
    times = {}
    for ftol in (1e-7, 1e-8, 1e-9, 1e-10, 1e-11):
        seconds = cpu(lambda ftol=ftol: times.setdefault("x", plain_slsqp(instance, ftol)))
        x = times.pop("x")
        if instance.value(x) - optimum <= GAP and abs(instance.covariance(x)) <= C * (1 + 1e-9):
            times[ftol] = seconds
    return min(times, key=times.__getitem__) if times else float("nan")


def line(name: str, seconds: dict[str, list[float]], reached: dict[str, str]) -> str:
    ours = min(seconds["sqp"])
    cells = [f"{who} {1e3 * min(t):.0f} ({1e3 * max(t):.0f}) ms{reached.get(who, '')}" for who, t in seconds.items()]
    ratio = f"SLSQP / sqp {min(seconds['SLSQP']) / ours:.2f}" if "SLSQP" in seconds else "SLSQP does not reach it"
    return f"{name:28}  {'   '.join(cells)}   {ratio}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", help="data whose name contains this")
    parser.add_argument("--rows", type=int, default=1_000_000, help="of the tall data")
    parser.add_argument("--others", action="store_true", help="also SVRG-CSOA, and the bundle where it is quick enough")
    options = parser.parse_args()
    jobs: dict[str, tuple[Callable[[], Any], int]] = {"Adult, 28,350 x 14": (adult_label_encoded, 60)}
    for d in (50, 100, 200, 500, 1_000):
        for kind, common in (("independent", 0.0), ("correlated", COMMON)):
            jobs[f"28,350 x {d:,} {kind}"] = (lambda d=d, common=common: wide(d=d, common=common), 3)
    for kind, common in (("independent", 0.0), ("correlated", COMMON)):
        jobs[f"{options.rows:,} x 50 {kind}"] = (lambda common=common: wide(options.rows, 50, common), 3)
    with jax.enable_x64(True):
        for name, (make, repeats) in jobs.items():
            if options.only and options.only not in name:
                continue
            instance = Instance(*make())
            problem, rows = instance.problem()
            calls: dict[str, Callable[[], object]] = {}
            reached: dict[str, str] = {}
            methods = ["sqp"] + (
                ["svrg-csoa"] + (["bundle"] if instance.X.shape[1] <= 50 else []) if options.others else []
            )
            optimum = np.inf
            for method in methods:
                calls[method] = lambda m=method, p=problem, r=rows: tr.minimize(
                    p, r, method=m, tol=GAP, passes=300, record=0
                )
                result = calls[method]()
                assert isinstance(result, tr.Result)
                assert result.objective is not None
                assert np.max(result.constraints) <= 0
                optimum = min(optimum, result.objective)
                if result.status.name != "TOLERANCE":
                    reached[method] = f" [{result.status.name}]"
            ftol = best_tolerance(instance, optimum)
            if np.isfinite(ftol):
                calls["SLSQP"] = lambda ftol=ftol, on=instance: plain_slsqp(on, ftol)
            seconds: dict[str, list[float]] = {who: [] for who in calls}
            for _ in range(repeats):
                for who, call in calls.items():
                    seconds[who].append(cpu(call))
            print(line(name, seconds, reached), flush=True)


if __name__ == "__main__":
    main()
