"""Small stochastic problems whose primal solution, multipliers and optimal value are known exactly.

Every one has noise in the gradients and in the values of objective and constraints. They are what methods are tested
on: "the gap" of a run is the mean of F(x_t) - F*, with F free of noise.
"""

import dataclasses
import math
from collections.abc import Callable
from functools import lru_cache, partial

import jax
import jax.numpy as jnp
import numpy as np

from tightrope._tree import Array, Tree
from tightrope.problem import Problem
from tightrope.sampling import Generator
from tightrope.sets import Box, L1Ball, L2Ball, Simplex


@dataclasses.dataclass(frozen=True, eq=False)
class Solved:
    """A problem, a source of samples, and the answer.

    Attributes:
        name: what to call it.
        problem: the stochastic problem.
        samples: fresh samples.
        x: the solution.
        dual: its multipliers.
        optimum: F*.
        objective: F(x) = E f(x, theta).
        constraints: H(x) = E h(x, theta).
        slater: the largest sigma such that some point has H_i <= -sigma for all i.
    """

    name: str
    problem: Problem
    samples: Generator
    x: np.ndarray
    dual: np.ndarray
    optimum: float
    objective: Callable[[Tree], Array]
    constraints: Callable[[Tree], Array]
    slater: float

    def track(self, x: Tree) -> dict[str, Array]:
        """F(x) - F* and the H_i(x), to be averaged along a run."""
        values = self.constraints(x)
        return {"gap": self.objective(x) - self.optimum} | {f"H{i}": values[i] for i in range(len(self.dual))}


def _noise(key: Array, **shapes: tuple[int, ...]) -> dict[str, Array]:
    """Independent standard normal numbers, by name."""
    sizes = [math.prod(shape) for shape in shapes.values()]
    parts = jnp.split(jax.random.normal(key, (sum(sizes),)), np.cumsum(sizes)[:-1])
    return {name: part.reshape(shape) for part, (name, shape) in zip(parts, shapes.items(), strict=True)}


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
        Generator(partial(_noise, g=(5,), w=(5,), v=(), u=())),
        x=-a,
        dual=np.array([1.0]),
        optimum=-1.0,
        objective=lambda x: jnp.dot(jnp.asarray(a, x.dtype), x),
        constraints=lambda x: (jnp.dot(x, x) / 2 - 0.5)[None],
        slater=0.5,
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

    def objective(x):
        return jnp.sum((x - jnp.asarray(p, x.dtype)) ** 2) / 2

    def constraints(x):
        return jnp.asarray(rows, x.dtype) @ x - jnp.asarray(b, x.dtype)

    def f(x, theta):
        return objective(x) + 0.5 * jnp.dot(theta["g"], x)

    def h(x, theta):
        return constraints(x) + 0.5 * theta["w"] @ x + 0.2 * theta["v"]

    return Solved(
        "simplex",
        Problem(f, h, Simplex(shape=5)),
        Generator(partial(_noise, g=(5,), w=(2, 5), v=(2,))),
        x=solution,
        dual=dual,
        optimum=float(np.sum((rows.T @ dual) ** 2) / 2),
        objective=objective,
        constraints=constraints,
        slater=0.15 + 1.025 / 3,
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
        Generator(partial(_noise, g=(), w=(1,), v=(1,))),
        x=np.array([1.0]),
        dual=np.array([1.0]),
        optimum=0.5,
        objective=lambda x: (x[0] - 2) ** 2 / 2,
        constraints=lambda x: x - 1,
        slater=2.0,
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
        Generator(partial(_noise, g=(10,), w=(10,), v=())),
        x=np.array([0.4, 0.6] + [0.0] * 8),
        dual=np.array([1.0]),
        optimum=-1.4,
        objective=lambda x: jnp.dot(jnp.asarray(cost, x.dtype), x),
        constraints=lambda x: (x[0] - 0.4)[None],
        slater=1.4,
    )


EXACT: dict[str, Callable[[], Solved]] = {"ball": ball, "simplex": simplex, "scalar": scalar, "l1-lp": l1_lp}
