"""
A neural network with a constraint
==================================

For those who train a network and must keep a second mean within a bound. Points may be any pytree, so the parameters of a
network are one; here in plain JAX, and those of Flax or Equinox go in the same way.

A network is not convex: the steps are the same, and what is proven about them does not apply. The result is measured.
"""

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import tightrope as tr

rng = np.random.default_rng(0)
t = rng.uniform(-3, 3, size=4_000)
data = np.stack([t, np.sin(t) + 0.2 * rng.normal(size=4_000)], axis=1).astype(np.float32)


def network(p, t):
    """One hidden layer of 16 units, at one point."""
    return jnp.tanh(t * p["w"] + p["b"]) @ p["v"] + p["c"]


def error(p, row):
    """Squared error of one row."""
    return (network(p, row[0]) - row[1]) ** 2


def above(p, row):
    """How far one prediction is above 0.5: in the mean it may be so by 0.01 only."""
    return jnp.stack([jnp.maximum(network(p, row[0]) - 0.5, 0)])


shape = {"w": 16, "b": 16, "v": 16, "c": ()}
problem = tr.Problem(error, above, tr.L2Ball(20.0, shape=shape), levels=0.01, names=("above one half",))
start = {
    k: rng.normal(0, 1, size=s).astype(np.float32) for k, s in shape.items()
}  # not zero: there all units are alike


def train(problem):
    """CSOA with batches of 32, from the same start; the last point, since a mean of networks is no network."""
    return tr.minimize(
        problem, data, method=tr.CSOA(eta0=2.0, upsilon0=0.0), steps=10_000, batch_size=32, x0=start, output="last"
    )


free = train(tr.Problem(error, None, problem.domain))
bound = train(problem)
print(bound)

# %%
# Without the constraint the network follows the sine; with it, it gives way where the sine is above one half.

grid = np.linspace(-3, 3, 200, dtype=np.float32)
fig, ax = plt.subplots(figsize=(6, 3.6))
ax.scatter(*data[:600].T, s=3, color="lightgrey", label="data")
for name, result, style in (("unconstrained", free, "--"), ("constrained", bound, "-")):
    ax.plot(grid, jax.vmap(lambda t, p=result.x: network(p, t))(grid), style, label=name)
ax.axhline(0.5, color="crimson", linestyle=":", label="one half")
ax.set(xlabel="t", ylabel="prediction")
ax.legend()
fig.tight_layout()
