"""Means and Jacobians over all rows, by rows of the Jacobian or by its columns."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tightrope as tr
from tightrope.problem.full_data import full_jacobian

D, N, ROWS = 5, 12, 700  # more constraints than half the coordinates; rows that are no multiple of a slice


def many_constraints(square):
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(ROWS, D)), rng.normal(size=(N, D))
    problem = tr.Problem(
        objective=lambda x, row: (row @ x["w"]) ** 2 + x["b"] * row[0],
        constraints=lambda x, row: square(jnp.asarray(b) @ x["w"] * row[0] + x["b"]),
        domain=tr.L2Ball(2.0, shape={"w": D, "b": ()}),
    )
    x = {"w": jnp.asarray(rng.normal(size=D)), "b": jnp.asarray(0.3)}
    w, inner = np.asarray(x["w"]), a[:, :1] * (b @ np.asarray(x["w"])) + 0.3  # rows x N
    rows = {"w": 2 * np.einsum("rn,r,nd->nd", inner, a[:, 0], b) / ROWS, "b": 2 * inner.mean(0)}
    grad = {"w": 2 * a.T @ (a @ w) / ROWS, "b": a[:, 0].mean()}
    return problem, x, a, (((a @ w) ** 2 + 0.3 * a[:, 0]).mean(), (inner**2).mean(0), grad, rows)


@jax.custom_vjp
def square_backward(v):
    return v * v


square_backward.defvjp(lambda v: (v * v, v), lambda v, g: (2 * v * g,))


@pytest.mark.parametrize("square", [jnp.square, square_backward])
def test_many_constraints_have_the_jacobian_of_numpy(square):
    problem, x, data, expected = many_constraints(square)
    ours = jax.jit(full_jacobian)(problem, x, data)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-13), ours, expected)


def test_the_jacobian_of_many_constraints_takes_time_n_d_and_not_n_squared():
    def operations(n):
        problem = tr.Problem(
            lambda x, row: (row @ x) ** 2, lambda x, row: jnp.ones((n, D)) @ x * row[0], tr.L2Ball(1.0, shape=D)
        )
        compiled = jax.jit(full_jacobian).lower(problem, jnp.ones(D), jnp.ones((256, D))).compile()
        return (compiled.cost_analysis() or {})["flops"]

    assert operations(400) < 2.2 * operations(200)  # 3.9 times by rows
