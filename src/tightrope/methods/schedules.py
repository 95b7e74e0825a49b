"""Step sizes: c/T^p at a horizon T known beforehand, or c/t^p at any time."""

from typing import Any

import jax.numpy as jnp

from tightrope.tree import Array, pytree, static


@pytree
class Power:
    """c / T^p, constant over a run of T steps; with `anytime`, c / t^p at step t.

    Example:
        >>> from tightrope.methods.schedules import Power
        >>> float(Power(1.0, 0.5)(t=1, horizon=100))
        0.1...
        >>> float(Power(1.0, 0.5, anytime=True)(t=4, horizon=100))
        0.5
    """

    c: Any
    p: Any
    anytime: bool = static(default=False)

    def __call__(self, t: Any, horizon: Any) -> Array:
        """The value at step t = 1, 2, ... of a run of `horizon` steps."""
        dtype = jnp.result_type(self.c, float)
        base = jnp.asarray(t if self.anytime else horizon, dtype)
        return self.c / base**self.p
