"""One small problem with three kinds of samplers, shared by the tests of the core so that it compiles once."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import tightrope as tr
from tightrope.problem.full_data import full_mean
from tightrope.sets import Shape

ROWS = np.random.default_rng(0).normal([1.0, -0.5, 0.2], 0.7, size=(37, 3))


def objective(x, theta):
    """Half the squared distance."""
    return jnp.sum((x - theta) ** 2) / 2


def constraints(x, theta):
    """A bilinear and a linear one."""
    return jnp.stack([jnp.dot(x, theta), x[0] + 0.1 * theta[1]])


def draw(key):
    """A sample like the rows."""
    return jnp.array([1.0, -0.5, 0.2]) + 0.7 * jax.random.normal(key, (3,))


def ragged(skip=0):
    """10,000 rows in batches of 1 to 13, from a position on."""
    rows = np.random.default_rng(1).normal([1.0, -0.5, 0.2], 0.7, size=(10_000, 3))[skip:]
    k = 0
    while len(rows):
        k = k % 13 + 1
        yield rows[:k]
        rows = rows[k:]


BALL = tr.L2Ball(2.0, shape=3)
PROBLEM = tr.Problem(objective, constraints, BALL, levels=(0.5, 0.4))
CSOA = tr.CSOA(eta0=0.8, upsilon0=0.3)
FWCSOA = tr.FWCSOA(upsilon0=0.3)
METHODS = {"csoa": CSOA, "fw-csoa": FWCSOA}
SAMPLERS = {"rows": lambda: tr.Rows(ROWS), "generator": lambda: tr.Generator(draw), "stream": lambda: tr.Stream(ragged)}


def assert_same_run(one, other):
    """Every array of two results is equal bit for bit."""
    for name in ("average", "last", "dual", "dual_last", "state"):
        jax.tree.map(np.testing.assert_array_equal, getattr(one, name), getattr(other, name))


@tr.pytree
class Mute(tr.ConvexSet):
    """A set that can do nothing."""

    shape: Any = tr.static(default=Shape(1))

    @property
    def diameter(self):
        return 1.0

    def contains(self, x, tol=None):
        return jnp.asarray(True)

    def start(self, dtype=None):
        return self.shape.full(0.0)


class SlowState(NamedTuple):
    x: Any
    lam: Any
    gradient: Any  # of the whole objective, at the last refresh
    seen: Any  # how many refreshes there were
    t: Any


@tr.pytree
class FullGradient(tr.Refreshing):
    """Descent along the mean gradient of all rows, looked up every `refresh_every` steps."""

    rate: Any = 0.1
    refresh_every: int | None = tr.static(default=4)

    needs = frozenset({"project", "rows"})
    cost = tr.Cost(projections=1)

    def init(self, problem, x, lam, horizon):
        return SlowState(x, lam, jnp.zeros_like(x), jnp.zeros((), jnp.int32), jnp.zeros((), jnp.int32))

    def refresh(self, problem, state, data):
        gradient = full_mean(lambda row: jax.grad(objective)(state.x, row), data)
        return state._replace(gradient=gradient, seen=state.seen + 1)

    def step(self, problem, state, theta):
        f, h = problem.values(state.x, theta)
        x = problem.domain.project(state.x - self.rate * state.gradient)
        return state._replace(x=x, t=state.t + 1), tr.Info(state.x, state.lam, f, h)
