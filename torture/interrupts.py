"""Ctrl-C at random moments. Of a run in another process: the result so far is printed, and the checkpoint is whole. Of the
long commands, pressed once or twice: they end in time with 130, nobody works on, and the parts that are there are whole. At
a random line of calls that consist of several runs: none of them goes on as if nothing had been."""

import functools
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import tightrope as tr
from torture.campaign import PROBLEM, ROWS, SAMPLERS, campaign, constraints, objective, options
from torture.refits import broken

VICTIM = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # a process in the background would not hear it
import sys
from pathlib import Path
from torture.interrupts import solve
print("begun", flush=True)
print(solve(Path(sys.argv[1])).status.name, flush=True)
"""
COMMAND = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from tightrope.__main__ import main
print("begun", flush=True)
main()
"""
COMMANDS = (
    ("reproduce", "fig3", "--quick"),
    ("leaderboard", "--quick", "--processes", "2"),
    ("leaderboard", "--quick"),
    ("reproduce", "fig2", "--quick"),
)
FAR = tr.Problem(objective, constraints, PROBLEM.domain, levels=(-0.5, -1.0))  # its start is not feasible
CALLS: dict[str, Callable[[], Any]] = {
    "solver": lambda: tr.minimize(FAR, ROWS, progress=False),
    "certified": lambda: tr.minimize(PROBLEM, ROWS[:250], output="certified", heldout=ROWS[250:], progress=False),
    "phase one": lambda: tr.minimize(FAR, ROWS, method="svrg-csoa", passes=3, output="feasible", progress=False),
    "samples": lambda: tr.minimize(PROBLEM, SAMPLERS["stream"](), steps=300, progress=False),
    "certificate": lambda: tr.certify(PROBLEM, np.zeros(3), ROWS, ranges=(-20.0, 20.0), population_gap=True),
}
STEPS = 300_000
EVERY = 11  # one attack in as many is on a command, which takes longer
AT_ONCE, IN_TIME = 1.0, 3.0  # seconds from the last Ctrl-C to the end, of two and of one; promised are none and two


def solve(file: Path) -> tr.Result:
    """A run that takes some seconds."""
    return tr.minimize(
        PROBLEM, ROWS, method="fw-csoa", steps=STEPS, chunk=100, checkpoint=file, checkpoint_every=1000, progress=False
    )


def attack(k: int) -> str | None:
    """A sentence where the program did not end as it should."""
    if k % EVERY == EVERY - 1:
        return attack_command(k // EVERY)
    return attack_run(k) if k % 2 else attack_call(k // 2)


def attack_call(k: int) -> str | None:
    """Ctrl-C at a line of a call: it is heard, in a status or as an exception."""
    chance, name = random.Random(k), list(CALLS)[k % len(CALLS)]
    at = chance.randint(1, lines_of(name))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            with broken(at, raised=KeyboardInterrupt) as count:
                found = CALLS[name]()
        except KeyboardInterrupt:
            return None
    heard = count[0] < at or getattr(found, "status", None) is tr.Status.INTERRUPTED
    return None if heard else f"call {k}, {name}, line {at:,}: it went on"


@functools.cache
def lines_of(name: str) -> int:
    """How many lines a call comes to, once it is compiled."""
    CALLS[name]()
    with broken(0) as count:
        CALLS[name]()
    return count[0]


def attack_command(k: int) -> str | None:
    """One Ctrl-C or two, some time after a command has begun."""
    chance, words = random.Random(k), COMMANDS[k % len(COMMANDS)]
    twice, limit = (True, AT_ONCE) if k // len(COMMANDS) % 2 else (False, IN_TIME)
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-c", COMMAND, *words, "--out", folder]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "start_new_session": True}
        with subprocess.Popen(command, text=True, **pipes) as victim:
            assert victim.stdout is not None
            victim.stdout.readline()
            time.sleep(chance.uniform(0.5, 25))
            victim.send_signal(signal.SIGINT)
            if twice:
                time.sleep(chance.uniform(0.02, 0.5))
                victim.send_signal(signal.SIGINT)
            began = time.perf_counter()
            try:  # the pipes close when the last of its processes has ended
                said = " ".join(victim.communicate(timeout=30)[1].split())
            except subprocess.TimeoutExpired:
                os.killpg(victim.pid, signal.SIGKILL)
                return f"command {k}, {' '.join(words)}: it, or a process that it started, went on for 30 s"
            took = time.perf_counter() - began
        if victim.returncode != 130 or "Traceback" in said:
            return f"command {k}, {' '.join(words)}: exit {victim.returncode}, {said[-300:]}"
        if took > limit:
            return f"command {k}, {' '.join(words)}: took {took:.1f} s{' after the second Ctrl-C' * twice}"
        return next(filter(None, map(_torn, sorted(Path(folder).rglob("*.csv")))), None)


def _torn(part: Path) -> str | None:
    """A sentence on a part that is not whole: a line of JSON, a header and rows, each with its end."""
    first, *rows = part.read_text().split("\n")
    whole = len(rows) > 2 and not rows[-1] and all(row.count(",") >= rows[0].count(",") for row in rows[:-1])
    try:
        json.loads(first.removeprefix("# "))
    except json.JSONDecodeError:
        whole = False
    return None if whole else f"{part} is not whole"


def attack_run(k: int) -> str | None:
    """One Ctrl-C; the run gives back what it has."""
    chance = random.Random(k)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "run.ckpt"
        command = [sys.executable, "-c", VICTIM, str(file)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as victim:
            assert victim.stdout is not None
            assert victim.stderr is not None
            victim.stdout.readline()
            while not file.exists() and victim.poll() is None:
                time.sleep(0.001)
            time.sleep(chance.uniform(0, 0.3))
            victim.send_signal(signal.SIGINT)
            began = time.perf_counter()
            said, wrong = victim.stdout.read().strip(), victim.stderr.read().strip()
            took = time.perf_counter() - began
        if victim.returncode or said not in ("INTERRUPTED", "FINISHED"):
            return f"interrupt {k}: exit {victim.returncode}, {said!r}, {wrong[-300:]}"
        if took > 10:
            return f"interrupt {k}: took {took:.0f} s"
        tr.minimize(PROBLEM, ROWS, method="fw-csoa", steps=STEPS, checkpoint=file, progress=False, time_limit=0.05)
    return None


if __name__ == "__main__":
    asked = options(440)
    campaign("Ctrl-C at random moments", asked.count, attack, asked.workers, asked.first)
