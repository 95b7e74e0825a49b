"""What users give that cannot be read is refused in a sentence, and nothing that is masked is taken for a value."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from core_cases import PROBLEM
from scipy import sparse
from sklearn.linear_model import LogisticRegression

import tightrope as tr
from tightrope.given import unmasked
from tightrope.learn.sentences import in_a_sentence
from tightrope.problems import structured_completion

pytestmark = pytest.mark.filterwarnings("ignore::tightrope.learn.constrained.certificate.CertificationWarning")
N = 60
CHANCE = np.random.default_rng(0)
Y = np.arange(N) % 2
X = CHANCE.normal(size=(N, 3)) + Y[:, None]
S = np.array(list("AB"))[CHANCE.integers(0, 2, N)]
W = CHANCE.random(N) + 0.1
MASK = np.arange(N) == 3


def fair() -> Any:
    return tr.FairLogisticRegression(p_rule=0.1, folds=2, random_state=0)


def limited() -> Any:
    return tr.ConstrainedClassifier(LogisticRegression(), subject_to={"fpr by group": 0.5}, max_weight=9.0)


def fit(make, **changed: Any) -> Any:
    return make().fit(**{"X": X, "y": Y, "sensitive_features": S, "sample_weight": W} | changed)


def with_one(base: np.ndarray, value: Any) -> np.ndarray:
    """The same as objects, one of which is another."""
    made = np.array(base, dtype=object)
    made[3 if made.ndim == 1 else (3, 1)] = value
    return made


BOTH = pytest.mark.parametrize("make", [fair, limited])


@BOTH
@pytest.mark.parametrize("name", ["X", "y", "sensitive_features", "sample_weight"])
def test_masked_values_are_refused(make, name):
    base = {"X": X, "y": Y, "sensitive_features": Y, "sample_weight": W}[name]
    mask = MASK if base.ndim == 1 else np.outer(MASK, [True, False, False])
    with pytest.raises(ValueError, match=f"^{name} is a masked array with 1 of .* masked; expected values everywhere"):
        fit(make, **{name: np.ma.array(base, mask=mask)})
    fit(make, **{name: np.ma.array(base)})  # nothing is masked


@BOTH
@pytest.mark.parametrize("use", ["predict", "decision_function"])
def test_masked_values_are_refused_by_what_was_fitted(make, use):
    model = fit(make)
    with pytest.raises(ValueError, match="X is a masked array"):
        getattr(model, use)(np.ma.array(X, mask=X > 2))


def test_masked_values_are_refused_by_a_run_that_is_fed():
    run = tr.Online(PROBLEM, tr.CSOA(0.8, 0.01, 0.3, anytime=True))
    with pytest.raises(ValueError, match="Online: a part of the batch is a masked array with 1 of 6 values masked"):
        run.update(np.ma.array(np.ones((2, 3)), mask=[[True, False, False], [False] * 3]))
    assert run.step == 0
    run.update(np.ma.array(np.ones((2, 3))))
    assert run.step == 2


def test_masked_values_are_refused_by_runs_and_certificates():
    problem = tr.Problem(lambda x, theta: ((x - theta) ** 2).sum(), domain=tr.L2Ball(1.0, shape=2))
    rows = np.ma.array(np.ones((6, 2)), mask=False)
    tr.minimize(problem, rows, progress=False)  # nothing is masked
    rows[3, 1] = np.ma.masked
    said = "is a masked array with 1 of 12 values masked; expected values everywhere"
    for data in (rows, {"rows": rows}, tr.Stream([rows])):
        with pytest.raises(ValueError, match=said):
            tr.minimize(problem, data, steps=3, progress=False)
    with pytest.raises(ValueError, match=said):
        tr.certify(problem, np.zeros(2), rows)
    with pytest.raises(ValueError, match="point is a masked array with values masked"):
        tr.certify(problem, np.ma.array([0.0, 0.0], mask=[False, True]), np.ones((6, 2)))


def test_what_is_masked_in_a_matrix_to_complete_was_not_observed():
    M = np.outer([1.0, 2.0, 3.0, 4.0], [1.0, 2.0, 3.0])
    hidden = np.eye(4, 3, dtype=bool)
    model = tr.StructuredMatrixCompletion(20.0, 100.0, steps=8)
    holes = model.fit(np.where(hidden, np.nan, M)).transform()
    np.testing.assert_array_equal(model.fit(np.ma.array(M, mask=hidden)).transform(), holes)
    with pytest.raises(ValueError, match="masked array"):
        model.fit((np.ma.array([0, 1], mask=[False, True]), [0, 1], [1.0, 2.0]))
    with pytest.raises(ValueError, match="masked array"):
        structured_completion(np.ma.array(M, mask=hidden), 1.0, 1.0)


ODD = [pd.NA, None, pd.NaT, [1], {1}, {}, object(), 10**400, np.zeros(2)]
NAMES = [type(value).__name__ for value in ODD]  # an object's own name has its address


@BOTH
@pytest.mark.parametrize("odd", ODD, ids=NAMES)
@pytest.mark.parametrize("name", ["X", "y", "sensitive_features", "sample_weight"])
def test_odd_values_are_refused_in_a_sentence(make, odd, name):
    """By this library, or by scikit-learn in its own words."""
    base = {"X": X, "y": Y, "sensitive_features": S, "sample_weight": W}[name]
    for given in (
        with_one(base, odd),
        pd.DataFrame(with_one(X, odd)) if name == "X" else pd.Series(with_one(base, odd)),
    ):
        if make is limited and name == "X":
            continue  # features are the estimator's to refuse
        with pytest.raises((ValueError, TypeError)) as refused:
            fit(make, **{name: given})
        assert Path(refused.traceback[-1].path).parent.name != "numpy"
        assert "sklearn" in str(refused.traceback[-1].path) or str(refused.value).rstrip().endswith((".", "?"))
        assert not isinstance(refused.value, OverflowError)


def test_labels_that_a_report_cannot_read_are_refused_in_a_sentence():
    model = fit(fair)
    for odd in (None, pd.NA, [1], {1}, 1j, "x"):
        with pytest.raises((ValueError, TypeError), match=r"^y "):
            model.report(X, with_one(Y, odd), S)


def test_a_table_too_large_to_be_dense_is_refused_before_it_is_made():
    model = tr.ConstrainedClassifier(None, subject_to={"fpr": 0.5})
    with pytest.raises(ValueError, match=r"X is sparse with 30 rows .* expected what this machine has"):
        model.fit(sparse.csr_matrix((N, 2**40)), Y)


def test_features_whose_squares_overflow_are_refused():
    with pytest.raises(
        ValueError, match=r"X has values up to 1\.0e\+308, whose squares overflow; expected smaller units"
    ):
        fit(fair, X=np.where(MASK[:, None], 1e308, X))


def test_sentences_of_our_own_and_their_kinds_are_left_alone():
    def refused(error: Exception) -> Any:
        with pytest.raises(type(error)) as found, in_a_sentence("X", "numbers"):
            unmasked("X", np.ma.array([1.0], mask=[True])) if error.args == ("",) else float("x")
        return str(found.value)

    assert refused(ValueError("")).startswith("X is a masked array")
    with (
        pytest.raises(TypeError, match=r"^X cannot be read \(float\(\) .*\); expected numbers\.$"),
        in_a_sentence("X", "numbers"),
    ):
        np.asarray([{1}], float)
    with pytest.raises(ValueError, match=r"^X cannot be read \(int too large"), in_a_sentence("X", "numbers"):
        np.asarray([10**400], float)
