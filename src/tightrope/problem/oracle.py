"""A user's own first-order oracle, made differentiable: (grad f, h, grad h) from one call per sample."""

import re
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tightrope.problem.problem import Problem, as_wide
from tightrope.tree import Array, Tree, dot, float_dtype, pytree, static


class Oracle:
    """The user's function with what is needed to call it; compared by identity of the function."""

    def __init__(self, fn: Callable[..., Any], n_constraints: int, numpy: bool):
        if not callable(fn):
            raise TypeError(f"from_oracle: oracle is {fn!r}; expected a function oracle(x, theta).")
        if n_constraints < 0:
            raise ValueError(f"from_oracle: n_constraints is {n_constraints}; expected 0 or more.")
        self.fn, self.n_constraints, self.numpy = fn, n_constraints, numpy
        self.gives_value: bool | None = None  # known after the first call

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Oracle) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    @property
    def _key(self):
        return self.fn, self.n_constraints, self.numpy

    def __repr__(self) -> str:
        return re.sub(r" at 0x\w+", "", repr(self.fn))

    def try_once(self, x: Tree, theta: Tree, params: Tree) -> None:
        """Call a NumPy oracle outside compiled code, where its mistakes are still sentences."""
        _call_host(self, x, theta, () if params is None else (params,), _expected(self, x))

    def parts(self, returned: Any) -> tuple[Any, Any, Any, Any]:
        """(f, grad f, h, grad h) from what the user returned; f is 0 where it was left out."""
        if not isinstance(returned, tuple | list) or len(returned) not in (3, 4):
            raise ValueError(
                f"from_oracle: the oracle returned {type(returned).__name__}; expected the tuple (grad f, h, grad h) "
                "or (f, grad f, h, grad h)."
            )
        self.gives_value = len(returned) == 4
        return tuple(returned) if self.gives_value else (0.0, *returned)  # pyright: ignore[reportReturnType]


def _expected(oracle: Oracle, x: Tree) -> tuple:
    """The shapes of f, grad f, h, grad h."""
    dtype, n = float_dtype(x), oracle.n_constraints
    return (
        jax.ShapeDtypeStruct((), dtype),
        jax.tree.map(lambda v: jax.ShapeDtypeStruct(jnp.shape(v), dtype), x),
        jax.ShapeDtypeStruct((n,), dtype),
        jax.tree.map(lambda v: jax.ShapeDtypeStruct((n, *jnp.shape(v)), dtype), x),
    )


def _call(oracle: Oracle, x: Tree, theta: Tree, params: Tree) -> tuple[Array, Tree, Array, Tree]:
    extra, expected = () if params is None else (params,), _expected(oracle, x)
    if oracle.numpy:
        host = partial(_call_host, oracle, expected=expected)
        return jax.pure_callback(host, expected, x, theta, extra, vmap_method="sequential")
    try:
        returned = oracle.parts(oracle.fn(x, theta, *extra))
    except (jax.errors.TracerArrayConversionError, jax.errors.ConcretizationTypeError) as error:
        raise TypeError(
            "from_oracle: the oracle turned its arguments into NumPy arrays, which compiled code cannot do. "
            "Write it with jax.numpy, or pass numpy=True to have it called back (slower)."
        ) from error
    _refuse_other_shapes(returned, expected)
    return jax.tree.map(lambda v, e: jnp.asarray(v, e.dtype), returned, expected)


def _call_host(oracle: Oracle, x: Tree, theta: Tree, extra: tuple, expected: tuple) -> tuple:
    x, theta, extra = jax.tree.map(np.asarray, (x, theta, extra))
    returned = oracle.parts(oracle.fn(x, theta, *extra))
    _refuse_other_shapes(returned, expected)
    return jax.tree.map(lambda v, e: np.asarray(v, e.dtype), returned, expected)


def _refuse_other_shapes(returned: tuple, expected: tuple) -> None:
    for name, given, want in zip(("f", "grad f", "h", "grad h"), returned, expected, strict=True):
        shapes = [jax.tree.map(np.shape, tree) for tree in (given, want)]
        if shapes[0] != shapes[1]:
            raise ValueError(f"from_oracle: {name} has shape {shapes[0]}; expected {shapes[1]}.")


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def oracle_values(oracle: Oracle, x: Tree, theta: Tree, params: Tree) -> tuple[Array, Array]:
    """(f, h) of one sample; their derivatives in x are the ones the oracle returned."""
    f, _, h, _ = _call(oracle, x, theta, params)
    return f, h


@oracle_values.defjvp
def _oracle_jvp(oracle: Oracle, primals, tangents):
    f, grad_f, h, rows = _call(oracle, *primals)
    dx = tangents[0]  # theta and params are given, never differentiated
    along_rows = jax.vmap(lambda row: dot(row, dx))(rows) if oracle.n_constraints else jnp.zeros_like(h)
    return (f, h), (dot(grad_f, dx).astype(f.dtype), along_rows.astype(h.dtype))


@pytree
class FromOracle(Problem):
    """A problem whose values and derivatives its oracle gives, both at once; made by `Problem.from_oracle`."""

    oracle: Oracle = static(default=None)  # pyright: ignore[reportAssignmentType]

    def _check_functions(self) -> None:
        """There are none: the oracle was checked when it was made."""

    def sample_values(self, x: Tree, theta: Tree) -> tuple[Array, Array]:
        """(f(x, theta), h(x, theta) - levels) for one sample, in one call."""
        f, h = oracle_values(self.oracle, x, as_wide(theta, x), self.params)
        return f, h - self.levels

    def _counted(self, x: Tree, theta: Tree) -> int:
        if self.oracle.numpy:  # shows its shapes only when called
            self.oracle.try_once(x, jax.tree.map(lambda s: np.zeros(s.shape, s.dtype), theta), self.params)
        jax.eval_shape(self.sample_values, x, theta)
        return self.oracle.n_constraints

    def _objective(self, x: Tree, theta: Tree, **seen: Tree) -> Array:
        return self.sample_values(x, theta)[0]

    def _constraints(self, x: Tree, theta: Tree, **seen: Tree) -> Array:
        return self.sample_values(x, theta)[1]

    @property
    def knows_objective(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """False where it returns gradients only."""
        return self.oracle.gives_value is not False
