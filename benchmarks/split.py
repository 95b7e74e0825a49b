"""The time of a step: Split-CSOA beside FW-CSOA, in one run, for a vector of 100 and a matrix of 200 x 300.

Run as `python -m benchmarks.split`, on one thread. The two take turns, and the fastest of several rounds counts, in time of
the processor: whatever else the machine does is as likely to meet one as the other, and is not counted.
"""

import argparse
import time

import jax
import jax.numpy as jnp

import tightrope as tr
from studies.page import markdown

PAIRS = {"no coefficients": (tr.SplitCSOA(), tr.FWCSOA()), "coefficients": (tr.SplitCSOA(eta0=1.0), tr.FWCSOA("sqrt"))}


def vector(d: int = 100) -> tuple[tr.Problem, tr.Generator]:
    """Least squares under a linear constraint on an l1 ball; a sample is a row of d numbers."""

    def f(x, theta):
        return (jnp.dot(theta, x) - theta[0]) ** 2 / 2

    def h(x, theta):
        return (jnp.dot(theta[::-1], x) + jnp.sum(x**2))[None]

    domain = tr.L1Ball(2.0, shape=d)
    return tr.Problem(f, h, domain, levels=0.5), tr.Generator(lambda key: jax.random.normal(key, (d,)))


def matrix(rows: int = 200, columns: int = 300) -> tuple[tr.Problem, tr.Generator]:
    """A distance to a noisy matrix under a bound on squares, on a nuclear-norm ball; a sample is a factor of each side."""

    def noisy(theta):
        return theta["u"][:, None] * theta["v"][None, :]

    def f(x, theta):
        return jnp.sum((x - noisy(theta)) ** 2) / 2

    def h(x, theta):
        return (jnp.sum(x**2) + theta["u"][0] * jnp.vdot(x, noisy(theta)))[None]

    def draw(key):
        left, right = jax.random.split(key)
        return {"u": jax.random.normal(left, (rows,)), "v": jax.random.normal(right, (columns,))}

    return tr.Problem(f, h, tr.NuclearBall(2.0, shape=(rows, columns)), levels=1.0), tr.Generator(draw)


def seconds(problem: tr.Problem, samples: tr.Generator, method: tr.Method, steps: int) -> float:
    """Of a run, without what is done once."""
    began = time.process_time()
    jax.block_until_ready(tr.minimize(problem, samples, method=method, steps=steps, record=0).x)
    return time.process_time() - began


def compare(
    problem: tr.Problem, samples: tr.Generator, pair: tuple[tr.Method, ...], steps: int, rounds: int
) -> list[float]:
    """Microseconds a step of each, from the difference of a long and a short run: what a run costs once drops out."""
    short = max(steps // 10, 1)
    for method in pair:
        seconds(problem, samples, method, short)  # compiles
    best = [[float("inf")] * 2 for _ in pair]
    for _ in range(rounds):
        for times, method in zip(best, pair, strict=True):
            for k, count in enumerate((short, steps)):
                times[k] = min(times[k], seconds(problem, samples, method, count))
    return [1e6 * (long - little) / (steps - short) for little, long in best]


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    rounds, rows = parser.parse_args().rounds, []
    for place, (problem, samples), steps in (
        ("l1 ball, d = 100", vector(), 20_000),
        ("nuclear ball, 200 x 300", matrix(), 200),
    ):
        for kind, pair in PAIRS.items():
            split, frank_wolfe = compare(problem, samples, pair, steps, rounds)
            rows.append((place, kind, f"{split:.1f}", f"{frank_wolfe:.1f}", f"{split / frank_wolfe:.2f}"))
            print(*rows[-1], flush=True)
    print("\n".join(markdown(("set", "steps from", "Split-CSOA, us", "FW-CSOA, us", "ratio"), rows)))


if __name__ == "__main__":
    main()
