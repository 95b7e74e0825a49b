"""Hidden instances: random problems that no method and no default was developed on, each with its solution.

An instance is drawn from a seed and its number: the objective (a loss of an affine score, and a linear cost), the
constraints (means of affine scores through links), the domain, sizes, noise, and which constraints are active. It is built
backwards, so that no solver is needed and the solution is exact for any convex parts. Draw a point z about the domain X and
let x* be its projection: z - x* is normal to X at x*. Draw multipliers lam >= 0, and set each level so that an active
constraint is zero at x* and any other is below. Then the linear cost is made so that

    grad F(x*) + sum_i lam_i grad H_i(x*) = -(z - x*),

which is what optimality asks. Samples are rows of a table, so that the same solution holds for streams and for the data at
hand. All is in natural units (x, f, each h_i and their noise of order one): defaults that are made for these are at no
disadvantage.
"""

import hashlib
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import tightrope
from tightrope._jaxlib import compiled
from tightrope.lab.problems import Constants, Solved
from tightrope.problem import Problem
from tightrope.sets import Box, ConvexSet, L1Ball, L2Ball, NuclearBall, Simplex
from tightrope.tree import Array

SEED = int.from_bytes(hashlib.sha256(f"tightrope {tightrope.__version__}".encode()).digest()[:2]) | 1
"""The seed of a version's instances: a hash of the version's number, so that it was not chosen and each version draws new
ones. It is odd: methods are developed on even ones."""

ROWS = 500  # of an instance, as many as other problems are given (`Size.rows`); by hand
LOSSES = {
    "linear": lambda s, y: 0.0 * s,
    "least squares": lambda s, y: (s - y) ** 2 / 2,
    "absolute": lambda s, y: jnp.abs(s - y),
    "logistic": lambda s, y: jnp.logaddexp(0.0, -jnp.sign(y) * s),
    "hinge": lambda s, y: jnp.maximum(1.0 - jnp.sign(y) * s, 0.0),
}
LINKS = {
    "linear": lambda s: s,
    "quadratic": lambda s: s**2 / 2,
    "logistic": lambda s: jnp.logaddexp(s, 0.0),
    "hinge": lambda s: jnp.maximum(s, 0.0),
}
DOMAINS: dict[str, type[Any]] = {
    "box": Box,
    "l2 ball": L2Ball,
    "simplex": Simplex,
    "l1 ball": L1Ball,
    "nuclear ball": NuclearBall,
}
LEAST_MARGIN = 0.01  # the distance of H_i from zero at the anchor, at least, where H_i has the scale one; by hand
SOLVED = 1e-9  # in units of F, which is of order one: a gap below this is rounding; by hand


def name_of(seed: int, number: int) -> str:
    """What an instance is called: its seed and its number, by which it can be drawn again."""
    return f"hidden-{seed}-{number}"


def is_hidden(name: str) -> bool:
    """Whether this is the name of a hidden instance.

    Example:
        >>> is_hidden(name_of(seed=2, number=1)), is_hidden("ball")
        (True, False)
    """
    return re.fullmatch(r"hidden-\d+-\d+", name) is not None


@lru_cache(maxsize=64)
def hidden(name: str) -> Solved:
    """The instance of this name; its `noise` says in words what was drawn."""
    seed, number = map(int, name.split("-")[1:])
    rng = np.random.default_rng([seed, number])
    with jax.enable_x64(True):
        while True:  # of some twenty draws, one has no constraint that can be active
            found = _draw(name, rng)
            if found is not None:
                return found


def _draw(name: str, rng: np.random.Generator) -> Solved | None:
    """An instance, or None where no constraint grows from the anchor, which has to be feasible, to the solution."""
    loss, kind, where = (str(rng.choice([*names])) for names in (LOSSES, [*LINKS, "mixture"], DOMAINS))
    d, n, noise = round(_log_uniform(rng, 2, 50)), round(_log_uniform(rng, 1, 12)), _log_uniform(rng, 0.1, 3.0)
    domain = _domain(where, d, rng)
    z, anchor = _about(domain, rng, 1.3), _about(domain, rng, 0.8)  # beyond the domain or not; inside
    x = np.asarray(domain.project(jnp.asarray(z)))
    f, h = _functions(loss, tuple(str(k) for k in (rng.choice([*LINKS], size=n) if kind == "mixture" else [kind] * n)))
    params, table = _numbers(domain, x, anchor, n, noise, rng)

    @compiled
    def means(x: Array, cost: Array) -> tuple[Array, Array]:
        return Problem(f, h, domain, 0.0, params | {"cost": cost}).values(x, table)

    no_cost = jnp.zeros(x.shape)
    at, safe = (np.asarray(means(jnp.asarray(point), no_cost)[1]) for point in (x, anchor))
    can = at - safe > LEAST_MARGIN  # others would leave the anchor no room
    if not can.any():
        return None
    active = can & (rng.random(n) < rng.uniform(0.3, 1.0))
    active[np.argmax(at - safe)] = True
    levels = at + np.where(active, 0.0, np.maximum(rng.uniform(0.05, 0.5, size=n), safe - at + LEAST_MARGIN))
    dual = np.where(active, np.exp(rng.uniform(np.log(0.1), np.log(3.0), size=n)), 0.0)

    def lagrangian(x: Array) -> Array:
        F, H = means(x, no_cost)
        return F + jnp.dot(jnp.asarray(dual), H)

    cost = -np.asarray(jax.grad(lagrangian)(jnp.asarray(x))) - (z - x)
    said = f"{loss} loss; {n} {kind} constraints, {active.sum()} active; {where}, d = {x.size}; noise {noise:.2g}"
    solved = Solved.of_table(
        name,
        Problem(f, h, domain, levels, params | {"cost": cost}),
        table,
        x=x,
        dual=dual,
        optimum=float(means(jnp.asarray(x), jnp.asarray(cost))[0]),
        slater=float(np.min(levels - safe)),  # the anchor's; the largest is no less
        constants=Constants(float(domain.diameter), np.inf, np.inf, np.inf, np.inf, np.inf),
        noise=said,
    )
    if gap(solved) > SOLVED:
        raise ArithmeticError(f"{name}: the solution is known to {gap(solved):.1e} only.")
    return solved


def _functions(loss: str, links: tuple[str, ...]) -> tuple[Callable[..., Array], Callable[..., Array]]:
    """Objective and constraints of one row: a loss of <xi, x>, and links of <slope_i + tastes_i zeta, x - anchor> + v_i."""

    def f(x: Array, theta: Any, p: Any) -> Array:
        return LOSSES[loss](jnp.vdot(theta["xi"], x), theta["y"]) + jnp.vdot(p["cost"] + theta["cost"], x)

    def h(x: Array, theta: Any, p: Any) -> Array:
        slopes = p["slopes"] + p["tastes"] * theta["zeta"][None]
        scores = jnp.tensordot(slopes, x - p["anchor"], x.ndim) + theta["v"]
        return jnp.stack([LINKS[link](scores[i]) for i, link in enumerate(links)])

    return f, h


def _numbers(
    domain: ConvexSet, x: np.ndarray, anchor: np.ndarray, n: int, noise: float, rng: np.random.Generator
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """What the functions have in common over rows, and the rows; scores are of order one, and so is their noise times
    `noise`."""
    spread = float(np.sqrt(np.mean([np.sum(_about(domain, rng, 1.0) ** 2) for _ in range(8)])))  # of points of X
    tastes = rng.normal(size=(n, *x.shape))  # how the features of a row move each slope
    tastes /= np.sqrt(np.sum(tastes**2, axis=tuple(range(1, tastes.ndim)), keepdims=True)) * spread
    slopes = np.stack([_slope(domain, x - anchor, rng) for _ in range(n)])
    xi = _centred(rng, ROWS, *x.shape) / spread
    table = {
        "xi": xi,
        "y": np.tensordot(xi, _about(domain, rng, 2.0), x.ndim) + rng.normal(size=ROWS),  # some point explains a part
        "cost": noise * _centred(rng, ROWS, *x.shape) / (spread * np.sqrt(x.size)),
        "zeta": noise * _centred(rng, ROWS, *x.shape),
        "v": noise * _centred(rng, ROWS, n),
    }
    return {"slopes": slopes, "tastes": tastes, "anchor": anchor}, table


def gap(solved: Solved) -> float:
    """A proof that the solution is one: how far the Lagrangian's tangent at x* falls over the domain, plus what is violated
    or left of complementary slackness. By convexity no feasible point is better by more."""

    def lagrangian(x: Array) -> tuple[Array, Array]:
        H = solved.constraints(x)
        return solved.objective(x) + jnp.dot(jnp.asarray(solved.dual), H), H

    x = jnp.asarray(solved.x)
    slope, H = compiled(jax.grad(lagrangian, has_aux=True))(x)
    H, lowest = np.asarray(H), solved.problem.domain.lmo(slope)
    return float(jnp.vdot(slope, x - lowest)) + max(0.0, float(H.max())) + float(np.abs(solved.dual @ H))


def _domain(where: str, d: int, rng: np.random.Generator) -> ConvexSet:
    """A set of diameter of order one, of d coordinates or of a matrix of about as many."""
    if where == "box":
        return Box(-1.0, 1.0, shape=d)
    rows, columns = rng.integers(2, 8, size=2)
    return DOMAINS[where](1.0, shape=(int(rows), int(columns)) if where == "nuclear ball" else d)


def _about(domain: ConvexSet, rng: np.random.Generator, stretch: float) -> np.ndarray:
    """A mixture of three vertices and the middle, moved to `stretch` times its distance from the middle."""
    middle = np.asarray(domain.start())
    vertices = [np.asarray(domain.lmo(jnp.asarray(rng.normal(size=middle.shape)))) for _ in range(3)]
    mixed = np.tensordot(rng.dirichlet(np.ones(4)), np.stack([*vertices, middle]), 1)
    return middle + stretch * (mixed - middle)


def _slope(domain: ConvexSet, grows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A slope along which the domain has width one, and which grows in this direction."""
    slope = rng.normal(size=grows.shape)
    slope *= np.sign(np.vdot(slope, grows)) or 1.0
    slope += grows / max(float(np.linalg.norm(grows)), 1e-12)
    return slope / float(np.vdot(slope, domain.lmo(jnp.asarray(-slope)) - domain.lmo(jnp.asarray(slope))))


def _centred(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Normal numbers whose mean over the rows is zero."""
    drawn = rng.normal(size=shape)
    return drawn - drawn.mean(axis=0)


def _log_uniform(rng: np.random.Generator, low: float, high: float) -> float:
    return float(np.exp(rng.uniform(np.log(low), np.log(high))))
