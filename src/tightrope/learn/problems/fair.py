"""Fair classification: logistic regression whose score has little covariance with sensitive attributes.

Zafar, Valera, Gomez Rodriguez, Gummadi, "Fairness constraints: mechanisms for fair classification", AISTATS 2017.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from tightrope._errors import coefficient, whole_number
from tightrope.given import unmasked
from tightrope.learn.fairness.metrics import checked_weights, is_positive
from tightrope.learn.fairness.notions import GIVEN, NOTIONS, owners
from tightrope.learn.fairness.sensitive import Sensitive, read_sensitive
from tightrope.learn.loss import LOSS
from tightrope.learn.sentences import in_a_sentence
from tightrope.problem import Problem
from tightrope.problem.constraints import two_sided
from tightrope.sets import L2Ball
from tightrope.tree import Array, Tree

# Functions of a sample live at module level: a second problem of the same shapes then compiles nothing.


def weighted_loss(x: Array, theta: Tree, params: Tree) -> Array:
    """The row's weight times the loss of its margin, label <a, x>, plus l2/2 |x|^2 over penalised coefficients only."""
    features, label, weight, _ = theta
    return weight * LOSS.traced(label * jnp.dot(features, x)) + penalty(x, params)


def penalty(x: Array, params: Tree) -> Array:
    """l2/2 |x|^2 over the penalised coefficients."""
    return params["l2"] / 2 * jnp.dot(params["penalised"] * x, x)


def sampled_covariance(x: Array, theta: Tree, params: Tree) -> Array:
    """s <a, x>, whose mean over the rows is the covariance of score and sensitive attribute; K values."""
    features, _, _, s = theta
    return s * jnp.dot(features, x)


def exact_covariance(x: Array, params: Tree) -> Array:
    """V x and -V x, with V = E[s a'] of the data at hand."""
    q = params["V"] @ x
    return jnp.concatenate([q, -q])


_BOTH_SIDES = two_sided(sampled_covariance)


class FairProblem(NamedTuple):
    """A problem and the data it is about: `problem, data = fair_classification(...)`.

    Attributes:
        problem: for `tightrope.minimize`.
        data: rows theta = (features a, label -1 or +1, weight, s), four float64 arrays of shapes (n, d), (n,), (n,) and
            (n, K). Weights have mean 1. s is centred and has the row's weight in it, so that covariances are means
            of s <a, x>.

    Example:
        >>> import numpy as np
        >>> from tightrope.problems import fair_classification
        >>> problem, data = fair_classification(np.eye(4), [1, -1, 1, -1], [0, 0, 1, 1], 0.1)
        >>> [part.shape for part in data]
        [(4, 4), (4,), (4,), (4, 1)]
    """

    problem: Problem
    data: tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def fair_classification(
    X: Any,
    y: Any,
    sensitive: Any,
    threshold: Any = None,
    radius: float = 10.0,
    *,
    notion: str = "demographic_parity",
    sample_weight: Any = None,
    l2: float = 0.0,
    penalised: Any = None,
    exact: bool = True,
) -> FairProblem:
    """Minimise the mean logistic loss over |x| <= radius subject to |cov(s_k, <a, x>)| <= c_k for each sensitive column.

    The sensitive attributes are centred by the mean of all the data: the mean of a batch would bias the covariance.
    Rows of weight zero have no influence; a weight of two is a row given twice.

    Args:
        X: (n, d) features a; an intercept is a column of ones that the caller adds.
        y: labels, -1 and +1 or 0 and 1.
        sensitive: binary, categorical or continuous attributes, as `read_sensitive` takes them; None for plain logistic
            regression.
        threshold: c > 0: a number, one number per attribute, or a dict by name of attribute. That of a categorical attribute
            holds for each of its groups against the rest.
        radius: the radius of the ball that x lies in.
        notion: "demographic_parity", the covariance over all rows; "equal_opportunity", over those with a positive label
            only; "false_positive_rate_parity", with a negative one; "equalized_odds", one covariance for each label.
        sample_weight: (n,) weights, not negative; scaled to mean 1.
        l2: coefficient of a penalty l2/2 |x|^2.
        penalised: (d,) booleans, which coefficients the penalty is for; all, if not given.
        exact: give the method the covariance of all rows, which is linear and known; False leaves it with samples.

    Example:
        >>> from tightrope.datasets import rotated_gaussians
        >>> X, y, s, _ = rotated_gaussians(n=1000)
        >>> problem, data = fair_classification(X, y, s, threshold=0.1)
        >>> problem.names
        ('cov(sensitive_features)', '-cov(sensitive_features)')

        Then `tr.minimize(problem, data, passes=20, output="feasible")`.
    """
    features = _features(X)
    n, d = features.shape
    positive = is_positive(y, "y", n)
    weight = checked_weights(sample_weight, n)
    weight = weight / weight.mean()
    if len(np.unique(positive[weight > 0])) < 2:
        raise ValueError("y has one label only (in the rows with weight); expected both positive and negative rows.")
    read = None if sensitive is None else read_sensitive(sensitive)
    if read is not None and len(read) != n:
        raise ValueError(f"sensitive_features has {len(read):,} rows and X has {n:,}; expected as many.")
    s = np.zeros((n, 0)) if read is None else centred(read, weight, positive, notion)
    levels = np.zeros(0) if read is None else levels_of(threshold, read, notion)
    names = () if read is None else columns_of(read, notion)
    coefficient("fair_classification", "l2", l2)
    problem = Problem(
        objective=weighted_loss,
        constraints=_BOTH_SIDES if names else None,
        domain=L2Ball(radius, shape=d),
        levels=np.concatenate([levels, levels]) if names else 0.0,
        params={"V": s.T @ features / n, "l2": float(l2), "penalised": _mask(penalised, d)},
        names=covariance_names(names),
        exact_constraints=exact_covariance if exact and names else None,
    )
    return FairProblem(problem, (features, np.where(positive, 1.0, -1.0), weight, s))


def carried_by_few(data: tuple[Any, ...], max_rows: int | None = None) -> list[tuple[int, int]]:
    """Columns of X by which a handful of rows can carry a covariance, and in how many rows each of them varies.

    A column that differs from its most common value in a few rows only, such as an indicator of a rare category, can be
    given a huge coefficient at next to no loss; by itself it then cancels the covariance of all other rows, and the
    constraint holds without making anything fair. Merge rare categories, drop such columns, or use a small radius.

    Args:
        data: as `fair_classification` returns it. Rows without weight do not count.
        max_rows: how many rows are a handful; by default 10, or 0.05 % of the rows where that is more. Never as many as
            half of them.

    Returns:
        Pairs (column, rows), for columns that have a covariance with a sensitive attribute.

    Example:
        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> X, y, s = rng.normal(size=(100, 2)), np.tile([-1, 1], 50), rng.integers(0, 2, 100)
        >>> X[:, 1] = np.arange(100) < 3
        >>> carried_by_few(fair_classification(X, y, s, threshold=0.1).data)
        [(1, 3)]
    """
    features, _, weight, s = data
    counted = np.asarray(weight) > 0
    X, s = np.asarray(features)[counted], np.asarray(s)[counted]
    n = len(X)
    limit = max(10, n // 2000) if max_rows is None else whole_number("carried_by_few", "max_rows", max_rows)
    limit = min(limit, (n - 1) // 2)
    middle = np.partition(X, n // 2, axis=0)[n // 2]  # a value that most rows have is the median
    rows = np.sum(middle != X, axis=0)
    size = np.abs(s).T @ np.abs(X)
    carries = np.any(np.abs(s.T @ (X - middle)) > 1e-9 * size, axis=0)  # more than rounding
    return [(int(j), int(rows[j])) for j in np.flatnonzero((rows > 0) & (rows <= limit) & carries)]


def covariance_names(names: Sequence[str]) -> tuple[str, ...]:
    """The names of the two constraints on each covariance, from above and from below."""
    return (*(f"cov({name})" for name in names), *(f"-cov({name})" for name in names))


# ---- what was given, checked -----------------------------------------------------------------------------------------


def _features(X: Any) -> np.ndarray:
    with in_a_sentence("X", "n rows of d features, numbers; encode text, and make sparse matrices dense, first"):
        features = np.asarray(unmasked("X", X), dtype=np.float64)
    if features.ndim != 2 or not features.size:
        raise ValueError(f"X has shape {features.shape}; expected (n, d), a row per person and a column per feature.")
    bad = int(np.sum(~np.isfinite(features)))
    if bad:
        raise ValueError(f"X has {bad:,} values that are NaN or infinite; expected finite numbers. Fill or drop them.")
    return features


def centred(read: Sensitive, weight: np.ndarray, positive: np.ndarray, notion: str) -> np.ndarray:
    """s: the sensitive columns minus their mean over the rows that count, times what these rows weigh.

    The labels of a notion have a block of columns each.
    """
    if notion not in NOTIONS:
        raise ValueError(f"notion is {notion!r}; expected {' or '.join(map(repr, NOTIONS))}.")
    blocks = []
    for label in NOTIONS[notion]:
        counted = weight * owners(label, positive)
        counted = counted / counted.mean()  # a mean over the rows that count is now one over all rows
        blocks.append(counted[:, None] * (read.columns - counted @ read.columns / len(counted)))
    return np.hstack(blocks)


def columns_of(read: Sensitive, notion: str) -> tuple[str, ...]:
    """What the columns of `centred` are called: "sex", or, where labels are told apart, "sex | y=1" and "sex | y=0"."""
    labels = NOTIONS[notion]
    if len(labels) == 1:
        return read.names
    return tuple(f"{name}{GIVEN[label]}" for label in labels for name in read.names)


def levels_of(threshold: Any, read: Sensitive, notion: str = "demographic_parity") -> np.ndarray:
    """One threshold for each column of `centred`, from one number, one per attribute, or a dict by name of attribute."""
    names = [attribute.name for attribute in read.attributes]
    if isinstance(threshold, Mapping):
        by_name = {str(name): value for name, value in threshold.items()}
        if by_name.keys() != set(names):
            raise ValueError(
                f"threshold is given for {', '.join(by_name) or 'nothing'}; expected one for each of "
                f"{', '.join(names)}, and no other."
            )
        threshold = [by_name[name] for name in names]
    try:
        given = np.asarray(threshold, dtype=np.float64)
    except (TypeError, ValueError):
        given = np.array(np.nan)
    if not np.all(np.isfinite(given)) or np.any(given <= 0):
        raise ValueError(f"threshold is {threshold!r}; expected positive numbers: a covariance cannot be held at zero.")
    if given.shape not in ((), (len(names),)):
        raise ValueError(
            f"threshold has shape {given.shape}; expected one number, or {len(names)}: one for each of {', '.join(names)}."
        )
    return np.tile(np.broadcast_to(given, (len(names),))[list(read.owners)], len(NOTIONS[notion]))


def _mask(penalised: Any, d: int) -> np.ndarray:
    """1 for the coefficients with a penalty; numbers, so that it is a leaf like any other."""
    mask = np.ones(d, bool) if penalised is None else np.asarray(penalised)
    if mask.dtype != bool or mask.shape != (d,):
        raise ValueError(f"penalised is an array of {mask.dtype} of shape {mask.shape}; expected {d} booleans.")
    return mask.astype(np.float64)
