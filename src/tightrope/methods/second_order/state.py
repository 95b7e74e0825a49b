"""What sequential quadratic programming remembers between looks: arrays of fixed shapes, for checkpoints."""

from typing import NamedTuple

import jax.numpy as jnp

from tightrope.methods.bundle.state import Kept, nothing_kept
from tightrope.tree import Array, Tree, ravel


class SQPState(NamedTuple):
    """What the next look needs."""

    x: Tree  # the output: feasible if `feasible`
    lam: Array  # the multipliers of the best bound
    t: Array  # the number of the next look, from 1
    ahead: Tree  # where it is taken
    seen: Array  # (1 + N,) F and H where the last one was taken
    kept: Kept
    units: Array  # (1 + N,) of F and H: what the steepest slope seen does over the widths of the domain
    widths: Array  # (d,) of the domain
    bend: Array  # (d, d) the curvature of the Lagrangian, in widths
    centre: Array  # the number of the look from which steps are made
    push: Array  # (N,) the multipliers of the programme there
    price: Array  # (N,) of violations in the exact penalty
    move: Array  # (d,) from the centre to the programme's solution, in widths
    share: Array  # of it that is tried
    drop: Array  # by how much the exact penalty falls for a small share, over that share
    failures: Array  # shares tried in a row that were refused
    bent: Array  # the look at which the last Hessian was taken
    start: Array  # F at the first look
    inner: Array  # F at the look of least violation, or of most slack
    feasible: Array  # whether a feasible point is known
    upper: Array  # F at the output is at most this ...
    upper_error: Array  # ... but for rounding
    margin: Array  # (N,) how far below zero the output was aimed, because H is rounded too
    lower: Array  # F* is at least this ...
    lower_error: Array  # ... but for rounding
    distance: Array  # without a feasible point, the worst violation, in units
    conflict: Array  # (N,) by how much every point violates one of these constraints; 0 where nothing is proven
    settled: Array  # whether a conflict is as well known as it need be


def before_the_first_look(x: Tree, lam: Array, places: int) -> SQPState:
    """Nothing known yet, and room for so many looks."""
    d, N, dtype = ravel(x)[0].size, lam.size, lam.dtype
    zero, number, no = jnp.zeros((), dtype), jnp.zeros((), jnp.int32), jnp.zeros((), bool)
    none, vector, most = jnp.zeros((N,), dtype), jnp.zeros((d,), dtype), jnp.asarray(jnp.finfo(dtype).max, dtype)
    values = jnp.zeros((1 + N,), dtype)
    return SQPState(
        x=x, lam=lam, t=number + 1, ahead=x, seen=values, kept=nothing_kept(d, N, places, dtype), units=values,
        widths=vector + 1, bend=jnp.zeros((d, d), dtype), centre=number, push=lam, price=none, move=vector, share=zero,
        drop=zero, failures=number, bent=number, start=zero, inner=zero, feasible=no, upper=most, upper_error=zero,
        margin=none, lower=-most, lower_error=zero, distance=most, conflict=none, settled=no,
    )  # fmt: skip
