"""What a run on rows says at its end is true, and of convex functions only."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tightrope as tr
from tightrope.evidence import chords
from tightrope.evidence.stopping import Stopping
from tightrope.problem import full_values

COST = np.array([1.0, 2.0, -1.0])


def linear(x, theta, shift):
    return jnp.dot(jnp.asarray([1.0, 2.0, -1.0]), x)


def expanded(x, theta, shift):
    """|x - t|^2/2 of t = theta - shift, as a difference of numbers near shift^2."""
    z = shift + x
    return (z @ z - 2 * (z @ theta) + theta @ theta)[None] / 2


def rows_near(shift: float, seed: int) -> np.ndarray:
    return (shift + 0.8 + np.random.default_rng(seed).normal(size=(2000, 3))).astype(np.float32)


class Truth:
    """The same problem about t = theta - shift, in float64: least <c, x> with |x - m|^2/2 <= level - v in a ball of radius 2
    that does not bind at the solution, or SLSQP's."""

    def __init__(self, theta: np.ndarray, shift: float, level: float | None):
        t = theta.astype(float) - shift
        self.m, self.v = t.mean(axis=0), float(((t - t.mean(axis=0)) ** 2).sum(axis=1).mean() / 2)
        self.level = self.v + 0.01 if level is None else level

    def violation(self, x) -> float:
        return float(((np.asarray(x, float) - self.m) ** 2).sum() / 2 + self.v - self.level)

    def best(self) -> float:
        from scipy.optimize import minimize

        room = [{"type": "ineq", "fun": lambda x: -self.violation(x)}, {"type": "ineq", "fun": lambda x: 4 - x @ x}]
        starts = (self.m * share for share in (0.2, 0.6, 1.0))
        found = [minimize(lambda x: COST @ x, x, constraints=room, method="SLSQP", tol=1e-13) for x in starts]
        return min(r.fun for r in found if r.success)


@pytest.mark.parametrize("tight", [False, True])
@pytest.mark.parametrize("shift", [100.0, 300.0, 1000.0, 3000.0])
def test_digits_that_are_lost_inside_a_function_make_no_false_statement(shift, tight):
    theta = rows_near(shift, seed=0)
    truth = Truth(theta, shift, None if tight else 2.0)
    problem = tr.Problem(linear, expanded, tr.L2Ball(2.0, shape=3), levels=truth.level, params=np.float32(shift))
    with jax.enable_x64(False):
        result = tr.minimize(problem, theta, progress=False)
    lost = 1e-6  # of the level, which float32 rounds, and of the optimum
    assert result.status not in (tr.Status.INFEASIBLE, tr.Status.CONTRADICTION, tr.Status.NOT_CONVEX)
    assert result.constraints.iloc[0] == pytest.approx(truth.violation(result.x), abs=lost)
    assert truth.violation(result.x) <= 1e-16 * shift**2  # what float64 loses of squares of the shift
    assert result.lower is not None
    assert result.gap is not None
    assert result.lower <= truth.best() + lost
    assert COST @ np.asarray(result.x, float) - truth.best() <= result.gap + lost
    if result.status is tr.Status.SOLVED:
        assert result.gap <= 2e-4


def test_infeasible_is_not_said_of_a_feasible_problem():
    for shift, seed in ((1000.0, 1), (3000.0, 2), (3000.0, 3)):
        theta = rows_near(shift, seed)
        truth = Truth(theta, shift, None)
        problem = tr.Problem(linear, expanded, tr.L2Ball(2.0, shape=3), levels=truth.level, params=np.float32(shift))
        with jax.enable_x64(False):
            result = tr.minimize(problem, theta, method="bundle", progress=False)
        assert result.status is not tr.Status.INFEASIBLE
        if result.status is not tr.Status.NO_FEASIBLE_POINT:
            assert truth.violation(result.x) <= 0


def test_infeasible_is_still_said_of_an_infeasible_problem():
    theta = rows_near(0.0, seed=0)
    truth = Truth(theta, 0.0, None)
    levels = truth.v - 0.1
    problem = tr.Problem(linear, expanded, tr.L2Ball(2.0, shape=3), levels=levels, params=np.float32(0))
    with jax.enable_x64(False):
        result = tr.minimize(problem, theta, progress=False)
    assert result.status is tr.Status.INFEASIBLE
    said = float(result.message.split(" by ")[1].split()[0])
    assert 0.05 <= said <= 0.1 + 1e-3


# ---- functions that are not convex --------------------------------------------------------------------------------


def concave(x, theta):
    return -((x - theta) ** 2).sum()


def squares(x, theta):
    return ((x - theta) ** 2).sum() / 2


def wavy(x, theta):
    return squares(x, theta) + jnp.sin(8 * x[0])


def outside(x, theta):
    return (0.5 - x @ x)[None]


def network(x, theta):
    features, label = theta
    score = jnp.tanh(features @ x["W"] + x["b"]) @ x["v"]
    return jax.nn.softplus(-(2 * label - 1) * score)


@pytest.mark.parametrize("x64", [False, True])
@pytest.mark.parametrize("method", ["auto", "bundle", "svrg-csoa"])
@pytest.mark.parametrize(
    ("f", "h", "culprit"), [(concave, None, "The objective"), (wavy, None, "The objective"), (squares, outside, "H[0]")]
)
def test_nothing_is_proven_of_functions_that_are_not_convex(f, h, culprit, method, x64):
    theta = np.random.default_rng(0).normal(size=(500, 2)).astype(np.float64 if x64 else np.float32)
    with jax.enable_x64(x64):
        result = tr.minimize(tr.Problem(f, h, tr.Box(-1.0, 1.0, shape=2)), theta, method=method, passes=40)
    assert not result.status.proven
    assert result.gap is None
    assert result.lower is None
    assert "gap" not in result.trace or not result.trace["gap"].notna().any()
    if result.status is tr.Status.NOT_CONVEX:
        assert result.message.startswith(f"{culprit} is above a chord by")


def test_a_network_has_no_duality_gap():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(800, 4)).astype(np.float32)
    y = (np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] > 0).astype(np.float32)
    x0 = {"W": rng.normal(size=(4, 6)).astype(np.float32), "b": np.zeros(6, np.float32), "v": np.ones(6, np.float32)}
    problem = tr.Problem(network, None, tr.L2Ball(8.0, shape={k: v.shape for k, v in x0.items()}))
    result = tr.minimize(problem, (X, y), x0=x0, passes=20)
    assert result.status is tr.Status.NOT_CONVEX
    assert result.gap is None
    assert "gap holds" in str(result)


def mean_convex(x, theta):
    """Convex in the mean over rows 3 and -1, and not in the second."""
    return theta * x[0] ** 2 - x[0]


def test_what_is_convex_in_the_mean_is_not_accused():
    theta = np.tile(np.array([3.0, -1.0], np.float32), 400)
    result = tr.minimize(tr.Problem(mean_convex, None, tr.Box(-1.0, 1.0, shape=1)), theta)
    assert result.status is tr.Status.SOLVED
    assert result.x[0] == pytest.approx(0.5, abs=1e-2)


def rare(x, theta):
    return -(theta[1] * x[0] ** 2) * 40 + x[0] ** 2 + theta[0] * x[0]


def test_a_few_rows_alone_accuse_nobody():
    theta = np.zeros((40_000, 2), np.float32)
    theta[:: -(-40_000 // 256), 1] = 1.0  # in every row that is asked first, in one of 157 of all
    theta[:, 0] = np.random.default_rng(0).normal(size=40_000)
    result = tr.minimize(tr.Problem(rare, None, tr.Box(-1.0, 1.0, shape=1)), theta, method="bundle")
    assert result.status is tr.Status.SOLVED


def float32_only(x, theta):
    def add(total, v):
        return total + v * v, None

    return jax.lax.scan(add, jnp.zeros((), jnp.float32), x - theta)[0]


def test_functions_that_fail_in_float64_are_told_apart_and_run_in_float32():
    theta = np.random.default_rng(0).normal(size=(300, 2)).astype(np.float32)
    problem = tr.Problem(float32_only, None, tr.L2Ball(1.0, shape=2))
    with pytest.raises(ValueError, match=r'does not fail in float32.*pass precision="float32"'):
        tr.minimize(problem, theta, method="sqp")
    result = tr.minimize(problem, theta, method="sqp", precision="float32")
    assert result.status.proven
    assert result.x.dtype == np.float32


# ---- gaps below zero ----------------------------------------------------------------------------------------------


def test_a_gap_below_zero_by_more_than_rounding_is_a_contradiction():
    for stopping in (Stopping(None, True), Stopping(0.1, False), Stopping(None, False)):
        assert stopping.look(-0.2, 0.1, 1.0, 1.0) is tr.Status.CONTRADICTION
        assert stopping.look(-0.05, 0.1, 1.0, 1.0) is not tr.Status.CONTRADICTION


# ---- sums ---------------------------------------------------------------------------------------------------------


def test_the_worst_sum_that_is_known_is_within_the_units_that_are_counted():
    """Lanes of 32 that begin with one and go on with halves of its last digit: 16.45 units were found at random."""
    from tightrope.problem.rounding import UNITS

    rng, eps, worst = np.random.default_rng(0), float(np.finfo(np.float32).eps), 0.0
    problem = tr.Problem(lambda x, theta: theta, None, tr.Box(0.0, 1.0, shape=1))
    with jax.enable_x64(False):
        for _ in range(40):
            v = np.full(1024, 0.999999 * 2.0**-24)
            v[:32] = 1 + rng.integers(0, 4, size=32) * 2.0**-23
            v = v.astype(np.float32)
            made = float(full_values(problem, jnp.zeros(1), jnp.asarray(v))[0])
            worst = max(worst, abs(made - v.mean(dtype=float)) / (eps * np.abs(v).mean(dtype=float)))
    assert worst <= UNITS


# ---- nobody is accused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("x64", [False, True])
@pytest.mark.parametrize("seed", [4, 12, 38])  # convex, in random units: quantiles, smooth functions, kinks
def test_no_convex_function_is_accused(seed, x64):
    from studies.strangers.generate import stranger
    from tightrope.loop.prepare import prepare

    one = stranger(seed)
    with jax.enable_x64(x64):
        table = jax.tree.map(lambda v: np.asarray(v, np.float64 if x64 else np.float32), one.table)
        ready = prepare(one.problem, table, "svrg-csoa", steps=None, passes=1, batch_size=None, seeds=(0,), x0=None)
        ends = [one.in_units(np.random.default_rng(k).normal(size=one.d)) for k in range(2)]
        for end in (ready.problem.domain.lmo(jax.tree.map(jnp.asarray, end)) for end in ends):
            x = jax.tree.map(lambda a, b: jnp.asarray((a + b) / 2, a.dtype), ready.x, end)
            of = ready.problem, ready.sampler.rows, x, ready.x, np.ones(one.N), ready.names
            assert chords.above_a_chord(*of) is None
