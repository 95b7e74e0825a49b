"""The table of the contract: instances of every set in the registry, each with an independent model of itself."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import cvxpy as cp
import numpy as np
from scipy.optimize import linprog

from tightrope.sets import (
    Box,
    ConvexSet,
    GroupBall,
    L1Ball,
    L2Ball,
    LinfBall,
    NuclearBall,
    Polytope,
    Product,
    Simplex,
    Spectraplex,
)

Model = Callable[[Any], list]  # the cvxpy constraints on a point, which is one vector of all its coordinates
Best = Callable[[np.ndarray], float]  # the smallest <g, v> over the set, by other means


@dataclass(frozen=True)
class Case:
    """One instance of a set.

    Args:
        name: for the test's name.
        set: the instance.
        model: its cvxpy constraints; without them no comparison with cvxpy.
        best: the smallest <g, v>; by cvxpy where it is not given.
        slack: what the oracles may miss beside rounding, relative to the set's size.
        attained: whether two vertices are as far apart as the diameter says.
    """

    name: str
    set: ConvexSet
    model: Model | None = None
    best: Best | None = None
    slack: float = 0.0
    attained: bool = True


def by_linprog(A: np.ndarray, b: np.ndarray) -> Best:
    """Over {v: A v <= b}."""
    return lambda g: linprog(g, A, b, bounds=(None, None)).fun


def signs(n: int) -> np.ndarray:
    return np.array(list(itertools.product((-1.0, 1.0), repeat=n)))


def interval_rows(lower: Any, upper: Any) -> tuple[np.ndarray, np.ndarray]:
    n = len(lower)
    return np.vstack([np.eye(n), -np.eye(n)]), np.concatenate([upper, -np.asarray(lower)])


def simplex_rows(n: int, total: float) -> tuple[np.ndarray, np.ndarray]:
    A = np.vstack([-np.eye(n), np.ones((1, n)), -np.ones((1, n))])
    return A, np.concatenate([np.zeros(n), [total, -total]])


def as_matrix(v: Any, shape: tuple[int, int]) -> Any:
    return cp.reshape(v, shape, order="C")


def semidefinite(v: Any, n: int, trace: float) -> list:
    X = as_matrix(v, (n, n))
    return [X >> 0, X == X.T, cp.trace(X) == trace]


def smallest_singular(shape: tuple[int, int], radius: float) -> Best:
    return lambda g: -radius * np.linalg.svd(g.reshape(shape), compute_uv=False)[0]


def smallest_eigen(n: int, radius: float) -> Best:
    return lambda g: radius * np.linalg.eigvalsh((g.reshape(n, n) + g.reshape(n, n).T) / 2)[0]


LOWER, UPPER = np.array([-1.0, 0.0, 2.0, -5.0, 0.5]), np.array([1.0, 3.0, 2.0, -4.0, 0.75])
LABELS = np.array([3, 3, -1, 0, 0, 0])
# A cut cube away from zero; and a segment, which has no interior.
CUT_A = np.vstack([np.eye(3), -np.eye(3), [[1.0, 2.0, -1.0]]])
CUT_B = np.array([3.0, 3.0, 3.0, -1.0, -1.0, -1.0, 4.0])
FLAT_A, FLAT_B = simplex_rows(2, 0.3)


def group_model(v: Any) -> list:
    return [sum(cp.norm(v[k == LABELS], 2) for k in (3, -1, 0)) <= 1.3]


def product_model(v: Any) -> list:  # leaves in the order of the tree: b, then w's two parts
    return [cp.abs(v[0]) <= 1.0, v[1:4] >= 0, cp.sum(v[1:4]) == 1.5, cp.norm(v[4:], 2) <= 2.0]


CASES = [
    Case(
        "box-numbers",
        Box(-1.0, 2.0, shape=4),
        lambda v: [v >= -1.0, v <= 2.0],
        by_linprog(*interval_rows([-1.0] * 4, [2.0] * 4)),
    ),
    Case("box-arrays", Box(LOWER, UPPER), lambda v: [v >= LOWER, v <= UPPER], by_linprog(*interval_rows(LOWER, UPPER))),
    Case("box-1d", Box([-2.0], [3.0])),
    Case("box-tree", Box({"w": np.zeros((2, 2)), "b": -1.0}, {"w": np.ones((2, 2)), "b": 1.0})),
    Case("box-point", Box(1.0, 1.0, shape=3)),
    Case("l1", L1Ball(1.5, shape=6), lambda v: [cp.norm(v, 1) <= 1.5], by_linprog(signs(6), np.full(64, 1.5))),
    Case("l1-point", L1Ball(0.0, shape=3)),
    Case("l1-1d", L1Ball(2.0, shape=1)),
    Case("l1-tree", L1Ball(np.float64(3.0), shape={"w": 3, "b": ()}), lambda v: [cp.norm(v, 1) <= 3.0]),
    Case("l2", L2Ball(1.5, shape=6), lambda v: [cp.norm(v, 2) <= 1.5]),
    Case("l2-point", L2Ball(0.0, shape=3)),
    Case("l2-1d", L2Ball(2.0, shape=1)),
    Case("l2-tree", L2Ball(np.float64(3.0), shape=(4, {"b": (2, 2)})), lambda v: [cp.norm(v, 2) <= 3.0]),
    Case(
        "linf",
        LinfBall(1.5, shape=5),
        lambda v: [cp.norm(v, "inf") <= 1.5],
        by_linprog(*interval_rows([-1.5] * 5, [1.5] * 5)),
    ),
    Case("linf-point", LinfBall(0.0, shape=3)),
    Case("linf-tree", LinfBall(2.0, shape={"w": 1, "b": ()})),
    Case("simplex", Simplex(shape=5), lambda v: [v >= 0, cp.sum(v) == 1.0], by_linprog(*simplex_rows(5, 1.0))),
    Case("simplex-point", Simplex(0.0, shape=3)),
    Case("simplex-1d", Simplex(2.0, shape=1)),
    Case("simplex-tree", Simplex(2.5, shape={"w": (2, 2), "b": ()}), lambda v: [v >= 0, cp.sum(v) == 2.5]),
    Case("group", GroupBall(1.3, LABELS), group_model),
    Case("group-point", GroupBall(0.0, LABELS)),
    Case("group-single", GroupBall(2.0, [5, 5]), lambda v: [cp.norm(v, 2) <= 2.0]),
    Case(
        "group-tree",
        GroupBall(2.0, {"w": np.array([1, 1]), "b": np.array(4)}),
        lambda v: [cp.abs(v[0]) + cp.norm(v[1:], 2) <= 2.0],
    ),
    Case(
        "polytope",
        Polytope(CUT_A, CUT_B, projection=True),
        lambda v: [CUT_A @ v <= CUT_B],
        by_linprog(CUT_A, CUT_B),
        slack=1e-6,
        attained=False,
    ),
    Case(
        "polytope-flat",
        Polytope(FLAT_A, FLAT_B, projection=True, shape={"a": (), "b": ()}),
        lambda v: [FLAT_A @ v <= FLAT_B],
        by_linprog(FLAT_A, FLAT_B),
        slack=1e-6,
        attained=False,
    ),
    Case("polytope-lmo-only", Polytope([[2.0], [-0.5]], [3.0, 1.0]), slack=1e-6),
    Case("polytope-point", Polytope([[1.0], [-1.0]], [2.0, -2.0], projection=True), slack=1e-6),
    Case(
        "nuclear-wide",
        NuclearBall(2.0, shape=(3, 4)),
        lambda v: [cp.normNuc(as_matrix(v, (3, 4))) <= 2.0],
        smallest_singular((3, 4), 2.0),
    ),
    Case("nuclear-tall", NuclearBall(np.float64(0.5), shape=(4, 2)), best=smallest_singular((4, 2), 0.5)),
    Case("nuclear-1x1", NuclearBall(2.0, shape=(1, 1))),
    Case("nuclear-row", NuclearBall(2.0, shape=(1, 4)), lambda v: [cp.norm(v, 2) <= 2.0]),
    Case("nuclear-point", NuclearBall(0.0, shape=(2, 3))),
    Case("spectraplex", Spectraplex(shape=3), lambda v: semidefinite(v, 3, 1.0), smallest_eigen(3, 1.0)),
    Case("spectraplex-1x1", Spectraplex(2.0, shape=1)),
    Case("spectraplex-point", Spectraplex(0.0, shape=(2, 2))),
    Case(
        "product",
        Product({"w": (Simplex(1.5, shape=3), L2Ball(2.0, shape=(2, 3))), "b": Box(-1.0, 1.0, shape=())}),
        product_model,
    ),
    Case("product-lmo-only", Product((L2Ball(1.0, shape=2), Polytope([[1.0], [-1.0]], [2.0, 1.0]))), slack=1e-6),
    Case(
        "product-matrices",
        Product((NuclearBall(2.0, shape=(3, 2)), {"a": NuclearBall(1.0, shape=(2, 2))})),
        lambda v: [cp.normNuc(as_matrix(v[:6], (3, 2))) <= 2.0, cp.normNuc(as_matrix(v[6:], (2, 2))) <= 1.0],
    ),
]

# The first instance of every set; the slow comparisons need no more.
FIRST = {c.name for c in {type(c.set): c for c in reversed(CASES)}.values()}
