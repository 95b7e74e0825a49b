"""How often the fair classifier's promise is false, where the truth is known: "p_rule=0.8 with 95 % confidence".

Data are drawn from laws whose every linear classifier has known rates, a classifier is fitted with its defaults, and its
true rates are compared with what it promised. Run as `python -m studies.fair_coverage`; writes docs/fair_coverage.md.

In slices, on any number of machines: `--rows part.csv` keeps what was measured in a file and goes on from there, `--only`
and `--first` say which slice, `--processes` how many at once; and `--page part.csv other.csv` makes the page of such files.
"""

import argparse
import os
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.stats import binomtest

import tightrope as tr
from studies.page import markdown
from tightrope.datasets import GroupedGaussians

COLUMNS = ["case", "seed", "promised", "inside", "accuracy"]
ERROR = 0.05
"""The share of false promises that 95 % confidence allows."""


class Case(NamedTuple):
    """A law, how many rows are drawn from it, and what is asked; `weighted`: drawn unevenly, they weigh accordingly."""

    law: GroupedGaussians
    n: int
    options: dict[str, Any]
    weighted: bool = False


CASES = {
    "demographic parity": Case(GroupedGaussians(2), 1500, {"p_rule": 0.8}),
    "equal opportunity": Case(GroupedGaussians(2), 1500, {"p_rule": 0.8, "notion": "equal_opportunity"}),
    "false positives": Case(GroupedGaussians(2), 2000, {"p_rule": 0.4, "notion": "false_positive_rate_parity"}),
    "equalized odds": Case(GroupedGaussians(2), 2000, {"p_rule": 0.4, "notion": "equalized_odds"}),
    "a difference": Case(GroupedGaussians(2), 1500, {"difference": 0.1}),
    "four groups": Case(GroupedGaussians(4), 2000, {"p_rule": 0.7}),
    "eight groups": Case(GroupedGaussians(8), 4000, {"p_rule": 0.7}),
    "low base rate": Case(GroupedGaussians(2, base_rate=0.15), 4000, {"p_rule": 0.6}),
    "one path": Case(GroupedGaussians(2), 1500, {"p_rule": 0.8, "constraint": "rates"}),
    "covariance": Case(GroupedGaussians(2), 1500, {"difference": 0.1, "constraint": "covariance"}),
    "path of covariances": Case(GroupedGaussians(2), 1500, {"p_rule": 0.8, "constraint": "covariance"}),
    "the same, four groups": Case(GroupedGaussians(4), 4000, {"p_rule": 0.7, "constraint": "covariance"}),
    "holdout": Case(GroupedGaussians(2), 3000, {"p_rule": 0.8, "judge": "holdout"}),
    "weights": Case(GroupedGaussians(2), 2000, {"p_rule": 0.8}, weighted=True),
}


def worst(law: GroupedGaussians, model: tr.FairLogisticRegression) -> float:
    """How far the true rates are inside what was promised: negative is a false promise."""
    coef, intercept = model.coef_[0], float(model.intercept_[0])
    negative, positive = law.rates(coef, intercept)
    compared = {
        "demographic_parity": [law.selection_rates(coef, intercept)],
        "equal_opportunity": [positive],
        "false_positive_rate_parity": [negative],
        "equalized_odds": [positive, negative],
    }[model.notion]
    if model.difference is not None:
        return model.difference - max(float(np.ptp(rates)) for rates in compared)
    return min(float(rates.min() / rates.max()) for rates in compared) - float(model.p_rule or 0.0)


def draw(case: Case, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray | None]:
    """Rows of a law; with weights, positives of the first group are twice as likely to be drawn, and weigh half."""
    if not case.weighted:
        X, y, s, _ = case.law.draw(case.n, seed)
        return X, y, s, None
    X, y, s, _ = case.law.draw(4 * case.n, seed)
    often = (y > 0) & (s == "a")
    kept = np.flatnonzero(np.random.default_rng(seed + 1_000_000).random(len(y)) < np.where(often, 0.4, 0.2))[: case.n]
    return X[kept], y[kept], s[kept], np.where(often[kept], 0.5, 1.0)


def one(name: str, seed: int) -> dict[str, Any]:
    """One data set of a case: whether a promise was made, and by how much it is kept."""
    case = CASES[name]
    X, y, s, weight = draw(case, seed)
    model = tr.FairLogisticRegression(**case.options, random_state=seed)
    try:
        model.fit(X, y, sensitive_features=s, sample_weight=weight)
    except ValueError as refused:
        if "cannot be promised" not in str(refused):
            raise
        return {"case": name, "seed": seed, "promised": False, "inside": np.nan, "accuracy": np.nan}
    accuracy = case.law.accuracy(model.coef_[0], float(model.intercept_[0]))
    return {"case": name, "seed": seed, "promised": True, "inside": worst(case.law, model), "accuracy": accuracy}


def summary(table: pd.DataFrame) -> pd.DataFrame:
    """A row for each case: promises, false ones, and the exact one-sided 95 % lower limit of their share."""
    rows = []
    for name, part in table.groupby("case", sort=False):
        n, promised, false = len(part), int(part.promised.sum()), int((part.inside < 0).sum())
        low = binomtest(false, n, alternative="greater").proportion_ci(0.95).low
        of_promises = false / promised if promised else np.nan
        inside, accuracy = part.inside.median(), part.accuracy.mean()
        rows.append((name, n, promised, false, false / n, low, of_promises, inside, accuracy, low <= ERROR))
    names = ["case", "repetitions", "promised", "false", "share", "low", "of_promises", "inside", "accuracy", "holds"]
    return pd.DataFrame(rows, columns=names)


def report(table: pd.DataFrame) -> str:
    """The page docs/fair_coverage.md."""
    heads = ("case", "rows", "asked", "repetitions", "promises", "false", "share of repetitions", "its lower limit")
    heads += ("share of promises", "median margin", "accuracy", "not significantly above 5 %")
    rows = []
    for r in summary(table).itertuples():
        case = CASES[str(r.case)]
        asked = ", ".join(f"{k}={v}" for k, v in case.options.items())
        shares = (f"{v:.3f}" for v in (r.share, r.low, r.of_promises, r.inside))
        counts = (f"{v:,}" for v in (r.repetitions, r.promised, r.false))
        rows.append((r.case, f"{case.n:,}", asked, *counts, *shares, f"{r.accuracy:.4f}", "yes" if r.holds else "NO"))
    lines = [
        "# How often the fair classifier's promise is false",
        "",
        "Written by `python -m studies.fair_coverage`, a part of `make verify`. `GroupedGaussians` are laws under which the",
        "rates of every linear classifier are known; a promise is false where the true rates of the classifier handed out,",
        "refit on all rows, are not as alike as was asked. Five in a hundred repetitions are allowed. The lower limit is",
        "the exact one-sided 95 % limit of the share; the margin is that of the true rates inside what was asked.",
        "",
        *markdown(heads, rows),
    ]
    return "\n".join(lines) + "\n"


def measure(wanted: list[tuple[str, int]], rows: Path | None, processes: int) -> pd.DataFrame:
    """A row for each case and seed; those that the file `rows` has are taken from it, and the others are added to it."""
    known = pd.read_csv(rows) if rows is not None and rows.exists() else pd.DataFrame(columns=COLUMNS)
    done = set(zip(known.case, known.seed, strict=True))
    missing = [pair for pair in wanted if pair not in done]
    found = []

    def keep(row: dict[str, Any]) -> None:
        found.append(row)
        if rows is not None:
            line = pd.DataFrame([row], columns=COLUMNS).to_csv(index=False, header=not rows.exists())
            with rows.open("a") as file:  # whole lines, so that a run that is killed loses none
                file.write(line)

    if processes == 1:
        for pair in missing:
            keep(one(*pair))
    else:
        for name in (
            "OMP_NUM_THREADS",
            "OPENBLAS_NUM_THREADS",
        ):  # a process for each core, and a thread for each process
            os.environ.setdefault(name, "1")
        with ProcessPoolExecutor(processes, get_context("spawn")) as pool:
            for future in as_completed([pool.submit(one, *pair) for pair in missing]):
                keep(future.result())
    return pd.concat([known, pd.DataFrame(found, columns=COLUMNS)]) if len(known) else pd.DataFrame(found)


def merged(files: list[Path]) -> pd.DataFrame:
    """What files of rows have together, in the order of `CASES`; the same case and seed counts once."""
    table = pd.concat([pd.read_csv(file) for file in files]).drop_duplicates(["case", "seed"])
    strange = set(table.case) - CASES.keys()
    if strange:
        raise SystemExit(f"Rows of unknown cases: {', '.join(sorted(strange))}; expected {', '.join(CASES)}.")
    return table.sort_values(["case", "seed"], key=lambda s: s.map(list(CASES).index) if s.name == "case" else s)


def main() -> None:
    """Measure, write, and fail where false promises are significantly too many."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=500)
    parser.add_argument("--first", type=int, default=0, help="the number of the first repetition")
    parser.add_argument("--only", nargs="+", choices=CASES, default=list(CASES), metavar="CASE")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument(
        "--rows", type=Path, help="a CSV file to add rows to, and to go on from; no page is then written"
    )
    parser.add_argument("--page", type=Path, nargs="+", help="make the page of such files, and measure nothing")
    parser.add_argument("--out", type=Path, default=Path("docs"))
    options = parser.parse_args()
    # even seeds: the odd ones are for those who want to look at laws that nothing was developed on
    repetitions = range(options.first, options.first + options.repetitions)
    if options.page:
        table = merged(options.page)
    else:
        wanted = [(name, 2 * r) for name in options.only for r in repetitions]
        table = measure(wanted, options.rows, options.processes)
    if not options.rows:
        (options.out / "fair_coverage.md").write_text(report(table))
    verdicts = summary(table)
    print(verdicts.to_string(index=False))
    if not verdicts.holds.all():
        raise SystemExit("Too many false promises: " + ", ".join(verdicts.case[~verdicts.holds]))


if __name__ == "__main__":
    main()
