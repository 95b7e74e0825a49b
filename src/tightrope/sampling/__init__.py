"""Where samples come from: rows at hand, files, a generator of samples, a stream.

Step t's samples depend on (seed, t) alone, so a result does not depend on how a run is cut into chunks and a resumed
run equals an uninterrupted one. A sampler opens into `Draws`, which prepares many steps' samples in one vectorised
call before the compiled loop: a random number drawn inside the loop costs more than the step itself. For rows, what is
prepared is indices; the loop looks the rows up.
"""

from collections.abc import Iterator
from typing import Any

from tightrope.sampling.base import Buffer as Buffer
from tightrope.sampling.base import Draws as Draws
from tightrope.sampling.base import Plan as Plan
from tightrope.sampling.base import Sampler as Sampler
from tightrope.sampling.generator import Generator as Generator
from tightrope.sampling.parquet import Parquet as Parquet
from tightrope.sampling.rows import Rows as Rows
from tightrope.sampling.stream import Stream as Stream


def as_sampler(data: Any) -> Sampler:
    """Arrays become `Rows`; samplers stay."""
    if isinstance(data, Sampler):
        return data
    if callable(data):
        raise TypeError(
            "data is a function; say what it is: tr.Generator(fn) for fn(key) -> theta, tr.Stream(factory) for "
            "factory(skip) -> batches."
        )
    if isinstance(data, Iterator):
        raise TypeError("data is an iterator; wrap it in tr.Stream, which reads batches from anywhere.")
    return Rows(data)
