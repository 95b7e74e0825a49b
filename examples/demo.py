"""`make demo`: a portfolio with a promise about its return, and a classifier that keeps the 80 % rule.

First, a portfolio from a stream of returns: minimise the second moment of the return over six assets, subject to an expected
return of at least 7 %, when returns can only be sampled. The picture shows a run that keeps the promise from its first step
to its last, beside one that was not told of it, and the answer is checked against the exact one.

Then, whether somebody earns more than 50,000 dollars is predicted from the Adult census table, without and with the rule
that neither sex be selected at less than 80 % of the other's rate, and both are compared on held-out people.
"""

import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure
from scipy.optimize import minimize as scipy_minimize

import tightrope as tr
from tightrope.datasets import load_adult
from tightrope.learn.tables import fit_table

OUT = Path("out")

MEAN = np.array([0.02, 0.04, 0.06, 0.09, 0.12, 0.15])
SPREAD = np.array([0.02, 0.08, 0.12, 0.20, 0.28, 0.40])
COMMON = np.array([0.00, 0.03, 0.06, 0.10, 0.16, 0.20])  # exposure to a market that moves all of them
MOMENT = np.outer(MEAN, MEAN) + np.outer(COMMON, COMMON) + np.diag(SPREAD**2)
TARGET = 0.07
STEPS = 400_000
START = np.array([0, 0, 0, 0, 0.5, 0.5], np.float32)  # far too risky, but it keeps the promise


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
    constraints = [
        {"type": "ineq", "fun": lambda x: MEAN @ x - TARGET},
        {"type": "eq", "fun": lambda x: x.sum() - 1},
    ]
    solution = scipy_minimize(
        lambda x: x @ MOMENT @ x, np.full(6, 1 / 6), bounds=[(0, 1)] * 6, constraints=constraints, tol=1e-12
    )
    return float(solution.fun), solution.x


def truth(x):
    """What a run cannot see: its point's true risk, and what is missing to the promised return in truth."""
    return {"risk": x @ jnp.asarray(MOMENT) @ x, "missing": TARGET - jnp.asarray(MEAN) @ x}


def portfolio() -> None:
    """Check, solve with and without the promise, draw, compare."""
    print("A portfolio with a promise about its return. Is it the problem we meant?")
    problem = tr.Problem(risk, shortfall, tr.Simplex(shape=6), names=("return of at least 7 %",))
    samples = tr.Generator(returns)
    print(tr.check_problem(problem, samples), "\n")

    # The steps of the paper, for which keeping the promise is a theorem; without coefficients it is a measured rule.
    method = tr.CSOA(eta0=3.0, upsilon0=0.3, dual_scale=5.0)
    result = tr.minimize(problem, samples, method=method, steps=STEPS, x0=START, track=truth)
    print(result, "\n")
    fit = tr.minimize(problem, samples, steps=STEPS, x0=START)  # what "auto" does: the samples are kept and solved on
    not_told = tr.Problem(risk, None, tr.Simplex(shape=6))
    other = tr.minimize(not_told, samples, method=method, steps=STEPS, x0=START, track=truth)

    _, x = exact_answer()
    draw_runs(result, other, float(x @ MOMENT @ x))
    print(f"A run that stays feasible, beside one that was not told of the promise: {OUT / 'demo.png'}.\n")
    points = np.asarray(result.x, float), np.asarray(fit.x, float), x
    print("The same samples seen once each by CSOA, or kept and solved on, beside the exact answer:")
    print(f"                    {'CSOA':>10} {'fit':>10} {'exact':>10}")
    print("risk                " + " ".join(f"{v @ MOMENT @ v:>10.4f}" for v in points))
    print("expected return     " + " ".join(f"{MEAN @ v:>10.4f}" for v in points) + f"   (promised: {TARGET})")
    for i in range(6):
        print(f"share of asset {i + 1}    " + " ".join(f"{v[i]:>10.3f}" for v in points))
    print(f"{fit.status.name.lower()}: {fit.message}")
    print()


def draw_runs(result: tr.Result, other: tr.Result, best: float) -> None:
    """True risk and true shortfall, as means over the run so far, of a run with the promise and of one without it."""
    figure = Figure(figsize=(11, 4.2), layout="constrained", dpi=150)
    left, right = figure.subplots(1, 2)
    for run, colour, label in ((result, "#0072B2", "told of the promise"), (other, "#D55E00", "not told")):
        left.plot(run.trace["samples"], run.trace["risk"], color=colour, label=label)
        right.plot(run.trace["samples"], run.trace["missing"], color=colour, label=label)
    left.axhline(best, color="black", linestyle="--", linewidth=1, label="least possible with the promise")
    right.axhline(0, color="black", linewidth=1)
    low, high = right.get_ylim()
    right.axhspan(0, high, color="#D55E00", alpha=0.08, linewidth=0)
    right.text(1.2, high - 0.06 * (high - low), "promise broken", color="#A04000")
    right.set_ylim(low, high)
    left.set_title("risk, mean over the run so far", loc="left")
    right.set_title("what is missing to the promised return: at most zero", loc="left")
    left.set_yscale("log")
    for axis in (left, right):
        axis.set(xscale="log", xlabel="samples")
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(True, alpha=0.25, linewidth=0.6)
    left.legend(frameon=False)
    figure.savefig(OUT / "demo.png")


def fair_classification() -> None:
    """Fit to Adult, compare, draw the frontier."""
    print("A classifier on Adult that keeps the 80 % rule; the search for its threshold takes some seconds ...\n")
    began = time.perf_counter()
    fitted = fit_table(load_adult(), "income", ["sex"], p_rule=0.8, text="codes")
    print(fitted)
    fitted.model.classifier.plot_frontier(str(OUT / "frontier.png"), fitted.model.classifier.frontier_)
    print(f"\nThat took {time.perf_counter() - began:.0f} s. Accuracy against fairness: {OUT / 'frontier.png'}.\n")


def main() -> None:
    """Show the portfolio, then the classifier; pictures go into `out`."""
    OUT.mkdir(exist_ok=True)
    portfolio()
    fair_classification()


if __name__ == "__main__":
    main()
