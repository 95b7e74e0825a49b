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
asked = {"heldout": heldout, "accept": "asymptotic"}  # normal noise has no range, by which a bound would be proven
edge = tr.minimize(problem, train, **asked)
sure = tr.minimize(problem, train, output="certified", **asked)
print(edge.certificate.verdict)
print(sure.certificate.verdict)

# %%
# The truth is known here: E h(x) is the sum of x, minus one; right of zero the constraint is violated. The solution on the
# training rows is outside, as happens every second time; the certified point is inside, and its objective a little higher.

fig, ax = plt.subplots(figsize=(6, 2.8))
for place, result in enumerate((edge, sure)):
    (bound,) = result.certificate.constraints
    ends = [bound.estimate, bound.upper]
    ax.plot(ends, [place, place], color="steelblue", linewidth=3, label="held out: estimate to bound")
    ax.plot(np.sum(result.x) - 1, place, "x", color="black", label="truth")
    ax.text(-0.115, place + 0.15, f"objective {result.objective:.3f}")
    if place == 0:
        ax.axvline(0, color="crimson", linestyle=":", label="level")
        ax.legend(fontsize=8, loc="upper right")
ax.set(yticks=[0, 1], yticklabels=["solution", "certified"], xlabel="E h(x), minus its level")
ax.set(xlim=(-0.12, 0.08), ylim=(-0.5, 2.4))
fig.tight_layout()
