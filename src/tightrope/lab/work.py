"""What the figures and the leaderboard share: units of work that are stored as they finish, so that a long computation can
be interrupted and taken up again, and files that are whole or absent."""

import contextlib
import dataclasses
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

import tightrope
from tightrope.files import replace_file
from tightrope.plotting import new_figure, write_figure

TUNING = 10_000
"""Seeds from here on are for tuning, and for what is held out; by hand: results are those of smaller ones."""

Tables = Mapping[str, pd.DataFrame]


@dataclasses.dataclass(frozen=True)
class Unit:
    """A piece of work that gives a table.

    Attributes:
        name: the name of its file, unique within the figure or leaderboard.
        settings: all that the table depends on, in values that JSON can hold.
        run: computes the table; it is given the tables of the units before it, by name.
    """

    name: str
    settings: dict[str, Any]
    run: Callable[[Tables], pd.DataFrame]


class OtherSettingsError(ValueError):
    """The folder holds parts that were computed with other settings, so that they cannot be gone on with."""


class Store:
    """The folder `out/parts`: a CSV file per unit, whose first line says what it was computed from."""

    def __init__(self, out: Path, figure: str):
        self.folder, self.figure = out / "parts", figure

    def path(self, unit: Unit) -> Path:
        """The file of a unit's table."""
        return self.folder / f"{self.figure}-{unit.name}.csv"

    def has(self, unit: Unit) -> bool:
        """Whether the unit is finished; refuses a file that was made with other settings."""
        path = self.path(unit)
        if not path.exists():
            return False
        found = settings_in(path)
        wanted = json.loads(_fingerprint(unit))
        other = sorted(key for key in wanted | found if wanted.get(key) != found.get(key))
        if other:
            said = ", ".join(f"{key} is {found.get(key)!r} there and {wanted.get(key)!r} here" for key in other[:3])
            raise OtherSettingsError(f"{path} was made with other settings: {said}. {_REMEDY}")
        return True

    def load(self, unit: Unit) -> pd.DataFrame:
        """Read the table of a finished unit."""
        return pd.read_csv(self.path(unit), skiprows=1)

    def save(self, unit: Unit, table: pd.DataFrame) -> None:
        """Write the table beside its place and move it there, so that a file is whole or absent."""
        write_atomically(self.path(unit), f"# {_fingerprint(unit)}\n{table.to_csv(index=False)}".encode())


def settings_in(path: Path) -> dict[str, Any]:
    """What the table in a part's file was computed from, as its first line says."""
    with path.open() as file:
        first = file.readline()
    try:
        found = json.loads(first.removeprefix("# "))
    except json.JSONDecodeError:
        found = None
    if not isinstance(found, dict) or not first.startswith("# "):
        raise OtherSettingsError(f"{path} is not a part of a reproduction. {_REMEDY}")
    return found


_REMEDY = "Give another folder, or delete that one to start afresh."


def _fingerprint(unit: Unit) -> str:
    return json.dumps({"version": tightrope.__version__, **unit.settings}, sort_keys=True)


def ready_to_write(owner: str, out: Path) -> None:
    """Refuse before the work what would fail after it: a file in the place of the folder, and missing matplotlib."""
    if out.exists() and not out.is_dir():
        raise NotADirectoryError(f"{owner}: {out} is a file; expected a folder to write to.")
    new_figure()


@contextlib.contextmanager
def goes_on_later(folder: Path) -> Iterator[None]:
    """Say at a Ctrl-C where the finished parts are."""
    try:
        yield
    except KeyboardInterrupt:
        print(f"Interrupted. What was finished is in {folder}; the same call goes on from there.", file=sys.stderr)
        raise


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file that is whole or absent, whenever the program is stopped."""
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, content)


def write_table(path: Path, table: pd.DataFrame) -> None:
    """Write a table as CSV, whole or not at all."""
    write_atomically(path, table.to_csv(index=False).encode())


def write_picture(path: Path, picture: Any) -> None:
    """Write a matplotlib figure as PNG, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_figure(picture, path)
