"""Constants estimated from a pilot: what samples at some points of the domain say, with intervals."""

import dataclasses
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tightrope._errors import whole_number
from tightrope._jaxlib import compiled
from tightrope._minimize import minimize
from tightrope.confidence import TWO_SIDED
from tightrope.lab.theory.constants import Constants
from tightrope.methods import CSOA, FWCSOA
from tightrope.precision import digits
from tightrope.problem import Problem
from tightrope.problem.problem import astype_problem, check_shapes
from tightrope.sampling import Sampler, as_sampler
from tightrope.tree import Array, Tree, add_scaled, all_finite, astype, dot, float_dtype, norm, subtract

_SEARCH = 64  # steps of the search for a strictly feasible point; by hand
_SHORT = 1e-2  # share of a chord at whose end smoothness is asked for, too: it is steepest nearby; by hand


class Interval(NamedTuple):
    """An estimate and the ends of its 95 % interval.

    Example:
        >>> from tightrope.theory import Interval
        >>> Interval(1.0, 0.9, 1.2).high
        1.2
    """

    value: float
    low: float
    high: float

    @classmethod
    def around(cls, value: float, error: float, floor: float = -math.inf) -> "Interval":
        """95 % around an estimate with this standard error; nothing of it is below the floor.

        Example:
            >>> Interval.around(1.0, 1.0, floor=0.0).low
            0.0
        """
        width = TWO_SIDED * error
        return cls(*(max(v, floor) for v in (value, value - width, value + width)))

    def __str__(self) -> str:
        known = "exact" if self.low == self.value == self.high else f"[{self.low:.4g}, {self.high:.4g}]"
        return f"{self.value:<10.4g} {known}"


@dataclasses.dataclass(frozen=True)
class Estimates:
    """What `estimate` found; prints as a table.

    Attributes:
        intervals: by the names of `Constants`.
        points: how many points were looked at.
        samples: how many samples at each.
        strict: the point with the largest margin that was found; sigma is its margin.

    Example:
        >>> from tightrope.theory import Estimates, Interval
        >>> found = Estimates({"D": Interval(2.0, 2.0, 2.0)}, points=1, samples=10, strict=None)
        >>> found.intervals["D"].high
        2.0
    """

    intervals: dict[str, Interval]
    points: int
    samples: int
    strict: Tree

    @property
    def constants(self) -> Constants:
        """The estimates themselves."""
        return self._made_of(lambda name, found: found.value)

    @property
    def cautious(self) -> Constants:
        """The ends of the intervals that make rules safer: the lower ones of sigma and mu, the upper ones of all others."""
        return self._made_of(lambda name, found: found.low if name in ("sigma", "mu") else found.high)

    def _made_of(self, choose: Callable[[str, Interval], float]) -> Constants:
        found = {name: choose(name, interval) for name, interval in self.intervals.items()}
        return Constants(**found | {"N": int(found["N"])})  # pyright: ignore[reportArgumentType]

    def __str__(self) -> str:
        lines = [f"Constants from {self.samples:,} samples at {self.points} points, with 95 % intervals there"]
        lines += [f"  {name:<9}  {interval}" for name, interval in self.intervals.items()]
        lines += [
            "Suprema over X (G, sigma_f, sigma_h, sigma_lam, L) were sought at these points alone: they are LOWER",
            "estimates, not bounds, whatever the intervals say, and what follows from them is a guess. For the same",
            "reason mu is an upper estimate. sigma is the margin of a point that was found; larger ones may exist.",
        ]
        if self.intervals["sigma"].value <= 0:
            lines += ["No strictly feasible point was found; without one no rule applies."]
        return "\n".join(lines)

    __repr__ = __str__


def estimate(
    problem: Problem, data: Any, *, x0: Tree = None, samples: int = 1000, points: int = 24, seed: int = 0
) -> Estimates:
    """Estimate the constants of a problem from samples at random points of its domain and along a short run.

    Suprema estimated from samples are lower estimates, not bounds: where X has corners that were not visited, or samples
    have tails that were not drawn, the true constants are larger. D and N are exact.

    Args:
        problem: the problem.
        data: arrays, or a sampler, as for `minimize`.
        x0: a point, where the domain does not know its shape.
        samples: how many samples to look at, the same at every point.
        points: how many random points; those of a short run and of a search for a strictly feasible point are added.
        seed: decides which points and samples are looked at.

    Example:
        >>> import numpy as np, tightrope as tr
        >>> problem = tr.Problem(
        ...     lambda x, theta: x @ theta, lambda x, theta: x[:1], tr.L2Ball(1.0, shape=2), levels=0.5
        ... )
        >>> found = tr.theory.estimate(problem, np.ones((16, 2)), samples=16, points=2)
        >>> found.constants.N, round(float(found.constants.D), 3)
        (1, 2.0)
    """
    whole_number("estimate", "samples", samples, least=4)
    whole_number("estimate", "points", points, least=2)
    if not problem.domain.additive:
        raise TypeError(f"estimate: points of a {problem.domain.name} are factored; expected a domain of plain arrays.")
    sampler = as_sampler(data)
    with digits(sampler.n is not None):
        return _estimated(problem, sampler, x0, samples, points, seed)


def _estimated(problem: Problem, sampler: Sampler, x0: Tree, samples: int, points: int, seed: int) -> Estimates:
    x = jax.tree.map(jnp.asarray, problem.domain.start() if x0 is None else x0)
    x = astype(x, jnp.result_type(float)) if sampler.n is not None else x
    n = check_shapes(problem, x, sampler.example())
    if n == 0:
        raise ValueError(
            "estimate: the problem has no constraints; expected at least one, because rules are about them."
        )
    problem, theta = astype_problem(problem, float_dtype(x)), sampler.some(samples, seed)
    count = jax.tree.leaves(theta)[0].shape[0]
    halves = slice(count // 2), slice(count // 2, count)
    search, judge = (jax.tree.map(lambda a, half=half: a[half], theta) for half in halves)
    pilot = _Pilot(problem, theta)
    places = [*_random_points(problem, x, points, seed), *_short_run(problem, sampler, x, min(samples, 500), seed)]
    places = [place for place in places if bool(all_finite(place))]
    strict = _strictly_feasible(problem, places, search)
    places.append(strict)
    seen = [pilot.seen_at(place) for place in places]
    chords = [pilot.chord(a, b) for a, b in zip(places, places[1:] + places[:1], strict=True)]
    sigma = _margin(problem, strict, judge)
    D = float(problem.domain.diameter)
    found = {
        "D": _exact(D),
        **{name: max(getattr(one, name) for one in seen) for name in _Seen._fields if name not in ("x", "gradient")},
        **{name: max(getattr(chord, name) for chord in chords) for name in ("L_f", "L_h")},
        "mu": min(chord.mu for chord in chords),
        "N": _exact(n),
        "sigma": sigma,
    }
    if sigma.value > 0:
        drops = [drop for one in seen if (drop := pilot.drop(strict, one)) is not None]
        found["C"] = _multipliers(min([*drops, Interval(*(v * D for v in found["G_f"]))]), sigma)
    return Estimates(found, len(places), count, jax.tree.map(np.asarray, strict))


# ---- where to look -------------------------------------------------------------------------------------------------------


def _random_points(problem: Problem, x: Tree, count: int, seed: int) -> list[Tree]:
    """The start, and points between it and far ends in random directions: norms are largest at the ends."""
    domain, rng, found = problem.domain, np.random.default_rng(seed), [x]
    for k in range(count - 1):
        direction = jax.tree.map(lambda v: jnp.asarray(rng.normal(size=jnp.shape(v)), v.dtype), x)
        far = domain.lmo(direction) if domain.has_lmo else domain.project(add_scaled(x, domain.diameter, direction))
        found.append(domain.mix(x, far, 1.0 if k % 2 else float(rng.uniform())))
    return found


def _short_run(problem: Problem, sampler: Sampler, x: Tree, steps: int, seed: int) -> list[Tree]:
    """Where a run goes: its mean and its last point."""
    method = CSOA() if problem.domain.cheap_projection else FWCSOA()
    result = minimize(problem, sampler, method=method, steps=steps, seed=seed, x0=x, progress=False)
    return [jax.tree.map(jnp.asarray, point) for point in (result.average, result.last)]


def _strictly_feasible(problem: Problem, places: list[Tree], theta: Tree) -> Tree:
    """The point with the smallest worst constraint among the given ones and those of a search that pushes the worst down."""
    domain = problem.domain

    @compiled
    def at(x):
        _, h, _, rows = problem.jacobian(x, theta)
        return jnp.max(h), jax.tree.map(lambda r: r[jnp.argmax(h)], rows)

    tried = [(float(at(place)[0]), k) for k, place in enumerate(places)]
    worst, k = min(tried)
    best = x = places[k]
    for k in range(_SEARCH):
        value, g = at(x)
        if float(value) < worst:
            worst, best = float(value), x
        if domain.has_lmo:
            x = domain.mix(x, domain.lmo(g), 2 / (k + 3))
        else:
            length = domain.diameter / (math.sqrt(k + 1) * max(float(norm(g)), 1e-30))
            x = domain.project(add_scaled(x, -length, g))
    return best


# ---- what is seen there ---------------------------------------------------------------------------------------------------


class _Seen(NamedTuple):
    """What is estimated at one point; of several the largest count."""

    x: Tree
    gradient: Tree  # mean of grad f
    G_f: Interval
    G_h: Interval
    sigma_f: Interval
    sigma_h: Interval
    sigma_lam: Interval


class _Chord(NamedTuple):
    """Estimates along one chord."""

    L_f: Interval
    L_h: Interval
    mu: Interval


def _stacked(grad_f: Tree, rows: Tree) -> Tree:
    """grad f and the N rows grad h_i as N + 1 rows."""
    return jax.tree.map(lambda a, r: jnp.concatenate([a[None], r]), grad_f, rows)


def _first(rows: Tree) -> Tree:
    return jax.tree.map(lambda r: r[0], rows)


def _squares(rows: Tree) -> Array:
    """|.|^2 of every row."""
    return sum((jnp.sum(r.reshape(r.shape[0], -1) ** 2, axis=1) for r in jax.tree.leaves(rows)), start=jnp.zeros(()))


class _Pilot:
    """The samples of a pilot, looked at from any point; per-sample gradients are never held all at once."""

    def __init__(self, problem: Problem, theta: Tree):
        self.domain = problem.domain

        def of_sample(x: Tree, one: Tree) -> tuple[Array, Array, Tree]:
            f, h, grad_f, rows = problem.jacobian(x, jax.tree.map(lambda a: a[None], one))
            return f, h, _stacked(grad_f, rows)

        def over_samples(fn: Callable[[Tree], Any]) -> Any:
            return jax.lax.map(fn, theta, batch_size=64)

        @compiled
        def at(x: Tree):
            def lengths(one: Tree):
                _, h, rows = of_sample(x, one)
                return h, _squares(rows)

            _, _, grad_f, rows = problem.jacobian(x, theta)
            return *over_samples(lengths), grad_f, _squares(_stacked(grad_f, rows))

        @compiled
        def along(x: Tree, y: Tree):
            apart = subtract(x, y)

            def changes(one: Tree):
                change = subtract(of_sample(x, one)[2], of_sample(y, one)[2])
                return _squares(change), dot(_first(change), apart)

            return *over_samples(changes), dot(apart, apart)

        @compiled
        def drops(strict: Tree, x: Tree, toward: Tree):
            def drop(one: Tree):
                f, _, rows = of_sample(x, one)
                return of_sample(strict, one)[0] - f - dot(_first(rows), subtract(toward, x))

            return over_samples(drop)

        self._at, self._along, self._drops = at, along, drops

    def seen_at(self, x: Tree) -> _Seen:
        """Gradients and values at x."""
        h, lengths, gradient, of_mean = self._at(x)
        h, lengths, of_mean = (np.asarray(v, float) for v in (h, lengths, of_mean))
        errors = np.sqrt(np.maximum(lengths.mean(axis=0) - of_mean, 0) / len(lengths))  # of mean gradients, as lengths
        G = [Interval.around(v, e, floor=0.0) for v, e in zip(np.sqrt(of_mean), errors, strict=True)]
        sigma_f, *sigma_h = map(_root_mean, lengths.T)
        return _Seen(x, gradient, G[0], max(G[1:]), sigma_f, max(sigma_h), max(map(_root_mean, (h**2).T)))

    def chord(self, x: Tree, y: Tree) -> _Chord:
        """How gradients change between x and y, and between x and a point close to it."""
        found = [self._chord(x, end) for end in (y, add_scaled(x, _SHORT, subtract(y, x)))]
        return _Chord(max(c.L_f for c in found), max(c.L_h for c in found), min(c.mu for c in found))

    def _chord(self, x: Tree, y: Tree) -> _Chord:
        changes, slopes, distance = self._along(x, y)
        square = float(distance)
        if square == 0:
            return _Chord(_exact(0.0), _exact(0.0), _exact(math.inf))
        L = [_root_mean(column) for column in np.asarray(changes, float).T / square]
        return _Chord(L[0], max(L[1:]), Interval.around(*_mean(np.asarray(slopes, float) / square), floor=0.0))

    def drop(self, strict: Tree, seen: _Seen) -> Interval | None:
        """F(strict) less the lowest value of F's tangent at a point, on all of X; None where the domain cannot say."""
        if not self.domain.has_lmo:
            return None
        return Interval.around(*_mean(np.asarray(self._drops(strict, seen.x, self.domain.lmo(seen.gradient)), float)))


def _exact(value: float) -> Interval:
    return Interval(value, value, value)


def _mean(values: np.ndarray) -> tuple[float, float]:
    return float(values.mean()), float(values.std(ddof=1) / math.sqrt(len(values)))


def _root_mean(squares: np.ndarray) -> Interval:
    """The root of the mean of squares."""
    return Interval(*map(math.sqrt, Interval.around(*_mean(squares), floor=0.0)))


def _margin(problem: Problem, x: Tree, theta: Tree) -> Interval:
    """-max_i H_i(x), on samples that x was not chosen by; the constraint that is worst at its upper end counts."""
    h = np.asarray(jax.vmap(lambda one: problem.sample_values(x, one)[1])(theta), float)
    return min((Interval.around(*_mean(-column)) for column in h.T), key=lambda interval: interval.low)


def _multipliers(drop: Interval, sigma: Interval) -> Interval:
    """C = 2 drop/sigma; no upper end where sigma has no positive lower one."""
    highest = 2 * max(drop.high, 0.0) / sigma.low if sigma.low > 0 else math.inf
    return Interval(2 * max(drop.value, 0.0) / sigma.value, 2 * max(drop.low, 0.0) / sigma.high, highest)
