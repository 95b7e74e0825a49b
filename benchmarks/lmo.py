"""The linear minimisation over a nuclear-norm ball against a full decomposition, at 200 x 300: `make bench`."""

import statistics
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import tightrope as tr
from tightrope.datasets import structured_matrix
from tightrope.problems import structured_completion
from tightrope.sets import NuclearBall

ASKED, REPEATS = 20, 200


def per_call(jobs: dict[str, Callable[[], Any]]) -> dict[str, float]:
    """The median seconds of a call of each job, interleaved, after one that compiles."""
    times: dict[str, list[float]] = {name: [] for name in jobs}
    for repeat in range(REPEATS + 1):
        for name, job in jobs.items():
            began = time.perf_counter()
            jax.block_until_ready(job())
            if repeat:
                times[name].append(time.perf_counter() - began)
    return {name: statistics.median(taken) for name, taken in times.items()}


def gradient(data: Any, seed: int) -> np.ndarray:
    """Of the squared error at a point on the way: half of the true matrix, and a little noise."""
    noise = np.random.default_rng(seed).normal(size=data.shape)
    X = data.left @ data.right / 2 + 0.01 * noise
    g = np.zeros(data.shape, np.float32)
    g[data.rows, data.columns] = X[data.rows, data.columns] - data.values
    return g


def speed(data: Any) -> None:
    """A warm-started call, as a step makes it: the memory is that of a gradient nearby."""
    before, now = jnp.asarray(gradient(data, 0)), jnp.asarray(gradient(data, 1))
    full = jax.jit(lambda g: jnp.linalg.svd(g, full_matrices=False))
    jobs: dict[str, Callable[[], Any]] = {"full decomposition": lambda: full(now)}
    support = float(full(now)[1][0])
    missed = {}
    for rounds in (10, 20):
        ball = NuclearBall(1.0, shape=data.shape, rounds=rounds)
        lmo = jax.jit(ball.warm_lmo)
        memory = lmo(before, ball.lmo_memory(jnp.float32))[1]
        jobs[f"LMO, {rounds} rounds"] = lambda lmo=lmo, memory=memory: lmo(now, memory)
        missed[rounds] = 1 + float(jnp.sum(now * lmo(now, memory)[0])) / support
    seconds = per_call(jobs)
    svd = seconds.pop("full decomposition")
    print(f"a full decomposition takes {1e3 * svd:.2f} ms; asked for: at least {ASKED} times faster")
    for (name, taken), rounds in zip(seconds.items(), missed, strict=True):
        print(
            f"  {svd / taken:6.1f} times faster  {name} ({1e6 * taken:.0f} us, misses {missed[rounds]:.1e} of the support)"
        )


def accuracy(data: Any) -> None:
    """Normalised error of CFW-CSOA by the rounds of its LMO; as many rounds as rows are exact."""
    print("\nnormalised error of a whole run (CFW-CSOA, factored, the paper's instance) by rounds")
    for rounds in (10, 20, min(data.shape)):
        made = structured_completion(
            data.entries, data.nuclear_norm, data.unobserved_energy, shape=data.shape, empty="keep", rank=20,
            rounds=rounds,
        )  # fmt: skip
        errors = [
            tr.minimize(*made, method=made.method, steps=n, output="feasible", progress=False).objective
            for n in (30, 100)
        ]
        kind = "exact" if rounds == min(data.shape) else f"{rounds} rounds"
        print(f"  {kind:>10}: {errors[0]:.2e} after 30 LMO calls, {errors[1]:.2e} after 100")


def main() -> None:
    data = structured_matrix(seed=0)
    speed(data)
    accuracy(data)


if __name__ == "__main__":
    main()
