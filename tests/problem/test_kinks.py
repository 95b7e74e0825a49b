"""Kinks that programs show: found in whatever way they are written, smooth above the functions, and counted by rows."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tightrope as tr
from tightrope.problem.kinks import FAR, between_rows, kinks_in, smoothed, weighed

X = np.array([0.3, -0.2, 0.7])
ROW = {"a": np.array([1.0, -2.0, 0.5]), "flag": np.array(1.0)}
WRITTEN = {
    "maximum": (lambda x, row: jnp.maximum(0.0, x @ row["a"]), 1),
    "minimum": (lambda x, row: -jnp.minimum(x @ row["a"], 1.0), 1),
    "absolute": (lambda x, row: jnp.abs(x).sum(), 3),
    "norm": (lambda x, row: jnp.linalg.norm(x, 1), 3),
    "relu": (lambda x, row: jax.nn.relu(x @ row["a"]), 1),
    "a choice": (lambda x, row: jnp.where(x @ row["a"] > 0, 0.9 * (x @ row["a"]), -0.1 * (x @ row["a"])), 1),
    "the other way": (lambda x, row: jnp.where(x @ row["a"] <= 0, -0.1 * (x @ row["a"]), 0.9 * (x @ row["a"])), 1),
    "the largest of three": (lambda x, row: jnp.max(x * row["a"]), 2),
    "inside another program": (jax.jit(lambda x, row: jnp.maximum(x[0], row["a"][1]) + x.sum()), 1),
    "smooth": (lambda x, row: jax.nn.softplus(x @ row["a"]) + (x**2).sum(), 0),
    "of rows alone": (lambda x, row: jnp.abs(row["a"]).sum() * x.sum() + jnp.where(row["flag"] > 0, x[0], -x[0]), 0),
    "only to shift exponentials": (lambda x, row: jax.nn.softmax(x * row["a"])[0], 0),
}


def problem_of(f):
    return tr.Problem(f, None, tr.Box(-1.0, 1.0, shape=3))


@pytest.mark.parametrize("how", WRITTEN)
def test_a_kink_is_found_however_it_is_written(how):
    f, number = WRITTEN[how]
    assert kinks_in(problem_of(f), X, ROW) == number


@pytest.mark.parametrize("how", [how for how, (_, number) in WRITTEN.items() if number])
def test_what_is_smooth_is_above_by_at_most_log_two_widths_for_each_kink_and_has_its_slope_far_from_them(how):
    f, number = WRITTEN[how]
    problem = problem_of(f)
    rng = np.random.default_rng(0)
    for width in (1.0, 1e-2):
        smooth = smoothed(problem, np.full(number, width))
        for x in rng.normal(size=(20, 3)):
            above = float(smooth.sample_values(x, ROW)[0] - f(x, ROW))
            assert -1e-12 <= above <= 2 * number * width * np.log(2) + 1e-12
    smooth = smoothed(problem, np.full(number, 1e-4))
    slope = jax.grad(lambda x: smooth.sample_values(x, ROW)[0])(X)
    np.testing.assert_allclose(slope, jax.grad(f)(X, ROW), atol=1e-6)


def test_kinks_are_weighed_and_their_rows_counted():
    """Hinges 3 [1 - s]_+ of five rows, and |x| with a weight of 0.5."""
    s = np.array([0.0, 0.5, 0.9, 1.1, 30.0])
    problem = tr.Problem(
        lambda x, s: 3 * jnp.maximum(0.0, 1 - s * x[0]) + 0.5 * jnp.abs(x[0]), None, tr.Box(-1.0, 2.0, shape=1)
    )
    parts, worth, rows_at = weighed(problem, jnp.ones(1), jnp.zeros(0), jnp.asarray(s), jnp.array([0.5, 0.5]))
    np.testing.assert_allclose(parts, [3.0, 1.0])
    np.testing.assert_allclose(worth, [3 * np.abs(1 - s).mean(), 1.0])
    assert float(rows_at.sum()) == pytest.approx(9 / 5)  # of ten; that with s = 30 is farther than it matters
    places = between_rows(np.asarray(rows_at), 100)
    t = np.unique([*((s[:4] - 1) / 0.5), 2.0])  # max(0, b) is b where 0 - b is not above zero
    assert len(places) == len(t) + 1
    assert np.all((places[:-1] < t) & (t < places[1:]))


def test_of_too_many_rows_those_near_their_kinks_are_told_apart():
    rows_at = np.ones(4096)
    places = between_rows(rows_at, 21)
    assert len(places) <= 21
    assert np.median(np.abs(places)) < FAR / 5
    assert between_rows(0 * rows_at, 21).tolist() == [-1.0, 1.0]
