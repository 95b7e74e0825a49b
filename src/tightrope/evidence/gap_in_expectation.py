"""The optimality gap in expectation, from samples: batch means of a lower bound that samples make.

For multipliers lam >= 0 fixed beforehand, E min_x L_B(x, lam) <= min_x E L_B(x, lam) <= F*, with L_B the Lagrangian averaged
over a batch B: a minimum over fewer rows is lower in the mean (Mak, Morton & Wood 1999; the multipliers are there because
constraints that are estimated too would break their inequality). So F_B(x) - min L_B(., lam) has a mean of at least
F(x) - F*, and Student's bound on its mean over batches bounds the gap. Asymptotic: in the number of rows in a batch.

One minimum over all rows, with Student's bound on differences of rows (Bayraksan & Morton 2006), is up to six times
narrower and not sound: where functions have kinks, x and that minimum may be one point, and nothing varies.
docs/certificates.md has how often it was false.
"""

from collections.abc import Callable

import jax
import numpy as np

from tightrope.confidence import studentised_upper
from tightrope.evidence.constraint_bounds import sampled, values_at
from tightrope.problem import Problem, penalised
from tightrope.problem.rounding import count
from tightrope.tree import Tree

_BATCHES = 10
_LEAST = 20  # rows in a batch


def population_gap(
    problem: Problem,
    x: Tree,
    dual: np.ndarray,
    rows: Tree,
    confidence: float,
    lowest: Callable[[Problem, Tree, Tree], float | None],
) -> float | None:
    """An upper bound on F(x) - F* in expectation; None where multipliers, values or rows are missing.

    None of a nested problem, too: a function of a batch's means is biased, and may well be above that of the means.

    Args:
        problem, x: what the gap is of.
        dual: multipliers that were not made from these rows.
        rows: held-out rows.
        confidence: of the bound.
        lowest: a lower bound on the objective's mean over rows, of a problem without constraints, given a point to begin
            at; None where there is none.
    """
    size = count(rows) // _BATCHES
    if size < _LEAST or problem.nested or not problem.knows_objective or not np.all(np.isfinite(dual)):
        return None
    lagrangian = penalised(sampled(problem), np.maximum(dual, 0))
    order = np.random.default_rng(0).permutation(count(rows))  # files are sorted
    f = values_at(sampled(problem), x, rows)[0]
    gaps = []
    for batch in order[: size * _BATCHES].reshape(_BATCHES, size):
        bound = lowest(lagrangian, x, jax.tree.map(lambda a, at=batch: a[at], rows))
        if bound is None:
            return None
        gaps.append(float(f[batch].mean()) - bound)
    return max(float(studentised_upper(gaps, confidence)), 0.0)
