"""The optimality gap in expectation, from samples: one minimum over held-out rows, and Student's bound on differences.

For multipliers lam >= 0 fixed beforehand, min E L(., lam) <= F*, with L the Lagrangian of a row. Let y* be where that
minimum is, n the held-out rows, and L_n the mean over them. Then F_n(x) - min L_n >= F_n(x) - L_n(y*), and the mean of the
right side is at least F(x) - F*: a minimum over rows errs on the safe side, at every n (Mak, Morton & Wood 1999; the
multipliers are there because constraints that are estimated too would break their inequality). What is asymptotic is the
spread, as n grows: Student's bound would be right with the differences D(y) = f(x, .) - L(y, .) at y*, and only y_n is
known, where L_n is least (Bayraksan & Morton 2006).

Near an optimum inside of the domain that spread fades as y_n happens to come close to x, when the bound is needed most:
with the spread at y_n alone, 16 of 100 bounds at 95 % are false where x is 1.5 standard errors from y*. So the bound is the
largest of mean + spread over y on the ray from x through y_n and beyond, with L_n taken for quadratic along it: at y*
itself it would be Student's.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from tightrope.confidence import studentised_upper
from tightrope.evidence.constraint_bounds import sampled, values_at
from tightrope.problem import Problem, penalised
from tightrope.problem.rounding import count
from tightrope.tree import Tree

_LEAST = 200  # rows, of which a mean is taken for normal
_ALONG = np.append(
    1.0, 1 + np.geomspace(1 / 16, 32, 28)
)  # places on the ray: 0 is x, 1 is y_n; 32 standard errors beyond


def population_gap(
    problem: Problem, x: Tree, dual: np.ndarray, rows: Tree, confidence: float, solve: Callable[..., Any]
) -> float | None:
    """An upper bound on F(x) - F* in expectation; None where multipliers, values or rows are missing.

    None of a nested problem, too: a function of the rows' means is biased, and may well be above that of the true means.

    Args:
        problem, x: what the gap is of.
        dual: multipliers that were not made from these rows.
        rows: held-out rows.
        confidence: of the bound.
        solve: `minimize`, which is called once.
    """
    if count(rows) < _LEAST or problem.nested or not problem.knows_objective or not np.all(np.isfinite(dual)):
        return None
    problem, dual = sampled(problem), np.maximum(dual, 0)
    start = x if problem.domain.shape is None else None  # at x itself a gap would be judged by too small a scale
    least = solve(penalised(problem, dual), rows, x0=start, record=0, progress=False)
    if least.lower is None:
        return None
    (f, h), (f_least, h_least) = values_at(problem, x, rows), values_at(problem, least.x, rows)
    above, there = f + h @ dual, f_least + h_least @ dual
    return _largest_along(-h @ dual, above - there, max(float(above.mean()) - least.lower, 0.0), confidence)


def _largest_along(at_x: np.ndarray, to_least: np.ndarray, drop: float, confidence: float) -> float:
    """The largest upper bound on the mean of D along the ray.

    Args:
        at_x: D at x, of each row: minus what the constraints add to the Lagrangian.
        to_least: by how much the Lagrangian of each row is smaller at y_n than at x.
        drop: by how much its mean over the rows is smaller at the most, anywhere.
        confidence: of the bound.
    """
    differences = at_x[:, None] + to_least[:, None] * _ALONG
    spread = studentised_upper(differences, confidence) - differences.mean(axis=0)
    means = at_x.mean() + drop * (2 - _ALONG) * _ALONG
    return max(float(np.max(means + spread)), 0.0)
