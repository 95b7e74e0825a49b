"""The tables that the problems are made of, in raw units: those that scikit-learn, statsmodels, skfolio and tightrope ship.

Libraries are imported where they are used, so that whoever has scikit-learn alone can look at what needs no other.
"""

import importlib
import warnings
from functools import cache
from typing import Any

import numpy as np


@cache
def sklearn_table(name: str, **options: Any) -> tuple[np.ndarray, np.ndarray]:
    """The columns and the target of `sklearn.datasets.load_<name>`."""
    from sklearn import datasets

    bunch = getattr(datasets, f"load_{name}")(**options)
    return np.asarray(bunch.data, float), np.asarray(bunch.target, float)


@cache
def diabetes() -> tuple[np.ndarray, np.ndarray]:
    """442 patients, ten raw columns; the target is between 25 and 346."""
    return sklearn_table("diabetes", scaled=False)


@cache
def statsmodels_table(name: str) -> Any:
    """A data frame of `statsmodels.datasets`, with a column of one kind each."""
    datasets = importlib.import_module("statsmodels.datasets")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return getattr(datasets, name).load_pandas().data


def columns(name: str, *chosen: str) -> np.ndarray:
    """Columns of a table of statsmodels as an array, in the order given; all of them where none is named."""
    frame = statsmodels_table(name)
    return np.asarray(frame[list(chosen)] if chosen else frame, float)


@cache
def shares() -> np.ndarray:
    """Daily relative returns of twenty shares since 2015, 2,011 x 20."""
    return _returns(_since_2015("sp500_dataset"))


@cache
def share_prices() -> np.ndarray:
    """Daily prices of twenty shares since 2015, in dollars."""
    return np.asarray(_since_2015("sp500_dataset"), float)


@cache
def index_prices() -> np.ndarray:
    """Daily levels of the S&P 500 since 2015, in points."""
    return np.asarray(_since_2015("sp500_index"), float)[:, 0]


@cache
def index_returns() -> np.ndarray:
    """Daily relative returns of the S&P 500 since 2015."""
    return _returns(_since_2015("sp500_index"))[:, 0]


@cache
def factors() -> np.ndarray:
    """Daily relative returns of five factors since 2015."""
    return _returns(_since_2015("factors_dataset"))


def _since_2015(name: str) -> Any:
    datasets = importlib.import_module("skfolio.datasets")
    return getattr(datasets, f"load_{name}")().loc["2015":]


def _returns(prices: Any) -> np.ndarray:
    values = np.asarray(prices, float)
    return values[1:] / values[:-1] - 1


@cache
def adult(rows: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The six numeric columns of the first rows of Adult in raw units, the income as -1 or 1, and who is a woman."""
    from tightrope.datasets import load_adult

    frame = load_adult().iloc[:rows]
    names = ["age", "fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week"]
    rich = np.where(frame["income"].astype(str).str.contains(">50K"), 1.0, -1.0)
    return frame[names].to_numpy(float), rich, (frame["sex"] == "Female").to_numpy(float)


@cache
def adult_one_hot(rows: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Adult's categories as columns of zeros and ones, every category of a column, beside its raw numbers."""
    import pandas as pd

    from tightrope.datasets import load_adult

    numbers, rich, women = adult(rows)
    categories = load_adult().iloc[:rows].select_dtypes("category").drop(columns="income")
    seen = pd.get_dummies(categories.astype(str)).to_numpy(float)
    return np.hstack([seen, numbers[:, [0, 2, 5]]]), rich, women


def one_hot(labels: np.ndarray) -> np.ndarray:
    """A column for each label.

    Example:
        >>> one_hot(np.array([3.0, 5.0, 3.0])).tolist()
        [[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]]
    """
    return (labels[:, None] == np.unique(labels)).astype(float)


def with_one(X: np.ndarray) -> np.ndarray:
    """The columns and a last one of ones."""
    return np.hstack([X, np.ones((len(X), 1))])
