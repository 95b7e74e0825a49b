"""A linear score whose decisions are accurate and whose rates by group are alike: smoothed, and solved by SQP.

    minimise    (1 - q) E log(1 + exp(-y z)) + q E sigma(-y z / T) + ridge |w|^2      z = <w, a> + b,  y = -1 or +1
    subject to  (1 - slack) r_h - r_g <= 0   for all ordered pairs (g, h) of groups,   r_g = E[sigma(z / T) | g]
                E sigma(z / T) >= half of E[y = 1],   E sigma(-z / T) >= half of E[y = -1]

As T falls to 0, sigma(z / T) becomes the decision 1{z > 0}: the second loss becomes the share of wrong decisions and r_g the
share of g that is selected. The problem is smooth and not convex, and what is found is a stationary point: nothing here says
that it is the best one, and nothing has to, because the classifier is judged on rows that it has not seen (`walk.py`).

The floors keep a path from making rates alike by rejecting everybody, or by selecting everybody.

NumPy and BLAS do all of it. A fit solves some two hundred small problems, warm-started, each in one or two Newton steps
that cost one product A' diag(q) A; there is nothing to compile, and the first fit is as quick as the next.
"""

import dataclasses
from typing import NamedTuple

import numpy as np
from scipy.linalg import solve_triangular
from scipy.optimize import nnls

from tightrope.learn.loss import LOSS, sigmoid

# By hand, where nothing else is said; docs/fair_rates.md has the problem and the solver.
RIDGE = 1e-6  # of |w|^2 in the loss: where nothing is known a direction rests, and separable data has a finite score
FLOOR = 0.5  # the share selected, as a share of the positive labels, and the share rejected of the negative ones
LEAST_CURVATURE = 0.05  # as a share of the logistic loss's own, so that a step is at most twenty of its Newton steps
LARGEST_MULTIPLIER = 100.0  # loss per rate; derived: the loss begins below log 2, so a dearer constraint cannot be met
STABLE = 1e-4  # the part of a rate that is left to the next step where a multiplier changes by one
TRUST = 1.0  # a step changes scores by this much at most, root mean square: logarithms of odds have the unit one
SETTLED = 0.005  # a step below this share of the scores ends the iteration
ITERATIONS, HALVINGS = 50, 12  # at most: steps, which are one or two nearly always, and halvings of a step


class Recipe(NamedTuple):
    """How smooth: the temperature T of decisions, and the share q of smoothed 0/1 loss in the objective."""

    temperature: float
    share: float


SHARP = Recipe(temperature=0.25, share=0.9)
BETWEEN = Recipe(temperature=0.5, share=0.5)
LOGISTIC = Recipe(temperature=1.0, share=0.0)
MEANS = Recipe(temperature=np.inf, share=0.0)
"""As T rises, 4T (sigma(z / T) - 1/2) becomes z: the mean score of a group takes the place of its rate. For two groups a
bound on the difference of their means is one on the covariance of score and group, and the problem is convex."""


class Limits(NamedTuple):
    """What is asked of the rates r of cells: matrix @ r + constant <= 0."""

    matrix: np.ndarray  # (m, cells)
    constant: np.ndarray  # (m,)


class Point(NamedTuple):
    """A score: coefficients in the coordinates of a `RateProblem`, the scores of its rows, and its multipliers."""

    x: np.ndarray
    z: np.ndarray
    multipliers: np.ndarray
    steps: int = 0
    settled: bool = True


@dataclasses.dataclass(frozen=True, eq=False)
class RateProblem:
    """The data of the problem, in coordinates in which the plain logistic loss has curvature one at its minimum.

    Attributes:
        rows, rough: (n, d), features times `basis`; the same in single precision.
        basis: (d, d), coefficients of the features are basis @ x.
        label: (n,), -1 or +1.
        weight: (n,), adding up to one: E is a sum with these.
        means: (cells, n), each row adding up to one: rates are means @ sigma(z / T).
        ridge: (d, d), of the penalty x' ridge x.
        plain: logistic regression, where a path begins.
    """

    rows: np.ndarray
    rough: np.ndarray
    basis: np.ndarray
    label: np.ndarray
    weight: np.ndarray
    means: np.ndarray
    ridge: np.ndarray
    plain: Point

    @classmethod
    def of(
        cls, features: np.ndarray, label: np.ndarray, weight: np.ndarray, means: np.ndarray, l2: float, intercept: bool
    ) -> "RateProblem":
        """The problem of standardised features, the last of them the constant where there is an `intercept`."""
        d = features.shape[1]
        penalty = np.full(d, 2 * RIDGE)
        penalty[: d - intercept] += l2
        w, curvature = _plain(features, label, weight, penalty)
        basis = solve_triangular(np.linalg.cholesky(curvature), np.eye(d), lower=True).T
        ridge = basis.T @ (penalty[:, None] * basis) / 2
        rows = features @ basis
        plain = Point(np.linalg.solve(basis, w), features @ w, np.zeros(0))
        return cls(rows, rows.astype(np.float32), basis, label, weight, means, ridge, plain)

    def solve(self, start: Point, recipe: Recipe, limits: Limits, stable: float = STABLE, newton: bool = True) -> Point:
        """SQP from `start`: exact second derivatives of the Lagrangian, made positive, and an l1 merit.

        Without `newton` the curvature is taken to be that of plain logistic regression, which is one: a convex problem takes
        more steps, and a step n d operations instead of n d^2.
        """
        x, z, price = start.x, start.z, 0.0
        multipliers = start.multipliers if len(start.multipliers) == len(limits.constant) else 0 * limits.constant
        loss, excess = self.values(x, z, recipe, limits)
        for step in range(1, ITERATIONS + 1):
            direction, slope, multipliers = self._direction(x, z, recipe, limits, multipliers, stable, newton)
            price = max(price, 1.5 * float(multipliers.max(initial=0)) + 0.1)
            dz = self.rows @ direction
            moved = self._size(dz)
            length, merit = min(1.0, TRUST / max(moved, 1e-300)), loss + price * excess
            least = min(slope - price * excess, 0.0)  # the merit falls along the direction; a little of that is asked
            for _ in range(HALVINGS):
                new_x, new_z = x + length * direction, z + length * dz
                ahead = self.values(new_x, new_z, recipe, limits)
                if ahead[0] + price * ahead[1] <= merit + 1e-4 * length * least + 1e-12 * abs(merit):
                    break
                length /= 2
            else:  # no step meets all constraints, say: they are taken less strictly, until that does not help either
                if stable >= 1:
                    return Point(x, z, multipliers, step, False)
                stable, price, multipliers = 100 * stable, 0.0, 0 * multipliers
                continue
            x, z, (loss, excess) = new_x, new_z, ahead
            if moved <= SETTLED * self._size(z):
                return Point(x, z, multipliers, step, True)
        return Point(x, z, multipliers, ITERATIONS, False)

    def values(self, x: np.ndarray, z: np.ndarray, recipe: Recipe, limits: Limits) -> tuple[float, float]:
        """The loss, and by how much the constraints are violated, in all."""
        u = smoothed(z, recipe)
        wrong = self.weight @ np.where(self.label > 0, 1 - u, u)
        smooth = self.weight @ LOSS.values(z, self.label)
        loss = recipe.share * wrong + (1 - recipe.share) * smooth + x @ self.ridge @ x
        excess = np.maximum(limits.matrix @ (self.means @ u) + limits.constant, 0).sum()
        return float(loss), float(excess)

    def constraints(self, z: np.ndarray, recipe: Recipe, limits: Limits) -> np.ndarray:
        """What should be at most 0."""
        return limits.matrix @ (self.means @ smoothed(z, recipe)) + limits.constant

    def _direction(
        self,
        x: np.ndarray,
        z: np.ndarray,
        recipe: Recipe,
        limits: Limits,
        multipliers: np.ndarray,
        stable: float,
        newton: bool,
    ) -> tuple[np.ndarray, float, np.ndarray]:
        """The step that minimises the quadratic model, the slope of the loss along it, and the model's multipliers."""
        share, u = recipe.share, smoothed(z, recipe)
        first, second = _derivatives(u, recipe)
        of_loss, bend_of_loss = LOSS.derivatives(z, self.label, 1 - share)
        slope = self.weight * (of_loss - share * self.label * first)
        gradient = slope @ self.rows + 2 * self.ridge @ x
        down, across = gradient, limits.matrix @ ((self.means * first) @ self.rows)
        root = None
        if newton:
            bend = self.weight * (bend_of_loss - share * self.label * second)
            root = self._root(bend + (multipliers @ limits.matrix @ self.means) * second)
            down, across = down @ root, across @ root
        values = limits.matrix @ (self.means @ u) + limits.constant
        multipliers = _dual(across @ across.T, values - across @ down, multipliers, stable)
        direction = -(down + multipliers @ across)
        direction = direction if root is None else root @ direction
        return direction, float(gradient @ direction), multipliers

    def _root(self, bend: np.ndarray) -> np.ndarray:
        """R with R R' the inverse of the curvature, made positive. Single precision is enough for a model of that, and three
        times as quick."""
        hessian = self.rough.T @ (bend.astype(np.float32)[:, None] * self.rough) + 2 * self.ridge
        curvature, axes = np.linalg.eigh(hessian)
        return axes / np.sqrt(np.maximum(np.abs(curvature), LEAST_CURVATURE))

    def _size(self, z: np.ndarray) -> float:
        """Root mean square."""
        return float(np.sqrt(self.weight @ z**2))


def smoothed(z: np.ndarray, recipe: Recipe) -> np.ndarray:
    """Decisions smoothed, sigma(z / T); at infinite temperature the scores themselves."""
    return z if np.isinf(recipe.temperature) else sigmoid(z / recipe.temperature)


def _derivatives(u: np.ndarray, recipe: Recipe) -> tuple[np.ndarray, np.ndarray]:
    """The first and the second derivative of `smoothed` by the score, where it is u."""
    if np.isinf(recipe.temperature):
        return np.ones_like(u), np.zeros_like(u)
    first = u * (1 - u) / recipe.temperature
    return first, first * (1 - 2 * u) / recipe.temperature


def _dual(quadratic: np.ndarray, linear: np.ndarray, before: np.ndarray, stable: float) -> np.ndarray:
    """The multipliers l >= 0 that minimise l'Ql/2 - l'b + stable/2 |l - before|^2: the dual of the quadratic model.

    The last term makes multipliers unique where more constraints bind than there are coefficients, and bounded where no
    step satisfies them all; once multipliers rest it is zero (Wright's stabilised SQP, 1998). The pairs of many groups are
    many constraints and few of them bind: those that do not are left out until they would.
    """
    multipliers, linear = np.zeros(len(linear)), linear + stable * before
    counted = missing = linear > 0
    while np.any(missing):
        counted = counted | missing
        part = quadratic[np.ix_(counted, counted)] + stable * np.eye(int(counted.sum()))
        lower = np.linalg.cholesky(part)
        multipliers[counted] = nnls(lower.T, solve_triangular(lower, linear[counted], lower=True))[0]
        missing = ~counted & (linear - quadratic @ multipliers > 1e-9)
    return np.minimum(multipliers, LARGEST_MULTIPLIER)


def _plain(
    features: np.ndarray, label: np.ndarray, weight: np.ndarray, penalty: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The loss alone, by Newton's method: coefficients, and the curvature there."""
    w, z = np.zeros(features.shape[1]), np.zeros(len(label))
    loss, curvature = np.inf, np.diag(penalty)
    for _ in range(ITERATIONS):
        slope, bend = LOSS.derivatives(z, label, weight)
        gradient = slope @ features + penalty * w
        curvature = (features.T * bend) @ features + np.diag(penalty)
        direction = -np.linalg.solve(curvature, gradient)
        dz, length = features @ direction, 1.0
        for _ in range(HALVINGS):
            ahead = weight @ LOSS.values(z + length * dz, label) + penalty @ (w + length * direction) ** 2 / 2
            if ahead < loss:
                break
            length /= 2
        else:
            break
        gain, loss = loss - ahead, float(ahead)
        w, z = w + length * direction, z + length * dz
        if gain < 1e-7 * loss:
            break
    return w, curvature
