"""Numbers of rates and of the p%-rule's bounds, with unequal weights, groups and attributes, by formulas in plain Python."""

import numpy as np
import pandas as pd
import pytest

from tightrope.learn.fairness import metrics
from tightrope.learn.fairness.metrics import group_rates, is_positive, last_label, p_rule, p_rule_bounds, weights
from tightrope.learn.fairness.sensitive import read_sensitive

N = 90
RNG = np.random.default_rng(3)
SENSITIVE = pd.DataFrame(
    {"sex": np.array(["f", "m"])[RNG.integers(0, 2, N)], "age": np.array(["a", "b", "c"])[RNG.integers(0, 3, N)]}
)
DECIDED = np.stack([RNG.random(N) < 0.4, RNG.random(N) < 0.7, RNG.random(N) < 0.4], axis=1)
DECIDED[:, 2] = DECIDED[:, 0]
WEIGHT = np.where(RNG.random(N) < 0.1, 0.0, RNG.uniform(0.5, 4.0, N))
TRUTH = RNG.random(N) < 0.5


def refusal(call, *args, **options) -> str:
    with pytest.raises(ValueError, match=r".") as caught:
        call(*args, **options)
    return str(caught.value)


def test_rates_by_group_in_plain_python():
    table = group_rates(DECIDED[:, 0], SENSITIVE, TRUTH, WEIGHT)
    assert list(table.columns) == ["attribute", "group", "count", "selection_rate", "accuracy", "true_positive_rate"]
    for row in table.to_dict("records"):
        at = [i for i in range(N) if SENSITIVE[row["attribute"]][i] == row["group"] and WEIGHT[i] > 0]

        def share(of, among):
            return sum(WEIGHT[i] for i in among if of(i)) / sum(WEIGHT[i] for i in among)

        assert row["count"] == len(at)
        assert row["selection_rate"] == pytest.approx(share(lambda i: DECIDED[i, 0], at))
        assert row["accuracy"] == pytest.approx(share(lambda i: DECIDED[i, 0] == TRUTH[i], at))
        assert row["true_positive_rate"] == pytest.approx(share(lambda i: DECIDED[i, 0], [i for i in at if TRUTH[i]]))
    rates = {name: part["selection_rate"] for name, part in table.groupby("attribute")}
    assert p_rule(DECIDED[:, 0], SENSITIVE, WEIGHT) == pytest.approx(min(r.min() / r.max() for r in rates.values()))


def test_the_smallest_ratio_of_rates():
    ratio = metrics._smallest_ratio
    assert ratio(np.array([0.2, 0.5, np.nan])) == pytest.approx(0.4)
    assert ratio(np.array([0.0, 0.5])) == 0.0
    for nothing in ([0.5], [0.0, 0.0], [np.nan, 0.5], []):
        assert np.isnan(ratio(np.array(nothing, float)))
    assert np.isnan(metrics._share(np.ones(2), np.zeros(2)))


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
    refused = {
        "three": refusal(is_positive, ["a", "b", "c"], "y", 3), "numbers": refusal(is_positive, [2, 3], "y", 2),
        "five": refusal(is_positive, [1, 2, 3, 4, 5], "y", 5), "both": refusal(is_positive, [-1, 0, 1], "y", 3),
        "label": refusal(is_positive, [1, 2, 3], "y", 3, 2), "one more": refusal(is_positive, [1, 2], "y", 2, 3),
        "shape": refusal(is_positive, [1, 0], "y", 1000), "square": refusal(is_positive, [[1], [0]], "y", 2),
        "weights": refusal(weights, [1, 2], 3), "negative": refusal(weights, [1, -2], 2),
        "zeros": refusal(weights, [0, 0], 2),
        "infinite": refusal(weights, [1, np.inf], 2), "text": refusal(weights, ["a", "b"], 2),
        "confidence": refusal(p_rule_bounds, DECIDED, SENSITIVE, confidence=1.0),
        "no confidence": refusal(p_rule_bounds, DECIDED, SENSITIVE, confidence=0.0),
        "rows": refusal(p_rule_bounds, DECIDED[:5], SENSITIVE),
        "cube": refusal(p_rule_bounds, DECIDED[:, :, None], SENSITIVE),
        "nothing": refusal(p_rule_bounds, DECIDED[:, :0], SENSITIVE),
    }  # fmt: skip
    assert all(refused.values())
    assert weights(None, 2).tolist() == [1.0, 1.0]
    assert weights([0, 2, 8], 3).tolist() == [0.0, 0.25, 1.0]


def test_variances_and_covariances_in_plain_python():
    """Of log rates, by influences w (d - r) / (sum w r)."""
    decided = DECIDED[:, :2].astype(float)
    small = 1e-3 * WEIGHT  # no unit of weight is near 1 by nature
    counted = WEIGHT > 0
    read = read_sensitive(SENSITIVE).take(counted)
    rates = metrics._rates(decided[counted], read, small[counted])
    groups = [(name, g) for name in ("sex", "age") for g in sorted(set(SENSITIVE[name]))]
    influence = np.zeros((5, 2, N))
    for c, (name, g) in enumerate(groups):
        members = (SENSITIVE[name] == g) & counted
        for k in range(2):
            rate = WEIGHT[members] @ decided[members, k] / WEIGHT[members].sum()
            assert rates.rate[c, k] == pytest.approx(rate)
            influence[c, k, members] = WEIGHT[members] * (decided[members, k] - rate) / (WEIGHT[members].sum() * rate)
    flat = influence.reshape(10, N)
    np.testing.assert_allclose(metrics._covariance(rates), flat @ flat.T, rtol=1e-9, atol=1e-15)
    np.testing.assert_allclose(rates.variance, (influence**2).sum(axis=2), rtol=1e-9)
    assert [side.tolist() for side in rates.pairs] == [[0, 2, 2, 3], [1, 3, 4, 4]]
    ratio, error = metrics._ratios(rates)
    for k, (g, h) in enumerate(zip(*rates.pairs, strict=True)):
        both = np.sort(rates.rate[[g, h]], axis=0)
        np.testing.assert_allclose(ratio[k], both[0] / both[1])
        np.testing.assert_allclose(error[k], np.sqrt(rates.variance[g] + rates.variance[h]))
