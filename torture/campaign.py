"""What all campaigns share: counting what was tried and what failed, and the small problem that they attack."""

import argparse
import collections
import dis
import json
import math
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

import tightrope as tr

T = TypeVar("T")
PACKAGE = Path(tr.__file__).parent
ENDLESS = 10**9  # attacks: more than anybody waits for, where a time is given
SHOWN = 20  # failures at most
SECONDS, PATIENCE = (
    5.0,
    60.0,
)  # for one attack: of a processor, as the promise has it, and by the clock of a busy machine
MEGABYTES = 1000  # that one attack may take
BEGUN, ENDED = "attack begun: ", "attack ended: "
_RAISES = (dis.opmap["RAISE_VARARGS"], dis.opmap["RERAISE"])  # Python's instructions for it
_given: dict[str, float] = {}  # what the command line says to all campaigns

ROWS = np.random.default_rng(0).normal([1.0, -0.5, 0.2], 0.7, size=(500, 3))


def objective(x: Any, theta: Any) -> Any:
    """Half the squared distance."""
    return jnp.sum((x - theta) ** 2) / 2


def constraints(x: Any, theta: Any) -> Any:
    """A bilinear and a linear one."""
    return jnp.stack([jnp.dot(x, theta), x[0] + 0.1 * theta[1]])


def batches(skip: int = 0) -> Iterable[np.ndarray]:
    """Rows for ever, in batches of 250, from a position on."""
    k, rest = divmod(skip, 250)
    while True:
        yield np.random.default_rng(k).normal([1.0, -0.5, 0.2], 0.7, size=(250, 3))[rest:]
        k, rest = k + 1, 0


PROBLEM = tr.Problem(objective, constraints, tr.L2Ball(2.0, shape=3), levels=(0.5, 0.4))
SAMPLERS: dict[str, Callable[[], Any]] = {
    "rows": lambda: tr.Rows(ROWS),
    "generator": lambda: tr.Generator(lambda key: jnp.array([1.0, -0.5, 0.2]) + 0.7 * jax.random.normal(key, (3,))),
    "stream": lambda: tr.Stream(batches),
}


def campaign(what: str, count: int, attack: Callable[[int], str | None], workers: int = 1, first: int = 0) -> None:
    """Attack so many times, or for as long as `--seconds` says, each by its number, counted from the first. An attack gives
    a sentence where it got through. Ends the process."""
    began = time.perf_counter()
    last = began + _given.get("seconds", math.inf)
    with ThreadPoolExecutor(workers) as pool:
        _report(what, _attacked(pool, attack, range(first, first + count), workers, last), count, began)


def _attacked(
    pool: ThreadPoolExecutor, attack: Callable[[int], str | None], numbers: Iterable[int], workers: int, last: float
) -> Iterator[str | None]:
    """What attacks come to, in their order; as many are under way as there are workers, until the time has come."""
    under_way: collections.deque[Future[str | None]] = collections.deque()
    for k in numbers:
        if time.perf_counter() >= last:
            break
        under_way.append(pool.submit(attack, k))
        if len(under_way) == workers:
            yield under_way.popleft().result()
    for one in under_way:
        yield one.result()


def _report(what: str, outcomes: Iterable[str | None], count: int, began: float) -> NoReturn:
    """Count, show and end the process."""
    tried, failures = 0, []
    for tried, said in enumerate(outcomes, 1):
        failures += [said] if said else []
        if sys.stderr.isatty():
            print(f"\r{what}: {tried:,} of {count:,}, {len(failures)} failed", end="", file=sys.stderr, flush=True)
    for said in sorted(failures, key=len)[:SHOWN]:  # the smallest case first
        print(f"  FAILED {said}")
    print(f"{what}: {tried:,} tried, {len(failures):,} failed, {time.perf_counter() - began:.0f} s")
    sys.exit(1 if failures else 0)


def smallest(parts: list[T], fails: Callable[[list[T]], str | None]) -> str | None:
    """What a failing list of parts says, less every part without which it still fails. None where it does not fail."""
    said = fails(parts)
    for part in list(parts) if said else ():
        fewer = [other for other in parts if other is not part]
        still = fails(fewer)
        parts, said = (fewer, still) if still else (parts, said)
    return said


def options(count: int, workers: int = 2, endless: bool = True) -> argparse.Namespace:
    """`--count`, `--workers`, `--first`, the number of the first attack, and `--seconds` of the command line. With seconds
    there is no end to the count, unless it counts something else than attacks."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int)
    parser.add_argument("--workers", type=int, default=workers)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seconds", type=float, help="attack for so long, however often that is")
    parser.add_argument("--watched", action="store_true", help=argparse.SUPPRESS)  # by the process that watches
    asked = parser.parse_args()
    if asked.seconds is not None:
        _given["seconds"] = asked.seconds
    asked.count = asked.count or (ENDLESS if endless and asked.seconds is not None else count)
    return asked


# ---- what is said of an error -------------------------------------------------------------------------------------------


def is_sentence(error: BaseException) -> bool:
    """Whether an error is one of the library's own sentences: the library's code says `raise`, and it is a sentence."""
    said, trace = str(error).strip(), error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    own = trace is not None and str(PACKAGE) in trace.tb_frame.f_code.co_filename and _raises(trace)
    return own and isinstance(error, ValueError | TypeError | OSError) and " " in said and said[-1] in ".?)"


def _raises(trace: TracebackType) -> bool:
    """Whether the code stands at a `raise`, and not at a call of something that is not written in Python."""
    return trace.tb_frame.f_code.co_code[trace.tb_lasti] in _RAISES


def told(error: BaseException) -> str:
    """An error on one line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"


# ---- attacks that may hang, flood or crash ------------------------------------------------------------------------------


def watched(what: str, asked: argparse.Namespace, program: str, attack: Callable[[int], str | None]) -> None:
    """A campaign whose attacks run one after the other in a process of their own, which is killed, and begun again after the
    attack that it was at, where one takes too long or too much memory. Where the process crashes, that is a failure too."""
    if asked.watched:
        for k in range(asked.first, asked.first + asked.count):
            print(f"{BEGUN}{k}", flush=True)
            print(f"{ENDED}{json.dumps(attack(k))}", flush=True)
        sys.exit(0)
    began = time.perf_counter()
    last = began + (math.inf if asked.seconds is None else asked.seconds)
    _report(what, _watch(program, asked.first, asked.first + asked.count, last), asked.count, began)


def _watch(program: str, k: int, end: int, last: float) -> Iterator[str | None]:
    while k < end and time.perf_counter() < last:
        command = [sys.executable, "-m", program, "--watched", "--first", str(k), "--count", str(end - k)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as victim:
            assert victim.stdout is not None
            for said in _outcomes(victim):
                yield said
                k += 1
                if time.perf_counter() > last:
                    break
            victim.kill()


def _outcomes(victim: "subprocess.Popen[str]") -> Iterator[str | None]:
    """What each attack of the victim comes to; ends after the first that the victim did not survive."""
    lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()

    def read() -> None:
        for line in victim.stdout or ():
            lines.put(line)
        lines.put(None)

    threading.Thread(target=read, daemon=True).start()
    at: tuple[str, float, float, float] | None = None  # the attack, and what had been used before it
    while True:
        try:
            line = lines.get(timeout=0.05)
        except queue.Empty:
            line = ""
        if line is None:
            if at is not None:
                yield f"attack {at[0]}: the process ended with {victim.wait()}"
            return
        if line.startswith(BEGUN):
            at = line.removeprefix(BEGUN).strip(), time.perf_counter(), *_used(victim.pid)
        elif line.startswith(ENDED):
            at = None
            yield json.loads(line.removeprefix(ENDED))
        if at is not None:
            number, began, seconds, megabytes = at
            now = _used(victim.pid)
            if now[0] - seconds > SECONDS or time.perf_counter() - began > PATIENCE:
                yield f"attack {number}: went on for more than {SECONDS:g} s"
                return
            if now[1] - megabytes > MEGABYTES:
                yield f"attack {number}: took more than {MEGABYTES:,} MB"
                return


def _used(process: int) -> tuple[float, float]:
    """Seconds of a processor, and megabytes of memory, that a process has used and has. Zeros where that cannot be read."""
    try:
        times = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        pages = Path(f"/proc/{process}/statm").read_text().split()
    except OSError:
        return 0.0, 0.0
    return (int(times[11]) + int(times[12])) / os.sysconf("SC_CLK_TCK"), int(pages[1]) * os.sysconf("SC_PAGESIZE") / 1e6
