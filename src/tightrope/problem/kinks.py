"""Kinks that a program shows, and the same problem without them.

The programs of f and h are gone through for what has kinks in x: maxima, minima, absolute values, choices by a comparison.
Each is smooth but for the positive part of one number d: max(a, b) = b + [a - b]_+. Where w log(1 + exp(d/w)) takes its
place, which is nowhere below [d]_+ and above it by w log 2 at most, functions are smooth, and convex where they are sums and
maxima of convex ones.

Nothing is claimed of the functions themselves by what is smooth: it says where to look.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.extend.core import ClosedJaxpr, Literal, jaxpr_as_fun

from tightrope._jaxlib import compiled
from tightrope.precision import full_precision
from tightrope.problem.full_data import fold_rows
from tightrope.problem.problem import Problem
from tightrope.tree import Array, Tree, float_dtype, pytree

_BINS = (
    4096  # in which rows are counted by how many widths they are from their kink: a guess, finer than rows are apart
)
FAR = float(np.log(_BINS))  # widths from a kink: beyond, less than a part in so many is left of it

OnKink = Callable[[Array], Array]  # what takes the place of the positive part


@pytree
class Smoothed(Problem):
    """A problem with log(1 + exp(.)) in the place of its kinks."""

    inner: Any = None  # the problem
    widths: Any = None  # (S,) of all kinks, one after the other: over which each is smooth, in its own units
    shift: Any = 0.0  # by how many widths all of them are moved

    def _check_functions(self) -> None:
        """There are none of its own."""

    def sample_values(self, x: Tree, theta: Tree) -> tuple[Array, Array]:
        """(f, h - levels) for one sample."""
        widths = _in_turn(self.widths)

        def smooth(d: Array) -> Array:
            w = widths(d)
            return w * jax.nn.softplus(d / w + self.shift)

        return _values(self.inner, x, theta, smooth)

    def _objective(self, x: Tree, theta: Tree, **seen: Tree) -> Array:
        return self.sample_values(x, theta)[0]

    def _constraints(self, x: Tree, theta: Tree, **seen: Tree) -> Array:
        return self.sample_values(x, theta)[1]


def smoothed(problem: Problem, widths: np.ndarray) -> Smoothed:
    """The problem with its kinks smooth over such widths."""
    return Smoothed(None, None, problem.domain, problem.levels, inner=problem, widths=widths, shift=np.zeros(()))


def kinks_in(problem: Problem, x: Tree, row: Tree) -> int:
    """How many there are in the functions of one row, as far as programs show them."""
    return sum(d.size for d in jax.eval_shape(lambda x, row: _differences(problem, x, row), x, row))


@compiled(soon=True)
@full_precision
def weighed(problem: Problem, x: Tree, lam: Array, data: Tree, widths: Array) -> tuple[Array, Array, Array]:
    """Of all kinks, one after the other: how much f + <lam, h> has of each in the mean; how much what it has is worth, if it
    is measured from the kink; and which share of the rows is how many widths from it, the sum over all kinks."""

    def of_row(row: Tree) -> tuple[Array, Array, Array]:
        away = _differences(problem, x, row)

        def lagrangian(more: list[Array]) -> Array:
            extra = iter(more)
            f, h = _values(problem, x, row, lambda d: jnp.maximum(d, 0) + next(extra))
            return f + jnp.dot(lam, h)

        slopes = jax.grad(lagrangian)([jnp.zeros_like(d) for d in away])
        slopes, away = (jnp.concatenate([jnp.ravel(v) for v in each]) for each in (slopes, away))
        return jnp.abs(slopes), jnp.abs(slopes * away), away / widths

    def of_slice(rows: Tree, counts: Array) -> tuple[Array, Array, Array]:
        parts, worth, t = jax.vmap(of_row)(rows)
        place = jnp.clip((t + FAR) * (_BINS / (2 * FAR)), 0, _BINS - 1).astype(jnp.int32)
        near = jnp.where(jnp.abs(t) < FAR, counts[:, None], 0).astype(t.dtype)
        each = counts.astype(t.dtype)
        rows_at = jnp.zeros(_BINS, t.dtype).at[place.ravel()].add(near.ravel())
        return each @ parts, each @ worth, rows_at

    return fold_rows(of_slice, data)


def between_rows(rows_at: np.ndarray, most: int) -> np.ndarray:
    """Numbers of widths, at most so many, that lie between the rows as `weighed` counts them, and beyond the last ones; of
    too many those by which rows, as much as they are near, are in equal parts."""
    middle = (np.arange(_BINS) + 0.5) * (2 * FAR / _BINS) - FAR
    where = np.flatnonzero(rows_at)
    if not len(where):
        return np.array([-1.0, 1.0])
    t = middle[where]
    found = np.concatenate([[t[0] - 1], (t[1:] + t[:-1]) / 2, [t[-1] + 1]])
    if len(found) <= most:
        return found
    share = np.cumsum(rows_at[where] / np.cosh(t / 2) ** 2)
    return found[np.unique(np.searchsorted(share, np.linspace(0, share[-1], most)))]


# ---- programs --------------------------------------------------------------------------------------------------------


def _in_turn(vector: Array) -> Callable[[Array], Array]:
    """Of a vector for all kinks what belongs to each, one after the other."""
    first = 0

    def part(d: Array) -> Array:
        nonlocal first
        first += d.size
        return vector[first - d.size : first].reshape(d.shape)

    return part


def _differences(problem: Problem, x: Tree, theta: Tree) -> list[Array]:
    """The d of every [d]_+ in the functions of one row."""
    found: list[Array] = []

    def note(d: Array) -> Array:
        found.append(d)
        return jnp.maximum(d, 0)

    _values(problem, x, theta, note)
    return found


def _values(problem: Problem, x: Tree, theta: Tree, on_kink: OnKink) -> tuple[Array, Array]:
    """(f, h - levels) of one sample, with something else in the place of positive parts."""
    point, back = jax.tree.flatten(x)
    sample, there = jax.tree.flatten(theta)

    def values(point: list, sample: list) -> tuple[Array, Array]:
        return problem.sample_values(back.unflatten(point), there.unflatten(sample))

    closed = jax.make_jaxpr(values)(point, sample)
    f, h = _run(closed, [*(Known(v, True) for v in point), *(Known(v, False) for v in sample)], on_kink)
    return f.value.astype(float_dtype(x)), h.value.astype(float_dtype(x))


class Known(NamedTuple):
    """What a variable of a program is."""

    value: Any
    moves: bool  # whether it changes with x
    away: Any = None  # of what is true or false, a number that is above zero where it is true


def _run(closed: Any, arguments: list[Known], on_kink: OnKink) -> list[Known]:
    """What a program gives. Programs that it calls are gone through, too; of functions with derivatives of their own those
    that are nothing but maxima and minima, as `relu` is."""
    program, heard = closed.jaxpr, _heard(closed.jaxpr)
    constants = dict(zip(program.constvars, (Known(v, False) for v in closed.consts), strict=True))
    known: dict[Any, Known] = constants | dict(zip(program.invars, arguments, strict=True))
    for equation in program.eqns:
        given = [Known(v.val, False) if isinstance(v, Literal) else known[v] for v in equation.invars]
        inside, moves = _called(equation), any(v.moves for v in given)
        if inside is not None:
            out = _run(inside, given, on_kink)
        else:
            kink = (
                moves and equation.outvars[0] in heard and jnp.issubdtype(equation.outvars[0].aval.dtype, jnp.floating)
            )
            value = _without_kink(equation, given, on_kink) if kink else None
            values = _plainly(program, equation, known) if value is None else [value]
            out = [Known(v, moves, _away(equation, given)) for v in values]
        known |= dict(zip(equation.outvars, out, strict=True))
    return [Known(v.val, False) if isinstance(v, Literal) else known[v] for v in program.outvars]


def _heard(program: Any) -> set:
    """The variables from which something that has a derivative is made."""
    heard = {v for v in program.outvars if not isinstance(v, Literal)}
    for equation in reversed(program.eqns):
        if equation.primitive.name != "stop_gradient" and heard & set(equation.outvars):
            heard |= {v for v in equation.invars if not isinstance(v, Literal)}
    return heard


def _away(equation: Any, given: list[Known]) -> Array | None:
    """The difference by which a comparison is true or false."""
    name = equation.primitive.name
    if name not in ("gt", "ge", "lt", "le") or not jnp.issubdtype(jnp.result_type(given[0].value), jnp.floating):
        return None
    a, b = (v.value for v in given)
    return a - b if name in ("gt", "ge") else b - a


def _without_kink(equation: Any, given: list[Known], on_kink: OnKink) -> Array | None:
    """The value of an operation that has a kink; None of others."""
    name, values = equation.primitive.name, [v.value for v in given]
    if name == "abs":
        return 2 * on_kink(values[0]) - values[0]
    if name in ("max", "min") and not any(np.ndim(v) == 0 and _is_infinite(v) for v in values):
        return _larger(values[0], values[1], 1 if name == "max" else -1, on_kink)
    if name in ("reduce_max", "reduce_min"):
        axes = equation.params["axes"]
        v = jnp.moveaxis(values[0], axes, range(len(axes)))
        v = v.reshape(-1, *v.shape[len(axes) :])
        while len(v) > 1:
            half = len(v) // 2
            larger = _larger(v[:half], v[half : 2 * half], 1 if name == "reduce_max" else -1, on_kink)
            v = jnp.concatenate([larger, v[2 * half :]])
        return v[0]
    if name == "select_n" and len(given) == 3 and given[0].away is not None and given[0].moves:
        away, below, above = given[0].away, *values[1:]
        slope = jnp.where(away == 0, 0, (above - below) / jnp.where(away == 0, 1, away))
        return below + slope * on_kink(away)
    return None


def _larger(a: Array, b: Array, sign: int, on_kink: OnKink) -> Array:
    """The larger of two numbers; with a sign of -1 the smaller one."""
    return b + sign * on_kink(sign * (a - b))


def _is_infinite(value: Any) -> bool:
    return not isinstance(value, Tracer) and bool(np.isinf(value))


def _called(equation: Any) -> Any:
    """The program that an equation calls, where it is to be gone through; None elsewhere."""
    name, of = equation.primitive.name, equation.params
    inside = next((of[key] for key in ("jaxpr", "call_jaxpr") if key in of), None)
    if inside is None or not hasattr(inside, "eqns"):
        return None
    inside = inside if isinstance(inside, ClosedJaxpr) else ClosedJaxpr(inside, ())
    called = name in ("pjit", "jit", "closed_call") or (name == "custom_jvp_call" and _only_maxima(inside))
    return inside if called else None


def _only_maxima(closed: Any) -> bool:
    """Whether a program has maxima or minima, and nothing else but changes of shape."""
    return any(e.primitive.name in ("max", "min") or _called(e) for e in closed.jaxpr.eqns) and all(
        e.primitive.name in ("max", "min", "broadcast_in_dim", "convert_element_type") or _called(e) is not None
        for e in closed.jaxpr.eqns
    )


def _plainly(program: Any, equation: Any, known: dict[Any, Known]) -> list:
    """What one equation gives as it is."""
    needed = list(dict.fromkeys(v for v in equation.invars if not isinstance(v, Literal)))
    alone = program.replace(constvars=[], invars=needed, outvars=equation.outvars, eqns=[equation])
    return jaxpr_as_fun(ClosedJaxpr(alone, ()))(*(known[v].value for v in needed))
