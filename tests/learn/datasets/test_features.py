"""The two treatments and the split."""

import numpy as np
import pytest

from tightrope.datasets import COLUMNS, adult_label_encoded, label_encoded, load_adult, one_hot, split

ADULT = load_adult()
TREATMENTS = pytest.mark.parametrize("treat", [label_encoded, one_hot], ids=lambda f: f.__name__)


# ---- both treatments -------------------------------------------------------------------------------------------------


@TREATMENTS
def test_shapes_and_values(treat):
    X, y, s, names = treat(ADULT)
    assert X.dtype == y.dtype == s.dtype == np.float64
    assert X.shape == (45_222, len(names))
    assert len(set(names)) == len(names)
    assert names[-1] == "intercept"
    assert np.all(X[:, -1] == 1)
    np.testing.assert_array_equal(y, np.where(ADULT["income"] == ">50K", 1, -1))
    np.testing.assert_array_equal(s, ADULT["sex"] == "Male")
    assert not any(name.startswith(("sex", "income")) for name in names)
    assert np.linalg.matrix_rank(label_encoded(ADULT).X) == 14


@TREATMENTS
def test_statistics_come_from_the_rows_to_fit_on(treat):
    rows = split(len(ADULT), seed=1).train
    mask = np.isin(np.arange(len(ADULT)), rows)
    X = treat(ADULT, fit_on=rows).X
    np.testing.assert_allclose(treat(ADULT, fit_on=mask).X, X, atol=1e-12)
    numbers = [k for k, name in enumerate(treat(ADULT).names) if name in COLUMNS]
    np.testing.assert_allclose(X[rows][:, numbers].mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(X[rows][:, numbers].std(axis=0), 1, atol=1e-12)
    assert np.abs(X[:, numbers].mean(axis=0)).max() > 1e-5


@TREATMENTS
def test_types_of_columns_do_not_matter(treat):
    plain = ADULT.astype(dict.fromkeys(ADULT.select_dtypes("category"), object))
    for a, b in zip(treat(plain), treat(ADULT), strict=True):
        np.testing.assert_array_equal(a, b)


@TREATMENTS
def test_a_constant_column_is_centred(treat):
    frame = ADULT[ADULT["capital-gain"] == 0].head(3000)
    X, names = treat(frame).X, treat(frame).names
    assert np.all(X[:, names.index("capital-gain")] == 0)


# ---- label-encoded ---------------------------------------------------------------------------------------------------


def test_label_encoded_columns():
    X, names = label_encoded(ADULT).X, label_encoded(ADULT).names
    assert names == (*[name for name in COLUMNS if name not in ("sex", "income")], "intercept")
    race = np.searchsorted(["Amer-Indian-Eskimo", "Asian-Pac-Islander", "Black", "Other", "White"], ADULT["race"])
    np.testing.assert_allclose(X[:, names.index("race")], (race - race.mean()) / race.std(), atol=1e-12)
    age = ADULT["age"].to_numpy(float)
    np.testing.assert_allclose(X[:, 0], (age - age.mean()) / age.std(), atol=1e-12)


def test_codes_of_some_rows_are_those_of_all():
    part = ADULT[ADULT["race"] != "Black"].head(500)
    race = label_encoded(ADULT).names.index("race")
    codes = np.unique(label_encoded(part).X[:, race])
    assert (codes[2] - codes[1]) / (codes[1] - codes[0]) == pytest.approx(2)  # a gap where "Black" would be


# ---- one-hot ---------------------------------------------------------------------------------------------------------


def test_one_hot_without_merging_is_zafars():
    X, _, _, names = one_hot(ADULT, min_count=1)
    counts = {
        "workclass": 7,
        "education": 10,
        "marital-status": 7,
        "occupation": 14,
        "relationship": 6,
        "native-country": 1,
    }
    assert {name: sum(n.startswith(f"{name}=") for n in names) for name in counts} == counts
    assert len(names) == 5 + 45 + 1
    assert not any(name.startswith(("race", "fnlwgt")) for name in names)
    column = {name: X[:, k] for k, name in enumerate(names)}
    np.testing.assert_array_equal(column["native-country=United-States"], ADULT["native-country"] == "United-States")
    np.testing.assert_array_equal(column["education=9th-12th"], ADULT["education-num"].between(5, 8))
    np.testing.assert_array_equal(column["education=Preschool-8th"], ADULT["education-num"] <= 4)
    np.testing.assert_array_equal(column["occupation=Sales"], ADULT["occupation"] == "Sales")


@pytest.mark.parametrize("min_count", [1, 30, 100, 2000, 10_000])
def test_every_indicator_has_enough_rows(min_count):
    rows = split(len(ADULT), seed=2).train
    X, _, _, names = one_hot(ADULT, min_count=min_count, fit_on=rows)
    indicators = X[:, 5:-1]
    assert set(np.unique(indicators)) == {0.0, 1.0}
    assert (indicators.shape[1] == 45) == (min_count == 1)
    on = indicators[rows].sum(axis=0)
    assert np.all((on >= min_count) & (on <= len(rows) - min_count))
    for name in ("workclass", "occupation"):  # each row has one word of each column that has more than one indicator
        own = [k for k, n in enumerate(names) if n.startswith(f"{name}=")]
        assert len(own) < 2 or np.all(X[:, own].sum(axis=1) == 1)


def test_columns_of_which_one_word_is_left_have_no_indicator():
    names = one_hot(ADULT, min_count=30_000).names
    assert names == ("age", "education-num", "capital-gain", "capital-loss", "hours-per-week", "intercept")


def test_merged_words_are_named():
    names = one_hot(ADULT).names
    for name in (
        "workclass=Federal-gov+Without-pay",
        "occupation=Armed-Forces+Priv-house-serv",
        "marital-status=Married-AF-spouse+Married-spouse-absent",
    ):
        assert name in names


def test_a_word_that_no_fitting_row_has_joins_the_rarest():
    rows = np.flatnonzero(ADULT["workclass"] != "Private")
    assert "workclass=Private+Without-pay" in one_hot(ADULT, min_count=1, fit_on=rows).names


# ---- the split -------------------------------------------------------------------------------------------------------


def test_the_split_is_disjoint_covering_and_seeded():
    parts = split(45_222, seed=5)
    assert [len(part) for part in parts] == [28_350, 3_150, 13_722]
    np.testing.assert_array_equal(np.sort(np.concatenate(parts)), np.arange(45_222))
    for a, b in zip(parts, split(45_222, seed=5), strict=True):
        np.testing.assert_array_equal(a, b)
    assert not np.array_equal(parts.train, split(45_222, seed=6).train)


def test_the_split_of_a_seed_stays_the_same():
    """If NumPy ever draws other permutations, the figures of studies move a little: know it."""
    assert split(seed=0).train[:5].tolist() == [3083, 42382, 45050, 8426, 31446]


def test_training_arrays():
    X, y, s = adult_label_encoded(seed=4)
    rows = split(len(ADULT), seed=4).train
    assert (X.shape, y.shape, s.shape) == ((28_350, 14), (28_350,), (28_350,))
    np.testing.assert_allclose(X[:, :-1].mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(X[:, :-1].std(axis=0), 1, atol=1e-12)
    np.testing.assert_allclose(X, label_encoded(ADULT.iloc[rows]).X, atol=1e-12)
    np.testing.assert_array_equal(s, ADULT["sex"].iloc[rows] == "Male")
    np.testing.assert_array_equal(y > 0, ADULT["income"].iloc[rows] == ">50K")


# ---- sentences -------------------------------------------------------------------------------------------------------

LITTLE = ADULT.head(300)
BAD_FRAMES = [
    (lambda: np.zeros((3, 3)), TypeError, "a ndarray was given; expected a DataFrame"),
    (lambda: LITTLE.drop(columns=["age", "sex"]), ValueError, "the frame has no column age, sex"),
    (lambda: LITTLE.head(0), ValueError, "the frame has no rows"),
    (lambda: load_adult(dropna=False), ValueError, r"3,620 of 48,842 rows have missing values; drop them"),
    (lambda: LITTLE.assign(income="rich"), ValueError, "income has the value 'rich'; expected '<=50K' or '>50K'"),
    (lambda: LITTLE.assign(sex="x"), ValueError, "sex has the value 'x'"),
    (lambda: LITTLE.assign(age="old"), ValueError, "age has values that are not finite numbers"),
    (lambda: LITTLE.assign(age=np.inf), ValueError, "age has values that are not finite numbers"),
]


@TREATMENTS
@pytest.mark.parametrize(("frame", "kind", "sentence"), BAD_FRAMES)
def test_frames_that_are_refused(treat, frame, kind, sentence):
    with pytest.raises(kind, match=f"^{treat.__name__}: .*{sentence}"):
        treat(frame())


@TREATMENTS
@pytest.mark.parametrize("rows", [[], [0.5], [[1, 2]], [True, False], [-1], [300]])
def test_rows_to_fit_on_that_are_refused(treat, rows):
    with pytest.raises(ValueError, match=f"^{treat.__name__}: fit_on "):
        treat(LITTLE, fit_on=rows)


def test_counts_and_splits_that_are_refused():
    with pytest.raises(ValueError, match="min_count is 301 and only 300 rows are counted"):
        one_hot(LITTLE, min_count=301)
    with pytest.raises(ValueError, match="min_count is 0; expected a whole number of at least 1"):
        one_hot(LITTLE, min_count=0)
    with pytest.raises(ValueError, match="31,500 rows cannot be split into 28,350 for training"):
        split(31_500)
    with pytest.raises(ValueError, match="seed is -1; expected a whole number of at least 0"):
        split(seed=-1)
