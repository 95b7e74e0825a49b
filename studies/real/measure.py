"""One problem in one process: two calls of `minimize`, of cvxpy and of SLSQP, in CPU seconds, and what they are worth."""

import signal
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jax
import numpy as np
from cvxpy.error import SolverError

import tightrope as tr
from studies.real.peers import NotWritten, Scipy
from studies.real.task import Entry, Task
from studies.real.truth import NO_ROOM, Reference, Truth, judged, known

RIGHT = 1e-4  # the relative gap of an answer that counts: the bar


class _Late(BaseException):
    """The time limit of one call: of no kind that anything would catch."""


@contextmanager
def _at_most(seconds: float) -> Iterator[None]:
    """Raise `_Late` after so many CPU seconds of this process."""

    def late(*_: Any) -> None:
        raise _Late

    before = signal.signal(signal.SIGPROF, late)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        signal.signal(signal.SIGPROF, before)


def _timed(call: Callable[[], Any], limit: float) -> tuple[Any, float]:
    """What a call gives and its CPU seconds; after the limit, None."""
    began = time.process_time()
    try:
        with _at_most(limit):
            return call(), time.process_time() - began
    except _Late:
        return None, time.process_time() - began


def measure(entry: Entry, storage: str, out: Path, limit: float) -> dict[str, Any]:
    """What is written down about one problem on rows in this storage; peers are timed beside float64 alone."""
    task = entry.task(storage)
    rows = jax.tree.map(lambda a: a.astype(storage), task.rows)
    found: dict[str, Any] = {"name": entry.name, "family": entry.family, "half": entry.half, "storage": storage}
    calls = [_minimized(task, rows, limit) for _ in range(2)]
    truth = Truth(task)
    ref = known(out / "references" / f"{entry.name}-{storage}.json", task, truth)
    found |= {
        "n": len(jax.tree.leaves(task.rows)[0]),
        "d": len(truth.start),
        "N": truth.N,
        "smooth": task.smooth,
        "room": task.room,
        "reference": ref.sound,
        "first": calls[0][1],
        "second": calls[1][1],
    }
    found |= _said(calls[1][0], truth, ref, task)
    if storage == "float64":
        found |= _cvxpy(task, truth, ref, limit) | _slsqp(truth, ref, limit)
    return found


def _minimized(task: Task, rows: Any, limit: float) -> tuple[Any, float]:
    def call() -> Any:
        try:
            with warnings.catch_warnings(record=True) as heard:
                warnings.simplefilter("always")
                result = tr.minimize(task.problem, rows)
            return result, sorted({f"{w.category.__name__}: {w.message}"[:200] for w in heard})
        except Exception as error:
            return error

    return _timed(call, limit)


def _said(result: Any, truth: Truth, ref: Reference, task: Task) -> dict[str, Any]:
    """The result's status and worth, and the warnings that a user would have read."""
    if isinstance(result, tuple):
        result, heard = result
        said = {"warned": heard, "status": result.status.name, "message": result.message, "method": result.method.name}
        passes = result.cost.gradients / len(jax.tree.leaves(task.rows)[0])
        return said | {"passes": passes} | judged(truth, ref, result, task.room)
    status = "OUT_OF_TIME" if result is None else f"raised {type(result).__name__}"
    nothing = {"gap": float("nan"), "violation": float("nan"), "violated": False, "false": False}
    return {"status": status, "message": str(result or "")[:500], "method": "", "passes": 0.0} | nothing


def _right(truth: Truth, ref: Reference, x: np.ndarray) -> bool:
    """Whether a peer's answer counts: its gap, and violations as SLSQP and Clarabel leave them."""
    if not np.all(np.isfinite(x)):
        return False
    gap = (truth.values(x)[0] - ref.optimum) / ref.scale
    return abs(gap) <= RIGHT and truth.violation(x, np.asarray(ref.sizes)) <= NO_ROOM


def _cvxpy(task: Task, truth: Truth, ref: Reference, limit: float) -> dict[str, Any]:
    """cvxpy: two calls that write the problem down and solve it, as new data demand, then the same object once more."""
    if task.programme is None:
        return {}
    write = task.programme

    def call() -> Any:
        made = write()
        try:
            made.problem.solve(solver="CLARABEL")
        except SolverError:
            return None
        return made

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _, one = _timed(call, limit)
        made, two = _timed(call, limit)
        if made is None:
            return {"cvxpy first": one, "cvxpy second": two, "cvxpy right": False}
        _, again = _timed(lambda: made.problem.solve(solver="CLARABEL"), limit)
    right = _right(truth, ref, truth.flat(made.x()))
    return {"cvxpy first": one, "cvxpy second": two, "cvxpy again": again, "cvxpy right": right}


def _slsqp(truth: Truth, ref: Reference, limit: float) -> dict[str, Any]:
    """SLSQP in the user's units, with exact derivatives from the same start; the first call compiles them."""
    try:
        jax.clear_caches()
        x, one = _timed(lambda: Scipy(truth).solve(), limit)
        x, two = _timed(lambda: Scipy(truth).solve(), limit)
    except NotWritten:
        return {}
    except (ValueError, np.linalg.LinAlgError):
        return {"slsqp right": False}
    return {"slsqp first": one, "slsqp second": two, "slsqp right": x is not None and _right(truth, ref, x)}
