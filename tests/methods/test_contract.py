"""Every method of the registry on problems with exact solutions."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tightrope as tr
from tightrope.problems import EXACT
from tightrope.sampling import Plan
from tightrope.steps import Layout, start

# Every case compiles a program of its own: a linear programme for all, a curved problem for some; `make verify` has more.
CASES = [*((m, "l1-lp") for m in tr.METHODS), ("csoa", "ball"), ("fw-csoa", "ball")]


def data_for(method, solved, n=20_000):
    """Fresh samples, or for methods that need all the data a set of rows."""
    if "rows" not in method.needs:
        return solved.samples
    buffer = solved.samples.open(Plan((11,), 1, 2)).take(0, n // 2)
    return jax.tree.map(lambda a: a[0, : n // 2, 0].reshape(n, *a.shape[4:]), buffer.items)


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
    data = data_for(tr.METHODS[name], solved)
    steps = 6_000 if "rows" in tr.METHODS[name].needs else 60_000
    result = tr.minimize(solved.problem, data, method=name, steps=steps, batch_size=4 if steps > 6_000 else 32)
    assert abs(float(solved.objective(result.x)) - solved.optimum) < 0.03
    assert float(jnp.max(solved.constraints(result.x))) <= 0.02  # of a finite sample's own optimum, for some methods
    np.testing.assert_allclose(result.dual, solved.dual, atol=0.08)
    np.testing.assert_allclose(result.x, solved.x, atol=0.08)


@pytest.mark.parametrize("name", tr.METHODS)
def test_a_step_keeps_dtypes_shapes_and_structure(name, dtype):
    solved, method = EXACT["ball"](), tr.METHODS[name]()
    state = start_state(method, solved)
    after, info = jax.eval_shape(method.step, solved.problem, state, one_batch(solved))
    assert jax.tree.structure(after) == jax.tree.structure(state)
    for a, b in zip(jax.tree.leaves(state), jax.tree.leaves(after), strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
    assert info.f.dtype == info.h.dtype == info.lam.dtype == dtype


@pytest.mark.parametrize("name", tr.METHODS)
def test_jit_equals_eager_and_stays_inside(name):
    solved, method = EXACT["simplex"](), tr.METHODS[name]()
    state, theta = start_state(method, solved), one_batch(solved)
    eager, compiled = method.step(solved.problem, state, theta), jax.jit(method.step)(solved.problem, state, theta)
    for a, b in zip(jax.tree.leaves(eager), jax.tree.leaves(compiled), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-13)
    assert bool(solved.problem.domain.contains(compiled[0].x))
    assert bool(jnp.all(compiled[0].lam >= 0))


@pytest.mark.parametrize("name", sorted({*tr.METHODS} - {"csoa", "fw-csoa", "svrg-csoa"}))  # in test_sweep.py
def test_side_by_side_equals_one_by_one(name):
    solved = EXACT["simplex"]()
    data = data_for(tr.METHODS[name], solved, n=200)
    table = tr.sweep(solved.problem, data, tr.METHODS[name](), steps=300, seeds=range(3), track=solved.track)
    for seed in range(3):
        alone = tr.minimize(solved.problem, data, method=name, steps=300, seed=seed, track=solved.track)
        row, last = table[table.seed == seed].iloc[0], alone.trace.iloc[-1]
        columns = ["gap", "dual h[0]", "dual h[1]"]
        np.testing.assert_allclose(row[columns].to_numpy(float), last[columns].to_numpy(float), rtol=1e-7)


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
