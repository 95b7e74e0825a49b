"""Throughput of sweeps on an accelerator, in step-configurations a second, beside a bare scan of the same update.

Run as `python -m benchmarks.throughput`; on a GPU wherever JAX finds one.
"""

import argparse
import time

import jax
import jax.numpy as jnp
import numpy as np

import tightrope as tr
from benchmarks import workload as w


def seconds_of(job, repeats: int = 3) -> float:
    best = np.inf
    for repeat in range(repeats + 1):
        began = time.perf_counter()
        jax.block_until_ready(job())
        best = min(best, time.perf_counter() - began) if repeat else best
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--configurations", type=int, nargs="*", default=[256, 4_096, 32_768])
    parser.add_argument("--steps", type=int, default=w.N_ROWS)
    options = parser.parse_args()
    data, problem, steps = w.make_data(), w.make_problem(), options.steps
    sampler, on_device = tr.Rows(data), jax.tree.map(jnp.asarray, data)
    rows = jnp.asarray(np.random.default_rng(0).permutation(w.N_ROWS)[:steps].astype(np.int32))
    print(f"device: {jax.devices()[0].device_kind}; JAX {jax.__version__}; {steps:,} steps, {w.D} features, float32")
    print(f"{'configurations':>15} {'tightrope sweep':>16} {'bare scan':>12}   (step-configurations a second)  ratio")
    for k in options.configurations:
        eta0 = np.geomspace(0.1, 10, k).astype(np.float32)
        method = tr.CSOA(eta0, w.DELTA, w.UPSILON0)
        ours = steps * k / seconds_of(lambda m=method: tr.sweep(problem, sampler, m, steps=steps)["objective"].sum())
        bare = steps * k / seconds_of(lambda e=eta0: w.bare_sweep(on_device, rows, e, np.float32(w.UPSILON0)))
        print(f"{k:>15,} {ours:>16.3g} {bare:>12.3g} {'':34} {ours / bare:.2f}", flush=True)


if __name__ == "__main__":
    main()
