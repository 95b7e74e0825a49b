"""A problem with its derivatives by hand and its rows in their order, for methods beside their NumPy loops."""

import jax.numpy as jnp
import numpy as np

import tightrope as tr

D, N, RADIUS = 4, 2, 1.5
_RNG = np.random.default_rng(11)
DATA = {
    "a": _RNG.normal(1.0, 1.0, size=(100, D)),
    "B": _RNG.normal(0.3, 1.0, size=(100, N, D)),
    "c": _RNG.normal(0.4, 1.0, size=(100, N)),
}


def f(x, theta):
    return jnp.sum((x - theta["a"]) ** 2) / 2


def h(x, theta):
    return theta["B"] @ x + jnp.sum(x**2) / 4 - theta["c"]


def grad_f(x, row):
    return x - DATA["a"][row]


def value_h(x, row):
    return DATA["B"][row] @ x + np.sum(x**2) / 4 - DATA["c"][row]


def jac_h(x, row):
    return DATA["B"][row] + x / 2  # the same x/2 in every row


def grad(x, lam, row):
    """Of the Lagrangian."""
    return grad_f(x, row) + jac_h(x, row).T @ lam


def ball(x, radius=RADIUS):
    return x * min(1.0, radius / max(np.linalg.norm(x), 1e-300))


def plus(v):
    return np.maximum(v, 0)


def in_order() -> tr.Stream:
    """The rows in their order: one a step, or two for methods with two draws."""
    return tr.Stream(lambda skip: iter([{k: v[skip:] for k, v in DATA.items()}]))


def close(found, wanted, atol=1e-12):
    np.testing.assert_allclose(found, np.asarray(wanted), rtol=1e-11, atol=atol)


def assert_ends(result, points, duals, x, lam, weights=None, atol=1e-12):
    """The run ends at x and lam, and gives the means of these points and multipliers."""
    close(result.last, x, atol)
    close(result.dual_last, lam, atol)
    close(result.average, np.average(points, axis=0, weights=weights), atol)
    if np.size(lam):
        close(result.dual, np.average(duals, axis=0, weights=weights), atol)
        assert np.all(result.dual > 0.01)  # they are at work
