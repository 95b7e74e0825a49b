"""The Hessian of the Lagrangian on some of the rows, as a matrix.

The matrix of a linear function is made of its values at all unit vectors at once. Where the function begins with products of
its argument and arrays, as the derivative of a linear model's gradient does, half of the work would be to multiply these
arrays by the identity. So the function's program is gone through, and a product with the identity is the array itself.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr, jaxpr_as_fun

from tightrope._jaxlib import compiled
from tightrope.precision import full_precision
from tightrope.problem.full_data import Some, bent_like, fold_rows
from tightrope.problem.problem import Problem
from tightrope.tree import Array, Tree, ravel


@compiled(static_argnames="rows_a_slice", soon=True)
@full_precision
def lagrangian_hessian(problem: Problem, x: Tree, lam: Array, data: Tree, some: Some, rows_a_slice: int) -> Array:
    """The Hessian of the mean of f + <lam, h> over some slices of the rows, as a matrix."""
    flat, back = ravel(x)
    problem = bent_like(problem, x, data, some, rows_a_slice)

    def of_slice(rows, weights):
        def lagrangian(v):
            f, h = jax.vmap(lambda one: problem.sample_values(back(v), one))(rows)
            return jnp.dot(weights.astype(f.dtype), f) + jnp.dot(weights.astype(h.dtype) @ h, lam)

        return matrix_of(jax.linearize(jax.grad(lagrangian), flat)[1], flat)

    return fold_rows(of_slice, data, rows_a_slice, some)


def matrix_of(linear: Callable[[Array], Array], like: Array) -> Array:
    """The matrix whose k-th row is the value at the k-th unit vector of the arguments shaped like this vector.

    Example:
        >>> import jax.numpy as jnp
        >>> matrix_of(lambda v: jnp.array([[1.0, 2.0], [3.0, 4.0]]) @ v, jnp.zeros(2)).tolist()
        [[1.0, 3.0], [2.0, 4.0]]
    """
    closed = jax.make_jaxpr(linear)(like)
    program, arrays = closed.jaxpr, dict(zip(closed.jaxpr.constvars, closed.consts, strict=True))
    products: dict[Any, Array] = {}
    for equation in program.eqns:
        (product, *_), (array, axis) = equation.outvars, _multiplied(equation, program.invars[0])
        if array in arrays:
            products[product] = jnp.moveaxis(arrays[array], axis, 0).astype(product.aval.dtype)
    others = [equation for equation in program.eqns if equation.outvars[0] not in products]
    rest = program.replace(invars=[*program.invars, *products], eqns=others)
    units = jnp.eye(like.size, dtype=like.dtype)
    return jax.vmap(jaxpr_as_fun(ClosedJaxpr(rest, closed.consts)))(units, *products.values())[0]


def _multiplied(equation: Any, vector: Any) -> tuple[Any, int]:
    """By what an equation multiplies a vector, and along which axis; None where it does something else."""
    if equation.primitive.name != "dot_general" or sum(v is vector for v in equation.invars) != 1:
        return None, 0
    other = 1 if equation.invars[0] is vector else 0
    axes = equation.params["dimension_numbers"][0][other]
    return (equation.invars[other], axes[0]) if axes else (None, 0)
