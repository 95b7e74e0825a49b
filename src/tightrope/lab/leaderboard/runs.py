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

from tightrope._jaxlib import compiled
from tightrope._sweep import sweep
from tightrope.lab.leaderboard.divisions import SOURCES, Counted, Source, counts
from tightrope.lab.leaderboard.entrants import Entry, automatic, challenge, enter, misfit, settings, tunable, untouched
from tightrope.lab.leaderboard.hidden import SEED, is_hidden, name_of
from tightrope.lab.problems import PROBLEMS, Solved
from tightrope.lab.work import TUNING, Tables, Unit
from tightrope.loop.prepare import cost_of_a_step
from tightrope.methods import Method, registered
from tightrope.methods.base import Algorithm
from tightrope.solvers import Solver
from tightrope.tree import Tree, replace

GIVEN = {"unconstrained", "exact_constraints"}
"""Needs for which a method is given what others are not; of hidden instances nothing is given away."""

REFERENCE = "slsqp"
"""The batch method that is also given the data at hand."""

CALLS_A_MINIMISATION = 20
"""With data at hand, by how much budgets of linear minimisations are smaller than those of calls, by hand: to some methods a
minimisation is a pass over all rows. Of a stream every method minimises once a sample, and the budgets are the same."""


@dataclasses.dataclass(frozen=True)
class Size:
    """How much work to do. The defaults are the full leaderboard.

    Attributes:
        budgets: oracle calls of a stream.
        heavy: those of runs whose steps are slow: points that are matrices, a thousand numbers a sample, or constraints
            that are means over a table.
        finite: oracle calls of data at hand.
        seeds: runs of the chosen setting.
        tuning_seeds: other runs, by which the setting is chosen.
        rows: how many rows a data set has, where the problem has no table of its own.
        streams: the problems with streams, by name; by default all.
        tables: the problems with data at hand, by name.
        hidden: how many hidden instances to draw, each from both sources.
        hidden_seed: what they are drawn from.
    """

    budgets: tuple[int, ...] = (400, 1_600, 6_400)
    heavy: tuple[int, ...] = (80, 320, 1_280)
    finite: tuple[int, ...] = (500, 2_000, 8_000)
    seeds: int = 12
    tuning_seeds: int = 4
    rows: int = 500
    streams: tuple[str, ...] = tuple(PROBLEMS)
    tables: tuple[str, ...] = ("simplex", "neyman-pearson", "fair-logistic", "portfolio", "completion")
    hidden: int = 12
    hidden_seed: int = SEED

    def problems(self, source: Source) -> tuple[str, ...]:
        """The problems with samples from this source, by name; hidden instances are the last."""
        known = self.streams if source == "streams" else self.tables
        return (*known, *(name_of(self.hidden_seed, number) for number in range(1, self.hidden + 1)))


FULL = Size()
QUICK = Size(budgets=(400, 1_600), finite=(500, 2_000), streams=("ball",), tables=("simplex",), hidden=1)


def units(size: Size, methods: tuple[str, ...] = ()) -> list[Unit]:
    """Every method on every problem that it fits, and SLSQP on the data at hand."""
    found = []
    for source in SOURCES:
        for name in size.problems(source):
            solved = challenge(name, source, size.rows)[0]
            for method, kind in registered().items():
                wanted = (not methods or method in methods) and not (is_hidden(name) and kind.needs & GIVEN)
                if wanted and misfit(kind, solved, source) is None:
                    found.append(_unit(name, method, source, size))
            if source == "finite" and not methods and not is_hidden(name):
                settings = {"source": source, "problem": name, "rows": size.rows}
                found.append(Unit(f"{source}-{name}-{REFERENCE}", settings, partial(reference, name, size)))
    return found


def _unit(name: str, method: str, source: Source, size: Size) -> Unit:
    kind = registered()[method]
    settings = {
        "source": source,
        "problem": name,
        "method": repr(tunable(kind)),
        "default": repr(kind()),
        "cost": list(cost_of_a_step(kind)),
        "budgets": {c: list(budgets(name, kind, source, size, c)) for c in counts(kind)},
        "seeds": size.seeds,
        "tuning_seeds": size.tuning_seeds,
        "rows": size.rows,
    }
    return Unit(f"{source}-{name}-{method}", settings, partial(compete, name, method, source, size))


def budgets(
    name: str, kind: type[Algorithm], source: Source, size: Size, counted: Counted = "calls"
) -> tuple[int, ...]:
    """The budgets of a method on a problem."""
    solved = challenge(name, source, size.rows)[0]
    numbers = sum(leaf.size for leaf in jax.tree.leaves(solved.samples.example()))
    means = "exact_constraints" in kind.needs and solved.table is not None
    heavy = np.ndim(solved.x) == 2 or numbers > 1_000 or means
    calls = size.heavy if heavy else size.budgets if source == "streams" else size.finite
    if counted == "lmos" and source == "finite":
        return tuple(-(-budget // CALLS_A_MINIMISATION) for budget in calls)
    return calls


def compete(name: str, method: str, source: Source, size: Size, _: Tables | None = None) -> pd.DataFrame:
    """A row for each budget and seed, of the setting that tuning chose and of the method as it is without coefficients.

    What the library refuses becomes a row with its sentence in the column "refused".
    """
    kind, solved = registered()[method], challenge(name, source, size.rows)[0]
    who = {"source": source, "problem": name, "method": method, "auto": automatic(solved, source) == method}
    tables = []
    for counted in ("calls",) if is_hidden(name) else counts(kind):
        allowed = budgets(name, kind, source, size, counted)
        entry = enter(kind, solved, source, allowed[0])
        who["given"] = ", ".join(entry.given)
        runs = _plain_runs if is_hidden(name) else _runs
        try:
            tables.append(runs(entry, solved, allowed, size, counted).assign(**who, counted=counted, refused=None))
        except (ValueError, TypeError) as error:
            tables.append(pd.DataFrame([{**who, "counted": counted, "refused": str(error)}]))
    return pd.concat([table.dropna(axis="columns", how="all") for table in tables], ignore_index=True)


def _setting(coefficients: Mapping[Any, float]) -> str:
    """Coefficients as text, by which settings are told apart."""
    return json.dumps({name: float(f"{value:.6g}") for name, value in coefficients.items()})


@lru_cache(maxsize=64)
def _costs(entry: Entry, setting: str, steps: int) -> dict[str, int]:
    """What this number of steps costs with these coefficients, on which the cost of some methods depends."""
    method = replace(entry.method, **json.loads(setting))
    return dataclasses.replace(entry, method=method).cost(steps)._asdict()


def _runs(entry: Entry, solved: Solved, allowed: tuple[int, ...], size: Size, counted: Counted) -> pd.DataFrame:
    """The runs of the chosen setting and of the default one at every budget.

    The default is one more setting of the same compiled program, unless without coefficients the method is another
    program: one that measures its own scales.
    """
    offered = settings(entry, allowed[0])
    seeds, tuning = (1, 1) if _same_for_all_seeds(entry.method) else (size.seeds, size.tuning_seeds)
    seeds = [*range(seeds), *range(TUNING, TUNING + tuning)]
    tables = []
    for way in _ways(entry, allowed):
        plain = untouched(entry, entry.steps(way[-1], counted))
        if jax.tree.structure(plain) == jax.tree.structure(entry.method):
            default = {name: float(getattr(plain, name)) for name in offered[0]}
            tables.append(_way(entry, solved, way, counted, [*offered, default], seeds))
        else:
            default = {}
            alone = dataclasses.replace(entry, method=plain)
            tables += [
                _way(entry, solved, way, counted, offered, seeds),
                _way(alone, solved, way, counted, [{}], seeds),
            ]
        tables[-1]["default"] = tables[-1].setting == _setting(default)
    runs = pd.concat(tables, ignore_index=True).drop_duplicates(["budget", "seed", "setting"])
    chosen = _chosen(runs[runs.setting.isin([_setting(one) for one in offered])])
    runs = runs.assign(tuned=runs.setting == chosen, default=runs.default.eq(True))
    return runs[(runs.tuned | runs.default) & (runs.seed < TUNING)]


def _plain_runs(entry: Entry, solved: Solved, allowed: tuple[int, ...], size: Size, counted: Counted) -> pd.DataFrame:
    """The runs without coefficients alone, at every budget: nothing is tuned."""
    seeds = [*range(1 if _same_for_all_seeds(entry.method) else size.seeds)]
    tables = []
    for way in _ways(entry, allowed):
        plain = dataclasses.replace(entry, method=untouched(entry, entry.steps(way[-1], counted)))
        tables.append(_way(plain, solved, way, counted, [{}], seeds))
    return pd.concat(tables, ignore_index=True).assign(tuned=False, default=True)


def _ways(entry: Entry, allowed: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Budgets by run: a method whose steps do not depend on the horizon passes the smaller on its way to the largest."""
    method = entry.method
    return [allowed] if isinstance(method, Solver) or getattr(method, "anytime", False) else [(b,) for b in allowed]


def _same_for_all_seeds(method: Algorithm) -> bool:
    """Whether a step sees all rows, so that every seed, which only orders the samples, gives the same run."""
    return isinstance(method, Solver) or (isinstance(method, Method) and method.facts.full_batch)


def _way(
    entry: Entry,
    solved: Solved,
    way: tuple[int, ...],
    counted: Counted,
    wanted: list[dict[str, float]],
    seeds: list[int],
) -> pd.DataFrame:
    """The wanted settings with all seeds, side by side in one run to the last of the budgets, past the others."""
    names = list(wanted[0])
    tried = {name: np.unique([setting[name] for setting in wanted]) for name in names}
    asked = pd.DataFrame({"budget": way, "step": [entry.steps(budget, counted) for budget in way]})
    began = time.perf_counter()
    table = sweep(
        entry.problem,
        entry.data,
        replace(entry.method, **tried),
        steps=int(asked.step.max()),
        seeds=seeds,
        batch_size=entry.batch_size,
        x0=entry.x0,
        record=sorted(set(asked.step)),
        points=True,
        progress=False,
    )
    took = (time.perf_counter() - began) / (len(table) // asked.step.nunique())
    given = table[names].to_dict("records") if names else [{}] * len(table)  # without coefficients, one setting for all
    table = table.assign(setting=list(map(_setting, given)))
    table = table[table.setting.isin([_setting(one) for one in wanted])].merge(asked, on="step")
    costs = pd.DataFrame([_costs(entry, key, n) for key, n in zip(table.setting, table.step, strict=True)])
    kept = table[["budget", "seed", "setting"]].assign(steps=table.step, seconds=took * table.step / asked.step.max())
    return kept.join(costs).assign(start=_start(solved), **worth_of(solved, list(table.x)))


def _chosen(runs: pd.DataFrame) -> str:
    """The setting with the least score over the seeds for tuning, by the geometric mean over budgets, so that no budget
    counts more than another. A run that diverged is infinitely bad."""
    tried = runs[runs.seed >= TUNING]
    means = tried.assign(score=tried.score.fillna(np.inf)).groupby(["setting", "budget"], sort=False).score.mean()
    logs = means.clip(lower=1e-15).map(np.log)
    return str(logs.groupby("setting", sort=False).mean().idxmin())


@lru_cache(maxsize=32)
def _values(solved: Solved) -> Any:
    return compiled(jax.vmap(lambda x: (solved.objective(x), solved.constraints(x))))


def worth_of(solved: Solved, points: list[Tree]) -> dict[str, np.ndarray]:
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


@lru_cache(maxsize=32)
def _start(solved: Solved) -> float:
    """The score of the set's own point, where nearly all runs begin."""
    return float(worth_of(solved, [jax.tree.map(jnp.asarray, solved.problem.domain.start())])["score"][0])


def reference(name: str, size: Size, _: Tables) -> pd.DataFrame:
    """SLSQP's solution of the data at hand as a row; its passes cost gradients of all rows."""
    solved, found = challenge(name, "finite", size.rows)
    who = {"source": "finite", "problem": name, "method": REFERENCE, "auto": False, "given": "", "counted": "calls"}
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
        "start": _start(solved),
    }
    values = worth_of(solved, [jax.tree.map(jnp.asarray, found.x)])
    return pd.DataFrame([{**who, **run, **{key: value[0] for key, value in values.items()}, "refused": None}])
