"""What a first call costs and a later one: every public entry, in fresh processes, CPU seconds of the call itself.

A first call compiles; with `tr.compilation_cache` a later process reads what an earlier one compiled. Imports and the making
of data are not counted (`benchmarks.imports` has those). `python -m benchmarks.first_calls [entry ...]` prints a table.
"""

import json
import os
import subprocess
import sys
import tempfile
import time

import numpy as np

ENTRIES = {
    "minimize, 10,000 rows x 3": "rows",
    "minimize, 200 steps of a generator": "generator",
    "minimize, SVRG-CSOA, 28,350 rows x 100": "svrg",
    "sweep, 16 settings x 4 seeds, 1,000 steps": "sweep",
    "Online, 100 batches of 100": "online",
    "certify, 2,000 held-out rows": "certify",
    "check_problem": "check",
    "FairLogisticRegression(covariance=0.05), Adult": "fair",
    "FairLogisticRegression(p_rule=0.8), Adult": "p_rule",
    "ConstrainedClassifier, Adult": "constrained",
    "StructuredMatrixCompletion with its search, 943 x 1,682, 100,000 ratings": "completion",
}


def ratings(seed: int = 0) -> tuple[tuple[np.ndarray, np.ndarray, np.ndarray], tuple[int, int]]:
    """Ratings from 1 to 5 of the size of MovieLens-100K, with popular rows and columns, effects, and twelve factors."""
    rng, (m, n), count = np.random.default_rng(seed), (943, 1682), 100_000
    often = [weights / weights.sum() for weights in (rng.lognormal(0, 1.0, m), rng.lognormal(0, 1.6, n))]
    at = np.empty(0, np.int64)
    while len(at) < count:
        drawn = [rng.choice(len(weights), 2 * count, p=weights) for weights in often]
        at = np.unique(np.concatenate([at, drawn[0] * n + drawn[1]]))
    i, j = np.divmod(np.sort(rng.choice(at, count, replace=False)), n)
    row_effects, column_effects = 0.42 * rng.normal(size=m), 0.5 * rng.normal(size=n)
    left, right = rng.normal(size=(m, 12)), rng.normal(size=(n, 12))
    factors = np.einsum("ak,k,ak->a", left[i], 0.34 * 0.8 ** np.arange(12), right[j])
    score = 3.5 + row_effects[i] + column_effects[j] + factors + 0.8 * rng.normal(size=count)
    return (i, j, np.clip(np.rint(score), 1, 5)), (m, n)


def calls(entry: str):
    """The call, as a function without arguments; data and names are loaded here."""
    import jax
    import jax.numpy as jnp

    import tightrope as tr
    from tightrope.datasets import adult_label_encoded

    theta = np.random.default_rng(0).normal(1.0, 1.0, size=(10_000, 3)).astype(np.float32)
    problem = tr.Problem(
        lambda x, theta: jnp.sum((x - theta) ** 2) / 2,
        lambda x, theta: jnp.stack([jnp.dot(theta, x)]),
        tr.L2Ball(2.0, shape=3),
        levels=1.0,
    )
    if entry == "rows":
        return lambda: tr.minimize(problem, theta)
    if entry == "generator":
        return lambda: tr.minimize(problem, tr.Generator(lambda key: 1 + jax.random.normal(key, (3,))), steps=200)
    if entry == "svrg":
        from benchmarks import workload

        data = workload.make_data()
        return lambda: tr.minimize(workload.make_problem(), data, method="svrg-csoa", passes=20)
    if entry == "sweep":
        method = tr.CSOA(eta0=np.geomspace(0.01, 1, 16))
        return lambda: tr.sweep(problem, theta, method, steps=1_000, seeds=range(4))
    if entry == "online":

        def feed():
            online = tr.Online(problem)
            for part in np.split(theta, 100):
                online.update(part)
            return online.x

        return feed
    if entry == "certify":
        point = np.array([0.2, 0.2, 0.2], np.float32)
        return lambda: tr.certify(problem, point, theta[:2_000])
    if entry == "check":
        return lambda: tr.check_problem(problem, theta)
    if entry == "completion":
        (i, j, values), shape = ratings()
        model = tr.StructuredMatrixCompletion()
        return lambda: model.fit((i, j, values), shape=shape)
    X, y, s = adult_label_encoded()
    if entry == "constrained":
        constrained = tr.ConstrainedClassifier(maximize="recall", subject_to={"fpr": 0.05})
        return lambda: constrained.fit(X, y)
    fair = tr.FairLogisticRegression(p_rule=0.8) if entry == "p_rule" else tr.FairLogisticRegression(covariance=0.05)
    return lambda: fair.fit(X, y, sensitive_features=s)


def measure(entry: str, folder: str) -> list[float]:
    """CPU seconds of the first call and of a second one in this process; "" is for no cache."""
    import warnings

    import tightrope as tr

    warnings.simplefilter("ignore")
    if folder:
        tr.compilation_cache(folder)
    call, seconds = calls(entry), []
    for _ in range(2):
        began = time.process_time()
        call()
        seconds.append(time.process_time() - began)
    return seconds


def fresh(entry: str, folder: str) -> list[float]:
    """The same in a process of its own."""
    words = [sys.executable, "-m", "benchmarks.first_calls", "--one", entry, folder]
    return json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout.splitlines()[-1])


def main() -> None:
    if sys.argv[1:2] == ["--one"]:
        print(json.dumps(measure(*sys.argv[2:4])))
        return
    os.environ.pop("TIGHTROPE_COMPILATION_CACHE", None)
    print("| call | first | first, with `tr.compilation_cache` filled | later |\n|---|---|---|---|", flush=True)
    for name, entry in ENTRIES.items():
        if sys.argv[1:] and entry not in sys.argv[1:]:
            continue
        with tempfile.TemporaryDirectory() as folder:
            cold, later = fresh(entry, folder)  # it fills the folder, which costs some hundredths of a second
            warm, _ = fresh(entry, folder)
        print(f"| {name} | {cold:.2f} | {warm:.2f} | {later:.2f} |", flush=True)


if __name__ == "__main__":
    main()
