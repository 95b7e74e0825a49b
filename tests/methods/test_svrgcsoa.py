"""SVRG-CSOA: against a NumPy loop, its linear convergence, kinks, units, its merits, its duality gap."""

from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from quadratic import DATA, EVERYTHING, PROBLEM, forty_steps, grad_f, jac, values
from scipy.optimize import minimize as scipy_minimize

import tightrope as tr
from studies.finite_sums import N, error, finite
from tightrope.lab.problems.scenarios import portfolio
from tightrope.loop.prepare import gradients_used
from tightrope.methods.conservative.svrgcsoa import Epoch, _smoothness
from tightrope.methods.merit import no_merit
from tightrope.methods.snapshot import Snapshot
from tightrope.problem.full_data import full_values


def epoch_with(epoch: Epoch, x, **sums) -> Epoch:
    """The epoch with other sums."""
    return Epoch(x, epoch.sums._replace(**{name: jnp.asarray(value) for name, value in sums.items()}).packed())


@pytest.mark.slow
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
    width, bent, bends, apart, rises = 1.8, 0.0, 0.0, 0.0, np.zeros(2)
    steps = state.steps
    for t in range(40):
        i = order[t]
        if t % 10 == 0:  # what step sizes are made of is the library's own estimate; everything else is computed here
            w = sums / taken if taken else x
            now: dict[str, Any] = {"x": jnp.asarray(x), "lam": jnp.asarray(lam), "t": jnp.asarray(t + 1, jnp.int32)}
            seen = {"lam": duals, "taken": float(taken), "bent": bent, "bends": bends, "apart": apart, "rises": rises}
            now["epoch"] = epoch_with(state.epoch, jnp.asarray(sums), **seen)
            state = refresh(PROBLEM, state._replace(**now), DATA.data)
            steps = jax.tree.map(np.asarray, state.steps)
            assert not np.any(state.epoch.packed)  # an epoch begins with nothing
            x, sums, duals, taken = w, np.zeros(3), np.zeros(2), 0
            bent, bends, apart, rises = 0.0, 0.0, 0.0, np.zeros(2)
        met = bent / (bends + taken * steps.noise) if bent > 0 else 0.0
        eta, gamma = width**2 / (max(steps.smoothness, met) + steps.weight), 0.5 * steps.gamma
        J, dJ = jac(x, i) - jac(w, i) + jac(w, EVERYTHING), jac(x, i) - jac(w, i)
        change = grad_f(x, i) - grad_f(w, i) + dJ.T @ lam
        y = x - eta * (change + grad_f(w, EVERYTHING) + jac(w, EVERYTHING).T @ lam)
        x_next = y * min(1, 0.9 / np.linalg.norm(y))
        rise = values(x, i) - values(w, i)
        bent, bends = bent + width**2 * change @ change, bends + change @ (x - w)
        apart, rises = apart + (x - w) @ (x - w) / width**2, rises + rise**2
        ahead = rise + values(w, EVERYTHING) + 2 * J @ (x_next - x)
        lam = np.maximum((1 - gamma * 0.1) * lam + gamma * (ahead + 0.05), 0)
        x, sums, duals, taken = x_next, sums + x_next, duals + lam, taken + 1
    np.testing.assert_allclose(result.last, x, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(result.dual_last, lam, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(result.x, sums / taken, rtol=1e-10, atol=1e-12)


def test_a_refresh_costs_a_pass_and_its_probe():
    """Of 31 rows: gradients far off and at the snapshot, one to find a direction, and eight products with Hessians."""
    method = tr.SVRGCSOA().for_rows(N, 31)
    assert method.refresh_every == 64
    assert gradients_used(method, 65, 31, N) == 2 * 31 * 65 + 2 * (N + 31 * (3 + 2 * 8))


def test_curvature_of_rows_counts_by_the_batch():
    """f = theta x^2 / 2 in an interval of width one: L is the mean of theta, and a batch of b adds L_max/b."""
    domain, theta = tr.Box(-0.5, 0.5, shape=1), jnp.asarray([1.0, 2.0, 9.0])
    problem = tr.Problem(lambda x, t: t * jnp.sum(x**2) / 2, None, domain)
    w, smoothness = jnp.asarray([0.25]), jax.jit(_smoothness)
    for batch in (1, 3):
        found = smoothness(problem, w, jnp.zeros(0), theta, domain.widths(w), batch)
        np.testing.assert_allclose(found, [4, 4 + 9 / batch], rtol=1e-12)


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


# ---- strangers' problems ---------------------------------------------------------------------------------------------


def shortage(x_unit=1.0, f_unit=1.0, h_unit=1.0):
    """Stock x of eight goods at cost <c, x> such that the mean shortage, summed over goods, is at most 2: the constraint is
    piecewise linear, the objective flat, the box wide."""
    rng = np.random.default_rng(0)
    demand, cost = rng.gamma(3.0, size=(512, 8)) * rng.uniform(0.5, 2, 8), rng.uniform(0.5, 2, 8)

    def objective(x, theta):
        return f_unit * jnp.dot(cost, x / x_unit)

    def constraint(x, theta):
        return h_unit * (jnp.sum(jnp.maximum(theta - x / x_unit, 0)) - 2.0)[None]

    return tr.Problem(objective, constraint, tr.Box(0.0, 1024.0 * x_unit, shape=8)), demand, cost


def shortage_optimum(demand, cost) -> float:
    """A unit of stock lowers the shortage by the share of demands above it: the cheapest ways first, until it is 2."""
    ordered, (n, goods) = np.sort(demand, axis=0)[::-1], demand.shape
    steps = [np.append(-np.diff(ordered[:, j]), ordered[-1, j]) for j in range(goods)]  # lengths on which a slope holds
    saved = np.concatenate([np.arange(1, n + 1) / n * np.ones(n) for _ in range(goods)])  # shortage per unit of stock
    lengths, prices = np.concatenate(steps), np.concatenate([np.full(n, c) for c in cost]) / saved
    order = np.argsort(prices)  # the cheapest ways to lower the shortage from that of no stock at all
    gain = np.cumsum((saved * lengths)[order])
    taken = np.clip((demand.sum(axis=1).mean() - 2.0 - np.append(0, gain[:-1])) / (saved * lengths)[order], 0, 1)
    return float(np.sum(taken * (prices * saved * lengths)[order]))


def test_kinks_in_the_constraint_and_a_flat_objective_on_a_wide_box():
    problem, demand, cost = shortage()
    result = tr.minimize(problem, demand, method="svrg-csoa", passes=200, record=0)
    optimum = shortage_optimum(demand, cost)
    assert result.objective == pytest.approx(optimum, rel=2e-3)
    assert result.violation < 2e-3


@pytest.mark.slow
def test_units_do_not_matter():
    problem, demand, _ = shortage()
    plain = tr.minimize(problem, demand, method="svrg-csoa", passes=30, record=0)
    for units in ((2.0**20, 1.0, 1.0), (1.0, 2.0**-20, 2.0**20)):  # powers of two, so that nothing is rounded
        scaled = tr.minimize(shortage(*units)[0], demand, method="svrg-csoa", passes=30, record=0)
        np.testing.assert_allclose(scaled.x / units[0], plain.x, rtol=1e-8)
        np.testing.assert_allclose(scaled.dual * units[2] / units[1], plain.dual, rtol=1e-8)


@pytest.mark.slow
def test_leaves_of_a_product_in_different_units():
    """Least squares whose weights and offset are counted in units 1e9 apart, with a bound on their mean."""
    rng = np.random.default_rng(2)
    rows = rng.normal(size=(500, 4)), rng.normal(size=500)
    truth = np.array([1.0, -1.0, 0.5, 0.0])

    def objective(x, theta):
        return (jnp.dot(theta[0], 1e3 * x["w"] - truth) + 1e-6 * x["b"] - 1.0 - theta[1]) ** 2 / 2

    def constraint(x, theta):
        return (jnp.sum(1e3 * x["w"]) + 1e-6 * x["b"])[None]

    domain = tr.Product({"w": tr.L2Ball(5e-3, shape=4), "b": tr.Box(-5e6, 5e6, shape=())})
    problem = tr.Problem(objective, constraint, domain, levels=1.0)
    result = tr.minimize(problem, rows, method="svrg-csoa", passes=60, record=0)
    A, y = np.column_stack([rows[0], np.ones(500)]), rows[0] @ truth + 1.0 + rows[1]
    H, ones = A.T @ A / 500, np.ones(5)
    solution = np.linalg.solve(np.block([[H, ones[:, None]], [ones, 0]]), np.append(A.T @ y / 500, 1.0))[:5]
    np.testing.assert_allclose(np.append(1e3 * result.x["w"], 1e-6 * result.x["b"]), solution, atol=1e-6)


@pytest.mark.slow
def test_cvar_of_a_portfolio_comes_near():
    solved = portfolio()
    result = tr.minimize(solved.problem, solved.table, method="svrg-csoa", passes=100, output="feasible", record=0)
    assert result.violation <= 0
    assert result.objective is not None
    assert 0 <= result.objective - solved.optimum <= 2e-2 * abs(solved.optimum)


# ---- merits ------------------------------------------------------------------------------------------------------------


@tr.pytree
class Untold(tr.L2Ball):
    """A ball that does not tell its linear minimisation."""

    has_lmo = False


def test_a_set_without_linear_minimisation_is_judged_by_projections():
    problem, demand, cost = shortage()
    hidden = tr.Problem(problem.objective, problem.constraints, Untold(64.0, shape=8))
    result = tr.minimize(hidden, demand, method="svrg-csoa", passes=100, record=0, x0=jnp.full(8, 8.0))
    assert result.objective == pytest.approx(shortage_optimum(demand, cost), rel=1e-2)
    assert result.violation < 1e-2


def test_an_epoch_that_went_wrong_does_not_replace_the_best_snapshot():
    problem, demand, _ = shortage()
    result = tr.minimize(problem, demand, method="svrg-csoa", passes=40, record=0)
    method, state = result.method, result.state
    best, away = state.merit.best, jnp.full(8, 1000.0)
    f, h = full_values(problem, away, jnp.asarray(demand))
    taken = state.epoch.sums.taken
    gone = epoch_with(state.epoch, taken * away, f=taken * f, h=taken * h)
    np.testing.assert_array_equal(state._replace(epoch=gone).answer[0], best.w)
    assert not np.array_equal(state.answer[0], best.w)  # a good epoch does, judged or not
    np.testing.assert_array_equal(method.snapshot(state).w, best.w)


def test_what_violates_a_constraint_is_no_point_inside():
    def inner(*h):
        snap = Snapshot(jnp.ones(2), jnp.zeros(0), jnp.asarray(3.0), jnp.asarray(h), jnp.ones(2), jnp.ones((len(h), 2)))
        merit = no_merit(snap)._replace(floor=jnp.asarray(1.0), gap=jnp.asarray(5.0))
        return tr.SVRGCSOA().inner(SimpleNamespace(merit=merit))  # pyright: ignore[reportArgumentType]

    found = inner(-0.1, -0.2)
    assert found is not None
    assert found[1:] == (5.0, 5.0)  # the gap, and the scale, which is at least that
    assert inner(-0.1, 0.2) is None
    assert inner() is None


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
    before = result.trace["gap"].dropna().iloc[:-1]
    assert len(before) > 3
    assert before.min() > 1e-5  # or it would have ended there
    assert float(result.state.merit.floor) <= optimum + 1e-9
    for tol in (0.1, 1e-3):  # what it proves early on is true as well
        early = tr.minimize(problem, data, method="svrg-csoa", tol=tol, output="feasible")
        assert early.objective is not None
        assert -1e-9 <= early.objective - optimum <= early.trace["gap"].iloc[-1] <= tol
        assert early.cost.steps < result.cost.steps
    unrecorded = tr.minimize(problem, data, method="svrg-csoa", tol=1e-5, record=0)
    assert unrecorded.trace["step"].tolist() == [result.cost.steps]  # the row at which it was met


def test_a_tolerance_needs_a_method_that_knows_a_gap():
    problem, data, _ = finite("scalar")
    with pytest.raises(TypeError, match="tol needs a duality gap, which CSOA does not know"):
        tr.minimize(problem, data, method="csoa", tol=1e-3)
    with pytest.raises(ValueError, match="tol is -1"):
        tr.minimize(problem, data, tol=-1)
