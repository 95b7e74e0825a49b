import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from core_cases import BALL, CSOA, METHODS, PROBLEM, ROWS, assert_same_run, constraints, objective

import tightrope as tr
from tightrope.loop.prepare import tightening_ceiling
from tightrope.problem.problem import Split, constraint_names, n_constraints

X, LAM = np.array([0.3, -0.2, 0.5]), np.array([0.7, 1.1])


def close(given, wanted):
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12), given, wanted)


# ---- values and derivatives ------------------------------------------------------------------------------------------


def test_values_and_gradient_of_an_array_equal_a_hand_computation():
    theta = ROWS[0]
    f, h, g = PROBLEM.value_and_gradient(jnp.asarray(X), jnp.asarray(LAM), theta[None])
    close(f, ((X - theta) ** 2).sum() / 2)
    close(h, [X @ theta - 0.5, X[0] + 0.1 * theta[1] - 0.4])
    close(g, X - theta + LAM[0] * theta + LAM[1] * np.array([1.0, 0.0, 0.0]))


def test_values_and_gradient_of_a_pytree_equal_a_hand_computation():
    problem = tr.Problem(
        lambda x, theta: (x["w"] @ theta["a"] + x["b"] - theta["y"]) ** 2,
        lambda x, theta: (x["b"] * theta["y"])[None],
        tr.L2Ball(1.0, shape={"w": 2, "b": ()}),
    )
    w, b, a, y = np.array([1.0, 2.0]), 0.5, np.array([0.3, -0.1]), 2.0
    theta = {"a": jnp.asarray(a)[None], "y": jnp.array([y])}
    f, h, g = problem.value_and_gradient({"w": jnp.asarray(w), "b": jnp.asarray(b)}, jnp.array([3.0]), theta)
    r = w @ a + b - y
    close((f, h), (r**2, [b * y]))
    close(g, {"w": 2 * r * a, "b": 2 * r + 3.0 * y})


def test_a_batch_is_the_mean_of_its_samples():
    f, h, g = PROBLEM.value_and_gradient(jnp.asarray(X), jnp.asarray(LAM), jnp.asarray(ROWS[:5]))
    each = [PROBLEM.value_and_gradient(jnp.asarray(X), jnp.asarray(LAM), row[None]) for row in ROWS[:5]]
    for k, mean in enumerate((f, h, g)):
        close(mean, np.mean([one[k] for one in each], axis=0))


def test_objective_and_constraints_may_average_over_different_numbers_of_samples():
    f, h = PROBLEM.values(jnp.asarray(X), Split(jnp.asarray(ROWS[:2]), jnp.asarray(ROWS[:7])))
    close(f, PROBLEM.values(jnp.asarray(X), jnp.asarray(ROWS[:2]))[0])
    close(h, PROBLEM.values(jnp.asarray(X), jnp.asarray(ROWS[:7]))[1])


def test_the_jacobian_has_one_row_per_constraint():
    theta = ROWS[0]
    _, h, grad_f, rows = PROBLEM.jacobian(jnp.asarray(X), theta[None])
    close(grad_f, X - theta)
    close(rows, [theta, [1.0, 0.0, 0.0]])
    close(h, PROBLEM.values(jnp.asarray(X), theta[None])[1])


def test_values_keep_the_dtype_of_x(dtype):
    f, h, g = PROBLEM.value_and_gradient(jnp.asarray(X, dtype), jnp.asarray(LAM, dtype), jnp.asarray(ROWS[:2]))
    assert f.dtype == h.dtype == g.dtype == dtype


def test_levels_and_params_are_leaves_and_do_not_compile_again():
    traced = []

    def scaled(x, theta, params):
        traced.append(1)
        return params["scale"] * objective(x, theta)

    def head(x, theta, params):
        return x[:1]

    @jax.jit
    def value(problem, x, theta):
        return problem.values(x, theta)

    def at(scale, level):
        problem = tr.Problem(scaled, head, BALL, level, {"scale": scale})
        return value(problem, jnp.asarray(X), ROWS[:1])

    (f, h), (f2, h2) = at(1.0, 0.0), at(2.0, 0.25)
    close((f2, h2), (2 * f, h - 0.25))
    assert len(traced) == 1


def test_a_problem_may_have_no_constraints():
    problem = tr.Problem(objective, None, BALL)
    f, h, g = problem.value_and_gradient(jnp.asarray(X), jnp.zeros(0), ROWS[:1])
    assert h.shape == (0,)
    close((f, g), (((X - ROWS[0]) ** 2).sum() / 2, X - ROWS[0]))
    result = tr.minimize(problem, ROWS, steps=200)
    assert len(result.constraints) == len(result.dual) == 0
    assert result.violation == 0.0


def test_constraints_have_names():
    assert constraint_names(PROBLEM, 2) == ["h[0]", "h[1]"]
    named = tr.Problem(objective, constraints, BALL, names=["fair", "short"])  # pyright: ignore[reportArgumentType]
    assert constraint_names(named, 2) == ["fair", "short"]
    assert n_constraints(PROBLEM, jnp.asarray(X), ROWS[0]) == 2


def test_exact_constraints_replace_sampled_ones():
    problem = tr.Problem(objective, constraints, BALL, 0.1, exact_constraints=lambda x: jnp.stack([x[1], x[2]]))
    _, h, g = problem.value_and_gradient(jnp.asarray(X), jnp.asarray(LAM), ROWS[:4])
    close(h, [X[1] - 0.1, X[2] - 0.1])
    close(g, X - ROWS[:4].mean(axis=0) + np.array([0.0, LAM[0], LAM[1]]))


# ---- a user's own oracle ----------------------------------------------------------------------------------------------


def oracle(x, theta):
    """The gradients of `objective` and `constraints` by hand."""
    grad_h = jnp.stack([theta, jnp.array([1.0, 0.0, 0.0])])
    return x - theta, jnp.stack([x @ theta, x[0] + 0.1 * theta[1]]), grad_h


def oracle_with_value(x, theta):
    return (jnp.sum((x - theta) ** 2) / 2, *oracle(x, theta))


def numpy_oracle(x, theta):
    grad_h = np.stack([theta, np.array([1.0, 0.0, 0.0])])
    h = np.stack([x @ theta, x[0] + 0.1 * theta[1]])
    return ((x - theta) ** 2).sum() / 2, x - theta, h, grad_h


def from_oracle(fn, **more):
    return tr.Problem.from_oracle(fn, BALL, n_constraints=2, levels=(0.5, 0.4), **more)


@pytest.mark.parametrize("name", METHODS)
def test_a_run_with_an_oracle_equals_the_same_run_with_functions(name):
    wanted = tr.minimize(PROBLEM, ROWS, method=METHODS[name], steps=300)
    given = tr.minimize(from_oracle(oracle_with_value), ROWS, method=METHODS[name], steps=300)
    close((given.average, given.dual, given.objective), (wanted.average, wanted.dual, wanted.objective))


def test_a_run_with_a_numpy_oracle_is_the_same_and_says_that_it_is_slow():
    wanted = tr.minimize(PROBLEM, ROWS, method=CSOA, steps=300)
    given = tr.minimize(from_oracle(numpy_oracle, numpy=True), ROWS, method=CSOA, steps=300)
    close((given.average, given.dual, given.objective), (wanted.average, wanted.dual, wanted.objective))
    assert any("NumPy" in note for note in given.notes)


def test_an_oracle_without_values_reports_no_objective():
    result = tr.minimize(from_oracle(oracle), ROWS, method=CSOA, steps=300)
    close(result.average, tr.minimize(PROBLEM, ROWS, method=CSOA, steps=300).average)
    assert result.objective is None
    assert "objective" not in result.trace
    assert "not given by the oracle" in str(result)


def test_an_oracle_takes_params_batches_and_trees():
    def tree_oracle(x, theta, c):
        return {"w": c * (x["w"] - theta)}, x["w"][:1], {"w": jnp.eye(3)[:1]}

    problem = tr.Problem.from_oracle(tree_oracle, tr.L2Ball(1.0, shape={"w": 3}), n_constraints=1, params=2.0)
    _, h, g = problem.value_and_gradient({"w": jnp.asarray(X)}, jnp.array([0.5]), ROWS[:4])
    close(h, [X[0]])
    close(g["w"], 2 * (X - ROWS[:4].mean(axis=0)) + np.array([0.5, 0.0, 0.0]))


def test_an_oracle_may_have_no_constraints():
    def unconstrained(x, theta):
        return x - theta, jnp.zeros(0), jnp.zeros((0, 3))

    problem = tr.Problem.from_oracle(unconstrained, BALL, n_constraints=0)
    close(problem.value_and_gradient(jnp.asarray(X), jnp.zeros(0), ROWS[:1])[2], X - ROWS[0])


def branching(x, theta):
    return (x if float(x[0]) > 0 else -x), x[:2], jnp.eye(3)[:2]


@pytest.mark.parametrize(
    ("fn", "numpy", "error", "words"),
    [
        (lambda x, theta: x, False, ValueError, ["returned", "(grad f, h, grad h)"]),
        (lambda x, theta: (x, x[:2]), False, ValueError, ["(f, grad f, h, grad h)"]),
        (lambda x, theta: (x, x[:1], jnp.eye(3)[:1]), False, ValueError, ["h has shape (1,)", "expected (2,)"]),
        (lambda x, theta: (x, x[:2], jnp.eye(3)), False, ValueError, ["grad h", "(3, 3)", "expected (2, 3)"]),
        (lambda x, theta: (x[:2], x[:2], jnp.eye(3)[:2]), False, ValueError, ["grad f", "(2,)", "expected (3,)"]),
        (lambda x, theta: (x, x, x[:2], np.eye(3)[:2]), True, ValueError, ["f has shape (3,)"]),
        (lambda x, theta: x, True, ValueError, ["(grad f, h, grad h)"]),
        (numpy_oracle, False, TypeError, ["numpy=True"]),
        (lambda x, theta: (np.asarray(x), x[:2], np.eye(3)[:2]), False, TypeError, ["numpy=True"]),
        (branching, False, TypeError, ["numpy=True"]),
    ],
)
def test_a_wrong_oracle_is_refused_with_a_sentence(fn, numpy, error, words):
    problem = from_oracle(fn, numpy=numpy)
    with pytest.raises(error) as caught:
        tr.minimize(problem, ROWS, method=CSOA, steps=1)
    assert all(word in str(caught.value) for word in words)


def test_an_oracle_is_checked_when_it_is_given():
    with pytest.raises(TypeError, match="expected a function"):
        from_oracle(3)
    with pytest.raises(ValueError, match="expected 0 or more"):
        tr.Problem.from_oracle(oracle, BALL, n_constraints=-1)


# ---- two-sided, equality, stacked -------------------------------------------------------------------------------------


def first(x, theta):
    return x[0] * theta[0]


def two(x, theta):
    return x[:2]


def test_two_sided_is_the_pair_and_stack_lists_them_all():
    x, theta = jnp.asarray(X), jnp.asarray(ROWS[0])
    q = X[0] * ROWS[0][0]
    close(tr.two_sided(first)(x, theta), [q, -q])
    close(tr.two_sided(two)(x, theta), [*X[:2], *-X[:2]])
    close(tr.equality(first)(x, theta), [q, -q])
    close(tr.stack(two, tr.two_sided(first), first)(x, theta), [*X[:2], q, -q, q])


@pytest.mark.parametrize(
    ("constraint", "levels", "ceiling"),
    [
        (tr.two_sided(first), 0.05, 0.05),
        (tr.two_sided(first), (0.3, -0.1), 0.1),
        (tr.two_sided(two), (0.1, 0.3, 0.1, 0.2), 0.1),
        (tr.stack(two, tr.two_sided(first)), (-9.0, -9.0, 0.2, 0.4), 0.3),
        (two, 0.0, np.inf),
    ],
)
def test_the_ceiling_is_half_the_room_between_the_two_sides(constraint, levels, ceiling):
    problem = tr.Problem(objective, constraint, BALL, levels)
    assert tightening_ceiling(problem, jnp.asarray(X), ROWS[0]) == pytest.approx(ceiling)


@pytest.mark.parametrize(("make", "words"), [(tr.two_sided, "needs room"), (tr.equality, "needs a tolerance")])
def test_no_room_between_the_two_sides_is_refused(make, words):
    with pytest.raises(ValueError, match=words):
        tr.minimize(tr.Problem(objective, make(first), BALL), ROWS, steps=10)


BOTH_SIDES = tr.Problem(objective, tr.two_sided(first), BALL, levels=0.1)


def test_a_tightening_without_a_feasible_point_is_refused():
    with pytest.raises(ValueError, match="no feasible point"):
        tr.minimize(BOTH_SIDES, ROWS, method=tr.CSOA(upsilon0=1.0), steps=100)


def test_a_tightening_beyond_half_the_room_is_warned_of():
    with pytest.warns(UserWarning, match="at most half"):
        tr.minimize(BOTH_SIDES, ROWS, method=tr.CSOA(upsilon0=0.8), steps=100)


def test_a_default_tightening_gives_way_with_a_note():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = tr.minimize(BOTH_SIDES, ROWS, method="cscgd", steps=16)
        roomy = tr.minimize(BOTH_SIDES, ROWS, method="cscgd", steps=40_000)
    default: Any = tr.METHODS["cscgd"]()
    assert float(result.method.upsilon0) < default.upsilon0
    assert result.method.steps.tightening(16) == pytest.approx(0.05)  # half of 0.1
    assert any("upsilon0 was set to" in note for note in result.notes)
    assert float(roomy.method.upsilon0) == default.upsilon0
    assert not roomy.notes


def test_two_problems_made_alike_run_alike():
    assert_same_run(*(tr.minimize(BOTH_SIDES, ROWS, steps=100) for _ in range(2)))
