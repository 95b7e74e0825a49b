"""A margin that eats the Slater margin is noted, with the steps that would do; one that does not is not."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tightrope as tr

ROWS = np.random.default_rng(0).normal([1.0, 0.0], 0.1, size=(400, 2))
SIGMA = 0.25  # of both |x_1| <= 0.25 where the mean of the noise is taken off


def f(x, theta):
    return ((x - theta) ** 2).sum()


def h(x, theta):
    return jnp.stack([x[0], -x[0]]) + 0.0 * theta


PROBLEM = tr.Problem(f, h, tr.L2Ball(2.0, shape=2), levels=SIGMA)
SAMPLES = {
    "rows": ROWS,
    "generator": tr.Generator(lambda key: jnp.array([1.0, 0.0]) + 0.1 * jax.random.normal(key, (2,))),
}


def note_of(result):
    return next((note for note in result.notes if note.startswith("the margin ")), None)


@pytest.mark.parametrize("data", SAMPLES)
def test_a_margin_above_the_slater_margin_is_noted(data):
    """upsilon = 10/sqrt(400) = 0.5 > 0.25; half of that is kept from (10/0.125)^2 = 6,400 steps on."""
    result = tr.minimize(PROBLEM, SAMPLES[data], method=tr.CSOA(upsilon0=10.0), steps=400)
    note = note_of(result)
    assert note is not None
    assert "leaves no feasible point: upsilon is 0.5 at 400 steps" in note
    steps = [int(found.replace(",", "")) for found in re.findall(r"([0-9,]+) steps or more", note)]
    assert steps == pytest.approx([6400], rel=0.1)
    assert note in str(result)
    assert result.unsettled  # multipliers that run off
    assert "(still changing)" in str(result)


def test_units_do_not_matter():
    scaled = tr.Problem(f, lambda x, theta: 1e-3 * h(x, theta), tr.L2Ball(2.0, shape=2), levels=1e-3 * SIGMA)
    note = note_of(tr.minimize(scaled, ROWS, method=tr.CSOA(upsilon0=1e-2, dual_scale=1e3), steps=400))
    assert note is not None
    assert "upsilon is 0.0005" in note


@pytest.mark.parametrize("method", [tr.CSOA(upsilon0=0.5), "csoa", "svrg-csoa"])
def test_a_margin_that_leaves_room_is_not(method):
    assert note_of(tr.minimize(PROBLEM, ROWS, method=method, steps=400)) is None


def test_a_margin_that_does_not_shrink_is_no_matter_of_steps():
    note = note_of(tr.minimize(PROBLEM, ROWS, method=tr.SVRGCSOA(upsilon=0.5), passes=6))
    assert note is not None
    assert "steps or more" not in note
    assert "upsilon = 0.125 or less" in note
