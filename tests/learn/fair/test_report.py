"""The report on a fair classifier: numbers, text and page."""

from html.parser import HTMLParser
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binomtest
from sklearn.metrics import accuracy_score, recall_score

from tightrope.confidence import difference_interval, ratio_interval
from tightrope.learn.fair.report import METRICS, fairness_report
from tightrope.learn.fairness.metrics import p_rule, p_rule_bounds

RNG = np.random.default_rng(6)
N = 900
PEOPLE = pd.DataFrame(
    {
        "sex": RNG.choice(["F", "M"], N),
        "race": RNG.choice(list("ABC"), N, p=[0.6, 0.37, 0.03]),
        "age": RNG.normal(size=N),
    }
)
TRUTH = RNG.random(N) < 0.4
DECIDED = (RNG.random(N) < 0.2) | (TRUTH & (PEOPLE["sex"] == "M").to_numpy() & (RNG.random(N) < 0.6))
WEIGHT = RNG.integers(0, 4, N)
REPORT = fairness_report(DECIDED, PEOPLE, TRUTH)
SCORES = {
    "selection_rate": lambda y, d: d.mean(),
    "accuracy": accuracy_score,
    "true_positive_rate": recall_score,
    "false_positive_rate": lambda y, d: recall_score(~y, d),
}


@pytest.mark.parametrize("by", ["sex", "race", ["sex", "race"]])
def test_rates_are_those_of_scikit_learn_group_by_group(by):
    name = by if isinstance(by, str) else " & ".join(by)
    table = REPORT.by_group(name)
    assert list(table) == list(METRICS)
    for group, rows in PEOPLE.groupby(by).groups.items():
        for metric, score in SCORES.items():
            assert table.loc[group, metric] == pytest.approx(score(TRUTH[rows], DECIDED[rows]))  # pyright: ignore
    assert list(table.index.names) == ([by] if isinstance(by, str) else by)
    assert len(table) == len(PEOPLE.groupby(by).groups)


def test_what_is_compared_and_how_surely():
    part: Any = REPORT.frame.query("attribute == 'race' and metric == 'selection_rate'").set_index("group")
    highest = part["rate"].idxmax()
    for group, row in part.iterrows():
        of = (PEOPLE["race"] == group).to_numpy()
        low, high = binomtest(int(DECIDED[of].sum()), int(of.sum())).proportion_ci(0.95, "wilson")
        assert (row["rows"], row["effective"]) == (of.sum(), pytest.approx(of.sum()))
        assert (row["low"], row["high"]) == pytest.approx((low, high))
        assert row["against"] == highest
        if group != highest:
            pair = (np.array(row["rate"]), np.array(part["rate"][highest]))
            sizes = (np.array(float(of.sum())), np.array(float(part["rows"][highest])))
            assert row["ratio"] == pytest.approx(pair[0] / pair[1])
            assert (row["ratio_low"], row["ratio_high"]) == pytest.approx(
                tuple(map(float, ratio_interval(pair, sizes, 0.95)))
            )
            ends = tuple(map(float, difference_interval(pair, sizes, 0.95)))
            assert (row["difference_low"], row["difference_high"]) == pytest.approx(ends)
    assert part.loc[highest, "ratio"] == 1


def test_the_summary_has_the_worst_pair_of_each():
    table = REPORT.summary()
    assert len(table) == 3 * 4
    rows: Any = table.itertuples()
    for row in rows:
        rates = REPORT.by_group(str(row.attribute))[str(row.metric)]
        assert row.ratio == pytest.approx(rates.min() / rates.max())
        assert row.difference == pytest.approx(rates.max() - rates.min())
        assert row.difference_low <= row.difference <= row.difference_high
        assert (row.group, row.against) == (rates.idxmin(), rates.idxmax())


def test_the_p_rule_of_each_attribute():
    both = (PEOPLE["sex"] + PEOPLE["race"]).to_numpy()
    for name, values in (("sex", PEOPLE["sex"]), ("race", PEOPLE["race"]), ("sex & race", both)):
        assert REPORT.p_rule.loc[name, "p_rule"] == pytest.approx(p_rule(DECIDED, values))
        assert REPORT.p_rule.loc[name, "bound"] == pytest.approx(p_rule_bounds(DECIDED, values).lower[0])


def test_weights_count_as_repetitions_but_are_no_people():
    rows = np.repeat(np.arange(N), WEIGHT)
    weighted = fairness_report(DECIDED, PEOPLE, TRUTH, sample_weight=WEIGHT).frame
    repeated = fairness_report(DECIDED[rows], PEOPLE.iloc[rows], TRUTH[rows]).frame
    for name in ("rate", "ratio", "difference"):
        pd.testing.assert_series_equal(weighted[name], repeated[name])
    counted = fairness_report(DECIDED[WEIGHT > 0], PEOPLE[WEIGHT > 0], TRUTH[WEIGHT > 0]).frame
    pd.testing.assert_series_equal(weighted["rows"], counted["rows"])
    several = weighted["rows"] > 5
    assert np.all((weighted["effective"] < weighted["rows"])[several])
    same = fairness_report(DECIDED, PEOPLE, TRUTH, sample_weight=np.full(N, 7.0)).frame
    pd.testing.assert_frame_equal(same, REPORT.frame)


def test_weights_that_go_with_the_decision_know_less():
    """Of 30 selected people who weigh ten times as much as all others, Kish's number alone would say too much."""
    decided = np.arange(1000) < 30
    frame = fairness_report(decided, np.arange(1000) % 2, sample_weight=np.where(decided, 10.0, 1.0)).frame
    kish = (15 * 10 + 485) ** 2 / (15 * 100 + 485)
    rate = 150 / 635
    spread = 1500 * (1 - rate) ** 2 + 485 * rate**2
    assert frame["effective"].tolist() == pytest.approx([rate * (1 - rate) * 635**2 / spread] * 2)
    assert frame["effective"].max() < kish / 2


class Cells(HTMLParser):
    """The text of the cells of a page, row by row, and whether every tag is closed."""

    def __init__(self):
        super().__init__()
        self.rows, self.open = [], []

    def handle_starttag(self, tag, attrs):
        if tag not in ("line", "circle"):
            self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag):
        if tag not in ("line", "circle"):
            assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] in ("td", "th"):
            self.rows[-1][-1] += data


def test_text_and_page_have_the_same_numbers():
    people = PEOPLE.assign(race=PEOPLE["race"].map({"A": "<A>", "B": "B & Co", "C": "C"}))
    report = fairness_report(DECIDED, people, TRUTH)
    page = Cells()
    page.feed(report._repr_html_())
    assert not page.open
    groups = [[cell for cell in row if cell] for row in page.rows if len(row) == 8 and row[0]]
    lines = [line.split() for line in str(report).splitlines()]
    for row in groups:
        words = " ".join(row).split()
        assert any(set(words) <= set(line) for line in lines), row
    assert len(groups) == 4 * (1 + 2 + 3 + 6)
    assert "<A>" in str(report)
    assert "&lt;A&gt;" in report._repr_html_()


def test_a_group_without_labels_of_one_kind_has_no_such_rate():
    report = fairness_report([1, 0, 1, 0, 1], list("aabbc"), [1, 1, 0, 1, 1])
    rates: Any = report.by_group().loc["a"]
    assert np.isnan(rates["false_positive_rate"])
    assert "nan" not in str(report)
    assert "nan" not in report._repr_html_()
    assert fairness_report([0, 0, 0], list("abc")).summary()["ratio"].isna().all()
    nobody = fairness_report([0, 0, 0], list("abc"))
    assert "nothing is known" in str(nobody)


def test_labels_in_text_and_none():
    words = np.where(DECIDED, "yes", "no")
    pd.testing.assert_frame_equal(fairness_report(words, PEOPLE, np.where(TRUTH, "yes", "no")).frame, REPORT.frame)
    assert fairness_report(words, PEOPLE).overall.index.tolist() == ["selection_rate"]
    with pytest.raises(TypeError, match="A report is about groups and age is continuous"):
        fairness_report(DECIDED, PEOPLE["age"])
    with pytest.raises(ValueError, match="attribute is 'town'; expected one of 'sex', 'race', 'sex & race'"):
        REPORT.by_group("town")
