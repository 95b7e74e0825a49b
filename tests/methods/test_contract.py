"""Every method of the registry on every problem with an exact solution that it can handle."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tightrope as tr
from tightrope.problems import EXACT
from tightrope.run import Layout, start
from tightrope.sampling import Plan

CASES = [(m, p) for m in tr.METHODS for p in EXACT]


def start_state(method, solved, steps=100):
    x = solved.problem.domain.start()
    lam = jnp.zeros(len(solved.dual), x.dtype)
    return start(method, solved.problem, x, lam, jnp.asarray(steps, jnp.int32), Layout()).state


def one_batch(solved, size=3, seed=0):
    buffer = solved.samples.open(Plan((seed,), 1, size)).take(0, 1)
    return jax.tree.map(lambda a: a[0, 0, 0], buffer.items)


@pytest.mark.parametrize(("name", "problem"), CASES)
def test_it_finds_the_exact_primal_and_dual_solution(name, problem):
    solved = EXACT[problem]()
    result = tr.minimize(solved.problem, solved.samples, method=name, steps=60_000, batch_size=4, track=solved.track)
    last = result.trace.iloc[-1]
    assert 0 <= last["gap"] < 0.03
    assert max(last[f"H{i}"] for i in range(len(solved.dual))) <= 0.002
    np.testing.assert_allclose(result.dual, solved.dual, atol=0.08)
    np.testing.assert_allclose(result.average, solved.x, atol=0.08)


@pytest.mark.parametrize(("name", "problem"), CASES)
def test_a_step_keeps_dtypes_shapes_and_structure(name, problem, dtype):
    solved, method = EXACT[problem](), tr.METHODS[name]()
    state = start_state(method, solved)
    after, info = jax.jit(method.step)(solved.problem, state, one_batch(solved))
    assert jax.tree.structure(after) == jax.tree.structure(state)
    for a, b in zip(jax.tree.leaves(state), jax.tree.leaves(after), strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
    assert info.f.dtype == info.h.dtype == info.lam.dtype == dtype
    assert bool(solved.problem.domain.contains(after.x))
    assert bool(jnp.all(after.lam >= 0))


@pytest.mark.parametrize(("name", "problem"), CASES)
def test_jit_equals_eager(name, problem):
    solved, method = EXACT[problem](), tr.METHODS[name]()
    state, theta = start_state(method, solved), one_batch(solved)
    eager, compiled = method.step(solved.problem, state, theta), jax.jit(method.step)(solved.problem, state, theta)
    for a, b in zip(jax.tree.leaves(eager), jax.tree.leaves(compiled), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("name", tr.METHODS)
def test_side_by_side_equals_one_by_one(name):
    solved = EXACT["simplex"]()
    table = tr.sweep(solved.problem, solved.samples, tr.METHODS[name](), steps=300, seeds=range(3), track=solved.track)
    for seed in range(3):
        alone = tr.minimize(solved.problem, solved.samples, method=name, steps=300, seed=seed, track=solved.track)
        row = table[table.seed == seed].iloc[0]
        np.testing.assert_allclose(row["gap"], alone.trace["gap"].iloc[-1], rtol=1e-9)
        np.testing.assert_allclose(row[["dual h[0]", "dual h[1]"]].to_numpy(float), alone.dual, rtol=1e-9)


@pytest.mark.parametrize("name", tr.METHODS)
def test_declared_cost_equals_counted_calls(name):
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

    method = tr.METHODS[name]()
    problem = tr.Problem(f, lambda x, theta: x[:1], Counting(1.0, shape=2))
    state = method.init(problem, jnp.zeros(2), jnp.zeros(1), jnp.asarray(10))
    theta = jnp.ones((1, 2))
    for _ in range(5):
        state, _ = method.step(problem, state, theta if method.draws == 1 else (theta,) * method.draws)
    assert calls == {
        "objective": 5 * method.cost.gradients,
        "project": 5 * method.cost.projections,
        "lmo": 5 * method.cost.lmos,
    }
    assert method.cost.samples == method.draws


@pytest.mark.parametrize("name", tr.METHODS)
def test_hyperparameters_are_leaves(name):
    method = tr.METHODS[name]()
    assert jax.tree.leaves(method)
    assert all(isinstance(leaf, float) for leaf in jax.tree.leaves(method))


def test_every_exported_method_is_registered():
    exported = {v for v in vars(tr).values() if isinstance(v, type) and issubclass(v, tr.Method) and v is not tr.Method}
    assert exported == set(tr.METHODS.values())
