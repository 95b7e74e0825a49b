"""What methods with snapshots make of them: which snapshot is the best so far, and how far from a solution it may be.

The merit of a point is what its objective would be if its violations were made good. Where some snapshot s satisfies every
constraint strictly, x is pulled towards s: by convexity that costs at most a (F(s) - F(x)) with a the largest
H_i(x) / (H_i(x) - H_i(s)). That is honest before any multiplier is known, but says little against a bad point that is pulled
all the way to a good s; so a violation also costs its price, twice the multiplier. Prices rise at once and fall by half
from look to look, so that multipliers that ran off are forgotten. Merits are in the units of F, and no part of them depends
on step sizes.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from tightrope.methods.snapshot import Snapshot, lower_bound
from tightrope.methods.widths import slope_in, step_along
from tightrope.problem import Problem
from tightrope.tree import Array, Tree, dot, nonzero, norm, subtract

_PRICE = 2  # times the multipliers; by hand: above 1, so that violating a constraint a little never pays


class Merit(NamedTuple):
    """What was seen so far."""

    best: Snapshot
    safe: Snapshot  # the most strictly feasible one for its objective; of the least violation while there is none
    prices: Array  # of violations
    floor: Array  # a lower bound on F*; an estimate of one where the set has no linear minimisation
    gap: Array  # merit of the best snapshot above the floor

    def merit(self, f: Array, h: Array) -> Array:
        """What the objective f with constraints h is worth."""
        above = jnp.maximum(h, 0)
        a = jnp.max(jnp.where(above > 0, above / nonzero(above - self.safe.h), 0), initial=0)
        pulled = jnp.where(jnp.all(self.safe.h < 0), a * (self.safe.f - f), 0)
        return f + jnp.maximum(pulled, jnp.dot(self.prices, above))

    def tolerates(self, f: Array, h: Array) -> Array:
        """Whether a point with these values is no farther from the floor than twice the best."""
        return self.merit(f, h) - self.floor <= 2 * self.gap


def no_merit(snap: Snapshot) -> Merit:
    """Before the first snapshot was seen."""
    lowest = jnp.full_like(snap.f, -jnp.finfo(snap.f.dtype).max)
    return Merit(snap, snap, jnp.zeros_like(snap.lam), lowest, jnp.zeros_like(snap.f))


def judged(
    problem: Problem, seen: Merit, snap: Snapshot, slopes: Array, wid: Tree, first: Array
) -> tuple[Merit, Array]:
    """After one more snapshot, and whether it is better than all before it.

    Args:
        problem, seen: the problem, and what was seen before.
        snap: the snapshot.
        slopes: |grad H_i| in widths of the domain, the units in which constraints are compared.
        wid: these widths.
        first: whether it is the first.
    """
    floor = _floor(problem, seen.floor, snap, wid)
    safe = pick(first | _safer(snap, seen.safe, slopes, floor), snap, seen.safe)
    held = norm(slope_in(wid, snap.grad)) / nonzero(slopes)  # the multiplier that would hold the objective alone
    prices = jnp.where(first, held, jnp.maximum(seen.prices / 2, _PRICE * snap.lam))
    new = Merit(seen.best, safe, prices, floor, seen.gap)
    merits = jnp.stack([new.merit(one.f, one.h) for one in (snap, seen.best, seen.safe)])
    before = pick(merits[2] < merits[1], seen.safe, seen.best)
    better = first | (merits[0] < jnp.min(merits[1:]))
    least = jnp.where(first, merits[0], jnp.min(merits))
    return new._replace(best=pick(better, snap, before), gap=jnp.maximum(least - floor, 0)), better


def pick(yes: Array, a: Tree, b: Tree) -> Tree:
    """a where yes, and b where not."""
    return jax.tree.map(lambda p, q: jnp.where(yes, p, q), a, b)


def _floor(problem: Problem, before: Array, snap: Snapshot, wid: Tree) -> Array:
    """The best lower bound so far.

    Without a linear minimisation, what a projected step as long as the domain would gain stands for the most that can be
    gained; that is no bound, so it counts for its own snapshot only.
    """
    if problem.domain.has_lmo:
        return jnp.maximum(before, lower_bound(problem, *snap))
    g = problem.lagrangian_gradient(snap.grad, snap.rows, snap.lam)
    far = step_along(wid, snap.w, problem.domain.scaled_diameter / nonzero(norm(slope_in(wid, g))), g)
    gain = dot(g, subtract(snap.w, problem.domain.project(far)))
    return snap.f + jnp.dot(snap.lam, snap.h) - gain


def _safer(a: Snapshot, b: Snapshot, slopes: Array, floor: Array) -> Array:
    """Whether a is the better point to pull towards: the less it costs above the floor for its margin, the better. While
    one of them violates a constraint, the smaller violation."""
    lowest = -jnp.finfo(floor.dtype).max
    worst_a, worst_b = (jnp.max(one.h / nonzero(slopes), initial=lowest) for one in (a, b))
    cheaper = (a.f - floor) * worst_b > (b.f - floor) * worst_a
    return jnp.where((worst_a < 0) & (worst_b < 0), cheaper, worst_a < worst_b)
