"""CSCGD: CSOA for nested expectations, with tracked means inside; on plain problems, with tracked constraints."""

from math import inf
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp

from tightrope.methods.base import Cost, Facts, Info, Method, Power, Powers, Rates
from tightrope.methods.measured import Measured, MeasuredSteps
from tightrope.problem import Problem
from tightrope.problem.nested import Nested, batch_inner, batch_outer, inner_size
from tightrope.tree import Array, Tree, add_scaled, pytree, static, subtract


class CSCGDState(NamedTuple):
    """What the next step needs."""

    x: Tree  # x_t
    lam: Array  # lambda_t
    z: Array  # z_t, the tracked mean inside; of a plain problem, the tracked constraints
    t: Array  # step number, from 1
    horizon: Array  # T


class MeasuredState(NamedTuple):
    """What the next step needs with the schedule "measured"."""

    x: Tree  # x_t
    lam: Array  # lambda_t
    z: Array  # z_t
    t: Array  # step number, from 1
    horizon: Array  # T
    before: Tree  # x_{t-1}
    least: Array  # of the inner values seen, one by one
    largest: Array
    scales: Measured


@pytree
class CSCGD(Method):
    """CSCGD (Thomdapu & Rajawat), for E f(x, theta, u) and E h(x, theta, u) with u = E inner(x, phi).

    For t = 1..T, on two independent samples theta_t and phi_t, so that no product of estimates is biased::

        z_{t+1}      = (1 - beta) z_t + beta inner(x_t, phi_t),      z_2 = inner(x_1, phi_1)
        l_t(x, z)    = f(x, theta_t, z) + sum_i lambda_{i,t} h_i(x, theta_t, z)
        x_{t+1}      = Proj_X[ x_t - eta ( grad_x l_t + J_inner(x_t, phi_t)' grad_z l_t ) ]      at (x_t, z_{t+1})
        lambda_{t+1} = [ (1 - eta^2 delta) lambda_t + eta ( h(x_t, theta_t, z_{t+1}) + upsilon 1 ) ]_+

    with eta = eta0 T^-3/4, beta = min(beta0 T^-1/2, 1), upsilon = upsilon0 T^-1/4, from lambda_1 = 0. The output is the
    mean of x_1..x_T: gap O(T^-1/4), zero average violation. Reconstructed from its abstract and its family; the
    coefficients are ours, for functions and points of order one.

    A plain problem is the case where nothing is inside but the constraints, and nothing around them: what is tracked is h,
    z_{t+1} = (1 - beta) z_t + beta h(x_t, theta_t), the dual step sees z_{t+1}, and one sample a step will do.

    The schedule "measured", for nested problems alone, takes no coefficients. Steps, margin and weights are those of CSOA
    without coefficients (`tightrope.methods.measured`), in whatever units f, h and x come; and the tracker follows x::

        z_{t+1} = (1 - beta) ( z_t + J_inner(x_t, phi_t) (x_t - x_{t-1}) ) + beta inner(x_t, phi_t)

    with beta = 1/s in the s-th step of an epoch of n, until that is 1/sqrt(n), and z kept between the least and the largest
    inner values seen, where f and h are defined. A tracker that follows need not be fast, so the steps need not be short.
    That is a rule, not a theorem; `method="auto"` takes it for nested problems on streams.

    With `anytime`, t stands for T, and the mean is weighted by eta_t; measured epochs double. So can `tr.Online` be fed.

    Args:
        eta0: coefficient of the step size.
        beta0: coefficient of the tracker's step; from sqrt(T) on it does not track.
        delta: regularisation of the multipliers.
        upsilon0: coefficient of the tightening.
        schedule: "published", or "measured" for a nested problem without coefficients.
        anytime: step sizes against t instead of the horizon T.

    Example:
        >>> import jax, tightrope as tr
        >>> problem = tr.Problem(
        ...     lambda x, theta: -theta.dot(x),
        ...     tr.variance_at_most(lambda x, theta: theta.dot(x)),
        ...     tr.L2Ball(2.0, shape=2),
        ...     levels=0.5,
        ... )
        >>> samples = tr.Generator(lambda key: 1 + jax.random.normal(key, (2,)))
        >>> result = tr.minimize(problem, samples, method=tr.CSCGD(), steps=2000)
        >>> bool(result.x.dot(result.x) <= 0.5)
        True

    References:
        S. T. Thomdapu, Harshvardhan, K. Rajawat: Stochastic Compositional Gradient Descent under Compositional Constraints,
        arXiv:2012.09400. The tracker that follows: T. Chen, Y. Sun, W. Yin: Solving Stochastic Compositional Optimization is
        Nearly as Easy as Solving Stochastic Optimization, IEEE Transactions on Signal Processing 69, 2021.
    """

    eta0: Any = 4.0
    beta0: Any = 4.0
    delta: Any = 0.01
    upsilon0: Any = 0.25
    schedule: Literal["published", "measured"] = static(default="published")
    anytime: bool = static(default=False)

    name = "cscgd"
    needs = frozenset({"project"})
    cost = Cost(samples=1, gradients=1, projections=1)
    facts = Facts(
        takes_nested=True,
        published=Rates(
            gap=0.25, violation=inf, proof="of the published method; this is reconstructed from its abstract"
        ),
        margin="upsilon0",
        margin_power=1 / 4,
    )
    tuned = ("eta0", "upsilon0", "beta0")

    def fitted(self, problem: Problem, x: Tree, theta: Tree) -> "CSCGD":
        """With room for the mean inside, where the problem is nested."""
        if isinstance(problem, Nested):
            inside = inner_size(problem, x, theta)
            kind = _NestedCSCGD if self.schedule == "published" else _MeasuredCSCGD
            return kind(self.eta0, self.beta0, self.delta, self.upsilon0, self.schedule, self.anytime, inside)
        if self.schedule == "measured":
            raise TypeError(
                'CSCGD: schedule="measured" is for nested problems and this one is plain, where nothing need be tracked; '
                "expected CSOA(), which is the same run without a tracker."
            )
        return self

    @property
    def steps(self) -> Powers | MeasuredSteps:
        """From coefficients."""
        return Powers(self, 3 / 4, 1 / 4)

    def init(self, problem: Problem, x: Tree, lam: Array, horizon: Array) -> Any:
        """x_1 and lambda_1; the first step takes its sample for z whatever is here."""
        return CSCGDState(x, lam, jnp.zeros_like(lam), jnp.ones((), jnp.int32), horizon)

    def step(self, problem: Problem, state: Any, theta: Tree) -> tuple[Any, Info]:
        """CSOA's step, with the tracked constraints in the dual."""
        x, lam, z, t, horizon = state
        f, h, g = problem.value_and_gradient(x, lam, theta)
        z_next = z + self._beta(t, horizon) * (h - z)
        _, x_next, lam_next, weight = self.steps.taken(problem.domain, (), x, lam, f, g, z_next, t, horizon)
        return CSCGDState(x_next, lam_next, z_next, t + 1, horizon), Info(x, lam, f, h, weight)

    def _beta(self, t: Array, horizon: Array) -> Array:
        """1 in the first step, whose sample is all there is."""
        return jnp.where(t == 1, 1, jnp.minimum(Power(self.beta0, 0.5, self.anytime)(t, horizon), 1))


@pytree
class _NestedCSCGD(CSCGD):
    """CSCGD on a nested problem, made by `CSCGD.fitted`: `inside` numbers are tracked.

    A step costs one gradient, that of f and h on one sample and that of the inner values on another.
    """

    inside: int = static(default=1, least=1)

    cost = Cost(samples=2, gradients=1, projections=1)

    def init(self, problem: Problem, x: Tree, lam: Array, horizon: Array) -> Any:
        """x_1 and lambda_1."""
        return CSCGDState(x, lam, jnp.zeros((self.inside,), lam.dtype), jnp.ones((), jnp.int32), horizon)

    def step(self, problem: Problem, state: Any, theta: Tree) -> tuple[Any, Info]:
        """The chain rule on independent samples, at the tracked mean."""
        x, lam, z, t, horizon = state
        of_outer, of_inner = theta
        assert isinstance(problem, Nested)
        seen, pull = jax.vjp(lambda point: batch_inner(problem, point, of_inner), x)
        z_next = z + self._beta(t, horizon) * (seen - z)
        f, h, at_x, at_z = batch_outer(problem, x, z_next, lam, of_outer)
        g = add_scaled(at_x, 1, pull(at_z)[0])
        _, x_next, lam_next, weight = self.steps.taken(problem.domain, (), x, lam, f, g, h, t, horizon)
        return CSCGDState(x_next, lam_next, z_next, t + 1, horizon), Info(x, lam, f, h, weight)


@pytree
class _MeasuredCSCGD(_NestedCSCGD):
    """CSCGD on a nested problem with the schedule "measured", made by `CSCGD.fitted`."""

    @property
    def steps(self) -> MeasuredSteps:
        """From what the run measures; rare events are not looked out for in means of means."""
        return MeasuredSteps(self, Cost(0, 0, projections=1), rare=False)

    def init(self, problem: Problem, x: Tree, lam: Array, horizon: Array) -> MeasuredState:
        """x_1 and lambda_1, before any scale is known."""
        z, first = jnp.zeros((self.inside,), lam.dtype), jnp.ones((), jnp.int32)
        return MeasuredState(x, lam, z, first, horizon, x, z, z, self.steps.begin(x, lam, horizon))

    def step(self, problem: Problem, state: MeasuredState, theta: Tree) -> tuple[MeasuredState, Info]:
        """The chain rule on independent samples, at a mean that was tracked along the way, and CSOA's measured steps."""
        x, lam, z, t, horizon, before, least, largest, scales = state
        of_outer, of_inner = theta
        assert isinstance(problem, Nested)
        seen, push = jax.linearize(lambda point: batch_inner(problem, point, of_inner), x)
        beta = _forgets(scales, t)
        least = jnp.minimum(jnp.where(t == 1, inf, least), seen)
        largest = jnp.maximum(jnp.where(t == 1, -inf, largest), seen)
        z_next = jnp.clip(beta * seen + (1 - beta) * (z + push(subtract(x, before))), least, largest)
        f, h, at_x, at_z = batch_outer(problem, x, z_next, lam, of_outer)
        g = add_scaled(at_x, 1, jax.linear_transpose(push, x)(at_z)[0])
        scales, x_next, lam_next, weight = self.steps.taken(problem.domain, scales, x, lam, f, g, h, t, horizon)
        info = Info(x, lam, f, h, weight)
        return MeasuredState(x_next, lam_next, z_next, t + 1, horizon, x, least, largest, scales), info


def _forgets(scales: Measured, t: Array) -> Array:
    """beta: epochs begin with a jump, so the tracker begins anew, as a plain mean of what it sees."""
    length = (scales.end - scales.begin).astype(scales.sigma_g.dtype)
    return jnp.maximum(1 / (t - scales.begin).astype(length.dtype), 1 / jnp.sqrt(length))
