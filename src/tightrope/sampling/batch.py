"""The samples of one step: arrays with a row for each, or rows that are spread over devices."""

from abc import ABC, abstractmethod
from collections.abc import Callable

import jax
import jax.numpy as jnp

from tightrope.tree import Array, Tree


class Spread(ABC):
    """A batch in parts, whose rows do not count alike."""

    @abstractmethod
    def mean(self, fn: Callable[[Tree], Tree]) -> Tree:
        """The mean of a function of one row."""

    @abstractmethod
    def total(self, fn: Callable[[Tree], Tree]) -> Tree:
        """The sum over the parts of what a function makes of each."""


class Part(Spread):
    """The rows of a batch that one device has, and what each adds to a mean over the batch."""

    def __init__(self, rows: Tree, weights: Array):
        self.rows, self.weights = rows, weights

    def mean(self, fn: Callable[[Tree], Tree]) -> Tree:
        """What this part adds: like a mean it becomes part of what has made the values."""

        def of(v: Array) -> Array:
            return jnp.sum(v * self.weights.astype(v.dtype).reshape(-1, *(1,) * (v.ndim - 1)), axis=0)

        return jax.tree.map(of, jax.vmap(fn)(self.rows))

    def total(self, fn: Callable[[Tree], Tree]) -> Tree:
        return fn(self)


def batch_mean(fn: Callable[[Tree], Tree], theta: Tree) -> Tree:
    """The mean of fn over the rows of a batch; a batch of one costs no more than fn itself."""
    if isinstance(theta, Spread):
        return theta.mean(fn)
    size = jax.tree.leaves(theta)[0].shape[0]
    if size == 1:
        return fn(jax.tree.map(lambda leaf: leaf[0], theta))
    return jax.tree.map(lambda v: jnp.mean(v, axis=0), jax.vmap(fn)(theta))


def over_devices(fn: Callable[[Tree], Tree], theta: Tree) -> Tree:
    """What fn, which is linear in the mean over a batch, makes of one: in parts each device does so by itself first."""
    return theta.total(fn) if isinstance(theta, Spread) else fn(theta)
