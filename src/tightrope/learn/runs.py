"""A run of `minimize` as a fitted estimator keeps it."""

import dataclasses

import jax
import numpy as np

from tightrope.result import Result, whole
from tightrope.tree import replace


def kept(result: Result, measured_on: str) -> Result:
    """The result in NumPy arrays, which a pickle brings back in float64 wherever it is opened.

    Args:
        result: the result of a run on rows. If it was interrupted, KeyboardInterrupt is raised: half a run is no model.
        measured_on: what its rows were, in words such as "1,000 rows".
    """
    result = whole(result)
    points = {name: jax.tree.map(np.asarray, getattr(result, name)) for name in ("x", "mean", "last", "state")}
    pull = result.pull
    if pull is not None:
        pull = pull._replace(x=points["x"], towards=jax.tree.map(np.asarray, pull.towards))
    return dataclasses.replace(
        result,
        **points,
        pull=pull,
        method=replace(jax.tree.map(float, result.method)),
        measured_on=f"all {measured_on}",
    )
