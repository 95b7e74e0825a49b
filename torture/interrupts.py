"""Ctrl-C at random moments of a run in another process: the result so far is printed, and the checkpoint is whole."""

import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import tightrope as tr
from torture.campaign import PROBLEM, ROWS, campaign, options

VICTIM = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # a process in the background would not hear it
import sys
from pathlib import Path
from torture.interrupts import solve
print("begun", flush=True)
print(solve(Path(sys.argv[1])).status.name, flush=True)
"""
STEPS = 300_000


def solve(file: Path) -> tr.Result:
    """A run that takes some seconds."""
    return tr.minimize(
        PROBLEM, ROWS, method="fw-csoa", steps=STEPS, chunk=100, checkpoint=file, checkpoint_every=1000, progress=False
    )


def attack(k: int) -> str | None:
    """One Ctrl-C; a sentence where the run did not end as it should."""
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
    asked = options(200)
    campaign("Ctrl-C at random moments", asked.count, attack, asked.workers)
