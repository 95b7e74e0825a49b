"""Domains of random problems: sets in natural units, as vectors that solvers read and as the sets that users write.

A domain is one or several leaves, laid out one after the other in a vector of d coordinates of order one. A unit for each
coordinate leads to the user's domain: a box may have another one in each coordinate, every other set has one.
"""

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np

import tightrope as tr


@dataclasses.dataclass(frozen=True)
class Leaf:
    """A set of vectors in natural units: "box" (between `lower` and `upper`), or of a `radius`.

    The others are "l2 ball", "l1 ball", "simplex" and "nuclear ball" (of matrices of `shape`, laid out by rows).
    """

    name: str
    kind: str
    shape: tuple[int, ...]
    radius: float = 1.0
    lower: np.ndarray = dataclasses.field(default_factory=lambda: np.zeros(0))
    upper: np.ndarray = dataclasses.field(default_factory=lambda: np.zeros(0))

    @property
    def size(self) -> int:
        """How many coordinates it has."""
        return int(np.prod(self.shape))

    def lmo(self, g: np.ndarray) -> np.ndarray:
        """A minimiser of <g, v> over the set."""
        if self.kind == "box":
            return np.where(g > 0, self.lower, self.upper)
        if self.kind == "l2 ball":
            return -self.radius * g / max(float(np.linalg.norm(g)), 1e-300)
        if self.kind == "nuclear ball":
            u, _, vt = np.linalg.svd(g.reshape(self.shape))
            return -self.radius * np.outer(u[:, 0], vt[0]).ravel()
        v, at = np.zeros(self.size), int(np.argmin(g) if self.kind == "simplex" else np.argmax(np.abs(g)))
        v[at] = self.radius if self.kind == "simplex" else -self.radius * (np.sign(g[at]) or 1.0)
        return v

    def start(self) -> np.ndarray:
        """The point in the middle."""
        if self.kind == "box":
            return (self.lower + self.upper) / 2
        return np.full(self.size, self.radius / self.size if self.kind == "simplex" else 0.0)

    def in_units(self, unit: np.ndarray) -> tr.ConvexSet:
        """The user's set."""
        if self.kind == "box":
            return tr.Box(self.lower * unit, self.upper * unit, shape=self.shape)
        made = {"l2 ball": tr.L2Ball, "l1 ball": tr.L1Ball, "simplex": tr.Simplex, "nuclear ball": tr.NuclearBall}
        return made[self.kind](float(self.radius * unit[0]), shape=self.shape)

    def cvxpy(self, v: Any) -> list[Any]:
        """The set as constraints on an expression of cvxpy."""
        import cvxpy as cp

        if self.kind == "box":
            return [v >= self.lower, v <= self.upper]
        if self.kind == "simplex":
            return [v >= 0, cp.sum(v) == self.radius]
        if self.kind == "nuclear ball":
            return [cp.normNuc(cp.reshape(v, self.shape, order="C")) <= self.radius]
        return [(cp.norm2(v) if self.kind == "l2 ball" else cp.norm1(v)) <= self.radius]


@dataclasses.dataclass(frozen=True)
class Domain:
    """A leaf, or the product of several."""

    leaves: tuple[Leaf, ...]

    @property
    def d(self) -> int:
        """How many coordinates there are."""
        return sum(leaf.size for leaf in self.leaves)

    @property
    def names(self) -> tuple[str, ...]:
        """The leaves' names, in the order of the coordinates."""
        return tuple(leaf.name for leaf in self.leaves)

    @property
    def said(self) -> str:
        """The set in words; the quantiles that belong to CVaR are no part of it."""
        return " x ".join(leaf.kind for leaf in self.leaves if leaf.name != "u")

    def parts(self, v: Any) -> Iterator[tuple[Leaf, Any]]:
        """Each leaf and its slice of a vector."""
        at = 0
        for leaf in self.leaves:
            yield leaf, v[at : at + leaf.size]
            at += leaf.size

    def lmo(self, g: np.ndarray) -> np.ndarray:
        """A minimiser of <g, v> over the domain."""
        return np.concatenate([leaf.lmo(part) for leaf, part in self.parts(g)])

    def width(self, g: np.ndarray) -> float:
        """How far the linear function <g, v> ranges over the domain."""
        return float(g @ (self.lmo(-g) - self.lmo(g)))

    def start(self) -> np.ndarray:
        """The point in the middle."""
        return np.concatenate([leaf.start() for leaf in self.leaves])

    def in_units(self, units: np.ndarray) -> tr.ConvexSet:
        """The user's domain: a set of arrays where there is one leaf, otherwise a product with names."""
        sets = {leaf.name: leaf.in_units(part) for leaf, part in self.parts(units)}
        return next(iter(sets.values())) if len(sets) == 1 else tr.Product(sets)

    def tree(self, v: np.ndarray) -> Any:
        """A vector as a point of the user's domain (without a change of units)."""
        arrays = {leaf.name: np.reshape(part, leaf.shape) for leaf, part in self.parts(v)}
        return next(iter(arrays.values())) if len(arrays) == 1 else arrays

    def vector(self, x: Any) -> np.ndarray:
        """A point of the user's domain as a vector, in float64 (without a change of units)."""
        leaves = [x[name] for name in self.names] if len(self.leaves) > 1 else [x]
        return np.concatenate([np.ravel(np.asarray(leaf, np.float64)) for leaf in leaves])

    def cvxpy(self, v: Any) -> list[Any]:
        """The domain as constraints on an expression of cvxpy."""
        return [rule for leaf, part in self.parts(v) for rule in leaf.cvxpy(part)]
