"""Rows of Parquet files as tables: part by part, or a uniform sample where there are more than are needed to know a rate."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from tightrope._limits import AT_ONCE
from tightrope.sampling import Parquet
from tightrope.sampling.parquet_files import Files

FILES = (str, Path, Parquet)
"""What rows of files are given by."""

MOST_ROWS = 200_000
"""Rows drawn from files, at most. Derived: the standard error of a rate of a half is then root(1/4 / 200,000), 0.11 %, so
that its two-sided 95 % interval is a fifth of a percent to either side."""


class Drawn(NamedTuple):
    """Rows in their order, of how many; and, of files, what gives parts of all of them with the columns named."""

    frame: pd.DataFrame
    rows: int
    parts: Callable[[Sequence[str]], Iterator[pd.DataFrame]] | None = None

    @property
    def sentence(self) -> str:
        """Which rows these are; empty where they are all of them."""
        if len(self.frame) == self.rows:
            return ""
        return (
            f"{len(self.frame):,} of the {self.rows:,} rows of the files were drawn at random, and the others left out: by "
            "so many a rate is known to a fifth of a percent."
        )


def drawn(path: str | Path | Parquet, seed: int) -> Drawn:
    """All rows, or `MOST_ROWS` of them at random: every subset of this size has the same chance, and the seed decides.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     pd.DataFrame({"age": [31, 52, 47]}).to_parquet(f"{folder}/people.parquet")
        ...     drawn(folder, seed=0).frame["age"].tolist()
        [31, 52, 47]
    """
    files = path.files if isinstance(path, Parquet) else Files(path)
    columns = path.columns if isinstance(path, Parquet) else files.columns
    numbers = numbers_drawn(files.n, seed)
    parts = [frame.loc[np.intersect1d(numbers, frame.index, assume_unique=True)] for frame in parts_of(files, columns)]
    return Drawn(pd.concat(parts, ignore_index=True), files.n, partial(parts_of, files))


def numbers_drawn(n: int, seed: int) -> np.ndarray:
    """The numbers of the rows that are drawn from n."""
    return np.arange(n) if n <= MOST_ROWS else np.random.default_rng(seed).choice(n, MOST_ROWS, replace=False)


def parts_of(files: Files, columns: Sequence[str]) -> Iterator[pd.DataFrame]:
    """All rows in the order of the files, so many at a time as are soon read, the index counting them from 0."""
    first, size = 0, max(1, AT_ONCE // max(1, len(columns)))
    for group in files.groups:
        for batch in files.batches(group, columns, size):
            frame = batch.to_pandas()
            for name in frame.columns[frame.dtypes == "category"]:  # a writer's dictionary is no difference
                frame[name] = frame[name].astype(object)
            frame.index = pd.RangeIndex(first, first + len(frame))
            first += len(frame)
            yield frame
