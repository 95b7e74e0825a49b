"""A set written down for a solver: linear maps into a few simple cones. On the host, in float64."""

import math
from typing import Any, Literal, NamedTuple, Self

import numpy as np

Cone = tuple[Literal["zero", "nonnegative", "second order", "semidefinite"], int]
"""A cone and how many rows it takes: of a semidefinite n x n matrix the upper triangle, column by column, n (n + 1)/2 rows,
those off the diagonal times sqrt 2. The first row of a second-order cone bounds the length of the others."""


class Conic(NamedTuple):
    """All vectors x for which there is a z such that b - A x - E z is in a product of cones.

    Points that are trees are vectors here, leaf after leaf. The helpers z have no units: where the set is large, E is.
    """

    A: np.ndarray  # one row for each row of the cones, one column for each coordinate
    E: np.ndarray  # one column for each helper; may have none
    b: np.ndarray
    cones: tuple[Cone, ...]
    lower: np.ndarray  # a bounding box
    upper: np.ndarray

    @classmethod
    def of(
        cls,
        parts: list[tuple[str, Any, Any]],
        lower: Any,
        upper: Any,
        helpers: int = 0,
    ) -> Self:
        """From cones, each with its rows (over coordinates, then helpers) and its right-hand sides."""
        n, columns = np.size(lower), np.size(lower) + helpers
        kept = [(kind, np.reshape(rows, (-1, columns)), np.ravel(b)) for kind, rows, b in parts]
        rows = np.concatenate([rows for _, rows, _ in kept])
        cones: Any = tuple((kind, len(b)) for kind, _, b in kept if len(b))
        b = np.concatenate([b for *_, b in kept])
        return cls(rows[:, :n], rows[:, n:], b, cones, np.asarray(lower, float), np.asarray(upper, float))


def box(lower: np.ndarray, upper: np.ndarray) -> Conic:
    """All x between two bounds; a coordinate whose bounds are equal is an equation, for which solvers are grateful."""
    eye, fixed = np.eye(len(lower)), lower == upper
    free = ~fixed
    sides = np.concatenate([eye[free], -eye[free]]), np.concatenate([upper[free], -lower[free]])
    return Conic.of([("zero", eye[fixed], lower[fixed]), ("nonnegative", *sides)], lower, upper)


def point(x: np.ndarray) -> Conic:
    """One point alone."""
    return box(x, x)


def simplex(radius: float, n: int) -> Conic:
    """All x >= 0 whose coordinates sum to the radius."""
    parts = [("zero", np.ones((1, n)), [radius]), ("nonnegative", -np.eye(n), np.zeros(n))]
    return Conic.of(parts, np.zeros(n), np.full(n, radius))


def group_ball(radius: float, groups: np.ndarray) -> Conic:
    """All x whose group norms sum to at most the radius, by one bound z_G on each |x_G|/radius.

    Groups of one coordinate need no second-order cone: the l1 ball is all such; one group of all is the Euclidean ball.
    Without any room it is one point.
    """
    if radius == 0:
        return point(np.zeros(len(groups)))
    n, count = len(groups), int(groups.max()) + 1
    eye, bounds = np.eye(n), np.eye(count)
    parts: list[tuple[str, Any, Any]] = []
    if count == 1:
        return Conic.of([("second order", np.vstack([np.zeros(n), -eye]), [radius, *np.zeros(n)])], *_around(radius, n))
    alone = np.bincount(groups)[groups] == 1
    limits = -radius * bounds[groups[alone]]
    sides = np.block([[eye[alone], limits], [-eye[alone], limits]])
    parts += [("nonnegative", sides, np.zeros(len(sides)))]
    for g in np.unique(groups[~alone]):
        members = eye[groups == g]
        first = np.concatenate([np.zeros(n), -radius * bounds[g]])
        rows = np.vstack([first, np.hstack([-members, np.zeros((len(members), count))])])
        parts += [("second order", rows, np.zeros(len(rows)))]
    parts += [("nonnegative", np.concatenate([np.zeros(n), np.ones(count)]), [1.0])]
    return Conic.of(parts, *_around(radius, n), helpers=count)


def spectraplex(radius: float, side: int) -> Conic:
    """All symmetric semidefinite matrices of that trace, as vectors row after row."""
    n = side * side
    place = np.arange(n).reshape(side, side)
    pairs = [(i, j) for i in range(side) for j in range(i)]
    equal = np.zeros((len(pairs), n))
    for row, (i, j) in zip(equal, pairs, strict=True):
        row[place[i, j]], row[place[j, i]] = 1, -1
    trace = np.eye(side).reshape(1, n)
    parts = [("zero", np.vstack([trace, equal]), [radius, *np.zeros(len(pairs))]), _semidefinite(-np.eye(n), side)]
    lower = np.where(np.eye(side, dtype=bool), 0.0, -radius / 2).ravel()
    return Conic.of(parts, lower, np.where(np.eye(side, dtype=bool), radius, radius / 2).ravel())


def nuclear_ball(radius: float, rows: int, columns: int) -> Conic:
    """All matrices whose singular values sum to at most the radius: X is a corner of a semidefinite matrix of trace at
    most twice the radius, whose other corners are the helpers (in units of the radius)."""
    n, side = rows * columns, rows + columns
    corners = [(i, j) for i in range(side) for j in range(i + 1) if not (j < rows <= i)]
    entries = np.zeros((side, side, n + len(corners)))
    for k in range(n):
        i, j = divmod(k, columns)
        entries[rows + j, i, k] = entries[i, rows + j, k] = -1
    for k, (i, j) in enumerate(corners):
        entries[i, j, n + k] = entries[j, i, n + k] = -radius
    trace = np.concatenate([np.zeros(n), [float(i == j) for i, j in corners]])
    parts = [("nonnegative", trace, [2.0]), _semidefinite(entries.reshape(side * side, -1), side)]
    return Conic.of(parts, *_around(radius, n), helpers=len(corners))


def product(parts: list[Conic]) -> Conic:
    """All vectors made of a piece from each."""
    rows, columns = np.sum([part.A.shape for part in parts], axis=0)
    A, E = np.zeros((rows, columns)), np.zeros((rows, sum(part.E.shape[1] for part in parts)))
    row = column = helper = 0
    for part in parts:
        (m, n), p = part.A.shape, part.E.shape[1]
        A[row : row + m, column : column + n] = part.A
        E[row : row + m, helper : helper + p] = part.E
        row, column, helper = row + m, column + n, helper + p
    cones = tuple(cone for part in parts for cone in part.cones)
    b, lower, upper = (np.concatenate([part[k] for part in parts]) for k in (2, 4, 5))
    return Conic(A, E, b, cones, lower, upper)


def _around(radius: float, n: int) -> tuple[np.ndarray, np.ndarray]:
    return np.full(n, -radius), np.full(n, radius)


def _semidefinite(entries: np.ndarray, side: int) -> tuple[str, np.ndarray, np.ndarray]:
    """The cone of a symmetric matrix whose entries, row after row, are minus these rows."""
    triangle = [(i, j) for j in range(side) for i in range(j + 1)]
    rows = np.stack([entries[i * side + j] * (1 if i == j else math.sqrt(2)) for i, j in triangle])
    return "semidefinite", rows, np.zeros(len(rows))
