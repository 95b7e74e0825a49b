"""Two calls in two threads at once, each in its own precision, and calls in worker processes: bit for bit what one thread
gets alone, with the same warnings, and nothing left behind."""

import random
import threading
import warnings
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from threadpoolctl import threadpool_info

import tightrope as tr
from torture.campaign import PROBLEM, ROWS, SAMPLERS, campaign, options, told

POOL_EVERY = 25  # one attack in as many is on worker processes, which take seconds to start
AFRESH_EVERY = 10  # one pair in as many compiles everything again
WORKERS = 2


def people() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A small table of people."""
    rng = np.random.default_rng(0)
    sex = rng.integers(0, 2, 300)
    X = rng.normal(size=(300, 3)) + 0.4 * sex[:, None]
    return X, (X[:, 0] + rng.normal(size=300) > 0).astype(int), sex


def fed() -> Any:
    """A run fed in three updates."""
    run = tr.Online(PROBLEM)
    for part in np.array_split(ROWS, 3):
        run.update(part)
    return run.x, run.dual


def fair() -> Any:
    """A fair classifier."""
    X, y, sex = people()
    model = tr.FairLogisticRegression(covariance=0.1).fit(X, y, sensitive_features=sex)
    return model.predict_proba(X)


def completed() -> Any:
    """A completed matrix."""
    rng = np.random.default_rng(0)
    at = rng.permutation(20 * 15)[:150]
    model = tr.StructuredMatrixCompletion(nuclear_norm=10.0, unobserved_energy=20.0, steps=10, rank=3)
    return model.fit((at // 15, at % 15, rng.normal(size=150))).factors_


def swept() -> Any:
    """A sweep."""
    table = tr.sweep(PROBLEM, ROWS, tr.CSOA(eta0=np.array([0.1, 0.5]), upsilon0=0.1), steps=40, seeds=range(2))
    return table.select_dtypes("number").to_numpy()


def certified() -> Any:
    """The bounds of a certificate."""
    made = tr.certify(PROBLEM, np.zeros(3), ROWS, ranges=(-20.0, 20.0))
    return [bound.upper for bound in made.constraints]


def ran(method: str, sampler: str = "rows", **given: Any) -> Callable[[], Any]:
    """A run of a method."""

    def run() -> Any:
        result = tr.minimize(PROBLEM, SAMPLERS[sampler](), method=method, **given)
        return result.x, result.dual, result.objective

    return run


CALLS: dict[str, Callable[[], Any]] = {
    "csoa": ran("csoa", steps=200),
    "csoa on a generator": ran("csoa", "generator", steps=200),
    "split-csoa on a stream": ran("split-csoa", "stream", steps=200),
    "svrg-csoa": ran("svrg-csoa", steps=200),
    "fw-csoa": ran("fw-csoa", steps=200),
    "sqp": ran("sqp"),
    "bundle": ran("bundle", passes=10),
    "sweep": swept,
    "certify": certified,
    "Online": fed,
    "FairLogisticRegression": fair,
    "StructuredMatrixCompletion": completed,
}
_alone: dict[tuple[str, bool], Any] = {}


def call(name: str, x64: bool) -> list[np.ndarray]:
    """What a call gives, in a precision that this thread alone asks for."""
    with jax.enable_x64(x64):
        return [np.asarray(leaf) for leaf in jax.tree.leaves(CALLS[name]())]


def alone(name: str, x64: bool) -> list[np.ndarray]:
    """The same in one thread, made once."""
    if (name, x64) not in _alone:
        _alone[name, x64] = call(name, x64)
    return _alone[name, x64]


def standing() -> tuple[Any, ...]:
    """What calls must leave as it is."""
    blas = [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]
    return jax.config.jax_enable_x64, jax.config.jax_default_matmul_precision, tuple(warnings.filters), blas  # pyright: ignore


def same(one: list[np.ndarray], other: list[np.ndarray]) -> bool:
    """Whether all numbers are equal, bit for bit."""
    return len(one) == len(other) and all(
        a.dtype == b.dtype and a.tobytes() == b.tobytes() for a, b in zip(one, other, strict=True)
    )


def attack(k: int) -> str | None:
    """A pair of threads, or a pool of processes."""
    return in_processes(k) if k % POOL_EVERY == POOL_EVERY - 1 else in_threads(k)


def in_threads(k: int) -> str | None:
    """Two calls that begin at once, at times without any program that was compiled before."""
    chance = random.Random(k)
    pair = [(chance.choice(list(CALLS)), chance.random() < 0.5) for _ in range(2)]
    return both(pair, afresh=k % AFRESH_EVERY == 2)


def both(pair: list[tuple[str, bool]], afresh: bool = False) -> str | None:
    """Two calls, each with its precision, side by side."""
    expected = [alone(*one) for one in pair]
    if afresh:
        jax.clear_caches()
    before, began = standing(), threading.Barrier(2)
    found: list[Any] = [None, None]

    def work(i: int) -> None:
        began.wait()
        try:
            found[i] = call(*pair[i])
        except BaseException as error:  # in another thread nobody would hear of it
            found[i] = told(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    said = " and ".join(f"{name} ({'float64' if x64 else 'float32'})" for name, x64 in pair)
    for got, whole, (name, _) in zip(found, expected, pair, strict=True):
        if isinstance(got, str):
            return f"{said}: {name} ended with {got}"
        if not same(got or [], whole):
            return f"{said}: {name} gives other numbers than alone"
    return None if standing() == before else f"{said}: left {standing()} and not {before}"


def in_processes(k: int) -> str | None:
    """The same in joblib's workers, which are processes of their own."""
    from joblib import Parallel, delayed

    chance = random.Random(k)
    asked = [(chance.choice(list(CALLS)), chance.random() < 0.5) for _ in range(4)]
    try:
        found: Any = Parallel(n_jobs=WORKERS, backend="loky")(delayed(call)(*one) for one in asked)
    except Exception as error:
        return f"loky, {asked}: {told(error)}"
    wrong = [one for one, got in zip(asked, found, strict=True) if not same(list(got), alone(*one))]
    return f"loky: {wrong[0]} gives other numbers than alone" if wrong else None


if __name__ == "__main__":
    wanted = options(525, workers=1)
    campaign("pairs of threads, and pools of processes", wanted.count, attack, 1, wanted.first)
