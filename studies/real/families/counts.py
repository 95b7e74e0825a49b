"""Counts, durations and positive amounts: exponentials of scores of raw columns, which overflow on the way."""

import jax.numpy as jnp
import numpy as np

import tightrope as tr
from studies.real import linear as lin
from studies.real import tables
from studies.real.linear import Loss, Rule, linear
from studies.real.task import Kept, Task, real
from studies.real.written import cp


@real("counts", "statsmodels")
def doctor_visits(kept: Kept) -> Task:
    """The RAND experiment: visits to a doctor, Poisson, 20,190 rows of nine raw columns."""
    table = tables.columns("randhie")
    X, y = kept(tables.with_one(table[:, 1:])), kept(table[:, 0])
    return linear(X, y, lin.POISSON, tr.Box(-10.0, 10.0, shape=10))


@real("counts", "statsmodels")
def doctor_visits_within_groups(kept: Kept) -> Task:
    """The RAND experiment: Poisson, with the mean score of those in bad health at most that of the others plus 0.2."""
    table = tables.columns("randhie")[::4]
    X, y, bad = kept(tables.with_one(table[:, 1:])), kept(table[:, 0]), table[:, -2] + table[:, -1]
    s = kept(bad / bad.mean() - (1 - bad) / (1 - bad).mean())
    A = s @ X / len(X)
    rule = Rule(lambda x, row: (row["s"] * jnp.dot(row["x"], x))[None], 0.2, A)
    return linear(X, y, lin.POISSON, tr.Box(-10.0, 10.0, shape=10), rule=rule, s=s)


@real("counts", "statsmodels")
def affairs_as_counts(kept: Kept) -> Task:
    """Fair's survey: the rate of affairs, Poisson, 6,366 rows of eight raw columns."""
    table = tables.columns("fair")
    X, y = kept(tables.with_one(table[:, :-1])), kept(table[:, -1])
    return linear(X, y, lin.POISSON, tr.Box(-10.0, 10.0, shape=9))


@real("counts", "statsmodels")
def executions(kept: Kept) -> Task:
    """Capital punishment: Poisson on 17 rows, incomes up to 45,844 in raw dollars, slopes up to 50."""
    table = tables.columns("cpunish")
    X, y = kept(tables.with_one(table[:, 1:])), kept(table[:, 0])
    return linear(X, y, lin.POISSON, tr.Box(-50.0, 50.0, shape=7))


@real("counts", "statsmodels")
def bills_in_committee(kept: Kept) -> Task:
    """Bills assigned to committees: Poisson, 20 rows, the column of subcommittees twice, slopes in an L1 ball."""
    table = tables.columns("committee")
    X, y = kept(tables.with_one(table[:, [1, 2, 2, 3, 4]])), kept(table[:, 0])
    return linear(X, y, lin.POISSON, tr.L1Ball(5.0, shape=6), unit=10.0)


@real("counts", "statsmodels")
def cancer_by_population(kept: Kept) -> Task:
    """Breast cancer in 301 counties: Poisson with the logarithm of the population as offset, raw population as column."""
    y, population = tables.columns("cancer").T
    X = kept(tables.with_one(population[:, None]))
    return linear(X, kept(y), lin.POISSON, tr.Box(-100.0, 100.0, shape=2), offset=kept(np.log(population)), unit=10.0)


@real("counts", "statsmodels")
def council_tax(kept: Kept) -> Task:
    """The Scottish vote: gamma regression with a logarithmic link on raw columns, GDP up to 21,707."""
    table = tables.columns("scotland")
    X, y = kept(tables.with_one(table[:, 1:])), kept(table[:, 0])
    return linear(X, y, lin.GAMMA, tr.Box(-20.0, 20.0, shape=8))


@real("counts", "statsmodels")
def spending_by_card(kept: Kept) -> Task:
    """Credit cards: gamma regression of monthly spending, ridge, renters at least as high as owners in the mean score."""
    table = tables.columns("ccard")
    X, y, owns = kept(tables.with_one(table[:, 1:])), kept(table[:, 0]), table[:, -1]
    s = kept(owns / owns.mean() - (1 - owns) / (1 - owns).mean())
    A = s @ X / len(X)
    rule = Rule(lambda x, row: (row["s"] * jnp.dot(row["x"], x))[None], 0.0, A)
    return linear(X, y, lin.GAMMA, tr.Box(-20.0, 20.0, shape=5), rule=rule, penalty=lin.ridge(1e-3), s=s)


@real("counts", "statsmodels")
def survival_after_transplant(kept: Kept) -> Task:
    """Heart transplants: exponential survival with censoring, days up to 1,775, ages in years."""
    days, seen, age = tables.columns("heart").T
    days, seen = kept(days), kept(seen)
    loss = Loss(
        lambda s, y: y[0] * jnp.exp(s) - y[1] * s,
        lambda s, y: cp.multiply(y[:, 0], cp.exp(s)) - cp.multiply(y[:, 1], s),
    )
    y = np.stack([days, seen], axis=1)
    return linear(kept(np.stack([age, np.ones_like(age)], axis=1)), y, loss, tr.Box(-30.0, 30.0, shape=2), unit=10.0)


@real("counts", "statsmodels")
def strikes_last(kept: Kept) -> Task:
    """Durations of strikes: exponential, in days, mean hazard within 5 % of the observed one as a convex constraint."""
    days, output = tables.columns("strikes").T
    X, y = kept(np.stack([output, np.ones_like(output)], axis=1)), kept(days)
    loss = Loss(lambda s, y: y * jnp.exp(s) - s, lambda s, y: cp.multiply(y, cp.exp(s)) - s)
    level = float(1.05 / y.mean())
    rule = Rule(
        lambda x, row: jnp.exp(jnp.dot(row["x"], x))[None],
        level,
        lambda x, s: [cp.sum(cp.exp(s)) / (len(X) * level) <= 1],
    )
    return linear(X, y, loss, tr.Box(-50.0, 50.0, shape=2), rule=rule)


@real("counts")
def disease_progression(kept: Kept) -> Task:
    """Diabetes: the target as a count under Poisson's loss, raw columns, slopes up to 5: exp(5 * 300) overflows."""
    X, y = tables.diabetes()
    return linear(kept(tables.with_one(X)), kept(y), lin.POISSON, tr.Box(-5.0, 5.0, shape=11), unit=100.0)


@real("counts")
def chin_ups(kept: Kept) -> Task:
    """Linnerud: chin-ups of twenty men as counts, from weight, waist and pulse, with the waist's slope at most -0.05."""
    exercises, body = tables.sklearn_table("linnerud")
    X, y = kept(tables.with_one(body)), kept(exercises[:, 0])
    rule = Rule(lambda x, row: x[1:2], -0.05, np.array([[0.0, 1.0, 0.0, 0.0]]))
    return linear(X, y, lin.POISSON, tr.Box(-10.0, 10.0, shape=4), rule=rule)
