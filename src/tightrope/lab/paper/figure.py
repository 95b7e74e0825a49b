"""What a figure of the paper is: pieces of work of a given size, and a report made from their tables."""

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import jax
import pandas as pd

from tightrope.lab.paper.claims import Claim
from tightrope.lab.work import Store, Tables, Unit, write_atomically, write_picture, write_table
from tightrope.loop.record import Progress
from tightrope.methods import Method
from tightrope.result import Result, Status


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
class FigureReport:
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
    report: Callable[[Tables, Size], FigureReport]


# ---- what several figures need ---------------------------------------------------------------------------------------


def coefficients(method: Method) -> dict[str, float]:
    """A method's coefficients by name.

    Example:
        >>> import tightrope as tr
        >>> coefficients(tr.GOCO(v0=0.5, alpha0=2.5))
        {'v0': 0.5, 'alpha0': 2.5, 'margin0': 0.0}
    """
    return {jax.tree_util.keystr(path)[1:]: value for path, value in jax.tree_util.tree_leaves_with_path(method)}


def by_seeds(
    name: str, settings: dict[str, Any], seeds: int, run: Callable[[range, Tables], pd.DataFrame], called: str = "seeds"
) -> list[Unit]:
    """A unit for each five seeds, so that an interrupted reproduction loses no more than these.

    Args:
        name: what the names of the units begin with.
        settings: all that the tables depend on, besides the seeds.
        seeds: how many there are.
        run: makes the table of some seeds, from the tables of the units before.
        called: what the seeds are called in names and settings.
    """
    parts = [range(first, min(first + 5, seeds)) for first in range(0, seeds, 5)]
    return [
        Unit(f"{name}-{called}{part[0]}-{part[-1]}", settings | {called: list(part)}, partial(run, part))
        for part in parts
    ]


def finished(run: Result, what: str) -> None:
    """Refuse a run that was stopped: `minimize` gives back what it has, but a part has to be whole."""
    if run.status is Status.INTERRUPTED:
        raise KeyboardInterrupt
    if run.status is not Status.FINISHED:
        raise RuntimeError(f"A run of {what} failed: {run.status.value}. {run.message}") from run.error


# ---- from units to files ---------------------------------------------------------------------------------------------


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


def write(out: Path, name: str, figure: Figure, report: FigureReport) -> None:
    """Write a figure's tables, pictures, verdicts and text into `out`."""
    for key, table in report.tables.items():
        write_table(out / f"{key}.csv", table)
    for key, picture in report.pictures.items():
        write_picture(out / f"{key}.png", picture)
    verdicts = [dataclasses.asdict(claim) for claim in report.claims]
    write_atomically(out / f"{name}.verdicts.json", (json.dumps(verdicts, indent=2) + "\n").encode())
    write_atomically(out / f"{name}.txt", text(name, figure, report).encode())


def text(name: str, figure: Figure, report: FigureReport) -> str:
    """The claims with their verdicts, as text for people."""
    lines = [f"{name}: {figure.title}", ""]
    for claim in report.claims:
        lines += [str(claim), ""]
    return "\n".join([*lines, "Numbers are medians over seeds with their 10 % and 90 % quantiles in brackets.", ""])
