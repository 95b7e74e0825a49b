"""The leaderboard: every method on every problem with a known solution that it fits, on equal terms.

`leaderboard` does the work in parts that are stored as they finish; a second call goes on where the first was stopped.
"""

import os
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from itertools import groupby
from pathlib import Path

import jax
import pandas as pd

from tightrope.experiments.leaderboard.drawing import draw
from tightrope.experiments.leaderboard.entrants import Division
from tightrope.experiments.leaderboard.report import SLACK, Board, board, last_budget, slope, slower, summary, text
from tightrope.experiments.leaderboard.runs import FULL, QUICK, Size, compete, units
from tightrope.experiments.work import OtherSettingsError, Store, Unit, write_atomically, write_picture, write_table
from tightrope.loop.progress import Progress
from tightrope.methods import METHODS
from tightrope.plotting import new_figure

__all__ = [
    "FULL",
    "QUICK",
    "SLACK",
    "Board",
    "Division",
    "OtherSettingsError",
    "Size",
    "board",
    "compete",
    "last_budget",
    "leaderboard",
    "slope",
    "slower",
    "summary",
]


def leaderboard(
    out: str | Path = "leaderboard",
    quick: bool = False,
    methods: Sequence[str] = (),
    progress: bool | None = None,
    size: Size | None = None,
) -> Board:
    """Run the methods against each other, on streams of samples and on data at hand.

    All see the same samples and have the same number of oracle calls: a method that draws two samples a step takes half
    the steps. Nine settings of each are tried on seeds of their own, around its default coefficients; the best is measured
    on other seeds, at several budgets. Into the folder `out` go `leaderboard.csv` (standings), `rates.csv`,
    `leaderboard.txt` and pictures. Finished parts lie in `out/parts`; they are not computed again, so that an
    interrupted call can be repeated. A folder with parts of other settings is refused.

    Args:
        out: the folder to write to; made where it is not there.
        quick: a problem of each division and short runs, for a first look: under two minutes.
        methods: names of methods; all by default.
        progress: a progress bar; by default only on a terminal.
        size: how much work exactly, instead of `quick`.

    Returns:
        The standings, the fitted rates, and sentences on who wins where.

    Example:
        >>> from tightrope.experiments.leaderboard import QUICK
        >>> QUICK.streams, QUICK.tables
        (('ball',), ('simplex',))
    """
    for name in methods:
        if name not in METHODS:
            raise ValueError(f"leaderboard: there is no method {name!r}; expected some of {', '.join(METHODS)}.")
    out, size = Path(out), size or (QUICK if quick else FULL)
    if out.exists() and not out.is_dir():
        raise NotADirectoryError(f"leaderboard: {out} is a file; expected a folder to write to.")
    new_figure()  # says now, and not after the work, that matplotlib is missing
    # in float64 whatever the user's configuration: data at hand is solved to more digits than float32 has
    with jax.enable_x64(True):
        work = units(size, tuple(methods))
        store = Store(out, "leaderboard")
        missing = [unit for unit in work if not store.has(unit)]
        _compute(missing, store, progress)
        tables = [store.load(unit) for unit in work]
    found = board(pd.concat([table.dropna(axis="columns", how="all") for table in tables], ignore_index=True))
    _write(out, found)
    return found


def _compute(missing: Sequence[Unit], store: Store, progress: bool | None) -> None:
    """The parts, one on each core: compiling takes most of the time, and one core each. Ctrl-C leaves finished parts."""

    def work(unit: Unit) -> None:
        with jax.enable_x64(True):  # threads do not inherit it
            store.save(unit, unit.run({}))

    pool, done = ThreadPoolExecutor(min(8, 1 + (os.cpu_count() or 1))), 0
    with Progress(len(missing), progress, "parts") as bar:
        try:
            for _, units_of_problem in groupby(
                missing, lambda unit: (unit.settings["division"], unit.settings["problem"])
            ):
                for future in as_completed([pool.submit(work, unit) for unit in units_of_problem]):
                    future.result()
                    done += 1
                    bar.show(done)
                jax.clear_caches()  # hundreds of compiled programs would take gigabytes, and none is used again
        except KeyboardInterrupt:
            where = f"What was finished is in {store.folder}; the same call goes on from there."
            print(f"Interrupted; the parts in progress are still being stored. {where}", file=sys.stderr)
            raise
        finally:
            pool.shutdown(cancel_futures=True)


def _write(out: Path, found: Board) -> None:
    write_table(out / "leaderboard.csv", found.standings)
    write_table(out / "rates.csv", found.rates)
    write_atomically(out / "leaderboard.txt", text(found).encode())
    for name, picture in draw(found).items():
        write_picture(out / f"{name}.png", picture)
