"""Attack the library's promises with random laws.

    python -m studies.adverse                          the half to develop on, and its worst laws again
    python -m studies.adverse --half unseen            the other half
    python -m studies.adverse --only fair --processes 16
    python -m studies.adverse --page                   writes docs/adverse.md from what was counted

What was counted is kept in a file for each promise, half and law: an interrupted study goes on where it was.
"""

import argparse
import importlib
import json
import multiprocessing
import os
import pkgutil
from pathlib import Path

import studies.adverse
from studies.adverse.report import failures, page
from studies.adverse.search import Count, Promise, worst

_NO_PROMISES = {"search", "report", "__main__"}


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


def main() -> None:
    """Attack, count, write; fail where a promise is broken too often."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", default=[""], help="parts of names of promises")
    parser.add_argument("--half", choices=("develop", "unseen"), default="develop")
    parser.add_argument("--scale", type=float, default=1.0, help="of all numbers of attempts")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("out/adverse"))
    parser.add_argument("--page", action="store_true")
    options = parser.parse_args()
    chosen = {name: p for name, p in promises().items() if any(part in name for part in options.only)}
    options.out.mkdir(parents=True, exist_ok=True)
    if not options.page:
        todo = []
        for promise in chosen.values():
            laws = list(promise.halves[options.half])
            times = max(1, round(options.scale * promise.repetitions / len(laws)))
            todo += jobs(promise, options.half, laws, times, options.out)
        run(todo, options.processes)
        if options.half == "develop":
            again = []
            for promise in chosen.values():
                laws = worst(counted(options.out, promise.name, "develop"))
                times = max(1, round(options.scale * promise.again))
                again += jobs(promise, "again", laws, times, options.out)
            run(again, options.processes)
    counts = {
        name: {phase: counted(options.out, name, phase) for phase in ("develop", "again", "unseen")} for name in chosen
    }
    text = page(chosen, counts)
    print(text)
    if options.page:
        Path("docs/adverse.md").write_text(text)
    if failed := failures(chosen, counts):
        raise SystemExit("Broken too often: " + "; ".join(failed))


if __name__ == "__main__":
    main()
