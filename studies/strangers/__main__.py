"""Random problems that nobody has tuned for: what `minimize` does with them when it is given nothing but the problem.

    python -m studies.strangers --what references --half develop         solves them (needs cvxpy), once
    python -m studies.strangers --what rows --half develop [--limit 30]  measures; streams and infeasible likewise
    python -m studies.strangers --what page                              writes docs/strangers.md

Even seeds are the half to develop on, odd ones are held out. What has been measured is kept in a CSV file for each
study and part, so that a study that was interrupted goes on where it was; `--part 3/16` is the third of sixteen processes.
"""

import argparse
import csv
from pathlib import Path
from typing import Any

import jax
import pandas as pd

from studies.strangers.cache import HALVES, Cache, seeds_of
from studies.strangers.generate import Stranger, stranger
from studies.strangers.measure import STUDIES, about
from studies.strangers.report import report


def measured(folder: Path, what: str, half: str) -> pd.DataFrame:
    """What all parts of a study have measured so far."""
    files = sorted(folder.glob(f"{what}-{half}-*.csv"))
    tables = [pd.read_csv(file) for file in files]
    return pd.concat(tables).drop_duplicates("seed").sort_values("seed") if tables else pd.DataFrame({"seed": []})


def wanted(one: Stranger, what: str, largest: int) -> bool:
    """Whether a study is about this problem."""
    return one.d <= largest and one.feasible == (what != "infeasible")


def append(file: Path, row: dict[str, Any], columns: list[str]) -> None:
    """A row at the end of a CSV file."""
    file.parent.mkdir(parents=True, exist_ok=True)
    new = not file.exists()
    with file.open("a", newline="") as out:
        writer = csv.DictWriter(out, columns, restval="")
        if new:
            writer.writeheader()
        writer.writerow(row)


def study(what: str, half: str, seeds: list[int], cache: Cache, out: Path, part: str, largest: int) -> None:
    """Measure the problems of these seeds that have not been measured, a line for each."""
    k, count = map(int, part.split("/"))
    done = set(measured(out, what, half)["seed"])
    for seed in seeds[k - 1 :: count]:
        one = None if seed in done else stranger(seed)
        if one is None or not wanted(one, what, largest):
            continue
        missing = cache.refusal(seed) if seed in cache else "its reference was not made (--what references)"
        if missing:
            print(f"{what} {seed}: left out, {missing}", flush=True)
            continue
        reference = cache.get(one)
        row = about(one, reference) | STUDIES[what](one, reference)
        append(out / f"{what}-{half}-{k}of{count}.csv", row, columns_of(what))
        said = ", ".join(
            f"{key} {value:.2g}" if isinstance(value, float) else f"{key} {value}" for key, value in row.items()
        )
        print(f"{what} {said}", flush=True)
        jax.clear_caches()  # programs of a thousand problems would take more maps of memory than a process may have


def columns_of(what: str) -> list[str]:
    """The columns of a study's file."""
    shape = ["seed", "family", "d", "N", "n", "smooth", "feasible", "margin", "largest multiplier"]
    point = ["gap", "violation", "violated", "pulled_gap", "inside"]
    at_hand = [*point, "status", "infeasible", "not converged", "method", "passes", "seconds"]
    stream = ["stream status", "stream infeasible", "recognisable", "stream seconds"]
    side_by_side = [
        "violation",
        "half width",
        "significant",
        "gap",
        "pulled_gap",
        "tuned",
        "eta0",
        "upsilon0",
        "dual_scale",
    ]
    call = ["status", "gap", "violation", "violated", "false gap", "seconds"]
    calls = [*call, *(f"float32 {name}" for name in call)]
    more = {
        "rows": at_hand,
        "calls": calls,
        "infeasible": at_hand + stream,
        "streams": [*side_by_side, "seconds", "tuned seconds"],
    }
    return shape + more[what]


def main() -> None:
    """One study, or the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--what", choices=("references", *STUDIES, "page"), required=True)
    parser.add_argument("--half", choices=tuple(HALVES), default="develop")
    parser.add_argument("--seeds", type=int, nargs=2, default=(0, 500), metavar=("FIRST", "END"))
    parser.add_argument("--limit", type=int, help="at most so many seeds")
    parser.add_argument("--largest", type=int, default=1000, help="problems of at most so many coordinates")
    parser.add_argument("--part", default="1/1", help="k/K: the k-th of K processes")
    parser.add_argument("--cache", type=Path, default=Path("strangers"), help="where references are kept")
    parser.add_argument("--out", type=Path, default=Path("strangers"), help="where what was measured is kept")
    parser.add_argument("--docs", type=Path, default=Path("docs"))
    asked = parser.parse_args()
    seeds = seeds_of(asked.half, *asked.seeds)[: asked.limit]
    if asked.what == "references":
        Cache(asked.cache, asked.half).fill(seeds)
    elif asked.what in STUDIES:
        with jax.enable_x64(True):
            cache = Cache(asked.cache, asked.half)
            study(asked.what, asked.half, seeds, cache, asked.out, asked.part, asked.largest)
    else:
        tables = {what: measured(asked.out, what, asked.half) for what in STUDIES}
        (asked.docs / "strangers.md").write_text(report(asked.half, tables))


if __name__ == "__main__":
    main()
