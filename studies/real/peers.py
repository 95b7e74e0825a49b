"""What users take instead: SciPy with exact derivatives from the same start, and cvxpy."""

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from scipy import optimize

import tightrope as tr

if TYPE_CHECKING:
    from studies.real.truth import Truth

MANY = 300  # coordinates above which SLSQP, whose model is dense, is not asked; a guess


class NotWritten(Exception):
    """A domain that cannot be told to SciPy, or too many coordinates for it."""


class Scipy:
    """The problem for SciPy: x = E v, bounds of v, and further constraints, those of the domain and of h."""

    def __init__(self, truth: "Truth"):
        self.truth = truth
        self.parts: list[tuple[np.ndarray, ...]] = []  # of each leaf: lower and upper bounds of v, its start, and E
        self.equal: list[Any] = []
        self.below: list[Any] = []
        leaves = jax.tree.leaves(truth.problem.domain, is_leaf=_plain)
        points = [np.asarray(p) for p in jax.tree.leaves(truth.point(truth.start))]
        if len(leaves) != len(points) or len(truth.start) > MANY:
            raise NotWritten
        for part, point in zip(leaves, points, strict=True):
            self._add(part, point)
        self.lower, self.upper, self.start = (np.concatenate([p[k] for p in self.parts]) for k in range(3))
        self.E = _blocks([p[3] for p in self.parts])

    def _add(self, part: tr.ConvexSet, leaf: np.ndarray) -> None:
        """Write down the set of one leaf."""
        point = leaf.ravel()
        d, at = len(point), sum(len(p[2]) for p in self.parts)
        here = slice(at, at + d)
        inf, free = np.full(d, math.inf), np.eye(d)
        if isinstance(part, tr.Box | tr.LinfBall):
            low, high = (part.lower, part.upper) if isinstance(part, tr.Box) else (-part.radius, part.radius)
            low, high = (np.broadcast_to(np.asarray(b, float), np.shape(leaf)).ravel() for b in (low, high))
            new = low, high, point, free
        elif isinstance(part, tr.Simplex):
            total = float(part.radius)
            self.equal.append((lambda v: v[here].sum() - total, _ones(here)))
            new = np.zeros(d), inf, point, free
        elif isinstance(part, tr.L2Ball):
            radius = float(part.radius)
            self.below.append((lambda v: 1 - (v[here] / radius) @ (v[here] / radius), _inwards(here, radius)))
            new = -inf, inf, point, free
        elif isinstance(part, tr.L1Ball):
            radius, both = float(part.radius), slice(at, at + 2 * d)
            self.below.append((lambda v: 1 - v[both].sum() / radius, lambda v: -_ones(both)(v) / radius))
            point = np.concatenate([np.maximum(point, 0), np.maximum(-point, 0)])
            new = np.zeros(2 * d), np.full(2 * d, math.inf), point, np.hstack([free, -free])
        else:
            raise NotWritten
        self.parts.append(new)

    def solve(self, method: str = "SLSQP", units: np.ndarray | None = None) -> np.ndarray:
        """x, as a vector; found in `units` of the coordinates of x where these are given, which a user would not know."""
        truth, E = self.truth, self.E
        u = np.ones(len(self.start)) if units is None else np.abs(E).T @ units
        last: dict[str, Any] = {}

        def see(w: np.ndarray) -> dict[str, Any]:
            if not last or not np.array_equal(last["w"], w):
                x = E @ (u * w)
                (f, h), (df, dh) = truth.values(x), truth.slopes(x)
                last.update(w=w.copy(), f=f, h=h, df=(df @ E) * u, dh=(dh @ E) * u)
            return last

        rules = [_rule("eq", f, g, u) for f, g in self.equal] + [_rule("ineq", f, g, u) for f, g in self.below]
        if truth.N:
            rules.append({"type": "ineq", "fun": lambda w: -see(w)["h"], "jac": lambda w: -see(w)["dh"]})
        size = 1.0 if units is None else max(abs(see(self.start / u)["f"]), 1e-300)
        size = size if math.isfinite(size) else 1.0
        options = {"maxiter": 1000, "ftol": 1e-10 if units is None else 1e-12}
        if method == "trust-constr":
            options = {"maxiter": 300, "gtol": 1e-10, "xtol": 1e-12}
        with np.errstate(all="ignore"):
            found = optimize.minimize(
                lambda w: see(w)["f"] / size,
                self.start / u,
                jac=lambda w: see(w)["df"] / size,
                bounds=list(zip(self.lower / u, self.upper / u, strict=True)),
                constraints=rules,
                method=method,
                options=options,
            )
        v = np.clip(u * found.x, self.lower, self.upper)
        return E @ v


def _plain(part: Any) -> bool:
    return isinstance(part, tr.ConvexSet) and not isinstance(part, tr.Product)


def _ones(here: slice) -> Callable[[np.ndarray], np.ndarray]:
    def slopes(v: np.ndarray) -> np.ndarray:
        out = np.zeros_like(v)
        out[here] = 1.0
        return out

    return slopes


def _inwards(here: slice, radius: float) -> Callable[[np.ndarray], np.ndarray]:
    def slopes(v: np.ndarray) -> np.ndarray:
        out = np.zeros_like(v)
        out[here] = -2 * v[here] / radius**2
        return out

    return slopes


def _rule(kind: str, value: Any, slopes: Any, u: np.ndarray) -> dict[str, Any]:
    return {"type": kind, "fun": lambda w: value(u * w), "jac": lambda w: slopes(u * w) * u}


def _blocks(maps: list[np.ndarray]) -> np.ndarray:
    """A block-diagonal matrix."""
    out = np.zeros((sum(m.shape[0] for m in maps), sum(m.shape[1] for m in maps)))
    i = j = 0
    for m in maps:
        out[i : i + m.shape[0], j : j + m.shape[1]] = m
        i, j = i + m.shape[0], j + m.shape[1]
    return out
