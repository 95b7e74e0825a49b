"""
A problem of your own
=====================

For those who have a loss and a limit on another mean, and rows of data. You write both as functions of one row; the rest is
one call.

A shop buys two goods before it knows the day's demand. It wants to lose as little as possible to unsold and missing
goods, and the storage that the leftovers of a mean day take is limited.
"""

import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import tightrope as tr

rng = np.random.default_rng(0)
demand = rng.gamma([4.0, 9.0], [10.0, 5.0], size=(5_000, 2)).astype(np.float32)


def loss(stock, demand):
    """Of one day: 1 for each good that is left over, 3 for each that is missing."""
    return jnp.sum(jnp.maximum(stock - demand, 3 * (demand - stock)))


def storage(stock, demand):
    """Of one day: a leftover of the second good takes twice the room. One value for each constraint."""
    return jnp.stack([jnp.dot(jnp.array([1.0, 2.0]), jnp.maximum(stock - demand, 0))])


problem = tr.Problem(loss, storage, tr.Box(0.0, 100.0, shape=2), levels=30.0, names=("storage",))

# %%
# Is it the problem that was meant? The check looks for wrong shapes, missing convexity and awkward scales.

print(tr.check_problem(problem, demand))

# %%
# On data at hand there is nothing to tune and no number of steps to guess. The report says what was proven.

result = tr.minimize(problem, demand)
print(result)

# %%
# The picture: the loss of every stock, what the limit forbids, and the answer at its edge. Without the limit the best
# stock would lie in the forbidden part.

grid = np.linspace(15, 80, 60)
a, b = np.meshgrid(grid, grid)
stocks = np.stack([a.ravel(), b.ravel()], axis=1)
left = np.maximum(stocks[:, None] - demand[None, :1000], 0)
missing = np.maximum(demand[None, :1000] - stocks[:, None], 0)
losses = (left + 3 * missing).sum(-1).mean(1).reshape(a.shape)
room = (left @ np.array([1.0, 2.0])).mean(1).reshape(a.shape)
best = stocks[losses.argmin()]

fig, ax = plt.subplots(figsize=(6, 4.2))
lines = ax.contour(a, b, losses, 12, cmap="viridis")
ax.clabel(lines, fontsize=7)
ax.contourf(a, b, room, [30, 1e9], colors="crimson", alpha=0.15)
ax.plot(*best, "o", color="grey", label="best without the limit")
ax.plot(*result.x, "*", color="crimson", markersize=14, label="tightrope")
ax.set(xlabel="stock of the first good", ylabel="stock of the second good", title="Mean loss; shaded: too much storage")
ax.legend(loc="lower right")
fig.tight_layout()
