"""kill -9, again and again, of runs that write checkpoints; what they come to is what an undisturbed run comes to.

A victim is killed a random moment after it has written its first checkpoint since it was started. Every other victim writes
all the time, so that many of them die while they write. All but the first of a chain resume what the one before left.
"""

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import tightrope as tr
from torture.campaign import PROBLEM, SAMPLERS, campaign, options

PAIRS = [
    ("csoa", "rows"), ("csoa", "generator"), ("csoa", "stream"), ("fw-csoa", "rows"), ("fw-csoa", "generator"),
    ("fw-csoa", "stream"), ("svrg-csoa", "rows"), ("cfw-csoa", "rows"),
]  # fmt: skip
STEPS = {"csoa": 400_000, "fw-csoa": 400_000, "svrg-csoa": 200_000, "cfw-csoa": 100_000}
KILLS = 12  # of one chain


def solve(method: str, sampler: str, file: Path | None, often: bool = False) -> np.ndarray:
    """The whole run, from where the file has it."""
    every = None if file is None else 200 if often else 5000
    result = tr.minimize(
        PROBLEM, SAMPLERS[sampler](), method=method, steps=STEPS[method], checkpoint=file, checkpoint_every=every,
        chunk=200, progress=False, output="last", batch_size=1,
    )  # fmt: skip
    assert result.status is tr.Status.FINISHED, result.status
    return np.concatenate([np.ravel(result.last), np.ravel(result.dual_last)])


def chain(k: int) -> str | None:
    """One run, killed many times; a sentence where it ends elsewhere."""
    method, sampler = PAIRS[k % len(PAIRS)]
    chance = random.Random(k)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "run.ckpt"
        command = [sys.executable, "-m", "torture.kills", "--victim", method, sampler, str(file), str(k % 2)]
        for kill in range(KILLS):
            before = file.stat().st_mtime_ns if file.exists() else 0
            with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as victim:
                while victim.poll() is None and (file.stat().st_mtime_ns if file.exists() else 0) == before:
                    time.sleep(0.001)
                time.sleep(chance.uniform(0, 0.05))
                victim.send_signal(signal.SIGKILL)
                said = (victim.stderr.read() if victim.stderr else b"").decode()
            if victim.returncode == 0:
                return f"{method} on {sampler}: finished before kill {kill + 1}; take more steps"
            if victim.returncode != -signal.SIGKILL:
                return f"{method} on {sampler}, kill {kill + 1}: ended by itself: {said[-300:]}"
        left = sorted(set(os.listdir(folder)) - {file.name})
        end, whole = solve(method, sampler, file), solve(method, sampler, None)
        still = sorted(set(os.listdir(folder)) - {file.name})
        if not np.array_equal(end, whole):
            return f"{method} on {sampler}: {end} and not {whole}, after files {left}"
        return f"{method} on {sampler}: {still} left behind" if still else None


if __name__ == "__main__":
    if "--victim" in sys.argv:
        method, sampler, file, often = sys.argv[2:]
        solve(method, sampler, Path(file), often == "1")
    else:
        asked = options(300)
        chains = -(-asked.count // KILLS)
        campaign(f"kill -9, {KILLS} times each run, resumed bit for bit", chains, chain, asked.workers)
