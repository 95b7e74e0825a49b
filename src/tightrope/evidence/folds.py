"""What folds of its own samples say of a fit: five times it is made without a fifth of them, and judged by that fifth.

With x the solution on T samples, H_T its mean of h over them and H the expectation, H_T(x) is too low on average by c/T: x
was made of these very samples. The solution x_k without fold k knows nothing of that fold. The mean over folds of
H_k(x_k) - H_{-k}(x_k), where H_k is the mean over the fold and H_{-k} that over the rest, measures the same: the first-order
noise of H cancels between folds, and what is left has expectation 5/4 c/T (docs/theory.md).
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tightrope._jaxlib import compiled
from tightrope.confidence.independence import LEAST_BLOCKS
from tightrope.confidence.means import johnsons_term
from tightrope.evidence.at_a_point import Along, Worth, along
from tightrope.problem import Problem
from tightrope.problem.full_data import full_mean
from tightrope.result import Status
from tightrope.sampling.kept import Part
from tightrope.sampling.rows import KEPT_ROWS
from tightrope.tree import Array, Tree

FOLDS = 5  # measured in a prototype: with two the margin overshoots where noise is large; more of them cost more
# Times the optimism, by which levels are lowered; to first order 1 would do (docs/theory.md).
COVER = FOLDS / (FOLDS - 1)
OVERFIT = 0.1  # of what a fit gains on its own samples: with more optimism shorter ways are judged, too (a guess)
ABOVE = 1.0  # standard errors of a constraint above its level, in spite of the margin: the same is done (a guess)


class Seen(NamedTuple):
    """Means of f and of every h_i over some samples at a point, and the spread of single values."""

    mean: np.ndarray  # (1 + N,) F and H
    spread: np.ndarray  # (1 + N,) standard deviations

    @property
    def f(self) -> float:
        """The mean of f."""
        return float(self.mean[0])

    @property
    def h(self) -> np.ndarray:
        """The means of h, minus levels."""
        return self.mean[1:]


def seen_at(problem: Problem, x: Tree, samples: Part) -> Seen:
    """One pass over the samples."""
    found = np.asarray(_moments(problem, x, samples), float)
    mean, square = found
    return Seen(mean, np.sqrt(np.maximum(square, 0.0)))


@compiled(soon=True)
def _moments(problem: Problem, x: Tree, samples: Part) -> Array:
    """Means, and variances: of differences from the first sample's values, which lose no digits."""

    def values(theta: Tree) -> Array:
        f, h = problem.sample_values(x, theta)
        return jnp.append(jnp.asarray(f, h.dtype), h)

    first = values(jax.tree.map(lambda a: a[0], samples.take(0, 1)))

    def powers(theta: Tree) -> tuple[Array, Array]:
        away = values(theta) - first
        return away, away**2

    mean, square = full_mean(powers, samples)
    return jnp.stack([first + mean, square - mean**2])


def edges(n: int) -> np.ndarray:
    """Where folds of n samples begin and end: stretches of neighbours, so that those that are alike are in one of them."""
    return np.linspace(0, n, FOLDS + 1).astype(int)


class Folds(NamedTuple):
    """Solutions without a fold each, and what both sides say of them."""

    points: tuple[Tree, ...]
    inside: tuple[Seen, ...]  # by the samples that made them ...
    outside: tuple[Seen, ...]  # ... and by the fold that did not
    n: int  # samples altogether

    @property
    def optimism(self) -> np.ndarray:
        """(1 + N,) by how much means over its own samples are too low at a solution of all of them."""
        return (1 - 1 / FOLDS) * np.mean(
            [o.mean - i.mean for o, i in zip(self.outside, self.inside, strict=True)], axis=0
        )

    @property
    def mean(self) -> np.ndarray:
        """(1 + N,) F and H of these solutions, by samples that did not make them."""
        return np.mean([o.mean for o in self.outside], axis=0)

    @property
    def error(self) -> np.ndarray:
        """(1 + N,) a standard error of these."""
        return np.sqrt(np.mean([o.spread**2 for o in self.outside], axis=0) / max(self.n - 1, 1))

    def distance(self, lam: np.ndarray) -> float:
        """About how far F is above its optimum at a solution of all samples with multipliers lam: half of the Lagrangian's
        optimism, which is as much above the optimum as the mean over its own samples is below, and what its slack costs."""
        half = float(self.optimism @ np.append(1.0, lam)) / 2
        return max(half, 0.0) + float(lam @ np.maximum(-self.mean[1:], 0.0))


def cross_fitted(problem: Problem, samples: Part, solve: Callable[[Part, int], Tree | None]) -> Folds | None:
    """Solve without the k-th fold, for every k, and judge by it; None where `solve` gives up."""
    ends, points = edges(samples.n), []
    for k in range(FOLDS):
        x = solve(samples.without(int(ends[k]), int(ends[k + 1] - ends[k])), k)
        if x is None:
            return None
        points.append(x)
    return judged(problem, samples, points)


def judged(problem: Problem, samples: Part, points: Sequence[Tree]) -> Folds:
    """Points that were made without a fold each, as both sides see them."""
    ends, inside, outside = edges(samples.n), [], []
    for k, x in enumerate(points):
        begin, count = int(ends[k]), int(ends[k + 1] - ends[k])
        inside.append(seen_at(problem, x, samples.without(begin, count)))
        outside.append(seen_at(problem, x, samples.only(begin, count)))
    return Folds(tuple(points), tuple(inside), tuple(outside), samples.n)


def of_all(seen: Seen, optimism: np.ndarray, n: int) -> Folds:
    """What folds would say of n samples, by their means at the solution and by how much these are too low."""
    return Folds((), (seen,), (Seen(seen.mean + COVER * optimism, seen.spread),), n)


# ---- the margin ------------------------------------------------------------------------------------------------------


def along_the_last(problem: Problem, x: Tree, samples: Part) -> tuple[Along, Tree]:
    """A look at the order of the samples, by the last of them, and these."""
    last = samples.only(max(0, samples.n - KEPT_ROWS), min(samples.n, KEPT_ROWS)).few()
    return along(problem, x, last)[1], last


def lowered_by(folds: Folds, keep: str | float, lam: np.ndarray, order: Along) -> np.ndarray:
    """By how much to lower each level so that E H <= 0 at the solution or, with a probability, that H <= 0 there.

    A probability is shared among the constraints with a multiplier, one at least: what is slack has room of its own.
    """
    margin = COVER * folds.optimism[1:]
    if keep != "expectation":
        binding = max(1, int(np.count_nonzero(lam > 0)))
        margin = margin + quantile(1 - (1 - float(keep)) / binding, order)[1:] * folds.error[1:]
    return np.maximum(margin, 0.0)


def quantile(confidence: float, order: Along) -> np.ndarray:
    """(1 + N,) standard errors of independent samples that an upper bound adds to a mean; 0 where no error is known.

    Student's, where neighbours are alike and an error is told by some blocks of them, with Johnson's (1978) term for values
    that are skewed to the right, of which samples without a rare event know too little.
    """
    from scipy.special import stdtrit  # a third of a second, for those who ask for a probability

    known = np.isfinite(order.inflation)
    inflation = np.where(known, order.inflation, 1.0)
    t = stdtrit(np.where(inflation > 1, LEAST_BLOCKS - 1, np.inf), confidence)
    return np.where(known, (t + johnsons_term(order.skewness, t, order.n / inflation)) * np.sqrt(inflation), 0.0)


# ---- the way there ---------------------------------------------------------------------------------------------------


def enough(folds: Folds, start: Seen, here: Seen, lam: np.ndarray) -> bool:
    """Whether there are enough samples to go all the way to their solution: a fit gains far more on its own samples than it
    is too sure of itself, keeps its constraints, and is better than a start that keeps them."""
    weights = np.append(1.0, lam)
    gained, optimism = float((start.mean - here.mean) @ weights), float(folds.optimism @ weights)
    better = folds.mean[0] < start.f or bool(np.any(start.h > 0))
    return better and optimism <= OVERFIT * gained and bool(np.all(folds.mean[1:] <= ABOVE * folds.error[1:]))


def path_choice(problem: Problem, samples: Part, folds: Folds, start: Tree) -> tuple[float, Folds]:
    """The share of the way from the start to the solution at which folds are best, and what they say there.

    Where there are too few samples for so many coordinates the best point that keeps its constraints lies on the way, or
    where it begins. So it does where samples are all zero on a whole region, which leaves its points open: of shares that
    are equal to folds the least is taken, because of the start it is known what it loses.
    """
    found = []
    for share in np.arange(8) / 8:  # eighths of the way: a guess
        points = [problem.domain.mix(start, x, share) for x in folds.points]
        found.append((float(share), judged(problem, samples, points)))
    found.append((1.0, folds))
    keeps = [(share, f) for share, f in found if np.all(f.mean[1:] <= ABOVE * f.error[1:])]
    if keeps:
        return min(keeps, key=lambda one: one[1].mean[0])
    return min(found, key=lambda one: float(np.max(one[1].mean[1:] / np.maximum(one[1].error[1:], 1e-300))))


# ---- the verdict -----------------------------------------------------------------------------------------------------


def worth_by(folds: Folds, order: Along, last: Tree, which: str = "half") -> Worth:
    """Objective and constraints at the answer, with two standard errors: those of folds, at solutions without them, or means
    over all samples, corrected by folds of some. Where neighbouring samples are alike there are fewer of them than it seems,
    and the errors count that."""
    error, mean = 2 * order.widened(folds.error), folds.mean
    how = f"in {FOLDS} folds, each at the solution without it" if folds.points else (
        f"as folds of the {which} of them show these means to be too low"
    )  # fmt: skip
    said = f"{folds.n:,} samples {how}, with two standard errors"
    return Worth(float(mean[0]), mean[1:], float(error[0]), error[1:], said, True, last, True, order.note)


def verdict(
    worth: Worth, folds: Folds, lam: np.ndarray, share: float, keep: str | float, order: Along
) -> tuple[Status, str]:
    """How a run on kept samples ends, by folds that did not make the point."""
    said = f"By folds of its samples the objective is about {folds.distance(lam):.2g} above its optimum."
    if share == 0:
        said = "The samples are too few to tell a better point than the start, which is what is returned."
    elif share < 1:
        said = (
            f"The samples are few for so many coordinates: {100 * share:.3g} % of the way from the start to their solution "
            "is the best that folds of them tell."
        )
    if not len(worth.constraints):
        return Status.FINISHED, said
    if keep != "expectation" and not np.all(np.isfinite(order.inflation[1:])):
        said += (
            f" Constraints are not known to be kept with probability {keep:.4g}: too few of the samples are independent, or "
            "too few of them rare events that decide a mean, for an error to be known."
        )
    if np.any(worth.constraints > worth.errors):
        return Status.VIOLATED, said
    return (Status.KEPT if np.all(worth.constraints <= -worth.errors) else Status.UNDECIDED), said
