"""The study's work: which promises there are, one job for each law, counts that are kept, processes that share the jobs."""

import importlib
import json
import multiprocessing
import os
import pkgutil
from pathlib import Path

import studies.adverse
from studies.adverse.search import Count, Promise

_NO_PROMISES = {"search", "report", "work", "__main__"}


def promises() -> dict[str, Promise]:
    """Every promise that a module of this folder has, by name."""
    found = {}
    for module in pkgutil.iter_modules(studies.adverse.__path__):
        if module.name not in _NO_PROMISES:
            room = importlib.import_module(f"studies.adverse.{module.name}")
            given = [getattr(room, "PROMISE", None), *getattr(room, "PROMISES", ())]
            found |= {promise.name: promise for promise in given if promise is not None}
    return found


class Job(dict):
    """One law of one promise: name, phase, k, times, file."""


def work(job: Job) -> None:
    """Count, and keep the count."""
    promise = promises()[job["name"]]
    count = promise.attack(job["k"], job["phase"], job["times"])
    kept = {**job, **count._asdict(), "law": str(promise.law(job["k"]))}
    file = Path(job["file"])
    file.with_suffix(".part").write_text(json.dumps(kept, indent=1))
    os.replace(file.with_suffix(".part"), file)
    print(f"{job['name']}, {job['phase']} {job['k']}: {count}, {count.promised} promised", flush=True)


def jobs(promise: Promise, phase: str, laws: list[int], times: int, out: Path) -> list[Job]:
    """What is not counted yet."""
    names = {k: out / f"{promise.name}-{phase}-{k}.json" for k in laws}
    made = (Job(name=promise.name, phase=phase, k=k, times=times, file=str(file)) for k, file in names.items())
    return [job for job in made if not Path(job["file"]).exists()]


def counted(out: Path, name: str, phase: str) -> dict[int, Count]:
    """What has been counted of a promise, by law."""
    found = {}
    for file in sorted(out.glob(f"{name}-{phase}-*.json")):
        kept = json.loads(file.read_text())
        found[kept["k"]] = Count(kept["attempts"], kept["promised"], kept["false"])
    return found


def run(todo: list[Job], processes: int) -> None:
    """All jobs, in fresh processes: JAX does not survive a fork."""
    if processes == 1:
        for job in todo:
            work(job)
    elif todo:
        with multiprocessing.get_context("spawn").Pool(processes) as pool:
            for _ in pool.imap_unordered(work, todo):
                pass
