"""The path of covariance thresholds beside minimize, solved one by one."""

import numpy as np
import pytest

import tightrope as tr
from tightrope.datasets import GroupedGaussians
from tightrope.learn.fair import by_covariance as module
from tightrope.learn.fair.by_covariance import covariance_path, path_of_thresholds
from tightrope.learn.fair.rates import RateProblem
from tightrope.learn.fair.task import Task, read_task
from tightrope.learn.fair.training import build, covariances, train


def task_of(groups: int, n: int = 1500, seed: int = 0, weighted: bool = False, **options) -> Task:
    X, y, s, _ = GroupedGaussians(groups).draw(n, seed)
    weight = np.random.default_rng(seed).uniform(0.2, 2, n) if weighted else None
    return read_task(tr.FairLogisticRegression(p_rule=0.8, **options), X, y, s, weight)


def path_of(task: Task, thresholds: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    models = covariance_path(task, thresholds, seed)
    return np.stack([model.coef for model in models]), np.array([model.intercept for model in models])


def exact(task: Task, threshold: float):
    return train(build(task).at(threshold), method="auto", passes=None, tol=1e-10, seed=0, record=0)


@pytest.mark.parametrize(
    ("groups", "options"),
    [
        (2, {}),
        (2, {"weighted": True, "l2": 0.01, "fit_intercept": False}),
        (4, {"notion": "equal_opportunity"}),
        (4, {"notion": "equalized_odds", "weighted": True}),
        (8, {"l2": 0.1}),
    ],
)
def test_every_point_is_the_solution_at_its_threshold(groups, options, monkeypatch):
    monkeypatch.setattr(module, "_one_by_one", lambda *_: pytest.fail("Newton's method was not enough"))
    task = task_of(groups, **options)
    thresholds = path_of_thresholds(build(task), 0)
    coef, intercept = path_of(task, thresholds, 0)
    size = np.abs([covariances(one, task) for one in coef]).max(axis=1)
    assert np.all(size <= thresholds * (1 + 1e-5))
    for k in (0, 9, len(thresholds) - 1):
        right = exact(task, thresholds[k])
        np.testing.assert_allclose(coef[k], right.coef, atol=2e-4 * np.abs(right.coef).max())
        np.testing.assert_allclose(intercept[k], right.intercept, atol=2e-4)


def test_a_start_that_is_too_good_to_go_on_from_is_given_up(monkeypatch):
    monkeypatch.setattr(module, "_one_by_one", lambda *_: pytest.fail("Newton's method was not enough"))
    starts, solve = [], RateProblem.solve
    monkeypatch.setattr(RateProblem, "solve", lambda self, *given: starts.append(given[0]) or solve(self, *given))
    task = task_of(8, 2500, seed=115)  # the line through the last two hits the smallest threshold to 3e-7
    thresholds = path_of_thresholds(build(task), 0)
    coef, _ = path_of(task, thresholds, 0)
    assert len(starts) > len(thresholds)
    assert np.all(np.abs([covariances(one, task) for one in coef]).max(axis=1) <= thresholds * (1 + 1e-5))


def test_many_columns_are_solved_without_new_curvature(monkeypatch):
    monkeypatch.setattr(module, "_one_by_one", lambda *_: pytest.fail("Newton's method was not enough"))
    monkeypatch.setattr(RateProblem, "_root", lambda *_: pytest.fail("the curvature was computed"))
    rng = np.random.default_rng(2)
    s = rng.integers(0, 3, 1000)
    X = rng.normal(size=(1000, 101)) + 0.3 * np.eye(3)[s] @ rng.normal(size=(3, 101))
    y = X[:, :9].sum(axis=1) + s + 3 * rng.logistic(size=1000) > 1
    task = read_task(tr.FairLogisticRegression(p_rule=0.8, l2=0.01, sensitive_kind="categorical"), X, y, s, None)
    thresholds = path_of_thresholds(build(task), 0)
    coef, intercept = path_of(task, thresholds, 0)
    for k in (4, 20):
        right = exact(task, thresholds[k])
        score = task.X @ right.coef + right.intercept
        off = task.X @ coef[k] + intercept[k] - score
        assert np.sqrt(np.mean(off**2)) < 0.005 * np.sqrt(np.mean(score**2))


def test_where_the_ball_binds_every_point_is_trained_within_it(monkeypatch):
    calls, one_by_one = [], module._one_by_one
    monkeypatch.setattr(module, "_one_by_one", lambda *given: calls.append(1) or one_by_one(*given))
    task = task_of(2, 400, radius=0.5)
    thresholds = path_of_thresholds(build(task), 0)[::8]
    coef, intercept = path_of(task, thresholds, 0)
    assert calls
    for k, threshold in enumerate(thresholds):
        right = exact(task, threshold)
        np.testing.assert_allclose([*coef[k], intercept[k]], [*right.coef, right.intercept], atol=1e-3)


def test_classes_that_can_be_told_apart_are_no_exception():
    rng = np.random.default_rng(1)
    X, s = rng.normal(size=(200, 2)), rng.integers(0, 2, 200)
    task = read_task(tr.FairLogisticRegression(p_rule=0.8), X, X[:, 0] > 0, s, None)
    coef, intercept = path_of(task, path_of_thresholds(build(task), 0)[::12], 0)
    assert np.all(np.isfinite(coef))
    assert np.all(np.isfinite(intercept))
