"""A model's folder: its arrays, what they mean in JSON, a report and a picture.

The JSON has a hash of the arrays and of itself. A save that is killed leaves the old model or the new one: both files are
written beside the old ones before either takes its place, and between the two the JSON that belongs to the arrays is still
found by its name, `*.new`.
"""

import dataclasses
import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import tightrope
from tightrope.files import FileError, replace_file, seal

REPORT = "report.txt"


@dataclasses.dataclass(frozen=True)
class ModelFolder:
    """What the folder of one kind of model holds, and how to write and read it.

    Attributes:
        command: the command that writes such a folder, "fit" or "complete".
        kind: what the JSON file calls its format, followed by a number.
        arrays: the name of the file with the arrays.
        meaning: the name of the JSON file that says what they mean.
        pictures: the names a picture can have.
    """

    command: str
    kind: str
    arrays: str
    meaning: str
    pictures: tuple[str, ...]

    @property
    def format(self) -> str:
        """The format that this version writes and reads."""
        return f"{self.kind} 1"

    @property
    def remedy(self) -> str:
        """What to do about a folder that cannot be read."""
        return f"{self.command.capitalize()} again, with tightrope {self.command}."

    def write(self, folder: str | Path, save: Callable[[Path], None], about: Mapping[str, Any]) -> None:
        """Write the arrays, by `save`, and what is said about them; the folder is made where it is not there."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        arrays, meaning = folder / self.arrays, folder / self.meaning
        if self._half_done(folder):
            os.replace(_new(meaning), meaning)
        save(_new(arrays))
        said = {"format": self.format, "version": tightrope.__version__, **about, self._key: _hash(_new(arrays))}
        text = json.dumps(said | {"sha256": seal(said)}, indent=1, ensure_ascii=False)
        replace_file(_new(meaning), f"{text}\n".encode())
        for old in (REPORT, *self.pictures):  # of another model, from here on
            (folder / old).unlink(missing_ok=True)
        os.replace(_new(arrays), arrays)
        os.replace(_new(meaning), meaning)

    def read(self, folder: str | Path) -> tuple[Path, dict[str, Any]]:
        """Where the arrays are and what is said about them; a folder that was changed or is something else is refused."""
        folder = Path(folder)
        meaning = self.meaning_in(folder)
        for name in (meaning.name, self.arrays):
            if not (folder / name).is_file():
                there = f"has no {name}" if folder.is_dir() else "is no folder"
                raise FileError(f"{folder} {there}; expected a folder that tightrope {self.command} wrote.")
        try:
            about = json.loads(meaning.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError) as error:
            raise FileError(f"{meaning} cannot be read ({error}). {self.remedy}") from error
        if not isinstance(about, dict) or not str(about.get("format")).startswith(self.kind):
            raise FileError(f"{meaning} was not written by tightrope {self.command}. {self.remedy}")
        if about["format"] != self.format:
            version = about.get("version")
            raise FileError(f"{folder} was written by another version of tightrope, {version}. {self.remedy}")
        changed = f"was changed or damaged after it was written: its hash does not match. {self.remedy}"
        if about.pop("sha256", None) != seal(about):
            raise FileError(f"{meaning} {changed}")
        if about.get(self._key) != _hash(folder / self.arrays):
            raise FileError(f"{folder / self.arrays} {changed}")
        return folder / self.arrays, about

    def add_report(self, folder: Path, text: Sequence[str], picture: str, draw: Callable[[str], Any]) -> list[str]:
        """Put a report of several paragraphs and a picture beside the model; gives the names of all files.

        The picture, by `draw`, is left out where matplotlib is not installed.
        """
        replace_file(folder / REPORT, ("\n\n".join(text) + "\n").encode())
        files = [self.arrays, self.meaning, REPORT]
        try:
            draw(str(folder / picture))
        except ImportError:
            return files
        return [*files, picture]

    @property
    def _key(self) -> str:
        return f"{Path(self.arrays).stem}_sha256"

    def _half_done(self, folder: Path) -> bool:
        """Whether a save was killed between its two files: the arrays are the new ones, and the JSON still lies beside."""
        return _new(folder / self.meaning).is_file() and not _new(folder / self.arrays).exists()

    def meaning_in(self, folder: Path) -> Path:
        """The JSON file that belongs to the arrays."""
        return _new(folder / self.meaning) if self._half_done(folder) else folder / self.meaning


def _new(path: Path) -> Path:
    return path.with_name(f"{path.name}.new")


def _hash(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
