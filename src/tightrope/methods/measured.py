"""Steps made of measured scales: what a method takes when nobody gives it coefficients.

Every number here has the units of something that the run has seen, so f, any h_i, or x with its domain may be written in
other units and nothing changes but rounding. Lengths are measured in y = x/w, with w the widths of the domain.

A run is a pilot and epochs that double. The pilot stands still: half of it at x_1, and half of it as far off as the
objective pulls, for constraints are often flat where a run begins. There gradients are taken with the multipliers
Lam_i (below), because what multipliers add to the noise counts before they are there: steps made for the noise of
grad f alone throw x about, constraints are violated wherever it lands, and multipliers grow although they cannot help.
An epoch starts from the mean point and multipliers of the second half of the one before, and takes n steps of

    eta     = R / (2 sigma_g sqrt n)                      sigma_g: root mean square of |w o (grad f + lambda' grad h)|
    gamma_i = Lam_i / (2 sigma_i sqrt n)                  sigma_i: of h_i;  lambda_i stays below 4 Lam_i

R is how far the solution may still be, Lam_i how large its multipliers are. At first R is the diameter, or a quarter of it
where f is higher as far off as it pulls than at x_1: then the set is wider than what is looked for, and the noise of many
coordinates would throw x to its far end. Within an epoch R is at least what x has travelled. Lam_i is first what would make
up for all that f can change, |w o mean grad f| D / (sigma_i sqrt N) with D the diameter; later both follow what the epochs
found, as in DoG (M. Ivgi, O. Hinder, Y. Carmon, ICML 2023). Within an epoch, too, Lam_i is multiplied by 4 whenever lambda_i
has reached 4 Lam_i, which takes some sqrt n steps of violation: what was rare or small in the pilot may become c times as
large, and the sum of h stays below a multiple of sqrt T log c. Where the pilot saw no slope of f, Lam_i is sigma_g R /
(sigma_i sqrt N) as soon as there is one. T Lam_i as it was first is the most, so that multipliers of an infeasible problem
stay finite. Steps of c/(sigma sqrt n) are those of A. Nemirovski, A. Juditsky, G. Lan, A. Shapiro, SIAM J. Optim. 2009.

The margin is steered. A mean of iterates that weighs x_t by t has H_i <= the same mean of h_i(x_t, theta_t) in expectation,
by Jensen's inequality and because x_t does not depend on theta_t. That mean, m_i, is known at every step; what is missing
until the end of the epoch is made up for by

    upsilon_i = ( a m_i + margin_i ) / (1 - a)            a = (t / end)^2: the share of the weight that is spent;
                                                          between 0 and sigma_i: what was too safe is not taken back
    margin_i  = sigma_i / (4 sqrt(3 end / 4))             a quarter of the standard error of the mean

so that in expectation it ends a quarter of its own standard error below zero, or lower.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tightrope.methods.base import Cost, Method, Steps
from tightrope.methods.widths import length_in, slope_in, step_along
from tightrope.sets import ConvexSet
from tightrope.tree import Array, Tree, add_scaled, dot, nonzero, norm, set_field, subtract

# By hand, where nothing else is said; docs/defaults.md explains them, and `studies.defaults` holds them against problems.
_PILOT = 32  # steps, at least; fewer do not tell a scale from its noise
_STEP = 0.5  # of eta and gamma, in units of what the theory of a fixed horizon balances
_MARGIN = 0.25  # standard errors of the mean of h that it ends below zero, in expectation
_HIGHEST = 4.0  # times Lam_i that a multiplier may reach in an epoch
_MOST = 2.0  # times Lam_i that it may be in the next epoch
_LEAST = 1 / _MOST  # of Lam_i that is kept from one epoch to the next: it falls no faster than it can grow back
_SHARE = 0.1  # of the others' force that every constraint is thought able to need
_NEARER = math.sqrt(1 / 2)  # derived, of R that is kept from one epoch to the next: what noise alone would leave of it
_FEW = 25.0  # events: median of 13 or fewer: mean H above zero in 10 of 22 cells of 48 runs; 18 or more: 0 of 26 (measured)
_RARE = 16.0  # mean squares that a sample's h^2 is where it counts as an event: four standard deviations
_MEMORY = 1 / 8  # weight of the earlier epochs' noise beside that of the last


class SelfMeasuring(Method):
    """A method whose runs measure their own scales, unless somebody gives one of its coefficients."""

    coefficients: ClassVar[tuple[str, ...]]
    where_some_are_given: ClassVar[dict[str, float]]  # what those are that were left out

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.measures:
            for name, value in self.where_some_are_given.items():
                if getattr(self, name) is None:
                    set_field(self, name, value)

    @property
    def measures(self) -> bool:
        """Whether no coefficients were given, so that the run measures its own scales."""
        return all(getattr(self, name) is None for name in self.coefficients)


class MeasuredSteps(Steps):
    """Steps that a run makes of what it sees, with its own margin. It looks far off once, to end the pilot's first half.

    Args:
        method: the method.
        far: what that look costs.
        rare: whether constraints made of rare events are looked out for.
    """

    def __init__(self, method: Method, far: Cost, rare: bool = True):
        super().__init__(method)
        self.far, self.rare = far, rare

    def tightening(self, horizon: int) -> float:
        """None that the constraints would have to leave room for."""
        return 0.0

    def cost(self, steps: int, domain: ConvexSet | None = None) -> Cost:
        """What so many steps cost, with the look far off."""
        return Cost(*(a + b * (steps > 1) for a, b in zip(super().cost(steps), self.far, strict=True)))

    def begin(self, x: Tree, lam: Array, horizon: Array) -> "Measured":
        """What `taken` remembers from step to step: the scales."""
        return begin(x, lam, horizon, self.method.anytime)

    def pressing(self, memory: "Measured", lam: Array) -> Array:
        """The multipliers that a step takes its gradient with."""
        return pressing(memory, lam)

    def taken(
        self, domain: ConvexSet, memory: Any, x: Tree, lam: Array, f: Array, g: Tree, h: Array, t: Array, horizon: Array
    ) -> tuple["Measured", Tree, Array, Array]:
        """After step t, a projected one, from x and lam against the gradient g, where f and h were seen: what is
        remembered, the next point and multipliers, and the weight of x in the output."""
        w, anytime = domain.widths(x), self.method.anytime
        m = travelled(observe(memory, x, lam, slope_in(w, g), f, h, t), domain, w, x)
        stands = m, domain.project(step_along(w, x, eta(m), g)), dual_step(m, lam, h, t), t, horizon
        after = turned(domain, *stands, anytime=anytime, jumps=True, far=partial(far_by_projection, domain, m.x))
        return *after, weight(t, horizon, anytime, lam.dtype)

    def at_start(self, state: Any) -> float:
        """What the pilot saw of f at x_1."""
        return float(state.scales.f)

    def said(self, state: Any, names: list[str]) -> str | None:
        """The scales that were measured."""
        return said(state.scales, names)

    def least_errors(self, state: Any) -> Any:
        """Of constraints made of rare events: few samples that happen to have none would know their mean exactly."""
        return least_errors(state.scales) if self.rare else 0.0


class Seen(NamedTuple):
    """Sums over the steps of an epoch."""

    x: Tree  # of the iterates in its second half; in the pilot, of w o grad f
    lam: Array  # of the multipliers in its second half
    g: Array  # of |w o g|^2
    h: Array  # of h^2
    f: Array  # of f, in the pilot


class Measured(NamedTuple):
    """The scales that an epoch works with, and what it has seen."""

    seen: Seen
    stage: Array  # 0 and 1: the pilot; 2, 3, ...: the epochs
    begin: Array  # the epoch is the steps begin + 1 .. end
    end: Array
    sigma_g: Array
    sigma_h: Array
    Lam: Array  # in the second half of the pilot, the multipliers that gradients are taken with
    R: Array  # 0 in the pilot, so that x stands still
    x: Tree  # where the epoch began; in the pilot, x_1
    pull: Array  # |w o mean grad f| at x_1
    first: Array  # Lam when something was first seen that the multipliers may have to make up for
    mean_h: Array  # weighted by t, over the whole run
    most: Array  # the largest h^2; halved from epoch to epoch
    f: Array  # its mean at x_1


def begin(x: Tree, lam: Array, horizon: Array, anytime: bool) -> Measured:
    """Before the first step."""
    zero, none = jnp.zeros((), lam.dtype), jnp.zeros_like(lam)
    seen = Seen(jax.tree.map(jnp.zeros_like, x), none, zero, none, zero)
    first = jnp.zeros((), jnp.int32)
    return Measured(
        seen, first, first, end_of(first, horizon, anytime), zero, none, none, zero, x, zero, none, none, none, zero
    )


def end_of(stage: Array, horizon: Array, anytime: bool) -> Array:
    """The last step of a stage: the epochs end at T, T/2, T/4, ..., or without a horizon at 64, 128, 256, ..."""
    horizon = _as_counted(horizon)
    halvings = 31 - jax.lax.clz(horizon) - _PILOT.bit_length() + 1
    pilot = jnp.where(halvings > 0, horizon >> jnp.maximum(halvings, 0), (horizon + 1) // 2)
    end = jnp.where(halvings > 0, horizon >> jnp.maximum(halvings - stage + 1, 0), horizon)
    if anytime:
        pilot = jnp.full_like(horizon, _PILOT)
        end = jnp.where(stage < 26, pilot << jnp.clip(stage - 1, 0, 25), np.int32(2**31 - 1))
    return jnp.where(stage == 0, jnp.maximum(pilot // 2, 1), jnp.where(stage == 1, pilot, end))


def _as_counted(horizon: Array) -> Array:
    """The horizon in 32 bits, as steps are counted: JAX makes a 64-bit integer of it where float64 is on."""
    return jnp.minimum(horizon, np.iinfo(np.int32).max).astype(jnp.int32)


def counts(m: Measured, t: Array) -> Array:
    """Whether step t belongs to the means that the next epoch starts from: the pilot, or the second half of an epoch."""
    return (m.stage < 2) | (t - m.begin > (m.end - m.begin) // 2)


def pressing(m: Measured, lam: Array) -> Array:
    """The multipliers that a step takes its gradient with: lam, and in the second half of the pilot those to be expected."""
    return jnp.where(m.stage == 1, m.Lam, lam)


def observe(m: Measured, x: Tree, lam: Array, wg: Tree, f: Array, h: Array, t: Array) -> Measured:
    """With what step t saw at x and lam: the scaled gradient of the Lagrangian, and h."""
    pilot, now = m.stage < 2, counts(m, t)

    def add(total, gradient, point):
        return total + jnp.where(now, jnp.where(pilot, gradient, point), 0)

    seen = Seen(
        jax.tree.map(add, m.seen.x, wg, x),
        m.seen.lam + jnp.where(now, lam, 0),
        m.seen.g + dot(wg, wg),
        m.seen.h + h * h,
        m.seen.f + jnp.where(pilot, f, 0),
    )
    share = 2 / (t + 1).astype(h.dtype)  # t / (1 + 2 + ... + t)
    m = m._replace(seen=seen, mean_h=m.mean_h + share * (h - m.mean_h), most=jnp.maximum(m.most, h * h))
    # Lam is too small where a multiplier has reached its bound, or where no slope of f had been seen when it was made
    some = _rms_g(m) * m.R / nonzero(_rms_h(m) * np.sqrt(max(1, lam.size)))
    first = jnp.where((m.first == 0) & ~pilot, some, m.first)
    return m._replace(first=first, Lam=_raised(m, jnp.where(m.first == 0, first, m.Lam), lam, first))


def travelled(m: Measured, domain: ConvexSet, w: Tree, x: Tree) -> Measured:
    """With an R that is at least how far x is from where the epoch began."""
    away = jnp.minimum(norm(length_in(w, subtract(x, m.x))), jnp.asarray(domain.scaled_diameter, m.R.dtype))
    return m._replace(R=jnp.where(m.stage < 2, m.R, jnp.maximum(m.R, away)))


def _raised(m: Measured, bound: Array, size: Array, first: Array) -> Array:
    """Lam or M, raised where the multiplier is as large as it may be; T times what it was first, and no further."""
    higher = jnp.minimum(_HIGHEST * bound, jnp.maximum(bound, first * m.end.astype(first.dtype)))
    return jnp.where((m.stage >= 2) & (size >= _HIGHEST * bound), higher, bound)


def _rms_g(m: Measured) -> Array:
    """Of w o g: what the epoch was made for, or what it has seen where that is more."""
    return jnp.sqrt(jnp.maximum(_length(m) * m.sigma_g**2, m.seen.g) / _length(m))


def _rms_h(m: Measured) -> Array:
    """Of h: what the epoch was made for, or what it has seen where that is more."""
    return jnp.sqrt(jnp.maximum(m.sigma_h**2, m.seen.h / _length(m)))


def eta(m: Measured) -> Array:
    """The primal step in y; shorter as soon as the epoch has seen more noise than it was made for."""
    return _STEP * m.R / nonzero(jnp.sqrt(jnp.maximum(_length(m) * m.sigma_g**2, m.seen.g)))


def dual_step(m: Measured, lam: Array, h: Array, t: Array) -> Array:
    """The next multipliers: a step for every constraint, towards a mean of h that ends below zero."""
    root, end = jnp.sqrt(_length(m)), m.end.astype(h.dtype)
    sigma = _rms_h(m)
    spent = (t.astype(h.dtype) / end) ** 2
    missing = (spent * m.mean_h + margin(m)) / jnp.maximum(1 - spent, 0.1)
    upsilon = jnp.clip(missing, 0, sigma)
    gamma = _STEP * m.Lam / nonzero(sigma * root)
    return jnp.where(m.stage < 2, lam, jnp.clip(lam + gamma * (h + upsilon), 0, _HIGHEST * m.Lam))


def unsure(m: Measured) -> Array:
    """Whether h_i is made of events so rare that the run has seen too few of them to keep it below zero on average."""
    squares = _squares(m)
    return (_FEW * m.most > squares) & (m.end * m.most > _RARE * squares)


def least_errors(m: Measured) -> np.ndarray:
    """Two standard errors of the run's mean of h where the run is unsure, 0 elsewhere."""
    known = 2 * jnp.sqrt(_squares(m) / 0.75) / m.end
    return np.asarray(jnp.where(unsure(m), known, 0))


def _squares(m: Measured) -> Array:
    """The sum of h^2 over this epoch and those before."""
    return m.seen.h + m.begin.astype(m.most.dtype) * m.sigma_h**2


def margin(m: Measured) -> Array:
    """How far below zero the mean of h is meant to end, by the end of this epoch."""
    return _MARGIN * m.sigma_h / jnp.sqrt(0.75 * m.end.astype(m.sigma_h.dtype))


def weight(t: Array, horizon: Array, anytime: bool, dtype: Any) -> Array:
    """Of x_t in the output: t, or t/T, which does not overflow."""
    return t.astype(dtype) / (1 if anytime else horizon.astype(dtype))


def due(m: Measured, t: Array, horizon: Array) -> Array:
    """Whether the epoch ends with step t, and another one follows."""
    return (t == m.end) & (t < _as_counted(horizon))


def turned(
    domain: ConvexSet,
    m: Measured,
    x: Tree,
    lam: Array,
    t: Array,
    horizon: Array,
    *,
    anytime: bool,
    jumps: bool,
    far: Callable[[Tree], Tree],
) -> tuple[Measured, Tree, Array]:
    """After step t: the next epoch where this one has ended, and everything as it is where it has not.

    A method that does not jump goes on from where an epoch ended, but for the pilot, which no method moves in.
    """

    def turn_over(m: Measured, x: Tree, lam: Array) -> tuple[Measured, Tree, Array]:
        following, x_mean, lam_mean = turn(domain, m, x, lam, horizon, anytime, far)
        if jumps:
            return following, x_mean, lam_mean
        return following, jax.tree.map(lambda a, b: jnp.where(m.stage < 2, a, b), x_mean, x), lam

    return jax.lax.cond(due(m, t, horizon), turn_over, lambda *same: same, m, x, lam)


def turn(
    domain: ConvexSet, m: Measured, x: Tree, lam: Array, horizon: Array, anytime: bool, far: Callable[[Tree], Tree]
) -> tuple[Measured, Tree, Array]:
    """The next epoch's scales, and the point and multipliers that it starts from.

    Args:
        domain: the set that x moves in, whose widths lengths are counted in.
        horizon, anytime: those of the run.
        m: the epoch that has ended.
        x, lam: where it ended.
        far: a point of the domain far off along minus a direction (in the scaled coordinates of `observe`).
    """
    w, reach = domain.widths(x), jnp.asarray(domain.scaled_diameter, lam.dtype)
    n, still = _length(m), m.stage == 0
    counted = (m.end - m.begin - jnp.where(m.stage < 2, 0, (m.end - m.begin) // 2)).astype(lam.dtype)
    mean_x, mean_lam = jax.tree.map(lambda total: total / counted, m.seen.x), m.seen.lam / counted
    sigma_h = _noise(m.sigma_h, m.seen.h, n, m.stage)
    # from the pilot: multipliers that would make up for all that the objective can change
    pull = jnp.where(still, norm(mean_x), m.pull)
    first = jnp.maximum(pull * reach / nonzero(sigma_h * np.sqrt(max(1, lam.size))), lam)
    # and what they add to the noise of grad f; those that pressed were made for the noise of h at x_1 alone
    pressed = jnp.dot(m.Lam, sigma_h)
    added = jnp.sqrt(m.seen.g / n) * jnp.dot(first, sigma_h) / nonzero(pressed)
    sigma_g = _noise(m.sigma_g, m.seen.g, n, m.stage)
    sigma_g = jnp.where((m.stage == 1) & (pressed > 0), jnp.hypot(m.sigma_g, added), sigma_g)
    # from an epoch: those it found
    force = jnp.maximum(mean_lam, _SHARE * jnp.dot(mean_lam, sigma_h) / nonzero(sigma_h))
    later = jnp.clip(force, _LEAST * m.Lam, _MOST * m.Lam)
    moved = norm(length_in(w, subtract(mean_x, m.x)))
    nearer = jnp.clip(2 * moved, _NEARER * m.R, reach)
    pilot = m.stage < 2
    Lam = jnp.where(still, jnp.where(sigma_h > 0, first, 0), jnp.where(pilot, first, later))
    f = m.seen.f / n
    widest = jnp.where(f > m.f, _NEARER**4, 1) * reach  # 1/16 costs narrow sets threefold (measured)
    R = jnp.where(still, 0, jnp.where(pilot, widest, nearer))
    away = jax.lax.cond(still, far, lambda _: m.x, mean_x)

    def choose(at_far, at_start, at_mean):
        return jnp.where(still, at_far, jnp.where(pilot, at_start, at_mean))

    x_next = jax.tree.map(choose, away, m.x, mean_x)
    began = jax.tree.map(lambda a, b: jnp.where(pilot, a, b), m.x, mean_x)
    stage = m.stage + 1
    fresh = begin(x, lam, horizon, anytime)
    end, since = end_of(stage, horizon, anytime), jnp.where(pilot, Lam, m.first)
    next_epoch = Measured(
        fresh.seen, stage, m.end, end, sigma_g, sigma_h, Lam, R, began, pull, since, m.mean_h, m.most / 2,
        jnp.where(still, f, m.f),
    )  # fmt: skip
    return next_epoch, x_next, jnp.where(pilot, lam, mean_lam)


def far_by_projection(domain: ConvexSet, x: Tree, direction: Tree) -> Tree:
    """A point far off x along minus a direction (in scaled coordinates): as far as the domain is wide, and back into it."""
    size = norm(direction)
    longest = jnp.asarray(domain.scaled_diameter, size.dtype) / nonzero(size)
    return domain.project(add_scaled(x, -longest, slope_in(domain.widths(x), direction)))


def _length(m: Measured) -> Array:
    return (m.end - m.begin).astype(m.sigma_g.dtype)


def _noise(before: Array, squares: Array, n: Array, stage: Array) -> Array:
    """The root mean square of an epoch and, with less weight, of those before; the pilot's two halves count alike."""
    memory = jnp.where(stage == 0, 0, jnp.where(stage == 1, n, _MEMORY * n))
    return jnp.sqrt((squares + memory * before**2) / (n + memory))


def said(m: Measured, names: list[str]) -> str:
    """What was measured and chosen, in a line."""
    if int(m.stage) < 2:
        return "the run was too short to measure its scales."
    kept = ", ".join(f"{name} {value:.2g}" for name, value in zip(names[:3], np.asarray(margin(m)), strict=False))
    more = ", ..." if len(names) > 3 else ""
    rare = [name for name, few in zip(names, np.asarray(unsure(m)), strict=False) if few]
    warning = (
        f" Of {', '.join(rare[:3])} fewer than {_FEW:.0f} rare events were seen, and these decide its mean: whether it is "
        "below its level in expectation cannot be told from this run. More steps would tell."
    )
    return (
        f"scales were measured: gradients {float(m.sigma_g):.2g} and a distance of {float(m.R):.2g} (in widths of the "
        f"domain); margins below the levels: {kept or 'none'}{more}.{warning if rare else ''}"
    )


# ---- a tie between two points ----------------------------------------------------------------------------------------


class Tie(NamedTuple):
    """What is known of the multiplier q of y = x, where a method keeps two points: a block like lambda, with a step of

        kappa = M / (2 sigma_q sqrt n)                    sigma_q: root mean square of |(y - x)/w|;  |w o q| stays below 4 M

    M is how large |w o q| is. At first it is the objective's pull, for sigma_q is the diameter then, and later it
    follows what the epochs found, as Lam_i does.
    """

    q: Tree  # sum over the second half of the epoch
    apart: Array  # sum of |(y - x)/w|^2
    sigma_q: Array
    M: Array  # 0 in the pilot, so that q stands still
    first: Array  # M when it was first above 0


def begin_tie(x: Tree, dtype: Any) -> Tie:
    """Before the first step."""
    zero = jnp.zeros((), dtype)
    return Tie(jax.tree.map(jnp.zeros_like, x), zero, zero, zero, zero)


def observe_tie(m: Measured, tie: Tie, w: Tree, q: Tree, apart: Tree, t: Array) -> Tie:
    """With what step t saw: q, and (y - x)/w."""
    now = counts(m, t)
    total = jax.tree.map(lambda a, b: a + jnp.where(now, b, 0), tie.q, q)
    first = jnp.where((tie.first == 0) & (m.stage >= 2), _rms_g(m), tie.first)
    M = _raised(m, jnp.where(tie.first == 0, first, tie.M), norm(slope_in(w, q)), first)
    return tie._replace(q=total, apart=tie.apart + dot(apart, apart), M=M, first=first)


def tie_step(m: Measured, tie: Tie, w: Tree, q: Tree, apart: Tree) -> Tree:
    """The next q: along (y - x)/w, within its ball."""
    kappa = _STEP * tie.M / nonzero(jnp.sqrt(jnp.maximum(_length(m) * tie.sigma_q**2, tie.apart)))
    wq = add_scaled(slope_in(w, q), kappa, apart)
    within = jnp.minimum(1, _HIGHEST * tie.M / nonzero(norm(wq)))
    return length_in(w, jax.tree.map(lambda v: within * v, wq))


def turn_tie(m: Measured, tie: Tie, w: Tree, q: Tree, following: Measured, reach: Array) -> tuple[Tie, Tree]:
    """The scales of the next epoch, and the q that it starts from; m is the epoch that has ended."""
    pilot, half = m.stage < 2, (m.end - m.begin + 1) // 2
    mean_q = jax.tree.map(lambda total: total / half.astype(total.dtype), tie.q)
    sigma_q = jnp.where(pilot, reach, _noise(tie.sigma_q, tie.apart, _length(m), m.stage))
    size = norm(slope_in(w, mean_q))
    forces = size * sigma_q + jnp.dot(following.Lam, following.sigma_h)
    later = jnp.clip(jnp.maximum(size, _SHARE * forces / nonzero(sigma_q)), _LEAST * tie.M, _MOST * tie.M)
    M = jnp.where(m.stage == 0, 0, jnp.where(pilot, m.pull, later))
    start = jax.tree.map(lambda a, b: jnp.where(pilot, a, b), q, mean_q)
    return begin_tie(q, M.dtype)._replace(sigma_q=sigma_q, M=M, first=jnp.where(pilot, M, tie.first)), start
