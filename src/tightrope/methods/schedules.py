"""Step sizes: c/T^p at a horizon T known beforehand, or c/t^p at any time."""

from typing import Any

import jax.numpy as jnp

from tightrope.methods.base import Steps, refuse_overshoot
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


class Powers(Steps):
    """Steps eta = eta0/T^p, whose dual shrinks multipliers by eta^2 delta a step.

    Args:
        method: with coefficients eta0 and delta; `anytime`, where it has that, puts t in the place of T.
        p: the power.
    """

    def __init__(self, method: Any, p: float = 0.5):
        super().__init__(method)
        self.p = p

    def check(self, horizon: int) -> None:
        """The dual step must not overshoot: eta^2 delta < 1."""
        method = self.method
        shrink = float(method.eta0**2 * method.delta) / (1 if method.anytime else horizon ** (2 * self.p))  # pyright: ignore
        where = "at the first step" if method.anytime else f"at {horizon:,} steps"
        refuse_overshoot(method, "eta^2 delta", shrink, where, "eta0 or delta")
