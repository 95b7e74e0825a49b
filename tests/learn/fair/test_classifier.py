"""The fair classifier, against scikit-learn, SciPy and NumPy.

Nearly all data has 640 rows, which is a size that rows are filled up to, so that few programs are compiled.
"""

import dataclasses
import pickle
import warnings
from typing import Any

import jax
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse
from scipy.optimize import minimize as scipy_minimize
from sklearn import config_context
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, KFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import tightrope as tr
from tightrope.datasets import rotated_gaussians
from tightrope.learn.fair import by_covariance, training
from tightrope.learn.fair.rare import smallest_group
from tightrope.learn.fair.rate_rule import RateRule
from tightrope.learn.fair.refusal import Refused, refusal
from tightrope.learn.fair.streaming import GROUP
from tightrope.learn.fair.task import Task, read_task
from tightrope.learn.fair.walk import Judge
from tightrope.learn.fairness.notions import cells_of
from tightrope.learn.fairness.sensitive import read_sensitive
from tightrope.learn.problems.fair import fair_classification
from tightrope.learn.problems.fair_pairs import paired_classification

N = 640
_everything, Y, S, _ = rotated_gaussians(n=N, phi=np.pi / 8)
X = 3.0 + _everything[:, :2] @ np.array([[1.0, 0.1], [0.0, 0.2]])  # not standardised, not centred
PEOPLE = pd.DataFrame(
    {"sex": np.where(S > 0, "M", "F"), "race": np.array(list("ABC"))[np.arange(N) * 7 % 3], "age": 40 + 5 * X[:, 0] - S}
)
SEX = PEOPLE["sex"].to_numpy()  # without a name: names are part of a compiled program
C = 0.05


def fair(**parameters: Any) -> Any:
    """A classifier with covariance=0.05, unless told otherwise."""
    given: dict[str, Any] = {"covariance": C} | parameters
    return tr.FairLogisticRegression(**given)


@pytest.fixture(scope="module")
def fitted() -> Any:
    return fair().fit(X, Y, sensitive_features=S)


def score(model, features=X):
    """By hand, from the coefficients and the features as given."""
    return features @ model.coef_[0] + model.intercept_[0]


def covariance(z, s, weight=None) -> float:
    return float(np.cov(np.asarray(s, float), z, aweights=weight, ddof=0)[0, 1])


class Reference:
    """The problem in NumPy, on standardised features with a constant, and its solution by SLSQP run to the end."""

    def __init__(self, features=X, y=Y, columns=(S,), c: Any = C, l2=0.0, weight=None, counted=None):
        weight = np.ones(len(y)) if weight is None else np.asarray(weight, float)
        self.share, self.l2, self.y = weight / weight.sum(), l2, y
        mean = self.share @ features
        self.scale = np.sqrt(self.share @ (features - mean) ** 2)
        self.Z = np.column_stack([(features - mean) / self.scale, np.ones(len(y))])
        counted = self.share if counted is None else self.share * counted / (self.share @ counted)
        self.v = np.array([(counted * (s - counted @ s)) @ self.Z for s in columns]).reshape(-1, self.Z.shape[1])
        both, c = np.concatenate([-self.v, self.v]), np.tile(np.broadcast_to(c, len(self.v)), 2)
        limits = [{"type": "ineq", "fun": lambda x: c + both @ x, "jac": lambda x: both}]
        start, options = np.zeros(self.Z.shape[1]), {"ftol": 1e-16, "maxiter": 1000}
        found: Any = scipy_minimize(
            self.value,
            start,
            jac=self.gradient,
            method="SLSQP",
            constraints=limits if len(self.v) else (),
            options=options,
        )
        self.x, self.optimum = found.x, float(found.fun)

    def value(self, x) -> float:
        return float(self.share @ np.logaddexp(0, -self.y * (self.Z @ x)) + self.l2 / 2 * x[:-1] @ x[:-1])

    def gradient(self, x):
        slope = -self.share * self.y / (1 + np.exp(self.y * (self.Z @ x)))
        return slope @ self.Z + self.l2 * np.append(x[:-1], 0.0)

    def gap(self, model, features=X) -> float:
        """Of a classifier: its score at the rows is all that counts, and its coefficients for the penalty."""
        z = score(model, features)
        coef = model.coef_[0, : len(self.scale)] * self.scale
        return float(self.share @ np.logaddexp(0, -self.y * z) + self.l2 / 2 * coef @ coef) - self.optimum


# ---- the optimum -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("l2", [0.0, 0.1])
def test_without_constraint_it_is_scikit_learns(l2):
    scaler = StandardScaler().fit(X)  # scikit-learn penalises coefficients of features as given
    peer = LogisticRegression(C=1 / (N * l2) if l2 else np.inf, tol=1e-12, max_iter=10_000)
    peer.fit(scaler.transform(X), Y)
    model = tr.FairLogisticRegression(l2=l2).fit(X, Y)
    np.testing.assert_allclose(model.decision_function(X), peer.decision_function(scaler.transform(X)), atol=1e-4)
    np.testing.assert_allclose(model.predict_proba(X), peer.predict_proba(scaler.transform(X)), atol=1e-5)
    np.testing.assert_array_equal(model.predict(X), peer.predict(scaler.transform(X)))
    assert model.threshold_ is None
    assert model.attributes_ == ()
    assert abs(Reference(columns=(), l2=l2).gap(model)) < 1e-10


@pytest.mark.parametrize("l2", [0.0, 0.1])
def test_with_a_constraint_it_is_slsqps(l2):
    reference = Reference(l2=l2)
    multiplier = float(-reference.gradient(reference.x) @ reference.v[0] / (reference.v[0] @ reference.v[0]))
    assert multiplier > 0.01  # the constraint matters
    model = fair(l2=l2).fit(X, Y, sensitive_features=S)
    assert abs(reference.gap(model)) < 1e-8
    assert abs(covariance(score(model), S)) <= C
    np.testing.assert_allclose(model.dual_, [multiplier, 0.0], atol=1e-3)
    assert model.threshold_ == C
    assert model.attributes_[0].kind == "binary"


def test_the_constraint_holds_in_the_units_of_the_features():
    """However they are scaled: computed from the coefficients and the features as given, in each of 12 cases."""
    for case in range(12):
        rng = np.random.default_rng(case)
        y, s = rng.choice([-1.0, 1.0], N), rng.integers(0, 2, N)
        d = int(rng.integers(2, 8))
        features = rng.normal(size=(N, d)) + 0.4 * np.outer(y, rng.normal(size=d))
        features[:, 0] += 0.7 * s
        features = features * 10.0 ** rng.uniform(-6, 6, d)
        features[:, 0] *= 1e6
        features[:, 1] += 1e4 * features[:, 1].std()
        c = 10.0 ** rng.uniform(-3, -1)
        model = fair(covariance=c, random_state=case).fit(features, y, sensitive_features=s)
        z = score(model, features)
        assert abs(np.mean((s - s.mean()) * z)) <= c, case
        reference = Reference(features, y, (s,), c)
        assert np.linalg.norm(reference.x) < 9  # inside the ball, which SLSQP does not know
        assert abs(reference.gap(model, features)) < 1e-8, case


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_the_intercept(fit_intercept):
    model = fair(fit_intercept=fit_intercept).fit(X, Y, sensitive_features=S)
    assert (model.intercept_[0] != 0) == fit_intercept
    assert model.coef_.shape == (1, 2)


def test_a_constant_column_gets_no_part():
    with_constant = np.column_stack([X, np.full(N, 7.0)])
    model = fair().fit(with_constant, Y, sensitive_features=S)
    assert abs(Reference().gap(model, with_constant)) < 1e-8


# ---- weights ---------------------------------------------------------------------------------------------------------


def test_weights_are_repetitions():
    times = np.arange(N) % 3  # 0, 1, 2
    rows = np.repeat(np.arange(N), times)
    weighted = fair(l2=0.01).fit(X, Y, sensitive_features=S, sample_weight=times)
    repeated = fair(l2=0.01).fit(X[rows], Y[rows], sensitive_features=S[rows])
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, atol=1e-4)
    np.testing.assert_allclose(weighted.intercept_, repeated.intercept_, atol=1e-3)
    reference = Reference(l2=0.01, weight=times)
    assert abs(reference.gap(weighted)) < 1e-8
    assert abs(reference.gap(repeated)) < 1e-8
    assert abs(covariance(score(weighted), S, times)) <= C


@pytest.mark.parametrize("class_weight", ["balanced", {-1.0: 1.0, 1.0: 5.0}])
def test_class_weight(class_weight):
    kept = (Y > 0) | (np.arange(N) % 2 == 0)
    given = np.where(kept, 1.0, 1e-3)  # so that balanced weights differ from one another
    counts = {label: np.sum(label == Y) for label in (-1.0, 1.0)}
    by_hand = {label: N / (2 * counts[label]) for label in counts} if class_weight == "balanced" else class_weight
    weight = given * np.where(Y > 0, by_hand[1.0], by_hand[-1.0])
    model = fair(class_weight=class_weight).fit(X, Y, sensitive_features=S, sample_weight=given)
    assert abs(Reference(weight=weight).gap(model)) < 1e-8


# ---- attributes ------------------------------------------------------------------------------------------------------


def indicators():
    return np.stack([S, *(PEOPLE["race"] == group for group in "ABC"), PEOPLE["age"]]).astype(float)


@pytest.mark.parametrize("notion", ["demographic_parity", "equal_opportunity"])
def test_several_attributes_with_thresholds_of_their_own(notion):
    thresholds = {"age": 0.8, "sex": 0.1, "race": 0.01}
    model = fair(covariance=thresholds, notion=notion).fit(X, Y, sensitive_features=PEOPLE)
    counted = Y > 0 if notion == "equal_opportunity" else np.ones(N, bool)
    c = np.array([0.1, 0.01, 0.01, 0.01, 0.8])
    sizes = np.array([abs(covariance(score(model)[counted], s[counted])) for s in indicators()])
    assert np.all(sizes <= c)
    assert np.any(sizes > 0.999 * c)
    reference = Reference(columns=indicators(), c=c, counted=counted)
    assert abs(reference.gap(model)) < 1e-8
    np.testing.assert_allclose(
        reference.v.T @ (model.dual_[:5] - model.dual_[5:]), -reference.gradient(reference.x), atol=1e-4
    )
    np.testing.assert_allclose(model.result_.constraints[:5] + c, reference.v @ reference.x, atol=1e-4)
    assert model.threshold_ == thresholds
    assert [a.kind for a in model.attributes_] == ["binary", "categorical", "continuous"]
    assert tuple(model.result_.constraints.index)[:3] == ("cov(sex)", "cov(race=A)", "cov(race=B)")


def test_odds_are_covariances_of_each_label():
    problem, data = fair_classification(X, Y, PEOPLE[["sex"]], {"sex": 0.02}, notion="equalized_odds")
    x = np.array([0.3, -0.2])
    by_hand = [covariance((X @ x)[label == Y], S[label == Y]) for label in (1, -1)]
    np.testing.assert_allclose(np.mean(data[3] * (X @ x)[:, None], axis=0), by_hand, atol=1e-12)
    assert (problem.names or ())[:2] == ("cov(sex | y=1)", "cov(sex | y=0)")
    np.testing.assert_array_equal(problem.levels, 0.02)
    free = fair(notion="false_positive_rate_parity", covariance=0.02).fit(X, Y, sensitive_features=S)
    assert abs(covariance(score(free)[Y < 0], S[Y < 0])) <= 0.02
    assert abs(Reference(counted=Y < 0, c=0.02).gap(free)) < 1e-8


def test_a_column_and_its_square_are_ordinary_data():
    """One of seven columns is the square of another: the gap is reached, and nothing is warned of."""
    rng = np.random.default_rng(0)
    features = rng.normal(3.0, 1.0, (N, 7))
    features[:, 1] = features[:, 0] ** 2
    z = features @ rng.normal(size=7) + 3 * rng.logistic(size=N)
    y = np.where(z > np.median(z), 1.0, -1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = fair().fit(features, y, sensitive_features=S)
    assert model.result_.gap < 1e-9


def test_the_notion_counts_only_the_truly_positive():
    model = fair(notion="equal_opportunity").fit(X, Y, sensitive_features=S)
    z, positive = score(model), Y > 0
    assert abs(covariance(z[positive], S[positive])) <= C
    assert abs(covariance(z, S)) > 2 * C
    assert abs(Reference(counted=positive).gap(model)) < 1e-8


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_sensitive_columns_by_name(fitted, library):
    name = "sensitive_features"  # as an array is called, so that nothing is compiled again
    columns = {"income": X[:, 0], name: SEX, "hours": X[:, 1]}
    frame: Any = pd.DataFrame(columns) if library == "pandas" else pl.DataFrame(columns)
    for named in (name, [name]):
        model = fair(sensitive=named).fit(frame, Y)
        np.testing.assert_allclose(model.coef_, fitted.coef_, rtol=1e-6)  # columns lie otherwise: solved to 1e-12 of F
    assert model.n_features_in_ == 2
    assert list(model.feature_names_in_) == ["income", "hours"]
    without: Any = frame[["income", "hours"]]
    np.testing.assert_array_equal(model.predict(frame), fitted.predict(X))
    np.testing.assert_array_equal(model.predict(without), fitted.predict(X))
    assert model.attributes_[0].groups == ("F", "M")


def test_a_sensitive_column_stays_a_feature_where_asked():
    frame = pd.DataFrame({"income": X[:, 0], "sensitive_features": S, "hours": X[:, 1]})
    model = fair(sensitive="sensitive_features", sensitive_as_features=True).fit(frame, Y)
    assert model.n_features_in_ == 3
    assert abs(Reference(frame.to_numpy()).gap(model, frame.to_numpy())) < 1e-8


def test_a_handful_of_rows_is_warned_of():
    features = pd.DataFrame({"income": X[:, 0], "hours": X[:, 1], "rare": (np.arange(N) < 3).astype(float)})
    with pytest.warns(UserWarning, match=r"A handful of rows can carry .*: rare \(3 rows\)"):
        fair().fit(features, Y, sensitive_features=S)


# ---- intersections and kinds -----------------------------------------------------------------------------------------


def test_the_groups_that_attributes_make_together_are_constrained(tmp_path):
    """Two attributes, neither of which has much to do with the score, and which together are the one that has."""
    sex = np.arange(N) // 2 % 2
    people = pd.DataFrame({"sex": np.where(sex, "M", "F"), "town": np.where(sex == S, "A", "B")})
    cells = people["sex"] + " & " + people["town"]
    model = fair(covariance=0.02).fit(X, Y, sensitive_features=people)
    both = model.attributes_[2]
    assert (both.name, both.kind, set(both.groups)) == ("sex & town", "intersection", set(cells))
    sizes = [abs(covariance(score(model), cells == cell)) for cell in both.groups]
    assert 0.0199 < max(sizes) <= 0.02
    assert abs(covariance(score(model), sex)) < 0.015
    assert "cov(sex & town=F & A)" in model.result_.constraints.index
    model.save(tmp_path / "model")
    assert tr.FairLogisticRegression.load(tmp_path / "model").attributes_ == model.attributes_


def test_what_is_crossed_and_what_is_not():
    people = PEOPLE[["sex", "race"]]

    def names(given, **parameters):
        read: Any = read_task(fair(**parameters), X, Y, given, None).sensitive
        return [a.name for a in read.attributes]

    assert names(people) == ["sex", "race", "sex & race"]
    assert names(PEOPLE) == ["sex", "race", "age", "sex & race"]
    assert names(people, intersections=False) == ["sex", "race"]
    assert names(people, covariance={"sex": 0.1, "race": 0.1}) == ["sex", "race"]
    assert names(people, covariance={"sex": 0.1, "race": 0.1, "sex & race": 0.2}) == ["sex", "race", "sex & race"]
    assert names(people.assign(both=people["sex"] + people["race"])) == ["sex", "race", "both"]  # nothing new
    assert names(PEOPLE[["sex", "age"]]) == ["sex", "age"]


def test_later_batches_have_the_intersections_of_the_first():
    people = PEOPLE[["sex", "race"]]
    model = fair()
    first: Any = read_task(model, X, Y, people, None).sensitive
    later: Any = read_task(model, X[:9], Y[:9], people[:9], None, known=first.attributes)
    assert later.sensitive.attributes == first.attributes
    np.testing.assert_array_equal(later.columns, first.columns[:9])


def test_rare_intersections_are_one_with_a_warning():
    race = np.where((np.arange(N) < 120) & ((PEOPLE["sex"] == "M") | (np.arange(N) < 30)), "D", PEOPLE["race"])
    people = PEOPLE[["sex"]].assign(race=race)
    counts = people.groupby(["sex", "race"]).size()
    with pytest.warns(
        UserWarning, match=r"sex and race make together, \d are treated as one, .* fewer than \d+ rows"
    ) as told:
        task = read_task(fair(covariance=None, p_rule=0.5), X, Y, people, None)
    assert f"F & D ({counts['F', 'D']} rows)" in str(told[0].message)
    read: Any = task.sensitive
    sizes = np.bincount(read.groups(2))
    assert len(sizes) < len(counts)
    assert sizes.min() >= smallest_group(float(np.mean(Y > 0)))
    assert sizes.sum() == N
    few = np.arange(N) < 40
    with pytest.warns(UserWarning, match="make together are not constrained: of 6 all but one at most have fewer than"):
        read_task(fair(), X[few], Y[few], PEOPLE[["sex", "race"]][few], None)


def test_numbers_that_may_be_codes():
    codes = pd.Series(np.arange(N) % 6, name="region")
    with pytest.warns(UserWarning, match="region has few values, all whole numbers, and is taken for a quantity"):
        task = read_task(fair(), X, Y, codes, None)
    assert task.columns.shape == (N, 1)
    for kind, columns in (("categorical", 6), ("continuous", 1), ({"region": "categorical"}, 6)):
        assert read_task(fair(sensitive_kind=kind), X, Y, codes, None).columns.shape == (N, columns)
    asked: dict[str, Any] = {"covariance": None, "p_rule": 0.5}
    with pytest.raises(ValueError, match=r"region is continuous. If its numbers are codes .*{'region': 'categorical'}"):
        read_task(fair(**asked), X, Y, codes, None)
    assert read_task(fair(**asked, sensitive_kind="categorical"), X, Y, codes, None).columns.shape == (N, 6)


# ---- forms of data ---------------------------------------------------------------------------------------------------


def test_sparse_features_and_arrow_tables(fitted):
    table = pa.table({"income": X[:, 0], "hours": X[:, 1], "sensitive_features": SEX})
    for form in (sparse.csr_array(X), sparse.coo_matrix(X), table.select([0, 1])):
        model = fair().fit(form, Y, sensitive_features=S)
        np.testing.assert_allclose(model.coef_, fitted.coef_, rtol=1e-6)  # columns lie otherwise: solved to 1e-12 of F
        np.testing.assert_allclose(model.decision_function(form), fitted.decision_function(X), rtol=1e-6, atol=1e-6)
    named = fair(sensitive="sensitive_features").fit(table, pa.array(Y))
    np.testing.assert_allclose(named.coef_, fitted.coef_, rtol=1e-6)
    np.testing.assert_array_equal(named.predict(table), fitted.predict(X))
    assert list(named.feature_names_in_) == ["income", "hours"]
    pd.testing.assert_frame_equal(named.report(table, pa.array(Y)).frame, fitted.report(X, Y, SEX).frame)


def test_a_random_state_of_none_draws_as_numpy_was_told_to():
    model = fair(random_state=None)
    np.random.seed(2)
    one, two = model._seed(), model._seed()
    np.random.seed(2)
    assert (model._seed(), one != two) == (one, True)
    assert fair(random_state=None).fit(X, Y, sensitive_features=S).random_state is None
    assert fair(random_state=5)._seed() == 5


def test_a_report_on_the_estimator(fitted):
    labels = np.where(Y > 0, "yes", "no")
    worded = fair().fit(X, labels, sensitive_features=S)
    table = worded.report(X, labels, PEOPLE[["sex", "race"]]).by_group("sex")
    for group in "FM":
        of = group == SEX
        assert table.loc[group, "accuracy"] == pytest.approx(fitted.score(X[of], Y[of]))
        assert table.loc[group, "selection_rate"] == pytest.approx(np.mean(fitted.predict(X[of]) > 0))
    assert fitted.report(X, sensitive_features=S).overall.index.tolist() == ["selection_rate"]
    with pytest.raises(ValueError, match="report needs sensitive_features"):
        fitted.report(X, Y)
    with pytest.raises(ValueError, match="y has the label 'maybe'; expected one of"):
        worded.report(X, ["maybe"] * N, SEX)


# ---- labels, scikit-learn's tools --------------------------------------------------------------------------------------


def test_labels_of_any_kind(fitted):
    for labels in (np.where(Y > 0, "yes", "no"), Y > 0, np.where(Y > 0, 7, 3)):
        model = fair().fit(X, labels, sensitive_features=S)
        np.testing.assert_array_equal(model.coef_, fitted.coef_)
        np.testing.assert_array_equal(model.predict(X), np.unique(labels)[(fitted.predict(X) > 0).astype(int)])


def test_a_pipeline_with_and_without_routing(fitted):
    plain: Any = make_pipeline(StandardScaler(), fair())
    plain.fit(X, Y, fairlogisticregression__sensitive_features=S)
    np.testing.assert_allclose(plain.decision_function(X), fitted.decision_function(X), atol=1e-4)
    with config_context(enable_metadata_routing=True):
        routed: Any = make_pipeline(StandardScaler(), fair().set_fit_request(sensitive_features=True))
        routed.fit(X, Y, sensitive_features=S)
    np.testing.assert_array_equal(routed[-1].coef_, plain[-1].coef_)


def test_a_grid_search_with_and_without_routing():
    features, y, s, _ = rotated_gaussians(n=960, phi=np.pi / 8, seed=1)  # a fold learns from 640 rows
    options: dict[str, Any] = {"cv": KFold(3), "refit": False, "error_score": "raise"}
    grid = {"covariance": [0.02, 5.0]}
    plain = GridSearchCV(fair(), grid, **options).fit(features[:, :2], y, sensitive_features=s)
    with config_context(enable_metadata_routing=True):
        estimator: Any = fair().set_fit_request(sensitive_features=True)
        routed = GridSearchCV(estimator, grid, **options).fit(features[:, :2], y, sensitive_features=s)
    scores = plain.cv_results_["mean_test_score"]
    np.testing.assert_array_equal(routed.cv_results_["mean_test_score"], scores)
    peer = cross_val_predict(LogisticRegression(C=np.inf, tol=1e-10), features[:, :2], y, cv=KFold(3))
    assert scores[1] == pytest.approx(np.mean(peer == y), abs=1e-9)  # the second constraint does not bind
    assert scores[0] < scores[1]


COMPILED: list[str] = []
jax.monitoring.register_event_duration_secs_listener(
    lambda event, duration_secs, **kwargs: COMPILED.append(event) if "backend_compile" in event else None
)


def test_a_second_fit_of_the_same_shapes_compiles_nothing():
    fair().fit(X[:100], Y[:100], sensitive_features=S[:100])
    assert COMPILED
    known = len(COMPILED)
    rows = np.arange(N)[::-1][:97]  # filled up to 128 rows as well
    fair(covariance=0.3, l2=0.2, radius=5.0, notion="equal_opportunity", random_state=3).fit(
        X[rows, :1], Y[rows], sensitive_features=S[rows], sample_weight=1 + rows % 2
    )
    assert len(COMPILED) == known


@pytest.mark.parametrize("n", [97, 640])
def test_thresholds_and_copies_of_rows_leave_the_problem_what_it_is(n):
    """As if it were built for its thresholds, and from the rows as they were given."""
    rows = np.arange(n)
    read = read_sensitive(PEOPLE[:n])
    task = Task(X[:n], Y[:n], read, 1.0 + rows % 3, "equal_opportunity", 0.1, 10.0, True)
    thresholds = {"sex": 0.1, "race": 0.2, "age": 0.3}
    ours = training.build(task).at(thresholds)
    assert ours.levels.tolist() == [0.1, 0.2, 0.2, 0.2, 0.3]
    levels = ours.levels / [1, 1, 1, 1, np.sqrt(np.cov(read.columns[:, 4], aweights=task.weight, ddof=0))]
    np.testing.assert_allclose(ours.problem.levels, np.tile(levels, 2), rtol=1e-12)
    scaled = dataclasses.replace(read, columns=read.columns / ours.unit)
    given = fair_classification(
        ours.data[0][:n], Y[:n], scaled, 1.0, notion="equal_opportunity", sample_weight=task.weight
    )
    for part, whole in zip(ours.rows_once(), given.data, strict=True):
        np.testing.assert_allclose(part / np.abs(part).sum(), whole / np.abs(whole).sum(), rtol=1e-9)


def test_a_gap_is_told_where_it_would_show_in_probabilities():
    """root(gap/2): 0.001 is not worth a word, 0.02 is, unless few rows leave the probabilities as uncertain anyway."""
    ended = fair(passes=1.0)
    with pytest.warns(ConvergenceWarning, match=r"probabilities may be off by .* \(root mean square\)"):
        ended.fit(X, Y, sensitive_features=S)
    for n, gap, told in ((N, 2e-6, False), (N, 8e-4, True), (12, 8e-4, False)):
        run = dataclasses.replace(ended.result_, trace=pd.DataFrame({"gap": [gap]}))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            training.warn_of_gap(run, X.shape[1], n)
        assert bool(caught) == told, (n, gap)


# ---- other methods -----------------------------------------------------------------------------------------------------


def test_the_papers_method_one_sample_a_step():
    named, given = (
        fair(method=m, passes=20, random_state=4).fit(X, Y, sensitive_features=S)
        for m in ("csoa", tr.CSOA(eta0=1.0, delta=0.01, upsilon0=0.5))
    )
    for model in (named, given):
        assert model.result_.cost.steps == 20 * N
        assert abs(covariance(score(model), S)) < C + 0.02
        assert abs(Reference().gap(model)) < 0.02
    assert isinstance(given.result_.method, tr.CSOA)
    assert given.result_.method.eta0 == 1.0


# ---- the p%-rule -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def promised() -> Any:
    return tr.FairLogisticRegression(p_rule=0.5, constraint="covariance").fit(X, Y, sensitive_features=SEX)


def test_the_largest_threshold_that_keeps_the_rule_is_chosen(promised):
    table = promised.frontier()
    assert promised.threshold_ == table["threshold"][table["passed"]].max()
    np.testing.assert_array_equal(table["passed"], table["p_rule_bound"] >= 0.5)  # here the bounds fall along the path
    assert not table["passed"].iloc[-1]  # without constraint the rule is broken
    assert abs(covariance(score(promised), S)) <= promised.threshold_
    rate = [np.mean(promised.predict(X)[s == S] > 0) for s in (0, 1)]
    assert min(rate) / max(rate) > 0.5


def test_the_frontier_is_out_of_fold(promised):
    table = promised.frontier()
    assert np.all(np.diff(table["threshold"]) > 0)
    for name in ("accuracy", "p_rule"):
        assert np.all((table[f"{name}_low"] <= table[name]) & (table[name] <= table[f"{name}_high"]))
    assert np.all(table["p_rule_bound"] <= table["p_rule"])
    peer = LogisticRegression(C=np.inf)
    decided: Any = cross_val_predict(peer, X, Y, cv=KFold(5, shuffle=True, random_state=0))
    rate = [np.mean(decided[s == S] > 0) for s in (0, 1)]
    last = table.iloc[-1]  # where the constraint only begins to bind
    assert last["accuracy"] == pytest.approx(np.mean(decided == Y), abs=0.01)
    assert last["p_rule"] == pytest.approx(min(rate) / max(rate), abs=0.05)
    assert last["selected"] == pytest.approx(np.mean(decided > 0), abs=0.02)
    assert last["threshold"] == pytest.approx(covariance(score(tr.FairLogisticRegression().fit(X, Y)), S), rel=1e-3)


def test_the_frontier_of_given_data_and_its_picture(promised, fitted, tmp_path):
    given = fair(constraint="covariance").frontier(X, Y, sensitive_features=SEX)
    apart = ["score", "passed"]  # by the 80 % rule, where no other is asked for
    pd.testing.assert_frame_equal(given.drop(columns=apart), promised.frontier().drop(columns=apart))
    promised.plot_frontier(str(tmp_path / "chosen.png"))
    fitted.plot_frontier(str(tmp_path / "given.png"), frontier=given)
    assert all((tmp_path / name).stat().st_size > 10_000 for name in ("chosen.png", "given.png"))
    with pytest.raises(ValueError, match=r"frontier\(\) is known after fit with p_rule"):
        fitted.frontier()


def test_the_papers_search_judges_by_the_rows_it_was_solved_on(monkeypatch):
    model = tr.FairLogisticRegression(p_rule=0.5, search="batch").fit(X, Y, sensitive_features=S)
    table = model.frontier()
    np.testing.assert_array_equal(table["passed"], table["p_rule"] >= 0.5)
    assert model.threshold_ == table["threshold"][table["passed"]].max()
    nearest = table[table["threshold"] == model.threshold_].iloc[0]
    rate = [np.mean(model.predict(X)[s == S] > 0) for s in (0, 1)]
    assert nearest["p_rule"] == pytest.approx(min(rate) / max(rate), abs=0.01)
    with pytest.raises(Refused, match="cannot be promised on the rows it was solved on: where rates are most alike"):
        model.set_params(p_rule=0.99).fit(X, Y, sensitive_features=S)
    monkeypatch.setattr(by_covariance, "BATCH_ROWS", 600)  # at most: of more, so many at random
    fewer = tr.FairLogisticRegression(p_rule=0.5, search="batch").fit(X, Y, sensitive_features=S).frontier()
    weights = 600 * fewer["selected"].to_numpy()
    np.testing.assert_allclose(weights, np.round(weights), atol=1e-6)


def test_a_refusal_says_what_binds_and_what_can_be_had_and_keeps_its_frontier(promised, tmp_path):
    model: Any = clone(promised)
    model.set_params(p_rule=0.99)
    model.coef_ = promised.coef_  # of an earlier fit
    sentence = r"p_rule=0.99 cannot be promised with 95% confidence: where rates are most alike, p_rule is "
    with pytest.raises(Refused, match=sentence) as refused:
        model.fit(X, Y, sensitive_features=SEX)
    counts = {f"sensitive_features={group}": int(np.sum(group == SEX)) for group in "FM"}
    sizes = [f"{name} ({count:,} rows)" for name, count in counts.items()]
    said = str(refused.value)
    assert " and ".join(sizes) in said or " and ".join(reversed(sizes)) in said
    table = model.frontier()
    copy = pickle.loads(pickle.dumps(refused.value))
    assert (type(copy), str(copy)) == (Refused, said)
    pd.testing.assert_frame_equal(copy.frontier, table)
    apart = ["score", "passed"]  # nothing but what was asked differs
    pd.testing.assert_frame_equal(table.drop(columns=apart), promised.frontier().drop(columns=apart))
    model.plot_frontier(str(tmp_path / "refused.png"))
    assert (tmp_path / "refused.png").stat().st_size > 10_000
    with pytest.raises(NotFittedError):
        model.predict(X)
    best = table.iloc[0]
    offered = np.floor(100 * best["p_rule_bound"]) / 100
    assert f"p_rule={offered:g} could be had, at accuracy {best['accuracy']:.3f} or more (--p-rule {offered:g})" in said
    had = model.set_params(p_rule=offered).fit(X, Y, sensitive_features=SEX)
    assert had.threshold_ >= best["threshold"]


def refusal_of(asked: float, bound: float, estimate: float, n: tuple[int, int] = (300, 340)) -> str:
    """The sentence of a path of one threshold, for two groups of so many rows."""
    rows = sum(n)
    task = Task(
        X[:rows], Y[:rows], read_sensitive(np.repeat(["F", "M"], n), "sex"), np.ones(rows), PARITY, 0.0, 10.0, True
    )
    known = {"threshold": 0.1, "accuracy": 0.8, "p_rule": estimate, "p_rule_bound": bound, "selected": 0.5}
    table = pd.DataFrame([known | {"group": "sex=F", "against": "sex=M"}])
    return str(refusal(RateRule("ratio", 1 - asked), task, table, confidence=0.95, every=True))


PARITY = "demographic_parity"
NEEDED = smallest_group(float(np.mean(Y[:640] > 0)))


def test_advice_of_a_refusal_is_for_the_case_at_hand():
    # log(0.9/0.7) is 2.13 times log(0.9/0.8), and an error falls as the root of the rows
    said = refusal_of(0.8, 0.7, 0.9)
    assert "About 4.6 times as many rows of these groups would do." in said
    assert "lower the confidence (confidence=0.9" in said
    assert "times as many" not in refusal_of(0.8, 0.7, 0.75)  # the estimate itself is too low
    assert (
        f"sex=F is too small: were as many of it selected as have a positive label, it would take some {NEEDED} rows"
        in (refusal_of(0.8, 0.1, 0.9, (40, 600)))
    )
    assert "could be had" not in refusal_of(0.8, 0.0, 0.5)


def test_rows_without_weight_change_nothing(promised):
    more = np.concatenate([X, X[::-1] + 1.0]), np.concatenate([Y, -Y]), np.concatenate([SEX, SEX])
    order = np.argsort(np.arange(2 * N) % N, kind="stable")  # in between the others
    weight = np.repeat([2.0, 0.0], N)[order]
    model: Any = clone(promised)
    model.fit(more[0][order], more[1][order], more[2][order], sample_weight=weight)
    assert model.threshold_ == promised.threshold_
    np.testing.assert_allclose(model.coef_, promised.coef_, rtol=1e-9)
    pd.testing.assert_frame_equal(model.frontier(), promised.frontier(), rtol=1e-9)


def test_a_path_is_judged_by_weights():
    """The weights of rows as if they were repeated, those of classes not at all; and a row of weight 3 is one person."""
    times = 1 + np.arange(N) % 3
    rows = np.repeat(np.arange(N), times)
    judged = []
    for kept, weight in ((np.arange(N), times), (rows, None)):
        model = tr.FairLogisticRegression(p_rule=0.5, constraint="covariance", class_weight={-1.0: 1.0, 1.0: 9.0})
        task = read_task(model, X[kept], Y[kept], SEX[kept], weight)
        assert task.sensitive is not None
        judge = Judge.of(
            task, cells_of(task.sensitive, task.y > 0, PARITY), np.arange(len(kept)), RateRule("ratio", 0.5)
        )
        judged.append(judge.row([task.X[:, 0] > 3], 0.95))
    ours, repeated = judged
    assert [ours[name] for name in ("group", "against")] == [repeated[name] for name in ("group", "against")]
    for name in ("accuracy", "p_rule", "selected"):
        np.testing.assert_allclose(ours[name], repeated[name], rtol=1e-12)
    np.testing.assert_allclose(ours["accuracy"], np.average((X[:, 0] > 3) == (Y > 0), weights=times))
    assert ours["p_rule_bound"] < repeated["p_rule_bound"]
    # 2 is the mean weight and 14/3 that of squares: N/(4/(14/3)) rows are worth what 2N repeated ones seem to be
    width = [row["accuracy_high"] - row["accuracy_low"] for row in judged]
    np.testing.assert_allclose(width[0] / width[1], np.sqrt(7 / 3), rtol=0.05)


def test_the_rule_needs_groups():
    for call in ("fit", "frontier"):
        with pytest.raises(ValueError, match=r"compares groups and age is continuous. Use covariance"):
            getattr(tr.FairLogisticRegression(p_rule=0.5), call)(X, Y, sensitive_features=PEOPLE["age"])


# ---- on disk -----------------------------------------------------------------------------------------------------------


def test_a_file_brings_the_classifier_back(promised, tmp_path):
    file = tmp_path / "model"
    promised.save(file)
    copy = tr.FairLogisticRegression.load(file)
    assert copy.get_params() == promised.get_params()
    np.testing.assert_array_equal(copy.decision_function(X), promised.decision_function(X))
    np.testing.assert_array_equal(copy.predict(X), promised.predict(X))
    pd.testing.assert_frame_equal(copy.frontier(), promised.frontier())
    for name in ("threshold_", "attributes_", "n_features_in_"):
        assert getattr(copy, name) == getattr(promised, name)
    np.testing.assert_array_equal(copy.dual_, promised.dual_)
    copy.save(file)
    for read in (copy, tr.FairLogisticRegression.load(file)):  # the report survives a second file
        assert getattr(read, "report_") == str(promised.result_)  # noqa: B009 (only there after load)


def test_names_labels_and_method_objects_in_a_file(tmp_path):
    frame = pd.DataFrame({"income": X[:, 0], "hours": X[:, 1], "sex": PEOPLE["sex"]})
    labels = np.where(Y > 0, "yes", "no")
    method = tr.CSOA(eta0=1.0, upsilon0=0.5)
    model = fair(covariance={"sex": 0.1}, sensitive=["sex"], method=method, random_state=np.int64(2), passes=1)
    model.fit(frame, labels).save(tmp_path / "model")
    copy = tr.FairLogisticRegression.load(tmp_path / "model")
    np.testing.assert_array_equal(copy.predict(frame), model.predict(frame))
    assert list(copy.feature_names_in_) == ["income", "hours"]
    assert (copy.threshold_, copy.method, copy.random_state) == ({"sex": 0.1}, "auto", 2)


# ---- a stream ----------------------------------------------------------------------------------------------------------

SCALING = (X.mean(axis=0), X.std(axis=0))


def streamed(sizes, **parameters) -> Any:
    """Fed with all rows in batches of these sizes, over and over."""
    model, at, k = fair(**({"scaling": SCALING} | parameters)), 0, 0
    while at < N:
        rows = slice(at, at + sizes[k % len(sizes)])
        model.partial_fit(X[rows], Y[rows], classes=[-1, 1], sensitive_features=S[rows])
        at, k = at + sizes[k % len(sizes)], k + 1
    return model


def test_a_stream_does_not_depend_on_how_it_is_cut():
    whole = streamed([N])
    for sizes in ([100], [97, 1, 2, 60], [5, 33]):  # a first batch has both groups in it
        part = streamed(sizes)
        np.testing.assert_array_equal(part.coef_, whole.coef_)
        np.testing.assert_array_equal(part.intercept_, whole.intercept_)
        np.testing.assert_array_equal(part.dual_, whole.dual_)


def test_a_pickled_stream_goes_on_bit_for_bit():
    half = N // 2 + 3  # some rows wait
    model = fair(scaling=SCALING)
    model.partial_fit(X[:half], Y[:half], classes=[-1, 1], sensitive_features=S[:half])
    with jax.enable_x64(False):  # wherever it is opened
        copy = pickle.loads(pickle.dumps(model))
        copy.partial_fit(X[half:], Y[half:], sensitive_features=S[half:])
    model.partial_fit(X[half:], Y[half:], sensitive_features=S[half:])
    np.testing.assert_array_equal(copy.coef_, model.coef_)
    np.testing.assert_array_equal(copy.dual_, model.dual_)


def test_a_stream_equals_csoa_on_groups_in_numpy():
    """The whole of it by hand: standardise, group by eight, and take the anytime form of CSOA with its weighted mean."""
    Z = np.column_stack([(X - SCALING[0]) / SCALING[1], np.ones(N)])
    eta0, upsilon0, delta, c = 0.7, 0.02, 0.01, 0.1
    x, lam, points, weights = np.zeros(3), np.zeros(2), [], []
    for t, rows in enumerate(np.arange(N).reshape(-1, GROUP), start=1):
        eta, upsilon = eta0 / np.sqrt(t), upsilon0 / np.sqrt(t)
        points, weights = [*points, x], [*weights, eta]
        y, z = Y[rows], Z[rows]
        slope = np.mean(-y[:, None] * z / (1 + np.exp(y * (z @ x)))[:, None], axis=0)
        v = (S[rows] - S[rows].mean()) @ z / (GROUP - 1)
        h = np.array([v @ x - c, -v @ x - c])
        x, lam = (
            x - eta * (slope + (lam[0] - lam[1]) * v),
            np.maximum((1 - eta**2 * delta) * lam + eta * (h + upsilon), 0),
        )
        x = x * min(1.0, 10 / np.linalg.norm(x))
    average = np.average(points, axis=0, weights=weights)
    model = streamed([N], covariance=c, method=tr.CSOA(eta0=eta0, delta=delta, upsilon0=upsilon0, anytime=True))
    np.testing.assert_allclose(model.coef_[0], average[:2] / SCALING[1], rtol=1e-10)
    np.testing.assert_allclose(score(model), Z @ average, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("notion", ["demographic_parity", "equal_opportunity", "equalized_odds"])
def test_pairs_are_unbiased(notion):
    """The mean over all pairs of different rows is the sample covariance (with n - 1), times what the pairs weigh."""
    n, c = 40, np.array([0.1, 0.2, 0.2, 0.2, 0.3])
    rows, x = np.arange(n), np.array([0.3, -0.2])
    weight = 1.0 + rows % 3
    read = read_sensitive(PEOPLE.iloc[:n])
    thresholds = {"sex": 0.1, "race": 0.2, "age": 0.3}
    problem = paired_classification(2, read, thresholds, 10.0, notion=notion, l2=0.0, intercept=False)
    i, j = (a.ravel()[np.ravel(~np.eye(n, dtype=bool))] for a in np.meshgrid(rows, rows))
    pairs = tuple(np.stack([a[i], a[j]], axis=1) for a in (X[:n], Y[:n], weight, read.columns))
    h = np.asarray(problem.constraint_values(x, pairs))
    counted = {
        "demographic_parity": [Y[:n] < 2],
        "equal_opportunity": [Y[:n] > 0],
        "equalized_odds": [Y[:n] > 0, Y[:n] < 0],
    }
    z, q, most = X[:n] @ x, [], []
    for u in (weight * rows for rows in counted[notion]):
        # E u u' (s - s')(z - z')/2 = E u E u s z - E u s E u z, sums over all pairs since those of a row with itself are 0
        q.append((u.sum() * (u * z) @ read.columns - (u @ z) * (u @ read.columns)) / (n * (n - 1)))
        most.append((u.sum() ** 2 - u @ u) / (n * (n - 1)) * c)
    q, most = np.concatenate(q), np.concatenate(most)
    np.testing.assert_allclose(h, np.concatenate([q - most, -q - most]), atol=1e-12)
    if notion == "demographic_parity":
        plain = tuple(np.stack([a[i], a[j]], axis=1) for a in (X[:n], Y[:n], np.ones(n), read.columns))
        by_numpy = np.array([np.cov(s, z)[0, 1] for s in read.columns.T])
        np.testing.assert_allclose(problem.constraint_values(x, plain)[:5], by_numpy - c, atol=1e-12)


def test_a_group_is_the_mean_of_its_pairs():
    problem = paired_classification(
        2, read_sensitive(PEOPLE), 0.1, 10.0, notion="equal_opportunity", l2=0.0, intercept=False
    )
    columns = read_sensitive(PEOPLE).columns[:5] + 1e6
    rows, x = np.arange(5), np.array([0.3, -0.2])
    group = (X[:5], np.where(rows == 1, -1.0, 1.0), 1.0 + rows, columns)
    i, j = (a.ravel()[np.ravel(~np.eye(5, dtype=bool))] for a in np.meshgrid(rows, rows))
    pairs = tuple(np.stack([a[i], a[j]], axis=1) for a in group)
    one = problem.constraint_values(x, tuple(a[None] for a in group))
    np.testing.assert_allclose(one, problem.constraint_values(x, pairs), rtol=1e-9)


def test_a_long_stream_ends_near_the_optimum():
    features, y, s, _ = rotated_gaussians(n=60_000, phi=np.pi / 8, seed=5)
    features = features[:, :2]
    model = fair()
    for rows in np.split(np.arange(60_000), 60):
        model.partial_fit(features[rows], y[rows], sensitive_features=s[rows])
    reference = Reference(features, y, (s,))
    z = score(model, features)
    free = LogisticRegression(C=np.inf).fit(features, y).decision_function(features)
    assert covariance(free, s) > 10 * C
    assert abs(covariance(z, s)) < C + 0.01
    assert abs(reference.gap(model, features)) < 0.005


def test_later_batches_may_lack_a_group_or_a_label():
    model = fair().partial_fit(X[:64], Y[:64], sensitive_features=SEX[:64])
    before = model.coef_.copy()
    for rows in (S > 0, Y < 0):
        batch = np.flatnonzero(rows)[:64]
        model.partial_fit(X[batch], Y[batch], sensitive_features=SEX[batch])
    assert np.all(np.isfinite(model.coef_))
    assert np.any(model.coef_ != before)
    assert model.attributes_[0].groups == ("F", "M")


def test_a_stream_without_constraint_and_a_fit_after_it(fitted):
    model = tr.FairLogisticRegression(scaling=SCALING)
    for _ in range(30):
        model.partial_fit(X, Y)
    assert abs(Reference(columns=()).gap(model)) < 0.01
    model.set_params(covariance=C).fit(X, Y, sensitive_features=S)
    np.testing.assert_array_equal(model.coef_, fitted.coef_)


@pytest.mark.parametrize(
    ("parameters", "given", "sentence"),
    [
        ({"p_rule": 0.8, "covariance": None}, {}, "partial_fit cannot keep p_rule=0.8"),
        ({"method": "svrg-csoa"}, {}, "partial_fit learns with CSOA and method is 'svrg-csoa'"),
        ({"method": tr.CSOA()}, {}, "Use a method whose `anytime` is true"),
        ({"scaling": ([0.0], [1.0])}, {}, r"scaling has shapes \(1,\) and \(1,\); expected 2 means and 2 positive"),
        ({"scaling": (SCALING[0], [0.0, 1.0])}, {}, "2 positive deviations"),
        ({}, {"classes": [0, 1]}, r"y has the label -1.0; expected one of \[0, 1\]"),
        ({}, {"classes": [-1, 0, 1]}, "Only binary classification is supported"),
    ],
)
def test_bad_streams(parameters, given, sentence):
    with pytest.raises((ValueError, TypeError), match=sentence):
        fair(**parameters).partial_fit(X, Y, **({"sensitive_features": S} | given))


def test_bad_later_batches():
    model = fair().partial_fit(X[:64], Y[:64], sensitive_features=SEX[:64])
    before = model.coef_.copy()
    with pytest.raises(ValueError, match="y has the label 3"):
        model.partial_fit(X[:4], [3, 3, 3, 3], sensitive_features=SEX[:4])
    with pytest.raises(ValueError, match="has the value 'X'; expected one of 'F', 'M'"):
        model.partial_fit(X[:4], Y[:4], sensitive_features=["X", "F", "F", "M"])
    with pytest.raises(ValueError, match="X has 1 features"):
        model.partial_fit(X[:4, :1], Y[:4], sensitive_features=SEX[:4])
    np.testing.assert_array_equal(model.coef_, before)


# ---- bad input ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({"p_rule": 0.8}, "p_rule and covariance were both given"),
        ({"p_rule": 80, "covariance": None}, "p_rule is 80; expected a share between 0 and 1"),
        ({"covariance": 0.0}, "threshold is 0.0; expected positive numbers"),
        ({"covariance": "small"}, "threshold is 'small'; expected positive numbers"),
        ({"covariance": {"race": 0.1}}, "threshold is given for race; expected one for each of sensitive_features"),
        ({"notion": "equality"}, "notion is 'equality'; expected 'demographic_parity' or 'equal_opportunity'"),
        ({"sensitive": "sex"}, "sensitive= and sensitive_features= were both given"),
        ({"sensitive": 5}, "sensitive is 5; expected"),
        ({"l2": "a"}, "l2 is 'a'; expected"),
        ({"radius": 0.0}, "radius is 0.0; expected a positive number"),
        ({"method": "sgd"}, "method is 'sgd'; expected auto, "),
        ({"passes": 0}, "passes is 0"),
        ({"tol": -1.0}, "tol is -1.0"),
        ({"search": "grid"}, "search is 'grid'; expected 'cross-validation' or 'batch'"),
        ({"folds": 1}, "folds is 1; expected a whole number of at least 2"),
        ({"confidence": 95}, "confidence is 95; expected a number between 0 and 1"),
        ({"random_state": -1}, "random_state is -1; expected a whole number"),
        ({"class_weight": "even"}, "class_weight"),
    ],
)
def test_bad_parameters(parameters, sentence):
    with pytest.raises((ValueError, TypeError), match=sentence):
        fair(**parameters).fit(X, Y, sensitive_features=S)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"sensitive_features": None}, r"covariance=0.05\) needs sensitive_features: fit\(X, y, sensitive_features"),
        ({"sensitive_features": S[:5]}, "sensitive_features has 5 rows and X has 640"),
        ({"sensitive_features": np.ones(N)}, "only one value"),
        ({"y": np.ones(N)}, "y has only one class, .*1.0.*; expected two"),
        ({"y": np.arange(N) % 3}, "Only binary classification .* the largest of several scores keeps no rule"),
        ({"sample_weight": (S > 0).astype(float)}, "All rows of sensitive_features = 0.0 have sample_weight 0"),
        (
            {"X": sparse.csr_array((N, 10**12))},
            "X is sparse with 640 rows and 1,000,000,000,000 columns; expected what this machine has the memory for",
        ),
        ({"sample_weight": -np.ones(N)}, "[Nn]egative"),
        ({"sample_weight": (Y > 0).astype(float)}, "only one class among the rows with weight"),
        ({"X": np.where(X > 4, np.nan, X)}, "NaN"),
    ],
)
def test_bad_data(given, sentence):
    with pytest.raises(ValueError, match=sentence):
        fair().fit(**({"X": X, "y": Y, "sensitive_features": S} | given))


@pytest.mark.parametrize("given", [X, pd.DataFrame(X, columns=["income", "hours"])])
def test_a_named_column_that_is_not_there(given):
    with pytest.raises(ValueError, match="sensitive names sex, which X has no column of"):
        fair(sensitive="sex").fit(given, Y)
