"""UCI Adult ("Census Income"): 48,842 people of the 1994 US census, and whether they earn more than 50,000 dollars.

Source: B. Becker and R. Kohavi, "Adult" (dataset), UCI Machine Learning Repository, 1996,
https://doi.org/10.24432/C5XW20, under CC BY 4.0 (https://creativecommons.org/licenses/by/4.0/); see adult.LICENSE.md
beside this file. First described in R. Kohavi, "Scaling Up the Accuracy of Naive-Bayes Classifiers: a Decision-Tree
Hybrid", KDD 1996.

`adult.npz` holds the rows of the two published files, adult.data and then adult.test, column by column: numbers as they
are, text as a code into a sorted list of words, -1 for "?". `studies/build_adult.py` made it from these files (SHA-256):

    adult.data  5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d
    adult.test  a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05
"""

import hashlib
import io
from importlib.resources import files
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = (
    "age",
    "workclass",
    "fnlwgt",
    "education",
    "education-num",
    "marital-status",
    "occupation",
    "relationship",
    "race",
    "sex",
    "capital-gain",
    "capital-loss",
    "hours-per-week",
    "native-country",
    "income",
)
"""The columns, named as in the UCI repository."""

WORDS = ".words"
"""What the name of a list of words in the file ends with: `sex` are codes, `sex.words` what they stand for."""

SHA256 = "bbc2e321b35a53da91769f56f990570c8a23aa6354544e1e0aaa34d4c0e2f375"
"""The checksum of adult.npz."""


def load_adult(dropna: bool = True) -> "pd.DataFrame":
    """The Adult table: the rows of adult.data, then those of adult.test, numbered from 0.

    Args:
        dropna: leave out the 3,620 rows in which something is missing; 45,222 remain.

    Returns:
        The 15 columns of `COLUMNS`: numbers as int64, text as unordered categories in sorted order, of which every one
        occurs. A missing value is NaN. The label `income` is "<=50K" or ">50K", without the dot it has in adult.test.

    Example:
        >>> frame = load_adult()
        >>> frame.shape
        (45222, 15)
        >>> frame["income"].value_counts().to_dict()
        {'<=50K': 34014, '>50K': 11208}
        >>> len(load_adult(dropna=False))
        48842
    """
    import pandas as pd

    def column(values: np.ndarray, words: np.ndarray | None) -> np.ndarray | pd.Categorical:
        return values.astype(np.int64) if words is None else pd.Categorical.from_codes(values, words.tolist())

    raw = files("tightrope.learn.datasets").joinpath("adult.npz").read_bytes()
    if hashlib.sha256(raw).hexdigest() != SHA256:
        raise ValueError("adult.npz, which is part of tightrope, has been changed or damaged; install tightrope again.")
    with np.load(io.BytesIO(raw)) as stored:
        arrays = {name: stored[name] for name in stored.files}
    frame = pd.DataFrame({name: column(arrays[name], arrays.get(name + WORDS)) for name in COLUMNS})
    if not dropna:
        return frame
    frame = frame.dropna(ignore_index=True)
    for name in frame.select_dtypes("category"):  # all who never worked have no occupation
        frame[name] = frame[name].cat.remove_unused_categories()
    return frame
