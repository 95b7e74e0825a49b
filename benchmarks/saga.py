"""A table of scalars (SAGA) against snapshots (SVRG) for a linear model, at the same wall-clock time, in one run.

For a linear model the gradient of a row is a scalar times the row, so a table of n scalars can stand in for the snapshot: a
step takes one gradient a row instead of two and no pass over all rows is ever needed. Both are written out here as bare
loops with the constraint known exactly, the look-ahead in the dual step, the same step sizes and the same batches, so that
neither pays for what a library does around it. The output is the mean of the last pass through the rows.

Run as `python -m benchmarks.saga`.
"""

import time
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from studies.fair_logistic import C, Instance
from tightrope.datasets import adult_label_encoded

BATCH, SEEDS = 64, range(10)


def scalar(score, label):
    """The derivative of the logistic loss with respect to the score."""
    return -label * jax.nn.sigmoid(-label * score)


def ahead(x, lam, g, v, eta, gamma):
    """The primal step, and the dual step at 2 x_{t+1} - x_t."""
    x_next = x - eta * (g + (lam[0] - lam[1]) * v)
    q = jnp.dot(v, 2 * x_next - x)
    return x_next, jnp.maximum(lam + gamma * jnp.stack([q - C, -q - C]), 0)


@partial(jax.jit, static_argnames="epochs")
def svrg(X, y, v, rows, eta, gamma, epochs: int):
    """Snapshots: a full gradient for each epoch; `rows` are (epochs, steps, batch) numbers of rows."""

    def epoch(carry, rows):
        w, lam = carry
        full = scalar(X @ w, y) @ X / len(y)

        def step(carry, i):
            x, lam, x_sum = carry
            a, label = X[i], y[i]
            g = (scalar(a @ x, label) - scalar(a @ w, label)) @ a / BATCH + full
            x, lam = ahead(x, lam, g, v, eta, gamma)
            return (x, lam, x_sum + x), None

        (_, lam, x_sum), _ = jax.lax.scan(step, (w, lam, jnp.zeros_like(w)), rows)
        return (x_sum / rows.shape[0], lam), None

    return jax.lax.scan(epoch, (jnp.zeros_like(v), jnp.zeros(2)), rows[:epochs])[0][0]


@partial(jax.jit, static_argnames="epochs")
def saga(X, y, v, rows, eta, gamma, epochs: int):
    """The same with a table, which starts as the scalars at zero."""

    def epoch(carry, rows):
        def step(carry, i):
            x, lam, table, mean, x_sum = carry
            a = X[i]
            now = scalar(a @ x, y[i])
            change = (now - table[i]) @ a
            x, lam = ahead(x, lam, change / BATCH + mean, v, eta, gamma)
            return (x, lam, table.at[i].set(now), mean + change / len(y), x_sum + x), None

        x, lam, table, mean = carry
        (x, lam, table, mean, x_sum), _ = jax.lax.scan(step, (x, lam, table, mean, jnp.zeros_like(x)), rows)
        return (x, lam, table, mean), x_sum / rows.shape[0]

    table = scalar(jnp.zeros(len(y)), y)
    start = jnp.zeros_like(v), jnp.zeros(2), table, table @ X / len(y)
    return jax.lax.scan(epoch, start, rows[:epochs])[1][-1]


def main() -> None:
    adult = Instance(*adult_label_encoded())
    n = len(adult.y)
    with jax.enable_x64(True):
        X, y, v = map(jnp.asarray, (adult.X, adult.y, adult.v))
        steps = n // BATCH
        orders = [np.stack([np.random.default_rng((seed, e)).permutation(n)[: steps * BATCH] for e in range(48)])
                  for seed in SEEDS]  # fmt: skip
        rows = [jnp.asarray(o.reshape(48, steps, BATCH), jnp.int32) for o in orders]
        print(f"Adult, batches of {BATCH}, {len(SEEDS)} seeds; gap after a pull towards 0, worst seed")
        for name, fn, counts in (("SVRG", svrg, (2, 3, 4, 5, 6, 8)), ("SAGA", saga, (4, 8, 12, 16, 24, 36, 48))):
            for epochs in counts:
                best = (np.inf, 0.0, 0.0)
                for eta in (0.15, 0.3, 0.6, 1.0):
                    gamma = 0.5 / (eta * float(2 * v @ v))
                    jax.block_until_ready(fn(X, y, v, rows[0], eta, gamma, epochs))
                    points, times = [], []
                    for r in rows:
                        began = time.perf_counter()
                        points.append(jax.block_until_ready(fn(X, y, v, r, eta, gamma, epochs)))
                        times.append(time.perf_counter() - began)
                    best = min(best, (max(gap(adult, np.asarray(x)) for x in points), float(np.median(times)), eta))
                print(
                    f"{name}  {epochs:3d} epochs  {1e3 * best[1]:7.1f} ms   gap {best[0]:.1e}   (eta {best[2]:g})",
                    flush=True,
                )


def gap(adult: Instance, x: np.ndarray) -> float:
    return adult.value(x * min(1.0, C / abs(adult.covariance(x)))) - adult.optimum


if __name__ == "__main__":
    main()
