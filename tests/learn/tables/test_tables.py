"""From a raw table to features."""

import json
import re

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder

from tightrope.datasets import load_adult, one_hot
from tightrope.files import FileError
from tightrope.learn.tables.encoder import MOST_WORDS, TableEncoder
from tightrope.learn.tables.reading import need_columns, read_table

RNG = np.random.default_rng(0)
PEOPLE = pd.DataFrame(
    {
        "age": RNG.integers(18, 80, 1500),
        "job": RNG.choice(["cook", "clerk", "farmer", "pilot"], 1500, p=[0.4, 0.3, 0.298, 0.002]),
        "member": RNG.random(1500) < 0.5,
        "town": RNG.choice(["A", "B"], 1500),
        "planet": "Earth",
    }
)
ENCODER = TableEncoder().fit(PEOPLE)


# ---- features --------------------------------------------------------------------------------------------------------


def test_features_are_those_of_scikit_learn():
    X = TableEncoder(min_count=1).fit(PEOPLE).transform(PEOPLE)
    reference = OneHotEncoder(sparse_output=False, drop="if_binary").fit(PEOPLE[["job", "town"]])
    np.testing.assert_array_equal(X.filter(regex="=").to_numpy(), reference.transform(PEOPLE[["job", "town"]]))
    np.testing.assert_array_equal(X["age"], PEOPLE["age"])
    np.testing.assert_array_equal(X["member"], PEOPLE["member"])
    assert set(X.dtypes) == {np.dtype(float)}


def test_rare_words_are_merged_and_named():
    assert ENCODER.names == ("age", "job=clerk", "job=cook", "job=farmer+pilot", "member", "town=B")
    X = ENCODER.transform(PEOPLE)
    np.testing.assert_array_equal(X["job=farmer+pilot"], PEOPLE["job"].isin(["farmer", "pilot"]))


def test_words_of_adult_are_merged_as_its_own_treatment_does():
    frame, rows = load_adult(), np.arange(0, 45_222, 2)
    ours = TableEncoder(min_count=100).fit(frame[["occupation", "workclass"]], fit_on=rows)
    theirs = [name for name in one_hot(frame, fit_on=rows).names if name.startswith(("occupation=", "workclass="))]
    assert sorted(ours.names) == sorted(theirs)


@pytest.mark.parametrize(("rows", "least"), [(50, 2), (1500, 8), (45_222, 100)])
def test_the_default_count(rows, least):
    words = np.repeat(["a", "b", "c", "d"], [least, least - 1, rows // 2, rows - rows // 2 - 2 * least + 1])
    names = TableEncoder().fit(pd.DataFrame({"x": words})).names
    assert names == ("x=a+b", "x=c", "x=d")
    assert len(TableEncoder(min_count=least - 1).fit(pd.DataFrame({"x": words})).names) == 4


def test_words_outside_the_rows_to_fit_on_are_known():
    rows = np.flatnonzero(PEOPLE["job"] != "farmer")
    encoder = TableEncoder().fit(PEOPLE, fit_on=rows)
    assert encoder.columns[1].groups == (("clerk", "farmer", "pilot"), ("cook",))
    assert encoder.transform(PEOPLE)["job=cook"].tolist() == (PEOPLE["job"] == "cook").tolist()


def test_codes_are_those_of_scikit_learn():
    encoder = TableEncoder(text="codes").fit(PEOPLE)
    reference = OrdinalEncoder().fit_transform(PEOPLE[["job", "town", "planet"]])
    assert encoder.names == tuple(PEOPLE.columns)
    np.testing.assert_array_equal(encoder.transform(PEOPLE)[["job", "town", "planet"]], reference)
    back = TableEncoder.from_dict(json.loads(json.dumps(encoder.to_dict())))
    pd.testing.assert_frame_equal(back.transform(PEOPLE), encoder.transform(PEOPLE))
    with pytest.raises(ValueError, match=r"town has values that were not there .* 'Z', in 1,500 of 1,500 rows"):
        back.transform(PEOPLE.assign(town="Z"))


def test_order_types_and_other_columns_do_not_matter():
    other = PEOPLE.assign(job=PEOPLE["job"].astype("category"), age=PEOPLE["age"].astype(str), more=1)
    pd.testing.assert_frame_equal(ENCODER.transform(other[other.columns[::-1]]), ENCODER.transform(PEOPLE))


def test_an_encoder_survives_json():
    back = TableEncoder.from_dict(json.loads(json.dumps(ENCODER.to_dict())))
    pd.testing.assert_frame_equal(back.transform(PEOPLE), ENCODER.transform(PEOPLE))
    assert back.to_dict() == ENCODER.to_dict()


# ---- sentences -------------------------------------------------------------------------------------------------------

IDS = PEOPLE.assign(name=[f"p{i}" for i in range(1500)])
HOLES = PEOPLE.assign(age=PEOPLE["age"].where(PEOPLE.index > 2), town=PEOPLE["town"].where(PEOPLE.index != 9))
BAD_TABLES = [
    (HOLES, r"4 of 1,500 rows have missing values, in age \(3\), town \(1\); .*--drop-missing"),
    (
        IDS,
        r"name is text with 1,500 different values; expected at most 100. Is it an identifier\? Leave it out \(--drop",
    ),
    (PEOPLE.assign(born=pd.Timestamp("1990-01-01")), "born holds dates or times; expected numbers or text"),
    (PEOPLE.assign(age=np.inf), "age has 1,500 infinite values"),
    (PEOPLE[["planet"]], "Nothing is left to learn from"),
    (PEOPLE.head(0), "the table has 0 rows and 5 columns"),
    (pd.DataFrame([[1, 2]], columns=["a", "a"]), "more than one column 'a'"),
    (pd.DataFrame({"x": ["a", "b", "c"] * 9, "x=b": 1.0}), "Two features would be called 'x=b'; rename a column"),
]


@pytest.mark.parametrize(("frame", "sentence"), BAD_TABLES)
def test_tables_that_are_refused(frame, sentence):
    with pytest.raises(ValueError, match=sentence):
        TableEncoder().fit(frame)


def test_as_many_words_as_allowed_are_allowed():
    TableEncoder().fit(pd.DataFrame({"x": np.tile([f"w{i}" for i in range(MOST_WORDS)], 3)}))


BAD_ROWS = [
    (PEOPLE.drop(columns="town"), "has no column 'town'"),
    (HOLES, "4 of 1,500 rows have missing values"),
    (
        PEOPLE.replace({"job": {"cook": "chef"}}),
        r"job has values .* fitted: 'chef', in \d+ of 1,500 rows. Replace them",
    ),
    (PEOPLE.assign(age="old"), "age was a number when .* now text in 1,500 of 1,500 rows, such as 'old'"),
]


@pytest.mark.parametrize(("frame", "sentence"), BAD_ROWS)
def test_rows_that_are_refused(frame, sentence):
    with pytest.raises(ValueError, match=sentence):
        ENCODER.transform(frame)


def test_other_refusals():
    with pytest.raises(ValueError, match="has not seen a table yet"):
        TableEncoder().transform(PEOPLE)
    with pytest.raises(ValueError, match="min_count is 0; expected a whole number"):
        TableEncoder(min_count=0)
    with pytest.raises(ValueError, match="text is 'words'; expected 'indicators' or 'codes'"):
        TableEncoder(text="words")
    with pytest.raises(ValueError, match="min_count is 2,000 and 1,500 rows are counted"):
        TableEncoder(min_count=2000).fit(PEOPLE)
    with pytest.raises(TypeError, match="a list was given; expected a pandas DataFrame"):
        TableEncoder().fit([[1, 2]])  # pyright: ignore[reportArgumentType]
    with pytest.raises(TypeError, match="a column named 0, which is not text"):
        TableEncoder().fit(pd.DataFrame({0: [1, 2]}))
    with pytest.raises(ValueError, match="no description of a TableEncoder"):
        TableEncoder.from_dict({"columns": []})


def test_the_nearest_name_is_offered():
    with pytest.raises(ValueError, match=r"has no column 'Jobs'\. Did you mean 'job'\?"):
        need_columns(PEOPLE, ["age", "Jobs"])
    with pytest.raises(ValueError, match=r"has no column 'zzz'\. It has age, job, member, town, planet\."):
        need_columns(PEOPLE, ["zzz"])


# ---- files -----------------------------------------------------------------------------------------------------------


def test_files_agree(tmp_path):
    PEOPLE.to_csv(tmp_path / "p.csv", index=False)
    PEOPLE.to_csv(tmp_path / "p.tsv", index=False, sep="\t")
    PEOPLE.to_parquet(tmp_path / "p.parquet")
    for name in ("p.csv", "p.tsv", "p.parquet"):
        pd.testing.assert_frame_equal(ENCODER.transform(read_table(tmp_path / name)), ENCODER.transform(PEOPLE))


def test_spaces_marks_and_words_for_missing(tmp_path):
    path = tmp_path / "p.csv"
    path.write_bytes("\ufeffage, job\n31, None\n, ?\n4, NA\n".encode())
    frame = read_table(path)
    assert list(frame.columns) == ["age", "job"]
    assert frame["job"].tolist()[:2] == ["None", "?"]
    assert frame.isna().sum().tolist() == [1, 1]


def test_numbers_become_numbers_and_codes_stay_text(tmp_path):
    path = tmp_path / "p.csv"
    path.write_text("whole,share,code,lab,big,yes,word\n1,0.5,01,1E2,12345678901234567890,True,a\n2,,1,100,7,False,1\n")
    frame = read_table(path)
    assert frame["whole"].tolist() == [1, 2]
    assert frame["share"].dtype == np.float64
    assert frame["code"].tolist() == ["01", "1"]
    assert frame["lab"].tolist() == ["1E2", "100"]
    assert frame["big"].tolist() == ["12345678901234567890", "7"]
    assert frame["yes"].tolist() == [True, False]
    assert frame["yes"].dtype == bool
    assert frame["word"].tolist() == ["a", "1"]


@pytest.mark.parametrize("odd", ["?", "0x14", "30%", "n/a"])
def test_an_odd_cell_among_numbers_is_named(odd):
    ages = [str(20 + k % 40) for k in range(200)]
    ages[7] = odd
    with pytest.warns(
        UserWarning, match=f"age is a number in 199 of 200 rows and not in the others .'{re.escape(odd)}'"
    ):
        TableEncoder(min_count=2).fit(pd.DataFrame({"age": ages}))
    ages = [str(20 + k) for k in range(199)] + [odd]
    with pytest.raises(
        ValueError, match=r"different values; expected at most 100\. age is a number in 199 of 200 rows"
    ):
        TableEncoder().fit(pd.DataFrame({"age": ages}))


def test_files_that_are_refused(tmp_path, monkeypatch):
    (tmp_path / "empty.csv").write_text("a,b\n")
    (tmp_path / "ragged.csv").write_text("a,b\n1,2\n1,2,3\n")
    (tmp_path / "long.csv").write_text("a,b\n1,2,3\n1,2,3\n")  # pandas takes the first of three for names of rows
    (tmp_path / "short.csv").write_text('a,b\n"x\ny",2\n1\n')  # the line in the file, not the number of the row
    (tmp_path / "twice.csv").write_text("a,b, a\n1,2,3\n")
    (tmp_path / "nul.csv").write_text("a,b\n1,2\n3,\0\n")
    (tmp_path / "nothing.csv").write_text("")
    (tmp_path / "broken.parquet").write_bytes(b"no")
    twice = pa.Table.from_arrays([pa.array([0, 1])] * 3, names=["a", "b", "a"])
    pq.write_table(twice, tmp_path / "twice.parquet")
    for name, sentence in [
        ("absent.csv", "is not there; expected a file"),
        ("p.xlsx", "ends in '.xlsx'; expected a table in .csv, .tsv or .parquet"),
        ("empty.csv", "has 2 columns and no rows"),
        ("ragged.csv", "ragged.csv, line 3, has 3 fields and the header has 2; expected as many"),
        ("long.csv", "long.csv, line 2, has 3 fields and the header has 2"),
        ("short.csv", "short.csv, line 4, has 1 field and the header has 2"),
        ("nul.csv", "nul.csv, line 3, has a NUL character"),
        ("twice.csv", r"more than one column 'a' \(numbers 1, 3\)"),
        ("twice.parquet", r"more than one column 'a' \(numbers 1, 3\)"),
        ("nothing.csv", "cannot be read as .csv"),
        ("broken.parquet", "cannot be read as .parquet"),
    ]:
        with pytest.raises(FileError, match=sentence):
            read_table(tmp_path / name)
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(FileError, match=r"needs pyarrow: pip install 'tightrope\[parquet\]', or give a CSV"):
        read_table(tmp_path / "broken.parquet")
