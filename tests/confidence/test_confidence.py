"""Bounds held to their word: by enumeration where that can be done, so that no random number decides."""

import itertools
import math

import numpy as np
import pytest
from scipy.stats import binom, t

from tightrope.confidence import (
    Anytime,
    binomial_lower,
    binomial_upper,
    bounded_below,
    bounded_lower,
    bounded_upper,
    fixed_sequence,
    means,
    rates,
    ratio_lower,
    skewness_shortfall,
    studentised_upper,
    umbrella_least,
    umbrella_order,
)

ALPHA = 0.05


def every_sequence(n: int) -> np.ndarray:
    """All sequences of n zeros and ones, one per column."""
    return np.array(list(itertools.product([0.0, 1.0], repeat=n))).T


def chance(sequences: np.ndarray, p: float) -> np.ndarray:
    ones = sequences.sum(axis=0)
    return p**ones * (1 - p) ** (len(sequences) - ones)


# ---- rates -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("p", [0.01, 0.1, 0.4, 0.9])
def test_a_rate_is_above_its_bound_as_seldom_as_promised(p):
    k = np.arange(31)
    assert binom.pmf(k, 30, p)[binomial_upper(k, 30, 0.95) < p].sum() <= ALPHA
    assert binom.pmf(k, 30, p)[binomial_lower(k, 30, 0.95) > p].sum() <= ALPHA


def test_a_rate_s_bound_is_no_wider_than_it_need_be():
    upper = binomial_upper(3, 50, 0.95)
    assert binom.cdf(3, 50, upper) == pytest.approx(ALPHA)
    assert binomial_upper(50, 50, 0.95) == 1.0
    assert binomial_lower(0, 50, 0.95) == 0.0


def test_weights_are_no_counts():
    with pytest.raises(ValueError, match="Sums of weights are no counts"):
        binomial_upper(2.5, 10, 0.95)
    with pytest.raises(ValueError, match="confidence is 95"):
        binomial_upper(2, 10, 95)


# ---- bounded means, n fixed --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("p", [0.05, 0.3, 0.5, 0.8, 0.97])
def test_a_mean_at_its_level_is_called_below_it_as_seldom_as_promised(p):
    sequences = every_sequence(12)
    wrong = bounded_below(sequences, 0, 1, p, 1 - ALPHA)
    assert chance(sequences, p)[wrong].sum() <= ALPHA
    assert bounded_below(sequences, 0, 1, 0.6, 1 - ALPHA).any()  # it is not silent


def test_what_is_rejected_is_an_interval():
    """The search for its end supposes it: checked where caps bind, rows are few and values extreme."""
    rng = np.random.default_rng(0)
    lanes = np.linspace(0.001, 0.999, 400)[:, None]
    for n in (1, 2, 5, 40):
        for a, b in ((0.05, 0.05), (1, 1), (0.2, 5), (5, 0.2)):
            rejected = means._rejects(rng.beta(a, b, (n, 30)), lanes * np.ones(30), ALPHA)
            assert np.all(np.diff(rejected.astype(int), axis=0) >= 0)


def test_the_bound_is_where_the_test_changes_its_mind():
    values = np.random.default_rng(2).beta(2, 5, (300, 3))
    upper = bounded_upper(values, 0, 1, 0.95)
    width = upper - values.mean(axis=0)
    assert bounded_below(values, 0, 1, upper, 0.95).all()
    assert not bounded_below(values, 0, 1, upper - 0.02 * width, 0.95).any()


def test_bounds_have_the_units_of_their_values():
    values = np.random.default_rng(4).beta(2, 5, 200)
    upper = bounded_upper(values, 0, 1, 0.95)
    for scale, shift in ((1e-6, 3.0), (1e6, -2e6)):
        other = bounded_upper(scale * values + shift, shift, shift + scale, 0.95)
        assert (other - shift) / scale == pytest.approx(upper, rel=1e-6)
    assert bounded_lower(1 - values, 0, 1, 0.95) == pytest.approx(1 - upper)


def test_a_fixed_sample_costs_little_beside_the_normal_approximation():
    values = np.random.default_rng(6).beta(50, 50, (10_000, 4))  # a range of 20 standard deviations
    width = bounded_upper(values, 0, 1, 0.95) - values.mean(axis=0)
    assert 1.0 < np.mean(width / (1.645 * values.std(axis=0) / 100)) < 1.3


def test_long_samples_are_bet_on_in_blocks(monkeypatch):
    values = np.random.default_rng(8).random(1003)
    whole = bounded_upper(values, 0, 1, 0.95) - values.mean()
    monkeypatch.setattr(means, "_BETS", 250)
    assert bounded_upper(values, 0, 1, 0.95) - values.mean() == pytest.approx(whole, rel=0.5)


def test_ranges_that_are_wrong_are_refused():
    with pytest.raises(ValueError, match=r"a value of 1\.5 is outside of the range"):
        bounded_upper([0.1, 1.5], 0, 1, 0.95)
    with pytest.raises(ValueError, match="low < high"):
        bounded_upper([0.1], 1, 0, 0.95)
    with pytest.raises(ValueError, match="not finite"):
        bounded_upper([0.1, np.nan], 0, 1, 0.95)


def test_nothing_seen_is_nothing_known():
    assert bounded_upper([0.0], 0, 1, 0.95) == 1.0
    assert 0.0029 < bounded_upper(np.zeros(1000), 0, 1, 0.95) < 0.0033  # the best possible is 0.0030


# ---- bounded means, at all times ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_looking_after_every_sample_is_paid_for(p):
    sequences = every_sequence(13)
    ones = np.ones(sequences.shape[1])
    seen, ever = Anytime.start(0 * ones, ones), np.zeros(len(ones), bool)
    for row in sequences:
        seen = seen.add(row[None])
        ever |= seen.below(p, 1 - ALPHA)
    assert chance(sequences, p)[ever].sum() <= ALPHA


def test_what_the_state_forgets_only_widens_the_bound():
    y = np.linspace(-0.5, 50, 100_001)
    assert np.all(np.log1p(y) >= y - y**2 / 2 + y**3 / 3 - 0.43 * y**4 - 1e-15)


def test_samples_may_come_in_any_order_and_in_any_batches():
    values = np.random.default_rng(0).uniform(-3, 5, (600, 2))
    at_once = Anytime.start([-3.0, -3.0], [5.0, 5.0]).add(values)
    in_parts = Anytime.start([-3.0, -3.0], [5.0, 5.0])
    for part in np.array_split(values[::-1], 7):
        in_parts = in_parts.add(part)
    assert in_parts.n == at_once.n == 600
    np.testing.assert_allclose(in_parts.mean, values.mean(axis=0))
    np.testing.assert_allclose(in_parts.upper(0.95), at_once.upper(0.95))
    width = at_once.upper(0.95) - values.mean(axis=0)
    assert np.all(width < 2.7 * 1.645 * values.std(axis=0) / np.sqrt(600))
    assert np.all(at_once.below(at_once.upper(0.95) + 1e-9, 0.95))
    assert not np.any(at_once.below(at_once.upper(0.95) - 1e-3, 0.95))


# ---- asymptotic bounds -------------------------------------------------------------------------------------------------


def test_without_skewness_it_is_student_s_bound():
    values = np.array([-2.0, -1.0, 0.0, 1.0, 2.0])
    expected = t.ppf(0.95, 4) * values.std(ddof=1) / math.sqrt(5)
    assert studentised_upper(values, 0.95) == pytest.approx(expected)
    assert studentised_upper(-(values**3) + values**4, 0.95) > 0
    assert studentised_upper([1.0], 0.95) == math.inf


def test_skewness_to_the_right_moves_it_up():
    values = np.random.default_rng(0).exponential(size=500)
    plain = values.mean() + t.ppf(0.95, 499) * values.std(ddof=1) / math.sqrt(500)
    assert studentised_upper(values, 0.95) > plain
    mirrored = -values.mean() + t.ppf(0.95, 499) * values.std(ddof=1) / math.sqrt(500)
    assert studentised_upper(-values, 0.95) == pytest.approx(mirrored)


def test_heavy_tails_are_seen():
    rng = np.random.default_rng(0)
    assert np.all(skewness_shortfall(rng.pareto(1.5, (5000, 20)), 0.95) > 0.01)
    assert np.all(skewness_shortfall(rng.normal(size=(5000, 20)), 0.95) < 0.01)
    one = np.zeros(100_000)
    one[3] = 1e9
    assert skewness_shortfall(one, 0.95) == pytest.approx(0.1103, abs=1e-3)  # whatever n


def test_next_to_nobody_selected_is_no_error():
    """Rates are known up to rounding where decisions are moved: 1e-16 of a group, and none of another."""
    for a in (1e-13, 3e-15, 1e-17):
        assert rates.effective_ratio_lower(a, 300.0, 0.0, 200.0, 0.95) == 0.0
        assert rates.ratio_score(1.0, a, 300.0, 0.0, 200.0) == pytest.approx(0.0, abs=1e-6)
    assert ratio_lower(2, 400, 0, 300, 0.95) > 0.3
    assert ratio_lower(2, 400, 0, 300, 0.5) == math.inf


@pytest.mark.parametrize("counts", [(80, 400, 100, 400), (5, 100, 5, 90), (100, 100, 90, 100), (3, 50, 1, 60)])
def test_a_ratio_s_bound_is_where_the_score_test_changes_its_mind(counts):
    a, n_a, b, n_b = counts
    rho = ratio_lower(a, n_a, b, n_b, 0.95)
    p = np.linspace(1e-6, min(1.0, 1 / rho) - 1e-9, 400_001)[1:]
    with np.errstate(divide="ignore", invalid="ignore"):
        parts = [a * np.log(rho * p), (n_a - a) * np.log1p(-rho * p), b * np.log(p), (n_b - b) * np.log1p(-p)]
    likely = p[np.nanargmax(np.sum([np.where(np.isnan(v), 0, v) for v in parts], axis=0))]
    assert rates.ratio_score(rho, a, n_a, b, n_b) == pytest.approx(1.6449, abs=1e-3)
    variance = rho * likely * (1 - rho * likely) / n_a + rho**2 * likely * (1 - likely) / n_b
    score = (a / n_a - rho * b / n_b) / math.sqrt(variance * (n_a + n_b) / (n_a + n_b - 1))
    assert score == pytest.approx(1.6449, abs=2e-3)
    assert ratio_lower(0, 10, 5, 10, 0.95) == 0.0


# ---- thresholds and sequences ------------------------------------------------------------------------------------------


def test_the_umbrella_s_order_statistic_is_the_smallest_that_is_safe():
    k = umbrella_order(500, 0.1, 0.95)
    assert k is not None
    assert binom.sf(k - 1, 500, 0.9) <= ALPHA < binom.sf(k - 2, 500, 0.9)
    least = umbrella_least(0.003, 0.95)
    assert umbrella_order(least, 0.003, 0.95) == least
    assert umbrella_order(least - 1, 0.003, 0.95) is None


def test_a_fixed_sequence_ends_at_the_first_failure():
    looked = []

    def passes(k):
        looked.append(k)
        return k != 2

    assert fixed_sequence(passes(k) for k in range(10)) == 2
    assert looked == [0, 1, 2]
