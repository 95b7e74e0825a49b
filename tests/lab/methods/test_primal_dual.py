"""Projected primal-dual methods against NumPy loops written from the formulas, solvers, and each other."""

from typing import Any

import cvxpy as cp
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from as_printed import DATA, D, N, assert_ends, ball, f, grad, grad_f, h, in_order, jac_h, plus, value_h

import tightrope as tr
from tightrope.lab.methods.primal.oneprojection import OneProjection, project_on_constraints
from tightrope.lab.methods.primal_dual.delayed import DelayedSaddle
from tightrope.lab.methods.primal_dual.kimlee import KimLee
from tightrope.lab.methods.primal_dual.longterm import Jenatton, MahdaviJinYang
from tightrope.lab.methods.primal_dual.madavanbose import MadavanBose
from tightrope.lab.methods.primal_dual.mirror import MirrorSA, RobustSA, bregman_step
from tightrope.lab.methods.primal_dual.nupi import NuPI
from tightrope.lab.methods.primal_dual.opdmd import OPDMD

T = 50
ROOT = np.sqrt(T)
ROWS = np.array([[1.0, -0.5, 0.2, 0.4], [0.3, 0.8, -1.0, -0.2]])
MIDDLE = np.full(D, 2 / D)  # of the simplex


def exact_h(x):
    return jnp.asarray(ROWS, x.dtype) @ x + jnp.sum(x**2) / 4 + 0.3


BALL = tr.Problem(f, h, tr.L2Ball(1.5, shape=D))
SIMPLEX = tr.Problem(f, h, tr.Simplex(2.0, shape=D))
EXACT = tr.Problem(f, h, BALL.domain, exact_constraints=exact_h)
FREE = tr.Problem(f, None, BALL.domain)


# ---- as printed: each gives the points that count, their multipliers, and where it ends -----------------------------


def delayed(eta0, delta, delay):
    eta, xs, lams = eta0 / ROOT, [np.zeros(D)], [np.zeros(N)]
    for t in range(T):
        old, dual = xs[max(t - delay, 0)], lams[max(t - delay, 0)]
        xs.append(ball(xs[t] - eta * grad(old, dual, t)))
        lams.append(plus(lams[t] + eta * (value_h(old, t) - eta * delta * dual)))
    return xs[:-1], lams[:-1], xs[-1], lams[-1]


def madavan_bose(eta0):
    gamma, xs, zs = eta0 / ROOT, [np.zeros(D)], [np.zeros(N)]
    for k in range(T):
        xs.append(ball(xs[k] - gamma * grad(xs[k], zs[k], 2 * k)))  # two rows of the stream a step
        zs.append(plus(zs[k] + gamma * value_h(xs[k + 1], 2 * k + 1)))
    return xs[1:], zs[1:], xs[-1], zs[-1]


def mahdavi(eta0, delta, margin0):
    eta, gamma, xs, lams = eta0 / ROOT, margin0 * T**-0.25, [np.zeros(D)], [np.zeros(N)]
    for t in range(T):
        xs.append(ball(xs[t] - eta * grad(xs[t], lams[t], t)))
        lams.append(plus((1 - delta * eta**2) * lams[t] + eta * (value_h(xs[t], t) + gamma)))
    return xs[:-1], lams[:-1], xs[-1], lams[-1]


def jenatton(eta0, r0):
    xs, lams = [np.zeros(D)], [np.zeros(N)]
    for t in range(T):
        theta = r0 / np.sqrt(t + 1)
        mu = 1 / (theta * (t + 2))
        xs.append(ball(xs[t] - eta0 / np.sqrt(t + 1) * grad(xs[t], lams[t], t)))
        lams.append(plus((1 - mu * theta) * lams[t] + mu * value_h(xs[t], t)))
    return xs[:-1], lams[:-1], xs[-1], lams[-1]


def one_projection(eta0, delta):
    eta, xs, lams = eta0 / ROOT, [np.zeros(D)], [np.zeros(N)]
    for t in range(T):
        x, lam = xs[t], lams[t]
        xs.append(ball(x - eta * (grad_f(x, t) + (ROWS + x / 2).T @ lam)))
        lams.append(plus((1 - delta * eta**2) * lam + eta * (ROWS @ x + np.sum(x**2) / 4 + 0.3)))
    return xs[:-1], lams[:-1], xs[-1], lams[-1]


def robust_sa(eta0):
    xs = [np.zeros(D)]
    for t in range(T):
        xs.append(ball(xs[t] - eta0 * 3.0 / ROOT * grad_f(xs[t], t)))  # the ball's diameter is 3
    return xs[:-1], [np.zeros(0)] * T, xs[-1], np.zeros(0)


def entropic(x, g):
    y = x * np.exp(-g)
    return 2.0 * y / np.sum(y)


def mirror_sa(eta0, gamma0, radius):
    xs, lams = [MIDDLE], [np.zeros(N)]
    for t in range(T):
        xs.append(entropic(xs[t], eta0 / ROOT * grad(xs[t], lams[t], t)))
        v = plus(lams[t] + gamma0 / ROOT * value_h(xs[t], t))
        if v.sum() > radius:  # two multipliers: on the segment between the axes, by hand
            first = np.clip((v[0] - v[1] + radius) / 2, 0, radius)
            v = np.array([first, radius - first])
        lams.append(v)
    return xs[:-1], lams[:-1], xs[-1], lams[-1]


def opdmd(v0, alpha0):
    V, alpha, xs, queues = v0 * ROOT, alpha0 * T, [MIDDLE], [np.zeros(N)]
    for t in range(T):
        mixed = (1 - 1 / T) * xs[t] + (1 / T) * MIDDLE
        d = V * grad_f(xs[t], t) + jac_h(xs[t], t).T @ queues[t]
        xs.append(entropic(mixed, d / alpha))
        queues.append(plus(queues[t] + value_h(xs[t], t) + jac_h(xs[t], t) @ (xs[t + 1] - xs[t])))
    return xs[:-1], [q / V for q in queues[:-1]], xs[-1], queues[-1] / V


def nupi(eta0, ki0, kp, nu):
    xs, lams, xi = [np.zeros(D)], [np.zeros(N)], value_h(np.zeros(D), 0)
    for t in range(T):
        e = value_h(xs[t], t)
        xs.append(ball(xs[t] - eta0 / ROOT * grad(xs[t], lams[t], t)))
        lams.append(plus(lams[t] + ki0 / ROOT * e + kp * (1 - nu) * (e - xi)))
        xi = nu * xi + (1 - nu) * e
    return xs[:-1], lams[:-1], xs[-1], lams[-1]


def kim_lee(v0, alpha0, margin0):
    xs, lams, Q = [np.zeros(D)], [np.zeros(N)], np.zeros(N)
    for t in range(T):
        V, alpha, rho = v0 * np.sqrt(t + 1), alpha0 * (t + 1), margin0 / np.sqrt(t + 1)
        xs.append(ball(xs[t] - (V * grad_f(xs[t], t) + jac_h(xs[t], t).T @ Q) / (2 * alpha)))
        Q = plus(Q + value_h(xs[t], t) + rho + jac_h(xs[t], t) @ (xs[t + 1] - xs[t]))
        lams.append(Q / (v0 * np.sqrt(t + 2)))
    return xs[:-1], lams[:-1], xs[-1], lams[-1]


CASES = {
    "async-saddle": (DelayedSaddle(2.0, 0.7, delay=3), BALL, delayed(2.0, 0.7, 3)),
    "madavan-bose": (MadavanBose(1.3), BALL, madavan_bose(1.3)),
    "mjy": (MahdaviJinYang(2.0, 0.6, 0.4), BALL, mahdavi(2.0, 0.6, 0.4)),
    "jenatton": (Jenatton(0.8, 1.7), BALL, jenatton(0.8, 1.7)),
    "one-projection": (OneProjection(0.5, 0.6), EXACT, one_projection(0.5, 0.6)),
    "rsa": (RobustSA(0.7), FREE, robust_sa(0.7)),
    "mirror-sa": (MirrorSA(0.9, 3.0, 1.5), SIMPLEX, mirror_sa(0.9, 3.0, 1.5)),
    "opdmd": (OPDMD(0.8, 1.6), SIMPLEX, opdmd(0.8, 1.6)),
    "nupi": (NuPI(1.5, 1.2, 0.8, 0.6), BALL, nupi(1.5, 1.2, 0.8, 0.6)),
    "kim-lee": (KimLee(1.4, 0.7, 0.5), BALL, kim_lee(1.4, 0.7, 0.5)),
}


@pytest.mark.parametrize("name", CASES)
def test_it_equals_a_numpy_loop(name):
    method, problem, (xs, lams, x, lam) = CASES[name]
    result = tr.minimize(problem, in_order(), method=method, steps=T)
    assert_ends(result, xs, lams, x, lam)
    if name == "one-projection":
        np.testing.assert_allclose(result.x, nearest_feasible(np.mean(xs, axis=0)), atol=5e-5)
        assert float(np.max(exact_h(jnp.asarray(np.mean(xs, axis=0))))) > 0.05  # there was something to project
        assert float(np.max(exact_h(jnp.asarray(result.x)))) < 1e-8


def test_the_bound_on_the_multipliers_is_at_work():
    sums = np.sum(mirror_sa(0.9, 3.0, 1.5)[1], axis=1)
    assert np.any(sums < 1.4)
    assert np.any(np.isclose(sums, 1.5))


# ---- what is solved inside -----------------------------------------------------------------------------------------


def nearest_feasible(point):
    x = cp.Variable(D)
    room: Any = [ROWS @ x + cp.sum_squares(x) / 4 <= -0.3, cp.norm2(x) <= 1.5]
    cp.Problem(cp.Minimize(cp.sum_squares(x - point)), room).solve(solver="CLARABEL")
    return np.asarray(x.value)


def test_the_one_projection_is_that_of_cvxpy():
    constraints = jax.jit(lambda z, rounds: project_on_constraints(EXACT, z, jnp.zeros((1, 1)), rounds))
    for point in (np.array([0.9, -0.2, 0.4, 0.1]), np.array([0.1, 1.3, 0.5, 0.3]), np.array([-0.3, 0.2, 0.6, 0.5])):
        np.testing.assert_allclose(constraints(point, 200), nearest_feasible(point), atol=5e-5)
    np.testing.assert_array_equal(constraints(point, 0), point)


def test_the_entropic_step_minimises_its_objective():
    x, g = np.array([0.3, 1.1, 0.6]), np.array([1.0, -0.4, 0.3])
    y = cp.Variable(3)
    total: Any = cp.sum(y) == 2
    cp.Problem(cp.Minimize(0.7 * g @ y + cp.sum(cp.kl_div(y, x))), [total]).solve(solver="CLARABEL")
    # cvxpy's accuracy
    np.testing.assert_allclose(bregman_step(SIMPLEX.domain, x, g, 0.7), np.asarray(y.value), atol=1e-4)


def test_a_coordinate_that_vanished_comes_back():
    x, g = jnp.asarray([2.0, 0.0, 0.0], jnp.float32), jnp.asarray([2000.0, 0.0, 1.0], jnp.float32)
    pushed = jax.jit(bregman_step)(SIMPLEX.domain, x, g, 1.0)
    np.testing.assert_allclose(np.sum(pushed), 2.0, rtol=1e-6)
    assert pushed[1] > pushed[2] > 0.5
    assert pushed.dtype == jnp.float32


# ---- special cases -------------------------------------------------------------------------------------------------


def test_without_delay_it_is_csoa_bit_for_bit():
    plain = tr.minimize(BALL, in_order(), method=tr.CSOA(2.0, 0.7, upsilon0=0.0), steps=T)
    late = tr.minimize(BALL, in_order(), method=DelayedSaddle(2.0, 0.7, delay=0), steps=T)
    np.testing.assert_array_equal(late.average, plain.average)
    np.testing.assert_array_equal(late.dual_last, plain.dual_last)


@pytest.mark.parametrize("method", [MahdaviJinYang(2.0, 0.0), NuPI(2.0, 2.0, kp=0.0)])
def test_without_what_is_special_it_is_csoa(method):
    plain = tr.minimize(BALL, in_order(), method=tr.CSOA(2.0, delta=0.0, upsilon0=0.0), steps=T)
    other = tr.minimize(BALL, in_order(), method=method, steps=T)
    np.testing.assert_allclose(other.average, plain.average, rtol=1e-11)
    np.testing.assert_allclose(other.dual_last, plain.dual_last, rtol=1e-11)


def test_opdmd_on_a_ball_is_goco_with_half_its_alpha():
    start, theta = (BALL, jnp.ones(D), jnp.ones(N), jnp.asarray(T)), {key: v[:1] for key, v in DATA.items()}
    mirror, plain = (jax.jit(m.step)(BALL, m.init(*start), theta)[0] for m in (OPDMD(0.8, 1.6), tr.GOCO(0.8, 0.8)))
    np.testing.assert_allclose(mirror.x, plain.x, rtol=1e-13)
    np.testing.assert_allclose(mirror.lam, plain.lam, rtol=1e-13)


def test_the_ages_of_answers():
    t = np.arange(1, 9)
    assert DelayedSaddle(delay=3).age(t).tolist() == [0, 1, 2, 3, 3, 3, 3, 3]
    assert DelayedSaddle(delay=3, pattern="cyclic").age(t).tolist() == [0, 1, 2, 3, 0, 1, 2, 3]


def test_a_run_that_ends_early_answers_with_the_plain_mean():
    method, problem = CASES["one-projection"][:2]
    early = tr.minimize(problem, in_order(), method=method, steps=T, record=5, callback=lambda at: at.step >= 20)
    np.testing.assert_allclose(early.x, early.average, rtol=1e-12)
    assert early.output == "own"


# ---- refusals and declarations -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: DelayedSaddle(delay=-1), "delay is -1; expected a whole number"),
        (lambda: DelayedSaddle(pattern="random"), "pattern is 'random'; expected one of constant, cyclic"),  # pyright: ignore[reportArgumentType]
        (lambda: DelayedSaddle(eta0=10.0, delta=10.0).steps.check(100), "eta.2 delta is 10 at 100 steps"),
        (lambda: MahdaviJinYang(eta0=10.0, delta=10.0).steps.check(100), "eta.2 delta is 10 at 100 steps"),
        (lambda: OneProjection(rounds=0), "rounds is 0; expected a whole number"),
    ],
)
def test_what_cannot_work_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_one_projection_needs_exact_constraints():
    with pytest.raises(TypeError, match="OneProjection needs exact constraints"):
        tr.minimize(BALL, in_order(), method=OneProjection(), steps=T)
