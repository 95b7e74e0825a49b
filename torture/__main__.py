"""All programs one after the other, each for its share of the time: `python -m torture --minutes 10`."""

import argparse
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

NO_PROGRAMS = ("__init__", "__main__", "campaign")
_LINE = re.compile(r"^(?P<what>.*): (?P<tried>[\d,]+) tried, (?P<failed>[\d,]+) failed, (?P<seconds>\d+) s$")


class Outcome(NamedTuple):
    """What one program came to."""

    program: str
    tried: str
    failed: str
    smallest: str  # the smallest case that failed


def programs() -> list[str]:
    """The names of all programs."""
    found = sorted(file.stem for file in Path(__file__).parent.glob("*.py"))
    return [name for name in found if name not in NO_PROGRAMS]


def run(program: str, seconds: float) -> Outcome:
    """One program in a process of its own; what it says is passed on."""
    command = [sys.executable, "-m", f"torture.{program}", "--seconds", f"{seconds:.0f}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        lines = []
        for line in process.stdout:
            print(line, end="", flush=True)
            lines.append(line.rstrip("\n"))
    return outcome(program, lines, process.returncode)


def outcome(program: str, lines: list[str], code: int) -> Outcome:
    """What the lines of a program come to.

    >>> outcome("kills", ["  FAILED run 3", "kills: 1,200 tried, 1 failed, 7 s"], 1)
    Outcome(program='kills', tried='1,200', failed='1', smallest='run 3')
    >>> outcome("kills", [], 2).failed
    'the program ended with 2'
    """
    failed = [line.strip().removeprefix("FAILED ") for line in lines if line.strip().startswith("FAILED ")]
    found = next(filter(None, map(_LINE.match, reversed(lines))), None)
    if found is None:
        return Outcome(program, "0", f"the program ended with {code}", "")
    return Outcome(program, found["tried"], found["failed"], min(failed, key=len, default=""))


def main() -> None:
    """Run them and print a table; ends with 1 if anything failed."""
    parser = argparse.ArgumentParser(prog="python -m torture", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0, help="for all programs together")
    parser.add_argument("--only", nargs="+", choices=programs(), default=programs(), metavar="NAME", help="these alone")
    asked = parser.parse_args()
    outcomes = [run(name, 60 * asked.minutes / len(asked.only)) for name in asked.only]
    print(f"\n{'program':<12}{'tried':>10}{'failed':>10}  smallest case")
    for one in outcomes:
        print(f"{one.program:<12}{one.tried:>10}{one.failed:>10}  {one.smallest[:160]}")
    sys.exit(0 if all(one.failed == "0" for one in outcomes) else 1)


if __name__ == "__main__":
    main()
