"""Scales that make a problem hard to solve as it is written: units, noise, rows that carry everything, idle bounds."""

import dataclasses
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tightrope._jaxlib import compiled
from tightrope.problem.conflict import SURE, best_weights, conflict, least_violating, said_of_conflict
from tightrope.problem.full_data import linearised
from tightrope.problem.problem import Problem
from tightrope.tree import Array, Tree, add_scaled, dot, eps_of, float_dtype, norm, subtract

_FAR_OFF = 1e3  # times order one, or times each other: beyond this, one step or margin for all makes no sense; by hand
_CARRIED = 0.5  # share of a mean that the largest hundredth of the rows may carry before it is said; by hand


@dataclasses.dataclass(frozen=True)
class Finding:
    """One thing that was probed."""

    what: str
    ok: bool
    sentence: str


class Seen(NamedTuple):
    """What the samples show at one point."""

    x: Tree
    f: np.ndarray  # a value per sample
    h: np.ndarray  # N values per sample, minus levels
    slope: np.ndarray  # |grad f|, per sample

    @property
    def H(self) -> np.ndarray:
        """Mean constraints."""
        return self.h.mean(axis=0)

    @property
    def error(self) -> np.ndarray:
        """Standard errors of the mean constraints."""
        return self.h.std(axis=0) / math.sqrt(len(self.h))


class Probe:
    """Samples to look at from any point of the domain, and what they show at the points given."""

    def __init__(self, problem: Problem, theta: Tree, points: list[Tree], names: list[str]):
        self.problem, self.names = problem, names
        self.size = jax.tree.leaves(theta)[0].shape[0]

        @compiled
        def at(x: Tree) -> Array:
            near = linearised(problem, x, theta)

            def one_sample(one: Tree) -> Array:
                f, h, g = near.value_and_gradient(x, jnp.zeros(len(names), float_dtype(x)), _batch(one))
                return jnp.concatenate([f[None], norm(g)[None], h])

            return jax.lax.map(one_sample, theta, batch_size=256)

        self._at = at
        self._derivatives = compiled(lambda x: problem.jacobian(x, theta)[2:])
        self._known: list[
            tuple[Tree, tuple[Tree, Tree]]
        ] = []  # of the points given, which are asked for again and again
        self.seen = [self.look(x) for x in points]

    def look(self, x: Tree) -> Seen:
        """The samples at x."""
        values = np.asarray(self._at(x), float)
        return Seen(x, f=values[:, 0], slope=values[:, 1], h=values[:, 2:])

    def gradient(self, x: Tree) -> Tree:
        """The mean of grad f."""
        return self._jacobian(x)[0]

    def constraint_gradient(self, x: Tree, i: int) -> Tree:
        """The mean of grad h_i."""
        return jax.tree.map(lambda rows: rows[i], self._jacobian(x)[1])

    def _jacobian(self, x: Tree) -> tuple[Tree, Tree]:
        for point, derivatives in self._known:
            if point is x:
                return derivatives
        derivatives = self._derivatives(x)
        if any(seen.x is x for seen in self.seen):
            self._known.append((x, derivatives))
        return derivatives

    def far(self, x: Tree, g: Tree) -> Tree:
        """The end of the domain in the direction -g."""
        domain = self.problem.domain
        if domain.has_lmo:
            return jax.tree.map(lambda v, like: jnp.asarray(v, like.dtype), domain.lmo(g), x)
        length = float(norm(g))
        return x if length == 0 else domain.project(add_scaled(x, -float(domain.diameter) / length, g))


def look_at_scales(probe: Probe) -> list[Finding]:
    """One finding for each kind of trouble; those about constraints where there are any."""
    about_constraints = [_noise(probe), _idle(probe)] if probe.names else []
    return [_units(probe), _rows(probe), _domain(probe), *about_constraints]


def _batch(one: Tree) -> Tree:
    return jax.tree.map(lambda a: a[None], one)


def _told(what: str, troubles: list[str], otherwise: str) -> Finding:
    """A finding made of sentences; at most three of them, because a hundred constraints may share a trouble."""
    more = [f"({len(troubles) - 3} more of this kind.)"] if len(troubles) > 3 else []
    return Finding(what, not troubles, " ".join([*troubles[:3], *more]) or otherwise)


# ---- units ---------------------------------------------------------------------------------------------------------------


def _units(probe: Probe) -> Finding:
    """How far f, h and x spread over the domain, against one and against each other."""
    start = probe.seen[0].x
    ends = [*probe.seen, probe.look(probe.far(start, probe.gradient(start)))]
    troubles = []
    if probe.problem.knows_objective:
        troubles += _of_order_one("the objective", _spread([s.f.mean() for s in ends]), "multiply it by {}")
    constraints = dict(zip(probe.names, np.ptp([s.H for s in ends], axis=0), strict=True))
    for name, spread in constraints.items():
        troubles += _of_order_one(name, spread, "multiply it and its level by {}")
    widths = _widths([s.x for s in ends])
    for name, width in widths.items():
        troubles += _of_order_one(name, width, "multiply it by {} (divide by that inside f and h)")
    troubles += _far_apart(constraints, "one margin and one dual step cannot suit both")
    troubles += _far_apart(widths, "one step size cannot suit both")
    return _told("units", troubles, "f, h and x spread over the domain by numbers of order one.")


def _spread(values: list[Any]) -> float:
    return float(np.ptp(values))


def _of_order_one(name: str, spread: float, remedy: str) -> list[str]:
    if spread == 0 or 1 / _FAR_OFF <= spread <= _FAR_OFF:
        return []
    return [
        f"{name} spreads by {spread:.2g} over the domain, where steps and margins made for numbers of order one are "
        f"senseless; {remedy.format(_power(spread))}, or leave coefficients to the method."
    ]


def _far_apart(spreads: dict[str, float], why: str) -> list[str]:
    positive = {name: spread for name, spread in spreads.items() if spread > 0}
    if not positive:
        return []
    large, small = max(positive, key=positive.__getitem__), min(positive, key=positive.__getitem__)
    if positive[large] <= _FAR_OFF * positive[small]:
        return []
    return [
        f"{large} spreads {positive[large] / positive[small]:.2g} times as far as {small}: {why}. Multiply {large} by "
        f"{_power(positive[large])} and {small} by {_power(positive[small])}."
    ]


def _power(spread: float) -> str:
    """The power of ten that brings a spread to order one."""
    return f"1e{-round(math.log10(spread))}"


def _widths(points: list[Tree]) -> dict[str, float]:
    """How far apart the points are, leaf by leaf."""
    found = {}
    for leaves in zip(*(jax.tree_util.tree_leaves_with_path(x) for x in points), strict=True):
        values = [np.asarray(leaf, float) for _, leaf in leaves]
        widest = max(float(np.linalg.norm(np.ravel(a - b))) for a in values for b in values)
        found[f"x{jax.tree_util.keystr(leaves[0][0])}"] = widest
    return found


# ---- rows ----------------------------------------------------------------------------------------------------------------


def _rows(probe: Probe) -> Finding:
    """The share of each mean that the largest hundredth of the rows carries, where it is smallest among the points."""
    shares = {}
    if probe.problem.knows_objective:
        shares["the objective"] = _share(probe, lambda s: s.f - np.median(s.f))
    shares["the objective's gradient"] = _share(probe, lambda s: s.slope)
    for i, name in enumerate(probe.names):
        shares[name] = _share(probe, lambda s, i=i: s.h[:, i] - np.median(s.h[:, i]))
    troubles = [
        f"the largest 1 % of the samples carry {share:.0%} of {name} at every point tried: its mean is that of a few rows. "
        "Are they real? Clip or transform them, or expect every run to depend on which of them it met."
        for name, share in shares.items()
        if share > _CARRIED
    ]
    return _told("rows", troubles, "no few rows carry a mean.")


def _share(probe: Probe, of: Callable[[Seen], np.ndarray]) -> float:
    top, shares = math.ceil(probe.size / 100), []
    for seen in probe.seen:
        sizes = np.sort(np.abs(of(seen)))
        if sizes[-1] > 0 and probe.size >= 10:
            shares.append(float(sizes[-top:].sum() / sizes.sum()))
    return min(shares, default=0.0)


# ---- the domain ----------------------------------------------------------------------------------------------------------


def _domain(probe: Probe) -> Finding:
    """The size of the domain against the distance that objective and violated constraints pull from the start."""
    start, D = probe.seen[0], float(probe.problem.domain.diameter)
    said = Finding("domain", True, "its size suits the distance that the objective pulls.")
    gradient = probe.gradient(start.x)
    noise = math.sqrt(max(float(np.mean(start.slope**2)) - float(norm(gradient)) ** 2, 0.0) / probe.size)
    if float(norm(gradient)) <= SURE * noise:  # no pull that could be told from noise
        return said
    end = probe.far(start.x, gradient)
    along, reach = _pull(probe, start.x, end), float(norm(subtract(end, start.x)))
    pushes = []
    for i, excess in enumerate(start.H):
        if excess > 0 and (steepest := float(norm(probe.constraint_gradient(start.x, i)))) > 0:
            pushes.append(excess / steepest)
    pulled = max([along * reach, *pushes])
    if 0 < pulled < D / _FAR_OFF:
        return Finding(
            "domain",
            False,
            f"its diameter is {D:.2g}, and the objective pulls {pulled:.2g} from the start at most: it never binds, and "
            f"bounds and steps that are made of the diameter are {D / pulled:.0e} times too large. A domain of diameter "
            f"{10 * pulled:.1g} around the start would do.",
        )
    linear = 1 / (1e3 * eps_of(start.x))
    if 10 < along < linear and np.all(probe.look(end).H <= 0):
        return Finding(
            "domain",
            False,
            f"it binds everywhere: the objective pulls about {along:.2g} times further than the domain reaches, and every "
            "constraint holds at that end. The answer is a corner of the domain, not of the problem; is it large enough?",
        )
    return said


def _pull(probe: Probe, x: Tree, end: Tree) -> float:
    """Where on the way from x (0) to the end (1) the objective is lowest; beyond 1 by the secant of its slopes."""
    way = subtract(end, x)

    def slope(t: float) -> float:
        return float(dot(probe.gradient(add_scaled(x, t, way)), way))

    at_0, at_1 = slope(0.0), slope(1.0)
    if at_1 <= 0:
        return math.inf if at_1 <= at_0 else at_0 / (at_0 - at_1)
    low, high = 0.0, 1.0
    while high - low > low / 8 and high > 0.1 / _FAR_OFF:
        middle = (low + high) / 2
        low, high = (middle, high) if slope(middle) < 0 else (low, middle)
    return high


# ---- constraints ---------------------------------------------------------------------------------------------------------


def _noise(probe: Probe) -> Finding:
    """Twice the standard error of each constraint where its mean is zero, against that mean elsewhere and its level."""
    H, errors = np.stack([s.H for s in probe.seen]), np.stack([s.error for s in probe.seen])
    levels = np.broadcast_to(np.abs(np.asarray(probe.problem.levels, float)), H.shape[1:])
    troubles = []
    for i, name in enumerate(probe.names):
        targets = {"its mean at any point tried": float(np.abs(H[:, i]).max())}
        targets |= {"its level": float(levels[i])} if levels[i] > 0 else {}
        low, high = int(H[:, i].argmin()), int(H[:, i].argmax())
        error = float(max(errors[low, i], errors[high, i]))
        if 2 * error > min(targets.values()) and H[low, i] < 0 < H[high, i]:  # look closer, between the two
            share = float(H[low, i] / (H[low, i] - H[high, i]))
            between = probe.problem.domain.mix(probe.seen[low].x, probe.seen[high].x, share)
            error = float(probe.look(between).error[i])
        for target, size in targets.items():
            if 2 * error > size:
                needed = (
                    f"About {probe.size * (2 * error / size) ** 2:.1e} samples" if size > 0 else "No number of samples"
                )
                troubles.append(
                    f"the noise of {name} hides {target}: with {probe.size:,} samples the standard error is {error:.2g}, "
                    f"against {size:.2g}. {needed} would tell on which side of the constraint a point is."
                )
                break
    return _told("noise", troubles, f"with {probe.size:,} samples the constraints can be told from zero.")


def _idle(probe: Probe) -> Finding:
    """Constraints with one sign wherever one looks, also at the ends of the domain to which they point."""
    troubles = []
    for i, name in enumerate(probe.names):
        signs = [_sign(seen, i) for seen in probe.seen]
        if all(sign < 0 for sign in signs) and (least := _pushed(probe, i, up=True)) is not None:
            troubles.append(
                f"{name} holds at every point tried, by {-least:.2g} or more, also at the ends of the domain to which it "
                "points: it changes nothing. Is its level what you meant?"
            )
        elif all(sign > 0 for sign in signs) and (least := _pushed(probe, i, up=False)) is not None:
            troubles.append(
                f"{name} holds at no point tried; the least value found is {least:.2g}. Is its level, or its sign, what you "
                "meant? Constraints are h <= level."
            )
    return _told("constraints", troubles, "each holds at some of the points tried and fails at others, or nearly.")


def _sign(seen: Seen, i: int) -> int:
    """-1 or 1 where the mean of h_i is surely below or above zero, else 0."""
    H, error = float(seen.H[i]), float(seen.error[i])
    return 0 if abs(H) <= SURE * error else int(math.copysign(1, H))


def _pushed(probe: Probe, i: int, *, up: bool) -> float | None:
    """The mean of h_i nearest to zero that a walk towards it finds; None where its sign does not stay what it was.

    Upwards from end to end, because a convex function is largest at ends; downwards by Frank-Wolfe.
    """
    key = max if up else min
    seen = key(probe.seen, key=lambda s: s.H[i])
    nearest = float(seen.H[i])
    for k in range(3 if up else 12):
        g = probe.constraint_gradient(seen.x, i)
        end = probe.far(seen.x, jax.tree.map(jnp.negative, g) if up else g)
        seen = probe.look(end if up else probe.problem.domain.mix(seen.x, end, 2 / (k + 2)))
        nearest = key(nearest, float(seen.H[i]))
        if _sign(seen, i) != (-1 if up else 1):
            return None
    return nearest


def look_together(probe: Probe, theta: Tree) -> Finding:
    """Constraints that exclude each other, each of which may hold somewhere: a phase one on the samples, whose weights would
    prove that no point satisfies all of them."""
    problem = probe.problem
    units = np.ptp([s.H for s in probe.seen], axis=0)
    units = jnp.asarray(np.where(units > 0, units, 1.0), float_dtype(probe.seen[0].x))
    seen = min(probe.seen, key=lambda s: np.max(s.H / np.asarray(units)))
    possible = not problem.nested and problem.domain.has_lmo and problem.domain.additive
    if np.max(seen.H) > 0 and possible:
        seen = probe.look(least_violating(problem, seen.x, theta, units))
    if np.max(seen.H) <= 0:
        return Finding("together", True, "a point was found where all constraints hold.")
    if possible:
        weights, _ = best_weights(problem, seen.x, theta, units)
        if found := conflict(problem, seen.x, np.asarray(weights / units), theta):
            said = f"{said_of_conflict(found, probe.names)} No point satisfies all of them; raise a level by that much."
            return Finding("together", False, said)
    return Finding("together", True, "no point was found where all constraints hold, and no proof that there is none.")
