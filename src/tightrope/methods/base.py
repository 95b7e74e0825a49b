"""What a method is: an initial state and a step that sees a sample. Averaging, batches and the loop live elsewhere."""

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Literal, NamedTuple

import jax
import jax.numpy as jnp

from tightrope.problem.problem import Problem
from tightrope.tree import Array, Tree, subtract

Need = Literal["project", "lmo", "exact_constraints", "rows", "unconstrained", "one_constraint"]
Output = Literal["average", "last", "epoch"]


class Info(NamedTuple):
    """What a reader wants of a step: the point that counts in the average, and what was seen there."""

    x: Tree  # the iterate that enters the average
    lam: Array  # its multipliers
    f: Array  # sampled objective
    h: Array  # sampled constraints, minus levels
    weight: Any = 1.0  # in the average


class Cost(NamedTuple):
    """What a step of a batch of one costs; samples and gradients grow with the batch."""

    samples: int = 1
    gradients: int = 1
    projections: int = 0
    lmos: int = 0


class Rates(NamedTuple):
    """What is published about the output after T samples: exponents p of T^-p."""

    gap: float | None = None  # None: nothing is proven
    violation: float | None = None  # inf where the average violation is proven to be zero


class Method(ABC):
    """A stochastic method: `init` and `step`, both pure. Hyperparameters are leaves, so new values never recompile.

    A state is a NamedTuple with at least the fields x (the current point) and lam (its multipliers).
    """

    name: ClassVar[str] = ""  # in the registry
    needs: ClassVar[frozenset[Need]] = frozenset()
    cost: ClassVar[Cost] = Cost()
    output: ClassVar[Output] = "average"
    draws: ClassVar[int] = 1  # independent samples a step; with 2, theta is a pair
    multipliers: ClassVar[bool] = True  # False for methods that know constraints but estimate no multipliers
    averages: ClassVar[bool] = True  # False where a mean of iterates makes no sense: the loop then keeps none
    published: ClassVar[Rates] = Rates()
    tuned: ClassVar[tuple[str, ...]] = ()  # the coefficients worth tuning, the most important first
    margin: ClassVar[str | None] = None  # the coefficient of the tightening, of methods that claim zero violation
    refresh_every: int | None = None  # steps between looks at all the data
    anytime: bool = False  # True where no step depends on the horizon, so that a run needs no end

    @abstractmethod
    def init(self, problem: Problem, x: Tree, lam: Array, horizon: Array) -> Any:
        """The state before the first of `horizon` steps, at x with multipliers lam."""

    @abstractmethod
    def step(self, problem: Problem, state: Any, theta: Tree) -> tuple[Any, Info]:
        """One step on one sample (or batch) theta."""

    def refresh(self, problem: Problem, state: Any, data: Tree) -> Any:
        """A look at all the data, before steps 1, 1 + refresh_every, 1 + 2 refresh_every, ..."""
        raise TypeError(f"{type(self).__name__} declares refresh_every but has no refresh.")

    def default_batch(self, n: int | None) -> int:
        """The batch size where the user gives none; `n` is the number of rows, None without rows."""
        return 1

    def for_rows(self, n: int, batch_size: int) -> "Method":
        """The method fitted to data of n rows: the place to set what depends on its size."""
        return self

    def answer(self, state: Any) -> tuple[Tree, Array]:
        """The point and multipliers of a method whose `output` is "epoch": neither the mean of all nor the last."""
        return state.x, state.lam

    def gap(self, state: Any, inner: tuple[Array, Array]) -> Array | None:
        """After a refresh, a bound on F(x) - F* for the answer made feasible; None for methods that know none.

        `inner` is (F(s), H(s)) of a strictly feasible point s, towards which an answer that violates a constraint would be
        pulled.
        """
        return None

    def refresh_gradients(self, n: int) -> int:
        """Per-row gradients that a refresh on n rows takes."""
        return n

    def refreshed_gradients(self, steps: int, n: int) -> int:
        """Per-row gradients of all refreshes in so many steps on n rows; to override where they differ."""
        return -(-steps // self.refresh_every) * self.refresh_gradients(n) if self.refresh_every else 0

    def total_cost(self, steps: int) -> Cost:
        """What so many steps cost with a batch of one, refreshes aside; to override where steps differ."""
        return Cost(*(steps * one for one in self.cost))

    def tightening(self, horizon: int) -> float:
        """The largest upsilon a run of `horizon` steps uses; 0 for methods that do not tighten."""
        return 0.0

    def check(self, horizon: int) -> None:  # noqa: B027 (nothing to refuse is a good answer)
        """Refuse coefficients that cannot work at this horizon."""


def gradients_used(method: Method, steps: int, batch_size: int, n: int) -> int:
    """Per-row gradients of a run on n rows, those of refreshes included; n of them are a pass."""
    return method.total_cost(steps).gradients * batch_size + method.refreshed_gradients(steps, n)


def steps_within(method: Method, passes: float, batch_size: int, n: int) -> int:
    """The most steps whose gradients are at most so many passes; at least one."""
    budget = round(passes * n)
    low, high = 1, max(2, budget + 1)  # a step takes one gradient or more
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if gradients_used(method, middle, batch_size, n) <= budget else (low, middle)
    return low


def dual_step(lam: Array, h: Array, *, gamma: Any, shrink: Any, upsilon: Any) -> Array:
    """The regularised, tightened ascent shared by the family: [ (1 - shrink) lam + gamma (h + upsilon) ]_+."""
    return jnp.maximum((1 - shrink) * lam + gamma * (h + upsilon), 0)


def look_ahead(problem: Problem, x: Tree, x_next: Tree, h: Array, theta: Tree) -> Array:
    """h(x) + <grad h(x), x_next - x> on one batch: what the queues of drift-plus-penalty methods see."""
    return h + jax.jvp(lambda p: problem.constraint_values(p, theta), (x,), (subtract(x_next, x),))[1]
