"""
Adding a method
===============

For those with an algorithm of their own. A method says what happens on one sample; batches, averages, checkpoints, sweeps
and reports are there already. This one is drift plus penalty without a look-ahead and without a margin.
"""

from typing import Any

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt

import tightrope as tr


@tr.pytree
class Queue(tr.Method):
    """A projected step on the Lagrangian; multipliers add up violations."""

    eta0: Any = 1.0

    name = "queue"
    needs = frozenset({"project"})
    cost = tr.Cost(samples=1, gradients=1, projections=1)
    tuned = ("eta0",)

    def step(self, problem, state, theta):
        """One step on one sample."""
        x, lam, _, horizon = state
        eta = self.eta0 / jnp.sqrt(horizon.astype(lam.dtype))
        f, h, g = problem.value_and_gradient(x, lam, theta)
        x_next = problem.domain.project(tr.tree.add_scaled(x, -eta, g))
        lam_next = tr.dual_step(lam, h, gamma=eta, shrink=0.0, upsilon=0.0)
        return state.after(x_next, lam_next), tr.Info(x, lam, f, h)


problem = tr.Problem(
    objective=lambda x, theta: jnp.sum((x - theta) ** 2) / 2,
    constraints=lambda x, theta: jnp.stack([jnp.dot(theta, x)]),
    domain=tr.L2Ball(2.0, shape=3),
    levels=1.0,
)
samples = tr.Generator(lambda key: 1 + jax.random.normal(key, (3,)))
methods = {"Queue": Queue(eta0=0.5), "CSOA": tr.CSOA()}
table = tr.sweep(problem, samples, methods, steps=20_000, seeds=range(10), record=20)
print(table.groupby("method")["objective"].last())

# %%
# Both methods on the same samples: the constraint, averaged along each run, for ten seeds. The new one has no margin, so
# its runs come to the level from above; those of CSOA end at it or just below.

fig, ax = plt.subplots(figsize=(6, 3.6))
for color, (name, part) in zip(("darkorange", "steelblue"), table.groupby("method", sort=False), strict=True):
    for seed, run in part.groupby("seed"):
        ax.plot(run["step"], run["h[0]"], color=color, linewidth=0.8, label=name if seed == 0 else None)
ax.axhline(0, color="crimson", linestyle=":")
ax.set(xlabel="step", ylabel="constraint, mean over the run", ylim=(-0.1, 0.1))
ax.legend()
fig.tight_layout()
