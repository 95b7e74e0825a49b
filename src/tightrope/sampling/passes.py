"""The order in which rows are visited: reshuffled passes, or independent draws."""

import numpy as np

_INDICES_AT_ONCE = 4096


class Passes:
    """An endless sequence of passes over n rows, of which the current one is kept for every key."""

    def __init__(self, n: int, replace: bool):
        self.n, self.replace = n, replace
        self.passes = max(1, _INDICES_AT_ONCE // max(n, 1))  # short passes are made several at a time
        self.kept: dict[tuple[int, ...], tuple[int, np.ndarray]] = {}

    def entries(self, key: tuple[int, ...], start: int, count: int) -> np.ndarray:
        """Row numbers of places start .. start+count-1 in the sequence of a key, which has its seed in it."""
        size = self.n * self.passes
        first, last = start // size, (start + count - 1) // size
        groups = np.concatenate([self._group(key, k) for k in range(first, last + 1)])
        return groups[start - first * size : start - first * size + count]

    def _group(self, key: tuple[int, ...], k: int) -> np.ndarray:
        """Group k of passes: permutations, or independent draws; a function of (key, k) alone."""
        number, rows = self.kept.get(key, (-1, np.empty(0, np.int32)))
        if number != k:
            rng = np.random.Generator(np.random.Philox(np.random.SeedSequence([*key, k])))
            if self.replace:
                rows = rng.integers(self.n, size=self.passes * self.n, dtype=np.int32)
            else:
                every = np.broadcast_to(np.arange(self.n, dtype=np.int32), (self.passes, self.n))
                rows = rng.permuted(every, axis=1).reshape(-1)
            self.kept[key] = k, rows
        return rows
