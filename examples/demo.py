"""`make demo`: a classifier that keeps the 80 % rule, and a portfolio with a promise about its return.

First, whether somebody earns more than 50,000 dollars is predicted from the Adult census table, without and with the rule
that neither sex be selected at less than 80 % of the other's rate, and both are compared on held-out people.

Then, a portfolio from a stream of returns, checked against the exact answer: minimise the second moment of the return of
a portfolio over six assets, subject to an expected return of at least 0.09, when returns can only be sampled.
"""

import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import minimize as scipy_minimize

import tightrope as tr
from tightrope.datasets import load_adult
from tightrope.tables import fit_table

OUT = Path("out")

MEAN = np.array([0.02, 0.04, 0.06, 0.09, 0.12, 0.15])
SPREAD = np.array([0.02, 0.08, 0.12, 0.20, 0.28, 0.40])
COMMON = np.array([0.00, 0.03, 0.06, 0.10, 0.16, 0.20])  # exposure to a market that moves all of them
TARGET = 0.09
STEPS = 1_000_000


def returns(key):
    """One draw of the six returns."""
    market, own = jax.random.normal(key, (7,))[0], jax.random.normal(jax.random.fold_in(key, 1), (6,))
    return jnp.asarray(MEAN) + jnp.asarray(COMMON) * market + jnp.asarray(SPREAD) * own


def risk(x, r):
    """Second moment of the portfolio's return."""
    return jnp.dot(r, x) ** 2


def shortfall(x, r):
    """What is missing to the promised return."""
    return (TARGET - jnp.dot(r, x))[None]


def exact_answer() -> tuple[float, np.ndarray]:
    """The same problem with known moments, by SLSQP."""
    moment = np.outer(MEAN, MEAN) + np.outer(COMMON, COMMON) + np.diag(SPREAD**2)
    constraints = [
        {"type": "ineq", "fun": lambda x: MEAN @ x - TARGET},
        {"type": "eq", "fun": lambda x: x.sum() - 1},
    ]
    solution = scipy_minimize(
        lambda x: x @ moment @ x, np.full(6, 1 / 6), bounds=[(0, 1)] * 6, constraints=constraints, tol=1e-12
    )
    return float(solution.fun), solution.x


def fair_classification() -> None:
    """Fit to Adult, compare, draw the frontier."""
    print("A classifier on Adult that keeps the 80 % rule; the search for its threshold takes half a minute ...\n")
    began = time.perf_counter()
    fitted = fit_table(load_adult(), "income", ["sex"], p_rule=0.8, text="codes")
    print(fitted)
    fitted.model.classifier.plot_frontier(str(OUT / "frontier.png"), fitted.model.classifier.frontier_)
    print(f"\nThat took {time.perf_counter() - began:.0f} s. Accuracy against fairness: {OUT / 'frontier.png'}.\n")


def portfolio() -> None:
    """Check, solve, compare, draw."""
    print("A portfolio with a promise about its return. Is it the problem we meant?")
    problem = tr.Problem(risk, shortfall, tr.Simplex(shape=6), names=("return of at least 9 %",))
    samples = tr.Generator(returns)
    print(tr.check_problem(problem, samples), "\n")

    result = tr.minimize(problem, samples, steps=STEPS)
    print(result, "\n")

    value, x = exact_answer()
    moment = np.outer(MEAN, MEAN) + np.outer(COMMON, COMMON) + np.diag(SPREAD**2)
    ours = np.asarray(result.x, float)
    print(f"                    {'tightrope':>10} {'exact':>10}")
    known = 2 * np.sqrt((ours @ moment @ ours - (MEAN @ ours) ** 2) / STEPS)
    print(f"risk                {ours @ moment @ ours:>10.4f} {value:>10.4f}")
    print(f"expected return     {MEAN @ ours:>10.4f} {MEAN @ x:>10.4f}   (promised: {TARGET})")
    for i in range(6):
        print(f"share of asset {i + 1}    {ours[i]:>10.3f} {x[i]:>10.3f}")
    print(f"From {STEPS:,} samples the expected return is known to {known:.4f} (two standard errors).")

    result.plot(str(OUT / "demo.png"))
    print(f"\nThe picture of the run is in {OUT / 'demo.png'}.")


def main() -> None:
    """Show the classifier, then the portfolio; pictures go into `out`."""
    OUT.mkdir(exist_ok=True)
    fair_classification()
    portfolio()


if __name__ == "__main__":
    main()
