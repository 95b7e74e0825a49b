"""Rows at hand: passes that visit each once, or independent draws; what is no data is refused."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tightrope as tr
from tests.sampling.drawn import taken
from tightrope.sampling import Plan, as_sampler


@pytest.mark.parametrize(("n", "batch_size"), [(7, 1), (10, 3), (5000, 7)])
def test_every_pass_visits_every_row_once_and_batches_straddle_passes(n, batch_size):
    rows = tr.Rows(np.zeros((n, 2)))
    order = taken(rows, 3 * n, batch_size=batch_size)[0, :, 0]
    assert order.shape == (3 * n, batch_size)
    passes = order.reshape(3 * batch_size, n)
    assert all(sorted(one) == list(range(n)) for one in passes)
    assert len({tuple(one) for one in passes}) == len(passes)


@pytest.mark.parametrize("replace", [False, True])
def test_two_draws_of_a_step_are_independent(replace):
    both = taken(tr.Rows(np.zeros((50, 1)), replace=replace), 5000, draws=2)[0, :, :, 0]
    assert np.mean(both[:, 0] == both[:, 1]) == pytest.approx(1 / 50, abs=0.01)
    assert abs(np.corrcoef(both.T)[0, 1]) < 0.06


def test_with_replacement_frequencies_are_those_of_independent_draws():
    order = taken(tr.Rows(np.zeros((20, 1)), replace=True), 40_000)[0, :, 0, 0]
    counts = np.bincount(order, minlength=20)
    chi2 = ((counts - 2000) ** 2 / 2000).sum()  # 19 degrees of freedom; passes would give 0
    assert 4 < chi2 < 50
    assert np.mean(order[1:] == order[:-1]) == pytest.approx(1 / 20, abs=0.01)


def test_a_long_pass_is_shuffled_once_and_not_for_every_buffer():
    opened = tr.Rows(np.zeros((100_000, 1))).open(Plan((0,)))
    kept = []
    for t in range(0, 50_000, 4096):
        opened.take(t, 4096)
        kept.append(opened.make.passes.kept[0, 0][1])  # pyright: ignore[reportAttributeAccessIssue]
    assert all(rows is kept[0] for rows in kept)


def test_rows_are_looked_up_in_every_leaf():
    rows = tr.Rows({"a": np.arange(10.0).reshape(5, 2), "y": np.arange(5)})
    picked = rows.pick(jnp.array([3, 1]))
    np.testing.assert_array_equal(picked["a"], [[6.0, 7.0], [2.0, 3.0]])
    np.testing.assert_array_equal(picked["y"], [3, 1])
    assert rows.example()["a"].shape == (2,)


def test_arrays_become_rows_and_samplers_stay():
    rows = as_sampler(np.ones((4, 2)))
    assert isinstance(rows, tr.Rows)
    assert as_sampler(rows) is rows


@pytest.mark.parametrize("number", [3_000_000_000, -3_000_000_000])
def test_rows_keep_the_digits_that_they_have(number):
    given = np.array([[1], [number]]), np.array([0.1, 0.2])
    with jax.enable_x64(False):
        whole, parts = tr.Rows(given).data
        assert int(np.asarray(whole)[1, 0]) == number
        assert np.asarray(parts)[0] == 0.1
        with pytest.raises(ValueError, match=f"the whole number {number:,} .int64., and JAX as it is configured holds"):
            tr.Rows(given).narrowed()
        assert tr.Rows(given[1]).narrowed().data.dtype == np.float32


@pytest.mark.parametrize("source", [lambda data: tr.Stream([data]).example()])
@pytest.mark.parametrize("number", [3_000_000_000, -3_000_000_000])
def test_whole_numbers_that_do_not_fit_are_refused(source, number):
    """With 32 bits 3,000,000,000 would become -1,294,967,296 without a word."""
    data = np.array([[1], [number]])
    source(data)  # 64 bits, as these tests have them
    with jax.enable_x64(False):
        with pytest.raises(ValueError, match=f"the whole number {number:,} .int64., and JAX as it is configured holds"):
            source(data)
        source(np.array([[1], [2**31 - 1]]))
