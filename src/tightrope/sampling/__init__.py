"""Where samples come from: rows at hand, files, a generator of samples, a stream.

Step t's samples depend on (seed, t) alone, so a result does not depend on how a run is cut into chunks and a resumed
run equals an uninterrupted one. A sampler opens into `Draws`, which prepares many steps' samples in one vectorised
call before the compiled loop: a random number drawn inside the loop costs more than the step itself. For rows, what is
prepared is indices; the loop looks the rows up.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import jax

from tightrope.sampling.base import Buffer as Buffer
from tightrope.sampling.base import Draws as Draws
from tightrope.sampling.base import Plan as Plan
from tightrope.sampling.base import Sampler as Sampler
from tightrope.sampling.generator import Generator as Generator
from tightrope.sampling.parquet import Parquet as Parquet
from tightrope.sampling.rows import Rows as Rows
from tightrope.sampling.stream import Stream as Stream


def as_sampler(data: Any) -> Sampler:
    """Arrays become `Rows`, loaders that give batches a `Stream`; samplers stay."""
    if isinstance(data, Sampler):
        return data
    if callable(data):
        raise TypeError(
            "data is a function; say what it is: tr.Generator(fn) for fn(key) -> theta, tr.Stream(factory) for "
            "factory(skip) -> batches."
        )
    if isinstance(data, Iterator):
        raise TypeError("data is an iterator; wrap it in tr.Stream, which reads batches from anywhere.")
    if _is_loader(data):
        return Stream(data)
    return Rows(data)


def _is_loader(data: Any) -> bool:
    """Whether it gives batches one after the other, as a DataLoader does, and is no array or container of arrays."""
    array = any(hasattr(data, name) for name in ("__array__", "shape", "columns", "__dataframe__"))
    return isinstance(data, Iterable) and not array and jax.tree_util.all_leaves([data]) and not isinstance(data, str)
