"""Notions as entries of one table; rates of cells, and how many rows of equal weight they are known by."""

import numpy as np
import pytest

from tightrope.confidence import ratio_score
from tightrope.learn.fairness.notions import NOTIONS, cells_of, effective_rates
from tightrope.learn.fairness.sensitive import read_sensitive
from tightrope.learn.problems.fair import fair_classification
from tightrope.learn.problems.fair_pairs import paired_classification
from tightrope.learn.tables.report import compare


def test_a_new_notion_is_one_entry(monkeypatch):
    """Rates of everybody and of both labels at once, which nobody has written down: cells, covariances, streams, reports."""
    monkeypatch.setitem(NOTIONS, "all three", (None, True, False))
    y, sex = np.arange(12) % 2 == 0, read_sensitive(["F", "F", "F", "M", "M", "M"] * 2, "sex")
    cells = cells_of(sex, y, "all three")
    assert cells.names[::2] == ("sex=F", "sex=F with a positive label", "sex=F with a negative label")
    np.testing.assert_array_equal(cells.members[0], cells.members[2] | cells.members[4])
    problem, _ = fair_classification(np.eye(12)[:, :3], y, sex, 0.1, notion="all three")
    assert (problem.names or ())[:3] == ("cov(sex)", "cov(sex | y=1)", "cov(sex | y=0)")
    pairs = paired_classification(3, sex, 0.1, 10.0, notion="all three", l2=0.0, intercept=False)
    assert pairs.params["counted"].tolist() == [[1, 1], [0, 1], [1, 0]]
    measures = compare({"model": y}, sex, y, "all three")["measure"].tolist()
    assert [name for name in measures if name.startswith("p%-rule") and "bound" not in name] == [
        "p%-rule", "p%-rule of true positives", "p%-rule of false positives",
    ]  # fmt: skip


def test_equal_weights_count_rows():
    means = np.repeat([[1 / 40, 0.0], [0.0, 1 / 60]], [40, 60], axis=1)
    decided = np.arange(100) % 4 < 1.0
    rates, n = effective_rates(means, decided.astype(float))
    np.testing.assert_allclose(rates, [0.25, 0.25])
    np.testing.assert_allclose(n, [40, 60])
    np.testing.assert_allclose(effective_rates(means, np.zeros(100))[1], [40, 60])  # nobody selected
    np.testing.assert_array_equal(effective_rates(np.zeros((1, 3)), np.ones(3))[1], [0])  # a cell without weight


def test_the_variance_is_that_of_the_weighted_rate():
    rng = np.random.default_rng(0)
    weight, decided = rng.lognormal(size=500), rng.random(500) < 0.1
    weight[decided] *= 3
    share = weight / weight.sum()
    (rate,), (n,) = effective_rates(share[None], decided.astype(float))
    assert rate == pytest.approx(share @ decided)
    assert rate * (1 - rate) / n == pytest.approx(share**2 @ (decided - rate) ** 2)
    assert n < 1 / np.sum(share**2)
    assert effective_rates(share[None], 1.0 - decided)[1][0] == pytest.approx(n)


def test_weights_that_go_with_decisions_leave_a_score_test_its_level():
    """3 % of a group weigh 8 and are all selected, nobody else: at the boundary of the 80 % rule Kish's number makes a test
    at 5 % one at 11 %."""
    rng, n, found = np.random.default_rng(1), 800, []
    rate = 0.03 * 8 / (0.03 * 8 + 0.97)
    for _ in range(1500):
        heavy, other = rng.random(n) < 0.03, rng.random(n) < rate / 0.8
        weight = np.where(heavy, 8.0, 1.0)
        means = np.block([[weight / weight.sum(), np.zeros(n)], [np.zeros(n), np.full(n, 1 / n)]])
        rates, m = effective_rates(means, np.append(heavy, other).astype(float))
        kish = np.array([weight.sum() ** 2 / np.sum(weight**2), n])
        found.append([ratio_score(0.8, rates[0] * k[0], k[0], rates[1] * k[1], k[1]) > 1.645 for k in (m, kish)])
    right, with_kish = np.mean(found, axis=0)
    assert right < 0.05 + 3 * np.sqrt(0.05 * 0.95 / 1500)
    assert with_kish > 0.09
