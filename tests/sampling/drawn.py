"""What steps draw from a source, whichever it is."""

import jax
import numpy as np

from tightrope.sampling import Plan


def taken(sampler, count, *, start=0, at_once=10**9, seeds=(0,), draws=1, batch_size=1):
    """The items of steps start..start+count-1, asked for in portions; leaves (seeds, count, draws, batch, ...)."""
    opened, parts = sampler.open(Plan(seeds, draws, batch_size, steps=start + count)), []
    while start < (end := start + count):
        buffer = opened.take(start, min(at_once, end - start))
        if buffer.steps == 0:
            break
        cut = slice(buffer.offset, buffer.offset + buffer.steps)
        parts.append(jax.tree.map(lambda a, cut=cut: np.asarray(a)[:, cut], buffer.items))
        start, count = start + buffer.steps, count - buffer.steps
    return jax.tree.map(lambda *a: np.concatenate(a, axis=1), *parts)
