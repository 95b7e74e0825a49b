"""Whether a run swings instead of settling: a constraint that is now violated, now slack, and its multiplier with it.

Descent in x and ascent in lambda turn around a saddle point. Curvature damps that; without it nothing does, and the mean of
such a run rests on its swings. They are told from noise by two signs in the second half of the run, looked at between the
rows of its trace: the means of h_i alternate, above zero and below it by five standard errors each time, and those of
lambda_i alternate, a quarter of their mean above it and below it. Noise alone makes multipliers wander, but not h; a slack
constraint has neither.
"""

from typing import TYPE_CHECKING

import numpy as np

from tightrope.evidence.at_a_point import Worth
from tightrope.problem.conflict import SURE
from tightrope.problem.rounding import count

if TYPE_CHECKING:
    import pandas as pd

_SWINGS = 4  # turns that a run has to show: there and back, twice; by hand
_AWAY = 0.25  # of its mean that a multiplier goes up and down, at least; by hand


def oscillation_note(
    trace: "pd.DataFrame", names: list[str], worth: Worth, batch_size: int, measures: bool
) -> str | None:
    """A sentence where constraints of a run on samples of a generator or a stream swing; None where they do not, or where
    nothing is known.

    Args:
        trace, names, worth, batch_size: of the run, the names of its constraints.
        measures: whether it has measured its own steps.
    """
    if worth.samples is None:
        return None
    late = trace[trace["step"] >= trace["step"].max() / 2] if len(trace) else trace
    if len(late) <= _SWINGS + 1:  # too few rows to see them between
        return None
    samples = np.diff(late["step"]) * batch_size
    noise = worth.errors / 2 * np.sqrt(count(worth.samples))
    found = []
    for name, sigma in zip(names, noise, strict=True):
        h, lam = _between(late, name), _between(late, f"dual {name}")
        sure, middle = SURE * sigma / np.sqrt(samples), float(np.mean(lam))
        times = _alternations(h, -sure, sure)
        if min(times, _alternations(lam, (1 - _AWAY) * middle, (1 + _AWAY) * middle)) >= _SWINGS:
            found.append(
                f"{name} swings instead of settling: in the second half of the run it went {times} times from above to "
                f"below zero or back, between {h.max():.2g} and {h.min():.2g}, and its multiplier between "
                f"{lam.max():.2g} and {lam.min():.2g}"
            )
    if not found:
        return None
    remedy = (
        "more samples a step (batch_size)" if measures else "smaller steps, or none given: defaults measure their own"
    )
    return f"{'; '.join(found)}. The output is a mean over such swings. Try {remedy}."


def _between(trace: "pd.DataFrame", column: str) -> np.ndarray:
    """The means of a column between the rows, of which the trace has running means."""
    weight = trace["weight"].to_numpy(float)
    return np.diff(weight * trace[column].to_numpy(float)) / np.diff(weight)


def _alternations(values: np.ndarray, low: np.ndarray | float, high: np.ndarray | float) -> int:
    """How often values go from above `high` to below `low` or back; what is between counts for neither.

    Example:
        >>> import numpy as np
        >>> _alternations(np.array([2.0, 0.5, -2.0, 0.5, -3.0, 4.0]), -1.0, 1.0)
        2
    """
    side = np.where(values > high, 1, np.where(values < low, -1, 0))
    return int(np.count_nonzero(np.diff(side[side != 0])))
