"""What looks at all the data find, prove and choose, one after the other: numbers kept in test_looks.json.

They are not right because they stand there: other tests hold bounds and optima against solvers. Here no constant, sign, cap
or default of the bundle method and of SQP changes unless somebody means it.
`PYTHONPATH=src:tests python tests/methods/test_looks.py` writes them anew.

Values, slopes and curvature over all rows are written down in NumPy: nothing is compiled, and a look takes milliseconds.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import stored
from test_paths import declared

import tightrope as tr
from tightrope.methods.bundle import look as of_bundle
from tightrope.methods.second_order import look as of_sqp
from tightrope.methods.second_order.state import unpacked

TABLE = Path(__file__).with_suffix(".json")
RTOL, FLOOR = 1e-6, 1e-9  # solvers are in the way

# ---- problems --------------------------------------------------------------------------------------------------------

_RNG = np.random.default_rng(4)
_FEW = {"a": _RNG.normal([0.9, -0.6, 0.4], 0.5, size=(40, 3)), "b": _RNG.normal(0.4, 0.3, size=(40, 2))}
_MANY = {"a": _RNG.normal([0.9, -0.6, 0.4], 0.5, size=(9000, 3)), "b": _RNG.normal(0.4, 0.3, size=(9000, 2))}
_WIDE = {"a": _RNG.normal(0.3, 0.5, size=(9000, 14)), "b": _RNG.normal(0.4, 0.3, size=(9000, 2))}
ROUND, KINKED, BOTH = (1.0, 0.2, 0.0), (0.0, 0.0, 1.0), (0.5, 0.1, 0.4)  # of squares, fourth powers and kinks
PLAIN = {"share": ROUND, "f": 1.0, "h": np.ones(2), "x": np.ones(3), "coarse": 1.0, "bend": 1.0, "wrong": 0.0}
SCALED = PLAIN | {"f": 500.0, "h": np.array([0.004, 30.0]), "x": np.array([0.01, 1.0, 50.0]), "coarse": 1e10}


def seen(problem: Any, x: np.ndarray, rows: dict[str, np.ndarray]) -> tuple[Any, ...]:
    """F, H and their slopes: squares, fourth powers and absolute values; a constraint that bends and one that does not."""
    how, (p, q) = problem.params, rows["b"].T
    (two, four, one), y, c = how["share"], np.asarray(x) / how["x"], how["x"]
    apart, e = y - rows["a"], np.eye(len(y))
    above = (y[0] + p >= q - y[1])[:, None]
    curved, straight = how["bend"], 1 - how["bend"]
    powers = two * apart**2 / 2 + four * apart**4 + one * np.abs(apart)
    f = np.sum(curved * powers + straight * y, axis=1).mean() + how["wrong"]
    grad = (curved * (two * apart + 4 * four * apart**3 + one * np.sign(apart)) + straight).mean(axis=0)
    bends = two * y @ y + four * y[0] ** 4 + one * np.maximum(y[0] + p, q - y[1]).mean() + p.mean() * y[1]
    slope = (
        2 * two * y + 4 * four * y[0] ** 3 * e[0] + one * np.where(above, e[0], -e[1]).mean(axis=0) + p.mean() * e[1]
    )
    h = how["h"] * np.array([bends, y[0] - q.mean() * y[1] + p.mean()]) - problem.levels
    return how["f"] * f, h, how["f"] * grad / c, how["h"][:, None] * np.stack([slope, e[0] - q.mean() * e[1]]) / c


def some_of(rows: Any, some: Any, size: int | None) -> Any:
    """So many slices of the rows."""
    count = len(rows["b"]) if some is None else int(some.slices) * (size or 1)
    first = 0 if some is None else int(some.first)
    return jax.tree.map(lambda v: v[first : first + count], rows)


def see(problem: Any, x: Any, data: Any, some: Any = None, rows_a_slice: int | None = None) -> np.ndarray:
    """In the place of the compiled function of that name, as are those below."""
    found = seen(problem, x, some_of(data, some, rows_a_slice))
    return np.concatenate([np.ravel(v) for v in (x, *found)])


def glance_at(problem: Any, x: Any, data: Any, *_: Any) -> np.ndarray:
    """Means, and the sizes that rounding is counted in: so large for some problems that it shows in every digit."""
    f, h, grad, rows = seen(problem, x, data)
    means = np.column_stack([np.append(f, h), np.vstack([grad, rows])])
    return np.stack([means, problem.params["coarse"] * (1.5 * np.abs(means) + 0.1)]).ravel()


def hessian(problem: Any, x: Any, lam: Any, data: Any, some: Any, rows_a_slice: int) -> np.ndarray:
    """Of the Lagrangian."""
    how, rows = problem.params, some_of(data, some, rows_a_slice)
    (two, four, _), y = how["share"], np.asarray(x) / how["x"]
    of_f = how["f"] * how["bend"] * np.diag(two + 12 * four * np.mean((y - rows["a"]) ** 2, axis=0))
    if how["bend"] == 0.5:  # a problem whose second derivatives are not finite
        of_f[0, 0] = np.inf
    of_h = how["h"][0] * (2 * two * np.eye(len(y)) + 12 * four * y[0] ** 2 * np.outer(*2 * [np.eye(len(y))[0]]))
    return (of_f + float(lam[0]) * of_h) / how["x"] / how["x"][:, None]


@contextmanager
def in_numpy() -> Iterator[None]:
    """Looks that see what is written above."""
    with (
        patch.object(of_bundle, "see", see),
        patch.object(of_sqp, "see", see),
        patch.object(of_bundle, "glance_at", glance_at),
        patch.object(of_bundle, "lagrangian_hessian", hessian),
        patch.object(of_sqp, "lagrangian_hessian", hessian),
    ):
        yield


BOX, BALL, SIMPLEX = (np.array([-1.0, -0.8, -2.0]), np.array([1.5, 0.9, 2.0])), 1.1, 1.3


def nothing(x: Any, theta: Any, how: Any) -> Any:
    """In the place of functions that are not called."""
    raise NotImplementedError


def problem(how: dict[str, Any], levels: Any, domain: Any = None) -> tr.Problem:
    """With levels and box in the units of the functions and of x."""
    domain = domain or tr.Box(*(side * how["x"] for side in BOX), shape=3)
    return tr.Problem(nothing, nothing, domain, levels=np.asarray(levels) * how["h"], params=how)


# ---- runs ------------------------------------------------------------------------------------------------------------


@in_numpy()
def looks(method: Any, problem: Any, count: int, x: Any = None, lam: Any = None, data: Any = _FEW) -> Any:
    """What is known after every look, what is kept at the end, and what is proven then."""
    x = problem.domain.start(float) if x is None else jnp.asarray(x)
    state = method.init(problem, x, jnp.zeros(2) if lam is None else jnp.asarray(lam), jnp.asarray(100))
    first = state = jax.tree.map(np.asarray, state)
    after, infos, proofs = [], [], []
    for _ in range(count):
        state = jax.tree.map(np.asarray, method.refresh(problem, state, data))
        known = unpacked(state, method.memory) if isinstance(method, tr.SQP) else state
        after.append(known._replace(kept=known.kept.used)._asdict())
        proofs.append(method.proof(state)._replace(conflict=known.conflict)._asdict())
        del proofs[-1]["points"]  # they are in what is kept
        state, info = method.step(problem, state, None)
        state = jax.tree.map(np.asarray, state)
        infos.append(info._asdict())

    def stacked(each: list[Any]) -> Any:
        return jax.tree.map(lambda *v: np.stack([np.asarray(one, float) for one in v]), *each)

    return {
        "first": first,
        "looks": stacked(after),
        "proofs": stacked(proofs),
        "reported": stacked(infos),
        "kept": unpacked(state, method.memory).kept if isinstance(method, tr.SQP) else state.kept,
        "answer": method.answer(state),
    }


BUNDLE, SQP = tr.Bundle(memory=8), tr.SQP(memory=4)
FAR = np.array([-0.9, 0.7, -1.5])
MIXED = SCALED | {"share": BOTH}
WIDE = PLAIN | {"x": np.linspace(0.5, 2.0, 14)}


def boxed(how: dict[str, Any], side: float) -> tr.Box:
    return tr.Box(-side * how["x"], side * how["x"], shape=len(how["x"]))


CASES: dict[str, Callable[[], Any]] = {
    "bundle/: round": lambda: looks(BUNDLE, problem(PLAIN, [0.5, 0.1]), 6),
    "bundle/: kinked": lambda: looks(BUNDLE, problem(PLAIN | {"share": KINKED}, [0.5, 0.1]), 12),
    "bundle/: both, from far, in other units": lambda: looks(
        tr.Bundle(level=0.3, slack=0.2, memory=8), problem(MIXED, [0.4, 0.2]), 14, x=FAR * SCALED["x"], lam=[0.2, 0.1]
    ),
    "bundle/: no point is feasible": lambda: looks(BUNDLE, problem(MIXED, [-0.5, -0.9]), 8),
    "bundle/: hardly a point is feasible": lambda: looks(BUNDLE, problem(MIXED, [-0.14, 0.2]), 8),
    "bundle/: simplex": lambda: looks(
        BUNDLE, problem(PLAIN | {"share": BOTH}, [0.9, 0.3], tr.Simplex(1.3, shape=3)), 6
    ),
    "bundle/: linear": lambda: looks(BUNDLE, problem(SCALED | {"bend": 0.0}, [0.5, 0.4]), 9),
    "bundle/: without a Hessian": lambda: looks(BUNDLE, problem(SCALED | {"bend": 0.5}, [0.5, 0.4]), 6),
    "bundle/: not finite": lambda: looks(BUNDLE, problem(PLAIN | {"wrong": np.nan}, [0.5, 0.4]), 2),
    "bundle/: ball": lambda: looks(BUNDLE, problem(PLAIN | {"share": BOTH}, [0.9, 0.3], tr.L2Ball(0.9, shape=3)), 6),
    "second_order/: round": lambda: looks(SQP, problem(PLAIN, [0.4, 0.9]), 4),
    "second_order/: in other units": lambda: looks(
        tr.SQP(trust=0.5, memory=4), problem(SCALED, [0.3, 0.0]), 7, x=FAR * SCALED["x"], lam=[0.2, 0.1]
    ),
    "second_order/: with kinks": lambda: looks(SQP, problem(MIXED, [0.4, 0.2]), 10, x=FAR * SCALED["x"]),
    "second_order/: with kinks alone": lambda: looks(
        SQP, problem(SCALED | {"share": (0.01, 0.0, 1.0)}, [0.4, 0.2]), 24
    ),
    "second_order/: with kinks alone, from far": lambda: looks(
        tr.SQP(trust=3.0, memory=5), problem(PLAIN | {"share": (0.02, 0.0, 1.0)}, [0.7, 0.9]), 24, x=FAR
    ),
    "second_order/: linear": lambda: looks(SQP, problem(SCALED | {"bend": 0.0}, [0.5, 1.4]), 6),
    "second_order/: without a Hessian": lambda: looks(SQP, problem(SCALED | {"bend": 0.5}, [0.5, 1.4]), 5),
    "second_order/: not finite": lambda: looks(SQP, problem(PLAIN | {"wrong": np.nan}, [0.5, 0.4]), 2),
    "second_order/: l1": lambda: looks(SQP, problem(PLAIN | {"coarse": 1e9}, [0.9, 0.3], tr.L1Ball(1.1, shape=3)), 4),
    "second_order/: no point is feasible": lambda: looks(SQP, problem(SCALED, [-0.5, -2.9]), 7),
    "second_order/: hardly a point is feasible": lambda: looks(SQP, problem(SCALED, [-0.05, 0.2]), 7),
    "second_order/: ball": lambda: looks(SQP, problem(PLAIN, [0.3, 0.9], tr.L2Ball(0.7, shape=3)), 4),
    "second_order/: simplex": lambda: looks(SQP, problem(PLAIN, [0.9, 0.3], tr.Simplex(1.3, shape=3)), 5),
    "second_order/: many rows": lambda: looks(SQP, problem(SCALED, [0.5, 0.1]), 3, data=_MANY),
    "second_order/: many rows and coordinates": lambda: looks(
        SQP, problem(WIDE, [0.5, 0.1], boxed(WIDE, 1.5)), 4, data=_WIDE
    ),
    "second_order/: many rows with kinks": lambda: looks(
        SQP, problem(WIDE | {"share": BOTH}, [0.5, 0.1], boxed(WIDE, 1.5)), 6, data=_WIDE
    ),
}


def of_methods() -> Any:
    """What the two declare."""
    on_box = problem(PLAIN, [0.5, 0.1])
    return {"bundle": declared(tr.Bundle(), on_box), "sqp": declared(tr.SQP(), on_box)}


FOUND = {**CASES, "declared": of_methods}


@pytest.fixture(scope="module")
def table():
    return stored.read(TABLE)


@pytest.mark.parametrize("name", FOUND)
def test_looks_find_what_they_found(name, table):
    stored.assert_as_stored(table[name], FOUND[name](), RTOL, FLOOR)


if __name__ == "__main__":
    stored.write(TABLE, FOUND)
