"""The runs: a method on a problem, with every setting of its grid, at every budget, all seeds side by side."""

import dataclasses
import json
import time
from collections.abc import Mapping
from functools import lru_cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd

from tightrope._sweep import sweep
from tightrope.experiments.leaderboard.entrants import Division, Entry, challenge, enter, grid, misfit, tunable
from tightrope.experiments.work import Tables, Unit
from tightrope.methods import METHODS, Cost, Method, gradients_used
from tightrope.problems import PROBLEMS, Solved
from tightrope.tree import Tree, replace

TUNING = 10_000
"""Seeds from here on are for tuning only."""

REFERENCE = "slsqp"
"""The batch method that is also given the data at hand."""

DIVISIONS: tuple[Division, ...] = ("streams", "finite")


@dataclasses.dataclass(frozen=True)
class Size:
    """How much work to do. The defaults are the full leaderboard.

    Attributes:
        budgets: oracle calls in the division of streams.
        heavy: those of runs whose steps are slow: points that are matrices, a thousand numbers a sample, or constraints
            that are means over a table.
        finite: oracle calls in the division of data at hand.
        seeds: runs of the chosen setting.
        tuning_seeds: other runs, by which the setting is chosen.
        rows: how many rows a data set has, where the problem has no table of its own.
        streams: the problems of the division of streams, by name; all where empty.
        tables: the problems of the division of data at hand, by name.
    """

    budgets: tuple[int, ...] = (400, 1_600, 6_400)
    heavy: tuple[int, ...] = (80, 320, 1_280)
    finite: tuple[int, ...] = (500, 2_000, 8_000)
    seeds: int = 12
    tuning_seeds: int = 4
    rows: int = 500
    streams: tuple[str, ...] = ()
    tables: tuple[str, ...] = ("simplex", "neyman-pearson", "fair-logistic", "portfolio", "completion")

    def problems(self, division: Division) -> tuple[str, ...]:
        """The problems of a division, by name."""
        return (self.streams or tuple(PROBLEMS)) if division == "streams" else self.tables


FULL = Size()
QUICK = Size(budgets=(400, 1_600), finite=(500, 2_000), streams=("ball",), tables=("simplex",))


def units(size: Size, methods: tuple[str, ...] = ()) -> list[Unit]:
    """Every method on every problem that it fits, and SLSQP on the data at hand."""
    found = []
    for division in DIVISIONS:
        for name in size.problems(division):
            solved = challenge(name, division, size.rows)[0]
            for method, kind in METHODS.items():
                wanted = not methods or method in methods
                if wanted and misfit(kind, solved, division) is None:
                    found.append(_unit(name, method, division, size))
            if division == "finite" and not methods:
                settings = {"division": division, "problem": name, "rows": size.rows}
                found.append(Unit(f"{division}-{name}-{REFERENCE}", settings, partial(reference, name, size)))
    return found


def _unit(name: str, method: str, division: Division, size: Size) -> Unit:
    calls = budgets(name, METHODS[method], division, size)
    settings = {
        "division": division,
        "problem": name,
        "method": repr(tunable(METHODS[method])),
        "cost": list(METHODS[method].cost),
        "budgets": list(calls),
        "seeds": size.seeds,
        "tuning_seeds": size.tuning_seeds,
        "rows": size.rows,
    }
    return Unit(f"{division}-{name}-{method}", settings, lambda _: compete(name, method, division, size))


def budgets(name: str, kind: type[Method], division: Division, size: Size) -> tuple[int, ...]:
    """The budgets of a method on a problem."""
    solved = challenge(name, division, size.rows)[0]
    numbers = sum(leaf.size for leaf in jax.tree.leaves(solved.samples.example()))
    means = "exact_constraints" in kind.needs and solved.table is not None
    if np.ndim(solved.x) == 2 or numbers > 1_000 or means:
        return size.heavy
    return size.budgets if division == "streams" else size.finite


def compete(name: str, method: str, division: Division, size: Size) -> pd.DataFrame:
    """A row for each budget and seed, of the setting that tuning chose and of the default one.

    What the library refuses becomes a row with its sentence in the column "refused".
    """
    solved, _ = challenge(name, division, size.rows)
    calls = budgets(name, METHODS[method], division, size)
    entry = enter(METHODS[method], solved, division, calls[0])
    who = {"division": division, "problem": name, "method": method, "given": ", ".join(entry.given)}
    try:
        runs = _runs(entry, solved, calls, size)
    except (ValueError, TypeError) as error:
        return pd.DataFrame([{**who, "refused": str(error)}])
    chosen = _chosen(runs)
    default = _setting({name: getattr(entry.method, name) for name in grid(entry, calls[0])})
    kept = runs[runs.setting.isin([chosen, default]) & (runs.seed < TUNING)]
    return kept.assign(**who, tuned=kept.setting == chosen, default=kept.setting == default, refused=None)


def _setting(coefficients: Mapping[Any, float]) -> str:
    """Coefficients as text, by which settings are told apart."""
    return json.dumps({name: float(f"{value:.6g}") for name, value in coefficients.items()})


@lru_cache(maxsize=64)
def _costs(entry: Entry, setting: str, steps: int) -> dict[str, int]:
    """What so many steps cost; of some methods it depends on the coefficients."""
    method = replace(entry.method, **json.loads(setting))
    cost, size = method.total_cost(steps), entry.batch_size
    counted = cost.samples * size, gradients_used(method, steps, size, entry.n), cost.projections, cost.lmos
    return dict(zip(Cost._fields, counted, strict=True))


def _runs(entry: Entry, solved: Solved, calls: tuple[int, ...], size: Size) -> pd.DataFrame:
    """All settings and seeds at every budget."""
    tuned = grid(entry, calls[0])
    seeds = [*range(size.seeds), *range(TUNING, TUNING + size.tuning_seeds)]
    # a method whose steps do not depend on the horizon passes the smaller budgets on its way to the largest
    ways = [calls] if entry.method.anytime else [(budget,) for budget in calls]
    tables = []
    for passed in ways:
        way = [entry.steps(budget) for budget in passed]
        began = time.perf_counter()
        table = sweep(
            entry.problem,
            entry.data,
            replace(entry.method, **tuned),
            steps=way[-1],
            seeds=seeds,
            batch_size=entry.batch_size,
            x0=entry.x0,
            record=way,
            points=True,
            progress=False,
        )
        seconds = (time.perf_counter() - began) / (len(table) // len(set(way))) * table.step / way[-1]
        settings = [_setting(row) for row in table[[*tuned]].to_dict("records")]
        costs = pd.DataFrame([_costs(entry, key, n) for key, n in zip(settings, table.step, strict=True)])
        values = {"seconds": seconds, **judge(solved, list(table.x))}
        budget = table.step.map(dict(zip(way, passed, strict=True)))
        columns = {"budget": budget, "seed": table.seed, "setting": settings, "steps": table.step}
        tables.append(pd.DataFrame(columns).join(costs).assign(**values))
    return pd.concat(tables, ignore_index=True)


def _chosen(runs: pd.DataFrame) -> str:
    """The setting with the least score over the seeds for tuning, by the geometric mean over budgets, so that no budget
    counts more than another. A run that diverged is infinitely bad."""
    tried = runs[runs.seed >= TUNING]
    means = tried.assign(score=tried.score.fillna(np.inf)).groupby(["setting", "budget"], sort=False).score.mean()
    logs = means.clip(lower=1e-15).map(np.log)
    return str(logs.groupby("setting", sort=False).mean().idxmin())


@lru_cache(maxsize=32)
def _values(solved: Solved) -> Any:
    return jax.jit(jax.vmap(lambda x: (solved.objective(x), solved.constraints(x))))


def judge(solved: Solved, points: list[Tree]) -> dict[str, np.ndarray]:
    """What outputs are worth, all without noise.

    gap: F(x) - F*, negative where the constraints are violated. violation: the largest H_i(x), minus the least possible
    where no point is feasible. lagrangian: gap + <dual*, H(x)>, which by duality is never negative. score: what a run is
    ranked by, gap + (1 + |dual*|_1) [violation]_+, which is at least [violation]_+; without a feasible point the
    violation in excess of the least.
    """
    f, h = (np.asarray(v, float) for v in _values(solved)(jax.tree.map(lambda *xs: jnp.stack(xs), *points)))
    violation = h.max(axis=1) - solved.least_violation
    if not solved.feasible:
        nothing = np.full(len(f), np.nan)
        return {"gap": nothing, "violation": violation, "lagrangian": nothing, "score": violation}
    gap, dual = f - solved.optimum, np.asarray(solved.dual, float)
    score = gap + (1 + np.abs(dual).sum()) * np.maximum(violation, 0)
    return {"gap": gap, "violation": violation, "lagrangian": gap + h @ dual, "score": score}


def reference(name: str, size: Size, _: Tables) -> pd.DataFrame:
    """SLSQP's solution of the data at hand as a row; its passes cost gradients of all rows."""
    solved, found = challenge(name, "finite", size.rows)
    who = {"division": "finite", "problem": name, "method": REFERENCE, "given": ""}
    if found is None:
        return pd.DataFrame([{**who, "refused": f"SLSQP cannot be told {solved.problem.domain.name}"}])
    n = len(jax.tree.leaves(solved.table)[0])
    calls = n * found.evaluations
    costs = {"steps": found.evaluations, "samples": calls, "gradients": calls, "projections": 0, "lmos": 0}
    run = {
        "budget": calls,
        "seed": 0,
        "setting": "{}",
        **costs,
        "seconds": found.seconds,
        "tuned": True,
        "default": True,
    }
    values = judge(solved, [jax.tree.map(jnp.asarray, found.x)])
    return pd.DataFrame([{**who, **run, **{key: value[0] for key, value in values.items()}, "refused": None}])
