"""Nested problems with known solutions: objectives and constraints that are functions of means.

Four have samples made of Gaussians, for which variances, entropic risks and weighted means are known in closed form: a
stream is all that there is. The last one is a table of rows.
"""

from collections.abc import Callable
from functools import lru_cache, partial
from math import nan

import jax.numpy as jnp
import numpy as np

from tightrope.lab.problems.learning import rare_alarms
from tightrope.lab.problems.solved import Constants, Solved, normals, solve_equations
from tightrope.problem import Problem, conditional_mean_at_most, entropic_risk_at_most, ratio_at_most, variance_at_most
from tightrope.sampling import Generator
from tightrope.sets import L2Ball
from tightrope.tree import nonzero

_RADIUS = 2.0  # of the ball that the problems live in; by hand
_UNKNOWN = Constants(2 * _RADIUS, nan, nan, nan, nan, nan, nan, nan)  # bounds of plain problems say nothing of these


@lru_cache
def variance() -> Solved:
    """A mean under a bound on the variance: min -E <theta, x> s.t. Var <theta, x> <= 1/2, |x| <= 2, theta ~ N(m, S).

    With q = m' S^-1 m: x* = sqrt(1/(2q)) S^-1 m, F* = -sqrt(q/2), and the multiplier is sqrt(q/2). The origin has a margin
    of 1/2.
    """
    m, root, level = np.array([0.5, 0.3, -0.2]), np.array([[0.8, 0, 0], [0.3, 0.6, 0], [0, -0.2, 0.5]]), 0.5
    covariance = root @ root.T
    direction = np.linalg.solve(covariance, m)
    q = float(m @ direction)

    def gain(x, theta):
        return jnp.dot(jnp.asarray(m, x.dtype) + jnp.asarray(root, x.dtype) @ theta["z"], x)

    return Solved(
        "variance",
        Problem(lambda x, theta: -gain(x, theta), variance_at_most(gain), L2Ball(_RADIUS, shape=3), levels=level),
        Generator(partial(normals, z=(3,))),
        x=np.sqrt(level / q) * direction,
        dual=np.array([np.sqrt(q / level) / 2]),
        optimum=-float(np.sqrt(q * level)),
        objective=lambda x: -jnp.dot(jnp.asarray(m, x.dtype), x),
        constraints=lambda x: jnp.dot(x, jnp.asarray(covariance, x.dtype) @ x)[None] - level,
        slater=level,
        constants=_UNKNOWN,
        noise="Gaussian gains",
    )


@lru_cache
def entropic() -> Solved:
    """A quadratic under a bound on an entropic risk: min |x - p|^2/2 s.t. log E exp <theta, x> <= 1/4, theta ~ N(m, I/4).

    The risk of a Gaussian is <m, x> + |x|^2/8, so that (1 + mu/4) x* = p - mu m, with the multiplier mu where it is 1/4.
    The margin is that of x = -4 m, where the risk is least: 1/4 + 2 |m|^2.
    """
    m, p, spread, level = np.array([0.2, 0.1, -0.2]), np.array([1.0, 0.5, 0.2]), 0.5, 0.25

    def conditions(z):
        x, mu = z[:3], z[3]
        return np.append(x - p + mu * (m + spread**2 * x), m @ x + spread**2 * (x @ x) / 2 - level)

    *x, multiplier = solve_equations(conditions, [*p, 1.0])

    def objective(x):
        return jnp.sum((x - jnp.asarray(p, x.dtype)) ** 2) / 2

    return Solved(
        "entropic",
        Problem(
            lambda x, theta: objective(x) + 0.5 * jnp.dot(theta["g"], x),
            entropic_risk_at_most(lambda x, theta: jnp.dot(jnp.asarray(m, x.dtype) + spread * theta["z"], x), 1.0),
            L2Ball(_RADIUS, shape=3),
            levels=level,
        ),
        Generator(partial(normals, g=(3,), z=(3,))),
        x=np.array(x),
        dual=np.array([multiplier]),
        optimum=float(np.sum((np.array(x) - p) ** 2) / 2),
        objective=objective,
        constraints=lambda x: (jnp.dot(jnp.asarray(m, x.dtype), x) + spread**2 * jnp.dot(x, x) / 2)[None] - level,
        slater=float(level + m @ m / (2 * spread**2)),
        constants=_UNKNOWN,
        noise="Gaussian in the slope and in the losses",
    )


@lru_cache
def ratio() -> Solved:
    """A linear objective under a bound on a weighted mean: min <a, x> s.t. E w |x - theta|^2/2 / E w <= 1, |x| <= 2.

    theta = c + z/2 and w = exp(<k, z>), so that under the weights theta is N(c + k/2, I/4), and the ratio is
    |x - c - k/2|^2/2 + 3/8. With rho = sqrt(5/4): x* = c + k/2 - rho a, because |a| = 1, and the multiplier is 1/rho. The
    margin is 5/8, at c + k/2.
    """
    a, c, k = np.array([0.6, 0.0, -0.8]), np.array([0.3, -0.2, 0.1]), np.array([0.6, 0.4, 0.0])
    centre, rho = c + k / 2, np.sqrt(5 / 4)

    def weight(x, theta):
        return jnp.exp(jnp.dot(jnp.asarray(k, x.dtype), theta["z"]))

    def weighted(x, theta):
        return weight(x, theta) * jnp.sum((x - jnp.asarray(c, x.dtype) - theta["z"] / 2) ** 2) / 2

    return Solved(
        "ratio",
        Problem(
            lambda x, theta: jnp.dot(jnp.asarray(a, x.dtype) + 0.5 * theta["g"], x),
            ratio_at_most(weighted, weight),
            L2Ball(_RADIUS, shape=3),
            levels=1.0,
        ),
        Generator(partial(normals, g=(3,), z=(3,))),
        x=centre - rho * a,
        dual=np.array([1 / rho]),
        optimum=float(a @ centre - rho),
        objective=lambda x: jnp.dot(jnp.asarray(a, x.dtype), x),
        constraints=lambda x: jnp.sum((x - jnp.asarray(centre, x.dtype)) ** 2)[None] / 2 - 5 / 8,
        slater=5 / 8,
        constants=_UNKNOWN,
        noise="Gaussian in the slope and in what is weighted; weights that are log-normal",
    )


@lru_cache
def robust() -> Solved:
    """A robust expectation as the objective: min log E exp <theta, x> s.t. E <b, x> >= 1, |x| <= 2, theta ~ N(m, I/4).

    The objective is <m, x> + |x|^2/8, so that x* = 4 (mu c - m) with c = E b, and the multiplier mu is such that
    <c, x*> = 1: (1/4 + <c, m>)/|c|^2. The margin is 2|c| - 1.
    """
    m, c, spread = np.array([0.2, 0.1, -0.2]), np.array([0.8, 0.6, 0.3]), 0.5
    multiplier = (spread**2 + c @ m) / (c @ c)
    x = (multiplier * c - m) / spread**2

    def inner(x, theta):
        return jnp.expm1(jnp.dot(jnp.asarray(m, x.dtype) + spread * theta["z"], x))

    def objective(x):
        return jnp.dot(jnp.asarray(m, x.dtype), x) + spread**2 * jnp.dot(x, x) / 2

    return Solved(
        "robust",
        Problem(
            lambda x, theta, inner: jnp.log1p(inner),
            lambda x, theta: 1 - jnp.dot(jnp.asarray(c, x.dtype) + 0.5 * theta["b"], x)[None],
            L2Ball(_RADIUS, shape=3),
            inner=inner,
        ),
        Generator(partial(normals, z=(3,), b=(3,))),
        x=x,
        dual=np.array([multiplier]),
        optimum=float(m @ x + spread**2 * (x @ x) / 2),
        objective=objective,
        constraints=lambda x: 1 - jnp.dot(jnp.asarray(c, x.dtype), x)[None],
        slater=float(_RADIUS * np.linalg.norm(c) - 1),
        constants=_UNKNOWN,
        noise="Gaussian in the losses and in the slope of the constraint",
    )


@lru_cache
def conditional() -> Solved:
    """Neyman-Pearson classification by conditional means, on a table: min E[log(1 + exp(-<a, x>)) | y = 1] subject to
    E[log(1 + exp <a, x>) | y = 0] <= 3/10, |x| <= 5; a quarter of 800 rows are positive.

    Nobody tells a stream how many rows are positive. The objective is nested, too, in means of its own.
    """
    rng, n, level, radius = np.random.default_rng(8), 800, 0.3, 5.0
    y = rng.random(n) < 0.25
    features = np.where(y[:, None], [1.0, 0.5], [-1.0, -0.5]) + rng.normal(size=(n, 2)) @ [[1.0, 0.3], [0.0, 0.9]]
    a = np.column_stack([features, np.ones(n)])

    def missed(x, theta):
        return theta["y"] * jnp.logaddexp(0.0, -jnp.dot(theta["a"], x)), theta["y"]

    return Solved.of_table(
        "conditional",
        Problem(
            lambda x, theta, inner: inner[0] / nonzero(inner[1]),
            conditional_mean_at_most(
                lambda x, theta: jnp.logaddexp(0.0, jnp.dot(theta["a"], x)), given=lambda x, theta: 1 - theta["y"]
            ),
            L2Ball(radius, shape=3),
            levels=level,
            inner=missed,
        ),
        {"a": a, "y": y.astype(float)},
        **rare_alarms(a[y], a[~y], level, radius),
        constants=_UNKNOWN._replace(D=2 * radius),
        noise="one of 800 rows",
    )


NESTED: dict[str, Callable[[], Solved]] = {
    "variance": variance,
    "entropic": entropic,
    "ratio": ratio,
    "robust": robust,
    "conditional": conditional,
}
