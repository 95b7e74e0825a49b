"""Problems that were written after both halves had been developed on, most of them with kinks; looked at once."""

import jax
import jax.numpy as jnp
import numpy as np

import tightrope as tr
from studies.real import linear as lin
from studies.real import tables
from studies.real.linear import Coordinates, Loss, Penalty, Rule, linear
from studies.real.task import Kept, Programme, Task, real
from studies.real.written import cp


def _firms(kept: Kept) -> tuple[np.ndarray, np.ndarray]:
    """Grunfeld: value, capital and a dummy for each of eleven firms, and what they invest."""
    frame = tables.statsmodels_table("grunfeld")
    firms = tables.one_hot(np.unique(frame["firm"], return_inverse=True)[1].astype(float))
    X = kept(np.column_stack([frame[["value", "capital"]].to_numpy(float), firms]))
    y = kept(frame["invest"].to_numpy(float))
    return X, y


@real("later", "statsmodels")
def investment_of_firms_by_medians(kept: Kept) -> Task:
    """Grunfeld: the median of investment from value and capital, with a dummy for each of eleven firms."""
    X, y = _firms(kept)
    return linear(X, y, lin.pinball(0.5), tr.Box(-2e3, 2e3, shape=13), unit=100.0)


@real("later", "statsmodels")
def investment_by_huber(kept: Kept) -> Task:
    """Grunfeld: the same firms by Huber's loss, slopes and dummies in an L2 ball of radius 500."""
    X, y = _firms(kept)
    return linear(X, y, lin.huber(10.0), tr.L2Ball(500.0, shape=13), unit=100.0)


@real("later", "statsmodels")
def warm_decembers(kept: Kept) -> Task:
    """El Nino: the 0.9 quantile of December's temperature from the eleven months before it, slopes in an L1 ball."""
    table = tables.columns("elnino")[:, 1:]
    X, y = kept(table[:, :-1]), kept(table[:, -1])
    return linear(X, y, lin.pinball(0.9), tr.L1Ball(1.5, shape=11))


@real("later", "statsmodels")
def fertility_by_elastic_net(kept: Kept) -> Task:
    """Fertility of countries in 2010 from that of every fifth year before: absolute and squared slopes in the objective."""
    frame = tables.statsmodels_table("fertility")
    years = frame[[str(year) for year in range(1960, 2011, 5)]].dropna().to_numpy(float)
    X, y = kept(tables.with_one(years[:, :-1])), kept(years[:, -1])
    penalty = Penalty(
        lambda x: 0.05 * jnp.sum(jnp.abs(x)) + 0.01 * jnp.sum(x**2),
        lambda x: 0.05 * cp.norm(x, 1) + 0.01 * cp.sum_squares(x),
        smooth=False,
    )
    return linear(X, y, lin.SQUARES, tr.Box(-10.0, 10.0, shape=11), penalty=penalty)


@real("later", "statsmodels")
def inflation_between_quantiles(kept: Kept) -> Task:
    """German inflation by the rate of interest: quantiles of 0.25 and 0.75, which may not cross in the mean of a quarter."""
    quarter, inflation, rate = tables.columns("interest_inflation", "quarter", "Dp", "R").T
    X, y = kept(tables.with_one(rate[:, None])), kept(inflation)
    groups = tables.one_hot(quarter)
    g, q = kept(groups / groups.mean(axis=0)), np.array([0.25, 0.75])

    def objective(x, row):
        r = row["y"] - x @ row["x"]
        return jnp.sum(jnp.where(r > 0, q * r, (q - 1) * r))

    def rule(x, row):
        s = x @ row["x"]
        return row["g"] * (s[0] - s[1])

    def programme():
        parts = [Coordinates(X) for _ in q]
        total = sum(cp.sum(cp.maximum(k * (y - at.s), (k - 1) * (y - at.s))) for k, at in zip(q, parts, strict=True))
        order = (g.T @ X / len(X)) @ (parts[0].x - parts[1].x) <= 0
        box = [c for at in parts for c in at.within(tr.Box(-10.0, 10.0, shape=2))]
        problem = cp.Problem(cp.Minimize(total / len(X) / 1e-2), [order, *box])
        return Programme(problem, lambda: np.stack([at.value() for at in parts]), 1e-2)

    problem = tr.Problem(objective, rule, tr.Box(-10.0, 10.0, shape=(2, 2)))
    return Task(problem, {"x": X, "y": y, "g": g}, programme, smooth=False)


@real("later", "statsmodels")
def votes_of_1996_by_hinges(kept: Kept) -> Task:
    """The election of 1996: the vote by hinges of raw columns with a ridge, mean scores of rich and poor within 0.5."""
    table = tables.columns("anes96", "popul", "TVnews", "selfLR", "ClinLR", "DoleLR", "age", "educ", "income")
    vote = tables.columns("anes96", "vote")[:, 0]
    X, y = kept(tables.with_one(table)), kept(2 * vote - 1)
    rich = table[:, -1] > np.median(table[:, -1])
    s = kept(rich / rich.mean() - ~rich / (~rich).mean())
    A = s @ X / len(X)
    rule = Rule(tr.two_sided(lambda x, row: (row["s"] * jnp.dot(row["x"], x))[None]), 0.5, np.stack([A, -A]))
    return linear(X, y, lin.HINGE, tr.Box(-10.0, 10.0, shape=9), rule=rule, penalty=lin.ridge(1e-2), s=s)


@real("later", "statsmodels")
def visits_to_a_doctor_by_quantile(kept: Kept) -> Task:
    """The RAND experiment: the 0.8 quantile of visits on 4,038 rows of nine raw columns; visits are whole numbers."""
    table = tables.columns("randhie")[::5]
    X, y = kept(tables.with_one(table[:, 1:])), kept(table[:, 0])
    return linear(X, y, lin.pinball(0.8), tr.Box(-50.0, 50.0, shape=10))


@real("later", "statsmodels")
def marriages_rated_by_softmax(kept: Kept) -> Task:
    """Fair's survey: the rating of a marriage in five classes by softmax, 6,366 rows of seven raw columns, a ridge."""
    table = tables.columns("fair")
    X, y = kept(tables.with_one(table[:, 1:-1])), kept(tables.one_hot(table[:, 0]))

    def objective(x, row):
        s = x @ row["x"]
        return jax.nn.logsumexp(s) - jnp.dot(row["y"], s) + 1e-3 / 2 * jnp.sum(x**2)

    def programme():
        at, W = Coordinates(X), cp.Variable((5, X.shape[1]))
        B, S = W @ at.T.T, at.S @ W.T
        total = (cp.sum(cp.log_sum_exp(S, axis=1)) - cp.sum(cp.multiply(y, S))) / len(X)
        problem = cp.Problem(cp.Minimize(total + 1e-3 / 2 * cp.sum_squares(B)), [cp.abs(B) <= 20])
        return Programme(problem, lambda: at.T.dot(W.value.T).T)

    return Task(tr.Problem(objective, None, tr.Box(-20.0, 20.0, shape=(5, X.shape[1]))), {"x": X, "y": y}, programme)


@real("later")
def wine_by_the_largest_margin(kept: Kept) -> Task:
    """Wine: three kinds at once by the hinge of the largest wrong score (Crammer and Singer), raw columns, a ridge."""
    X, y = tables.sklearn_table("wine")
    X, y = kept(tables.with_one(X)), kept(tables.one_hot(y))
    d = X.shape[1]

    def objective(x, row):
        s = x @ row["x"]
        return jnp.max(s + 1 - row["y"]) - jnp.dot(row["y"], s) + 1e-2 / 2 * jnp.sum(x**2)

    def programme():
        at, W = Coordinates(X), cp.Variable((3, d))
        B, S = W @ at.T.T, at.S @ W.T
        total = (cp.sum(cp.max(S + 1 - y, axis=1)) - cp.sum(cp.multiply(y, S))) / len(X)
        problem = cp.Problem(cp.Minimize(total + 1e-2 / 2 * cp.sum_squares(B)), [cp.abs(B) <= 10])
        return Programme(problem, lambda: at.T.dot(W.value.T).T)

    return Task(
        tr.Problem(objective, None, tr.Box(-10.0, 10.0, shape=(3, d))), {"x": X, "y": y}, programme, smooth=False
    )


@real("later")
def digits_by_elastic_net(kept: Kept) -> Task:
    """Digits: the label of 300 images by 64 raw pixels, a few of them always zero, by the elastic net."""
    X, y = tables.sklearn_table("digits")
    penalty = Penalty(
        lambda x: 0.2 * jnp.sum(jnp.abs(x)) + 0.02 * jnp.sum(x**2),
        lambda x: 0.2 * cp.norm(x, 1) + 0.02 * cp.sum_squares(x),
        smooth=False,
    )
    return linear(kept(X[:300]), kept(y[:300]), lin.SQUARES, tr.Box(-5.0, 5.0, shape=64), penalty=penalty)


@real("later", "statsmodels")
def murders_by_huber(kept: Kept) -> Task:
    """Murders in 51 states: Huber's loss on raw columns, one state far from all others, no slope up of the urban share."""
    X = tables.columns("statecrime", "hs_grad", "poverty", "single", "white", "urban")
    y = kept(tables.columns("statecrime", "murder")[:, 0])
    lower, upper = np.r_[np.full(5, -10.0), -1e3], np.r_[np.full(4, 10.0), 0.0, 1e3]
    return linear(kept(tables.with_one(X)), y, lin.huber(1.0), tr.Box(lower, upper))


@real("later", "skfolio")
def two_shortfalls(kept: Kept) -> Task:
    """Largest mean return with a CVaR at 90 % of at most 2.2 % and one at 99 % of at most 4.5 % a day."""
    R = kept(tables.shares())
    tails, levels = np.array([0.1, 0.01]), np.array([2.2, 4.5])

    def programme():
        w, u = cp.Variable(20), cp.Variable(2)
        loss = -100 * (R @ w)
        risk = [(u[k] + cp.sum(cp.pos(loss - u[k])) / (tails[k] * len(R))) / levels[k] <= 1 for k in range(2)]
        total = -(R.mean(axis=0) / 1e-3) @ w
        problem = cp.Problem(cp.Minimize(total), [w >= 0, cp.sum(w) == 1, *risk, cp.abs(u) <= 100])
        return Programme(problem, lambda: {"w": w.value, "u": u.value / 100}, 1e-3)

    problem = tr.Problem(
        lambda x, row: -jnp.dot(row["r"], x["w"]),
        lambda x, row: x["u"] + jnp.maximum(0.0, -jnp.dot(row["r"], x["w"]) - x["u"]) / tails,
        tr.Product({"w": tr.Simplex(shape=20), "u": tr.Box(-1.0, 1.0, shape=2)}),
        levels=levels / 100,
    )
    return Task(problem, {"r": R}, programme, smooth=False)


ABSOLUTE_IN_TWO = Loss(
    lambda s, y: jnp.abs(s[0] - y[0]) + jnp.abs(s[1] - y[1]), lambda s, y: cp.abs(s - y), smooth=False
)


@real("later")
def exercises_by_absolute_values(kept: Kept) -> Task:
    """Linnerud: weight and waist from three exercises by absolute values, no slope of the waist above the weight's."""
    X, Y = tables.sklearn_table("linnerud")
    X, Y = kept(tables.with_one(X)), kept(Y[:, :2])

    def programme():
        parts = [Coordinates(X) for _ in range(2)]
        total = sum(cp.sum(cp.abs(at.s - y)) for at, y in zip(parts, Y.T, strict=True)) / (len(X) * 10)
        box = [c for at in parts for c in at.within(tr.Box(-500.0, 500.0, shape=4))]
        problem = cp.Problem(cp.Minimize(total), [parts[1].x[:3] - parts[0].x[:3] <= 0, *box])
        return Programme(problem, lambda: np.stack([at.value() for at in parts]), 10.0)

    problem = tr.Problem(
        lambda x, row: ABSOLUTE_IN_TWO.sample(x @ row["x"], row["y"]),
        lambda x, row: x[1, :3] - x[0, :3],
        tr.Box(-500.0, 500.0, shape=(2, 4)),
    )
    return Task(problem, {"x": X, "y": Y}, programme, smooth=False)
