"""What is compiled, against NumPy: some releases of jaxlib get sums of products wrong on CPUs.

The sizes are those at which they do. 0.10.0 and 0.10.1: a product of matrices and then a sum along a middle axis of more
than 32, in float32. 0.10.2: a reduction to more than 128 KiB, which is 32,768 numbers in float32 and 16,384 in float64
(jax issue 39103). 0.10.2, 0.11.0, 0.11.1 and 0.11.2: a sum of sums, as in a Jacobian, in float32.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from slow import quick_first

import tightrope as tr
from tightrope import _jaxlib

D = 3
SIZES = [(65, 600), (100, 400), (300, 130)]  # constraints and rows: a slice of the data has more than 32,768 values


def compare(got, expected):
    """Equal up to the rounding of a few hundred operations, measured by the largest number."""
    got, expected = np.asarray(got), np.asarray(expected, np.float64)
    np.testing.assert_allclose(got, expected, rtol=0, atol=300 * np.finfo(got.dtype).eps * np.abs(expected).max())


def draw(dtype, *shapes):
    """Arrays in one precision and the same numbers in float64."""
    rng = np.random.default_rng(0)
    arrays = [rng.normal(1.0, 0.5, size=shape).astype(dtype) for shape in shapes]
    return arrays, [a.astype(np.float64) for a in arrays]


# ---- the patterns alone ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rows", [16_385, 32_769])
def test_a_product_for_every_row_and_the_sum_of_its_squares(rows, dtype):
    (matrix, x), (matrix64, x64) = draw(dtype, (D, D), (rows, D))
    compare(jax.jit(jax.vmap(lambda row: jnp.sum((matrix @ row) ** 2)))(x), ((x64 @ matrix64.T) ** 2).sum(axis=1))


@pytest.mark.parametrize(
    ("groups", "rows", "inner", "columns"), [(64, 33, 3, 64), (64, 200, 192, 3), (4, 200, 192, 64)]
)
def test_a_product_for_every_row_and_the_sum_over_the_rows_of_a_group(groups, rows, inner, columns, dtype):
    (x, matrix), (x64, matrix64) = draw(dtype, (groups, rows, inner), (inner, columns))
    got = jax.jit(jax.vmap(lambda group, matrix: jnp.sum(group @ matrix, axis=0), (0, None)))(x, matrix)
    compare(got, x64.sum(axis=1) @ matrix64)


@pytest.mark.parametrize(("n", "rows"), [(65, 40), (2, 1000)])
def test_the_jacobian_of_means_of_sums(n, rows, dtype):
    (weights, theta), (weights64, theta64) = draw(dtype, (n, D), (rows, D))

    def means(x, weights, theta):
        return jnp.mean(jax.vmap(lambda row: jnp.sum(weights * (x * row)[None], axis=1))(theta), axis=0)

    compare(jax.jit(jax.jacrev(means))(jnp.ones(D, dtype), weights, theta), weights64 * theta64.mean(axis=0))


# ---- the problem's values and derivatives ----------------------------------------------------------------------------


def distance(x, theta, _):
    return jnp.sum((x - theta) ** 2) / 2


def bilinear(x, theta, weights):
    """<w_i theta, x>, by a sum."""
    return jnp.sum(weights * (x * theta)[None], axis=1)


def quadratic(x, theta, weights):
    """|w_i w_i^T (x - theta)|^2, by a product for every constraint."""
    return jax.vmap(lambda w: jnp.sum((jnp.outer(w, w) @ (x - theta)) ** 2))(weights)


def in_numpy(constraints, x, theta, weights):
    """E h and its Jacobian, written out."""
    mean = theta.mean(axis=0)
    if constraints is bilinear:
        return weights @ (mean * x), weights * mean
    along, size = weights @ (x - theta).T, (weights**2).sum(axis=1)
    return size * (along**2).mean(axis=1), 2 * (size * along.mean(axis=1))[:, None] * weights


def check(constraints, n, rows, dtype, *calls):
    (x, lam, theta, weights), (x64, lam64, theta64, weights64) = draw(dtype, D, n, (rows, D), (n, D))
    problem = tr.Problem(distance, constraints, tr.L2Ball(10.0, shape=D), params=weights)
    f, grad_f = ((x64 - theta64) ** 2).sum(axis=1).mean() / 2, x64 - theta64.mean(axis=0)
    h, grad_h = in_numpy(constraints, x64, theta64, weights64)
    known = {
        tr.Problem.values: ((x, theta), (f, h)),
        tr.Problem.value_and_gradient: ((x, lam, theta), (f, h, grad_f + lam64 @ grad_h)),
        tr.Problem.jacobian: ((x, theta), (f, h, grad_f, grad_h)),
    }
    for call in calls:
        arguments, expected = known[call]
        for got, right in zip(jax.jit(call)(problem, *arguments), expected, strict=True):
            compare(got, right)


@pytest.mark.parametrize("constraints", [bilinear, quadratic])
@pytest.mark.parametrize("n", [65, 100, 300])
def test_many_constraints(constraints, n, dtype):
    check(constraints, n, 40, dtype, tr.Problem.jacobian)


@pytest.mark.parametrize("constraints", [bilinear, quadratic])
@pytest.mark.parametrize("rows", [16_385, 32_769])
def test_many_rows(constraints, rows, dtype):
    check(constraints, 2, rows, dtype, tr.Problem.jacobian)


@pytest.mark.parametrize(("n", "rows"), SIZES)
def test_many_of_both(n, rows, dtype):
    check(bilinear, n, rows, dtype, tr.Problem.values, tr.Problem.value_and_gradient)


def test_gradients_at_many_points(dtype):
    (points, theta, weights), (points64, theta64, weights64) = draw(dtype, (64, D), (200, D), (8, D))
    problem = tr.Problem(
        lambda x, theta, weights: jnp.sum((weights @ (x - theta)) ** 2) / 2,
        None,
        tr.L2Ball(10.0, shape=D),
        params=weights,
    )
    lam = jnp.zeros(0, dtype)
    gradients = jax.jit(jax.vmap(lambda x: problem.value_and_gradient(x, lam, theta)[2]))(points)
    compare(gradients, (points64 - theta64.mean(axis=0)) @ (weights64.T @ weights64))


# ---- runs --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "rows"), quick_first(SIZES, 1))
def test_a_run_ends_at_the_optimum_and_reports_what_is_there(n, rows, dtype):
    # the constraints are one and the same, each in a scale of its own: x* is the projection of the mean onto a half-space
    (theta, scales), (theta64, scales64) = draw(dtype, (rows, D), n)
    mean = theta64.mean(axis=0)
    level = mean @ mean / 2
    problem = tr.Problem(
        distance, bilinear, tr.L2Ball(4.0, shape=D), levels=scales * level, params=np.repeat(scales[:, None], D, axis=1)
    )
    result = tr.minimize(problem, theta, method=tr.CSOA(eta0=0.1, upsilon0=0.0), steps=3000, batch_size=rows)
    x = np.asarray(result.x, np.float64)
    assert result.objective == pytest.approx(((x - theta64) ** 2).sum(axis=1).mean() / 2, rel=1e-5)
    np.testing.assert_allclose(result.constraints, scales64 * (mean @ x - level), rtol=0, atol=1e-5)
    np.testing.assert_allclose(x, mean / 2, atol=0.05)


# ---- what is said about it -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["0.10.0", "0.10.2", "0.11.2"])
def test_a_release_that_is_wrong_is_named(monkeypatch, version):
    monkeypatch.setattr(_jaxlib, "version", version)
    monkeypatch.setenv("XLA_FLAGS", "--xla_dump_to=here")
    with pytest.warns(
        RuntimeWarning, match=f"jaxlib {version} computes wrong sums on CPUs.*Install jax and jaxlib 0.9.2"
    ):
        _jaxlib.warn_of_wrong_sums()
    monkeypatch.setenv("XLA_FLAGS", "--xla_dump_to=here --xla_cpu_experimental_ynn_fusion_type=")
    _jaxlib.warn_of_wrong_sums()  # without a word: warnings are errors here


@pytest.mark.parametrize("version", ["0.9.2", "0.12.0", "0.100.0"])
def test_other_releases_are_left_alone(monkeypatch, version):
    monkeypatch.setattr(_jaxlib, "version", version)
    _jaxlib.warn_of_wrong_sums()
