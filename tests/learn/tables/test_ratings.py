"""Ratings in a table: the command `tightrope complete`, what it writes, and every sentence it refuses with."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.commands import call
from tightrope.files import FileError
from tightrope.learn.cli.errors import Stopped
from tightrope.learn.completion import estimator as completion
from tightrope.learn.completion.choice import hold_out
from tightrope.learn.completion.training import Effects
from tightrope.learn.tables.ratings import CompletedRatings, RatingsModel, complete_ratings, read_ratings

USERS, ITEMS = 40, 30
GOOD = ("--user", "user", "--item", "film", "--rating", "stars")


def table() -> pd.DataFrame:
    """40 x 30, of which most were rated; users have names, films have numbers, and rows no order."""
    rng = np.random.default_rng(1)
    taste = rng.normal(size=(USERS, 2)) @ rng.normal(size=(2, ITEMS))
    stars = np.clip(np.round(2 * (3 + taste + rng.normal(size=(USERS, 1)) / 2)) / 2, 0.5, 5.5)
    rows, columns = np.nonzero(rng.random((USERS, ITEMS)) < 0.6)
    found = pd.DataFrame({"user": [f"u{i:02}" for i in rows], "film": 100 + columns, "stars": stars[rows, columns]})
    return found.sample(frac=1, random_state=0).assign(day=1)


RATINGS = table()


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """The table as a file, and what the command made of it."""
    folder = tmp_path_factory.mktemp("ratings")
    RATINGS.to_csv(folder / "ratings.csv", index=False)
    code, out, err = call(
        "complete", folder / "ratings.csv", *GOOD, "--out", folder / "model", "--rank", 6, "--seed", 3
    )
    assert code == 0, err
    (folder / "printed.txt").write_text(out)
    return folder


@pytest.fixture(scope="module")
def made() -> CompletedRatings:
    return complete_ratings(RATINGS, "user", "film", "stars", rank=6, seed=3)


# ---- the command -----------------------------------------------------------------------------------------------------


def test_complete_prints_and_writes_what_the_library_computes(folder, made):
    printed, report = (folder / "printed.txt").read_text(), (folder / "model" / "report.txt").read_text()
    for text in (printed, report):
        lines = [line.strip() for line in text.splitlines()]
        assert set(filter(None, map(str.strip, str(made).splitlines()))) <= set(lines)
    share = len(RATINGS) / (USERS * ITEMS)
    assert f"{len(RATINGS)} ratings of {ITEMS} items by {USERS} users: {share:.2%} of all places." in printed
    assert "Chosen among" in printed
    names = {"completion.safetensors", "ratings.json", "report.txt", "completion.png"}
    assert {path.name for path in (folder / "model").iterdir()} == names


def test_held_out_errors_by_hand(folder, made):
    model = RatingsModel.load(folder / "model")
    kept, held = hold_out(read_ratings(RATINGS, "user", "film", "stars").seen, 0.1, 3)
    users, films = model.users[held.rows], model.items[held.columns]
    told = {(u, f): s for u, f, s in zip(RATINGS["user"], RATINGS["film"], RATINGS["stars"], strict=True)}
    truth = np.array([told[pair] for pair in zip(users, films, strict=True)])
    means = Effects.fit(kept).at(held.rows, held.columns)
    for name, predicted in (("completion", model.predict(users, films)), ("means", means)):
        errors = made.comparison.set_index("measure")[name]
        assert errors["RMSE"] == pytest.approx(np.sqrt(np.mean((predicted - truth) ** 2)))
        assert errors["MAE"] == pytest.approx(np.mean(np.abs(predicted - truth)))
    assert made.comparison["completion"][0] < 0.8 * made.comparison["means"][0]
    assert len(held.values) == made.held == round(0.1 * len(RATINGS))
    assert not set(zip(kept.rows, kept.columns, strict=True)) & set(zip(held.rows, held.columns, strict=True))


def test_the_last_line_that_is_printed_runs(folder):
    line = (folder / "printed.txt").read_text().splitlines()[-1]
    imported, expression = line.split("; ")
    names: dict[str, Any] = {}
    exec(imported, names)
    found = eval(expression, names)
    np.testing.assert_array_equal(found, RatingsModel.load(folder / "model").predict(["u00"], [100]))


def test_a_folder_in_use_is_kept(folder):
    before = (folder / "model" / "report.txt").read_text()
    words = ("complete", folder / "ratings.csv", *GOOD, "--out", folder / "model")
    code, _, err = call(*words)
    assert code == 1
    assert "holds a model; give another folder, or --force" in err
    bounds = ("--nuclear-norm", 30, "--unobserved-energy", 50, "--rank", 6, "--steps", 5, "--force")
    code, out, err = call(*words[:-1], folder / "other", *bounds)
    assert code == 0, err
    assert "Nuclear norm: at most 30. Unobserved energy: at most 50.\n" in out
    code, out, err = call(*words[:-1], folder / "other", *bounds)
    assert code == 0, err
    assert (folder / "model" / "report.txt").read_text() == before


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda t: pd.concat([t, t.iloc[:1]]), "more than once (1 such pairs); expected each pair once"),
        (
            lambda t: t.assign(stars=t["stars"].where(t.index > 0)),
            f"1 of {len(RATINGS)} rows lack a user, film or stars",
        ),
        (lambda t: t.assign(stars="good"), "stars has the value 'good'; expected finite numbers"),
        (lambda t: t.rename(columns={"film": "movie"}), "has no column 'film'"),
        (lambda t: t.iloc[:0], "no rows"),
        (lambda t: t[(t["user"] == "u00")], "Every user rated every film"),
    ],
)
def test_bad_tables(change, sentence, tmp_path):
    change(RATINGS).to_csv(tmp_path / "ratings.csv", index=False)
    code, out, err = call("complete", tmp_path / "ratings.csv", *GOOD, "--out", tmp_path / "model")
    assert code == 1
    assert sentence in err
    assert "Traceback" not in err + out
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--held-out", 1.5), "The share of held-out ratings is 1.5"),
        (("--rank", 0), "rank is 0; expected a whole number"),
        (("--nuclear-norm", -1), "nuclear_norm is -1.0; expected a positive number"),
        (("--user", "film"), "expected three different columns"),
    ],
)
def test_bad_options(words, sentence, folder, tmp_path):
    code, _, err = call("complete", folder / "ratings.csv", *GOOD, "--out", tmp_path / "model", *words)
    assert code == 1
    assert sentence in err


def test_ctrl_c_writes_nothing(folder, tmp_path, monkeypatch):
    def stop(*_: Any, **__: Any):
        raise Stopped

    monkeypatch.setattr(completion, "fit_in_turn", stop)
    bounds = ("--nuclear-norm", 1, "--unobserved-energy", 1)
    code, _, err = call("complete", folder / "ratings.csv", *GOOD, "--out", tmp_path / "model", *bounds)
    assert (code, err.strip()) == (130, "Interrupted.")
    assert not (tmp_path / "model").exists()


# ---- the model -------------------------------------------------------------------------------------------------------


def test_ids_keep_their_kind(folder, made):
    model = RatingsModel.load(folder / "model")
    assert model.users.tolist() == sorted(RATINGS["user"].unique())
    assert model.items.tolist() == sorted(RATINGS["film"].unique().tolist())
    np.testing.assert_array_equal(model.predict([["u03"], ["u01"]], [100, 105]), made.model.predict(
        [["u03"], ["u01"]], [100, 105]
    ))  # fmt: skip
    assert model.predict("u03", 105).shape == ()
    with pytest.raises(ValueError, match="no ratings of user nobody"):
        model.predict("nobody", 100)
    with pytest.raises(ValueError, match=r"no ratings of item 7 \(1 such places\)"):
        model.predict(["u01", "u01"], [100, 7])
    mixed = RATINGS.assign(film=RATINGS["film"].map(lambda k: k if k % 2 else f"f{k}"))
    assert "f100" in read_ratings(mixed, "user", "film", "stars").items.tolist()
    assert "101" in read_ratings(mixed, "user", "film", "stars").items.tolist()


def test_a_folder_whose_files_do_not_belong_together_is_refused(made, tmp_path):
    RatingsModel(made.model.completion, made.model.users[1:], made.model.items).save(tmp_path)
    with pytest.raises(FileError, match=r"names another number of users or items than were rated\. Complete again"):
        RatingsModel.load(tmp_path)
