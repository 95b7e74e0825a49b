"""Constrained classifiers where the truth is known: how often a certified limit is broken, and what the certificate costs.

Run as `python -m studies.constrained`; writes docs/constrained.md and its picture. Four generators give the true rates of
any threshold by formula; Adult is judged by rows that neither trained nor judged.
"""

import argparse
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.stats import binomtest, norm, t
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import BernoulliNB

import tightrope as tr
from studies.page import markdown
from tightrope.confidence import umbrella_order
from tightrope.datasets import label_encoded, load_adult

REPETITIONS = 200
ALLOWED = 0.05

# ---- data whose truth is known ---------------------------------------------------------------------------------------


class Elliptical(NamedTuple):
    """Two classes, each with a mean and a deviation for every feature, in two groups that differ by a shift.

    Attributes:
        rows: how many are drawn, to train and to judge.
        share: of positive rows.
        means, deviations: by class, negative first.
        shift: by which the features of the second group, half of the rows, are larger.
        freedom: None for normal tails; otherwise the degrees of freedom of a multivariate t.
    """

    rows: int
    share: float
    means: tuple[Any, Any]
    deviations: tuple[Any, Any]
    shift: float = 0.0
    freedom: float | None = None

    def draw(self, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Features, labels, groups."""
        y, group = rng.random(self.rows) < self.share, rng.random(self.rows) < 0.5
        noise = rng.normal(size=(self.rows, len(self.means[0])))
        if self.freedom is not None:
            noise *= np.sqrt(self.freedom / rng.chisquare(self.freedom, size=(self.rows, 1)))
        mean, deviation = (np.where(y[:, None], part[1], part[0]) for part in (self.means, self.deviations))
        return mean + deviation * noise + self.shift * group[:, None], y, group

    def rates(self, model: Any, threshold: float) -> dict[str, float]:
        """The true rates of a linear score above a threshold: selected among each class, and among each class by group."""
        coef, intercept = np.ravel(model.coef_), float(np.ravel(model.intercept_)[0])
        tail = norm.sf if self.freedom is None else (lambda z: t.sf(z, self.freedom))
        above = np.empty((2, 2))
        for label in (0, 1):
            for group in (0, 1):
                centre = coef @ (np.asarray(self.means[label]) + self.shift * group) + intercept
                above[label, group] = tail((threshold - centre) / np.sqrt(np.sum((coef * self.deviations[label]) ** 2)))
        return _rates(above.mean(axis=1), self.share) | {f"fpr {g}": float(above[0, g]) for g in (0, 1)}


class Cells(NamedTuple):
    """Features of zeros and ones, independent given the class: 2^d cells, so that scores are equal for many rows."""

    rows: int
    share: float
    chances: tuple[Any, Any]

    def draw(self, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Features, labels, and groups that mean nothing."""
        y = rng.random(self.rows) < self.share
        chance = np.where(y[:, None], self.chances[1], self.chances[0])
        return (rng.random(chance.shape) < chance).astype(float), y, rng.random(self.rows) < 0.5

    def rates(self, model: Any, threshold: float) -> dict[str, float]:
        """The true rates, as sums over all cells."""
        d = len(self.chances[0])
        cells = (np.arange(2**d)[:, None] >> np.arange(d)) & 1
        selected = model.predict_proba(cells.astype(float))[:, 1] > threshold
        mass = [np.prod(np.where(cells > 0, p, 1 - np.asarray(p)), axis=1) for p in self.chances]
        return _rates(np.array([m[selected].sum() for m in mass]), self.share)


def _rates(above: np.ndarray, share: float) -> dict[str, float]:
    fpr, recall = map(float, above)
    selected = share * recall + (1 - share) * fpr
    return {
        "fpr": fpr, "fnr": 1 - recall, "recall": recall, "precision": share * recall / selected if selected > 0 else 1.0,
        "selection_rate": selected, "cost": (1 - share) * fpr + 5 * share * (1 - recall),
    }  # fmt: skip


_STRENGTH = np.array([1.2, 0.8, 0.5, 0.0, 0.0])
_ONES = np.ones(5)
DATA: dict[str, Any] = {
    "gaussian": Elliptical(4_000, 0.3, (0 * _ONES, _STRENGTH), (_ONES, _ONES), shift=0.4),
    "rare positives, 1 %": Elliptical(20_000, 0.01, (0 * _ONES, 1.5 * _STRENGTH), (_ONES, _ONES)),
    "heavy tails, t with 3 degrees": Elliptical(4_000, 0.3, (0 * _ONES, 2 * _STRENGTH), (_ONES, _ONES), freedom=3.0),
    "cells, many equal scores": Cells(4_000, 0.4, (np.linspace(0.2, 0.5, 7), np.linspace(0.6, 0.65, 7))),
}
SPREAD = Elliptical(
    8_000, 0.3, (0 * _ONES, np.array([1.5, 1.0, 0.0, 0.0, 0.0])), (_ONES * [1, 2.5, 1, 1, 1], _ONES * [1, 1, 0.5, 1, 1])
)
"""Classes of different spread, where the best direction depends on the rate that is asked for."""

FPR = {
    "gaussian": 0.02,
    "rare positives, 1 %": 0.01,
    "heavy tails, t with 3 degrees": 0.05,
    "cells, many equal scores": 0.05,
}
ADULT_FPR = 0.05


def base(name: str) -> Any:
    """A cheap classifier for a data set."""
    return BernoulliNB() if name.startswith("cells") else LogisticRegression()


def fitted(
    estimator: Any, X: np.ndarray, y: np.ndarray, group: Any, seed: int, **asked: Any
) -> tr.ConstrainedClassifier:
    """A classifier; that nothing could be certified is part of the study and no warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = tr.ConstrainedClassifier(estimator, random_state=seed, **asked)
        return model.fit(X, y, sensitive_features=np.where(group, "1", "0"))


# ---- the false-positive rate, beside a plain umbrella ------------------------------------------------------------------


def one_fpr(name: str, seed: int) -> dict[str, Any]:
    """Recall under a limit on the false-positive rate, with truth by formula."""
    data, limit = DATA[name], FPR[name]
    X, y, group = data.draw(np.random.default_rng(seed))
    model = fitted(base(name), X, y, group, seed, subject_to={"fpr": limit})
    truth = data.rates(model.estimator_, model.threshold_)
    beside = data.rates(model.estimator_, plain_umbrella(model, limit))
    rows = model.held_out_
    by_estimate = np.quantile(rows.score[~rows.positive], 1 - limit, method="inverted_cdf")
    naive = data.rates(model.estimator_, float(by_estimate))
    return {
        "data": name, "limit": limit, "seed": seed, "certified": model.certificate_.holds,
        "broken": model.certificate_.holds and truth["fpr"] > limit, "fpr": truth["fpr"], "recall": truth["recall"],
        "umbrella": beside["recall"], "naive broken": naive["fpr"] > limit,
    }  # fmt: skip


def plain_umbrella(model: tr.ConstrainedClassifier, limit: float) -> float:
    """Tong, Feng and Li's threshold on the scores that the classifier saw, by their formula alone."""
    negative = np.sort(model.held_out_.score[~model.held_out_.positive])
    order = umbrella_order(len(negative), limit, 0.95)
    return np.inf if order is None else float(negative[order - 1])


def one_adult(X: np.ndarray, y: np.ndarray, seed: int) -> dict[str, Any]:
    """Adult, split at random: a half to train and to judge, the other to see what came of it."""
    order = np.random.default_rng(seed).permutation(len(y))
    ours, test = np.split(order, [len(y) // 2])
    model = fitted(LogisticRegression(), X[ours], y[ours], np.zeros(len(ours)), seed, subject_to={"fpr": ADULT_FPR})
    score, negative = model.estimator_.decision_function(X[test]), ~y[test]
    selected, beside = score > model.threshold_, score > plain_umbrella(model, ADULT_FPR)
    hits, n = int(selected[negative].sum()), int(negative.sum())
    above = binomtest(hits, n, ADULT_FPR, alternative="greater").pvalue < ALLOWED
    rows = model.held_out_
    naive = score > np.quantile(rows.score[~rows.positive], 1 - ADULT_FPR)
    missed = binomtest(int(naive[negative].sum()), n, ADULT_FPR, alternative="greater").pvalue < ALLOWED
    return {
        "data": "Adult (test rows)", "limit": ADULT_FPR, "seed": seed, "certified": model.certificate_.holds,
        "broken": model.certificate_.holds and above, "fpr": hits / n, "recall": float(selected[~negative].mean()),
        "umbrella": float(beside[~negative].mean()), "naive broken": missed,
    }  # fmt: skip


def measure_fpr(seeds: Sequence[int]) -> pd.DataFrame:
    """A row for each data set and repetition."""
    rows = [one_fpr(name, seed) for name in DATA for seed in seeds]
    X, y, _, _ = label_encoded(load_adult())
    return pd.DataFrame(rows + [one_adult(X[:, :-1], y > 0, seed) for seed in seeds])


# ---- everything else that can be asked ---------------------------------------------------------------------------------


def _all(*constraints: tuple[str, str, float]) -> Callable[[dict[str, float]], bool]:
    return lambda truth: all(truth[m] <= limit if sign == "<=" else truth[m] >= limit for m, sign, limit in constraints)


OTHERS: dict[str, tuple[dict[str, Any], Callable[[dict[str, float]], bool]]] = {
    "recall, fpr <= 0.2 and recall >= 0.6": (
        {"subject_to": {"fpr": 0.2, "recall": 0.6}}, _all(("fpr", "<=", 0.2), ("recall", ">=", 0.6))),
    "recall, fpr <= 0.1 and recall >= 0.6 (no threshold keeps both)": (
        {"subject_to": {"fpr": 0.1, "recall": 0.6}}, _all(("fpr", "<=", 0.1), ("recall", ">=", 0.6))),
    "recall, precision >= 0.7": ({"subject_to": {"precision": 0.7}}, _all(("precision", ">=", 0.7))),
    "precision, recall >= 0.7": (
        {"maximize": "precision", "subject_to": {"recall": 0.7}}, _all(("recall", ">=", 0.7))),
    "recall, fpr <= 0.05 in both groups": (
        {"subject_to": {"fpr by group": 0.05}}, _all(("fpr 0", "<=", 0.05), ("fpr 1", "<=", 0.05))),
    "recall, selection_rate <= 0.25": (
        {"subject_to": {"selection_rate": "<= 0.25"}}, _all(("selection_rate", "<=", 0.25))),
    "recall, cost <= 0.5 (fn five times fp)": (
        {"subject_to": {"cost": 0.5}, "costs": {"fp": 1, "fn": 5}}, _all(("cost", "<=", 0.5))),
    "recall, fpr <= 0.02, five folds (asymptotic)": (
        {"subject_to": {"fpr": 0.02}, "cv": 5}, _all(("fpr", "<=", 0.02))),
}  # fmt: skip


def measure_others(seeds: Sequence[int]) -> pd.DataFrame:
    """What else can be asked, on the Gaussian data."""
    data, rows = DATA["gaussian"], []
    for name, (asked, kept) in OTHERS.items():
        for seed in seeds:
            X, y, group = data.draw(np.random.default_rng(seed))
            model = fitted(LogisticRegression(), X, y, group, seed, **asked)
            truth, holds = data.rates(model.estimator_, model.threshold_), model.certificate_.holds
            rows.append(
                {"asked": name, "certified": holds, "broken": holds and not kept(truth), "recall": truth["recall"]}
            )
    return pd.DataFrame(rows)


def measure_linear(seeds: Sequence[int]) -> pd.DataFrame:
    """The library's own linear score beside logistic regression, same rows: true recall under the same certified limit."""
    rows = []
    for name, data, limit in (("gaussian", DATA["gaussian"], 0.02), ("different spread", SPREAD, 0.005)):
        for seed in seeds:
            X, y, group = data.draw(np.random.default_rng(seed))
            found = {}
            for kind, estimator in (("own", None), ("logistic", LogisticRegression())):
                model = fitted(estimator, X, y, group, seed, subject_to={"fpr": limit})
                found[kind] = data.rates(model.estimator_, model.threshold_)["recall"]
            rows.append({"data": name, "limit": limit, **found})
    return pd.DataFrame(rows)


# ---- claims and the page ---------------------------------------------------------------------------------------------


def significantly_more(broken: Any) -> tuple[str, bool]:
    """How often, with the one-sided exact interval, and whether that is significantly more than 5 %."""
    k, n = int(np.sum(broken)), len(broken)
    low = binomtest(k, n, alternative="greater").proportion_ci(0.95).low
    return f"{k} of {n} (at least {low:.3f})", low > ALLOWED


def claims(fpr: pd.DataFrame, others: pd.DataFrame) -> pd.DataFrame:
    """A row per claim: what is claimed, what was found, and whether it holds."""
    rows = []
    for name, part in fpr.groupby("data", sort=False):
        found, more = significantly_more(part.broken)
        rows.append(
            (f"{name}: fpr <= {part.limit.iloc[0]:g} is broken in at most 5 % of the repetitions", found, not more)
        )
        gain = part.recall - part.umbrella
        text = f"{name}: recall in the mean at least that of a plain umbrella threshold"
        rows.append((text, f"{part.recall.mean():.4f} and {part.umbrella.mean():.4f}", bool(gain.mean() >= -1e-12)))
    for name, part in others.groupby("asked", sort=False):
        found, more = significantly_more(part.broken)
        rows.append((f"{name}: a certified limit is broken in at most 5 %", found, not more))
    return pd.DataFrame(rows, columns=["claim", "found", "holds"])


def tables(fpr: pd.DataFrame, others: pd.DataFrame, linear: pd.DataFrame) -> list[str]:
    """The part of the page that is measured."""
    verdicts = claims(fpr, others)
    lines = markdown(
        ("claim", "found", "holds"), ((r.claim, r.found, "yes" if r.holds else "NO") for r in verdicts.itertuples())
    )
    lines += ["", "### A limit on the false-positive rate", ""]
    rows = []
    for name, part in fpr.groupby("data", sort=False):
        means = (f"{part[column].mean():.4f}" for column in ("fpr", "recall", "umbrella"))
        rows.append((
            name, f"{part.limit.iloc[0]:g}", len(part), part.certified.sum(), part.broken.sum(), *means,
            f"{part['naive broken'].mean():.0%}",
        ))  # fmt: skip
    heads = (
        "data",
        "fpr at most",
        "repetitions",
        "certified",
        "broken",
        "mean fpr",
        "mean recall",
        "umbrella's recall",
    )
    lines += markdown((*heads, "by estimates alone, broken"), rows)
    lines += ["", "### Other limits, on the Gaussian data", ""]
    rows = [
        (name, len(part), part.certified.sum(), part.broken.sum(), _mean(part.recall[part.certified]))
        for name, part in others.groupby("asked", sort=False)
    ]
    lines += markdown(
        ("maximised, subject to", "repetitions", "certified", "broken", "mean recall where certified"), rows
    )
    lines += ["", "### The library's own linear score", ""]
    rows = []
    for name, part in linear.groupby("data", sort=False):
        gain = part.own - part.logistic
        error = 1.96 * gain.std() / np.sqrt(len(part))
        rows.append((name, f"{part.limit.iloc[0]:g}", len(part), f"{part.own.mean():.4f}", f"{part.logistic.mean():.4f}",
                     f"{gain.mean():+.4f} ± {error:.4f}"))  # fmt: skip
    return lines + markdown(
        ("data", "fpr at most", "repetitions", "estimator=None", "LogisticRegression", "gain"), rows
    )


def _mean(values: Any) -> str:
    return f"{values.mean():.4f}" if len(values) else "-"


MARK = "<!-- measured: written by studies/constrained.py from here on -->"


def main() -> None:
    """Measure, write, and fail when a claim does."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=REPETITIONS)
    parser.add_argument("--linear", type=int, default=20)
    parser.add_argument("--page", type=Path, default=Path("docs/constrained.md"))
    options = parser.parse_args()
    seeds = range(0, 2 * options.repetitions, 2)
    fpr, others = measure_fpr(seeds), measure_others(seeds)
    linear = measure_linear(range(0, 2 * options.linear, 2))
    lines = tables(fpr, others, linear)
    words = options.page.read_text().split(MARK)[0] if options.page.exists() else ""
    options.page.write_text(f"{words}{MARK}\n\n" + "\n".join(lines) + "\n")
    data = DATA["rare positives, 1 %"]
    X, y, group = data.draw(np.random.default_rng(0))
    model = fitted(LogisticRegression(), X, y, group, 0, subject_to={"fpr": 0.01})
    model.plot(str(options.page.with_suffix(".png")))
    print("\n".join(lines))
    verdicts = claims(fpr, others)
    if not verdicts.holds.all():
        raise SystemExit("A claim failed: " + "; ".join(verdicts.claim[~verdicts.holds]))


if __name__ == "__main__":
    main()
