"""
A portfolio with a bound on CVaR
================================

For those who bound the mean of the worst cases, not only a variance. CVaR becomes an expectation constraint with one more
variable, and the problem stays convex.

Four assets, 4,000 scenarios; the best mean return whose mean loss in the worst 5 % of cases is at most 12 %.
"""

import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import tightrope as tr

rng = np.random.default_rng(0)
mean, spread = np.array([0.01, 0.04, 0.07, 0.10]), np.array([0.01, 0.06, 0.12, 0.20])
market = rng.standard_t(5, size=(4_000, 1))
returns = mean + spread * (0.6 * market + 0.8 * rng.standard_t(5, size=(4_000, 4))) / 1.3

LIMIT = 0.12
plain = tr.Problem(
    objective=lambda x, r: -jnp.dot(r, x),
    constraints=lambda x, r: jnp.stack([-jnp.dot(r, x)]),  # the loss, of whose worst cases the mean is bounded
    domain=tr.Simplex(shape=4),
    levels=LIMIT,
    names=("CVaR",),
)
problem = tr.lift_cvar(plain, 0.95, lower=-1.0, upper=1.0)  # the loss lies between these
result = tr.minimize(problem, returns)
print(result)

# %%
# The point has two parts: the portfolio and the value at risk, beyond which the mean is taken.

x = np.asarray(result.x["x"])
print("shares:", np.round(x, 3))

# %%
# The distribution of losses, and their mean in the worst 5 % of scenarios: at the limit, because the constraint binds.

loss = -returns @ x
worst = np.sort(loss)[-len(loss) // 20 :]
fig, ax = plt.subplots(figsize=(6, 3.6))
ax.hist(loss, bins=80, range=(-0.4, 0.5), color="lightsteelblue", label="all scenarios")
ax.hist(worst, bins=80, range=(-0.4, 0.5), color="crimson", label="the worst 5 %")
ax.axvline(worst.mean(), color="crimson", label=f"their mean: {worst.mean():.4f}")
ax.axvline(LIMIT, color="black", linestyle=":", label=f"the limit: {LIMIT}")
ax.set(xlabel="loss", ylabel="scenarios", title=f"mean return {returns.mean(0) @ x:.3f}")
ax.legend()
fig.tight_layout()
