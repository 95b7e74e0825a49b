"""
Your own loop
=============

For those who have a training loop already and want one step of a method in it, as with an optimiser of Optax. A method is
two pure functions, ``init`` and ``step``; both compile, and the state is a pytree.
"""

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import tightrope as tr

theta = np.random.default_rng(0).normal(1.0, 1.0, size=(4_000, 3)).astype(np.float32)
problem = tr.Problem(
    objective=lambda x, theta: jnp.sum((x - theta) ** 2) / 2,
    constraints=lambda x, theta: jnp.stack([jnp.dot(theta, x)]),
    domain=tr.L2Ball(2.0, shape=3),
    levels=1.0,
)
method = tr.CSOA(eta0=1.0, upsilon0=2.0)
state = method.init(problem, problem.domain.start(jnp.float32), jnp.zeros(1), horizon=jnp.asarray(len(theta)))
step = jax.jit(method.step)

history = []
for row in theta:
    state, info = step(problem, state, row[None])  # a batch of one
    history.append((info.h[0], state.lam[0]))

# %%
# What the method says of every step is in ``info``: here the sampled constraint, whose running mean comes down to its
# level, and its multiplier. (``tr.minimize`` does the same in one compiled loop, some hundred times faster.)

h, lam = np.array(history).T
steps = np.arange(1, len(h) + 1)
fig, (top, bottom) = plt.subplots(2, 1, figsize=(6, 4.4), sharex=True)
top.plot(steps, np.cumsum(h) / steps)
top.axhline(0, color="crimson", linestyle=":")
top.set(ylabel="running mean of h", ylim=(-0.5, 0.5))
bottom.plot(steps, lam)
bottom.axhline(2 / 3, color="black", linestyle=":", label="multiplier of the exact problem, 2/3")
bottom.set(xlabel="step", ylabel="multiplier")
bottom.legend()
fig.tight_layout()
