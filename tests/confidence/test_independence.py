"""The test of whether neighbouring rows are alike: rarely false, whatever the law, and it sees what breaks bounds."""

import numpy as np
import pytest

from tightrope.confidence import leeway, serial_dependence

INDEPENDENT = {
    "uniform": lambda rng, n: rng.random(n),
    "three columns": lambda rng, n: rng.normal(size=(n, 3)),
    "rare events": lambda rng, n: (rng.random(n) < 0.005).astype(float),
    "a few ones": lambda rng, n: (rng.random(n) < 3 / n).astype(float),
    "Cauchy": lambda rng, n: rng.standard_cauchy(n),
    "outliers": lambda rng, n: rng.normal(size=n) * np.where(rng.random(n) < 3 / n, 1e4, 0.01),
    "constant": lambda rng, n: np.full(n, 0.1),
}


@pytest.mark.parametrize("law", INDEPENDENT)
@pytest.mark.parametrize("n", [2, 40, 700])
def test_independent_rows_raise_no_alarm(law, n):
    """1 in 1,000 is allowed: four of 300 would be beyond a chance of 1e-3."""
    alarms = sum(serial_dependence(INDEPENDENT[law](np.random.default_rng(seed), n)).found for seed in range(300))
    assert alarms <= 3


def autoregressive(rng, n, time, noise=np.random.Generator.normal):
    rho, x = np.exp(-1 / time), np.zeros(n + int(10 * time))
    steps = noise(rng, size=len(x))
    for t in range(1, len(x)):
        x[t] = rho * x[t - 1] + steps[t]
    return x[-n:]


@pytest.mark.parametrize("time", [1, 10, 100])
@pytest.mark.parametrize("heavy", [False, True])
def test_correlated_rows_are_found_and_the_inflation_is_estimated(time, heavy):
    noise = (lambda rng, size: rng.standard_t(2, size)) if heavy else (lambda rng, size: rng.normal(size=size))
    seen = [serial_dependence(autoregressive(np.random.default_rng(s), 2000, time, noise)) for s in range(10)]
    assert all(one.found for one in seen)
    true = 1 / np.tanh(0.5 / time)
    assert true / 5 < np.median([one.inflation[0] for one in seen]) < 1.5 * true


rng = np.random.default_rng(1)
ALIKE = {
    "sorted": np.sort(rng.normal(size=1000)),
    "a drift": rng.normal(size=2000) + np.linspace(0, 0.5, 2000),
    "rare events at the end": np.repeat([0.0, 1.0], [1990, 10]),
    "every row twice": np.repeat(rng.normal(size=500), 2),
    "groups of 50 rows": np.repeat(rng.normal(size=40) / 3, 50) + rng.normal(size=2000),
    "a cluster of outliers in noise": np.where(np.arange(2000) // 10 == 5, 50, rng.normal(size=2000)),
    "correlation under an outlier": np.append(autoregressive(rng, 2000, 5), 1e9),
    "one column of three": np.column_stack([rng.normal(size=(800, 2)), np.sort(rng.random(800))]),
    "a long file": autoregressive(rng, 100_000, 5),
    "a slow drift in a long file": rng.normal(size=100_000) + np.linspace(0, 0.3, 100_000),
}


@pytest.mark.parametrize("case", ALIKE)
def test_rows_that_are_alike_are_found(case):
    assert serial_dependence(ALIKE[case]).found


def test_alternating_rows_are_let_pass_for_they_only_narrow_a_mean():
    seen = serial_dependence(np.resize([0.0, 1.0], 1000) + np.random.default_rng(0).normal(size=1000))
    assert not seen.found
    assert seen.inflation == 1


def test_leeway_is_what_an_autoregression_asks_for_and_narrows_nothing():
    noise = np.random.default_rng(0).normal(size=(400, 50))
    factors = leeway(noise)
    assert np.all(factors >= 1)
    assert np.mean(factors > 1) < 0.3  # one in six by chance
    assert factors.max() < 1.3
    x = autoregressive(np.random.default_rng(1), 20_000, 1)
    assert leeway(x)[0] == pytest.approx(np.sqrt(1 / np.tanh(0.5)), rel=0.05)
    assert leeway([1.0]) == leeway(np.ones(5)) == 1


def test_blocks_hardly_longer_than_what_is_alike_are_not_taken_for_long_ones():
    """Ten stretches of 400 rows that share a small part of their values: sums over the longest blocks that are looked at,
    256 rows, have half of the variance that sums over all rows have."""
    told, n, length = [], 4096, 400
    for seed in range(40):
        rng = np.random.default_rng(seed)
        shared = np.repeat(rng.normal(size=n // length + 2), length)[rng.integers(length) :][:n]
        told.append(float(serial_dependence(0.3 * shared + np.sqrt(0.91) * rng.normal(size=n)).longer[0]))
    assert np.mean(told) > 0.8 * (1 + 0.09 * length)
