"""What float64 costs: second calls of `tr.minimize(problem, rows)` as they are, beside `precision="float32"`.

Logistic loss with a covariance between -0.05 and 0.05, as in `benchmarks.second_order`, on rows that are stored in float32
or float64 and JAX's switch as it is by default. Ratios of CPU seconds in one process, the least of several calls in turns,
with how each ended; for stored float32 also the most memory that either takes, each in a process of its own. Run as
`python -m benchmarks.digits [--only NAME]`.
"""

import argparse
import multiprocessing
import resource
import time
from typing import Any

import jax.numpy as jnp
import numpy as np

import tightrope as tr

SIZES = {
    "10,000 x 3": (10_000, 3),
    "28,350 x 14": (28_350, 14),
    "28,350 x 1,000": (28_350, 1_000),
    "1M x 50": (1_000_000, 50),
}


def people(n: int, d: int, dtype: type) -> tuple[tr.Problem, dict[str, np.ndarray]]:
    """Correlated features with a group and a label that have to do with them, and the problem of a fair classifier."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, d)) + 0.6 * rng.normal(size=(n, 1))
    s = (x[:, 0] + rng.normal(size=n) > 0).astype(dtype)
    y = np.where(x[:, : min(d, 10)].sum(axis=1) + 3 * rng.normal(size=n) > 0, 1, -1)
    rows = {"x": x.astype(dtype), "y": y.astype(dtype), "s": s - s.mean(dtype=dtype)}
    problem = tr.Problem(
        objective=lambda w, row: tr.logistic_loss(row["y"] * jnp.dot(row["x"], w)),
        constraints=lambda w, row: row["s"] * jnp.dot(row["x"], w) * jnp.array([1.0, -1.0]),
        domain=tr.L2Ball(10.0, shape=d),
        levels=0.05,
    )
    return problem, rows


def seconds_of(problem: tr.Problem, rows: Any, precision: str | None) -> tuple[float, tr.Result]:
    began = time.process_time()
    result = tr.minimize(problem, rows, precision=precision, record=0, progress=False)
    return time.process_time() - began, result


def most_memory(n: int, d: int, precision: str | None, answer: Any) -> None:
    """The most memory of a process that makes the rows in float32 and solves on them, in MB."""
    seconds_of(*people(n, d, np.float32), precision)
    answer.put(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", help="sizes whose name contains this")
    chosen = parser.parse_args().only
    print("| rows | stored | float64 / float32, CPU | float64 | float32 | most memory |\n|---|---|---|---|---|---|")
    spawning = multiprocessing.get_context("spawn")
    for name, (n, d) in SIZES.items():
        if chosen and chosen not in name:
            continue
        for dtype in (np.float32, np.float64):
            problem, rows = people(n, d, dtype)
            found: dict[str | None, list[tuple[float, tr.Result]]] = {None: [], "float32": []}
            for _ in range(3 if n * d > 10**7 else 7):
                for precision, calls in found.items():
                    calls.append(seconds_of(problem, rows, precision))
            least = {precision: min(t for t, _ in calls[1:]) for precision, calls in found.items()}
            said = [f"{1e3 * least[p]:.0f} ms, {calls[-1][1].status.name}" for p, calls in found.items()]
            memory = ""
            if dtype is np.float32:
                answer, peaks = spawning.Queue(), []
                for precision in found:
                    process = spawning.Process(target=most_memory, args=(n, d, precision, answer))
                    process.start()
                    peaks.append(answer.get())
                    process.join()
                memory = f"{peaks[0] / peaks[1]:.2f} times"
            ratio = least[None] / least["float32"]
            print(f"| {name} | {dtype.__name__} | {ratio:.2f} | {said[0]} | {said[1]} | {memory} |", flush=True)


if __name__ == "__main__":
    main()
