"""The brake: constraints that hold in expectation at every T whatever the method does, and runs that certify themselves."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tightrope as tr
from tightrope.lab.theory.brake import width
from tightrope.theory import Braked, braked_adagrad, self_certificate

RUNS = 200


def objective(x, theta):
    """What wants x to be one."""
    return -x[0]


def rare(x, theta):
    """A hundred times x in one of a hundred samples, beside a level of .3: H = x - .3."""
    return 100.0 * theta * x - 0.3


PROBLEM = tr.Problem(objective, rare, tr.Box(0.0, 1.0, shape=(1,)))
SAFE = {"inside": np.zeros(1, np.float32), "slack": 0.3, "low": -0.3, "high": 99.7}


def outputs(method, steps, seed=0):
    """The mean of points of many runs, and their last states."""
    keys = jax.random.split(jax.random.key(seed), RUNS)

    @jax.jit
    @jax.vmap
    def run(key):
        samples = (jax.random.uniform(key, (steps, 1)) < 0.01).astype(jnp.float32)
        state = method.init(PROBLEM, jnp.zeros(1), jnp.zeros(1), jnp.asarray(steps))

        def one(state, theta):
            state, info = method.step(PROBLEM, state, theta)
            return state, (info.x * info.weight, info.weight)

        state, (x, weight) = jax.lax.scan(one, state, samples)
        return jnp.sum(x, axis=0) / jnp.sum(weight), state

    return run(keys)


def test_what_is_rare_is_kept_in_the_mean_where_the_method_alone_violates_it():
    """At T = 30 hardly a run has seen that the constraint exists."""
    greedy = tr.CSOA(eta0=10.0, upsilon0=0.0)
    alone, _ = outputs(greedy, 30)
    assert float(np.mean(alone)) > 0.6  # the method alone: twice what is allowed
    for steps in (30, 1000):
        x, state = outputs(Braked(greedy, **SAFE), steps)
        h = np.asarray(x)[:, 0] - 0.3
        assert h.mean() <= 2 * h.std() / RUNS**0.5
        assert np.all(np.asarray(state.book) <= 1e-3)  # and every book is closed


def test_a_brake_that_hardly_acts_changes_hardly_anything():
    """Only the last step, after which nothing can make up for it, stands at the point inside."""
    steps = 300
    loose = Braked(tr.CSOA(), SAFE["inside"], slack=1e6, low=-1e7, high=99.7)
    x, state = outputs(loose, steps)
    assert np.all(np.asarray(state.taken) >= steps - 1)
    np.testing.assert_allclose(x, outputs(tr.CSOA(), steps)[0], atol=2.1 / steps)  # the weight of the last point


def test_this_run_keeps_its_constraints_but_with_the_chance():
    x, state = outputs(Braked(tr.CSOA(), **SAFE, chance=0.1), 30_000)
    assert np.mean(np.asarray(x)[:, 0] > 0.3) <= 0.1
    assert float(np.mean(np.asarray(state.taken))) > 3000  # it is no run of safe steps alone


@pytest.mark.parametrize("chance", [0.1])
def test_bounds_of_sums_hold_at_all_steps_at_once(chance):
    """The largest excess over all t of a sum of fair coins is below the width in all but that share of runs."""
    h = np.random.default_rng(0).choice([-1.0, 1.0], size=(500, 2000))
    mean = np.concatenate([np.zeros((500, 1)), np.cumsum(h, axis=1)[:, :-1] / np.arange(1, 2000)], axis=1)
    spread = np.cumsum(((h - mean) / 2) ** 2, axis=1)
    above = -np.cumsum(h, axis=1) > 2 * np.asarray(
        jax.vmap(lambda v: width(v[None], chance)[0])(jnp.ravel(spread))
    ).reshape(h.shape)
    assert np.mean(np.any(above, axis=1)) <= chance


def test_a_run_certifies_itself():
    noise = tr.Generator(lambda key: jax.random.uniform(key, (1,)) * 2)
    problem = tr.Problem(objective, lambda x, theta: theta * x - 0.5, tr.Box(0.0, 1.0, shape=(1,)))
    method = Braked(tr.CSOA(), np.zeros(1, np.float32), slack=0.5, low=-0.5, high=1.5)
    result = tr.minimize(problem, noise, method=method, steps=4000)
    bound, truth = float(self_certificate(result)[0]), float(result.x[0]) - 0.5
    assert truth <= bound < truth + 0.3
    share = 100 * int(result.state.taken) / 4000
    assert f"left {share:.4g} % of the steps to csoa" in str(result).replace("\n", " ")
    assert f"{bound:.3g} above its level" in " ".join(str(result).split())
    with pytest.raises(TypeError, match="Braked"):
        self_certificate(tr.minimize(problem, noise, method="csoa", steps=100))


def test_a_run_without_an_end_stops_and_goes_on():
    method = Braked(tr.CSOA(anytime=True), **SAFE)
    x, state = outputs(method, 3000)
    h = np.asarray(x)[:, 0] - 0.3
    assert h.mean() <= 2 * h.std() / RUNS**0.5
    assert np.all(np.asarray(state.taken) < 3000)
    online = tr.Online(PROBLEM, method=method)
    online.update(np.zeros((50, 1), np.float32))
    assert np.all(np.isfinite(np.asarray(online.x)))


def test_theorem_3_keeps_what_is_rare_and_its_bound():
    """D = 1, sigma_f = 1, sigma_h^2 = 100, sigma_lambda^2 <= 100.1: the gap is below the theorem's bound, which falls like
    T^-1/2, and H at most zero, though within a hundred steps a third of all runs has not seen the constraint."""
    method = braked_adagrad(diameter=1.0, rise=0.3, **SAFE)  # F(0) - F* is .3, C_s = 1
    for steps in (100, 10_000):
        x, state = outputs(method, steps)
        h = np.asarray(x)[:, 0] - 0.3
        assert h.mean() <= 2 * h.std() / RUNS**0.5
        assert np.all(np.asarray(state.book) <= 1e-2)
        bound = 4 / steps**0.5 * ((1 + 4 * 100) ** 0.5 + 2 * 100.1**0.5) + 100 / steps
        assert -h.mean() <= min(bound, 0.3)
    assert -h.mean() < 0.2  # nearer than where it began


@pytest.mark.parametrize(
    ("wrong", "said"),
    [({"base": tr.SQP()}, "base"), ({"slack": 0.0}, "slack"), ({"low": 0.0}, "range"), ({"chance": 2.0}, "chance")],
)
def test_what_cannot_be_is_refused(wrong, said):
    with pytest.raises((TypeError, ValueError), match=said):
        Braked(**({"base": tr.CSOA(), **SAFE} | wrong))
