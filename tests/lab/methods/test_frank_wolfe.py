"""Methods for objectives alone, mostly projection-free, and two with constraints known: against plain NumPy and cvxpy."""

import cvxpy as cp
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tightrope as tr
from tightrope.lab.methods.frank_wolfe.affinefw import AffineFW
from tightrope.lab.methods.frank_wolfe.coexcg import CoexCG, CoexDurCG
from tightrope.lab.methods.frank_wolfe.ofw import OFW
from tightrope.lab.methods.frank_wolfe.osfw import OSFW
from tightrope.lab.methods.frank_wolfe.scgd import SCGD
from tightrope.lab.methods.frank_wolfe.sfw import SFW
from tightrope.lab.methods.frank_wolfe.svrf import SVRF
from tightrope.lab.methods.primal.storm import STORM
from tightrope.sampling import Plan

N, D, STEPS, RADIUS = 24, 4, 60, 0.9
RNG = np.random.default_rng(5)
A, C = RNG.normal([1.0, -0.7, 0.3, 0.0], 0.5, size=(N, D)), RNG.uniform(0.5, 1.5, size=(N, D))
B, E = RNG.normal([0.8, 0.0, 0.3, -0.2], 0.3, size=(N, 2, D)), RNG.normal(0.35, 0.1, size=(N, 2))
EVERYTHING = np.arange(N)
DATA = tr.Rows({"a": A, "c": C, "B": B, "e": E})
DOMAIN = tr.L1Ball(RADIUS, shape=D)
ROWS, LEVELS = np.array([[1.0, 0.0, 0.5, 0.0], [0.0, -1.0, 0.0, 0.5]]), np.array([0.3, 0.15])


def f(x, theta):  # the curvature differs from sample to sample, or a tracker would have nothing to correct
    return jnp.sum(theta["c"] * (x - theta["a"]) ** 2) / 2


def h(x, theta):
    return theta["B"] @ x + jnp.sum(x**2) / 4 - theta["e"]


def affine(x):
    return jnp.asarray(ROWS, x.dtype) @ x - jnp.asarray(LEVELS, x.dtype)


FREE = tr.Problem(f, None, DOMAIN)
CONSTRAINED = tr.Problem(f, h, DOMAIN)
AFFINE = tr.Problem(f, None, DOMAIN, exact_constraints=affine)


def value_f(x, i=EVERYTHING):
    return np.mean(np.sum(C[i] * (x - A[i]) ** 2, axis=1)) / 2


def grad_f(x, i=EVERYTHING):
    return np.mean(C[i] * (x - A[i]), axis=0)


def value_h(x, i=EVERYTHING):
    return B[i].mean(0) @ x + x @ x / 4 - E[i].mean(0)


def jac_h(x, i=EVERYTHING):
    return B[i].mean(0) + x / 2


def vertex(d):
    s = np.zeros(D)
    s[np.argmax(np.abs(d))] = -RADIUS * np.sign(d[np.argmax(np.abs(d))])
    return s


def nearest(y):
    """On the l1 ball, by bisection on the shrinkage."""
    if np.abs(y).sum() <= RADIUS:
        return y
    low, high = 0.0, np.abs(y).max()
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if np.maximum(np.abs(y) - middle, 0).sum() > RADIUS else (low, middle)
    return np.sign(y) * np.maximum(np.abs(y) - high, 0)


def batches(size):
    """The rows that each step sees."""
    return np.asarray(DATA.open(Plan((0,), 1, size)).take(0, STEPS).items)[0, :STEPS, 0]


def optimum(*constraints):
    """F* over the domain, and the multipliers of the constraints given as functions of cvxpy's x."""
    x = cp.Variable(D)
    made = [constraint(x) <= 0 for constraint in constraints]
    half = cp.sum(cp.multiply(C.mean(0) / 2, cp.square(x))) - (C * A).mean(0) @ x
    problem = cp.Problem(cp.Minimize(half + (C * A**2).mean(0).sum() / 2), [cp.norm1(x) <= RADIUS, *made])
    problem.solve(solver=cp.CLARABEL)
    return problem.value, np.array([np.ravel(c.dual_value)[0] for c in made])


def affine_constraints():
    return [lambda x, k=k: ROWS[k] @ x - LEVELS[k] for k in range(2)]


def sampled_constraints():
    return [lambda x, k=k: B.mean(0)[k] @ x + cp.sum_squares(x) / 4 - E.mean(0)[k] for k in range(2)]


# ---- the updates, in NumPy ----------------------------------------------------------------------------------------


def scgd_in_numpy(gamma0, rho0):
    x, d = np.zeros(D), np.zeros(D)
    for t, i in enumerate(batches(1)):
        rho, gamma = min(1, rho0 / (t + 8) ** (2 / 3)), min(1, gamma0 / (t + 8))
        d = (1 - rho) * d + rho * grad_f(x, i)
        x = (1 - gamma) * x + gamma * vertex(d)
    return x, STEPS


def sfw_in_numpy(m0):
    x, k, waiting = np.zeros(D), 1, []
    for i in batches(1):
        waiting.append(i)
        if len(waiting) == np.ceil((m0 * (k + 1)) ** 2):
            d = np.mean([grad_f(x, j) for j in waiting], axis=0)
            x = x + 2 / (k + 1) * (vertex(d) - x)
            k, waiting = k + 1, []
    return x, k - 1


def osfw_in_numpy(eta0, rho0):
    x, before, d = np.zeros(D), None, None
    for t, i in enumerate(batches(1), start=1):
        d = grad_f(x, i) if t == 1 else grad_f(x, i) + (1 - min(1, rho0 / (t - 1))) * (d - grad_f(before, i))
        before, x = x, x + min(1, eta0 / t) * (vertex(d) - x)
    return x, STEPS


def storm_in_numpy(k, w, c):
    x, before, d, a, total, points = np.zeros(D), None, None, 1.0, 0.0, []
    for i in batches(1):
        points.append(x)
        g = grad_f(x, i)
        d = g if d is None else g + (1 - a) * (d - grad_f(before, i))
        total += g @ g
        eta = k / (w + total) ** (1 / 3)
        a = min(1, c * eta**2)
        before, x = x, nearest(x - eta * d)
    return np.mean(points, axis=0), 0


def affinefw_in_numpy(mu0, rho0):
    x, before, d = np.zeros(D), None, None
    for t, i in enumerate(batches(1), start=1):
        d = grad_f(x, i) if t == 1 else grad_f(x, i) + (1 - min(1, rho0 / t)) * (d - grad_f(before, i))
        v = d + np.sqrt(t + 1) / mu0 * ROWS.T @ np.maximum(ROWS @ x - LEVELS, 0)
        before, x = x, x + 2 / (t + 1) * (vertex(v) - x)
    return x, STEPS


def coexcg_in_numpy(beta, regularised):
    """As printed, with every earlier point kept: xs[k] is x_{k-2} and ps[k] is p_{k-1}."""
    xs, ps, q, duals = [np.zeros(D)] * 3, [np.zeros(D)] * 2, np.zeros(2), []

    def line(y, x):
        return value_h(y) + jac_h(y) @ (x - y)

    for k in range(1, STEPS + 1):
        now, then = line(xs[-2], ps[-1]), line(xs[-3], ps[-2])
        ahead = now + (k - 1) / k * (now - then)
        if regularised:
            tau, gamma = beta * np.sqrt(k), beta / k * ((k + 1) ** 1.5 - k**1.5)
            q = np.maximum((tau * q + ahead) / (tau + gamma), 0)
        else:
            q = np.maximum(q + ahead * k / (beta * STEPS**1.5), 0)
        p = vertex(grad_f(xs[-1]) + jac_h(xs[-1]).T @ q)
        duals.append(q)
        xs.append((1 - 2 / (k + 1)) * xs[-1] + 2 / (k + 1) * p)
        ps.append(p)
    return xs[-1], q, np.average(duals, axis=0, weights=np.arange(1, STEPS + 1))


def svrf_in_numpy(m0, every, size):
    """The point, the last finished epoch's, moves and passes."""
    x, w, epoch, k, waiting, moves = np.zeros(D), np.zeros(D), 0, 1, [], 0
    for t, i in enumerate(batches(size)):
        if t % every == 0 and (epoch == 0 or k - 1 >= 2 ** (epoch + 3) - 2):
            w, epoch, k, waiting = x, epoch + 1, 1, []
        waiting.append(grad_f(x, i) - grad_f(w, i) + grad_f(w))
        if len(waiting) == np.ceil(m0 * (k + 1)):
            x = x + 2 / (k + 1) * (vertex(np.mean(waiting, axis=0)) - x)
            k, waiting, moves = k + 1, [], moves + 1
    return x, w, moves, epoch


def ofw_in_numpy(size):
    x, looked_at = np.zeros(D), 0
    for t in range(1, STEPS + 1):
        so_far = EVERYTHING[: t * size]
        x, looked_at = x + min(1, 0.8 / t) * (vertex(grad_f(x, so_far)) - x), looked_at + len(so_far)
    return x, looked_at


# ---- and the library --------------------------------------------------------------------------------------------

STOCHASTIC = {
    "scgd": (SCGD(gamma0=6.0, rho0=2.0), scgd_in_numpy, FREE, []),
    "sfw": (SFW(m0=0.7), sfw_in_numpy, FREE, []),
    "1-sfw": (OSFW(eta0=1.5, rho0=1.2), osfw_in_numpy, FREE, []),
    "storm": (STORM(k=0.6, w=0.3, c=2.0), storm_in_numpy, FREE, []),
    "affine-fw": (AffineFW(mu0=0.5, rho0=1.2), affinefw_in_numpy, AFFINE, affine_constraints()),
}


@pytest.mark.parametrize("name", STOCHASTIC)
def test_a_stochastic_method_equals_a_numpy_loop_and_finds_the_optimum(name):
    method, loop, problem, constraints = STOCHASTIC[name]
    result = tr.minimize(problem, DATA, method=method, steps=STEPS, record=0)
    x, lmos = loop(*jax.tree.leaves(method))
    np.testing.assert_allclose(result.x, x, rtol=1e-11, atol=1e-12)
    assert result.cost.lmos == lmos
    result = tr.minimize(problem, DATA, method=type(method)(), steps=20_000, record=0)  # the same program goes on
    best, dual = optimum(*constraints)
    assert abs(value_f(np.asarray(result.x)) - best) < (5e-3 if constraints else 5e-4)
    np.testing.assert_allclose(result.dual, dual, atol=0.05)
    assert not constraints or np.all(ROWS @ result.x <= LEVELS + 5e-3)


@pytest.mark.parametrize("kind", [CoexCG, CoexDurCG])
def test_coexcg_equals_a_numpy_loop_and_finds_the_optimum(kind):
    result = tr.minimize(CONSTRAINED, DATA, method=kind(beta=0.1), steps=STEPS, record=0)
    x, q, dual = coexcg_in_numpy(0.1, kind is CoexDurCG)
    assert np.all(dual > 0)  # the multipliers are at work
    np.testing.assert_allclose(result.x, x, rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(result.dual_last, q, rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(result.dual, dual, rtol=1e-11, atol=1e-12)
    assert result.cost.gradients == STEPS * N
    result = tr.minimize(CONSTRAINED, DATA, method=kind(), steps=20_000, record=0)
    best, dual = optimum(*sampled_constraints())
    assert abs(value_f(np.asarray(result.x)) - best) < 5e-3
    assert result.violation < 1e-2
    np.testing.assert_allclose(result.dual, dual, atol=0.1)  # a mean that remembers where it began


def test_coexcg_without_constraints_is_frank_wolfe():
    method, x = CoexCG(), np.zeros(D)
    state, step = method.init(FREE, jnp.zeros(D), jnp.zeros(0), jnp.asarray(5)), jax.jit(method.step)
    for k in range(1, 6):
        state, _ = step(FREE, state, DATA.data)
        x = x + 2 / (k + 1) * (vertex(grad_f(x)) - x)
    np.testing.assert_allclose(state.x, x, rtol=1e-12, atol=1e-14)


def test_svrf_equals_a_numpy_loop_and_finds_the_optimum():
    method = SVRF(m0=0.15, refresh_every=8)
    result = tr.minimize(FREE, DATA, method=method, steps=STEPS, batch_size=4, record=0)
    x, w, moves, epochs = svrf_in_numpy(0.15, every=8, size=4)
    assert epochs == 2  # the second is under way: the answer is what the first one found
    np.testing.assert_allclose(result.last, x, rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(result.x, w, rtol=1e-11, atol=1e-12)
    assert np.linalg.norm(x - w) > 1e-3
    assert (result.cost.lmos, method.steps.looks(STEPS, N).gradients) == (moves, epochs * N)
    assert SVRF().steps.cost(128 + 512 + 2048).lmos == 14 + 30 + 62  # with the defaults epochs end where they should
    for steps, finished in ((24, False), (25, True)):  # 5 moves of one batch, 7 of two, 2 of three: 14 after 25 steps
        result = tr.minimize(FREE, DATA, method=method, steps=steps, batch_size=4, record=0)
        np.testing.assert_array_equal(result.x, result.last if finished else np.zeros(D))
    best, _ = optimum()
    result = tr.minimize(FREE, DATA, method=method, passes=10_000, batch_size=4, tol=1e-3)
    assert result.status is tr.Status.TOLERANCE
    assert -1e-9 <= value_f(np.asarray(result.x)) - best <= result.trace["gap"].iloc[-1] + 1e-9 <= 1e-3 + 1e-9


def test_ofw_equals_a_numpy_loop_and_finds_the_optimum():
    method = OFW(eta0=0.8)  # with two rows a round, all are in after 12 of the 60 rounds
    result = tr.minimize(FREE, DATA, method=method, steps=STEPS, batch_size=2, record=0)
    x, looked_at = ofw_in_numpy(size=2)
    np.testing.assert_allclose(result.x, x, rtol=1e-11, atol=1e-12)
    assert method.for_rows(N, 2).steps.looks(STEPS, N).gradients == looked_at
    result = tr.minimize(FREE, DATA, method=OFW(), steps=1_000, batch_size=2, record=0)
    assert value_f(np.asarray(result.x)) - optimum()[0] < 5e-3


@pytest.mark.parametrize("m0", [0.3, 1.0, 1.7])
@pytest.mark.parametrize("steps", [1, 4, 13, 1000])
def test_sfw_counts_its_linear_minimisations(m0, steps):
    left, k = steps, 1
    while left >= np.ceil((m0 * (k + 1)) ** 2):
        left, k = left - np.ceil((m0 * (k + 1)) ** 2), k + 1
    assert SFW(m0=m0).steps.cost(steps) == tr.Cost(samples=steps, gradients=steps, lmos=k - 1)


def test_without_larger_and_larger_batches_every_step_of_svrf_is_a_move():
    method = tr.METHODS["svrf"](m0=0.0, refresh_every=1)  # pyright: ignore[reportCallIssue]
    assert method.steps.cost(20).lmos == 20
