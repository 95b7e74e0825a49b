"""Fair classifiers where scores are lumpy: a few ordinal columns, as of score cards, brackets and one-hot tables.

Folds and refit then end in different classifiers, and the rates of the one that is handed out jump. All truths are exact:
a law is a table of cells, in some laws beside one continuous column of small weight, whose distribution is cut into as
many equal parts as leave rates known to half a percent of a cell.
"""

import warnings
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit
from scipy.stats import norm

import tightrope as tr
from studies.adverse.search import Promise
from tightrope.estimators import Refused
from tightrope.learn.fairness.notions import NOTIONS

GRID = norm.ppf((np.arange(201) + 0.5) / 201)
ASKED: tuple[dict[str, Any], ...] = (
    {"p_rule": 0.8}, {"p_rule": 0.8}, {"p_rule": 0.8, "constraint": "rates"}, {"p_rule": 0.9}, {"p_rule": 0.7},
    {"difference": 0.1}, {"p_rule": 0.8, "notion": "equal_opportunity"},
    {"p_rule": 0.5, "notion": "false_positive_rate_parity"}, {"difference": 0.2, "notion": "equalized_odds"},
)  # fmt: skip
"""What is asked of `FairLogisticRegression`; the 80 % rule more often than the others."""


class Law(NamedTuple):
    """Groups that lie differently in a table of cells.

    Attributes:
        levels: how many values each ordinal feature has.
        groups: (G,), how large they are.
        cells: (G, cells), where they lie.
        logit: (G, cells), of the probability of a positive label.
        tilt: what the continuous column adds to it; 0 where there is none.
        weight: (G, cells), what rows weigh; None: all the same.
        indicators: features are 0 and 1 for each value but the first, instead of codes.
        rows: how many are drawn.
        asked: parameters of the classifier.
    """

    levels: tuple[int, ...]
    groups: np.ndarray
    cells: np.ndarray
    logit: np.ndarray
    tilt: float
    weight: np.ndarray | None
    indicators: bool
    rows: int
    asked: dict[str, Any]

    def __str__(self) -> str:
        features = "x".join(map(str, self.levels)) + (" indicators" if self.indicators else "")
        more = f" + {self.tilt:g} N(0, 1)" * bool(self.tilt) + ", weights" * (self.weight is not None)
        asked = ", ".join(f"{k}={v}" for k, v in self.asked.items())
        return f"{features}{more}; {self.rows:,} rows, groups of {self.groups.round(2).tolist()}; {asked}"

    def features(self, cell: np.ndarray, noise: np.ndarray) -> np.ndarray:
        """Features of rows in these cells."""
        codes = np.array(list(product(*map(range, self.levels))), float)[cell]
        if self.indicators:
            columns = [codes[:, j] == v for j, m in enumerate(self.levels) for v in range(1, m)]
            codes = np.column_stack(columns).astype(float)
        return np.column_stack([codes, noise]) if self.tilt else codes

    def draw(self, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray | None]:
        """Features, labels, groups and weights of fresh rows."""
        group = rng.choice(len(self.groups), self.rows, p=self.groups)
        below = np.cumsum(self.cells, axis=1)[group] < rng.random((self.rows, 1))
        cell, noise = np.minimum(below.sum(axis=1), self.cells.shape[1] - 1), rng.normal(size=self.rows)
        y = rng.random(self.rows) < expit(self.logit[group, cell] + self.tilt * noise)
        weight = None if self.weight is None else self.weight[group, cell]
        return self.features(cell, noise), y.astype(int), np.array(list("abcd"))[group], weight

    def kept(self, model: tr.FairLogisticRegression) -> bool:
        """Whether the true rates of a classifier are as alike as was asked."""
        count, parts = self.cells.shape[1], len(GRID) if self.tilt else 1
        cell, noise = np.repeat(np.arange(count), parts), np.tile(GRID[:parts], count)
        decided = model.decision_function(self.features(cell, noise)) > 0
        mass = (self.cells if self.weight is None else self.cells * self.weight)[:, cell]
        positive = expit(self.logit[:, cell] + self.tilt * noise)
        of_label = {None: mass, True: mass * positive, False: mass * (1 - positive)}
        for label in NOTIONS[model.notion]:
            rates = (of_label[label] @ decided) / of_label[label].sum(axis=1)
            if model.difference is not None and np.ptp(rates) > model.difference + 1e-12:
                return False
            if model.p_rule is not None and rates.min() < (model.p_rule - 1e-12) * rates.max():
                return False
        return True


def draw(rng: np.random.Generator) -> Law:
    """A random law: every second one a small table in which groups lie where they like, the others of any kind."""
    return draw_small(rng) if rng.random() < 0.5 else draw_any(rng)


def draw_small(rng: np.random.Generator) -> Law:
    """Some nine cells with labels as they come: what is most accurate and what is fair jump from cell to cell."""
    levels = ((3, 3), (3, 3), (2, 4), (3, 4), (2, 2, 3))[int(rng.integers(5))]
    cells, groups = int(np.prod(levels)), int(rng.choice([2, 2, 2, 3]))
    codes = np.array(list(product(*map(range, levels))), float)
    logit = 1.2 * rng.normal(size=cells) + 0.6 * (codes - codes.mean(axis=0)).sum(axis=1)
    asked = ASKED[int(rng.integers(3))] if rng.random() < 0.8 else ASKED[int(rng.integers(len(ASKED)))]
    tilt, rows = float(rng.choice([0.0, 0.0, 0.05])), int(rng.integers(1500, 4001))
    lie = rng.dirichlet(np.ones(cells), groups)
    weight = np.exp(rng.normal(0, 0.7, (groups, cells))) if rng.random() < 0.2 else None
    share = rng.dirichlet(np.full(groups, 30.0))
    return Law(levels, share, lie, np.tile(logit, (groups, 1)), tilt, weight, bool(rng.random() < 0.3), rows, asked)


def draw_any(rng: np.random.Generator) -> Law:
    """Two to four columns, up to four groups, some of them small, that may differ in their labels, too."""
    levels = tuple(int(m) for m in rng.integers(2, 7, rng.integers(2, 5)))
    levels = levels if np.prod(levels) <= 300 else levels[:3]
    cells, groups = int(np.prod(levels)), int(rng.choice([2, 2, 2, 3, 4]))
    share, common = rng.dirichlet(np.full(groups, 6.0)), 0.7 * rng.random()
    lie = rng.dirichlet(np.full(cells, float(rng.choice([0.3, 1.0, 3.0]))), groups)
    lie = common * rng.dirichlet(np.ones(cells)) + (1 - common) * lie
    codes = np.array(list(product(*map(range, levels))), float)
    slope = (codes - codes.mean(axis=0)) @ rng.uniform(0, 0.8, len(levels))
    own = float(rng.choice([0.0, 0.4])) * rng.normal(size=(groups, 1))
    logit = rng.normal(0, 0.5) + slope + float(rng.choice([0.3, 1.2])) * rng.normal(size=cells) + own
    weight = np.exp(rng.normal(0, 0.7, (groups, cells))) if rng.random() < 0.3 else None
    tilt, indicators = float(rng.choice([0.0, 0.0, 0.05, 0.2])), bool(rng.random() < 0.3)
    rows, asked = int(rng.integers(800, 4001)), ASKED[int(rng.integers(len(ASKED)))]
    return Law(levels, share, lie, logit, tilt, weight, indicators, rows, asked)


def attempt(law: Law, rng: np.random.Generator) -> bool | None:
    """Fit to fresh rows; whether what was promised is false."""
    X, y, s, weight = law.draw(rng)
    model = tr.FairLogisticRegression(**law.asked)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a constant may be right more often
        try:
            model.fit(X, y, sensitive_features=s, sample_weight=weight)
        except Refused:
            return None
    return not law.kept(model)


def draw_for_covariance(rng: np.random.Generator) -> Law:
    """The same tables, and a rule to be kept by a covariance."""
    law = draw(rng)
    asked = {"difference": 0.1} if rng.random() < 0.3 else {"p_rule": float(rng.choice([0.7, 0.8]))}
    return law._replace(asked=asked | {"constraint": "covariance"})


PROMISES = (
    Promise(
        name="fair-by-rates",
        said="p_rule=0.8 is kept with 95% confidence (FairLogisticRegression, cross-fit, tables of few cells)",
        draw=draw,
        attempt=attempt,
        repetitions=200,
        again=100,
    ),
    Promise(
        name="fair-by-covariance",
        said="p_rule=0.8 with 95 % confidence, by a covariance (FairLogisticRegression, tables of few cells)",
        draw=draw_for_covariance,
        attempt=attempt,
        repetitions=200,
        again=100,
    ),
)
