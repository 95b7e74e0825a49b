"""fancyimpute's SoftImpute on centred ratings; its shrinkage is chosen by the entries that tightrope holds out, too."""

import time
import warnings
from typing import Any

import numpy as np

from benchmarks.peers.ratings import Effects, Entries, rmse, split

SHRINKAGES = (20.0, 17.0, 15.0, 13.0, 11.0, 9.0)  # strongest first


class SoftImputed:
    """Mean, effects of users and films, and the completion of what they leave."""

    def __init__(self, train: Entries, shape: tuple[int, int], shrinkage: float, rank: int):
        from fancyimpute import SoftImpute  # pyright: ignore[reportMissingImports]

        self.effects = Effects(train, shape)
        X = np.full(shape, np.nan)
        X[train.rows, train.columns] = train.values - self.effects.at(train)
        np.random.seed(0)  # its decompositions are random
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it calls scikit-learn by an old name
            solver = SoftImpute(shrinkage_value=shrinkage, max_rank=rank, verbose=False)
            self.X = solver.fit_transform(X)

    def error(self, entries: Entries) -> float:
        return rmse(entries, self.effects.at(entries) + self.X[entries.rows, entries.columns])


def held_out_error(train: Entries, test: Entries, shape: tuple[int, int], rank: int, seed: int) -> dict[str, Any]:
    """From the strongest shrinkage on while that helps; the best one again on all of `train`."""
    held, kept = split(train, 0.1, seed)  # the estimator holds out the same entries
    began, best, least = time.perf_counter(), SHRINKAGES[0], np.inf
    for shrinkage in SHRINKAGES:
        error = SoftImputed(kept, shape, shrinkage, rank).error(held)
        if error >= least:
            break
        best, least = shrinkage, error
    chosen = time.perf_counter() - began
    error = SoftImputed(train, shape, best, rank).error(test)
    return {"error": error, "shrinkage": best, "seconds": time.perf_counter() - began, "choosing": chosen}
