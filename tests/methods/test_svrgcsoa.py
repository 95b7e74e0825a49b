"""SVRG-CSOA: against a NumPy loop, its linear convergence, and Adult."""

from typing import Any

import cvxpy as cp
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import minimize as scipy_minimize

import tightrope as tr
from tightrope.datasets import adult_label_encoded
from tightrope.full_data import full_jacobian, full_values
from tightrope.problems import EXACT
from tightrope.sampling import Plan

N = 2000


def finite(name):
    """N samples of an exact problem as rows, and the optimum of the finite sum by cvxpy."""
    solved = EXACT[name]()
    theta = jax.tree.map(lambda a: a[0, :N, 0, 0], solved.samples.open(Plan((5,))).take(0, N).items)
    m = {key: np.asarray(value).mean(0) for key, value in theta.items()}
    x = cp.Variable(len(solved.x))
    if name == "ball":  # a linear function on a ball around -b/k: by hand
        a, b, e = np.array([0.6, 0, -0.8, 0, 0]) + 0.5 * m["g"], 0.2 * m["w"], 0.2 * m["v"] - 0.5
        k = ((1 + np.asarray(theta["u"]) ** 2) / 2).mean()
        radius = np.sqrt(b @ b / k**2 - 2 * e / k)
        return solved.problem, tr.Rows(theta), float(-a @ b / k - np.linalg.norm(a) * radius)
    if name == "simplex":
        rows = np.array([[1, -1, 0, 0.5, 0], [0, 1, -1, 0, 0.5]])
        objective = cp.sum_squares(x - (solved.x + rows.T @ solved.dual)) / 2 + 0.5 * m["g"] @ x
        sides = (rows + 0.5 * m["w"]) @ x - rows @ solved.x + 0.2 * m["v"]
        constraints = [sides <= 0, x >= 0, cp.sum(x) == 1]
    elif name == "scalar":
        objective = cp.sum_squares(x - 2) / 2 + m["g"] * x[0]
        constraints = [(1 + 0.5 * m["w"][0]) * x[0] - 1 + 0.5 * m["v"][0] <= 0, x >= -1, x <= 2]
    else:
        cost = np.array([-2.0, -1.0] + [0.0] * 8)
        objective = (cost + 0.5 * m["g"]) @ x
        constraints = [x[0] + 0.3 * m["w"] @ x - 0.4 + 0.2 * m["v"] <= 0, cp.norm1(x) <= 1]
    model = cp.Problem(cp.Minimize(objective), constraints)
    model.solve(solver=cp.CLARABEL, tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)
    return solved.problem, tr.Rows(theta), float(np.asarray(model.value))


def error(problem, data, x, optimum):
    """Distance from the optimal value, or the violation where that is worse."""
    f, h = full_values(problem, x, data.data)
    return max(abs(float(f) - optimum), float(np.max(h)))


@pytest.mark.parametrize("name", EXACT)
def test_the_error_falls_tenfold_every_two_epochs_until_rounding(name):
    problem, data, optimum = finite(name)
    epoch = tr.SVRGCSOA().for_rows(N, 31).refresh_every
    assert epoch == 64
    errors = {}
    for epochs in (2, 4, 6, 8):
        result = tr.minimize(problem, data, method="svrg-csoa", steps=epochs * epoch, record=0)
        errors[epochs] = max(error(problem, data, result.x, optimum), 1e-9)  # cvxpy's accuracy
    for epochs in (2, 4, 6):
        assert errors[epochs + 2] <= max(errors[epochs] / 10, 1e-9)


@pytest.mark.parametrize("name", ["l1-lp", "simplex"])
def test_it_is_never_worse_than_csoa_at_equal_passes(name):
    problem, data, optimum = finite(name)
    for seed in range(5):
        for passes in (6, 15):
            ours, theirs = (
                error(
                    problem, data, tr.minimize(problem, data, method=m, passes=passes, seed=seed, record=0).x, optimum
                )
                for m in ("svrg-csoa", "csoa")
            )
            assert ours <= theirs


def test_forty_steps_equal_a_numpy_loop():
    rng = np.random.default_rng(3)
    a, rows, c = rng.normal(size=(20, 3)), rng.normal(size=(20, 2, 3)), rng.normal(size=(20, 2))

    def f(x, theta):
        return jnp.sum((x - theta["a"]) ** 2) / 2

    def h(x, theta):
        return theta["B"] @ x + jnp.sum(x**2) / 4 - theta["c"]

    data = tr.Rows({"a": a, "B": rows, "c": c})
    problem = tr.Problem(f, h, tr.L2Ball(0.9, shape=3))
    method = tr.SVRGCSOA(upsilon=0.05, r=0.1, refresh_every=10)
    result = tr.minimize(problem, data, method=method, steps=40, batch_size=4, seed=2)
    order = np.asarray(data.open(Plan((2,), 1, 4)).take(0, 40).items)[0, :, 0]

    def grad_f(x, i):
        return x - a[i].mean(0)

    def values(x, i):
        return rows[i].mean(0) @ x + x @ x / 4 - c[i].mean(0)

    def jac(x, i):
        return rows[i].mean(0) + x / 2

    everything = np.arange(20)
    fitted = method.for_rows(20, 4)
    state = fitted.init(problem, jnp.zeros(3), jnp.zeros(2), jnp.asarray(40))
    x, lam, w, sums, taken, eta, gamma = np.zeros(3), np.zeros(2), np.zeros(3), np.zeros(3), 0, 0.0, 0.0
    for t in range(40):
        i = order[t]
        if t % 10 == 0:  # step sizes are the library's own estimates; everything else is computed here
            w = sums / taken if taken else x
            now = {"x": x, "lam": lam, "x_sum": sums, "taken": float(taken)}
            state = state._replace(t=jnp.asarray(t + 1, jnp.int32), **{k: jnp.asarray(v) for k, v in now.items()})
            state = fitted.refresh(problem, state, data.data)
            eta, gamma = float(state.steps.eta), float(state.steps.gamma)
            x, sums, taken = w, np.zeros(3), 0
        J = jac(x, i) - jac(w, i) + jac(w, everything)
        y = x - eta * (grad_f(x, i) - grad_f(w, i) + grad_f(w, everything) + J.T @ lam)
        x_next = y * min(1, 0.9 / np.linalg.norm(y))
        ahead = values(x, i) - values(w, i) + values(w, everything) + 2 * J @ (x_next - x)
        lam = np.maximum((1 - gamma * 0.1) * lam + gamma * (ahead + 0.05), 0)
        x, sums, taken = x_next, sums + x_next, taken + 1
    np.testing.assert_allclose(result.last, x, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(result.dual_last, lam, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(result.x, sums / taken, rtol=1e-10, atol=1e-12)


def test_a_pass_over_all_rows_equals_the_mean_of_jacobians():
    problem, data, _ = finite("simplex")
    x = jnp.asarray([0.3, 0.3, 0.2, 0.1, 0.1])
    whole = full_jacobian(problem, x, data.data, rows_a_slice=300)  # 2,000 rows are no multiple
    at_once = problem.jacobian(x, data.data)
    for ours, theirs in zip(whole, at_once, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-14)


def test_resumed_in_the_middle_of_an_epoch_it_equals_an_uninterrupted_run(tmp_path):
    problem, data, _ = finite("scalar")
    settings: dict[str, Any] = {"method": "svrg-csoa", "steps": 100}
    whole = tr.minimize(problem, data, **settings)
    tr.minimize(problem, data, **settings, checkpoint=tmp_path / "c", callback=lambda s: s.step >= 40, chunk=3)
    resumed = tr.minimize(problem, data, **settings, checkpoint=tmp_path / "c", chunk=17)
    jax.tree.map(np.testing.assert_array_equal, (whole.x, whole.state), (resumed.x, resumed.state))


# ---- Adult -----------------------------------------------------------------------------------------------------------

C = 0.05


def loss(x, theta, covariance):
    return jnp.logaddexp(0.0, -theta[1] * jnp.dot(theta[0], x))


def exact(x, covariance):
    q = jnp.dot(covariance, x)
    return jnp.stack([q, -q])


@pytest.fixture(scope="module")
def adult():
    X, y, s = adult_label_encoded()
    s = s - s.mean()
    v = (s[:, None] * X).mean(0)

    def value(x):
        return np.logaddexp(0, -y * (X @ x)).mean()

    def gradient(x):
        return -(X * (y / (1 + np.exp(y * (X @ x))))[:, None]).mean(0)

    sides = [
        {"type": "ineq", "fun": lambda x: C - v @ x, "jac": lambda x: -v},
        {"type": "ineq", "fun": lambda x: C + v @ x, "jac": lambda x: v},
    ]
    best = scipy_minimize(
        value, np.zeros(14), jac=gradient, method="SLSQP", constraints=sides, options={"ftol": 1e-15, "maxiter": 500}
    )
    return X, y, s, v, value, float(best.fun)


@pytest.mark.parametrize(("precision", "gap"), [("float64", 1e-6), ("float32", 1e-5)])
def test_adult_in_fifteen_passes_feasible_to_six_digits(adult, precision, gap):
    X, y, s, v, value, optimum = adult
    with jax.enable_x64(precision == "float64"):
        data = tr.Rows(tuple(a.astype(precision) for a in (X, y, s)))
        problem = tr.Problem(
            loss, None, tr.L2Ball(10.0, shape=14), levels=C, params=jnp.asarray(v, precision), exact_constraints=exact
        )
        for seed in range(5):
            result = tr.minimize(problem, data, passes=15, seed=seed, output="feasible", record=0)
            assert result.trace["passes"].iloc[-1] <= 15
            x = np.asarray(result.x, np.float64)
            assert value(x) - optimum <= gap
            assert abs((s * (X @ x)).mean()) <= C
            assert result.dual[0] == pytest.approx(0.3067, abs=2e-3)


# ---- the duality gap -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", EXACT)
def test_the_gap_is_a_true_bound_and_stops_the_run(name):
    problem, data, optimum = finite(name)
    result = tr.minimize(problem, data, method="svrg-csoa", tol=1e-5, output="feasible")
    assert result.status is tr.Status.TOLERANCE
    assert "The gap is" in str(result)
    last = result.trace["gap"].iloc[-1]
    assert last <= 1e-5
    assert result.objective is not None
    assert -1e-9 <= result.objective - optimum <= last + 1e-9
    bounds = result.trace["gap"].dropna()
    assert bounds.is_monotonic_decreasing or bounds.min() == last
    assert float(result.state.bound) <= optimum + 1e-9


def test_a_tolerance_needs_a_method_that_knows_a_gap():
    problem, data, _ = finite("scalar")
    with pytest.raises(TypeError, match="tol needs a duality gap, which CSOA does not know"):
        tr.minimize(problem, data, method="csoa", tol=1e-3)
    with pytest.raises(ValueError, match="tol is -1"):
        tr.minimize(problem, data, tol=-1)
