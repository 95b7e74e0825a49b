"""`python -m torture.mutants`: draw mutants, run the tests of their lines against them, write a table, print a score.

The checkout is not touched: a mutant lives in a copy of the package which comes first on PYTHONPATH. The table is written
row by row; a second call goes on where the first was stopped, and `--again` tries those that survived once more."""

import argparse
import csv
import importlib.util
import json
import os
import queue
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from torture.mutants.operators import Mutant, head, sites
from torture.mutants.recorder import FOLDER

PACKAGE = Path("src/tightrope")
CORE = [
    *("methods", "lab/methods", "sets", "solvers", "evidence", "loop"),
    *("learn/fairness/metrics.py", "files.py"),
]
# The tests that may see a mutant of the core. Those of what is built on it (estimators, the paper, the command line) take
# longer than all of these together and would hide that a part has no test of its own.
TESTS = [
    *("tests/methods", "tests/lab/methods", "tests/sets", "tests/solvers", "tests/evidence", "tests/loop"),
    *("tests/problem", "tests/sampling", "tests/learn/fairness", "tests/test_files.py", "tests/test_tree.py"),
    *("tests/test_minimize.py", "tests/test_online.py", "tests/test_sweep.py", "tests/test_certify.py"),
    *("tests/test_precision.py", "tests/test_bad_input.py", "tests/test_strangers.py", "tests/test_architecture.py"),
]
COLUMNS = ["file", "line", "kind", "original", "mutant", "verdict", "by", "seconds"]
EQUIVALENT = Path(__file__).with_name("equivalent.csv")
MOST = 80  # tests for one mutant
ONE_THREAD = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "XLA_FLAGS": f"{os.environ.get('XLA_FLAGS', '')} --xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
    "JAX_PLATFORMS": "cpu",
}

Row = dict[str, str]
Tests = dict[str, dict]  # by name: seconds, and the lines that it ran by file


def key(row: Row) -> tuple[str, str, str]:
    """What names a mutant where lines have moved."""
    return row["file"], row["original"], row["mutant"]


def pytest(
    source: Path, arguments: Iterable[str], limit: float | None = None, record: str = ""
) -> tuple[int | None, str]:
    """How pytest ended (None: not in time) on the package in a folder, and what it printed."""
    path = os.pathsep.join([str(source), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, **ONE_THREAD, "PYTHONPATH": path, FOLDER: record}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    ) as running:
        try:
            said, _ = running.communicate(timeout=limit)
            return running.returncode, said
        except subprocess.TimeoutExpired:
            os.killpg(running.pid, signal.SIGKILL)
            return None, running.communicate()[0]


def record(processes: int, asked: list[str]) -> Tests:
    """Every test that passes on the package as it is, with its seconds and its lines."""
    with tempfile.TemporaryDirectory() as folder:
        spread = ["-p", "torture.mutants.recorder", "-n", str(processes), "--dist", "worksteal"]
        _, said = pytest(PACKAGE.parent.resolve(), [*spread, *asked], record=folder)
        print(said.splitlines()[-1])
        tests: Tests = {}
        for part in Path(folder).iterdir():
            tests |= json.loads(part.read_text())
    if not tests:
        raise SystemExit(f"No test passed on the package as it is, so none could see a mutant. pytest said:\n{said}")
    return tests


def core() -> list[str]:
    """The files of the core, within the package."""
    found = [p for name in CORE for p in ([PACKAGE / name] if name.endswith(".py") else (PACKAGE / name).rglob("*.py"))]
    return sorted(str(path.relative_to(PACKAGE)) for path in found if path.name != "__init__.py")


def draw(count: int, seed: int, only: str) -> list[Mutant]:
    """So many of all mutants at random, each with the same chance; those with the bytecode of the original are not ones."""
    everything = [site for file in core() if only in file for site in sites(PACKAGE, file)]
    random.Random(seed).shuffle(everything)
    drawn: dict[tuple[str, str, str], Mutant] = {}
    for site in everything:
        if len(drawn) == count:
            break
        mutant = site.mutant()
        if mutant:
            drawn.setdefault(mutant.key, mutant)
    print(f"{len(drawn)} drawn of {len(everything):,} mutants")
    return list(drawn.values())


def found_again(survivors: list[Row]) -> list[Mutant]:
    """The mutants of rows of the table, wherever their lines are now."""
    wanted, originals = {key(row) for row in survivors}, {(row["file"], row["original"]) for row in survivors}
    places = [site for file in sorted({row["file"] for row in survivors}) for site in sites(PACKAGE, file)]
    made = [site.mutant() for site in places if (site.file, head(site.statement)) in originals]
    return list({mutant.key: mutant for mutant in made if mutant and mutant.key in wanted}.values())


def room_and_place(file: str) -> tuple[str, str]:
    """The room that a file of the package is in, as tests mirror it, and where in the room it is.

    Example:
        >>> room_and_place("methods/conservative/csoa.py"), room_and_place("lab/methods/primal/csa.py")
        (('methods', 'conservative'), ('lab/methods', 'primal'))
    """
    *folders, _ = Path(file).parts
    rooms = 2 if folders[:1] in (["lab"], ["learn"]) else 1
    return "/".join(folders[:rooms]), "/".join(folders[rooms:])


def tests_of(mutant: Mutant, tests: Tests, seconds: float) -> list[str]:
    """Tests that ran its statement: first those that bear the file's name or its folder's, in their own or in that of their
    file, then those in the folder that mirrors its own, as many as the time allows. What runs on import alone, such as a
    default, concerns every test of the file."""
    lines = {name: set(test["lines"].get(mutant.file, ())) for name, test in tests.items()}
    concerned = [name for name in lines if lines[name] & mutant.lines]
    concerned = concerned or [name for name in lines if lines[name]]
    room, place = room_and_place(mutant.file)
    stem = Path(mutant.file).stem
    names = [f"{place}/{stem}", f"{place}/:"] if place else [f"{stem}:"]  # what cases of a test are called

    def distance(name: str) -> int:
        file, _, case = name.partition("::")
        return 0 if stem in file or any(own in case for own in names) else 1 if file.startswith(f"tests/{room}") else 2

    chosen, left = [], seconds
    for name in sorted(concerned, key=lambda name: (distance(name), tests[name]["seconds"])):
        if len(chosen) < MOST and (tests[name]["seconds"] <= left or not chosen):
            chosen.append(name)
            left -= tests[name]["seconds"]
    files: dict[str, float] = {}
    for name in chosen:
        files[name.split("::")[0]] = files.get(name.split("::")[0], 0.0) + tests[name]["seconds"]
    return sorted(chosen, key=lambda name: (files[name.split("::")[0]], name.split("::")[0], tests[name]["seconds"]))


def judge(mutant: Mutant, chosen: list[str], limit: float, copies: queue.Queue[Path]) -> Row:
    """Run tests against a mutant."""
    began = time.perf_counter()
    row: Row = {name: str(getattr(mutant, name, "")) for name in COLUMNS}
    if not chosen:
        return row | {"verdict": "survived", "by": "no test runs this line", "seconds": "0"}
    copy = copies.get()
    path = copy / PACKAGE.name / mutant.file
    compiled = Path(importlib.util.cache_from_source(str(path)))
    original = path.read_text()
    try:
        path.write_text(mutant.source)
        compiled.unlink(missing_ok=True)  # it is believed within the same second
        ended, said = pytest(copy, ["-x", "-p", "no:xdist", *chosen], limit)
    finally:
        path.write_text(original)
        compiled.unlink(missing_ok=True)
        copies.put(copy)
    by = re.search(r"^(?:FAILED|ERROR) (.+?)(?: - |$)", said, re.MULTILINE)
    verdict = "timeout" if ended is None else "survived" if ended == 0 else "killed"
    seconds = f"{time.perf_counter() - began:.1f}"
    return row | {"verdict": verdict, "by": by[1] if by else "" if ended == 0 else f"exit {ended}", "seconds": seconds}


def score(rows: list[Row]) -> None:
    """Print what came of the mutants."""
    with EQUIVALENT.open() as file:
        equivalent = {key(row) for row in csv.DictReader(file)}
    survived = [row for row in rows if row["verdict"] == "survived"]
    argued = [row for row in survived if key(row) in equivalent]
    for row in survived:
        if row not in argued:
            print(f"  SURVIVED {row['file']}:{row['line']} {row['kind']}\n    {row['original']}\n    {row['mutant']}")
    timeouts = sum(row["verdict"] == "timeout" for row in rows)
    killed = len(rows) - len(survived)
    share = (killed + len(argued)) / max(1, len(rows))
    print(
        f"mutants: {len(rows)} tried, {killed} killed ({timeouts} of them by time), {len(survived)} survived, "
        f"{len(argued)} of them equivalent: {share:.1%} killed or equivalent"
    )


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m torture.mutants")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--sample", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="files with this in their name")
    parser.add_argument("--table", type=Path, default=Path("out/mutants.csv"))
    parser.add_argument("--minutes", type=float, default=float("inf"), help="no new mutant after so long")
    parser.add_argument("--seconds", type=float, default=20.0, help="of tests for one mutant")
    parser.add_argument("--again", action="store_true", help="try those in the table that survived once more")
    parser.add_argument("--tests", nargs="+", default=TESTS)
    asked = parser.parse_args()
    until = time.monotonic() + 60 * asked.minutes

    asked.table.parent.mkdir(parents=True, exist_ok=True)
    rows: dict[tuple[str, str, str], Row] = {}
    if asked.table.exists():
        with asked.table.open() as file:
            rows = {key(row): row for row in csv.DictReader(file)}
    if asked.again:
        todo = found_again([row for row in rows.values() if row["verdict"] == "survived" and asked.only in row["file"]])
    else:
        todo = [mutant for mutant in draw(asked.sample, asked.seed, asked.only) if mutant.key not in rows]
    tests = record(asked.processes, asked.tests) if todo else {}

    with (
        tempfile.TemporaryDirectory() as folder,
        asked.table.open("a") as file,
        ThreadPoolExecutor(asked.processes) as pool,
    ):
        copies: queue.Queue[Path] = queue.Queue()
        for k in range(asked.processes):
            shutil.copytree(PACKAGE, Path(folder) / str(k) / PACKAGE.name)
            copies.put(Path(folder) / str(k))
        table = csv.DictWriter(file, COLUMNS)
        if not file.tell():
            table.writeheader()

        def attack(mutant: Mutant) -> Row | None:
            if time.monotonic() > until:
                return None
            chosen = tests_of(mutant, tests, asked.seconds)
            return judge(mutant, chosen, 30 + 3 * sum(tests[name]["seconds"] for name in chosen), copies)

        for k, ended in enumerate(as_completed([pool.submit(attack, mutant) for mutant in todo]), 1):
            row = ended.result()
            if row is not None:
                rows[key(row)] = row
                table.writerow(row)
                file.flush()
                print(f"{k} of {len(todo)}: {row['verdict']} {row['file']}:{row['line']} {row['by']}", flush=True)
    score(list(rows.values()))


if __name__ == "__main__":
    main()
