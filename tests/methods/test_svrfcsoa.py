"""SVRF-CSOA: against a NumPy loop, its convergence, FW-CSOA at equal passes, and sets without a projection."""

import jax.numpy as jnp
import numpy as np
import pytest
from quadratic import EVERYTHING, forty_steps, grad_f, jac, values

import tightrope as tr
from studies.finite_sums import N, error, finite
from tightrope.loop.prepare import gradients_used


@pytest.mark.slow
def test_the_error_falls_eightfold_with_four_times_the_passes():
    problem, data, optimum = finite("ball")
    bounds = {15: 4e-3, 60: 2e-4}
    errors = {}
    for passes, bound in bounds.items():
        result = tr.minimize(problem, data, method="svrf-csoa", passes=passes, record=0)
        errors[passes] = error(problem, data, result.x, optimum)
        assert errors[passes] <= bound
    assert errors[60] <= errors[15] / 8


def test_forty_steps_equal_a_numpy_loop():
    method = tr.SVRFCSOA(dual_scale=0.7, upsilon=0.05, r=0.1, refresh_every=10)
    result, order = forty_steps(method)

    def vertex(d):
        return -0.9 * d / np.linalg.norm(d)

    probed = np.arange(0, 20, 2)[:8]
    x, lam, gradient, jacobian = np.zeros(3), np.zeros(2), 0.0, 0.0
    w, gamma, past, weights, duals = x, 0.0, [], [], []
    for t in range(1, 41):
        i = order[t - 1]
        if t % 10 == 1:
            w = np.average(past, axis=0, weights=weights) if past else x
            far = vertex(grad_f(w, EVERYTHING))
            seen = [(w, EVERYTHING)] + ([(far, probed)] if t == 1 else [])
            gradient = max(gradient, *(np.linalg.norm(grad_f(*at)) for at in seen), 0)
            jacobian = max(jacobian, *(np.linalg.norm(jac(*at), 2) for at in seen), 0)
            gamma = 0.7 * gradient / (jacobian**2 * 1.8)
        J = jac(x, i) - jac(w, i) + jac(w, EVERYTHING)
        d = grad_f(x, i) - grad_f(w, i) + grad_f(w, EVERYTHING) + J.T @ lam
        x_next = x + 2 / (t + 2) * (vertex(d) - x)
        ahead = values(x, i) - values(w, i) + values(w, EVERYTHING) + 2 * J @ (x_next - x)
        past, weights, duals = [*past, x], [*weights, t**2], [*duals, lam]
        lam = np.maximum((1 - gamma * 0.1) * lam + gamma * (ahead + 0.05), 0)
        x = x_next
    np.testing.assert_allclose(result.last, x, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(result.dual_last, lam, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(result.x, np.average(past, axis=0, weights=weights), rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(result.dual, np.average(duals, axis=0, weights=weights), rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(result.state.x_mean, result.x, rtol=1e-10, atol=1e-12)


def test_a_pass_counts_the_refreshes_too():
    problem, data, _ = finite("scalar")
    method = tr.SVRFCSOA().for_rows(N, 31)
    assert method.refresh_every == 64
    result = tr.minimize(problem, data, method="svrf-csoa", passes=15, record=0)
    refreshes = -(-result.cost.steps // 64)
    assert result.cost.lmos == result.cost.steps + refreshes  # each looks where the objective pulls
    assert result.cost.projections == 0
    expected = 2 * 31 * result.cost.steps + refreshes * (N + 31)  # a pass, and the rows looked at elsewhere
    assert gradients_used(method, result.cost.steps, 31, N) == expected == result.cost.gradients
    assert result.trace["passes"].iloc[-1] == expected / N <= 15


def test_it_works_on_a_nuclear_ball():
    rng = np.random.default_rng(0)
    target = np.outer(rng.normal(size=6), rng.normal(size=4))
    target /= np.linalg.norm(target)
    rows = target + 0.3 * rng.normal(size=(640, 6, 4))
    rows += target - rows.mean(0)

    def f(x, theta):
        return jnp.sum((x - theta) ** 2) / 2 - jnp.sum(theta**2) / 2

    def h(x, theta):  # <target, x> <= 1/2, in the mean
        return (jnp.sum(theta * x) - 0.5)[None]

    problem = tr.Problem(f, h, tr.NuclearBall(2.0, shape=(6, 4)))
    result = tr.minimize(problem, rows, method="svrf-csoa", passes=60)
    np.testing.assert_allclose(result.x, target / 2, atol=0.02)
    assert result.dual[0] == pytest.approx(0.5, abs=0.02)
    assert result.violation <= 1e-3


@pytest.mark.slow
def test_it_works_on_a_polytope():
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(640, 3))
    rows += np.array([-3.0, -2.0, -1.0]) - rows.mean(0)
    triangle = tr.Polytope(np.vstack([-np.eye(3), np.ones((1, 3))]), np.array([0.0, 0.0, 0.0, 1.0]))
    problem = tr.Problem(lambda x, theta: theta @ x, lambda x, theta: x[:1] - 0.25, triangle)
    result = tr.minimize(problem, rows, method="svrf-csoa", passes=60)
    np.testing.assert_allclose(result.x, [0.25, 0.75, 0.0], atol=2e-3)
    assert result.dual[0] == pytest.approx(1.0, abs=0.02)


@pytest.mark.slow
def test_the_gap_is_a_true_bound_and_stops_the_run():
    problem, data, optimum = finite("l1-lp")
    result = tr.minimize(problem, data, method="svrf-csoa", tol=1e-2, output="feasible")
    assert result.status is tr.Status.TOLERANCE
    last = result.trace["gap"].iloc[-1]
    assert last <= 1e-2
    assert result.objective is not None
    assert -1e-9 <= result.objective - optimum <= last + 1e-9


def test_without_constraints_it_is_frank_wolfe_with_snapshots():
    rows = np.random.default_rng(2).normal(size=(640, 5)) + 1
    problem = tr.Problem(lambda x, theta: jnp.sum((x - theta) ** 2) / 2, None, tr.L1Ball(1.0, shape=5))
    ours = tr.minimize(problem, rows, method="svrf-csoa", passes=60)
    theirs = tr.minimize(problem, rows, method="svrg-csoa", passes=30)
    assert ours.objective == pytest.approx(theirs.objective, abs=1e-4)
