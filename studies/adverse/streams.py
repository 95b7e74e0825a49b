"""Attacks on reports of runs on streams and generators: "satisfied" said of a constraint that is violated, and "no point
satisfies all constraints" said of a problem that has one.

Means are known by construction, so that the truth at every point is exact. Shapes are few, so that little is compiled.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import linprog
from scipy.signal import lfilter

import tightrope as tr
from studies.adverse.search import Promise

D = 4  # coordinates


def objective(x, theta):
    """A linear objective with a little curvature; its slopes come with the sample."""
    return jnp.dot(theta[0], x) + 0.05 * jnp.sum(x**2)


def constraints(x, theta):
    """Linear ones, whose slopes come with the sample."""
    return theta[1:] @ x


# ---- samples that depend on each other, and a report that says "satisfied" --------------------------------------------

KINDS = ("independent", "rare", "autoregressive", "chain", "seasonal", "bursts", "repeated", "sorted blocks")


class Law(NamedTuple):
    """A stream of slopes: a mean and noise, driven by a process with mean zero and variance one."""

    kind: str
    time: float  # correlation time, period or repeats
    noise: float  # of the slopes, relative to their mean
    steps: int
    batch: int
    n: int  # constraints
    seed: int


def draw(rng: np.random.Generator) -> Law:
    """Any kind, times from one sample to half of the run."""
    steps = int(rng.choice([2048, 4096, 8192, 16384]))
    time = float(np.exp(rng.uniform(0, np.log(steps / 2))))
    noise, batch = float(np.exp(rng.uniform(np.log(0.1), np.log(3)))), int(rng.choice([1, 1, 4]))
    kind, n = KINDS[rng.integers(len(KINDS))], int(rng.choice([1, 3]))
    return Law(kind, time, noise, steps, batch, n, int(rng.integers(2**31)))


@functools.cache
def mean_of(law: Law) -> tuple[np.ndarray, np.ndarray, tr.Problem]:
    """Mean slopes, the directions of the noise, and the problem: each constraint binds somewhere."""
    rng = np.random.default_rng(law.seed)
    mean = rng.normal(size=(1 + law.n, D))
    mean[0] = -np.abs(mean[1:]).mean(axis=0) * np.sign(mean[1:].sum(axis=0))  # which pushes outwards
    noise = law.noise * rng.normal(size=(1 + law.n, D)) * (rng.random((1 + law.n, D)) < 0.7)
    levels = np.abs(mean[1:]).sum(axis=1) * rng.uniform(0.05, 0.6, law.n)
    problem = tr.Problem(objective, constraints, tr.Box(-1.0, 1.0, shape=D), levels=levels.astype(np.float32))
    return mean, noise, problem


def process(law: Law, count: int, rng: np.random.Generator) -> np.ndarray:
    """A stationary process with mean zero and variance one."""
    if law.kind == "independent":
        return rng.normal(size=count)
    if law.kind == "rare":
        p = float(np.clip(law.time / 1e4, 0.01, 0.3))
        return ((rng.random(count) < p) - p) / np.sqrt(p * (1 - p))
    if law.kind == "autoregressive":
        keep = np.exp(-1 / law.time)
        noise = rng.normal(size=count) * np.sqrt(1 - keep**2)
        noise[0] = rng.normal()
        return np.asarray(lfilter([1], [1, -keep], noise))
    if law.kind in ("chain", "bursts"):  # two states; bursts are rare and high
        share = 0.5 if law.kind == "chain" else 0.1
        changes = rng.random(count) < 1 / max(law.time, 1)
        states = rng.random(count) < share
        last = np.maximum.accumulate(np.where(changes, np.arange(count), 0))
        return (states[last] - share) / np.sqrt(share * (1 - share))
    if law.kind == "seasonal":
        phase = 2 * np.pi * (rng.random() + np.arange(count) / max(law.time, 2))
        return np.sin(phase) + rng.normal(size=count) / np.sqrt(2)
    each = max(int(law.time), 1)
    values = np.repeat(rng.normal(size=count // each + 2), each)[rng.integers(each) :][:count]
    if law.kind == "repeated":
        return values
    return 0.3 * values + np.sqrt(1 - 0.09) * rng.normal(size=count)  # a small effect of the block


def attempt(law: Law, rng: np.random.Generator) -> bool | None:
    """A run on fresh samples: whether something is called satisfied that is violated."""
    mean, noise, problem = mean_of(law)
    z = process(law, law.steps * law.batch, rng)
    theta = (mean + noise * z[:, None, None]).astype(np.float32)
    result = tr.minimize(
        problem, tr.Stream([theta]), method="csoa", steps=law.steps, batch_size=law.batch, progress=False, record=8
    )
    true = mean[1:] @ np.asarray(result.x, float) - np.asarray(problem.levels, float)
    errors = [np.nan] * law.n if result.errors is None else result.errors
    said = [result.verdict_of(v, e).startswith("satisfied") for v, e in zip(result.constraints, errors, strict=True)]
    return bool(np.any(true[said] > 0)) if any(said) else None


# ---- the same samples, kept and solved on ---------------------------------------------------------------------------------

KEEP = 0.95


def on_kept(law: Law, rng: np.random.Generator, keep: str | float = "expectation") -> tuple[tr.Result, np.ndarray]:
    """A run that keeps its samples, and the true constraints at its point."""
    mean, noise, problem = mean_of(law)
    z = process(law, law.steps * law.batch, rng)
    theta = (mean + noise * z[:, None, None]).astype(np.float32)
    stream = tr.Stream([theta])
    result = tr.minimize(problem, stream, steps=law.steps, batch_size=law.batch, progress=False, keep=keep)
    return result, mean[1:] @ np.asarray(result.x, float) - np.asarray(problem.levels, float)


def attempt_kept(law: Law, rng: np.random.Generator) -> bool | None:
    """Whether constraints are called kept, or one of them satisfied, where the point violates it."""
    result, true = on_kept(law, rng)
    errors = [np.nan] * law.n if result.errors is None else result.errors
    said = [result.verdict_of(v, e).startswith("satisfied") for v, e in zip(result.constraints, errors, strict=True)]
    if result.status is tr.Status.KEPT:
        return bool(np.any(true > 0))
    return bool(np.any(true[said] > 0)) if any(said) else None


def attempt_keep(law: Law, rng: np.random.Generator) -> bool | None:
    """Whether the very point violates something, where it was asked not to and the run does not say that it may."""
    result, true = on_kept(law, rng, keep=KEEP)
    ended = result.status in (tr.Status.KEPT, tr.Status.UNDECIDED) and "not known to be kept" not in str(result)
    return bool(np.any(true > 0)) if ended else None


# ---- "no point satisfies all constraints" -----------------------------------------------------------------------------


class Barely(NamedTuple):
    """Linear constraints that exclude each other, or leave room, by a little."""

    n: int  # constraints
    violation: float  # of the best point, in units of a slope; below zero there is room
    noise: float
    steps: int
    source: str
    time: float  # correlation time, of a stream
    seed: int


def draw_barely(rng: np.random.Generator) -> Barely:
    """Half of them have room, most of them little."""
    violation = float(rng.choice([-1, 1]) * np.exp(rng.uniform(np.log(1e-3), np.log(0.3))))
    time = float(rng.choice([0.01, np.exp(rng.uniform(0, 5))]))
    source, steps = str(rng.choice(["generator", "stream", "stream"])), int(rng.choice([2048, 8192]))
    noise = float(np.exp(rng.uniform(np.log(0.1), np.log(3))))
    return Barely(int(rng.choice([2, 4, 12])), violation, noise, steps, source, time, int(rng.integers(2**31)))


@functools.cache
def problem_of(law: Barely) -> tuple[np.ndarray, tr.Problem, tr.Generator]:
    """Mean slopes, the problem, and a source of independent samples."""
    rng = np.random.default_rng(law.seed)
    mean = rng.normal(size=(1 + law.n, D))
    mean /= np.linalg.norm(mean, axis=1, keepdims=True)
    at = rng.uniform(-0.5, 0.5, D)
    levels = mean[1:] @ at + rng.normal(size=law.n) * 0.3
    columns = np.column_stack([mean[1:], -np.ones(law.n)])  # least t with mean x - levels <= t
    best = linprog([0] * D + [1], columns, levels, bounds=[(-1, 1)] * D + [(None, None)])
    levels = (levels + best.fun - law.violation).astype(np.float32)
    problem = tr.Problem(objective, constraints, tr.Box(-1.0, 1.0, shape=D), levels=levels)
    slopes, scale = jnp.asarray(mean, jnp.float32), law.noise

    def sample(key):
        return slopes + scale * jax.random.normal(key, slopes.shape)

    return mean, problem, tr.Generator(sample)


def attempt_barely(law: Barely, rng: np.random.Generator) -> bool | None:
    """A run: whether it calls infeasible what is not, or all constraints satisfied where they cannot be."""
    mean, problem, generator = problem_of(law)
    data, seed = generator, int(rng.integers(2**31))
    if law.source == "stream":
        keep = np.exp(-1 / law.time)
        noise = rng.normal(size=(law.steps, 1 + law.n, D)) * np.sqrt(1 - keep**2)
        noise[0] /= np.sqrt(1 - keep**2)
        data = tr.Stream([(mean + law.noise * np.asarray(lfilter([1], [1, -keep], noise, axis=0))).astype(np.float32)])
    result = tr.minimize(problem, data, method="csoa", steps=law.steps, seed=seed, progress=False, record=8)
    errors = [np.nan] * law.n if result.errors is None else result.errors
    said = [result.verdict_of(v, e).startswith("satisfied") for v, e in zip(result.constraints, errors, strict=True)]
    if "Every point of the domain violates" in str(result):
        return law.violation < 0
    return law.violation > 0 if all(said) else None


PROMISES = (
    Promise("stream-satisfied", '"satisfied" in the report of a run on a stream', draw, attempt),
    Promise(
        "stream-kept", '"kept" or "satisfied" of a run that keeps its samples', draw, attempt_kept,
        repetitions=400, again=40,
    ),
    Promise(
        "stream-keep", "keep=0.95: the very point that is returned keeps every constraint", draw, attempt_keep,
        repetitions=400,
    ),
    Promise(
        "no-point-in-samples", '"Every point of the domain violates ..." of a generator or a stream; "satisfied" of all',
        draw_barely, attempt_barely,
    ),
)  # fmt: skip
