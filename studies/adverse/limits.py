"""Certified limits of `ConstrainedClassifier`, on laws whose true rates are sums over a handful of kinds of rows.

Held-out rows: scores are lumps and pieces of uniform distributions, some of them rare, with weights that may be rare and
heavy, in two groups, and rows may be copied. Folds: tables of few cells, where the model that is handed out is another rule
than any of the folds'.
"""

import warnings
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

import tightrope as tr
from studies.adverse.search import Promise
from tightrope.learn.constrained.asked import BY_GROUP

ASKED: tuple[dict[str, Any], ...] = (
    {"subject_to": {"fpr": 0.1}},
    {"subject_to": {"fpr": 0.02}},
    {"subject_to": {"fpr" + BY_GROUP: 0.1}},
    {"subject_to": {"recall": 0.7}, "maximize": "precision"},
    {"subject_to": {"precision": 0.7}},
    {"subject_to": {"selection_rate": "<= 0.3"}},
    {"subject_to": {"accuracy": 0.7}},
    {"subject_to": {"fpr": 0.3, "recall": 0.4}},
    {"subject_to": {"fpr": 0.2, "precision": 0.5, "selection_rate": [">= 0.05", "<= 0.5"]}},
    {"subject_to": {"cost": 0.4}, "costs": {"fp": 1, "fn": 3}},
    {"subject_to": {"fnr" + BY_GROUP: 0.3}, "maximize": "specificity"},
)
"""What is asked for."""


class Column(ClassifierMixin, BaseEstimator):
    """A classifier whose score is the first feature: nothing is learnt, so that an attempt takes milliseconds."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "Column":
        """Learn the names of the labels."""
        self.classes_ = np.unique(y)
        return self

    def decision_function(self, X: Any) -> np.ndarray:
        """The first feature."""
        return np.asarray(X)[:, 0]


class Kinds(NamedTuple):
    """The kinds of rows that a law has: how frequent each is, its label, group and weight, and its expected decision."""

    mass: np.ndarray
    positive: np.ndarray
    group: np.ndarray
    weight: np.ndarray

    def broken(self, model: tr.ConstrainedClassifier, selected: np.ndarray, costs: dict[str, float] | None) -> bool:
        """Whether the shares of each kind that are selected break a limit."""
        fp, fn = (costs or {}).get("fp", 0), (costs or {}).get("fn", 0)
        for c in model.asked.in_groups([("sensitive_features", 0), ("sensitive_features", 1)]):
            w = self.mass * self.weight * (1 if c.group is None else self.group == c.group[1])
            p, n = w * self.positive, w * ~self.positive
            hit = {
                "fpr": (n @ selected, n.sum()), "fnr": (p @ (1 - selected), p.sum()), "recall": (p @ selected, p.sum()),
                "precision": (p @ selected, w @ selected), "accuracy": (p @ selected + n @ (1 - selected), w.sum()),
                "selection_rate": (w @ selected, w.sum()), "specificity": (n @ (1 - selected), n.sum()),
                "cost": (fp * (n @ selected) + fn * (p @ (1 - selected)), w.sum()),
            }[c.metric]  # fmt: skip
            if hit[1] > 0 and not c.holds(hit[0] / hit[1]):
                return True
        return False


def promised(model: tr.ConstrainedClassifier, *given: Any, **more: Any) -> bool:
    """Fit; whether the certificate holds."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(*given, **more).certificate_.holds


# ---- rows that are held out ------------------------------------------------------------------------------------------


class Scores(NamedTuple):
    """A law of scores, labels, groups and weights.

    Attributes:
        kinds: what rows there are.
        middle, width: (kinds,), where the scores of a kind lie, evenly; all the same where the width is 0.
        weighted: weights are given with the rows, and are part of the rates.
        told: the largest weight is given.
        copies: how often a negative and a positive row are there; negative numbers: drawn at random, as by oversampling.
        rows: how many are drawn, before they are copied.
        cv: which of them judge.
        asked: parameters of the classifier.
    """

    kinds: Kinds
    middle: np.ndarray
    width: np.ndarray
    weighted: bool
    told: bool
    copies: tuple[int, int]
    rows: int
    cv: Any
    asked: dict[str, Any]

    def __str__(self) -> str:
        weights = f"; weights to {self.kinds.weight.max():g}" + " (told)" * self.told if self.weighted else ""
        lumps = f"{len(self.width)} kinds of rows, {int(np.sum(self.width == 0))} of them lumps"
        return f"{self.rows} rows, copies {self.copies}, cv={self.cv}; {lumps}{weights}; {self.asked}"


def draw_scores(rng: np.random.Generator) -> Scores:
    """Few kinds of rows, some of them rare, some of them lumps."""
    n = int(rng.integers(3, 14))
    positive = rng.random(n) < rng.choice([0.2, 0.5])
    positive[:2] = [True, False]
    middle = rng.normal(size=n) + rng.choice([0.5, 1.5, 3]) * positive
    width = np.where(rng.random(n) < rng.choice([0.0, 0.4, 1.0]), 0.0, rng.exponential(2, n))
    kinds = Kinds(rng.dirichlet(np.full(n, rng.choice([0.3, 1, 3]))), positive, rng.integers(0, 2, n), np.ones(n))
    rows, cv = int(rng.choice([60, 200, 400, 1000])), "prefit" if rng.random() < 0.5 else 0.5
    return Scores(kinds, middle, width, False, False, (1, 1), rows, cv, ASKED[int(rng.integers(len(ASKED)))])


def draw_weights(rng: np.random.Generator) -> Scores:
    """One or two kinds are so rare that a sample may have none of them, weigh much together, and are where it hurts."""
    law = draw_scores(rng)
    kinds, rows, heavy = (
        law.kinds,
        int(rng.choice([200, 800, 3000])),
        rng.permutation(len(law.width))[: rng.integers(1, 3)],
    )
    mass = kinds.mass.copy()
    mass[heavy] = rng.choice([0.3, 1, 3, 30]) / rows
    weight = np.full(len(mass), rng.choice([1.0, 0.3]))
    weight[heavy] = np.maximum(rng.choice([0.1, 0.3, 1]) * mass.sum() / mass[heavy], 2 * weight[0])
    middle, away = law.middle.copy(), rng.choice([0, 2, 5])
    middle[heavy] += np.where(kinds.positive[heavy], -away, away)
    kinds = kinds._replace(mass=mass / mass.sum(), weight=weight)
    return law._replace(kinds=kinds, middle=middle, rows=rows, weighted=True, told=bool(rng.random() < 0.6))


def draw_copies(rng: np.random.Generator) -> Scores:
    """Scores without lumps, rows as a join or oversampling leaves them."""
    law = draw_scores(rng)
    negative, positive = (int(k) for k in rng.choice([1, 2, 3, 5, -3, -6], size=2))
    width, rows = law.width + rng.exponential(1, len(law.width)), int(rng.choice([60, 200, 400]))
    return law._replace(width=width, copies=(negative, positive), rows=rows)


def attempt_scores(law: Scores, rng: np.random.Generator) -> bool | None:
    """Draw, copy, certify, and compare with the truth."""
    kinds = law.kinds
    kind = rng.choice(len(kinds.mass), law.rows, p=kinds.mass)
    X = np.stack(
        [law.middle[kind] + law.width[kind] * rng.uniform(-0.5, 0.5, law.rows), rng.normal(size=law.rows)], axis=1
    )
    times = np.where(kinds.positive[kind], law.copies[1], law.copies[0])
    rows = np.repeat(np.arange(law.rows), np.where(times > 0, times, 1 + rng.poisson(np.maximum(-times - 1, 0))))
    y = kinds.positive[kind]
    if len(np.unique(y)) < 2:
        return None
    weight = kinds.weight[kind][rows] if law.weighted else None
    told = float(kinds.weight.max()) if law.weighted and law.told else None
    model = tr.ConstrainedClassifier(
        Column().fit(X, y), cv=law.cv, max_weight=told, random_state=int(rng.integers(2**31)), **law.asked
    )
    try:
        holds = promised(model, X[rows], y[rows], weight, sensitive_features=kinds.group[kind][rows])
    except ValueError:  # one class among the rows of a part
        return None
    if not holds:
        return None
    top, cut = law.middle + law.width / 2, model.threshold_
    above = np.where(law.width > 0, np.clip((top - cut) / np.maximum(law.width, 1e-300), 0, 1), law.middle > cut)
    truth = kinds if law.weighted else kinds._replace(weight=np.ones(len(kinds.mass)))
    return truth.broken(model, above, law.asked.get("costs"))


# ---- folds -------------------------------------------------------------------------------------------------------------


class Table(NamedTuple):
    """A law of a table of few cells.

    Attributes:
        cells: (cells, columns), codes.
        mass: how frequent each is.
        chance: of a positive label in each.
        model: the classifier: linear in codes, linear in indicators, a tree or a small one.
        rows: how many are drawn.
        folds: how many there are.
        asked: parameters of the classifier.
    """

    cells: np.ndarray
    mass: np.ndarray
    chance: np.ndarray
    model: str
    rows: int
    folds: int
    asked: dict[str, Any]

    def __str__(self) -> str:
        return f"{self.rows} rows of {len(self.cells)} cells, {self.model}, {self.folds} folds; {self.asked}"

    def features(self, cell: np.ndarray) -> np.ndarray:
        """What the classifier sees of these cells."""
        if self.model != "indicators":
            return self.cells[cell]
        return np.concatenate(
            [np.eye(int(column.max()) + 1)[column[cell].astype(int)] for column in self.cells.T], axis=1
        )


MODELS = {
    "codes": LogisticRegression(), "indicators": LogisticRegression(C=10), "tree": DecisionTreeClassifier(random_state=0),
    "small tree": DecisionTreeClassifier(max_depth=2, random_state=0),
}  # fmt: skip


def draw_table(rng: np.random.Generator) -> Table:
    """One to three columns, four to some two hundred cells, near and far from chance."""
    columns = int(rng.integers(1, 4))
    levels = int(rng.integers(2, (16, 9, 6)[columns - 1]))
    levels = max(levels, 4) if columns == 1 else levels
    cells = np.stack([part.ravel() for part in np.meshgrid(*[np.arange(levels)] * columns)], axis=1).astype(float)
    slope = rng.choice([0, 0.6]) * (cells.sum(axis=1) - columns * (levels - 1) / 2)
    chance = 1 / (1 + np.exp(-rng.choice([0.1, 0.4, 1.2]) * rng.normal(size=len(cells)) - slope))
    return Table(
        cells, rng.dirichlet(np.full(len(cells), rng.choice([0.3, 1, 3]))), chance,
        str(rng.choice(["codes", "indicators", "tree", "small tree"])), int(rng.choice([100, 300, 1000, 3000])),
        int(rng.choice([3, 5])), ASKED[int(rng.integers(len(ASKED)))],
    )  # fmt: skip


def attempt_table(law: Table, rng: np.random.Generator) -> bool | None:
    """Draw, certify, and compare the decisions about all cells with the truth. The group is the first column's parity."""
    cell = rng.choice(len(law.mass), law.rows, p=law.mass)
    y, group = rng.random(law.rows) < law.chance[cell], law.cells[:, 0].astype(int) % 2
    model = tr.ConstrainedClassifier(
        MODELS[law.model], cv=law.folds, random_state=int(rng.integers(2**31)), **law.asked
    )
    try:
        holds = promised(model, law.features(cell), y, sensitive_features=group[cell])
    except ValueError:  # fewer rows of a class than folds
        return None
    if not holds:
        return None
    d = model.predict(law.features(np.arange(len(law.cells)))).astype(float)
    mass = np.concatenate([law.mass * law.chance, law.mass * (1 - law.chance)])
    positive = np.repeat([True, False], len(d))
    kinds = Kinds(mass, positive, np.tile(group, 2), np.ones(2 * len(d)))
    return kinds.broken(model, np.tile(d, 2), law.asked.get("costs"))


PROMISES = (
    Promise(
        name="limits-held-out",
        said="Every limit is kept with 95 % confidence (rows held out, or an estimator trained before)",
        draw=draw_scores,
        attempt=attempt_scores,
    ),
    Promise(
        name="limits-weights",
        said="Every limit on weighted rates is kept with 95 % confidence, max_weight given or not",
        draw=draw_weights,
        attempt=attempt_scores,
    ),
    Promise(
        name="limits-copies",
        said="Every limit is kept with 95 % confidence, of rows that were copied",
        draw=draw_copies,
        attempt=attempt_scores,
    ),
    Promise(
        name="limits-folds",
        said="Every limit is kept with 95 % confidence, for many rows (folds)",
        draw=draw_table,
        attempt=attempt_table,
    ),
)
