"""
Samples from Parquet files and a DataLoader
===========================================

For those whose data do not fit into memory, or are made by somebody else's loader. ``tr.Parquet`` reads files in shuffled
passes; ``tr.Stream`` takes batches from any iterable, such as a DataLoader of PyTorch.
"""

import tempfile
from pathlib import Path

import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import tightrope as tr

rng = np.random.default_rng(0)
people = pd.DataFrame(rng.normal([1.0, 2.0], 1.0, size=(20_000, 2)), columns=["a", "b"]).astype("float32")
folder = tempfile.TemporaryDirectory()
for part in range(4):
    people[part::4].to_parquet(Path(folder.name) / f"part-{part}.parquet")

problem = tr.Problem(
    objective=lambda x, row: jnp.sum((x - row) ** 2) / 2,
    constraints=lambda x, row: jnp.stack([jnp.dot(row, x)]),
    domain=tr.L2Ball(3.0, shape=2),
    levels=2.0,
)
from_files = tr.minimize(problem, tr.Parquet(folder.name, columns=["a", "b"]), method="csoa", steps=20_000)
print(from_files)

# %%
# A loader is any iterable of batches that gives the same samples whenever it is read. ``Stream`` counts them: a resumed run
# goes on with the very sample at which it stopped, also in the middle of a batch.


class Loader:
    """What a DataLoader does: batches of rows, in an order of its own."""

    def __init__(self, rows, batch):
        self.rows, self.batch = rows, batch

    def __iter__(self):
        order = np.random.default_rng(1).permutation(len(self.rows))
        for i in range(0, len(order), self.batch):
            yield self.rows[order[i : i + self.batch]]


from_loader = tr.minimize(problem, tr.Stream(Loader(people.to_numpy(), 100)), method="csoa", steps=20_000)
folder.cleanup()

# %%
# The same problem by two ways, 20,000 steps each on one sample: the constraint, averaged along the run, comes to zero from
# both.

fig, ax = plt.subplots(figsize=(6, 3.6))
for name, result in (("Parquet", from_files), ("loader", from_loader)):
    ax.plot(result.trace["step"], result.trace["h[0]"], label=f"{name}: x = ({result.x[0]:.2f}, {result.x[1]:.2f})")
ax.axhline(0, color="crimson", linestyle=":")
ax.set(xlabel="step", ylabel="constraint, mean over the run", xscale="log")
ax.legend()
fig.tight_layout()
