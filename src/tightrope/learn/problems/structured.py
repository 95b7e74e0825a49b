"""Structured matrix completion: few large entries where nothing was observed.

Minimise the squared error on the observed entries I of a matrix M over the nuclear-norm ball of radius alpha, subject to
the energy of the entries outside I, (1/2) sum X_ij^2, being at most beta. The zero matrix is strictly feasible for every
beta > 0. Units do not depend on the data: F is the normalised error, sum_I (X - M)^2 / sum_I M^2, and H is the energy
divided by beta, minus one.
"""

from functools import partial
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tightrope._errors import one_of, whole_number
from tightrope._limits import KEPT, beyond_memory
from tightrope.learn.problems.entries import Grid, entries, spread_entries
from tightrope.learn.problems.observed import Observed, observed
from tightrope.methods import CFWCSOA
from tightrope.precision import full_precision
from tightrope.problem import Problem
from tightrope.problem.generic import exact_slopes, step_length, zero_gradient
from tightrope.sampling import Generator, Rows
from tightrope.sampling.mesh.processes import spans_processes
from tightrope.sampling.mesh.shards import flat_mesh
from tightrope.sets import NuclearBall
from tightrope.sets.low_rank import LowRank, LowRankBall
from tightrope.tree import Array, Tree, pytree, static

CONSTRAINT = "unobserved energy"


class CompletionProblem(NamedTuple):
    """A problem and its data: `problem, data = structured_completion(...)`.

    Attributes:
        problem: for `tightrope.minimize`.
        data: what to pass with it. Exact gradients need no samples, so for them it is a single row that nobody reads.

    Example:
        >>> import numpy as np
        >>> from tightrope.problems import structured_completion
        >>> problem, data = structured_completion(
        ...     np.array([[5.0, np.nan], [np.nan, 1.0]]), nuclear_norm=6.0, unobserved_energy=1.0
        ... )
        >>> problem.names
        ('unobserved energy',)
    """

    problem: Problem
    data: Any

    @property
    def method(self) -> CFWCSOA:
        """CFW-CSOA with a dual step in the problem's own units.

        In the Lagrangian lambda weighs an unobserved entry against an observed one in the ratio lambda h : f of
        their scales; the first dual steps are half of what makes that ratio one.
        """
        scales = self.problem.params["scales"]
        return CFWCSOA(gamma=0.5 * float(scales["f"] / scales["h"]), upsilon=1.2)


def structured_completion(
    matrix: Any,
    nuclear_norm: float,
    unobserved_energy: float,
    *,
    mask: np.ndarray | None = None,
    shape: tuple[int, int] | None = None,
    hold: Literal["factored", "dense"] = "factored",
    gradients: Literal["exact", "sampled"] = "exact",
    rank: int | None = None,
    rounds: int | None = None,
    units: Literal["relative", "sum", "mean"] = "relative",
    empty: Literal["refuse", "keep"] = "refuse",
    like: Observed | None = None,
    dtype: Any = None,
    mesh: Any = None,
) -> CompletionProblem:
    """Build the problem from a partly observed matrix.

    Args:
        matrix: a SciPy sparse matrix, whose stored entries are the observed ones (a stored zero is an observation); a dense
            matrix with a `mask`, or with NaN where nothing was observed; arrays (rows, columns, values); or an `Observed`,
            which is not checked again.
        nuclear_norm: alpha, the largest sum of singular values.
        unobserved_energy: beta, the largest half sum of squares of the entries that were not observed.
        mask: for a dense matrix, True where it was observed.
        shape: for (rows, columns, values), the size of the matrix; by default the smallest that holds them.
        hold: "factored", for any size: a `LowRank` point on a `LowRankBall`; or "dense", an array on a `NuclearBall`.
        gradients: "exact", of all observed entries at every step; or "sampled": a sample is one observed entry and one
            unobserved one (for "factored" the constraint stays exact), scaled so that they are unbiased.
        rank: for "factored", the largest rank that is kept; by default 64.
        rounds: Lanczos rounds of a linear minimisation; by default 10 factored, 20 dense.
        units: "relative" as above; "sum" for f = (1/2) sum_I (X - M)^2 and h = (1/2) sum X^2 - beta; "mean" for
            f and h divided by the number of their entries.
        empty: whether to refuse rows and columns without any observation, or to keep them (their entries will be 0).
        like: for "factored", these entries and more: both problems then share one compiled program.
        dtype: float32 or float64; by default JAX's own.
        mesh: for "factored" and "exact", a `jax.sharding.Mesh` over whose devices the observed entries are spread by rows;
            what is held for X stays whole on each. Where devices belong to several processes, each gives all entries.

    Example:
        >>> import numpy as np, tightrope as tr
        >>> from tightrope.problems import structured_completion
        >>> M = np.array([[1.0, np.nan, 2.0], [2.0, 4.0, np.nan]])
        >>> made = structured_completion(M, nuclear_norm=6.0, unobserved_energy=10.0, rank=2)
        >>> made.problem.domain.name
        'LowRankBall'
    """
    for name, value in (("nuclear_norm", nuclear_norm), ("unobserved_energy", unobserved_energy)):
        if not (np.ndim(value) == 0 and np.isfinite(value) and value > 0):
            raise ValueError(f"structured_completion: {name} is {value!r}; expected a positive number.")
    one_of("structured_completion", "hold", hold, ("factored", "dense"))
    one_of("structured_completion", "gradients", gradients, ("exact", "sampled"))
    one_of("structured_completion", "units", units, ("relative", "sum", "mean"))
    if mesh is not None and (hold, gradients) != ("factored", "exact"):
        raise ValueError(
            f'structured_completion: mesh was given with hold="{hold}" and gradients="{gradients}"; expected "factored" and '
            '"exact".'
        )
    seen = observed(matrix, mask=mask, shape=shape, empty=empty)
    dtype = dtype or jnp.result_type(float)
    params: dict[str, Any] = {"scales": _scales(seen, float(unobserved_energy), units)}
    sampled = gradients == "sampled"
    if hold == "dense":
        dense = NuclearBall(float(nuclear_norm), shape=seen.shape, rounds=rounds or 20)
        problem = _dense(seen, dense, params, sampled, dtype)
    else:
        rank = whole_number("structured_completion", "rank", min(64, *seen.shape) if rank is None else rank)
        factored = LowRankBall(float(nuclear_norm), size=seen.shape, rank=rank, rounds=rounds or 10)
        problem = _factored(seen, factored, params, sampled, dtype, like, mesh)
    nothing = Rows if mesh is None or not spans_processes(mesh) else _RowsTogether
    return CompletionProblem(problem, Generator(_random_bits) if sampled else nothing(np.zeros(1, np.int32)))


@pytree
class _RowsTogether(Rows):
    """The row that nobody reads, where the entries are spread over several processes."""

    together = True  # pyright: ignore[reportAssignmentType, reportIncompatibleMethodOverride]


def _scales(seen: Observed, beta: float, units: str) -> dict[str, Any]:
    """The factors f and h of the two sums, the bound beta, and how many entries each sum has."""
    unobserved = seen.shape[0] * seen.shape[1] - len(seen.values)
    total = float(np.sum(np.square(seen.values, dtype=float)))
    if units == "relative" and total == 0:
        raise ValueError(
            "structured_completion: all observed values are 0, and so is the solution; the error cannot be normalised."
        )
    f, h = {
        "relative": (2 / total if total else 1.0, 1 / beta),
        "sum": (1.0, 1.0),
        "mean": (1 / len(seen.values), 1 / unobserved),
    }[units]
    return {"f": f, "h": h, "beta": beta, "observed": len(seen.values), "unobserved": unobserved}


# ---- factored ---------------------------------------------------------------------------------------------------------
# Functions live at module level: a second problem of the same shapes then compiles nothing.


def _factored(
    seen: Observed,
    domain: LowRankBall,
    params: dict[str, Any],
    sampled: bool,
    dtype: Any,
    like: Observed | None,
    mesh: Any,
) -> Problem:
    places = None if like is None else (like.rows, like.columns)
    given = seen.rows, seen.columns, seen.values.astype(dtype), seen.shape
    table = entries(*given, places) if mesh is None else spread_entries(*given, flat_mesh(mesh))
    params["entries"] = table
    if sampled:
        real = table.real if isinstance(table, Grid) else table.by_row.real
        params["places"] = jnp.flatnonzero(real).astype(jnp.int32)
    return FactoredCompletion(
        _sampled_factored_error if sampled else _factored_error,
        None,
        domain,
        params=params,
        names=(CONSTRAINT,),
        exact_constraints=_factored_energy,
        sampled=sampled,
    )


@pytree
class FactoredCompletion(Problem):
    """The problem for points held as `LowRank`, whose gradients are sums of a sparse matrix and a thin one."""

    sampled: bool = static(default=False)

    def value_and_gradient(self, x: LowRank, lam: Array, theta: Tree) -> tuple[Array, Array, Any]:
        """f, h and the gradient of the Lagrangian, as a matrix that can be multiplied with."""
        f, h, grad_f, rows = self.jacobian(x, theta)
        return f, h, self.lagrangian_gradient(grad_f, rows, lam)

    def jacobian(self, x: LowRank, theta: Tree) -> tuple[Array, Array, Array, Any]:
        """f, h, the values of grad f on the observed entries (it is 0 elsewhere), and what the gradient of h is made of."""
        table, scales = self.params["entries"], self.params["scales"]
        seen = table.seen(x)
        h = _energy(x, seen, scales) - jnp.asarray(self.levels, x.dtype)
        if not self.sampled:
            error = seen - table.values
            return scales["f"] / 2 * jnp.vdot(error, error), h, scales["f"] * error, (seen, x)
        at = _drawn(theta, self.params["places"])
        error = (seen - table.values).reshape(-1)[at]
        scale = scales["f"] * scales["observed"] / at.size
        grad = jnp.zeros_like(seen).reshape(-1).at[at].add(scale * error).reshape(seen.shape)
        return scale / 2 * jnp.sum(error**2), h, grad, (seen, x)

    def lagrangian_gradient(self, grad_f: Array, rows: Any, lam: Array) -> Any:
        """grad f + lambda (X outside the observed entries), which is X less its observed entries."""
        seen, x = rows
        weight = lam[0] * self.params["scales"]["h"]
        return self.params["entries"].matrix(grad_f - weight * seen, weight, x)


@zero_gradient.register(FactoredCompletion)
def _(problem: FactoredCompletion, x: LowRank) -> Array:
    """A gradient of f that is zero on all observed entries."""
    return jnp.zeros_like(problem.params["entries"].values)


@exact_slopes.register(FactoredCompletion)
@full_precision
def _(problem: FactoredCompletion, x: LowRank) -> LowRank:
    """The derivatives of h by the factors of x: two products, where a compiler would go back through every entry."""
    table, h = problem.params["entries"], problem.params["scales"]["h"]
    seen = table.matrix(table.seen(x), 0.0, x)
    right, left = seen @ x.v, seen.T @ x.u
    slopes = LowRank(-h * right @ x.core.T, h * (x.core - x.u.T @ right), -h * left @ x.core)
    return jax.tree.map(lambda slope: slope[None], slopes)


@step_length.register(FactoredCompletion)
@full_precision
def _(problem: FactoredCompletion, x: LowRank, lam: Array, theta: Tree, g: Any, d: LowRank) -> Array:
    """The step that minimises the Lagrangian along d, exactly, because it is quadratic."""
    table, scales = problem.params["entries"], problem.params["scales"]
    seen = table.seen(d)
    inside, slope = jnp.vdot(seen, seen), table.inner(g, d, seen)
    curvature = scales["f"] * inside + lam[0] * scales["h"] * (d.energy() - inside)
    return jnp.where((slope < 0) & (curvature > 0), -slope / jnp.where(curvature > 0, curvature, 1), 0)  # pyright: ignore[reportReturnType]


def _factored_error(x: LowRank, theta: Tree, params: Tree) -> Array:
    table = params["entries"]
    error = table.seen(x) - table.values
    return params["scales"]["f"] / 2 * jnp.vdot(error, error)


def _sampled_factored_error(x: LowRank, theta: Tree, params: Tree) -> Array:
    table, scales = params["entries"], params["scales"]
    at = _drawn(theta[None], params["places"])
    error = (table.seen(x) - table.values).reshape(-1)[at]
    return scales["f"] * scales["observed"] / 2 * jnp.sum(error**2)


def _factored_energy(x: LowRank, params: Tree) -> Array:
    return _energy(x, params["entries"].seen(x), params["scales"])


def _energy(x: LowRank, seen: Array, scales: Tree) -> Array:
    """h from the energy outside the observed entries, which is that of all entries less that of the observed ones."""
    return (scales["h"] * ((x.energy() - jnp.vdot(seen, seen)) / 2 - scales["beta"]))[None]


def _drawn(bits: Array, places: Array) -> Array:
    """An observed place for each sample, every place as likely as any other."""
    return places[bits[:, 0] % jnp.uint32(places.size)]


def _random_bits(key: Array) -> Array:
    """A sample: two whole numbers, the first of which becomes an observed place and the second an unobserved one.

    They are taken modulo the number of places; the bias is that number over 2^32.
    """
    return jax.random.bits(key, (2,), jnp.uint32)


# ---- dense ------------------------------------------------------------------------------------------------------------


def _dense(seen: Observed, domain: NuclearBall, params: dict[str, Any], sampled: bool, dtype: Any) -> Problem:
    m, n = seen.shape
    if beyond_memory(KEPT * 8 * m * n):
        raise ValueError(
            f'structured_completion: a {m:,} x {n:,} matrix has {m * n:,} entries; hold="dense" takes what this machine has '
            'the memory for. Use hold="factored".'
        )
    mask = np.zeros(seen.shape, bool)
    mask[seen.rows, seen.columns] = True
    values = np.zeros(seen.shape, dtype)
    values[seen.rows, seen.columns] = seen.values
    params |= {"M": jnp.asarray(values), "mask": jnp.asarray(mask)}
    make = partial(Problem, domain=domain, names=(CONSTRAINT,))
    if not sampled:
        return make(_dense_error, None, params=params, exact_constraints=_dense_energy)
    # Both lists at full length, the observed places first: other masks of the same size then compile nothing.
    order = np.argsort(~mask.reshape(-1), kind="stable").astype(np.int32)
    params |= {"order": jnp.asarray(order)}
    return make(_sampled_error, _sampled_energy, params=params)


def _dense_error(x: Array, theta: Tree, params: Tree) -> Array:
    return params["scales"]["f"] / 2 * jnp.sum(jnp.where(params["mask"], x - params["M"], 0) ** 2)  # pyright: ignore[reportOperatorIssue]


def _dense_energy(x: Array, params: Tree) -> Array:
    scales = params["scales"]
    return (scales["h"] * (jnp.sum(jnp.where(params["mask"], 0, x) ** 2) / 2 - scales["beta"]))[None]


def _sampled_error(x: Array, theta: Array, params: Tree) -> Array:
    """The error of one observed entry, times the number of observed entries."""
    scales = params["scales"]
    at = params["order"][theta[0] % jnp.asarray(scales["observed"], jnp.uint32)]
    error = x.reshape(-1)[at] - params["M"].reshape(-1)[at]
    return scales["f"] * scales["observed"] / 2 * error**2


def _sampled_energy(x: Array, theta: Array, params: Tree) -> Array:
    """h with the energy of one unobserved entry, times the number of unobserved entries."""
    scales = params["scales"]
    count = jnp.asarray(scales["unobserved"], jnp.uint32)
    at = params["order"][jnp.asarray(scales["observed"], jnp.uint32) + theta[1] % count]
    return (scales["h"] * (scales["unobserved"] / 2 * x.reshape(-1)[at] ** 2 - scales["beta"]))[None]
