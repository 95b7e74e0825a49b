"""Structured matrix completion as a scikit-learn estimator: ratings in, factors and predictions out."""

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.utils.validation import check_is_fitted

from tightrope._limits import KEPT, beyond_memory
from tightrope._threads import threads_for
from tightrope.aside import aside
from tightrope.files import About, Form, as_path
from tightrope.learn import parameters
from tightrope.learn.completion.choice import choose
from tightrope.learn.completion.page import completion_page
from tightrope.learn.completion.places_and_values import NAME, joined, plain, read, warn_of_empty, whole_numbers
from tightrope.learn.completion.training import RANK, Effects, Start, fit_in_turn
from tightrope.learn.datasets.structured import entries_of
from tightrope.learn.model_file import SavedModel
from tightrope.learn.problems.observed import Observed, observed
from tightrope.learn.sentences import in_a_sentence
from tightrope.methods import Method
from tightrope.pages.elements import write_page
from tightrope.sets.low_rank import LowRankBall

_BOUND = parameters.POSITIVE._replace(expected="a positive number, or None to choose one").or_none()
_RULES = {
    "nuclear_norm": _BOUND,
    "unobserved_energy": _BOUND,
    "rank": parameters.whole_number(1).or_none(),
    "steps": parameters.whole_number(1),
    "centre": parameters.FLAG,
    "random_state": parameters.whole_number(0),
    "held_out": parameters.share("a share between 0 and 1, such as 0.1"),
    "method": parameters.METHOD,
}
_NUMBERS = ("mean_", "nuclear_norm_", "unobserved_energy_", "dual_", "held_out_error_", "n_iter_")
_ARRAYS = ("singular_values", "row_effects", "column_effects")
_SEEN = ("seen_rows", "seen_columns", "seen_values")
"""What a file has of a completion, beside its factors."""


class StructuredMatrixCompletion(SavedModel):
    """Complete a matrix of which some entries were observed, such as ratings of items by users.

    Minimise the squared error on the observed entries over matrices X whose singular values sum to at most `nuclear_norm`,
    subject to the energy of all other entries, (1/2) sum X_ij^2, being at most `unobserved_energy`. X is held as factors
    and never as a whole, and satisfies both bounds.

    A mean and effects of rows and columns are subtracted first and added to predictions; the bounds are about what is left.
    An effect is a mean as if its row or column had three more ratings of exactly the mean. Effects and X are fitted in
    turn, four times. Where a row or column has no rating the effects alone predict. Predictions are not cut to the scale of
    the ratings.

    Bounds that are not given are chosen by the error on a random share of the observed entries: first the nuclear norm,
    growing until it helps no more, and of equal errors the largest; then the energy, from what it is without a bound
    downwards. The completion is then made again from all entries.

    It has parameters, `clone` and `pickle` as scikit-learn's estimators do, but `check_estimator` does not apply: missing
    values are what is asked for, and rows are not samples that could be split.

    Args:
        nuclear_norm: the largest sum of singular values; None to choose it.
        unobserved_energy: the largest half sum of squares of unobserved entries; None to choose it.
        rank: the largest rank of X; by default 32.
        centre: whether to subtract mean and effects.
        steps: the most steps of the completion from all entries, shared by its four turns.
        method: "auto", or a method object or name for points that are held factored.
        held_out: the share of the observed entries that bounds are chosen by.
        random_state: a whole number; the same one gives the same completion.

    Attributes:
        factors_: U and V; U @ V.T is X, without mean and effects.
        singular_values_: those of X, the largest first.
        mean_, row_effects_, column_effects_: what was subtracted.
        dual_: the multiplier: unobserved entries count as zeros that were observed with this weight.
        nuclear_norm_, unobserved_energy_: the bounds, given or chosen. Where no bound on the energy helped, it is one that
            no matrix of that nuclear norm reaches.
        held_out_error_: the root mean squared error on the entries held out, and `path_` that of all bounds tried, as a
            DataFrame; None where both bounds were given. Bounds were chosen by it, so it promises nothing: to measure the
            completion, keep entries from `fit` and give them to `score`.
        result_: the run of the last turn, a `Result`, in relative units (see `structured_completion`). A completion read
            from a file has its report_, as text.
        n_iter_: the steps of all turns.
        shape_: rows and columns.

    Example:
        >>> import numpy as np, tightrope as tr
        >>> stars = np.array([[5, 3, np.nan], [4, np.nan, 1], [np.nan, 2, 1]])
        >>> model = tr.StructuredMatrixCompletion(nuclear_norm=2.0, unobserved_energy=1.0)
        >>> model.get_params()["centre"]
        True

    References:
        Z. Akhtar, A. S. Bedi, K. Rajawat: Conservative Stochastic Optimization with Expectation Constraints,
        arXiv:2008.05758.
    """

    held_out_error_: float | None
    path_: pd.DataFrame | None
    _seen: Observed | None  # what partial_fit adds to
    _form = Form("matrix completion", 1, "Fit and save the completion again.")

    def __init__(
        self,
        nuclear_norm: float | None = None,
        unobserved_energy: float | None = None,
        *,
        rank: int | None = None,
        centre: bool = True,
        steps: int = 100,
        method: str | Method = "auto",
        held_out: float = 0.1,
        random_state: int = 0,
    ):
        self.nuclear_norm = nuclear_norm
        self.unobserved_energy = unobserved_energy
        self.rank = rank
        self.centre = centre
        self.steps = steps
        self.method = method
        self.held_out = held_out
        self.random_state = random_state

    # ---- learning ----------------------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None, *, shape: tuple[int, int] | None = None) -> "StructuredMatrixCompletion":
        """Complete a matrix from its observed entries, and choose the bounds that were not given.

        Args:
            X: a SciPy sparse matrix, whose stored entries are the observed ones; a dense matrix with NaN where nothing was
                observed; or arrays (rows, columns, values).
            y: is not used; scikit-learn passes it.
            shape: for (rows, columns, values), the size of the matrix; by default the smallest that holds them.
        """
        with aside(self) as new:
            parameters.check_parameters(self, _RULES)
            seen = observed(plain(X), shape=shape, empty="keep", who=NAME)
            self._refuse_too_large(seen)
            alpha, beta, error, path, start = new.nuclear_norm, new.unobserved_energy, None, None, None
            with new._few_threads(seen):
                if alpha is None or beta is None:
                    options: dict[str, Any] = {"centre": new.centre, "rank": new.rank, "held_out": new.held_out}
                    alpha, beta, error, path, start = choose(seen, alpha, beta, **options, seed=int(new.random_state))
                new._learn(seen, float(alpha), float(beta), int(new.steps), start)
            new.held_out_error_, new.path_ = error, path
        return self

    def partial_fit(self, X: Any, y: Any = None) -> "StructuredMatrixCompletion":
        """Add ratings to those seen so far and complete again, from the factors there are, in half the steps.

        A place that was rated before takes the new value. Rows and columns beyond those known are new ones. Bounds that
        were chosen stay as they are. Without an earlier `fit` this is `fit`.
        """
        if not hasattr(self, "factors_"):
            return self.fit(X, y)
        parameters.check_parameters(self, _RULES)
        if self._seen is None:
            raise ValueError(
                f"This {NAME} was saved without its ratings, and partial_fit adds to them; call fit with all ratings, or "
                "save with ratings=True."
            )
        both = joined(self._seen, read(X))
        alpha = self.nuclear_norm_ if self.nuclear_norm is None else float(self.nuclear_norm)
        beta = self.unobserved_energy_ if self.unobserved_energy is None else float(self.unobserved_energy)
        start = Start(*self.factors_, self.dual_)
        with aside(self) as new, self._few_threads(both):
            new._learn(both, alpha, beta, max(1, int(self.steps) // 2), start)
        return self

    def _refuse_too_large(self, seen: Observed) -> None:
        """Refuse a shape whose factors do not fit into memory before anything of that shape is made."""
        rank = min(self.rank or RANK, *seen.shape)
        searched = LowRankBall.rounds  # columns of the factors of a vertex: one for each Lanczos round
        factors = 8 * (rank + searched) * sum(seen.shape)
        if beyond_memory(KEPT * factors):
            raise ValueError(
                f"{NAME}: the matrix has the shape {seen.shape[0]:,} x {seen.shape[1]:,}; its factors of rank {rank} take "
                f"{KEPT * factors / 2**30:,.0f} GiB while they are learnt; expected what this machine has the memory "
                "for. Give a smaller rank, or number the rows and columns that occur from 0 on."
            )

    def _few_threads(self, seen: Observed) -> AbstractContextManager:
        """One for matrices so small that a second would wait for the first: around everything, since one long vector's
        length is enough to wake it."""
        return threads_for(max(seen.shape), min(self.rank or RANK, *seen.shape))

    def _learn(self, seen: Observed, alpha: float, beta: float, steps: int, start: Start | None) -> None:
        """Complete, and keep what was learnt."""
        effects, made, taken = fit_in_turn(
            seen, alpha, beta, centre=self.centre, steps=steps, start=start, rank=self.rank, method=self.method,
            seed=int(self.random_state), progress=None, record=60,
        )  # fmt: skip
        warn_of_empty(seen)
        self.factors_, self.singular_values_ = (made.left, made.right), made.singular_values
        self.mean_, self.row_effects_, self.column_effects_ = effects
        self.nuclear_norm_, self.unobserved_energy_, self.dual_ = alpha, beta, made.weight
        self.result_, self.n_iter_, self.shape_ = made.result, taken, seen.shape
        self._seen = seen

    # ---- predicting --------------------------------------------------------------------------------------------------

    def predict(self, rows: Any, columns: Any) -> np.ndarray:
        """The predicted values at these places: numbers of rows and columns from 0, or arrays of them."""
        check_is_fitted(self, "factors_")
        places = [whole_numbers(name, numbers) for name, numbers in (("rows", rows), ("columns", columns))]
        with in_a_sentence("rows and columns", "as many of both, or one of either"):
            at = np.broadcast_arrays(*places)
        for name, numbers, length in zip(("row", "column"), at, self.shape_, strict=True):
            bad = (numbers < 0) | (numbers >= length)
            if bad.any():
                raise ValueError(
                    f"{NAME}: {name} number {int(numbers[bad][0])} is out of range; expected 0 to {length - 1} "
                    f"({int(bad.sum()):,} such places)."
                )
        i, j = (numbers.reshape(-1) for numbers in at)
        return (self._effects.at(i, j) + entries_of(*self.factors_, i, j)).reshape(at[0].shape)

    def transform(self, rows: Any = None) -> np.ndarray:
        """The completed rows with these numbers, dense; by default all of them, where they are not too many."""
        check_is_fitted(self, "factors_")
        m, n = self.shape_
        at = np.arange(m) if rows is None else np.atleast_1d(whole_numbers("rows", rows))
        if beyond_memory(KEPT * 8 * len(at) * n):  # the effects, the product, and their sum
            raise ValueError(
                f"{len(at):,} rows of {n:,} columns are {len(at) * n:,} entries; expected what this machine has the memory "
                "for. Ask for fewer rows, or use predict for single places."
            )
        self.predict(at, 0)  # refuses rows that are not there
        left, right = self.factors_
        return self.mean_ + self.row_effects_[at][:, None] + self.column_effects_ + left[at] @ right.T

    def score(self, X: Any, y: Any = None) -> float:
        """Minus the root mean squared error on the entries of X, so that more is better; X is as for `fit`, or complete."""
        rows, columns, values, _ = read(X)
        return -float(np.sqrt(np.mean((self.predict(rows, columns) - values) ** 2)))

    # ---- on disk -----------------------------------------------------------------------------------------------------

    def report(self, path: str | Path) -> Path:
        """Write the completion as a page: one HTML file that opens without a network; gives its path."""
        check_is_fitted(self, "factors_")
        return write_page(path, completion_page(self))

    def save(self, path: str | Path, *, ratings: bool = True) -> None:
        """Write the completion to one file: arrays in safetensors, the rest as JSON; no pickle.

        Args:
            path: the file to write.
            ratings: whether to write the observed entries, too, which `partial_fit` needs after `load`.
        """
        path = as_path(path)
        arrays, about = self._to_file(path)
        if ratings and self._seen is not None:
            arrays |= dict(zip(_SEEN, self._seen[:3], strict=True))
        self._write(path, arrays, about)

    def _to_file(self, path: Path) -> tuple[dict[str, np.ndarray], About]:
        check_is_fitted(self, "factors_")
        arrays = dict(zip(("left", "right"), self.factors_, strict=True))
        return arrays | {name: getattr(self, f"{name}_") for name in _ARRAYS}, {
            "numbers": {name: getattr(self, name) for name in _NUMBERS},
            "path": None if self.path_ is None else self.path_.to_dict("list"),
        }

    def _from_file(self, arrays: dict[str, np.ndarray], about: About) -> None:
        self.factors_ = arrays["left"], arrays["right"]
        for name, value in about["numbers"].items():
            setattr(self, name, value)
        for name in _ARRAYS:
            setattr(self, f"{name}_", arrays[name])
        self.shape_ = len(self.row_effects_), len(self.column_effects_)
        self.path_ = None if about["path"] is None else pd.DataFrame(about["path"])
        seen = [arrays[name] for name in _SEEN if name in arrays]
        self._seen = Observed(*seen, self.shape_) if seen else None  # pyright: ignore[reportCallIssue]

    # ---- what was given, checked -------------------------------------------------------------------------------------

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = tags.input_tags.sparse = True
        return tags

    @property
    def _effects(self) -> Effects:
        return Effects(self.mean_, self.row_effects_, self.column_effects_)
