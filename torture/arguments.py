"""Senseless arguments to `minimize`, several at a time: a sentence before any work, or a right answer."""

import random
import tempfile
import warnings
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

import tightrope as tr
from torture.campaign import PROBLEM, ROWS, SAMPLERS, campaign, constraints, objective, options

ANY: list[Any] = [
    None, -1, 0, 1, 3, 2.5, -0.5, 1e300, float("nan"), float("inf"), 10**400, 2**31, True, "x", "", b"x", 1j, [], [1], {},
    (), (1, 2), np.zeros(3), np.zeros((2, 2)), np.full(3, np.nan), np.array("x"), np.int64(4), np.float32(0.5),
    object(), print,
]  # fmt: skip
GOOD: dict[str, list[Any]] = {
    "problem": [PROBLEM],
    "data": [ROWS],
    "method": ["csoa", "fw-csoa", "svrg-csoa", "auto", tr.CSOA(eta0=0.8, upsilon0=0.3)],
    "steps": [20],
    "batch_size": [None, 1, 2],
    "seed": [0, 1],
    "x0": [None, np.zeros(3)],
    "warm_start": [None],
    "output": [None, "last"],
    "feasible_point": [None],
    "heldout": [None],
    "confidence": [0.95],
    "ranges": [None],
    "accept": ["proven", "asymptotic"],
    "record": [60, 3],
    "trace_full": [False],
    "track": [None],
    "callback": [None],
    "progress": [False],
    "time_limit": [None, 60.0],
    "tol": [None],
    "checkpoint": [None],
    "checkpoint_every": [None],
    "chunk": [None, 7],
}
BAD: dict[str, list[Any]] = {
    "problem": [None, 3, "x", lambda x: x],
    "data": [None, 3, "x", [], {}, np.zeros((0, 3)), np.zeros(3), np.zeros((5, 4)), [[1.0, 2.0, 3.0]],
             np.full((9, 3), np.nan), np.array([["a", "b", "c"]]), SAMPLERS["generator"](), SAMPLERS["stream"](), object()],
    "progress": [None],
    "trace_full": [True],
}  # fmt: skip
LEVELS: list[Any] = [0.0, (0.5, 0.4), (1, 2, 3), "x", None, float("nan"), 10**400, np.zeros((2, 2)), [0.5], 1j]
OBJECTIVES: list[Any] = [
    objective, None, 3, lambda x, theta: 1.0, lambda x, theta: x, lambda x, theta: x[0] > 0,
    lambda x, theta: jnp.sum(x) * 1j, lambda x, theta: None, lambda x: x[0], lambda x, theta: "x",
    lambda x, theta: jnp.nan * jnp.sum(x),
]  # fmt: skip
CONSTRAINTS: list[Any] = [
    constraints, None, 3, lambda x, theta: x[0], lambda x, theta: [x[0]], lambda x, theta: jnp.zeros((2, 2)),
    lambda x, theta: jnp.array([1, 2]), lambda x: x[:1], lambda x, theta: jnp.zeros(0),
]  # fmt: skip
DOMAINS: list[Any] = [PROBLEM.domain, None, 3, "ball", tr.L2Ball]


def problem(chance: random.Random) -> tr.Problem:
    """A problem, most often with something wrong."""
    made = [chance.choice(pool if chance.random() < 0.5 else pool[:1]) for pool in (OBJECTIVES, CONSTRAINTS, DOMAINS)]
    return tr.Problem(*made, levels=chance.choice(LEVELS))


def arguments(chance: random.Random, folder: Path) -> dict[str, Any]:
    """All arguments of a call, one to three of them senseless."""
    given = {name: chance.choice(values) for name, values in GOOD.items()}
    for name in chance.sample(list(GOOD), chance.randint(1, 3)):
        pool = BAD.get(name, ANY) + (ANY if name not in ("data", "problem", "progress") else [])
        given[name] = chance.choice(pool)
    if chance.random() < 0.2:
        given["problem"] = problem(chance)
    if isinstance(given["checkpoint"], str | bytes):
        given["checkpoint"] = chance.choice([folder / "no" / "such", folder, given["checkpoint"]])
    return given


def attack(k: int) -> str | None:
    """One call."""
    chance = random.Random(k)
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        names = ""
        try:
            given = arguments(chance, Path(folder))
            names = ", ".join(f"{n}={v!r}"[:60] for n, v in given.items() if not any(v is good for good in GOOD[n]))
            result = tr.minimize(given.pop("problem"), given.pop("data"), **given)
        except (ValueError, TypeError) as error:
            said = str(error).strip()
            return None if said.endswith((".", "?", ")")) and " " in said else f"call {k} ({names}): {said!r}"
        except Exception as error:  # a traceback is what must not be
            return f"call {k} ({names}): {type(error).__name__}: {error}"
        fine = np.all(np.isfinite(result.x)) and bool(PROBLEM.domain.contains(result.x))
        return None if fine else f"call {k} ({names}): x is {result.x}"


if __name__ == "__main__":
    asked = options(10_000)
    campaign("calls with senseless arguments", asked.count, attack, first=asked.first)
