"""The brake, measured: constraints in the mean at every T, its price, and what runs certify of themselves.

Run as `python -m studies.brake`; writes docs/brake.md.
"""

import argparse
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd

import tightrope as tr
from studies.page import markdown
from tightrope.problems import EXACT
from tightrope.theory import Braked, braked_adagrad, self_certificate

HORIZONS = (1_000, 10_000, 100_000)
SEEDS = 48
ROOT = 3**0.5  # noise is uniform between this and its negative: of variance one


class Case(NamedTuple):
    """A problem with an exact solution and bounded noise, and what the brake asks to know of it."""

    problem: tr.Problem
    sample: Any  # of a key
    values: Any  # x -> (F - F*, H)
    safe: dict[str, Any]  # inside, slack, low, high
    diameter: float
    rise: float  # of F at the point inside, over the optimum


def cases() -> dict[str, Case]:
    """The problems of docs/rates.md with uniform noise in the place of normal, and a rare event."""
    a = 1.025 / 3
    corner, side, left = np.zeros(5), np.zeros(10), np.full(1, -1.0)
    corner[1:3], side[0] = (a, 1 - a), -1.0
    known = {  # inside, slack, low, high, diameter
        "ball": (np.zeros(5), 0.5, -0.2 * ROOT * (1 + 2 * 5**0.5) - 0.5, 4 + 0.2 * ROOT * (1 + 2 * 5**0.5) - 0.5, 4.0),
        "simplex": (corner, 0.15 + a, -1.55 - 0.7 * ROOT, 1.55 + 0.7 * ROOT, 2**0.5),
        "scalar": (left, 2.0, -2 - ROOT, 1 + 1.5 * ROOT, 3.0),
        "l1-lp": (side, 1.4, -1.4 - 0.5 * ROOT, 0.6 + 0.5 * ROOT, 2.0),
    }
    found = {}
    for name, (inside, slack, low, high, diameter) in known.items():
        solved = EXACT[name]()
        n = len(solved.dual)
        safe = {"inside": inside.astype(np.float32), "slack": [slack] * n, "low": [low] * n, "high": [high] * n}

        def sample(key: Any, draw: Any = solved.samples.fn) -> Any:
            return jax.tree.map(lambda z: ROOT * (2 * jax.scipy.stats.norm.cdf(z) - 1), draw(key))

        def values(x: Any, solved: Any = solved) -> Any:
            return solved.objective(x) - solved.optimum, solved.constraints(x)

        rise = float(values(jnp.asarray(inside))[0])
        found[name] = Case(solved.problem, sample, values, safe, diameter, rise)
    rare = tr.Problem(
        lambda x, theta: -x[0], lambda x, theta: 100.0 * theta * x - 0.3, tr.Box(0.0, 1.0, shape=(1,)), names=("rare",)
    )
    found["one in a hundred"] = Case(
        rare,
        lambda key: (jax.random.uniform(key) < 0.01).astype(jnp.float32),
        lambda x: (0.3 - x[0], x - 0.3),
        {"inside": np.zeros(1, np.float32), "slack": [0.3], "low": [-0.3], "high": [99.7]},
        1.0,
        0.3,
    )
    return found


def methods(case: Case) -> dict[str, Any]:
    """The default steps without the brake, with it, with it for this very run, and theorem 3."""
    return {
        "CSOA": tr.CSOA(),
        "CSOA, braked": Braked(tr.CSOA(), **case.safe),
        "CSOA, braked for this run": Braked(tr.CSOA(), **case.safe, chance=0.05),
        "theorem 3": braked_adagrad(diameter=case.diameter, rise=case.rise, **case.safe),
    }


def outputs(case: Case, method: Any, steps: int, seeds: int) -> tuple[Any, Any]:
    """The means of points of runs, and their last states."""
    start = case.problem.domain.start()
    nothing = jnp.zeros(len(case.safe["slack"]))

    def step(carry: Any, t: Any) -> tuple[Any, None]:
        (state, x, weight), key = carry
        state, info = method.step(case.problem, state, _batch_of_one(case.sample(jax.random.fold_in(key, t))))
        new = weight + info.weight
        return ((state, x + (info.x - x) * info.weight / new, new), key), None

    @jax.jit
    @jax.vmap
    def run(key: Any) -> Any:
        state = method.init(case.problem, start, nothing, jnp.asarray(steps))
        ((state, x, _), _), _ = jax.lax.scan(step, ((state, start, jnp.zeros(())), key), jnp.arange(steps))
        return x, state

    return run(jax.random.split(jax.random.key(4), seeds))


def _batch_of_one(theta: Any) -> Any:
    return jax.tree.map(lambda leaf: leaf[None], theta)


def measure(horizons: Iterable[int], seeds: int) -> pd.DataFrame:
    """A row per problem, method and T."""
    rows, horizons = [], list(horizons)
    for name, case in cases().items():
        for kind, method in methods(case).items():
            for steps in horizons:
                x, state = outputs(case, method, steps, seeds)
                gap, h = map(np.asarray, jax.vmap(case.values)(x))
                error = h.std(axis=0, ddof=1) / seeds**0.5
                z = float(np.max(h.mean(axis=0) / np.maximum(error, 1e-12)))
                row = {
                    "problem": name, "method": kind, "T": steps, "gap": gap.mean(), "H": h.mean(axis=0).max(), "z": z,
                    "above": np.mean(np.any(h > 0, axis=1)), "own": np.nan, "false": np.nan,
                }  # fmt: skip
                if isinstance(method, Braked):
                    states = [jax.tree.map(lambda leaf, k=k: leaf[k], state) for k in range(seeds)]
                    bounds = np.array([self_certificate(_Ended(one, method)) for one in states])  # pyright: ignore
                    row |= {"own": np.mean(state.taken) / steps, "false": np.mean(np.any(h > bounds, axis=1))}
                rows.append(row)
                print(*row.values(), flush=True)
    return pd.DataFrame(rows)


class _Ended(NamedTuple):
    """What a self-certificate reads of a result."""

    state: Any
    method: Any


def report(table: pd.DataFrame, seeds: int) -> str:
    """The page."""
    rows: list[Any] = list(table.itertuples())
    braked = table[table.method != "CSOA"]
    plain = table[table.method == "CSOA"].set_index(["problem", "T"]).gap
    kept = table[table.method == "CSOA"].set_index(["problem", "T"]).z <= 2
    priced = table[table.method == "CSOA, braked"].set_index(["problem", "T"]).gap / plain
    worst: Any = priced[kept].idxmax()
    lines = [
        _HEAD.format(seeds=seeds),
        f"Of {len(braked)} braked cells {int((braked.z > 2).sum())} have a mean above zero by two standard errors; "
        f"without the brake {int((~kept).sum())} of {len(kept)}. Certificates that runs gave of themselves, with 95 %, "
        f"were false in {braked.false.max():.1%} of runs at most. Where CSOA alone keeps its constraints in the mean, its "
        "gap with the "
        f"brake is {np.exp(np.log(priced[kept]).mean()):.2f} times that without in the geometric mean, at most 1.4 times in "
        f"{int((priced[kept] <= 1.4).sum())} of {int(kept.sum())} cells, and most for {worst[0]} at T = {worst[1]:,}: "
        f"{plain[worst]:.2g} without and {(priced * plain)[worst]:.2g} with it.\n",
        *markdown(
            ("problem", "method", "T", "mean gap", "worst mean H", "in standard errors", "runs with some H > 0",
             "steps of its own", "false self-certificates"),
            (
                (r.problem, r.method, f"{r.T:,}", f"{r.gap:.2g}", f"{r.H:+.2g}", f"{r.z:+.1f}", f"{r.above:.0%}",
                 *(f"{v:.1%}".replace("nan%", "-") for v in (r.own, r.false)))
                for r in rows
            ),
        ),
    ]  # fmt: skip
    return "\n".join(lines) + "\n"


_HEAD = """# The brake, measured

Written by `python -m studies.brake`: {seeds} runs of each row, on the problems of [the study of rates](rates.md) with
uniform noise in the place of normal (the brake asks for a range of h), and on one whose constraint is seen once in a
hundred samples. [What is proven](theory.md#zero-violation-at-every-t-the-brake): with the brake every E H_i <= 0 at every
T, for this very run but with probability .05, and theorem 3 has the rate, too. The gap is F - F* at the mean of points.
"""


def main() -> None:
    """Measure, and write the page."""
    arguments = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    arguments.add_argument("--seeds", type=int, default=SEEDS)
    arguments.add_argument("--most", type=int, default=HORIZONS[-1])
    asked = arguments.parse_args()
    table = measure([T for T in HORIZONS if asked.most >= T], asked.seeds)
    Path("docs/brake.md").write_text(report(table, asked.seeds))


if __name__ == "__main__":
    main()
