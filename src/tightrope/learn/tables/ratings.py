"""A completion from a table of ratings: users and items numbered, measured on held-out ratings, kept in a folder."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from tightrope.files import Folder, Form
from tightrope.learn.completion.choice import hold_out, never_reached
from tightrope.learn.completion.estimator import StructuredMatrixCompletion
from tightrope.learn.completion.training import Effects
from tightrope.learn.problems.observed import Observed
from tightrope.learn.tables.reading import need_columns
from tightrope.learn.tables.report import REPORT, add_report, as_text
from tightrope.plotting import COLOURS, new_figure, saved

PICTURE = "completion.png"
"""The picture of a folder: the singular values, and the bounds that were tried."""

FOLDER = Folder(
    Form("ratings", 1, "Complete again, with tightrope complete."),
    writer="tightrope complete",
    arrays="completion.safetensors",
    meaning="ratings.json",
    others=(REPORT, PICTURE),
)


class Ratings(NamedTuple):
    """Ratings as entries of a matrix, and who its rows and columns are."""

    users: np.ndarray
    items: np.ndarray
    seen: Observed


def read_ratings(frame: pd.DataFrame, user: str, item: str, rating: str) -> Ratings:
    """Number the users and items of a table with a row for each rating; refuse what cannot be meant.

    Example:
        >>> import pandas as pd
        >>> table = pd.DataFrame({"user": ["bo", "al", "al"], "film": [7, 7, 9], "stars": [5, 3, 4]})
        >>> found = read_ratings(table, "user", "film", "stars")
        >>> found.users.tolist(), found.seen.rows.tolist(), found.seen.columns.tolist()
        (['al', 'bo'], [1, 0, 0], [0, 0, 1])
    """
    names = [user, item, rating]
    need_columns(frame, names)
    if len(set(names)) < 3:
        raise ValueError(f"User, item and rating are {', '.join(map(repr, names))}; expected three different columns.")
    missing = int(frame[names].isna().any(axis=1).sum())
    if missing:
        raise ValueError(
            f"{missing:,} of {len(frame):,} rows lack a {user}, {item} or {rating}; expected all three. Remove these rows."
        )
    values = pd.to_numeric(frame[rating], errors="coerce").to_numpy(float)
    if not np.all(np.isfinite(values)):
        strange = frame[rating][~np.isfinite(values)].iloc[0]
        raise ValueError(f"{rating} has the value {strange!r}; expected finite numbers.")
    (users, rows), (items, columns) = _numbered(frame[user]), _numbered(frame[item])
    places = rows * len(items) + columns
    _, first, counts = np.unique(places, return_index=True, return_counts=True)
    if len(first) < len(places):
        k = int(first[counts > 1][0])
        raise ValueError(
            f"{user} {users[rows[k]]} rated {item} {items[columns[k]]} more than once ({int(np.sum(counts > 1)):,} such "
            "pairs); expected each pair once. Average or drop repeated ratings first."
        )
    if len(places) == len(users) * len(items):
        raise ValueError(
            f"Every {user} rated every {item}, so nothing is left to complete; expected some to be missing."
        )
    return Ratings(users, items, Observed(rows, columns, values, (len(users), len(items))))


def _numbered(column: "pd.Series[Any]") -> tuple[np.ndarray, np.ndarray]:
    """The different ids in order, and which of them each row has. Whole numbers stay numbers; all else is text."""
    whole = pd.api.types.is_numeric_dtype(column.dtype) and not pd.api.types.is_bool_dtype(column.dtype)
    if whole and (column.astype(float) % 1 == 0).all():
        return np.unique(column.to_numpy(np.int64), return_inverse=True)
    ids, at = np.unique(column.astype(str).to_numpy(str), return_inverse=True)
    return ids.astype(object), at


@dataclasses.dataclass(frozen=True)
class RatingsModel:
    """A completion whose rows and columns have names: what a folder of `tightrope complete` holds.

    Attributes:
        completion: the completed matrix of ratings.
        users, items: the ids of its rows and columns.
    """

    completion: StructuredMatrixCompletion
    users: np.ndarray
    items: np.ndarray

    def predict(self, users: Any, items: Any) -> np.ndarray:
        """The ratings that these users would give to these items; ids or lists of them."""
        at = [_places(*given) for given in (("user", users, self.users), ("item", items, self.items))]
        return self.completion.predict(*at)

    def save(self, folder: str | Path) -> None:
        """Write completion and ids into a folder, which is made where it is not there."""
        about = {"users": self.users.tolist(), "items": self.items.tolist()}
        FOLDER.write(folder, self.completion.save, about)

    @classmethod
    def load(cls, folder: str | Path) -> "RatingsModel":
        """Read a folder that `save` wrote; one that is something else, or whose files do not belong together, is refused."""
        arrays, about = FOLDER.read(folder)
        completion = StructuredMatrixCompletion.load(arrays)
        users, items = _ids(about["users"]), _ids(about["items"])
        if (len(users), len(items)) != completion.shape_:
            named = Path(folder) / FOLDER.meaning
            raise FOLDER.form.refuse(f"{named} names another number of users or items than were rated.")
        return cls(completion, users, items)


def _ids(given: list[Any]) -> np.ndarray:
    """Ids as `_numbered` gives them: whole numbers as an array of numbers, text as one of objects."""
    return np.array(given, None if isinstance(given[0], int) else object)


def _places(what: str, given: Any, known: np.ndarray) -> np.ndarray:
    ids = np.asarray(given, known.dtype if known.dtype != object else None)
    at = pd.Index(known).get_indexer(pd.Index(ids.reshape(-1), dtype=known.dtype))
    if (at < 0).any():
        strange = ids.reshape(-1)[at < 0]
        raise ValueError(
            f"There are no ratings of {what} {strange[0]!s} ({len(strange):,} such places); expected one that was there "
            f"when the ratings were completed, such as {known[0]!s}."
        )
    return at.reshape(ids.shape)


# ---- from a table ----------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class CompletedRatings:
    """What `complete_ratings` gives back.

    Attributes:
        model: the completion, with names.
        comparison: root mean squared and mean absolute error of the completion and of means, on the ratings held out.
        fitted, held: how many ratings it was fitted to and measured on.
    """

    model: RatingsModel
    comparison: pd.DataFrame
    fitted: int
    held: int

    def lines(self) -> list[str]:
        """What there was, what was chosen and what it was measured on, in sentences."""
        made = self.model.completion
        (m, n), count = made.shape_, self.fitted + self.held
        bounds = f"Nuclear norm: at most {made.nuclear_norm_:.4g}. Unobserved energy: " + (
            "without a bound"
            if made.unobserved_energy_ >= never_reached(made.nuclear_norm_)
            else f"at most {made.unobserved_energy_:.4g}"
        )
        tried = "" if made.path_ is None else f" Chosen among {len(made.path_)} completions of a part of these ratings."
        return [
            f"{count:,} ratings of {n:,} items by {m:,} users: {count / (m * n):.2%} of all places.",
            f"Fitted to {self.fitted:,} ratings, by a matrix of rank {len(made.singular_values_)}; measured on "
            f"{self.held:,} others.",
            f"{bounds}.{tried}",
        ]

    def __str__(self) -> str:
        return "\n".join([*self.lines(), "", as_text(self.comparison)])

    def save(self, folder: str | Path, notes: Sequence[str] = ()) -> list[str]:
        """Write the model, the report and a picture into a folder; gives the names of the files.

        The picture is left out where matplotlib is not installed.
        """
        self.model.save(folder)
        report = [str(self), *(f"Note: {note}" for note in notes), str(self.model.completion.result_)]
        return add_report(FOLDER, Path(folder), report, PICTURE, self.plot)

    def plot(self, path: str | None = None) -> Any:
        """Draw the singular values and, where bounds were chosen, the held-out error of all that were tried."""
        made = self.model.completion
        figure, axes = new_figure(columns=1 if made.path_ is None else 2)
        left, right = axes.flat[0], axes.flat[-1]
        left.plot(np.arange(1, len(made.singular_values_) + 1), made.singular_values_, marker="o", markersize=3)
        left.set_ylim(bottom=0)
        left.set_xlabel("number")
        left.set_title("singular values", loc="left", fontsize=11)
        left.xaxis.get_major_locator().set_params(integer=True)
        if made.path_ is not None:
            _draw_path(right, made)
        return saved(figure, path)


def _draw_path(axis: Any, made: StructuredMatrixCompletion) -> None:
    path = made.path_
    assert path is not None
    free = path["unobserved_energy"] >= never_reached(path["nuclear_norm"])  # pyright: ignore[reportArgumentType]
    styles = ((free, "o", "-", "no bound on the energy"), (~free, "s", "none", "with a bound"))
    for colour, (chosen, marker, line, label) in zip(COLOURS, styles, strict=False):
        some = path[chosen].sort_values("nuclear_norm")
        if len(some):
            axis.plot(
                some["nuclear_norm"], some["held_out_error"], color=colour, marker=marker, markersize=4, linestyle=line,
                label=label,
            )  # fmt: skip
    label = f"chosen: {made.nuclear_norm_:.3g}"
    axis.plot(
        made.nuclear_norm_, made.held_out_error_, marker="D", markersize=8, color=COLOURS[3], linestyle="none",
        fillstyle="none", label=label,
    )  # fmt: skip
    axis.set_xscale("log", base=2)
    axis.xaxis.set_major_formatter(lambda x, _: f"{x:,.4g}")
    axis.set_xlabel("nuclear norm, at most")
    axis.set_title("error (RMSE) on a part held out to choose", loc="left", fontsize=11)
    axis.legend(frameon=False, fontsize=8)


def complete_ratings(
    frame: pd.DataFrame, user: str, item: str, rating: str, *, test_share: float = 0.1, seed: int = 0, **parameters: Any
) -> CompletedRatings:
    """Complete the matrix of a table's ratings and compare it with means on ratings that were held out.

    Args:
        frame: a row for each rating.
        user, item, rating: the columns; ids may be text or numbers.
        test_share: the share of the ratings that is held out to measure on. Bounds are chosen within the others.
        seed: decides which ratings are held out, and is the `random_state` of `StructuredMatrixCompletion`.
        parameters: passed on to `StructuredMatrixCompletion`.

    Example: `complete_ratings(table, "user", "film", "stars", rank=20).comparison`.
    """
    if not 0 < test_share < 1:
        raise ValueError(f"The share of held-out ratings is {test_share!r}; expected a number between 0 and 1.")
    users, items, seen = read_ratings(frame, user, item, rating)
    kept, held = hold_out(seen, test_share, seed)
    completion = StructuredMatrixCompletion(**parameters, random_state=seed)
    completion.fit(kept[:3], shape=seen.shape)
    predicted = {
        "means": Effects.fit(kept).at(held.rows, held.columns),
        "completion": completion.predict(held.rows, held.columns),
    }
    errors = {name: values - held.values for name, values in predicted.items()}
    count = len(held.values)
    comparison = pd.DataFrame(
        [
            {"measure": "RMSE", "ratings": count} | {k: float(np.sqrt(np.mean(e**2))) for k, e in errors.items()},
            {"measure": "MAE", "ratings": count} | {k: float(np.mean(np.abs(e))) for k, e in errors.items()},
        ]
    )
    return CompletedRatings(RatingsModel(completion, users, items), comparison, len(kept.values), count)
