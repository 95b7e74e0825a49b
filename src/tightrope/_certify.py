"""The facade of certificates: what can be said of a point on rows that nothing was chosen on."""

import contextlib
import itertools
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tightrope._errors import one_of, plain_errors
from tightrope._minimize import minimize
from tightrope.certificate import Certificate
from tightrope.confidence.independence import LEAST_BLOCKS
from tightrope.confidence.means import ENOUGH, checked_confidence, studentised_upper
from tightrope.evidence.constraint_bounds import (
    Terms,
    bound_constraints,
    checked_accept,
    read_ranges,
    sampled,
    values_at,
)
from tightrope.evidence.held_out_rows import copies_said, marks_of, read_held_out, refuse_seen
from tightrope.evidence.stopping import CONVERGED
from tightrope.loop.choose import SECOND_COORDINATES
from tightrope.precision import handed_out, in_float64
from tightrope.problem import Problem, penalised
from tightrope.problem.problem import astype_problem, check_shapes, constraint_names
from tightrope.result import Result, whole
from tightrope.sampling import as_sampler
from tightrope.sampling.rows import count, kept, one_row
from tightrope.sets.base import checked_point
from tightrope.solvers import SQP, Bundle, NotFiniteLook, Solver
from tightrope.tree import Tree, astype, float_dtype, size_of

_SOLVERS: tuple[tuple[Solver, int], ...] = ((SQP(), 15), (Bundle(), 60))
"""Who looks for the minimum of a batch, and how many looks it may take: smooth functions take a few, kinks need cuts. The
numbers are a guess; where more would be needed the bound is wider, and not wrong."""


@plain_errors()
@in_float64
def certify(
    problem: Problem,
    point: Any,
    heldout: Any,
    confidence: float = 0.95,
    *,
    ranges: Any = None,
    accept: str = "proven",
    anytime: bool = False,
    data: Any = None,
    population_gap: bool = True,
) -> Certificate:
    """Say what is known of a point, with what confidence, by rows that nothing was chosen on.

    For each constraint an upper bound on E h_i(x, theta) - level_i. "Every constraint holds" has the confidence of one: the
    largest bound is above the largest expectation unless the bound of that one constraint fails.

    Args:
        problem: the problem.
        point: a `Result`, of which x is certified, or a point.
        heldout: independent draws of one law, that of the data, and independent of it. For a `Generator` 65,536 fresh
            samples are made. Rows that are also among those the result was made from are recognised and refused; where
            neighbouring rows are alike, or rows copies of each other, bounds are made wider and the certificate says so.
        confidence: of each bound alone, and of the sentence that all constraints hold.
        ranges: what is known of h for every possible sample, levels not subtracted: (low, high), or the set {a, b} of its
            only two values, for all constraints; or a dict of these by name, or a list. A bound from a range is proven at
            every number of rows. What follows from the program of h need not be given: that a comparison is 0 or 1,
            a clipped value within its ends. Without a range a bound is studentised and asymptotic: no rows can show that
            something rarer than they are is not there.
        accept: "asymptotic" to let `holds` be True by such bounds, too.
        anytime: bounds that may be looked at again and again while rows are added, until they hold; they need ranges,
            and are about twice as wide.
        data: the rows that a bare point was made from, so that they are recognised among the held-out ones.
        population_gap: whether to bound the optimality gap in expectation too, which looks for ten small minima. It needs a
            result with multipliers.

    Returns:
        A `Certificate`; `certificate.verdict` is one sentence and `print(certificate)` a report.

    Example:
        >>> import numpy as np, tightrope as tr
        >>> rng = np.random.default_rng(0)
        >>> problem = tr.Problem(
        ...     objective=lambda x, theta: ((x - theta) ** 2).sum() / 2,
        ...     constraints=lambda x, theta: (theta * x).sum()[None],
        ...     domain=tr.L2Ball(2.0, shape=2),
        ...     levels=1.0,
        ... )
        >>> train, heldout = rng.normal(1.0, 1.0, size=(2, 4000, 2))
        >>> certificate = tr.certify(problem, np.array([0.4, 0.4]), heldout)
        >>> certificate.holds, certificate.grade
        (False, 'asymptotic')
        >>> tr.certify(problem, np.array([0.4, 0.4]), heldout, accept="asymptotic").holds
        True
        >>> tr.certify(problem, np.array([0.4, 0.4]), heldout, ranges=(-10, 10)).holds  # proven, if they are the ranges
        True
        >>> tr.certify(problem, tr.minimize(problem, train), heldout, ranges=(-10, 10), population_gap=False).holds
        False
        >>> tr.minimize(problem, train, heldout=heldout, output="certified", ranges=(-10, 10)).certificate.holds
        True
    """
    if not isinstance(problem, Problem):
        raise TypeError(f"problem is a {type(problem).__name__}; expected a tightrope.Problem.")
    confidence = checked_confidence(confidence)
    one_of("certify", "population_gap", population_gap, (True, False))
    result = point if isinstance(point, Result) else None
    rows = read_held_out(heldout)
    seen = None if result is None else result.seen
    if data is not None:
        seen = marks_of(as_sampler(data).rows)
    if seen is not None:
        refuse_seen(seen, rows)
    x = _point(problem, point if result is None else result.x)
    n = check_shapes(problem, x, one_row(rows))
    problem = astype_problem(problem, float_dtype(x))
    names = constraint_names(problem, n)
    terms = Terms(names, read_ranges(ranges, names), confidence, checked_accept(accept), anytime)
    bounds = bound_constraints(problem, x, rows, terms)
    expected = None
    if population_gap and result is not None and not any(bound.kind in ("blocks", "alike") for bound in bounds):
        expected = _population_gap(problem, x, result.dual, kept(rows), confidence)
    notes = (
        () if seen is not None else ("nothing is known of the rows it was made from; they must not be among these.",)
    )
    notes += copies_said(rows)
    if problem.nested and n:
        notes += ("the constraints are functions of means; their bounds are by the delta method.",)
    return Certificate(
        x=handed_out(x),
        confidence=confidence,
        samples=count(rows),
        anytime=anytime,
        constraints=bounds,
        gap=None if result is None else result.gap,
        population_gap=expected,
        notes=notes,
    )


def _point(problem: Problem, given: Tree) -> Tree:
    """The point in a floating dtype, inside the domain."""
    domain = problem.domain
    x = checked_point("point", given, domain.shape)
    if not bool(domain.contains(x)):
        raise ValueError(f"point is outside the domain {domain.name}; expected one that the problem allows.")
    return astype(x, jnp.result_type(float))


def _lowest(problem: Problem, x: Tree, rows: Tree) -> float | None:
    """A lower bound on the objective's mean over rows; looks are taken only until more of them would not show in a mean of
    such bounds. None where there is none."""
    domain = problem.domain
    start = x if domain.shape is None else domain.start(float_dtype(x))  # at x itself F has too small a scale
    if not (domain.has_conic and domain.has_lmo) or size_of(x) > SECOND_COORDINATES:
        return whole(minimize(problem, rows, x0=start, record=0, progress=False)).lower
    rows, best = jax.tree.map(jnp.asarray, rows), -math.inf
    for solver, most in _SOLVERS:
        fitted = solver.fitted(problem, start, count(rows))
        looks = fitted.looks(problem, rows, fitted.start(start, np.zeros(0, float_dtype(x))))
        with contextlib.suppress(NotFiniteLook):  # where there is no curvature, second order has no step
            for look in itertools.islice(looks, most):
                best = max(best, look.lower - look.rounding)
                if look.gap <= CONVERGED * look.scale:  # nearer than means over batches are to each other
                    return best
    return best if math.isfinite(best) else None


def _population_gap(
    problem: Problem,
    x: Tree,
    dual: np.ndarray,
    rows: Tree,
    confidence: float,
    lowest: Callable[..., float | None] = _lowest,
) -> float | None:
    """An upper bound on F(x) - F* in expectation, from samples: batch means of a lower bound that samples make.

    For multipliers lam >= 0 fixed beforehand, E min_x L_B(x, lam) <= min_x E L_B(x, lam) <= F*, with L_B the Lagrangian
    averaged over a batch B: a minimum over fewer rows is lower in the mean (Mak, Morton & Wood 1999; the multipliers
    are there because constraints that are estimated too would break their inequality). So F_B(x) - min L_B(., lam) has
    a mean of at least F(x) - F*, and Student's bound on its mean over batches bounds the gap. Asymptotic: in the number
    of rows in a batch.

    One minimum over all rows, with Student's bound on differences of rows (Bayraksan & Morton 2006), is up to six times
    narrower and not sound: where functions have kinks, x and that minimum may be one point, and nothing varies
    (docs/certificates.md). None where multipliers, values or rows are missing; and of a nested problem, because a
    function of a batch's means is biased, and may well be above that of the means.
    """
    size = count(rows) // LEAST_BLOCKS
    if size < ENOUGH or problem.nested or not problem.knows_objective or not np.all(np.isfinite(dual)):
        return None
    lagrangian = penalised(sampled(problem), np.maximum(dual, 0))
    order = np.random.default_rng(0).permutation(count(rows))  # files are sorted
    f = values_at(sampled(problem), x, rows)[0]
    gaps = []
    for batch in order[: size * LEAST_BLOCKS].reshape(LEAST_BLOCKS, size):
        bound = lowest(lagrangian, x, jax.tree.map(lambda a, at=batch: a[at], rows))
        if bound is None:
            return None
        gaps.append(float(f[batch].mean()) - bound)
    return max(float(studentised_upper(gaps, confidence)), 0.0)
