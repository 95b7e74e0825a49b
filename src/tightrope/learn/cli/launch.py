"""`tightrope launch`: the same script in several processes of this machine, which find each other and end together.

Processes are told what Open MPI tells them, which `jax.distributed.initialize()` reads by itself. So a script is the same
here, under Slurm, Open MPI and Kubernetes.
"""

import contextlib
import os
import queue
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from typing import Annotated

import typer

from tightrope.learn.cli.errors import PATIENCE, Debug, UsageError
from tightrope.learn.cli.printing import say

_PATIENCE = 2 * PATIENCE  # seconds that a process gets to end by itself, of which one of ours takes half


def launch(
    command: Annotated[list[str], typer.Argument(help="What to run, after two dashes: -- python train.py.")],
    processes: Annotated[int, typer.Option("-n", "--processes", min=1, help="How many processes.")] = 2,
    debug: Debug = False,
) -> None:
    """Run a script in several processes on this machine, which share the rows of one run.

    The script calls jax.distributed.initialize() first, and gives its part of the rows: tr.Rows(part, mesh=...). What the
    first process prints is shown, and what any of them says on standard error. When one fails, the others are ended.
    """
    address = f"127.0.0.1:{_free_port()}"
    ended: queue.SimpleQueue[int] = queue.SimpleQueue()
    running: list[subprocess.Popen[bytes]] = []
    try:
        with _forwarded(running) as caught:
            for k in range(processes):
                running.append(_start(command, k, processes, address))
                threading.Thread(target=_watch, args=(running[k], k, ended), daemon=True).start()
            failed = _first_failure(running, ended)
    finally:
        _end(running)
    if caught:
        raise typer.Exit(128 + caught[0])
    if failed is not None:
        code = running[failed].returncode
        how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
        others = "" if processes == 1 else ", and the others were ended with it"
        say(
            f"Process {failed} of {processes} {how}{others}. A run with a checkpoint goes on from it when launched again, "
            "on any number of processes.",
            "red",
        )
        raise typer.Exit(128 - code if code < 0 else code)


def _start(command: list[str], k: int, processes: int, address: str) -> subprocess.Popen[bytes]:
    told = {
        "JAX_COORDINATOR_ADDRESS": address,
        "OMPI_MCA_orte_hnp_uri": f"0.0;tcp://{address}",  # tells JAX that the next three are there
        "OMPI_COMM_WORLD_SIZE": str(processes),
        "OMPI_COMM_WORLD_RANK": str(k),
        "OMPI_COMM_WORLD_LOCAL_RANK": str(k),  # the accelerator that is this process's own
    }
    environment = {"JAX_CPU_COLLECTIVES_IMPLEMENTATION": "gloo"} | dict(os.environ) | told
    try:
        return subprocess.Popen(
            command, env=environment, stdout=None if k == 0 else subprocess.DEVNULL, start_new_session=True
        )
    except OSError as error:
        raise UsageError(
            f"{command[0]} cannot be run ({error.strerror}); expected a program, such as python."
        ) from error


def _watch(process: "subprocess.Popen[bytes]", k: int, ended: "queue.SimpleQueue[int]") -> None:
    process.wait()
    ended.put(k)


def _first_failure(running: "list[subprocess.Popen[bytes]]", ended: "queue.SimpleQueue[int]") -> int | None:
    """The process that failed first, as soon as it has; None when all have come to their end."""
    for _ in running:
        k = ended.get()
        if running[k].returncode != 0:
            return k
    return None


@contextlib.contextmanager
def _forwarded(running: "list[subprocess.Popen[bytes]]") -> Iterator[list[int]]:
    """Signals that ask this process to end are passed on; gives those that came."""
    caught: list[int] = []

    def forward(number: int, _: object) -> None:
        caught.append(number)
        for process in running:
            _send(process, number)

    before = {number: signal.signal(number, forward) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield caught
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _end(running: "list[subprocess.Popen[bytes]]") -> None:
    """End what still runs: kindly, then not."""
    for how in (signal.SIGTERM, signal.SIGKILL):
        for process in running:
            _send(process, how)
        for process in running:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_PATIENCE)


def _send(process: "subprocess.Popen[bytes]", number: int) -> None:
    """A signal to a process and those that it has started."""
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]
