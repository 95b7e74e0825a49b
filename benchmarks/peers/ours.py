"""tightrope: the default for data at hand, the same stopped by its own duality gap, and CSOA with mini-batches."""

import time
from typing import Any

import jax.numpy as jnp
import numpy as np

import tightrope as tr
from benchmarks.peers.contest import BATCH, GAP, Adult, C, Contender, Run
from studies.fair_logistic import RADIUS, both_sides, logistic

STEPS = 44_300  # a hundred passes; a run that is long enough for what is done once not to count


def one_logistic(x, theta):
    return jnp.logaddexp(0.0, -theta[1] * jnp.dot(theta[0], x))


def one_covariance(x, theta):
    return theta[2] * jnp.dot(theta[0], x)


class Default(Contender):
    """`tr.minimize` as it comes on arrays (SVRG-CSOA), with the fewest passes that reach the target in every seed."""

    cheapest_first = True
    compiles = True
    retune = True
    seeds = range(5)

    def __init__(self, adult: Adult):
        super().__init__(adult)
        self.rows = tr.Rows(tuple(a.astype(np.float32) for a in (adult.X, adult.y, adult.s)))
        self.domain = tr.L2Ball(RADIUS, shape=len(adult.v))
        v = jnp.asarray(adult.v, jnp.float32)
        self.problem = tr.Problem(logistic, None, self.domain, levels=C, params=v, exact_constraints=both_sides)

    def grid(self) -> list[dict[str, Any]]:
        return [{"passes": p} for p in (1.2, 1.6, 2.2, 3.2, 4.2, 6.2, 9.2, 12.2, 15, 18, 24, 30)]

    def run(self, setting: dict[str, Any], seed: int, limit: float) -> Run:
        began = time.perf_counter()
        # No trace: the peers keep none, and in so short a run it would take longer than the steps.
        x = np.asarray(tr.minimize(self.problem, self.rows, seed=seed, output="feasible", record=1, **setting).x)
        return Run(time.perf_counter() - began, self.adult.good(x))


class SelfStopped(Default):
    """The same, told the tolerance and nothing else: it stops by its duality gap."""

    retune = False

    def grid(self) -> list[dict[str, Any]]:
        return [{"tol": GAP}]


class PlainCSOA(Default):
    """CSOA on mini-batches of the peers' size with the coefficients it comes with, and the fewest steps."""

    looks_at_all_rows = False
    retune = False
    coefficients = ({},)

    def grid(self) -> list[dict[str, Any]]:
        return [{"steps": 125 * 2**k} | c for k in range(1, 12) for c in self.coefficients]

    def run(self, setting: dict[str, Any], seed: int, limit: float) -> Run:
        coefficients = {name: value for name, value in setting.items() if name != "steps"}
        options = {"steps": setting["steps"], "method": tr.CSOA(**coefficients), "batch_size": BATCH}
        return super().run(options, seed, limit)

    def step(self) -> float:
        """The covariance is estimated from the mini-batch, as the peers do."""
        problem = tr.Problem(one_logistic, tr.two_sided(one_covariance), self.domain, levels=C)
        times = []
        for seed in range(6):
            began = time.perf_counter()
            np.asarray(tr.minimize(problem, self.rows, method="csoa", steps=STEPS, batch_size=BATCH, seed=seed).x)
            times.append((time.perf_counter() - began) / STEPS)
        return min(times[1:])


class TunedCSOA(PlainCSOA):
    """The same with a few step sizes and tightenings to choose from, as the peers have."""

    coefficients = tuple({"eta0": e, "upsilon0": u} for e in (3.0, 10.0, 30.0) for u in (2.0, 0.3, 0.0))
