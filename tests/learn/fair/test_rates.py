"""Constraints on smoothed rates: the solver against SciPy's, the walk along a path, weights, notions, refusals."""

import pickle
from typing import Any, cast

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize
from scipy.special import expit, ndtri
from sklearn.linear_model import LogisticRegression

import tightrope as tr
from studies import fair_coverage
from studies.adverse.fair import Law as AdverseLaw
from studies.adverse.fair import attempt
from tightrope.datasets import GroupedGaussians
from tightrope.fairness import Sensitive, read_sensitive
from tightrope.learn.fair.paths import Part
from tightrope.learn.fair.rate_rule import RateRule
from tightrope.learn.fair.rates import BETWEEN, LOGISTIC, SHARP, RateProblem
from tightrope.learn.fair.refusal import Refused
from tightrope.learn.fair.task import Task
from tightrope.learn.fair.walk import Judge, Walk
from tightrope.learn.fairness.notions import NOTIONS, cells_of

PARITY = "demographic_parity"
LAW = GroupedGaussians(groups=2)
X, Y, S, _ = LAW.draw(1200, seed=4)


def fair(**parameters: Any) -> Any:
    return tr.FairLogisticRegression(**({"p_rule": 0.7, "constraint": "rates"} | parameters))


def task_of(n: int = len(Y), notion: str = "demographic_parity", weight: Any = None) -> Task:
    weight = np.ones(n) if weight is None else weight
    return Task(X[:n], Y[:n], read_sensitive(S[:n]), weight, notion, 0.0, 10.0, True)


@pytest.fixture(scope="module")
def fitted() -> Any:
    return fair().fit(X, Y, sensitive_features=S)


# ---- the solver --------------------------------------------------------------------------------------------------------


def small_problem(groups: int = 2, n: int = 400) -> tuple[RateProblem, Any]:
    features, y, s, _ = GroupedGaussians(groups=groups).draw(n, seed=2)
    read, weight = read_sensitive(s), np.full(n, 1 / n)
    cells = cells_of(read, y > 0, "demographic_parity")
    rows = np.column_stack([features, np.ones(n)])
    rates = RateProblem.of(rows, y, weight, np.vstack([cells.means(weight), weight]), 0.0, True)
    return rates, lambda tau: RateRule("ratio", 0.2).limits(tau, cells.pairs, groups, float(np.mean(y > 0)))


@pytest.mark.parametrize("groups", [2, 4])
@pytest.mark.parametrize("recipe", [LOGISTIC, BETWEEN, SHARP])
def test_it_ends_where_slsqp_goes_from_there(recipe, groups):
    """The loss and the constraints are written anew here, from the formulas."""
    rates, limits = small_problem(groups)
    start = rates.solve(rates.plain, LOGISTIC, limits(0.8))
    point = rates.solve(start, recipe, limits(0.9))
    t, q, asked = recipe.temperature, recipe.share, limits(0.9)

    def loss(x):
        z = rates.rows @ x
        wrong, logistic = np.mean(expit(-rates.label * z / t)), np.mean(np.logaddexp(0, -rates.label * z))
        return q * wrong + (1 - q) * logistic + 1e-6 * np.sum((rates.basis @ x) ** 2)

    def slack(x):
        return -(asked.matrix @ rates.means @ expit(rates.rows @ x / t) + asked.constant)

    found = minimize(
        loss,
        point.x,
        method="SLSQP",
        constraints={"type": "ineq", "fun": slack},
        options={"ftol": 1e-10, "maxiter": 200},
    )
    assert point.settled
    assert loss(point.x) == pytest.approx(rates.values(point.x, point.z, recipe, asked)[0], rel=1e-9)
    assert slack(point.x).min() > -1e-4
    assert loss(point.x) - found.fun < 2e-4  # nothing to be gained from here on
    assert np.all(point.multipliers >= 0)
    assert np.all(point.multipliers[slack(point.x) > 1e-3] < 1e-3)  # idle constraints cost nothing
    assert point.multipliers.max() > 0.05


def test_a_weight_of_two_is_a_row_given_twice():
    weight = 1.0 + (np.arange(400) % 3 == 0)
    twice = np.repeat(np.arange(400), weight.astype(int))
    models = []
    for rows, counted in ((np.arange(400), weight), (twice, np.ones(len(twice)))):
        task = task_of().take(rows)._replace(weight=counted)
        cells = cells_of(cast(Sensitive, task.sensitive), task.y > 0, "demographic_parity")
        models.append(next(Part(task, cells, RateRule("ratio", 0.2)).path("logistic")))
    np.testing.assert_allclose(models[0].coef, models[1].coef, rtol=1e-4, atol=1e-6)


def test_mean_scores_are_brought_together_as_slsqp_does_and_the_intercept_is_the_most_accurate():
    """Infinite temperature: logistic loss subject to mean(z | b) - mean(z | a) <= gap, which SLSQP solves anew."""
    task = task_of()
    part = Part(task, cells_of(cast(Sensitive, task.sensitive), Y > 0, PARITY), RateRule("ratio", 0.2))
    point = part._solved[2]  # a quarter of the gap that there is without a constraint
    rows, apart = part.rates.rows, (S == "b") / np.sum(S == "b") - (S == "a") / np.sum(S == "a")
    gap = float(apart @ part.rates.plain.z) / 4
    found = minimize(
        lambda x: np.mean(np.logaddexp(0, -Y * (rows @ x))) + 1e-6 * np.sum((part.rates.basis @ x) ** 2),
        point.x,
        method="SLSQP",
        constraints={"type": "ineq", "fun": lambda x: gap - apart @ rows @ x},
        options={"ftol": 1e-12},
    )
    np.testing.assert_allclose(point.z, rows @ found.x, atol=0.02)
    assert apart @ point.z == pytest.approx(gap, rel=1e-4)
    for threshold, model in zip(RateRule("ratio", 0.2).path, part.path("covariance"), strict=True):
        decided = X @ model.coef + model.intercept > 0
        rates = [decided[g == S].mean() for g in "ab"]
        assert min(rates) / max(rates) >= threshold - 1e-9  # the rates of decisions, on the rows trained on
        right = np.mean(decided == (Y > 0))
        for shift in np.linspace(-0.5, 0.5, 21):  # no other intercept that keeps the threshold is more accurate
            other = X @ model.coef + model.intercept + shift > 0
            rates = [other[g == S].mean() for g in "ab"]
            assert min(rates) / max(rates) < threshold or np.mean(other == (Y > 0)) <= right + 0.003  # between cuts


def test_constraints_that_cannot_be_met_end_in_a_point_all_the_same():
    """Eight groups, whose rates cannot all be alike with this many selected and one feature that tells the groups."""
    rates, limits = small_problem(groups=8, n=300)
    rates = RateProblem.of(rates.rows[:, :2], rates.label, rates.weight, rates.means, 0.0, False)
    point = rates.solve(rates.plain, SHARP, limits(0.999))
    assert np.all(np.isfinite(point.x))
    assert (
        rates.values(point.x, point.z, SHARP, limits(0.999))[1]
        < rates.values(rates.plain.x, rates.plain.z, SHARP, limits(0.999))[1]
    )


# ---- the walk ----------------------------------------------------------------------------------------------------------


def test_the_most_accurate_point_before_the_first_failure_is_chosen(fitted):
    table = fitted.frontier()
    assert list(table["passed"]) == list(np.cumsum(table["score"] < ndtri(0.95)) == 0)
    # the bound is the test, turned around
    assert np.all((table["p_rule_bound"] >= 0.7 - 1e-9) == (table["score"] >= ndtri(0.95)))
    assert list(table["score"] < 0) == [False] * (len(table) - 1) + [True]  # what 50 % confidence has is known, too
    best = table[table["passed"]].loc[table["accuracy"][table["passed"]].idxmax()]
    assert fitted.threshold_ == best["threshold"]
    rates = LAW.selection_rates(fitted.coef_[0], fitted.intercept_[0])
    assert rates.min() / rates.max() > 0.7
    plain = LogisticRegression().fit(X, Y)
    assert np.divide(*np.sort(LAW.selection_rates(plain.coef_[0], plain.intercept_[0]))) < 0.6


def test_choosing_between_paths_is_paid_for():
    table = fair(constraint="auto").fit(X, Y, sensitive_features=S).frontier()
    assert list(table["path"].unique()) == ["sharp", "logistic", "covariance"]
    for _, part in table.groupby("path"):
        assert list(np.cumsum(part["score"] < ndtri(1 - 0.05 / 3)) == 0) == list(part["passed"])


def test_the_judge_by_hand():
    task = task_of(notion="equal_opportunity")
    cells = cells_of(cast(Sensitive, task.sensitive), task.y > 0, task.notion)
    decided = X[:, 0] > 0
    judge = Judge.of(task, cells, np.arange(len(Y)), RateRule("ratio", 0.2))
    a, b = (decided[(g == S) & (Y > 0)] for g in "ab")
    scores = [
        tr.confidence.ratio_score(0.8, u.sum(), len(u), v.sum(), len(v)) for u, v in ((a, b), (b, a))
    ]  # fmt: skip
    assert judge.row([decided], 0.95)["score"] == pytest.approx(min(scores))
    row = judge.row([decided], 0.95)
    assert row["p_rule"] == pytest.approx(min(a.mean() / b.mean(), b.mean() / a.mean()))
    assert row["accuracy"] == pytest.approx(np.mean(decided == (Y > 0)))
    assert row["p_rule_low"] < row["p_rule_bound"] < row["p_rule"] < row["p_rule_high"]


def test_weights_widen_the_bound_and_scale_out_of_it():
    task = task_of()
    cells, rows = cells_of(cast(Sensitive, task.sensitive), task.y > 0, task.notion), np.arange(len(Y))
    uneven = np.where(rows % 2 == 0, 1.0, 0.1)
    decided = X[:, 0] > 0
    same, scaled, less = (
        Judge.of(task._replace(weight=w), cells, rows, RateRule("ratio", 0.2)).row([decided], 0.95)["p_rule_bound"]
        for w in (np.ones(len(Y)), np.full(len(Y), 7.0), uneven)
    )
    assert same == pytest.approx(scaled, rel=1e-9)
    assert less < same


def test_a_judge_who_holds_rows_out_hands_out_the_model_that_was_judged():
    walk = Walk(task_of(), RateRule("ratio", 0.4), judge="holdout", folds=5, confidence=0.9, seed=0)
    chosen, trained = walk.choose(["logistic"]), walk._parts[-1]
    assert len(trained.rates.label) == round(0.7 * len(Y))
    np.testing.assert_array_equal(chosen.coef, walk._handed_out[chosen.path, chosen.threshold].coef)
    refit = Walk(task_of(), RateRule("ratio", 0.4), judge="cross-fit", folds=5, confidence=0.9, seed=0)
    assert len(refit._parts[-1].rates.label) == len(Y)


# ---- the classifier ----------------------------------------------------------------------------------------------------


def test_rows_without_weight_change_nothing(fitted):
    rng = np.random.default_rng(0)
    more = np.vstack([X, rng.normal(size=(300, 6))]), np.append(Y, rng.choice([-1.0, 1.0], 300))
    people = np.append(S, rng.choice(["a", "b"], 300))
    weight = np.append(np.ones(len(Y)), np.zeros(300))
    again = fair().fit(*more, sensitive_features=people, sample_weight=weight)
    np.testing.assert_array_equal(again.coef_, fitted.coef_)


def test_units_of_features_do_not_matter(fitted):
    scale = 10.0 ** np.array([6, -6, 3, 0, -3, 1])
    model = fair().fit(X * scale, Y, sensitive_features=S)
    np.testing.assert_array_equal(model.predict(X * scale), fitted.predict(X))


@pytest.mark.parametrize(("notion", "constraint"), [*((n, "rates") for n in NOTIONS), ("equalized_odds", "covariance")])
def test_a_difference_is_kept_for_every_notion(notion, constraint):
    model = fair(p_rule=None, difference=0.25, notion=notion, constraint=constraint).fit(X, Y, sensitive_features=S)
    decided, positive = model.predict(X) > 0, Y > 0
    for label in NOTIONS[notion]:
        among = np.ones(len(Y), bool) if label is None else positive == label
        rates = [decided[among & (g == S)].mean() for g in "ab"]
        assert abs(rates[0] - rates[1]) < 0.25
    chosen = model.frontier()[model.frontier()["passed"]]
    assert np.all(chosen["difference_bound"] <= 0.25 + 1e-9)
    assert "difference=0.25 is kept with 95% confidence" in str(model.result_)


def test_a_refusal_says_what_binds_and_what_can_be_had():
    model = fair(p_rule=0.97)
    with pytest.raises(Refused, match=r"p_rule=0.97 cannot be promised with 95% confidence") as refused:
        model.fit(X, Y, sensitive_features=S)
    said = str(refused.value)
    assert f"sensitive_features=a ({np.sum(S == 'a'):,} rows)" in said
    offered = float(said.split("p_rule=")[2].split(" ")[0])
    assert len(model.frontier()) == 22  # to its end
    assert offered == np.floor(100 * model.frontier()["p_rule_bound"].iloc[0]) / 100
    fair(p_rule=offered - 0.02).fit(X, Y, sensitive_features=S)  # another path: what it ends with is only near


def test_rare_groups_are_one_and_can_be_kept_apart(tmp_path):
    people = pd.Series(
        np.where(np.arange(len(Y)) % 30 == 0, "c", np.where(np.arange(len(Y)) % 31 == 0, "d", S)), name="town"
    )
    counts = people.value_counts()
    with pytest.warns(
        UserWarning, match=rf"Of the groups of town, 2 are treated as one.* c \({counts['c']} rows\), d \("
    ):
        model = fair(p_rule=0.5).fit(X, Y, sensitive_features=people)
    assert model.merged_ == {"town": ("c", "d")}
    assert model.attributes_[0].groups == ("a", "b", "c or d")
    report = model.report(X, Y, people)
    said = "trained with these groups of town as one, too rare to be judged: c, d."
    assert said in str(report)
    assert said in report._repr_html_()
    assert list(report.by_group("town").index) == list("abcd")  # what each got is told all the same
    model.save(tmp_path / "model")
    assert tr.FairLogisticRegression.load(tmp_path / "model").merged_ == model.merged_
    again: Any = read_sensitive(people, attributes=model.attributes_)
    np.testing.assert_array_equal(again.groups(0), people.map({"a": 0, "b": 1, "c": 2, "d": 2}))
    apart = fair(p_rule=0.9, merge_rare=False)
    with pytest.raises(
        Refused,
        match=r"town=[cd] is too small.* by merge_rare=True \(--merge-rare\).* try the other surrogates \(constraint='auto'",
    ):
        apart.fit(X, Y, sensitive_features=people)
    assert apart.merged_ == {}


def test_files_pickles_and_pictures(fitted, tmp_path):
    fitted.save(tmp_path / "model")
    for copy in (tr.FairLogisticRegression.load(tmp_path / "model"), pickle.loads(pickle.dumps(fitted))):
        np.testing.assert_array_equal(copy.decision_function(X), fitted.decision_function(X))
        pd.testing.assert_frame_equal(copy.frontier(), fitted.frontier())
        assert copy.get_params() == fitted.get_params()
    fitted.plot_frontier(str(tmp_path / "picture.png"))
    assert (tmp_path / "picture.png").stat().st_size > 10_000


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({"constraint": "quotas"}, "constraint is 'quotas'; expected 'auto' or 'rates' or 'covariance'"),
        ({"judge": "me"}, "judge is 'me'; expected 'cross-fit' or 'holdout'"),
        ({"selected": (0.3, 0.1)}, r"selected is \(0.3, 0.1\); expected None or two shares, the lower one first"),
        ({"difference": 0.1}, "p_rule and difference were both given"),
        ({"p_rule": None, "covariance": 0.1}, "rates are kept by p_rule or difference"),
        ({"search": "batch"}, "rates are kept by p_rule or difference"),
    ],
)
def test_what_does_not_go_together(parameters, sentence):
    with pytest.raises(ValueError, match=sentence):
        fair(**parameters).fit(X, Y, sensitive_features=S)


def test_a_group_without_rows_to_compare():
    one = np.append(np.where(Y > 0, "a", "b")[:-1], "a")
    with pytest.raises(
        ValueError, match="Fewer than two rows with weight are sensitive_features=b with a positive label"
    ):
        fair(notion="equal_opportunity").fit(X, Y, sensitive_features=one)


# ---- the truth ---------------------------------------------------------------------------------------------------------


def test_the_law_knows_the_rates_of_its_classifiers():
    law = GroupedGaussians(groups=3, base_rate=0.3)
    features, y, s, _ = law.draw(200_000, seed=6)
    coef, intercept = np.array([1.0, 0.5, -0.3, 0.2, 0.1, 0.4]), -0.4
    decided = features @ coef + intercept > 0
    np.testing.assert_allclose(
        [decided[s == g].mean() for g in "abc"], law.selection_rates(coef, intercept), atol=0.006
    )
    by_label = [[decided[(s == g) & (y == label)].mean() for g in "abc"] for label in (-1, 1)]
    np.testing.assert_allclose(by_label, law.rates(coef, intercept), atol=0.01)
    assert law.accuracy(coef, intercept) == pytest.approx(np.mean(decided == (y > 0)), abs=0.004)


def test_few_promises_are_false():
    """A small part of studies/fair_coverage.py: of 8, 4 false ones have a probability of 4e-4 at 5 %."""
    table = pd.DataFrame([fair_coverage.one("one path", seed) for seed in range(0, 16, 2)])
    assert table.promised.mean() > 0.6
    assert (table.inside < 0).sum() < 4
    assert "| one path | 1,500 |" in fair_coverage.report(table)


def test_the_study_runs_in_slices_that_go_on_and_are_put_together(tmp_path, monkeypatch):
    seen = []

    def one(name, seed):
        seen.append((name, seed))
        return {"case": name, "seed": seed, "promised": True, "inside": 0.1 - 0.01 * seed, "accuracy": 0.8}

    monkeypatch.setattr(fair_coverage, "one", one)
    first, second = tmp_path / "a.csv", tmp_path / "b.csv"
    fair_coverage.measure([("one path", 0), ("one path", 2)], first, 1)
    fair_coverage.measure([("one path", 2), ("one path", 12)], first, 1)  # goes on
    fair_coverage.measure([("one path", 12), ("four groups", 0)], second, 1)
    assert seen == [("one path", 0), ("one path", 2), ("one path", 12), ("one path", 12), ("four groups", 0)]
    table = fair_coverage.summary(fair_coverage.merged([first, second]))
    assert table[["case", "repetitions", "false"]].values.tolist() == [["four groups", 1, 0], ["one path", 3, 1]]


# ---- beside the result -------------------------------------------------------------------------------------------------


def test_what_the_rule_costs_stands_beside_it(fitted):
    beside, table = fitted.result_.beside, fitted.frontier()
    assert list(beside.index) == [
        "without the rule", "everybody selected", "50% confidence", "80% confidence", "95% confidence",
    ]  # fmt: skip
    assert beside.loc["everybody selected", "accuracy"] == pytest.approx(np.mean(Y > 0))
    plain = LogisticRegression(C=1e6).fit(X, Y)
    assert beside.loc["without the rule", "accuracy"] == pytest.approx(plain.score(X, Y), abs=0.02)
    assert beside.loc["95% confidence", "accuracy"] == table["accuracy"][table["passed"]].max()
    assert beside["accuracy"].iloc[2:].is_monotonic_decreasing
    assert f"{beside['accuracy'].iloc[0]:.4f} without the rule (p_rule 0." in str(fitted.result_)
    assert "A constant is right more often" not in str(fitted.result_)


def test_a_constant_that_is_better_is_named():
    """Five groups, of whom a fifth has a positive label: what keeps the rule surely selects half of all."""
    rng = np.random.default_rng(0)
    group, features = rng.integers(0, 5, 5000), rng.normal(size=(5000, 8))
    features[:, 0] += 0.6 * group
    features[:, 1] += 0.4 * (group == 2)
    y = rng.random(5000) < expit(features[:, [0, 2, 3, 4]] @ [0.5, 0.3, -0.3, 0.2] - 2.2)
    people = np.array(list("abcde"))[group]
    with pytest.warns(UserWarning, match="constant is right more often: nobody selected") as warned:
        model = fair(p_rule=0.8, constraint="auto").fit(features, y, sensitive_features=people)
    assert warned[0].filename == __file__
    said = str(model.result_)
    assert f"A constant is right more often: nobody selected has accuracy {np.mean(~y):.4f}." in said
    assert "selected=(low, high) bounds that share" in said


def test_the_share_selected_can_be_bounded():
    model = fair(p_rule=0.6, selected=(0.4, 0.5), constraint="auto").fit(X, Y, sensitive_features=S)
    table = model.frontier()
    row = table[(table["threshold"] == model.threshold_) & (table["path"] == model.result_.path)].iloc[0]
    assert 0.4 <= row["selected"] <= 0.5
    assert np.mean(model.predict(X) > 0) == pytest.approx(row["selected"], abs=0.02)
    with pytest.raises(Refused, match="share selected"):
        fair(p_rule=0.7, selected=(0.001, 0.002)).fit(X, Y, sensitive_features=S)
    with pytest.raises(ValueError, match=r"selected=\(0.4, 0.5\) was given without a rule that is kept by rates"):
        fair(selected=(0.4, 0.5), constraint="covariance").fit(X, Y, sensitive_features=S)


# ---- tied scores -------------------------------------------------------------------------------------------------------


def nine_cells(k: int) -> AdverseLaw:
    """Two ordinal features with three levels each: nine different rows, two groups that lie differently among them."""
    rng = np.random.default_rng(k)
    cells = np.stack([rng.dirichlet(np.ones(9)), rng.dirichlet(np.ones(9))])
    i, j = np.divmod(np.arange(9), 3)
    logit = np.tile(1.2 * rng.normal(0, 1, 9) + 0.6 * (i + j - 2), (2, 1))
    return AdverseLaw((3, 3), np.array([0.5, 0.5]), cells, logit, 0.0, None, False, 3000, {"p_rule": 0.8})


@pytest.mark.parametrize("k", [12, 15])
def test_a_refit_that_is_another_rule_than_any_fold_s_is_not_promised(k):
    """Tied rows make folds and refit jump apart: without a look at the refit, 3 or more of 6 fits make a promise that is
    false, which has a probability of 2e-3 at 5 %."""
    outcomes = [attempt(nine_cells(k), np.random.default_rng([k, r])) for r in range(6)]
    assert outcomes.count(True) < 3


@pytest.mark.filterwarnings("ignore:A constant is right more often")
@pytest.mark.parametrize("parameters", [{}, {"difference": 0.05, "p_rule": None}, {"constraint": "covariance"}])
def test_nothing_is_promised_that_the_rows_trained_on_belie(parameters):
    for seed in range(4):
        features, y, s, _ = nine_cells(9).draw(np.random.default_rng(seed))
        try:
            model = fair(**({"p_rule": 0.8, "constraint": "auto"} | parameters)).fit(features, y, sensitive_features=s)
        except Refused:
            continue
        table = model.frontier()
        row = table[(table["threshold"] == model.threshold_) & table.get("passed", True)]
        row = row.sort_values("accuracy").iloc[-1]
        rates = np.sort([np.mean(model.predict(features)[s == g] == 1) for g in "ab"])
        if model.difference is None:
            assert rates[0] / rates[1] >= row["p_rule_bound"] - 1e-9 >= 0.8 - 2e-9
        else:
            assert rates[1] - rates[0] <= row["difference_bound"] + 1e-9 <= 0.05 + 2e-9


def test_views_of_decisions_by_hand():
    """Fold models and the one handed out: the rates on rows not seen, moved by how the last decides otherwise."""
    walk = Walk(task_of(), RateRule("ratio", 0.2), judge="cross-fit", folds=3, confidence=0.9, seed=0)
    models = [next(part.path("logistic")) for part in walk._parts]
    moved, unseen, final = walk._views(models)
    decided = [X @ model.coef + model.intercept > 0 for model in models]
    for rows, own in zip(walk._split.judged, decided, strict=False):
        np.testing.assert_array_equal(unseen[rows], own[rows])
    np.testing.assert_array_equal(final, decided[-1])
    assert np.mean(moved) == pytest.approx(np.mean(unseen) + np.mean(final) - np.mean(decided[:3]))
