"""A fair classifier from Parquet files larger than memory: one pass learns what labels and sensitive columns mean, one how
features are scaled, and training reads the files in slices.

What is trained is the problem of `training.py`, row for row: the same scaling, the same covariances, the same optimum. A
p%-rule is kept by the largest covariance on a path (`frontier.py`) of whose classifiers rows held out show that they do.
"""

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import numpy as np
import pandas as pd
from sklearn.utils import compute_class_weight

from tightrope._minimize import minimize
from tightrope._sweep import sweep
from tightrope.learn.fair.frontier import judge_path, largest_that_keeps, thresholds_below
from tightrope.learn.fair.rare import intersected, judgeable
from tightrope.learn.fair.task import Task, crosses, is_positive, read_attributes, refuse_weightless
from tightrope.learn.fair.training import Scaling, Trained, budget, csoa, in_units, solve
from tightrope.learn.fair.walk import HELD_OUT
from tightrope.learn.fairness.notions import NOTIONS
from tightrope.learn.fairness.sensitive import INTERSECTION, Attribute, Sensitive
from tightrope.learn.problems.fair import columns_of, covariance_problem, levels_of
from tightrope.learn.runs import kept
from tightrope.methods import SVRGCSOA
from tightrope.problem import Problem
from tightrope.result import Status
from tightrope.sampling import Parquet
from tightrope.sampling.all_rows import UnreadableError
from tightrope.sampling.parquet_files import Columns, Files, Flaw, decoded
from tightrope.tree import replace

if TYPE_CHECKING:
    import pyarrow as pa

    from tightrope.learn.fair.classifier import FairLogisticRegression

_AT_ONCE = 16_384  # rows
_MANY = 1_000  # different values in a batch: a quantity, not groups

MOST_JUDGING = 200_000
"""Rows that rates are measured on at most: one is then known to a fifth of a percent."""

_JUDGES = 1 << 32  # added to a seed: rows that judge have nothing to do with others that are drawn by it


class People(NamedTuple):
    """Which columns of which files are what."""

    files: Files
    features: list[str]
    label: str
    sensitive: list[str]
    encode: Callable[["pa.RecordBatch"], np.ndarray]  # features of a batch, (rows, d) in float64
    names: Sequence[str]  # of the d features
    trained_on: Callable[[np.ndarray], np.ndarray] | None = None  # which rows, by number; all by default
    labels: tuple[Any, Any] | None = None  # the positive one second; by default in their order
    weight: str | None = None  # the column of what rows weigh

    @property
    def columns(self) -> list[str]:
        """All that is read."""
        return list(dict.fromkeys([*self.features, *self.about]))

    @property
    def about(self) -> list[str]:
        """What is read of people besides their features."""
        return list(dict.fromkeys([self.label, *self.sensitive, *([self.weight] if self.weight else [])]))

    def counted(self, first: int, rows: int) -> np.ndarray:
        """Which of these rows are trained on: rows that are held out stay where they are and weigh nothing."""
        numbers = np.arange(first, first + rows)
        return np.ones(rows, bool) if self.trained_on is None else self.trained_on(numbers)

    def weights(self, batch: "pa.RecordBatch", first: int) -> np.ndarray:
        """What rows weigh by themselves, whatever their class; 0 for those that are not trained on."""
        counted = self.counted(first, batch.num_rows).astype(float)
        if self.weight is None:
            return counted
        given = batch.column(self.weight).to_numpy(zero_copy_only=False).astype(float)
        wrong = np.flatnonzero(~(np.isfinite(given) & (given >= 0)))
        if len(wrong):
            raise Flaw(int(wrong[0]), self.weight, f"the weight {given[wrong[0]]}", "a finite number of at least 0")
        return counted * given

    def split(self, seed: int) -> "tuple[People, People]":
        """The people to train on and those who judge: a share of the rows, drawn at random by their numbers alone."""
        share = min(HELD_OUT, MOST_JUDGING / self.files.n)

        def judging(numbers: np.ndarray) -> np.ndarray:
            return at_random(numbers, seed + _JUDGES) < share

        def both(numbers: np.ndarray) -> np.ndarray:
            return np.ones(len(numbers), bool) if self.trained_on is None else self.trained_on(numbers)

        return (
            self._replace(trained_on=lambda numbers: both(numbers) & ~judging(numbers)),
            self._replace(trained_on=lambda numbers: both(numbers) & judging(numbers)),
        )


def at_random(numbers: np.ndarray, seed: int) -> np.ndarray:
    """A number between 0 and 1 for every row, a function of its number and the seed alone (splitmix64)."""
    with np.errstate(over="ignore"):
        z = (numbers.astype(np.uint64) + np.uint64(seed) * np.uint64(0x100000001B3)) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return (z ^ (z >> np.uint64(31))) / 2.0**64


class Known(NamedTuple):
    """What one pass over labels and sensitive columns says."""

    classes: tuple[Any, Any]
    weights: tuple[float, float]  # of the two labels
    sensitive: Sensitive | None  # of one row for each combination that there is; None without a constraint

    @property
    def attributes(self) -> tuple[Attribute, ...]:
        """What is known of the attributes."""
        return () if self.sensitive is None else self.sensitive.attributes


class Moments(NamedTuple):
    """What one pass over all columns says, in the units of the features. A notion may compare the owners of either label
    (`NOTIONS`); then there is a block of K constrained columns for each."""

    scaling: Scaling
    weight: float  # the mean weight of a row
    counted: np.ndarray  # (labels,), the mean weight of a row that counts for a covariance
    mean: np.ndarray  # (labels, K), of the sensitive columns over these
    unit: np.ndarray  # (K,), their deviations where they are quantities
    V: np.ndarray  # (labels * K, d), covariances of sensitive columns and features
    size: np.ndarray  # (d,), the mean of |feature|
    largest: np.ndarray  # (K,), of |s|
    rows: int  # trained on
    few: list[tuple[int, int]]  # features that vary in a handful of rows, and in how many

    @property
    def labels(self) -> int:
        """How many blocks there are."""
        return len(self.counted)


def are_files(X: Any) -> bool:
    """Whether features are given as files."""
    return isinstance(X, str | Path | Parquet)


def read_people(model: "FairLogisticRegression", X: Any, y: Any, given: Any, sample_weight: Any) -> People:
    """What `fit` was given: files, the name of the label, and the names of sensitive columns."""
    refuse_what_needs_rows(model)
    if given is not None:
        raise TypeError(
            "sensitive_features was given with files; expected names of sensitive columns as sensitive=[...]."
        )
    if sample_weight is not None and not isinstance(sample_weight, str):
        raise TypeError(
            f"sample_weight is a {type(sample_weight).__name__} and X are files; expected the name of the column that has "
            "the weights."
        )
    if not isinstance(y, str):
        raise TypeError(f"y is a {type(y).__name__} and X are files; expected the name of the column to predict.")
    files = X.files if isinstance(X, Parquet) else Files(X)
    columns = X.columns if isinstance(X, Parquet) else files.columns
    sensitive = (
        []
        if model.sensitive is None
        else [model.sensitive]
        if isinstance(model.sensitive, str)
        else list(model.sensitive)
    )
    weight = [] if sample_weight is None else [sample_weight]
    absent = [name for name in (y, *sensitive, *weight) if name not in columns]
    if absent:
        raise ValueError(f"The files have no column {absent[0]!r}; they have {', '.join(map(repr, columns[:20]))}.")
    others = {y, *weight, *(() if model.sensitive_as_features else sensitive)}
    features = [name for name in columns if name not in others]
    if not features:
        raise ValueError("No column is left to learn from, besides the label and the sensitive ones.")
    with jax.enable_x64(True):
        text = [name for name in features if not _is_number(files.schema.field(name).type)]
        if text:
            raise TypeError(
                f"column {text[0]!r} is {files.schema.field(text[0]).type}; expected numbers. `tightrope fit` and "
                "tightrope.learn.tables make features of text."
            )
        encode = Columns(files, features, "float64", {})
    return People(files, features, y, sensitive, encode, features, weight=sample_weight)


def refuse_what_needs_rows(model: "FairLogisticRegression") -> None:
    """Refuse rules whose paths of classifiers need all rows in memory; a p%-rule is kept by the covariance."""
    if model.difference is not None:
        raise ValueError(
            f"difference={model.difference:g} is kept by a path of classifiers that need all rows in memory, and files were "
            "given; expected p_rule=... or covariance=.... Or fit a part of the rows that fits into memory: by 200,000 of "
            "them a rate is known to a fifth of a percent."
        )
    if model.selected is not None:
        raise ValueError(
            f"selected={model.selected!r} needs all rows in memory, and files were given; leave it out, or fit a part of "
            "the rows that fits into memory."
        )
    if model.p_rule is not None and (model.constraint == "rates" or model.search == "batch"):
        asked = "constraint='rates'" if model.constraint == "rates" else "search='batch'"
        raise ValueError(
            f"{asked} looks at rows in memory, and files were given; expected constraint='auto' or 'covariance', and search "
            "as it is by default: from files a p_rule is kept by the largest covariance of which rows held out show it."
        )


class FromFiles(NamedTuple):
    """What files gave: a classifier, what its columns mean, at which threshold it was trained, and the path to it."""

    trained: Trained
    known: Known
    moments: Moments
    threshold: Any
    frontier: pd.DataFrame | None


def fit_files(model: "FairLogisticRegression", people: People, seed: int) -> FromFiles:
    """Train on files; the model learns its classes."""
    refuse_what_needs_rows(model)
    known = look_at(model, people)
    if model.p_rule is None:
        moments = measure(model, people, known)
        return FromFiles(
            _train(model, people, known, moments, model.covariance, seed), known, moments, model.covariance, None
        )
    training, judges = people.split(seed)
    moments = measure(model, training, known)
    thresholds, coef, intercept = _path(model, training, known, moments, seed)
    task, decided = _judged(model, judges, known, coef, intercept)
    table = judge_path(task, thresholds, decided, float(model.confidence), seed)
    how = f"with {model.confidence:.0%} confidence"
    threshold = largest_that_keeps(table, model.p_rule, "p_rule_bound", how, task, from_files=True)
    trained = _train(model, training, known, moments, threshold, seed)
    return FromFiles(trained, known, moments, threshold, table)


def _path(
    model: "FairLogisticRegression", people: People, known: Known, moments: Moments, seed: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Thresholds from where the constraint begins to bind, and a classifier at each, all of them in the same passes."""
    with jax.enable_x64(True):
        problem, source = _problem(model, known, moments, 1e6)[0], _source(model, people, known, moments)
        free = solve(problem, source, budget(moments.rows), 1e-6, seed, record=0)
        coef, _ = moments.scaling.back(np.asarray(free.x, float))
        thresholds = thresholds_below(np.abs(moments.V @ coef))
    return thresholds, *path_of(problem, source, moments, thresholds, seed)


def path_of(
    problem: Problem, source: Parquet, moments: Moments, thresholds: np.ndarray, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Coefficients (L, d) and intercepts (L,) along a path of thresholds: side by side, because reading is what is dear.

    Fifteen passes over a hundred thousand rows or more leave a gap of 1e-6 or so, which decisions do not see. Fewer rows
    need more of them, where groups are many and thresholds small, and are quickly passed.
    """
    levels = thresholds[:, None] * np.ones(np.size(problem.levels))
    passes = float(np.clip(1.5e6 / moments.rows, 15, 100))
    with jax.enable_x64(True):
        table = sweep(
            problem, source, SVRGCSOA(), passes=passes, levels=levels, seeds=(seed,), points=True, progress=False
        )
    return moments.scaling.back_each(table["x"])


def _judged(
    model: "FairLogisticRegression", people: People, known: Known, coef: np.ndarray, intercept: np.ndarray
) -> tuple[Task, np.ndarray]:
    """The rows that judge, without their features, and which of them each classifier decides positive, by one pass."""
    assert known.sensitive is not None
    make, parts = rows_of(people, known), []
    for number in range(len(people.files.groups)):
        for X, positive, _, s, weight in decoded(people.files, number, make, people.columns, _AT_ONCE):
            mine = weight > 0
            parts.append((X[mine] @ coef.T + intercept > 0, positive[mine], s[mine], weight[mine]))
    decided, positive, s, weight = (np.concatenate(column) for column in zip(*parts, strict=True))
    if not len(decided):
        raise ValueError("no row was held out to judge by; expected more rows than these few.")
    sensitive = dataclasses.replace(known.sensitive, values=(), columns=s)
    bounds = float(model.l2), float(model.radius), model.fit_intercept
    nothing = np.zeros((len(weight), 0))
    return Task(nothing, np.where(positive, 1.0, -1.0), sensitive, weight, model.notion, *bounds), decided


# ---- what labels and sensitive columns mean ----------------------------------------------------------------------------


def look_at(model: "FairLogisticRegression", people: People) -> Known:
    """One pass over the label and the sensitive columns."""
    counts, quantities = _combinations(people)
    labels = np.array([key[0] for key in counts])
    rows, counted, weight = np.array(list(counts.values())).T
    positive = is_positive(model, labels, None, True)
    if people.labels is not None:
        model.classes_ = np.array(people.labels)
        positive = labels == people.labels[1]
    if len(np.unique(positive[counted > 0])) < 2:
        raise ValueError("the label has only one class among the rows to train on; expected two.")
    totals = [int(rows[positive == which].sum()) for which in (False, True)]
    weights = _label_weights(model, totals)
    if not people.sensitive:
        return Known(tuple(model.classes_.tolist()), weights, read_attributes(model, pd.DataFrame(), None, None))
    grouped = [name for name in people.sensitive if name not in quantities]
    frame = pd.DataFrame([key[1:] for key in counts], columns=grouped)
    rate = float(np.average(positive, weights=weight))
    # A quantity needs no values here, but several of them, or it would be taken for groups.
    frame, positive = pd.concat([frame] * 3, ignore_index=True), np.tile(positive, 3)
    counted, weight = (np.concatenate([v, 0 * v, 0 * v]) for v in (counted, weight))
    for name in quantities:
        frame[name] = np.arange(len(frame)) + 0.5
    sensitive = read_attributes(model, frame[people.sensitive], None, None)
    if sensitive is not None:
        refuse_weightless(sensitive, weight)
        if model.notion != "demographic_parity":
            counted, rate = min((counted * (positive == which) for which in NOTIONS[model.notion]), key=np.sum), 0.5
        if model.merge_rare and model.covariance is None:
            sensitive = judgeable(sensitive, counted, rate)
        if crosses(model, sensitive):
            sensitive = intersected(sensitive, counted, rate, model.merge_rare)
    return Known(tuple(model.classes_.tolist()), weights, sensitive)


def _combinations(people: People) -> tuple[dict[tuple[Any, ...], np.ndarray], list[str]]:
    """For each combination of label and groups how many rows are trained on, how many of them have weight, and how much;
    and the sensitive columns that are quantities."""
    counts: dict[tuple[Any, ...], np.ndarray] = {}
    names = list(dict.fromkeys([people.label, *people.sensitive]))
    quantities: list[str] = []

    def combined(batch: "pa.RecordBatch", first: int) -> Any:
        import pyarrow as pa

        for name in people.about:
            column = batch.column(name)
            if column.null_count:
                raise Flaw(int(np.argmax(np.asarray(column.is_null()))), name, "no value", "one in every row")
        if not counts:
            quantities.extend(n for n in people.sensitive if len(batch.column(n).unique()) > _MANY)
        by = [name for name in names if name not in quantities]
        weight, table = people.weights(batch, first), pa.Table.from_batches([batch]).select(by)
        columns = people.counted(first, batch.num_rows).astype(float), (weight > 0).astype(float), weight
        for k, column in enumerate(columns):
            table = table.append_column(f" {k}", pa.array(column))
        summed = table.group_by(by).aggregate([(f" {k}", "sum") for k in range(len(columns))])
        return summed.select([*by, *(f" {k}_sum" for k in range(len(columns)))]).to_pylist()

    for number in range(len(people.files.groups)):
        for found in decoded(people.files, number, combined, people.about, 65_536):
            for row in found:
                *key, rows, counted, weight = row.values()
                counts[tuple(key)] = counts.get(tuple(key), 0.0) + np.array([rows, counted, weight])
            if len(counts) > 100 * _MANY:
                raise UnreadableError(
                    f"{people.label} and {', '.join(people.sensitive)} have over {100 * _MANY:,} combinations; expected "
                    "a label of two values, and groups. Is one of them an identifier?"
                )
    return counts, quantities


def _label_weights(model: "FairLogisticRegression", totals: list[int]) -> tuple[float, float]:
    if model.class_weight is None:
        return 1.0, 1.0
    if model.class_weight == "balanced":
        negative, positive = totals
        return (negative + positive) / (2.0 * negative), (negative + positive) / (2.0 * positive)
    found = compute_class_weight(model.class_weight, classes=model.classes_, y=model.classes_)
    return float(found[0]), float(found[1])


class Rows(NamedTuple):
    """A batch in numbers: features, which are positive, what they weigh, the sensitive columns, and what they would weigh
    whatever their class."""

    X: np.ndarray
    positive: np.ndarray
    weight: np.ndarray
    s: np.ndarray
    people: np.ndarray


def rows_of(people: People, known: Known) -> Callable[["pa.RecordBatch", int], Rows]:
    """What makes numbers of a batch."""
    import pyarrow as pa
    import pyarrow.compute as pc

    attributes = [a for a in known.attributes if a.kind != INTERSECTION]
    crossed = next((a for a in known.attributes if a.kind == INTERSECTION), None)
    names = dict(zip((a.name for a in attributes), people.sensitive, strict=True))
    places = _places(attributes, crossed)

    def group(column: Any, attribute: Attribute) -> np.ndarray:
        cells = attribute.cells or [[(value,)] for value in attribute.groups]  # some may have been made one
        place = [code for code, values in enumerate(cells) for _ in values]
        return np.array(place)[codes(column, [v for values in cells for (v,) in values], names[attribute.name])]

    def codes(column: Any, values: Sequence[Any], name: str) -> np.ndarray:
        column = column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
        found = pc.index_in(column, pa.array(values).cast(column.type))  # pyright: ignore[reportAttributeAccessIssue]
        if found.null_count:
            row = int(np.argmax(np.asarray(found.is_null())))
            raise Flaw(row, name, f"the value {column[row].as_py()!r}", f"one of {', '.join(map(repr, values))}")
        return found.to_numpy(zero_copy_only=False)

    def made(batch: "pa.RecordBatch", first: int) -> Rows:
        positive = codes(batch.column(people.label), known.classes, people.label) == 1
        own = people.weights(batch, first)
        weight = np.where(positive, known.weights[1], known.weights[0]) * own
        parts, grouped = [np.zeros((len(positive), 0))], []
        for attribute in attributes:
            column = batch.column(names[attribute.name])
            if attribute.kind == "continuous":
                parts.append(column.to_numpy(zero_copy_only=False).astype(float)[:, None])
                continue
            grouped.append(group(column, attribute))
            which = [1] if attribute.kind == "binary" else range(len(attribute.groups))
            parts.append((grouped[-1][:, None] == np.array(which)).astype(float))
        if crossed is not None:
            parts.append((places[tuple(grouped)][:, None] == np.arange(len(crossed.groups))).astype(float))
        return Rows(people.encode(batch), positive, weight, np.hstack(parts), own)

    return made


def _places(attributes: list[Attribute], crossed: Attribute | None) -> np.ndarray:
    """For each combination of groups its place among those of the intersection; the last takes what is not known."""
    groups = [a.groups for a in attributes if a.kind != "continuous"]
    places = np.full([len(g) for g in groups], 0 if crossed is None else len(crossed.groups) - 1)
    for k, cells in enumerate(() if crossed is None else crossed.cells):
        for cell in cells:
            places[tuple(g.index(value) for g, value in zip(groups, cell, strict=True))] = k
    return places


# ---- how features are scaled ---------------------------------------------------------------------------------------------


def measure(model: "FairLogisticRegression", people: People, known: Known) -> Moments:
    """One pass over all columns: means, deviations and covariances, as differences from the first rows' means."""
    make, n, sums = rows_of(people, known), people.files.n, None
    shift = s_shift = middle = np.zeros(0)
    largest: Any = 0.0
    for number in range(len(people.files.groups)):
        for X, positive, w, s, _ in decoded(people.files, number, make, people.columns, _AT_ONCE):
            if sums is None:
                shift, s_shift, middle = (
                    X.mean(axis=0),
                    s.mean(axis=0),
                    np.partition(X, len(X) // 2, axis=0)[len(X) // 2],
                )
            D, E, counted = X - shift, s - s_shift, (w > 0).astype(float)
            c = np.stack([w if label is None else w * (positive == label) for label in NOTIONS[model.notion]])
            new = (
                w.sum(), w @ D, w @ D**2, w @ E, w @ E**2, c.sum(axis=1), c @ E, c @ D,
                np.stack([(own[:, None] * E).T @ D for own in c]),
                counted.sum(), counted @ np.abs(X), counted @ (middle != X),
            )  # fmt: skip
            sums = new if sums is None else tuple(a + b for a, b in zip(sums, new, strict=True))
            largest = np.maximum(largest, np.abs(s).max(axis=0, initial=0.0))
    assert sums is not None
    W, wD, wDD, wE, wEE, C, cE, cD, cED, rows, size, differ = sums
    if not np.all(C > 0):
        raise ValueError("no row that counts has weight; expected some to train on.")
    mean, deviation = shift + wD / W, np.sqrt(np.maximum(wDD / W - (wD / W) ** 2, 0.0))
    spread = np.sqrt(np.maximum(wEE / W - (wE / W) ** 2, 0.0))
    kinds = () if known.sensitive is None else [known.attributes[i].kind for i in known.sensitive.owners]
    unit = np.where(np.array([kind == "continuous" for kind in kinds], bool) & (spread > 0), spread, 1.0)
    sE, sD = cE / C[:, None], cD / C[:, None]
    V = (cED / C[:, None, None] - sE[:, :, None] * sD[:, None, :]).reshape(-1, len(shift))
    of_column = np.tile(largest, len(C))[:, None]
    limit = min(max(10, int(rows) // 2000), (int(rows) - 1) // 2)
    carries = (
        np.any(np.abs(V) > 1e-9 * of_column * size / max(rows, 1), axis=0) if len(V) else np.zeros(len(size), bool)
    )
    few = [(int(j), int(differ[j])) for j in np.flatnonzero((differ > 0) & (differ <= limit) & carries)]
    scaling = Scaling.of(mean, deviation, model.fit_intercept)
    return Moments(scaling, float(W) / n, C / n, s_shift + sE, unit, V, size / max(rows, 1), largest, int(rows), few)


# ---- training ------------------------------------------------------------------------------------------------------------


def _source(model: "FairLogisticRegression", people: People, known: Known, moments: Moments) -> Parquet:
    """The rows of the problem; whoever makes it must have 64 bits enabled."""
    decode: Any = _Standardised(people, known, moments, model.notion)
    return Parquet(people.files, people.columns, decode=decode)


def _train(
    model: "FairLogisticRegression", people: People, known: Known, moments: Moments, threshold: Any, seed: int
) -> Trained:
    with jax.enable_x64(True):
        problem, levels = _problem(model, known, moments, threshold)
        source = _source(model, people, known, moments)
        if model.method == "auto":
            passes = budget(moments.rows) if model.passes is None else model.passes
            result = solve(problem, source, passes, model.tol, seed)
        else:
            problem, passes = replace(problem, exact_constraints=None), 10.0 if model.passes is None else model.passes
            method = model.method
            if method == "csoa":
                method = csoa(problem, people.files.n, float(problem.params["V"].shape[1]), passes)
            result = minimize(problem, source, method=method, passes=passes, batch_size=1, seed=seed)
        if result.status is Status.STREAM_RAISED and result.error is not None:
            raise result.error
        result = in_units(kept(result, f"{moments.rows:,} rows"), np.tile(moments.unit, 2 * moments.labels))
    coef, intercept = moments.scaling.back(np.asarray(result.x, float))
    if model.method == "auto" and known.sensitive is not None:
        coef, intercept = _feasible_as_stored(coef, intercept, moments, levels)
    return Trained(coef, intercept, result)


def _problem(
    model: "FairLogisticRegression", known: Known, moments: Moments, threshold: Any
) -> tuple[Problem, np.ndarray]:
    """The problem in standardised features, and its thresholds in the units of the attributes."""
    scaling, unit = moments.scaling, np.tile(moments.unit, moments.labels)
    d = len(scaling.scale)
    V = np.zeros((len(unit), d + scaling.intercept))  # a constant has no covariance
    V[:, :d] = moments.V / scaling.scale / unit[:, None]
    names = () if known.sensitive is None else columns_of(known.sensitive, model.notion)
    levels = np.zeros(0) if known.sensitive is None else levels_of(threshold, known.sensitive, model.notion)
    penalised = (np.arange(V.shape[1]) < d).astype(float)
    return covariance_problem(V, levels / unit, names, float(model.radius), float(model.l2), penalised), levels


class _Standardised:
    """Makes rows of the problem from batches: standardised features, label, weight, and s as its mean is a covariance."""

    numbered = True  # it wants to know which rows they are

    def __init__(self, people: People, known: Known, moments: Moments, notion: str):
        self.make, self.moments, self.notion = rows_of(people, known), moments, notion

    def __call__(self, batch: "pa.RecordBatch", first: int) -> tuple[np.ndarray, ...]:
        X, positive, w, s, _ = self.make(batch, first)
        moments, blocks = self.moments, []
        for label, counted, mean in zip(NOTIONS[self.notion], moments.counted, moments.mean, strict=True):
            c = w if label is None else w * (positive == label)
            blocks.append((c / counted)[:, None] * ((s - mean) / moments.unit))
        return moments.scaling.apply(X), np.where(positive, 1.0, -1.0), w / moments.weight, np.hstack(blocks)


def _feasible_as_stored(
    coef: np.ndarray, intercept: float, moments: Moments, levels: np.ndarray
) -> tuple[np.ndarray, float]:
    """As in `training.py`, by the moments: coefficients, shrunk by rounding where they would exceed a threshold by it."""
    score = float(moments.size @ np.abs(coef)) + abs(intercept)
    margin = 16 * np.finfo(float).eps * (np.tile(moments.largest, moments.labels) * score + levels)
    size = np.abs(moments.V @ coef)
    factor = float(np.min(np.where(size > levels - margin, (levels - margin) / np.maximum(size, levels), 1.0)))
    return coef * factor, intercept * factor


def _is_number(kind: Any) -> bool:
    import pyarrow as pa

    return (
        pa.types.is_floating(kind)
        or pa.types.is_integer(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_decimal(kind)
    )
