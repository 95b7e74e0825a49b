"""CVaR against sorted samples and the linear programme of Rockafellar and Uryasev."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import linprog

import tightrope as tr
from tightrope.problem.cvar import lift_cvar

RNG = np.random.default_rng(3)
RETURNS = np.array([0.02, 0.05, 0.1, 0.16]) + RNG.normal(size=(200, 4)) * np.array([0.05, 0.2, 0.5, 1.0])


def loss(x, theta):
    return -jnp.dot(theta, x)


def losses(x, theta):
    return jnp.stack([loss(x, theta), loss(x, theta) ** 2])


def mean_loss(x):
    return loss(x, jnp.asarray(RETURNS.mean(axis=0)))[None]


WRONG: Any = "mean"
ARRAY: Any = np.zeros(3)
ONE = tr.Problem(loss, lambda x, theta: loss(x, theta)[None], tr.Simplex(shape=4), levels=0.4)
TWO = tr.Problem(loss, losses, tr.Simplex(shape=4), levels=[0.4, 0.3], names=("loss", "square"))


def best_portfolio(alpha, level):
    """Variables: four shares, the quantile, and what each scenario's loss exceeds it by."""
    n, d = RETURNS.shape
    cost = np.r_[-RETURNS.mean(axis=0), np.zeros(n + 1)]
    tail = np.r_[np.zeros(d), 1.0, np.full(n, 1 / (n * (1 - alpha)))]
    excess = np.hstack([-RETURNS, -np.ones((n, 1)), -np.eye(n)])
    bounds = [(0, None)] * d + [(None, None)] + [(0, None)] * n
    answer = linprog(
        cost,
        np.vstack([tail, excess]),
        np.r_[level, np.zeros(n)],
        np.r_[np.ones(d), np.zeros(n + 1)][None],
        [1],
        bounds,
    )
    assert answer.status == 0
    return answer.x[:d], answer.x[d], answer.fun


def test_a_portfolio_whose_worst_tenth_is_bounded_is_that_of_linear_programming():
    result = tr.minimize(lift_cvar(ONE, 0.9, lower=-1.0, upper=2.0), RETURNS, passes=1000)
    x, u, optimum = best_portfolio(0.9, 0.4)
    assert abs(result.objective - optimum) < 1e-4
    assert result.violation < 1e-3
    np.testing.assert_allclose(result.x["x"], x, atol=0.02)
    np.testing.assert_allclose(result.x["u"], [u], atol=0.02)


def test_the_least_value_over_u_is_the_mean_of_the_worst_cases():
    x = np.array([0.1, 0.4, 0.2, 0.3])
    y = np.sort(-RETURNS @ x)
    square = np.sort(y**2)
    lifted = lift_cvar(TWO, np.array([0.9, 0.75]), lower=-1.0, upper=2.0)

    def value(first, second):
        return np.asarray(
            lifted.values({"x": jnp.asarray(x), "u": jnp.asarray([first, second])}, jnp.asarray(RETURNS))[1]
        )

    at_quantiles = value(y[180], square[150])  # the worst 20 and 50 of 200
    np.testing.assert_allclose(at_quantiles, [y[180:].mean() - 0.4, square[150:].mean() - 0.3], rtol=1e-12)
    for first, second in ((y[170], square[140]), (y[190], square[160])):
        assert np.all(value(first, second) > at_quantiles)


def test_the_objective_and_then_the_constraints():
    inner = lift_cvar(TWO, 0.8, -1.0, 2.0, of="objective")
    x = np.array([0.1, 0.4, 0.2, 0.3])
    y = np.sort(-RETURNS @ x)
    point = {"x": {"x": jnp.asarray(x), "u": jnp.asarray(y[160])}, "u": jnp.asarray([0.0, 0.0])}
    f, h = lift_cvar(inner, 0.0, -1.0, 2.0).values(point, jnp.asarray(RETURNS))
    np.testing.assert_allclose(f, y[160:].mean(), rtol=1e-12)
    np.testing.assert_allclose(h, [np.maximum(y, 0).mean() - 0.4, (y**2).mean() - 0.3], rtol=1e-12)  # u at zero
    _, plain = inner.values(point["x"], jnp.asarray(RETURNS))
    np.testing.assert_allclose(plain, [y.mean() - 0.4, (y**2).mean() - 0.3], rtol=1e-12)


def test_exact_constraints_stay_only_where_they_are_means():
    exact = tr.Problem(loss, ONE.constraints, ONE.domain, levels=0.4, exact_constraints=mean_loss)
    point = {"x": jnp.full(4, 0.25), "u": jnp.asarray(0.0)}
    lifted = lift_cvar(exact, 0.9, -1.0, 2.0, of="objective")
    assert lifted.exact_constraints is not None
    np.testing.assert_allclose(lifted.exact_constraints(point, lifted.params), mean_loss(point["x"]), rtol=1e-14)
    assert lift_cvar(exact, 0.9, -1.0, 2.0).exact_constraints is None


def test_another_level_is_the_same_program():
    first = lift_cvar(ONE, 0.9, -1.0, 2.0)
    second = lift_cvar(tr.Problem(ONE.objective, ONE.constraints, ONE.domain, levels=0.1), 0.5, -3.0, 1.0)
    assert jax.tree.structure(first) == jax.tree.structure(second)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: lift_cvar(ONE, 1.0, -1.0, 2.0), "alpha is 1.0; expected numbers from 0 to below 1"),
        (lambda: lift_cvar(ONE, 0.9, -1.0, 2.0, of=WRONG), "of is 'mean'; expected one of constraints, objective"),
        (lambda: lift_cvar(ONE, 0.9, -1.0, 2.0, of=ARRAY), "of is array.*; expected one of constraints"),
        (
            lambda: lift_cvar(TWO, 0.9, np.zeros(3), 2.0),
            r"shapes \(3,\) and \(\), alpha \(\); expected a number, or one for each",
        ),
        (lambda: lift_cvar(tr.Problem(loss, None, ONE.domain), 0.9, -1.0, 2.0), "no sampled constraints"),
        (lambda: lift_cvar(ONE, 0.9, [-1.0], 2.0, of="objective"), "the objective is one function"),
    ],
)
def test_what_cannot_be_lifted_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_a_quantile_is_not_shared():
    unnamed = tr.Problem(loss, losses, ONE.domain, levels=0.4)
    with pytest.raises(ValueError, match="there are 2 constraints; expected as many bounds, 1 were given"):
        tr.minimize(lift_cvar(unnamed, 0.9, -1.0, 2.0), RETURNS, steps=1)
    point = lift_cvar(unnamed, 0.9, [-1.0, 0.0], 2.0).domain.start()
    np.testing.assert_allclose(point["u"], [0.5, 1.0])  # the middle of each
