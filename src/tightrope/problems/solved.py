"""What a problem with a known solution is, and what such problems share: noise, tables of rows, Newton's last steps."""

import dataclasses
import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import linprog, root

from tightrope.problem import Problem
from tightrope.sampling import Generator
from tightrope.tree import Array, Tree, astype, float_dtype


class Noise(NamedTuple):
    """Standard deviations of Gaussian noise: f = F + slope <g, x> and h_i = H_i + slopes <w_i, x> + values v_i."""

    slope: float
    slopes: float
    values: float


class Constants(NamedTuple):
    """Bounds that hold everywhere on X, for a single sample; the worst constraint counts. inf where there is none.

    Smoothness is meant in the mean square over samples, E |grad f(x) - grad f(y)|^2 <= L_f^2 |x - y|^2: a Gaussian
    sample has no bound of its own.
    """

    D: float  # diameter of X
    G_f: float  # |grad F|
    G_h: float  # |grad H_i|
    sigma_f: float  # square root of E |grad f|^2
    sigma_h: float  # square root of E |grad h_i|^2
    sigma_lam: float  # square root of E h_i^2
    L_f: float  # smoothness of f
    L_h: float  # smoothness of h_i
    mu: float = 0.0  # strong convexity of F

    @classmethod
    def additive(
        cls,
        noise: Noise,
        *,
        size: int,
        largest: float | np.floating,
        D: float | np.floating,
        G_f: float | np.floating,
        G_h: float | np.floating,
        H: float | np.floating,
        L_f: float | np.floating = 0.0,
        L_h: float | np.floating = 0.0,
        mu: float = 0.0,
    ) -> "Constants":
        """Those of F and H under additive noise, for x of `size` coordinates and norm at most `largest`; H >= |H_i|."""
        width = math.sqrt(size)
        sigma_lam = math.hypot(H, noise.slopes * largest, noise.values)
        sigmas = math.hypot(G_f, noise.slope * width), math.hypot(G_h, noise.slopes * width), sigma_lam
        return cls(*map(float, (D, G_f, G_h, *sigmas, L_f, L_h, mu)))


@dataclasses.dataclass(frozen=True, eq=False)
class Solved:
    """A problem, a source of samples, and the answer.

    Attributes:
        name: what to call it.
        problem: the stochastic problem.
        samples: fresh samples.
        x: the solution. Of a problem without a feasible point: where the worst violation is smallest.
        dual: its multipliers. Without a feasible point: weights of sum 1 that prove it, because their mean of the
            H_i is nowhere below the least violation.
        optimum: F*; NaN without a feasible point.
        objective: F(x) = E f(x, theta).
        constraints: H(x) = E h(x, theta).
        slater: the largest sigma such that some point has H_i <= -sigma for all i; negative without a feasible point.
        constants: bounds on gradients, values and curvature.
        noise: one phrase on what is random.
        table: where samples are rows of a finite table, drawn with replacement: the rows. The solution is then that of the
            table as a data set, too.
    """

    name: str
    problem: Problem
    samples: Generator
    x: Any
    dual: np.ndarray
    optimum: float
    objective: Callable[[Tree], Array]
    constraints: Callable[[Tree], Array]
    slater: float
    constants: Constants
    noise: str
    table: Tree = None

    @classmethod
    def of_table(cls, name: str, problem: Problem, table: Tree, **answer: Any) -> "Solved":
        """The problem whose samples are the rows of a table, each as likely as any other."""

        def means(x: Tree) -> tuple[Array, Array]:
            same, rows = astype((problem, table), float_dtype(x))
            return same.values(x, rows)

        return cls(
            name,
            problem,
            Generator(partial(_draw_row, table)),
            objective=lambda x: means(x)[0],
            constraints=lambda x: means(x)[1],
            table=table,
            **answer,
        )

    @property
    def feasible(self) -> bool:
        """Whether any point satisfies the constraints."""
        return self.slater >= 0

    @property
    def least_violation(self) -> float:
        """The smallest possible max_i H_i(x) over X, or 0 where a point is feasible."""
        return max(0.0, -self.slater)

    def track(self, x: Tree) -> dict[str, Array]:
        """F(x) - F* (if there is an F*) and the H_i(x), to be averaged along a run."""
        values = self.constraints(x)
        gap = {"gap": self.objective(x) - self.optimum} if self.feasible else {}
        return gap | {f"H{i}": values[i] for i in range(len(self.dual))}

    def rows(self, n: int, seed: int = 0) -> Tree:
        """A data set of n fresh samples, a pytree of NumPy arrays; its own optimum is not that of the expectation."""
        keys = jax.random.split(jax.random.key(seed), n)
        return jax.tree.map(np.asarray, jax.vmap(self.samples.fn)(keys))


def normals(key: Array, **shapes: tuple[int, ...]) -> dict[str, Array]:
    """Independent standard normal numbers, by name."""
    sizes = [math.prod(shape) for shape in shapes.values()]
    parts = jnp.split(jax.random.normal(key, (sum(sizes),)), np.cumsum(sizes)[:-1])
    return {name: part.reshape(shape) for part, (name, shape) in zip(parts, shapes.items(), strict=True)}


def noisy(
    objective: Callable[[Array], Array], constraints: Callable[[Array], Array], noise: Noise, shape: Any, n: int
) -> tuple[Callable[..., Array], Callable[..., Array], Generator]:
    """f, h and samples of F and of n constraints H under additive noise, for points x of one shape."""

    def f(x: Array, theta: Tree) -> Array:
        return objective(x) + noise.slope * jnp.vdot(theta["g"], x)

    def h(x: Array, theta: Tree) -> Array:
        slopes = jnp.tensordot(theta["w"], x, x.ndim)
        return constraints(x) + noise.slopes * slopes + noise.values * theta["v"]

    return f, h, Generator(partial(normals, g=shape, w=(n, *shape), v=(n,)))


def _draw_row(table: Tree, key: Array) -> Tree:
    """A row of the table, at random, in the precision of the day."""
    i = jax.random.randint(key, (), 0, len(jax.tree.leaves(table)[0]))
    return jax.tree.map(lambda a: a[i], astype(table, jnp.result_type(float)))


def solve_equations(equations: Callable[[np.ndarray], np.ndarray], start: Any) -> np.ndarray:
    """The root of as many equations as unknowns, such as the optimality conditions with the active constraints known."""
    answer = root(equations, start, tol=1e-14)
    if np.max(np.abs(answer.fun)) > 1e-9:
        raise ArithmeticError(f"The optimality conditions were solved to {np.max(np.abs(answer.fun)):.1e} only.")
    return answer.x


def polyhedral_margin(G: np.ndarray, b: np.ndarray, bounds: list[tuple[float, float]]) -> float:
    """The largest sigma with G x - b <= -sigma for some x within the bounds: a linear programme."""
    rows = np.column_stack([G, np.ones(len(b))])
    cost = np.append(np.zeros(G.shape[1]), -1.0)
    return -float(linprog(cost, rows, b, bounds=[*bounds, (None, None)]).fun)
