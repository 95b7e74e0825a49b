"""SVRG-CSOA: against a NumPy loop, its linear convergence, its duality gap."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from quadratic import DATA, EVERYTHING, PROBLEM, forty_steps, grad_f, jac, values
from scipy.optimize import minimize as scipy_minimize

import tightrope as tr
from studies.finite_sums import N, error, finite
from tightrope.problem.full_data import full_jacobian


def test_the_error_falls_tenfold_every_two_epochs_until_rounding():
    problem, data, optimum = finite("simplex")  # strongly convex; `make verify` has more
    epoch = tr.SVRGCSOA().for_rows(N, 31).refresh_every
    assert epoch == 64
    errors = {}
    for epochs in (2, 4, 6, 8):
        result = tr.minimize(problem, data, method="svrg-csoa", steps=epochs * epoch, record=0)
        errors[epochs] = max(error(problem, data, result.x, optimum), 1e-9)  # cvxpy's accuracy
    for epochs in (2, 4, 6):
        assert errors[epochs + 2] <= max(errors[epochs] / 10, 1e-9)


def test_forty_steps_equal_a_numpy_loop():
    method = tr.SVRGCSOA(upsilon=0.05, r=0.1, refresh_every=10)
    result, order = forty_steps(method)

    fitted = method.for_rows(20, 4)
    refresh = jax.jit(fitted.refresh)
    state = fitted.init(PROBLEM, jnp.zeros(3), jnp.zeros(2), jnp.asarray(40))
    x, lam, w, sums, duals, taken = np.zeros(3), np.zeros(2), np.zeros(3), np.zeros(3), np.zeros(2), 0
    eta = gamma = 0.0
    for t in range(40):
        i = order[t]
        if t % 10 == 0:  # step sizes are the library's own estimates; everything else is computed here
            w = sums / taken if taken else x
            now = {"x": x, "lam": lam, "x_sum": sums, "lam_sum": duals, "taken": float(taken)}
            state = state._replace(t=jnp.asarray(t + 1, jnp.int32), **{k: jnp.asarray(v) for k, v in now.items()})
            state = refresh(PROBLEM, state, DATA.data)
            eta, gamma = float(state.steps.eta), float(state.steps.gamma)
            x, sums, duals, taken = w, np.zeros(3), np.zeros(2), 0
        J = jac(x, i) - jac(w, i) + jac(w, EVERYTHING)
        y = x - eta * (grad_f(x, i) - grad_f(w, i) + grad_f(w, EVERYTHING) + J.T @ lam)
        x_next = y * min(1, 0.9 / np.linalg.norm(y))
        ahead = values(x, i) - values(w, i) + values(w, EVERYTHING) + 2 * J @ (x_next - x)
        lam = np.maximum((1 - gamma * 0.1) * lam + gamma * (ahead + 0.05), 0)
        x, sums, duals, taken = x_next, sums + x_next, duals + lam, taken + 1
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


def test_steps_too_long_for_where_they_lead_are_shortened():
    """Classes that are all but separable: curvature at the snapshot says nothing about a step away from it."""
    rng = np.random.default_rng(0)
    label = np.where(np.arange(64) % 2, 1.0, -1.0)
    signed = label[:, None] * np.column_stack([rng.normal(size=(64, 4)) + label[:, None], np.ones(64)])
    domain = tr.L2Ball(10.0, shape=5)
    problem = tr.Problem(lambda x, theta: jnp.logaddexp(0.0, -theta @ x), None, domain)
    result = tr.minimize(problem, signed, method="svrg-csoa", passes=1000, record=0)
    best = scipy_minimize(lambda x: np.logaddexp(0, -signed @ x).mean(), np.zeros(5), tol=1e-12)
    assert np.linalg.norm(best.x) < 10
    assert result.objective == pytest.approx(best.fun, abs=1e-8)
    assert float(result.state.steps.damping) < 1


# ---- the duality gap -------------------------------------------------------------------------------------------------


def test_the_gap_is_a_true_bound_and_stops_the_run():
    problem, data, optimum = finite("l1-lp")
    result = tr.minimize(problem, data, method="svrg-csoa", tol=1e-5, output="feasible")
    assert result.status is tr.Status.TOLERANCE
    assert "The gap is" in str(result)
    last = result.trace["gap"].iloc[-1]
    assert last <= 1e-5
    assert result.objective is not None
    assert -1e-9 <= result.objective - optimum <= last + 1e-9
    bounds = result.trace["gap"].dropna()
    assert bounds.is_monotonic_decreasing or bounds.min() == last
    assert float(result.state.snap.bound) <= optimum + 1e-9
    unrecorded = tr.minimize(problem, data, method="svrg-csoa", tol=1e-5, record=0)
    assert unrecorded.trace["step"].tolist() == [result.cost.steps]  # the row at which it was met


def test_a_tolerance_needs_a_method_that_knows_a_gap():
    problem, data, _ = finite("scalar")
    with pytest.raises(TypeError, match="tol needs a duality gap, which CSOA does not know"):
        tr.minimize(problem, data, method="csoa", tol=1e-3)
    with pytest.raises(ValueError, match="tol is -1"):
        tr.minimize(problem, data, tol=-1)
