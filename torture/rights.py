"""Missing rights, other versions, other processes, other signals: read-only files and folders, no home folder, folders of
compiled programs that belong to others, checkpoints and models of other versions, two processes on one checkpoint, a clock
that jumps, and SIGTERM and SIGHUP in every command. A sentence, and nothing that was there is lost."""

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import tightrope as tr
from tightrope import files
from torture.campaign import PROBLEM, ROWS, campaign, is_sentence, options, told
from torture.disk import NAMES, known

NOBODY = 65534  # the user without rights
COMMAND = """
import signal
for name in ("SIGTERM", "SIGHUP"):
    signal.signal(getattr(signal, name), signal.SIG_DFL)  # a process in the background may have been told to ignore them
from tightrope.__main__ import main
print("begun", flush=True)
main()
"""
COMMANDS = (
    ("reproduce", "fig3", "--quick", "--out"),
    ("leaderboard", "--quick", "--processes", "2", "--out"),
    ("leaderboard", "--quick", "--out"),
)
IN_TIME = 10.0  # seconds from a signal to the end of the command and all its processes, on a busy machine
PAIR = """
import sys, numpy as np, tightrope as tr
from pathlib import Path
from torture.campaign import PROBLEM, ROWS
result = tr.minimize(PROBLEM, ROWS, method="csoa", steps=3000, chunk=50, checkpoint=Path(sys.argv[1]), checkpoint_every=100,
                     progress=False, output="last")
print(result.x.tobytes().hex())
"""


@contextlib.contextmanager
def without_rights() -> Iterator[None]:
    """As a user who owns nothing, where this process is root, for whom no file is read-only."""
    root = os.geteuid() == 0
    if root:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)


def read_only(chance: random.Random) -> str | None:
    """A write into a folder, or over a file, that may not be written to."""
    name = chance.choice([name for name in NAMES if name != "run.ckpt"])
    kind, older, _, _ = known(name)
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        folder.chmod(0o755)
        kind.write(folder / name, False)
        inside = [folder, *(file for file in folder.rglob("*"))]
        for file in inside:
            file.chmod(0o555 if file.is_dir() else 0o444)
        said = ""
        try:
            with without_rights():
                kind.write(folder / name, True)
        except OSError as error:
            said = str(error)
        except Exception as error:
            return f"{name} in a read-only folder: {told(error)}"
        finally:
            for file in inside:
                file.chmod(0o755 if file.is_dir() else 0o644)
        if not ("could not be written" in said and name in said):
            return f"{name} in a read-only folder: {said!r}"
        return None if np.array_equal(kind.read(folder / name), older) else f"{name}: what was there has changed"


def unreadable(chance: random.Random) -> str | None:
    """A read of a file that may not be read."""
    name = chance.choice(["fair.model", "fit", "complete"])
    kind, *_ = known(name)
    with tempfile.TemporaryDirectory() as made:
        Path(made).chmod(0o755)
        path = Path(made) / name
        kind.write(path, True)
        for file in [path] if path.is_file() else path.iterdir():
            file.chmod(0o000)
        try:
            with without_rights():
                kind.read(path)
        except ValueError as error:
            return None if name in str(error) else f"{name} without the right to read: {error}"
        except Exception as error:
            return f"{name} without the right to read: {told(error)}"
        return f"{name} without the right to read was read"


def other_versions(chance: random.Random) -> str | None:
    """A file that says it is of another version of its kind, or of the library or JAX."""
    name = chance.choice(["run.ckpt", "fair.model", "fit", "complete"])
    kind, *_ = known(name)
    with tempfile.TemporaryDirectory() as made:
        path = Path(made) / name
        form = files.Form.name
        number = chance.choice([0, 1, 2, 4, 10, 999])
        try:
            setattr(files.Form, "name", property(lambda self: f"tightrope {self.kind} {number + self.number + 1}"))  # noqa: B010
            kind.write(path, False)
        finally:
            setattr(files.Form, "name", form)  # noqa: B010 (a property of a frozen class)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                kind.read(path)
        except ValueError as error:
            sentence = is_sentence(error) and name in str(error)
            return None if sentence else f"{name} of another version: {told(error)}"
        except Exception as error:
            return f"{name} of another version: {told(error)}"
        return f"{name} of another version was read as if it were of this one"


def two_at_once(chance: random.Random) -> str | None:
    """Two processes with one checkpoint: both end where one alone ends, and the file is whole."""
    with tempfile.TemporaryDirectory() as made:
        file = Path(made) / "run.ckpt"
        command = [sys.executable, "-W", "ignore", "-c", PAIR, str(file)]
        both = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(2)]
        ends = [one.communicate(timeout=300) for one in both]
        if any(one.returncode for one in both):
            return f"two processes on one checkpoint: {' '.join(err[-200:] for _, err in ends)}"
        whole = tr.minimize(PROBLEM, ROWS, method="csoa", steps=3000, output="last", progress=False).x
        if {out.strip() for out, _ in ends} != {np.asarray(whole).tobytes().hex()}:
            return "two processes on one checkpoint: they end in other places than one alone"
        left = sorted(set(os.listdir(made)) - {"run.ckpt"})
        return f"two processes on one checkpoint: {left} left behind" if left else None


def jumping_clock(chance: random.Random) -> str | None:
    """The clock of the wall jumps by years, back and forth, while a run with a time limit writes checkpoints."""
    true = time.time
    with tempfile.TemporaryDirectory() as made:
        time.time = lambda: true() + chance.choice([-1e9, 0.0, 1e9])
        try:
            given = {"steps": 500, "time_limit": 60.0, "checkpoint": Path(made) / "run.ckpt", "checkpoint_every": 100}
            result = tr.minimize(PROBLEM, ROWS, method="csoa", output="last", progress=False, **given)
        finally:
            time.time = true
    whole = tr.minimize(PROBLEM, ROWS, method="csoa", steps=500, output="last", progress=False)
    same = np.array_equal(result.x, whole.x) and 0 <= result.cost.seconds < 60
    return None if same else f"a clock that jumps: {result.status}, {result.cost.seconds} s"


def foreign_cache(chance: random.Random) -> str | None:
    """A folder of compiled programs that others may write to, or that belongs to them, or no folder for one at all."""
    from tightrope import _compilation_cache as cache

    with tempfile.TemporaryDirectory() as made:
        folder = Path(made) / "programs"
        folder.mkdir(mode=0o700)
        how = chance.choice(["mode", "owner"] if os.geteuid() == 0 else ["mode"])
        if how == "owner":
            os.chown(folder, NOBODY, NOBODY)
        else:
            folder.chmod(0o700 | chance.choice([0o020, 0o002, 0o022, 0o077]))
        try:
            cache._make_ready(folder)
        except PermissionError as error:
            return None if "folder of your own" in str(error) else f"a cache of others ({how}): {error}"
        return f"a cache of others ({how}, {folder.stat().st_mode:o}) was taken"


def no_home(chance: random.Random) -> str | None:
    """A command without HOME, or with one that is not there."""
    bare = {name: value for name, value in os.environ.items() if not name.startswith(("HOME", "XDG", "TIGHTROPE"))}
    bare |= chance.choice([{}, {"HOME": "/nowhere/at/all"}, {"HOME": ""}, {"HOME": "/proc"}])
    words = chance.choice([["--version"], ["problems"], ["--help"]])
    command = [sys.executable, "-m", "tightrope", *words]
    done = subprocess.run(command, env=bare, capture_output=True, text=True, check=False, timeout=120)
    wrong = "Traceback" in done.stderr or done.returncode not in (0, 2)
    return f"{words} with HOME={bare.get('HOME')!r}: {done.returncode}, {done.stderr[-300:]}" if wrong else None


def signalled(chance: random.Random) -> str | None:
    """SIGTERM or SIGHUP at a random moment of a command: it ends, and nobody that it started works on."""
    sent, words = chance.choice([signal.SIGTERM, signal.SIGHUP]), chance.choice(COMMANDS)
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-c", COMMAND, *words, folder]
        pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "start_new_session": True}
        with subprocess.Popen(command, text=True, **pipes) as victim:
            assert victim.stdout is not None
            victim.stdout.readline()
            time.sleep(chance.uniform(0.5, 20))
            victim.send_signal(sent)
            try:  # the pipes close when the last of its processes has ended
                said = victim.communicate(timeout=IN_TIME)[1]
            except subprocess.TimeoutExpired:
                os.killpg(victim.pid, signal.SIGKILL)
                return f"{sent.name} in {' '.join(words[:-1])}: it, or a process that it started, went on for {IN_TIME:g} s"
        if "Traceback" in said:
            return f"{sent.name} in {' '.join(words[:-1])}: {said[-300:]}"
        parts = [file for file in Path(folder).rglob("*.csv") if not _whole(file)]
        return f"{sent.name} in {' '.join(words[:-1])}: {parts[0]} is not whole" if parts else None


def _whole(part: Path) -> bool:
    first, *rows = part.read_text().split("\n")
    try:
        json.loads(first.removeprefix("# "))
    except json.JSONDecodeError:
        return False
    return len(rows) > 2 and not rows[-1]


QUICK: tuple[Callable[[random.Random], str | None], ...] = (
    read_only, unreadable, other_versions, jumping_clock, foreign_cache,
)  # fmt: skip
SLOW = (two_at_once, no_home, signalled)
SLOW_EVERY = 10  # one attack in as many starts processes


def attack(k: int) -> str | None:
    """One fault."""
    chance = random.Random(k)
    if k % SLOW_EVERY == SLOW_EVERY - 1:
        return SLOW[k // SLOW_EVERY % len(SLOW)](chance)
    return QUICK[k % len(QUICK)](chance)


if __name__ == "__main__":
    asked = options(300, workers=1)
    campaign("missing rights, other versions, processes and signals", asked.count, attack, 1, asked.first)
