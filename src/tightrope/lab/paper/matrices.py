"""The matrix completion experiment: the paper's instances, its sampled problem, and runs that are followed.

Matrices are held dense and in float32, which halves the time and changes less than other samples would.
"""

import dataclasses
import os
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd

from tightrope._minimize import minimize
from tightrope.lab.methods.frank_wolfe.scgd import SCGD
from tightrope.lab.paper.figure import FULL, Size, coefficients, finished
from tightrope.learn.datasets.structured import structured_matrix
from tightrope.learn.problems.structured import CompletionProblem, structured_completion
from tightrope.methods import CFWCSOA, FWCSOA, Method
from tightrope.methods.base import Info, dual_step
from tightrope.methods.conservative.fwcsoa import FWCSOAState
from tightrope.problem import Problem, penalised
from tightrope.tree import Array, Tree, add_scaled, pytree, replace, subtract

TAU, BATCH = 5e-6, 200
"""The paper's penalty for SCGD, and its batch."""

EXACT_STEPS = 100
"""Steps of Frank-Wolfe on all entries; by hand."""


class Amount(NamedTuple):
    """How much work: the paper's matrix and horizon, or smaller ones for a first look."""

    seeds: int
    few: int  # seeds where a comparison needs fewer
    tuning_seeds: int
    points: int  # settings along each axis of a tuning grid
    steps: int
    shape: tuple[int, int]
    rank: int
    records: int
    batches: tuple[int, ...]

    def settings(self) -> dict[str, Any]:
        """What every unit's table depends on."""
        return {"shape": list(self.shape), "rank": self.rank, "steps": self.steps, "records": self.records}


def amount(size: Size) -> Amount:
    """What a `Size` means here: T = 3,000 on 200 x 300 at full size, less on smaller matrices otherwise.

    Example:
        >>> amount(FULL).steps, amount(FULL).shape
        (3000, (200, 300))
    """
    full, tiny = size.passes >= FULL.passes and size.rows >= FULL.rows, size.rows < 1_000
    return Amount(
        seeds=size.seeds,
        few=min(size.seeds, 8 if full else 2),
        tuning_seeds=min(size.tuning_seeds, 2 if full else 1),
        points=4 if full else 2,
        steps=3_000 if full else 60 if tiny else 600,
        shape=(200, 300) if full else (16, 24) if tiny else (100, 150),
        rank=10 if full else 3 if tiny else 5,
        records=size.records,
        batches=(50, BATCH, 1_000) if full else (50, BATCH),
    )


class Instance(NamedTuple):
    """A partly observed matrix, and the true one's nuclear norm and unobserved energy."""

    values: np.ndarray  # 0 where nothing was observed
    mask: np.ndarray
    alpha: float
    beta: float


@lru_cache(maxsize=64)
def instance(seed: int, shape: tuple[int, int], rank: int) -> Instance:
    """The instance that the paper's generator makes from a seed."""
    made = structured_matrix(*shape, rank, seed=seed)
    values, mask = np.zeros(shape), np.zeros(shape, bool)
    values[made.rows, made.columns], mask[made.rows, made.columns] = made.values, True
    return Instance(values, mask, made.nuclear_norm, made.unobserved_energy)


@dataclasses.dataclass(frozen=True)
class Case:
    """A run but for its seed.

    Attributes:
        name: what to call it.
        method: FW-CSOA, SCGD (whose penalty is `tau`), or CFW-CSOA, which sets its own dual step.
        units: of f and h, as `structured_completion` has them; "sum" is as the paper prints the problem.
        tau: weight of the penalty h in SCGD's objective, in these units.
        batch: b, the entries drawn from the observed ones and from the others.
        alpha, beta: the two bounds, relative to those of the true matrix.
        exact: what is computed from all entries: "objective", "constraints".
    """

    name: str
    method: Method
    units: Literal["sum", "mean", "relative"] = "relative"
    tau: float = 0.0
    batch: int = BATCH
    alpha: float = 1.0
    beta: float = 1.0
    exact: tuple[str, ...] = ()

    def settings(self) -> dict[str, Any]:
        """What a run depends on, in values that JSON can hold."""
        known = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        schedule = getattr(self.method, "schedule", None)
        return known | {"method": [type(self.method).__name__, schedule, coefficients(self.method)]}


def paper_cases(steps: int, units: Literal["sum", "mean"], batch: int = BATCH) -> list[Case]:
    """Both methods with the coefficients that the paper names.

    The paper has upsilon = 0.77 T^-1/2, where its theorem has T^-1/4; the schedule here has the latter, with an
    upsilon0 that makes the value the same.
    """
    fw = FWCSOA(schedule="paper", eta0=0.68, rho0=1.25, delta=0.25, upsilon0=0.77 * steps**-0.25)
    scgd = SCGD(gamma0=2.0, rho0=4.0)
    return [Case("FW-CSOA", fw, units, batch=batch), Case("SCGD", scgd, units, tau=TAU, batch=batch)]


@pytree
class SeparateTrackers(FWCSOA):
    """FW-CSOA with a tracker for grad f and one for every grad h_i: jumps of the multipliers enter none of them.

    d_t = d^f_t + sum_i lambda_{i,t} d^{h_i}_t, each of them tracked as FW-CSOA tracks their sum.
    """

    def init(self, problem: Problem, x: Tree, lam: Array, horizon: Array) -> FWCSOAState:
        """Two trackers instead of one."""
        rows = jax.tree.map(lambda v: jnp.zeros((*lam.shape, *v.shape), v.dtype), x)
        return super().init(problem, x, lam, horizon)._replace(d=(jax.tree.map(jnp.zeros_like, x), rows))

    def step(self, problem: Problem, state: FWCSOAState, theta: Tree) -> tuple[FWCSOAState, Info]:
        """As FW-CSOA's, from a Jacobian."""
        x, lam, t = state.x, state.lam, state.t
        eta, gamma, rho, shrink, upsilon = self.sizes(t, state.horizon)
        f, h, *g = problem.jacobian(x, theta)
        _, _, *before = problem.jacobian(state.x_before, theta)
        keep = jnp.where(t == 1, 0, 1 - rho)
        d = add_scaled(tuple(g), keep, subtract(state.d, tuple(before)))
        s, memory = problem.domain.warm_lmo(problem.lagrangian_gradient(d[0], d[1], lam), state.memory)
        lam_next = dual_step(lam, h, gamma=gamma, shrink=shrink, upsilon=upsilon)
        x_next = add_scaled(x, eta, subtract(s, x))
        info = Info(x, lam, f, h, weight=jnp.ones_like(eta))
        return FWCSOAState(x_next, lam_next, x, lam, d, memory, t + 1, state.horizon), info


def completion(case: Case, on: Instance) -> CompletionProblem:
    """The problem of a case: sampled on an array, or factored and exact for CFW-CSOA."""
    options: dict[str, Any] = {"mask": on.mask, "units": case.units, "empty": "keep", "dtype": jnp.float32}
    bounds = case.alpha * on.alpha, case.beta * on.beta
    if isinstance(case.method, CFWCSOA):
        return structured_completion(on.values, *bounds, **options)
    made = structured_completion(on.values, *bounds, hold="dense", gradients="sampled", **options)
    problem = made.problem
    if case.exact:
        whole = structured_completion(on.values, *bounds, hold="dense", **options).problem
        problem = replace(
            problem,
            objective=whole.objective if "objective" in case.exact else problem.objective,
            exact_constraints=whole.exact_constraints if "constraints" in case.exact else None,
        )
    needs_penalty = "unconstrained" in case.method.needs
    return made._replace(problem=penalised(problem, case.tau) if needs_penalty else problem)


def measure(x: np.ndarray, on: Instance, beta: float) -> dict[str, float]:
    """Normalised error, energy/beta - 1, and the error of the point scaled towards 0 until the constraint holds.

    The last one lets points that violate the constraint be compared with points that do not.

    Example:
        >>> on = Instance(np.array([[1.0, 0.0]]), np.array([[True, False]]), alpha=1.0, beta=0.5)
        >>> measure(np.array([[1.0, 2.0]]), on, beta=0.5)
        {'error': 0.0, 'excess': 3.0, 'pulled': 0.25}
    """
    x = np.asarray(x, float)
    seen, energy, total = x[on.mask] - on.values[on.mask], np.sum(x[~on.mask] ** 2) / 2, np.sum(on.values**2)
    scaled = min(1.0, np.sqrt(beta / max(energy, 1e-300))) * x[on.mask] - on.values[on.mask]
    return {
        "error": float(seen @ seen / total),
        "excess": float(energy / beta - 1),
        "pulled": float(scaled @ scaled / total),
    }


def follow(
    case: Case, seed: int, work: Amount, warm: bool = False, stopped: Callable[[], bool] = lambda: False
) -> pd.DataFrame:
    """A run on the instance of its seed, measured along its way at the current iterate and, where kept, at the average.

    With `warm`, a short run comes first, so that the seconds do not count compiling; measuring does not count either.
    A thread hears of no Ctrl-C, so its run ends, and is refused, where it is `stopped` when it is measured.
    """
    on = instance(seed, work.shape, work.rank)
    made, method, exact = completion(case, on), case.method, isinstance(case.method, CFWCSOA)
    options: dict[str, Any] = {"seed": seed, "progress": False, "record": 2 * work.records}
    options |= {} if exact else {"batch_size": case.batch, "x0": jnp.zeros(work.shape, jnp.float32)}
    method, steps = (made.method, EXACT_STEPS) if exact else (method, work.steps)
    entries = method.cost.gradients * (int(on.mask.sum()) if exact else case.batch)
    rows, spent, began = [], 0.0, 0.0

    def measured(snapshot: Any) -> bool:
        nonlocal spent
        start = time.perf_counter()
        seconds = start - began - spent
        known = {"step": snapshot.step, "entries": snapshot.step * entries, "seconds": seconds}
        known["dual"] = float(snapshot.dual[0]) if len(snapshot.dual) else 0.0
        for point in ("last", "average") if method.facts.averages else ("last",):
            x = getattr(snapshot, point)
            x = x.dense() if exact else x
            rows.append({"point": point, **known, **measure(np.asarray(x), on, case.beta * on.beta)})
        spent += time.perf_counter() - start
        return stopped()

    if warm:
        minimize(made.problem, made.data, method=method, steps=steps, callback=lambda _: True, **options)
    began = time.perf_counter()
    run = minimize(made.problem, made.data, method=method, steps=steps, callback=measured, **options)
    finished(run, f"{case.name} with seed {seed}")
    return pd.DataFrame(rows).assign(name=case.name, units=case.units, batch=case.batch, seed=seed)


def runs(cases: Iterable[Case], seeds: Iterable[int], work: Amount, ends: bool = False) -> pd.DataFrame:
    """Every case from every seed, one at a time for each core; with `ends`, the last points only."""
    jobs, stopped = [(case, seed) for seed in seeds for case in cases], threading.Event()

    def one(job: tuple[Case, int]) -> pd.DataFrame:
        with jax.enable_x64(True):  # the setting belongs to a thread
            table = follow(*job, work._replace(records=1) if ends else work, stopped=stopped.is_set)
        return table[table.step == table.step.max()] if ends else table

    pool = ThreadPoolExecutor(os.cpu_count())
    try:
        return pd.concat(list(pool.map(one, jobs)), ignore_index=True)
    finally:
        stopped.set()
        # an interrupted run ends at its next record, and is not waited for
        pool.shutdown(wait=False, cancel_futures=True)
