"""
What holds beyond the data
==========================

For those who have to say, with a stated confidence, that a constraint holds for samples not seen. Rows that nothing was
chosen on answer that; a point at the edge of its constraint mostly fails, and ``output="certified"`` is the remedy.
"""

import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import tightrope as tr

rng = np.random.default_rng(0)
train, heldout = rng.normal(1.0, 1.0, size=(2, 2_000, 2)).astype(np.float32)

problem = tr.Problem(
    objective=lambda x, theta: jnp.sum((x - theta) ** 2) / 2,
    constraints=lambda x, theta: jnp.stack([jnp.dot(theta, x)]),
    domain=tr.L2Ball(2.0, shape=2),
    levels=1.0,
)
edge = tr.minimize(problem, train, heldout=heldout)
sure = tr.minimize(problem, train, heldout=heldout, output="certified")
print(edge.certificate.verdict)
print(sure.certificate.verdict)

# %%
# The truth is known here: E h(x) is the sum of x, minus one. Estimates on the held-out rows with the upper end at 95 %
# confidence; right of zero a constraint is violated. What it costs is seen in the objective.

fig, ax = plt.subplots(figsize=(6, 2.8))
for place, (name, result) in enumerate((("solution", edge), ("certified", sure))):
    h = heldout @ np.asarray(result.x) - 1
    upper = h.mean() + 1.645 * h.std() / np.sqrt(len(h))
    ax.plot([h.mean(), upper], [place, place], color="steelblue", linewidth=3)
    ax.plot(h.mean(), place, "o", color="steelblue", label="held-out estimate and its upper bound" if not place else None)
    ax.plot(np.sum(result.x) - 1, place, "x", color="black", label="truth" if not place else None)
    ax.text(-0.115, place + 0.15, f"objective {result.objective:.3f}")
ax.axvline(0, color="crimson", linestyle=":", label="level")
ax.set(yticks=[0, 1], yticklabels=["solution", "certified"], xlabel="E h(x), minus its level", xlim=(-0.12, 0.08), ylim=(-0.5, 1.6))
ax.legend(fontsize=8, loc="upper right")
fig.tight_layout()
