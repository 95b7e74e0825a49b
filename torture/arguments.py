"""Senseless arguments to every public call and to the methods of what they give, several at a time: a sentence of the
library's own, or a right answer; within five seconds and a gigabyte."""

import contextlib
import copy
import functools
import os
import random
import tempfile
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import sklearn

import tightrope as tr
from torture.campaign import (
    PROBLEM,
    ROWS,
    SAMPLERS,
    constraints,
    is_sentence,
    objective,
    options,
    smallest,
    told,
    watched,
)  # fmt: skip

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


def of_minimize(chance: random.Random, folder: Path) -> dict[str, Any]:
    """All arguments of a call, one to three of them senseless."""
    given = {name: chance.choice(values) for name, values in GOOD.items()}
    for name in chance.sample(list(GOOD), chance.randint(1, 3)):
        pool = BAD.get(name, ANY) + (ANY if name not in ("data", "problem", "progress") else [])
        given[name] = chance.choice(pool)
    if chance.random() < 0.2:
        with contextlib.suppress(TypeError, ValueError):  # a refusal, which the call "Problem" judges
            given["problem"] = problem(chance)
    if isinstance(given["checkpoint"], str | bytes):
        given["checkpoint"] = chance.choice([folder / "no" / "such", folder, given["checkpoint"]])
    return given


# ---- every other public call --------------------------------------------------------------------------------------------

FEW = ROWS[:60]
SET_ARGUMENTS: dict[str, list[Any]] = {"radius": [1.0, 2.0], "shape": [3]}


def _fed() -> tr.Online:
    run = tr.Online(PROBLEM)
    run.update(FEW)
    return run


def _kept(**given: Any) -> None:
    """Programs are kept in a folder, and then no more: it is deleted after the attack."""
    try:
        tr.compilation_cache(**given)
    finally:
        jax.config.update("jax_compilation_cache_dir", None)


@functools.cache
def _result() -> tr.Result:
    return tr.minimize(PROBLEM, FEW, method="csoa", steps=20, progress=False)


def _loss(x: Any, theta: Any) -> Any:
    return jnp.dot(x, theta)


def _nested(make: Callable[..., Any], *given: Any) -> Any:
    """A ready-made constraint, used in a problem and seen by a run."""
    problem = tr.Problem(objective, make(*given), tr.L2Ball(2.0, shape=3), levels=5.0)
    return tr.minimize(problem, FEW, method="bundle", passes=2, progress=False).x


CALLS: dict[str, tuple[Callable[..., Any], dict[str, list[Any]]]] = {
    "sweep": (
        lambda **given: tr.sweep(PROBLEM, FEW, **given),
        {
            "methods": [tr.CSOA(eta0=0.5, upsilon0=0.1)], "steps": [20], "seeds": [(0,)], "levels": [None, [0.5]],
            "batch_size": [None, 1], "x0": [None, np.zeros(3)], "record": [1, 2], "track": [None], "points": [False],
            "progress": [False], "memory": [2**30], "mesh": [None],
        },
    ),
    "certify": (
        lambda **given: tr.certify(PROBLEM, **given),
        {
            "point": [np.zeros(3), [0.0, 0.0, 0.0]], "heldout": [FEW], "confidence": [0.95],
            "ranges": [None, (-20.0, 20.0)], "accept": ["proven"], "anytime": [False], "data": [None],
            "population_gap": [False],
        },
    ),
    "check_problem": (
        lambda **given: tr.check_problem(PROBLEM, **given),
        {"data": [FEW], "x0": [None], "samples": [20], "seed": [0]},
    ),
    "Online": (
        lambda batch, **given: (run := tr.Online(PROBLEM, **given)).update(batch) or run.x,
        {"method": [None, tr.CSOA(anytime=True)], "x0": [None], "batch_size": [1, 2], "warm_start": [None],
         "example": [None, FEW], "batch": [FEW]},
    ),
    "Online.update": (lambda batch: (run := _fed()).update(batch) or run.x, {"batch": [FEW]}),
    "Online.certify": (
        lambda **given: (run := _fed()).certify(**given) or run.certificate,
        {"point": [None, np.zeros(3)], "ranges": [(-20.0, 20.0)], "confidence": [0.95]},
    ),
    "Online.load_state_dict": (lambda arrays: _fed().load_state_dict(arrays), {"arrays": [_fed().state_dict()]}),
    "Problem": (
        lambda **given: tr.minimize(tr.Problem(**given), FEW, method="csoa", steps=3, progress=False).x,
        {"objective": [objective], "constraints": [constraints], "domain": [PROBLEM.domain], "levels": [(0.5, 0.4)],
         "params": [None], "names": [None, ("a", "b")], "exact_constraints": [None], "inner": [None]},
    ),
    "Box": (tr.Box, {"lower": [-1.0], "upper": [1.0], "shape": [3, None]}),
    "GroupBall": (tr.GroupBall, {"radius": [1.0], "groups": [np.array([0, 0, 1])], "shape": [None, 3]}),
    "NuclearBall": (tr.NuclearBall, {"radius": [1.0], "shape": [(3, 2)], "rounds": [5]}),
    "Polytope": (
        tr.Polytope,
        {"A": [np.vstack([np.eye(2), -np.eye(2)])], "b": [np.ones(4)], "projection": [False], "shape": [None]},
    ),
    "Product": (tr.Product, {"sets": [{"a": tr.L2Ball(1.0, shape=2)}]}),
    "Rows": (lambda **given: tr.minimize(PROBLEM, tr.Rows(**given), method="csoa", steps=3).x,
             {"data": [FEW], "replace": [False], "mesh": [None], "shards": [64]}),
    "Generator": (tr.Generator, {"fn": [lambda key: jax.random.normal(key, (3,))]}),
    "Stream": (lambda factory: tr.minimize(PROBLEM, tr.Stream(factory), method="csoa", steps=3).x,
               {"factory": [[FEW]]}),
    "Parquet": (tr.Parquet, {"path": [Path("/nowhere.parquet")], "columns": [None], "dtypes": [None],
                             "categories": [None], "shuffle": [True], "shards": [16]}),
    "compilation_cache": (_kept, {"folder": [None], "max_bytes": [2**28]}),
    "lift_cvar": (
        lambda **given: tr.lift_cvar(PROBLEM, **given),
        {"alpha": [0.1], "lower": [-5.0], "upper": [5.0], "of": ["constraints", "objective"]},
    ),
    "penalised": (lambda **given: tr.penalised(PROBLEM, **given), {"weights": [1.0, np.ones(2)]}),
    "Result.report": (lambda path: _result().report(path), {"path": ["report.html"]}),
    "Result.plot": (lambda path: _result().plot(path), {"path": ["picture.png"]}),
    "variance_at_most": (lambda loss: _nested(tr.variance_at_most, loss), {"loss": [_loss]}),
    "entropic_risk_at_most": (
        lambda **given: tr.entropic_risk_at_most(**given), {"loss": [_loss], "sharpness": [1.0]},
    ),
}  # fmt: skip
CALLS |= {
    name: (getattr(tr, name), SET_ARGUMENTS) for name in ("L2Ball", "L1Ball", "LinfBall", "Simplex", "Spectraplex")
}
CALLS |= {
    name: (getattr(tr, name), coefficients)
    for name, coefficients in {
        "CSOA": {"eta0": [None, 0.5], "delta": [None], "upsilon0": [None, 0.1], "dual_scale": [None], "anytime": [False]},
        "FWCSOA": {"schedule": ["measured"], "eta0": [None], "rho0": [None], "delta": [None], "upsilon0": [None]},
        "SVRGCSOA": {"primal_scale": [1.0], "dual_scale": [0.5], "upsilon": [0.0], "refresh_every": [None],
                     "batch_size": [1], "directions": [None]},
        "SQP": {"trust": [1.0], "memory": [8], "pairs": [None]},
        "Bundle": {"level": [0.5], "slack": [0.5], "memory": [128]},
        "SplitCSOA": {"eta0": [None], "upsilon0": [None], "kappa0": [None], "lam_radius": [None], "anytime": [False]},
        "CSCGD": {"eta0": [4.0], "beta0": [4.0], "delta": [0.01], "upsilon0": [0.25], "schedule": ["published"]},
        "GOCO": {"v0": [1.0], "alpha0": [1.0], "margin0": [0.0]},
    }.items()
}  # fmt: skip
# ---- classes for tables -------------------------------------------------------------------------------------------------

_chance = np.random.default_rng(0)
X, GROUP = _chance.normal(size=(120, 3)), _chance.choice(["A", "B"], 120)
Y = np.where(X[:, 0] + _chance.normal(size=120) > 0, "yes", "no")
STARS = np.where(_chance.random((8, 6)) < 0.5, np.nan, _chance.normal(size=(8, 6)))
TABLES: dict[str, Callable[[], Any]] = {
    "FairLogisticRegression": lambda: tr.FairLogisticRegression(p_rule=0.2).fit(X, Y, sensitive_features=GROUP),
    "ConstrainedClassifier": lambda: tr.ConstrainedClassifier(subject_to={"fpr": 0.4}).fit(X, Y),
    "StructuredMatrixCompletion": lambda: tr.StructuredMatrixCompletion(
        nuclear_norm=5.0, unobserved_energy=10.0, steps=5, rank=2
    ).fit(STARS),
}
FITTED: dict[str, dict[str, list[Any]]] = {
    "FairLogisticRegression": {"X": [X], "y": [Y], "sensitive_features": [GROUP], "sample_weight": [None]},
    "ConstrainedClassifier": {"X": [X], "y": [Y], "sample_weight": [None]},
    "StructuredMatrixCompletion": {"X": [STARS]},
}
METHODS: dict[str, dict[str, list[Any]]] = {
    "predict": {"X": [X]}, "predict_proba": {"X": [X]}, "decision_function": {"X": [X]}, "score": {"X": [X], "y": [Y]},
    "save": {"path": ["kept.model"]}, "load": {"path": ["nowhere.model"]}, "partial_fit": {"X": [X], "y": [Y]},
}  # fmt: skip
ODD: list[Any] = [
    np.ma.masked_array(X, mask=X > 1), [[1, 2], [3]] * 60, X.astype(object), X + 1j, X[:0], np.full((120, 3), 1e200),
    {"g": GROUP}, memoryview(b"x" * 120), np.c_[GROUP, GROUP], iter([1]), Y.tolist(), {1, 2}, range(120),
]  # fmt: skip


@functools.cache
def _fitted(name: str) -> Any:
    return TABLES[name]()


def _fit(name: str, **given: Any) -> None:
    """A fit with these arguments, those of its class among them."""
    made: Any = sklearn.clone(_fitted(name))
    to_fit = {argument: given.pop(argument) for argument in FITTED[name]}
    made.set_params(**given).fit(**to_fit)


def _asked(name: str, method: str, **given: Any) -> None:
    """A method of a fitted one."""
    getattr(copy.deepcopy(_fitted(name)), method)(*given.values())


for _name, _arguments in FITTED.items():
    _own = {n: [v] for n, v in _fitted(_name).get_params(deep=False).items()}
    CALLS[_name] = functools.partial(_fit, _name), _arguments | _own
    for _method, _given in METHODS.items():
        if hasattr(_fitted(_name), _method) and not (_name == "StructuredMatrixCompletion" and "X" in _given):
            CALLS[f"{_name}.{_method}"] = functools.partial(_asked, _name, _method), _given
CALLS["StructuredMatrixCompletion.predict"] = (
    lambda rows, columns: _fitted("StructuredMatrixCompletion").predict(rows, columns), {"rows": [0], "columns": [[1]]},
)  # fmt: skip
CALLS["fairness_report"] = tr.fairness_report, {"y_pred": [Y], "sensitive": [GROUP], "y_true": [Y]}
NAMES = ("minimize", *CALLS)


def is_right(found: Any) -> bool:
    """Whether an answer that is a point is finite."""
    leaves = [found] if isinstance(found, np.ndarray | jax.Array) else []
    return all(bool(np.all(np.isfinite(np.asarray(leaf)))) for leaf in leaves)


def drawn(k: int, folder: Path) -> tuple[str, Callable[..., Any], dict[str, Any], list[tuple[str, Any]]]:
    """The call of an attack: its name, what to call, good arguments, and those that are not."""
    chance, name = random.Random(k), NAMES[k % len(NAMES)]
    if name == "minimize":
        given = of_minimize(chance, folder)
        senseless = [(n, v) for n, v in given.items() if not any(v is good for good in GOOD[n])]
        good = {n: v if any(v is g for g in GOOD[n]) else GOOD[n][0] for n, v in given.items()}
        return name, lambda **given: tr.minimize(given.pop("problem"), given.pop("data"), **given).x, good, senseless
    call, pools = CALLS[name]
    good = {n: chance.choice(values) for n, values in pools.items()}
    some = chance.sample(list(pools), min(len(pools), chance.randint(1, 3)))
    odd = ANY + (ODD if name.split(".")[0] in (*TABLES, "fairness_report") else [])
    return name, call, good, [(n, chance.choice(BAD.get(n, []) + odd)) for n in some]


def fails(name: str, call: Callable[..., Any], good: dict[str, Any], senseless: list[tuple[str, Any]]) -> str | None:
    """What is wrong with a call; None where it is refused in a sentence, or answered."""
    said = ", ".join(f"{n}={type(v).__name__} {v!r}"[:70] for n, v in senseless)
    try:
        found = call(**{**good, **dict(senseless)})
    except Exception as error:
        others = isinstance(error, FloatingPointError) or _of_scikit_learn(error)
        return None if is_sentence(error) or others else f"{name}({said}): {told(error)}"
    return None if is_right(found) else f"{name}({said}): {found}"


def _of_scikit_learn(error: BaseException) -> bool:
    """Whether scikit-learn says it, whose sentences are fine."""
    return "sklearn" in traceback.extract_tb(error.__traceback__)[-1].filename


def attack(k: int) -> str | None:
    """One call, and of a call that fails the smallest one that does."""
    here = Path.cwd()
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        os.chdir(folder)
        try:
            name, call, good, senseless = drawn(k, Path(folder))
            return smallest(senseless, functools.partial(fails, name, call, good))
        finally:
            os.chdir(here)


if __name__ == "__main__":
    watched("calls with senseless arguments", options(2000 * len(NAMES)), "torture.arguments", attack)
