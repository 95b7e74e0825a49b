"""copt's Frank-Wolfe on all the data, over its trace-norm ball. It knows no constraint but the ball."""

import time
import warnings
from typing import Any

import copt  # pyright: ignore[reportMissingImports]
import numpy as np

from benchmarks.peers.instance import TARGET, Instance

STEPS = ("backtracking", "DR", "sublinear", "exact")


def seconds_to_target(seed: int, repeats: int = 3) -> dict[str, Any]:
    """With the rule for steps that is the fastest; in its favour, it stops at the first good iterate by itself."""
    instance = Instance(seed)
    found = {rule: [_run(instance, rule) for _ in range(repeats)] for rule in STEPS}
    medians = {rule: float(np.median([run[0] for run in runs])) for rule, runs in found.items()}
    best = min(medians, key=lambda rule: medians[rule])
    return {"seconds": medians[best], "rule": best, "lmos": found[best][0][1], "all": medians}


def _run(instance: Instance, rule: str) -> tuple[float, int]:
    mask, values, scale = instance.mask.ravel().astype(float), instance.M.ravel(), 2 / instance.total
    lmos = 0

    def error(x: np.ndarray) -> tuple[float, np.ndarray]:
        off = mask * x - values
        return scale / 2 * float(off @ off), scale * off

    def exact(known: dict[str, Any]) -> float:
        d = known["update_direction"]
        return min(1.0, known["certificate"] / (scale * float((mask * d) @ d)))

    def enough(known: dict[str, Any]) -> bool:
        nonlocal lmos
        lmos += 1
        return known["f_next"] > TARGET

    ball = copt.constraint.TraceBall(instance.alpha, instance.M.shape)
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        copt.minimize_frank_wolfe(
            error, np.zeros(values.size), ball.lmo, jac=True, step=exact if rule == "exact" else rule, lipschitz=scale,
            max_iter=1000, callback=enough,
        )  # fmt: skip
    seconds = time.perf_counter() - began
    return (seconds, lmos - 1) if lmos <= 1000 else (np.inf, lmos)
