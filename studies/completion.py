"""What is claimed of structured completion, over instances of the paper's matrix: `python -m studies.completion`.

The first part takes the paper's nuclear norm and energy, nothing tuned. In the second the energy is half of what the
unconstrained solution has, so that the constraint binds; the optimum is then found by a batch method
(studies/dense_completion.py).
"""

import sys
from pathlib import Path

import jax
import numpy as np
import pandas as pd

import tightrope as tr
from studies.dense_completion import Dense
from studies.page import markdown
from tightrope.datasets import StructuredMatrix, structured_matrix
from tightrope.problems import structured_completion

CALLS = (10, 30, 300)
SEEDS = range(20)
BINDING = range(3)
PAGE = Path(__file__).parents[1] / "docs" / "completion.md"


def complete(given: StructuredMatrix, beta: float, steps: int) -> tr.Result:
    """A run with default coefficients, its last iterate made feasible."""
    made = structured_completion(given.entries, given.nuclear_norm, beta, shape=given.shape, empty="keep")
    return tr.minimize(*made, method=made.method, steps=steps, output="feasible", record=1, progress=False)


def papers_energy(seeds=SEEDS) -> pd.DataFrame:
    """A row per seed: errors after so many linear minimisations, and the worst violations seen."""
    rows = []
    for seed in seeds:
        given = structured_matrix(seed=seed)
        row: dict[str, float] = {"seed": seed}
        for steps in CALLS:
            result = complete(given, given.unobserved_energy, steps)
            row |= {f"error at {steps}": result.objective or 0.0, f"violation at {steps}": result.violation}
            row[f"mean energy at {steps}"] = result.trace["unobserved energy"].iloc[-1]
        rows.append(row)
        print(seed, row, flush=True)
    return pd.DataFrame(rows)


def half_energy(seeds=BINDING, steps: int = 300) -> pd.DataFrame:
    """A row per seed: the error with a constraint that binds, against the batch optimum."""
    rows = []
    for seed in seeds:
        given = structured_matrix(seed=seed)
        batch = Dense(given)
        beta = batch.energy(batch.minimise(0.0, np.zeros(given.shape), tol=1e-6)) / 2
        optimum = batch.optimum(beta)
        result = complete(given, beta, steps)
        X = np.asarray(result.x.dense())
        rows.append(
            {
                "seed": seed,
                "optimum": optimum.lower,
                "error": batch.error(X),
                "excess": batch.error(X) / optimum.lower - 1,
                "energy": batch.energy(X) / beta - 1,
                "mean energy": result.trace["unobserved energy"].iloc[-1],
                "multiplier": float(result.dual_last[0]),
                "batch multiplier": optimum.multiplier,
            }
        )
        print(seed, rows[-1], flush=True)
    return pd.DataFrame(rows)


def page(first: pd.DataFrame, second: pd.DataFrame) -> str:
    """The page docs/completion.md."""
    rows = []
    for steps in CALLS:
        error, violation, mean = (first[f"{name} at {steps}"] for name in ("error", "violation", "mean energy"))
        rows.append(
            (steps, f"{error.median():.2e}", f"{error.max():.2e}", f"{violation.max():.1e}", f"{mean.max():+.4f}")
        )
    apart = (second.multiplier / second["batch multiplier"] - 1).abs()
    lines = [
        "# Structured completion, measured",
        "",
        f"Made by `python -m studies.completion`: {len(first)} instances of the paper's 200 x 300 matrix, CFW-CSOA with its "
        "defaults, X held factored at rank 64, the last iterate made feasible.",
        "",
        "## The paper's nuclear norm and energy",
        "",
        *markdown(
            (
                "linear minimisations",
                "normalised error, median",
                "largest",
                "violation, largest",
                "mean H along the run, largest",
            ),
            rows,
        ),
        "",
        "## Half the energy of the unconstrained solution",
        "",
        f"300 linear minimisations; instances: {len(second)}. The optimum is that of a batch method in NumPy (accelerated "
        "projected gradient, full decompositions, bisection over the multiplier).",
        "",
        *markdown(
            ("", "median", "largest"),
            (
                (name, form.format(values.median()), form.format(values.max()))
                for name, form, values in (
                    ("optimal normalised error", "{:.5f}", second.optimum),
                    ("error above the optimum", "{:.3f} %", 100 * second.excess),
                    ("energy of the output / bound - 1", "{:+.2e}", second.energy),
                    ("mean energy along the run / bound - 1", "{:+.4f}", second["mean energy"]),
                    ("multiplier, ours against the batch method's", "{:.2e}", apart),
                )
            ),
        ),
        "",
    ]
    return "\n".join(lines)


def main() -> None:
    """Run both parts and write the page; two numbers on the command line say how many instances of each."""
    first, second = (range(int(k)) for k in sys.argv[1:3]) if len(sys.argv) > 2 else (SEEDS, BINDING)
    with jax.enable_x64(True):
        text = page(papers_energy(first), half_energy(second))
    PAGE.write_text(text)
    print(text)


if __name__ == "__main__":
    main()
