"""Products in full precision, on every device.

Accelerators multiply float32 matrices with fewer bits unless they are told otherwise (10 bits of mantissa instead of 23 on
an NVIDIA GPU), which no rounding bound of this library counts. What the library computes says so itself, around its own
code: JAX's configuration is the user's and is not touched.
"""

import functools
from collections.abc import Callable, Iterable
from typing import Any, ParamSpec, TypeVar

import jax

P = ParamSpec("P")
R = TypeVar("R")


def full_precision(fn: Callable[P, R]) -> Callable[P, R]:
    """The function with full precision in every product that it computes or traces.

    Nor does it heed two settings by which users watch their own code: `jax.transfer_guard`, because this library keeps on
    the host what is quicker there and moves it on purpose, and strict promotion of dtypes, because it mixes counts with
    numbers of either precision.
    """

    @functools.wraps(fn)
    def exact(*args: P.args, **kwargs: P.kwargs) -> R:
        exactly, moves = jax.default_matmul_precision("highest"), jax.transfer_guard("allow")
        with exactly, moves, jax.numpy_dtype_promotion("standard"):
            return fn(*args, **kwargs)

    return exact


def in_full_precision(cls: type, names: Iterable[str]) -> None:
    """The methods of these names that a class defines itself, made `full_precision`."""
    for name in names:
        made: Any = cls.__dict__.get(name)
        if callable(made):
            setattr(cls, name, full_precision(made))
