"""Flipped bits and cut ends of every file that is read back: refused in a sentence, or the same answer."""

import random
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import tightrope as tr
from tightrope.learn.tables.classifier import TableClassifier, fit_table
from tightrope.learn.tables.ratings import RatingsModel, complete_ratings
from torture.campaign import PROBLEM, ROWS, campaign, options

EACH = 1200  # damages of each file
ONE_IN = 6  # of which so many is a cut end and the others flipped bits


def resumed(file: Path) -> np.ndarray:
    """A checkpoint, read by a run that goes on from it."""
    result = tr.minimize(PROBLEM, ROWS, method="csoa", steps=300, checkpoint=file, progress=False)
    return np.concatenate([np.ravel(result.x), result.dual])


def people() -> pd.DataFrame:
    """A table of 400 people."""
    rng = np.random.default_rng(0)
    sex = rng.integers(0, 2, 400)
    skill = rng.normal(size=400) + 0.3 * sex
    pay = np.where(skill + rng.normal(size=400) > 0, "high", "low")
    return pd.DataFrame({"skill": skill, "job": rng.choice(["cook", "clerk"], 400), "sex": sex.astype(str), "pay": pay})


def ratings() -> pd.DataFrame:
    """A table of 300 ratings."""
    rng = np.random.default_rng(0)
    at = rng.permutation(30 * 20)[:300]
    return pd.DataFrame({"user": at // 20, "film": at % 20, "stars": rng.integers(1, 6, 300)})


def targets(folder: Path) -> list[tuple[Path, Callable[[], Any]]]:
    """Every file, and how its answer is read."""
    checkpoint = folder / "run.ckpt"
    resumed(checkpoint)
    table, films, seen = people(), ratings(), folder / "fair.model"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit_table(table, "pay", ["sex"], covariance=0.05).save(folder / "fit")
        complete_ratings(films, "user", "film", "stars", nuclear_norm=30.0, unobserved_energy=50.0).save(
            folder / "complete"
        )
    fair = TableClassifier.load(folder / "fit").classifier
    fair.save(seen)
    X = TableClassifier.load(folder / "fit").encoder.transform(table)

    def of_table() -> Any:
        return TableClassifier.load(folder / "fit").predict(table)["probability"].to_numpy()

    def of_ratings() -> Any:
        return RatingsModel.load(folder / "complete").predict(films["user"], films["film"])

    return [
        (checkpoint, lambda: resumed(checkpoint)),
        (seen, lambda: tr.FairLogisticRegression.load(seen).predict_proba(X)),
        (folder / "fit" / "classifier.safetensors", of_table),
        (folder / "fit" / "table.json", of_table),
        (folder / "complete" / "completion.safetensors", of_ratings),
        (folder / "complete" / "ratings.json", of_ratings),
    ]


def damaged(content: bytes, k: int) -> bytes:
    """The content with a bit flipped, or cut off somewhere."""
    chance = random.Random(k)
    if k % ONE_IN == ONE_IN - 1:
        return content[: chance.randrange(len(content))]
    changed = bytearray(content)
    changed[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    return bytes(changed)


if __name__ == "__main__":
    asked = options(EACH)
    with tempfile.TemporaryDirectory() as name:
        files = targets(Path(name))
        truth = [(file.read_bytes(), read()) for file, read in files]

        def attack(number: int) -> str | None:
            """Damage one file in one way."""
            (file, read), (content, answer) = files[number % len(files)], truth[number % len(files)]
            k = number // len(files)
            file.write_bytes(damaged(content, k))
            try:
                same = np.array_equal(read(), answer)
            except ValueError as error:  # what the library refuses with: FileError and CheckpointError are such
                same = file.name in str(error) or file.parent.name in str(error)
            except Exception as error:  # a traceback is what must not be
                return f"{file.name}, damage {k}: {type(error).__name__}: {error}"
            finally:
                file.write_bytes(content)
            return (
                None
                if same
                else f"{file.name}, damage {k}: read as if nothing had happened, or refused without its name"
            )

        what = f"flipped bits, and a cut end for {ONE_IN - 1} of them, of each of {len(files)} files"
        campaign(what, asked.count * len(files), attack)
