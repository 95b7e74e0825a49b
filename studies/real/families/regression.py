"""Least squares, robust and quantile regression, on raw columns."""

from itertools import pairwise

import jax.numpy as jnp
import numpy as np

import tightrope as tr
from studies.real import linear as lin
from studies.real import tables
from studies.real.linear import Coordinates, Penalty, Rule, linear
from studies.real.task import Kept, Programme, Task, real
from studies.real.written import cp


@real("regression")
def ridge_with_a_budget(kept: Kept) -> Task:
    """Diabetes: least squares on raw columns, sum of squared slopes at most 50, as a constraint."""
    X, y = tables.diabetes()
    X, y = kept(tables.with_one(X)), kept(y)
    rule = Rule(lambda x, row: jnp.sum(x[:-1] ** 2)[None], 50.0, lambda x, s: [cp.norm(x[:-1], 2) / np.sqrt(50.0) <= 1])
    domain = tr.Box(np.r_[np.full(10, -100.0), -1000.0], np.r_[np.full(10, 100.0), 1000.0])
    return linear(X, y, lin.SQUARES, domain, rule=rule, unit=1e3)


@real("regression")
def lasso_ball(kept: Kept) -> Task:
    """Diabetes: least squares on raw columns less their means, slopes in an L1 ball of radius 20."""
    X, y = tables.diabetes()
    return linear(kept(X - X.mean(axis=0)), kept(y - y.mean()), lin.SQUARES, tr.L1Ball(20.0, shape=10), unit=1e3)


@real("regression")
def elastic_net(kept: Kept) -> Task:
    """Diabetes: least squares with the elastic net's penalty in the objective, which has kinks where slopes vanish."""
    X, y = tables.diabetes()
    penalty = Penalty(
        lambda x: 20.0 * jnp.sum(jnp.abs(x)) + 2.0 * jnp.sum(x**2),
        lambda x: 20.0 * cp.norm(x, 1) + 2.0 * cp.sum_squares(x),
        smooth=False,
    )
    X, y = kept(X - X.mean(axis=0)), kept(y - y.mean())
    return linear(X, y, lin.SQUARES, tr.Box(-100.0, 100.0, shape=10), penalty=penalty, unit=1e3)


@real("regression")
def outliers_by_huber(kept: Kept) -> Task:
    """Diabetes: every twentieth target is a hundred times as large; Huber's loss, raw columns."""
    X, y = tables.diabetes()
    y = np.where(np.arange(len(y)) % 20 == 0, 100 * y, y)
    return linear(kept(tables.with_one(X)), kept(y), lin.huber(50.0), tr.Box(-1e3, 1e3, shape=11), unit=1e3)


@real("regression")
def outliers_by_squares(kept: Kept) -> Task:
    """Diabetes: the same outliers under least squares, with a mean residual of at most 10 for each sex."""
    X, y = tables.diabetes()
    y = np.where(np.arange(len(y)) % 20 == 0, 100 * y, y)
    X, y = kept(tables.with_one(X)), kept(y)
    g = kept(tables.one_hot(X[:, 1]) / tables.one_hot(X[:, 1]).mean(axis=0))
    A, b = g.T @ X / len(X), g.T @ y / len(y)
    rule = Rule(
        tr.two_sided(lambda x, row: row["g"] * (jnp.dot(row["x"], x) - row["y"])),
        10.0,
        lambda x, s: [(A @ x - b) / 10.0 <= 1, (A @ x - b) / 10.0 >= -1],
    )
    return linear(X, y, lin.SQUARES, tr.Box(-1e5, 1e5, shape=11), rule=rule, unit=1e6, g=g)


@real("regression")
def three_quantiles(kept: Kept) -> Task:
    """Diabetes: the 0.1, 0.5 and 0.9 quantiles at once, which must not cross in the mean of four groups by age."""
    X, y = tables.diabetes()
    q, X, y = np.array([0.1, 0.5, 0.9]), kept(tables.with_one(X[:, [0, 2, 3]])), kept(y)
    groups = tables.one_hot(np.digitize(X[:, 0], [38.0, 50.0, 59.0]))
    g = kept(groups / groups.mean(axis=0))

    def objective(x, row):
        r = row["y"] - x @ row["x"]
        return jnp.sum(jnp.maximum(q * r, (q - 1) * r))

    def rule(x, row):
        s = x @ row["x"]
        return (row["g"][:, None] * (s[:-1] - s[1:])).ravel()

    def programme():
        parts = [Coordinates(X) for _ in q]
        total = sum(cp.sum(cp.maximum(k * (y - at.s), (k - 1) * (y - at.s))) for k, at in zip(q, parts, strict=True))
        M = g.T @ X / len(X)
        order = [M @ (low.x - high.x) <= 0 for low, high in pairwise(parts)]
        box = [c for at in parts for c in at.within(tr.Box(-1e3, 1e3, shape=4))]
        problem = cp.Problem(cp.Minimize(total / len(X) / 100), [*order, *box])
        return Programme(problem, lambda: np.stack([at.value() for at in parts]), 100.0)

    problem = tr.Problem(objective, rule, tr.Box(-1e3, 1e3, shape=(3, 4)))
    return Task(problem, {"x": X, "y": y, "g": g}, programme, smooth=False)


@real("regression", "statsmodels")
def engel_quantile(kept: Kept) -> Task:
    """Engel's food expenditure: the 0.9 quantile on raw income."""
    income, food = tables.columns("engel").T
    X = kept(np.stack([income, np.ones_like(income)], axis=1))
    return linear(X, kept(food), lin.pinball(0.9), tr.Box(-1e4, 1e4, shape=2), unit=100.0)


@real("regression", "statsmodels")
def stackloss_absolute(kept: Kept) -> Task:
    """Stack loss: least absolute deviations on 21 raw rows."""
    table = tables.columns("stackloss")
    X, y = kept(tables.with_one(table[:, 1:])), kept(table[:, 0])
    return linear(X, y, lin.ABSOLUTE, tr.Box(-200.0, 200.0, shape=4))


@real("regression", "statsmodels")
def stackloss_huber(kept: Kept) -> Task:
    """Stack loss: Huber's loss on raw columns, slopes not negative, a wide box for the intercept."""
    table = tables.columns("stackloss")
    X, y = kept(tables.with_one(table[:, 1:])), kept(table[:, 0])
    return linear(X, y, lin.huber(1.345), tr.Box(np.array([0.0, 0, 0, -1e6]), np.array([100.0, 100, 100, 1e6])))


@real("regression", "statsmodels")
def longley(kept: Kept) -> Task:
    """Longley: least squares in raw units, years beside a gross national product of 5e5, condition number 5e9."""
    table = tables.columns("longley")
    X, y = kept(tables.with_one(table[:, 1:])), kept(table[:, 0])
    wide = np.r_[np.full(6, 1e4), 1e7]
    return linear(X, y, lin.SQUARES, tr.Box(-wide, wide), unit=1e6)


@real("regression", "statsmodels")
def longley_without_signs_wrong(kept: Kept) -> Task:
    """Longley: employment in raw units, nothing but the year's slope and the intercept negative, years add up."""
    table = tables.columns("longley")
    X, y = kept(tables.with_one(table[:, 1:])), kept(table[:, 0])
    lower = np.r_[np.zeros(5), -1e4, -1e7]
    late = kept((table[:, -1] > 1958) / np.mean(table[:, -1] > 1958))
    b = float(late @ y / len(y))
    rule = Rule(
        lambda x, row: (row["late"] * (row["y"] - jnp.dot(row["x"], x)))[None],
        100.0,
        lambda x, s: [(b - cp.sum(cp.multiply(late, s)) / len(X)) / 1e3 <= 0.1],
    )
    return linear(X, y, lin.SQUARES, tr.Box(lower, np.r_[np.full(6, 1e4), 1e7]), rule=rule, unit=1e6, late=late)


@real("regression", "statsmodels")
def trend_of_years(kept: Kept) -> Task:
    """Macroeconomic data: a quadratic trend of real GDP in raw years near 2000, four dummies of quarters beside it."""
    year, quarter, gdp = tables.columns("macrodata", "year", "quarter", "realgdp").T
    X = kept(np.column_stack([year, year**2 / 1e3, tables.one_hot(quarter)]))
    wide = np.r_[1e5, 1e5, np.full(4, 1e8)]
    return linear(X, kept(gdp), lin.SQUARES, tr.Box(-wide, wide), unit=1e6)


@real("regression", "statsmodels")
def nile_falls(kept: Kept) -> Task:
    """The Nile's volume in ten decades, which may only fall from one to the next: isotonic, nine linear constraints."""
    year, volume = tables.columns("nile").T
    X, y = kept(tables.one_hot((year - 1871) // 10)), kept(volume)
    A = np.eye(10)[1:] - np.eye(10)[:-1]
    rule = Rule(lambda x, row: x[1:] - x[:-1], np.zeros(9), A)
    return linear(X, y, lin.SQUARES, tr.Box(0.0, 5e3, shape=10), rule=rule, unit=1e4)


@real("regression", "statsmodels")
def sunspots_in_waves(kept: Kept) -> Task:
    """Sunspots: twenty periods in an L2 ball and a level in a box, a product of two sets, under Huber's loss."""
    year, y = tables.columns("sunspots").T
    y = kept(y)
    angles = 2 * np.pi * year[:, None] / np.linspace(8.0, 14.0, 20)
    W = kept(np.hstack([np.cos(angles), np.sin(angles)]))

    def objective(x, row):
        r = row["y"] - x["level"] - jnp.dot(row["w"], x["waves"])
        return jnp.where(jnp.abs(r) <= 20.0, r**2 / 2, 20.0 * jnp.abs(r) - 200.0)

    def programme():
        waves, level = cp.Variable(40), cp.Variable()
        total = cp.sum(cp.huber(y - 20 * level - 20 * (W @ waves), 20.0)) / 2 / len(y)
        problem = cp.Problem(cp.Minimize(total / 400), [cp.norm(waves, 2) <= 1.5, level <= 50, level >= 0])
        return Programme(problem, lambda: {"waves": 20 * waves.value, "level": np.asarray(20 * level.value)}, 400.0)

    domain = tr.Product({"waves": tr.L2Ball(30.0, shape=40), "level": tr.Box(0.0, 1e3, shape=())})
    return Task(tr.Problem(objective, None, domain), {"w": W, "y": y}, programme)


@real("regression", "statsmodels")
def carbon_dioxide_by_month(kept: Kept) -> Task:
    """Carbon dioxide at Mauna Loa, weekly: raw years, twelve dummies of months and an intercept that repeats them."""
    frame = tables.statsmodels_table("co2").dropna()
    when, y = frame.index, kept(frame["co2"].to_numpy(float))
    years = when.year.to_numpy(float) + (when.dayofyear.to_numpy(float) - 1) / 365.25
    X = kept(tables.with_one(np.column_stack([years, tables.one_hot(when.month.to_numpy(float))])))
    wide = np.r_[100.0, np.full(13, 1e4)]
    return linear(X, y, lin.SQUARES, tr.Box(-wide, wide), unit=100.0)


@real("regression", "statsmodels")
def crime_within_groups(kept: Kept) -> Task:
    """Violent crime in 51 states: raw columns, mean residual within 5 in states of little, some and much poverty."""
    X = tables.columns("statecrime", "hs_grad", "poverty", "single", "white", "urban")
    y = kept(tables.columns("statecrime", "violent")[:, 0])
    groups = tables.one_hot(np.digitize(X[:, 1], [12.0, 16.0]))
    X, g = kept(tables.with_one(X)), kept(groups / groups.mean(axis=0))
    A, b = g.T @ X / len(X), g.T @ y / len(y)
    rule = Rule(
        tr.two_sided(lambda x, row: row["g"] * (jnp.dot(row["x"], x) - row["y"])),
        5.0,
        lambda x, s: [(A @ x - b) / 5.0 <= 1, (A @ x - b) / 5.0 >= -1],
    )
    return linear(X, y, lin.SQUARES, tr.Box(-5e3, 5e3, shape=6), rule=rule, unit=1e4, g=g)


@real("regression", "statsmodels")
def copper_signs(kept: Kept) -> Task:
    """World consumption of copper: 25 rows, prices may not raise it, and a slope of income of at least 1,000."""
    table = tables.columns("copper")
    X, y = kept(tables.with_one(table[:, 1:])), kept(table[:, 0])
    lower, upper = np.r_[-1e4, -1e6, -1e4, -1e6, -1e4, -1e7], np.r_[0.0, 1e6, 1e4, 1e6, 1e4, 1e7]
    rule = Rule(lambda x, row: 1000.0 - x[1:2], 0.0, lambda x, s: [x[1] / 1000.0 >= 1])
    return linear(X, y, lin.SQUARES, tr.Box(lower, upper), rule=rule, unit=1e6)


@real("regression")
def three_exercises_of_low_rank(kept: Kept) -> Task:
    """Linnerud: weight, waist and pulse from three exercises at once, slopes of small nuclear norm, an intercept each."""
    X, Y = tables.sklearn_table("linnerud")
    X, Y = kept(X), kept(Y)

    def objective(x, row):
        return jnp.sum((x["slopes"] @ row["x"] + x["level"] - row["y"]) ** 2) / 2

    def programme():
        B, c = cp.Variable((3, 3)), cp.Variable(3)
        left = X @ B.T / 100 + 100 * cp.vstack([c] * len(X)) - Y
        problem = cp.Problem(
            cp.Minimize(cp.sum_squares(left) / (2 * len(X) * 1e3)),
            [cp.normNuc(B) <= 10.0, c <= 10.0, c >= -10.0],
        )
        return Programme(problem, lambda: {"slopes": B.value / 100, "level": 100 * c.value}, 1e3)

    domain = tr.Product({"slopes": tr.NuclearBall(0.1, shape=(3, 3)), "level": tr.Box(-1e3, 1e3, shape=(3,))})
    return Task(tr.Problem(objective, None, domain), {"x": X, "y": Y}, programme)


@real("regression")
def a_digit_of_others(kept: Kept) -> Task:
    """Digits: an image as a mixture of a hundred others, 64 pixels as rows and 100 weights on the simplex."""
    images, _ = tables.sklearn_table("digits")
    X, y = kept(images[1:101].T), kept(images[500])
    return linear(X, y, lin.SQUARES, tr.Simplex(shape=100), unit=10.0)


@real("regression")
def fewer_rows_than_columns(kept: Kept) -> Task:
    """Digits: the label of 30 images by 64 raw pixels in an L1 ball, a few of them always zero."""
    images, label = tables.sklearn_table("digits")
    return linear(kept(images[:30]), kept(label[:30]), lin.SQUARES, tr.L1Ball(2.0, shape=64))


@real("regression")
def a_perfect_fit(kept: Kept) -> Task:
    """Wine: ten rows by thirteen raw columns and an intercept, which fit exactly: F* = 0."""
    X, y = tables.sklearn_table("wine")
    X, y = kept(tables.with_one(X[::18][:10])), kept(y[::18][:10])
    return linear(X, y, lin.SQUARES, tr.Box(-10.0, 10.0, shape=14))
