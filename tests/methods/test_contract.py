"""Every method of the registry, whatever it is: a new one needs nothing here."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tightrope as tr
from tightrope.loop.steps import Layout, start
from tightrope.problems import EXACT
from tightrope.sampling import Plan
from tightrope.tree import replace

STEPS = {"rows": 3_000, "refresh every step": 400, "stream": 40_000}


def fitted(kind, solved):
    """The problem as the method can have it: without constraints, or with exact ones."""
    if "unconstrained" in kind.needs:
        return tr.penalised(solved.problem, solved.dual)
    if "exact_constraints" in kind.needs:
        return replace(solved.problem, exact_constraints=solved.constraints)
    return solved.problem


def solved_for(kind):
    """A linear programme; for penalties, which it leaves without a unique solution, a quadratic on the simplex."""
    return EXACT["simplex" if "unconstrained" in kind.needs else "l1-lp"]()


def data_for(kind, solved, n):
    return solved.rows(n) if "rows" in kind.needs else solved.samples


def batch(kind, n):
    """A method's own choice where it has one."""
    own = kind().default_batch(n)
    return own if own > 1 else 32 if "rows" in kind.needs else 4


def start_state(method, problem, steps=100):
    x = problem.domain.start()
    lam = jnp.zeros(problem.n_constraints(x, jax.tree.map(lambda a: a[0], one_batch(EXACT["simplex"](), 1))), x.dtype)
    return start(method, problem, x, lam, jnp.asarray(steps, jnp.int32), Layout()).state


def one_batch(solved, size=3, seed=0):
    buffer = solved.samples.open(Plan((seed,), 1, size)).take(0, 1)
    return jax.tree.map(lambda a: a[0, 0, 0], buffer.items)


def draws(method, theta):
    return theta if method.draws == 1 else (theta,) * method.draws


OURS = {
    kind.name for kind in map(tr.__dict__.get, tr.__all__) if isinstance(kind, type) and kind in tr.METHODS.values()
}


# A run to the solution for each rival takes minutes in all, and belongs to `make verify`.
@pytest.mark.parametrize("name", [pytest.param(n, marks=[] if n in OURS else pytest.mark.slow) for n in tr.METHODS])
def test_it_finds_the_solution(name):
    kind = tr.METHODS[name]
    solved = solved_for(kind)
    problem, every_step = fitted(kind, solved), kind().refresh_every == 1
    length = "refresh every step" if every_step else "rows" if "rows" in kind.needs else "stream"
    data = data_for(kind, solved, n=4_000)
    options = {"batch_size": batch(kind, 4_000), "x0": np.full(10, 0.01) if name == "pfs" else None}
    result = tr.minimize(problem, data, method=name, steps=STEPS[length], record=0, **options)
    lagrangian = solved.objective(result.x) + jnp.dot(solved.dual, solved.constraints(result.x)) - solved.optimum
    assert -1e-9 <= float(lagrangian) < 0.02
    if "unconstrained" not in kind.needs:
        assert abs(float(solved.objective(result.x)) - solved.optimum) < 0.05
        assert float(jnp.max(solved.constraints(result.x))) <= 0.04  # of a finite sample's own optimum, for some
        np.testing.assert_allclose(result.x, solved.x, atol=0.1)
        if kind.multipliers:
            np.testing.assert_allclose(result.dual, solved.dual, atol=0.12 if kind.averages else 0.3)


@pytest.mark.parametrize("name", tr.METHODS)
def test_a_step_keeps_dtypes_shapes_and_structure(name, dtype):
    kind, solved = tr.METHODS[name], EXACT["simplex"]()
    method, problem = kind(), fitted(kind, solved)
    state = start_state(method, problem)
    after, info = jax.eval_shape(method.step, problem, state, draws(method, one_batch(solved)))
    assert jax.tree.structure(after) == jax.tree.structure(state)
    for a, b in zip(jax.tree.leaves(state), jax.tree.leaves(after), strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
    assert info.f.dtype == info.h.dtype == info.lam.dtype == dtype


@pytest.mark.parametrize("name", tr.METHODS)
def test_declared_cost_equals_counted_calls_and_compiled_side_by_side_equals_eager(name):
    """Every method is run for a few steps outside compiled code, on functions and a set that count."""
    calls = {"objective": 0, "project": 0, "lmo": 0}

    @tr.pytree
    class Counting(tr.L2Ball):
        def project(self, x):
            calls["project"] += 1
            return super().project(x)

        def lmo(self, g):
            calls["lmo"] += 1
            return super().lmo(g)

    def f(x, theta):
        calls["objective"] += 1
        return jnp.sum((x - theta) ** 2)

    def exact(x):
        return x[:1] - 0.5

    kind = tr.METHODS[name]
    method = kind()
    constraints = None if "unconstrained" in kind.needs else lambda x, theta: exact(x)
    known = exact if "exact_constraints" in kind.needs else None
    problem = tr.Problem(f, constraints, Counting(1.0, shape=2), exact_constraints=known)
    first = method.init(problem, jnp.zeros(2), jnp.zeros(0 if constraints is None else 1), jnp.asarray(10))
    theta, state = draws(method, jnp.ones((1, 2))), first
    with jax.disable_jit():
        for _ in range(5):
            state, _ = method.step(problem, state, theta)
    cost = method.total_cost(5)
    assert calls == {"objective": cost.gradients, "project": cost.projections, "lmo": cost.lmos}
    assert cost.samples == 5 * method.draws

    def five_steps(state):
        return jax.lax.fori_loop(0, 5, lambda _, s: method.step(problem, s, theta)[0], state)

    twice = jax.tree.map(lambda leaf: jnp.stack([leaf, leaf]), first)
    compiled = jax.jit(jax.vmap(five_steps))(twice)
    for a, both in zip(jax.tree.leaves(state), jax.tree.leaves(compiled), strict=True):
        for b in both:
            np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-12)
    assert bool(problem.domain.contains(state.x))
    assert bool(jnp.all(state.lam >= 0))


@pytest.mark.parametrize("name", tr.METHODS)
def test_it_declares_what_it_is(name):
    kind = tr.METHODS[name]
    method = kind()
    assert jax.tree.leaves(method)
    assert all(isinstance(leaf, float) for leaf in jax.tree.leaves(method))  # a new value compiles nothing
    assert kind.tuned
    assert all(isinstance(getattr(method, coefficient), float) for coefficient in kind.tuned)
    assert kind.margin is None or isinstance(getattr(method, kind.margin), float)
    assert {"project", "lmo"} & kind.needs
