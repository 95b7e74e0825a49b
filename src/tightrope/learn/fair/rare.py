"""Which groups a fair classifier treats alike: those large enough to be judged, and the rest as one."""

import warnings
from typing import Any

import numpy as np
from scipy.special import ndtri

from tightrope.confidence import USUAL
from tightrope.learn.datasets.features import merge_rare
from tightrope.learn.fairness.intersections import combinations_of, grouped_attributes, intersection, with_intersection
from tightrope.learn.fairness.notions import FOUR_FIFTHS
from tightrope.learn.fairness.sensitive import MOST_GROUPS, Sensitive, in_words


def smallest_group(rate: float) -> int:
    """How many people a group must have for a rate equal to everybody's to show the 80 % rule with 95 % confidence.

    Of a smaller one nothing can be promised, although it is treated like all others.

    The logarithm of a rate r of n people has the variance (1 - r) / (n r), and log 0.8 must lie 1.645 deviations away.

    Example:
        >>> smallest_group(0.5), smallest_group(0.1)
        (55, 490)
    """
    return int(np.ceil((ndtri(USUAL) / np.log(FOUR_FIFTHS)) ** 2 * (1 - rate) / rate))


def judgeable(read: Sensitive, counted: np.ndarray, rate: float) -> Sensitive:
    """The attributes, of which groups too rare to be judged are one, with a warning.

    Where even all groups but the largest are too rare together they are one all the same, and it is left to the judge to
    say what can be promised of them.

    Args:
        read: the attributes of n rows.
        counted: (n,) booleans, the rows that count.
        rate: what share of them is expected to be decided positive.
    """
    least = smallest_group(rate)
    for i in grouped_attributes(read):
        attribute = read.attributes[i]
        counts = np.bincount(read.groups(i), weights=counted, minlength=len(attribute.groups)).astype(int)
        if len(counts) < 3 or counts.min() >= least:
            continue
        largest = int(np.argmax(counts))
        groups = merge_rare(counts, least)
        groups = groups if len(groups) > 1 else [[largest], [c for c in range(len(counts)) if c != largest]]
        groups = sorted(groups, key=len)  # what is merged comes last
        cells = [((attribute.groups[code],), counts[code]) for code in groups[-1]]
        _warn_of_merged(f"the groups of {attribute.name}", cells, least)
        read = read.merge(i, groups)
    return read


def _warn_of_merged(of: str, cells: list[tuple[tuple[Any, ...], Any]], least: int) -> None:
    few = ", ".join(f"{in_words(cell)} ({count:,} rows)" for cell, count in cells[:6])
    warnings.warn(
        f"Of {of}, {len(cells)} are treated as one, because some have fewer than {least:,} rows and nothing could be shown "
        f"of them: {few}{', ...' if len(cells) > 6 else ''}. merge_rare=False (--no-merge-rare) keeps them apart.",
        stacklevel=5,
    )


def intersected(read: Sensitive, counted: np.ndarray, rate: float, merge: bool = True) -> Sensitive:
    """The attributes and, where there are several with groups, their intersection; its rare groups are one, with a warning.

    Args:
        read: the attributes of n rows.
        counted: (n,) booleans, the rows that count.
        rate: what share of them is expected to be decided positive.
        merge: whether those are merged that cannot be judged, or only as many as are too many.
    """
    if len(grouped_attributes(read)) < 2:
        return read
    cells, places = combinations_of(read)
    if len(cells) <= max(len(read.attributes[i].groups) for i in grouped_attributes(read)):
        return read  # they are the groups of one of the attributes
    names = [read.attributes[i].name for i in grouped_attributes(read)]
    counts = np.bincount(places, counted, len(cells)).astype(int)
    least = smallest_group(rate) if merge else 0
    if len(cells) > MOST_GROUPS:
        least = max(least, int(np.sort(counts)[-MOST_GROUPS + 1]))
    merged = sorted(merge_rare(counts, least), key=len)  # what is merged comes last, and takes what is not known yet
    if len(merged) == 1:
        warnings.warn(
            f"The groups that {' and '.join(names)} make together are not constrained: of {len(cells)} all but one at "
            f"most have fewer than {least:,} rows, and nothing could be shown of them.",
            stacklevel=4,
        )
        return read
    if len(merged[-1]) > 1:
        _warn_of_merged(
            f"the groups that {' and '.join(names)} make together", [(cells[c], counts[c]) for c in merged[-1]], least
        )
    return with_intersection(read, intersection(read, [[cells[c] for c in group] for group in merged]))
