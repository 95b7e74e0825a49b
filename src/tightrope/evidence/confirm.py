"""What a run on rows says at its end, confirmed in float64: functions are convex as far as chords can tell, the lower bound
and the gap hold, no point is feasible.

A run computes in the precision of its point. What f and h lose there inside themselves, in differences of large numbers, no
count of rounding sees; here they see every number in float64, where the same loss is 2^-29 as large. The bound is that of
`methods/snapshot.py` and `solvers/cuts.py`: it needs one look at all rows at the output, and others at points that
the run has looked at only as long as these are needed for what the run has claimed.
"""

import copy
import itertools
import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tightrope._jaxlib import compiled
from tightrope.evidence.at_a_point import Worth
from tightrope.evidence.stopping import ADVICE, Judge
from tightrope.precision import full_precision
from tightrope.problem import Problem
from tightrope.problem.conflict import said_of_conflict
from tightrope.problem.full_data import full_values
from tightrope.problem.rounding import UNITS, distance_across, eps_of, few
from tightrope.problem.wide import can_widen, exactly, is_widened, on_host
from tightrope.result import Status
from tightrope.solvers.cuts import Bound, Looks, Model
from tightrope.solvers.programmes import Region, region_of
from tightrope.solvers.survey import reach, see, shapes_of_a_look, units_of
from tightrope.tree import Array, Tree, add_scaled, ravel, shaped_like, subtract, taken_apart

_MOST_NUMBERS = 1 << 25  # numbers of all looks in one linear programme; with more, looks are taken one by one (a guess)
_CLOSE = 1.1  # times the gap of the run: one in float64 that is as close is looked for no further (a guess)
_LOOKS = 3  # looks after which a gap that the run is solved by is close enough, too (a guess)
_NO_CHORD = (
    1e-5  # share of a function's range over the test points: less above a chord is not held against it (a guess)
)
_ALONG = np.linspace(0.0, 1.0, 9)  # places on each line of the chord test
_REACH = (0.7, 0.7, 0.7, 0.7, 0.1, 0.1, 0.01, 0.01)  # shares of the way to the ends of the domain; by hand
_FEWER_LINES = 10_000  # coordinates from which on there are fewer lines of each reach; by hand
_LOST = (
    " That is what float64 shows. The run's own lower bound was above the objective, because its functions lose digits in "
    'float32: compute in float64, jax.config.update("jax_enable_x64", True).'
)


class Confirmed(NamedTuple):
    """How a run ended, and its lower bound, as float64 has them."""

    status: Status
    message: str
    lower: float  # rounding counted; -inf where none is known
    gap: float = math.nan  # of the output, where that is known better than by the run


class Claim(NamedTuple):
    """What a run on rows claims of its output."""

    problem: Problem
    rows: Tree
    names: list[str]
    start: Tree  # where the run began
    x: Tree  # its output
    dual: np.ndarray  # and multipliers
    looked_at: list[Tree]  # points at which it looked at all rows, those that matter most first
    conflict: dict[int, float]  # as that of a `Look`


def confirmed(claim: Claim, worth: Worth, ended: Confirmed, judge: Judge) -> Confirmed:
    """What is left of what a run claims.

    Args:
        claim: of what.
        worth: of the output, in float64.
        ended: how it ended, as it knows itself.
        judge: of its gap.
    """
    claims = ended.status.proven or ended.status.unproven or ended.status is Status.INFEASIBLE
    if not (ended.lower > -math.inf or claims or "gap" in ended.message):
        return ended
    conflict = claim.conflict if ended.status is Status.INFEASIBLE else {}
    dual = np.nan_to_num(claim.dual)
    weights = np.isin(np.arange(dual.size), list(conflict)).astype(float) if conflict else dual
    bent = above_a_chord(claim, weights)
    if bent is not None:
        return Confirmed(Status.NOT_CONVEX, bent, -math.inf)
    if not (conflict or ended.lower > -math.inf):  # an estimate of the gap, which claims nothing
        return ended
    looks = _Looks(claim) if is_widened(claim.problem, claim.x) else None
    if conflict:
        return ended if looks is None else _infeasible(ended, looks, claim.names)
    upper = worth.objective + worth.objective_error
    bound = Bound(ended.lower, 0.0, np.ones(1), weights[None]) if looks is None else looks.bound(upper, judge)
    if np.any(worth.constraints > worth.errors):  # the gap is that of another point
        return ended._replace(lower=bound.certain)
    return _judged(ended, upper - bound.certain, bound, judge)


def _judged(ended: Confirmed, gap: float, bound: Bound, judge: Judge) -> Confirmed:
    """The end of a run by the gap of its output."""
    found = ended._replace(lower=bound.certain, gap=max(gap, 0.0))
    if gap < -bound.rounding:
        said = f"The lower bound, {bound.certain:.6g}, is above the objective of the output by {-gap:.3g}."
        return Confirmed(Status.CONTRADICTION, f"{said} {ADVICE}", -math.inf)
    if math.isnan(judge.gap):
        return found
    now = copy.copy(judge)
    now.gap = found.gap
    status, message = found.status, found.message.replace(_sentence(judge), _sentence(now))
    if status.proven or status.unproven:
        message = message.partition(" steps")[0] + " steps."
        message += _LOST * (status is Status.CONTRADICTION)
        known = now.gap <= 2 * judge.gap or now.at_the_end() is Status.FINISHED  # about as the run has said, or small
        status = judge.solved if now.gap <= judge.allowed else Status.PRECISION if known else Status.STALLED
    elif status.budget_spent:
        status = now.at_the_end()
    return found._replace(status=status, message=message)


def _sentence(judge: Judge) -> str:
    return f"{str(judge)[:1].upper()}{str(judge)[1:]}"


def _infeasible(ended: Confirmed, looks: "_Looks", names: list[str]) -> Confirmed:
    """Whether cuts in float64 prove, too, that every point violates a constraint."""
    found = looks.conflict()
    if found is not None:
        return ended._replace(message=said_of_conflict(found, names))
    said = "The run took it for proven that there is none; in float64 that is not confirmed."
    return ended._replace(status=Status.NO_FEASIBLE_POINT, message=said)


class _Looks:
    """Looks at all rows in float64: at the output, and as long as they are needed at points that the run has looked at."""

    def __init__(self, claim: Claim):
        self.problem, self.rows, self.x, self.dual = claim.problem, claim.rows, claim.x, np.nan_to_num(claim.dual)
        self.conic = self.problem.domain.conic(self.x) if self.problem.domain.has_conic else None
        self.todo = [self.x, *claim.looked_at]
        self.seen: list[list[np.ndarray]] = []

    def bound(self, upper: float, judge: Judge) -> Bound:
        """A lower bound that makes a gap which the run has claimed, if there is one; else the best there is."""
        close = _CLOSE * judge.gap if judge.gap > 0 else judge.allowed
        best = Bound(-math.inf, 0.0, np.ones(1), self.dual[None])
        if not self.problem.domain.has_lmo:
            return best
        for k, x in enumerate(self.todo):
            self._look(x)
            enough = close if k < _LOOKS else max(close, judge.allowed)
            for found in self._bounds():
                if found is not None and found.certain > best.certain:
                    best = found
                if upper - best.certain <= enough:
                    return best
        return best

    def _bounds(self) -> Iterator[Bound | None]:
        """Of the last look and the run's multipliers; then the best of all looks, where that is a small programme."""
        yield self._model(slice(-1, None)).bound(np.ones(1), self.dual[None])
        if self._small:
            yield self._model(slice(None)).lower_bound()

    def conflict(self) -> dict[int, float] | None:
        """By how much every point violates one of some constraints; None where that is not proven."""
        for x in self.todo:
            self._look(x)
            model = self._model(slice(None))
            found = model.infeasibility() if self._small else None
            if found is not None and found.certain > 0:
                h = found.certain * model.units.h
                return {int(i): float(h[i]) for i in np.flatnonzero(found.lam * model.units.h > 1e-3 / h.size)}
        return None

    @property
    def _small(self) -> bool:
        return self.conic is not None and len(self.seen) * self.seen[0][4].size <= _MOST_NUMBERS

    def _look(self, x: Tree) -> None:
        problem, rows = self.problem, self.rows
        d, n = ravel(x)[0].size, self.dual.size
        self.seen.append(taken_apart(exactly(see, problem, x, rows), shapes_of_a_look(d, n)[:5]))

    def _model(self, which: slice) -> Model:
        """The cuts of some looks. Levels and the domain are known in the precision of the point; sums are float64's."""
        x, f, h, grad, rows = (np.stack(v) for v in zip(*self.seen[which], strict=True))
        far, unit, held = distance_across(self.problem), UNITS * np.finfo(float).eps, eps_of(self.x)
        levels = held * np.abs(np.broadcast_to(np.asarray(self.problem.levels, float), h.shape[1:]))
        steep, steeps = np.linalg.norm(grad, axis=1), np.linalg.norm(rows, axis=2)
        errors = unit * np.abs(f), unit * np.abs(h) + levels, (unit + held) * far * steep, (unit + held) * far * steeps
        region = Region(x[-1], np.ones(x.shape[1]), np.zeros((0, x.shape[1])), np.zeros((0, 0)), np.zeros(0), ())
        if self.conic is not None:
            region = region_of(self.conic, x[-1])
        slopes = np.concatenate([grad[:, None], rows], axis=1) * region.widths
        units = units_of(np.append(f[-1], h[-1]), np.linalg.norm(slopes, axis=2).max(axis=0))
        return Model(Looks(x, f, h, grad, rows, *errors), units, region, self._support)

    def _support(self, g: np.ndarray) -> float:
        with jax.enable_x64(True):
            return float(reach(on_host(self.problem.domain), on_host(shaped_like(self.x, g))))


# ---- chords ------------------------------------------------------------------------------------------------------------


def above_a_chord(claim: Claim, weights: np.ndarray) -> str | None:
    """A sentence where the objective, or a constraint of positive weight, is above one of its chords on all rows; None where
    no such chord is found. A few rows are asked first, along lines from the output to the start and into the domain."""
    problem, rows, x = claim.problem, claim.rows, claim.x
    if not can_widen(problem) or not problem.domain.additive:
        return None
    ends, values = exactly(_along_lines, problem, x, claim.start, _directions(x), few(rows))
    counts = [*problem.knows_objective * [0], *(1 + i for i in np.flatnonzero(weights > 0))]
    for k in counts:
        found = _worst(values[:, :, k])
        if found is None:
            continue
        line, places = found
        end = jax.tree.map(lambda v, line=line: v[line], ends)
        away = subtract(end, on_host(x))
        at = [exactly(full_values, problem, add_scaled(on_host(x), _ALONG[p], away), rows) for p in places]
        v = [float(np.append(f, h)[k]) for f, h in at]
        excess = _excess(_ALONG[list(places)], np.array(v))
        if excess > _allowed(values[:, :, k]):
            name = "the objective" if k == 0 else claim.names[k - 1]
            return (
                f"{name[:1].upper()}{name[1:]} is above a chord by {excess:.3g}, on all rows and in float64, where its "
                f"values are {v[0]:.6g}, {v[1]:.6g} and {v[2]:.6g}: it is not convex, or loses that many digits."
            )
    return None


def _directions(x: Tree) -> Tree:
    """Random directions, the same for every problem of this shape."""
    size = ravel(x)[0].size
    shares = np.asarray(_REACH if size < _FEWER_LINES else sorted(set(_REACH)))
    made = np.random.default_rng(0).standard_normal((len(shares), size))
    return shares, jax.tree.map(lambda *v: np.stack(v), *[shaped_like(x, row) for row in made])


@compiled(soon=True)
@full_precision
def _along_lines(problem: Problem, x: Tree, start: Tree, towards: Any, rows: Tree) -> tuple[Tree, Array]:
    """The ends of lines that begin at x, and F and H at places along each: (lines, places, 1 + N)."""
    domain, (shares, directions) = problem.domain, towards
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
        return jax.lax.map(lambda share: values((towards, share)), jnp.asarray(_ALONG))

    return ends, jax.lax.map(along, ends)


_TRIPLES = np.array(list(itertools.combinations(range(len(_ALONG)), 3)))


def _worst(values: np.ndarray) -> tuple[int, tuple[int, ...]] | None:
    """The line, and the three places on it, where a function is most above its chord; None where it is by too little."""
    excess = np.nan_to_num(_excess(_ALONG[_TRIPLES].T[:, None], values.T[_TRIPLES.T].transpose(0, 2, 1)), nan=-np.inf)
    line, triple = np.unravel_index(int(np.argmax(excess)), excess.shape)
    return (int(line), tuple(_TRIPLES[triple])) if excess[line, triple] > _allowed(values) else None


def _excess(places: np.ndarray, values: np.ndarray) -> Any:
    """By how much the second of three values along a line is above the chord of the others."""
    (a, b, c), (f, g, h) = places, values
    return g - ((c - b) * f + (b - a) * h) / (c - a)


def _allowed(values: np.ndarray) -> float:
    """An excess that is not held against a function with these values."""
    finite = values[np.isfinite(values)]
    if not finite.size:
        return math.inf
    return _NO_CHORD * float(np.ptp(finite)) + 1e3 * float(np.finfo(float).eps) * float(np.max(np.abs(finite)))
