"""One step by hand, and a hundred steps against plain NumPy loops that share no code with the library."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from as_printed import D, N, assert_ends, ball, close, f, grad_f, h, in_order, jac_h, value_h

import tightrope as tr

T = 100


def csoa_in_numpy(steps, eta0, delta, upsilon0, s, anytime):
    x, lam, points, duals, weights = np.zeros(D), np.zeros(N), [], [], []
    for t in range(steps):
        base = t + 1 if anytime else T
        eta, upsilon = eta0 / np.sqrt(base), upsilon0 / np.sqrt(base)
        points.append(x)
        duals.append(lam)
        weights.append(eta if anytime else 1.0)
        g = grad_f(x, t) + jac_h(x, t).T @ lam
        lam_next = np.maximum((1 - eta**2 * delta) * lam + s**2 * eta * (value_h(x, t) + upsilon), 0)
        x, lam = ball(x - eta * g), lam_next
    return points, duals, x, lam, weights


def fwcsoa_in_numpy(steps, eta, gamma, rho, shrink, upsilon):
    x, lam, points, duals = np.zeros(D), np.zeros(N), [], []
    before, lam_before, d = None, None, None
    for t in range(steps):
        points.append(x)
        duals.append(lam)
        g = grad_f(x, t) + jac_h(x, t).T @ lam
        d = g if d is None else g + (1 - rho) * (d - grad_f(before, t) - jac_h(before, t).T @ lam_before)
        k = np.argmax(np.abs(d))
        s = np.zeros(D)
        s[k] = -1.5 * np.sign(d[k])
        lam_next = np.maximum((1 - shrink) * lam + gamma * (value_h(x, t) + upsilon), 0)
        before, lam_before = x, lam
        x, lam = x + eta * (s - x), lam_next
    return points, duals, x, lam


def split_csoa_in_numpy(steps, eta0, gamma0, kappa0, upsilon0, anytime, lam_radius=np.inf, q_radius=np.inf):
    """On the l1 ball of radius 1.5, with the Euclidean ball around it."""
    x, y, lam, q = np.zeros(D), np.zeros(D), np.zeros(N), np.zeros(D)
    points, duals, weights = [], [], []
    for t in range(steps):
        eta, gamma, kappa, upsilon = np.array([eta0, gamma0, kappa0, upsilon0]) / np.sqrt(t + 1 if anytime else T)
        if t > 0:
            k = np.argmax(np.abs(q))
            x = np.zeros(D)
            x[k] = 1.5 * np.sign(q[k])
        points.append(x)
        duals.append(lam)
        weights.append(eta if anytime else 1.0)
        y_next = ball(y - eta * (grad_f(y, t) + jac_h(y, t).T @ lam + q))
        lam = np.maximum(lam + gamma * (value_h(y, t) + upsilon), 0)
        lam = lam * min(1.0, lam_radius / max(np.linalg.norm(lam), 1e-300))
        q = ball(q + kappa * (y - x), q_radius)
        y = y_next
    mean = np.average(points, axis=0, weights=weights), np.average(duals, axis=0, weights=weights)
    return y, q, lam, *mean


def goco_in_numpy(steps, v0, alpha0, margin0):
    """As printed, with queues in their own units."""
    V, alpha, rho = v0 * np.sqrt(T), alpha0 * T, margin0 / np.sqrt(T)
    x, Q, points, queues = np.zeros(D), np.zeros(N), [], []
    for t in range(steps):
        points.append(x)
        queues.append(Q)
        d = V * grad_f(x, t) + jac_h(x, t).T @ Q
        x_next = ball(x - d / (2 * alpha))
        Q = np.maximum(Q + value_h(x, t) + rho + jac_h(x, t) @ (x_next - x), 0)
        x = x_next
    return points, [Q / V for Q in queues], x, Q / V


@pytest.mark.parametrize("anytime", [False, True])
@pytest.mark.parametrize("s", [1.0, 0.5])
def test_csoa_equals_a_numpy_loop(anytime, s):
    problem = tr.Problem(f, h, tr.L2Ball(1.5, shape=D))
    method = tr.CSOA(eta0=2.0, delta=0.2, upsilon0=0.7, dual_scale=s, anytime=anytime)
    result = tr.minimize(problem, in_order(), method=method, steps=T)
    assert_ends(result, *csoa_in_numpy(T, 2.0, 0.2, 0.7, s, anytime))


@pytest.mark.parametrize("anytime", [False, True])
@pytest.mark.parametrize("radii", [{}, {"lam_radius": 0.2, "q_radius": 0.1}], ids=["free", "cut"])
def test_split_csoa_equals_a_numpy_loop(anytime, radii):
    problem = tr.Problem(f, h, tr.L1Ball(1.5, shape=D))
    given = {"eta0": 2.0, "gamma0": 0.7, "kappa0": 1.3, "upsilon0": 0.6}
    result = tr.minimize(problem, in_order(), method=tr.SplitCSOA(**given, anytime=anytime, **radii), steps=T)
    y, q, lam, mean, dual = split_csoa_in_numpy(T, **given, anytime=anytime, **radii)
    for found, expected in ((result.state.y, y), (result.state.q, q), (result.dual_last, lam), (result.dual, dual)):
        close(found, expected)
    close(result.average, mean)
    assert np.abs(mean).max() > 0.01
    if radii:  # the cuts were made
        assert np.abs(split_csoa_in_numpy(T, **given, anytime=anytime)[-1] - dual).max() > 0.01
        assert np.abs(split_csoa_in_numpy(T, **given, anytime=anytime)[-2] - mean).max() > 0.01


def test_split_csoa_is_csoa_in_a_set_that_is_its_own_enclosing_one():
    method = tr.SplitCSOA(eta0=2.0, gamma0=0.5, kappa0=1.3, upsilon0=0.6)
    result = tr.minimize(tr.Problem(f, h, tr.L2Ball(1.5, shape=D)), in_order(), method=method, steps=T)
    assert_ends(result, *csoa_in_numpy(T, 2.0, 0.0, 0.6, 0.5, False))
    np.testing.assert_array_equal(result.state.q, 0)
    assert (result.cost.lmos, result.cost.projections) == (0, T)


def test_split_csoa_ties_the_parts_that_have_another_set_around_them():
    parts = tr.Product({"tied": tr.L1Ball(1.5, shape=D - 1), "own": tr.Box(-1.0, 1.0, shape=1)})

    def whole(x):
        return jnp.append(x["tied"], x["own"])

    problem = tr.Problem(lambda x, theta: f(whole(x), theta), lambda x, theta: h(whole(x), theta), parts)
    result = tr.minimize(problem, in_order(), method=tr.SplitCSOA(eta0=0.5), steps=T)
    assert parts.tied(result.x) == {"tied": True, "own": False}
    np.testing.assert_array_equal(result.state.q["own"], 0)
    np.testing.assert_array_equal(result.last["own"], result.state.y["own"])
    assert 0 < abs(result.last["own"][0]) < 1  # not a vertex
    assert np.count_nonzero(result.last["tied"]) == 1  # a vertex
    assert np.abs(result.state.q["tied"]).max() > 0.01
    assert (result.cost.lmos, result.cost.projections) == (T, 0)


@pytest.mark.parametrize("schedule", ["paper", "two_scale", "sqrt"])
def test_fwcsoa_equals_a_numpy_loop(schedule):
    problem = tr.Problem(f, h, tr.L1Ball(1.5, shape=D))
    method = tr.FWCSOA(schedule, eta0=0.9, rho0=1.1, delta=0.2, upsilon0=0.6, gamma0=0.8)
    result = tr.minimize(problem, in_order(), method=method, steps=T)
    eta = 0.9 * T ** (-0.75 if schedule == "paper" else -0.5)
    gamma = 0.8 * T ** (-0.5 if schedule == "sqrt" else -0.75)
    r = 0.2 * T**-0.25 if schedule == "two_scale" else 0.2 * eta
    upsilon = 0.6 * T ** (-0.5 if schedule == "sqrt" else -0.25)
    assert_ends(result, *fwcsoa_in_numpy(T, eta, gamma, 1.1 * T**-0.5, gamma * r, upsilon))


@pytest.mark.parametrize("schedule", ["paper", "sqrt"])
def test_fwcsoa_without_a_dual_step_of_its_own_uses_one_step_for_both(schedule):
    problem = tr.Problem(f, h, tr.L1Ball(1.5, shape=D))
    one = tr.minimize(problem, in_order(), method=tr.FWCSOA(schedule, eta0=0.9), steps=T)
    two = tr.minimize(problem, in_order(), method=tr.FWCSOA(schedule, eta0=0.9, gamma0=0.9), steps=T)
    np.testing.assert_array_equal(one.average, two.average)


@pytest.mark.parametrize(("v0", "alpha0", "margin0"), [(1.0, 1.0, 0.0), (3.0, 0.4, 0.7), (0.5, 2.5, 0.0)])
def test_goco_equals_a_numpy_loop(v0, alpha0, margin0):
    problem = tr.Problem(f, h, tr.L2Ball(1.5, shape=D))
    result = tr.minimize(problem, in_order(), method=tr.GOCO(v0, alpha0, margin0), steps=T)
    assert_ends(result, *goco_in_numpy(T, v0, alpha0, margin0))


def test_goco_gives_the_same_with_an_oracle():
    def oracle(x, theta):
        return x - theta["a"], h(x, theta), theta["B"] + jnp.broadcast_to(x / 2, (N, D))

    problem, method = tr.Problem(f, h, tr.L2Ball(1.5, shape=D)), tr.GOCO(margin0=0.5)
    wanted = tr.minimize(problem, in_order(), method=method, steps=T)
    given = tr.minimize(
        tr.Problem.from_oracle(oracle, problem.domain, n_constraints=N), in_order(), method=method, steps=T
    )
    close(given.average, wanted.average)
    close(given.dual, wanted.dual)


def test_steps_of_fwcsoa_never_leave_the_segment_nor_overshoot_the_tracker():
    """In short runs eta0 / sqrt T and rho0 / sqrt T are above one: eta and rho are not. A dual step has no such end."""
    method = tr.FWCSOA("sqrt", eta0=9.0, rho0=8.0, delta=0.25, upsilon0=2.0, gamma0=6.0)
    np.testing.assert_allclose(method.sizes(1, 4), [1, 3, 1, 3 * 0.25, 1], rtol=1e-14)
    np.testing.assert_allclose(method.sizes(1, 100), [0.9, 0.6, 0.8, 0.6 * 0.25 * 0.9, 0.2], rtol=1e-14)


def test_the_tightening_of_a_grid_is_its_largest():
    assert tr.FWCSOA("sqrt", upsilon0=np.array([1.0, 3.0])).steps.tightening(100) == pytest.approx(0.3)
    assert tr.FWCSOA("two_scale", upsilon0=3.0).steps.tightening(10_000) == pytest.approx(0.3)
    assert tr.FWCSOA().steps.tightening(100) == 0  # it keeps its own margin


LINEAR = tr.Problem(lambda x, theta: jnp.dot(theta, x), lambda x, theta: x[:1] - 1, tr.L1Ball(1.0, shape=2))
KINDS: dict[str, Any] = dict(tr.METHODS)
FREE = tr.Problem(lambda x, theta: jnp.dot(theta, x), None, tr.L1Ball(1.0, shape=2))


def after_a_step(method, problem, theta, *, lam=(), **state):
    """The state after one step from (1/2, 0)."""
    first = method.init(problem, jnp.array([0.5, 0.0]), jnp.asarray(lam, float), jnp.asarray(100))
    return jax.jit(method.step)(problem, first._replace(**state), jnp.array([theta]))[0]


def test_one_step_of_mfwcsoa_by_hand():
    # rho = 4/8^(2/3) = 1, so d = (3, 4) + 2 (1, 0) and s = (-1, 0); eta = 2/8; lambda_2 = 2 + (-1/2 + 1) = 2.5.
    state = after_a_step(KINDS["mfw-csoa"](eta0=2.0, gamma0=1.0, upsilon0=1.0), LINEAR, [3.0, 4.0], lam=[2.0])
    np.testing.assert_allclose(state.x, [0.125, 0.0])
    np.testing.assert_allclose(state.lam, [2.5])


@pytest.mark.parametrize(("before", "gain"), [(1.0, 0.2), (-1.0, 0.4 * 1.03)])
def test_one_step_of_cfwcsoa_by_hand(before, gain):
    # H was +1 or -1 and is -1/2; its sum is -1 after one step; upsilon = 1.2/4: lambda moves by gain/2 (-1/2 + 0.3).
    told = {"h": jnp.array([before]), "total": jnp.array([-1.0]), "gain": jnp.array([0.4]), "t": jnp.asarray(2)}
    state = after_a_step(KINDS["cfw-csoa"](gamma=0.5, upsilon=1.2), LINEAR, [3.0, 4.0], lam=[2.0], **told)
    np.testing.assert_allclose(state.gain, [gain], rtol=1e-12)
    np.testing.assert_allclose(state.lam, [2 - 0.1 * gain], rtol=1e-12)


def test_steps_of_scgd_and_what_storm_forgets_are_at_most_one():
    far = after_a_step(KINDS["scgd"](gamma0=20.0, rho0=4.0), FREE, [3.0, 4.0])
    np.testing.assert_allclose(far.x, [0.0, -1.0])  # the vertex
    eta = 2 / np.cbrt(0.1 + 0.05**2)
    for c, a in ((10.0, 1.0), (0.01, 0.01 * eta**2)):
        storm = after_a_step(KINDS["storm"](k=2.0, w=0.1, c=c), FREE, [0.03, 0.04])
        np.testing.assert_allclose(storm.a, a, rtol=1e-12)


def test_warm_nuclear_minimisation_is_threaded_through_the_state():
    def fit(x, theta):
        return jnp.sum((x - theta) ** 2) / 2

    target = np.random.default_rng(7).normal(size=(6, 8))
    problem = tr.Problem(fit, lambda x, theta: (jnp.sum(x**2) - 4.0)[None], tr.NuclearBall(3.0, shape=(6, 8)))
    result = tr.minimize(problem, target[None].repeat(5, axis=0), method=tr.FWCSOA("sqrt"), steps=50)
    assert result.state.memory.vector.shape == (6,)  # a singular vector
    assert result.trace["lmo residual"].between(0, 1e-6).all()  # as many rounds as rows
    assert np.linalg.svd(result.average, compute_uv=False).sum() <= 3.0 * (1 + 1e-9)


def test_multipliers_that_would_be_wiped_out_are_refused():
    problem = tr.Problem(f, h, tr.L2Ball(1.5, shape=D))
    with pytest.raises(ValueError, match=r"eta\^2 delta.*less than 1"):
        tr.minimize(problem, in_order(), method=tr.CSOA(eta0=10.0, delta=10.0), steps=T)
    with pytest.raises(ValueError, match=r"gamma r.*less than 1"):
        tr.minimize(problem, in_order(), method=tr.FWCSOA("sqrt", eta0=10.0, delta=50.0), steps=T)
