"""A point that is watched while samples pass: bounds on its constraints that hold at all times together."""

from typing import NamedTuple

import jax
import numpy as np

from tightrope.certificate import Certificate, ConstraintBound
from tightrope.confidence import Anytime, serial_dependence
from tightrope.evidence.constraint_bounds import Ranges, refuse_nested, rows_needed, sampled, values_at
from tightrope.evidence.held_out_rows import codes_of
from tightrope.problem import Problem
from tightrope.problem.rounding import UNITS, count
from tightrope.sampling.stream import MOST_KEPT
from tightrope.tree import Tree, eps_of


class Watch(NamedTuple):
    """A fixed point, and what has passed since it was fixed."""

    x: Tree
    number: int  # of the points a run has watched, this one included
    confidence: float  # that no certificate of any of them is ever wrong
    levels: np.ndarray
    seen: Anytime
    recent: np.ndarray  # of the latest samples: the values of h and, in the last column, which are equal

    @classmethod
    def begin(
        cls, problem: Problem, x: Tree, names: list[str], ranges: Ranges, confidence: float, number: int
    ) -> "Watch":
        """Nothing has passed yet."""
        refuse_nested(problem, "a point is to be watched at all times")
        lacking = [name for name, known in zip(names, ranges, strict=True) if known is None]
        if lacking:
            raise ValueError(
                f"certify: a bound for all times on {lacking[0]} needs the range of h for every possible sample; give it as "
                "ranges=(low, high)."
            )
        low, high = np.array([(known.low, known.high) for known in ranges if known], float).reshape(-1, 2).T
        levels = np.broadcast_to(np.asarray(problem.levels, float), (len(names),))
        return cls(x, number, confidence, levels, Anytime.start(low, high), np.empty((0, 0)))

    def after(self, problem: Problem, rows: Tree) -> "Watch":
        """With these samples too, which were not there when the point was fixed."""
        n = count(rows)
        length = 1 << (n - 1).bit_length()  # few shapes, few programs
        filled = jax.tree.map(lambda a: np.concatenate([a, np.repeat(a[:1], length - n, axis=0)]), rows)
        h = values_at(sampled(problem), self.x, filled)[1][:n] + self.levels
        low, high = self.seen.low, self.seen.high
        slack = UNITS * eps_of(self.x) * (np.abs(low) + np.abs(high) + np.abs(self.levels))
        h = np.where((h < low) & (h >= low - slack), low, np.where((h > high) & (h <= high + slack), high, h))
        latest = np.column_stack([h, codes_of(rows)])
        recent = np.concatenate([self.recent, latest])[-MOST_KEPT:] if len(self.recent) else latest[-MOST_KEPT:]
        return self._replace(seen=self.seen.add(h), recent=recent)

    def certificate(self, names: list[str]) -> Certificate:
        """What is known by now. Confidence is spent on one point after the other, 1/(k (k + 1)) of the error on the k-th."""
        spent = (1 - self.confidence) / (self.number * (self.number + 1))
        upper, mean = self.seen.upper(1 - spent) - self.levels, self.seen.mean - self.levels
        n = self.seen.n
        alike = serial_dependence(self.recent) if len(self.recent) else None
        if alike is not None and alike.found:
            most = float(alike.inflation.max())
            bounds = [ConstraintBound(names[i], float(m), np.inf, "alike", inflation=most) for i, m in enumerate(mean)]
        else:
            bounds = [
                ConstraintBound(name, float(m), float(u), "range", rows_needed(float(m), float(u), n))
                for name, m, u in zip(names, mean, upper, strict=True)
            ]
        return Certificate(self.x, self.confidence, n, True, tuple(bounds))
