"""Several classes: choice models, multinomial and ordinal regression."""

import jax
import jax.numpy as jnp
import numpy as np

import tightrope as tr
from studies.real import tables
from studies.real.linear import Coordinates, Rule
from studies.real.task import Kept, Programme, Task, real
from studies.real.written import cp


def _journeys() -> tuple[np.ndarray, np.ndarray]:
    """210 travellers between four modes: raw attributes with constants of three modes, (210, 4, 8), and what they chose."""
    table = tables.columns("modechoice", "choice", "gc", "ttme", "invc", "invt", "hinc").reshape(210, 4, 6)
    chosen, attributes, income = table[..., 0], table[..., 1:5], table[..., 5:]
    constants = np.broadcast_to(np.eye(4)[:, :3], (210, 4, 3))
    return np.concatenate([attributes, constants, income * np.eye(4)[:, :1]], axis=-1), chosen


def _conditional(A: np.ndarray, chosen: np.ndarray, domain: tr.ConvexSet, rule: Rule | None = None) -> Task:
    """Conditional logit: log-sum-exp of the scores less the chosen one's."""

    def objective(x, row):
        s = row["a"] @ x
        return jax.nn.logsumexp(s) - jnp.dot(row["chosen"], s)

    def programme():
        differences = A - np.einsum("nk,nkd->nd", chosen, A)[:, None]
        at = Coordinates(differences.reshape(-1, A.shape[-1]))
        scores = cp.reshape(at.s, (len(A), A.shape[1]), order="C")
        total = cp.sum(cp.log_sum_exp(scores, axis=1)) / len(A)
        rules = [] if rule is None else at.below(rule.programme, rule.levels)
        return Programme(cp.Problem(cp.Minimize(total), [*at.within(domain), *rules]), at.value)

    given = (None,) if rule is None else (rule.sample,)
    levels = 0.0 if rule is None else rule.levels
    return Task(tr.Problem(objective, *given, domain, levels=levels), {"a": A, "chosen": chosen}, programme)


@real("choice", "statsmodels")
def journeys(kept: Kept) -> Task:
    """How 210 people travel: conditional logit on raw costs and minutes, with constants of the modes."""
    A, chosen = _journeys()
    return _conditional(kept(A), kept(chosen), tr.Box(-20.0, 20.0, shape=8))


@real("choice", "statsmodels")
def journeys_by_price(kept: Kept) -> Task:
    """How 210 people travel: costs and minutes only deter, a minute's waiting costs at most what three units of price do."""
    A, chosen = _journeys()
    rows = np.array([[3.0, -1, 0, 0, 0, 0, 0, 0], [0, 0, 1, 0, 0, 0, 0, 0]])
    rule = Rule(lambda x, row: jnp.stack([3 * x[0] - x[1], x[2]]), 0.0, rows)
    upper = np.r_[np.zeros(4), np.full(4, 20.0)]
    return _conditional(kept(A), kept(chosen), tr.Box(np.full(8, -20.0), upper), rule)


def _multinomial(X: np.ndarray, y: np.ndarray, domain: tr.ConvexSet, within, ridge: float = 0.0) -> Task:
    """Softmax regression with a vector of slopes for each class; `within` writes the domain for cvxpy."""
    K = y.shape[1]

    def objective(x, row):
        s = x @ row["x"]
        return jax.nn.logsumexp(s) - jnp.dot(row["y"], s) + ridge / 2 * jnp.sum(x**2)

    def programme():
        at = Coordinates(X)
        W = cp.Variable((K, X.shape[1]))
        B, S = W @ at.T.T, at.S @ W.T
        total = (cp.sum(cp.log_sum_exp(S, axis=1)) - cp.sum(cp.multiply(y, S))) / len(X)
        total += ridge / 2 * cp.sum_squares(B)
        return Programme(cp.Problem(cp.Minimize(total), within(B)), lambda: at.T.dot(W.value.T).T)

    return Task(tr.Problem(objective, None, domain), {"x": X, "y": y}, programme)


@real("choice")
def three_kinds_of_wine(kept: Kept) -> Task:
    """Wine: softmax regression on raw columns, all slopes together in an L1 ball."""
    X, y = tables.sklearn_table("wine")
    d = X.shape[1] + 1
    return _multinomial(
        kept(tables.with_one(X)),
        kept(tables.one_hot(y)),
        tr.L1Ball(5.0, shape=(3, d)),
        lambda B: [cp.sum(cp.abs(B)) <= 5],
    )


@real("choice")
def three_kinds_of_iris(kept: Kept) -> Task:
    """Iris: softmax regression with a ridge, separable but for it, in a wide box."""
    X, y = tables.sklearn_table("iris")
    X, y = kept(tables.with_one(X)), kept(tables.one_hot(y))
    within = lambda B: [cp.abs(B) <= 1e3]  # noqa: E731
    return _multinomial(X, y, tr.Box(-1e3, 1e3, shape=(3, 5)), within, ridge=1e-2)


@real("choice")
def ten_digits(kept: Kept) -> Task:
    """Digits: softmax regression of 500 images, 64 raw pixels, 640 slopes in an L2 ball."""
    X, y = tables.sklearn_table("digits")
    X, y = kept(X[:500]), kept(tables.one_hot(y[:500]))
    return _multinomial(X, y, tr.L2Ball(1.0, shape=(10, 64)), lambda B: [cp.norm(B, "fro") <= 1])


@real("choice", "statsmodels")
def seven_parties(kept: Kept) -> Task:
    """The election of 1996: party identity in seven classes from five raw columns, each class's mean score near zero."""
    table = tables.columns("anes96", "PID", "TVnews", "selfLR", "age", "educ", "income")
    X, y = kept(tables.with_one(table[:, 1:])), kept(tables.one_hot(table[:, 0]))
    means = X.mean(axis=0)

    def objective(x, row):
        s = x @ row["x"]
        return jax.nn.logsumexp(s) - jnp.dot(row["y"], s)

    rule = tr.two_sided(lambda x, row: x @ row["x"])

    def programme():
        at, W = Coordinates(X), cp.Variable((7, 6))
        B, S = W @ at.T.T, at.S @ W.T
        total = (cp.sum(cp.log_sum_exp(S, axis=1)) - cp.sum(cp.multiply(y, S))) / len(X)
        rules = [cp.abs(W @ (at.T.T @ means)) <= 0.1, cp.abs(B) <= 5]
        return Programme(cp.Problem(cp.Minimize(total), rules), lambda: at.T.dot(W.value.T).T)

    problem = tr.Problem(objective, rule, tr.Box(-5.0, 5.0, shape=(7, 6)), levels=0.1)
    return Task(problem, {"x": X, "y": y}, programme)


@real("choice")
def ten_digits_within_groups(kept: Kept) -> Task:
    """Digits: softmax regression of 300 images on 16 coarse pixels, the mean loss of each of ten digits at most 0.5."""
    images, y = tables.sklearn_table("digits")
    coarse = images[:300].reshape(300, 4, 2, 4, 2).sum(axis=(2, 4)).reshape(300, 16)
    X, y = kept(tables.with_one(coarse)), tables.one_hot(y[:300])
    g, y = kept(y / y.mean(axis=0)), kept(y)

    def loss(x, row):
        s = x @ row["x"]
        return jax.nn.logsumexp(s) - jnp.dot(row["y"], s)

    def programme():
        at, W = Coordinates(X), cp.Variable((10, 17))
        B, S = W @ at.T.T, at.S @ W.T
        losses = cp.log_sum_exp(S, axis=1) - cp.sum(cp.multiply(y, S), axis=1)
        rules = [g.T @ losses / len(X) <= 0.5, cp.abs(B) <= 1]
        total = cp.sum(losses) / len(X) + 1e-2 / 2 * cp.sum_squares(B)
        return Programme(cp.Problem(cp.Minimize(total), rules), lambda: at.T.dot(W.value.T).T)

    problem = tr.Problem(
        lambda x, row: loss(x, row) + 1e-2 / 2 * jnp.sum(x**2),
        lambda x, row: row["g"] * loss(x, row),
        tr.Box(-1.0, 1.0, shape=(10, 17)),
        levels=0.5,
    )
    return Task(problem, {"x": X, "y": y, "g": g}, programme)


@real("choice", "statsmodels")
def marriages_rated(kept: Kept) -> Task:
    """Fair's survey: the rating of a marriage in five ordered classes, thresholds at least 0.1 apart, every tenth row."""
    table = tables.columns("fair")[::10]
    X, y = kept(table[:, 1:-1]), kept(tables.one_hot(table[:, 0]))
    d = X.shape[1]
    gaps = np.eye(4)[:-1] - np.eye(4)[1:]
    lower, upper = np.arange(-50.0, -46.0), np.arange(47.0, 51.0)

    def objective(x, row):
        t, s = x["t"], jnp.dot(row["x"], x["slopes"])
        below, above = t[:-1] - s, t[1:] - s
        inner = jax.nn.softplus(below) + jax.nn.softplus(above) - above - jnp.log(-jnp.expm1(below - above))
        ends = jax.nn.softplus(s - t[0]), jax.nn.softplus(t[-1] - s)
        return jnp.dot(row["y"], jnp.concatenate([ends[0][None], inner, ends[1][None]]))

    def rule(x, row):
        return x["t"][:-1] - x["t"][1:] + 0.1

    def programme():
        at, t = Coordinates(X), cp.Variable(4)
        total = cp.sum(cp.multiply(y[:, 0], cp.logistic(at.s - t[0]))) + y[:, 4] @ cp.logistic(t[3] - at.s)
        for k in range(3):
            inner = cp.logistic(t[k] - at.s) + cp.logistic(t[k + 1] - at.s) - t[k + 1] + at.s
            total += y[:, k + 1] @ inner - y[:, k + 1].sum() * cp.log(1 - cp.exp(t[k] - t[k + 1]))
        rules = [gaps @ t + 0.1 <= 0, *at.within(tr.Box(-20.0, 20.0, shape=d)), t <= upper, t >= lower]
        problem = cp.Problem(cp.Minimize(total / len(X)), rules)
        return Programme(problem, lambda: {"slopes": at.value(), "t": t.value})

    domain = tr.Product({"slopes": tr.Box(-20.0, 20.0, shape=d), "t": tr.Box(lower, upper)})
    return Task(tr.Problem(objective, rule, domain), {"x": X, "y": y}, programme)
