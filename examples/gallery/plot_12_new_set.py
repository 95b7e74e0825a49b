"""
Adding a set
============

For those whose points lie in a convex set that is not among those of the library. A set is one class that says what it can
do; an ellipsoid has a linear minimisation in closed form and no cheap projection, so projection-free methods are taken.
"""

from typing import Any

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import tightrope as tr


@tr.pytree
class Ellipsoid(tr.ConvexSet):
    """All vectors x with the sum of (x_i / axes_i)^2 <= 1."""

    axes: Any

    def lmo(self, g):
        """The point of the set that is furthest against g."""
        stretched = jnp.asarray(self.axes, g.dtype) * g
        length = jnp.linalg.norm(stretched)
        return -jnp.asarray(self.axes, g.dtype) * stretched / jnp.where(length == 0, 1, length)

    @property
    def diameter(self):
        """Of any two points."""
        return 2 * jnp.max(self.axes)

    def contains(self, x, tol=None):
        """Membership, up to rounding."""
        slack = 64 * jnp.finfo(x.dtype).eps if tol is None else tol
        return jnp.linalg.norm(x / jnp.asarray(self.axes, x.dtype)) <= 1 + slack

    def start(self, dtype=None):
        """A point of the set."""
        return jnp.zeros(len(self.axes), dtype or jnp.result_type(float))


domain = Ellipsoid(np.array([2.0, 1.0], np.float32))
problem = tr.Problem(
    objective=lambda x, theta: jnp.sum((x - theta) ** 2) / 2,
    constraints=lambda x, theta: jnp.stack([theta[0] * x[0]]),
    domain=domain,
    levels=1.0,
)
samples = tr.Generator(lambda key: jnp.array([2.0, 2.0]) + jax.random.normal(key, (2,)))
result = tr.minimize(problem, samples, steps=20_000)
print(result)

# %%
# The set, the half-plane that the constraint leaves in expectation (2 x_1 <= 1), and the answer where both end.

angle = np.linspace(0, 2 * np.pi, 200)
fig, ax = plt.subplots(figsize=(6, 3.6))
ax.fill(2 * np.cos(angle), np.sin(angle), color="lightsteelblue", alpha=0.5, label="the set")
ax.axvspan(0.5, 2.4, color="crimson", alpha=0.15, label="forbidden in expectation")
ax.plot(2, 2, "k+", label="mean of the samples")
ax.plot(*result.x, "*", color="crimson", markersize=14, label="tightrope")
ax.set(xlabel="$x_1$", ylabel="$x_2$", xlim=(-2.4, 2.4), ylim=(-1.3, 2.3), aspect="equal")
ax.legend(loc="upper left", fontsize=8)
fig.tight_layout()
