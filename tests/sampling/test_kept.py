"""Samples that are kept, and parts of them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tightrope as tr
from tightrope.problem.full_data import full_mean
from tightrope.sampling.kept import Kept
from tightrope.sampling.sampler import Plan

N = 1000
ROWS = np.random.default_rng(0).normal(size=(N, 3)).astype(np.float32)


def kept(steps=N, batch=1, size=7):
    """All samples of a stream in batches whose length divides nothing."""
    stream = tr.Stream([ROWS[k : k + size] for k in range(0, N, size)])
    found = Kept(stream, Plan((0,), 1, batch, steps), least=50)
    found.read(steps)
    return found


@pytest.mark.parametrize(("begin", "count"), [(0, 200), (200, 200), (700, 300), (333, 1)])
def test_a_part_has_the_rows_that_are_left_and_a_fold_those_that_are_not(begin, count):
    part = kept().part(N)
    rest, fold = part.without(begin, count), part.only(begin, count)
    expected = np.delete(ROWS, np.s_[begin : begin + count], axis=0)
    np.testing.assert_array_equal(rest.few(), expected)
    np.testing.assert_array_equal(fold.few(), ROWS[begin : begin + count])
    # before, across and behind the gap
    for start in sorted({0, *np.clip([begin - 3, begin + 2], 0, rest.n - 8), rest.n - 8}):
        np.testing.assert_array_equal(rest.take(start, 8), expected[start : start + 8])
    np.testing.assert_array_equal(rest.take(0, 4, 100), expected[:400:100])


@pytest.mark.parametrize("part", [lambda p: p, lambda p: p.without(400, 200), lambda p: p.only(800, 200)])
def test_a_mean_is_over_the_rows_of_a_part(part):
    rows = part(kept().part(N))
    mean = full_mean(lambda theta: jnp.sin(theta), rows)
    np.testing.assert_allclose(mean, np.sin(np.asarray(rows.few(), float)).mean(axis=0), rtol=1e-5, atol=1e-6)


def test_prefixes_are_the_samples_in_the_order_in_which_a_run_draws_them():
    every = kept(steps=300, batch=3)
    np.testing.assert_array_equal(every.part(100).few(), ROWS[:300])
    np.testing.assert_array_equal(every.part(300).few(), ROWS[:900])


def test_a_generator_gives_the_samples_that_steps_would_see():
    generator, plan = tr.Generator(jax.random.normal), Plan((3,), 1, 2, 40)
    found = Kept(generator, plan, least=8)
    found.read(40)
    seen = generator.open(plan).take(0, 40)
    np.testing.assert_array_equal(found.part(40).few(), np.asarray(seen.items)[0, :40, 0].reshape(80))


def test_a_stream_that_ends_early_says_so():
    found = kept(steps=2 * N)
    assert found.ended
    assert found.n == N
