"""How many digits everything is computed with, decided in one place.

Rows at hand are computed in float64, whatever JAX's switch `jax_enable_x64` says: they are stored as they were given, and
widened slice by slice where functions see them (`problem/problem.py`). Streams keep the precision that JAX is configured
for. `precision="float32"` is for devices without float64, and for whoever wants it.

Accelerators also multiply matrices with fewer bits than the numbers have unless they are told otherwise (10 bits of mantissa
instead of 23 on an NVIDIA GPU), which no bound on rounding counts.

Both are said around the library's own code: JAX's configuration is the user's, and is as it was outside of a call.
"""

import contextlib
import functools
from collections.abc import Callable, Iterable, Iterator
from typing import Any, ParamSpec, TypeVar

import jax
import numpy as np

P = ParamSpec("P")
R = TypeVar("R")

_NARROW = ("tpu",)  # platforms without float64


def platform() -> str:
    """Where computations go by default: "cpu", "gpu" and so on."""
    device = jax.config.jax_default_device  # pyright: ignore[reportAttributeAccessIssue]
    return jax.default_backend() if device is None else getattr(device, "platform", device)


@contextlib.contextmanager
def digits(rows: bool = True, precision: str | None = None) -> Iterator[None]:
    """The block computes in this precision, with full precision in every product.

    Args:
        rows: whether all the data is at hand, which is then computed in float64.
        precision: what the user asked for, "float32" or "float64"; None leaves it to the data.
    """
    if precision not in (None, "float32", "float64"):
        raise ValueError(f'precision is {precision!r}; expected "float64", "float32" or None.')
    if precision is None and rows:
        precision = "float32" if platform() in _NARROW else "float64"
    scope = contextlib.nullcontext() if precision is None else jax.enable_x64(precision == "float64")
    with scope, _as_written():
        yield


def in_float64(fn: Callable[P, R]) -> Callable[P, R]:
    """The function computed in float64, as all rows are."""
    return digits()(fn)


def outside(fn: Callable[P, R]) -> Callable[P, R]:
    """A user's function that is called from within `digits`, computed in the precision that is in force now."""
    wide = bool(jax.config.jax_enable_x64)  # pyright: ignore[reportAttributeAccessIssue]

    @functools.wraps(fn)
    def as_configured(*args: P.args, **kwargs: P.kwargs) -> R:
        with jax.enable_x64(wide):
            return fn(*args, **kwargs)

    return as_configured


def handed_out(tree: Any) -> Any:
    """What leaves a block of `digits`: JAX arrays of 64 bits become NumPy's, because JAX computes with them in 32 bits, and
    warns of it, where its switch is off. Everything else stays as it is."""

    def out(leaf: Any) -> Any:
        return np.asarray(leaf) if isinstance(leaf, jax.Array) and _is_wide(leaf) else leaf

    return jax.tree.map(out, tree)


def _is_wide(leaf: jax.Array) -> bool:
    return jax.numpy.issubdtype(leaf.dtype, np.number) and leaf.dtype.itemsize == 8


@contextlib.contextmanager
def _as_written() -> Iterator[None]:
    """The block computes in full precision, and does not heed two settings by which users watch their own code:
    `jax.transfer_guard`, because this library keeps on the host what is quicker there and moves it on purpose, and strict
    promotion of dtypes, because it mixes counts with numbers of either precision."""
    exactly, moves = jax.default_matmul_precision("highest"), jax.transfer_guard("allow")
    with exactly, moves, jax.numpy_dtype_promotion("standard"):
        yield


def full_precision(fn: Callable[P, R]) -> Callable[P, R]:
    """The function with full precision in every product that it computes or traces."""
    return _as_written()(fn)


def in_full_precision(cls: type, names: Iterable[str]) -> None:
    """The methods of these names that a class defines itself, made `full_precision`."""
    for name in names:
        made: Any = cls.__dict__.get(name)
        if callable(made):
            setattr(cls, name, full_precision(made))
