"""Rates by group, the p%-rule, and its confidence bounds."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm
from sklearn.metrics import accuracy_score, recall_score

from tightrope.learn.fairness.metrics import group_rates, is_positive, last_label, p_rule, p_rule_bounds, weights
from tightrope.learn.fairness.sensitive import read_sensitive

RNG = np.random.default_rng(5)
N = 600
SEX = np.where(RNG.random(N) < 0.6, "M", "F")
RACE = RNG.choice(["A", "B", "C"], N, p=[0.6, 0.3, 0.1])
BOTH = pd.DataFrame({"sex": SEX, "race": RACE})
SCORE = RNG.normal(size=N) + 0.5 * (SEX == "M") + 0.3 * (RACE == "A")
TRUTH = SCORE + RNG.normal(size=N) > 0


# ---- rates -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", [lambda y: y, lambda y: y.astype(int), lambda y: 2.0 * y - 1, lambda y: list(y)])
def test_rates_of_each_group(form):
    table = group_rates(form(SCORE > 0), BOTH, form(TRUTH))
    assert table["attribute"].tolist() == ["sex"] * 2 + ["race"] * 3
    assert table["group"].tolist() == ["F", "M", "A", "B", "C"]
    for row in table.itertuples():
        of = BOTH[str(row.attribute)].to_numpy() == row.group
        assert row.count == of.sum()
        assert row.selection_rate == pytest.approx(np.mean(SCORE[of] > 0))
        assert row.accuracy == pytest.approx(accuracy_score(TRUTH[of], SCORE[of] > 0))
        assert row.true_positive_rate == pytest.approx(recall_score(TRUTH[of], SCORE[of] > 0))


def test_without_labels_there_is_no_accuracy():
    assert list(group_rates(SCORE > 0, SEX)) == ["attribute", "group", "count", "selection_rate"]


def test_a_rate_over_nobody_is_nan():
    part = read_sensitive(["a", "b", "c"]).take([0, 1])
    table = group_rates([1, 0], part, [0, 1])
    assert table["count"].tolist() == [1, 1, 0]
    np.testing.assert_array_equal(table["selection_rate"], [1, 0, np.nan])
    np.testing.assert_array_equal(table["true_positive_rate"], [np.nan, 0, np.nan])


def test_p_rule_is_the_smallest_ratio_of_any_attribute():
    predicted = SCORE > 0.5

    def rate(of):
        return predicted[of].mean()

    women, men = rate(SEX == "F"), rate(SEX == "M")
    races = [rate(g == RACE) for g in "ABC"]
    assert p_rule(predicted, SEX) == pytest.approx(min(women / men, men / women))
    assert p_rule(predicted, RACE) == pytest.approx(min(races) / max(races))
    assert p_rule(predicted, BOTH) == pytest.approx(min(p_rule(predicted, SEX), p_rule(predicted, RACE)))


def test_p_rule_at_the_edges():
    assert p_rule([1, 1, 0, 0], ["F", "F", "M", "M"]) == 0
    assert p_rule([1, 1, 1, 1], ["F", "F", "M", "M"]) == 1
    assert np.isnan(p_rule([0, 0, 0, 0], ["F", "F", "M", "M"]))
    assert np.isnan(p_rule([1, 1], read_sensitive(["a", "b"]).take([0, 0])))  # nobody of the other group
    assert p_rule([1, 0, 1], read_sensitive(["a", "b", "c", "b"]).take([0, 1, 3])) == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("call", "error", "sentence"),
    [
        (lambda: p_rule([1, 0, 1], [1.0, 2.0, 3.0]), TypeError, "is continuous and has no groups"),
        (lambda: p_rule([1, 2, 1], list("FMM")), ValueError, "y_pred has values such as 1, 2; expected booleans"),
        (lambda: p_rule([-1, 0, 1], list("FMM")), ValueError, "y_pred has values such as -1, 0, 1"),
        (
            lambda: p_rule(["yes", "no", "so"], list("FMM")),
            ValueError,
            "values such as 'yes', 'no', 'so'; .* pos_label=",
        ),
        (lambda: p_rule(["no", "no", "no"], list("FMM")), ValueError, "say which of them means being selected"),
        (lambda: p_rule([1, 2, 1], list("FMM"), pos_label=3), ValueError, "two labels, one of them pos_label=3"),
        (lambda: p_rule([1, 0, 1], list("FMM"), [1, -1, 1]), ValueError, "sample_weight has values that are negative"),
        (lambda: p_rule([1, 0, 1], list("FMM"), [0, 0, 0]), ValueError, "or no positive one"),
        (lambda: p_rule([1, 0, 1], list("FMM"), [1, 1]), ValueError, r"sample_weight has shape \(2,\); expected 3"),
        (lambda: p_rule([1, np.nan, 1], list("FMM")), ValueError, "values such as 1.0, nan"),
        (lambda: p_rule([1, 0], list("FMM")), ValueError, r"y_pred has shape \(2,\); expected 3 values"),
        (lambda: group_rates([1, 0, 1], list("FMM"), [1, 0]), ValueError, "y_true has shape"),
        (lambda: p_rule_bounds(np.ones((2, 2)), list("FMM")), ValueError, r"predictions has shape \(2, 2\)"),
        (lambda: p_rule_bounds(np.ones((3, 0)), list("FMM")), ValueError, r"predictions has shape \(3, 0\)"),
        (lambda: p_rule_bounds([1, 0, 1], list("FMM"), confidence=95), ValueError, "confidence is 95"),
        (lambda: p_rule_bounds([1, 0, 1], [1.0, 2.0, 3.0]), TypeError, "is continuous and has no groups"),
    ],
)
def test_bad_input(call, error, sentence):
    with pytest.raises(error, match=sentence):
        call()


# ---- weights and labels ----------------------------------------------------------------------------------------------


def test_a_weighted_rate_is_that_of_repeated_rows():
    times = np.arange(N) % 4  # some are 0
    rows = np.repeat(np.arange(N), times)
    weighted = group_rates(SCORE > 0, BOTH, TRUTH, sample_weight=times)
    repeated = group_rates(SCORE[rows] > 0, BOTH.iloc[rows], TRUTH[rows])
    rates = ["selection_rate", "accuracy", "true_positive_rate"]
    pd.testing.assert_frame_equal(weighted[rates], repeated[rates])
    assert weighted["count"].tolist() == group_rates(SCORE[times > 0] > 0, BOTH[times > 0])["count"].tolist()
    ours, theirs = p_rule_bounds(SCORE > 0, BOTH, sample_weight=times), p_rule_bounds(SCORE[rows] > 0, BOTH.iloc[rows])
    assert ours.estimate[0] == pytest.approx(theirs.estimate[0])
    assert ours.error[0] > 1.2 * theirs.error[0]  # a person who weighs three is one person


def test_rows_without_weight_and_the_unit_of_weights_change_no_bound():
    decisions = path(SCORE, SEX == "M", 3)
    plain = p_rule_bounds(decisions, BOTH)
    more = np.concatenate([decisions, ~decisions]), pd.concat([BOTH, BOTH[::-1]])
    for given, weight in (((decisions, BOTH), np.full(N, 7.0)), (more, np.repeat([3.0, 0.0], N))):
        for ours, theirs in zip(p_rule_bounds(*given, sample_weight=weight), plain, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-9)


def test_the_error_of_a_weighted_ratio_is_that_of_many_samples(monkeypatch):
    """Weights that go with the decision, where counting effective rows by the weights alone would halve the error."""
    monkeypatch.setattr("tightrope.learn.fairness.metrics.DRAWS", 20)
    rng, n = np.random.default_rng(4), 2000
    found = []
    for _ in range(300):
        sex, decided = np.arange(n) % 2, rng.random(n) < 0.05
        weight = np.where(decided, 8.0, 1.0) * rng.uniform(0.5, 1.5, n)
        bounds = p_rule_bounds(decided, sex, sample_weight=weight)
        r = [weight[decided & (s == sex)].sum() / weight[s == sex].sum() for s in (0, 1)]
        found.append((np.log(r[0] / r[1]), bounds.error[0]))
    logs, errors = np.array(found).T
    assert logs.std() == pytest.approx(errors.mean(), rel=0.15)


def test_labels_of_all_forms():
    both = np.array([True, False])
    for y in ([1, 0], [1, -1], [True, False], [1.0, 0.0], ["yes", "no"], np.array([1, 0], np.uint8)):
        np.testing.assert_array_equal(is_positive(y, "y", 2), both)
    for y, label in (([3, 7], 3), (["a", "b"], "a"), ([0, 1], 0), (["a", "a"], "a")):
        np.testing.assert_array_equal(is_positive(y, "y", 2, label), [True, y[1] == label])
    np.testing.assert_array_equal(is_positive(["b", "b"], "y", 2, "a"), [False, False])
    assert last_label(["a"], None, ["b", "a"]) == "b"
    for nothing in ((["a"],), (["a", "b", "c"],), ([1, 0],), (["a", "b"], [1, 0]), (np.array(["a", 1], object),)):
        assert last_label(*nothing) is None
    assert weights(None, 2).tolist() == [1.0, 1.0]
    assert weights([0, 2, 8], 3).tolist() == [0.0, 0.25, 1.0]


def test_labels_in_text():
    words = np.where(SCORE > 0, "yes", "no")
    assert p_rule(words, BOTH) == p_rule(SCORE > 0, BOTH)
    assert p_rule(words, BOTH, pos_label="no") == p_rule(SCORE <= 0, BOTH)
    assert p_rule(np.where(SCORE > 0, 7, 3), SEX, pos_label=7) == p_rule(SCORE > 0, SEX)
    truth = np.where(TRUTH, "yes", "no")
    pd.testing.assert_frame_equal(group_rates(words, BOTH, truth), group_rates(SCORE > 0, BOTH, TRUTH))
    nobody = group_rates(["no"] * N, SEX, truth)  # the labels are known from both together
    assert nobody["selection_rate"].tolist() == [0, 0]
    np.testing.assert_array_equal(p_rule_bounds(words[:, None], SEX).lower, p_rule_bounds(SCORE > 0, SEX).lower)


# ---- bounds ----------------------------------------------------------------------------------------------------------


def path(score, sex, length):
    """Classifiers that treat the sexes more and more alike."""
    return np.stack([score > shift * sex for shift in np.linspace(0.0, 0.6, length)], axis=1)


def test_one_classifier_has_the_textbook_bound():
    """Katz's log interval for a ratio of two proportions; both orders of the pair make it two-sided."""
    predicted = SCORE > 0
    bounds = p_rule_bounds(predicted, SEX, confidence=0.9)
    r, n = np.array([[predicted[of].mean(), of.sum()] for of in (SEX == "F", SEX == "M")]).T
    error = np.sqrt(np.sum((1 - r) / (n * r)))
    assert bounds.error[0] == pytest.approx(error)
    assert bounds.estimate[0] == pytest.approx(r.min() / r.max())
    assert bounds.lower[0] == pytest.approx(np.exp(np.log(r.min() / r.max()) - bounds.critical * error))
    assert bounds.critical == pytest.approx(norm.ppf(0.95), abs=0.03)


def test_the_estimate_is_the_p_rule():
    decisions = np.stack([t < SCORE for t in (-1, 0, 1)], axis=1)
    bounds = p_rule_bounds(decisions, BOTH)
    np.testing.assert_allclose(bounds.estimate, [p_rule(decisions[:, j], BOTH) for j in range(3)])
    assert np.all((bounds.lower > 0) & (bounds.lower < bounds.estimate))


def test_a_group_of_little_weight_has_its_own_rate():
    given = [1, 0, 1, 1], list("aabb"), [0.1, 0.1, 1.0, 1.0]
    assert p_rule_bounds(*given[:2], sample_weight=given[2]).estimate[0] == pytest.approx(p_rule(*given)) == 0.5


def test_the_pair_that_binds_is_named():
    decisions = np.stack([SCORE > 0, (SCORE > 0) & (RACE != "C")], axis=1)
    pair = p_rule_bounds(decisions, BOTH).pair
    groups = group_rates(SCORE > 0, BOTH)
    for column, (g, h) in zip(decisions.T, pair, strict=True):
        rates = group_rates(column, BOTH)
        assert groups["attribute"][g] == groups["attribute"][h]
        assert rates["selection_rate"][g] < rates["selection_rate"][h]
    assert groups["group"][pair[1, 0]] == "C"  # nobody of it is selected
    small = p_rule_bounds(np.r_[np.arange(1000) % 10 < 4, np.arange(1000) % 10 < 3, np.arange(10) % 10 < 3.5],
        np.repeat(["a", "b", "c"], [1000, 1000, 10]))  # fmt: skip
    assert small.pair.tolist() == [[1, 2]]  # a is as far from b as c is, and better known


def test_independent_classifiers_multiply_their_confidence():
    rng = np.random.default_rng(1)
    n, count = 4000, 8
    sex = np.arange(n) % 2
    bounds = p_rule_bounds(rng.random((n, count)) < 0.5, sex)
    assert bounds.critical == pytest.approx(norm.ppf((1 + 0.95 ** (1 / count)) / 2), abs=0.04)


def test_more_classifiers_and_attributes_cost_something_and_duplicates_nothing():
    predicted = SCORE > 0
    alone, with_others = p_rule_bounds(predicted, SEX), p_rule_bounds(path(SCORE, SEX == "M", 8), SEX)
    assert with_others.critical > alone.critical + 0.1
    assert with_others.lower[0] < alone.lower[0]
    assert p_rule_bounds(predicted, BOTH).critical > alone.critical + 0.2
    for name, again in zip(alone._fields, p_rule_bounds(np.stack([predicted] * 5, axis=1), SEX), strict=True):
        np.testing.assert_array_equal(again, np.broadcast_to(getattr(alone, name), np.shape(again)))


def test_influences_of_overlapping_attributes_are_correlated():
    """An attribute given twice is a duplicate, and its critical value that of one."""
    twice = pd.DataFrame({"a": SEX, "b": SEX})
    assert p_rule_bounds(SCORE > 0, twice).critical == pytest.approx(p_rule_bounds(SCORE > 0, SEX).critical, abs=0.04)


def test_nothing_is_promised_where_nothing_is_known():
    nobody, everybody = np.zeros(N), np.ones(N)
    some, women = SCORE > 0, SEX == "F"
    bounds = p_rule_bounds(np.stack([nobody, everybody, some, some & women, some | women], axis=1), SEX)
    np.testing.assert_array_equal(bounds.lower == 0, [True, True, False, True, True])
    np.testing.assert_array_equal(np.isnan(bounds.estimate), [True, False, False, False, False])
    np.testing.assert_array_equal(np.isinf(bounds.error), [True, True, False, True, True])
    alone = p_rule_bounds(some, SEX)
    assert bounds.critical == pytest.approx(alone.critical, abs=0.04)
    assert p_rule_bounds(nobody, SEX).lower == 0
    part = read_sensitive(["a", "b", "c"] * 20).take([i for i in range(60) if i % 3 < 2])  # nobody of group c is left
    assert p_rule_bounds(np.arange(40) % 5 < 2, part).lower == 0


def test_the_seed_decides():
    one, again, other = (p_rule_bounds(path(SCORE, SEX == "M", 3), SEX, seed=seed).critical for seed in (0, 0, 1))
    assert one == again != other
    assert one == pytest.approx(other, abs=0.05)


def test_all_bounds_are_true_at_once_as_often_as_promised(monkeypatch):
    """400 samples from a population whose p%-rule is known; 0.9 less three standard deviations of the count."""
    monkeypatch.setattr("tightrope.learn.fairness.metrics.DRAWS", 4000)
    rng, replications, confidence, length = np.random.default_rng(2), 400, 0.9, 5
    shifts = np.linspace(0.0, 0.6, length)
    rates = norm.sf(0.3 + 0 * shifts), norm.sf(0.3 + shifts - 0.4)
    true = np.minimum(rates[0] / rates[1], rates[1] / rates[0])
    held = 0
    for _ in range(replications):
        sex = (rng.random(800) < 0.5).astype(int)
        score = rng.normal(size=800) + 0.4 * sex
        held += bool(np.all(p_rule_bounds(path(score - 0.3, sex, length), sex, confidence).lower <= true))
    assert held / replications >= confidence - 3 * np.sqrt(confidence * (1 - confidence) / replications)
    assert held < replications  # a bound that is never wrong is no bound at this level
