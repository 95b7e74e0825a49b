"""Problems in which a row is heard through one score <x, theta>: losses, and the same problem for cvxpy in good units."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import tightrope as tr
from studies.real.task import Programme, Task
from studies.real.written import cp

_WELL_POSED = (
    1e11  # condition numbers up to which columns are made orthonormal for the reference; a guess, of 1e16 digits
)


class Loss(NamedTuple):
    """A loss of a score and a target, for one sample and for all samples of a programme."""

    sample: Callable[[Any, Any], Any]
    programme: Callable[[Any, np.ndarray], Any]
    smooth: bool = True


def pinball(q: float) -> Loss:
    """The loss whose least mean is reached at the quantile of level q."""
    return Loss(
        lambda s, y: jnp.maximum(q * (y - s), (q - 1) * (y - s)),
        lambda s, y: cp.maximum(q * (y - s), (q - 1) * (y - s)),
        smooth=False,
    )


def huber(k: float) -> Loss:
    """Half the square up to k, and a line from there on."""
    return Loss(
        lambda s, y: jnp.where(jnp.abs(s - y) <= k, (s - y) ** 2 / 2, k * jnp.abs(s - y) - k**2 / 2),
        lambda s, y: cp.huber(s - y, k) / 2,
    )


SQUARES = Loss(lambda s, y: (s - y) ** 2 / 2, lambda s, y: cp.square(s - y) / 2)
ABSOLUTE = Loss(lambda s, y: jnp.abs(s - y), lambda s, y: cp.abs(s - y), smooth=False)
LOGISTIC = Loss(lambda s, y: jnp.logaddexp(0.0, -y * s), lambda s, y: cp.logistic(-cp.multiply(y, s)))
SOFTPLUS = Loss(lambda s, y: jax.nn.softplus(s) - y * s, lambda s, y: cp.logistic(s) - cp.multiply(y, s))
HINGE = Loss(lambda s, y: jnp.maximum(0.0, 1 - y * s), lambda s, y: cp.pos(1 - cp.multiply(y, s)), smooth=False)
SQUARED_HINGE = Loss(
    lambda s, y: jnp.maximum(0.0, 1 - y * s) ** 2, lambda s, y: cp.square(cp.pos(1 - cp.multiply(y, s)))
)
POISSON = Loss(lambda s, y: jnp.exp(s) - y * s, lambda s, y: cp.exp(s) - cp.multiply(y, s))
GAMMA = Loss(lambda s, y: s + y * jnp.exp(-s), lambda s, y: s + cp.multiply(y, cp.exp(-s)))


class Coordinates:
    """x = T w with w in which the columns of X have the same size and, where they are independent, are orthonormal."""

    def __init__(self, X: np.ndarray):
        size = np.sqrt(np.mean(X**2, axis=0))
        scale = np.where(size > 0, 1 / np.where(size > 0, size, 1.0), 1.0)
        scaled = X * scale
        self.T = np.diag(scale)
        if X.shape[0] >= X.shape[1] and np.linalg.cond(scaled) < _WELL_POSED:
            R = np.linalg.qr(scaled / np.sqrt(len(X)), mode="r")
            self.T = scale[:, None] * np.linalg.inv(R)
        self.S = X @ self.T
        self.w = cp.Variable(X.shape[1])
        self.x, self.s = self.T @ self.w, self.S @ self.w

    def value(self) -> np.ndarray:
        """x, once the programme is solved."""
        return self.T @ np.asarray(self.w.value)

    def below(self, A: Any, b: Any) -> list[Any]:
        """A x <= b, with rows and right-hand sides of size 1 at most: Clarabel's tolerances are relative to the largest."""
        rows = np.atleast_2d(np.asarray(A, float)) @ self.T
        b = np.broadcast_to(np.asarray(b, float), len(rows))
        size = np.maximum(np.linalg.norm(rows, axis=1), np.abs(b))
        size = np.where(size > 0, size, 1.0)
        return [(rows / size[:, None]) @ self.w <= b / size]

    def within(self, domain: Any) -> list[Any]:
        """x in the domain."""
        d = self.T.shape[0]
        if isinstance(domain, tr.Box):
            lower, upper = (np.broadcast_to(np.asarray(v, float), d) for v in (domain.lower, domain.upper))
            return [*self.below(np.eye(d), upper), *self.below(-np.eye(d), -lower)]
        radius = float(domain.radius)
        if isinstance(domain, tr.L2Ball):
            return [cp.norm(self.x / radius, 2) <= 1]
        if isinstance(domain, tr.L1Ball):
            return [cp.norm(self.x / radius, 1) <= 1]
        if isinstance(domain, tr.Simplex):
            return [self.x >= 0, cp.sum(self.x) == radius]
        if isinstance(domain, tr.GroupBall):
            groups = np.asarray(domain.groups)
            return [sum(cp.norm(self.x[np.flatnonzero(groups == g)], 2) for g in np.unique(groups)) <= radius]
        raise TypeError(f"studies.real: {domain!r} is not written down for cvxpy here.")


class Rule(NamedTuple):
    """Constraints: h of one sample, the levels, and the same for cvxpy, as rows A with A x <= levels or as a function."""

    sample: Callable[[Any, Any], Any]
    levels: Any
    programme: Any  # an array A, or a function of (x, s) that gives a list of constraints
    room: bool = True  # whether some point satisfies them all strictly


class Penalty(NamedTuple):
    """What is added to each loss: a function of x, for one sample and for cvxpy."""

    sample: Callable[[Any], Any]
    programme: Callable[[Any], Any]
    smooth: bool = True


def ridge(weight: float) -> Penalty:
    """weight |x|^2 / 2."""
    return Penalty(lambda x: weight / 2 * jnp.sum(x**2), lambda x: weight / 2 * cp.sum_squares(x))


def linear(
    X: np.ndarray,
    y: np.ndarray,
    loss: Loss,
    domain: Any,
    *,
    rule: Rule | None = None,
    penalty: Penalty | None = None,
    offset: np.ndarray | None = None,
    unit: float = 1.0,
    **more: np.ndarray,
) -> Task:
    """Minimise the mean loss of scores <x, theta> and targets, under a rule, over a domain.

    Args:
        X: the columns.
        y: the targets.
        loss: of a score and a target.
        domain: where x may be.
        rule: constraints.
        penalty: what is added.
        offset: what is added to each score.
        unit: the size of the objective, in which the reference is computed.
        more: further entries of the rows.
    """

    def objective(x: Any, row: Any) -> Any:
        score = jnp.dot(row["x"], x) + (0.0 if offset is None else row["offset"])
        return loss.sample(score, row["y"]) + (0.0 if penalty is None else penalty.sample(x))

    def programme() -> Programme:
        at = Coordinates(X)
        score = at.s if offset is None else at.s + offset
        if loss is SQUARES:  # divided before it is squared: Clarabel's tolerances are relative to the largest number
            total = cp.sum_squares((score - y) / np.sqrt(2 * len(X) * unit))
        else:
            total = cp.sum(loss.programme(score, y)) / (len(X) * unit)
        if penalty is not None:
            total += penalty.programme(at.x) / unit
        rules = [] if rule is None else _written(rule, at)
        return Programme(cp.Problem(cp.Minimize(total), [*at.within(domain), *rules]), at.value, unit)

    rows = {"x": X, "y": y, **({} if offset is None else {"offset": offset}), **more}
    smooth = loss.smooth and (penalty is None or penalty.smooth)
    if rule is None:
        return Task(tr.Problem(objective, None, domain), rows, programme, smooth=smooth)
    problem = tr.Problem(objective, rule.sample, domain, levels=rule.levels)
    return Task(problem, rows, programme, smooth=smooth, room=rule.room)


def _written(rule: Rule, at: Coordinates) -> list[Any]:
    """The rule for cvxpy."""
    if isinstance(rule.programme, np.ndarray):
        return at.below(rule.programme, rule.levels)
    return rule.programme(at.x, at.s)


def covariance(X: np.ndarray, s: np.ndarray, level: float) -> Rule:
    """The covariance of the scores with an attribute `s` (centred, in the rows as "s") is within +- level."""
    A = (s[:, None] * X).mean(axis=0)
    return Rule(tr.two_sided(lambda x, row: row["s"] * jnp.dot(row["x"], x)), level, np.stack([A, -A]))
