"""Notions of fairness: whose rates of positive decisions are to be alike."""

from typing import NamedTuple

import numpy as np

from tightrope.learn.fairness.sensitive import Sensitive

FOUR_FIFTHS = 0.8  # share of the largest rate of a group that every other is to have: the usual 80 % rule
NOTIONS: dict[str, tuple[bool | None, ...]] = {
    "demographic_parity": (None,),
    "equal_opportunity": (True,),
    "false_positive_rate_parity": (False,),
    "equalized_odds": (True, False),
}
"""For each notion the labels among whose owners groups are compared: None is everybody, whatever the label."""

RATES: dict[bool | None, str] = {None: "selected", True: "true positives", False: "false positives"}
"""What the rate of positive decisions is called among the owners of a label."""

AMONG = {None: "", True: " with a positive label", False: " with a negative label"}
"""What is said of a group after its name."""

GIVEN = {None: "", True: " | y=1", False: " | y=0"}
"""What is said of a covariance after its name, where a notion has several."""


def owners(label: bool | None, positive: np.ndarray) -> np.ndarray:
    """Which rows have a label, given which are positive; all of them for None.

    Example:
        >>> owners(False, np.array([True, False])).tolist(), owners(None, np.array([True, False])).tolist()
        ([False, True], [True, True])
    """
    return np.ones(len(positive), bool) if label is None else positive == label


def labels_of(notion: str) -> tuple[bool | None, ...]:
    """Among the owners of which labels decisions are measured: everybody, and those whom a notion compares.

    Example:
        >>> labels_of("equal_opportunity")
        (None, True)
    """
    return tuple(dict.fromkeys((None, *NOTIONS[notion])))


class Cells(NamedTuple):
    """Groups of people whose rates are compared.

    Attributes:
        members: (cells, n), which rows a cell has.
        pairs: (pairs, 2), the ordered pairs that are compared: groups of one attribute, among owners of one label.
        names: what to call each cell: "sex=F", "sex=F with a positive label".
    """

    members: np.ndarray
    pairs: np.ndarray
    names: tuple[str, ...]

    def take(self, rows: np.ndarray) -> "Cells":
        """The same cells with some of the rows."""
        return self._replace(members=self.members[:, rows])

    def means(self, weight: np.ndarray) -> np.ndarray:
        """(cells, n), what each row counts for in the mean over a cell; zeros for a cell without weight."""
        counted = self.members * weight
        total = counted.sum(axis=1, keepdims=True)
        return counted / np.where(total > 0, total, 1)


def effective_rates(means: np.ndarray, decided: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rates of cells, and of how many rows of equal weight they would be known as well.

    A weighted rate r has the variance sum w^2 (d - r)^2 / (sum w)^2; as r (1 - r) / n this is the variance of a score test
    near r. Weights that go with decisions make n smaller than Kish's (sum w)^2 / sum w^2, which is taken where it is less:
    the weights of a handful of decisions say little.

    Args:
        means: (cells, n), what each row counts for in the mean over a cell.
        decided: (n,), decisions: 0 and 1, or what rows add to a rate.

    Example:
        >>> rates, n = effective_rates(np.full((1, 100), 0.01), np.arange(100) < 20)
        >>> float(rates[0].round(6)), float(n[0].round(6))
        (0.2, 100.0)
    """
    squares = means**2
    total = squares.sum(axis=1)
    kish = np.where(total > 0, 1 / np.where(total > 0, total, 1), 0.0)
    mean = means @ decided
    spread = squares @ decided**2 - 2 * mean * (squares @ decided) + mean**2 * total
    rates = np.clip(mean, 0.0, 1.0)
    known = (rates > 0) & (rates < 1) & (spread > 0)
    return rates, np.where(known, np.minimum(kish, rates * (1 - rates) / np.where(known, spread, 1)), kish)


def cells_of(sensitive: Sensitive, positive: np.ndarray, notion: str) -> Cells:
    """The cells that a notion compares, attribute by attribute.

    Args:
        sensitive: binary or categorical attributes.
        positive: (n,) booleans, the true labels.
        notion: one of `NOTIONS`.

    Example:
        >>> from tightrope.fairness import read_sensitive
        >>> positive = np.array([True, True, False, True])
        >>> cells = cells_of(read_sensitive(["F", "M", "M", "F"], name="sex"), positive, "equal_opportunity")
        >>> cells.names, cells.members.sum(axis=1).tolist(), cells.pairs.tolist()
        (('sex=F with a positive label', 'sex=M with a positive label'), [2, 1], [[0, 1], [1, 0]])
    """
    members, names, pairs = [], [], []
    for i, attribute in enumerate(sensitive.attributes):
        codes = sensitive.groups(i)
        for label in NOTIONS[notion]:
            counted, first = owners(label, positive), len(members)
            for code, group in enumerate(attribute.groups):
                members.append((codes == code) & counted)
                names.append(f"{attribute.name}={group}{AMONG[label]}")
            block = range(first, len(members))
            pairs += [(a, b) for a in block for b in block if a != b]
    return Cells(np.stack(members), np.array(pairs), tuple(names))
