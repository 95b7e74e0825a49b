"""Intersections: the groups that several sensitive attributes make together, such as the women of one race."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from tightrope.learn.fairness.sensitive import INTERSECTION, Attribute, Sensitive, called

Cell = tuple[Any, ...]
"""A combination of values, one for each attribute that has groups."""


def combinations_of(read: Sensitive) -> tuple[list[Cell], np.ndarray]:
    """The combinations that some row has, in the order of their values, and for each row the place of its own.

    Attributes without groups are left out.

    Example:
        >>> import pandas as pd
        >>> from tightrope.learn.fairness.sensitive import read_sensitive
        >>> people = pd.DataFrame({"sex": ["F", "M", "F"], "race": ["A", "B", "A"], "age": [20, 30, 45]})
        >>> combinations_of(read_sensitive(people))
        ([('F', 'A'), ('M', 'B')], array([0, 1, 0]))
    """
    grouped = grouped_attributes(read)
    codes = np.stack([read.groups(i) for i in grouped], axis=1)
    found, places = np.unique(codes, axis=0, return_inverse=True)
    groups = [read.attributes[i].groups for i in grouped]
    return [tuple(g[c] for g, c in zip(groups, row, strict=True)) for row in found], np.ravel(places)


def grouped_attributes(read: Sensitive) -> list[int]:
    """The places of the attributes that have groups of their own: neither continuous ones nor intersections."""
    return [i for i, a in enumerate(read.attributes) if a.kind not in ("continuous", INTERSECTION)]


def intersection(read: Sensitive, groups: Sequence[Sequence[Cell]]) -> Attribute:
    """The intersection of all attributes with groups, as an attribute of its own.

    Args:
        read: the attributes.
        groups: the combinations that make each of its groups. The last group also takes every combination that is in none.
    """
    name = intersection_name([read.attributes[i].name for i in grouped_attributes(read)])
    cells = tuple(tuple(map(tuple, group)) for group in groups)
    return Attribute(name, INTERSECTION, tuple(called(group) for group in cells), cells)


def intersection_name(names: Sequence[str]) -> str:
    """What the intersection of attributes with these names is called: "sex & race"."""
    return " & ".join(names)


def with_intersection(read: Sensitive, attribute: Attribute) -> Sensitive:
    """The same attributes, and after them this intersection of theirs.

    Example:
        >>> from tightrope.learn.fairness.sensitive import read_sensitive
        >>> read = read_sensitive([["F", "A"], ["M", "A"], ["F", "B"], ["M", "B"]])
        >>> both = intersection(read, [[("F", "A")], [("M", "B")], [("F", "B"), ("M", "A")]])
        >>> both.groups
        ('F & A', 'M & B', 'F & B or M & A')
        >>> with_intersection(read, both).groups(2)
        array([0, 2, 2, 1])
    """
    place = {cell: k for k, group in enumerate(attribute.cells) for cell in group}
    cells, places = combinations_of(read)
    codes = np.array([place.get(cell, len(attribute.cells) - 1) for cell in cells])[places]
    columns = (codes[:, None] == np.arange(len(attribute.groups))).astype(np.float64)
    return dataclasses.replace(
        read,
        attributes=(*read.attributes, attribute),
        values=(*read.values, np.array(attribute.groups, object)[codes]),
        columns=np.hstack([read.columns, columns]),
        owners=(*read.owners, *[len(read.attributes)] * columns.shape[1]),
        names=(*read.names, *(f"{attribute.name}={group}" for group in attribute.groups)),
    )
