"""References kept in one file for each half, so that a study neither solves again nor needs a solver where it runs."""

import dataclasses
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from studies.strangers.generate import Stranger, stranger
from studies.strangers.reference import NotSolved, Reference, solve

HALVES = {"develop": 0, "held-out": 1}  # even seeds are to develop on; odd ones are looked at once
FIELDS = tuple(field.name for field in dataclasses.fields(Reference))


def seeds_of(half: str, first: int, last: int) -> list[int]:
    """The seeds of a half from `first` to below `last`."""
    return [seed for seed in range(first, last) if seed % 2 == HALVES[half]]


class Cache:
    """The references of a half, in `folder`."""

    def __init__(self, folder: Path, half: str):
        self.path = folder / f"{half}.npz"
        self.arrays: dict[str, np.ndarray] = {}
        if self.path.exists():
            with np.load(self.path) as file:
                self.arrays = dict(file)

    def __contains__(self, seed: int) -> bool:
        return f"{seed}/refused" in self.arrays

    def refusal(self, seed: int) -> str:
        """Why the problem of this seed has no reference; empty where it has one."""
        return str(self.arrays[f"{seed}/refused"])

    def get(self, one: Stranger) -> Reference:
        """The reference of a problem, checked to belong to it."""
        if one.seed not in self:
            raise KeyError(f"{self.path} has no reference for seed {one.seed}; make it with --what references.")
        if self.refusal(one.seed):
            raise NotSolved(self.refusal(one.seed))
        if not self._belongs(one):
            raise ValueError(
                f"{self.path} has another problem under seed {one.seed}: its levels differ. The generator has changed "
                "since, so solve again with --what references."
            )
        found = {name: self.arrays[f"{one.seed}/{name}"] for name in FIELDS}
        values: dict[str, Any] = {name: value if value.ndim else float(value) for name, value in found.items()}
        return Reference(**values)

    def _belongs(self, one: Stranger) -> bool:
        """Whether what is kept under a problem's seed is about that problem, but for rounding."""
        kept = self.arrays.get(f"{one.seed}/levels", np.zeros(0))
        return kept.shape == one.model.levels.shape and np.allclose(kept, one.model.levels, rtol=1e-9, atol=1e-9)

    def fill(self, seeds: Iterable[int], every: int = 10) -> None:
        """Solve what is missing or has changed and save it, with a line for each."""
        new = [one for one in map(stranger, seeds) if one.seed not in self or not self._belongs(one)]
        for count, one in enumerate(new, 1):
            seed, refused = one.seed, ""
            try:
                self.arrays |= {f"{seed}/{k}": np.asarray(v) for k, v in dataclasses.asdict(solve(one)).items()}
            except NotSolved as error:
                refused = str(error)
            self.arrays |= {f"{seed}/refused": np.asarray(refused), f"{seed}/levels": one.model.levels}
            print(f"{count} of {len(new)}: {refused or f'seed {seed} solved'}", flush=True)
            if count % every == 0 or count == len(new):
                self._save()

    def _save(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        beside = self.path.with_suffix(".part.npz")
        np.savez_compressed(beside, **self.arrays)  # pyright: ignore[reportArgumentType] (none is called "allow_pickle")
        beside.replace(self.path)
