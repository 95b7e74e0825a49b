"""Steps without coefficients, on laws that their pilot cannot see: rare slopes, rare events in h, scales that grow, units.

The promise is about the mean over runs, so that an attempt is 32 of them: it is false where the mean over runs of a
constraint's true expectation at the output is positive by more than three standard errors and by more than a twentieth of
what the constraint changes by over the domain. Another promise is that a run gets somewhere: F at the output, and twice
what mean violations are worth at the solution's multipliers, are not above F where the run began by three standard errors.
Where most runs say of a constraint that they saw too few events to tell, nothing is promised of it.
"""

from collections.abc import Callable
from functools import cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import linprog

import tightrope as tr
from studies.adverse.search import Promise
from tightrope.methods import measured

D, N, RUNS, STEPS = 3, 3, 32, 1500
BOX, BALL = tr.Box(-1.0, 1.0, shape=D), tr.L1Ball(1.0, shape=D)
METHODS = {
    "csoa": (tr.CSOA(), BOX),
    "csoa at any time": (tr.CSOA(anytime=True), BOX),
    "split-csoa": (tr.SplitCSOA(), BALL),
    "fw-csoa": (tr.FWCSOA(), BALL),
}


class Law(NamedTuple):
    """E f = c.x and E h_i = a_i.x - b_i over a box or an l1 ball, all of them noisy, in units of their own."""

    method: str
    c: tuple[float, ...]
    a: tuple[tuple[float, ...], ...]
    b: tuple[float, ...]
    noise: tuple[float, float]  # of the slopes of f and of h
    present: tuple[float, ...]  # the probability that a sample has slopes: of f, of every h_i
    heavy: bool  # whether the slopes' noise has heavy tails
    quiet: tuple[float, float]  # the share of the run in which f is smaller than later, and by how much
    units: tuple[float, ...]  # of f, of every h_i

    def __str__(self) -> str:
        shown = (
            f"{name} {np.asarray(value, float).round(4).tolist()}"
            for name, value in self._asdict().items()
            if name != "method"
        )
        return f"{self.method}: {', '.join(shown)}"


def draw(rng: np.random.Generator) -> Law:
    """Every other constraint holds with room to spare; the others are active at the solution, or far from the start."""
    method = str(rng.choice(list(METHODS)))
    domain = METHODS[method][1]
    a, c = rng.normal(size=(N, D)), rng.normal(size=D)
    inside = np.asarray(domain.project(jnp.asarray(rng.uniform(-1, 1, D)))) * rng.uniform(0, 0.7)
    room = rng.choice([0.1, 0.3, 3.0], N) * np.linalg.norm(a, axis=1)
    rare = rng.choice([1.0, 0.2, 0.1, 0.05, 0.02]), *rng.choice([1.0, 1.0, 0.2, 0.05, 0.02, 0.01], N)
    quiet = float(rng.choice([0.0, 0.0, 0.01, 0.1])), float(10.0 ** rng.uniform(-4, 0))
    return Law(
        method,
        tuple(c.tolist()),
        tuple(map(tuple, a.tolist())),
        tuple((a @ inside + room).tolist()),
        (float(rng.choice([0.0, 0.5, 2.0])), float(rng.choice([0.1, 0.5]))),
        tuple(map(float, rare)),
        bool(rng.random() < 0.3),
        quiet,
        tuple((10.0 ** rng.uniform(-5, 5, N + 1)).tolist()),
    )


class Outputs(NamedTuple):
    """Of runs side by side."""

    x: np.ndarray
    unsure: np.ndarray  # whether the run says that it saw too few events to tell


@cache
def program(method: str) -> Callable[[Any, Any], Any]:
    """The runs of one method on any law."""
    chosen, domain = METHODS[method]

    def slopes(key, mean, noise, present, heavy):
        there, what = jax.random.split(key)
        z = jax.random.normal(what, mean.shape)
        z = jnp.where(heavy, jnp.sinh(1.5 * z) / 5.6, z)  # of variance one in either case
        shown = jax.random.bernoulli(there, present) / present
        return jnp.reshape(shown, shown.shape + (1,) * (mean.ndim - shown.ndim)) * (mean + noise * z)

    problem = tr.Problem(lambda x, theta: theta["c"] @ x, lambda x, theta: theta["a"] @ x - theta["b"], domain)

    def one(law, key):
        def step(state, at):
            t, key = at
            of_f, of_h = jax.random.split(key)
            now = jnp.where(t <= law.quiet[0] * STEPS, law.quiet[1], 1.0) * law.units[0]
            theta = {
                "c": now * slopes(of_f, law.c, law.noise[0], law.present[0], law.heavy),
                "a": law.units[1:, None] * slopes(of_h, law.a, law.noise[1], law.present[1:], law.heavy),
                "b": law.units[1:] * law.b,
            }
            state, info = chosen.step(problem, state, jax.tree.map(lambda v: v[None], theta))
            return state, (info.weight, info.x)

        start = chosen.init(problem, domain.start(jnp.float32), jnp.zeros(N), jnp.asarray(STEPS, jnp.int32))
        state, (weight, points) = jax.lax.scan(step, start, (jnp.arange(1, STEPS + 1), jax.random.split(key, STEPS)))
        return weight @ points / jnp.sum(weight), measured.unsure(state.scales)

    return jax.jit(jax.vmap(one, (None, 0)))


def outputs(law: Law, rng: np.random.Generator) -> Outputs:
    """Of so many runs."""
    keys = jax.random.split(jax.random.key(int(rng.integers(2**31))), RUNS)
    numbers = jax.tree.map(partial(jnp.asarray, dtype=jnp.float32), law._replace(method=0.0), is_leaf=_is_numbers)
    with jax.enable_x64(False):  # as users have it
        x, unsure = program(law.method)(numbers, keys)
    return Outputs(np.asarray(x, float), np.asarray(unsure))


def _is_numbers(leaf: Any) -> bool:
    return not isinstance(leaf, Law)


def violates(law: Law, rng: np.random.Generator) -> bool | None:
    """Whether the mean of a constraint over the runs is above zero; nothing is said of those that runs are unsure of."""
    x, unsure = outputs(law, rng)
    said = unsure.mean(axis=0) < 0.5
    if not said.any():
        return None
    a, b = np.array(law.a), np.array(law.b)
    H, widths = x @ a.T - b, 2 * np.abs(a).sum(axis=1) if METHODS[law.method][1] is BOX else 2 * np.abs(a).max(axis=1)
    mean, error = H.mean(axis=0), H.std(axis=0, ddof=1) / np.sqrt(RUNS)
    return bool(np.any(said & (mean > 3 * error) & (mean > 0.05 * widths)))


def stays(law: Law, rng: np.random.Generator) -> bool | None:
    """Whether the runs end above F where they began, which was feasible and could have been bettered by a tenth
    of the largest slope; nothing is said of runs that are unsure of a constraint."""
    x, unsure = outputs(law, rng)
    a, b, c = np.array(law.a), np.array(law.b), np.array(law.c)
    best, dual = solution(law)
    if np.any(b < 0) or best > -0.1 * np.abs(c).max() or np.any(unsure.mean(axis=0) >= 0.5):
        return None
    F, H = x @ c, (x @ a.T - b).mean(axis=0)
    return bool(F.mean() + 2 * np.maximum(H, 0) @ dual > 3 * F.std(ddof=1) / np.sqrt(RUNS))


def solution(law: Law) -> tuple[float, np.ndarray]:
    """F* and the multipliers."""
    a, b, c = np.array(law.a), np.array(law.b), np.array(law.c)
    if METHODS[law.method][1] is BOX:
        found = linprog(c, a, b, bounds=(-1, 1))
        return found.fun, -found.ineqlin.marginals
    both = np.hstack([a, -a])  # x = u - v, with sum u + v <= 1
    found = linprog(np.hstack([c, -c]), np.vstack([both, np.ones(2 * D)]), np.hstack([b, 1]), bounds=(0, None))
    return found.fun, -found.ineqlin.marginals[:N]


PROMISES = (
    Promise(
        name="steps",
        said="No coefficients: constraints hold on average over runs",
        draw=draw,
        attempt=violates,
        repetitions=400,
        again=40,
    ),
    Promise(
        name="steps-progress",
        said="No coefficients: a run ends better than it began",
        draw=draw,
        attempt=stays,
        repetitions=400,
        again=40,
    ),
)
