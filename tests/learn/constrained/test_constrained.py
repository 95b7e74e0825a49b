"""Constrained classifiers: what is certified, by which rows, and every sentence where nothing is."""

import json
import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from scipy.stats import binom, norm
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier, NearestCentroid
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import tightrope as tr
from studies import constrained as study
from tests.commands import call
from tightrope.confidence import umbrella_order
from tightrope.files import FileError
from tightrope.learn.constrained.asked import METRICS, Constraint, read_asked
from tightrope.learn.constrained.certificate import CertificationError, CertificationWarning, rows_needed
from tightrope.learn.constrained.held_out import HeldOut
from tightrope.learn.constrained.linear import coefficients
from tightrope.learn.constrained.search import by_estimate, passes, walk


@parametrize_with_checks([tr.ConstrainedClassifier(RidgeClassifier())])
def test_scikit_learns_checks(estimator, check):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CertificationWarning)  # a handful of rows certifies nothing
        check(estimator)


@pytest.mark.slow
@parametrize_with_checks([tr.ConstrainedClassifier()])
def test_scikit_learns_checks_of_the_linear_score(estimator, check):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CertificationWarning)
        check(estimator)


def data(n=3000, share=0.3, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.random(n) < share
    return rng.normal(size=(n, 3)) + 1.2 * y[:, None], y


X, Y = data()
GROUP = pd.Series(np.where(np.random.default_rng(2).random(3000) < 0.4, "F", "M"), name="sex")


def fit(estimator=None, X: Any = X, y: Any = Y, weight=None, group: Any = None, **asked):
    return tr.ConstrainedClassifier(estimator or LogisticRegression(), **asked).fit(X, y, weight, group)


# ---- what is certified -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [0.005, 0.02, 0.2])
def test_one_limit_on_the_false_positive_rate_is_the_umbrella(limit):
    model = fit(subject_to={"fpr": limit})
    rows = model.held_out_
    negative = np.sort(rows.score[~rows.positive])
    order = umbrella_order(len(negative), limit, 0.95)
    assert order is not None
    assert model.threshold_ == negative[order - 1]
    assert model.certificate_.holds
    assert model.certificate_.proven


def test_a_walk_upwards_is_the_umbrella_of_the_positive_rows():
    model = fit(maximize="precision", subject_to={"recall": 0.9})
    rows = model.held_out_
    positive = np.sort(-rows.score[rows.positive])
    order = umbrella_order(len(positive), 0.1, 0.95)
    assert order is not None
    rejected = np.sum(rows.score[rows.positive] <= model.threshold_)
    assert rejected == len(positive) - order  # as many may be missed as the binomial tail allows
    assert binom.cdf(rejected, len(positive), 0.1) <= 0.05 < binom.cdf(rejected + 1, len(positive), 0.1)


@pytest.mark.parametrize(
    "asked",
    [
        {"subject_to": {"fpr": 0.15, "recall": 0.5}},
        {"subject_to": {"precision": 0.8}},
        {"subject_to": {"selection_rate": [">= 0.1", "<= 0.4"]}, "maximize": "accuracy"},
        {"subject_to": {"cost": 0.5}, "costs": {"fp": 1, "fn": 3}},
        {"subject_to": {"fpr by group": 0.1}},
        {"subject_to": {"specificity": 0.9}, "maximize": "-fnr"},
    ],
)
def test_estimates_keep_what_is_certified(asked):
    model = fit(group=GROUP, **asked)
    certificate = model.certificate_
    assert certificate.holds, certificate
    for limit, measured in zip(certificate.limits, certificate.constraints, strict=True):
        sign, number = str(measured.limit).split()
        kept = measured.value < float(number) if sign == "<=" else measured.value > float(number)
        assert kept, limit
    assert len(certificate.constraints) == (2 if "fpr by group" in asked["subject_to"] else len(certificate.limits))


def test_metrics_are_what_they_are_called():
    y, s = np.array([1, 1, 1, 0, 0, 0, 0, 1], bool), np.array([3, 2, 0, 3, 0, 0, 0, 1.0])
    rows, cut = HeldOut(s, y, np.ones(8), {}), np.array([0.5])
    found = {name: float(rows.estimate(name, cut)[0]) for name in METRICS}
    assert found == {"fpr": 1 / 4, "fnr": 1 / 4, "recall": 3 / 4, "specificity": 3 / 4, "precision": 3 / 4,
                     "accuracy": 6 / 8, "selection_rate": 4 / 8}  # fmt: skip
    assert rows.estimate("cost", cut, (1.0, 10.0))[0] == (1 + 10) / 8


def test_the_limit_is_kept_and_estimates_alone_would_break_it():
    """200 judgements of one score with known rates: certified limits are rarely broken, estimated ones half the time."""
    truth = study.DATA["gaussian"]
    score = LogisticRegression()
    score.coef_, score.intercept_, score.classes_ = (
        np.array([[1.2, 0.8, 0.5, 0, 0]]),
        np.zeros(1),
        np.array([False, True]),
    )
    asked = read_asked("recall", {"fpr": 0.05}, None)
    broken, naive = 0, 0
    for seed in range(0, 400, 2):
        Z, y, _ = truth._replace(rows=1000).draw(np.random.default_rng(seed))
        rows = HeldOut(score.decision_function(Z), y, np.ones(1000), {})
        broken += truth.rates(score, walk(asked, asked.constraints, rows, 0.95, seed).cut)["fpr"] > 0.05
        chosen = by_estimate(asked, asked.constraints, rows)
        assert chosen is not None
        naive += truth.rates(score, chosen)["fpr"] > 0.05
    assert binom.sf(broken - 1, 200, 0.05) > 0.001
    assert naive > 60  # what the guard is for


def test_every_test_along_the_walk_counts():
    """A limit that fails right where a walk begins is not certified farther on, however good it looks there."""
    rng = np.random.default_rng(0)
    top = HeldOut(rng.uniform(2, 3, 400), np.zeros(400, bool), np.ones(400), {})  # the highest scores are all wrong
    rest = HeldOut(rng.uniform(0, 1, 40_000), rng.random(40_000) < 0.5, np.ones(40_000), {})
    joined = [np.concatenate([a, b]) for a, b in zip(top[:3], rest[:3], strict=True)]
    rows = HeldOut(joined[0], joined[1], joined[2], {})
    asked = read_asked("recall", {"fpr": 0.01}, None)
    found = walk(asked, asked.constraints, rows, 0.95, 0)
    assert found.cut > 2


# ---- cross-fitting, weights, what wraps and is wrapped -----------------------------------------------------------------


def test_only_what_is_proven_is_called_proven():
    crossed = fit(subject_to={"fpr": 0.05}, cv=3)
    assert crossed.certificate_.holds
    assert not crossed.certificate_.proven
    assert crossed.certificate_.grade == "asymptotic"
    assert "asymptotic, not proven" in crossed.certificate_.verdict
    assert len(crossed.held_out_.score) == 3000
    trained = LogisticRegression().fit(*data(seed=2))
    prefit = fit(trained, subject_to={"fpr": 0.05}, cv="prefit")
    assert prefit.certificate_.proven
    assert prefit.estimator_ is trained
    assert "must not have been trained on" in str(prefit.certificate_)


def test_rows_that_judge_are_not_trained_on():
    """Labels that the model can only know by heart: held-out rows do not believe it."""
    rng = np.random.default_rng(0)
    noise, y = rng.normal(size=(2000, 600)), rng.random(2000) < 0.5
    model = fit(LogisticRegression(C=1e6), noise, y, subject_to={"fpr": 0.05})
    assert model.estimator_.score(noise, y) > 0.7  # it knows its own rows
    assert model.certificate_.objective.value < 0.12
    with pytest.raises(ValueError, match="100 rows are to train and to judge; expected none in both"):
        fit(cv=[(np.arange(1100), np.arange(1000, 3000))])


def test_weights():
    """Weights that are the same for all rows of a class change nothing; others are judged by the rows' own values."""
    plain = fit(subject_to={"fpr": 0.1})
    by_class = fit(RidgeClassifier(), weight=np.where(Y, 3.0, 1.0), subject_to={"fpr": 0.1}, max_weight=(1, 3))
    assert plain.certificate_.holds
    assert by_class.held_out_.effective("fpr", np.array([0.0]))[1] == np.sum(~by_class.held_out_.positive)
    assert by_class.certificate_.proven
    uneven = fit(weight=np.random.default_rng(4).uniform(0.5, 2, 3000), subject_to={"fpr": 0.1}, max_weight=2.0)
    assert uneven.certificate_.holds
    assert uneven.certificate_.constraints[0].value < 0.1
    assert "No row to come is taken to weigh more than 2, as max_weight says." in str(uneven.certificate_)
    zero = np.where(np.arange(3000) < 2000, 1.0, 0.0)
    assert len(fit(weight=zero, max_weight=1).held_out_.score) == 1000
    with pytest.raises(
        ValueError, match=r"max_weight is 1, and sample_weight has a weight of 2\.\d+ in a negative row"
    ):
        fit(weight=np.where(Y, 1.0, 2.5), max_weight=1)
    with pytest.raises(TypeError, match=r"NearestCentroid\.fit takes none"):
        fit(NearestCentroid(), weight=zero)


@pytest.mark.parametrize("cv", [0.5, "prefit"])
def test_a_heavy_weight_that_no_judging_row_has_breaks_no_promise(cv):
    """4 in 1,000 negative rows weigh 60 and score high: they are often not among those that judge, or seen at all."""
    rng = np.random.default_rng(0)
    score = LogisticRegression()
    score.coef_, score.intercept_, score.classes_ = np.ones((1, 1)), np.zeros(1), np.array([False, True])
    asked: dict[str, Any] = {"estimator": score, "subject_to": {"fpr": 0.1}, "cv": cv}
    promised = 0
    for _ in range(20):
        y = rng.random(400) < 0.3
        heavy = ~y & (rng.random(400) < 0.004)
        x = np.where(heavy, 3 + 0.3 * rng.normal(size=400), rng.normal(size=400) + 1.2 * y)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CertificationWarning)
            model = tr.ConstrainedClassifier(**asked).fit(x[:, None], y, np.where(heavy, 60.0, 1.0))
            bounded = tr.ConstrainedClassifier(**asked, max_weight=60.0).fit(x[:, None], y, np.where(heavy, 60.0, 1.0))
        promised += model.certificate_.holds + bounded.certificate_.holds
        assert "60" in str(bounded.certificate_)
    assert promised == 0


def test_weights_without_their_largest_are_not_certified_and_the_sentence_says_what_to_give():
    weight = np.random.default_rng(4).uniform(0.5, 2, 3000)
    with pytest.warns(CertificationWarning, match=r"if none can weigh more, say so: max_weight=") as said:
        model = fit(weight=weight, subject_to={"fpr": 0.1})
    assert not model.certificate_.holds
    assert "the best under this condition" in str(said[0].message)
    argument = model.certificate_.missing[0].rpartition("max_weight=")[2].rstrip(".")
    given = tuple(float(w) for w in argument.strip("()").split(","))
    known = fit(weight=weight, subject_to={"fpr": 0.1}, max_weight=given)
    assert known.certificate_.holds
    assert known.threshold_ == model.threshold_
    # the training rows' weights count as well
    assert max(given) == weight.max() > model.held_out_.weight.max()


TIED = np.array([(i, j) for i in range(3) for j in range(3)], float)


@pytest.mark.parametrize(("law", "asked"), [(2, {"fpr": 0.2}), (19, {"fpr": 0.2}), (21, {"selection_rate": "<= 0.4"})])
def test_folds_promise_what_the_model_handed_out_keeps_where_rows_tie(law, asked):
    """Nine distinct rows: the refit has a lump of them on the other side of the threshold than the folds' models. Where only
    these judged, 7 of 12 and more were false."""
    draw = np.random.default_rng(law)
    mass, logit = draw.dirichlet(np.ones(9)), 1.2 * draw.normal(size=9) + 0.6 * (TIED.sum(axis=1) - 2)
    chance, false = 1 / (1 + np.exp(-logit)), 0
    (metric,) = asked
    for repetition in range(12):
        rng = np.random.default_rng([law, repetition])
        cell = rng.choice(9, 600, p=mass)
        y = rng.random(600) < chance[cell]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CertificationWarning)
            model = fit(X=TIED[cell], y=y, subject_to=asked, cv=5, random_state=repetition)
        d = model.predict(TIED)
        truth = {"fpr": (mass * (1 - chance)) @ d / (mass @ (1 - chance)), "selection_rate": mass @ d}
        false += model.certificate_.holds and not model.asked.constraints[0].holds(truth[metric])
    assert binom.sf(false - 1, 12, 0.05) > 0.01, false


def test_copies_of_rows_are_one_draw_each():
    """Negatives three times and positives five, as a join leaves them: fpr <= 0.1 was false in a sixth of the samples."""
    rng = np.random.default_rng(0)
    score = LogisticRegression()
    score.coef_, score.intercept_, score.classes_ = np.ones((1, 1)), np.zeros(1), np.array([False, True])
    false = naive = 0
    for _ in range(100):
        y = rng.random(200) < 0.3
        x = rng.normal(size=200) + 1.2 * y
        rows = np.repeat(np.arange(200), np.where(y, 5, 3))
        model = fit(score, x[rows, None], y[rows], subject_to={"fpr": 0.1}, cv="prefit")
        false += norm.sf(model.threshold_) > 0.1
        naive += norm.sf(np.sort(x[rows][~y[rows]])[umbrella_order(int(np.sum(~y[rows])), 0.1, 0.95) - 1]) > 0.1  # pyright: ignore
        assert f"Copies: {len(rows) - 200:,} of {len(rows):,} rows" in str(model.certificate_)
        assert f"Judged by 200 rows, {y.sum()} of them positive" in str(model.certificate_)
    assert false <= 10 < naive


@pytest.mark.parametrize("cv", [0.5, 5])
def test_copies_of_a_row_are_on_one_side_of_a_split(cv):
    """A model that knows its rows by heart would judge itself by their copies."""
    rng = np.random.default_rng(1)
    rows = np.repeat(np.arange(400), rng.integers(1, 5, 400))
    noise, y = rng.normal(size=(400, 3)), rng.random(400) < 0.5
    table = pd.DataFrame(noise[rows], columns=["a", "b", "c"]).assign(town=np.where(noise[rows, 0] > 0, "N", "S"))
    by_heart = make_pipeline(FunctionTransformer(lambda t: t[["a", "b", "c"]]), KNeighborsClassifier(1))
    model = fit(by_heart, table, y[rows], subject_to={"accuracy": 0.2}, cv=cv)
    assert model.certificate_.constraints[0].value < 0.7
    halves = [(np.arange(0, len(rows), 2), np.arange(1, len(rows), 2))]
    with pytest.warns(
        CertificationWarning, match=r"rows that judged are copies of rows that their model was trained on"
    ):
        assert not fit(by_heart, table, y[rows], subject_to={"accuracy": 0.2}, cv=halves).certificate_.holds


def test_rows_of_a_discrete_table_are_draws():
    rng = np.random.default_rng(0)
    cells = rng.integers(0, 4, size=(2000, 3)).astype(float)
    model = fit(X=cells, y=rng.random(2000) < cells.sum(axis=1) / 12, subject_to={"fpr": 0.2})
    assert "Copies" not in str(model.certificate_)
    assert len(model.held_out_.score) == 1000


def test_a_weighted_limit_is_judged_by_the_weighted_rate():
    """Heavy rows are false positives ten times as often; counting rows alike would miss it."""
    rng = np.random.default_rng(0)
    heavy = rng.random(6000) < 0.1
    score = rng.uniform(size=6000) + heavy * 0.5
    rows = HeldOut(score, np.zeros(6000, bool), np.where(heavy, 9.0, 1.0), {}, (9.0, 9.0))
    limit, cut = [Constraint("fpr", 0.15, True)], np.array([0.98])
    true = (0.9 * 0.02 + 0.9 * 0.52) / 1.8
    assert abs(rows.estimate("fpr", cut)[0] - true) < 0.03
    assert not passes(limit, rows, cut, 0.95, None)[0]
    assert passes(limit, rows._replace(weight=np.ones(6000), most=(1.0, 1.0)), cut, 0.95, None)[0]
    assert passes([Constraint("fpr", 0.4, True)], rows, cut, 0.95, None)[0]


def test_pipelines_searches_and_sparse_features():
    inner = GridSearchCV(
        make_pipeline(StandardScaler(with_mean=False), LogisticRegression()), {"logisticregression__C": [0.1, 1]}, cv=2
    )
    model = fit(inner, csr_array(X), subject_to={"fpr": 0.05})
    assert model.predict(csr_array(X)).shape == (3000,)
    outer = GridSearchCV(
        tr.ConstrainedClassifier(GaussianNB(), subject_to={"fpr": 0.05}), {"confidence": [0.8, 0.95]}, cv=2
    )
    assert outer.fit(X, Y).best_params_ == {"confidence": 0.8}
    copy: Any = clone(model)
    assert copy.subject_to == {"fpr": 0.05}
    assert not hasattr(copy, "certificate_")
    piped = make_pipeline(StandardScaler(), tr.ConstrainedClassifier(GaussianNB(), subject_to={"fpr": 0.05})).fit(X, Y)
    assert piped.predict_proba(X).shape == (3000, 2)
    assert not hasattr(tr.ConstrainedClassifier(RidgeClassifier()), "predict_proba")


@pytest.mark.parametrize("looked_for", ["fraud", "honest"])
def test_labels_of_text(looked_for):
    words = np.where(Y, "fraud", "honest")
    model = fit(y=words, subject_to={"fpr": 0.1}, positive_label=looked_for)
    selected = model.predict(X) == looked_for
    assert np.mean(selected[words != looked_for]) < 0.1 < 0.5 < np.mean(selected[words == looked_for])
    np.testing.assert_array_equal(model.classes_[(model.decision_function(X) > 0).astype(int)], model.predict(X))
    with pytest.raises(ValueError, match="positive_label is 'x', and y has the labels"):
        fit(y=words, positive_label="x")


# ---- where nothing can be certified ------------------------------------------------------------------------------------


def test_too_few_rows_are_said_with_how_many_it_takes():
    with pytest.warns(
        CertificationWarning, match=r"fpr <= 0\.00285 is the best .* takes about 2,995 .* 6,000 in the data"
    ) as w:
        model = fit(subject_to={"fpr": 0.001})
    assert "best by estimates, without any confidence" in str(w[0].message)
    assert not model.certificate_.holds
    assert model.predict(X).any()  # nobody is rejected in silence
    assert "Not certified" in model.certificate_.verdict
    with pytest.raises(CertificationError, match=r"Not certified: fpr <= 0\.001"):
        fit(subject_to={"fpr": 0.001}, uncertified="raise")


def test_rows_needed_are_enough_and_fewer_are_not():
    for value, limit in ((0.0, 0.003), (0.02, 0.03)):
        n = rows_needed(Constraint("fpr", limit, True), value, 0.95)
        assert n is not None
        assert binom.cdf(np.ceil(value * n), n, limit) <= 0.05
        assert not all(binom.cdf(np.ceil(value * m), m, limit) <= 0.05 for m in (n - 1, n - 2))
    assert rows_needed(Constraint("recall", 0.9, False), 1.0, 0.95) == 29


def test_limits_that_no_threshold_keeps_are_said():
    with pytest.warns(
        CertificationWarning, match=r"No threshold .* fpr <= 0\.01 and recall >= 0\.9, however many rows"
    ):
        fit(subject_to={"fpr": 0.01, "recall": 0.9})
    with pytest.raises(ValueError, match="age is continuous and has no groups, in which a limit could hold"):
        fit(subject_to={"fpr by group": 0.02}, group=pd.Series(X[:, 0], name="age"))
    few = np.where(np.arange(3000) < 2950, "M", "F")
    with pytest.warns(
        CertificationWarning, match=r"negative rows with sensitive_features = F .* best that can be shown"
    ):
        fit(subject_to={"fpr by group": 0.02}, group=few)


BAD = [
    ({"subject_to": {}}, TypeError, "expected a dict of limits"),
    ({"subject_to": {"fprr": 0.1}}, ValueError, "names the metric 'fprr'; expected one of fpr, fnr"),
    ({"subject_to": {"fpr": 1.5}}, ValueError, "expected a share between 0 and 1"),
    ({"subject_to": {"fpr": "< 0.1"}}, ValueError, "expected a number, or text such as '<= 0.1'"),
    ({"subject_to": {"selection_rate": 0.1}}, ValueError, "expected a direction with it: '<= 0.1' or '>= 0.1'"),
    ({"subject_to": {"cost": 0.1}}, ValueError, "costs is None; expected what a false positive"),
    ({"subject_to": {"cost": 0.1}, "costs": {"fp": 1}}, ValueError, "costs is {'fp': 1}; expected"),
    ({"subject_to": {"fpr by group": 0.1}}, ValueError, r"needs to know the groups: fit\(X, y, sensitive_features"),
    ({"maximize": "fpr"}, ValueError, "expected '-fpr' to minimise it"),
    ({"maximize": "auc"}, ValueError, "names the metric 'auc'"),
    ({"confidence": 95}, ValueError, "confidence is 95; expected a number between 0 and 1"),
    ({"cv": 1}, ValueError, "cv is 1; expected a share"),
    ({"cv": "held-out"}, ValueError, "cv is 'held-out'; expected a share"),
    ({"uncertified": "ignore"}, ValueError, "expected 'warn' or 'raise'"),
]


@pytest.mark.parametrize(("asked", "error", "sentence"), BAD)
def test_what_is_refused(asked, error, sentence):
    with pytest.raises(error, match=sentence):
        fit(**asked)


# ---- the linear score, files and pictures ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("metric", "at_most", "limit"),
    [
        ("fpr", True, 0.1),
        ("recall", False, 0.7),
        ("precision", False, 0.8),
        ("selection_rate", True, 0.3),
        ("cost", True, 0.4),
    ],
)
def test_the_bounds_that_are_trained_on_are_bounds(metric, at_most, limit):
    """Where the convex bound holds, the metric does; and for hard scores, far from zero, they are one."""
    rng = np.random.default_rng(0)
    y, w = rng.random(500) < 0.4, np.ones(500)
    u, v, level = coefficients(metric, at_most, limit, y, w, (1.0, 2.0))
    for scale in (0.1, 1.0, 1e3):
        z = scale * (rng.normal(size=500) + y - 1)
        bound = float(np.mean(u * np.logaddexp(0, z) + v * np.logaddexp(0, -z)) / np.log(2))
        count = float(np.mean(u * (z > 0) + v * (z <= 0)))
        value = HeldOut(z, y, w, {}).estimate(metric, np.array([0.0]), (1.0, 2.0))[0]
        assert bound >= count - 1e-12
        assert (count <= level + 1e-12) == (value <= limit if at_most else value >= limit)


def test_the_linear_score_is_trained_saved_and_drawn(tmp_path):
    Z, y = data(n=2000, seed=4)
    model = tr.ConstrainedClassifier(subject_to={"fpr": 0.05}).fit(pd.DataFrame(Z, columns=["a", "b", "c"]), y)
    assert model.estimator_.bounded_
    assert np.mean(model.estimator_.decision_function(pd.DataFrame(Z, columns=["a", "b", "c"]))[~y] > 0) <= 0.05
    assert model.certificate_.holds
    plain = fit(X=Z, y=y, subject_to={"fpr": 0.05})
    assert model.certificate_.objective.value > plain.certificate_.objective.value - 0.03
    path = tmp_path / "model.safetensors"
    model.save(path)
    back = tr.ConstrainedClassifier.load(path)
    frame = pd.DataFrame(Z, columns=["a", "b", "c"])
    np.testing.assert_array_equal(back.decision_function(frame), model.decision_function(frame))
    assert back.certificate_ == model.certificate_
    assert len(back.plot(str(tmp_path / "roc.png")).axes) == 2
    assert (tmp_path / "roc.png").stat().st_size > 10_000
    path.write_bytes(path.read_bytes()[:-8] + b"12345678")
    with pytest.raises(FileError, match="hash does not match"):
        tr.ConstrainedClassifier.load(path)
    with pytest.raises(FileError, match="wraps LogisticRegression, and only estimator=None"):
        plain.save(path)


# ---- tables and the command line ---------------------------------------------------------------------------------------


def test_the_command_line(tmp_path):
    Z, y = data(n=2000, seed=4)
    table = pd.DataFrame(Z, columns=["a", "b", "c"]).assign(
        town=np.where(Z[:, 0] > 0, "N", "S"), fraud=np.where(y, "yes", "no")
    )
    table.to_csv(tmp_path / "t.csv", index=False)
    out = tmp_path / "model"
    asked = ("classify", tmp_path / "t.csv", "--label", "fraud")
    said = call(*asked, "--at-most", "fpr=0.05", "--drop", "town", "--out", out, "--json")
    assert said.code == 0, said.err
    made = json.loads(said.out)
    assert "With 95 % confidence: fpr <= 0.05." in made["says"][1]
    assert made["certificate"]["holds"]
    assert made["certificate"]["constraints"][0]["name"] == "fpr"
    assert sorted(path.name for path in out.iterdir()) == [
        "constrained.json",
        "constrained.safetensors",
        "report.txt",
        "roc.png",
    ]
    assert json.loads((out / "constrained.json").read_text())["labels"] == ["no", "yes"]
    predicted = call("predict", out, tmp_path / "t.csv", "--out", tmp_path / "p.csv")
    assert predicted.code == 0, predicted.err
    assert "precision" in predicted.out
    rows = pd.read_csv(tmp_path / "p.csv")
    assert ((rows["score"] > 0) == (rows["prediction"] == "yes")).all()
    assert 0 < np.mean(rows["prediction"][~y] == "yes") < 0.06
    assert "holds a model; give another folder" in call(*asked, "--at-most", "fpr=0.05", "--out", out).err
    few = call(*asked, "--at-most", "fpr=0.001", "--out", tmp_path / "no")
    assert "is the best that can be shown" in few.err
    assert not (tmp_path / "no").exists()
    for words, sentence in (
        ((), "Neither --at-most nor --at-least was given"),
        (("--at-most", "fpr"), "--at-most is 'fpr'; expected a name and a value"),
        (("--at-most", "far=0.1"), "names the metric 'far'"),
        (("--at-most", "fpr=0.1", "--group", "x"), "has no column 'x'"),
    ):
        refused = call(*asked, "--out", tmp_path / "no", *words)
        assert refused.code in (1, 2)
        assert sentence in refused.err
