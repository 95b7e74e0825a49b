"""Speed as ratios in one run, on one thread of the CPU: `make bench`."""

import os

os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
os.environ["JAX_PLATFORMS"] = "cpu"
if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})

import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import tightrope as tr
from benchmarks import workload as w

PASSES, SWEEP, LEVELS, SHORT, WIDE = 10, 64, 256, 100, 1024


def best_of(jobs: dict[str, Callable[[], Any]], repeats: int = 7) -> dict[str, float]:
    """Seconds of each job: the best of several interleaved runs, after one that compiles."""
    times: dict[str, float] = {}
    for repeat in range(repeats + 1):
        for name, job in jobs.items():
            began = time.perf_counter()
            jax.block_until_ready(job())
            if repeat:
                times[name] = min(times.get(name, np.inf), time.perf_counter() - began)
    return times


def main() -> None:
    data, problem = w.make_data(), w.make_problem()
    steps = PASSES * w.N_ROWS
    on_device = jax.tree.map(jnp.asarray, data)
    rng = np.random.default_rng(0)
    rows = np.concatenate([rng.permutation(w.N_ROWS) for _ in range(PASSES)]).astype(np.int32)
    method = tr.CSOA(w.ETA0, w.DELTA, w.UPSILON0)
    grid = tr.CSOA(np.geomspace(0.1, 10, SWEEP), w.DELTA, w.UPSILON0)
    rows_on_device, sampler = jnp.asarray(rows), tr.Rows(data)
    eta0, upsilon0 = np.float32(w.ETA0), np.float32(w.UPSILON0)

    mine = tr.minimize(problem, sampler, method=method, steps=steps)
    theirs = w.bare_scan(on_device, rows_on_device, eta0, upsilon0)
    apart = float(jnp.linalg.norm(mine.average - theirs[2]) / jnp.linalg.norm(theirs[2]))
    print(f"same answer: the averages of minimize and of the bare scan differ by {apart:.2%} (other order of rows)")

    times = best_of(
        {
            "bare scan": lambda: w.bare_scan(on_device, rows_on_device, eta0, upsilon0),
            "minimize": lambda: tr.minimize(problem, sampler, method=method, steps=steps).x,
            "sweep": lambda: tr.sweep(problem, sampler, grid, steps=w.N_ROWS)["objective"].sum(),
        }
    )
    levels, sizes = np.linspace(0.05, 0.5, LEVELS), tr.CSOA(np.geomspace(0.1, 10, LEVELS), w.DELTA, 0.0)
    one_size = tr.CSOA(w.ETA0, w.DELTA, 0.0)
    side_by_side = best_of(
        {  # the same work, so that what is left is what it costs to check a level
            "levels": lambda: tr.sweep(problem, sampler, one_size, steps=SHORT, levels=levels)["objective"].sum(),
            "step sizes": lambda: tr.sweep(problem, sampler, sizes, steps=SHORT)["objective"].sum(),
        }
    )
    one_pass = rows[: w.N_ROWS]
    each = np.geomspace(0.1, 10, WIDE).astype(np.float32)
    many = tr.CSOA(each, w.DELTA, w.UPSILON0)
    wide = best_of(
        {
            "sweep": lambda: tr.sweep(problem, sampler, many, steps=w.N_ROWS)["objective"].sum(),
            "vmap": lambda: w.bare_sweep(on_device, rows_on_device[: w.N_ROWS], each, upsilon0),
        },
        repeats=2,
    )
    in_numpy = {
        "numpy": lambda: w.numpy_loop(data, one_pass)[0],
        "numpy, collapsed": lambda: w.numpy_loop(data, one_pass, collapsed=True)[0],
    }
    a_step = {name: seconds / steps for name, seconds in times.items()}
    a_step |= {name: seconds / w.N_ROWS for name, seconds in best_of(in_numpy, repeats=3).items()}
    a_step["sweep"] = times["sweep"] / w.N_ROWS / SWEEP
    ratios = {
        "minimize / bare scan (at most 1.8)": a_step["minimize"] / a_step["bare scan"],
        "numpy / minimize (at least 10)": a_step["numpy"] / a_step["minimize"],
        "numpy with gradients collapsed by hand / minimize": a_step["numpy, collapsed"] / a_step["minimize"],
        f"minimize / sweep of {SWEEP}, per configuration (at least 5)": a_step["minimize"] / a_step["sweep"],
        f"sweep of {WIDE:,} / bare vmap, one pass (at most 1.5)": wide["sweep"] / wide["vmap"],
        f"sweep of {LEVELS} levels / of as many step sizes, {SHORT} steps (at most 1.2)": side_by_side["levels"]
        / side_by_side["step sizes"],
    }
    print(f"\nlogistic loss, {w.D} features, 2 constraints, one sample a step, float32, one thread, {steps:,} steps")
    for name, ratio in ratios.items():
        print(f"  {ratio:6.2f}  {name}")
    print("\nmicroseconds a step on this machine (noisy; trust the ratios)")
    for name, seconds in a_step.items():
        print(f"  {1e6 * seconds:6.2f}  {name}")


if __name__ == "__main__":
    main()
