"""Problems with known solutions: what one is, how to make one from noise or from a table, and how to find solutions."""

import dataclasses
import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tightrope.lab.theory import Constants
from tightrope.problem import Problem
from tightrope.sampling import Generator
from tightrope.sets import ConvexSet
from tightrope.tree import Array, Tree, astype, float_dtype, set_field


class Noise(NamedTuple):
    """Standard deviations of Gaussian noise: f = F + slope <g, x> and h_i = H_i + slopes <w_i, x> + values v_i."""

    slope: float
    slopes: float
    values: float


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
        constants: bounds on gradients, values and curvature; N and sigma are those of `dual` and `slater`.
        noise: one phrase on what is random.
        table: where samples are rows of a finite table, drawn with replacement: the rows. The solution is then that of the
            table as a data set, too.

    Example:
        >>> from tightrope.problems import PROBLEMS
        >>> portfolio = PROBLEMS["portfolio"]()
        >>> portfolio.name, sorted(portfolio.x), portfolio.slater > 0
        ('portfolio', ['u', 'w'], True)
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

    def __post_init__(self):
        set_field(self, "constants", self.constants._replace(N=len(self.dual), sigma=self.slater))

    @classmethod
    def under_noise(
        cls,
        name: str,
        domain: ConvexSet,
        objective: Callable[[Array], Array],
        constraints: Callable[[Array], Array],
        law: Noise,
        *,
        dual: np.ndarray,
        noise: str = "Gaussian in slopes and values",
        **answer: Any,
    ) -> "Solved":
        """The problem whose samples are F and H plus Gaussian noise, `law`, on a set of arrays."""
        shape, n = domain.start().shape, len(dual)

        def f(x: Array, theta: Tree) -> Array:
            return objective(x) + law.slope * jnp.vdot(theta["g"], x)

        def h(x: Array, theta: Tree) -> Array:
            slopes = jnp.tensordot(theta["w"], x, x.ndim)
            return constraints(x) + law.slopes * slopes + law.values * theta["v"]

        return cls(
            name,
            Problem(f, h, domain),
            Generator(partial(normals, g=shape, w=(n, *shape), v=(n,))),
            dual=dual,
            objective=objective,
            constraints=constraints,
            noise=noise,
            **answer,
        )

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
        """F - F* (if there is an F*) and H0, H1, ... at x, to be averaged along a run."""
        values = self.constraints(x)
        gap = {"F - F*": self.objective(x) - self.optimum} if self.feasible else {}
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


def squared_distance(p: np.ndarray) -> Callable[[Array], Array]:
    """The objective F(x) = |x - p|^2/2."""
    return lambda x: jnp.sum((x - jnp.asarray(p, x.dtype)) ** 2) / 2


def linear(G: np.ndarray, b: np.ndarray) -> Callable[[Array], Array]:
    """The constraints H(x) = G x - b."""
    return lambda x: jnp.asarray(G, x.dtype) @ x - jnp.asarray(b, x.dtype)


def _draw_row(table: Tree, key: Array) -> Tree:
    """A row of the table, each as likely as any other, in JAX's default precision."""
    i = jax.random.randint(key, (), 0, len(jax.tree.leaves(table)[0]))
    return jax.tree.map(lambda a: a[i], astype(table, jnp.result_type(float)))


def solve_equations(equations: Callable[[np.ndarray], np.ndarray], start: Any) -> np.ndarray:
    """The root of as many equations as unknowns, such as the optimality conditions with the active constraints known."""
    from scipy.optimize import root

    answer = root(equations, start, tol=1e-14)
    if np.max(np.abs(answer.fun)) > 1e-9:
        raise ArithmeticError(f"The optimality conditions were solved to {np.max(np.abs(answer.fun)):.1e} only.")
    return answer.x


def polyhedral_margin(G: np.ndarray, b: np.ndarray, bounds: list[tuple[float, float]]) -> float:
    """The largest sigma with G x - b <= -sigma for some x within the bounds: a linear programme."""
    from scipy.optimize import linprog

    rows = np.column_stack([G, np.ones(len(b))])
    cost = np.append(np.zeros(G.shape[1]), -1.0)
    return -float(linprog(cost, rows, b, bounds=[*bounds, (None, None)]).fun)
