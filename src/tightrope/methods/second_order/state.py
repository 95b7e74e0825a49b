"""What sequential quadratic programming remembers between looks: arrays of fixed shapes, for checkpoints."""

from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tightrope.methods.bundle.state import Kept, shapes_of_a_look
from tightrope.tree import Array, Tree, as_numpy, ravel, taken_apart


class SQPState(NamedTuple):
    """What the loop sees, and everything else in one vector: to bring forty arrays to the host takes as long as a pass."""

    x: Tree  # the output: feasible if `feasible`
    lam: Array  # the multipliers of the best bound
    t: Array  # the number of the next look, from 1
    ahead: Tree  # where it is taken
    seen: Array  # (1 + N,) F and H where the last one was taken
    memory: Array  # `Known` but for these


class Known(NamedTuple):
    """What the next look needs, on the host."""

    x: Tree
    lam: Any
    t: Any
    ahead: Tree
    seen: Any
    kept: Kept
    units: Any  # (1 + N,) of F and H: what the steepest slope seen does over the widths of the domain
    widths: Any  # (d,) of the domain
    bend: Any  # (d, d) the curvature of the Lagrangian, in widths
    centre: Any  # the number of the look from which steps are made
    push: Any  # (N,) the multipliers of the programme there
    price: Any  # (N,) of violations in the exact penalty
    move: Any  # (d,) from the centre to the programme's solution, in widths
    share: Any  # of it that is tried; 0 where the look is taken elsewhere
    drop: Any  # by how much the exact penalty falls for a small share, over that share
    failures: Any  # shares tried in a row that were refused
    bent: Any  # the look at which the last Hessian was taken
    start: Any  # F at the first look
    inner: Any  # F at the look of least violation, or of most slack
    feasible: Any  # whether a feasible point is known
    upper: Any  # F at the output is at most this ...
    upper_error: Any  # ... but for rounding
    margin: Any  # (N,) how far below zero the output was aimed, because H is rounded too
    lower: Any  # F* is at least this ...
    lower_error: Any  # ... but for rounding
    distance: Any  # without a feasible point, the worst violation, in units
    conflict: Any  # (N,) by how much every point violates one of these constraints; 0 where nothing is proven
    settled: Any  # whether a conflict is as well known as it need be
    interior: Any  # whether some point may satisfy every constraint by more than rounding, for all that is known


_SEEN_BY_THE_LOOP = len(SQPState._fields) - 1


@lru_cache
def _shapes(d: int, N: int, places: int) -> list[tuple[int, ...]]:
    of = {"widths": (d,), "move": (d,), "bend": (d, d), "units": (1 + N,)}
    of |= dict.fromkeys(("push", "price", "margin", "conflict"), (N,))
    kept = [(places, *shape) for shape in shapes_of_a_look(d, N)] + 2 * [(places,)]
    return kept + [of.get(name, ()) for name in Known._fields[_SEEN_BY_THE_LOOP + 1 :]]


def before_the_first_look(x: Tree, lam: Array, places: int) -> SQPState:
    """Nothing known yet, and room for so many looks."""
    d, N, dtype = ravel(x)[0].size, lam.size, lam.dtype
    size = sum(int(np.prod(shape)) for shape in _shapes(d, N, places))
    return SQPState(x, lam, jnp.ones((), jnp.int32), x, jnp.zeros((1 + N,), dtype), jnp.zeros((size,), dtype))


def unpacked(state: SQPState, places: int) -> Known:
    """On the host."""
    host: Any = as_numpy(state)
    d, N = sum(np.size(leaf) for leaf in jax.tree.leaves(host.x)), host.lam.size
    arrays = taken_apart(host.memory, _shapes(d, N, places))
    cut = len(Kept._fields)
    numbers = [array.astype(int) for array in arrays[cut - 2 : cut]]
    kept = Kept._make([*arrays[: cut - 2], *numbers])
    known = Known._make([*host[:_SEEN_BY_THE_LOOP], kept, *arrays[cut:]])
    if host.t > 1:
        return known
    most = float(np.finfo(host.lam.dtype).max)
    return known._replace(push=host.lam, upper=most, lower=-most, distance=most, interior=True)


def packed(known: Known, like: SQPState) -> SQPState:
    """For the loop, in the dtypes that it had."""
    parts = [*known.kept, *known[_SEEN_BY_THE_LOOP + 1 :]]
    memory = np.concatenate([np.ravel(np.asarray(part, like.memory.dtype)) for part in parts])
    seen: Any = jax.tree.map(
        lambda new, old: np.asarray(new, old.dtype), known[:_SEEN_BY_THE_LOOP], like[:_SEEN_BY_THE_LOOP]
    )
    return SQPState._make([*seen, memory])
