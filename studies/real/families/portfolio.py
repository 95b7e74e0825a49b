"""Portfolios of twenty shares and five factors: daily returns of about 1e-3 beside prices in dollars."""

import jax.numpy as jnp
import numpy as np

import tightrope as tr
from studies.real import tables
from studies.real.task import Kept, Programme, Task, real
from studies.real.written import cp

DAY = 1e-4  # the size of a squared daily return, in which programmes are written
SIMPLEX = tr.Simplex(shape=20)


def _weights(total, rules, unit: float = 1.0, more=None) -> Programme:
    """A programme in weights on the simplex; `total` and `rules` are functions of them."""
    w = cp.Variable(20)
    problem = cp.Problem(cp.Minimize(total(w)), [w >= 0, cp.sum(w) == 1, *rules(w)])
    return Programme(problem, lambda: np.asarray(w.value) if more is None else more(w), unit)


@real("portfolio", "skfolio")
def least_variance(kept: Kept) -> Task:
    """Least variance of twenty shares with a floor of 0.0008 a day under the mean return."""
    R = kept(tables.shares())
    C, mean = R - R.mean(axis=0), R.mean(axis=0)
    rows = {"r": R, "c": kept(C)}
    return Task(
        tr.Problem(
            lambda x, row: jnp.dot(row["c"], x) ** 2, lambda x, row: -jnp.dot(row["r"], x)[None], SIMPLEX, -0.0008
        ),
        rows,
        lambda: _weights(
            lambda w: cp.sum_squares(rows["c"] @ w) / (len(R) * DAY), lambda w: [mean @ w / 8e-4 >= 1], DAY
        ),
    )


@real("portfolio", "skfolio")
def largest_return(kept: Kept) -> Task:
    """Largest mean return with a standard deviation of at most 1.1 % a day: a linear objective, a quadratic constraint."""
    R = kept(tables.shares())
    C, mean, level = kept(R - R.mean(axis=0)), R.mean(axis=0), 0.011**2
    return Task(
        tr.Problem(
            lambda x, row: -jnp.dot(row["r"], x), lambda x, row: jnp.dot(row["c"], x)[None] ** 2, SIMPLEX, level
        ),
        {"r": R, "c": C},
        lambda: _weights(lambda w: -mean @ w / 1e-3, lambda w: [cp.norm(C @ w) / np.sqrt(len(C) * level) <= 1], 1e-3),
    )


@real("portfolio", "skfolio")
def fully_invested_by_two_inequalities(kept: Kept) -> Task:
    """Least variance in a box, the sum of weights held at 1 by two opposite inequalities without room between them."""
    C = kept(tables.shares() - tables.shares().mean(axis=0))

    def programme():
        w = cp.Variable(20)
        problem = cp.Problem(cp.Minimize(cp.sum_squares(C @ w) / (len(C) * DAY)), [cp.sum(w) == 1, cp.abs(w) <= 0.5])
        return Programme(problem, lambda: np.asarray(w.value), DAY)

    return Task(
        tr.Problem(
            lambda x, row: jnp.dot(row["c"], x) ** 2,
            lambda x, row: jnp.stack([jnp.sum(x) - 1, 1 - jnp.sum(x)]),
            tr.Box(-0.5, 0.5, shape=20),
        ),
        {"c": C},
        programme,
        room=False,
    )


@real("portfolio", "skfolio")
def fastest_growth(kept: Kept) -> Task:
    """Kelly: largest mean logarithm of wealth, long only."""
    R = kept(tables.shares())
    return Task(
        tr.Problem(lambda x, row: -jnp.log1p(jnp.dot(row["r"], x)), None, SIMPLEX),
        {"r": R},
        lambda: _weights(lambda w: -cp.sum(cp.log(1 + R @ w)) / (len(R) * 1e-3), lambda w: [], 1e-3),
    )


@real("portfolio", "skfolio")
def fastest_growth_on_credit(kept: Kept) -> Task:
    """Kelly in a box up to five times wealth in each share, where the logarithm's domain ends within it."""
    R = kept(tables.shares())

    def programme():
        w = cp.Variable(20)
        problem = cp.Problem(
            cp.Minimize(-cp.sum(cp.log(1 + R @ w)) / (len(R) * 1e-3)), [w <= 5, w >= -5, cp.sum(w) / 3 <= 1]
        )
        return Programme(problem, lambda: np.asarray(w.value), 1e-3)

    return Task(
        tr.Problem(
            lambda x, row: -jnp.log1p(jnp.dot(row["r"], x)),
            lambda x, row: jnp.sum(x)[None],
            tr.Box(-5.0, 5.0, shape=20),
            levels=3.0,
        ),
        {"r": R},
        programme,
    )


@real("portfolio", "skfolio")
def least_shortfall(kept: Kept) -> Task:
    """Least CVaR at 95 % of the daily loss, Rockafellar and Uryasev's number beside the weights, mean return of 0.0007."""
    R = kept(tables.shares())
    mean = R.mean(axis=0)

    def programme():
        w, u = cp.Variable(20), cp.Variable()
        total = u + cp.sum(cp.pos(-100 * (R @ w) - u)) / (0.05 * len(R))
        problem = cp.Problem(cp.Minimize(total), [w >= 0, cp.sum(w) == 1, mean @ w / 7e-4 >= 1, cp.abs(u) <= 100])
        return Programme(problem, lambda: {"w": w.value, "u": np.asarray(u.value / 100)}, 0.01)

    problem = tr.Problem(
        lambda x, row: x["u"] + jnp.maximum(0.0, -jnp.dot(row["r"], x["w"]) - x["u"]) / 0.05,
        lambda x, row: -jnp.dot(row["r"], x["w"])[None],
        tr.Product({"w": SIMPLEX, "u": tr.Box(-1.0, 1.0, shape=())}),
        levels=-0.0007,
    )
    return Task(problem, {"r": R}, programme, smooth=False)


@real("portfolio", "skfolio")
def growth_with_a_shortfall_limit(kept: Kept) -> Task:
    """Largest mean logarithm of wealth with a CVaR at 95 % of at most 2.6 % a day."""
    R = kept(tables.shares())

    def programme():
        w, u = cp.Variable(20), cp.Variable()
        tail = u + cp.sum(cp.pos(-100 * (R @ w) - u)) / (0.05 * len(R))
        total = -cp.sum(cp.log(1 + R @ w)) / (len(R) * 1e-3)
        problem = cp.Problem(cp.Minimize(total), [w >= 0, cp.sum(w) == 1, tail / 2.6 <= 1, cp.abs(u) <= 100])
        return Programme(problem, lambda: {"w": w.value, "u": np.asarray(u.value / 100)}, 1e-3)

    problem = tr.Problem(
        lambda x, row: -jnp.log1p(jnp.dot(row["r"], x["w"])),
        lambda x, row: (x["u"] + jnp.maximum(0.0, -jnp.dot(row["r"], x["w"]) - x["u"]) / 0.05)[None],
        tr.Product({"w": SIMPLEX, "u": tr.Box(-1.0, 1.0, shape=())}),
        levels=0.026,
    )
    return Task(problem, {"r": R}, programme, smooth=False)


@real("portfolio", "skfolio")
def tracking_the_index(kept: Kept) -> Task:
    """Least squared difference of returns from the S&P 500's, at most 0.4 away from equal weights in the L1 norm."""
    R, index = kept(tables.shares()), kept(tables.index_returns())
    return Task(
        tr.Problem(
            lambda x, row: (jnp.dot(row["r"], x) - row["index"]) ** 2,
            lambda x, row: jnp.sum(jnp.abs(x - 0.05))[None],
            SIMPLEX,
            levels=0.4,
        ),
        {"r": R, "index": index},
        lambda: _weights(
            lambda w: cp.sum_squares(R @ w - index) / (len(R) * DAY), lambda w: [cp.norm(w - 0.05, 1) <= 0.4], DAY
        ),
        smooth=False,
    )


@real("portfolio", "skfolio")
def tracking_prices(kept: Kept) -> Task:
    """The index in points by numbers of shares at raw prices: 2,000 to 4,800 points, prices of 5 to 550 dollars."""
    P, index = kept(tables.share_prices()), kept(tables.index_prices())
    size = P.mean(axis=0)

    def programme():
        v = cp.Variable(20)
        left = (P / size) @ v - index / 1e3
        problem = cp.Problem(cp.Minimize(cp.sum_squares(left) / len(P)), [v >= 0, v <= 100 * size / 1e3])
        return Programme(problem, lambda: 1e3 * v.value / size, 1e6)

    problem = tr.Problem(lambda x, row: (jnp.dot(row["p"], x) - row["index"]) ** 2, None, tr.Box(0.0, 100.0, shape=20))
    return Task(problem, {"p": P, "index": index}, programme)


@real("portfolio", "skfolio")
def exponential_utility(kept: Kept) -> Task:
    """E exp(-100 return) of long and short positions up to 20 times wealth: the exponential overflows at corners."""
    R = kept(tables.shares())

    def programme():
        w = cp.Variable(20)
        problem = cp.Problem(cp.Minimize(cp.log_sum_exp(-100 * (R @ w)) - np.log(len(R))), [cp.abs(w) <= 20])
        return Programme(problem, lambda: np.asarray(w.value), logarithm=True)

    problem = tr.Problem(lambda x, row: jnp.exp(-100 * jnp.dot(row["r"], x)), None, tr.Box(-20.0, 20.0, shape=20))
    return Task(problem, {"r": R}, programme)


@real("portfolio", "skfolio")
def hedging_factors(kept: Kept) -> Task:
    """Least variance, long and short in an L1 ball, covariances with five factors within 1e-6, mean return of 0.0002."""
    shares, F = kept(tables.shares()[1:]), tables.factors()
    n = min(len(shares), len(F))
    R, F = shares[-n:], kept(F[-n:] - F[-n:].mean(axis=0))
    C, mean = kept(R - R.mean(axis=0)), R.mean(axis=0)
    A = F.T @ C / n

    def h(x, row):
        both = row["f"] * jnp.dot(row["c"], x)
        return jnp.concatenate([both, -both, -jnp.dot(row["r"], x)[None]])

    def programme():
        w = cp.Variable(20)
        rules = [cp.abs(A @ w / 1e-6) <= 1, mean @ w / 2e-4 >= 1, cp.norm(w, 1) <= 2]
        return Programme(
            cp.Problem(cp.Minimize(cp.sum_squares(C @ w) / (n * DAY)), rules), lambda: np.asarray(w.value), DAY
        )

    problem = tr.Problem(
        lambda x, row: jnp.dot(row["c"], x) ** 2, h, tr.L1Ball(2.0, shape=20), levels=np.r_[np.full(10, 1e-6), -2e-4]
    )
    return Task(problem, {"r": R, "c": C, "f": F}, programme)


@real("portfolio", "skfolio")
def least_semivariance(kept: Kept) -> Task:
    """Least mean square of losses with a floor under the mean return, and at most 30 % in each quarter of the shares."""
    R = kept(tables.shares())
    mean, A = R.mean(axis=0), np.repeat(np.eye(4), 5, axis=1)
    return Task(
        tr.Problem(
            lambda x, row: jnp.minimum(0.0, jnp.dot(row["r"], x)) ** 2,
            lambda x, row: jnp.concatenate([-jnp.dot(row["r"], x)[None], x.reshape(4, 5).sum(axis=1)]),
            SIMPLEX,
            levels=np.r_[-0.0007, np.full(4, 0.3)],
        ),
        {"r": R},
        lambda: _weights(
            lambda w: cp.sum_squares(cp.neg(R @ w)) / (len(R) * DAY),
            lambda w: [mean @ w / 7e-4 >= 1, A @ w <= 0.3],
            DAY,
        ),
    )


@real("portfolio", "skfolio")
def least_absolute_deviation(kept: Kept) -> Task:
    """Least mean absolute deviation (Konno and Yamazaki) with a floor of 0.0008 under the mean return."""
    R = kept(tables.shares())
    C, mean = kept(R - R.mean(axis=0)), R.mean(axis=0)
    return Task(
        tr.Problem(
            lambda x, row: jnp.abs(jnp.dot(row["c"], x)), lambda x, row: -jnp.dot(row["r"], x)[None], SIMPLEX, -0.0008
        ),
        {"r": R, "c": C},
        lambda: _weights(lambda w: cp.sum(cp.abs(C @ w)) / (len(R) * 1e-2), lambda w: [mean @ w / 8e-4 >= 1], 1e-2),
        smooth=False,
    )


@real("portfolio", "skfolio")
def variance_of_returns_at_most(kept: Kept) -> Task:
    """Largest mean return with a variance, of returns as they are, of at most 1.2 % squared: a function of two means."""
    R = kept(tables.shares())
    C, mean, level = R - R.mean(axis=0), R.mean(axis=0), 0.012**2
    return Task(
        tr.Problem(
            lambda x, row: -jnp.dot(row, x), tr.variance_at_most(lambda x, row: jnp.dot(row, x)), SIMPLEX, levels=level
        ),
        R,
        lambda: _weights(lambda w: -mean @ w / 1e-3, lambda w: [cp.norm(C @ w) / np.sqrt(len(C) * level) <= 1], 1e-3),
    )
