"""Structured completion at the size of real ratings: `python -m benchmarks.scale [millions|tens-of-millions]`.

Two instances of the paper's generator at rank 10: 6,040 x 3,952 with 1,000,000 observed entries, run to the end, and
100,000 x 20,000 with 20,000,000, of which a few iterations are timed. Each in a process of its own, so that its peak
memory is known. An iteration is set against one pass over the entries (a sparse product with a vector) and, on an
accelerator, against the bytes that it has to read.
"""

import resource
import subprocess
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np

import tightrope as tr
from tightrope.datasets import structured_matrix
from tightrope.problems import structured_completion

INSTANCES = {  # rows, columns, entries, steps, dtype
    "millions": (6_040, 3_952, 1_000_000, 60, "float64"),
    "tens-of-millions": (100_000, 20_000, 20_000_000, 6, "float32"),
}
RANK, ROUNDS = 20, 10


def measure(name: str) -> None:
    """Build and run one instance, and print what it took."""
    m, n, count, steps, dtype = INSTANCES[name]
    began = time.perf_counter()
    given = structured_matrix(m, n, 10, observed=count)
    made_at = time.perf_counter()
    made = structured_completion(
        given.entries,
        given.nuclear_norm,
        given.unobserved_energy,
        shape=given.shape,
        rank=RANK,
        rounds=ROUNDS,
        empty="keep",
        dtype=dtype,
    )
    built_at = time.perf_counter()
    print(f"{name}: {m:,} x {n:,}, {count:,} entries, rank {RANK}, {dtype}, {jax.devices()[0].device_kind}")
    print(f"  generated in {made_at - began:.1f} s, laid out in {built_at - made_at:.1f} s")
    table = made.problem.params["entries"]
    one_pass = _seconds_a_pass(table, m, jnp.zeros(n, dtype))
    del given
    result = tr.minimize(*made, method=made.method, steps=steps, output="feasible", record=2, progress=False)
    trace = result.trace
    iteration = float((trace.seconds.iloc[-1] - trace.seconds.iloc[0]) / (trace.step.iloc[-1] - trace.step.iloc[0]))
    print(f"  first iteration {trace.seconds.iloc[0]:.1f} s (it compiles), then {1e3 * iteration:.1f} ms each")
    print(f"  one pass over the entries {1e3 * one_pass:.2f} ms: an iteration takes {iteration / one_pass:.0f} passes")
    read = table.values.size * (4 + np.dtype(dtype).itemsize) * (2 * ROUNDS + 2 + 4 * RANK + 3)
    print(f"  at least {read / 1e9:.2f} GB read an iteration: {read / iteration / 1e9:.0f} GB/s")
    violation = result.constraints.iloc[0]
    print(
        f"  normalised error {result.objective:.2e}, energy/beta - 1 {violation:+.2e}, {result.cost.seconds:.1f} s in all"
    )
    print(f"  peak memory of the process {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6:.2f} GB")


def _seconds_a_pass(table, m: int, w) -> float:
    """A sparse product with a vector, by rows, in the layout that the problem has."""

    @jax.jit
    def multiply(table, w):
        sums = jnp.sum(table.values * w[table.by_row.other], axis=1)
        return jax.ops.segment_sum(sums, table.by_row.owner, m, indices_are_sorted=True)

    multiply(table, w).block_until_ready()
    times = []
    for _ in range(5):
        began = time.perf_counter()
        multiply(table, w).block_until_ready()
        times.append(time.perf_counter() - began)
    return float(np.median(times))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        with jax.enable_x64(True):
            measure(sys.argv[1])
    else:
        for instance in INSTANCES:
            subprocess.run([sys.executable, "-m", "benchmarks.scale", instance], check=True)
