"""Twenty rows of a quadratic problem with two nonlinear constraints, and its derivatives by hand: for loops in NumPy."""

import jax.numpy as jnp
import numpy as np

import tightrope as tr
from tightrope.sampling import Plan

N = 20
EVERYTHING = np.arange(N)
_rng = np.random.default_rng(3)
_A, _ROWS, _C = _rng.normal(size=(N, 3)), _rng.normal(size=(N, 2, 3)), _rng.normal(size=(N, 2))


def _f(x, theta):
    return jnp.sum((x - theta["a"]) ** 2) / 2


def _h(x, theta):
    return theta["B"] @ x + jnp.sum(x**2) / 4 - theta["c"]


DATA = tr.Rows({"a": _A, "B": _ROWS, "c": _C})
PROBLEM = tr.Problem(_f, _h, tr.L2Ball(0.9, shape=3))


def forty_steps(method):
    """Forty steps on batches of four, and the rows that each of them saw."""
    result = tr.minimize(PROBLEM, DATA, method=method, steps=40, batch_size=4, seed=2)
    return result, np.asarray(DATA.open(Plan((2,), 1, 4)).take(0, 40).items)[0, :, 0]


def grad_f(x, i):
    return x - _A[i].mean(0)


def values(x, i):
    return _ROWS[i].mean(0) @ x + x @ x / 4 - _C[i].mean(0)


def jac(x, i):
    return _ROWS[i].mean(0) + x / 2
