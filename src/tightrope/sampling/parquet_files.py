"""Parquet files: what they hold, how a row group becomes arrays, and sentences for all that can be wrong with them.

What is known of a file (its rows, its row groups, its size and when it was written) is read once, from its footer. Every
time it is opened again it must still be so.
"""

import contextlib
import fnmatch
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import numpy as np

from tightrope._errors import UnreadableError, refuse_what_wraps
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
                file, read = pq.ParquetFile(source, metadata=metadata), 0
                for batch in file.iter_batches(rows_at_once, [group.number], list(columns)):
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
    except (OSError, pa.ArrowException) as error:
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
    if "://" in text:
        try:
            system, place = fs.FileSystem.from_uri(text)
        except (ValueError, OSError) as error:
            raise UnreadableError(f"Parquet: {text} cannot be opened: {error}") from error
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
    """A type without its dictionary: whether a writer used one is no difference."""
    import pyarrow as pa

    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return pa.string() if pa.types.is_large_string(kind) else kind


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
        wanted = {name: _dtype(name, dtypes, files.schema.field(name).type, categories) for name in self.names}
        with digits():  # settled here: the thread that reads does not know of it
            self.dtypes = {name: np.dtype(jax.dtypes.canonicalize_dtype(kind)) for name, kind in wanted.items()}
        self.declared = set(self.names) if isinstance(dtypes, str | type | np.dtype) else set(dtypes or ())
        strange = sorted((self.declared | set(categories)) - set(self.names))
        if strange:
            raise ValueError(f"Parquet: {strange[0]!r} is not among the columns {self.names}.")
        self.categories = {
            name: list(categories[name]) if name in categories else _found(files, name)
            for name in self.names
            if name in categories or _is_text(files.schema.field(name).type)
        }
        self._sets = {name: _as_arrow(values) for name, values in self.categories.items()}

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
            plain = column.cast(_plain(column.type)) if pa.types.is_dictionary(column.type) else column
            found = self._sets[name].cast(plain.type)
            places = pc.index_in(plain, found)  # pyright: ignore[reportAttributeAccessIssue]
            if places.null_count:
                row = int(np.argmax(np.asarray(places.is_null())))
                raise Flaw(row, name, f"the value {plain[row].as_py()!r}", "one of the categories that were declared")
            return places.to_numpy(zero_copy_only=False).astype(kind, copy=False)
        if pa.types.is_fixed_size_list(column.type):
            return column.flatten().to_numpy(zero_copy_only=False).reshape(len(column), -1).astype(kind, copy=False)
        array = column.to_numpy(zero_copy_only=False)
        if kind.kind in "iu" and array.dtype != kind:
            refuse_what_wraps("Parquet", array)
        return np.asarray(array).astype(kind, copy=False)


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
                yield decode(part)
            except Flaw as flaw:
                where = f"{files.names[group.file]}, row {group.before + at + begin + flaw.row:,}"
                raise UnreadableError(f"Parquet: {where}: {flaw}. Drop or repair such rows first.") from None
        at += rows


def _dtype(name: str, dtypes: Any, kind: Any, categories: Mapping[str, Any]) -> np.dtype:
    """What a column is to be: what was declared, or what the file has."""
    import pyarrow as pa

    given = dtypes if isinstance(dtypes, str | type | np.dtype) else (dtypes or {}).get(name)
    if given is not None:
        try:
            found = np.dtype(given)
        except TypeError:
            found = np.dtype(object)
        if found.kind not in "fiub":
            raise TypeError(f"Parquet: the dtype of {name!r} is {given!r}; expected one of numbers, such as 'float32'.")
        return found
    if name in categories or _is_text(kind):
        return np.dtype(np.int32)
    if pa.types.is_fixed_size_list(kind):
        kind = kind.value_type
    if pa.types.is_decimal(kind):
        return np.dtype(float)
    if not (pa.types.is_floating(kind) or pa.types.is_integer(kind) or pa.types.is_boolean(kind)):
        raise TypeError(
            f"Parquet: column {name!r} is of type {kind}; expected numbers, booleans or text. Leave it out of columns=..., "
            "declare a dtype, or give decode=..., a function that makes numbers of it."
        )
    return np.dtype(kind.to_pandas_dtype())


def _is_text(kind: Any) -> bool:
    import pyarrow as pa

    return pa.types.is_dictionary(kind) or pa.types.is_string(kind) or pa.types.is_large_string(kind)


def _found(files: Files, name: str) -> list[Any]:
    """The values of a column, by one pass over it alone, in their order."""
    values: set[Any] = set()
    for group in files.groups:
        for batch in files.batches(group, [name], 65_536):
            values |= {value for value in batch.column(0).unique().to_pylist() if value is not None}
            if len(values) > _MOST_CATEGORIES:
                raise UnreadableError(
                    f"Parquet: column {name!r} has more than {_MOST_CATEGORIES:,} different values; expected categories. "
                    "Leave it out of columns=..."
                )
    return sorted(values)


def _as_arrow(values: list[Any]) -> Any:
    import pyarrow as pa

    if len(set(values)) != len(values):
        raise ValueError(f"Parquet: the categories {values} repeat one; expected each once.")
    return pa.array(values)
