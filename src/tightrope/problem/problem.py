"""The problem: minimise E f(x, theta) over x in X subject to E h(x, theta) <= levels.

The user writes f and h for ONE sample theta. Averages over a batch, gradients of the Lagrangian and Jacobians are
made here and nowhere else, all from one function, `Problem.values`. Other kinds of problems are subclasses with the same
methods: `nested.Nested`, `oracle.FromOracle`, and factored ones with the completion of matrices. What only some kinds do
in a way of their own stands in `generic.py`.
"""

import contextlib
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from tightrope.columns import of_constraints, refuse_taken
from tightrope.precision import in_full_precision
from tightrope.sampling.batch import batch_mean, over_devices
from tightrope.sets import ConvexSet
from tightrope.tree import Array, Tree, astype, float_dtype, pytree, replace, set_field, static

_EVALUATES = (
    "sample_values", "values", "constraint_values", "value_and_gradient", "jacobian", "lagrangian_gradient",
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
    inner: Callable[..., Any] | None = static(default=None)

    knows_objective: ClassVar[bool] = True  # False for an oracle of gradients only; the objective is then not reported
    nested: ClassVar[bool] = False  # whether f or h are functions of a mean, so that one sample alone has no value

    def __new__(cls, *given: Any, **named: Any) -> "Problem":
        """A problem of the kind that its functions ask for."""
        if cls is Problem and _sees_means(*given, **named):
            from tightrope.problem.nested import Nested  # a problem itself, so that it cannot be imported above

            cls = Nested
        return object.__new__(cls)

    def __init_subclass__(cls, **kwargs: Any):
        super().__init_subclass__(**kwargs)
        in_full_precision(cls, _EVALUATES)

    def __post_init__(self):
        if not isinstance(self.domain, ConvexSet):
            raise TypeError(
                f"Problem: domain is {self.domain!r}; expected a convex set such as tr.L2Ball(10.0, shape=14). "
                "A set of your own is a subclass of tr.ConvexSet."
            )
        self._check_functions()
        set_field(self, "levels", _checked_levels(self.levels))
        set_field(self, "names", _checked_names(self.names))

    def _check_functions(self) -> None:
        """Refuse functions that are none."""
        if not callable(self.objective):
            raise TypeError(f"Problem: objective is {self.objective!r}; expected a function f(x, theta).")
        for name in ("constraints", "exact_constraints", "inner"):
            fn = getattr(self, name)
            if fn is not None and not callable(fn):
                wanted = "inner(x, theta)" if name == "inner" else "that returns N values"
                raise TypeError(f"Problem: {name} is {fn!r}; expected a function {wanted}, or None.")

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
        from tightrope.problem.oracle import FromOracle, Oracle  # a problem itself

        named = None if names is None else tuple(names)
        return FromOracle(None, None, domain, levels, params, named, oracle=Oracle(oracle, int(n_constraints), numpy))

    # ---- values and derivatives ------------------------------------------------------------------------------

    def sample_values(self, x: Tree, theta: Tree) -> tuple[Array, Array]:
        """(f(x, theta), h(x, theta) - levels) for one sample."""
        return self._objective(x, theta), self._constraints(x, theta)

    def values(self, x: Tree, theta: Tree) -> tuple[Array, Array]:
        """The batch means of f(x, .) and of h(x, .) - levels, in x's dtype; theta has a leading batch axis.

        Of a nested problem, with the batch's mean inside: exact where the batch is all there is, biased where it is a
        sample of more.
        """
        if isinstance(theta, Split):
            f = batch_mean(lambda one: self._objective(x, one), theta.objective)
            h = batch_mean(lambda one: self._constraints(x, one), theta.constraints)
        else:
            f, h = batch_mean(lambda one: self.sample_values(x, one), theta)
        return f.astype(float_dtype(x)), h.astype(float_dtype(x))

    def constraint_values(self, x: Tree, theta: Tree) -> Array:
        """The batch mean of h(x, .) - levels alone."""
        rows = theta.constraints if isinstance(theta, Split) else theta
        return batch_mean(lambda one: self._constraints(x, one), rows).astype(float_dtype(x))

    def value_and_gradient(self, x: Tree, lam: Array, theta: Tree) -> tuple[Array, Array, Tree]:
        """f, h and the Lagrangian's gradient grad f + sum_i lam_i grad h_i, in one backward pass."""

        def of(part: Tree) -> tuple[Array, Array, Tree]:
            (f, h), pull = jax.vjp(lambda point: self.values(point, part), x)
            (gradient,) = pull((jnp.ones_like(f), lam))
            return f, h, gradient

        return self._over_devices(of, theta)

    def jacobian(self, x: Tree, theta: Tree) -> tuple[Array, Array, Tree, Tree]:
        """f, h, grad f and the N rows grad h_i (a leading axis of N on every leaf)."""

        def of(part: Tree) -> tuple[Array, Array, Tree, Tree]:
            return jacobian_of(lambda point: self.values(point, part), x)

        return self._over_devices(of, theta)

    def lagrangian_gradient(self, grad_f: Tree, rows: Tree, lam: Array) -> Tree:
        """grad f + sum_i lam_i grad h_i, from what `jacobian` gives."""
        return jax.tree.map(lambda a, r: a + jnp.tensordot(lam, r, 1), grad_f, rows)

    # ---- what kinds of problems do in their own way ------------------------------------------------------------------

    @property
    def _extra(self) -> tuple[Any, ...]:
        return () if self.params is None else (self.params,)

    def _penalised(self, weights: np.ndarray) -> "Problem":
        return Problem(with_penalty, None, self.domain, params=(self, weights))

    def _over_devices(self, of: Callable[[Tree], Tree], theta: Tree) -> Tree:
        return over_devices(of, theta)

    def _checked_shapes(self, x: Tree, theta: Tree) -> int:
        """N; refuses functions whose results have the wrong shape, and levels and names that are not as many."""
        n = self._counted(x, theta)
        if np.shape(self.levels) not in ((), (n,)):
            raise ValueError(
                f"Problem: levels has {np.size(self.levels)} values for {n} constraints; expected one or {n}."
            )
        if self.names is not None and len(self.names) != n:
            raise ValueError(f"Problem: names has {len(self.names)} entries for {n} constraints; expected {n}.")
        return n

    def _counted(self, x: Tree, theta: Tree) -> int:
        """N, by the shapes of what the functions return."""
        inside = self._means_inside(x, theta)
        f = shape_of("objective", self.objective, x, theta, *self._extra, **inside.get("objective", {}))
        if not hasattr(f, "shape") or f.shape != ():
            given = f"shape {f.shape}" if hasattr(f, "shape") else f"a {type(f).__name__}"
            raise ValueError(
                f"Problem: objective(x, theta) returns {given} for one sample; expected a scalar. It sees ONE sample; "
                "the library averages over batches."
            )
        _refuse_without_gradient("objective", f)
        counts = [
            _checked_vector(name, shape_of(name, fn, *args, *self._extra, **inside.get(name, {})))
            for name, args in (("constraints", (x, theta)), ("exact_constraints", (x,)))
            if (fn := getattr(self, name)) is not None
        ]
        if len(set(counts)) > 1:
            raise ValueError(
                f"Problem: constraints returns {counts[0]} values and exact_constraints {counts[1]}; expected as many."
            )
        return counts[0] if counts else 0

    def _means_inside(self, x: Tree, theta: Tree) -> dict[str, dict[str, Any]]:
        """What each function sees beside x, theta and params, by its name."""
        return {}

    def _objective(self, x: Tree, theta: Tree, **seen: Tree) -> Array:
        assert self.objective is not None
        f = self.objective(x, as_wide(theta, x), *self._extra, **seen)
        return jnp.asarray(f)  # a constant is a Python number

    def _constraints(self, x: Tree, theta: Tree, **seen: Tree) -> Array:
        if self.exact_constraints is not None:
            return self.exact_constraints(x, *self._extra) - self.levels
        if self.constraints is None:
            return jnp.zeros((0,), float_dtype(x))
        return self.constraints(x, as_wide(theta, x), *self._extra, **seen) - self.levels


in_full_precision(Problem, _EVALUATES)


def bends(problem: Problem) -> bool:
    """Whether a problem has second derivatives: an oracle gives the first alone."""
    return not hasattr(problem, "oracle")


def called_back(problem: Problem) -> Any:
    """The oracle that compiled code calls back in Python and does not see inside; None where it sees all."""
    oracle = getattr(problem, "oracle", None)
    return oracle if oracle is not None and oracle.numpy else None


def as_wide(theta: Tree, x: Tree) -> Tree:
    """A sample with the digits of the point: rows may be stored with fewer than they are computed with. Whole numbers of 8
    or 16 bits have 32, or products of them would wrap."""

    def widened(leaf: Any) -> Any:
        narrow = jnp.issubdtype(leaf.dtype, jnp.integer) and leaf.dtype.itemsize < np.dtype(np.int32).itemsize
        return leaf.astype(np.int32) if narrow else leaf

    return jax.tree.map(widened, astype(theta, float_dtype(x)))


def n_constraints(problem: Problem, x: Tree, theta: Tree) -> int:
    """N, read off the functions' shapes without computing anything; `theta` is one sample."""
    batch = jax.tree.map(lambda a: jax.ShapeDtypeStruct((1, *a.shape), a.dtype), theta)
    return jax.eval_shape(problem.constraint_values, x, batch).shape[0]


def constraint_names(problem: Problem, n: int) -> list[str]:
    """One name per constraint: the given ones, or h[0], h[1], ..."""
    return list(problem.names) if problem.names is not None else [f"h[{i}]" for i in range(n)]


def objective_alone(problem: Problem) -> Problem:
    """The problem without its constraints."""
    return replace(problem, constraints=None, exact_constraints=None, levels=0.0)


def constraints_alone(problem: Problem) -> Problem:
    """The problem with zero as its objective."""
    return replace(problem, objective=_nothing)


def with_penalty(x: Tree, theta: Tree, params: tuple[Problem, Array]) -> Array:
    """f + <weights, h - levels> of one sample; params is (the problem, the weights)."""
    return weighted(x, params[1], *params[0].sample_values(x, theta))


def weighted(x: Tree, weights: Array, f: Array, h: Array) -> Array:
    """f + <weights, h>."""
    return f + jnp.sum(jnp.asarray(weights, float_dtype(x)) * h)


def _sees_means(objective: Any = None, constraints: Any = None, *_: Any, inner: Any = None, **__: Any) -> bool:
    return inner is not None or hasattr(constraints, "inner")


def _nothing(x: Tree, theta: Tree, *params: Tree) -> Array:
    return jnp.zeros((), float_dtype(x))


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
    several = isinstance(names, Iterable) and getattr(names, "shape", None) != () and not isinstance(names, str | dict)
    if not several or not all(isinstance(name, str) for name in names):
        raise TypeError(f"Problem: names is {names!r}; expected a list of strings, one per constraint.")
    refuse_taken("Problem: names", of_constraints(names))
    return tuple(names)


def jacobian_of(values: Callable[[Tree], tuple[Array, Array]], x: Tree) -> tuple[Array, Array, Tree, Tree]:
    """f, h, grad f and the rows grad h_i of any function that gives f and h."""
    (f, h), pull = jax.vjp(values, x)
    (grad_f,) = pull((jnp.ones_like(f), jnp.zeros_like(h)))
    return f, h, grad_f, constraint_rows(lambda e: pull((jnp.zeros_like(f), e)), h, x)


def constraint_rows(pull: Callable[[Array], tuple[Tree]], h: Array, x: Tree) -> Tree:
    """The rows grad h_i, from the transposed derivative of h at x."""
    if h.shape[0] == 0:  # nothing to map over
        return jax.tree.map(lambda v: jnp.zeros((0, *jnp.shape(v)), h.dtype), x)
    return jax.vmap(lambda e: pull(e)[0])(jnp.eye(h.shape[0], dtype=h.dtype))


# ---- shapes, which are checked before every run ---------------------------------------------------------------------


_found_right: weakref.WeakKeyDictionary[Problem, dict[Any, int]] = weakref.WeakKeyDictionary()


def check_shapes(problem: Problem, x: Tree, theta: Tree) -> int:
    """Refuse functions whose results have the wrong shape; returns N. `theta` is the shape of one sample.

    What was found right once is remembered as long as the problem is there: to ask its functions takes half a millisecond.
    """
    leaves, structure = jax.tree.flatten((x, theta))
    asked = structure, *((leaf.shape, leaf.dtype) for leaf in leaves)
    known = _found_right.setdefault(problem, {})
    if asked not in known:
        dtype = float_dtype(x)
        widened = jax.tree.map(lambda v: jax.ShapeDtypeStruct(v.shape, dtype) if _floating(v) else v, theta)
        known[asked] = problem._checked_shapes(x, widened)  # pyright: ignore[reportPrivateUsage]
    return known[asked]


def _floating(leaf: Any) -> bool:
    return jnp.issubdtype(leaf.dtype, jnp.floating)


def astype_problem(problem: Problem, dtype: Any) -> Problem:
    """The problem with its own numbers (levels, domain) in one dtype; the user's params stay as they are."""
    levels = problem.levels if isinstance(problem.levels, jax.Array) else np.asarray(problem.levels, dtype)
    levels, domain = jnp.asarray(levels, dtype), astype(problem.domain, dtype)
    return replace(problem, levels=levels, domain=domain)


def shape_of(name: str, fn: Any, *args: Any, **named: Any) -> Any:
    """The shapes of what a function of the user's returns for arguments of these shapes; refuses one that fails."""
    try:
        return jax.eval_shape(fn, *args, **named)
    except Exception as error:
        shapes = ", ".join(str(jax.tree.map(jnp.shape, a)) for a in args)
        raise ValueError(
            f"Problem: {name} fails on arguments of shapes {shapes} (x, one sample theta, params where given): "
            f"{str(error).strip().rstrip('.')}.{_in_float32(fn, args, named)}"
        ) from error


def _in_float32(fn: Any, args: Any, named: Any) -> str:
    """What to do about a function that fails in float64 alone; empty for others."""
    if jnp.result_type(float) != np.float64:
        return ""
    with contextlib.suppress(Exception), jax.enable_x64(False):

        def narrow(v: Any) -> Any:
            return jax.ShapeDtypeStruct(v.shape, jax.dtypes.canonicalize_dtype(v.dtype)) if hasattr(v, "dtype") else v

        jax.eval_shape(fn, *jax.tree.map(narrow, args), **jax.tree.map(narrow, named))
        return (
            " It does not fail in float32: rows are computed in float64, so write it for any precision, or pass "
            'precision="float32" to tr.minimize.'
        )
    return ""


def _checked_vector(name: str, h: Any) -> int:
    if getattr(h, "shape", None) == ():
        raise ValueError(
            f"Problem: {name} returns a scalar; expected a vector of N values. For one constraint return h[None] or "
            "jnp.stack([h])."
        )
    if not hasattr(h, "shape") or len(h.shape) != 1:
        given = f"shape {h.shape}" if hasattr(h, "shape") else f"a {type(h).__name__}"
        raise ValueError(f"Problem: {name} returns {given} for one sample; expected a vector of N values.")
    _refuse_without_gradient(name, h)
    return h.shape[0]


def _refuse_without_gradient(name: str, value: Any) -> None:
    if not jnp.issubdtype(value.dtype, jnp.floating):
        raise TypeError(
            f"Problem: {name} returns {value.dtype}, which has no gradient in x; expected real floating-point numbers. "
            "Was a comparison, a count or a cast to whole numbers meant to be smooth?"
        )
