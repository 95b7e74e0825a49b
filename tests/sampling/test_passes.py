"""Orders of rows: each pass visits every row once, wherever it is read from; a pass over many rows is computed on demand."""

import numpy as np
import pytest

from tightrope.sampling import passes
from tightrope.sampling.passes import Passes, shuffled


def keys(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(2**32, size=6, dtype=np.uint32)


@pytest.mark.parametrize("n", [2, 3, 1000, 8192, 123_456])
def test_a_permutation_that_is_computed_on_demand_has_every_row_once(n):
    whole = shuffled(n, keys(n), 0, n)
    np.testing.assert_array_equal(np.sort(whole), np.arange(n))
    cut = n // 3
    np.testing.assert_array_equal(np.concatenate([shuffled(n, keys(n), 0, cut), shuffled(n, keys(n), cut, n)]), whole)


def test_a_permutation_that_is_computed_on_demand_looks_like_any_other():
    n, seeds = 1000, range(400)
    every = np.stack([shuffled(n, keys(seed), 0, n) for seed in seeds])
    fixed = np.sum(every == np.arange(n), axis=1)  # Poisson with mean 1
    assert abs(fixed.mean() - 1) < 4 / np.sqrt(len(seeds))
    steps = np.abs(np.diff(every, axis=1)).mean() / n  # of uniform places 1/3
    assert steps == pytest.approx(1 / 3, abs=2e-3)
    quarters = np.array([[np.sum(part // 250 == q) for q in range(4)] for part in every[:, :250]])
    expected, spread = 62.5, np.sqrt(250 * 0.25 * 0.75 * (1 - 250 / n))
    assert np.all(np.abs(quarters.mean(axis=0) - expected) < 5 * spread / np.sqrt(len(seeds)))
    assert quarters.std() == pytest.approx(spread, rel=0.1)


def test_passes_over_many_rows_are_whole_and_do_not_depend_on_where_reading_begins(monkeypatch):
    monkeypatch.setattr(passes, "_MANY", 5000)
    n, key = 6000, (3, 0)
    order = Passes(n, replace=False)
    three = order.entries(key, 0, 3 * n)
    for k in range(3):
        np.testing.assert_array_equal(np.sort(three[k * n : (k + 1) * n]), np.arange(n))
    assert np.mean(three[:n] == three[n : 2 * n]) < 0.01
    np.testing.assert_array_equal(order.entries(key, n - 7, 20), three[n - 7 : n + 13])
    assert not order.kept  # nothing is held for all rows
    assert np.mean(Passes(n, replace=False).entries((4, 0), 0, n) == three[:n]) < 0.01


def test_places_near_the_largest_number_of_rows_do_not_overflow():
    n = 2**31 - 1  # the most that fit into int32
    found = shuffled(n, keys(0), n - 70_000, n)
    assert len(np.unique(found)) == 70_000
    assert found.min() >= 0
    assert 0.49 < found.mean() / n < 0.51
