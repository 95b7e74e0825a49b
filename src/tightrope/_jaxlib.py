"""The one place where programs are compiled, so that every release of jaxlib computes them rightly.

From 0.10.0 on XLA's compiler for CPUs hands sums of products to a library, YNN, and takes wrong numbers back in one pattern
or another, most of them in float32: the Jacobian of two constraints over 1,000 rows can be NaN. tests/test_compiler.py has
the patterns. In 0.9.2 YNN ends the process, "(0 <= -1) is statically false", on some Hessians of more than 1,024 rows.

`compiled` stands for `jax.jit` in this package. It turns YNN off, which only an outermost program can do, and before the
first program of a process it asks `_self_test` whether this jaxlib computes the known patterns rightly. Single operations
outside of programs need no such care: on the sizes of those patterns 688 of 688 were right in 0.10.2, 0.11.2 and 0.12.0.1.
"""

import functools
import threading
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.core import Tracer
from jaxlib.version import __version__ as version

try:
    from jax._src.core import trace_state_clean  # 0.13 microseconds; JAX has no public name for it
except ImportError:  # public names only, and 30 microseconds

    def trace_state_clean() -> bool:
        """Whether nothing is being traced here."""
        return not isinstance(jnp.zeros(()), Tracer)


_RIGHT: dict[str, Any] = {"xla_cpu_experimental_ynn_fusion_type": ""}
"""Options without which some releases compute wrongly: nothing is handed to YNN."""

_SOON: dict[str, Any] = {"xla_cpu_use_fusion_emitters": False} if version.startswith(("0.9.", "0.10.")) else {}
"""XLA's older code generator for CPUs: a third less time to compile in 0.9.2, an eighth less in 0.10.2 (measured on first
calls of `minimize`); later releases do not have it, and 0.12 compiles as soon without. Loops of cheap steps take 3 to 17 %
longer with it."""


def compiled(fn: Callable[..., Any] | None = None, /, *, soon: bool = False, **how: Any) -> Callable[..., Any]:
    """`jax.jit` for the programs of this package, with arguments as there.

    Called from Python, a program is compiled with the options that make it right. Called where something is being traced,
    it becomes a part of what is traced, which JAX allows no options of its own. What comes back counts in `programs()` how
    many it has been compiled to.

    Args:
        fn: the function; without it, a decorator comes back.
        soon: take less time to compile, for programs that run seldom or whose time goes into products of matrices.
        how: what else `jax.jit` is told: static and donated arguments, shardings.
    """
    if fn is None:
        return functools.partial(compiled, soon=soon, **how)
    part: Any = jax.jit(fn, **how)
    program: Any = None

    @functools.wraps(fn)
    def call(*args: Any, **kwargs: Any) -> Any:
        nonlocal program
        if not trace_state_clean():
            return part(*args, **kwargs)
        if program is None:
            program = jax.jit(fn, compiler_options=(options() | (_SOON if soon else {})) or None, **how)
        return program(*args, **kwargs)

    setattr(call, "programs", lambda: 0 if program is None else program._cache_size())  # noqa: B010 (not typed)
    return call


_known: dict[str, Any] | None = None  # of the options, those that this compiler knows; None until it has been tested
_testing = threading.Lock()


def options() -> dict[str, Any]:
    """What every outermost program is compiled with; refuses a jaxlib that computes wrongly even so."""
    global _known
    with _testing:
        if _known is None:
            from tightrope._self_test import passed  # here, since most of what is imported compiles nothing

            _known = passed(_RIGHT)
        return _known
