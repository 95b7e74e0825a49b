"""The one store of arrays and plain data: safetensors with JSON in its header and a hash over both, put in its place whole;
no pickle. A checkpoint and a model are a file each (`Form`); a model of a table is a folder with two of them (`Folder`)."""

import dataclasses
import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from tightrope._errors import shown

Arrays = Mapping[str, np.ndarray]
About = dict[str, Any]


class FileError(ValueError):
    """A file that cannot be read as what it should be."""


@dataclasses.dataclass(frozen=True)
class Form:
    """One kind of file, in the version that is written and read here.

    Attributes:
        kind: what such a file holds, such as "checkpoint".
        number: of the version.
        remedy: what to do about a file that cannot be read, a sentence.
        refusal: the error that is raised then.
    """

    kind: str
    number: int
    remedy: str
    refusal: type[FileError] = FileError

    @property
    def name(self) -> str:
        """Kind and version, by which a file says what it is."""
        return f"tightrope {self.kind} {self.number}"

    def write(self, path: Path, arrays: Arrays, about: Mapping[str, Any]) -> None:
        """Write arrays, what is said about them and a hash over both."""
        from safetensors.numpy import save

        if not path.parent.is_dir():
            raise self.refusal(f"{path} cannot be written: there is no folder {path.parent}. Make it first.")
        contiguous = {name: np.asarray(array, order="C") for name, array in arrays.items()}  # or its memory is written
        replace_file(path, save(contiguous, metadata={"tightrope": json.dumps(self.sealed(about, contiguous))}))

    def read(self, path: Path) -> tuple[dict[str, np.ndarray], About]:
        """The arrays and what is said about them; a file of another kind or version, or a changed one, is refused."""
        from safetensors import SafetensorError, safe_open

        # the last three are safetensors' for kinds of numbers that NumPy does not have
        kinds = SafetensorError, OSError, ValueError, RecursionError, MemoryError, KeyError, TypeError, AttributeError
        try:
            with safe_open(path, framework="numpy") as file:
                about = json.loads((file.metadata() or {}).get("tightrope", "null"))
                arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
        except kinds as error:
            raise self.unreadable(path, error) from error
        return arrays, self.opened(path, about, arrays)

    def refuse(self, sentence: str) -> FileError:
        """The error to raise, with the remedy after the sentence."""
        return self.refusal(f"{sentence} {self.remedy}")

    def unreadable(self, path: Path, error: BaseException) -> FileError:
        """The error to raise where a file is not even of this sort."""
        return self.refuse(f"{path} cannot be read as a {self.kind} ({str(error) or type(error).__name__}).")

    def sealed(self, about: Mapping[str, Any], arrays: Arrays | None = None) -> About:
        """What is said, with format and hash."""
        said = {"format": self.name, **about}
        return said | {"sha256": seal(said, arrays)}

    def opened(self, path: Path, about: Any, arrays: Arrays | None = None) -> About:
        """What was sealed, without format and hash; refused where it is of another kind or version, or was changed."""
        if not isinstance(about, dict) or not str(about.get("format")).startswith(f"tightrope {self.kind}"):
            raise self.refuse(f"{path} is not a tightrope {self.kind} file.")
        if about["format"] != self.name:
            version = f", {about['version']}" if "version" in about else ""
            raise self.refuse(f"{path} was written by another version of tightrope{version}.")
        if about.pop("sha256", None) != seal(about, arrays):
            raise self.changed(path)
        return {name: value for name, value in about.items() if name != "format"}

    def changed(self, path: Path) -> FileError:
        """The error to raise where a hash is not that of what was read."""
        return self.refuse(f"{path} was changed or damaged after it was written: its hash does not match.")


@dataclasses.dataclass(frozen=True)
class Folder:
    """A folder of two files that belong together: arrays in a form of their own, and JSON that says what they mean.

    The JSON has a hash of the arrays and of itself. A save that is killed leaves the old model or the new one: both files
    are written beside the old ones before either takes its place, and between the two the JSON that belongs to the arrays
    is still found by its name, `*.new`.

    Attributes:
        form: of the JSON.
        writer: the command that writes such a folder.
        arrays: the name of the file with the arrays.
        meaning: the name of the JSON file.
        others: the names of what is made from a model and lies beside it; removed when another takes its place.
    """

    form: Form
    writer: str
    arrays: str
    meaning: str
    others: tuple[str, ...]

    def write(self, folder: str | Path, save: Callable[[Path], None], about: Mapping[str, Any]) -> None:
        """Write the arrays, by `save`, and what is said about them; the folder is made where it is not there."""
        from tightrope import __version__ as version  # the package may import this file while it is made

        folder = Path(folder)
        arrays, meaning = folder / self.arrays, folder / self.meaning
        with written(folder):
            folder.mkdir(parents=True, exist_ok=True)
            if self._half_done(folder):
                os.replace(_new(meaning), meaning)
        try:
            save(_new(arrays))
            said = self.form.sealed({"version": version, **about, self._key: _hash(_new(arrays))})
            replace_file(_new(meaning), f"{json.dumps(said, indent=1, ensure_ascii=False)}\n".encode())
        except BaseException:  # a disk that is full should not stay so because of half a model
            for unfinished in (
                _new(meaning),
                _new(arrays),
            ):  # in this order: alone, the first would be taken for a new one
                with suppress(OSError):
                    unfinished.unlink()
            raise
        with written(folder):
            for other in self.others:
                (folder / other).unlink(missing_ok=True)
            os.replace(_new(arrays), arrays)
            os.replace(_new(meaning), meaning)

    def read(self, folder: str | Path) -> tuple[Path, About]:
        """Where the arrays are and what is said about them; a folder that was changed or is something else is refused."""
        folder = Path(folder)
        meaning = self.meaning_in(folder)
        try:
            for name in (meaning.name, self.arrays):
                if not (folder / name).is_file():
                    there = f"has no {name}" if folder.is_dir() else "is no folder"
                    raise FileError(f"{folder} {there}; expected a folder that {self.writer} wrote.")
            about = json.loads(meaning.read_text(encoding="utf-8"))
            arrays = _hash(folder / self.arrays)
        except FileError:
            raise
        except (OSError, ValueError, RecursionError) as error:
            raise self.form.unreadable(meaning, error) from error
        about = self.form.opened(meaning, about)
        if about.get(self._key) != arrays:
            raise self.form.changed(folder / self.arrays)
        return folder / self.arrays, about

    def meaning_in(self, folder: Path) -> Path:
        """The JSON file that belongs to the arrays."""
        return _new(folder / self.meaning) if self._half_done(folder) else folder / self.meaning

    @property
    def _key(self) -> str:
        return f"{Path(self.arrays).stem}_sha256"

    def _half_done(self, folder: Path) -> bool:
        """Whether a save was killed between its two files: the arrays are the new ones, and the JSON still lies beside."""
        return _new(folder / self.meaning).is_file() and not _new(folder / self.arrays).exists()


def _new(path: Path) -> Path:
    return path.with_name(f"{path.name}.new")


def _hash(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def seal(about: Mapping[str, Any], arrays: Arrays | None = None) -> str:
    """A hash over what JSON can hold, and over arrays with their names, shapes and kinds of number."""
    sha = hashlib.sha256(json.dumps(about, sort_keys=True).encode())
    for name in sorted(arrays or {}):
        array = np.asarray((arrays or {})[name], order="C")
        sha.update(f"{name} {array.dtype.str} {array.shape}".encode())
        sha.update(array.tobytes())
    return sha.hexdigest()


def as_path(given: Any) -> Path:
    """The path of a file that a user gave."""
    said = os.fspath(given) if isinstance(given, str | os.PathLike) else None
    if not isinstance(said, str) or "\0" in said or not Path(said).name:
        raise TypeError(f"path is {shown(given)}; expected the path of a file.")
    return Path(said)


def replace_file(path: Path, content: bytes) -> None:
    """Write to a neighbour, then replace: a crash leaves the old file or the new one, never half of either."""
    with beside(path) as unfinished, open(unfinished, "wb") as file:
        file.write(content)


@contextmanager
def beside(path: Path) -> Iterator[Path]:
    """A neighbour of a file, to be written within the block; it takes the file's place when it is whole and on the disk.

    Where it cannot be written, because the disk is full or rights are missing, the file is as it was, the neighbour is gone,
    and the error is a sentence.
    """
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with written(path, unfinished):
        sweep(path)
        try:
            yield unfinished
            with open(unfinished, "rb+") as file:
                os.fsync(file.fileno())
            os.replace(unfinished, path)
        finally:
            with suppress(OSError):  # it was never made, or the folder is no longer there
                unfinished.unlink()


@contextmanager
def written(path: Path, *others: Path) -> Iterator[None]:
    """What the system says when a file or folder cannot be written, as a sentence; still an OSError of the same kind.

    An error that names another file than this, what lies in it, and `others`, is left as it is.
    """
    try:
        yield
    except OSError as error:
        named = None if error.filename is None else Path(os.fsdecode(error.filename))
        elsewhere = named is not None and named not in (path, *others) and path not in named.parents
        if error.errno is None or elsewhere:
            raise
        why = os.strerror(error.errno)
        said = type(error)(f"{path} could not be written ({why}); nothing that was there before has changed.")
        said.errno = error.errno  # alone it leaves the sentence as it is
        raise said from error


def sweep(path: Path) -> None:
    """Remove what killed processes left beside a file while they wrote it."""
    if os.name != "posix":  # elsewhere, asking whether a process lives ends it
        return
    for left in path.parent.glob(f".{path.name}.*.tmp"):
        number = left.name.removesuffix(".tmp").rpartition(".")[2]
        if number.isdigit() and not _lives(int(number)):
            with suppress(OSError):  # another process swept it
                left.unlink()


def _lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:  # somebody else's
        return True
    return True
