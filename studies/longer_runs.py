"""Runs behind the explanations of the leaderboard: longer ones, and those of the ill-scaled problem in scaled variables.

The rules are the leaderboard's own: nine settings of each method, chosen on eight seeds and measured on twenty others.
"""

import dataclasses
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd

import tightrope as tr
from tightrope.lab.leaderboard import FULL, Source, board, compete
from tightrope.problems import PROBLEMS, Solved
from tightrope.tree import Array

RESCALED = "ill-scaled, scaled"
LONG, SHORT, ENDLESS = (12_800, 51_200, 204_800), (3_200, 12_800, 51_200), (51_200, 204_800, 819_200)
RUNS: tuple[tuple[Source, str, tuple[int, ...], str], ...] = (
    ("streams", "portfolio", LONG, "csoa g-oco mirror-sa madavan-bose opdmd conex"),
    ("streams", "portfolio", SHORT, "slpmm"),
    ("streams", "box-qcqp", LONG, "kim-lee conex g-oco"),
    ("streams", "ill-scaled", ENDLESS, "csoa g-oco"),
    ("finite", "neyman-pearson", LONG, "coexcg coexdurcg"),
    ("finite", "completion", (640, 2_560, 10_240), "coexcg coexdurcg"),
    (
        "streams",
        RESCALED,
        (200, 800, 3_200, 12_800),
        "affine-fw aprid async-saddle conex csoa g-oco jenatton kim-lee madavan-bose mirror-sa mjy one-projection opdmd "
        "pfs rsa slpmm",
    ),
)


@cache
def rescaled() -> Solved:
    """The ill-scaled problem in y = x/s, with s the half widths of its box, and its constraints divided by the lengths c of
    their gradients in y: multipliers are multiplied by c."""
    given = PROBLEMS["ill-scaled"]()
    s = np.asarray(given.problem.domain.upper)  # pyright: ignore[reportAttributeAccessIssue]
    c = np.linalg.norm(np.asarray(jax.jacobian(given.constraints)(jnp.asarray(given.x))) * s, axis=1)
    f, h = given.problem.objective, given.problem.constraints
    assert f is not None
    assert h is not None

    def wide(y: Array) -> Array:
        return jnp.asarray(s, y.dtype) * y

    def even(values: Array) -> Array:
        return values / jnp.asarray(c, values.dtype)

    problem = tr.Problem(
        lambda y, theta: f(wide(y), theta), lambda y, theta: even(h(wide(y), theta)), tr.Box(-1.0, 1.0, shape=len(s))
    )
    return dataclasses.replace(
        given,
        name=RESCALED,
        problem=problem,
        x=given.x / s,
        dual=given.dual * c,
        objective=lambda y: given.objective(wide(y)),
        constraints=lambda y: even(given.constraints(wide(y))),
    )


def longer_runs() -> pd.DataFrame:
    """A row for each problem and method: the fitted rate, the published one, and where the run ended."""
    PROBLEMS[RESCALED] = rescaled
    jobs: list[tuple[Source, str, tuple[int, ...], str]] = [
        (source, name, budgets, method) for source, name, budgets, methods in RUNS for method in methods.split()
    ]
    tables = []
    with jax.enable_x64(True):
        for source, name, budgets, method in jobs:
            size = dataclasses.replace(FULL, budgets=budgets, heavy=budgets, finite=budgets, seeds=20, tuning_seeds=8)
            rates = board(compete(name, method, source, size)).rates
            tables.append(rates.assign(first=budgets[0], last=budgets[-1]))
            print(f"{len(tables)} of {len(jobs)}: {method} on {name}", flush=True)
    del PROBLEMS[RESCALED]
    return pd.concat(tables, ignore_index=True)
