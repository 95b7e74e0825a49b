"""Which method: what "auto" means, and whether a method fits a problem, its functions and its data, and if not, why."""

import difflib
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tightrope._jaxlib import compiled
from tightrope.confidence import ENOUGH
from tightrope.evidence.folds import FOLDS
from tightrope.methods import CFWCSOA, CSCGD, CSOA, FWCSOA, SVRFCSOA, SVRGCSOA, Refreshing, SplitCSOA, registered
from tightrope.methods.base import Algorithm, Method, title_of
from tightrope.methods.conservative.svrgcsoa import MANY
from tightrope.precision import full_precision
from tightrope.problem import Problem
from tightrope.problem.full_data import Some, see
from tightrope.problem.problem import bends
from tightrope.problem.rounding import few
from tightrope.sampling import Sampler
from tightrope.sampling.rows import count, data_of, kept
from tightrope.sets import ConvexSet
from tightrope.solvers import SQP, Bundle, Solver
from tightrope.solvers.programmes import ROUNDS
from tightrope.tree import Array, Tree, add_scaled, float_dtype, norm, shaped_like, size_of, subtract

COORDINATES, CONSTRAINTS = 200, 50  # up to which programmes on the host take tenths of a second; measured
SECOND_COORDINATES = MANY  # ... and up to half a second, worth paying where another method does not get there
SMOOTH_COORDINATES = 1000  # up to which second order on smooth functions ends soon whatever their conditioning; by hand

_SQP, _BUNDLE, _PATH = SQP(), Bundle(), Bundle(path=True)  # what "auto" takes most often, checked once


class Setting(NamedTuple):
    """What is known of a problem and its data before the first step."""

    domain: ConvexSet
    rows: bool  # whether all the data is at hand
    coordinates: int = 0
    constraints: int = 0
    values: bool = True  # whether the objective's value is known, and not only its gradient
    steps: bool = False  # whether the user gave a number of steps, which are those of a stochastic method
    lacks: Callable[[], str | None] = lambda: "curvature"  # what a probe of the rows finds missing for second order
    around: bool = True  # whether f and h are finite on the set around the domain
    nested: bool = False  # whether objective or constraints are functions of means
    exact: bool = True  # whether the problem knows its constraints exactly
    endless: bool = False  # whether the run is fed by hand and has no end
    looks: float = 0.0  # how many the budget pays for, where the data is at hand

    @property
    def patient(self) -> bool:
        """Whether the budget pays for looks that prove nothing by themselves, but lead to where everything is proven."""
        return self.looks >= 2 * (self.coordinates + ROUNDS)


def automatic(asked: Setting) -> tuple[Algorithm, str]:
    """What "auto" means for what is at hand, and why."""
    domain = asked.domain
    if not domain.additive:
        return CFWCSOA(), f"points of {domain.name} are held factored"
    data = "the data is at hand" if asked.rows else "samples come in a stream"
    most = SECOND_COORDINATES if asked.nested else COORDINATES  # where nothing else is as good
    by_passes = asked.rows and not asked.steps
    few = asked.constraints <= CONSTRAINTS
    size = f"with few coordinates ({asked.coordinates}) and constraints ({asked.constraints})"
    smooth = SECOND_COORDINATES if projection_free(domain) else SMOOTH_COORDINATES
    small = few or max(asked.coordinates, asked.constraints) <= COORDINATES  # second order keeps few looks
    second = by_passes and small and asked.coordinates <= smooth and misfit(SQP, asked) is None
    if second and asked.lacks() is None:
        return _SQP, f"{data}, {size}, and the functions are smooth"
    if by_passes and few and asked.coordinates <= most and misfit(Bundle, asked) is None:
        return (_PATH if asked.patient else _BUNDLE), f"{data}, {size}"
    if asked.nested:
        nested = SVRGCSOA() if asked.rows else CSCGD(schedule="measured")
        return nested, f"{data}, and objective or constraints are functions of means"
    if projection_free(domain):
        stream = SplitCSOA() if asked.around else FWCSOA()
        chosen, has = SVRFCSOA() if asked.rows else stream, "no cheap projection"
        if not asked.rows and not asked.around:
            has += ", and f or h has no finite values around it"
    else:
        chosen, has = SVRGCSOA() if asked.rows else CSOA(), "a projection"
    return chosen, f"{data} and {domain.name} has {has}"


LEAST_KEPT = FOLDS * ENOUGH  # samples, so that every fold tells something


class Stored(NamedTuple):
    """What keeping the samples of a stream would take, and may."""

    samples: int
    bytes_a_sample: int
    memory: int  # bytes that samples may take

    @property
    def most(self) -> int:
        """How many samples fit."""
        return int(min(self.samples, self.memory // max(1, self.bytes_a_sample)))


def keeps_samples(asked: Setting, stored: Stored) -> str | None:
    """Why "auto" does not keep samples of a stream and solve on them, which comes nearest to what they tell; "" where nobody
    would ask, None where it does. Of more than fit it keeps what it needs of the others, where those that fit show curvature
    in every direction."""
    if asked.rows or asked.nested or not asked.values or not asked.domain.additive or not stored.memory:
        return ""
    if stored.samples < LEAST_KEPT:
        return ""
    few = asked.coordinates <= COORDINATES and asked.constraints <= CONSTRAINTS
    enough = few and stored.most >= LEAST_KEPT * max(1, asked.coordinates)
    if stored.most < stored.samples and not enough:
        needed = stored.samples * stored.bytes_a_sample
        return (
            f"the samples would take {needed / 2**20:,.0f} MiB and memory= allows {stored.memory / 2**20:,.0f}, so each is "
            "seen once and forgotten; with room for them, or written to Parquet files and given as tr.Parquet, the answer "
            "would be nearer to the optimum"
        )
    return None


def second_choice(method: Algorithm, asked: Setting) -> Algorithm | None:
    """What "auto" goes on with where the gap says that its choice is far from a solution; None where nothing better is
    known. Cuts need neither step sizes nor curvature."""
    able = asked.rows and asked.coordinates <= SECOND_COORDINATES and asked.constraints <= CONSTRAINTS
    judged = isinstance(method, Refreshing | Solver) and not isinstance(method, Bundle)
    return (_PATH if asked.patient else _BUNDLE) if able and judged and misfit(Bundle, asked) is None else None


def projection_free(domain: ConvexSet) -> bool:
    """Whether linear minimisation is the way to go in this set."""
    return not domain.cheap_projection and domain.has_lmo


def automatic_for_a_fed_run(domain: ConvexSet, nested: bool) -> Method:
    """What a run takes that is fed by hand and has no end."""
    if nested:
        return CSCGD(schedule="measured", anytime=True)
    return SplitCSOA(anytime=True) if projection_free(domain) else CSOA(anytime=True)


def resolve_method(method: str | Algorithm, asked: Setting) -> tuple[Algorithm, tuple[str, ...]]:
    """A method object, and a note on how it was chosen where the user left it open."""
    if isinstance(method, Algorithm):
        return method, ()
    if method == "auto":
        chosen, why = automatic(asked)
        return chosen, (f'method="auto" chose {chosen.name}: {why}.',)
    if not isinstance(method, str) or method.lower() not in registered():
        near = difflib.get_close_matches(str(method).lower(), registered(), n=1, cutoff=0.4)
        hint = f' Did you mean "{near[0]}"?' if near else ""
        raise ValueError(f"method is {method!r}; expected auto, {', '.join(registered())} or a method object.{hint}")
    return registered()[method.lower()](), ()


def misfit(method: Algorithm | type[Algorithm], asked: Setting) -> str | None:
    """Why a method, or one of its class, cannot be used, in a sentence that says what to use instead; None where it can."""
    kind = type(method) if isinstance(method, Algorithm) else method
    needs, who, domain = kind.needs, functools.partial(title_of, kind), asked.domain
    if asked.nested and not kind.facts.takes_nested:
        able = " or ".join(f'"{able}"' for able, other in registered().items() if other.facts.takes_nested)
        return (
            f"{who()} takes plain expectations and this problem is nested: its objective or constraints are functions of "
            f"means, which no sample alone can estimate without bias. Use method={able}."
        )
    if "project" in needs and not domain.has_projection:
        free = 'a projection-free method such as method="split-csoa" or "fw-csoa"'
        other = 'all the data and method="bundle"' if asked.nested else free
        return f"{who()} needs a projection and {domain.name} has none. Use {other}, or a set with a projection."
    if "lmo" in needs and not domain.has_lmo:
        return (
            f"{who()} needs a linear minimisation oracle and {domain.name} has none. Use a projection method such as "
            'method="csoa", or give the set an lmo.'
        )
    if "conic" in needs and not domain.has_conic:
        return (
            f"{who()} solves small programmes on the domain, and {domain.name} has no description for them. Use a method "
            'such as "svrg-csoa" or "svrf-csoa", or give the set a `conic`.'
        )
    if kind.facts.averages and not domain.additive:
        return (
            f"{who()} averages points and those of {domain.name} are held factored, which cannot be averaged entry by "
            'entry. Use method="cfw-csoa" ("mfw-csoa" for samples), or hold the matrix dense.'
        )
    if "exact_constraints" in needs and not asked.exact:
        return f"{who()} needs exact constraints; give Problem(..., exact_constraints=...)."
    if "values" in needs and not asked.values:
        return (
            f"{who()} needs values of the objective and the oracle gives gradients only; expected (f, grad f, h, grad h). "
            'Use a method such as "csoa", or return f as well.'
        )
    if needs_rows(kind) and not asked.rows:
        return f'{who()} looks at all the data, which a stream does not keep; expected arrays. Use a method such as "csoa".'
    if asked.endless and not getattr(method, "anytime", False):
        return (
            f"the steps of {who()} depend on how many there will be, which a fed run does not know. Use a method whose "
            "`anytime` is true, such as CSOA(anytime=True)."
        )
    if "unconstrained" in needs and asked.constraints:
        return (
            f"{who()} knows no constraints E h <= 0 and the problem has {asked.constraints}. Put them into the objective "
            "with tr.penalised(problem, weights), or use a method for constraints such as CSOA or FWCSOA."
        )
    return None


def missing(method: Algorithm | type[Algorithm], lacks: Callable[[], str | None]) -> str | None:
    """Why the functions do not suit a method that needs second derivatives, in a sentence; None where they do."""
    found = lacks() if "curvature" in method.needs else None
    if found is None:
        return None
    why = {
        "second derivatives": "second derivatives, and an oracle or a function with its own derivatives has none",
        "curvature": "curvature, and neither the objective nor a constraint bends on these rows",
        "smoothness": "smooth functions, and the objective or a constraint has kinks on these rows",
    }[found]
    remedy = 'Use method="bundle", which needs no curvature and does not mind kinks.'
    return f"{title_of(method)} needs {why}. {remedy}"


def needs_rows(method: Algorithm | type[Algorithm]) -> bool:
    """Whether the method looks at all the data."""
    kind = type(method) if isinstance(method, Algorithm) else method
    return "rows" in kind.needs or issubclass(kind, Refreshing)


def refuse_grids(method: Algorithm) -> None:
    """A single run has one value of every coefficient."""
    grids = [jax.tree_util.keystr(path)[1:] for path, v in jax.tree_util.tree_leaves_with_path(method) if np.ndim(v)]
    if grids:
        raise ValueError(
            f"{title_of(method)}: {', '.join(grids)} has several values; expected one. tr.sweep tries many."
        )


# ---- is there any, and are there kinks ------------------------------------------------------------------------------

_LATE = 6  # the last halvings of an interval, over which a smooth function's slope changes by 2^-6; by hand
_SHARES = 1.0, 0.1, 1e-2, 1e-3, 1e-4, 1e-6  # of the line, until nothing overflows on it; by hand
_FEW_SLICES = 8  # of the rows, by which it is seen where functions pull: a guess
_JUMP = 0.25  # share of the change left after them: more is a jump; by hand, between 2^-6 and 1


def lacks(problem: Problem, x: Tree, sampler: Sampler) -> str | None:
    """What the functions lack for a method of second order: "second derivatives", "curvature" or "smoothness"; None for
    nothing.

    On some of the rows: the slope of f, and that of sum h_i with each h_i in the units in which it weighs as much as f,
    along lines from x to where either pulls, or away from there if that is farther. Of an interval the half is kept in
    which the slope changes more. For a smooth function the change goes to zero with the interval; at a kink it stays. Each
    is asked by itself: what bends strongly would hide the kinks of the other, and where f pulls there may be none of h.
    """
    if not bends(problem):
        return "second derivatives"
    data = sampler.rows
    try:
        grad, rows = _slopes_by_few(problem, x, data)
        steep, lengths = float(np.linalg.norm(grad)), np.linalg.norm(rows, axis=1)
        lam = np.divide(steep, lengths, out=np.ones_like(lengths), where=(lengths > 0) & (steep > 0))
        slope = grad + lam @ rows
        ways = [next((g for g in (own, slope) if np.any(g)), np.ones_like(slope)) for own in (grad, slope - grad)]
        dtype = float_dtype(x)
        pulls = [shaped_like(x, way.astype(dtype)) for way in ways[: 1 + min(len(lam), 1)]]
        pulls = jax.tree.map(lambda *v: np.stack(v), *pulls)
        changes = np.full((1, 4), np.nan)
        for share in _SHARES:  # of the line, until nothing overflows on it
            changes = np.asarray(_changes(problem, x, pulls, lam.astype(dtype), data, np.asarray(share, dtype)), float)
            if np.all(np.isfinite(changes)):
                break
    except TypeError:  # a derivative of its own that was given for backward passes only
        return "second derivatives"
    whole, late, last, noise = changes.T
    if np.all(whole <= noise):
        return "curvature"
    return "smoothness" if np.any((last > _JUMP * late) & (last > noise)) else None


def _slopes_by_few(problem: Problem, x: Tree, data: Tree) -> tuple[np.ndarray, np.ndarray]:
    """The gradients of F and of each H_i at x as vectors, by a few slices of the rows; the program is that of a look."""
    rows = data if data_of(data).in_memory else kept(data)
    size = min(count(rows), data_of(rows).a_slice(slopes=True))
    some = Some(np.int32(min(_FEW_SLICES, -(-count(rows) // size))), np.int32(0))
    seen = np.asarray(see(problem, x, rows, some, rows_a_slice=size), float)
    d = size_of(x)
    n = (len(seen) - d) // (1 + d) - 1
    return seen[d + 1 + n :][:d], seen[2 * d + 1 + n :].reshape(n, d)


@compiled(soon=True)
@full_precision
def _changes(problem: Problem, x: Tree, pulls: Tree, lam: Array, data: Tree, share: Array) -> Array:
    """By how much the slope changes along a share of the line, in the interval that is left late, and at last; and what
    rounding does: of the objective, and of the constraints where there are any."""
    rows = few(data)
    halvings = jnp.finfo(lam.dtype).nmant + 1  # as many as there are digits: kinks may lie close together

    def look(weights: Array, ahead: Tree, k: Any, seen: Any) -> Any:
        """First at the two ends, then in the middle of what is left; the change is noted at first, late, and at last."""
        low, high, at_low, at_high, changes = seen
        a: Any = jnp.where(k < 2, k, (low + high) / 2)
        _, (df, dh) = jax.jvp(lambda p: problem.values(p, rows), (add_scaled(x, a, ahead),), (ahead,))
        at = jnp.dot(weights, jnp.stack([df, jnp.dot(lam, dh)]))
        upper = (k != 1) & ((k == 0) | (at - at_low < at_high - at))
        low, at_low = jnp.where(upper, a, low), jnp.where(upper, at, at_low)
        high, at_high = jnp.where(upper, high, a), jnp.where(upper, at_high, at)
        now = k == 1 + jnp.array([0, halvings - _LATE, halvings, 0])
        return (
            low,
            high,
            at_low,
            at_high,
            jnp.where(now, jnp.stack([at_high - at_low] * 3 + [abs(at_low) + abs(at_high)]), changes),
        )

    def of(weights: Array, pulls: Tree) -> Array:
        down, up = (subtract(problem.domain.lmo(g), x) for g in (pulls, jax.tree.map(jnp.negative, pulls)))
        ahead = jax.tree.map(lambda a, b: share * jnp.where(norm(down) >= norm(up), a, b), down, up)
        zero = jnp.zeros((), lam.dtype)
        begin = zero, zero + 1, zero, zero, jnp.zeros((4,), lam.dtype)
        return jax.lax.fori_loop(0, halvings + 2, functools.partial(look, weights, ahead), begin)[-1]

    changes = jax.vmap(of)(jnp.eye(2, dtype=lam.dtype)[: 1 + min(lam.size, 1)], pulls)
    return changes.at[:, 3].multiply(1e3 * float(jnp.finfo(lam.dtype).eps))
