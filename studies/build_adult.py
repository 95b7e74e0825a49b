"""Makes adult.npz from the two files of the UCI repository: `python -m studies.build_adult DATA TEST OUT`.

adult.npz is in the package already; this is how it came about. It says the SHA-256 that belongs into adult.py.
"""

import hashlib
import sys
from pathlib import Path
from typing import Any

import numpy as np

from tightrope.learn.datasets.adult import COLUMNS, WORDS


def rows_of(text: str) -> list[list[str]]:
    """The rows of one published file, without the line that is not data, empty lines, blanks and dots after labels.

    Example:
        >>> people = ", ".join(["25"] * 14)
        >>> len(rows_of(f"|1x3 Cross validator\\n{people}, >50K.\\n\\n")[0])
        15
    """
    lines = [line for line in text.splitlines() if line and not line.startswith("|")]
    rows = [[value.strip() for value in line.removesuffix(".").split(",")] for line in lines]
    for number, row in enumerate(rows):
        if len(row) != len(COLUMNS):
            raise ValueError(f"Row {number} has {len(row)} values; a row of the Adult data has {len(COLUMNS)}.")
    return rows


def columns_of(rows: list[list[str]]) -> dict[str, np.ndarray]:
    """The arrays of adult.npz: each in the smallest type that holds it."""
    arrays = {}
    for name, column in zip(COLUMNS, zip(*rows, strict=True), strict=True):
        words = sorted(set(column) - {"?"})
        if all(word.isdigit() for word in words):
            numbers = np.array([int(value) for value in column])
            arrays[name] = numbers.astype(np.min_scalar_type(numbers.max()))
        else:
            code = {"?": -1} | {word: number for number, word in enumerate(words)}
            arrays[name] = np.array([code[value] for value in column], np.int8)
            arrays[name + WORDS] = np.array(words)
    return arrays


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit("Give three paths: adult.data, adult.test, and the file to write.")
    data, test, out = map(Path, sys.argv[1:])
    arrays: dict[str, Any] = columns_of(rows_of(data.read_text()) + rows_of(test.read_text()))
    np.savez_compressed(out, **arrays)
    print(f"{out}: {out.stat().st_size:,} bytes, SHA-256 {hashlib.sha256(out.read_bytes()).hexdigest()}")
