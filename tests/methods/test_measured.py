"""Without coefficients: units do not matter, epochs are where they should be, and the output satisfies its constraints."""

from functools import cache, partial
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from core_cases import PROBLEM, SAMPLERS, assert_same_run
from scipy.stats import t as student
from slow import quick_first

import tightrope as tr
from tightrope.methods import measured
from tightrope.problems import PROBLEMS
from tightrope.tree import ravel, replace

METHODS = {"csoa": tr.CSOA(), "fw-csoa": tr.FWCSOA(), "split-csoa": tr.SplitCSOA()}
TIED = replace(PROBLEM, domain=tr.L1Ball(2.0, shape=3))  # Split-CSOA is CSOA in a ball
SAMPLES = np.random.default_rng(3).normal([1.0, -0.5, 0.2], 0.7, size=(460, 3))

# ---- units -----------------------------------------------------------------------------------------------------------


def in_other_units(problem: tr.Problem, a: Any, b: Any, c: Any) -> tr.Problem:
    """The problem with f written in units 1/a, every h_i with its level in units 1/b_i, and x with its domain in units 1/c.

    The leaves of a set are lengths, so that they are multiplied by c.
    """

    def values(x, theta, units):
        f, h = problem.sample_values(jax.tree.map(lambda v: v / units["c"], x), theta)
        return units["a"] * f, units["b"] * h

    return tr.Problem(
        lambda x, theta, units: values(x, theta, units)[0],
        lambda x, theta, units: values(x, theta, units)[1],
        jax.tree.map(lambda v: c * v, problem.domain),
        params={"a": a, "b": b, "c": c},
    )


@cache
def runs(name: str, method: str, steps: int = 200) -> Any:
    """A program for runs side by side, each in units of its own: (a, b, c) -> outputs x/c and multipliers b lambda/a."""
    solved, chosen = PROBLEMS[name](), (METHODS | {"plain": tr.CSOA(eta0=1.0)})[method]
    start = jax.tree.map(jnp.asarray, solved.problem.domain.start(float))
    keys = jax.random.split(jax.random.key(0), steps)

    def run(a, b, c):
        problem = in_other_units(solved.problem, a, b, c)

        def step(state, key):
            state, info = chosen.step(problem, state, jax.tree.map(lambda v: v[None], solved.samples.fn(key)))
            return state, (info.weight, info.x, info.lam)

        x, lam = jax.tree.map(lambda v: c * v, start), jnp.zeros(len(solved.dual))
        state = chosen.init(problem, x, lam, jnp.asarray(steps, jnp.int32))
        _, (weight, points, duals) = jax.lax.scan(step, state, keys)
        mean = jax.tree.map(lambda v: jnp.tensordot(weight, v, 1) / jnp.sum(weight) / c, points)
        return ravel(mean)[0], b * (weight @ duals) / jnp.sum(weight) / a

    return jax.jit(jax.vmap(run))


def outputs(name: str, method: str, factors: tuple[float, float]) -> tuple[np.ndarray, np.ndarray]:
    """The outputs in the problem's own units: of the plain run, then with f, the last h_i and x in units of each factor."""
    n = len(PROBLEMS[name]().dual)
    a, b, c = np.ones(7), np.ones((7, n)), np.ones(7)
    a[1:3], b[3:5, -1], c[5:7] = factors, factors, factors
    x, lam = runs(name, method)(a, b, c)
    return np.asarray(x), np.asarray(lam)


CASES = [
    *((name, "csoa") for name in PROBLEMS),
    *((name, "fw-csoa") for name in ("simplex", "portfolio", "spectraplex")),
    *((name, "split-csoa") for name in ("portfolio", "completion")),
]


QUICK = [(name, "csoa") for name in ("simplex", "portfolio", "queue", "fair-logistic", "ill-scaled")] + [
    CASES[-1],
    CASES[-4],
]


@pytest.mark.parametrize(("name", "method"), quick_first(CASES, QUICK))
def test_units_do_not_matter(name, method):
    for values in outputs(name, method, (2.0**20, 2.0**-20)):  # powers of two, so that rounding is the same
        np.testing.assert_allclose(values[1:], np.broadcast_to(values[0], values[1:].shape), rtol=1e-9, atol=1e-12)
        assert np.abs(values[0]).max() > 0


@pytest.mark.parametrize(("name", "method"), [("ball", "csoa"), ("simplex", "csoa"), ("portfolio", "split-csoa")])
def test_units_do_not_matter_but_for_rounding(name, method):
    for values in outputs(name, method, (1e6, 1e-6)):
        np.testing.assert_allclose(values[1:], np.broadcast_to(values[0], values[1:].shape), rtol=1e-9, atol=1e-12)


def test_coefficients_that_were_given_do_not_know_units():
    """The comparison can fail."""
    x, _ = outputs("ball", "plain", (2.0**20, 2.0**-20))
    assert np.abs(x[1:] - x[0]).max(axis=1).min() > 0.01


# ---- epochs ----------------------------------------------------------------------------------------------------------


def ends_of(T: int) -> list[int]:
    """T, T/2, T/4, ... down to the pilot, which has 32 steps or more, or half the run; before it half of the pilot."""
    ends = [T]
    while ends[0] // 2 >= 32:
        ends.insert(0, ends[0] // 2)
    if len(ends) == 1:
        ends.insert(0, -(-T // 2))
    return [max(ends[0] // 2, 1), *ends]


def test_epochs_halve_the_horizon():
    horizons, stages = np.arange(1, 5001, dtype=np.int32), np.arange(9, dtype=np.int32)
    end_of = partial(measured.end_of, anytime=False)
    table = np.asarray(jax.jit(jax.vmap(jax.vmap(end_of, (0, None)), (None, 0)))(stages, horizons))
    for T, found in zip(horizons, table, strict=True):
        expected = ends_of(int(T))
        assert found[: len(expected)].tolist() == expected
        assert (found[len(expected) :] == T).all()
        assert T < 3 or np.all(np.diff(expected) > 0)


def test_without_a_horizon_epochs_double():
    far = jnp.asarray(2**31 - 1, jnp.int32)
    ends = [int(measured.end_of(jnp.asarray(stage, jnp.int32), far, True)) for stage in range(30)]
    assert ends[:6] == [16, 32, 64, 128, 256, 512]
    assert np.all(np.diff(ends[:27]) > 0)
    assert ends[27:] == [2**31 - 1] * 3


# ---- coefficients that are given mean what they mean -----------------------------------------------------------------


def test_with_a_coefficient_it_is_the_plain_algorithm():
    method = tr.CSOA(eta0=1.0)
    assert (method.eta0, method.delta, method.upsilon0, method.dual_scale) == (1.0, 0.01, 2.0, 1.0)
    assert not method.measures
    assert tr.CSOA().measures
    x, lam, theta = jnp.array([0.3, -0.2, 0.1]), jnp.array([0.4, 0.0]), SAMPLES[:1]
    state = method.init(PROBLEM, x, lam, jnp.asarray(16, jnp.int32))
    state, _ = method.step(PROBLEM, state, theta)
    _, h, _, rows = PROBLEM.jacobian(x, theta)
    gradient = (x - theta[0]) + lam @ rows
    np.testing.assert_allclose(state.x, x - 0.25 * gradient, rtol=1e-12)  # inside the ball
    np.testing.assert_allclose(state.lam, np.maximum((1 - 0.01 / 16) * lam + 0.25 * (h + 2 / 4), 0), rtol=1e-12)


def test_fw_csoa_with_a_coefficient_takes_its_schedule():
    assert tr.FWCSOA().schedule == "measured"
    method = tr.FWCSOA(eta0=0.7)
    assert (method.schedule, method.eta0, method.rho0, method.upsilon0) == ("sqrt", 0.7, 1.25, 2.0)


# ---- the loop ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_resumed_and_cut_runs_are_the_same_bit_for_bit(method, tmp_path):
    run = partial(tr.minimize, TIED, SAMPLERS["generator"](), method=method, steps=300, seed=7)
    whole = run()
    assert_same_run(run(chunk=37), whole)
    file = tmp_path / "run.ckpt"
    first = run(checkpoint=file, callback=lambda snapshot: snapshot.step >= 150, chunk=29)
    assert first.cost.steps < 300
    assert_same_run(run(checkpoint=file), whole)


@pytest.mark.parametrize("method", [tr.CSOA(), tr.SplitCSOA()], ids=["csoa", "split-csoa"])
def test_a_sweep_over_seeds_equals_minimize(method):
    table = tr.sweep(TIED, SAMPLERS["generator"](), method, steps=300, seeds=(3, 7), points=True)
    alone = tr.minimize(TIED, SAMPLERS["generator"](), method=method, steps=300, seed=7)
    np.testing.assert_allclose(table["x"][1], alone.x, rtol=1e-9)
    assert np.abs(table["x"][0] - alone.x).max() > 1e-3


@pytest.mark.parametrize("method", [tr.CSOA(anytime=True), tr.SplitCSOA(anytime=True)], ids=["csoa", "split-csoa"])
def test_a_fed_run_does_not_depend_on_its_batches_and_gets_near_the_solution(method):
    solved = PROBLEMS["ball"]()
    rows, fed = solved.rows(2048), []
    for ends in ([0, 2048], [0, 1100, 2048]):
        run = tr.Online(solved.problem, method)
        for low, high in pairwise(ends):
            run.update({name: values[low:high] for name, values in rows.items()})
        fed.append(run)
    np.testing.assert_array_equal(fed[0].x, fed[1].x)
    np.testing.assert_array_equal(fed[0].dual, fed[1].dual)
    assert np.linalg.norm(fed[0].x - solved.x) < 0.2
    assert fed[0].dual == pytest.approx(solved.dual, rel=0.3)


# ---- the edges -------------------------------------------------------------------------------------------------------


def near(x, theta):
    return jnp.sum((x - theta) ** 2) / 2


def test_no_constraints():
    problem = tr.Problem(near, None, tr.L2Ball(2.0, shape=3))
    result = tr.minimize(problem, SAMPLERS["generator"](), method=tr.CSOA(), steps=2000)
    np.testing.assert_allclose(result.x, [1.0, -0.5, 0.2], atol=0.1)


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_the_shortest_runs(method):
    for steps in (1, 2, 3):
        result = tr.minimize(PROBLEM, SAMPLERS["generator"](), method=method, steps=steps)
        assert result.status is tr.Status.FINISHED
        assert np.isfinite(result.x).all()
        assert np.isfinite(result.dual_last).all()
        assert bool(PROBLEM.domain.contains(result.x))


def test_exact_constraints_batches_and_a_warm_start_in_float32():
    """min |x - m|^2/2 s.t. x_1 <= 1/2, whose multiplier is 1/2: m_1 = 1."""
    problem = tr.Problem(near, None, tr.L2Ball(2.0, shape=3), levels=0.5, exact_constraints=lambda x: x[:1])
    run = partial(tr.minimize, problem, SAMPLERS["generator"](), method=tr.CSOA(), batch_size=8)
    with jax.enable_x64(False):
        cold = run(steps=1500)
        warm = run(steps=1500, warm_start=cold, seed=1)
        short = run(steps=20, warm_start=cold)
    for result in (cold, warm):
        assert result.x.dtype == jnp.float32
        assert result.cost.samples == 8 * 1500
        np.testing.assert_allclose(result.x, [0.5, -0.5, 0.2], atol=0.06)
        assert result.constraints.max() < 0.02
        assert result.dual == pytest.approx([0.5], abs=0.15)
    # while the pilot stands still
    assert short.trace["dual h[0]"].iloc[0] == pytest.approx(float(cold.dual_last[0]), rel=1e-5)
    assert cold.dual_last[0] > 0.1


def test_split_csoa_is_csoa_in_a_ball():
    run = partial(tr.minimize, PROBLEM, SAMPLERS["generator"](), steps=300)
    split, plain = run(method=tr.SplitCSOA()), run(method=tr.CSOA())
    for name in ("x", "last", "dual", "dual_last"):
        np.testing.assert_allclose(getattr(split, name), getattr(plain, name), rtol=1e-12)  # compilers add up otherwise
    assert (split.cost.lmos, split.cost.projections) == (0, plain.cost.projections)


@pytest.mark.parametrize("method", quick_first([tr.CSOA(), tr.SplitCSOA()], 1), ids=["csoa", "split-csoa"])
def test_multipliers_do_not_run_off_in_the_first_epochs(method):
    """The slope of a tail is ten times that of the objective: steps made for the objective alone throw x about, H is above
    zero wherever it lands, and the multiplier grows to ten times its size (0.4), from which 1,000 steps do not recover."""
    solved = PROBLEMS["portfolio"]()
    table = tr.sweep(solved.problem, solved.samples, method, steps=1000, seeds=range(12), points=True)
    assert table["dual h[0]"].mean() < 2 * solved.dual[0]
    gaps = [float(solved.objective(x)) - solved.optimum for x in table["x"]]
    assert np.mean(gaps) < 0.035


# ---- violation -------------------------------------------------------------------------------------------------------


def test_a_multiplier_of_fifty_is_no_reason_to_violate():
    """min 25 |x - (2, 0)|^2 s.t. x_1 <= 1: at x* = (1, 0) the gradient is (-50, 0), so that the multiplier is 50."""

    def f(x, theta):
        return 25 * jnp.sum((x - jnp.array([2.0, 0.0], x.dtype)) ** 2) + 5 * jnp.dot(theta["g"], x)

    def h(x, theta):
        return (x[0] - 1 + 0.5 * theta["v"])[None]

    def draw(key):
        g, v = jnp.split(jax.random.normal(key, (3,)), [2])
        return {"g": g, "v": v[0]}

    problem = tr.Problem(f, h, tr.Box(-1.0, 3.0, shape=2))
    methods = {"measured": tr.CSOA(), "given": tr.CSOA(eta0=1.0)}
    table = tr.sweep(problem, tr.Generator(draw), methods, steps=5000, seeds=range(20), points=True)
    points = {name: np.stack(part["x"].tolist()) for name, part in table.groupby("method")}

    def lowest(name):
        """The lower end of the 95 % interval of the mean of H."""
        H = points[name][:, 0] - 1
        return H.mean() - student.ppf(0.975, 19) * H.std(ddof=1) / np.sqrt(20)

    assert lowest("measured") <= 0
    assert lowest("given") > 0.01
    np.testing.assert_allclose(points["measured"].mean(axis=0), [1.0, 0.0], atol=0.02)
    assert table[table["method"] == "measured"]["dual h[0]"].mean() == pytest.approx(50, rel=0.1)


# ---- formulas --------------------------------------------------------------------------------------------------------


def test_epochs_of_fw_csoa_are_those_of_its_horizon():
    """The pilot of 1,000 steps has 62; without a horizon it would have 32."""
    problem = tr.Problem(lambda x, theta: x @ theta, lambda x, theta: x[:1] - theta[:1], tr.L1Ball(1.0, shape=2))
    first = tr.FWCSOA().init(problem, jnp.zeros(2), jnp.zeros(1), jnp.asarray(1000, jnp.int32))

    def step(_, state):
        return tr.FWCSOA().step(problem, state, jnp.array([[0.3, -0.2]]))[0]

    after = jax.jit(lambda state: jax.lax.fori_loop(0, 31, step, state))(first).scales
    assert (int(after.stage), int(after.begin), int(after.end)) == (1, 31, 62)


# ---- sets that are wide -------------------------------------------------------------------------------------------------


def softplus(x, theta):
    """A logistic loss in many directions, whose solution is far nearer than the set is wide."""
    return jax.nn.softplus(-jnp.dot(theta["a"], x) * theta["y"])


@pytest.mark.parametrize("steps", [200, 2000])
def test_a_set_far_wider_than_what_is_looked_for_does_not_throw_x_away(steps):
    d, rng = 200, np.random.default_rng(0)
    w = rng.normal(size=d) * 2 / d**0.5

    def rows(n):
        a = rng.normal(size=(n, d))
        y = np.where(rng.random(n) < 1 / (1 + np.exp(-a @ w)), 1, -1)
        return {"a": a.astype(np.float32), "y": y.astype(np.float32)}

    fresh = rows(4000)
    problem = tr.Problem(softplus, lambda x, theta: (jnp.dot(theta["a"], x) - 1.0)[None], tr.L2Ball(20.0, shape=d))
    x = np.asarray(tr.minimize(problem, tr.Stream([rows(steps)]), method="csoa", steps=steps).x)
    loss = np.logaddexp(0, -fresh["y"] * (fresh["a"] @ x)).mean()
    assert loss < np.log(2) + 0.05  # that of the start
