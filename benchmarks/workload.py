"""The workload of the benchmarks: logistic loss, 100 features, a two-sided covariance constraint (N = 2), float32."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

import tightrope as tr

N_ROWS, D, C, RADIUS = 28_350, 100, 0.05, 10.0
ETA0, DELTA, UPSILON0 = 1.0, 0.01, 2.0


def make_data(seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Features, labels -1 or 1, and a centred sensitive attribute correlated with the first feature."""
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(N_ROWS, D))
    sensitive = (features[:, 0] + rng.normal(size=N_ROWS) > 0).astype(float)
    labels = np.where(features @ rng.normal(size=D) / np.sqrt(D) + features[:, 0] + rng.normal(size=N_ROWS) > 0, 1, -1)
    features, sensitive = features / np.sqrt(D), sensitive - sensitive.mean()
    return features.astype(np.float32), labels.astype(np.float32), sensitive.astype(np.float32)


def loss(x, theta):
    """Logistic loss of one row."""
    features, label, _ = theta
    return jnp.logaddexp(0.0, -label * jnp.dot(features, x))


def covariance(x, theta):
    """Covariance of score and sensitive attribute, one row's share."""
    features, _, sensitive = theta
    return sensitive * jnp.dot(features, x)


def make_problem() -> tr.Problem:
    """The problem as a user would write it."""
    return tr.Problem(loss, tr.two_sided(covariance), tr.L2Ball(RADIUS, shape=D), levels=C)


def _update(data, eta, upsilon, carry, row):
    """CSOA written out by hand, with a plain running mean."""
    x, lam, mean, t = carry
    theta = jax.tree.map(lambda a: a[row], data)

    def lagrangian(x):
        q = covariance(x, theta)
        h = jnp.stack([q - C, -q - C])
        return loss(x, theta) + jnp.dot(lam, h), h

    g, h = jax.grad(lagrangian, has_aux=True)(x)
    mean = mean + (x - mean) / t
    y = x - eta * g
    x = y * (RADIUS / jnp.sqrt(jnp.maximum(jnp.dot(y, y), RADIUS**2)))
    lam = jnp.maximum((1 - eta**2 * DELTA) * lam + eta * (h + upsilon), 0)
    return (x, lam, mean, t + 1), None


@jax.jit
def bare_scan(data, rows, eta0, upsilon0):
    """The same update as one `lax.scan` over row numbers drawn beforehand, with averaging and nothing else."""
    root = jnp.sqrt(jnp.float32(rows.shape[0]))
    first = (jnp.zeros(D, jnp.float32), jnp.zeros(2, jnp.float32), jnp.zeros(D, jnp.float32), jnp.float32(1))
    return jax.lax.scan(partial(_update, data, eta0 / root, upsilon0 / root), first, rows)[0]


bare_sweep = jax.jit(jax.vmap(bare_scan, in_axes=(None, None, 0, None)))


def numpy_loop(data, rows, collapsed: bool = False):
    """The same update in NumPy: as the algorithm is written, with grad f, h and the Jacobian of h.

    `collapsed` uses what is special here, that all gradients are multiples of the row: one scalar, one vector operation.
    """
    features, labels, sensitive = data
    root = np.float32(np.sqrt(len(rows)))
    eta, upsilon = np.float32(ETA0) / root, np.float32(UPSILON0) / root
    x, lam, mean = np.zeros(D, np.float32), np.zeros(2, np.float32), np.zeros(D, np.float32)
    for t, row in enumerate(rows, start=1):
        a, y, s = features[row], labels[row], sensitive[row]
        score = a @ x
        q = s * score
        h = np.array([q - C, -q - C], np.float32)
        if collapsed:
            step = (eta * (-y / (1 + np.exp(y * score)) + (lam[0] - lam[1]) * s)) * a
        else:
            grad_f = -y / (1 + np.exp(y * score)) * a
            jacobian = np.stack([s * a, -s * a])
            step = eta * (grad_f + lam @ jacobian)
        mean += (x - mean) / t
        x = x - step
        x = x * (RADIUS / np.sqrt(max(x @ x, RADIUS**2)))
        lam = np.maximum((1 - eta**2 * DELTA) * lam + eta * (h + upsilon), 0)
    return x, lam, mean
