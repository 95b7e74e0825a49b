"""tightrope on the paper's instance of matrix completion: CFW-CSOA on all the data, and SCGD on sampled entries."""

import itertools
import time
from typing import Any

import jax
import numpy as np

import tightrope as tr
from benchmarks.peers.instance import TARGET, Instance
from tightrope.methods import SCGD

TAU = 5e-6  # the paper's penalty, in the units of sums
LIMIT = 3000  # sampled steps, as in the paper
LOOK_EVERY = 20
GRID = {"b": (200, 1000, 5000), "gamma0": (1.0, 2.0, 4.0), "rho0": (2.0, 4.0, 8.0)}


def corrective(seed: int, repeats: int = 3, rank: int | None = None) -> dict[str, Any]:
    """CFW-CSOA as it comes, its answer made feasible: seconds of whole calls with as many steps as it takes."""
    instance = Instance(seed)

    def solve(steps: int) -> tuple[float, float]:
        began = time.perf_counter()
        made = instance.problem(rank=rank)
        result = tr.minimize(*made, method=made.method, steps=steps, output="feasible", progress=False)
        jax.block_until_ready(result.x)
        seconds = time.perf_counter() - began
        X = result.x.dense()
        good = instance.violation(X) <= 1e-6 and instance.error(X) <= TARGET
        return seconds, seconds if good else np.inf

    first = solve(1)[0]
    steps = next(n for n in range(1, 200) if np.isfinite(solve(n)[1]))
    solve(steps)
    times = [solve(steps)[1] for _ in range(repeats)]
    return {"seconds": float(np.median(times)), "lmos": steps, "first": first}


class Sampled:
    """SCGD on the penalised problem, one array X, so many sampled entries a step."""

    def __init__(self, seed: int):
        self.seed, self.instance = seed, Instance(seed)
        made = self.instance.problem(hold="dense", gradients="sampled", units="sum")
        self.problem, self.samples = tr.penalised(made.problem, TAU), made.data

    def run(self, setting: dict[str, Any], steps: int = LIMIT, look: bool = True) -> tuple[float, int, float]:
        """Seconds without the looks, the step at which the target was seen (0: never) and the last error."""
        looking, reached, error = 0.0, 0, np.inf

        def stop(snapshot: Any) -> bool:
            nonlocal looking, reached, error
            began = time.perf_counter()
            error = self.instance.error(snapshot.last)
            reached = snapshot.step if error <= TARGET else 0
            looking += time.perf_counter() - began
            return reached > 0 or not np.isfinite(error)

        began = time.perf_counter()
        result = tr.minimize(
            self.problem, self.samples, method=SCGD(setting["gamma0"], setting["rho0"]), batch_size=setting["b"],
            steps=steps, seed=self.seed, record=steps // LOOK_EVERY if look else 2, callback=stop if look else None,
            progress=False,
        )  # fmt: skip
        jax.block_until_ready(result.x)
        return time.perf_counter() - began - looking, reached, self.instance.error(result.x)

    def tune(self) -> dict[str, Any]:
        """The setting that reaches the target first, and all that was tried."""
        tried = []
        for b in GRID["b"]:
            self.run({"b": b, "gamma0": 2.0, "rho0": 4.0}, 2 * LOOK_EVERY)  # compiles
            for gamma0, rho0 in itertools.product(GRID["gamma0"], GRID["rho0"]):
                setting = {"b": b, "gamma0": gamma0, "rho0": rho0}
                seconds, reached, error = self.run(setting)
                tried.append({**setting, "seconds": seconds if reached else np.inf, "steps": reached, "error": error})
        return {"best": min(tried, key=lambda t: t["seconds"]), "tried": tried}

    def seconds_to_target(self, setting: dict[str, Any], repeats: int = 3) -> dict[str, Any]:
        """The seconds of runs that never look and stop after as many steps as the target took, to the nearest look."""
        first, steps, _ = self.run(setting)
        if not steps:
            return {"seconds": np.inf, "lmos": LIMIT, "first": first}
        self.run(setting, steps, look=False)
        times = [self.run(setting, steps, look=False)[0] for _ in range(repeats)]
        return {"seconds": float(np.median(times)), "lmos": steps, "first": first}
