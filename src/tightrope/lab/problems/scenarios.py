"""Decisions before the outcome is known: a portfolio under a bound on its tail, power for channels that fade.

Scenarios are the rows of a finite table, so that the optimum is that of a linear programme or of a few equations.
"""

import itertools
from functools import lru_cache
from typing import Any

import jax.numpy as jnp
import numpy as np

from tightrope.lab.problems.solved import Constants, Solved, solve_equations
from tightrope.problem import Problem
from tightrope.sets import Box, Product, Simplex


@lru_cache
def portfolio() -> Solved:
    """A portfolio under a bound on its CVaR: min -E <r, w> s.t. E[u + 10 (-<r, w> - u)_+] <= 1/5, w in the simplex.

    The mean of the worst tenth of the losses is at most 20 %; u in [-1, 1], the loss that a tenth exceeds, is part of x
    (Rockafellar and Uryasev, 2000). Eight assets, 505 years of correlated returns with heavy tails (Student's t with four
    degrees of freedom, the riskier the better paid). The solution and the margin are those of two linear programmes.
    """
    rng, n, assets, tail, level = np.random.default_rng(8), 505, 8, 0.1, 0.2
    correlation = 0.7 * np.eye(assets) + 0.3
    shocks = rng.normal(size=(n, assets)) @ np.linalg.cholesky(correlation).T
    shocks *= np.sqrt(2 / rng.chisquare(4, size=(n, 1)))  # of variance 1: a year that is bad for one is bad for all
    r = np.linspace(0.02, 0.13, assets) + np.linspace(0.02, 0.30, assets) * shocks
    best, safest = _portfolio_programmes(r, tail, level)

    def f(x, theta):
        return -jnp.dot(theta, x["w"])

    def h(x, theta):
        return (x["u"] + jnp.maximum(-jnp.dot(theta, x["w"]) - x["u"], 0) / tail - level)[None]

    lengths, losses = np.linalg.norm(r, axis=1), -r.min(axis=1)
    # h is convex in x, so largest where all is in the worst asset and u is at an end; it is never below u - level
    ends = [u + np.maximum(losses - u, 0) / tail - level for u in (-1.0, 1.0)]
    largest = np.maximum(np.maximum(*ends), 1.0 + level)
    return Solved.of_table(
        "portfolio",
        Problem(f, h, Product({"w": Simplex(shape=assets), "u": Box(-1.0, 1.0, shape=())})),
        r,
        x={"w": best.x[:assets], "u": np.asarray(best.x[assets])},
        dual=-best.ineqlin.marginals[:1],
        optimum=float(best.fun),
        slater=float(level - safest.fun),
        constants=Constants(
            D=6**0.5,
            G_f=float(np.linalg.norm(r.mean(axis=0))),
            G_h=_root_mean_slope(lengths, tail),
            sigma_f=float(np.sqrt(np.mean(lengths**2))),
            sigma_h=_root_mean_slope(lengths, tail),
            sigma_lam=float(np.sqrt(np.mean(largest**2))),
            L_f=0.0,
            L_h=float("inf"),
        ),
        noise="one of 505 scenarios; only one in ten has a slope in w",
    )


def _portfolio_programmes(r: np.ndarray, tail: float, level: float) -> tuple[Any, Any]:
    """The best portfolio whose CVaR is at most `level`, and the one of the smallest CVaR.

    Linear in (w, u, z), where z_k >= -<r_k, w> - u is the excess loss in scenario k.
    """
    from scipy.optimize import linprog

    n, assets = r.shape
    worth = np.append(-r.mean(axis=0), np.zeros(n + 1))
    cvar = np.concatenate([np.zeros(assets), [1.0], np.full(n, 1 / (tail * n))])
    programme = {
        "A_eq": np.concatenate([np.ones(assets), np.zeros(n + 1)])[None],
        "b_eq": [1.0],
        "bounds": [(0, None)] * assets + [(-1, 1)] + [(0, None)] * n,
    }
    excess = np.hstack([-r, -np.ones((n, 1)), -np.eye(n)])
    best = linprog(worth, np.vstack([cvar, excess]), np.append(level, np.zeros(n)), **programme)
    return best, linprog(cvar, excess, np.zeros(n), **programme)


def _root_mean_slope(lengths: np.ndarray, tail: float) -> float:
    """A bound on sqrt(E |grad h|^2): beyond u a scenario has the slope (-r, -(1 - tail))/tail, below it (0, 1)."""
    return float(np.sqrt(np.mean(np.maximum((lengths**2 + (1 - tail) ** 2) / tail**2, 1.0))))


@lru_cache
def power() -> Solved:
    """Power for six fading channels: min -E sum_i log(1 + g_i p_i) s.t. E <c, p> <= 3, E <q, p> <= 1, p in [0, 3]^6.

    g are the gains (Rayleigh fading, so exponential), c the prices of power, q the gains to a neighbour who must not be
    disturbed; 500 states. Both constraints are active; the two weakest channels get nothing. No power at all has
    the largest margin, 1.
    """
    rng, n, size, limits = np.random.default_rng(9), 500, 6, np.array([3.0, 1.0])
    gain = rng.exponential(size=(n, size)) * np.array([4.0, 3.0, 2.0, 1.5, 0.4, 0.3])
    price = rng.uniform(0.5, 1.5, size=(n, size))
    heard = rng.exponential(size=(n, size)) * np.array([0.5, 0.1, 0.6, 0.2, 0.3, 0.4])
    costs = np.stack([price.mean(axis=0), heard.mean(axis=0)])
    used = 4  # channels that are worth their price

    def conditions(z):
        p, multipliers = z[:used], z[used:]
        worth = np.mean(gain[:, :used] / (1 + gain[:, :used] * p), axis=0)
        return np.append(multipliers @ costs[:, :used] - worth, costs[:, :used] @ p - limits)

    def f(x, theta):
        return -jnp.sum(jnp.log1p(theta["gain"] * x))

    def h(x, theta):
        return jnp.stack([jnp.dot(theta["price"], x), jnp.dot(theta["heard"], x)]) - jnp.asarray(limits, x.dtype)

    z = solve_equations(conditions, [0.5, 1.0, 0.3, 0.7, 0.5, 0.5])
    solution = np.append(z[:used], np.zeros(size - used))
    corners = 3.0 * np.array(list(itertools.product((0, 1), repeat=size)))  # where E h^2, convex in p, is largest
    squares = [
        np.mean((rows @ corners.T - limit) ** 2, axis=0) for rows, limit in zip((price, heard), limits, strict=True)
    ]
    return Solved.of_table(
        "power",
        Problem(f, h, Box(0.0, 3.0, shape=size)),
        {"gain": gain, "price": price, "heard": heard},
        x=solution,
        dual=z[used:],
        optimum=-float(np.log1p(gain * solution).sum(axis=1).mean()),
        slater=float(limits.min()),
        constants=Constants(
            D=3.0 * size**0.5,
            G_f=float(np.linalg.norm(gain.mean(axis=0))),  # without power, where every channel is worth most
            G_h=float(np.linalg.norm(costs, axis=1).max()),
            sigma_f=float(np.sqrt(np.mean(np.sum(gain**2, axis=1)))),
            sigma_h=float(np.sqrt(max(np.mean(np.sum(rows**2, axis=1)) for rows in (price, heard)))),
            sigma_lam=float(np.sqrt(np.max(squares))),
            L_f=float(np.sqrt(np.mean(gain.max(axis=1) ** 4))),
            L_h=0.0,
        ),
        noise="one of 500 states of the channels",
    )
