"""The matrix of a linear function beside JAX's own."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tightrope.problem.hessian import matrix_of

RNG = np.random.default_rng(0)
A, B, K = (RNG.normal(size=shape) for shape in ((5, 3), (3, 4), (2, 3, 6)))
FUNCTIONS = {
    "an array in front": lambda v: A @ v,
    "an array behind": lambda v: v @ B,
    "twice": lambda v: jnp.sin(A[:, 0]) * (A @ (2 * v)) + A @ v,
    "of three axes": lambda v: jnp.einsum("ijk,j->ik", K, v).sum(0),
    "itself": lambda v: v + A.T @ (A @ v),
    "an outer product": lambda v: (v[:, None] * A[None, :, 0]).sum(1),
    "an outer product as such": lambda v: jax.lax.dot_general(v, A[:, 0], (((), ()), ((), ()))).sum(1),
    "inside another function": lambda v: jax.jit(lambda u: A @ u)(v),
    "element by element": lambda v: A.T @ jnp.where(A[:, 0] > 0, -(A @ v) / A[:, 1], 0.0 - 2 * (A @ v)),
    "an array of another precision": lambda v: A.T @ (2.0 * (A.astype(np.float32) @ v)),
    "of two products": lambda v: A.T @ (A @ v + 2.0 * (A[::-1] @ v)),
    "what is used twice": lambda v: A.T @ (A[:, 0] * (A @ v)) + (A[:, 1] * (A @ v)) @ A,
    "nothing": lambda v: jnp.zeros(2),
}


@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS)
def test_the_columns_are_those_of_jax(function):
    v = jnp.asarray(RNG.normal(size=3))
    np.testing.assert_allclose(matrix_of(function, v), jax.jacfwd(function)(v).T, rtol=1e-5, atol=1e-6)


def test_no_array_is_multiplied_by_the_identity():
    def hessian(w, X):
        return matrix_of(jax.linearize(jax.grad(lambda w: jnp.logaddexp(0.0, X @ w).sum()), w)[1], w)

    program = str(jax.make_jaxpr(hessian)(jnp.ones(3), jnp.ones((7, 3))).jaxpr)
    assert program.count("dot_general") == 3  # value, gradient, and the second of the two products of the Hessian
