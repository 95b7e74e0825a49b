"""The duality gap that ends a run, held against the true gap in extended precision: never below it, and not far above."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize as scipy_minimize
from slow import quick_first

import tightrope as tr
from tightrope.evidence.gap import Bound, _pulled, gap_of, inside_of
from tightrope.methods.merit import judged, no_merit
from tightrope.methods.snapshot import take_snapshot
from tightrope.solvers.survey import look_of

ROWS, D = 48, 3


def objective(x, theta, params):
    a, _ = theta
    weight = params["weight"]  # of a quadratic, a linear and a logistic part
    quadratic, linear, logistic = jnp.sum((x - a) ** 2) / 2, a @ x, jnp.logaddexp(0.0, a @ x)
    parts = weight[0] * quadratic + weight[1] * linear + weight[2] * logistic
    return params["offset"] + params["scale"] * parts


def constraint(x, theta, params):
    return params["unit"] * (theta[1] @ x)[None]


def problem_of(case: "Case") -> tr.Problem:
    params = {name: jnp.asarray(getattr(case, name)) for name in ("weight", "offset", "scale", "unit")}
    return tr.Problem(
        objective, constraint, tr.L2Ball(jnp.asarray(case.radius), shape=D), jnp.asarray([case.level]), params
    )


class Case:
    """A random problem, its numbers as they are stored in this precision, and its solution in extended precision."""

    def __init__(self, seed: int, dtype: Any):
        rng = np.random.default_rng(seed)

        def stored(v):
            return np.asarray(v, dtype)

        self.weight = stored(np.eye(3)[seed % 3])
        self.scale, self.unit = stored(10 ** rng.uniform(-6, 6)), stored(10 ** rng.uniform(-6, 6))
        offset = rng.choice([0.0, 1.0]) * 10 ** rng.uniform(-6, 6) * rng.choice([-1, 1])
        self.offset = stored(offset)
        self.radius = stored(10 ** rng.uniform(-0.5, 1))
        self.a = stored(rng.normal(size=(ROWS, D)) + rng.normal(size=D))
        self.b = stored(rng.normal(size=(ROWS, D)) + rng.normal(size=D))
        binding = rng.choice([0.02, 0.3, 3.0])
        mean = np.asarray(self.b, float).mean(axis=0)
        self.level = stored(float(self.unit) * binding * float(self.radius) * np.linalg.norm(mean))
        slope = np.linalg.norm(self.derivatives(np.zeros(D, np.longdouble))[0].astype(float))
        level = abs(float(self.parts(np.zeros(D, np.longdouble))))
        self.range = float(self.scale) * (slope * float(self.radius) + level)  # about the objective's size on the ball

    @property
    def data(self):
        return self.a, self.b

    def violation(self, x):
        return np.longdouble(self.unit) * (self.b.astype(np.longdouble).mean(axis=0) @ x) - np.longdouble(self.level)

    def parts(self, x):
        """The mean of the three parts, without offset and scale: everything in extended precision."""
        a, w = self.a.astype(np.longdouble), self.weight
        if w[0]:
            return ((x - a) ** 2).sum(axis=1).mean() / 2
        z = a @ x
        return z.mean() if w[1] else np.logaddexp(np.longdouble(0), z).mean()

    def derivatives(self, x):
        a, w = self.a.astype(np.longdouble), self.weight
        if w[0]:
            return x - a.mean(axis=0), np.eye(D, dtype=np.longdouble)
        if w[1]:
            return a.mean(axis=0), np.zeros((D, D), np.longdouble)
        p = (1 + np.tanh(a @ x / 2)) / 2
        return a.T @ p / ROWS, (a.T * (p * (1 - p))) @ a / ROWS

    def duality_gap(self, w, lam):
        """The gap of w, pulled towards zero until it is feasible, that the multipliers lam prove, nothing rounded."""
        b, lam = self.b.astype(np.longdouble).mean(axis=0), np.longdouble(lam[0]) * np.longdouble(self.unit)
        level, scale = np.longdouble(self.level) / np.longdouble(self.unit), np.longdouble(self.scale)
        f, zero, above = self.parts(w), self.parts(0 * w), max(b @ w - level, 0)
        g = scale * self.derivatives(w)[0] + lam * b
        bound = scale * f + lam * (b @ w - level) - g @ w - np.longdouble(self.radius) * np.sqrt(g @ g)
        return scale * (f + above / (above + level) * max(zero - f, 0)) - bound

    def optimum(self):
        """The least mean of the parts: SLSQP, then Newton's method on the conditions of every set of active constraints."""
        b, level = self.b.astype(np.longdouble).mean(axis=0), np.longdouble(self.level) / np.longdouble(self.unit)
        radius = np.longdouble(self.radius)
        constraints = [
            {"type": "ineq", "fun": lambda x: float(level) - b.astype(float) @ x, "jac": lambda _: -b.astype(float)},
            {"type": "ineq", "fun": lambda x: float(radius**2) - x @ x, "jac": lambda x: -2 * x},
        ]
        near = scipy_minimize(
            lambda x: (float(self.parts(x)), self.derivatives(x)[0].astype(float)), np.zeros(D), jac=True, method="SLSQP",
            constraints=constraints, options={"ftol": 1e-14, "maxiter": 300},
        ).x  # fmt: skip
        values = [self._stationary(near, b, level, radius, *active) for active in np.ndindex(2, 2)]
        return min(v for v in values if v is not None)

    def _stationary(self, x, b, level, radius, affine, ball):
        """The value at the solution of the conditions with these constraints active; None where that is no solution."""
        on = np.array([affine, ball], bool)
        count, multipliers = int(on.sum()), np.zeros(2, np.longdouble)
        multipliers[on] = np.linalg.lstsq(np.stack([b.astype(float), x])[on].T, -self.derivatives(x)[0].astype(float))[
            0
        ]
        x = x.astype(np.longdouble)
        for _ in range(12):
            g, hessian = self.derivatives(x)
            normals = np.stack([b, x])  # of b x = level and |x|^2/2 = radius^2/2
            residual = np.array([b @ x - level, (x @ x - radius**2) / 2])
            matrix = np.zeros((D + count, D + count), np.longdouble)
            matrix[:D, :D] = hessian + multipliers[1] * np.eye(D)
            matrix[:D, D:], matrix[D:, :D] = normals[on].T, normals[on]
            right = -np.concatenate([g, residual[on]])
            step = solve(matrix, right)
            if step is None:
                return None
            x, multipliers[on] = x + step[:D], step[D:]
        small = np.longdouble(1e-16) * (radius + 1)
        g = self.derivatives(x)[0] + multipliers @ np.stack([b, x])
        holds = b @ x - level <= small * np.linalg.norm(b.astype(float)) and x @ x - radius**2 <= small * radius
        return self.parts(x) if holds and np.all(multipliers >= 0) and np.all(np.abs(g) < 1e-15) else None


def solve(matrix, right):
    """Gaussian elimination, because NumPy's solver knows no extended precision; None where the matrix is singular."""
    m = np.column_stack([matrix, right])
    for k in range(len(m)):
        pivot = k + int(np.argmax(np.abs(m[k:, k])))
        if abs(m[pivot, k]) < 1e-14:
            return None
        m[[k, pivot]] = m[[pivot, k]]
        m[k] /= m[k, k]
        others = np.arange(len(m)) != k
        m[others] -= m[others, k][:, None] * m[k][None, :]
    return m[:, -1]


class Verdict(NamedTuple):
    """What came of one run: where its tolerance ended it, the gap it reported beside the true one."""

    seed: int
    ended: str  # "refused", or the name of its status
    reported: float = np.nan
    true: float = np.nan
    exact: float = np.nan  # what would have been reported were nothing rounded
    unit: float = np.nan  # in which its values are rounded


def verdict(seed: int, dtype: Any, method: str) -> Verdict:
    """Run one problem to a random tolerance, in this precision."""
    case = Case(seed, dtype)
    lowest = -6 if dtype == np.float32 else -11
    tol = float(10 ** np.random.default_rng(seed).uniform(lowest, -1) * case.range)
    terms = float(case.unit * np.abs(case.b).mean(axis=0).sum() * case.radius)  # that a constraint is made of
    unit = float(np.finfo(dtype).eps) * float(abs(float(case.offset)) + case.range * (1 + terms / float(case.level)))
    try:
        result = tr.minimize(problem_of(case), case.data, method=method, tol=tol, passes=40, record=0, seed=seed)
    except ValueError as error:
        refused = "the smallest duality gap that can be certified here in" in str(error) and tol < 100 * unit
        return Verdict(seed, "refused" if refused else str(error))
    if result.status in (tr.Status.FINISHED, tr.Status.NOT_CONVERGED):
        return Verdict(seed, "FINISHED")
    reported, x = result.trace["gap"].iloc[-1], np.asarray(result.x).astype(np.longdouble)
    assert reported <= tol or result.status is tr.Status.PRECISION
    assert case.violation(x) <= 0
    true = float(np.longdouble(case.scale) * (case.parts(x) - case.optimum()))
    if method == "bundle":  # its bound is made of all cuts
        look = look_of(result.state)
        exact = max(look.upper - look.lower, true)
    else:
        snap = result.method.snapshot(result.state)
        exact = float(case.duality_gap(np.asarray(snap.w).astype(np.longdouble), np.asarray(snap.lam)))
    assert result.gap is not None
    assert true <= result.gap <= reported + 100 * unit  # what a certificate says
    return Verdict(seed, result.status.name, reported, true, exact, unit)


def check(seeds, dtype, method) -> None:
    with jax.enable_x64(dtype == np.float64):
        table = pd.DataFrame([verdict(seed, dtype, method) for seed in seeds])
    judged = table.dropna()
    over = (judged.reported - 10 * judged.exact) / judged.unit
    assert set(table.ended) <= {"refused", *tr.Status.__members__}
    assert len(judged) > len(table) / 3
    assert (judged.reported >= judged.true).all(), judged[judged.reported < judged.true]
    assert (judged.reported <= 10 * judged.exact + 200 * judged.unit).all(), judged[over > 200]


@pytest.mark.parametrize("dtype", quick_first([np.float32, np.float64], 1))
def test_the_gap_is_never_below_the_true_one(dtype):
    check(range(0, 20, 2), dtype, "svrg-csoa")
    check(range(0, 6, 2), dtype, "bundle")


@pytest.mark.slow
@pytest.mark.parametrize("method", ["svrg-csoa", "bundle"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_gap_is_never_below_the_true_one_in_a_thousand_problems(dtype, method):
    check(range(1000), dtype, method)


# ---- what ends a run, and what it says -------------------------------------------------------------------------------


def near_a_hundred(x, theta):
    return 100 + jnp.sum((x - theta) ** 2) / 2


def inner_product(x, theta):
    return (theta @ x)[None]


def far_from_zero(level: float = 1.0) -> tuple[tr.Problem, np.ndarray]:
    theta = np.random.default_rng(0).normal(1, 1, size=(1000, 2)).astype(np.float32)
    return tr.Problem(near_a_hundred, inner_product, tr.L2Ball(2.0, shape=2), levels=level), theta


@pytest.mark.parametrize(("precision", "tol", "advice"), [("float32", 1e-7, "Leave out"), (None, 1e-15, "other units")])
def test_a_run_ends_where_rounding_alone_keeps_it_from_its_tolerance_and_says_what_would_help(precision, tol, advice):
    problem, theta = far_from_zero()
    result = tr.minimize(problem, theta, method="svrg-csoa", tol=tol, precision=precision)
    assert result.status is tr.Status.PRECISION
    assert "of which rounding is" in result.message
    assert advice in result.message
    assert "passes" not in result.message
    assert result.cost.steps < 10_000


@pytest.mark.parametrize("switch", [False, True])
def test_float32_rows_are_computed_in_float64_whatever_the_switch_says(switch):
    problem, theta = far_from_zero()
    with jax.enable_x64(switch):
        result = tr.minimize(problem, theta, method="svrg-csoa", tol=1e-6)
    assert result.status is tr.Status.TOLERANCE
    assert result.gap is not None
    assert result.gap <= 1e-6
    assert result.violation == 0


@pytest.mark.parametrize("output", [None, "feasible", "last", "average"])
def test_what_a_tolerance_ends_satisfies_its_constraints_or_says_that_it_does_not(output):
    problem, theta = far_from_zero(level=0.5)
    result = tr.minimize(problem, theta.astype(float), method="svrg-csoa", tol=0.1, output=output)
    assert result.status is tr.Status.TOLERANCE
    if output in (None, "feasible"):
        assert result.output == "feasible"
        assert result.violation == 0
        assert "asked for" not in result.message
    else:
        assert result.violation > 0
        assert f"which was asked for and violates a constraint by {result.violation:.3g}." in result.message


def test_the_best_lower_bound_counts_and_not_the_last():
    """Snapshots with better and worse multipliers: the floor of a later look is never below that of an earlier one."""
    problem, theta = far_from_zero()
    data, x = jnp.asarray(theta, float), jnp.asarray([0.4, 0.3])
    good, bad = (jax.jit(take_snapshot)(problem, x, jnp.asarray([lam]), data) for lam in (0.2, 5.0))
    inside = inside_of(problem, jnp.zeros(2), data)
    first, alone = (gap_of(problem, snap, inside, data, Bound()) for snap in (good, bad))
    second = gap_of(problem, bad, inside, data, first.best)
    assert alone.best.certain < first.best.certain - 1
    assert second.best == first.best
    assert second.value == pytest.approx(first.value, rel=1e-12)
    wid = problem.domain.widths(x)
    for order in ((good, bad), (bad, good)):
        merit = no_merit(good)
        for k, snap in enumerate(order):
            merit, _ = jax.jit(judged)(problem, merit, snap, jnp.ones(1), wid, jnp.asarray(k == 0))
        assert float(merit.floor) == pytest.approx(first.best.value, rel=1e-12)


def test_a_point_is_pulled_as_far_as_the_worst_constraint_asks_for():
    assert _pulled(np.array([1.0, 0.1]), np.array([-0.5, -0.1])) == pytest.approx(1 / 1.5)
    assert _pulled(np.array([1.0, 0.1]), np.array([-0.5, 0.2])) == 1  # s does not help
    assert _pulled(np.array([-1.0, 0.0]), np.array([-0.5, 0.2])) == 0


def test_a_resumed_run_remembers_the_best_bound(tmp_path):
    problem, theta = far_from_zero()
    settings: dict[str, Any] = {"method": "svrg-csoa", "tol": 1e-8, "checkpoint_every": 50, "chunk": 50}
    whole = tr.minimize(problem, theta.astype(float), **settings)
    part = tr.minimize(
        problem, theta.astype(float), **settings, checkpoint=tmp_path / "c", callback=lambda s: s.step >= 100
    )
    assert part.status is tr.Status.CALLBACK_STOPPED
    resumed = tr.minimize(problem, theta.astype(float), **settings, checkpoint=tmp_path / "c")
    assert resumed.message == whole.message
    np.testing.assert_array_equal(resumed.x, whole.x)
