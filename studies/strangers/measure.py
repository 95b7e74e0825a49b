"""What `minimize` does with one random problem: data at hand, a stream, a problem without a feasible point."""

import time
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from scipy.stats import t as student

import tightrope as tr
from studies.strangers.generate import Stranger
from studies.strangers.judge import judge, recognisable, says_infeasible, says_not_converged
from studies.strangers.reference import Reference
from studies.strangers.tuned import best_of

PASSES, STEPS = 100, 10_000
SEEDS = range(20)  # of a stream's samples
AUTO: Any = {"default": "auto"}  # what `minimize` takes where it is told nothing


def about(one: Stranger, reference: Reference) -> dict[str, Any]:
    """What the tables are cut by."""
    return {
        "seed": one.seed,
        "family": one.family,
        "d": one.d,
        "N": one.N,
        "n": one.n,
        "smooth": one.smooth,
        "feasible": one.feasible,
        "margin": reference.margin,
        "largest multiplier": float(np.max(reference.dual * one.h_scales) / reference.f_scale),
    }


def rows(one: Stranger, reference: Reference) -> dict[str, Any]:
    """`minimize(problem, table, passes=100)` and nothing else; an error that it raises is its status."""
    began = time.perf_counter()
    try:
        result = tr.minimize(one.problem, one.table, passes=PASSES, progress=False)
    except Exception as error:
        said = f"raised {type(error).__name__}: {error}"
        return {"status": said[:200].replace("\n", " "), "seconds": time.perf_counter() - began, "violated": True}
    seconds = time.perf_counter() - began
    return {
        **judge(one, reference, result.x)._asdict(),
        "status": result.status.name,
        "infeasible": says_infeasible(result),
        "not converged": says_not_converged(result),
        "method": result.method.name,
        "passes": result.cost.gradients / one.n,
        "seconds": seconds,
    }


def calls(one: Stranger, reference: Reference) -> dict[str, Any]:
    """`minimize(problem, table)` as NumPy users call it, JAX's switch for 64 bits off: the rows as they are, and in float32.

    Gaps are F(x) - F* in units of the larger of |F*| and F(start) - F*, which is what `Status.SOLVED` speaks of. What the
    reference says of the rows in float32 is right but for their rounding.
    """
    F_start = float(one.model.means(one.model.domain.start())[0])
    scale = max(abs(reference.optimum), F_start - reference.optimum) / reference.f_scale
    out: dict[str, Any] = {}
    with jax.enable_x64(False):
        for name, dtype in (("", np.float64), ("float32 ", np.float32)):
            table = {key: np.asarray(value, dtype) for key, value in one.table.items()}
            began = time.process_time()
            result = tr.minimize(one.problem, table, progress=False)
            seconds = time.process_time() - began
            verdict = judge(one, reference, result.x)
            said = np.inf if result.gap is None else result.gap / (one.f_unit * reference.f_scale)
            out |= {
                f"{name}status": result.status.name,
                f"{name}gap": verdict.gap / scale,
                f"{name}violation": verdict.violation,
                f"{name}violated": verdict.violated if dtype is np.float64 else verdict.violation > 1e-6,
                f"{name}false gap": bool(said < verdict.gap - 1e-6),  # references are good to 1e-7
                f"{name}seconds": seconds,
            }
    return out


def infeasible(one: Stranger, reference: Reference) -> dict[str, Any]:
    """Data at hand and a stream: which of them say that there is no feasible point."""
    at_hand = rows(one, reference)
    began = time.perf_counter()
    result = tr.minimize(one.problem, one.samples, steps=STEPS, progress=False)
    return {
        **at_hand,
        "stream status": result.status.name,
        "stream infeasible": says_infeasible(result),
        "recognisable": recognisable(one, reference, STEPS),
        "stream seconds": time.perf_counter() - began,
    }


def streams(one: Stranger, reference: Reference) -> dict[str, Any]:
    """`minimize(problem, stream, steps=T)` from several seeds side by side, beside the best of 50 configurations.

    A violation is significant where the mean of some H_i over the seeds lies above zero by its 95 % interval, widened for
    the number of constraints looked at (Bonferroni): chance then gives 5 % of the problems at most.
    """
    began = time.perf_counter()
    table = tr.sweep(one.problem, one.samples, AUTO, steps=STEPS, seeds=SEEDS, points=True, progress=False)
    points = [one.natural(x) for x in table["x"]]
    seconds = time.perf_counter() - began
    H = np.stack([one.model.means(v)[1:] / one.h_scales for v in points])
    half = student.ppf(1 - 0.025 / one.N, len(H) - 1) * H.std(axis=0, ddof=1) / np.sqrt(len(H))
    worst = int(np.argmax(H.mean(axis=0) - half))
    verdicts = [judge(one, reference, x) for x in table["x"]]
    began = time.perf_counter()
    tuned, coefficients = best_of(one, reference, STEPS)
    return {
        "violation": float(H.mean(axis=0)[worst]),
        "half width": float(half[worst]),
        "significant": bool(H.mean(axis=0)[worst] > half[worst]),
        "gap": float(np.mean([v.gap for v in verdicts])),
        "pulled_gap": float(np.mean([v.pulled_gap for v in verdicts])),
        "tuned": tuned,
        **coefficients,
        "seconds": seconds,
        "tuned seconds": time.perf_counter() - began,
    }


STUDIES: dict[str, Callable[[Stranger, Reference], dict[str, Any]]] = {
    "rows": rows,
    "calls": calls,
    "streams": streams,
    "infeasible": infeasible,
}
