"""The values that constraints can take at a point, whatever the sample: by interval arithmetic along the traced program.

Samples are numbers without bounds, but for booleans. A comparison is 0 or 1, tanh is within [-1, 1], a clip within its ends,
and what follows from these by arithmetic follows for h. A constraint in whose program no sample enters is known. Every rule
is for real numbers and errs outward: an operation that has none may take any value, and depends on what goes into it.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tightrope._limits import AT_ONCE
from tightrope.problem.nested import Nested
from tightrope.problem.problem import Problem
from tightrope.tree import Tree, replace


class Reach(NamedTuple):
    """Elementwise: the least interval that is known to hold a value, for every sample.

    Attributes:
        low, high: its ends, of real numbers; infinite where nothing is known.
        ends: True where it takes no value but these two.
        varies: False where no sample enters it.
    """

    low: np.ndarray
    high: np.ndarray
    ends: np.ndarray
    varies: np.ndarray


def reach_of_constraints(problem: Problem, x: Tree, sample: Tree) -> Reach:
    """The reach of h(x, .), levels not subtracted; a line of N each. `sample` is one, for its shapes and dtypes alone.

    Of a nested problem, what is averaged inside is taken for another number of the sample.
    """
    bare = replace(problem, levels=jnp.zeros_like(jnp.asarray(problem.levels)))
    if isinstance(bare, Nested):
        inside = jax.eval_shape(lambda theta: bare.inner_values(x, theta), sample)
        closed = jax.make_jaxpr(lambda theta, u: bare.values_given(x, theta, u)[1])(sample, inside)
    else:
        closed = jax.make_jaxpr(lambda theta: bare.sample_values(x, theta)[1])(sample)
    samples = [_anything(aval, True) for aval in closed.in_avals]
    (found,) = _through(closed.jaxpr, [_constant(c) for c in closed.consts], samples)
    return found


def _constant(value: Any) -> Reach:
    if (
        jnp.issubdtype(jnp.asarray(value).dtype, jax.dtypes.extended) or np.size(value) > AT_ONCE
    ):  # a longer array may take any value
        return _anything(jax.typeof(value), False)
    value = np.asarray(value).astype(float)
    return Reach(value, value, np.ones(value.shape, bool), np.zeros(value.shape, bool))


def _anything(aval: Any, varies: bool) -> Reach:
    """Any value of a dtype: 0 or 1 of booleans."""
    shape = aval.shape if np.prod(aval.shape, dtype=float) <= AT_ONCE else (1,) * len(aval.shape)
    boolean = aval.dtype == np.bool_
    low, high = (0.0, 1.0) if boolean else (-np.inf, np.inf)
    return Reach(np.full(shape, low), np.full(shape, high), np.full(shape, boolean), np.full(shape, varies))


def _through(jaxpr: Any, constants: Sequence[Reach], samples: Sequence[Reach]) -> list[Reach]:
    known = dict(zip([*jaxpr.constvars, *jaxpr.invars], [*constants, *samples], strict=True))

    def read(var: Any) -> Reach:
        return _constant(var.val) if hasattr(var, "val") else known[var]

    for eqn in jaxpr.eqns:
        found = _after(eqn, [read(var) for var in eqn.invars])
        known.update(zip(eqn.outvars, found, strict=True))
    return [read(var) for var in jaxpr.outvars]


def _after(eqn: Any, given: list[Reach]) -> list[Reach]:
    """The outputs of one operation."""
    name, avals = eqn.primitive.name, [var.aval for var in eqn.outvars]
    asks = bool(eqn.effects) or "callback" in str(eqn) or "ffi" in name  # the host, which may answer anything
    unknown = [_anything(aval, asks or any(np.any(one.varies) for one in given)) for aval in avals]
    sizes = [np.prod(aval.shape, dtype=float) for aval in (*avals, *(var.aval for var in eqn.invars))]
    if asks or not sizes or not 0 < min(sizes) <= max(sizes) <= AT_ONCE:
        return unknown
    inner = next((eqn.params[key] for key in ("jaxpr", "call_jaxpr") if key in eqn.params), None)
    if name in _CALLS and inner is not None:
        constants = [_constant(c) for c in getattr(inner, "consts", ())]
        return _through(getattr(inner, "jaxpr", inner), constants, given)
    if not any(np.any(one.varies | ~_point(one)) for one in given):
        return _computed(eqn, given) or unknown
    with np.errstate(all="ignore"):
        if name in _MOVES:
            return _moved(eqn, given) or unknown
        rule = _RULES.get(name)
        if avals[0].dtype == np.bool_ or rule is None:
            return unknown if len(avals) > 1 or name not in _ELEMENTWISE else [_each(unknown[0], given)]
        found = rule(eqn, *given)
    (aval,) = avals
    low, high, ends = (np.broadcast_to(part, aval.shape) for part in found[:3])
    varies = found.varies if name in _ACROSS else _each(unknown[0], given).varies
    beyond = np.isnan(low) | np.isnan(high) | _overflows(aval.dtype, low, high)
    return [Reach(np.where(beyond, -np.inf, low), np.where(beyond, np.inf, high), ends & ~beyond, varies)]


def _computed(eqn: Any, given: list[Reach]) -> list[Reach] | None:
    """What is the same for every sample is computed."""
    avals = [var.aval for var in (*eqn.invars, *eqn.outvars)]
    if any(jnp.issubdtype(aval.dtype, jax.dtypes.extended) for aval in avals):
        return None
    values = [jnp.asarray(one.low.astype(aval.dtype)) for one, aval in zip(given, avals, strict=False)]
    found = eqn.primitive.bind(*values, **eqn.params)
    return [_constant(one) for one in (found if eqn.primitive.multiple_results else [found])]


def _each(like: Reach, given: list[Reach]) -> Reach:
    """`like`, varying in each element as what goes into it does."""
    varies = np.zeros(like.low.shape, bool)
    for one in given:
        varies = varies | one.varies
    return like._replace(varies=varies)


def _overflows(dtype: Any, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Whole numbers wrap around; floating ones become infinite, and rows on which they do are refused."""
    if not np.issubdtype(dtype, np.integer):
        return np.zeros(low.shape, bool)
    return (low < np.iinfo(dtype).min) | (high > np.iinfo(dtype).max)


# ---- operations that move elements ---------------------------------------------------------------------------------------


def _moved(eqn: Any, given: list[Reach]) -> list[Reach] | None:
    """The elements that an operation moves, found by moving their numbers; None where it is a sample that says where to."""
    together = eqn.primitive.name in ("concatenate", "stack")
    data = given if together else given[: 2 if eqn.primitive.name == "pad" else 1]
    where = given[len(data) :]
    if any(np.any(one.varies) or not np.array_equal(one.low, one.high) for one in where):
        return None
    first = np.cumsum([0, *(one.low.size for one in data)])
    numbers = [
        np.arange(one.low.size, dtype=np.int32).reshape(one.low.shape) + np.int32(start)
        for one, start in zip(data, first[:-1], strict=True)
    ]
    at = [np.asarray(one.low, var.aval.dtype) for one, var in zip(where, eqn.invars[len(data) :], strict=True)]
    moved = eqn.primitive.bind(*map(jnp.asarray, (*numbers, *at)), **eqn.params)
    taken = [np.asarray(one) for one in (moved if eqn.primitive.multiple_results else [moved])]
    if any(np.any((one < 0) | (one >= first[-1])) for one in taken):  # filled in
        return None
    pool = [np.concatenate([np.ravel(part) for part in parts]) for parts in zip(*data, strict=True)]
    return [Reach(*(part[one] for part in pool)) for one in taken]


# ---- operations on numbers -----------------------------------------------------------------------------------------------


def _rising(fn: Callable[[np.ndarray], np.ndarray]) -> Callable[..., Reach]:
    return lambda eqn, a: Reach(fn(a.low), fn(a.high), a.ends, a.varies)


def _within(low: float, high: float) -> Callable[..., Reach]:
    return lambda eqn, a: a._replace(
        low=np.full(a.low.shape, low), high=np.full(a.low.shape, high), ends=False & a.ends
    )


def _add(eqn: Any, a: Reach, b: Reach) -> Reach:
    return Reach(a.low + b.low, a.high + b.high, a.ends & b.ends & (_point(a) | _point(b)), a.varies)


def _neg(eqn: Any, a: Reach) -> Reach:
    return Reach(-a.high, -a.low, a.ends, a.varies)


def _mul(eqn: Any, a: Reach, b: Reach) -> Reach:
    if eqn is not None and eqn.primitive.name == "mul" and eqn.invars[0] is eqn.invars[1]:
        return _power(None, a, 2)
    corners = np.stack([_times(p, q) for p in (a.low, a.high) for q in (b.low, b.high)])
    zeros = (a.low == 0) & (b.low == 0)  # 0 or p, times 0 or q
    return Reach(corners.min(axis=0), corners.max(axis=0), a.ends & b.ends & (_point(a) | _point(b) | zeros), a.varies)


def _times(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """0 times a number of any size is 0."""
    return np.where((p == 0) | (q == 0), 0.0, p * q)


def _div(eqn: Any, a: Reach, b: Reach) -> Reach:
    apart = (b.low > 0) | (b.high < 0)
    if np.issubdtype(eqn.outvars[0].aval.dtype, np.integer):  # which drops the remainder
        return _within(-np.inf, np.inf)(eqn, a)
    low, high = np.where(apart, 1 / b.high, -np.inf), np.where(apart, 1 / b.low, np.inf)
    return _mul(None, a, Reach(low, high, b.ends & apart, b.varies))


def _point(a: Reach) -> np.ndarray:
    return a.low == a.high


def _larger(eqn: Any, a: Reach, b: Reach) -> Reach:
    ends = a.ends & b.ends & (_point(a) | _point(b) | ((a.low == b.low) & (a.high == b.high)))
    return Reach(np.maximum(a.low, b.low), np.maximum(a.high, b.high), ends, a.varies)


def _smaller(eqn: Any, a: Reach, b: Reach) -> Reach:
    return _neg(eqn, _larger(eqn, _neg(eqn, a), _neg(eqn, b)))


def _clamp(eqn: Any, low: Reach, a: Reach, high: Reach) -> Reach:
    return _smaller(eqn, _larger(eqn, a, low), high)


def _abs(eqn: Any, a: Reach) -> Reach:
    return _larger(None, a, _neg(None, a))._replace(
        low=np.maximum(np.maximum(a.low, -a.high), 0), ends=a.ends & (_point(a) | (a.low == 0) | (a.high == 0))
    )


def _power(eqn: Any, a: Reach, to: int = 0) -> Reach:
    to = to or eqn.params["y"]
    if to <= 0:
        return _within(-np.inf, np.inf)(None, a)
    size = _abs(None, a) if to % 2 == 0 else a
    return Reach(size.low**to, size.high**to, size.ends, a.varies)


def _select(eqn: Any, which: Reach, *cases: Reach) -> Reach:
    low, high = np.min([c.low for c in cases], axis=0), np.max([c.high for c in cases], axis=0)
    at_ends = [c.ends & ((c.low == low) | (c.low == high)) & ((c.high == low) | (c.high == high)) for c in cases]
    return Reach(low, high, np.all(at_ends, axis=0), which.varies)


def _convert(eqn: Any, a: Reach) -> Reach:
    whole = np.issubdtype(eqn.outvars[0].aval.dtype, np.integer)
    return Reach(np.trunc(a.low), np.trunc(a.high), a.ends, a.varies) if whole else a


def _over_axes(low: Any, high: Any) -> Callable[..., Reach]:
    def rule(eqn: Any, a: Reach) -> Reach:
        axes = tuple(eqn.params["axes"])
        one = np.prod([a.low.shape[axis] for axis in axes]) == 1
        varies = np.any(a.varies, axis=axes)
        return Reach(low(a.low, axis=axes), high(a.high, axis=axes), np.all(a.ends, axis=axes) & one, varies)

    return rule


def _dot(eqn: Any, a: Reach, b: Reach) -> Reach:
    """Sums of products, of middles and of what lies around them."""
    (of_a, of_b), (with_a, with_b) = eqn.params["dimension_numbers"]
    letters = iter("abcdefghijklmnopqrstuvwxyz")
    in_a, in_b = [""] * a.low.ndim, [""] * b.low.ndim
    for i, j in [*zip(of_a, of_b, strict=True), *zip(with_a, with_b, strict=True)]:
        in_a[i] = in_b[j] = next(letters)
    in_a, in_b = ([letter or next(letters) for letter in names] for names in (in_a, in_b))
    shared = [in_a[i] for i in with_a]
    out = shared + [c for i, c in enumerate(in_a) if i not in (*of_a, *with_a)]
    out += [c for j, c in enumerate(in_b) if j not in (*of_b, *with_b)]
    spec = f"{''.join(in_a)},{''.join(in_b)}->{''.join(out)}"
    shape = eqn.outvars[0].aval.shape
    varies = (
        np.einsum(spec, a.varies * 1.0, np.ones(b.low.shape)) + np.einsum(spec, np.ones(a.low.shape), b.varies * 1.0)
        > 0
    )
    middle, half = (a.low + a.high) / 2, (a.high - a.low) / 2
    center, reach = (b.low + b.high) / 2, (b.high - b.low) / 2
    if not all(np.all(np.isfinite(part)) for part in (middle, half, center, reach)):
        return Reach(np.full(shape, -np.inf), np.full(shape, np.inf), np.zeros(shape, bool), varies)
    at = np.einsum(spec, middle, center)
    wide = np.einsum(spec, np.abs(middle), reach) + np.einsum(spec, half, np.abs(center) + reach)
    return Reach(at - wide, at + wide, wide == 0, varies)


def _expit(v: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-v))


_CALLS = {"pjit", "jit", "closed_call", "core_call", "custom_jvp_call", "custom_vjp_call", "checkpoint", "remat"}
_MOVES = {
    "broadcast_in_dim", "reshape", "squeeze", "expand_dims", "transpose", "slice", "rev", "copy", "concatenate", "pad",
    "dynamic_slice", "gather", "split", "stack", "unstack",  # the last two of newer JAX
}  # fmt: skip
_ACROSS = {"reduce_sum", "reduce_max", "reduce_min", "dot_general"}
_RULES: dict[str, Callable[..., Reach]] = {
    **dict.fromkeys(("add", "add_any"), _add),
    "sub": lambda eqn, a, b: _add(eqn, a, _neg(eqn, b)),
    "neg": _neg, "mul": _mul, "div": _div, "max": _larger, "min": _smaller, "clamp": _clamp, "abs": _abs,
    "integer_pow": _power, "square": lambda eqn, a: _power(eqn, a, 2), "select_n": _select,
    "convert_element_type": _convert, "stop_gradient": _rising(np.array),
    "reduce_sum": _over_axes(np.sum, np.sum), "reduce_max": _over_axes(np.max, np.max),
    "reduce_min": _over_axes(np.min, np.min), "dot_general": _dot,
    "exp": _rising(np.exp), "expm1": _rising(np.expm1), "logistic": _rising(_expit), "tanh": _rising(np.tanh),
    "atan": _rising(np.arctan), "sign": _rising(np.sign), "floor": _rising(np.floor), "ceil": _rising(np.ceil),
    "log": _rising(lambda v: np.log(np.maximum(v, 0))), "log1p": _rising(lambda v: np.log1p(np.maximum(v, -1))),
    "sqrt": _rising(lambda v: np.sqrt(np.maximum(v, 0))),
    "sin": _within(-1.0, 1.0), "cos": _within(-1.0, 1.0), "erf": _within(-1.0, 1.0),
}  # fmt: skip
_ELEMENTWISE = {"eq", "ne", "lt", "le", "gt", "ge", "and", "or", "xor", "not", "is_finite", *(_RULES.keys() - _ACROSS)}
