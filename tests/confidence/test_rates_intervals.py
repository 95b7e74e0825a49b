"""Intervals of one rate and of two."""

import numpy as np
import pytest
from scipy.stats import binom, binomtest

from tightrope.confidence import difference_interval, ratio_interval, wilson


def test_wilson_is_scipys():
    for x, n in ((0, 7), (3, 7), (7, 7), (40, 1000)):
        low, high = wilson(np.array(x / n), np.array(float(n)), 0.9)
        theirs = binomtest(x, n).proportion_ci(0.9, "wilson")
        assert (float(low), float(high)) == pytest.approx((theirs.low, theirs.high), abs=1e-12)


def test_nobody_counted_is_nothing_known():
    low, high = wilson(np.array(np.nan), np.array(0.0), 0.95)
    assert (float(low), float(high)) == (0.0, 1.0)


@pytest.mark.parametrize(
    ("interval", "true"), [(difference_interval, lambda a, b: a - b), (ratio_interval, lambda a, b: a / b)]
)
def test_intervals_of_two_rates_cover_as_often_as_they_say(interval, true):
    """Exactly, by adding up the probabilities of all pairs of counts: on average over rates, and never far below."""
    n, m, confidence = 40, 60, 0.9
    x, y = (grid.ravel() for grid in np.meshgrid(np.arange(n + 1), np.arange(m + 1), indexing="ij"))
    sizes = np.full(len(x), float(n)), np.full(len(x), float(m))
    low, high = interval((x / n, y / m), sizes, confidence)
    covered = []
    for a in np.linspace(0.1, 0.9, 9):
        for b in np.linspace(0.1, 0.9, 9):
            weight = binom.pmf(x, n, a) * binom.pmf(y, m, b)
            covered.append(weight[(low <= true(a, b)) & (true(a, b) <= high)].sum())
    assert np.mean(covered) == pytest.approx(confidence, abs=0.012)
    assert min(covered) > confidence - 0.04
    assert np.all(low <= high)


def test_a_ratio_at_the_edges():
    one = np.array(30.0), np.array(30.0)
    low, high = ratio_interval((np.array(0.0), np.array(0.5)), one, 0.95)
    assert float(low) == 0
    assert 0 < float(high) < 0.5
    low, high = ratio_interval((np.array(0.5), np.array(0.0)), one, 0.95)
    assert 1 < float(low) < float(high) == np.inf
    low, high = ratio_interval((np.array(0.0), np.array(0.0)), one, 0.95)
    assert (float(low), float(high)) == (0, np.inf)
