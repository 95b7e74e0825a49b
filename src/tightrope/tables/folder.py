"""A model's folder: its arrays, what they mean in JSON, a report and a picture. The JSON knows the hash of the arrays."""

import dataclasses
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import tightrope
from tightrope.files import FileError

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
        sealed: whether the JSON file has a hash of its own contents, so that a change by hand is refused.
    """

    command: str
    kind: str
    arrays: str
    meaning: str
    pictures: tuple[str, ...]
    sealed: bool

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
        save(folder / self.arrays)
        said = {"format": self.format, "version": tightrope.__version__, **about, self._key: self._hash(folder)}
        seal = {"sha256": _seal(said)} if self.sealed else {}
        text = json.dumps(said | seal, indent=1, ensure_ascii=False)
        (folder / self.meaning).write_text(text + "\n", encoding="utf-8")

    def read(self, folder: str | Path) -> tuple[Path, dict[str, Any]]:
        """Where the arrays are and what is said about them; a folder that was changed or is something else is refused."""
        folder = Path(folder)
        for name in (self.meaning, self.arrays):
            if not (folder / name).is_file():
                there = f"has no {name}" if folder.is_dir() else "is no folder"
                raise FileError(f"{folder} {there}; expected a folder that tightrope {self.command} wrote.")
        meaning = folder / self.meaning
        try:
            about = json.loads(meaning.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise FileError(f"{meaning} cannot be read ({error}). {self.remedy}") from error
        if not isinstance(about, dict) or not str(about.get("format")).startswith(self.kind):
            raise FileError(f"{meaning} was not written by tightrope {self.command}. {self.remedy}")
        if about["format"] != self.format:
            version = about.get("version")
            raise FileError(f"{folder} was written by another version of tightrope, {version}. {self.remedy}")
        changed = f"was changed or damaged after it was written: its hash does not match. {self.remedy}"
        if self.sealed and about.pop("sha256", None) != _seal(about):
            raise FileError(f"{meaning} {changed}")
        if about.get(self._key) != self._hash(folder):
            raise FileError(f"{folder / self.arrays} {changed}")
        return folder / self.arrays, about

    def add_report(self, folder: Path, text: Sequence[str], picture: str, draw: Callable[[str], Any]) -> list[str]:
        """Put a report of several paragraphs and a picture beside the model; gives the names of all files.

        Older pictures go. The new one, by `draw`, is left out where matplotlib is not installed.
        """
        (folder / REPORT).write_text("\n\n".join(text) + "\n", encoding="utf-8")
        for old in self.pictures:
            (folder / old).unlink(missing_ok=True)
        files = [self.arrays, self.meaning, REPORT]
        try:
            draw(str(folder / picture))
        except ImportError:
            return files
        return [*files, picture]

    @property
    def _key(self) -> str:
        return f"{Path(self.arrays).stem}_sha256"

    def _hash(self, folder: Path) -> str:
        return hashlib.sha256((folder / self.arrays).read_bytes()).hexdigest()


def _seal(about: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()
