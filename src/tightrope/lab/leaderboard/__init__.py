"""The leaderboard: every method on every problem with a known solution that it fits, on equal terms.

`leaderboard` does the work in parts that are stored as they finish; a second call goes on where the first was stopped.
"""

import dataclasses
import gzip
import multiprocessing
import signal
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import partial
from pathlib import Path

import jax
import pandas as pd

from tightrope._errors import whole_number
from tightrope.lab.leaderboard.divisions import DIVISIONS, Division, Source
from tightrope.lab.leaderboard.drawing import draw
from tightrope.lab.leaderboard.report import SLACK, Board, board, last_budget, slope, slower, summary, text
from tightrope.lab.leaderboard.runs import FULL, QUICK, Size, compete, units
from tightrope.lab.work import (
    OtherSettingsError,
    Store,
    Unit,
    goes_on_later,
    ready_to_write,
    write_atomically,
    write_picture,
    write_table,
)
from tightrope.loop.record import Progress
from tightrope.methods import registered

__all__ = [
    "DIVISIONS",
    "FULL",
    "QUICK",
    "SLACK",
    "Board",
    "Division",
    "OtherSettingsError",
    "Size",
    "Source",
    "all_runs",
    "board",
    "compete",
    "last_budget",
    "leaderboard",
    "slope",
    "slower",
    "summary",
    "write",
]


def leaderboard(
    out: str | Path = "leaderboard",
    quick: bool = False,
    methods: Sequence[str] = (),
    progress: bool | None = None,
    size: Size | None = None,
    processes: int = 1,
    hidden_seed: int | None = None,
) -> Board:
    """Run the methods against each other, on streams of samples and on data at hand.

    All see the same samples and have the same number of oracle calls: a method that draws two samples a step takes half
    the steps. Nine settings of each are tried on seeds of their own, around its default coefficients; the best is measured
    on other seeds, at several budgets. In the divisions "defaults" each is measured as it is without coefficients; in those
    called "lmos" budgets count linear minimisations; in those called "hidden" the problems are random ones that nobody has
    looked at, and again there are no coefficients. Into the folder `out` go `leaderboard.csv` (standings), `rates.csv`,
    `runs.csv.gz` (every run, one by one), `leaderboard.txt` and pictures. Finished parts lie in `out/parts`; they are not
    computed again, so that an interrupted call can be repeated. A folder with parts of other settings is refused.

    Args:
        out: the folder to write to; made where it is not there.
        quick: one problem with a stream, one with data at hand, one hidden instance and short runs, for a first look: five
            minutes on one core.
        methods: names of methods; all by default.
        progress: a progress bar; by default only on a terminal or in a notebook.
        size: how much work exactly, instead of `quick`.
        processes: how many to work with, side by side. With more than one, a script that calls this needs its
            `if __name__ == "__main__":`.
        hidden_seed: what hidden instances are drawn from; by default a hash of the version's number.

    Returns:
        The standings, the fitted rates, and sentences on who wins where.

    Example:
        >>> from tightrope.lab.leaderboard import QUICK
        >>> QUICK.streams, QUICK.tables
        (('ball',), ('simplex',))
    """
    for name in methods:
        if name not in registered():
            raise ValueError(f"leaderboard: there is no method {name!r}; expected some of {', '.join(registered())}.")
    processes = whole_number("leaderboard", "processes", processes)
    out, size = Path(out), size or (QUICK if quick else FULL)
    if hidden_seed is not None:
        seed = whole_number("leaderboard", "hidden_seed", hidden_seed, least=0)
        size = dataclasses.replace(size, hidden_seed=seed)
    ready_to_write("leaderboard", out)
    runs = all_runs(out, size, methods, progress, processes)
    found = board(runs)
    write(out, runs, found)
    return found


def all_runs(
    out: Path, size: Size, methods: Sequence[str] = (), progress: bool | None = None, processes: int = 1
) -> pd.DataFrame:
    """Every run of the leaderboard, a row each; those that are not in `out/parts` yet are made."""
    # in float64 whatever the user's configuration: data at hand is solved to more digits than float32 has
    with jax.enable_x64(True):
        work = units(size, tuple(methods))
        store = Store(out, "leaderboard")
        missing = [unit for unit in work if not store.has(unit)]
        _compute(missing, store, progress, processes)
        tables = [store.load(unit) for unit in work]
    return pd.concat([table.dropna(axis="columns", how="all") for table in tables], ignore_index=True)


def _compute(missing: Sequence[Unit], store: Store, progress: bool | None, processes: int) -> None:
    """The parts, one after the other or several side by side. Ctrl-C leaves those that are finished."""
    work = _one_by_one if processes == 1 or len(missing) < 2 else partial(_side_by_side, processes=processes)
    with Progress(len(missing), progress, "parts") as bar, goes_on_later(store.folder):
        for done, _ in enumerate(work(missing, store), 1):
            bar.show(done)


def _one_by_one(missing: Sequence[Unit], store: Store) -> Iterator[None]:
    for unit in missing:
        yield _store(unit, store)


def _side_by_side(missing: Sequence[Unit], store: Store, processes: int) -> Iterator[None]:
    """In processes and not in threads: two thirds of the time go into compiling, a third of that into tracing, which is
    Python's."""
    context = multiprocessing.get_context("spawn")  # a fork of a program that has used JAX may hang
    others = multiprocessing.active_children()
    pool = ProcessPoolExecutor(processes, context, signal.signal, (signal.SIGINT, signal.SIG_IGN))
    try:
        for future in as_completed([pool.submit(_store, unit, store) for unit in missing]):
            yield future.result()
    except KeyboardInterrupt:  # parts in progress may take long and are not waited for: their files are whole or absent
        for worker in multiprocessing.active_children():
            if worker not in others:
                worker.kill()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


_compiled_for: list[object] = []  # the problem at work


def _store(unit: Unit, store: Store) -> None:
    """Compute a part and keep it."""
    problem = unit.settings["source"], unit.settings["problem"]
    if _compiled_for != [problem]:
        jax.clear_caches()  # hundreds of compiled programs would take gigabytes, and none is used for another problem
        _compiled_for[:] = [problem]
    with jax.enable_x64(True):
        store.save(unit, unit.run({}))


def write(out: Path, runs: pd.DataFrame, found: Board) -> None:
    """Write tables, text and pictures into a folder."""
    write_atomically(
        out / "runs.csv.gz", gzip.compress(runs.to_csv(index=False, float_format="%.6g").encode(), mtime=0)
    )
    write_table(out / "leaderboard.csv", found.standings)
    write_table(out / "rates.csv", found.rates)
    write_atomically(out / "leaderboard.txt", text(found).encode())
    for name, picture in draw(found).items():
        write_picture(out / f"{name}.png", picture)
