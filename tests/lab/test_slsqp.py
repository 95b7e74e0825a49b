"""The batch reference against cvxpy and against solutions that are known."""

import cvxpy as cp
import jax.numpy as jnp
import numpy as np
import pytest

import tightrope as tr
from tightrope.learn.problems.fair import fair_classification
from tightrope.slsqp import slsqp

RNG = np.random.default_rng(3)


@pytest.fixture(scope="module")
def fair():
    n = 300
    s = RNG.random(n) < 0.4
    X = np.column_stack([RNG.normal(size=(n, 3)) + 0.8 * s[:, None], np.ones(n)])
    y = np.where(X @ [1.0, -0.5, 0.3, 0.1] + 0.5 * RNG.logistic(size=n) > 0, 1, -1)
    return X, y, s


@pytest.mark.parametrize(("threshold", "radius"), [(0.02, 10.0), (0.02, 1.0)])  # without and with the ball
def test_fair_logistic_regression_equals_cvxpy(fair, threshold, radius):
    X, y, s = fair
    problem, data = fair_classification(X, y, s, threshold=threshold, radius=radius)
    result = slsqp(problem, data)
    w = cp.Variable(4)
    cov = (s - s.mean()) @ X / len(y)
    sides = [cov @ w <= threshold, -cov @ w <= threshold]
    loss = cp.sum(cp.logistic(cp.multiply(-y, X @ w))) / len(y)
    answer = cp.Problem(cp.Minimize(loss), [*sides, cp.norm(w) <= radius])
    answer.solve(solver="CLARABEL")
    assert result.objective == pytest.approx(answer.value, abs=1e-8)
    np.testing.assert_allclose(result.x, np.asarray(w.value), atol=1e-4)
    np.testing.assert_allclose(result.dual, [float(side.dual_value) for side in sides], atol=1e-4)
    assert max(result.dual) > 0.1  # the constraint is at work
    assert np.max(result.constraints) < 1e-9
    assert result.residual < 1e-5
    assert result.evaluations < 100


def test_box_and_simplex_by_hand():
    # min |x - (3, 0.2)|^2/2 on [0, 1]^2 with x_1 + x_2 <= 1: x = (1, 0), where the constraint's multiplier is 0.2.
    rows = np.array([[2.0, 0.1], [4.0, 0.3]])

    def f(x, theta):
        return jnp.sum((x["p"] - theta) ** 2) / 2

    def h(x, theta):
        return jnp.sum(x["p"])[None]

    box = slsqp(tr.Problem(f, h, tr.Box(0.0, 1.0, shape={"p": 2}), levels=1.0), rows)
    np.testing.assert_allclose(box.x["p"], [1.0, 0.0], atol=1e-7)
    assert 0.2 - 1e-6 <= box.dual[0] <= 2.0 + 1e-6  # any of these, with the bounds' own
    assert box.residual < 1e-6
    # On the simplex, with x_1 <= 0.4: x = (0.4, 0.6), and (0.4 - 3) + lambda = 0.6 - 0.2.
    simplex = slsqp(tr.Problem(f, lambda x, theta: x["p"][:1], tr.Simplex(shape={"p": 2}), levels=0.4), tr.Rows(rows))
    np.testing.assert_allclose(simplex.x["p"], [0.4, 0.6], atol=1e-8)
    np.testing.assert_allclose(simplex.dual, [3.0], rtol=1e-6)


def test_without_constraints_it_is_plain_minimisation():
    problem = tr.Problem(lambda x, theta: jnp.sum((x - theta) ** 2) / 2, None, tr.LinfBall(5.0, shape=2))
    result = slsqp(problem, np.array([[1.0, 2.0], [3.0, -1.0]]))
    np.testing.assert_allclose(result.x, [2.0, 0.5], atol=1e-7)
    assert result.dual.shape == result.constraints.shape == (0,)


def test_what_it_cannot_do_is_refused_in_a_sentence():
    problem = tr.Problem(lambda x, theta: jnp.sum(x * theta), None, tr.L1Ball(1.0, shape=2))
    with pytest.raises(TypeError, match="cannot write down L1Ball; expected a Box"):
        slsqp(problem, np.ones((3, 2)))
    with pytest.raises(TypeError, match="looks at all the data and a Stream was given"):
        slsqp(problem, tr.Stream(lambda skip: iter([np.ones((3, 2))])))
    steep = tr.Problem(lambda x, theta: jnp.sum((x - theta) ** 4), None, tr.L2Ball(9.0, shape=2))
    with pytest.raises(RuntimeError, match="SLSQP gave up"):
        slsqp(steep, np.arange(6.0).reshape(3, 2), max_iterations=1)
