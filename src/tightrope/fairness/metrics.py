"""How fair a classifier's decisions are: rates by group, the p%-rule, and what can be said of it with confidence."""

from itertools import combinations
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tightrope.fairness.sensitive import Sensitive, read_sensitive

if TYPE_CHECKING:
    import pandas as pd

DRAWS = 40_000
"""Draws behind a critical value, whose own standard error is then about 0.01."""


def group_rates(y_pred: Any, sensitive: Any, y_true: Any = None) -> "pd.DataFrame":
    """A row for each group of each attribute: how many people it has and what is decided about them.

    Args:
        y_pred: the decisions: booleans, 0 and 1, or -1 and +1.
        sensitive: binary or categorical attributes, as `read_sensitive` takes them.
        y_true: the labels, in any of the same forms.

    Returns:
        Columns attribute, group, count, selection_rate (the share decided positive) and, with `y_true`, accuracy and
        true_positive_rate. A rate over nobody is NaN.

    Example:
        >>> print(group_rates([1, 0, 1, 1], ["F", "F", "M", "M"]).to_string(index=False))
                 attribute group  count  selection_rate
        sensitive_features     F      2             0.5
        sensitive_features     M      2             1.0
    """
    import pandas as pd

    read = read_sensitive(sensitive)
    positive = is_positive(y_pred, "y_pred", len(read))
    truth = None if y_true is None else is_positive(y_true, "y_true", len(read))
    rows = []
    for i, attribute in enumerate(read.attributes):
        codes = read.groups(i)
        for code, group in enumerate(attribute.groups):
            members = codes == code
            row = {"attribute": attribute.name, "group": group, "count": int(members.sum())}
            row["selection_rate"] = _share(positive, members)
            if truth is not None:
                row["accuracy"] = _share(positive == truth, members)
                row["true_positive_rate"] = _share(positive, members & truth)
            rows.append(row)
    return pd.DataFrame(rows)


def p_rule(y_pred: Any, sensitive: Any) -> float:
    """The p%-rule as a share: the smallest ratio of two groups' selection rates, over the groups of every attribute.

    1 is equal treatment; "the 80 % rule" asks for 0.8. It is 0 when a group has no positives while another has some, and
    NaN when nobody is decided positive: nothing can then be compared. Groups without members are left out.

    Args:
        y_pred: the decisions: booleans, 0 and 1, or -1 and +1.
        sensitive: binary or categorical attributes, as `read_sensitive` takes them.

    Example:
        >>> p_rule([1, 0, 1, 1], ["F", "F", "M", "M"])
        0.5
    """
    rates = group_rates(y_pred, sensitive)
    ratios = [_smallest_ratio(part.to_numpy(float)) for _, part in rates.groupby("attribute")["selection_rate"]]
    return float(np.fmin.reduce(ratios))  # NaN only where all are


def _share(of: np.ndarray, among: np.ndarray) -> float:
    return float(of[among].mean()) if among.any() else float("nan")


def _smallest_ratio(rates: np.ndarray) -> float:
    rates = rates[~np.isnan(rates)]
    return float(rates.min() / rates.max()) if len(rates) > 1 and rates.max() > 0 else float("nan")


def is_positive(y: Any, name: str, n: int) -> np.ndarray:
    """Labels or decisions as booleans: True for True, 1 and +1; False for False, 0 and -1.

    Args:
        y: n values: booleans, 0 and 1, or -1 and +1.
        name: what to call them in an error.
        n: how many are expected.
    """
    given = np.asarray(y)
    if given.shape != (n,):
        raise ValueError(f"{name} has shape {given.shape}; expected {n:,} values, one per row.")
    try:
        numbers = given.astype(np.float64)
    except (TypeError, ValueError):
        numbers = np.full(n, np.nan)
    found = set(np.unique(numbers).tolist())
    if not (found <= {0.0, 1.0} or found <= {-1.0, 1.0}):
        some = ", ".join(repr(value) for value in list(dict.fromkeys(given.tolist()))[:4])
        raise ValueError(f"{name} has values such as {some}; expected booleans, 0 and 1, or -1 and +1.")
    return numbers > 0


# ---- with confidence -------------------------------------------------------------------------------------------------


class PRuleBounds(NamedTuple):
    """Lower confidence bounds for the p%-rule of L classifiers, all of them true at once.

    Attributes:
        estimate: (L,) the p%-rule on the rows given, as `p_rule`: NaN where nobody is decided positive.
        lower: (L,) its lower bounds; 0 where nothing can be said, never NaN.
        error: (L,) the standard error of the logarithm of the estimate; infinite where nothing can be said.
        critical: how many standard errors lie between a log ratio and its bound.
    """

    estimate: np.ndarray
    lower: np.ndarray
    error: np.ndarray
    critical: float


def p_rule_bounds(predictions: Any, sensitive: Any, confidence: float = 0.95, seed: int = 0) -> PRuleBounds:
    """Lower confidence bounds for the p%-rule that hold at once for all classifiers on a path.

    For groups g and h of one attribute, log r_g - log r_h of two selection rates is asymptotically normal with the
    influence function 1{s=g} (yhat - r_g) / (pi_g r_g) - 1{s=h} (yhat - r_h) / (pi_h r_h). The bounds of all classifiers
    and all ordered pairs of groups use one critical value, the `confidence` quantile of the maximum of a centred Gaussian
    vector that is correlated as these functions are on the rows. So whichever classifier is chosen by its bound, the
    bound is true with probability `confidence`, asymptotically. The rows must be a sample that no classifier was fitted to.

    Of a group without members, and of one of which nobody or everybody is decided positive, there is no variance to judge
    by, and the bound is then 0.

    Args:
        predictions: (n, L) decisions, a column per classifier: booleans, 0 and 1, or -1 and +1.
        sensitive: binary or categorical attributes of the n rows, as `read_sensitive` takes them.
        confidence: the probability that all bounds are true.
        seed: the seed of the draws behind the critical value; the same one gives the same bounds.

    Example:
        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> score, sex = rng.normal(size=4000), rng.integers(0, 2, 4000)
        >>> bounds = p_rule_bounds(np.stack([score > 0, score > 0.1 * sex], axis=1), sex)
        >>> bool(np.all(bounds.lower < bounds.estimate)), bool(np.all(bounds.lower > 0.8))
        (True, True)
    """
    if not 0 < confidence < 1:
        raise ValueError(f"confidence is {confidence!r}; expected a number between 0 and 1.")
    read = read_sensitive(sensitive)
    given = np.asarray(predictions)
    if given.ndim not in (1, 2) or len(given) != len(read) or not given.size:
        raise ValueError(
            f"predictions has shape {given.shape}; expected {len(read):,} rows, as sensitive_features has, and a column "
            "for each classifier."
        )
    flat = is_positive(given.reshape(-1), "predictions", given.size).reshape(len(read), -1)
    # equal classifiers need no second bound; without this, their number would still change the random draws
    distinct, back = np.unique(flat, axis=1, return_inverse=True)
    rates = _rates(distinct.astype(np.float64), read)
    critical = _critical_value(rates, confidence, seed)
    ratio, error = _ratios(rates)
    known = np.isfinite(error)
    bounds = np.zeros_like(ratio)
    # of both orders of a pair, the smaller exp(log ratio - critical error)
    bounds[known] = ratio[known] * np.exp(-critical * error[known])
    worst = np.argmin(np.where(np.isnan(ratio), np.inf, ratio), axis=0)
    smallest, its_error = (np.take_along_axis(a, worst[None], axis=0)[0] for a in (ratio, error))
    back = np.ravel(back)
    return PRuleBounds(smallest[back], bounds.min(axis=0)[back], its_error[back], critical)


class _Rates(NamedTuple):
    """Selection rates of C groups, those of all attributes one after the other, under L classifiers."""

    decided: np.ndarray  # (n, L), 0 or 1
    members: np.ndarray  # (C, n), which rows a group has
    rate: np.ndarray  # (C, L)
    variance: np.ndarray  # (C, L), of log rate; infinite where it cannot be estimated
    pairs: tuple[np.ndarray, np.ndarray]  # the groups g and h of each pair of one attribute, g < h


def _rates(decided: np.ndarray, read: Sensitive) -> _Rates:
    codes = [read.groups(i) for i in range(len(read.attributes))]
    cells = [(i, c) for i, attribute in enumerate(read.attributes) for c in range(len(attribute.groups))]
    members = np.stack([codes[i] == c for i, c in cells])
    counts = members.sum(axis=1, keepdims=True)
    rate = np.where(counts > 0, members.astype(np.float64) @ decided / np.maximum(counts, 1), np.nan)
    regular = (rate > 0) & (rate < 1)
    safe = np.where(regular, rate, 0.5)
    variance = np.where(regular, (1 - safe) / (np.maximum(counts, 1) * safe), np.inf)
    pairs = [(g, h) for g, h in combinations(range(len(cells)), 2) if cells[g][0] == cells[h][0]]
    first, second = np.array(pairs).T
    return _Rates(decided, members, rate, variance, (first, second))


def _ratios(rates: _Rates) -> tuple[np.ndarray, np.ndarray]:
    """For each pair, the smaller rate over the larger and the standard error of its logarithm; both (pairs, L)."""
    g, h = rates.pairs
    small, large = np.minimum(rates.rate[g], rates.rate[h]), np.maximum(rates.rate[g], rates.rate[h])
    ratio = np.where(large > 0, small / np.where(large > 0, large, 1), np.nan)
    return ratio, np.sqrt(rates.variance[g] + rates.variance[h])  # groups of one attribute share no row


def _critical_value(rates: _Rates, confidence: float, seed: int) -> float:
    """The quantile of the largest |error| / standard error over all pairs and classifiers; infinite if there is none."""
    error = _ratios(rates)[1]
    if not np.any(np.isfinite(error)):
        return float("inf")
    values, vectors = np.linalg.eigh(_covariance(rates))
    kept = values > 1e-12 * values[-1]
    root = (vectors[:, kept] * np.sqrt(values[kept])).T
    rng = np.random.default_rng(seed)
    largest = np.zeros(DRAWS)
    for draws in np.split(np.arange(DRAWS), 20):  # in parts, for memory
        log_rates = (rng.standard_normal((len(draws), len(root))) @ root).reshape(len(draws), *rates.rate.shape)
        for g, h, e in zip(*rates.pairs, error, strict=True):
            size = np.abs(log_rates[:, g] - log_rates[:, h]) / e
            largest[draws] = np.maximum(largest[draws], size.max(axis=1))
    return float(np.quantile(largest, confidence))


def _covariance(rates: _Rates) -> np.ndarray:
    """The covariance of the log rates of all groups and classifiers, (C L, C L), by their influence functions.

    It is 0 where a variance is not known.
    """
    c, classifiers = rates.rate.shape
    known = np.isfinite(rates.variance)
    counts = np.maximum(rates.members.sum(axis=1, keepdims=True), 1)
    scale = np.where(known, 1 / (counts * np.where(known, rates.rate, 1)), 0)
    covariance = np.zeros((c, classifiers, c, classifiers))
    for g in range(c):
        for h in range(c):
            rows = rates.members[g] & rates.members[h]
            if rows.any():
                left, right = ((rates.decided[rows] - rates.rate[k]) * scale[k] for k in (g, h))
                covariance[g, :, h] = left.T @ right
    return covariance.reshape(c * classifiers, c * classifiers)
