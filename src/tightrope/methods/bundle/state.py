"""What a bundle remembers between looks: arrays of fixed shapes, so that a run can be saved and resumed bit for bit."""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from tightrope.methods.base import Proof
from tightrope.tree import Array, Tree, ravel


class Kept(NamedTuple):
    """What is kept of looks; arrays with a place for each. Errors are bounds on what was lost to rounding."""

    x: Array  # (places, d)
    f: Array  # (places,)
    h: Array  # (places, N)
    grad: Array  # (places, d)
    rows: Array  # (places, N, d)
    f_error: Array  # (places,) of the values ...
    h_error: Array  # (places, N)
    f_tilt: Array  # (places,) ... and of slopes, over the widths of the domain
    h_tilt: Array  # (places, N)
    number: Array  # (places,) of the look, from 1; 0 where there is none
    used: Array  # (places,) the last look at which it was of use


class BundleState(NamedTuple):
    """What the next look needs."""

    x: Tree  # the output: feasible if `feasible`, else of least violation
    lam: Array  # the multipliers of the best bound
    t: Array  # the number of the next look, from 1
    ahead: Tree  # where it is taken
    promised: Array  # (1 + N,) F and H there, by the cuts so far
    seen: Array  # (1 + N,) F and H where the last one was taken
    kept: Kept
    units: Array  # (1 + N,) of F and H: what the steepest slope seen does over the widths of the domain
    hessian: Array  # (d, d) of the Lagrangian, on some rows, the last time it was taken
    start: Array  # F at the first look
    inner: Array  # F at the look of least violation, or of most slack
    feasible: Array  # whether a feasible combination is known
    upper: Array  # F at the output is at most this ...
    upper_error: Array  # ... but for rounding
    margin: Array  # (N,) how far below zero the output was aimed, because H is rounded too
    lower: Array  # F* is at least this ...
    lower_error: Array  # ... but for rounding
    distance: Array  # from the goal, in units: the gap; without a feasible point, the worst violation
    newton: Array  # whether the next look is where sequential quadratic programming leads
    pace: Array  # by how much level steps have lowered the logarithm of the distance of late
    pause: Array  # for how many level steps sequential programming pauses ...
    patience: Array  # ... and would, if it failed again
    conflict: Array  # (N,) by how much every point violates one of these constraints; 0 where nothing is proven
    settled: Array  # whether a conflict is as well known as it need be
    interior: Array  # whether some point may satisfy every constraint by more than rounding, for all that is known


def shapes_of_a_look(d: int, N: int) -> list[tuple[int, ...]]:
    """The shapes of what is seen at a look, as `Kept` has it."""
    return [(d,), (), (N,), (d,), (N, d), (), (N,), (), (N,)]


def before_the_first_look(x: Tree, lam: Array, places: int) -> BundleState:
    """Nothing known yet, and room for so many looks."""
    d, N, dtype = ravel(x)[0].size, lam.size, lam.dtype
    zero, number, no = jnp.zeros((), dtype), jnp.zeros((), jnp.int32), jnp.zeros((), bool)
    values, most = jnp.zeros((1 + N,), dtype), jnp.asarray(jnp.finfo(dtype).max, dtype)
    numbers = jnp.zeros((2, places), jnp.int32)
    kept = Kept(*(jnp.zeros((places, *shape), dtype) for shape in shapes_of_a_look(d, N)), *numbers)
    return BundleState(
        x=x, lam=lam, t=number + 1, ahead=x, promised=values, seen=values, kept=kept, units=values,
        hessian=jnp.zeros((d, d), dtype), start=zero, inner=zero, feasible=no, upper=most, upper_error=zero, lower=-most,
        lower_error=zero, distance=most, newton=no, pace=zero, pause=number, patience=number + 1,
        margin=jnp.zeros((N,), dtype), conflict=jnp.zeros((N,), dtype), settled=no, interior=~no,
    )  # fmt: skip


def proven(state: Any) -> Proof:
    """What a state of this kind knows of its output."""
    conflict, upper, lower = np.asarray(state.conflict, float), float(state.upper), float(state.lower)
    margin = float(np.asarray(state.lam, float) @ np.asarray(state.margin, float))  # what it costs, for small ones
    return Proof(
        upper=upper - margin if state.feasible else np.inf,
        lower=lower if lower > -np.finfo(np.asarray(state.lower).dtype).max else -np.inf,  # the loop has no infinity
        rounding=float(state.upper_error) + float(state.lower_error) + margin,
        scale=max(abs(float(value) - upper) for value in (state.start, state.inner)) if state.feasible else np.nan,
        conflict={int(i): float(conflict[i]) for i in np.flatnonzero(conflict)},
        settled=bool(state.settled),
        interior=bool(state.interior),
        points=_points(state.kept),
    )


def _points(kept: Any) -> tuple[np.ndarray, ...]:
    """Where was looked, the points that were of use last first, and of these the latest."""
    x, number, used = np.asarray(kept.x, float), np.asarray(kept.number), np.asarray(kept.used)
    return tuple(x[k] for k in np.lexsort((-number, -used)) if number[k])
