"""Can linear minimisations be few? Bisection on the one multiplier, with Frank-Wolfe on large batches inside (about
sqrt(T log T) of them), beside Split-CSOA: one for each sample, and as few by taking batches.

Run as `python -m studies.few_lmo`; prints the table of docs/projection_free.md, "Few linear minimisations".
"""

import math
from collections.abc import Iterable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd

import tightrope as tr
from studies.page import markdown
from tightrope.problems import PROBLEMS, Solved
from tightrope.tree import add_scaled, subtract

NAMES = ("portfolio", "completion")  # of one constraint, in sets that are not their own enclosing ones
HORIZONS = (10_000,)
SEEDS = range(40)
FACTOR = 4.0  # times the multiplier of the solution: the bracket that bisection is given


def rounds_of(T: int) -> tuple[int, int, int]:
    """Rounds of bisection, linear minimisations a round, samples for each of these.

    Example:
        >>> rounds_of(10_000)
        (7, 37, 38)
    """
    rounds = math.ceil(math.log2(T) / 2)
    inner = math.isqrt(T // rounds)
    return rounds, inner, T // rounds // inner


def bisection(solved: Solved, T: int, seeds: Iterable[int], mends: bool) -> list[Any]:
    """The last points of bisection on lambda, a run for each seed.

    A round minimises the Lagrangian at one lambda by Frank-Wolfe with a tracked gradient (STORM) and looks at the sign of
    the mean of h over its second half. Where it mends, the step of lambda is halved only when the sign changes, so that a
    wrong sign is not for ever.
    """
    problem, domain = solved.problem, solved.problem.domain
    rounds, inner, size = rounds_of(T)
    highest = FACTOR * float(solved.dual[0])

    @jax.jit
    @jax.vmap
    def a_round(key: Any, x: Any, lam: Any) -> tuple[Any, Any]:
        def step(so_far: Any, at: Any) -> tuple[Any, Any]:
            x, before, d = so_far
            k, key = at
            theta = jax.vmap(solved.samples.fn)(jax.random.split(key, size))
            _, h, g = problem.value_and_gradient(x, lam, theta)
            g_before = problem.value_and_gradient(before, lam, theta)[2]
            d = add_scaled(g, jnp.where(k == 0, 0, 1 - 2 / (k + 2)), subtract(d, g_before))
            s = domain.lmo(d)
            return (add_scaled(x, 2 / (k + 2), subtract(s, x)), x, d), h

        began = x, x, jax.tree.map(jnp.zeros_like, x)
        (x, _, _), h = jax.lax.scan(step, began, (jnp.arange(inner), jax.random.split(key, inner)))
        return x, jnp.mean(h[inner // 2 :])

    keys = jnp.stack([jax.random.key(seed) for seed in seeds])
    n = len(keys)
    x = jax.tree.map(lambda v: jnp.broadcast_to(v, (n, *jnp.shape(v))), domain.start())
    lam, length, sign = np.full(n, highest / 2), np.full(n, highest / 4), np.zeros(n)
    for k in range(rounds):
        x, h = a_round(jax.vmap(jax.random.fold_in, (0, None))(keys, k), x, jnp.asarray(lam, jnp.float32)[:, None])
        now = np.sign(np.asarray(h))
        if mends:
            length = np.where(sign * now < 0, length / 2, length)
        lam, sign = np.maximum(lam + now * length, 0), now
        length = length if mends else length / 2
    return [jax.tree.map(lambda v, i=i: v[i], x) for i in range(n)]


def merits(solved: Solved, points: list[Any]) -> np.ndarray:
    """F - F* + 2 lambda* [H]_+ of each point: never negative."""
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *points)
    f, h = (np.asarray(v) for v in jax.jit(jax.vmap(lambda x: (solved.objective(x), solved.constraints(x))))(stacked))
    return f - solved.optimum + 2 * np.maximum(h, 0) @ solved.dual


def measure(
    names: Iterable[str] = NAMES, horizons: Iterable[int] = HORIZONS, seeds: Iterable[int] = SEEDS
) -> pd.DataFrame:
    """A row per problem, horizon and method: linear minimisations, and how merits spread over seeds."""
    horizons, seeds, rows = tuple(horizons), list(seeds), []
    for solved in (PROBLEMS[name]() for name in names):
        for T in horizons:
            counts = rounds_of(T)
            few = counts[0] * counts[1]

            def split(steps: int, batch: int, solved: Solved = solved) -> list[Any]:
                run = tr.sweep(
                    solved.problem,
                    solved.samples,
                    tr.SplitCSOA(),
                    steps=steps,
                    batch_size=batch,
                    seeds=seeds,
                    points=True,
                )
                return list(run["x"])

            found = {
                "bisection": (few, bisection(solved, T, seeds, mends=False)),
                "bisection that mends": (few, bisection(solved, T, seeds, mends=True)),
                "Split-CSOA, batches": (few, split(few, T // few)),
                "Split-CSOA": (T, split(T, 1)),
            }
            for method, (lmos, points) in found.items():
                merit = merits(solved, points)
                spread = {"median": float(np.median(merit)), "95 %": float(np.quantile(merit, 0.95))}
                rows.append({"problem": solved.name, "T": T, "method": method, "minimisations": lmos} | spread)
                print(*(f"{v:.2g}" if isinstance(v, float) else v for v in rows[-1].values()), flush=True)
    return pd.DataFrame(rows)


def main() -> None:
    """Measure and print."""
    table = measure()
    shown = table.assign(**{name: table[name].map("{:.2g}".format) for name in ("median", "95 %")})
    print("\n".join(markdown(tuple(shown.columns), shown.itertuples(index=False))))


if __name__ == "__main__":
    main()
