"""The vocabulary of random problems: affine scores of a row, passed through links, and mixed into f and h.

A row theta has features xi and shifts b. Score p of a point is <A_p + M_p o xi, x> + offset_p + b_p; a link makes a value
of it (log-sum-exp makes one of several scores). Function k, the objective (k = 0) or a constraint, is a mixture of
values and a diagonal quadratic form: sum_v W_kv value_v + <Q_k, x^2>/2. One description drives the problem that users
would write with JAX, the means in float64 with NumPy, and the solver of the reference.
"""

import dataclasses
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import tightrope as tr
from studies.strangers.domains import Domain

LINKS = ("identity", "square", "logistic", "hinge", "absolute", "log-sum-exp")  # the order of the scores
KINKED = ("hinge", "absolute")
BY_ROWS = ("logistic", "hinge", "absolute", "log-sum-exp")  # the mean over rows has no closed form


def link_values(name: str, s: Any, np: Any) -> Any:
    """What a link makes of scores (scores are the last axis), with NumPy or with JAX's."""
    if name == "square":
        return s * s / 2
    if name == "logistic":
        return np.logaddexp(s, 0.0)
    if name == "hinge":
        return np.maximum(s, 0.0)
    if name == "absolute":
        return np.abs(s)
    if name == "log-sum-exp":
        top = s.max(axis=-1, keepdims=True)
        return top + np.log(np.exp(s - top).sum(axis=-1, keepdims=True))
    return s


def link_slopes(name: str, s: np.ndarray) -> np.ndarray:
    """Derivatives of the values with respect to each score; at a kink, one of them."""
    if name == "square":
        return s
    if name == "logistic":
        return np.exp(-np.logaddexp(0.0, -s))
    if name == "hinge":
        return (s > 0).astype(float)
    if name == "absolute":
        return np.sign(s)
    if name == "log-sum-exp":
        e = np.exp(s - s.max(axis=-1, keepdims=True))
        return e / e.sum(axis=-1, keepdims=True)
    return np.ones_like(s)


@tr.pytree
class Params:
    """What the functions of one sample need besides it; `links` says how many scores each link takes."""

    A: Any
    M: Any
    offset: Any
    W: Any
    Q: Any
    links: tuple[tuple[str, int], ...] = tr.static()
    leaves: tuple[str, ...] = tr.static()


def _values(x: Any, theta: Any, p: Params) -> tuple[Any, Any]:
    """The linked values of one sample, and x as a vector."""
    parts = [x[name] for name in p.leaves] if len(p.leaves) > 1 else [x]
    v = jnp.concatenate([jnp.ravel(part) for part in parts])
    featured = v[: theta["xi"].shape[-1]]  # quantiles of CVaR, which come last, have no features
    s = p.A @ v + p.M @ (theta["xi"] * featured) + p.offset + theta["b"]
    values, at = [], 0
    for name, count in p.links:
        values.append(link_values(name, s[at : at + count], jnp))
        at += count
    return jnp.concatenate(values), v


def objective(x: Any, theta: Any, p: Params) -> Any:
    """f(x, theta)."""
    values, v = _values(x, theta, p)
    return p.W[0] @ values + p.Q[0] @ (v * v) / 2


def constraints(x: Any, theta: Any, p: Params) -> Any:
    """h(x, theta)."""
    values, v = _values(x, theta, p)
    return p.W[1:] @ values + p.Q[1:] @ (v * v) / 2


@dataclasses.dataclass(frozen=True)
class Model:
    """A problem in natural units: means over the rows of xi (n, features) and b (n, scores)."""

    domain: Domain
    links: tuple[tuple[str, int], ...]
    A: np.ndarray
    M: np.ndarray
    offset: np.ndarray
    W: np.ndarray
    Q: np.ndarray
    levels: np.ndarray
    xi: np.ndarray
    b: np.ndarray

    @property
    def smooth(self) -> bool:
        """Whether every function has a continuous gradient."""
        return all(name not in KINKED for name, _ in self.links)

    @cached_property
    def spread(self) -> np.ndarray:
        """The weights of scores instead of values: those of log-sum-exp share the weight of their value."""
        repeat = [n for name, count in self.links for n in ([count] if name == "log-sum-exp" else [1] * count)]
        return np.repeat(self.W, repeat, axis=1)

    @property
    def groups(self) -> list[tuple[str, slice]]:
        """The links and the scores that each takes."""
        ends = np.cumsum([count for _, count in self.links])
        return [(name, slice(end - count, end)) for (name, count), end in zip(self.links, ends, strict=True)]

    def scores(self, x: np.ndarray) -> np.ndarray:
        """All scores of all rows, (n, P)."""
        return (self.xi * x[: self.xi.shape[1]]) @ self.M.T + self.b + (self.A @ x + self.offset)

    def rows(self, x: np.ndarray) -> np.ndarray:
        """f and h - levels of every row, (n, 1 + N)."""
        s = self.scores(x)
        values = np.concatenate([link_values(name, s[:, at], np) for name, at in self.groups], axis=1)
        return values @ self.W.T + (self.Q @ (x * x) / 2 - np.append(0.0, self.levels))

    def means(self, x: np.ndarray) -> np.ndarray:
        """F, and H - levels."""
        return self.rows(x).mean(axis=0)

    def slopes(self, x: np.ndarray) -> np.ndarray:
        """Derivatives of the values with respect to the scores, (n, P); at kinks one of them."""
        s = self.scores(x)
        return np.concatenate([link_slopes(name, s[:, at]) for name, at in self.groups], axis=1)

    def gradients(self, x: np.ndarray, slopes: np.ndarray | None = None) -> np.ndarray:
        """The gradients of F and H, (1 + N, d), or the subgradients that given slopes make."""
        slopes = self.slopes(x) if slopes is None else slopes
        by_score = slopes.mean(axis=0)[:, None] * self.A
        by_score[:, : self.xi.shape[1]] += self.M * (slopes.T @ self.xi) / len(self.xi)
        return self.spread @ by_score + self.Q * x

    def in_units(
        self, x_units: np.ndarray, f_unit: float, h_units: np.ndarray
    ) -> tuple[tr.Problem, dict[str, np.ndarray]]:
        """The user's problem and table: x, f and each h_i multiplied by their units."""
        units = np.append(f_unit, h_units)[:, None]
        params = Params(
            self.A / x_units, self.M, self.offset, self.W * units, self.Q * units / x_units**2,
            links=self.links, leaves=self.domain.names,
        )  # fmt: skip
        table = {"xi": self.xi / x_units[: self.xi.shape[1]], "b": self.b}
        return tr.Problem(objective, constraints, self.domain.in_units(x_units), self.levels * h_units, params), table


def draw_row(table: Any, key: Any) -> Any:
    """A row of the table, each as likely as any other, in JAX's default precision."""
    i = jax.random.randint(key, (), 0, len(jax.tree.leaves(table)[0]))
    return jax.tree.map(lambda a: jnp.asarray(a, jnp.result_type(float))[i], table)
