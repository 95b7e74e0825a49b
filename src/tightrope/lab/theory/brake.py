"""The brake: any method keeps E H <= 0 at every T, and its run certifies itself (docs/theory.md, theorems 1, 2 and 4).

A run adds up what it sees of its constraints. It stops for good when the rest of the steps, taken at a point that is known
to be strictly feasible, would just make up for that sum; the mean of its points is then feasible in expectation, whatever
the method does. A run without an end cannot wait for the rest: it takes a step at that point whenever the sum could become
positive, and goes on after it.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tightrope.methods.base import Facts, Info, Method, Steps
from tightrope.methods.measured import SelfMeasuring
from tightrope.problem import Problem
from tightrope.result import Result
from tightrope.tree import Array, Tree, pytree, set_field, static

_SCALES = 30  # exponents 2^-1, 2^-2, ...: derived, the last suits a variance of 4^30 steps, more than any run has


class _Point:
    """A point that is compiled in: the same as itself and as no other."""

    def __init__(self, point: Tree):
        self.point = jax.tree.map(np.asarray, point)


class BrakedState(NamedTuple):
    """What the next step needs: the method's own state, and the book."""

    x: Tree  # where the next step is taken
    lam: Array
    t: Array  # its number, from 1
    horizon: Array  # T
    own: Any  # the method's state
    book: Array  # (N,) sums of weighted h, and of -slack where steps are safe
    spread: Array  # (N,) V: sums of squares, weighted, of h beside its mean so far, in ranges
    mean: Array  # (N,) that mean
    taken: Array  # how many steps were the method's own
    weight: Array  # of all steps so far
    on: Array  # whether the run has not been stopped


@pytree
class Braked(Method):
    """A method with the brake: E H_i <= 0 at the mean of its points, at every T.

    Args:
        base: a method whose output is the mean of its points, such as `tr.CSOA()`; one that is `anytime` goes on after a
            stop, for `tr.Online`.
        inside: a point with H_i <= -slack_i, as `tr.certify` shows of one or the problem says.
        slack: by how much at least, a positive number or one for each constraint.
        low, high: the least and the largest value that h can take (levels taken off).
        chance: of an exception. None for a promise in expectation; otherwise H_i <= 0 for all i at the very point that is
            returned, but with this probability.

    Example:
        >>> import jax, jax.numpy as jnp, tightrope as tr
        >>> from tightrope.theory import Braked
        >>> problem = tr.Problem(lambda x, theta: -x[0], lambda x, theta: x * theta - 0.5, tr.Box(0.0, 1.0, shape=(1,)))
        >>> method = Braked(tr.CSOA(), inside=jnp.zeros(1), slack=0.5, low=-0.5, high=1.5)
        >>> noise = tr.Generator(lambda key: 2 * jax.random.uniform(key))
        >>> result = tr.minimize(problem, noise, method=method, steps=500)
        >>> bool(result.state.book[0] <= 0)
        True
    """

    base: Any
    inside: Any = static()  # these are facts of the problem, no coefficients: nobody tries several
    slack: Any = static()
    low: Any = static()
    high: Any = static()
    chance: float | None = static(default=None)

    facts = Facts()

    def __post_init__(self) -> None:
        if not isinstance(self.base, Method) or self.base.facts.output != "average":
            raise TypeError(
                f"Braked: base is {self.base!r}; expected a method whose output is the mean of its points, such as "
                "tr.CSOA()."
            )
        if not isinstance(self.inside, _Point):
            set_field(self, "inside", _Point(self.inside))
        for name in ("slack", "low", "high"):
            set_field(self, name, tuple(np.ravel(np.asarray(getattr(self, name), float)).tolist()))
        slack, low, high = (np.asarray(v) for v in (self.slack, self.low, self.high))
        if not np.all(slack > 0) or not np.all(high > low) or not np.all(low <= -slack):
            raise ValueError(
                f"Braked: slack is {self.slack}, low {self.low} and high {self.high}; expected a positive slack, and a "
                "range that reaches from -slack or below to above."
            )
        if self.chance is not None and not 0 < self.chance < 1:
            raise ValueError(f"Braked: chance is {self.chance!r}; expected a probability, or None.")

    @property
    def anytime(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Whether a run needs no end."""
        return self.base.anytime

    @property
    def steps(self) -> Steps:
        """Those of the method, with what the brake has to say."""
        return _Braking(self)

    @property
    def measures(self) -> bool:
        """Whether the method weighs its points by their numbers, as those do that measure their scales."""
        return isinstance(self.base, SelfMeasuring) and self.base.measures

    def fitted(self, problem: Problem, x: Tree, theta: Tree) -> "Braked":
        """With the method fitted."""
        base = self.base.fitted(problem, x, theta)
        return Braked(base, self.inside, self.slack, self.low, self.high, self.chance)

    def init(self, problem: Problem, x: Tree, lam: Array, horizon: Array) -> BrakedState:
        """Nothing on the book."""
        none, zero = jnp.zeros_like(lam), jnp.zeros((), lam.dtype)
        own, middle = (
            self.base.init(problem, x, lam, horizon),
            none + (jnp.asarray(self.low) + jnp.asarray(self.high)) / 2,
        )
        one = jnp.ones((), jnp.int32)
        return BrakedState(x, lam, one, horizon, own, none, none, middle, one - 1, zero, jnp.ones((), bool))

    def step(self, problem: Problem, state: BrakedState, theta: Tree) -> tuple[BrakedState, Info]:
        """The method's own step where the book allows one, and otherwise one that stands at the point inside."""
        dtype, slack, high = state.lam.dtype, jnp.asarray(self.slack), jnp.asarray(self.high)
        weight, top = self._weight(state.t, state.horizon, dtype), self._weight(state.horizon, state.horizon, dtype)
        share = weight / (weight if self.anytime else top)
        ranges = high - jnp.asarray(self.low)
        worst = state.book + weight * high + self._width(state.spread + share**2) * top * ranges
        due = 0.0 if self.anytime else slack * self._left(state.t, state.horizon, dtype)
        goes = jnp.all(worst <= due) & (self.anytime | state.on)

        def own(_: None) -> tuple[Any, Info]:
            after, info = self.base.step(problem, state.own, theta)
            return after, Info(info.x, info.lam, info.f, info.h, weight)

        def safe(_: None) -> tuple[Any, Info]:
            f, h = problem.values(_like(self.inside.point, state.x), theta)
            return state.own, Info(_like(self.inside.point, state.x), state.own.lam, f, h, weight)

        after, info = jax.lax.cond(goes, own, safe, None)
        away = (info.h - state.mean) / ranges
        taken = state.taken + goes
        return BrakedState(
            x=jax.tree.map(lambda p, q: jnp.where(goes, p, q), after.x, _like(self.inside.point, state.x)),
            lam=after.lam,
            t=state.t + 1,
            horizon=state.horizon,
            own=after,
            book=state.book + weight * jnp.asarray(jnp.where(goes, info.h, -slack)),
            spread=state.spread + jnp.asarray(jnp.where(goes, (share * away) ** 2, 0.0)),
            mean=jnp.asarray(jnp.where(goes, state.mean + (info.h - state.mean) / (taken + 1), state.mean)),
            taken=taken,
            weight=state.weight + weight,
            on=goes,
        ), info

    def _weight(self, t: Array, horizon: Array, dtype: Any) -> Array:
        """Of the t-th point in the mean: its number over T, or its number, or one."""
        one = jnp.ones((), dtype)
        if not self.measures:
            return one
        return t.astype(dtype) / (one if self.anytime else horizon.astype(dtype))

    def _left(self, t: Array, horizon: Array, dtype: Any) -> Array:
        """The weight of the steps from the t-th on."""
        after, T = t.astype(dtype), horizon.astype(dtype)
        # The t-th step counts as taken: what is left is what follows it.
        return (T - after) * (T + after + 1) / (2 * T) if self.measures else T - after

    def _width(self, spread: Array) -> Any:
        """By how much, in ranges and weights of the last step, sums may be off that were seen; nothing in expectation."""
        return 0.0 if self.chance is None else width(spread, self.chance)


def width(spread: Any, chance: float) -> Any:
    """u of theorem 4, for all constraints and all steps at once but with this probability."""
    k = 2.0 ** -np.arange(1, _SCALES + 1)
    psi = -np.log1p(-k) - k
    N = max(1, np.size(spread))
    each = [(np.log(N * _SCALES / chance) + slope * jnp.asarray(spread)) / at for slope, at in zip(psi, k, strict=True)]
    return jnp.min(jnp.stack(each), axis=0)


class _Braking(Steps):
    """What a report says of a run with the brake."""

    method: Any

    def said(self, state: Any, names: list[str]) -> str | None:
        """How many of the steps were the method's own, and what the run shows of itself."""
        method, every = self.method, max(int(state.t) - 1, 1)
        said = f"the brake left {100 * int(state.taken) / every:.4g} % of the steps to {method.base.name}"
        if not method.anytime:
            held = zip(names, _bounds(method, state, 0.05), strict=True)
            said += "; with probability 95 % " + ", ".join(
                f"{name} is at most {bound:.3g} above" for name, bound in held
            )
            said += " its level, by the sums of this run"
        own = method.base.steps.said(state.own, names)
        return f"{said}." if own is None else f"{said}; {own}"


def self_certificate(result: Result, chance: float = 0.05) -> np.ndarray:
    """Bounds on H_i at the mean of a braked run's points, all of them but with this probability, without held-out rows.

    Steps at the point inside count by what is known of them. Samples need not be independent: then the bounds are on means
    of conditional expectations along the run.

    Example:
        >>> import jax, jax.numpy as jnp, tightrope as tr
        >>> from tightrope.theory import Braked, self_certificate
        >>> problem = tr.Problem(lambda x, theta: -x[0], lambda x, theta: x * theta - 0.5, tr.Box(0.0, 1.0, shape=(1,)))
        >>> method = Braked(tr.CSOA(), inside=jnp.zeros(1), slack=0.5, low=-0.5, high=1.5)
        >>> noise = tr.Generator(lambda key: 2 * jax.random.uniform(key))
        >>> result = tr.minimize(problem, noise, method=method, steps=500)
        >>> bool(self_certificate(result)[0] > result.x[0] - 0.5)
        True
    """
    state, method = result.state, result.method
    if not isinstance(method, Braked) or method.anytime:
        raise TypeError(
            "self_certificate expects the result of a Braked method of minimize, which keeps the sums it is made of."
        )
    return _bounds(method, state, chance)


def _bounds(method: Braked, state: BrakedState, chance: float) -> np.ndarray:
    last = float(method._weight(state.horizon, state.horizon, np.float32))
    off = (np.asarray(method.high) - np.asarray(method.low)) * last * np.asarray(width(state.spread, chance), float)
    return (np.asarray(state.book, float) + off) / float(state.weight)


def _like(point: Tree, like: Tree) -> Tree:
    return jax.tree.map(lambda p, q: jnp.broadcast_to(jnp.asarray(p, q.dtype), q.shape), point, like)
