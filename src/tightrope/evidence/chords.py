"""Whether a function that a run took for convex is above one of its chords: then no duality gap holds.

At the end of a run a few rows are asked along lines from its output, and all rows where these rows show something.
"""

import itertools
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tightrope._jaxlib import compiled
from tightrope.precision import full_precision
from tightrope.problem import Problem
from tightrope.problem.full_data import full_values
from tightrope.problem.rounding import few
from tightrope.tree import Array, Tree, add_scaled, eps_of, float_dtype, ravel, shaped_like, subtract

_NO_CHORD = (
    1e-5  # share of a function's range over the test points: less above a chord is not held against it (a guess)
)
_ALONG = np.linspace(0.0, 1.0, 9)  # places on each line, as shares of it (a guess)
_REACH = (
    0.7,
    0.7,
    0.7,
    0.7,
    0.1,
    0.1,
    0.01,
    0.01,
)  # how far towards the ends of the domain its lines go, as shares; by hand
_FEWER_LINES = 10_000  # coordinates, from which there is one line of each reach; by hand


def above_a_chord(
    problem: Problem, rows: Tree, x: Tree, start: Tree, weights: np.ndarray, names: list[str]
) -> str | None:
    """A sentence where the objective, or a constraint of positive weight, is above one of its chords on all rows; None where
    no such chord is found. The lines go from the output x to the start of the run and into the domain."""
    if problem.objective is None or not problem.domain.additive:  # an oracle, or points of a kind of their own
        return None
    ends, values = jax.device_get(_along_lines(problem, x, start, _directions(x), rows))
    counts = [*problem.knows_objective * [0], *(1 + i for i in np.flatnonzero(weights > 0))]
    eps = eps_of(x)
    for k in counts:
        found = _worst(values[:, :, k], eps)
        if found is None:
            continue
        line, places = found
        away = subtract(jax.tree.map(lambda v, line=line: v[line], ends), x)
        at = [full_values(problem, add_scaled(x, float(_ALONG[p]), away), rows) for p in places]
        v = [float(np.append(f, h)[k]) for f, h in at]
        excess = _excess(_ALONG[list(places)], np.array(v))
        if excess > _allowed(values[:, :, k], eps):
            name = "the objective" if k == 0 else names[k - 1]
            return (
                f"{name[:1].upper()}{name[1:]} is above a chord by {excess:.3g}, on all rows, where its values are "
                f"{v[0]:.6g}, {v[1]:.6g} and {v[2]:.6g}: it is not convex, or loses that many digits."
            )
    return None


def _directions(x: Tree) -> Tree:
    """Random directions, the same for every problem of this shape."""
    size = ravel(x)[0].size
    shares = np.asarray(_REACH if size < _FEWER_LINES else sorted(set(_REACH)))
    made = np.random.default_rng(0).standard_normal((len(shares), size))
    directions = jax.tree.map(lambda *v: np.stack(v), *[shaped_like(x, row) for row in made])
    return jax.tree.map(lambda v: v.astype(float_dtype(x)), (shares, directions))


@compiled(soon=True)
@full_precision
def _along_lines(problem: Problem, x: Tree, start: Tree, towards: Any, rows: Tree) -> tuple[Tree, Array]:
    """The ends of lines that begin at x, and F and H at places along each: (lines, places, 1 + N)."""
    domain, (shares, directions), rows = problem.domain, towards, few(rows)
    start = jax.tree.map(lambda v, like: v.astype(like.dtype), start, x)

    def end(share: Array, direction: Tree) -> Tree:
        far = domain.lmo(direction) if domain.has_lmo else domain.project(add_scaled(x, domain.diameter, direction))
        return add_scaled(x, share, subtract(far, x))

    ends = jax.vmap(end)(shares, directions)
    ends = jax.tree.map(lambda v, s: jnp.concatenate([v, s[None]]), ends, start)

    def values(point: tuple[Tree, Array]) -> Array:
        f, h = problem.values(add_scaled(x, point[1], subtract(point[0], x)), rows)
        return jnp.append(f, h)

    def along(towards: Tree) -> Array:
        return jax.lax.map(lambda share: values((towards, share)), jnp.asarray(_ALONG, float_dtype(x)))

    return ends, jax.lax.map(along, ends)


_TRIPLES = np.array(list(itertools.combinations(range(len(_ALONG)), 3)))


def _worst(values: np.ndarray, eps: float) -> tuple[int, tuple[int, ...]] | None:
    """The line, and the three places on it, where a function is most above its chord; None where it is by too little."""
    with np.errstate(invalid="ignore", over="ignore"):  # a function may overflow far off
        excess = _excess(_ALONG[_TRIPLES].T[:, None], values.T[_TRIPLES.T].transpose(0, 2, 1))
    excess = np.nan_to_num(excess, nan=-np.inf, posinf=-np.inf)
    line, triple = np.unravel_index(int(np.argmax(excess)), excess.shape)
    return (int(line), tuple(_TRIPLES[triple])) if excess[line, triple] > _allowed(values, eps) else None


def _excess(places: np.ndarray, values: np.ndarray) -> Any:
    """By how much the second of three values along a line is above the chord of the others."""
    (a, b, c), (f, g, h) = places, values
    return g - ((c - b) * f + (b - a) * h) / (c - a)


def _allowed(values: np.ndarray, eps: float) -> float:
    """An excess that is not held against a function with these values."""
    finite = values[np.isfinite(values)]
    if not finite.size:
        return math.inf
    return _NO_CHORD * float(np.ptp(finite)) + 1e3 * eps * float(np.max(np.abs(finite)))
