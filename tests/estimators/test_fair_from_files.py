"""The fair classifier on Parquet files: the problem that it solves is that of the arrays, row for row."""

import io

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tightrope as tr
from tightrope.learn.fair.from_files import (
    _JUDGES,
    _problem,
    _Standardised,
    at_random,
    look_at,
    measure,
    path_of,
    read_people,
)
from tightrope.learn.fair.frontier import judge_path, largest_that_keeps, path_of_thresholds
from tightrope.learn.fair.refusal import Refused
from tightrope.learn.fair.task import read_task
from tightrope.learn.fair.training import build, train
from tightrope.learn.fairness.sensitive import read_sensitive
from tightrope.learn.tables.classifier import TableClassifier
from tightrope.learn.tables.encoder import TableEncoder
from tightrope.learn.tables.from_files import fit_folder, predict_folder
from tightrope.sampling import Parquet

N = 600
RNG = np.random.default_rng(0)
SEX, RACE = RNG.choice(["f", "m"], N), RNG.choice(["a", "b", "c"], N, p=[0.5, 0.3, 0.2])
FEATURES = RNG.normal([0.0, 100.0, -3.0], [1.0, 30.0, 0.01], size=(N, 3)) + (SEX == "m")[:, None] * [1.0, 0.0, 0.005]
INCOME = np.where(FEATURES[:, 0] + FEATURES[:, 1] / 60 + RNG.normal(size=N) > 2, "yes", "no")
PEOPLE = pd.DataFrame(FEATURES, columns=["x", "y", "z"]).assign(
    age=RNG.uniform(20, 60, N), sex=SEX, race=RACE, income=INCOME
)


@pytest.fixture
def folder(tmp_path):
    table = pa.Table.from_pandas(PEOPLE)
    pq.write_table(table.slice(0, 250), tmp_path / "a.parquet", row_group_size=90)
    pq.write_table(table.slice(250), tmp_path / "b.parquet", row_group_size=200)
    return tmp_path


@pytest.mark.filterwarnings("ignore:Of the groups that sex and race make together, 2 are treated as one")
@pytest.mark.parametrize(
    ("columns", "asked"),
    [
        (["x", "y", "z", "sex", "race"], {"sensitive": ["sex", "race"]}),
        (["x", "y", "z", "sex"], {"sensitive": "sex", "notion": "equal_opportunity", "class_weight": "balanced"}),
        (["x", "y", "z", "age"], {"sensitive": ["age"], "fit_intercept": False, "class_weight": {"no": 1, "yes": 3}}),
        (["x", "y", "z", "race"], {"sensitive": "race", "notion": "equalized_odds", "sample_weight": "age"}),
        (["x", "y", "z", "sex"], {"sensitive": "sex", "notion": "false_positive_rate_parity", "sample_weight": "age"}),
    ],
)
def test_the_problem_is_that_of_the_arrays(folder, columns, asked, monkeypatch):
    monkeypatch.setattr("tightrope.learn.fair.from_files._MANY", 100)
    weight = asked.pop("sample_weight", None)
    model, twin = (tr.FairLogisticRegression(covariance=0.05, **asked) for _ in range(2))
    built = build(read_task(twin, PEOPLE[columns], INCOME, None, None if weight is None else PEOPLE[weight])).at(0.05)
    read = [*columns, "income", *([weight] if weight else [])]
    people = read_people(model, Parquet(folder, read), "income", None, weight)
    known = look_at(model, people)
    moments = measure(model, people, known)
    problem, levels = _problem(model, known, moments, 0.05)
    assert built.task.sensitive is not None
    assert known.attributes == built.task.sensitive.attributes
    np.testing.assert_array_equal(model.classes_, twin.classes_)
    np.testing.assert_allclose(levels, built.levels)
    np.testing.assert_allclose(moments.scaling.mean, built.scaling.mean, rtol=1e-10)
    np.testing.assert_allclose(moments.scaling.scale, built.scaling.scale, rtol=1e-8)
    d = problem.params["V"].shape[1]
    np.testing.assert_allclose(problem.params["V"], built.problem.params["V"][:, :d], atol=1e-10)
    assert problem.names == built.problem.names
    rows = Parquet(people.files, people.columns, decode=_Standardised(people, known, moments, model.notion))  # pyright: ignore[reportArgumentType]
    found = [np.concatenate(parts) for parts in zip(*rows.batches(), strict=True)]
    expected = built.rows_once()
    for a, b, columns_of in zip(found, expected, (d, None, None, None), strict=True):
        b = b[:, :columns_of] if columns_of else b
        np.testing.assert_allclose(a / np.abs(a).mean(), b / np.abs(b).mean(), atol=1e-6)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Of the groups that sex and race make together, 2 are treated as one")
def test_the_classifier_is_that_of_the_arrays(folder):
    asked = {"covariance": 0.05, "sensitive": ["sex", "race"]}
    files = tr.FairLogisticRegression(**asked).fit(Parquet(folder, list(PEOPLE.columns)), "income")
    arrays = tr.FairLogisticRegression(**asked).fit(PEOPLE.drop(columns="income"), INCOME)
    np.testing.assert_allclose(files.coef_, arrays.coef_, rtol=1e-6)
    np.testing.assert_array_equal(
        files.predict(PEOPLE.drop(columns="income")), arrays.predict(PEOPLE.drop(columns="income"))
    )


@pytest.mark.parametrize(
    ("asked", "given", "sentence"),
    [
        ({"difference": 0.1, "sensitive": "sex"}, {}, r"difference=0\.1 is kept by a path .* expected p_rule"),
        ({"p_rule": 0.8, "constraint": "rates", "sensitive": "sex"}, {}, "constraint='rates' looks at rows in memory"),
        ({"covariance": 0.1, "sensitive": "sex"}, {"sample_weight": SEX}, "sample_weight is a ndarray and X are files"),
        ({"covariance": 0.1, "sensitive": "sex"}, {"sample_weight": "w"}, "The files have no column 'w'"),
        ({"covariance": 0.1, "sensitive": "sex"}, {}, "column 'race' is large_string; expected numbers"),
        ({"covariance": 0.1, "sensitive": "sox"}, {}, "The files have no column 'sox'"),
        ({"covariance": 0.1}, {"sensitive_features": SEX}, "sensitive_features was given with files"),
        ({"covariance": 0.1, "sensitive": "sex"}, {"y": INCOME}, "expected the name of the column to predict"),
    ],
)
def test_what_cannot_be_had_from_files_is_refused(folder, asked, given, sentence):
    with pytest.raises((ValueError, TypeError), match=sentence):
        tr.FairLogisticRegression(**asked).fit(str(folder), **({"y": "income"} | given))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Of the groups of race, 2 are treated as one")
def test_a_p_rule_is_judged_by_rows_held_out_as_it_would_be_in_memory(folder, monkeypatch):
    monkeypatch.setattr("tightrope.learn.fair.from_files.HELD_OUT", 0.5)
    paths = []
    monkeypatch.setattr(
        "tightrope.learn.fair.from_files.path_of", lambda *given: paths.append(path_of(*given)) or paths[-1]
    )
    columns, asked = ["x", "y", "z", "race"], {"p_rule": 0.6, "sensitive": "race", "confidence": 0.8}
    files = Parquet(folder, [*columns, "age", "income"])
    model = tr.FairLogisticRegression(**asked).fit(files, "income", sample_weight="age")
    task = read_task(tr.FairLogisticRegression(**asked), PEOPLE[columns], INCOME, None, PEOPLE["age"])
    assert task.sensitive is not None
    assert model.attributes_ == task.sensitive.attributes
    judging = at_random(np.arange(N), _JUDGES) < 0.5
    built, judges = build(task.take(np.flatnonzero(~judging))), task.take(np.flatnonzero(judging))
    thresholds = path_of_thresholds(built, 0)
    ((coef, intercept),) = paths
    table = judge_path(judges, thresholds, judges.X @ coef.T + intercept > 0, 0.8, 0)
    pd.testing.assert_frame_equal(model.frontier(), table, rtol=1e-3)
    assert model.threshold_ == pytest.approx(largest_that_keeps(table, 0.6, "p_rule_bound", "", judges), rel=1e-3)
    exact = train(built.at(model.threshold_), method="auto", passes=None, tol=1e-12, seed=0)
    np.testing.assert_allclose(model.coef_[0], exact.coef, rtol=1e-5)
    np.testing.assert_allclose(coef[np.argmin(np.abs(thresholds - model.threshold_))], exact.coef, rtol=0.1)
    monkeypatch.setattr("tightrope.learn.fair.from_files.path_of", lambda *_: (coef, intercept))
    with pytest.raises(Refused, match=r"p_rule=0\.99 cannot .* give a part of the rows"):
        model.set_params(p_rule=0.99).fit(files, "income", sample_weight="age")
    assert not hasattr(model, "coef_")


# ---- tables ----------------------------------------------------------------------------------------------------------


def test_an_encoder_learns_the_same_from_parts():
    job = RNG.choice(["cook", "clerk", "smith", "rare"], N, p=[0.4, 0.3, 0.298, 0.002])
    frame, counted = PEOPLE[["x", "sex"]].assign(job=job), RNG.random(N) < 0.7
    whole = TableEncoder().fit(frame, fit_on=np.flatnonzero(counted))
    parts = [(frame.iloc[k : k + 77], counted[k : k + 77]) for k in range(0, N, 77)]
    assert TableEncoder().fit_parts(parts).columns == whole.columns


def test_rows_are_held_out_at_random_and_by_their_number_alone():
    one = at_random(np.arange(100_000), 3)
    np.testing.assert_array_equal(at_random(np.arange(500, 600), 3), one[500:600])
    assert abs(np.mean(one < 0.3) - 0.3) < 0.006
    assert abs(np.corrcoef(one[1:], one[:-1])[0, 1]) < 0.015
    assert abs(np.corrcoef(one, at_random(np.arange(100_000), 4))[0, 1]) < 0.015


def test_predictions_of_a_folder_are_those_of_its_table(folder):
    encoder = TableEncoder().fit(PEOPLE[["x", "y", "z"]])
    classifier = tr.FairLogisticRegression()
    classifier.coef_, classifier.intercept_, classifier.classes_ = (
        np.array([[1.0, 0.02, 0.0]]),
        np.array([-2.5]),
        np.array([0, 1]),
    )
    classifier.n_features_in_, classifier.feature_names_in_ = 3, np.array(["x", "y", "z"], object)
    classifier.attributes_ = read_sensitive(PEOPLE[["sex"]]).attributes
    model = TableClassifier(encoder, classifier, "income", ("no", "yes"), ("sex",))
    out = io.StringIO()
    rows, measured, notes = predict_folder(model, folder, out)
    whole = model.predict(PEOPLE)
    found = pd.read_csv(io.StringIO(out.getvalue()), index_col="row")
    assert (rows, notes) == (N, [])
    assert found.index.tolist() == list(range(1, N + 1))
    assert found["prediction"].tolist() == whole["prediction"].tolist()
    assert measured is not None
    pd.testing.assert_frame_equal(measured, model.measure(PEOPLE, whole["prediction"]))


@pytest.mark.slow
def test_a_folder_is_fitted_like_a_table(folder):
    fitted = fit_folder(folder, "income", ["sex"], covariance=0.02, drop=["race"], test_share=0.5)
    assert len(fitted.train) + len(fitted.test) == N
    assert abs(len(fitted.test) - N / 2) < 60
    trained = at_random(np.arange(N), 0) >= 0.5
    features = PEOPLE[["x", "y", "z", "age"]]
    arrays = tr.FairLogisticRegression(covariance=0.02).fit(
        features[trained], INCOME[trained], sensitive_features=PEOPLE.loc[trained, ["sex"]]
    )
    np.testing.assert_allclose(fitted.model.classifier.coef_, arrays.coef_, rtol=1e-6)
    expected = np.mean(arrays.predict(features[~trained]) == INCOME[~trained])
    assert fitted.comparison.set_index("measure").loc["accuracy", "with constraint"] == pytest.approx(expected)
