"""MovieLens-100K for whoever completes it: read from another package's wheel, never kept in this repository."""

import io
import subprocess
import sys
import time
import zipfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array, hstack
from scipy.sparse.linalg import lsqr

import tightrope as tr

PACKAGE, MEMBER = "recbole==1.2.1", "recbole/dataset_example/ml-100k/ml-100k.inter"
SHRINKAGE = 3.0  # the estimator's own penalty on effects of rows and columns
CACHE = Path(__file__).parents[2] / "out" / "downloads"  # git ignores it


class Entries(NamedTuple):
    """Places and values of a partly known matrix."""

    rows: np.ndarray
    columns: np.ndarray
    values: np.ndarray


def movielens() -> tuple[Entries, tuple[int, int]]:
    """The ratings and the numbers of users and films."""
    if not list(CACHE.glob("recbole-*.whl")):
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(CACHE), PACKAGE]
        subprocess.run(command, check=True)
    with zipfile.ZipFile(next(CACHE.glob("recbole-*.whl"))) as wheel:
        table = np.loadtxt(io.BytesIO(wheel.read(MEMBER)), skiprows=1)
    users, rows = np.unique(table[:, 0], return_inverse=True)
    films, columns = np.unique(table[:, 1], return_inverse=True)
    return Entries(rows, columns, table[:, 2]), (len(users), len(films))


def split(entries: Entries, share: float, seed: int) -> tuple[Entries, Entries]:
    """A random `share` of the entries, and the rest."""
    order = np.random.default_rng(seed).permutation(len(entries.values))
    cut = round(share * len(order))
    return Entries(*(a[order[:cut]] for a in entries)), Entries(*(a[order[cut:]] for a in entries))


class Effects:
    """A mean, and an effect of each row and column, by least squares with a penalty on the effects."""

    def __init__(self, seen: Entries, shape: tuple[int, int]):
        places, ones = np.arange(len(seen.values)), np.ones(len(seen.values))
        which = ((seen.rows, shape[0]), (seen.columns, shape[1]))
        design = hstack([csr_array((ones, (places, at)), shape=(len(places), size)) for at, size in which])
        self.mean = float(seen.values.mean())
        found = lsqr(design, seen.values - self.mean, damp=np.sqrt(SHRINKAGE), atol=1e-12, btol=1e-12)[0]
        self.rows, self.columns = np.split(found, [shape[0]])

    def at(self, entries: Entries) -> np.ndarray:
        """Their sum at these places."""
        return self.mean + self.rows[entries.rows] + self.columns[entries.columns]


def rmse(entries: Entries, predicted: np.ndarray) -> float:
    """The root mean squared error of predictions brought into the range of the stars."""
    return float(np.sqrt(np.mean((np.clip(predicted, 1, 5) - entries.values) ** 2)))


def ours(train: Entries, test: Entries, shape: tuple[int, int], rank: int, seed: int) -> dict[str, Any]:
    """The estimator at this rank; it chooses both bounds by a tenth of the ratings that it is given."""
    began = time.perf_counter()
    model = tr.StructuredMatrixCompletion(rank=rank, random_state=seed).fit(tuple(train), shape=shape)
    seconds = time.perf_counter() - began
    return {
        "error": rmse(test, model.predict(test.rows, test.columns)),
        "effects": rmse(test, Effects(train, shape).at(test)),
        "alpha": model.nuclear_norm_,
        "beta": model.unobserved_energy_,
        "seconds": seconds,
    }
