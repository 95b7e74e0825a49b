"""
A grid of settings side by side
===============================

For those who compare step sizes, levels or seeds. Coefficients are leaves of a pytree, so a whole grid is one compiled
program and the samples are drawn once.
"""

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import tightrope as tr

problem = tr.Problem(
    objective=lambda x, theta: jnp.sum((x - theta) ** 2) / 2,
    constraints=lambda x, theta: jnp.stack([jnp.dot(theta, x)]),
    domain=tr.L2Ball(2.0, shape=3),
    levels=1.0,
)
samples = tr.Generator(lambda key: 1 + jax.random.normal(key, (3,)))
grid = tr.CSOA(eta0=np.array([0.1, 0.3, 1.0]), upsilon0=np.array([0.0, 1.0, 2.0, 4.0]))
table = tr.sweep(problem, samples, grid, steps=10_000, seeds=range(20), points=True)
print(table[["eta0", "upsilon0", "seed", "objective", "h[0]"]].head())

# %%
# 240 runs. The truth is known: E h(x) is the sum of x, minus one. Means over 20 seeds of what the output violates, with
# twice their standard errors. Without a margin (upsilon0 = 0) every step size violates the constraint, since multipliers
# have to grow from zero first; shorter steps take longer for that and need a larger margin.

table["violation"] = [float(np.sum(x)) - 1 for x in table["x"]]
fig, ax = plt.subplots(figsize=(6, 3.6))
for eta0, part in table.groupby("eta0"):
    by = part.groupby("upsilon0")["violation"].agg(["mean", "sem"])
    ax.errorbar(by.index, by["mean"], 2 * by["sem"], marker="o", capsize=3, label=f"eta0 = {eta0}")
ax.axhline(0, color="crimson", linestyle=":")
ax.set(xlabel="upsilon0, the margin", ylabel="E h(x) at the output", title="Above the line: violated")
ax.legend()
fig.tight_layout()
