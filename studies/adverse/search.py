"""How a promise is attacked: random laws, fresh samples of each, and a count of the promises that the truth belies.

Laws are drawn by seed. The first half is looked at while the library is developed; its ten worst are attacked again with
fresh samples, because the worst of many is partly bad luck. The second half is drawn once, at the end, and nothing is
chosen on it. Between the two lies a half that was the second one once: a fault was found on it and mended, so it counts
no more.
"""

import zlib
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from tightrope.confidence import binomial_lower, binomial_upper

WORST = 10  # laws of the first half that are attacked again
EACH = 0.075  # of the attempts on one of these that may be false: 5 %, and what 200 attempts vary by

Attempt = Callable[[Any, np.random.Generator], bool | None]


class Promise(NamedTuple):
    """A sentence that the library says, and an attack on it.

    Attributes:
        name: of the promise.
        said: what a user is told.
        draw: makes a random law, something that can be pickled and describes itself.
        attempt: None where nothing was promised of fresh samples of a law, else whether the promise was FALSE.
        allowed: the share of all attempts that may be false.
        repetitions: attempts on each half of the laws, shared out among them.
        again: attempts on each of the worst laws, with fresh samples.
        laws: how many there are, in both halves together.
    """

    name: str
    said: str
    draw: Callable[[np.random.Generator], Any]
    attempt: Attempt
    allowed: float = 0.05
    repetitions: int = 2000
    again: int = 200
    laws: int = 40

    @property
    def halves(self) -> dict[str, range]:
        """The laws to develop on, and those that are looked at once."""
        half = self.laws // 2
        return {"develop": range(half), "unseen": range(2 * half, 3 * half)}

    def law(self, k: int) -> Any:
        """The k-th law."""
        return self.draw(self._random(k))

    def attack(self, k: int, phase: str, times: int) -> "Count":
        """Attempts on the k-th law with samples that no other phase has."""
        law, count = self.law(k), Count()
        for repetition in range(times):
            count += Count.of(self.attempt(law, self._random(k, zlib.crc32(phase.encode()), repetition)))
        return count

    def _random(self, *key: int) -> np.random.Generator:
        return np.random.default_rng([zlib.crc32(self.name.encode()), *key])


class Count(NamedTuple):
    """Attempts, how many of them led to a promise, and how many of these were false."""

    attempts: int = 0
    promised: int = 0
    false: int = 0

    @classmethod
    def of(cls, outcome: bool | None) -> "Count":
        """One attempt."""
        return cls(1, int(outcome is not None), int(bool(outcome)))

    def __add__(self, other: Any) -> "Count":
        return Count(*(a + b for a, b in zip(self, other, strict=True)))

    @property
    def share(self) -> float:
        """Of the attempts that ended with a false promise: the probability that a confidence level bounds."""
        return self.false / max(self.attempts, 1)

    @property
    def interval(self) -> tuple[float, float]:
        """Around the share, exact, two-sided, 95 %."""
        return binomial_lower(self.false, self.attempts, 0.975), binomial_upper(self.false, self.attempts, 0.975)

    def __str__(self) -> str:
        low, high = self.interval
        return f"{self.false} of {self.attempts:,} ({100 * self.share:.1f} % [{100 * low:.1f}, {100 * high:.1f}])"


def worst(counts: dict[int, Count]) -> list[int]:
    """The laws with the largest shares of false promises, the worst first."""
    return sorted(counts, key=lambda k: (-counts[k].share, k))[:WORST]
