"""A run that swings says so; noise, slack constraints and runs that settle are no reason to."""

from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

import tightrope as tr
from tightrope.evidence.oscillation import oscillation_note
from tightrope.problems import PROBLEMS


def solve(method, noise=0.02, units=1.0, steps=6000):
    """min -x_1 s.t. x_1 <= 1/2 in a box: nothing damps the turning of x_1 around 1/2 and of its multiplier around 1. The
    second constraint is slack."""

    def h(x, theta):
        return units * jnp.stack([x[0] - 0.5 + theta, x[1] - 0.9 + theta])

    def draw(key):
        return noise * jax.random.normal(key, ())

    problem = tr.Problem(lambda x, theta: -x[0] + theta * x[1], h, tr.Box(-1.0, 1.0, shape=2))
    return tr.minimize(problem, tr.Generator(draw), method=method, steps=steps, progress=False)


def swings(result):
    return [note for note in result.notes if "swings instead of settling" in note]


@pytest.mark.parametrize("units", [1.0, 2.0**20])
def test_a_run_that_swings_says_which_constraint_does(units):
    method = tr.CSOA(eta0=1.0, delta=0.0, upsilon0=0.0, dual_scale=1 / units)
    (note,) = swings(solve(method, units=units))
    assert note.startswith("h[0] swings")
    assert "h[1]" not in note
    assert "defaults measure their own" in note


@pytest.mark.slow
def test_runs_that_settle_are_left_alone():
    assert not swings(solve(tr.CSOA()))
    assert not swings(solve(tr.CSOA(eta0=1.0, delta=0.0, upsilon0=0.0), noise=2.0))  # hidden by noise


@pytest.mark.slow
@pytest.mark.parametrize("name", PROBLEMS)
def test_no_false_alarm_on_problems_with_known_solutions(name):
    solved = PROBLEMS[name]()
    assert not swings(tr.minimize(solved.problem, solved.samples, steps=4000, progress=False))


@pytest.mark.parametrize(("down", "up", "seen"), [(1.0, 5.0, True), (1.7, 2.9, False), (1.9, 2.3, False)])
def test_both_the_constraint_and_its_multiplier_have_to_swing(down, up, seen):
    """H is +1 once in four times and -1 otherwise, far more than its noise; its multiplier has a mean of 2, and has to go
    up and down by a quarter of that."""
    above = np.tile([True, False, False, False], 8)
    worth: Any = SimpleNamespace(samples=np.zeros(100), errors=np.array([0.02]))
    step = 100 * np.arange(33)
    each = {"h": np.where(above, 1.0, -1.0), "dual h": np.where(above, up, down)}
    means = {name: np.append(0.0, np.cumsum(values) / np.arange(1, 33)) for name, values in each.items()}
    note = oscillation_note(
        pd.DataFrame({"step": step, "weight": step.astype(float), **means}), ["h"], worth, 1, measures=True
    )
    assert (note is not None) is seen
    assert note is None or "h swings instead of settling" in note
