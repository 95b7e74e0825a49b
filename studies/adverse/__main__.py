"""Attack the library's promises with random laws.

    python -m studies.adverse                          the half to develop on, and its worst laws again
    python -m studies.adverse --half unseen            the other half
    python -m studies.adverse --only fair --processes 16
    python -m studies.adverse --page                   writes docs/adverse.md from what was counted

What was counted is kept in a file for each promise, half and law: an interrupted study goes on where it was.
"""

import argparse
from pathlib import Path

from studies.adverse.report import failures, page
from studies.adverse.search import worst
from studies.adverse.work import counted, jobs, promises, run


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
