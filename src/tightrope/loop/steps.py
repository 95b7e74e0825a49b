"""Compiled inside: a chunk of steps in one call, the sums it keeps, and what they say. Python's half is in driver.py.

A chunk has a buffer of fixed length and a dynamic number of steps, so nothing but a new shape compiles again.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tightrope._jaxlib import compiled
from tightrope.columns import refuse_taken
from tightrope.evidence.at_a_point import Means
from tightrope.methods import Info, Method, Refreshing
from tightrope.precision import full_precision, platform
from tightrope.problem import Problem
from tightrope.problem.problem import Split
from tightrope.sampling import Sampler
from tightrope.tree import Array, Mean, Tree, all_finite

GROUP = 64  # steps whose values are summed before rounding is made up for; by hand: results depend on it


class Totals(NamedTuple):
    """Weighted sums over the steps taken, compensated for rounding."""

    x: Mean  # of the iterates
    scalars: Mean  # of (1, f, h, lam, tracked) as one vector: one small operation a step instead of five


class Carry(NamedTuple):
    """Everything a run is: the method's state and the sums."""

    state: Any
    totals: Totals


class Variant(NamedTuple):
    """What is compiled in beside the static fields of method and problem."""

    sizes: tuple[int, int] | None = None  # separate batch sizes for objective and constraints
    track: Callable[[Tree], dict[str, Array]] | None = None  # functions of the iterate to average along the run


@compiled(static_argnames="variant")
def start(method: Method, problem: Problem, x: Tree, lam: Array, horizon: Array, variant: Variant) -> Carry:
    """The carry before the first step."""
    info = Info(x, lam, jnp.zeros((), lam.dtype), jnp.zeros_like(lam))
    sums = Totals(Mean.zeros_like(x if method.facts.averages else ()), Mean.zeros_like(_scalars(info, variant)))
    return Carry(method.init(problem, x, lam, horizon), sums)


def take_steps(
    method: Method,
    problem: Problem,
    sampler: Sampler,
    carry: Carry,
    items: Tree,
    offset: Array,
    first: Array,
    count: Array,
    variant: Variant,
) -> tuple[Carry, dict[str, Array]]:
    """Steps first .. first+count-1 (counted from 0), on the samples from `offset` on in the buffer.

    Sums are closed every `GROUP` steps of the run, wherever chunks begin and end, so that their rounding does not depend
    on it. With the carry comes what the last of the steps wants recorded.
    """

    def one(i, so_far):
        return _step(method, problem, sampler, so_far[0], items, offset - first + i, variant)

    def close(carry: Carry) -> Carry:
        return carry._replace(totals=Totals(*(mean.close_group() for mean in carry.totals)))

    def close_if(ends, carry: Carry) -> Carry:
        return jax.tree.map(lambda a, b: jnp.where(ends, a, b), close(carry), carry)

    def part_of_group(low, high, so_far):
        carry, record = jax.lax.fori_loop(low, high, one, so_far)
        return close_if((high > low) & (high % GROUP == 0), carry), record

    def whole_group(k, so_far):
        carry, record = jax.lax.fori_loop(0, GROUP, lambda i, so_far: one(k * GROUP + i, so_far), so_far)
        return close(carry), record

    last = first + count

    def on_cpu(so_far):
        """One loop body, for whole groups and parts of them: it takes half the time to compile."""

        def group(k, so_far):
            return part_of_group(jnp.maximum(first, k * GROUP), jnp.minimum(last, (k + 1) * GROUP), so_far)

        return jax.lax.fori_loop(first // GROUP, -(-last // GROUP), group, so_far)

    def on_accelerators(so_far):
        """Whole groups are loops of known length: for a loop of unknown length an accelerator asks the host before every
        round, and waits. What a chunk has before its first whole group and after its last one takes the slower loop."""
        begin = jnp.minimum(-(-first // GROUP) * GROUP, last)  # of the first whole group
        end = jnp.maximum(last // GROUP * GROUP, begin)  # of the last one

        def head_then_tail(i, so_far):  # one loop body instead of two: half the time to compile
            so_far = part_of_group(jnp.where(i == 0, first, end), jnp.where(i == 0, begin, last), so_far)
            return jax.lax.fori_loop(begin // GROUP, jnp.where(i == 0, end // GROUP, 0), whole_group, so_far)

        return jax.lax.fori_loop(0, 2, head_then_tail, so_far)

    if isinstance(method, Refreshing) and method.refresh_every == 1:  # a chunk is one step, which needs no loop
        carry, record = one(first, (carry, {}))
        return close_if(last % GROUP == 0, carry), record
    recorded = jax.eval_shape(lambda carry: one(first, (carry, {}))[1], carry)
    nothing = jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), recorded)
    # Elsewhere than by default a chunk takes the same steps in the loop that is the slower one there.
    return (on_cpu if platform() == "cpu" else on_accelerators)((carry, nothing))


@compiled(static_argnames="variant", inline=True)
def _step(method, problem, sampler, carry: Carry, items: Tree, t: Array, variant: Variant):
    """One step on the samples of place t in the buffer; traced once, however many loops it stands in."""
    theta = _samples(sampler, method, items, t, variant)
    state, info = method.step(problem, carry.state, theta)
    weighted = jax.tree.map(lambda v: info.weight * v, info.x if method.facts.averages else ())
    sums = Totals(carry.totals.x.add(weighted), carry.totals.scalars.add(_scalars(info, variant)))
    return Carry(state, sums), info.record


def _advance(
    method, problem, sampler, carry, items, offset, first, count, variant: Variant
) -> tuple[Carry, dict[str, Array], Array]:
    """`take_steps` for one run, and whether everything is still finite."""
    items = jax.tree.map(lambda a: a[0], items)  # the axis of seeds
    carry, record = take_steps(method, problem, sampler, carry, items, offset, first, count, variant)
    return carry, record, all_finite(carry)


advance = compiled(_advance, static_argnames="variant")
advance_on_all_rows = compiled(_advance, static_argnames="variant", soon=True)
"""For methods whose steps look at all rows: they are dear and few, and take no longer than compiling does."""


@compiled(soon=True)
def refresh(method: Refreshing, problem: Problem, state: Any, data: Tree) -> Any:
    """The method's look at all the data."""
    return method.refresh(problem, state, data)


def _samples(sampler: Sampler, method: Method, items: Tree, t: Array, variant: Variant) -> Tree:
    """Step t's batch, or one batch for each of the independent samples the method asks for."""

    def batch(draw: int) -> Tree:
        theta = sampler.pick(jax.tree.map(lambda a: a[t, draw], items))
        if variant.sizes is None:
            return theta
        return Split(*(jax.tree.map(lambda a, b=b: a[:b], theta) for b in variant.sizes))

    draws = method.cost.samples
    return batch(0) if draws == 1 else tuple(batch(draw) for draw in range(draws))


def _scalars(info: Info, variant: Variant) -> Array:
    tracked = () if variant.track is None else jax.tree.leaves(variant.track(info.x))
    dtype = info.lam.dtype
    heads = jnp.stack([jnp.ones((), dtype), info.f.astype(dtype), *(jnp.asarray(v, dtype) for v in tracked)])
    return info.weight * jnp.concatenate([heads, info.h.astype(dtype), info.lam])


def summarise(scalars: Mean, n: int, track_names: Sequence[str]) -> Means:
    """Unpack the sums of runs with `n` constraints; NaN where nothing was summed yet."""
    sums = np.asarray(scalars.total, float) + np.asarray(scalars.recent, float)
    weight = sums[..., :1]
    means = sums / np.where(weight > 0, weight, np.nan)
    k = sums.shape[-1] - 2 * n
    tracked = {name: means[..., 2 + i] for i, name in enumerate(track_names)}
    return Means(means[..., 1], means[..., k : k + n], means[..., k + n :], tracked, weight[..., 0])


def track_names(variant: Variant, x: Tree, taken: Sequence[str] = ()) -> list[str]:
    """The names of what is tracked, in the order in which it is packed; refused where a column `taken` is called so."""
    if variant.track is None:
        return []
    if not callable(variant.track):
        raise TypeError(f"track is {variant.track!r}; expected a function of x that returns a dict of numbers.")
    try:
        tracked = jax.eval_shape(variant.track, x)
    except Exception as error:
        raise ValueError(
            f"track fails on a point of shape {jax.tree.map(jnp.shape, x)}: {str(error).strip().rstrip('.')}."
        ) from error
    if not isinstance(tracked, dict) or any(getattr(v, "shape", None) != () for v in tracked.values()):
        raise ValueError(f"track returns {tracked}; expected a dict of scalars, name by name.")
    refuse_taken("track", sorted(tracked), taken)
    return sorted(tracked)


@compiled
def average(carry: Carry) -> Tree:
    """The weighted mean of the iterates so far, of a method that averages; the last one where none counted yet."""
    weight, total, last = carry.totals.scalars.sum()[0], carry.totals.x.sum(), carry.state.x
    return jax.tree.map(lambda a, x: jnp.where(weight > 0, a / jnp.where(weight > 0, weight, 1), x), total, last)


def output(method: Method, carry: Carry, which: str | None = None) -> Tree:
    """The point a run is judged by: the method's own choice, or "average" or "last"."""
    which = which or method.facts.output
    if which == "average":
        return average(carry)
    return carry.state.x if which == "last" else answer(carry.state)[0]


@compiled
@full_precision
def answer(state: Any) -> tuple[Tree, Array]:
    """A state's own point and multipliers."""
    return state.answer
