"""Samples made by a function of a key: each from a key of its own, whatever steps are asked for together."""

import numpy as np
import pytest
from core_cases import draw

import tightrope as tr
from tests.sampling.drawn import taken


@pytest.mark.parametrize("replace", [False, True])
@pytest.mark.parametrize("kind", ["rows", "generator"])
def test_a_sample_depends_on_seed_and_step_alone(kind, replace):
    sampler = tr.Rows(np.zeros((11, 1)), replace=replace) if kind == "rows" else tr.Generator(draw)
    whole = taken(sampler, 9000, seeds=(3,), batch_size=2)
    np.testing.assert_array_equal(taken(sampler, 9000, at_once=700, seeds=(3,), batch_size=2), whole)
    np.testing.assert_array_equal(taken(sampler, 5, start=8123, seeds=(3,), batch_size=2), whole[:, 8123:8128])
    np.testing.assert_array_equal(taken(sampler, 50, seeds=(5, 3), batch_size=2)[1:], whole[:, :50])
    assert not np.array_equal(taken(sampler, 50, seeds=(4,), batch_size=2), whole[:, :50])


def test_generated_samples_differ_between_steps_draws_and_batches():
    items = taken(tr.Generator(draw), 20, draws=2, batch_size=3)
    assert items.shape == (1, 20, 2, 3, 3)
    assert len(np.unique(items.reshape(-1, 3)[:, 0])) == 20 * 2 * 3


def test_generated_samples_have_the_distribution_of_the_function():
    items = taken(tr.Generator(draw), 4096)[0, :, 0, 0]
    np.testing.assert_allclose(items.mean(axis=0), [1.0, -0.5, 0.2], atol=0.05)
    np.testing.assert_allclose(items.std(axis=0), 0.7, atol=0.04)
