"""Every solver of the registry, whatever it is: a new one needs nothing here."""

import inspect
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tightrope as tr
from tightrope.problems import EXACT
from tightrope.solvers import NotFiniteLook

KINDS = {name: kind for name, kind in tr.METHODS.items() if issubclass(kind, tr.Solver)}
ROWS = np.random.default_rng(0).normal(0.5, 1.0, size=(64, 3))
TREE = {"b": np.asarray(0.1), "w": np.array([-0.2, 0.3])}


def flat(x):
    return tr.tree.ravel(x)[0]


def on_a_ball(shape):
    """A small problem for points of any shape."""
    return tr.Problem(
        lambda x, theta: jnp.sum((flat(x) - theta) ** 2),
        lambda x, theta: flat(x)[:1] - 0.1 + 0.1 * theta[:1],
        tr.L2Ball(0.8, shape=shape),
    )


def looks(solver, problem, x, number):
    """The first looks, by hand."""
    x = jax.tree.map(jnp.asarray, x)
    solver = solver.fitted(problem, x, len(ROWS))
    found = solver.looks(problem, jnp.asarray(ROWS), solver.start(x, np.zeros(1, jax.tree.leaves(x)[0].dtype)))
    return list(itertools.islice(found, number))


def test_there_are_some():
    assert {"sqp", "bundle"} <= set(KINDS)


def test_the_contract_is_small():
    """What somebody has to read who writes one."""
    names = [name for name, _ in inspect.getmembers(tr.Solver) if not name.startswith("_")]
    assert len(names) <= 11, names


@pytest.mark.parametrize("name", KINDS)
def test_it_finds_the_solution(name):
    solved = EXACT["simplex"]()
    result = tr.minimize(solved.problem, solved.rows(4_000), method=KINDS[name](), passes=100, record=0)
    assert abs(float(solved.objective(result.x)) - solved.optimum) < 0.05
    assert float(jnp.max(solved.constraints(result.x))) <= 0.04  # of a finite sample's own optimum
    np.testing.assert_allclose(result.x, solved.x, atol=0.1)
    np.testing.assert_allclose(result.dual, solved.dual, atol=0.12)


@pytest.mark.parametrize("name", KINDS)
def test_a_memory_keeps_dtypes_shapes_and_structure_and_is_pythons(name, dtype):
    solver, x = KINDS[name](), np.zeros(3, dtype)
    first = solver.start(x, np.zeros(1, dtype))
    for look in looks(solver, on_a_ball(3), x, 3):
        assert jax.tree.structure(look.memory) == jax.tree.structure(first)
        for a, b in zip(jax.tree.leaves(first), jax.tree.leaves(look.memory), strict=True):
            assert isinstance(b, np.ndarray)
            assert (a.dtype, a.shape) == (b.dtype, b.shape)


@pytest.mark.parametrize("name", KINDS)
def test_looks_go_on_from_a_memory_as_if_nothing_had_been(name):
    solver, problem, x = KINDS[name](), on_a_ball(3), np.zeros(3)
    whole = looks(solver, problem, x, 5)
    fitted = solver.fitted(problem, x, len(ROWS))
    rest = list(itertools.islice(fitted.looks(problem, jnp.asarray(ROWS), whole[1].memory), 3))
    jax.tree.map(np.testing.assert_array_equal, [look.memory for look in rest], [look.memory for look in whole[2:]])


@pytest.mark.parametrize("name", KINDS)
def test_what_a_look_says_is_true(name):
    """The point is feasible, its value is what is said, the bound is below the optimum, and looks never get worse."""
    problem = on_a_ball(3)
    best = tr.minimize(problem, ROWS, method=KINDS[name](), tol=1e-6).objective
    f, h = (jax.jit(lambda x, k=k: problem.values(x, jnp.asarray(ROWS))[k]) for k in (0, 1))
    assert best is not None
    lower, upper = -np.inf, np.inf
    for look in looks(KINDS[name](), problem, np.zeros(3), 6):
        if np.isfinite(look.upper):
            assert float(jnp.max(h(look.x))) <= look.rounding
            assert float(f(look.x)) == pytest.approx(look.upper, abs=1e-5)
        assert look.lower - look.rounding <= best
        assert look.lower >= lower
        assert look.upper <= upper + look.rounding
        lower, upper = look.lower, look.upper
    assert upper - lower < 1e-3


@pytest.mark.parametrize("name", KINDS)
def test_a_point_that_is_a_tree_goes_where_the_same_point_as_a_vector_goes(name):
    as_tree = looks(KINDS[name](), on_a_ball({"b": (), "w": 2}), TREE, 3)
    as_vector = looks(KINDS[name](), on_a_ball(3), np.asarray(flat(TREE)), 3)
    for tree, vector in zip(as_tree, as_vector, strict=True):
        np.testing.assert_allclose(flat(tree.x), vector.x, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(tree.lam, vector.lam, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", KINDS)
def test_a_value_that_is_not_finite_is_raised_with_what_was_seen(name):
    bad = ROWS[37, 0]  # no probe of a few rows sees it

    def objective(x, theta):
        return jnp.sum((x - theta) ** 2) + jnp.where(theta[0] == bad, jnp.nan, 0.0)

    problem = tr.Problem(objective, lambda x, theta: x[:1], tr.L2Ball(0.8, shape=3))
    with pytest.raises(NotFiniteLook) as error:
        looks(KINDS[name](), problem, np.zeros(3), 1)
    assert np.isnan(error.value.seen[0])
    result = tr.minimize(problem, ROWS, method=KINDS[name](), passes=10)
    assert result.status is tr.Status.NOT_FINITE
    assert "The objective is not finite in step 1." in result.message


@pytest.mark.parametrize("name", KINDS)
def test_it_draws_no_samples_and_says_so(name):
    result = tr.minimize(on_a_ball(3), ROWS, method=KINDS[name](), passes=20)
    assert result.cost.samples == 0
    assert "samples" not in str(result.cost)
    solver = KINDS[name]().fitted(on_a_ball(3), np.zeros(3), len(ROWS))
    assert result.cost.gradients == solver.gradients(result.cost.steps, len(ROWS)) <= 20 * len(ROWS)


@pytest.mark.parametrize("name", KINDS)
def test_a_sweep_equals_minimize(name):
    values = [0.4, 0.8]
    table = tr.sweep(on_a_ball(3), ROWS, KINDS[name](**{KINDS[name].tuned[0]: np.array(values)}), steps=4, seeds=(0, 1))
    assert len(table) == 4
    for k, value in enumerate(values):
        alone = tr.minimize(on_a_ball(3), ROWS, method=KINDS[name](**{KINDS[name].tuned[0]: value}), steps=4)
        for row in (2 * k, 2 * k + 1):
            assert table["full objective"][row] == pytest.approx(alone.objective, rel=1e-6)
            np.testing.assert_allclose(table["h[0]"][row], alone.trace["h[0]"].iloc[-1], rtol=1e-6, atol=1e-7)
