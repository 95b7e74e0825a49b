"""Accuracy at equal fairness, beside fairlearn's reduction: the 80 % rule on Adult and on people whose true rates are known.

Run as part of `make bench-fairness`, in the environment of the peers; writes benchmarks/fair_rates.md. CPU seconds are
those of one process with one BLAS thread: OPENBLAS_NUM_THREADS=1.

In slices: `--rows part.jsonl` keeps what was measured in a file and goes on from there, `--sets`, `--who`, `--first` and
`--splits` say which slice; and `--page part.jsonl other.jsonl` makes the page of such files.
"""

import argparse
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

import tightrope as tr
from studies.page import markdown
from tightrope.datasets import GroupedGaussians, label_encoded, load_adult, one_hot

ASKED = 0.8
RATIO_BOUNDS = (0.85, 0.9)
"""fairlearn's ratio_bound has to be tried: its accuracy is interpolated to the p%-rule that ours has in the mean."""

OURS: dict[str, dict[str, Any]] = {
    "auto": {},
    "rates": {"constraint": "rates"},
    "covariance": {"constraint": "covariance"},
}


class Data(NamedTuple):
    """Rows to train on, and how decisions are judged: (scores' signs as coefficients) -> accuracy, p%-rule, its deviation.

    A classifier is a list of (weight, coef, intercept): one for ours, several for a randomised one.
    """

    X: np.ndarray
    y: np.ndarray
    s: np.ndarray
    judge: Callable[[list[tuple[float, np.ndarray, float]]], tuple[float, float, float]]


def adult(encode: Any, seed: int) -> Data:
    """A random 70 % of Adult, judged on the others; the deviation is that of log p%, by the delta method."""
    frame = load_adult()
    train, test = np.split(np.random.default_rng(seed).permutation(len(frame)), [round(0.7 * len(frame))])
    X, y, s, _ = encode(frame, fit_on=train)
    X = X[:, :-1]

    def judge(mixture: list[tuple[float, np.ndarray, float]]) -> tuple[float, float, float]:
        decided = np.sum([w * (X[test] @ coef + intercept > 0) for w, coef, intercept in mixture], axis=0)
        rate, count = (np.array([f(decided[s[test] == g]) for g in (0, 1)]) for f in (np.mean, len))
        error = float(np.sqrt(np.sum((1 - rate) / (count * rate))))
        right = np.where(y[test] > 0, decided, 1 - decided)
        return float(np.mean(right)), float(rate.min() / rate.max()), error

    return Data(X[train], y[train], s[train].astype(int).astype(str), judge)


def grouped(groups: int, n: int, seed: int) -> Data:
    """People of whom the truth is known: nothing is estimated in judging, and the deviation is zero."""
    law = GroupedGaussians(groups)
    X, y, s, _ = law.draw(n, seed)

    def judge(mixture: list[tuple[float, np.ndarray, float]]) -> tuple[float, float, float]:
        rates = sum(w * law.selection_rates(coef, intercept) for w, coef, intercept in mixture)
        accuracy = sum(w * law.accuracy(coef, intercept) for w, coef, intercept in mixture)
        return float(accuracy), float(np.min(rates) / np.max(rates)), 0.0

    return Data(X, y, s, judge)


SETS: dict[str, Callable[[int], Data]] = {
    "Adult, one-hot": lambda seed: adult(one_hot, seed),
    "Adult, label-encoded": lambda seed: adult(label_encoded, seed),
    "two groups": lambda seed: grouped(2, 8000, seed),
    "four groups": lambda seed: grouped(4, 8000, seed),
    "eight groups": lambda seed: grouped(8, 8000, seed),
}


def ours(data: Data, options: dict[str, Any], seed: int) -> list[tuple[float, np.ndarray, float]] | None:
    """Our classifier, or None where the rule is refused."""
    model = tr.FairLogisticRegression(p_rule=ASKED, random_state=seed, **options)
    try:
        model.fit(data.X, data.y, sensitive_features=data.s)
    except ValueError as refused:
        if "cannot be promised" not in str(refused):
            raise
        return None
    return [(1.0, model.coef_[0], float(model.intercept_[0]))]


def fairlearns(data: Data, ratio_bound: float) -> list[tuple[float, np.ndarray, float]]:
    """fairlearn's randomised classifier, over logistic regressions."""
    from fairlearn.reductions import (  # pyright: ignore[reportMissingImports]
        DemographicParity,
        ExponentiatedGradient,
    )
    from sklearn.linear_model import LogisticRegression

    model: Any = ExponentiatedGradient(LogisticRegression(), DemographicParity(ratio_bound=ratio_bound))
    model.fit(data.X, (data.y > 0).astype(int), sensitive_features=data.s)
    members = zip(model.weights_, model.predictors_, strict=True)
    return [(float(w), m.coef_.ravel(), float(m.intercept_[0])) for w, m in members if w > 0]


def measure(name: str, seed: int, who: list[str]) -> list[dict[str, Any]]:
    """A row for each contender on one data set: accuracy, p%-rule, CPU seconds."""
    data, rows = SETS[name](seed), []
    contenders: dict[str, Callable[[], Any]] = {
        **{w: (lambda w=w: ours(data, OURS[w], seed)) for w in OURS},
        **{f"fairlearn {b:g}": (lambda b=b: fairlearns(data, b)) for b in RATIO_BOUNDS},
    }
    for contender in who:
        began = time.process_time()
        mixture = contenders[contender]()
        seconds = time.process_time() - began
        accuracy, p, error = (np.nan, np.nan, np.nan) if mixture is None else data.judge(mixture)
        said = {"accuracy": accuracy, "p": p, "error": error, "seconds": seconds}
        rows.append({"set": name, "seed": seed, "who": contender, **said})
    return rows


def summary(table: pd.DataFrame) -> pd.DataFrame:
    """A row for each data set and contender of ours, with fairlearn's accuracy at the same mean p%-rule."""
    rows = []
    for name, part in table.groupby("set", sort=False):
        peers = [part[part.who == f"fairlearn {b:g}"].set_index("seed") for b in RATIO_BOUNDS]
        (p0, p1), (a0, a1) = ([float(q[column].mean()) for q in peers] for column in ("p", "accuracy"))
        for who in OURS:
            mine = part[part.who == who].set_index("seed")
            kept = mine.dropna()
            if not len(kept):
                continue
            share = (kept.p.mean() - p0) / (p1 - p0)
            theirs = peers[0].accuracy + share * (peers[1].accuracy - peers[0].accuracy)
            ahead = (kept.accuracy - theirs.reindex(kept.index)).dropna()
            z = np.log(kept.p / ASKED) / kept.error.where(kept.error > 0, 1e-12)
            rows.append(
                {
                    "set": name,
                    "who": who,
                    "splits": len(mine),
                    "refused": len(mine) - len(kept),
                    "p": kept.p.mean(),
                    "smallest": kept.p.min(),
                    "below": int((z < -1.645).sum()),
                    "accuracy": kept.accuracy.mean(),
                    "fairlearn": a0 + share * (a1 - a0),
                    "ahead": f"{(ahead > 0).sum()} of {len(ahead)}",
                    "difference": f"{ahead.mean():+.4f} ± {1.96 * ahead.std() / np.sqrt(max(len(ahead), 1)):.4f}",
                    "times": mine.seconds.iloc[1:].median() / peers[0].seconds.median(),
                }
            )
    return pd.DataFrame(rows)


def page(table: pd.DataFrame) -> str:
    """The page benchmarks/fair_rates.md."""
    heads = ("data", "constraint", "splits", "refused", "mean p%", "smallest", "significantly below 0.8", "accuracy")
    heads += ("fairlearn's at the same p%", "ahead", "difference", "times fairlearn's CPU time")
    rows = []
    for r in summary(table).itertuples():
        shares = f"{r.p:.3f}", f"{r.smallest:.3f}", r.below, f"{r.accuracy:.4f}", f"{r.fairlearn:.4f}"
        rows.append((r.set, r.who, r.splits, r.refused, *shares, r.ahead, r.difference, f"{r.times:.1f}"))
    lines = [
        "# The 80 % rule beside fairlearn's reduction",
        "",
        "Written by `make bench-fairness`. `FairLogisticRegression(p_rule=0.8)` and fairlearn's ExponentiatedGradient over",
        "logistic regressions, on the same rows. fairlearn decides at random between several classifiers; ours is one",
        "linear score. fairlearn's accuracy is interpolated between two values of ratio_bound to the p%-rule that ours has",
        "in the mean. Adult: 70 % of the rows train, the p%-rule and the accuracy are those of the others; below 0.8",
        "one-sided at 5 %, by the delta method. Grouped people: 8,000 rows train, the truth is known: each p% below 0.8",
        "counts.",
        "Seeds are even; ± is 1.96 standard errors over splits. CPU time is that of a repeated fit, on one thread.",
        "",
        *markdown(heads, rows),
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--splits", type=int, default=40)
    parser.add_argument("--sets", nargs="*", default=list(SETS))
    parser.add_argument("--who", nargs="*", default=[*OURS, *(f"fairlearn {b:g}" for b in RATIO_BOUNDS)])
    parser.add_argument("--first", type=int, default=0, help="the number of the first split")
    parser.add_argument("--rows", type=Path, help="lines of JSON to add to, and to go on from; no page is then written")
    parser.add_argument("--page", type=Path, nargs="+", help="make the page of such files, and measure nothing")
    parser.add_argument("--out", type=Path, default=Path("benchmarks"))
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    files = options.page or ([options.rows] if options.rows and options.rows.exists() else [])
    rows = [row for file in files for row in pd.read_json(file, lines=True).to_dict("records")]
    done = {(r["set"], r["seed"], r["who"]) for r in rows}
    splits = () if options.page else range(options.first, options.first + options.splits)
    for seed, name in ((2 * split, name) for split in splits for name in options.sets):
        who = [w for w in options.who if (name, seed, w) not in done]
        new = measure(name, seed, who) if who else []
        rows += new
        if options.rows:
            with options.rows.open("a") as file:
                file.writelines(pd.DataFrame([r]).to_json(orient="records", lines=True) for r in new)
    if not options.rows:
        table = pd.DataFrame(rows).drop_duplicates(["set", "seed", "who"])
        place = table["set"].map(list(SETS).index)
        (options.out / "fair_rates.md").write_text(page(table.iloc[np.lexsort([table.seed, place])]))


if __name__ == "__main__":
    main()
