"""Solve convex problems on real data as a NumPy user would, and count how often and how fast `minimize` is right.

    python -m studies.real                             the half to develop on
    python -m studies.real --references                the references of both halves and second opinions on them, no more
    python -m studies.real --only tumours portfolio    names that contain one of these
    python -m studies.real --half unseen               the other half: once, when nothing changes any more
    python -m studies.real --page                      writes docs/real.md from what was measured

Which half a problem is in is decided by a hash of its name. What was measured is kept in a file for each problem: an
interrupted study goes on where it was, and `--again` measures anew. Every problem has a process of its own.
"""

import argparse
import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path

from studies.real.report import failures, line, page
from studies.real.task import Entry, entries

STORAGES = ("float64", "float32")
HARD = 20  # times the limit of one call, in seconds of the clock, after which a process is ended: it makes seven calls


def main() -> None:
    """Measure, count, write; fail where a bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--half", choices=("develop", "unseen"), default="develop")
    parser.add_argument("--only", nargs="*", default=[], help="parts of names of problems")
    parser.add_argument("--storage", choices=STORAGES, nargs="*", default=list(STORAGES), help="of the rows")
    parser.add_argument("--references", action="store_true", help="look at references alone, of both halves")
    parser.add_argument("--again", action="store_true", help="what was measured before, too")
    parser.add_argument("--limit", type=float, default=60.0, help="CPU seconds for one call")
    parser.add_argument("--out", type=Path, default=Path("out/real"))
    parser.add_argument("--page", action="store_true")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        _alone(entries()[options.one], options)
        return
    if not options.page:
        chosen = entries(None if options.references else options.half, tuple(options.only))
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
        command = [sys.executable, "-m", "studies.real", "--one", entry.name, "--storage", storage]
        command += ["--limit", str(options.limit), "--out", str(options.out)]
        command += ["--references"] if options.references else []
        try:
            ended = subprocess.run(
                command, env=os.environ, timeout=HARD * options.limit, capture_output=True, text=True
            )
            wrong = ended.stderr.strip().split("\n")[-1] if ended.returncode else ""
        except subprocess.TimeoutExpired:
            wrong = f"not done after {HARD * options.limit:.0f} s"
        if wrong and not options.references:
            path.parent.mkdir(parents=True, exist_ok=True)
            said = {"name": entry.name, "family": entry.family, "half": entry.half, "storage": storage}
            path.write_text(json.dumps(said | {"status": "BROKEN", "message": wrong}))
        elif wrong:
            print(f"{entry.name:40} {storage}: {wrong}", flush=True)
            return
    print(line(json.loads(path.read_text()), f"{entry.name:40} {storage}"), flush=True)


def _alone(entry: Entry, options: argparse.Namespace) -> None:
    """The work of one process: it writes one file."""
    from studies.real.measure import measure
    from studies.real.truth import Truth, reference

    storage = options.storage[0]
    path = _files(entry.name, storage, options)
    path.parent.mkdir(parents=True, exist_ok=True)
    if options.references:
        task = entry.task(storage)
        found = dataclasses.asdict(reference(task, Truth(task)))
    else:
        found = measure(entry, storage, options.out, options.limit)
    path.write_text(json.dumps(found))


if __name__ == "__main__":
    main()
