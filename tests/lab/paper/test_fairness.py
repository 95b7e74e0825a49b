"""The fairness experiment's parts against scikit-learn, cvxpy and formulas by hand."""

import cvxpy as cp
import numpy as np
import pytest
from sklearn.metrics import accuracy_score, log_loss

import tightrope as tr
from tightrope.datasets import rotated_gaussians
from tightrope.lab.paper import fairness
from tightrope.lab.paper.fairness import PAPER, Experiment, People, batch_optimum, follow, measure
from tightrope.problem.full_data import full_values

ROWS, WIDTH = 300, 14  # as in the tiny runs of the figures, so that they share compiled programs


@pytest.fixture(scope="module")
def task():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=(ROWS, WIDTH - 1)), np.ones(ROWS)])
    s = (X[:, 0] + rng.normal(size=ROWS) > 0).astype(float)
    y = np.where(X[:, 0] - X[:, 1] + rng.normal(size=ROWS) > 0, 1.0, -1.0)
    people = People(X, y, s)
    return Experiment(people, people, people, 0.05, batch_optimum(people, 0.05))


def test_the_batch_optimum_is_that_of_cvxpy():
    people = People(*rotated_gaussians(n=300, seed=1)[:3])
    x = cp.Variable(3)
    v = (people.s - people.s.mean()) @ people.X / 300
    loss = cp.sum(cp.logistic(cp.multiply(-people.y, people.X @ x))) / 300
    sides = [v @ x <= 0.1, -v @ x <= 0.1]
    model = cp.Problem(cp.Minimize(loss), [*sides, cp.norm2(x) <= 10])
    model.solve(solver=cp.CLARABEL)
    got = batch_optimum(people, 0.1)
    assert got.objective == pytest.approx(float(np.asarray(model.value)), abs=1e-7)
    assert got.x == pytest.approx(np.asarray(x.value), abs=1e-3)
    assert got.multiplier == pytest.approx(sum(float(np.asarray(side.dual_value)) for side in sides), abs=1e-4)
    assert batch_optimum(people, np.inf).multiplier == 0


def test_measures_are_those_of_scikit_learn(task):
    x, people = np.random.default_rng(1).normal(size=WIDTH), task.train
    score = people.X @ x
    got = measure(x, task)
    assert got["objective"] == pytest.approx(log_loss(people.y, 1 / (1 + np.exp(-score))))
    assert got["accuracy"] == pytest.approx(accuracy_score(people.y, np.where(score >= 0, 1.0, -1.0)))
    covariance = np.cov(people.s, score, bias=True)[0, 1]
    assert got["excess"] == pytest.approx(abs(covariance) - 0.05)
    assert got["violation"] == max(got["excess"], 0.0)
    rates = [np.mean(score[people.s == k] >= 0) for k in (0, 1)]
    assert got["p"] == pytest.approx(min(rates) / max(rates))
    assert measure(task.optimum.x, task)["error"] == pytest.approx(0, abs=1e-9)


def test_the_problem_is_the_papers_and_is_not_refused(task):
    problem, data = fairness.paper_problem(task.train, 0.05)
    x = np.random.default_rng(2).normal(size=WIDTH)
    f, h = full_values(problem, x, data.data)
    assert float(f) == pytest.approx(measure(x, task)["objective"])
    covariance = np.cov(task.train.s, task.train.X @ x, bias=True)[0, 1]
    assert np.asarray(h) == pytest.approx([covariance - 0.05, -covariance - 0.05])
    assert data.replace  # independent samples
    constraint = tr.two_sided(lambda x, theta, params: fairness.both_sides(x, theta, params)[0])
    refused = tr.Problem(problem.objective, constraint, problem.domain, levels=0.05, params=problem.params)
    with pytest.raises(ValueError, match="no feasible point"):  # what the library says of the paper's upsilon0
        tr.minimize(refused, data, method=PAPER["CSOA"], steps=100)


def test_a_run_is_followed_at_both_points(task):
    table = follow(task, PAPER["CSOA"], 300, seed=3, records=6)
    ends = table[table.step == 300].set_index("point")
    problem, data = fairness.paper_problem(task.train, 0.05)
    run = tr.minimize(problem, data, method=PAPER["CSOA"], steps=300, seed=3, record=0)
    assert ends.objective["average"] == pytest.approx(measure(np.asarray(run.average), task)["objective"])
    assert ends.objective["last"] == pytest.approx(measure(np.asarray(run.last), task)["objective"])
    assert table.step.min() >= 3
    assert len(table) >= 2 * 6


def test_a_run_that_is_stopped_is_not_taken_for_whole(task, monkeypatch):
    def interrupted(x, task):
        raise KeyboardInterrupt

    monkeypatch.setattr(fairness, "measure", interrupted)
    with pytest.raises(KeyboardInterrupt):
        follow(task, PAPER["CSOA"], 300, seed=0, records=6)

    def broken(x, task):
        raise ValueError("no such point")

    monkeypatch.setattr(fairness, "measure", broken)
    with pytest.raises(RuntimeError, match=r"A run of CSOA with seed 0 failed: .*no such point"):
        follow(task, PAPER["CSOA"], 300, seed=0, records=6)
