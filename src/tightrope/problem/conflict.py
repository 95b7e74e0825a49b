"""Constraints that exclude each other: what samples show where no point of the domain satisfies all of them.

For any weights nu >= 0 the mixture sum_i nu_i H_i is convex, hence nowhere below its tangent at x. Where the least value of
that tangent over the domain is above zero, every point of the domain violates one of the constraints with a positive
weight. On samples "above zero" is by standard errors.
"""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tightrope._jaxlib import compiled
from tightrope.confidence import serial_dependence
from tightrope.problem.full_data import full_jacobian
from tightrope.problem.problem import Problem
from tightrope.problem.rounding import UNITS
from tightrope.tree import Array, Tree, dot, eps_of, float_dtype, nonzero, subtract

SURE = 5  # standard errors by which a mean has to be above zero to count as above it; derived: chance is below 1e-6
_TURNS = 256  # steps of the search for weights; each costs a linear minimisation, none a look at the data; by hand
_LOOKS = 64  # at the samples, for a point of least violation and to try without some constraints (a guess)


def conflict(problem: Problem, x: Tree, weights: np.ndarray, samples: Tree, learned: bool = False) -> dict[int, float]:
    """Constraints of which every point of the domain violates one, and by how much at least; empty where samples show none.

    None of those named can be left out: without it the others prove nothing, with these weights. `learned` says that the
    weights and x were made of these very samples. Then the error is that of samples in their order, and more is asked for:
    of N independent errors the worst mixture is off by sqrt(N) standard errors.
    """
    if problem.nested or not problem.domain.has_lmo:  # the error of a nested tangent is not that of its samples
        return {}
    weights = np.maximum(np.nan_to_num(np.asarray(weights, float)), 0)

    def excess(nu: np.ndarray) -> tuple[float, float]:
        """The least value of the mixture, as far as it is surely above zero, and a likely one."""
        if not np.any(nu > 0):
            return 0.0, 0.0
        given = tangents_of(problem, x, jnp.asarray(nu, float_dtype(x)), samples)
        tangents, sizes = (np.asarray(v, float) for v in jax.device_get(given))
        if not np.all(np.isfinite(tangents)) or len(tangents) < 2:
            return 0.0, 0.0
        mean, sure = tangents.mean(), SURE + learned * np.sqrt(np.count_nonzero(nu))
        noise, rounding = tangents.std() / np.sqrt(len(tangents) - 1), UNITS * eps_of(x) * sizes.mean()
        if learned and mean > sure * (noise + rounding):
            noise *= np.sqrt(float(serial_dependence(tangents).inflation[0]))
        return mean - sure * (noise + rounding), mean - 2 * (noise + rounding)

    if excess(weights)[0] <= 0:
        return {}
    reach = np.asarray(_reach(problem, x, samples), float)
    shares = weights * reach
    kept = np.where(shares > 1e-3 * shares.max(), weights, 0.0)
    kept = kept if excess(kept)[0] > 0 else weights
    for i in [i for i in np.argsort(shares) if kept[i] > 0][:_LOOKS]:
        without = np.where(np.arange(len(kept)) == i, 0.0, kept)
        kept = without if excess(without)[0] > 0 else kept
    unit = excess(kept)[1] / float(kept @ reach)
    return {int(i): unit * float(reach[i]) for i in np.flatnonzero(kept)}


def said_of_conflict(conflict: Mapping[int, float], names: list[str]) -> str:
    """The constraints that cannot hold together, and how far from that every point is."""
    parts = [f"{names[i]} by {violation:.3g}" for i, violation in conflict.items()]
    said = parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} or {parts[-1]}"
    return f"Every point of the domain violates {said} or more."


@compiled(soon=True)
def tangents_of(problem: Problem, x: Tree, weights: Array, samples: Tree) -> tuple[Array, Array]:
    """For each sample the tangent at x of sum_i weights_i h_i, where the mean of all of them is least over the domain; and
    the size of what is summed there."""

    def h_of(point: Tree, theta: Tree) -> Array:
        return problem.sample_values(point, theta)[1]

    slope = jax.grad(lambda point: jnp.mean(jax.vmap(lambda theta: jnp.dot(weights, h_of(point, theta)))(samples)))(x)
    away = subtract(problem.domain.lmo(slope), x)
    levels = jnp.abs(jnp.asarray(problem.levels, weights.dtype))

    def of(theta: Tree) -> tuple[Array, Array]:
        h, change = jax.jvp(lambda point: h_of(point, theta), (x,), (away,))
        return jnp.dot(weights, h + change), jnp.dot(weights, jnp.abs(h) + jnp.abs(change) + levels)

    return jax.vmap(of)(samples)


@compiled(soon=True)
def _reach(problem: Problem, x: Tree, samples: Tree) -> Array:
    """By how much the tangent at x of each H_i changes over the domain: their units."""
    _, h, _, rows = full_jacobian(problem, x, samples)

    def of(row: Tree) -> Array:
        lmo = problem.domain.lmo
        return dot(row, subtract(lmo(jax.tree.map(jnp.negative, row)), lmo(row)))

    reach: Any = jax.lax.map(of, rows)
    return jnp.asarray(jnp.where(reach > 0, reach, jnp.abs(h)))


@compiled(soon=True)
def best_weights(problem: Problem, x: Tree, data: Tree, units: Array) -> tuple[Array, Array]:
    """Weights whose mixture of H_i/units_i has a large least value over the domain, and that value: by multiplicative
    weights on the tangents at x."""
    _, h, _, rows = full_jacobian(problem, x, data)
    h = h / units
    rows = jax.tree.map(lambda r: r / units.reshape(-1, *[1] * (r.ndim - 1)), rows)

    def turn(k: Array, so_far: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        nu, best, most = so_far
        away = subtract(problem.domain.lmo(jax.tree.map(lambda r: jnp.tensordot(nu, r, 1), rows)), x)
        tangents = h + jax.vmap(lambda row: dot(row, away))(rows)
        least = jnp.dot(nu, tangents)
        best, most = jnp.where(least > most, nu, best), jnp.maximum(least, most)
        length = jnp.sqrt(2 * jnp.log(h.size + 1.0) / (k + 1)) / nonzero(jnp.max(jnp.abs(tangents)))
        return jax.nn.softmax(jnp.log(nu) + length.astype(nu.dtype) * tangents), best, most

    even = jnp.full_like(h, 1 / h.size)
    _, best, most = jax.lax.fori_loop(0, _TURNS, turn, (even, even, jnp.full((), -jnp.inf, h.dtype)))
    return best, most


@compiled(soon=True)
def least_violating(problem: Problem, x: Tree, data: Tree, units: Array) -> Tree:
    """A point where the largest of H_i/units_i is small: by Frank-Wolfe on a soft maximum that becomes harder."""

    def turn(k: Array, point: Tree) -> Tree:
        _, h, _, rows = full_jacobian(problem, point, data)
        nu = jax.nn.softmax(4 * jnp.sqrt(k + 1.0) * h / units).astype(h.dtype) / units
        end = problem.domain.lmo(jax.tree.map(lambda r: jnp.tensordot(nu, r, 1), rows))
        return jax.tree.map(lambda p, v: p + (2 / (k + 2) * (v - p)).astype(p.dtype), point, end)

    return jax.lax.fori_loop(0, _LOOKS, turn, x)
