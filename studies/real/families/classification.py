"""Two classes: logistic and probit regression, support vectors, Neyman-Pearson, fairness; raw columns."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import log_ndtr

import tightrope as tr
from studies.real import linear as lin
from studies.real import tables
from studies.real.linear import Coordinates, Loss, Rule, linear
from studies.real.task import Kept, Programme, Task, real
from studies.real.written import cp

PROBIT = Loss(lambda s, y: -jax.scipy.stats.norm.logcdf(y * s), lambda s, y: -cp.log_normcdf(cp.multiply(y, s)))
"""cvxpy's own is an approximation: problems with this loss bring their solution along."""


def _probit_by_newton(X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The least mean probit loss, by Newton's method with halved steps, on orthonormal columns."""
    at = Coordinates(X)
    S, w = at.S * y[:, None], np.zeros(X.shape[1])

    def value(w):
        return -log_ndtr(S @ w).mean()

    for _ in range(100):
        m = S @ w
        rate = np.exp(-(m**2) / 2 - np.log(2 * np.pi) / 2 - log_ndtr(m))
        gradient = -(S * rate[:, None]).mean(axis=0)
        curvature = S.T @ (S * (rate * (rate + m))[:, None]) / len(S)
        step, size = -np.linalg.solve(curvature, gradient), 1.0
        while value(w + size * step) > value(w) and size > 1e-12:
            size /= 2
        w = w + size * step
        if np.linalg.norm(step) < 1e-13 * (1 + np.linalg.norm(w)):
            break
    return at.T @ w


def _breast_cancer() -> tuple[np.ndarray, np.ndarray]:
    X, y = tables.sklearn_table("breast_cancer")
    return X, 2 * y - 1


@real("classification")
def tumours(kept: Kept) -> Task:
    """Breast cancer: logistic regression on thirty raw columns in an L2 ball, nearly separable."""
    X, y = _breast_cancer()
    return linear(kept(tables.with_one(X)), kept(y), lin.LOGISTIC, tr.L2Ball(10.0, shape=31))


@real("classification")
def tumours_in_a_box(kept: Kept) -> Task:
    """Breast cancer: logistic regression on ten raw columns, slopes up to 100."""
    X, y = _breast_cancer()
    return linear(kept(tables.with_one(X[:, :10])), kept(y), lin.LOGISTIC, tr.Box(-100.0, 100.0, shape=11))


@real("classification")
def support_vectors_of_tumours(kept: Kept) -> Task:
    """Breast cancer: the support vector machine on thirty raw columns, of sizes 0.004 to 4,254."""
    X, y = _breast_cancer()
    X, y = kept(tables.with_one(X)), kept(y)
    return linear(X, y, lin.HINGE, tr.Box(-100.0, 100.0, shape=31), penalty=lin.ridge(1e-2))


@real("classification")
def support_vectors_of_wine(kept: Kept) -> Task:
    """Wine: the first kind against the rest, hinges of thirteen raw columns, proline up to 1,680."""
    X, y = tables.sklearn_table("wine")
    X, y = kept(tables.with_one(X)), kept(np.where(y == 0, 1.0, -1.0))
    return linear(X, y, lin.HINGE, tr.L2Ball(5.0, shape=14))


@real("classification")
def squared_hinges_of_iris(kept: Kept) -> Task:
    """Iris: versicolor against the rest by squared hinges, every row fifty times, 7,500 rows of 149 kinds."""
    X, y = tables.sklearn_table("iris")
    X, y = np.repeat(tables.with_one(X), 50, axis=0), np.repeat(np.where(y == 1, 1.0, -1.0), 50)
    return linear(kept(X), kept(y), lin.SQUARED_HINGE, tr.Box(-50.0, 50.0, shape=5))


@real("classification", "statsmodels")
def spector_by_logit(kept: Kept) -> Task:
    """Spector and Mazzeo: who improved, 32 students, logistic regression."""
    table = tables.columns("spector")
    X, y = kept(tables.with_one(table[:, :-1])), kept(2 * table[:, -1] - 1)
    return linear(X, y, lin.LOGISTIC, tr.Box(-100.0, 100.0, shape=4))


@real("classification", "statsmodels")
def spector_by_probit(kept: Kept) -> Task:
    """Spector and Mazzeo: the same by probit."""
    table = tables.columns("spector")
    X, y = kept(tables.with_one(table[:, :-1])), kept(2 * table[:, -1] - 1)
    task = linear(X, y, PROBIT, tr.Box(-100.0, 100.0, shape=4))
    return dataclasses.replace(task, programme=None, solution=lambda: _probit_by_newton(X, y))


@real("classification", "statsmodels")
def affairs_by_probit(kept: Kept) -> Task:
    """Fair's survey: whether there was an affair, probit, 6,366 rows of eight raw columns."""
    table = tables.columns("fair")
    X, y = kept(tables.with_one(table[:, :-1])), kept(np.where(table[:, -1] > 0, 1.0, -1.0))
    task = linear(X, y, PROBIT, tr.Box(-20.0, 20.0, shape=9))
    return dataclasses.replace(task, programme=None, solution=lambda: _probit_by_newton(X, y))


@real("classification", "statsmodels")
def affairs_without_religion(kept: Kept) -> Task:
    """Fair's survey: logistic regression, scores nearly uncorrelated with religiousness and with age."""
    table = tables.columns("fair")
    X, y = kept(tables.with_one(table[:, :-1])), kept(np.where(table[:, -1] > 0, 1.0, -1.0))
    s = kept(table[:, [4, 1]] - table[:, [4, 1]].mean(axis=0))
    A = s.T @ X / len(X)
    levels = np.array([0.02, 0.1, 0.02, 0.1])
    rule = Rule(tr.two_sided(lambda x, row: row["s"] * jnp.dot(row["x"], x)), levels, np.vstack([A, -A]))
    return linear(X, y, lin.LOGISTIC, tr.Box(-20.0, 20.0, shape=9), rule=rule, s=s)


@real("classification", "statsmodels")
def schools_pass(kept: Kept) -> Task:
    """Star98: pupils above and below the median in 303 schools, binomial, twenty raw columns and their products."""
    table = tables.columns("star98")
    X, total = table[:, 2:], table[:, 0] + table[:, 1]
    above = kept(np.stack([table[:, 0] / total.mean(), total / total.mean()], axis=1))
    loss = Loss(
        lambda s, y: y[1] * jax.nn.softplus(s) - y[0] * s,
        lambda s, y: cp.multiply(y[:, 1], cp.logistic(s)) - cp.multiply(y[:, 0], s),
    )
    X = kept(tables.with_one(X))
    return linear(X, above, loss, tr.Box(-100.0, 100.0, shape=X.shape[1]))


@real("classification", "tightrope")
def adult_fair_in_raw_units(kept: Kept) -> Task:
    """Adult: logistic regression on 10,000 rows of six raw columns (weights up to 1e6), covariance with sex within 0.01."""
    X, y, women = tables.adult(10_000)
    X, s = kept(tables.with_one(X)), kept(women - women.mean())
    return linear(X, kept(y), lin.LOGISTIC, tr.Box(-10.0, 10.0, shape=7), rule=lin.covariance(X, s, 0.01), s=s)


@real("classification", "tightrope")
def adult_equal_opportunity(kept: Kept) -> Task:
    """Adult: logistic loss, mean scores of the rich of both sexes within 0.1, numbers in raw units, 5,000 rows."""
    X, y, women = tables.adult(5_000)
    rich = y > 0
    s = rich * (women / (rich * women).mean() - (1 - women) / (rich * (1 - women)).mean())
    X, s = kept(tables.with_one(X[:, [0, 2, 3, 4, 5]])), kept(s)
    return linear(X, kept(y), lin.LOGISTIC, tr.Box(-5.0, 5.0, shape=6), rule=lin.covariance(X, s, 0.1), s=s)


@real("classification", "tightrope")
def adult_one_hot(kept: Kept) -> Task:
    """Adult: every category as a column, some rare; covariance with sex within 0.02."""
    X, y, women = tables.adult_one_hot(4_000)
    X, s = kept(tables.with_one(X)), kept(women - women.mean())
    rule = lin.covariance(X, s, 0.02)
    return linear(X, kept(y), lin.LOGISTIC, tr.L2Ball(10.0, shape=X.shape[1]), rule=rule, s=s)


@real("classification", "tightrope")
def adult_hinges(kept: Kept) -> Task:
    """Adult: hinges on 2,000 one-hot rows with a ridge, mean score of women at least that of men less 0.5."""
    X, y, women = tables.adult_one_hot(2_000)
    X, s = kept(X), kept((1 - women) / (1 - women).mean() - women / women.mean())
    rule = Rule(lambda x, row: (row["s"] * jnp.dot(row["x"], x))[None], 0.5, s @ X / len(X))
    domain = tr.Box(-10.0, 10.0, shape=X.shape[1])
    return linear(X, kept(y), lin.HINGE, domain, rule=rule, penalty=lin.ridge(1e-3), s=s)


@real("classification")
def few_tumours_missed(kept: Kept) -> Task:
    """Breast cancer: least logistic loss of the benign, mean hinge of at most 0.1 on the malignant."""
    X, y = _breast_cancer()
    X, y = kept(tables.with_one(X[:, :10])), kept(y)
    benign, malignant = kept((y > 0) / (y > 0).mean()), kept((y < 0) / (y < 0).mean())

    def objective(x, row):
        return row["benign"] * jnp.logaddexp(0.0, -jnp.dot(row["x"], x))

    def rule(x, row):
        return (row["malignant"] * jnp.maximum(0.0, 1 + jnp.dot(row["x"], x)))[None]

    def programme():
        at = Coordinates(X)
        loss = cp.sum(cp.multiply(benign, cp.logistic(-at.s))) / len(X)
        missed = cp.sum(cp.multiply(malignant, cp.pos(1 + at.s))) / len(X)
        return Programme(cp.Problem(cp.Minimize(loss), [missed / 0.1 <= 1, *at.within(domain)]), at.value)

    domain = tr.Box(-100.0, 100.0, shape=11)
    rows = {"x": X, "benign": benign, "malignant": malignant}
    return Task(tr.Problem(objective, rule, domain, levels=0.1), rows, programme, smooth=False)


@real("classification")
def few_tumours_missed_smoothly(kept: Kept) -> Task:
    """Breast cancer: the same with a logistic loss of at most 0.1 on the malignant."""
    X, y = _breast_cancer()
    X, y = kept(tables.with_one(X[:, :10])), kept(y)
    benign, malignant = kept((y > 0) / (y > 0).mean()), kept((y < 0) / (y < 0).mean())

    def objective(x, row):
        return row["benign"] * jax.nn.softplus(-jnp.dot(row["x"], x))

    def rule(x, row):
        return (row["malignant"] * jax.nn.softplus(jnp.dot(row["x"], x)))[None]

    def programme():
        at = Coordinates(X)
        loss = cp.sum(cp.multiply(benign, cp.logistic(-at.s))) / len(X)
        missed = cp.sum(cp.multiply(malignant, cp.logistic(at.s))) / len(X)
        return Programme(cp.Problem(cp.Minimize(loss), [missed / 0.1 <= 1, *at.within(domain)]), at.value)

    domain = tr.Box(-100.0, 100.0, shape=11)
    rows = {"x": X, "benign": benign, "malignant": malignant}
    return Task(tr.Problem(objective, rule, domain, levels=0.1), rows, programme)


@real("classification")
def groups_of_measurements(kept: Kept) -> Task:
    """Breast cancer: logistic regression in a group ball, each measurement's mean, error and worst value a group."""
    X, y = _breast_cancer()
    domain = tr.GroupBall(5.0, groups=np.r_[np.tile(np.arange(10), 3), 10])
    return linear(kept(tables.with_one(X)), kept(y), lin.LOGISTIC, domain)
