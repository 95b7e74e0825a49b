"""Samples beyond memory: what they say of f and every h_i near a solution on those that fit, as sums that do not grow.

The means of f and h over all samples so far are kept as quadratic functions around the point where the last ones were looked
at: values, slopes, and the curvature that the first ones have there. As every block is looked at where the solution of those
before it is, what is left out is of third order in how far that was off, n^-3/2 after n samples: less than samples tell.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tightrope._jaxlib import compiled
from tightrope.problem import Problem
from tightrope.problem.full_data import full_jacobian
from tightrope.sampling.kept import Part
from tightrope.sets import ConvexSet
from tightrope.tree import Array, Tree, ravel


class Near(NamedTuple):
    """Means over n samples as quadratic functions of x - at."""

    at: np.ndarray  # (d,) the coordinates of a point
    values: np.ndarray  # (1 + N,) of f and h, minus levels
    slopes: np.ndarray  # (1 + N, d)
    bends: np.ndarray  # (1 + N, d, d)
    n: np.ndarray  # samples

    def value(self, x: Tree) -> np.ndarray:
        """(1 + N,) F and H at x."""
        return self.around(_flat(x)).values

    def around(self, at: np.ndarray) -> "Near":
        """The same functions around another point."""
        move = at - self.at
        turned = self.bends @ move
        return self._replace(at=at, values=self.values + (self.slopes + turned / 2) @ move, slopes=self.slopes + turned)

    def after(self, problem: Problem, x: Tree, samples: Part) -> "Near":
        """With samples that are looked at in x."""
        seen, here = looked(problem, x, samples), self.around(_flat(x))
        share = samples.n / (samples.n + float(self.n))
        return here._replace(
            values=here.values + share * (seen[0] - here.values),
            slopes=here.slopes + share * (seen[1] - here.slopes),
            n=self.n + samples.n,
        )


def nothing_near(d: int, values: int) -> Near:
    """No samples."""
    return Near(np.zeros(d), np.zeros(values), np.zeros((values, d)), np.zeros((values, d, d)), np.zeros(()))


def near_of(problem: Problem, x: Tree, samples: Part, before: Tree) -> Near:
    """What samples say around x. Curvature is that of differences over how far half of the samples had been off, so that
    kinks of single samples have it as their mean does; what is not convex of it is noise."""
    back = ravel(x)[1]
    flat, off = _flat(x), np.abs(_flat(x) - _flat(before))
    lengths = np.fmax(np.fmax(off, 0.1 * np.sqrt(np.mean(off**2))), np.cbrt(np.finfo(float).eps) * np.max(np.abs(flat)))
    lengths = np.where(lengths > 0, lengths, np.sqrt(np.finfo(float).eps))
    values, slopes = looked(problem, x, samples)
    bends = np.zeros((len(values), flat.size, flat.size))
    for i, length in enumerate(lengths):
        step = length * (np.arange(flat.size) == i)
        ahead, behind = (looked(problem, back(jnp.asarray(flat + s)), samples)[1] for s in (step, -step))
        bends[:, i] = (ahead - behind) / (2 * length)
    size, along = np.linalg.eigh((bends + bends.transpose(0, 2, 1)) / 2)
    bends = np.einsum("kij,kj,klj->kil", along, np.maximum(size, 0.0), along)
    return Near(flat, values, slopes, bends, np.asarray(float(samples.n)))


def looked(problem: Problem, x: Tree, samples: Part) -> tuple[np.ndarray, np.ndarray]:
    """One pass: the means of f and h, and of their gradients."""
    return tuple(np.asarray(v, float) for v in _values_and_slopes(problem, x, samples))  # pyright: ignore


@compiled(soon=True)
def _values_and_slopes(problem: Problem, x: Tree, samples: Part) -> tuple[Array, Array]:
    f, h, grad, rows = full_jacobian(problem, x, samples)
    flat = jnp.concatenate([r.reshape(h.size, -1) for r in jax.tree.leaves(rows)], axis=1) if h.size else None
    first = ravel(grad)[0][None]
    return jnp.append(f, h), first if flat is None else jnp.concatenate([first, flat])


def problem_near(near: Near, domain: ConvexSet, margin: np.ndarray) -> Problem:
    """The problem of these functions, with levels lowered by a margin."""
    constraints: Callable[..., Any] | None = _constraints if len(margin) else None
    params = jax.tree.map(jnp.asarray, near._asdict())
    return Problem(_objective, constraints, domain, -jnp.asarray(margin) if len(margin) else 0.0, params)


def _objective(x: Tree, theta: Tree, near: dict[str, Array]) -> Array:
    return _quadratic(x, near)[0]


def _constraints(x: Tree, theta: Tree, near: dict[str, Array]) -> Array:
    return _quadratic(x, near)[1:]


def _quadratic(x: Tree, near: dict[str, Array]) -> Array:
    move = ravel(x)[0] - near["at"]
    return near["values"] + (near["slopes"] + near["bends"] @ move / 2) @ move


def _flat(x: Tree) -> np.ndarray:
    return np.asarray(ravel(x)[0], float)
