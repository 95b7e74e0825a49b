"""Reading sensitive attributes."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from tightrope.datasets import load_adult
from tightrope.learn.fairness.intersections import combinations_of, intersection, with_intersection
from tightrope.learn.fairness.sensitive import Attribute, numbers_like_codes, read_sensitive

SEX = ["F", "M", "M", "F", "M"]


class OtherSeries:
    """What polars has, as far as it is used: a name and to_list, with None for what is missing."""

    def __init__(self, name, values):
        self.name, self._values = name, values

    def to_list(self):
        return list(self._values)

    def __len__(self):
        return len(self._values)


class OtherFrame:
    """The same of a polars DataFrame."""

    def __init__(self, columns):
        self._columns = columns
        self.columns = list(columns)

    def __getitem__(self, name):
        return OtherSeries(name, self._columns[name])


# ---- what is read ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "given",
    [
        SEX,
        tuple(SEX),
        np.array(SEX),
        np.array(SEX, object),
        pd.Series(SEX, index=[9, 8, 7, 6, 5]),
        pd.Series(SEX, dtype="category"),
        pd.Series(SEX, dtype="string"),
        pd.Categorical(SEX),
        OtherSeries("", SEX),
        np.array(SEX)[:, None],
        [[sex] for sex in SEX],
    ],
    ids=lambda given: f"{type(given).__name__}-{getattr(given, 'dtype', '')}",
)
def test_one_binary_attribute_in_every_form(given):
    read = read_sensitive(given, name="who")
    assert read.attributes == (Attribute("who", "binary", ("F", "M")),)
    assert read.columns.dtype == np.float64
    np.testing.assert_array_equal(read.columns, [[0], [1], [1], [0], [1]])
    np.testing.assert_array_equal(read.groups(0), [0, 1, 1, 0, 1])
    assert (read.owners, read.names, len(read)) == ((0,), ("who",), 5)
    assert read.values[0].tolist() == SEX


@pytest.mark.parametrize(
    ("given", "kind", "groups"),
    [
        ([True, False, True], "binary", (False, True)),
        (pd.Series([True, False, True], dtype="boolean"), "binary", (False, True)),
        ([3, 7, 7], "binary", (3, 7)),
        (np.array([0.5, -1, 0.5], np.float32), "binary", (-1.0, 0.5)),
        ([1, 2, 3], "continuous", ()),
        (pd.Series([1, 2, 3], dtype="Int64"), "continuous", ()),
        (pd.Series([1, 2, 3], dtype="category"), "categorical", (1, 2, 3)),
        (pd.Categorical([1, 2, 3]), "categorical", (1, 2, 3)),
        (np.array([1, 2, 3], object), "categorical", (1, 2, 3)),
        (["b", "c", "a"], "categorical", ("a", "b", "c")),
        (pd.Categorical(["b", "b", "a"], categories=["c", "b", "a"]), "binary", ("a", "b")),  # nobody is "c"
    ],
)
def test_kinds(given, kind, groups):
    (attribute,) = read_sensitive(given).attributes
    assert (attribute.kind, attribute.groups) == (kind, groups)


FRAME = {"sex": SEX, "race": ["B", "A", "C", "C", "B"], "age": [20, 30, 45, 51, 20]}


@pytest.mark.parametrize(
    ("given", "names"),
    [
        (pd.DataFrame(FRAME, index=[4, 3, 2, 1, 0]), ("sex", "race", "age")),
        (OtherFrame(FRAME), ("sex", "race", "age")),
        (list(zip(*FRAME.values(), strict=True)), ("who[0]", "who[1]", "who[2]")),
    ],
    ids=["pandas", "other", "rows"],
)
def test_several_attributes(given, names):
    read = read_sensitive(given, name="who")
    assert tuple(a.name for a in read.attributes) == names
    assert [a.kind for a in read.attributes] == ["binary", "categorical", "continuous"]
    assert read.names == (names[0], *(f"{names[1]}={g}" for g in "ABC"), names[2])
    assert read.owners == (0, 1, 1, 1, 2)
    expected = np.column_stack([np.array(SEX) == "M", pd.get_dummies(pd.Series(FRAME["race"])), FRAME["age"]])
    np.testing.assert_array_equal(read.columns, expected)
    np.testing.assert_array_equal(read.groups(1), [1, 0, 2, 2, 1])


def test_two_dimensional_arrays_have_a_column_per_attribute():
    read = read_sensitive(np.array([[0.0, 1.0], [1.0, 5.0], [0.0, 2.0]]))
    assert [a.kind for a in read.attributes] == ["binary", "continuous"]
    assert read.names == ("sensitive_features[0]", "sensitive_features[1]")


def test_adult():
    adult = load_adult()
    read = read_sensitive(adult[["sex", "race", "age"]])
    assert [(a.kind, len(a.groups)) for a in read.attributes] == [("binary", 2), ("categorical", 5), ("continuous", 0)]
    np.testing.assert_array_equal(read.columns[:, 0], adult["sex"] == "Male")
    np.testing.assert_array_equal(read.columns[:, 1:6].sum(axis=1), 1)
    np.testing.assert_array_equal(read.columns[:, read.names.index("race=Black")], adult["race"] == "Black")


def test_a_subset_keeps_groups_and_columns():
    read = read_sensitive(pd.DataFrame(FRAME))
    rows = np.array([0, 4])  # nobody of race A or C
    part = read.take(rows)
    assert part.attributes == read.attributes
    np.testing.assert_array_equal(part.columns, read.columns[rows])
    np.testing.assert_array_equal(part.groups(1), [1, 1])
    assert part.values[0].tolist() == ["F", "M"]
    mask = np.isin(np.arange(5), rows)
    np.testing.assert_array_equal(read.take(mask).columns, part.columns)
    assert read_sensitive(part) is part


# ---- what is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "error", "sentence"),
    [
        (["F", None, "M"], ValueError, "who has 1 missing values among 3"),
        (["F", float("nan"), "M"], ValueError, "1 missing values"),
        (pd.Series([1, None, 2], dtype="Int64"), ValueError, "1 missing values"),
        (pd.DataFrame({"sex": ["F", pd.NA, pd.NA]}), ValueError, "who: sex has 2 missing values"),
        (OtherSeries("sex", [True, None, False]), ValueError, "who: sex has 1 missing values"),
        (["F", "F"], ValueError, "only one value, 'F'"),
        (np.ones(4), ValueError, "only one value, 1.0"),
        ([1.0, np.inf, 2.0], ValueError, "1 infinite values"),
        (np.array([1j, 2, 3]), TypeError, "complex"),
        (np.zeros((2, 2, 2)), ValueError, "has 3 dimensions"),
        ("F", ValueError, "is a str"),
        (None, ValueError, "is a NoneType"),
        ([], ValueError, "no rows"),
        (pd.DataFrame({"sex": []}), ValueError, "no rows"),
        (np.zeros((3, 0)), ValueError, "no columns"),
        ([str(i) for i in range(51)], ValueError, "51 groups; expected at most 50"),
        (["F", 1, "M"], TypeError, "mixes values of types int, str"),
        (pd.Series([["F"], ["M"]]), TypeError, "has a list as a value"),
        ([[1, 2], [3]], ValueError, "rows of different lengths"),
        (pd.DataFrame([["F", "A"], ["M", "B"]], columns=["sex", "sex"]), ValueError, "a different name for each"),
    ],
)
def test_bad_input(given, error, sentence):
    with pytest.raises(error, match=sentence):
        read_sensitive(given, name="who")


def test_fifty_groups_are_still_an_attribute():
    assert read_sensitive([str(i) for i in range(50)]).columns.shape == (50, 50)


def test_a_continuous_attribute_has_no_groups():
    with pytest.raises(TypeError, match="age is continuous and has no groups"):
        read_sensitive(pd.Series([1, 2, 3], name="age")).groups(0)


# ---- kinds, arrow and intersections ----------------------------------------------------------------------------------


def test_numbers_are_what_they_are_said_to_be():
    codes = pd.DataFrame({"region": [0, 1, 2, 5, 5, 2], "bit": [0, 1, 1, 0, 1, 0]})
    assert [a.kind for a in read_sensitive(codes).attributes] == ["continuous", "binary"]
    read = read_sensitive(codes, kind={"region": "categorical", "bit": "continuous"})
    assert [(a.kind, a.groups) for a in read.attributes] == [("categorical", (0, 1, 2, 5)), ("continuous", ())]
    assert read.groups(0).tolist() == [0, 1, 2, 3, 3, 2]
    assert [a.kind for a in read_sensitive(codes, kind="categorical").attributes] == ["categorical", "binary"]
    for kind, sentence in (
        ({"town": "categorical"}, "sensitive_kind is given for town; expected names among region, bit"),
        ("groups", "sensitive_kind is 'groups'; expected 'categorical' or 'continuous', or a dict"),
    ):
        with pytest.raises(ValueError, match=sentence):
            read_sensitive(codes, kind=kind)
    with pytest.raises(TypeError, match="sensitive_kind says continuous; expected numbers"):
        read_sensitive(["a", "b"], kind="continuous")


def test_codes_are_told_from_quantities():
    rows = np.arange(60)
    columns = {"codes": rows % 6, "years": rows, "halves": rows % 4 / 2, "bit": rows % 2, "many": rows % 11}
    assert numbers_like_codes(read_sensitive(pd.DataFrame(columns))) == ["codes"]


def test_arrow_tables_and_columns():
    columns = {"sex": ["F", "M", "F"], "age": [20.0, 30.0, 41.0]}
    table = pa.table({"sex": pa.array(columns["sex"]).dictionary_encode(), "age": columns["age"]})
    ours, theirs = read_sensitive(table), read_sensitive(pd.DataFrame(columns))
    assert ours.attributes == theirs.attributes
    np.testing.assert_array_equal(ours.columns, theirs.columns)
    np.testing.assert_array_equal(read_sensitive(table["sex"]).columns, theirs.columns[:, :1])


BOTH = pd.DataFrame({"sex": list("FMFMFM"), "race": list("ABABBB"), "age": [1.5, 2.5, 3.5, 4.5, 5.5, 6.5]})


def test_an_intersection_has_the_groups_that_are_there():
    read = read_sensitive(BOTH)
    cells, places = combinations_of(read)
    assert cells == [("F", "A"), ("F", "B"), ("M", "B")]
    assert [cells[p] for p in places] == list(zip(BOTH["sex"], BOTH["race"], strict=True))
    crossed = with_intersection(read, intersection(read, [[("F", "A")], [("F", "B"), ("M", "B")]]))
    assert crossed.names[-2:] == ("sex & race=F & A", "sex & race=F & B or M & B")
    assert crossed.attributes[:3] == read.attributes
    np.testing.assert_array_equal(crossed.groups(3), [0, 1, 0, 1, 1, 1])
    np.testing.assert_array_equal(crossed.columns[:, -2:].sum(axis=1), 1)
    assert crossed.only([3, 0]).names == ("sex & race=F & A", "sex & race=F & B or M & B", "sex")
    assert crossed.only([3, 0]).owners == (0, 0, 1)


def test_an_intersection_is_known_again_in_other_rows():
    read = read_sensitive(BOTH)
    crossed = with_intersection(read, intersection(read, [[("F", "A")], [("F", "B"), ("M", "B")]]))
    other = pd.DataFrame({"sex": ["M", "F"], "race": ["A", "A"], "age": [1.0, 2.0]})  # the first was not there
    again = read_sensitive(other, attributes=crossed.attributes)
    assert again.attributes == crossed.attributes
    assert again.groups(3).tolist() == [1, 0]


def test_many_combinations_have_short_names():
    read = read_sensitive(BOTH)
    many = intersection(read, [[("F", "A")], [("F", str(i)) for i in range(5)]])
    assert many.groups[1] == "F & 0 or F & 1 or 3 more"
