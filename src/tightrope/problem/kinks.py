"""Kinks that a program shows, and the same problem without them.

The programs of f and h are gone through for what has kinks in x: `max`, `min` and `abs`. Each is linear but for the positive
part of one number d, the difference of two: max(a, b) = b + [a - b]_+. Where w log(1 + exp(d/w)) takes its place, nowhere
below [d]_+ and above it by w log 2 at most, functions are smooth, and convex where sums and maxima of convex functions were.

Nothing is claimed of the functions themselves by what is smooth: it says where to look.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr, Literal, jaxpr_as_fun

from tightrope._jaxlib import compiled
from tightrope.precision import full_precision
from tightrope.problem.full_data import fold_rows
from tightrope.problem.problem import Problem
from tightrope.tree import Array, Tree, float_dtype, pytree

FAR = 9.0  # widths from a kink: beyond, less than 1.3e-4 of it is left; by hand
_BINS = 4096  # in which rows are counted by how many widths they are from their kink: a guess, finer than rows are apart

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
    is measured from the kink; and how many rows are how many widths from it, those of all kinks together."""

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
    moves = [True] * len(point) + [False] * len(sample)
    (f, h), _ = _run(closed, [*point, *sample], moves, on_kink)
    return f.astype(float_dtype(x)), h.astype(float_dtype(x))


def _run(closed: Any, arguments: list, moves: list[bool], on_kink: OnKink) -> tuple[list, list[bool]]:
    """What a program gives, and which of that changes with x. Programs that it calls are gone through, too; of functions with
    derivatives of their own those that are nothing but maxima and minima, as `relu` is."""
    program = closed.jaxpr
    known: dict[Any, Any] = dict(zip(program.constvars, closed.consts, strict=True))
    known |= dict(zip(program.invars, arguments, strict=True))
    moving = {v for v, moves_too in zip(program.invars, moves, strict=True) if moves_too}

    def read(v: Any) -> Any:
        return v.val if isinstance(v, Literal) else known[v]

    def depends(v: Any) -> bool:
        return not isinstance(v, Literal) and v in moving

    for equation in program.eqns:
        values, changed = [read(v) for v in equation.invars], [depends(v) for v in equation.invars]
        inside = _called(equation)
        if inside is not None:
            out, after = _run(inside, values, changed, on_kink)
        else:
            after = [any(changed)] * len(equation.outvars)
            kink = any(changed) and jnp.issubdtype(equation.outvars[0].aval.dtype, jnp.floating)
            out = _without_kink(equation.primitive.name, values, on_kink) if kink else None
            out = _plainly(program, equation, known) if out is None else [out]
        for v, value, changes in zip(equation.outvars, out, after, strict=True):
            known[v] = value
            if changes:
                moving.add(v)
    return [read(v) for v in program.outvars], [depends(v) for v in program.outvars]


def _without_kink(name: str, values: list, on_kink: OnKink) -> Array | None:
    """The value of an operation; None where it has no kink."""
    if name == "abs":
        return 2 * on_kink(values[0]) - values[0]
    if name not in ("max", "min"):
        return None
    a, b = values
    return b + on_kink(a - b) if name == "max" else b - on_kink(b - a)


def _called(equation: Any) -> Any:
    """The program that an equation calls, where it is to be gone through; None elsewhere."""
    name, of = equation.primitive.name, equation.params
    inside = next((of[key] for key in ("jaxpr", "call_jaxpr") if key in of), None)
    if inside is None or not hasattr(inside, "eqns"):
        return None
    inside = inside if isinstance(inside, ClosedJaxpr) else ClosedJaxpr(inside, ())
    return inside if name in ("pjit", "jit", "closed_call") or (name == "custom_jvp_call" and _only_maxima(inside)) else None


def _only_maxima(closed: Any) -> bool:
    """Whether a program has maxima or minima, and nothing else but changes of shape."""
    return any(e.primitive.name in ("max", "min") or _called(e) for e in closed.jaxpr.eqns) and all(
        e.primitive.name in ("max", "min", "broadcast_in_dim", "convert_element_type") or _called(e) is not None
        for e in closed.jaxpr.eqns
    )


def _plainly(program: Any, equation: Any, known: dict[Any, Any]) -> list:
    """What one equation gives as it is."""
    needed = list(dict.fromkeys(v for v in equation.invars if not isinstance(v, Literal)))
    alone = program.replace(constvars=[], invars=needed, outvars=equation.outvars, eqns=[equation])
    return jaxpr_as_fun(ClosedJaxpr(alone, ()))(*(known[v] for v in needed))
