"""Sizes that cannot be, or hardly: of sets, runs, sweeps, completions and fed runs. A sentence within five seconds and
without taking a gigabyte, or an answer that is finite."""

import functools
import itertools
import random
import warnings
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import tightrope as tr
from tightrope.sets.low_rank import LowRankBall
from torture.campaign import PROBLEM, ROWS, SAMPLERS, is_sentence, options, smallest, told, watched

COUNTS: list[Any] = [
    0, 1, 2, 3, 7, 100, 2**15, 2**31 - 1, 2**31, 2**32, 2**53, 2**63 - 1, 2**63, 2**64, 10**9, 10**12, 10**30, 10**400,
    1e9, 1e300, 2.5, -1, -(2**63), True, np.int64(2**62), np.uint64(2**64 - 1), np.float64(1e18),
]  # fmt: skip
SIZES: list[Any] = [
    0.0, 1.0, 0.5, 1e-45, 1e-320, 1e-30, 1e7, 1e15, 1e18, 1.1e18, 1e19, 1e38, 3.4e38, 1e39, 1e154, 1e200, 1e308, 10**400,
    2**63, -1.0, -0.0, float("inf"), float("nan"), np.float32(3e38), np.float64(1e308), np.ones(2), jnp.ones(3),
]  # fmt: skip
SMALL = 10_000  # coordinates of points with which something is computed


def a_set(chance: random.Random, given: dict[str, Any]) -> Any:
    """A set of some kind, size and radius; what is computed from a small one."""
    kind = given.setdefault("kind", chance.choice(sorted(KINDS)))
    n, radius = given.get("n", 3), given.get("radius", 1.0)
    domain = KINDS[kind](radius, n)
    diameter = jnp.asarray(domain.diameter, jnp.float32)
    found: list[Any] = [diameter, diameter**2]
    if domain.shape.size <= SMALL and kind != "LowRankBall":
        start = domain.start()
        g = jax.tree.map(lambda v: jnp.full_like(v, 0.5), start)
        found += [start, domain.lmo(g), domain.support(g), domain.project(start) if domain.has_projection else 0.0]
        assert bool(domain.contains(start)), "the set does not contain its own start"
    return found


KINDS: dict[str, Callable[[Any, Any], Any]] = {
    "L2Ball": lambda r, n: tr.L2Ball(r, shape=n),
    "L1Ball": lambda r, n: tr.L1Ball(r, shape=n),
    "LinfBall": lambda r, n: tr.LinfBall(r, shape=(n,)),
    "Simplex": lambda r, n: tr.Simplex(r, shape=n),
    "Box": lambda r, n: tr.Box(-1.0, r, shape=n),
    "NuclearBall": lambda r, n: tr.NuclearBall(r, shape=(n, 3)),
    "Spectraplex": lambda r, n: tr.Spectraplex(r, shape=n),
    "LowRankBall": lambda r, n: LowRankBall(r, size=(n, n), rank=3),
    "Product": lambda r, n: tr.Product({"a": tr.L2Ball(r, shape=n), "b": tr.Box(0.0, r, shape=2)}),
    "Polytope": lambda r, n: tr.Polytope(np.concatenate([np.eye(3), -np.eye(3)]), np.full(6, r)),
}


def a_run(chance: random.Random, given: dict[str, Any]) -> Any:
    """A run whose counts are absurd."""
    named: dict[str, Any] = {"steps": 20, "time_limit": 0.5} | renamed(given, RUN)
    return tr.minimize(PROBLEM, ROWS, method=chance.choice(["csoa", "fw-csoa", "svrg-csoa", "sqp"]), **named).x


def a_stream(chance: random.Random, given: dict[str, Any]) -> Any:
    """A run on samples without an end."""
    named: dict[str, Any] = {"steps": 20} | renamed(given, RUN)
    return tr.minimize(PROBLEM, SAMPLERS["generator"](), method="csoa", time_limit=0.5, **named).x


def a_sweep(chance: random.Random, given: dict[str, Any]) -> Any:
    """A sweep whose table is absurd."""
    named = renamed(given, SWEEP)
    if "seeds" in named:
        count = 1000 if "memory" in named else named["seeds"]  # memory that a user allows is no flood
        named["seeds"] = range(count) if isinstance(count, int) and abs(count) < 2**62 else itertools.count()
    if "levels" in named:
        named["levels"] = [named["levels"]]
    if named.get("steps", 20) == 20 and named.get("batch_size", 1) == 1 and "seeds" in named:
        named["steps"] = 2
    named: dict[str, Any] = {"steps": 20} | named
    return tr.sweep(PROBLEM, ROWS, tr.CSOA(eta0=0.5, upsilon0=0.1), **named)["objective"].to_numpy()


def a_problem(chance: random.Random, given: dict[str, Any]) -> Any:
    """A problem on a domain of an absurd size, and a run of it."""
    domain = KINDS["L2Ball"](given.get("radius", 1.0), given.get("n", 3))
    problem = tr.Problem(lambda x, theta: jnp.sum(x**2) * theta[0], None, domain, levels=0.0)
    return tr.minimize(problem, np.ones((50, 1)), method="csoa", steps=5).x if domain.shape.size <= SMALL else 0.0


def a_completion(chance: random.Random, given: dict[str, Any]) -> Any:
    """A completion of an absurd shape."""
    entries = np.array([0, 1, 1, 2]), np.array([0, 1, 0, 1]), np.array([1.0, 2.0, 3.0, 1.0])
    options = {"nuclear_norm": 3.0, "unobserved_energy": 10.0, "steps": 3, "rank": 2}
    model = tr.StructuredMatrixCompletion(**{**options, **{k: given[k] for k in ("rank",) if k in given}})
    return model.fit(entries, shape=(given.get("n", 4), given.get("m", 3))).predict(np.array([0]), np.array([1]))


def a_fed_run(chance: random.Random, given: dict[str, Any]) -> Any:
    """A fed run with an absurd number of samples a step."""
    run = tr.Online(PROBLEM, batch_size=given.get("n", 1))
    run.update(ROWS[:64])
    return run.x


RUN = {"n": "steps", "m": "batch_size", "k": "record", "j": "chunk", "s": "seed", "radius": "tol"}
SWEEP = {"n": "steps", "m": "batch_size", "k": "record", "j": "memory", "s": "seeds", "radius": "levels"}
CALLS: dict[Callable[[random.Random, dict[str, Any]], Any], tuple[str, ...]] = {
    a_set: ("n", "radius"), a_run: ("n", "m", "k", "j", "s"), a_stream: ("n", "m", "k", "j", "s"),
    a_sweep: ("n", "m", "k", "j", "s", "radius"), a_problem: ("n", "radius"), a_completion: ("n", "m", "rank"),
    a_fed_run: ("n",),
}  # fmt: skip


def renamed(given: dict[str, Any], names: dict[str, str]) -> dict[str, Any]:
    """The values that were drawn under the names of a call's arguments."""
    return {names[name]: value for name, value in given.items() if name in names}


def fails(call: Callable[..., Any], seed: int, drawn: list[tuple[str, Any]]) -> str | None:
    """What is wrong with a call of these sizes; None where it is refused in a sentence, or finite."""
    given = dict(drawn)
    named = ", ".join(f"{name}={value!r}"[:50] for name, value in drawn)
    try:
        found = call(random.Random(seed), given)
    except Exception as error:
        return None if is_sentence(error) else f"{call.__name__}({named}): {told(error)}"
    finite = all(np.all(np.isfinite(np.asarray(leaf))) for leaf in jax.tree.leaves(found))
    return None if finite else f"{call.__name__}({named}): not finite"


def attack(k: int) -> str | None:
    """One call with one to three absurd sizes."""
    chance = random.Random(k)
    call = list(CALLS)[k % len(CALLS)]
    names = chance.sample(CALLS[call], min(len(CALLS[call]), chance.randint(1, 3)))
    drawn = [(name, chance.choice(SIZES if name == "radius" else COUNTS)) for name in names]
    if call is a_set:
        drawn.append(("kind", chance.choice(sorted(KINDS))))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with np.errstate(all="ignore"):
            return smallest(drawn, functools.partial(fails, call, k))


if __name__ == "__main__":
    watched("sizes that cannot be", options(2000), "torture.sizes", attack)
