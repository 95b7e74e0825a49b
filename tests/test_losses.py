"""The logistic loss and its derivatives beside jnp.logaddexp and SciPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import expit

import tightrope as tr
from tightrope import losses

MARGINS = np.array([-800.0, -40.0, -3.0, -1e-9, 0.0, 1e-9, 0.5, 30.0, 40.0, 800.0])


def derivative(order: int):
    fn = tr.logistic_loss
    for _ in range(order):
        fn = jax.grad(fn)
    return jax.vmap(fn)


def test_values_and_derivatives():
    s = expit(-MARGINS)
    known = np.logaddexp(0, -MARGINS), -s, s * expit(MARGINS), -s * expit(MARGINS) * (1 - 2 * s)
    for order, values in enumerate(known):
        nothing = 1e-300 if order < 3 else 1e-16  # the third is a difference
        np.testing.assert_allclose(derivative(order)(jnp.asarray(MARGINS)), values, rtol=1e-13, atol=nothing)


@pytest.mark.parametrize("mode", [jax.jacfwd, jax.jacrev])
def test_both_modes(mode):
    x = jnp.asarray([0.0, 0.3])
    np.testing.assert_allclose(
        mode(jax.grad(lambda v: tr.logistic_loss(v).sum()))(x),
        jax.hessian(lambda v: jnp.logaddexp(0.0, -v).sum())(x),
        rtol=1e-12,
    )


def test_precision_is_that_of_the_argument():
    narrow = jnp.asarray(MARGINS, jnp.float32)
    assert tr.logistic_loss(narrow).dtype == jnp.float32
    np.testing.assert_allclose(tr.logistic_loss(narrow), np.logaddexp(0, -MARGINS), rtol=3e-7)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_its_logarithm_is_exact_but_for_rounding(dtype):
    smallest = np.log10(np.finfo(dtype).tiny) + 1  # what is smaller may be taken for 0 on any device
    u = np.concatenate([np.linspace(0, 1, 20_001), np.logspace(smallest, 0, 20_001)]).astype(dtype)[1:]
    exact = np.log1p(u.astype(np.longdouble))
    off = np.abs(np.asarray(jax.jit(losses._log1p)(u)) - exact) / exact / np.finfo(dtype).eps
    assert off.max() < 2  # 1.4 on a CPU, 1.8 on a GPU; that of jnp.log1p is 1.4 in float64 and 1.8 in float32
