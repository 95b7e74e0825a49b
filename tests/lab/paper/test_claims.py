"""Verdicts come from numbers, and each of them can come out."""

import numpy as np
import pytest
from scipy.stats import spearmanr

from tightrope.lab.paper.claims import VERDICTS, Claim, at_most, band, decide, trend, worst

SEEDS = 20


def test_a_claim_takes_only_the_three_verdicts():
    assert "REPRODUCED" in str(Claim("It works.", "reproduced", "1 of 1"))
    with pytest.raises(ValueError, match="expected one of reproduced, partly, not reproduced"):
        Claim("It works.", "yes", "1 of 1")  # pyright: ignore[reportArgumentType]


def test_band_is_median_and_quantiles_of_what_is_known():
    values = np.random.default_rng(0).normal(size=101)
    got = band([*values, np.nan])
    assert got.middle == pytest.approx(np.median(values))
    assert (got.low, got.high) == pytest.approx(tuple(np.percentile(values, [10, 90])))
    assert np.isnan(band([np.nan]).middle)


@pytest.mark.parametrize(
    ("values", "verdict"),
    [([0.1] * SEEDS, "reproduced"), ([0.1] * 10 + [0.5] * 10, "partly"), ([0.5] * SEEDS, "not reproduced")],
)
def test_at_most(values, verdict):
    assert at_most(values, limit=0.2, slack=0.1) == verdict


def test_what_is_not_known_is_not_reproduced():
    assert at_most([np.nan], limit=1.0, slack=1.0) == "not reproduced"


def test_trend_reaches_every_verdict():
    rng, x = np.random.default_rng(1), np.arange(8.0)
    noise = rng.normal(size=(SEEDS, 8))
    assert trend(x, -x + 0.1 * noise, sign=-1)[0] == "reproduced"
    assert trend(x, -0.3 * x + noise, sign=-1)[0] == "partly"
    assert trend(x, x + 0.1 * noise, sign=-1)[0] == "not reproduced"
    assert trend(x, np.zeros((SEEDS, 8)), sign=-1)[0] == "not reproduced"


def test_trend_is_spearmans_correlation_in_each_seed():
    rng = np.random.default_rng(2)
    x, runs = rng.normal(size=(SEEDS, 6)), rng.normal(size=(SEEDS, 6)).round(1)  # with ties
    expected = [spearmanr(a, b)[0] for a, b in zip(x, runs, strict=True)]
    assert trend(x, runs, sign=1)[1].middle == pytest.approx(np.median(expected))


def test_decide_and_worst():
    assert [decide(True), decide(False, True), decide(False)] == list(VERDICTS)
    assert worst(["reproduced", "not reproduced", "partly"]) == "not reproduced"
