"""Switching, proximal, extrapolating, tracking, adaptive and feasible methods against plain NumPy loops and solvers."""

import cvxpy as cp
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from as_printed import DATA, RADIUS, D, N, assert_ends, ball, close, f, grad_f, h, in_order, jac_h, value_h

import tightrope as tr
from tightrope.lab.methods.primal.csa import CSA, MultiCSA
from tightrope.lab.methods.primal.pfs import PFS
from tightrope.lab.methods.primal_dual.aprid import APriD, metric
from tightrope.lab.methods.primal_dual.conex import ConEx
from tightrope.lab.methods.primal_dual.sapmm import SAPMM
from tightrope.lab.methods.primal_dual.slpmm import SLPMM, proximal_rounds
from tightrope.methods.conservative.cscgd import CSCGD, CSCGDState
from tightrope.methods.conservative.csoa import CSOAState
from tightrope.tree import replace

T = 50
PROBLEM = tr.Problem(f, h, tr.L2Ball(RADIUS, shape=D), levels=0.0)


def run(method, problem=PROBLEM, **options):
    """T steps on the rows in their order."""
    return tr.minimize(problem, in_order(), method=method, steps=T, **options)


# ---- NumPy ------------------------------------------------------------------------------------------------------------


def csa_in_numpy(gamma, eta, pick):
    x, points = np.zeros(D), []
    for t in range(T):
        estimate = value_h(x, 2 * t + 1)
        if max(estimate) <= eta:
            points.append(x)
            g = grad_f(x, 2 * t)
        else:
            g = jac_h(x, 2 * t)[pick(t, estimate)]
        x = ball(x - gamma * g)
    return x, points


def random_pick(eta):
    lots = np.asarray(jax.jit(jax.vmap(lambda t: jax.random.uniform(jax.random.key(t), (N,))))(jnp.arange(1, T + 1)))

    def pick(t, estimate):
        violated = [i for i in range(N) if estimate[i] > eta]
        return max(violated, key=lambda i: lots[t][i])

    return pick


@pytest.mark.parametrize("choice", ["worst", "random"])
def test_csa_equals_a_numpy_loop(choice):
    gamma, eta = 1.3 / np.sqrt(T), 2.0 / np.sqrt(T)
    pick = random_pick(eta) if choice == "random" else lambda t, estimate: int(np.argmax(estimate))
    result = run(CSA(1.3, 2.0) if choice == "worst" else MultiCSA(1.3, 2.0))
    x, points = csa_in_numpy(gamma, eta, pick)
    assert 10 < len(points) < T - 10  # both kinds of steps
    close(result.last, x)
    close(result.x, np.mean(points, axis=0))
    assert np.all(np.isnan(result.dual))  # it estimates none


def test_csa_that_is_never_within_the_tolerance_gives_its_last_iterate():
    result = run(CSA(1.3, 2.0), tr.Problem(f, h, tr.L2Ball(RADIUS, shape=D), levels=-100.0))
    np.testing.assert_array_equal(result.x, result.last)


def augmented_in_numpy(x0, lam, sigma, alpha, gradient, value, curvature):
    """The proximal problem on the ball, by many short gradient steps."""
    x = x0
    for _ in range(40):
        x = ball(x - (gradient(x, np.maximum(lam + sigma * value(x), 0)) + alpha * (x - x0)) / (alpha + curvature))
    return x, np.maximum(lam + sigma * value(x), 0)


@pytest.mark.parametrize("kind", [SLPMM, SAPMM])
def test_proximal_methods_equal_a_numpy_loop(kind):
    result = run(kind(alpha0=50.0, sigma0=2.0, rounds=3))
    alpha, sigma = 50.0 * np.sqrt(T), 2.0 / np.sqrt(T)
    x, lam, points, duals = np.zeros(D), np.zeros(N), [], []
    for t in range(T):
        points.append(x)
        duals.append(lam)

        def gradient(p, mu, at=x, t=t):
            point = at if kind is SLPMM else p
            return grad_f(point, t) + jac_h(point, t).T @ mu

        def value(p, at=x, t=t):
            return value_h(at, t) + jac_h(at, t) @ (p - at) if kind is SLPMM else value_h(p, t)

        x, lam = augmented_in_numpy(x, lam, sigma, alpha, gradient, value, curvature=20.0)
    assert_ends(result, points, duals, x, lam, atol=1e-6)


def test_conex_equals_a_numpy_loop():
    result = run(ConEx(eta0=0.7, tau0=0.4))
    eta, tau = 0.7 * np.sqrt(T), 0.4 * np.sqrt(T)
    x = before = np.zeros(D)
    y, ell_before, points, duals = np.zeros(N), None, [], []
    for t in range(T):
        ell = value_h(before, 2 * t + 1) + jac_h(before, 2 * t + 1) @ (x - before)
        s = ell if ell_before is None else ell + (ell - ell_before)
        y = np.maximum(y + s / tau, 0)
        x, before = ball(x - (grad_f(x, 2 * t) + jac_h(x, 2 * t).T @ y) / eta), x
        ell_before = ell
        points.append(x)
        duals.append(y)
    assert_ends(result, points, duals, x, y)


def test_cscgd_equals_a_numpy_loop():
    result = run(CSCGD(eta0=3.0, beta0=2.0, delta=0.2, upsilon0=0.7))
    eta, beta, upsilon = 3.0 * T**-0.75, 2.0 * T**-0.5, 0.7 * T**-0.25
    x, lam, z, points, duals = np.zeros(D), np.zeros(N), None, [], []
    for t in range(T):
        points.append(x)
        duals.append(lam)
        z = value_h(x, t) if z is None else (1 - beta) * z + beta * value_h(x, t)
        g = grad_f(x, t) + jac_h(x, t).T @ lam
        lam = np.maximum((1 - eta**2 * 0.2) * lam + eta * (z + upsilon), 0)
        x = ball(x - eta * g)
    assert_ends(result, points, duals, x, lam)


def test_cscgd_that_does_not_track_is_csoa():
    theta = jax.tree.map(lambda v: jnp.asarray(v[:3]), DATA)
    x, lam, t = jnp.array([0.1, -0.4, 0.3, 0.2]), jnp.array([0.5, 2.0]), jnp.asarray(7)
    plain = tr.CSOA(eta0=3.0 * T**-0.25, delta=0.2, upsilon0=0.7 * T**0.25)
    tracked = CSCGD(eta0=3.0, beta0=100.0, delta=0.2, upsilon0=0.7)
    one = jax.jit(CSCGD.step)(tracked, PROBLEM, CSCGDState(x, lam, jnp.ones(N), t, jnp.asarray(T)), theta)[0]
    two = jax.jit(tr.CSOA.step)(plain, PROBLEM, CSOAState(x, lam, t, jnp.asarray(T)), theta)[0]
    close(one.x, two.x)
    close(one.lam, two.lam)


def test_aprid_equals_a_numpy_loop():
    problem = tr.Problem(f, h, tr.Box(-RADIUS, RADIUS, shape=D))
    result = run(APriD(alpha0=0.8, rho0=1.5, beta1=0.7, beta2=0.9, clip=5.0), problem)
    x, z, m, v, vhat = np.zeros(D), np.zeros(N), np.zeros(D), np.zeros(D), np.zeros(D)
    points, duals, weights = [], [], []
    for k in range(1, T + 1):
        points.append(x)
        duals.append(z)
        weights.append(1 - 0.7 ** (T - k + 1))
        u = grad_f(x, 2 * k - 2) + jac_h(x, 2 * k - 2).T @ z
        m = 0.7 * m + 0.3 * u
        v = 0.9 * v + 0.1 * u**2 / max(1, u @ u / 5.0)
        vhat = np.maximum(vhat, v)
        z = np.maximum(z + 1.5 / np.sqrt(T) * value_h(x, 2 * k - 1), 0)
        x = np.clip(x - 0.8 / np.sqrt(T) * m / np.sqrt(vhat), -RADIUS, RADIUS)
    assert_ends(result, points, duals, x, z, weights)


def test_aprid_scales_every_coordinate_alike_where_the_set_is_no_box():
    v = {"w": jnp.array([1.0, 4.0]), "b": jnp.array(9.0)}
    for domain in (tr.L2Ball(1.0), tr.Simplex()):
        assert jax.tree.map(np.ndarray.tolist, jax.tree.map(np.asarray, metric(domain, v))) == {"w": [9, 9], "b": 9}
    for domain in (tr.Box(0.0, 1.0), tr.LinfBall(1.0)):
        assert metric(domain, v) is v


def test_pfs_equals_a_numpy_loop():
    rows, levels = DATA["B"][0], np.array([0.3, 0.5])

    def exact(x):
        return jnp.asarray(rows) @ x + jnp.sum(x**2) / 4

    problem = tr.Problem(f, None, tr.L2Ball(RADIUS, shape=D), levels=levels, exact_constraints=exact)
    result = run(PFS(eta0=0.9, rho0=0.6), problem)
    x, points, used = np.zeros(D), [], set()
    for t in range(T):
        points.append(x)
        values = rows @ x + np.sum(x**2) / 4 - levels
        i = int(np.argmax(values))
        s = rows[i] + x / 2
        y = x - 0.9 / np.sqrt(T) * grad_f(x, t)
        excess = max(values[i] + s @ (y - x) + 0.6 / np.sqrt(T), 0)
        used |= {i} if excess > 0 else set()
        x = ball(y - excess * s / (s @ s))
    assert used  # the constraint pushed
    close(result.last, x)
    close(result.average, np.mean(points, axis=0))


# ---- one step of the proximal methods against solvers -----------------------------------------------------------------


def one_step(method, problem, x, lam, horizon):
    theta = jax.tree.map(lambda v: jnp.asarray(v[:1]), DATA)
    state = method.init(problem, jnp.asarray(x), jnp.asarray(lam), jnp.asarray(horizon))
    return jax.jit(type(method).step)(method, problem, state, theta)[0]


@pytest.mark.parametrize("kind", [SLPMM, SAPMM])
def test_one_step_equals_cvxpy(kind):
    x0, lam = np.array([0.1, 0.4, 0.3, 0.2]), np.array([0.5, 2.0])
    after = one_step(kind(), tr.Problem(f, h, tr.Simplex(shape=D)), x0, lam, 400)
    p, alpha, sigma = cp.Variable(D), 20.0, 1 / 20
    d = p - x0
    if kind is SLPMM:
        objective, constraint = grad_f(x0, 0) @ d, value_h(x0, 0) + jac_h(x0, 0) @ d
    else:
        objective = cp.sum_squares(p - DATA["a"][0]) / 2
        constraint = DATA["B"][0] @ p + cp.sum_squares(p) / 4 - DATA["c"][0]
    penalty = cp.sum_squares(cp.pos(lam + sigma * constraint)) / (2 * sigma)
    whole = cp.Minimize(objective + penalty + alpha / 2 * cp.sum_squares(d))
    simplex: list = [p >= 0, cp.sum(p) == 1]
    cp.Problem(whole, simplex).solve(solver="CLARABEL", tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)
    assert np.linalg.norm(np.asarray(after.x) - x0) > 0.01
    np.testing.assert_allclose(after.x, np.asarray(p.value), atol=1e-6)
    np.testing.assert_allclose(after.lam, np.maximum(lam + sigma * constraint.value, 0), atol=1e-6)


def first_h(x, theta):
    return h(x, theta)[:1]


@pytest.mark.parametrize(("multiplier", "level"), [(0.0, 5.0), (2.0, 0.0)])  # the penalty idle, and at work
def test_slpmm_with_one_constraint_and_no_set_has_a_closed_form(multiplier, level):
    x0, horizon = np.array([0.1, -0.4, 0.3, 0.2]), 400
    problem = tr.Problem(f, first_h, tr.L2Ball(100.0, shape=D), levels=level)
    after = one_step(SLPMM(), problem, x0, [multiplier], horizon)
    alpha, sigma = np.sqrt(horizon), 1 / np.sqrt(horizon)
    value, v_h, v_f = value_h(x0, 0)[0] - level, jac_h(x0, 0)[0], grad_f(x0, 0)
    a = np.sqrt(sigma / alpha) * v_h
    b = multiplier / np.sqrt(sigma * alpha) + np.sqrt(sigma / alpha) * value - a @ x0
    c = v_f / alpha - x0
    w = b * a + c
    wanted = -c if b - a @ c < 0 else -w + a * (a @ w) / (1 + a @ a)
    np.testing.assert_allclose(after.x, wanted, atol=1e-9)
    assert (float(after.lam[0]) > 0) == (multiplier > 0)


def test_rounds_on_a_function_more_curved_than_was_said_still_converge():
    def gradient(x):  # 500 (x - 1/2)^2 + (x - 1)^2/2: a first step of 1 overshoots a thousandfold
        return 1000 * (x - 0.5) + x - 1

    x = jnp.ones(1)
    found = proximal_rounds(gradient, gradient(x), lambda p: jnp.clip(p, -2, 2), x, jnp.ones(()), rounds=4)
    np.testing.assert_allclose(found, [501 / 1001], rtol=1e-9)


# ---- what they promise ------------------------------------------------------------------------------------------------


def test_every_iterate_of_pfs_is_feasible_with_its_margin_and_not_without():
    # min <a, x> s.t. |x|^2/2 <= 1/2, from the solution's side of zero, with bounded noise in the gradients
    a, noise = np.array([0.6, -0.8]), np.random.default_rng(12).uniform(-1, 1, size=(1000, 1, 2))
    problem = tr.Problem(
        lambda x, theta: jnp.dot(jnp.asarray(a) + theta, x),
        None,
        tr.L2Ball(2.0, shape=2),
        exact_constraints=lambda x: (jnp.dot(x, x) / 2 - 0.5)[None],
    )

    @jax.jit
    def values(rho0):
        method = replace(PFS(), rho0=rho0)
        state = method.init(problem, jnp.asarray(-0.9 * a), jnp.zeros(1), jnp.asarray(1000))
        return jax.lax.scan(lambda state, theta: method.step(problem, state, theta), state, jnp.asarray(noise))[1].h

    assert np.mean(np.asarray(values(0.0)) > 0) > 0.5
    assert np.max(values(2.0)) <= 0
    assert np.max(values(2.0)) > -0.15  # and the boundary is near: rho is 0.06


def test_a_constraint_of_multi_csa_is_any_of_the_violated():
    estimate, eta = jnp.array([0.5, -1.0, 0.2, 0.1]), jnp.asarray(0.15)
    picks = np.asarray(jax.jit(jax.vmap(lambda t: MultiCSA().choose(estimate, eta, t)))(jnp.arange(1, 401)))
    np.testing.assert_array_equal(picks.sum(axis=1), 1)
    np.testing.assert_allclose(picks.mean(axis=0), [0.5, 0, 0.5, 0], atol=0.1)
    np.testing.assert_array_equal(MultiCSA(choice="worst").choose(estimate, eta, jnp.asarray(1)), [1, 0, 0, 0])


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: MultiCSA(choice="best"), "MultiCSA: choice is 'best'; expected one of random, worst"),  # pyright: ignore[reportArgumentType]
        (lambda: SAPMM(rounds=0), "SAPMM: rounds is 0; expected a whole number of at least 1"),
        (
            lambda: CSCGD(eta0=100.0, delta=10.0).steps.check(100),
            "CSCGD: eta.2 delta is 100 at 100 steps; expected less than 1",
        ),
    ],
)
def test_coefficients_that_cannot_work_are_refused(make, sentence):
    with pytest.raises(ValueError, match=sentence):
        make()


def test_rounds_are_counted_and_margins_known():
    assert SLPMM(rounds=3).steps.cost(10) == tr.Cost(samples=10, gradients=10, projections=30)
    assert SAPMM(rounds=3).steps.cost(10) == tr.Cost(samples=10, gradients=30, projections=30)
    for kind in (SLPMM, SAPMM):
        assert kind().steps.cost(1) == kind.cost
    assert PFS(rho0=3.0).steps.tightening(100) == pytest.approx(0.3)
