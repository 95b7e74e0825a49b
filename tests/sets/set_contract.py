"""The contract of a set as checks on one case, in one precision. Every quantity is compared in float64."""

import functools
from collections.abc import Callable
from typing import Any

import cvxpy as cp
import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from set_cases import FIRST, Case

from tightrope.tree import dot


class Oracles:
    """A set's operations, compiled once with the set as an argument, on plain float64 vectors."""

    def __init__(self, case: Case, dtype: str):
        self.case, self.dtype, self.set = case, np.dtype(dtype), case.set
        leaves, self.treedef = jax.tree.flatten(case.set.start(self.dtype))
        self.shapes = [v.shape for v in leaves]
        self.start = self.flat(case.set.start(self.dtype))
        self.n = len(self.start)
        self.diameter = float(case.set.diameter)
        self.size = max(self.diameter, float(np.linalg.norm(self.start)))
        self.error = 400 * float(np.finfo(self.dtype).eps)
        self.project = self.compiled(lambda s, x: s.project(x))
        self.lmo = self.compiled(lambda s, x: s.lmo(x))
        self.support = self.compiled(lambda s, x: s.support(x))
        self.contains = self.compiled(lambda s, x: s.contains(x))

    def point(self, v: np.ndarray) -> Any:
        cuts = np.cumsum([int(np.prod(s)) for s in self.shapes])[:-1]
        pieces = zip(np.split(v, cuts), self.shapes, strict=True)
        return jax.tree.unflatten(self.treedef, [jnp.asarray(p.reshape(s), self.dtype) for p, s in pieces])

    def flat(self, x: Any) -> np.ndarray:
        return np.concatenate([np.ravel(np.asarray(v, np.float64)) for v in jax.tree.leaves(x)])

    def compiled(self, f: Callable[[Any, Any], Any]) -> Callable[[np.ndarray], np.ndarray]:
        compiled = jax.jit(f)
        return lambda v: self.flat(compiled(self.set, self.point(v)))

    def rounded(self, v: np.ndarray) -> np.ndarray:
        """v as the set sees it."""
        return v.astype(self.dtype).astype(np.float64)

    def direction(self, rng: np.random.Generator, scale: float = 1.0) -> np.ndarray:
        return self.rounded(scale * rng.normal(size=self.n))

    def tolerance(self, *points: np.ndarray) -> float:
        """What rounding, and the set's own solver, may do to a point computed from these."""
        size = max([self.size, *(float(np.linalg.norm(v)) for v in points)])
        return self.error * size + self.case.slack * self.size

    def inside(self, rng: np.random.Generator) -> list[np.ndarray]:
        """Some points of the set: the start, vertices, projections and a mixture of them."""
        points = [self.start]
        if self.set.has_lmo:
            points += [self.lmo(self.direction(rng)) for _ in range(3)]
        if self.set.has_projection:
            points += [self.project(self.start + max(self.size, 1.0) * self.direction(rng)) for _ in range(2)]
        return [*points, rng.dirichlet(np.ones(len(points))) @ np.array(points)]


@functools.cache
def oracles(case: Case, dtype: str) -> Oracles:
    return Oracles(case, dtype)


def on_random_inputs(check: Callable[[Oracles, np.random.Generator, float], None]) -> Callable[[Oracles], None]:
    """Run a check for several seeds and scales. Numbers are generated rather than arrays: shapes stay fixed."""

    @functools.wraps(check)
    def run(o: Oracles) -> None:
        @settings(derandomize=True, deadline=None, max_examples=8, database=None)
        @given(seed=st.integers(0, 2**32 - 1), exponent=st.integers(-3, 3))
        def example(seed: int, exponent: int) -> None:
            check(o, np.random.default_rng(seed), 10.0**exponent)

        example()

    return run


@on_random_inputs
def check_projection(o: Oracles, rng: np.random.Generator, scale: float) -> None:
    if not o.set.has_projection:
        return
    reach = scale * max(o.size, 1.0)
    x, y = (o.rounded(o.start + reach * o.direction(rng)) for _ in range(2))
    p, q = o.project(x), o.project(y)
    tol = o.tolerance(x, y)
    assert o.contains(p), "a projection is in the set"
    assert np.linalg.norm(o.project(p) - p) <= tol, "a second projection changes nothing"
    assert np.linalg.norm(p - q) <= np.linalg.norm(x - y) + tol, "projections are not further apart"
    for v in o.inside(rng):
        room = tol * (np.linalg.norm(x - p) + np.linalg.norm(v - p))
        assert (x - p) @ (v - p) <= room, "the variational inequality of a projection"
        assert np.linalg.norm(o.project(v) - v) <= tol, "points of the set stay where they are"


@on_random_inputs
def check_lmo(o: Oracles, rng: np.random.Generator, scale: float) -> None:
    if not o.set.has_lmo:
        return
    g = o.direction(rng, scale)
    vertex = o.lmo(g)
    tol = o.tolerance() * np.linalg.norm(g)
    assert o.contains(vertex), "a vertex is in the set"
    points = o.inside(rng)
    assert g @ vertex <= min(g @ v for v in points) + tol, "no sampled point is lower"
    assert o.support(g)[0] >= max(g @ v for v in points) - tol, "support bounds <g, v>"
    assert abs(o.support(-g)[0] + g @ vertex) <= tol, "support is the value of the LMO, which is exact here"


@on_random_inputs
def check_size(o: Oracles, rng: np.random.Generator, scale: float) -> None:
    points = o.inside(rng)
    far = max(np.linalg.norm(p - q) for p in points for q in points)
    assert far <= o.diameter + o.tolerance(), "the diameter bounds every distance"
    assert all(o.contains(p) for p in points)
    unit = o.direction(rng)
    outside = o.start + (1 + scale) * (o.diameter + 1) * unit / np.linalg.norm(unit)
    assert not o.contains(outside), "a point further from the start than the diameter is outside"


def check_start(o: Oracles) -> None:
    assert o.contains(o.start)
    assert float(o.set.diameter) >= 0
    if not (o.case.attained and o.set.has_lmo):
        return
    rng = np.random.default_rng(1)
    pairs = [(o.lmo(g), o.lmo(-g)) for g in (o.direction(rng) for _ in range(5))]
    assert max(np.linalg.norm(p - q) for p, q in pairs) >= o.diameter - o.tolerance(), "two vertices attain it"


def check_zero_direction(o: Oracles) -> None:
    if o.set.has_lmo:
        assert o.contains(o.lmo(np.zeros(o.n)))
        tiny = 1e-30 * o.direction(np.random.default_rng(0))  # whose squares vanish in float32
        assert o.contains(o.lmo(tiny))
    if o.set.has_projection:
        assert o.contains(o.project(np.zeros(o.n)))


def check_nan_is_seen(o: Oracles) -> None:
    bad = np.ones(o.n)
    bad[-1] = np.nan
    if o.set.has_lmo:
        assert not np.all(np.isfinite(o.lmo(bad))), "a direction that is not a number must not look like one"
    if o.set.has_projection:
        assert not np.all(np.isfinite(o.project(bad)))


def check_transformations(o: Oracles) -> None:
    if o.case.name not in FIRST or o.dtype != np.float64:
        return
    rng = np.random.default_rng(2)
    xs = [o.direction(rng, 3.0) for _ in range(3)]
    points = [o.point(x) for x in xs]
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *points)
    for name, there in (("project", o.set.has_projection), ("lmo", o.set.has_lmo)):
        if not there:
            continue
        mapped = jax.jit(jax.vmap(getattr(o.set, name)))(stacked)
        for i, x in enumerate(xs):
            one = o.flat(jax.tree.map(lambda v, i=i: v[i], mapped))
            assert np.linalg.norm(getattr(o, name)(x) - one) <= o.tolerance(x), f"vmap of {name}"


def check_dtype(o: Oracles) -> None:
    """Points come back with the structure, the shapes and the dtype they came with."""
    x = o.point(np.ones(o.n))
    like = jax.eval_shape(lambda v: v, x)
    assert jax.eval_shape(lambda: o.set.start(o.dtype)) == like
    if o.set.has_projection:
        assert jax.eval_shape(o.set.project, x) == like
    if o.set.has_lmo:
        assert jax.eval_shape(o.set.lmo, x) == like
        vertex, memory = jax.eval_shape(o.set.warm_lmo, x, o.set.lmo_memory(o.dtype))
        assert vertex == like
        assert memory == jax.eval_shape(lambda: o.set.lmo_memory(o.dtype))


def check_memory(o: Oracles) -> None:
    """A remembered LMO is as good as a fresh one."""
    memory = o.set.lmo_memory(o.dtype)
    if not jax.tree.leaves(memory) or o.case.name not in FIRST:
        return
    rng, warm = np.random.default_rng(3), jax.jit(lambda s, g, m: s.warm_lmo(g, m))
    for _ in range(3):
        g = o.direction(rng)
        vertex, memory = warm(o.set, o.point(g), memory)
        assert g @ o.flat(vertex) <= g @ o.lmo(g) + o.tolerance() * np.linalg.norm(g)


def check_mixtures(o: Oracles) -> None:
    """Points of these sets are vectors: mixtures and directions are what they are for vectors, and stay in the set."""
    assert o.set.additive
    rng = np.random.default_rng(6)
    *_, x, s = o.inside(rng)
    points = o.point(x), o.point(s)
    x, s = map(o.flat, points)
    mixed = o.flat(o.set.mix(*points, 0.3))
    assert o.contains(mixed)
    np.testing.assert_allclose(mixed, 0.7 * x + 0.3 * s, atol=o.tolerance())
    np.testing.assert_allclose(o.flat(o.set.between(*points)), s - x, atol=o.tolerance())


def check_corrective(o: Oracles) -> None:
    """A corrective step stays in the set and is no worse than the best point between x and the vertex.

    The objective is a sum over coordinates: the steps of a product's parts do not disturb each other.
    """
    if not o.set.has_corrective or o.dtype != np.float64:
        return
    rng = np.random.default_rng(7)
    target = o.point(o.start + o.size * rng.normal(size=o.n))

    def move(set, x):
        g = jax.tree.map(jnp.subtract, x, target)
        s = set.lmo(g)

        def line(d):  # exact, for f(x) = |x - target|^2 / 2
            size = dot(d, d)
            return jnp.maximum(-dot(g, d), 0) / jnp.where(size == 0, 1, size)

        return set.corrective(x, s, g, line), set.mix(x, s, jnp.clip(line(set.between(x, s)), 0, 1))

    def f(x):
        return np.sum((o.flat(x) - o.flat(target)) ** 2) / 2

    x, compiled = o.point(o.inside(rng)[-1]), jax.jit(move)
    for _ in range(3):
        step, best = compiled(o.set, x)
        assert o.contains(o.flat(step))
        assert f(step) <= f(best) + o.tolerance() * o.size
        x = step


def check_record(o: Oracles) -> None:
    """What a run records of linear minimisations is a number for each name."""
    record = o.set.lmo_record(o.set.lmo_memory(o.dtype))
    assert all(isinstance(name, str) and jnp.ndim(value) == 0 for name, value in record.items())


def solve(case: Case, n: int, objective: Callable[[Any], Any]) -> np.ndarray:
    """By cvxpy, whose answers are good to about 1e-6."""
    v = cp.Variable(n)
    assert case.model is not None
    problem = cp.Problem(cp.Minimize(objective(v)), case.model(v))
    problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)
    assert problem.status == cp.OPTIMAL
    return np.asarray(v.value)


def check_against_cvxpy(o: Oracles) -> None:
    if o.case.model is None or o.dtype != np.float64:
        return
    rng = np.random.default_rng(4)
    if o.set.has_projection:
        x = o.start + 2 * o.size * rng.normal(size=o.n)
        answer = solve(o.case, o.n, lambda v: cp.sum_squares(v - x))
        np.testing.assert_allclose(o.project(x), answer, atol=2e-4 * o.size)
    if o.set.has_lmo:
        g = o.direction(rng)
        answer = solve(o.case, o.n, lambda v: g @ v)
        assert abs(g @ o.lmo(g) - g @ answer) <= 1e-5 * o.size * np.linalg.norm(g)


def check_against_best(o: Oracles) -> None:
    if o.case.best is None:
        return
    rng = np.random.default_rng(5)
    for _ in range(5):
        g = o.direction(rng)
        assert abs(g @ o.lmo(g) - o.case.best(g)) <= o.tolerance() * np.linalg.norm(g)


def check_enclosing(o: Oracles) -> None:
    """What encloses the set has a projection that leaves the set alone, and is not much larger."""

    def ask(s, x):
        around = s.enclosing()
        p = around.project(x)
        return p, around.contains(x), around.contains(p)

    asked, rng, around = o.compiled(ask), np.random.default_rng(6), o.set.enclosing()
    for v in o.inside(rng):
        p, inside = asked(v)[:-2], asked(v)[-2]
        assert inside, "the set is in it"
        assert np.linalg.norm(p - v) <= o.tolerance(), "and stays where it is"
    assert asked(o.start + 3 * o.size * o.direction(rng))[-1], "a projection is in the enclosing set"
    assert around.cheap_projection
    tied = jax.tree.leaves(o.set.tied(o.set.start()))
    assert any(tied) == (around is not o.set), "a set that is its own says so, leaf by leaf"
    assert o.diameter <= float(around.diameter) * (1 + o.error)
    assert float(around.diameter) <= 2 * o.diameter * (1 + o.error), "the least that is promised"


CHECKS = [
    check_enclosing,
    check_projection,
    check_lmo,
    check_size,
    check_start,
    check_zero_direction,
    check_nan_is_seen,
    check_transformations,
    check_dtype,
    check_memory,
    check_mixtures,
    check_corrective,
    check_record,
    check_against_cvxpy,
    check_against_best,
]
