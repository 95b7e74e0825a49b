"""The order in which rows are visited: reshuffled passes, or independent draws."""

import math

import numpy as np

_INDICES_AT_ONCE = 4096  # rows of short passes that are shuffled in one call: a guess. Samples depend on it
_MANY = 1 << 17  # rows from which a pass is not shuffled as a whole before its first row is read: a guess
_ROUNDS = 6  # of the Feistel network: a guess, two more than suffice with random functions (Luby and Rackoff, 1988)
AT_ONCE = (
    1 << 15
)  # places that are computed at once; measured: of a million in 31 ms, and all at once in 71. Samples depend on it
_MIX = np.uint32(0x9E3779B1), np.uint32(0x85EBCA6B)  # odd, and without a pattern: those of xxHash and MurmurHash3

Key = tuple[int, ...]


class Passes:
    """An endless sequence of passes over n rows for every key. Of few rows the current pass is kept; of many, the places
    that are asked for are computed, because to shuffle millions takes longer than a short run on them."""

    def __init__(self, n: int, replace: bool, at_once: int = _INDICES_AT_ONCE):
        self.n, self.replace = n, replace
        self.passes = max(1, at_once // max(n, 1))  # short passes are made several at a time
        self.kept: dict[Key, tuple[int, np.ndarray]] = {}

    def entries(self, key: Key, start: int, count: int) -> np.ndarray:
        """Row numbers of places start .. start+count-1 in the sequence of a key, which has its seed in it."""
        size = self.n * self.passes
        first, last = start // size, (start + count - 1) // size
        parts = [
            self._part(key, k, max(start - k * size, 0), min(start + count - k * size, size))
            for k in range(first, last + 1)
        ]
        return np.concatenate(parts)

    def _part(self, key: Key, k: int, begin: int, end: int) -> np.ndarray:
        """Places begin .. end-1 of group k."""
        if self.n < _MANY or self.replace:
            return self._group(key, k)[begin:end]
        return shuffled(self.n, drawn_by(*key, k).integers(2**32, size=_ROUNDS, dtype=np.uint32), begin, end)

    def _group(self, key: Key, k: int) -> np.ndarray:
        """Group k of passes: permutations, or independent draws; a function of (key, k) alone."""
        number, rows = self.kept.get(key, (-1, np.empty(0, np.int32)))
        if number != k:
            rng = drawn_by(*key, k)
            if self.replace:
                rows = rng.integers(self.n, size=self.passes * self.n, dtype=np.int32)
            else:
                every = np.broadcast_to(np.arange(self.n, dtype=np.int32), (self.passes, self.n))
                rows = rng.permuted(every, axis=1).reshape(-1)
            self.kept[key] = k, rows
        return rows


def drawn_by(*numbers: int) -> np.random.Generator:
    """Random numbers that are a function of these alone."""
    return np.random.Generator(np.random.Philox(np.random.SeedSequence(numbers)))


def shuffled(n: int, keys: np.ndarray, begin: int, end: int) -> np.ndarray:
    """Places begin .. end-1 of a permutation of 0 .. n-1 that nobody has written down.

    Row numbers are written as pairs (left, right). A Feistel network, which is one to one whatever its rounds add, permutes
    the pairs; what is no row is sent through again until it is one (Black and Rogaway: Ciphers with Arbitrary Finite
    Domains, 2002). Of all pairs, one in sqrt(n) is none at most.
    """
    rights = math.isqrt(n - 1) + 1
    sizes = np.uint32(-(-n // rights)), np.uint32(rights)
    found = np.empty(end - begin, np.int32)
    for start in range(0, len(found), AT_ONCE):
        part = found[start : start + AT_ONCE]
        rows = _feistel(np.arange(begin + start, begin + start + len(part), dtype=np.uint32), sizes, keys)
        while len(outside := np.flatnonzero(rows >= n)):
            rows[outside] = _feistel(rows[outside], sizes, keys)
        part[:] = rows
    return found


def _feistel(numbers: np.ndarray, sizes: tuple[np.uint32, np.uint32], keys: np.ndarray) -> np.ndarray:
    """A permutation of the numbers below the product of the sizes: in every round one half is turned by what the other says,
    and they change places."""
    size, other = sizes
    left, right = np.divmod(numbers, other)
    for key in keys:
        left, right, size, other = right, _turned(left, right + key, size), other, size
    return left * other + right


def _turned(half: np.ndarray, by: np.ndarray, size: np.uint32) -> np.ndarray:
    """A half plus a random function of `by`, modulo its size, which is less than 2^16."""
    mixed = by * _MIX[0]
    mixed = (mixed ^ (mixed >> 15)) * _MIX[1]
    half = half + ((mixed >> 16) * size >> 16)
    return half - size * (half >= size)
