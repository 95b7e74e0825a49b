"""What a point is worth, in float64 and in no units.

The gap F(x) - F* is divided by the scale of F: the largest |F - F*| at the domain's starting point and at the point of the
largest Slater margin. These are what one has before optimising, so a gap of 1 is no progress, and neither a unit nor a
constant added to F changes it. (|F*| would not do: a constant changes it, and it can be zero.) The violation of H_i is
divided by how far H_i ranges over the domain (`Stranger.h_scales`). "No violation" allows for rounding in float64 alone.
"""

from typing import Any, NamedTuple

import numpy as np

import tightrope as tr
from studies.strangers.generate import Stranger
from studies.strangers.reference import Reference

ROUNDING = 1e-12  # of the size of what is summed
INFEASIBLE = {"INFEASIBLE", "INFEASIBLE_IN_SAMPLES"}  # names of statuses that say so, with a proof or a test
NOT_CONVERGED = {
    "NOT_CONVERGED",
    "STALLED",
    "NO_FEASIBLE_POINT",
}  # names of statuses that say that the answer is not good yet


class Verdict(NamedTuple):
    """What a point is worth; without a feasible point the gaps are NaN."""

    gap: float  # (F(x) - F*) / scale of F; negative where constraints are violated for it
    violation: float  # max_i [H_i(x)]_+ / scale of h_i
    violated: bool  # beyond rounding
    pulled_gap: float  # that of x pulled to feasibility towards the reference's Slater point
    inside: bool  # whether x is in the domain


def judge(one: Stranger, reference: Reference, x: Any) -> Verdict:
    """The verdict on a point in the user's units."""
    v, model = one.natural(x), one.model
    if not np.all(np.isfinite(v)):
        return Verdict(np.nan, np.inf, True, np.nan, False)
    rows = model.rows(v)
    F, H = rows[:, 0].mean(), rows[:, 1:].mean(axis=0)
    sizes = np.abs(rows[:, 1:]).mean(axis=0) + np.abs(model.levels) + one.h_scales
    violation = float(np.max(np.maximum(H, 0.0) / one.h_scales))
    inside = bool(model.domain.contains(v))
    gap = pulled = np.nan
    if one.feasible:
        gap = float((F - reference.optimum) / reference.f_scale)
        pulled = pulled_gap(one, reference, v)
    return Verdict(gap, violation, bool(np.any(ROUNDING * sizes < H)), pulled, inside)


def pulled_gap(one: Stranger, reference: Reference, v: np.ndarray) -> float:
    """The gap of a point in natural units, pulled to feasibility, in scales of F."""
    there = one.model.pulled(v, reference.inner, rtol=1e-2)
    return float((one.model.means(there)[0] - reference.optimum) / reference.f_scale)


def says_infeasible(result: tr.Result) -> bool:
    """Whether the status says that no point is feasible."""
    return result.status.name in INFEASIBLE


def says_not_converged(result: tr.Result) -> bool:
    """Whether the status says that the answer is not good yet."""
    return result.status.name in NOT_CONVERGED


def recognisable(one: Stranger, reference: Reference, samples: int) -> bool:
    """Whether the least violation is five standard errors of what that many samples can tell.

    The proof of infeasibility is a mixture of the constraints that is positive everywhere; its samples are what is noisy.
    """
    mixed = (one.model.rows(reference.x)[:, 1:] / one.h_scales) @ reference.dual
    return bool(one.least_violation >= 5 * mixed.std() / np.sqrt(samples))
