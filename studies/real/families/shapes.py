"""Shapes that real tables bring along: one row, repeated rows, constraints that repeat, oppose or leave a single point."""

import dataclasses

import jax.numpy as jnp
import numpy as np

import tightrope as tr
from studies.real import linear as lin
from studies.real import tables
from studies.real.linear import Rule, linear
from studies.real.task import Kept, Programme, Task, real
from studies.real.written import cp


@real("shapes")
def one_row(kept: Kept) -> Task:
    """Diabetes: the first patient alone, least squares with the slopes in an L2 ball that is too small to fit."""
    X, y = tables.diabetes()
    X, y = kept(X[:1]), kept(y[:1])
    domain = tr.L2Ball(0.1, shape=10)
    task = linear(X, y, lin.SQUARES, domain)
    return dataclasses.replace(task, programme=None, solution=lambda: 0.1 * X[0] / np.linalg.norm(X))


@real("shapes")
def one_row_with_a_rule(kept: Kept) -> Task:
    """Breast cancer: the first row alone, logistic, its score at most 3 as a constraint."""
    X = kept(tables.sklearn_table("breast_cancer")[0][:1])
    rule = Rule(lambda x, row: jnp.dot(row["x"], x)[None], 3.0, X)
    return linear(X, kept(np.ones(1)), lin.LOGISTIC, tr.Box(-1.0, 1.0, shape=30), rule=rule)


@real("shapes")
def a_single_point(kept: Kept) -> Task:
    """Diabetes: two slopes held by four inequalities at one point each, the box does it for the third: one point is left."""
    X, y = tables.diabetes()
    X, y = kept(X[:, [2, 3, 8]]), kept(y)
    at, A = np.array([3.0, 0.5]), np.eye(2, 3)
    rule = Rule(lambda x, row: jnp.concatenate([x[:2], -x[:2]]), np.r_[at, -at], np.concatenate([A, -A]), room=False)
    task = linear(X, y, lin.SQUARES, tr.Box(np.array([-10.0, -10.0, 1.0]), np.array([10.0, 10.0, 1.0])), rule=rule)
    return dataclasses.replace(task, programme=None, solution=lambda: np.array([3.0, 0.5, 1.0]))


@real("shapes")
def a_corner_of_the_simplex(kept: Kept) -> Task:
    """Iris: weights on a simplex of which three must be 0 by a constraint, so that only a corner is left."""
    X, y = tables.sklearn_table("iris")
    X, y = kept(X), kept(y)
    rule = Rule(lambda x, row: (x[1] + x[2] + x[3])[None], 0.0, np.array([[0.0, 1.0, 1.0, 1.0]]), room=False)
    task = linear(X, y, lin.SQUARES, tr.Simplex(shape=4), rule=rule)
    return dataclasses.replace(task, programme=None, solution=lambda: np.eye(4)[0])


@real("shapes")
def slopes_add_up_by_two_inequalities(kept: Kept) -> Task:
    """Wine: least squares, slopes that add up to 1 by two inequalities without room between them."""
    X, y = tables.sklearn_table("wine")
    X, y = kept(X), kept(y)
    rule = Rule(
        lambda x, row: jnp.stack([jnp.sum(x) - 1, 1 - jnp.sum(x)]),
        np.zeros(2),
        lambda x, s: [cp.sum(x) == 1],
        room=False,
    )
    return linear(X, y, lin.SQUARES, tr.Box(-10.0, 10.0, shape=13), rule=rule)


@real("shapes")
def means_held_by_two_inequalities(kept: Kept) -> Task:
    """Iris: logistic regression with the mean score of setosa held at -1 by two opposite constraints on the rows."""
    X, y = tables.sklearn_table("iris")
    X, g = kept(tables.with_one(X)), kept((y == 0) / np.mean(y == 0))
    A = g @ X / len(X)

    def sides(x, row):
        score = row["g"] * jnp.dot(row["x"], x)
        return jnp.stack([score, -score])

    rule = Rule(sides, np.array([-1.0, 1.0]), lambda x, s: [A @ x == -1], room=False)
    return linear(X, kept(np.where(y == 1, 1.0, -1.0)), lin.LOGISTIC, tr.Box(-20.0, 20.0, shape=5), rule=rule, g=g)


@real("shapes")
def forty_copies_of_a_rule(kept: Kept) -> Task:
    """Breast cancer: logistic regression, one constraint on the mean score forty times, each in units of its own."""
    X, y = tables.sklearn_table("breast_cancer")
    X, units = kept(tables.with_one(X[:, :5])), np.logspace(-6, 6, 40)
    A = X.mean(axis=0)
    rule = Rule(lambda x, row: units * jnp.dot(row["x"], x), -0.5 * units, A[None] * units[:, None])
    return linear(X, kept(2 * y - 1), lin.LOGISTIC, tr.Box(-50.0, 50.0, shape=6), rule=rule)


@real("shapes")
def rules_that_never_bind(kept: Kept) -> Task:
    """Diabetes: least squares with twelve constraints of which none is ever near its level."""
    X, y = tables.diabetes()
    X, y = kept(tables.with_one(X)), kept(y)
    A = np.vstack([X.mean(axis=0), np.eye(11)])
    rule = Rule(lambda x, row: jnp.concatenate([jnp.dot(row["x"], x)[None], x]), np.full(12, 1e5), A)
    return linear(X, y, lin.SQUARES, tr.Box(-1e3, 1e3, shape=11), rule=rule, unit=1e3)


@real("shapes")
def every_row_a_hundred_times(kept: Kept) -> Task:
    """Wine: the first kind by logistic regression on three raw columns, 17,800 rows of 178, in an L2 ball."""
    X, y = tables.sklearn_table("wine")
    X, y = np.repeat(tables.with_one(X[:, [0, 6, 12]]), 100, axis=0), np.repeat(np.where(y == 0, 1.0, -1.0), 100)
    return linear(kept(X), kept(y), lin.LOGISTIC, tr.L2Ball(20.0, shape=4))


@real("shapes")
def columns_that_say_nothing(kept: Kept) -> Task:
    """Iris: a column of zeros, a constant one beside the intercept, and one column twice; logistic with a ridge."""
    X, y = tables.sklearn_table("iris")
    X = np.column_stack([X, X[:, 2], np.zeros(len(X)), np.full(len(X), 7.0), np.ones(len(X))])
    y = np.where(y == 2, 1.0, -1.0)
    return linear(kept(X), kept(y), lin.LOGISTIC, tr.Box(-100.0, 100.0, shape=8), penalty=lin.ridge(1e-4))


@real("shapes")
def a_box_a_million_wide(kept: Kept) -> Task:
    """Iris: petal width by least squares in a box of width 2e6, the mean score of each kind below its mean plus 0.01."""
    X, y = tables.sklearn_table("iris")
    X, target, g = kept(tables.with_one(X[:, :3])), kept(X[:, 3]), kept(3 * tables.one_hot(y))
    A = g.T @ X / len(X)
    levels = g.T @ target / len(X) + 0.01
    rule = Rule(lambda x, row: row["g"] * jnp.dot(row["x"], x), levels, A)
    return linear(X, target, lin.SQUARES, tr.Box(-1e6, 1e6, shape=4), rule=rule, g=g)


@real("shapes")
def units_from_micro_to_mega(kept: Kept) -> Task:
    """Wine: thirteen columns in units between 1e-6 and 1e6 of their own, logistic, boxes to match."""
    X, y = tables.sklearn_table("wine")
    units = np.logspace(-6, 6, 13)
    X, y = kept(tables.with_one(X * units)), kept(np.where(y == 1, 1.0, -1.0))
    wide = 10.0 / np.r_[units, 1.0]
    return linear(X, y, lin.LOGISTIC, tr.Box(-wide, wide))


@real("shapes")
def a_large_constant(kept: Kept) -> Task:
    """Diabetes: least squares of targets a million above themselves, without an intercept to take it up, age in days."""
    X, y = tables.diabetes()
    X, y = kept(X * np.r_[365.25, np.ones(9)]), kept(y + 1e6)
    return linear(X, y, lin.SQUARES, tr.Box(-1e5, 1e5, shape=10), unit=1e10)


@real("shapes")
def the_start_is_the_answer(kept: Kept) -> Task:
    """Wine: hinges whose least value in the ball is where a run starts, held there by a constraint on the squared slopes."""
    X, y = tables.sklearn_table("wine")
    X, y = kept(X), kept(np.where(y == 0, 1.0, -1.0))
    rule = Rule(lambda x, row: jnp.sum(x**2)[None], 0.0, lambda x, s: [cp.sum_squares(x) <= 0], room=False)
    task = linear(X, y, lin.HINGE, tr.L2Ball(1.0, shape=13), rule=rule)
    return dataclasses.replace(task, programme=None, solution=lambda: np.zeros(13))


@real("shapes")
def neighbours_differ_by_one(kept: Kept) -> Task:
    """Digits: 64 mean intensities nearest to the images', each pixel's at most its neighbour's plus 1: 112 constraints."""
    images, _ = tables.sklearn_table("digits")
    images = kept(images)
    place = np.arange(64).reshape(8, 8)
    pairs = np.concatenate([np.stack([place[:, :-1].ravel(), place[:, 1:].ravel()], 1)] * 2)
    pairs[56:] = pairs[56:, ::-1]
    first, second = pairs.T

    def programme():

        x = cp.Variable(64)
        total = (
            cp.sum_squares(x - images.mean(axis=0)) / 2
            + ((images**2).mean(axis=0) - images.mean(axis=0) ** 2).sum() / 2
        )
        return Programme(cp.Problem(cp.Minimize(total), [x[first] - x[second] <= 1, x >= 0, x <= 16]), lambda: x.value)

    problem = tr.Problem(
        lambda x, row: jnp.sum((x - row) ** 2) / 2,
        lambda x, row: x[first] - x[second],
        tr.Box(0.0, 16.0, shape=64),
        levels=1.0,
    )
    return Task(problem, images, programme)
