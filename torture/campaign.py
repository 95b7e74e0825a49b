"""What all campaigns share: counting what was tried and what failed, and the small problem that they attack."""

import argparse
import sys
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import tightrope as tr

ROWS = np.random.default_rng(0).normal([1.0, -0.5, 0.2], 0.7, size=(500, 3))


def objective(x: Any, theta: Any) -> Any:
    """Half the squared distance."""
    return jnp.sum((x - theta) ** 2) / 2


def constraints(x: Any, theta: Any) -> Any:
    """A bilinear and a linear one."""
    return jnp.stack([jnp.dot(x, theta), x[0] + 0.1 * theta[1]])


def batches(skip: int = 0) -> Iterable[np.ndarray]:
    """Rows for ever, in batches of 250, from a position on."""
    k, rest = divmod(skip, 250)
    while True:
        yield np.random.default_rng(k).normal([1.0, -0.5, 0.2], 0.7, size=(250, 3))[rest:]
        k, rest = k + 1, 0


PROBLEM = tr.Problem(objective, constraints, tr.L2Ball(2.0, shape=3), levels=(0.5, 0.4))
SAMPLERS: dict[str, Callable[[], Any]] = {
    "rows": lambda: tr.Rows(ROWS),
    "generator": lambda: tr.Generator(lambda key: jnp.array([1.0, -0.5, 0.2]) + 0.7 * jax.random.normal(key, (3,))),
    "stream": lambda: tr.Stream(batches),
}


def campaign(what: str, count: int, attack: Callable[[int], str | None], workers: int = 1, first: int = 0) -> None:
    """Attack so many times, each by its number, counted from the first. An attack gives a sentence where it got through.
    Ends the process."""
    began, failures = time.perf_counter(), []
    with ThreadPoolExecutor(workers) as pool:
        for k, said in enumerate(pool.map(attack, range(first, first + count)), 1):
            failures += [said] if said else []
            if sys.stderr.isatty():
                print(f"\r{what}: {k:,} of {count:,}, {len(failures)} failed", end="", file=sys.stderr, flush=True)
    for said in failures[:20]:
        print(f"  FAILED {said}")
    print(f"{what}: {count:,} tried, {len(failures):,} failed, {time.perf_counter() - began:.0f} s")
    sys.exit(1 if failures else 0)


def options(count: int, workers: int = 2) -> argparse.Namespace:
    """`--count`, `--workers` and `--first`, the number of the first attack, of the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=count)
    parser.add_argument("--workers", type=int, default=workers)
    parser.add_argument("--first", type=int, default=0)
    return parser.parse_args()
