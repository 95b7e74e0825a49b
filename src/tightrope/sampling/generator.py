"""Fresh samples, made by a function of a random key."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from tightrope._jaxlib import compiled
from tightrope.sampling.sampler import Blocks, Draws, Plan, Sampler
from tightrope.tree import Array, Tree, bytes_of, pytree, static


@pytree
class Generator(Sampler):
    """Samples made by a function of a JAX random key: fresh ones at every step, for ever.

    Args:
        fn: `fn(key) -> theta`, one sample (a pytree of arrays), written with JAX.

    Example:
        >>> import jax, tightrope as tr
        >>> noise = tr.Generator(lambda key: jax.random.normal(key, (3,)))
    """

    fn: Callable[[Array], Tree] = static()

    def __post_init__(self):
        if not callable(self.fn):
            raise TypeError(f"Generator: fn is {self.fn!r}; expected a function of a random key.")

    def example(self) -> Tree:
        return jax.eval_shape(self.fn, jax.random.key(0))

    def fresh(self, seed: int, count: int) -> Tree:
        """Samples from keys that no step has: steps are counted from 0, and there are fewer than 2^31 of them."""
        return _fresh(self.fn, np.uint32(seed), count)

    def open(self, plan: Plan) -> Draws:
        seeds = jnp.asarray(plan.seeds, jnp.uint32)

        def make(start: int, steps: int, length: int) -> Tree:
            shape = length, plan.draws, plan.batch_size
            return _apply(self.fn, _keys(seeds, np.int32(start), *shape), shape)

        return Blocks(plan, bytes_of(self.example()), make)


# Two programs rather than one: that of the keys is then compiled once for all generators.


@compiled(static_argnums=(2, 3, 4))
def _keys(seeds: Array, start: Array, count: int, draws: int, batch_size: int) -> Array:
    """A key for every sample of steps start..start+count-1, shaped (seeds, count * draws * batch)."""
    t, place = jnp.divmod(jnp.arange(count * draws * batch_size), draws * batch_size)

    def of_seed(seed):
        root = jax.random.key(seed)
        return jax.vmap(lambda t, place: jax.random.fold_in(jax.random.fold_in(root, t), place))(start + t, place)

    return jax.vmap(of_seed)(seeds)


@compiled(static_argnums=(0, 2))
def _apply(fn: Callable[[Array], Tree], keys: Array, shape: tuple[int, int, int]) -> Tree:
    samples = jax.vmap(jax.vmap(fn))(keys)
    return jax.tree.map(lambda a: a.reshape(a.shape[0], *shape, *a.shape[2:]), samples)


@compiled(static_argnums=(0, 2))
def _fresh(fn: Callable[[Array], Tree], seed: Array, count: int) -> Tree:
    root = jax.random.fold_in(jax.random.key(seed), np.uint32(2**32 - 1))
    return jax.vmap(lambda i: fn(jax.random.fold_in(root, i)))(jnp.arange(count))
