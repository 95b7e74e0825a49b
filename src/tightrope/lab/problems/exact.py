"""Small stochastic problems whose primal solution, multipliers and optimal value are known exactly.

Every one has noise in the gradients and in the values of objective and constraints. They are what methods are tested
on: "the gap" of a run is the mean of F(x_t) - F*, with F free of noise.
"""

from collections.abc import Callable
from functools import lru_cache, partial

import jax.numpy as jnp
import numpy as np

from tightrope.lab.problems.solved import Constants, Noise, Solved, linear, normals, squared_distance
from tightrope.problem import Problem
from tightrope.sampling import Generator
from tightrope.sets import Box, L1Ball, L2Ball, Simplex


@lru_cache
def ball() -> Solved:
    """A linear objective under a quadratic constraint on a ball: min <a, x> s.t. |x|^2/2 <= 1/2, |x| <= 2.

    |a| = 1, so x* = -a, F* = -1 and the multiplier is 1; the origin has a margin of 1/2.
    """
    a = np.array([0.6, 0.0, -0.8, 0.0, 0.0])

    def f(x, theta):
        return jnp.dot(jnp.asarray(a, x.dtype) + 0.5 * theta["g"], x)

    def h(x, theta):  # convex for every sample: the curvature is (1 + u^2)/2, of mean 1
        curvature = (1 + theta["u"] ** 2) / 2
        return (curvature * jnp.dot(x, x) / 2 + 0.2 * jnp.dot(theta["w"], x) + 0.2 * theta["v"] - 0.5)[None]

    return Solved(
        "ball",
        Problem(f, h, L2Ball(2.0, shape=5)),
        Generator(partial(normals, g=(5,), w=(5,), v=(), u=())),
        x=-a,
        dual=np.array([1.0]),
        optimum=-1.0,
        objective=lambda x: jnp.dot(jnp.asarray(a, x.dtype), x),
        constraints=lambda x: (jnp.dot(x, x) / 2 - 0.5)[None],
        slater=0.5,
        # of the curvature, E c^2 = 3/2; h^2 is largest where |x| = 2
        constants=Constants(4.0, 1.0, 2.0, 1.5, 6.2**0.5, 4.45**0.5, 0.0, 1.5**0.5),
        noise="Gaussian in slopes and values; a random curvature of the constraint",
    )


@lru_cache
def simplex() -> Solved:
    """A quadratic on the simplex under two linear constraints, both active: min |x - p|^2/2 s.t. G x <= b.

    Built backwards from the solution: with p = x* + G' lambda* and b = G x*, the optimality conditions hold at x*.
    The margin is that of (0, a, 1 - a, 0, 0) where both slacks are equal: 3a = 1.025, slack 0.15 + a.
    """
    solution, dual = np.array([0.4, 0.3, 0.15, 0.1, 0.05]), np.array([0.5, 0.3])
    rows = np.array([[1.0, -1.0, 0.0, 0.5, 0.0], [0.0, 1.0, -1.0, 0.0, 0.5]])
    p, b = solution + rows.T @ dual, rows @ solution
    at_vertices = np.abs(rows - b[:, None]).max()
    steepest = max(np.linalg.norm(vertex - p) for vertex in np.eye(5))

    noise = Noise(0.5, 0.5, 0.2)
    return Solved.under_noise(
        "simplex",
        Simplex(shape=5),
        squared_distance(p),
        linear(rows, b),
        noise,
        x=solution,
        dual=dual,
        optimum=float(np.sum((rows.T @ dual) ** 2) / 2),
        slater=0.15 + 1.025 / 3,
        constants=Constants.additive(
            noise, size=5, largest=1.0, D=2**0.5, G_f=steepest, G_h=1.5, H=at_vertices, L_f=1.0, mu=1.0
        ),
    )


@lru_cache
def scalar() -> Solved:
    """One dimension, by hand: min (x - 2)^2/2 s.t. x <= 1 on [-1, 2]. x* = 1, F* = 1/2, multiplier 1, margin 2."""

    def f(x, theta):  # the variance of the noise is not part of F
        return ((x[0] - 2) ** 2) / 2 + theta["g"] * x[0]

    def h(x, theta):
        return (1 + 0.5 * theta["w"]) * x - 1 + 0.5 * theta["v"]

    return Solved(
        "scalar",
        Problem(f, h, Box(-1.0, 2.0, shape=1)),
        Generator(partial(normals, g=(), w=(1,), v=(1,))),
        x=np.array([1.0]),
        dual=np.array([1.0]),
        optimum=0.5,
        objective=lambda x: (x[0] - 2) ** 2 / 2,
        constraints=lambda x: x - 1,
        slater=2.0,
        constants=Constants(3.0, 3.0, 1.0, 10**0.5, 1.25**0.5, 4.5**0.5, 1.0, 0.0, mu=1.0),
        noise="Gaussian in slopes and values",
    )


@lru_cache
def l1_lp() -> Solved:
    """A linear programme on the l1 ball: min -2 x_1 - x_2 s.t. x_1 <= 0.4, |x|_1 <= 1, in ten dimensions.

    The mass left by the constraint goes to x_2: x* = (0.4, 0.6, 0, ...), F* = -1.4. Moving mass from x_2 to x_1 would
    gain 2 - 1 = 1, the multiplier. The vertex -e_1 has a margin of 1.4.
    """
    cost = np.zeros(10)
    cost[:2] = -2.0, -1.0

    def f(x, theta):
        return jnp.dot(jnp.asarray(cost, x.dtype) + 0.5 * theta["g"], x)

    def h(x, theta):
        return (x[0] + 0.3 * jnp.dot(theta["w"], x) - 0.4 + 0.2 * theta["v"])[None]

    return Solved(
        "l1-lp",
        Problem(f, h, L1Ball(1.0, shape=10)),
        Generator(partial(normals, g=(10,), w=(10,), v=())),
        x=np.array([0.4, 0.6] + [0.0] * 8),
        dual=np.array([1.0]),
        optimum=-1.4,
        objective=lambda x: jnp.dot(jnp.asarray(cost, x.dtype), x),
        constraints=lambda x: (x[0] - 0.4)[None],
        slater=1.4,
        constants=Constants.additive(Noise(0.5, 0.3, 0.2), size=10, largest=1.0, D=2.0, G_f=5**0.5, G_h=1.0, H=1.4),
        noise="Gaussian in slopes and values",
    )


EXACT: dict[str, Callable[[], Solved]] = {"ball": ball, "simplex": simplex, "scalar": scalar, "l1-lp": l1_lp}
