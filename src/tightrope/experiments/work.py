"""Units of work that are stored as they finish, so that a reproduction can be interrupted and taken up again."""

import dataclasses
import io
import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

import tightrope
from tightrope.experiments.claims import Claim
from tightrope.loop.progress import Progress

Tables = Mapping[str, pd.DataFrame]


@dataclasses.dataclass(frozen=True)
class Size:
    """How much work to do. The defaults are the full reproduction.

    Attributes:
        seeds: runs of each setting on Adult.
        rows: training rows of Adult; the paper's 28,350, and one pass is as many steps.
        tests: test rows of Adult; None for all.
        passes: passes of the long runs.
        records: points of a curve.
        tuning_seeds: runs of each setting while tuning.
        points: settings along each axis of a tuning grid.
        draws: random samples on which the batch problem is solved.
        drawn: rows of each; the paper's 10,000.
        data_seeds: synthetic data sets.
        synthetic_rows: rows of each; the paper's 4,000.
        synthetic_passes: passes over each.
    """

    seeds: int = 20
    rows: int = 28_350
    tests: int | None = None
    passes: int = 10
    records: int = 60
    tuning_seeds: int = 5
    points: int = 5
    draws: int = 20
    drawn: int = 10_000
    data_seeds: int = 20
    synthetic_rows: int = 4_000
    synthetic_passes: int = 30


FULL = Size()
QUICK = Size(seeds=5, passes=3, records=30, tuning_seeds=2, points=3, draws=5, data_seeds=5, synthetic_passes=10)


@dataclasses.dataclass(frozen=True)
class Unit:
    """A piece of work that gives a table.

    Attributes:
        name: of its file, unique within the figure.
        settings: all that the table depends on, as JSON can hold it.
        run: computes the table; given the tables of the units before it, by name.
    """

    name: str
    settings: dict[str, Any]
    run: Callable[[Tables], pd.DataFrame]


@dataclasses.dataclass(frozen=True)
class Report:
    """What a figure comes to: tidy tables, pictures (matplotlib figures) and claims, by name."""

    tables: dict[str, pd.DataFrame]
    pictures: dict[str, Any]
    claims: list[Claim]


@dataclasses.dataclass(frozen=True)
class Figure:
    """A figure of the paper: what to compute, and what to make of it.

    Attributes:
        title: what it shows.
        units: the pieces of work, in order.
        report: makes the report from their tables.
    """

    title: str
    units: Callable[[Size], Sequence[Unit]]
    report: Callable[[Tables, Size], Report]


class OtherSettingsError(ValueError):
    """A folder that holds parts of another reproduction."""


class Store:
    """The folder `out/parts`: a CSV file per unit, whose first line says what it was computed from."""

    def __init__(self, out: Path, figure: str):
        self.folder, self.figure = out / "parts", figure

    def path(self, unit: Unit) -> Path:
        """Where a unit's table lies."""
        return self.folder / f"{self.figure}-{unit.name}.csv"

    def has(self, unit: Unit) -> bool:
        """Whether the unit is finished; refuses a file that was made with other settings."""
        path = self.path(unit)
        if not path.exists():
            return False
        with path.open() as file:
            first = file.readline()
        try:
            found = json.loads(first.removeprefix("# "))
        except json.JSONDecodeError:
            found = None
        if not isinstance(found, dict) or not first.startswith("# "):
            raise OtherSettingsError(f"{path} is not a part of a reproduction. {_REMEDY}")
        wanted = json.loads(_fingerprint(unit))
        other = sorted(key for key in wanted | found if wanted.get(key) != found.get(key))
        if other:
            said = ", ".join(f"{key} is {found.get(key)!r} there and {wanted.get(key)!r} here" for key in other[:3])
            raise OtherSettingsError(f"{path} was made with other settings: {said}. {_REMEDY}")
        return True

    def load(self, unit: Unit) -> pd.DataFrame:
        """A finished unit's table."""
        return pd.read_csv(self.path(unit), skiprows=1)

    def save(self, unit: Unit, table: pd.DataFrame) -> None:
        """Write the table beside its place and move it there, so that a file is whole or absent."""
        text = io.StringIO()
        text.write(f"# {_fingerprint(unit)}\n")
        table.to_csv(text, index=False)
        write_atomically(self.path(unit), text.getvalue().encode())


_REMEDY = "Give another folder, or delete that one to start afresh."


def _fingerprint(unit: Unit) -> str:
    return json.dumps({"version": tightrope.__version__, **unit.settings}, sort_keys=True)


def write_atomically(path: Path, content: bytes) -> None:
    """A file that is whole or absent, whenever the program is stopped."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(path.name + ".tmp")
    beside.write_bytes(content)
    os.replace(beside, path)


def check(figures: Mapping[str, Figure], size: Size, out: Path) -> int:
    """How many units are still to be computed; refuses a folder that holds parts of another reproduction."""
    return sum(not Store(out, name).has(unit) for name, figure in figures.items() for unit in figure.units(size))


def compute(name: str, figure: Figure, size: Size, out: Path, bar: Progress) -> Tables:
    """The tables of a figure's units; those that are stored are read, the others computed and stored."""
    store, ready = Store(out, name), {}
    for unit in figure.units(size):
        if not store.has(unit):
            _show(bar, f"parts, now {name}: {unit.name}", 0)
            store.save(unit, unit.run(ready))
            _show(bar, "parts", 1)
        ready[unit.name] = store.load(unit)  # read back, so that a resumed run sees the same digits
    return ready


def _show(bar: Progress, words: str, finished: int) -> None:
    if bar.bar is not None:
        bar.bar.update(bar.task, description=words, advance=finished)


def write(out: Path, name: str, figure: Figure, report: Report) -> list[Path]:
    """Write a figure's tables, pictures, verdicts and text into `out`; gives the paths."""
    written = []

    def put(path: Path, content: bytes) -> None:
        write_atomically(path, content)
        written.append(path)

    for key, table in report.tables.items():
        put(out / f"{key}.csv", table.to_csv(index=False).encode())
    for key, picture in report.pictures.items():
        image = io.BytesIO()
        picture.savefig(image, format="png")
        put(out / f"{key}.png", image.getvalue())
    verdicts = [dataclasses.asdict(claim) for claim in report.claims]
    put(out / f"{name}.verdicts.json", (json.dumps(verdicts, indent=2) + "\n").encode())
    put(out / f"{name}.txt", text(name, figure, report).encode())
    return written


def text(name: str, figure: Figure, report: Report) -> str:
    """The claims with their verdicts, for people."""
    lines = [f"{name}: {figure.title}", ""]
    for claim in report.claims:
        lines += [str(claim), ""]
    return "\n".join([*lines, "Numbers are medians over seeds with their 10 % and 90 % quantiles in brackets.", ""])
