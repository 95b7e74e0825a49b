"""Sensitive attributes: what a column of people's sex, race or age means, and the numbers a covariance is made of."""

import dataclasses
from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tightrope.given import unmasked
from tightrope.learn.sentences import in_a_sentence

if TYPE_CHECKING:
    import pandas as pd

MOST_GROUPS = 50
"""A column with more groups than this is taken for an identifier; a guess."""

FEW_CODES = 10
"""Numbers that are whole and of at most so many different values look like codes of groups; a guess."""

KINDS = ("categorical", "continuous")
"""What a user may say that a column of numbers is."""

INTERSECTION = "intersection"


@dataclasses.dataclass(frozen=True)
class Attribute:
    """One sensitive attribute.

    Attributes:
        name: what it is called, "sex".
        kind: "binary", "categorical", "continuous", or "intersection" of all that are binary or categorical.
        groups: its values, sorted; () for a continuous attribute, which has no groups.
        cells: for an intersection, the combinations of values that make each of its groups; for an attribute of which some
            groups were made one, the values of each, likewise.
    """

    name: str
    kind: str
    groups: tuple[Any, ...] = ()
    cells: tuple[tuple[tuple[Any, ...], ...], ...] = ()

    @property
    def merged(self) -> tuple[str, ...]:
        """The values, or the combinations of values, that are treated as one with others."""
        return tuple(in_words(cell) for group in self.cells if len(group) > 1 for cell in group)


def in_words(cell: tuple[Any, ...]) -> str:
    """A combination of values: "F & A", or "F & (A or B)" where values are merged groups themselves."""
    values = list(map(str, cell))
    return values[0] if len(values) == 1 else " & ".join(f"({v})" if " or " in v else v for v in values)


def called(group: Sequence[tuple[Any, ...]]) -> str:
    """A group of combinations of values in words: "F & A", or "F & A or M & B or 3 more"."""
    most = 2 if len(group) > 3 else 3
    words = [in_words(cell) for cell in group[:most]]
    return " or ".join([*words, f"{len(group) - most} more"] if len(group) > most else words)


@dataclasses.dataclass(frozen=True, eq=False)
class Sensitive:
    """Sensitive attributes of n people, as given and as K columns of numbers; made by `read_sensitive`.

    Attributes:
        attributes: what is known of each attribute.
        values: the columns as given, one array of n values per attribute.
        columns: (n, K), float64. A binary attribute is one column, 1 for the second of its sorted values; a categorical
            one is a column of 0 and 1 per group, that group against the rest; a continuous one is the number itself.
        owners: for each of the K columns, the index of its attribute.
        names: for each of the K columns, what to call it: "sex", "race=Black", "age".
    """

    attributes: tuple[Attribute, ...]
    values: tuple[np.ndarray, ...]
    columns: np.ndarray
    owners: tuple[int, ...]
    names: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.columns)

    def groups(self, i: int) -> np.ndarray:
        """For each row, the place of its group in `attributes[i].groups`."""
        attribute = self.attributes[i]
        if attribute.kind == "continuous":
            raise TypeError(
                f"{attribute.name} is continuous and has no groups; expected a binary or categorical attribute. Cut it "
                "into ranges first, e.g. with pandas.cut, where groups are wanted."
            )
        columns = self.columns[:, [k for k, owner in enumerate(self.owners) if owner == i]]
        return columns[:, 0].astype(np.int64) if attribute.kind == "binary" else columns.argmax(axis=1)

    def strata(self, positive: np.ndarray) -> np.ndarray:
        """Labels and groups together, to split rows by; combinations of fewer than ten rows fall back to the label."""
        codes = positive.astype(int)
        for i, attribute in enumerate(self.attributes):
            if attribute.kind != "continuous":
                codes = np.unique(codes * len(attribute.groups) + self.groups(i), return_inverse=True)[1]
        return np.where(np.bincount(codes)[codes] < 10, -1 - positive.astype(int), codes)

    def only(self, kept: Sequence[int]) -> "Sensitive":
        """The same people with some of the attributes, given by their places."""
        columns = [k for i in kept for k, owner in enumerate(self.owners) if owner == i]
        return Sensitive(
            attributes=tuple(self.attributes[i] for i in kept),
            values=tuple(self.values[i] for i in kept),
            columns=self.columns[:, columns],
            owners=tuple(list(kept).index(self.owners[k]) for k in columns),
            names=tuple(self.names[k] for k in columns),
        )

    def merge(self, i: int, groups: Sequence[Sequence[int]]) -> "Sensitive":
        """The same with some groups of a categorical attribute made one.

        Args:
            i: the place of the attribute.
            groups: the places of the old groups that each of the new ones has.

        Example:
            >>> read = read_sensitive(["A", "B", "C", "A"], "race").merge(0, [[0], [1, 2]])
            >>> read.attributes[0].groups, read.groups(0), read.attributes[0].merged
            (('A', 'B or C'), array([0, 1, 1, 0]), ('B', 'C'))
        """
        old, mine = self.attributes[i], [k for k, owner in enumerate(self.owners) if owner == i]
        cells = tuple(tuple((old.groups[code],) for code in group) for group in groups)
        new = Attribute(old.name, old.kind, tuple(c[0][0] if len(c) == 1 else called(c) for c in cells), cells)
        columns = np.stack([self.columns[:, [mine[code] for code in group]].sum(axis=1) for group in groups], axis=1)
        before, after = mine[0], mine[-1] + 1
        return dataclasses.replace(
            self,
            attributes=(*self.attributes[:i], new, *self.attributes[i + 1 :]),
            columns=np.hstack([self.columns[:, :before], columns, self.columns[:, after:]]),
            owners=(*self.owners[:before], *[i] * len(groups), *self.owners[after:]),
            names=(*self.names[:before], *_column_names(new), *self.names[after:]),
        )

    def take(self, rows: Sequence[int] | np.ndarray) -> "Sensitive":
        """The rows given, by number or by a mask; attributes and groups stay, even where no row of a group is left."""
        rows = np.asarray(rows)
        return dataclasses.replace(self, values=tuple(v[rows] for v in self.values), columns=self.columns[rows])


def read_sensitive(
    sensitive: Any,
    name: str = "sensitive_features",
    attributes: Sequence[Attribute] | None = None,
    kind: "str | Mapping[Any, str] | None" = None,
) -> Sensitive:
    """Read sensitive attributes from whatever a user has, and say in a sentence what is wrong with them.

    Text, booleans and columns of type category or object are binary when they have two values and categorical when they
    have more. Numbers are binary when they have two values and continuous otherwise: give codes of groups as text or as
    categories, or say `kind="categorical"`.

    Args:
        sensitive: one attribute (1-D) or several (2-D, a column each): an array, a list, or a Series or DataFrame of
            pandas, polars, pyarrow or anything alike. A `Sensitive` is returned as it is.
        name: what the argument is called in errors, and an attribute that has no name of its own.
        attributes: what is known of the attributes from other rows: the same ones are expected, in the same order, and
            these rows need not have all their groups.
        kind: what columns of numbers are: "categorical", a group for each number, or "continuous"; one word for all, or a
            dict by name.

    Example:
        >>> import pandas as pd
        >>> people = pd.DataFrame({"sex": ["F", "M", "F"], "race": ["A", "B", "C"], "age": [20, 30, 45]})
        >>> read = read_sensitive(people)
        >>> [attribute.kind for attribute in read.attributes]
        ['binary', 'categorical', 'continuous']
        >>> read.names
        ('sex', 'race=A', 'race=B', 'race=C', 'age')
        >>> read.columns[1]
        array([ 1.,  0.,  1.,  0., 30.])
    """
    if isinstance(sensitive, Sensitive):
        return sensitive
    with in_a_sentence(name, "text, numbers, booleans or categories, a value for each person"):
        return _read(_named_columns(unmasked(name, sensitive), name), name, attributes, kind)


def _read(
    named: "list[tuple[str, pd.Series[Any]]]", name: str, attributes: Sequence[Attribute] | None, kind: Any
) -> Sensitive:
    """The same from columns with their names."""
    crossed = [attribute for attribute in attributes or () if attribute.kind == INTERSECTION]
    attributes = None if attributes is None else [a for a in attributes if a.kind != INTERSECTION]
    if attributes is None:
        kinds = _kinds(kind, [label for label, _ in named])
        read = [_read_column(label, column, name, kinds.get(label)) for label, column in named]
    elif len(attributes) != len(named):
        known = ", ".join(attribute.name for attribute in attributes)
        raise ValueError(f"{name} has {len(named)} columns; expected {len(attributes)}: {known}.")
    else:
        read = [_read_known(attribute, column, name) for attribute, (_, column) in zip(attributes, named, strict=True)]
    attributes = tuple(attribute for attribute, _, _ in read)
    found = Sensitive(
        attributes=attributes,
        values=tuple(values for _, values, _ in read),
        columns=np.hstack([numbers for _, _, numbers in read]),
        owners=tuple(i for i, attribute in enumerate(attributes) for _ in _column_names(attribute)),
        names=tuple(label for attribute in attributes for label in _column_names(attribute)),
    )
    if crossed:
        from tightrope.learn.fairness.intersections import with_intersection  # which is made of what is read here

        found = with_intersection(found, crossed[0])
    return found


def numbers_like_codes(read: Sensitive) -> list[str]:
    """The continuous attributes that have few values, all of them whole: they may be codes of groups.

    Example:
        >>> numbers_like_codes(read_sensitive([0, 1, 2, 2, 1, 0], "region"))
        ['region']
    """
    found = []
    for i, attribute in enumerate(read.attributes):
        if attribute.kind == "continuous":
            values = np.unique(read.columns[:, read.owners.index(i)])
            if len(values) <= FEW_CODES and len(values) < len(read) and np.all(values == np.round(values)):
                found.append(attribute.name)
    return found


def _kinds(kind: Any, labels: list[str]) -> dict[str, str]:
    """What each column is said to be, by name."""
    if kind is None:
        return {}
    by_name: dict[str, Any] = (
        {str(k): v for k, v in kind.items()} if isinstance(kind, Mapping) else dict.fromkeys(labels, kind)
    )
    strange = [label for label in by_name if label not in labels]
    if strange:
        raise ValueError(f"sensitive_kind is given for {', '.join(strange)}; expected names among {', '.join(labels)}.")
    wrong = next((value for value in by_name.values() if value not in KINDS), None)
    if wrong is not None:
        raise ValueError(f"sensitive_kind is {wrong!r}; expected {' or '.join(map(repr, KINDS))}, or a dict of them.")
    return by_name


def _named_columns(sensitive: Any, name: str) -> list[tuple[str, "pd.Series[Any]"]]:
    """Each attribute's name and values; every kind of input ends here as pandas columns."""
    if hasattr(sensitive, "columns") and hasattr(sensitive, "__getitem__"):  # a DataFrame, of pandas or alike
        labels = list(sensitive.columns)
        if len(set(map(str, labels))) < len(labels):
            raise ValueError(f"{name} has columns {labels}; expected a different name for each.")
        named = [(str(label), sensitive[label]) for label in labels]
    elif _is_column(sensitive):
        label = getattr(sensitive, "name", None)
        named = [(name if label in (None, "") else str(label), sensitive)]
    else:
        columns = _unnamed_columns(sensitive, name)
        named = [(name if len(columns) == 1 else f"{name}[{i}]", column) for i, column in enumerate(columns)]
    if not named or not len(named[0][1]):
        raise ValueError(f"{name} has no {'rows' if named else 'columns'}; expected a value for each person.")
    return [(label, _series(column)) for label, column in named]


def _is_column(sensitive: Any) -> bool:
    """Whether it is a Series, of pandas or alike, or one of pandas' own arrays, such as a Categorical."""
    from pandas.api.extensions import ExtensionArray

    return hasattr(sensitive, "to_list") or isinstance(sensitive, ExtensionArray)


def _unnamed_columns(sensitive: Any, name: str) -> list[Any]:
    """The columns of a list of values, a list of rows, or an array."""
    if isinstance(sensitive, list | tuple):
        if not (sensitive and isinstance(sensitive[0], list | tuple | np.ndarray)):
            return [list(sensitive)]
        if any(np.size(row) != np.size(sensitive[0]) for row in sensitive):
            raise ValueError(f"{name} is a list of rows of different lengths; expected as many values in every row.")
        return [list(column) for column in zip(*sensitive, strict=True)]
    array = np.asarray(sensitive)
    if array.ndim not in (1, 2):
        what = f"has {array.ndim} dimensions" if array.ndim else f"is a {type(sensitive).__name__}"
        raise ValueError(f"{name} {what}; expected one column (1-D) or several (2-D), a row for each person.")
    return [array] if array.ndim == 1 else list(array.T)


def _series(column: Any) -> "pd.Series[Any]":
    import pandas as pd

    if isinstance(column, pd.Series):
        return column.reset_index(drop=True)
    if isinstance(column, list | np.ndarray | pd.Index | pd.api.extensions.ExtensionArray):
        return pd.Series(column)
    # through a list, since other libraries need more packages to make pandas objects, and keep nulls in a mask
    return pd.Series(column.to_list())


def _read_column(
    label: str, column: "pd.Series[Any]", name: str, kind: str | None
) -> tuple[Attribute, np.ndarray, np.ndarray]:
    """The attribute, its values as given, and its columns of numbers; `kind` says what numbers are."""
    from pandas.api.types import is_bool_dtype, is_complex_dtype, is_numeric_dtype

    where = label if label == name else f"{name}: {label}"
    missing = int(column.isna().sum())
    if missing:
        raise ValueError(
            f"{where} has {missing:,} missing values among {len(column):,}; expected none. Drop these rows, or give the "
            "missing ones a group of their own."
        )
    is_number = is_numeric_dtype(column.dtype) and not is_bool_dtype(column.dtype)
    if is_number and is_complex_dtype(column.dtype):
        raise TypeError(f"{where} has complex numbers; expected real numbers, text or categories.")
    values = column.to_numpy(np.float64) if is_number else column.astype(object).to_numpy()
    if is_number and not np.all(np.isfinite(values)):
        raise ValueError(f"{where} has {int(np.sum(~np.isfinite(values))):,} infinite values; expected finite numbers.")
    groups, codes = _groups(column.to_numpy() if is_number else values, where)
    if len(groups) == 1:
        raise ValueError(
            f"{where} has only one value, {groups[0]!r}; expected at least two, since nobody can be treated unlike "
            "anybody else. Leave this attribute out, or give more rows."
        )
    raw = column.to_numpy() if is_number or column.dtype == bool else values
    if kind == "continuous" and not is_number:
        raise TypeError(f"{where} is {column.dtype} and sensitive_kind says continuous; expected numbers.")
    if len(groups) == 2 and kind != "continuous":
        return Attribute(label, "binary", groups), raw, codes[:, None].astype(np.float64)
    if is_number and kind != "categorical":
        return Attribute(label, "continuous"), raw, values[:, None]
    if len(groups) > MOST_GROUPS:
        raise ValueError(
            f"{where} has {len(groups):,} groups; expected at most {MOST_GROUPS}. Is it an identifier rather than an "
            "attribute? Merge rare groups, or give numbers as numbers (float or int) to have them read as continuous."
        )
    one_hot = (codes[:, None] == np.arange(len(groups))).astype(np.float64)
    return Attribute(label, "categorical", groups), raw, one_hot


def _read_known(attribute: Attribute, column: "pd.Series[Any]", name: str) -> tuple[Attribute, np.ndarray, np.ndarray]:
    """The same three for an attribute whose kind and groups are known from other rows."""
    plain = column.to_numpy().tolist() if column.dtype != object else column.tolist()
    if attribute.kind == "continuous":
        try:
            numbers = np.asarray(plain, np.float64)
        except (TypeError, ValueError):
            numbers = np.array([np.nan])
        if not np.all(np.isfinite(numbers)):
            raise ValueError(f"{name}: {attribute.name} has values that are not finite numbers; expected numbers.")
        return attribute, column.to_numpy(), numbers[:, None]
    cells = attribute.cells or [[(value,)] for value in attribute.groups]
    place = {value: code for code, group in enumerate(cells) for (value,) in group}
    strange = next((value for value in plain if not isinstance(value, Hashable) or value not in place), None)
    if strange is not None or any(value is None for value in plain):
        raise ValueError(
            f"{name}: {attribute.name} has the value {strange!r}; expected one of {', '.join(map(repr, place))}."
        )
    codes = np.fromiter((place[value] for value in plain), np.int64, len(plain))
    columns = np.arange(1, 2) if attribute.kind == "binary" else np.arange(len(attribute.groups))
    return attribute, column.to_numpy(), (codes[:, None] == columns).astype(np.float64)


def _groups(values: np.ndarray, where: str) -> tuple[tuple[Any, ...], np.ndarray]:
    """The different values, sorted, and each row's place among them."""
    plain = values.tolist()  # Python's own values: np.True_ and True are one group, and read better in reports
    strange = next((value for value in plain if not isinstance(value, Hashable)), None)
    if strange is not None:
        raise TypeError(f"{where} has a {type(strange).__name__} as a value; expected text, numbers or booleans.")
    try:
        groups = tuple(sorted(set(plain)))
    except TypeError as error:
        kinds = sorted({type(value).__name__ for value in plain})
        raise TypeError(
            f"{where} mixes values of types {', '.join(kinds)}; expected one type, such as text."
        ) from error
    place = {value: code for code, value in enumerate(groups)}
    return groups, np.fromiter((place[value] for value in plain), np.int64, len(plain))


def _column_names(attribute: Attribute) -> tuple[str, ...]:
    if attribute.kind in ("categorical", INTERSECTION):
        return tuple(f"{attribute.name}={group}" for group in attribute.groups)
    return (attribute.name,)
