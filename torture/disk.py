"""A disk that is full at a random byte of every kind of file, or fails when a file is put in its place: what was there is
still there and whole, nothing half-written is left, a sentence says what happened, and a run goes on."""

import contextlib
import errno
import os
import random
import resource
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import tightrope as tr
from tightrope.lab.work import write_table
from tightrope.learn.cli.fit_predict import _to
from tightrope.learn.tables.classifier import TableClassifier, fit_table
from tightrope.learn.tables.ratings import RatingsModel, complete_ratings
from torture.bits import people, ratings
from torture.campaign import PROBLEM, ROWS, campaign, options, told

CACHE_EVERY = 40  # one attack in as many is on the folder of compiled programs, in another process
STEPS = 300
COMPILES = """
import sys, tightrope as tr
tr.compilation_cache(sys.argv[1])
import jax, jax.numpy as jnp
print(sum(float(jax.jit(lambda x: jnp.sin(x) * k)(1.0)) for k in range(1, 5)))
"""


class Kind(NamedTuple):
    """A kind of file: how an older and a newer one are written, and what a reader gets from it."""

    write: Callable[[Path, bool], Any]  # the newer one, if so
    read: Callable[[Path], Any]


def run(file: Path, newer: bool) -> Any:
    """A run with a checkpoint: the older one is of its first steps."""
    stop = (lambda snapshot: False) if newer else (lambda snapshot: snapshot.step >= 100)
    given = {"steps": STEPS, "record": 30, "callback": stop, "checkpoint_every": 100, "progress": False}
    return tr.minimize(PROBLEM, ROWS, method="csoa", checkpoint=file, output="last", **given).x


def models() -> dict[str, Kind]:
    """All kinds, with what is written made once."""
    table, films = people(), ratings()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fair = [fit_table(table, "pay", ["sex"], covariance=bound) for bound in (0.2, 0.05)]
        films_models = [
            complete_ratings(films, "user", "film", "stars", nuclear_norm=norm, unobserved_energy=50.0)
            for norm in (10.0, 30.0)
        ]
    results = [tr.minimize(PROBLEM, ROWS, method="csoa", steps=steps) for steps in (40, 90)]
    loaded = []
    with tempfile.TemporaryDirectory() as folder:
        for fitted in fair:
            fitted.save(folder)
            loaded.append(TableClassifier.load(folder))
    encoded = loaded[0].encoder.transform(table)

    def predictions(file: Path, newer: bool) -> None:
        with _to(file) as out:
            loaded[newer].predict(table).to_csv(out)

    return {
        "run.ckpt": Kind(run, lambda file: run(file, True)),
        "fair.model": Kind(
            lambda file, newer: loaded[newer].classifier.save(file),
            lambda file: tr.FairLogisticRegression.load(file).predict_proba(encoded),
        ),
        "fit": Kind(
            lambda folder, newer: fair[newer].save(folder),
            lambda folder: TableClassifier.load(folder).predict(table)["probability"].to_numpy(),
        ),
        "complete": Kind(
            lambda folder, newer: films_models[newer].save(folder),
            lambda folder: RatingsModel.load(folder).predict(films["user"], films["film"]),
        ),
        "report.html": Kind(lambda file, newer: results[newer].report(file), Path.read_bytes),
        "picture.png": Kind(lambda file, newer: results[newer].plot(str(file)), _picture),
        "predictions.csv": Kind(predictions, Path.read_bytes),
        "part.csv": Kind(lambda file, newer: write_table(file, results[newer].trace), Path.read_bytes),
    }


def _picture(file: Path) -> Any:
    from matplotlib.image import imread

    return imread(file)


@contextlib.contextmanager
def full_after(count: int) -> Iterator[None]:
    """No file of this process may be longer than so many bytes: the system refuses the rest of a write."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (count, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@contextlib.contextmanager
def fails_at(name: str, call: int) -> Iterator[None]:
    """The so manieth call of a function of `os` finds the disk full."""
    true, calls = getattr(os, name), []

    def fails(*given: Any, **named: Any) -> Any:
        calls.append(1)
        if len(calls) == call:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return true(*given, **named)

    setattr(os, name, fails)
    try:
        yield
    finally:
        setattr(os, name, true)


_kinds: dict[str, Kind] = {}
_known: dict[str, tuple[Any, Any, int]] = {}


def known(name: str) -> tuple[Kind, Any, Any, int]:
    """A kind, what its older and its newer file say, and how long the longest file of the newer one is."""
    if not _kinds:
        _kinds.update(models())
    kind = _kinds[name]
    if name not in _known:
        with tempfile.TemporaryDirectory() as folder:
            said = []
            for newer in (False, True):
                path = Path(folder) / f"{newer}-{name}"
                kind.write(path, newer)
                size = max(file.stat().st_size for file in ([path] if path.is_file() else path.iterdir()))
                said.append(kind.read(path))
            _known[name] = (*said, size)
    return kind, *_known[name]


NAMES = (
    "run.ckpt", "fair.model", "fit", "complete", "report.html", "picture.png", "predictions.csv", "part.csv",
)  # fmt: skip


def attack(k: int) -> str | None:
    """One write to a disk that is full somewhere."""
    chance = random.Random(k)
    if k % CACHE_EVERY == CACHE_EVERY - 1:
        return attack_cache(chance)
    name = NAMES[k % len(NAMES)]
    kind, older, newer, size = known(name)
    where = f"{name}, attack {k}"
    byte, call = chance.randrange(size), chance.randint(1, 3)
    broken = full_after(byte) if chance.random() < 0.7 else fails_at(chance.choice(["replace", "fsync"]), call)
    with tempfile.TemporaryDirectory() as made:
        folder, said, outcome = Path(made), "", None
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            kind.write(folder / name, False)
            there = _files(folder)
            try:
                with broken:
                    outcome = kind.write(folder / name, True)
            except OSError as error:
                said = str(error)
            except Exception as error:
                return f"{where}: {told(error)}"
        said = said or " ".join(str(one.message) for one in caught)
        left = {file for file in _files(folder) - there if ".tmp" in file or ".unfinished" in file}
        if left and (not said or "part" not in name):
            return f"{where}: left {sorted(left)} behind"
        try:
            now = kind.read(folder / name)
        except Exception as error:
            return f"{where}: what was there cannot be read any more: {told(error)}"
        if name == "run.ckpt" and outcome is not None and not np.array_equal(outcome, newer):
            return f"{where}: the run went elsewhere"
        if not (np.array_equal(now, older) or np.array_equal(now, newer)):
            return f"{where}: what is read is neither the older nor the newer one"
        if not said and not np.array_equal(now, newer):
            return f"{where}: nothing was said, and the older one is still there"
        ok = not said or ("could not be written" in said and name in said)
        return None if ok else f"{where}: {said!r} is no sentence on the file"


def _files(folder: Path) -> set[str]:
    return {str(file.relative_to(folder)) for file in folder.rglob("*")}


def attack_cache(chance: random.Random) -> str | None:
    """Compiled programs that cannot be kept: the process computes as if nothing had been, and so does the next one."""
    byte = chance.randrange(20_000)

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (byte, resource.RLIM_INFINITY))

    with tempfile.TemporaryDirectory() as folder:
        answers = []
        for before in (limited, None):
            done = subprocess.run(
                [sys.executable, "-W", "ignore", "-c", COMPILES, str(Path(folder) / "programs")],
                capture_output=True, text=True, preexec_fn=before, check=False,
            )  # fmt: skip
            if done.returncode:
                return f"the folder of compiled programs, full at byte {byte}: {done.stderr[-300:]}"
            answers.append(done.stdout)
        return None if answers[0] == answers[1] else f"compiled programs, full at byte {byte}: {answers}"


if __name__ == "__main__":
    asked = options(400, workers=1)
    campaign("full disks", asked.count, attack, 1, asked.first)
