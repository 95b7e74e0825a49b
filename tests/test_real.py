"""The study of real problems: what its references, verdicts and counts are worth. Only problems to develop on are solved."""

import dataclasses
import sys

import numpy as np
import pytest

import tightrope as tr
from studies.real import __main__ as command
from studies.real import report
from studies.real.task import entries, half_of
from studies.real.truth import Truth, judged, reference

FAST = ["ridge-with-a-budget", "lasso-ball", "one-row-with-a-rule"]  # smooth, their tables are scikit-learn's


@pytest.fixture(scope="module", params=FAST)
def solved(request):
    """A problem, its means, its reference, and a result of `minimize` on NumPy arrays."""
    task = entries()[request.param].task("float64")
    truth = Truth(task)
    return task, truth, reference(task, truth), tr.minimize(task.problem, task.rows)


def test_a_hash_and_nobody_else_decides_which_half_a_problem_is_in():
    found = entries()
    # problems load the libraries of their tables when they are made
    assert not {"skfolio", "statsmodels"} & set(sys.modules)
    assert len(found) >= 60
    later = entries("later")
    assert {name: e.half for name, e in found.items()} == {n: "later" if n in later else half_of(n) for n in found}
    assert {e.family for e in later.values()} == {"later"}
    develop, unseen = entries("develop"), entries("unseen")
    assert min(len(develop), len(unseen)) >= 30
    assert not set(develop) & set(unseen)
    assert all(e.about.endswith(".") for e in found.values())
    assert {name: entries("develop")[name].needs for name in FAST} == dict.fromkeys(FAST, "sklearn")


def test_stored_rows_and_the_reference_have_the_same_numbers():
    entry = entries()["lasso-ball"]
    double, single = entry.task("float64").rows, entry.task("float32").rows
    assert np.array_equal(single["x"], single["x"].astype(np.float32))
    assert not np.array_equal(double["x"], single["x"])
    np.testing.assert_allclose(single["x"], double["x"], rtol=1e-6, atol=1e-5)


def test_two_solvers_agree_on_a_reference(solved):
    _, truth, found, _ = solved
    assert found.sound == ""
    assert found.second != "nobody"
    assert found.scale == max(abs(found.optimum), found.start - found.optimum)
    assert truth.values(np.array(found.x))[0] == pytest.approx(found.optimum)


def test_minimize_is_right_and_says_so(solved):
    task, truth, found, result = solved
    verdict = judged(truth, found, result, task.room)
    assert abs(verdict["gap"]) <= 1e-4
    assert not verdict["violated"]
    assert not verdict["false"]


def test_what_is_false_or_violated_is_found_out(solved):
    task, truth, found, result = solved
    assert result.lower is not None
    high = found.optimum + 1e-3 * found.scale
    assert judged(truth, found, dataclasses.replace(result, lower=high), task.room)["false"]
    outside = np.asarray(found.x) * 3 + 30.0
    assert judged(truth, found, dataclasses.replace(result, x=outside), task.room)["violated"]
    if truth.N:
        start = dataclasses.replace(result, x=truth.point(truth.start), lower=None)
        violated = truth.values(truth.start)[1].max() > 0
        assert judged(truth, found, start, task.room)["violated"] == violated


def test_the_bars_can_be_held_and_missed():
    one = {"name": "a", "half": "develop", "storage": "float64", "status": "SOLVED", "gap": 1e-6, "violation": 0.0}
    one |= {"violated": False, "false": False, "reference": "", "n": 3, "d": 2, "N": 1, "first": 1.0, "second": 0.1}
    one |= {"cvxpy right": True, "cvxpy second": 0.05, "cvxpy again": 0.04, "slsqp right": False, "slsqp second": 0.001}
    assert report.peer(one) == ("cvxpy", 0.05)
    assert report.ratio(one) == pytest.approx(2.0)
    assert report.failures([one]) == []
    for change in ({"status": "STALLED"}, {"gap": 2e-4}, {"violated": True}, {"false": True}, {"second": 1.0}):
        assert report.failures([one | change]) != []
    text = report.page([one, one | {"storage": "float32", "status": "PRECISION"}], {"a": "What it is."})
    assert (
        "| **a**: What it is. | 3 | 2 | 1 | SOLVED | 1e-06 | 0 | 1.00 | 0.100 | 0.050 (cvxpy) | 2.0 | PRECISION |"
        in text
    )
    assert "0 of 1 | **no**" in text


def test_a_problem_of_the_other_half_is_not_measured_unasked(tmp_path, monkeypatch):
    name = next(iter(entries("unseen")))
    monkeypatch.setattr(sys, "argv", ["real", "--only", name, "--out", str(tmp_path)])
    command.main()
    assert list(tmp_path.rglob("*.json")) == []
