"""Nested problems, F(x) = E f(x, theta, u) with u = E inner(x, theta), and the plain problems that they are made of.

The mean inside is a vector here, `flat_inner`. With c = E grad_u f, the chain rule is grad F = E grad_x f + J_inner' c.
"""

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tightrope.problem.problem import Problem, as_wide, shape_of, weighted
from tightrope.sampling.batch import batch_mean
from tightrope.tree import Array, Tree, float_dtype, pytree, ravel, replace


@pytree
class Nested(Problem):
    """A problem whose objective or constraints are functions of a mean; `tr.Problem` makes one where they see `inner`."""

    nested = True

    def _check_functions(self) -> None:
        """Refuse what a nested problem cannot be made of."""
        super()._check_functions()
        if self.exact_constraints is not None:
            raise TypeError(
                "Problem: a nested problem was given exact_constraints; expected functions of x, theta and inner. "
                "Constraints that are known exactly are given as `constraints` that make no use of theta."
            )
        if self.inner is not None and not any(_sees_inner(fn) for fn in (self.objective, self.constraints) if fn):
            raise TypeError(
                "Problem: inner was given and neither objective nor constraints has an argument `inner`; expected one "
                "that has, such as objective(x, theta, inner)."
            )

    def sample_values(self, x: Tree, theta: Tree) -> tuple[Array, Array]:
        """Refused: there are none."""
        raise TypeError(
            "one sample of a nested problem has no value of its own; expected a plain problem. Near a point it is one: "
            "tightrope.problem.full_data.linearised."
        )

    def values_given(self, x: Tree, theta: Tree, u: Any) -> tuple[Array, Array]:
        """(f, h - levels) of one sample, where u stands for the mean of `inner_values`."""
        f, h = (self.seen_inside(name, u) for name in ("objective", "constraints"))
        return self._objective(x, theta, **f), self._constraints(x, theta, **h)

    def inner_values(self, x: Tree, theta: Tree) -> tuple[Tree, Tree]:
        """What one sample adds to the mean inside: `inner`, and what ready-made constraints average; () for none."""
        own = getattr(self.constraints, "inner", None)
        theta = as_wide(theta, x)
        return tuple(() if fn is None else fn(x, theta, *self._extra) for fn in (self.inner, own))  # pyright: ignore

    def values(self, x: Tree, theta: Tree) -> tuple[Array, Array]:
        """The batch means of f and h - levels with the batch's mean inside."""
        u = batch_mean(lambda one: self.inner_values(x, one), theta)
        f, h = batch_mean(lambda one: self.values_given(x, one, u), theta)
        return f.astype(float_dtype(x)), h.astype(float_dtype(x))

    def constraint_values(self, x: Tree, theta: Tree) -> Array:
        """The second half of `values`."""
        return self.values(x, theta)[1]

    def _penalised(self, weights: np.ndarray) -> Problem:
        return Problem(_penalty, None, self.domain, params=(self, weights), inner=_inner_of_first)

    def _over_devices(self, of: Callable[[Tree], Tree], theta: Tree) -> Tree:
        return of(theta)  # no part of a batch knows the mean inside

    def _means_inside(self, x: Tree, theta: Tree) -> dict[str, dict[str, Any]]:
        u = shape_of("inner", self.inner_values, x, theta)
        if not jax.tree.leaves(u) or not all(hasattr(leaf, "shape") for leaf in jax.tree.leaves(u)):
            raise ValueError(f"Problem: inner(x, theta) returns {u!r}; expected arrays, or a pytree of arrays.")
        return {name: self.seen_inside(name, u) for name in ("objective", "constraints")}

    def seen_inside(self, name: str, u: Any) -> dict[str, Tree]:
        """The mean inside as the keyword by which the objective or the constraints see it."""
        fn = getattr(self, name)
        return {"inner": u[int(name == "constraints" and hasattr(fn, "inner"))]} if fn and _sees_inner(fn) else {}


def _sees_inner(fn: Callable[..., Any]) -> bool:
    """Whether a function has an argument `inner`, by which it sees the mean inside."""
    try:
        return "inner" in inspect.signature(fn).parameters
    except ValueError:  # what is written in C may not say
        return False


class Tangent(NamedTuple):
    """What a nested problem is made of at a point, as means: the mean inside, and the slopes of f and h in it."""

    u: Array
    slope_f: Array
    slopes_h: Array


def flat_inner(problem: Nested, x: Tree, theta: Tree) -> Array:
    """What one sample adds to the mean inside, as a vector in x's dtype."""
    return ravel(jax.tree.map(lambda v: jnp.asarray(v, float_dtype(x)), problem.inner_values(x, theta)))[0]


def inner_size(problem: Nested, x: Tree, theta: Tree) -> int:
    """How many numbers are averaged inside; `theta` is one sample, or its shape."""
    return jax.eval_shape(lambda x, theta: flat_inner(problem, x, theta), x, theta).size


def outer_values(problem: Nested, x: Tree, u: Array, theta: Tree) -> tuple[Array, Array]:
    """f and h - levels of one sample, where the vector u stands for the mean inside."""
    shapes = jax.eval_shape(problem.inner_values, x, theta)
    like = jax.tree.map(lambda s: jnp.zeros(s.shape, u.dtype), shapes)  # a mean of whole numbers is none
    return problem.values_given(x, theta, ravel(like)[1](u))


def batch_inner(problem: Nested, x: Tree, theta: Tree) -> Array:
    """The mean inside over a batch."""
    return batch_mean(lambda one: flat_inner(problem, x, one), theta)


def batch_outer(problem: Nested, x: Tree, u: Array, lam: Array, theta: Tree) -> tuple[Array, Array, Tree, Array]:
    """f, h and the gradients of f + <lam, h> in x and in u, means over a batch, where u stands for the mean inside."""

    def means(point: Tree, inside: Array) -> tuple[Array, Array]:
        f, h = batch_mean(lambda one: outer_values(problem, point, inside, one), theta)
        return f.astype(float_dtype(x)), h.astype(float_dtype(x))

    (f, h), pull = jax.vjp(means, x, u)
    return f, h, *pull((jnp.ones_like(f), lam))


# ---- plain problems; their functions are the module's and the rest `params`, so that nothing compiles twice -------------


def inner_alone(problem: Nested) -> Problem:
    """The plain problem whose constraints are the inner values."""
    return Problem(_nothing, _inner, problem.domain, params=problem)


def with_inner_given(problem: Nested, u: Array) -> Problem:
    """The plain problem where u stands for the mean inside, whatever x is."""
    return Problem(*_GIVEN, problem.domain, problem.levels, (replace(problem, levels=0.0), u))


def in_point_and_inner(problem: Nested) -> Problem:
    """The plain problem in (x, u), where x and the mean inside are free of each other; a point is {"x": x, "u": u}."""
    return Problem(*_BOTH, problem.domain, problem.levels, replace(problem, levels=0.0))


def with_inner_linear(problem: Nested, u: Array, slope_f: Array, slopes_h: Array) -> Problem:
    """The plain problem f(x, theta, u) + <c, inner(x, theta) - u>, and h likewise; c are the slopes in u.

    With u = E inner(x, .) and c = E grad_u f(x, ., u) at a point x, values and gradients there are those of the nested
    problem; and what a sample adds is its influence, by which the delta method knows how sure a function of means is.
    """
    levels = jnp.asarray(problem.levels, u.dtype) + slopes_h @ u  # beside which values are rounded
    params = replace(problem, levels=0.0), u, slope_f, slopes_h
    return Problem(*_LINEAR, problem.domain, levels, params, problem.names)


def with_inner_moving(problem: Nested, at: Tree, u: Array, inside: Tree, slope_f: Array, slopes_h: Array) -> Problem:
    """The plain problem f(x, theta, v) + <c, inner(x, theta) - v>, v = u + J (x - at), and h likewise; J = `inside`.

    With u, J and c those of the means at the point `at`, the mean of the first term brings what f bends around the mean
    inside, and that of the second what the mean inside bends by itself: values, gradients and Hessians there are those of
    the nested problem.
    """
    params = replace(problem, levels=0.0), at, u, inside, slope_f, slopes_h
    return Problem(*_MOVING, problem.domain, problem.levels, params, problem.names)


def _nothing(x: Tree, theta: Tree, params: Any) -> Array:
    return jnp.zeros((), float_dtype(x))


def _inner(x: Tree, theta: Tree, problem: Nested) -> Array:
    return flat_inner(problem, x, theta)


def _penalty(x: Tree, theta: Tree, params: tuple[Nested, Array], inner: Tree) -> Array:
    return weighted(x, params[1], *params[0].values_given(x, theta, inner))


def _inner_of_first(x: Tree, theta: Tree, params: tuple[Nested, Array]) -> Tree:
    return params[0].inner_values(x, theta)


def _apart(both: Callable[..., tuple[Array, Array]]) -> tuple[Callable[..., Array], Callable[..., Array]]:
    """f and h, of what gives both."""
    return lambda *given: both(*given)[0], lambda *given: both(*given)[1]


def _linear(x: Tree, theta: Tree, params: tuple[Nested, Array, Array, Array]) -> tuple[Array, Array]:
    problem, u, slope, slopes = params
    (f, h), inside = outer_values(problem, x, u, theta), flat_inner(problem, x, theta)
    return f + jnp.dot(slope, inside - u), h + slopes @ inside


def _moving(x: Tree, theta: Tree, params: Any) -> tuple[Array, Array]:
    problem, at, u, inside, slope, slopes = params
    moves = jax.tree.map(lambda rows, a, b: jnp.tensordot(rows, a - b, a.ndim), inside, x, at)
    v = u + sum(jax.tree.leaves(moves))  # the mean inside at x, to first order
    (f, h), away = outer_values(problem, x, v, theta), flat_inner(problem, x, theta) - v
    return f + jnp.dot(slope, away), h + slopes @ away


_GIVEN = _apart(lambda x, theta, params: outer_values(params[0], x, params[1], theta))
_BOTH = _apart(lambda z, theta, problem: outer_values(problem, z["x"], z["u"], theta))
_LINEAR, _MOVING = _apart(_linear), _apart(_moving)
