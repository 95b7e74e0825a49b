"""MFW-CSOA: Frank-Wolfe on averaged gradients, one average for each function, and a tightened dual step."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from tightrope.methods.base import Cost, Facts, Info, Method, dual_step
from tightrope.problem import Problem
from tightrope.problem.generic import zero_gradient
from tightrope.tree import Array, Tree, add_scaled, float_dtype, pytree, subtract


class MFWCSOAState(NamedTuple):
    """What the next step needs."""

    x: Tree  # x_t
    lam: Array  # lambda_t
    d: Tree  # average of grad f
    rows: Tree  # averages of grad h_i; nothing where the constraints are exact
    memory: Tree  # of the set's linear minimisation
    t: Array  # step number, from 1


@pytree
class MFWCSOA(Method):
    """Sampled Frank-Wolfe whose multipliers meet averaged gradients: SCGD with constraints.

    For t = 1, 2, ..., on one sample theta_t::

        d^f_t     = (1 - rho_t) d^f_{t-1} + rho_t grad f(x_t, theta_t)          and so for each h_i, d^i_t
        s_t       = argmin over s in X of <d^f_t + sum_i lambda_i d^i_t, s>
        x_{t+1}   = x_t + eta_t (s_t - x_t)
        lambda_{t+1} = [ lambda_t + gamma_t ( h(x_t, theta_t) + upsilon_t ) ]_+

    with rho_t = 4/(t + 7)^{2/3}, eta_t = eta0/(t + 7), gamma_t = gamma0/sqrt(t), upsilon_t = upsilon0/sqrt(t), rho and eta
    capped at 1. FW-CSOA averages the gradient of the whole Lagrangian, into which every change of lambda brings noise;
    here lambda is applied to the averages. Exact constraints are not averaged but taken as they are. The output is the last
    iterate, itself a weighted mean of vertices, so points may be held factored. There is no proof with constraints; without
    them it is SCGD, whose gap is O(t^-1/3).

    Args:
        eta0: coefficient of the Frank-Wolfe step.
        gamma0: coefficient of the dual step.
        upsilon0: coefficient of the tightening.

    Example:
        >>> from tightrope.methods import MFWCSOA
        >>> MFWCSOA().eta0
        2.0

    References:
        A. Mokhtari, H. Hassani, A. Karbasi: Stochastic Conditional Gradient Methods, JMLR 21 (2020) (the averages).
        Z. Akhtar, A. S. Bedi, K. Rajawat: Conservative Stochastic Optimization with Expectation Constraints,
        arXiv:2008.05758 (the dual step).
    """

    eta0: Any = 2.0
    gamma0: Any = 1.0
    upsilon0: Any = 0.5

    name = "mfw-csoa"
    needs = frozenset({"lmo"})
    cost = Cost(samples=1, gradients=1, lmos=1)
    facts = Facts(output="last", averages=False, margin="upsilon0", margin_power=1 / 2)
    anytime = True
    tuned = ("gamma0", "upsilon0")

    def init(self, problem: Problem, x: Tree, lam: Array, horizon: Array) -> MFWCSOAState:
        """x_1 and lambda_1; nothing is averaged yet."""
        d, memory = zero_gradient(problem, x), problem.domain.lmo_memory(float_dtype(x))
        exact = problem.exact_constraints is not None
        rows = () if exact else jax.tree.map(lambda v: jnp.zeros((lam.size, *v.shape), v.dtype), d)
        return MFWCSOAState(x, lam, d, rows, memory, jnp.ones((), jnp.int32))

    def step(self, problem: Problem, state: MFWCSOAState, theta: Tree) -> tuple[MFWCSOAState, Info]:
        """Average the gradients, move towards the vertex they point at, step in the dual."""
        x, lam, t = state.x, state.lam, state.t.astype(state.lam.dtype)
        f, h, grad, rows = problem.jacobian(x, theta)
        rho, eta = jnp.minimum(4 / (t + 7) ** (2 / 3), 1), jnp.minimum(self.eta0 / (t + 7), 1)
        d = add_scaled(state.d, rho, subtract(grad, state.d))
        kept = ()
        if problem.exact_constraints is None:
            rows = kept = add_scaled(state.rows, rho, subtract(rows, state.rows))
        s, memory = problem.domain.warm_lmo(problem.lagrangian_gradient(d, rows, lam), state.memory)
        x_next = problem.domain.mix(x, s, eta)
        upsilon, gamma = self.upsilon0 / jnp.sqrt(t), self.gamma0 / jnp.sqrt(t)
        lam_next = dual_step(lam, h, gamma=gamma, shrink=0.0, upsilon=upsilon)
        info = Info(x, lam, f, h, record=problem.domain.lmo_record(memory))
        return MFWCSOAState(x_next, lam_next, d, kept, memory, state.t + 1), info
