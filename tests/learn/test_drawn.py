"""Rows of Parquet files, all or a sample, and what is learnt from them: the same as from the same rows in memory."""

import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tightrope as tr
from tests.commands import call
from tightrope.learn import drawn as module
from tightrope.learn.drawn import MOST_ROWS, drawn, numbers_drawn, parts_of
from tightrope.learn.tables.encoder import TableEncoder
from tightrope.sampling.parquet_files import Files

N = 600
RNG = np.random.default_rng(0)
SEX, RACE = RNG.choice(["f", "m"], N), RNG.choice(["a", "b", "c"], N, p=[0.5, 0.3, 0.2])
FEATURES = RNG.normal([0.0, 100.0, -3.0], [1.0, 30.0, 0.01], size=(N, 3)) + (SEX == "m")[:, None] * [1.0, 0.0, 0.005]
INCOME = np.where(FEATURES[:, 0] + FEATURES[:, 1] / 60 + RNG.normal(size=N) > 2, "yes", "no")
PEOPLE = pd.DataFrame(FEATURES, columns=["x", "y", "z"]).assign(
    age=RNG.uniform(20, 60, N), sex=SEX, race=pd.Categorical(RACE), income=INCOME
)


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "people"
    folder.mkdir()
    table = pa.Table.from_pandas(PEOPLE)
    pq.write_table(table.slice(0, 250), folder / "a.parquet", row_group_size=90)
    pq.write_table(table.slice(250), folder / "b.parquet", row_group_size=200)
    return folder


def test_few_rows_are_taken_as_they_are_and_of_many_a_sample(folder, monkeypatch):
    whole = PEOPLE.assign(race=RACE.astype(object))
    pd.testing.assert_frame_equal(drawn(folder, 0).frame, whole, check_dtype=False)
    assert not drawn(folder, 0).sentence
    monkeypatch.setattr(module, "AT_ONCE", 64)
    pd.testing.assert_frame_equal(
        pd.concat(parts_of(Files(folder), ["x", "sex"])), whole[["x", "sex"]], check_dtype=False
    )
    monkeypatch.setattr(module, "MOST_ROWS", 100)
    found = drawn(tr.Parquet(folder, ["x", "income"]), 3)
    rows = np.sort(numbers_drawn(N, 3))
    np.testing.assert_array_equal(found.frame["x"], PEOPLE["x"].iloc[rows])
    assert list(found.frame.columns) == ["x", "income"]
    assert found.sentence.startswith("100 of the 600 rows of the files were drawn at random")


def test_each_row_is_as_likely_and_the_seed_decides():
    n = 3 * MOST_ROWS
    one, two = numbers_drawn(n, 1), numbers_drawn(n, 2)
    assert len(np.unique(one)) == len(one) == MOST_ROWS
    np.testing.assert_array_equal(numbers_drawn(n, 1), one)
    counts = np.histogram(one, np.arange(0, n + 1, n // 100))[0]
    assert np.all(np.abs(counts - MOST_ROWS / 100) < 5 * np.sqrt(MOST_ROWS / 100 * 2 / 3))
    both = len(np.intersect1d(one, two))
    assert abs(both - MOST_ROWS / 3) < 5 * np.sqrt(MOST_ROWS * 2 / 9)


@pytest.mark.parametrize(
    ("columns", "asked", "weight"),
    [
        (["x", "y", "z"], {"covariance": 0.05, "sensitive": "sex"}, None),
        (["x", "y", "z"], {"difference": 0.3, "sensitive": ["race"], "confidence": 0.8, "merge_rare": False}, "age"),
    ],
)
@pytest.mark.filterwarnings("ignore:Fewer than")
def test_a_classifier_of_files_is_that_of_their_rows(folder, monkeypatch, columns, asked, weight):
    read = [*columns, *np.atleast_1d(asked["sensitive"]).tolist(), "income", *([weight] if weight else [])]
    monkeypatch.setattr(module, "MOST_ROWS", 500)
    files = tr.FairLogisticRegression(**asked, random_state=3).fit(
        tr.Parquet(folder, read), "income", sample_weight=weight
    )
    some = PEOPLE.iloc[np.sort(numbers_drawn(N, 3))].assign(race=lambda frame: frame["race"].astype(object))
    arrays = tr.FairLogisticRegression(**asked, random_state=3).fit(
        some[[name for name in read if name not in ("income", weight)]], some["income"],
        sample_weight=None if weight is None else some[weight],
    )  # fmt: skip
    np.testing.assert_array_equal(files.coef_, arrays.coef_)
    assert not arrays.drawn_
    report = files.report(PEOPLE[[*columns, *np.atleast_1d(asked["sensitive"])]], PEOPLE["income"])
    assert "To train it, 500 of the 600 rows of the files were drawn at random" in str(report)


@pytest.mark.parametrize(
    ("asked", "given", "sentence"),
    [
        ({"covariance": 0.1, "sensitive": "sex"}, {"sample_weight": SEX}, "sample_weight is a ndarray and X are files"),
        ({"covariance": 0.1, "sensitive": "sex"}, {"sample_weight": "w"}, "The files have no column 'w'"),
        ({"covariance": 0.1, "sensitive": "sex"}, {}, "could not convert string to float"),
        ({"covariance": 0.1, "sensitive": "sox"}, {}, "sensitive names sox, which X has no column of"),
        ({"covariance": 0.1}, {"sensitive_features": SEX}, "sensitive_features was given with files"),
        ({"covariance": 0.1, "sensitive": "sex"}, {"y": INCOME}, "y is a ndarray and X are files; expected the name"),
    ],
)
def test_what_cannot_be_meant_is_refused(folder, asked, given, sentence):
    with pytest.raises((ValueError, TypeError), match=sentence):
        tr.FairLogisticRegression(**asked).fit(str(folder), **({"y": "income"} | given))


def test_an_encoder_knows_the_words_of_all_parts():
    job = np.array(["cook", "clerk"] * 300, object)
    frame = pd.DataFrame({"x": FEATURES[:, 0], "job": job})
    more = [pd.DataFrame({"job": ["smith", None]}), pd.DataFrame({"job": ["cook"]})]
    asked = []
    encoder = TableEncoder().fit(frame, parts=lambda names: asked.append(names) or more)
    assert asked == [["job"]]
    assert sorted(word for group in encoder.columns[1].groups or () for word in group) == ["clerk", "cook", "smith"]


def test_the_commands_take_a_folder(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "MOST_ROWS", 500)
    monkeypatch.setattr(module, "AT_ONCE", 64)
    words = (
        "fit",
        folder,
        "--label",
        "income",
        "--sensitive",
        "sex",
        "--covariance",
        0.02,
        "--out",
        tmp_path / "model",
    )
    code, said, _ = call(*words, "--json")
    assert code == 0
    made = json.loads(said)
    assert made["notes"][0].startswith("500 of the 600 rows of the files were drawn at random")
    assert made["notes"][0] in (tmp_path / "model" / "report.txt").read_text()
    PEOPLE.to_csv(tmp_path / "people.csv", index=False)
    for name, out in ((folder, "folder.csv"), (tmp_path / "people.csv", "file.csv")):
        code, said, told = call("predict", tmp_path / "model", name, "--out", tmp_path / out)
        assert (code, "Written to" in said, "accuracy" in said) == (0, True, True)
        assert ("Note: measured on 500 of 600 rows, drawn at random." in told) == (name == folder)
    found, expected = (pd.read_csv(tmp_path / out) for out in ("folder.csv", "file.csv"))
    assert found["row"].tolist() == list(range(1, N + 1))
    pd.testing.assert_frame_equal(found, expected)


def test_rows_with_missing_values_in_a_folder_can_be_dropped(folder, tmp_path):
    holes = PEOPLE.assign(y=PEOPLE["y"].where(PEOPLE.index != 3))
    holes.to_parquet(folder / "a.parquet")
    model = ("--label", "income", "--sensitive", "sex", "--covariance", 0.02, "--out", tmp_path / "model")
    code, _, told = call("fit", folder, *model)
    assert (code, "1 of 950 rows have missing values, in y (1)" in told) == (1, True)
    code, _, told = call("fit", folder, *model, "--drop-missing")
    assert (code, "1 of 950 rows with missing values were left out" in told) == (0, True)
    code, said, told = call("predict", tmp_path / "model", folder, "--drop-missing")
    assert (code, "1 of 950 rows with missing values were left out" in told) == (0, True)
    assert [int(line.split(",")[0]) for line in said.splitlines()[1:5]] == [1, 2, 3, 5]
