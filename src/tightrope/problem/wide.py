"""A problem in float64, whatever its rows and points are held in.

Rows in float32 are exact in float64, and so are points. What functions lose inside themselves, in differences of large
numbers, is then 2^-29 of what it is in float32. What a run says at its end is said of these numbers.
"""

import dataclasses
import inspect
import weakref
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tightrope.problem.nested import Nested
from tightrope.problem.problem import Problem
from tightrope.tree import Tree, float_dtype, platform, replace

_NARROW = ("tpu",)  # platforms without float64
_refused: weakref.WeakSet[Problem] = weakref.WeakSet()  # whose functions have failed in float64


@dataclasses.dataclass(frozen=True)
class _Wide:
    """A function of the user's that sees every number in float64; two of the same function are the same program."""

    fn: Callable[..., Any]

    def __call__(self, *args: Any, **named: Any) -> Any:
        args, named = wide((args, named))
        return wide(self.fn(*args, **named))

    @property
    def __signature__(self) -> inspect.Signature:
        return inspect.signature(self.fn)

    def __getattr__(self, name: str) -> Any:
        if name == "inner":  # what ready-made constraints average
            return _Wide(self.fn.inner)  # pyright: ignore[reportFunctionMemberAccess]
        raise AttributeError(name)


def wide(tree: Tree) -> Tree:
    """Floating leaves in float64, where JAX computes in it; others as they are."""
    return jax.tree.map(lambda v: jnp.asarray(v, np.float64) if _floating(v) else v, tree)


def _floating(leaf: Any) -> bool:
    return hasattr(leaf, "dtype") and jnp.issubdtype(leaf.dtype, jnp.floating)


def can_widen(problem: Problem) -> bool:
    """Whether a problem has a twin in float64: an oracle computes in its own precision, and so do factored points; and
    functions that ask for float32 in so many words may refuse another."""
    known = type(problem) in (Problem, Nested) and platform() not in _NARROW
    return known and problem not in _refused


def widened(problem: Problem) -> Problem:
    """The same problem, whose functions see every number in float64."""
    names = ("objective", "constraints", "exact_constraints", "inner")
    fns = {name: None if (fn := getattr(problem, name)) is None else _Wide(fn) for name in names}
    return replace(problem, **fns, domain=on_host(problem.domain), levels=np.asarray(problem.levels, np.float64))


def on_host(tree: Tree) -> Tree:
    """Floating leaves in NumPy's float64."""
    return jax.tree.map(lambda v: np.asarray(v, np.float64) if _floating(v) else v, tree)


def is_widened(problem: Problem, x: Tree) -> bool:
    """Whether `exactly` computes in more digits than a run from this point does."""
    return can_widen(problem) and float_dtype(x) != np.float64


def exactly(fn: Callable[..., Any], problem: Problem, x: Tree, *rest: Any, **named: Any) -> Any:
    """What a compiled function of a problem, a point and rows gives in float64, on the host; in the precision of the
    point where there is no other."""
    if not can_widen(problem) or (jax.config.jax_enable_x64 and float_dtype(x) == np.float64):  # pyright: ignore
        return jax.device_get(fn(problem, x, *rest, **named))
    try:
        with jax.enable_x64(True):
            return jax.device_get(fn(widened(problem), on_host(x), *rest, **named))
    except (TypeError, ValueError):  # of the user's functions, which were fine with the point's own precision
        _refused.add(problem)
        return exactly(fn, problem, x, *rest, **named)


def said_of_narrow(problem: Problem, x: Tree) -> str | None:
    """A note where what is said at the end of a run could not be confirmed in float64."""
    if can_widen(problem) or float_dtype(x) == np.float64 or not problem.domain.additive:
        return None
    why = "the device has no float64" if platform() in _NARROW else "the oracle computes in its own precision"
    why = "its functions fail in float64" if problem in _refused else why
    return f"nothing was confirmed in float64, because {why}: digits that are lost inside f and h are not counted."


def exact_eps(problem: Problem, x: Tree) -> float:
    """The unit of rounding of what `exactly` gives."""
    return float(np.finfo(np.float64 if can_widen(problem) else float_dtype(x)).eps)
