"""Parquet files: what they hold, how a row group becomes arrays, and sentences for all that can be wrong with them.

What is known of a file (its rows, its row groups, its size and when it was written) is read once, from its footer. Every
time it is opened again it must still be so.
"""

import contextlib
import fnmatch
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import numpy as np

from tightrope._errors import UnreadableError, shown
from tightrope.precision import digits
from tightrope.tree import Tree

if TYPE_CHECKING:
    import pyarrow as pa

_MOST_CATEGORIES = 65_536  # values of a column of text, at most: a guess; more than that are names of rows
_WILD = "*?["  # signs of a pattern, by Python's fnmatch


class Group(NamedTuple):
    """A row group."""

    file: int  # which of the files
    number: int  # which of the file's row groups
    before: int  # rows of the file before it
    rows: int


class Files:
    """The files of a folder, one file, or those that a pattern matches, as one table.

    Args:
        path: a folder, a file, a pattern such as "data/2024-*.parquet", a list of files, or the address of one that
            Arrow's filesystems open ("s3://bucket/folder").
        columns: those that must be in every file, with the same type; all of the first file's by default.
    """

    def __init__(self, path: Any, columns: Sequence[str] | None = None):
        self.filesystem, self.names = _find(path)
        self.groups: list[Group] = []
        self._known: list[tuple[Any, Any]] = []  # size and time of a file, and its metadata
        self.schema: Any = None
        self.columns = [] if columns is None else list(dict.fromkeys(columns))
        for number, name in enumerate(self.names):
            self._look_at(number, name, columns is None)
        self.n = sum(group.rows for group in self.groups)
        if self.n == 0:
            raise UnreadableError(f"Parquet: {_listed(self.names)} has no rows; expected at least one.")
        if self.n >= 2**31:
            raise UnreadableError(
                f"Parquet: there are {self.n:,} rows; expected fewer than 2^31. Give each process its own part of the files."
            )
        self.starts = np.cumsum([0, *(group.rows for group in self.groups)])

    def _look_at(self, number: int, name: str, every: bool) -> None:
        import pyarrow.parquet as pq

        with _sentences(name, "cannot be opened as a Parquet file"):
            stamp = self._stamp(name)
            with self.filesystem.open_input_file(name) as source:
                metadata = pq.read_metadata(source)
        schema = metadata.schema.to_arrow_schema()
        twice = [column for column in schema.names if schema.names.count(column) > 1]
        if twice:
            raise UnreadableError(f"Parquet: {name} has several columns {twice[0]!r}; expected a name for each.")
        if self.schema is None:
            self.schema, self.columns = schema, schema.names if every else self.columns
        self._refuse_other_columns(name, schema, every)
        self._known.append((stamp, metadata))
        before = 0
        for k in range(metadata.num_row_groups):
            rows = metadata.row_group(k).num_rows
            if rows:
                self.groups.append(Group(number, k, before, rows))
            before += rows

    def _refuse_other_columns(self, name: str, schema: Any, every: bool) -> None:
        missing = [column for column in self.columns if column not in schema.names]
        if missing:
            raise UnreadableError(
                f"Parquet: {name} has no column {missing[0]!r}; expected the same columns in every file. It has "
                f"{', '.join(map(repr, schema.names[:8]))}{', ...' if len(schema.names) > 8 else ''}."
            )
        more = sorted(set(schema.names) - set(self.columns)) if every else []
        if more:
            raise UnreadableError(
                f"Parquet: {name} has a column {more[0]!r} that {self.names[0]} lacks; expected the same columns in every "
                "file. Say which to read as columns=..."
            )
        for column in self.columns:
            here, there = _plain(schema.field(column).type), _plain(self.schema.field(column).type)
            if here != there:
                raise UnreadableError(
                    f"Parquet: {name} has column {column!r} as {here}, and {self.names[0]} has it as {there}; expected the "
                    "same type in every file."
                )

    def _stamp(self, name: str) -> tuple[Any, Any]:
        from pyarrow.fs import FileType

        info = self.filesystem.get_file_info(name)
        if info.type == FileType.NotFound:
            raise UnreadableError(f"Parquet: {name} is not there any more; expected the files to stay as they were.")
        return info.size, info.mtime_ns

    def batches(self, group: Group, columns: Sequence[str], rows_at_once: int) -> Iterator["pa.RecordBatch"]:
        """A row group in batches; raises a sentence where the file is gone, is another one, or is damaged."""
        import pyarrow.parquet as pq

        name, (stamp, metadata) = self.names[group.file], self._known[group.file]
        with _sentences(name, f"row group {group.number} cannot be read"):
            if self._stamp(name) != stamp:
                raise UnreadableError(
                    f"Parquet: {name} has changed since it was first read; expected the files to stay as they were. Start "
                    "anew with the files as they are now."
                )
            with self.filesystem.open_input_file(name) as source:
                file, read = pq.ParquetFile(source, metadata=metadata, page_checksum_verification=True), 0
                for batch in file.iter_batches(rows_at_once, [group.number], list(columns)):
                    batch.validate(full=True)  # places beyond a dictionary, for one, are read without being looked at
                    read += batch.num_rows
                    yield batch
        if read != group.rows:
            raise UnreadableError(
                f"Parquet: {name}: row group {group.number} has {read:,} rows and should have {group.rows:,}; it is damaged."
            )

    @property
    def content(self) -> str:
        """What tells these files from others: names, sizes and times."""
        return repr([(Path(name).name, *stamp) for name, (stamp, _) in zip(self.names, self._known, strict=True)])


@contextlib.contextmanager
def _sentences(name: str, what: str) -> Iterator[None]:
    """Arrow's errors as sentences that name the file."""
    import pyarrow as pa

    try:
        yield
    except FileNotFoundError as error:
        raise UnreadableError(f"Parquet: {name}: {what}: it is not there any more.") from error
    except (OSError, pa.ArrowException, UnicodeDecodeError) as error:
        first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise UnreadableError(f"Parquet: {name}: {what} ({first.rstrip('.')}). Is it whole? Write it anew.") from error


def _find(path: Any) -> tuple[Any, list[str]]:
    """The filesystem, and the files in the order of their names."""
    try:
        import pyarrow.fs as fs
    except ImportError as error:
        raise ImportError("Parquet files are read with pyarrow: pip install 'tightrope[parquet]'.") from error
    if isinstance(path, list | tuple):
        found = [_find(one) for one in path]
        if not found:
            raise UnreadableError("Parquet: a list without files was given; expected at least one.")
        return found[0][0], list(itertools.chain.from_iterable(names for _, names in found))
    if not isinstance(path, str | Path):
        raise TypeError(f"Parquet: {path!r} was given; expected the path of a folder, of a file, or a pattern.")
    text = str(path)
    if "\0" in text or text != text.encode(errors="replace").decode():
        raise UnreadableError(f"Parquet: {text!a} was given; expected a path without characters that no path has.")
    if "://" in text:
        try:
            system, place = fs.FileSystem.from_uri(text)
        except (ValueError, OSError) as error:
            raise UnreadableError(f"Parquet: {text} cannot be opened: {str(error).rstrip('.')}.") from error
    else:
        system, place = fs.LocalFileSystem(), str(Path(text).expanduser().absolute())
    if any(sign in place for sign in _WILD):
        fixed = place[: min(place.index(sign) for sign in _WILD if sign in place)].rpartition("/")[0]
        names = [i.path for i in _files_under(fs, system, fixed or "/") if fnmatch.fnmatch(i.path, place)]
    elif system.get_file_info(place).type == fs.FileType.Directory:
        names = [i.path for i in _files_under(fs, system, place) if _is_data(i.path[len(place) :])]
    else:
        names = [place] if system.get_file_info(place).type == fs.FileType.File else []
    if not names:
        raise UnreadableError(
            f"Parquet: there are no Parquet files at {text}; expected a folder, a file, or a pattern."
        )
    return system, sorted(names)


def _files_under(fs: Any, system: Any, place: str) -> list[Any]:
    return [i for i in system.get_file_info(fs.FileSelector(place, recursive=True, allow_not_found=True)) if i.is_file]


def _is_data(inside: str) -> bool:
    """Whether a file in a folder is one of its tables: writers leave others, whose names begin with _ or a dot."""
    return inside.endswith((".parquet", ".pq")) and not any(p.startswith(("_", ".")) for p in inside.split("/") if p)


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} other files"


def _plain(kind: Any) -> Any:
    """A type without its dictionary: whether a writer used one is no difference, nor how text is laid out."""
    import pyarrow as pa

    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return pa.string() if str(kind) in ("large_string", "string_view") else kind


# ---- columns become arrays --------------------------------------------------------------------------------------------

Layout = Any  # a name, a list of names, or tuples and dicts of these
Decode = Callable[["pa.RecordBatch"], Tree]


def names_in(layout: Layout) -> list[str]:
    """The columns of a layout, each once."""
    leaves = jax.tree.leaves(layout, is_leaf=_is_list)
    names = [name for leaf in leaves for name in (leaf if _is_list(leaf) else [leaf])]
    if not names or not all(isinstance(name, str) for name in names):
        raise TypeError(
            f"Parquet: columns is {layout!r}; expected names of columns: one for a number, a list of them for a vector, "
            "and tuples or dicts of these."
        )
    return list(dict.fromkeys(names))


def _is_list(layout: Any) -> bool:
    return isinstance(layout, list)


class Columns:
    """How batches become samples.

    Args:
        files: what is read.
        layout: which columns, and how they are put together.
        dtypes: one for all of them, or by name.
        categories: the values of columns of text, by name; a value becomes its place in the list.
    """

    def __init__(self, files: Files, layout: Layout, dtypes: Any, categories: Mapping[str, Sequence[Any]]):
        self.layout, self.names = layout, names_in(layout)
        if not isinstance(dtypes, str | type | np.dtype | Mapping | None):
            raise TypeError(
                f"Parquet: dtypes is {shown(dtypes)}; expected one, such as 'float32', or a dict with some by name."
            )
        if not isinstance(categories, Mapping) or any(
            isinstance(values, str) or not isinstance(values, Iterable) for values in categories.values()
        ):
            raise TypeError(
                f"Parquet: categories is {shown(categories)}; expected a dict with lists of values by name."
            )
        wanted = {name: _dtype(name, dtypes, files.schema.field(name).type, categories) for name in self.names}
        with digits():  # settled here: the thread that reads does not know of it
            self.dtypes = {name: np.dtype(jax.dtypes.canonicalize_dtype(kind)) for name, kind in wanted.items()}
        self.declared = set(self.names) if isinstance(dtypes, str | type | np.dtype) else set(dtypes or ())
        strange = min((self.declared | set(categories)) - set(self.names), key=str, default=None)
        if strange is not None:
            raise ValueError(f"Parquet: {strange!r} is not among the columns {self.names}.")
        self.categories = {
            name: list(categories[name]) if name in categories else _found(files, name)
            for name in self.names
            if name in categories or _is_text(files.schema.field(name).type)
        }
        self._sets = {
            name: _as_arrow(name, values, _plain(files.schema.field(name).type))
            for name, values in self.categories.items()
        }

    def __call__(self, batch: "pa.RecordBatch") -> Tree:
        """A batch as arrays; a value that is missing or no number raises `Flaw`."""
        return jax.tree.map(lambda leaf: self._leaf(batch, leaf), self.layout, is_leaf=_is_list)

    def _leaf(self, batch: "pa.RecordBatch", leaf: str | list[str]) -> np.ndarray:
        array = self._column(batch, leaf) if isinstance(leaf, str) else self._matrix(batch, leaf)
        if array.dtype.kind == "f" and not np.isfinite(np.sum(array)):  # a sum is cheap, and rarely lies
            bad = np.argwhere(~np.isfinite(array))
            if len(bad):
                column = leaf if isinstance(leaf, str) else leaf[bad[0][1]]
                raise Flaw(int(bad[0][0]), column, f"the value {array[tuple(bad[0])]}", "a finite number")
        return array

    def _matrix(self, batch: "pa.RecordBatch", names: list[str]) -> np.ndarray:
        kind = np.result_type(*(self.dtypes[name] for name in names))
        some = batch.select(names)
        alike = {str(field.type) for field in some.schema}
        if alike <= {"float", "double"} and len(alike) == 1 and not any(c.null_count for c in some.columns):
            return np.asarray(some.to_tensor(row_major=True)).astype(kind, copy=False)
        out = np.empty((batch.num_rows, len(names)), kind)
        for j, name in enumerate(names):
            column = self._column(batch, name)
            if column.ndim > 1:
                raise UnreadableError(f"Parquet: column {name!r} holds vectors; give it by itself, not in a list.")
            out[:, j] = column
        return out

    def _column(self, batch: "pa.RecordBatch", name: str) -> np.ndarray:
        import pyarrow as pa
        import pyarrow.compute as pc

        column, kind = batch.column(name), self.dtypes[name]
        if column.null_count:
            raise Flaw(int(np.argmax(np.asarray(column.is_null()))), name, "no value", "one in every row")
        if name in self.categories:
            plain = column.cast(_plain(column.type))
            places = pc.index_in(plain, self._sets[name])  # pyright: ignore[reportAttributeAccessIssue]
            if places.null_count:
                row = int(np.argmax(np.asarray(places.is_null())))
                raise Flaw(row, name, f"the value {plain[row].as_py()!r}", "one of the categories that were declared")
            return _held(places.to_numpy(zero_copy_only=False), kind, name)
        if not pa.types.is_fixed_size_list(column.type):
            return _held(column.to_numpy(zero_copy_only=False), kind, name)
        inner, size = column.flatten(), column.type.list_size
        if inner.null_count:
            row = int(np.argmax(np.asarray(inner.is_null()))) // size
            raise Flaw(row, name, "a vector in which a number is missing", "all of them")
        return _held(inner.to_numpy(zero_copy_only=False).reshape(len(column), size), kind, name)


def _held(array: np.ndarray, kind: np.dtype, name: str) -> np.ndarray:
    """A column in the dtype that it is to be; a whole number or a truth value that it would not be raises `Flaw`."""
    if array.dtype == kind:
        return array
    if array.dtype.kind in "mM":
        array = array.view(np.int64)  # units of the file, of dates since 1970
    with np.errstate(invalid="ignore", over="ignore"):
        made = array.astype(kind)
    if kind.kind in "iub":
        lost = (made.astype(array.dtype) != array) | ((made < 0) != (array < 0))
        if np.any(lost):
            at = np.argwhere(lost)[0]
            raise Flaw(int(at[0]), name, f"the value {array[tuple(at)]}", f"one that {kind} holds")
    return made


class Flaw(Exception):
    """A value in a batch that cannot be used."""

    def __init__(self, row: int, column: str, has: str, expected: str):
        super().__init__(f"column {column!r} has {has}; expected {expected}")
        self.row = row


def decoded(
    files: Files, number: int, decode: Decode, columns: Sequence[str], rows_at_once: int, skip: int = 0
) -> Iterator[Tree]:
    """Row group `number` as arrays, batch by batch, from its row `skip` on; raises a sentence that names file and row."""
    group, at = files.groups[number], 0
    for batch in files.batches(group, columns, rows_at_once):
        rows, begin = batch.num_rows, max(0, skip - at)
        if begin < rows:
            part = batch.slice(begin) if begin else batch
            try:
                yield _rows_of(decode(part), part.num_rows)
            except Flaw as flaw:
                where = f"{files.names[group.file]}, row {group.before + at + begin + flaw.row:,}"
                raise UnreadableError(f"Parquet: {where}: {flaw}. Drop or repair such rows first.") from None
        at += rows


def _rows_of(found: Tree, rows: int) -> Tree:
    """What was decoded; refused where it is no arrays of numbers with so many rows."""
    leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(found)]
    if leaves and all(leaf.shape[:1] == (rows,) and leaf.dtype.kind in "fiub" for leaf in leaves):
        return found
    shapes = jax.tree.map(lambda a: (np.shape(a), np.asarray(a).dtype), found)
    raise TypeError(
        f"Parquet: decode returns {shapes} for a batch of {rows} rows; expected arrays of numbers with a row for each."
    )


def _dtype(name: str, dtypes: Any, kind: Any, categories: Mapping[str, Any]) -> np.dtype:
    """What a column is to be: what was declared, or what the file has."""
    import pyarrow as pa

    given, found = dtypes if isinstance(dtypes, str | type | np.dtype) else (dtypes or {}).get(name), None
    if given is not None:
        try:
            found = np.dtype(given)
        except TypeError:
            found = np.dtype(object)
        if found.kind not in "fiub":
            raise TypeError(f"Parquet: the dtype of {name!r} is {given!r}; expected one of numbers, such as 'float32'.")
    if name in categories or _is_text(kind):
        return np.dtype(np.int32) if found is None else found
    inner = kind.value_type if pa.types.is_fixed_size_list(kind) else kind
    numbers = pa.types.is_floating(inner) or pa.types.is_integer(inner) or pa.types.is_boolean(inner)
    dated = pa.types.is_timestamp(inner) or pa.types.is_date(inner) or pa.types.is_duration(inner)
    if not (numbers or pa.types.is_decimal(inner) or (dated and found)):
        raise TypeError(
            f"Parquet: column {name!r} is of type {kind}; expected numbers, booleans or text. Leave it out of columns=..., "
            f"{'declare a dtype, ' if dated else ''}or give decode=..., a function that makes numbers of it."
        )
    if found is not None:
        return found
    return np.dtype(inner.to_pandas_dtype()) if numbers else np.dtype(float)


def _is_text(kind: Any) -> bool:
    import pyarrow as pa

    return pa.types.is_dictionary(kind) or _plain(kind) == pa.string()


def _found(files: Files, name: str) -> list[Any]:
    """The values of a column, by one pass over it alone, in their order."""
    values: set[Any] = set()
    for group in files.groups:
        for batch in files.batches(group, [name], 65_536):
            with _sentences(files.names[group.file], f"column {name!r} cannot be read"):
                values |= {value for value in batch.column(0).unique().to_pylist() if value is not None}
            if len(values) > _MOST_CATEGORIES:
                raise UnreadableError(
                    f"Parquet: column {name!r} has more than {_MOST_CATEGORIES:,} different values; expected categories. "
                    "Leave it out of columns=..."
                )
    return sorted(values)


def _as_arrow(name: str, values: list[Any], kind: Any) -> Any:
    """The categories of a column of this type, among which its values can be looked up."""
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        found = pa.array(values).cast(kind)
        pc.index_in(found, found)  # pyright: ignore[reportAttributeAccessIssue]
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise TypeError(
            f"Parquet: the categories of {name!r} are {shown(values)}; expected values of the column's type, {kind}."
        ) from error
    if found.null_count or len(found.unique()) != len(found):
        raise ValueError(
            f"Parquet: the categories of {name!r} are {shown(values)}; expected each once, and none missing."
        )
    return found
