"""
Allocating a resource while requests arrive
===========================================

For those whose samples arrive one after another and never come back: power over channels, money over auctions, machines
over jobs. The run is fed by hand, in constant memory, and has no end that must be known beforehand.

Power is spread over three channels whose quality changes. As much as possible is to be transmitted; power itself costs,
and what is spent on the mean request is limited.
"""

import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import tightrope as tr

rng = np.random.default_rng(0)


def rate(x, quality):
    """What one request does not transmit."""
    return -jnp.sum(jnp.log1p(quality[:3] * x))


def spent(x, quality):
    """The power that one request takes; its price changes, too."""
    return jnp.stack([quality[3] * jnp.sum(x)])


problem = tr.Problem(rate, spent, tr.Box(0.0, 4.0, shape=3), levels=3.0, names=("power",))
run = tr.Online(problem)

record = []
for _ in range(120):
    channels, price = rng.exponential([3.0, 1.0, 0.5], size=(50, 3)), rng.uniform(0.5, 1.5, size=(50, 1))
    run.update(np.hstack([channels, price]).astype(np.float32))
    record.append((run.step, *np.asarray(run.average)))

# %%
# The price is 1 in the mean, so the power of the average is its sum: it goes to the limit. Most is spent on the best
# channel.

steps, *power = np.array(record).T
fig, ax = plt.subplots(figsize=(6, 3.6))
for name, values in zip(("good", "fair", "bad"), power, strict=True):
    ax.plot(steps, values, label=f"{name} channel")
ax.plot(steps, np.sum(power, axis=0), color="black", label="all together")
ax.axhline(3.0, color="black", linestyle=":", label="limit")
ax.set(xlabel="requests so far", ylabel="power, average of the run", ylim=(0, 5))
ax.legend(loc="upper right", ncols=2)
fig.tight_layout()
