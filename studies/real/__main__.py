"""Solve convex problems on real data as a NumPy user would, and count how often and how fast `minimize` is right.

    python -m studies.real                             the half to develop on
    python -m studies.real --references                references and second opinions on them, no more; also of --half unseen
    python -m studies.real --only tumours portfolio    names that contain one of these
    python -m studies.real --half unseen               the other half, developed on, too, since it was seen
    python -m studies.real --half later                what was written after that: once, when nothing changes any more
    python -m studies.real --page                      writes docs/real.md from what was measured

Which half a problem is in is decided by a hash of its name. What was measured is kept in a file for each problem: an
interrupted study goes on where it was, and `--again` measures anew. Every problem has a process of its own.
"""

import argparse
import dataclasses
import json
import multiprocessing
import warnings
from pathlib import Path

from studies.real.measure import measure
from studies.real.report import failures, line, page
from studies.real.task import Entry, entries
from studies.real.truth import Truth, reference

STORAGES = ("float64", "float32")
HARD = 20  # times the limit of one call, in seconds of the clock, after which a process is ended: it makes seven calls


def main() -> None:
    """Measure, count, write; fail where a bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--half", choices=("develop", "unseen", "later"), default="develop")
    parser.add_argument("--only", nargs="*", default=[], help="parts of names of problems")
    parser.add_argument("--storage", choices=STORAGES, nargs="*", default=list(STORAGES), help="of the rows")
    parser.add_argument("--references", action="store_true", help="look at references alone, of either half")
    parser.add_argument("--again", action="store_true", help="what was measured before, too")
    parser.add_argument("--limit", type=float, default=60.0, help="CPU seconds for one call")
    parser.add_argument("--out", type=Path, default=Path("out/real"))
    parser.add_argument("--page", action="store_true")
    options = parser.parse_args()
    if not options.page:
        chosen = entries(options.half, tuple(options.only))
        for entry in chosen.values():
            for storage in options.storage:
                _in_its_own_process(entry, storage, options)
    if options.references:
        return
    found = [json.loads(path.read_text()) for path in sorted((options.out / "measured").glob("*.json"))]
    found = [f for f in found if options.page or f["half"] == options.half]
    text = page(found, {name: entry.about for name, entry in entries().items()})
    if options.page:
        Path("docs/real.md").write_text(text)
        print("Written to docs/real.md.")
    else:
        print(text)
    if failed := failures(found):
        raise SystemExit("Bars that are missed: " + "; ".join(failed))


def _files(name: str, storage: str, options: argparse.Namespace) -> Path:
    kind = "references" if options.references else "measured"
    return options.out / kind / f"{name}-{storage}.json"


def _in_its_own_process(entry: Entry, storage: str, options: argparse.Namespace) -> None:
    """One problem, unless its file is there."""
    path = _files(entry.name, storage, options)
    if options.again:
        path.unlink(missing_ok=True)
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "os.fork", RuntimeWarning)  # JAX has not begun to compute in this process
            child = multiprocessing.get_context("fork").Process(target=_alone, args=(entry, storage, path, options))
            child.start()
        child.join(HARD * options.limit)
        wrong = f"not done after {HARD * options.limit:.0f} s" if child.is_alive() else f"exit code {child.exitcode}"
        child.kill()
        if not path.exists():
            said = {"name": entry.name, "family": entry.family, "half": entry.half, "storage": storage}
            path.write_text(json.dumps(said | {"status": "BROKEN", "message": wrong}))
    print(line(json.loads(path.read_text()), f"{entry.name:40} {storage}"), flush=True)


def _alone(entry: Entry, storage: str, path: Path, options: argparse.Namespace) -> None:
    """The work of one process: it writes one file. Libraries are loaded already, which takes most of the time else."""
    if options.references:
        task = entry.task(storage)
        found = dataclasses.asdict(reference(task, Truth(task)))
    else:
        found = measure(entry, storage, options.out, options.limit)
    path.write_text(json.dumps(found))


if __name__ == "__main__":
    main()
