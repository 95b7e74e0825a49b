"""The problem: minimise E f(x, theta) over x in X subject to E h(x, theta) <= levels.

The user writes f and h for ONE sample theta. Averages over a batch, gradients of the Lagrangian and Jacobians are
made here and nowhere else, all from one function, `Problem.values`.
"""

import inspect
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from tightrope.columns import of_constraints, refuse_taken
from tightrope.precision import in_full_precision
from tightrope.problem.oracle import Oracle, oracle_values
from tightrope.sampling.batch import batch_mean, over_devices
from tightrope.sets import ConvexSet
from tightrope.tree import Array, Tree, add_scaled, dot, float_dtype, pytree, replace, set_field, static

_FAR = 1e3  # the step along a line without curvature
_EVALUATES = (
    "sample_values", "values", "constraint_values", "value_and_gradient", "jacobian", "exact_slopes",
    "lagrangian_gradient", "step_length",
)  # fmt: skip


class Split(NamedTuple):
    """A batch whose objective and constraints are averaged over different numbers of samples."""

    objective: Tree
    constraints: Tree


@pytree
class Problem:
    """Minimise E f(x, theta) over x in X subject to E h_i(x, theta) <= levels_i, i = 1..N.

    Args:
        objective: f(x, theta), a scalar, for one sample theta. With `params`, f(x, theta, params).
        constraints: h(x, theta), a vector of N values, or None for N = 0. With `params` a third argument.
        domain: the convex compact set X.
        levels: right-hand sides, one number or N of them. A leaf: another value does not compile again.
        params: anything else the functions need (a pytree), passed as their third argument. Leaves.
        names: what to call the constraints in reports.
        exact_constraints: E h(x, .) where it is known, as a function of x (and params). Methods then use it
            instead of the sampled `constraints`, and the noise in the multipliers disappears.
        inner: of a nested problem, what is averaged inside: inner(x, theta), a pytree of values for one sample. Objective
            and constraints that have an argument `inner` see u = E inner(x, .) there. One sample alone then has no
            value, and only methods made for it take such a problem. Ready-made constraints such as
            `tr.variance_at_most` bring what they average along.

    Example:
        >>> import tightrope as tr
        >>> problem = tr.Problem(
        ...     objective=lambda x, theta: (x - theta).dot(x - theta) / 2,
        ...     constraints=lambda x, theta: x[:1] * theta[:1],
        ...     domain=tr.L2Ball(2.0, shape=3),
        ...     levels=0.5,
        ... )
    """

    objective: Callable[..., Any] | None = static()
    constraints: Callable[..., Any] | None = static(default=None)
    domain: ConvexSet = None  # pyright: ignore[reportAssignmentType]
    levels: Any = 0.0
    params: Any = None
    names: tuple[str, ...] | None = static(default=None)
    exact_constraints: Callable[..., Any] | None = static(default=None)
    oracle: Oracle | None = static(default=None)
    inner: Callable[..., Any] | None = static(default=None)

    def __init_subclass__(cls, **kwargs: Any):
        super().__init_subclass__(**kwargs)
        in_full_precision(cls, _EVALUATES)

    def __post_init__(self):
        if not isinstance(self.domain, ConvexSet):
            raise TypeError(
                f"Problem: domain is {self.domain!r}; expected a convex set such as tr.L2Ball(10.0, shape=14). "
                "A set of your own is a subclass of tr.ConvexSet."
            )
        if self.oracle is None and not callable(self.objective):
            raise TypeError(f"Problem: objective is {self.objective!r}; expected a function f(x, theta).")
        for name in ("constraints", "exact_constraints"):
            fn = getattr(self, name)
            if fn is not None and not callable(fn):
                raise TypeError(f"Problem: {name} is {fn!r}; expected a function that returns N values, or None.")
        self._check_inner()
        set_field(self, "levels", _checked_levels(self.levels))
        set_field(self, "names", _checked_names(self.names))

    def _check_inner(self) -> None:
        """Refuse what a nested problem cannot be made of."""
        if self.inner is not None and not callable(self.inner):
            raise TypeError(f"Problem: inner is {self.inner!r}; expected a function inner(x, theta), or None.")
        if self.nested and (self.oracle is not None or self.exact_constraints is not None):
            given = "an oracle" if self.oracle is not None else "exact_constraints"
            raise TypeError(
                f"Problem: a nested problem was given {given}; expected functions of x, theta and inner. Constraints that "
                "are known exactly are given as `constraints` that make no use of theta."
            )
        if self.inner is not None and not any(_sees_inner(fn) for fn in (self.objective, self.constraints) if fn):
            raise TypeError(
                "Problem: inner was given and neither objective nor constraints has an argument `inner`; expected one "
                "that has, such as objective(x, theta, inner)."
            )

    @classmethod
    def from_oracle(
        cls,
        oracle: Callable[..., Any],
        domain: ConvexSet,
        *,
        n_constraints: int,
        levels: Any = 0.0,
        params: Any = None,
        names: Sequence[str] | None = None,
        numpy: bool = False,
    ) -> "Problem":
        """A problem whose user brings gradients: the paper's stochastic first-order oracle.

        Args:
            oracle: `oracle(x, theta)` (with `params` a third argument) for one sample theta, returning
                `(grad f, h, grad h)`, or `(f, grad f, h, grad h)` to have the objective reported too. grad f is
                shaped like x; h has N values; grad h is shaped like x with a leading axis of N.
            domain: the convex compact set X.
            n_constraints: N.
            levels, params, names: as in `Problem`.
            numpy: True when the oracle is plain NumPy. It is then called back from the compiled loop, once per
                sample, at some tens of microseconds a call.
        """
        made = Oracle(oracle, int(n_constraints), numpy)
        return cls(None, None, domain, levels, params, None if names is None else tuple(names), None, made)

    # ---- values and derivatives ------------------------------------------------------------------------------

    def sample_values(self, x: Tree, theta: Tree) -> tuple[Array, Array]:
        """(f(x, theta), h(x, theta) - levels) for one sample."""
        if self.oracle is not None:
            f, h = oracle_values(self.oracle, x, theta, self.params)
            return f, h - self.levels
        if self.nested:
            raise TypeError(
                "one sample of a nested problem has no value of its own; expected a plain problem. Near a point it is one: "
                "tightrope.problem.full_data.linearised."
            )
        return self._objective(x, theta), self._constraints(x, theta)

    def values_given(self, x: Tree, theta: Tree, u: Any) -> tuple[Array, Array]:
        """(f, h - levels) of one sample of a nested problem, where u stands for the mean of `inner_values`."""
        return self._objective(x, theta, u), self._constraints(x, theta, u)

    def inner_values(self, x: Tree, theta: Tree) -> tuple[Tree, Tree]:
        """What one sample adds to the mean inside: `inner`, and what ready-made constraints average; () for none."""
        own = getattr(self.constraints, "inner", None)
        return tuple(() if fn is None else fn(x, theta, *self._extra) for fn in (self.inner, own))  # pyright: ignore

    def values(self, x: Tree, theta: Tree) -> tuple[Array, Array]:
        """The batch means of f(x, .) and of h(x, .) - levels, in x's dtype; theta has a leading batch axis.

        Of a nested problem, with the batch's mean inside: exact where the batch is all there is, biased where it is a
        sample of more.
        """
        if self.nested:
            u = batch_mean(lambda one: self.inner_values(x, one), theta)
            f, h = batch_mean(lambda one: self.values_given(x, one, u), theta)
        elif isinstance(theta, Split):
            f = batch_mean(lambda one: self._objective(x, one), theta.objective)
            h = batch_mean(lambda one: self._constraints(x, one), theta.constraints)
        else:
            f, h = batch_mean(lambda one: self.sample_values(x, one), theta)
        return f.astype(float_dtype(x)), h.astype(float_dtype(x))

    def constraint_values(self, x: Tree, theta: Tree) -> Array:
        """The batch mean of h(x, .) - levels alone."""
        if self.nested:
            return self.values(x, theta)[1]
        rows = theta.constraints if isinstance(theta, Split) else theta
        return batch_mean(lambda one: self._constraints(x, one), rows).astype(float_dtype(x))

    def value_and_gradient(self, x: Tree, lam: Array, theta: Tree) -> tuple[Array, Array, Tree]:
        """f, h and the Lagrangian's gradient grad f + sum_i lam_i grad h_i, in one backward pass."""

        def of(part: Tree) -> tuple[Array, Array, Tree]:
            (f, h), pull = jax.vjp(lambda point: self.values(point, part), x)
            (gradient,) = pull((jnp.ones_like(f), lam))
            return f, h, gradient

        return of(theta) if self.nested else over_devices(of, theta)

    def jacobian(self, x: Tree, theta: Tree) -> tuple[Array, Array, Tree, Tree]:
        """f, h, grad f and the N rows grad h_i (a leading axis of N on every leaf)."""

        def of(part: Tree) -> tuple[Array, Array, Tree, Tree]:
            return self.jacobian_of(lambda point: self.values(point, part), x)

        return of(theta) if self.nested else over_devices(of, theta)

    def jacobian_of(self, values: Callable[[Tree], tuple[Array, Array]], x: Tree) -> tuple[Array, Array, Tree, Tree]:
        """The same of any function that gives f and h."""
        (f, h), pull = jax.vjp(values, x)
        (grad_f,) = pull((jnp.ones_like(f), jnp.zeros_like(h)))
        return f, h, grad_f, constraint_rows(lambda e: pull((jnp.zeros_like(f), e)), h, x)

    def exact_slopes(self, x: Tree) -> Tree:
        """The derivatives of the constraints that are known exactly, by all numbers that x is held as; like `jacobian`'s
        rows where those are the coordinates themselves."""
        assert self.exact_constraints is not None
        return jax.jacrev(self.exact_constraints)(x, *self._extra)

    def zero_gradient(self, x: Tree) -> Tree:
        """Zeros in the form in which `jacobian` gives grad f."""
        return jax.tree.map(jnp.zeros_like, x)

    def lagrangian_gradient(self, grad_f: Tree, rows: Tree, lam: Array) -> Tree:
        """grad f + sum_i lam_i grad h_i, from what `jacobian` gives."""
        return jax.tree.map(lambda a, r: a + jnp.tensordot(lam, r, 1), grad_f, rows)

    def step_length(self, x: Tree, lam: Array, theta: Tree, g: Tree, d: Tree) -> Array:
        """The step a >= 0 that minimises f + <lam, h> along x + a d; g is its gradient at x.

        By the secant of the slopes at 0 and 1, which is exact for a quadratic. Where that turns out to be too far, by a
        second secant.
        """

        def slope(a: Array | float) -> Array:
            _, (df, dh) = jax.jvp(lambda point: self.values(point, theta), (add_scaled(x, a, d),), (d,))
            return df + jnp.dot(lam, dh)

        def root(b: Array | float, at_0: Array, at_b: Array) -> Array:
            return jnp.where(at_b > at_0, b * at_0 / jnp.where(at_b > at_0, at_0 - at_b, 1), _FAR * b)

        at_0 = dot(g, d)
        once = root(1.0, at_0, slope(1.0))
        there = slope(once)
        return jnp.where(at_0 < 0, jnp.where(there > 0, root(once, at_0, there), once), 0).astype(at_0.dtype)

    # ---- what is known about it ------------------------------------------------------------------------------

    @property
    def nested(self) -> bool:
        """Whether objective or constraints are functions of a mean, which no sample alone can give."""
        return self.inner is not None or hasattr(self.constraints, "inner")

    @property
    def knows_objective(self) -> bool:
        """False for an oracle that returns gradients only; the objective is then not reported."""
        return self.oracle is None or self.oracle.gives_value is not False

    def n_constraints(self, x: Tree, theta: Tree) -> int:
        """N, read off the functions' shapes without computing anything; `theta` is one sample."""
        if self.nested:
            batch = jax.tree.map(lambda a: jax.ShapeDtypeStruct((1, *a.shape), a.dtype), theta)
            return jax.eval_shape(self.values, x, batch)[1].shape[0]
        return jax.eval_shape(self.sample_values, x, theta)[1].shape[0]

    @property
    def without_constraints(self) -> "Problem":
        """Its objective alone."""
        return replace(self, constraints=None, exact_constraints=None, levels=0.0)

    @property
    def without_objective(self) -> "Problem":
        """Its constraints alone."""
        return replace(self, objective=_nothing)

    def constraint_names(self, n: int) -> list[str]:
        """One name per constraint: the given ones, or h[0], h[1], ..."""
        return list(self.names) if self.names is not None else [f"h[{i}]" for i in range(n)]

    def tightening_ceiling(self, x: Tree, theta: Tree, grid: np.ndarray | None = None) -> float:
        """The largest upsilon that leaves a feasible point, as far as the structure of the constraints tells.

        For two-sided constraints |E q| <= c the two sides sum to -2c, so no tightening of c or more can be met. With a
        grid of levels, L numbers or L rows: the largest that leaves one at each of them.
        """
        ceiling = getattr(self.constraints, "tightening_ceiling", None)
        levels = np.asarray(self.levels) if grid is None else grid.reshape(len(grid), *grid.shape[1:] or (1,))
        return float("inf") if ceiling is None else ceiling(levels, x, theta, *self._extra)

    @property
    def _extra(self) -> tuple[Any, ...]:
        return () if self.params is None else (self.params,)

    def _objective(self, x: Tree, theta: Tree, u: Any = None) -> Array:
        if self.oracle is not None:
            return oracle_values(self.oracle, x, theta, self.params)[0]
        assert self.objective is not None
        seen = self.seen_inside("objective", u)
        return jnp.asarray(self.objective(x, theta, *self._extra, **seen))  # a constant is a Python number

    def _constraints(self, x: Tree, theta: Tree, u: Any = None) -> Array:
        if self.oracle is not None:
            return oracle_values(self.oracle, x, theta, self.params)[1] - self.levels
        if self.exact_constraints is not None:
            return self.exact_constraints(x, *self._extra) - self.levels
        if self.constraints is None:
            return jnp.zeros((0,), float_dtype(x))
        return self.constraints(x, theta, *self._extra, **self.seen_inside("constraints", u)) - self.levels

    def seen_inside(self, name: str, u: Any) -> dict[str, Tree]:
        """The mean inside as the keyword by which the objective or the constraints see it; u is None in a plain problem."""
        fn = getattr(self, name)
        if u is None or fn is None or not _sees_inner(fn):
            return {}
        return {"inner": u[int(name == "constraints" and hasattr(fn, "inner"))]}


in_full_precision(Problem, _EVALUATES)


def _nothing(x: Tree, theta: Tree, *params: Tree) -> Array:
    return jnp.zeros((), float_dtype(x))


def _sees_inner(fn: Callable[..., Any]) -> bool:
    """Whether a function has an argument `inner`, by which it sees the mean inside."""
    try:
        return "inner" in inspect.signature(fn).parameters
    except ValueError:  # what is written in C may not say
        return False


def _checked_levels(levels: Any) -> Any:
    try:
        if isinstance(levels, list | tuple):  # a container would be N leaves
            levels = np.asarray(levels, float)
        if not isinstance(levels, Tracer):
            np.asarray(levels, float)
    except (OverflowError, TypeError, ValueError) as error:
        raise ValueError(f"Problem: levels is not a number or N numbers ({error}).") from error
    if np.ndim(levels) > 1:
        raise ValueError(f"Problem: levels has shape {np.shape(levels)}; expected a number or N numbers.")
    if not isinstance(levels, Tracer) and not np.all(np.isfinite(np.asarray(levels, float))):
        raise ValueError(f"Problem: levels is {levels!r}; expected finite numbers.")
    return levels


def _checked_names(names: Any) -> tuple[str, ...] | None:
    if names is None:
        return None
    if isinstance(names, str) or not all(isinstance(name, str) for name in names):
        raise TypeError(f"Problem: names is {names!r}; expected a list of strings, one per constraint.")
    refuse_taken("Problem: names", of_constraints(names))
    return tuple(names)


def constraint_rows(pull: Callable[[Array], tuple[Tree]], h: Array, x: Tree) -> Tree:
    """The rows grad h_i, from the transposed derivative of h at x."""
    if h.shape[0] == 0:  # nothing to map over
        return jax.tree.map(lambda v: jnp.zeros((0, *jnp.shape(v)), h.dtype), x)
    return jax.vmap(lambda e: pull(e)[0])(jnp.eye(h.shape[0], dtype=h.dtype))
