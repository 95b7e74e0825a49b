"""How fair a classifier's decisions are: rates by group, the p%-rule, and what can be said of it with confidence."""

from itertools import combinations
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tightrope.given import unmasked
from tightrope.learn.fairness.sensitive import Sensitive, read_sensitive
from tightrope.learn.sentences import in_a_sentence

if TYPE_CHECKING:
    import pandas as pd

DRAWS = 40_000
"""Draws behind a critical value; derived: its own standard error is then about 0.01."""


def group_rates(
    y_pred: Any, sensitive: Any, y_true: Any = None, sample_weight: Any = None, pos_label: Any = None
) -> "pd.DataFrame":
    """A row for each group of each attribute: how many people it has and what is decided about them.

    Args:
        y_pred: the decisions: booleans, 0 and 1, -1 and +1, or two labels as text; see `is_positive`.
        sensitive: binary or categorical attributes, as `read_sensitive` takes them.
        y_true: the labels, in any of the same forms.
        sample_weight: a weight for each row, not negative: rates are weighted, counts are of the rows with weight.
        pos_label: the label that means being selected; by default 1, or the last in order of two labels in text.

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
    weight = weights(sample_weight, len(read))
    pos_label = last_label(y_pred, y_true) if pos_label is None else pos_label
    positive = is_positive(y_pred, "y_pred", len(read), pos_label)
    truth = None if y_true is None else is_positive(y_true, "y_true", len(read), pos_label)
    rows = []
    for i, attribute in enumerate(read.attributes):
        codes = read.groups(i)
        for code, group in enumerate(attribute.groups):
            members = (codes == code) & (weight > 0)
            row = {"attribute": attribute.name, "group": group, "count": int(members.sum())}
            row["selection_rate"] = _share(positive, weight * members)
            if truth is not None:
                row["accuracy"] = _share(positive == truth, weight * members)
                row["true_positive_rate"] = _share(positive, weight * (members & truth))
            rows.append(row)
    return pd.DataFrame(rows)


def p_rule(y_pred: Any, sensitive: Any, sample_weight: Any = None, pos_label: Any = None) -> float:
    """The p%-rule as a share: the smallest ratio of two groups' selection rates, over the groups of every attribute.

    1 is equal treatment; "the 80 % rule" asks for 0.8. It is 0 when a group has no positives while another has some, and
    NaN when nobody is decided positive: nothing can then be compared. Groups without members are left out.

    Args:
        y_pred: the decisions: booleans, 0 and 1, -1 and +1, or two labels as text; see `is_positive`.
        sensitive: binary or categorical attributes, as `read_sensitive` takes them.
        sample_weight: a weight for each row, not negative.
        pos_label: the label that means being selected; by default 1, or the last in order of two labels in text.

    Example:
        >>> p_rule([1, 0, 1, 1], ["F", "F", "M", "M"])
        0.5
        >>> p_rule(["yes", "no", "yes", "yes"], ["F", "F", "M", "M"])
        0.5
        >>> p_rule([1, 0, 1, 1], ["F", "F", "M", "M"], sample_weight=[3, 1, 1, 1])
        0.75
    """
    rates = group_rates(y_pred, sensitive, sample_weight=sample_weight, pos_label=pos_label)
    ratios = [_smallest_ratio(part.to_numpy(float)) for _, part in rates.groupby("attribute")["selection_rate"]]
    return float(np.fmin.reduce(ratios))  # NaN only where all are


def _share(of: np.ndarray, weight: np.ndarray) -> float:
    return float(weight @ of / weight.sum()) if weight.any() else float("nan")


def _smallest_ratio(rates: np.ndarray) -> float:
    rates = rates[~np.isnan(rates)]
    return float(rates.min() / rates.max()) if len(rates) > 1 and rates.max() > 0 else float("nan")


def is_positive(y: Any, name: str, n: int, pos_label: Any = None) -> np.ndarray:
    """Labels or decisions as booleans: True for True, 1 and +1; False for False, 0 and -1; or by `pos_label`.

    Of two labels in text the last in order is the positive one, as it is for the classifiers here and in scikit-learn.

    Args:
        y: n values: booleans, 0 and 1, -1 and +1, or two labels in text. Any two values with `pos_label`.
        name: what to call them in an error.
        n: how many are expected.
        pos_label: the positive label.

    Example:
        >>> is_positive(["denied", "approved"], "y_pred", 2, pos_label="approved").tolist()
        [False, True]
    """
    with in_a_sentence(name, "a label or decision for each row"):
        given = np.asarray(unmasked(name, y))
    if given.shape != (n,):
        raise ValueError(f"{name} has shape {given.shape}; expected {n:,} values, one per row.")
    if pos_label is None:
        numbers = _numbers(given)
        found = set(np.unique(numbers).tolist())
        if found <= {0.0, 1.0} or found <= {-1.0, 1.0}:
            return numbers > 0
        pos_label = last_label(given)
    different = list(dict.fromkeys(given.tolist()))
    some = ", ".join(repr(value) for value in different[:4])
    if pos_label is None:
        raise ValueError(
            f"{name} has values such as {some}; expected booleans, 0 and 1, or -1 and +1. For other labels, say which of "
            "them means being selected: pos_label=..."
        )
    if len({*different, pos_label}) > 2:
        raise ValueError(f"{name} has values such as {some}; expected two labels, one of them pos_label={pos_label!r}.")
    return np.array([value == pos_label for value in given.tolist()], bool)


def last_label(*labels: Any) -> Any:
    """The last in order of the two labels in text that these arrays have together; None where they have no such two.

    Example:
        >>> from tightrope.learn.fairness.metrics import last_label
        >>> last_label(["no", "yes"], ["no", "no"])
        'yes'
    """
    with in_a_sentence("labels", "a label for each row"):
        arrays = [np.asarray(given) for given in labels if given is not None]
    values = [value for array in arrays for value in array.ravel().tolist()]
    if any(array.dtype.kind in "biufc" for array in arrays) or not all(isinstance(value, str) for value in values):
        return None
    return max(values) if len(set(values)) == 2 else None


def _numbers(given: np.ndarray) -> np.ndarray:
    try:
        return given.astype(np.float64)
    except (TypeError, ValueError):
        return np.full(len(given), np.nan)


def weights(sample_weight: Any, n: int) -> np.ndarray:
    """The weights of n rows, the largest of them 1; ones where none are given.

    Example:
        >>> from tightrope.learn.fairness.metrics import weights
        >>> weights([1.0, 4.0], 2).tolist()
        [0.25, 1.0]
    """
    numbers = checked_weights(sample_weight, n)
    return numbers / numbers.max()


def checked_weights(sample_weight: Any, n: int) -> np.ndarray:
    """n finite numbers of at least 0, some of them positive; ones for None. Anything else is refused.

    Example:
        >>> checked_weights([1, 2], 2).tolist()
        [1.0, 2.0]
    """
    if sample_weight is None:
        return np.ones(n)
    with in_a_sentence("sample_weight", "a number for each row"):
        given = np.asarray(unmasked("sample_weight", sample_weight))
        if given.shape != (n,):
            raise ValueError(f"sample_weight has shape {given.shape}; expected {n:,} values, one per row.")
        numbers = given.astype(np.float64)
    if not (np.all(np.isfinite(numbers)) and np.all(numbers >= 0) and np.any(numbers > 0)):
        raise ValueError(
            "sample_weight has values that are negative or not finite, or no positive one; expected weights."
        )
    return numbers


# ---- with confidence -------------------------------------------------------------------------------------------------


class PRuleBounds(NamedTuple):
    """Lower confidence bounds for the p%-rule of L classifiers, all of them true at once.

    Attributes:
        estimate: (L,) the p%-rule on the rows given, as `p_rule`: NaN where nobody is decided positive.
        lower: (L,) its lower bounds; 0 where nothing can be said, never NaN.
        error: (L,) the standard error of the logarithm of the estimate; infinite where nothing can be said.
        critical: how many standard errors lie between a log ratio and its bound.
        pair: (L, 2) the group whose rate over another's has the lowest bound, and that other one. Groups are counted
            through all attributes, as `group_rates` lists them.

    Example:
        >>> from tightrope.learn.fairness.metrics import p_rule_bounds
        >>> bounds = p_rule_bounds([1] * 40 + [0] * 60 + [1] * 45 + [0] * 55, ["a"] * 100 + ["b"] * 100)
        >>> float(bounds.estimate[0].round(3)), bool(bounds.lower[0] < bounds.estimate[0])
        (0.889, True)
    """

    estimate: np.ndarray
    lower: np.ndarray
    error: np.ndarray
    critical: float
    pair: np.ndarray


def p_rule_bounds(
    predictions: Any, sensitive: Any, confidence: float = 0.95, seed: int = 0, sample_weight: Any = None
) -> PRuleBounds:
    """Lower confidence bounds for the p%-rule that hold at once for all classifiers on a path.

    For groups g and h of one attribute, log r_g - log r_h of two selection rates is asymptotically normal with the
    influence function 1{s=g} (yhat - r_g) / (pi_g r_g) - 1{s=h} (yhat - r_h) / (pi_h r_h). The bounds of all classifiers
    and all ordered pairs of groups use one critical value, the `confidence` quantile of the maximum of a centred Gaussian
    vector that is correlated as these functions are on the rows. So whichever classifier is chosen by its bound, the
    bound is true with probability `confidence`, asymptotically. The rows must be a sample that no classifier was fitted to.

    With weights the rates are weighted and so are the influence functions: a weight of two counts twice in a rate and
    is still one person. If all weights are equal, the bound is the one without; the more they differ, the fewer rows it is
    worth. Rows of weight 0 are as if they were not there.

    Of a group without members, and of one of which nobody or everybody is decided positive, there is no variance to judge
    by, and the bound is then 0.

    Args:
        predictions: (n, L) decisions, a column per classifier: booleans, 0 and 1, -1 and +1, or two labels in text.
        sensitive: binary or categorical attributes of the n rows, as `read_sensitive` takes them.
        confidence: the probability that all bounds are true.
        seed: the seed of the draws behind the critical value; the same one gives the same bounds.
        sample_weight: a weight for each row, not negative.

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
    weight = weights(sample_weight, len(read))
    counted = weight > 0
    flat, read, weight = flat[counted], read.take(counted), weight[counted]
    # equal classifiers need no second bound; without this, their number would still change the random draws
    columns = np.array([column.tobytes() for column in flat.T], object)  # as bytes they are sorted ten times as fast
    _, first, back = np.unique(columns, return_index=True, return_inverse=True)
    rates = _rates(flat[:, first].astype(np.float64), read, weight)
    critical = _critical_value(rates, confidence, seed)
    ratio, error = _ratios(rates)
    known = np.isfinite(error)
    bounds = np.zeros_like(ratio)
    # of both orders of a pair, the smaller exp(log ratio - critical error)
    bounds[known] = ratio[known] * np.exp(-critical * error[known])
    comparable = np.where(np.isnan(ratio), np.inf, ratio)
    worst = np.argmin(comparable, axis=0)
    smallest, its_error = (np.take_along_axis(a, worst[None], axis=0)[0] for a in (ratio, error))
    return PRuleBounds(
        smallest[back], bounds.min(axis=0)[back], its_error[back], critical, _binding(rates, bounds, comparable)[back]
    )


def _binding(rates: "_Rates", bounds: np.ndarray, ratio: np.ndarray) -> np.ndarray:
    """(L, 2): of the pair with the lowest bound, or of the lowest ratio among these, the lower group and the other."""
    lowest = np.lexsort((ratio, bounds), axis=0)[0]
    g, h = (side[lowest] for side in rates.pairs)
    each = np.arange(len(lowest))
    swapped = rates.rate[g, each] > rates.rate[h, each]
    return np.stack([np.where(swapped, h, g), np.where(swapped, g, h)], axis=1)


class _Rates(NamedTuple):
    """Selection rates of C groups, those of all attributes one after the other, under L classifiers."""

    decided: np.ndarray  # (n, L), 0 or 1
    members: np.ndarray  # (C, n), which rows a group has
    weight: np.ndarray  # (n,), what each row weighs
    rate: np.ndarray  # (C, L)
    variance: np.ndarray  # (C, L), of log rate; infinite where it cannot be estimated
    pairs: tuple[np.ndarray, np.ndarray]  # the groups g and h of each pair of one attribute, g < h


def _rates(decided: np.ndarray, read: Sensitive, weight: np.ndarray) -> _Rates:
    codes = [read.groups(i) for i in range(len(read.attributes))]
    cells = [(i, c) for i, attribute in enumerate(read.attributes) for c in range(len(attribute.groups))]
    members = np.stack([codes[i] == c for i, c in cells])
    total, squares = ((members @ w)[:, None] for w in (weight, weight**2))
    rate = np.where(total > 0, (members * weight) @ decided / np.where(total > 0, total, 1), np.nan)
    regular = (rate > 0) & (rate < 1)
    safe = np.where(regular, rate, 0.5)
    positive = (members * weight**2) @ decided
    spread = positive - 2 * safe * positive + safe**2 * squares  # sum w^2 (d - r)^2, where d^2 = d
    variance = np.where(regular, spread / (np.where(total > 0, total, 1) * safe) ** 2, np.inf)
    pairs = [(g, h) for g, h in combinations(range(len(cells)), 2) if cells[g][0] == cells[h][0]]
    first, second = np.array(pairs).T
    return _Rates(decided, members, weight, rate, variance, (first, second))


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
    total = (rates.members @ rates.weight)[:, None]
    scale = np.where(known, 1 / np.where(known, total * rates.rate, 1), 0)
    covariance = np.zeros((c, classifiers, c, classifiers))
    for g in range(c):
        for h in range(c):
            rows = rates.members[g] & rates.members[h]
            if rows.any():
                left, right = (
                    rates.weight[rows, None] * (rates.decided[rows] - rates.rate[k]) * scale[k] for k in (g, h)
                )
                covariance[g, :, h] = left.T @ right
    return covariance.reshape(c * classifiers, c * classifiers)
