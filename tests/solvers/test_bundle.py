"""The bundle: optima by cvxpy, bounds that hold for any multipliers, proofs of infeasibility, units, saved runs."""

import itertools
from types import SimpleNamespace
from typing import Any

import cvxpy as cp
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from slow import quick_first

import tightrope as tr
from studies.finite_sums import finite
from tightrope.solvers.bundle import BundleSurvey
from tightrope.solvers.cuts import Looks, Model, Units, best_combination
from tightrope.solvers.programmes import region_of, solve
from tightrope.solvers.quadratic import with_secants
from tightrope.tree import replace

RNG = np.random.default_rng(7)
RETURNS = {"gain": 0.1 * RNG.standard_t(4, size=(300, 5)) + np.linspace(0.0, 0.1, 5), "loss": RNG.normal(size=300)}


def loss(x, theta):
    return -jnp.dot(theta["gain"], x)


def overflow(x, theta):
    return jnp.maximum(theta["loss"] * 0.05 - jnp.dot(theta["gain"], x), 0.0)[None]


def hinge_problem(level):
    """A linear objective on the simplex under a bound on a mean of hinges: no curvature anywhere."""
    return tr.Problem(loss, overflow, tr.Simplex(shape=5), levels=level)


def least(objective: Any, *rules: Any) -> float:
    """The least objective under these rules, by cvxpy."""
    model = cp.Problem(cp.Minimize(objective), list(rules))
    model.solve(solver=cp.CLARABEL)  # to about 1e-8
    return float(np.asarray(model.value))


def by_cvxpy(objective, level):
    """The least objective(x) under that bound."""
    x = cp.Variable(5)
    shortfall = cp.mean(cp.pos(0.05 * RETURNS["loss"] - RETURNS["gain"] @ x))
    return least(objective(x), shortfall <= level, x >= 0, cp.sum(x) == 1)


@pytest.mark.parametrize(("name", "passes"), quick_first([("ball", 12), ("simplex", 6), ("l1-lp", 10)], 2))
def test_it_finds_the_optimum_of_exact_problems_in_a_few_passes(name, passes):
    problem, data, optimum = finite(name)
    result = tr.minimize(problem, data, method="bundle", tol=1e-6)
    assert result.status is tr.Status.TOLERANCE
    assert result.cost.gradients <= passes * 2000
    assert result.violation == 0
    assert result.objective is not None
    assert -1e-9 <= result.objective - optimum <= result.trace["gap"].iloc[-1] + 1e-9
    assert result.trace["gap"].iloc[-1] <= 1e-6


def test_hinges_without_any_curvature_are_solved_and_kept():
    level = 0.6 * by_cvxpy_worst()
    optimum = by_cvxpy(lambda x: -RETURNS["gain"].mean(axis=0) @ x, level)
    result = tr.minimize(hinge_problem(level), RETURNS, method="bundle", tol=1e-7, passes=60)
    assert result.status is tr.Status.TOLERANCE
    assert result.violation == 0
    assert result.objective == pytest.approx(optimum, abs=2e-7)
    assert result.dual[0] > 0


def by_cvxpy_worst():
    """The shortfall of the asset that gains most: a level below it binds."""
    return float(np.maximum(0.05 * RETURNS["loss"] - RETURNS["gain"][:, 4], 0).mean())


def test_a_tail_in_a_product_with_its_quantile():
    base = tr.Problem(loss, lambda x, theta: -jnp.dot(theta["gain"], x)[None], tr.Simplex(shape=5), levels=0.1)
    problem = tr.lift_cvar(base, 0.9, lower=-1.0, upper=1.0)
    x, u, gain = cp.Variable(5), cp.Variable(), RETURNS["gain"]
    tail = u + cp.mean(cp.pos(-gain @ x - u)) / 0.1
    optimum = least(-gain.mean(axis=0) @ x, tail <= 0.1, x >= 0, cp.sum(x) == 1)
    result = tr.minimize(problem, RETURNS, method="bundle", tol=1e-6, passes=80)
    assert result.status is tr.Status.TOLERANCE
    assert result.violation == 0
    assert result.objective == pytest.approx(optimum, abs=2e-6)


def test_float32_has_a_gap_that_counts_rounding():
    problem, data, optimum = finite("simplex")
    rows = jax.tree.map(np.asarray, data.data)
    result = tr.minimize(problem, rows, method="bundle", tol=1e-4, precision="float32")
    assert result.x.dtype == jnp.float32
    assert result.status is tr.Status.TOLERANCE
    assert result.violation == 0
    precise = tr.minimize(problem, rows, method="bundle", tol=2e-5, passes=30, precision="float32")
    assert precise.status in (tr.Status.TOLERANCE, tr.Status.PRECISION)
    for one in (result, precise):
        x = np.asarray(one.x, np.float64)
        f = float(np.asarray(tr.Problem.values(problem, jnp.asarray(x), data.data)[0]))
        assert f - optimum <= one.trace["gap"].iloc[-1]
        assert one.lower is not None
        assert one.lower <= optimum + 1e-9


# ---- what is proven --------------------------------------------------------------------------------------------------


def some_looks(count=6):
    """Looks at F = |x - p|^2/2 and two quadratic constraints on a box."""
    rng, p = np.random.default_rng(0), np.array([0.9, -0.4, 0.3])
    x = rng.uniform(-1, 1, size=(count, 3))
    f = np.sum((x - p) ** 2, axis=1) / 2
    h = np.stack([np.sum(x**2, axis=1) - 0.3, x @ np.ones(3)], axis=1)
    rows = np.stack([2 * x, np.ones_like(x)], axis=1)
    none, nones = np.zeros(count), np.zeros((count, 2))
    looks = Looks(x, f, h, x - p, rows, none, nones, none, nones)
    y = cp.Variable(3)
    return looks, least(cp.sum_squares(y - p) / 2, cp.sum_squares(y) <= 0.3, cp.sum(y) <= 0, cp.abs(y) <= 1)


def box_model(looks):
    conic = tr.Box(-1.0, 1.0, shape=3).conic(jnp.zeros(3))
    units = Units(2.0, np.array([4.0, 4.0]))
    return Model(looks, units, region_of(conic, np.zeros(3)), lambda g: float(np.abs(g).sum())), units


def test_a_bound_holds_for_any_multipliers_and_is_best_for_those_of_the_programme():
    looks, optimum = some_looks()
    model, _ = box_model(looks)
    rng = np.random.default_rng(1)
    found = model.lower_bound()
    assert found is not None
    for _ in range(50):
        mu, nu = rng.dirichlet(np.ones(6)), rng.exponential(size=(6, 2)) * rng.integers(0, 2, size=(6, 2))
        bound = model.bound(mu, nu)
        assert bound.value <= optimum
        assert bound.value <= found.value + 1e-9
    assert found.value <= optimum


def test_the_output_is_the_best_feasible_combination():
    looks, _ = some_looks(40)
    _, units = box_model(looks)
    margins = np.full((40, 2), 1e-9)
    found = best_combination(looks, units, margins)
    w = cp.Variable(40)
    assert np.all(found.weights @ looks.h <= 0)
    assert found.f == pytest.approx(least(looks.f @ w, looks.h.T @ w <= 0, w >= 0, cp.sum(w) == 1), abs=1e-7)


def in_one_dimension() -> Any:
    """A look at x = 3 in [2, 6] at (x - 5)^2 / 2 and at x - 4 <= 0; the centre of the region is there, and not at zero."""
    zero, zeros = np.zeros(1), np.zeros((1, 1))
    looks = Looks(np.array([[3.0]]), np.array([2.0]), np.array([[-1.0]]), np.array([[-2.0]]), np.ones((1, 1, 1)),
                  zero, zeros, zero, zeros)  # fmt: skip
    units = Units(8.0, np.array([4.0]))
    region = region_of(tr.Box(2.0, 6.0, shape=1).conic(np.array([3.0])), np.array([3.0]))
    return Model(looks, units, region, lambda g: float(np.maximum(2 * g, 6 * g)[0]))


def test_a_newton_step_ends_where_the_quadratic_model_and_the_cuts_say():
    model = in_one_dimension()
    for hessian, x in ((4.0, 3.5), (1.0, 4.0)):  # 3 + 2/4, and the cut at 4 before 3 + 2/1
        np.testing.assert_allclose(model.newton_point(0, np.array([[hessian]]), None), [x], atol=1e-6)
    np.testing.assert_allclose(model.newton_point(0, np.array([[4.0]]), 1.5), [3.5], atol=1e-6)  # the cut of F is there


def test_a_level_point_keeps_its_share_of_the_largest_slack():
    """Towards 5: the cut of F is at most 1 from 3.5 on, where that of H leaves 1/2; a half of it is left at 3.75."""
    for share, x in ((0.5, 3.75), (0.2, 3.9)):
        np.testing.assert_allclose(in_one_dimension().level_point(1.0, np.array([5.0]), share), [x], atol=1e-6)


def test_a_bound_does_not_depend_on_the_size_of_its_multipliers_and_counts_what_was_summed():
    model, mu, nu = in_one_dimension(), np.array([0.4]), np.array([[0.3]])
    bounds = [model._normalised(c * mu, c * nu) for c in (1.0, 7.0)]
    lam = 0.3 / 0.4 * 8 / 4
    for bound in bounds:
        assert bound is not None
        assert bound.value == pytest.approx(2 - lam + (lam - 2) * (6 - 3 if lam < 2 else 2 - 3))
        reach = max(2 * (2 - lam), 6 * (2 - lam))
        summed = 2 + lam + abs(reach) + abs(lam - 2) * 3
        assert bound.rounding == pytest.approx(16 * np.finfo(float).eps * summed, rel=1e-9, abs=0)
    assert model._normalised(0 * mu, nu) is None


def test_two_looks_that_violate_different_constraints_make_a_feasible_combination():
    h = np.array([[1.0, -2.0], [-2.0, 1.0]])
    looks = Looks(np.eye(2), np.array([0.0, 3.0]), h, np.zeros((2, 2)), np.zeros((2, 2, 2)),
                  np.zeros(2), np.zeros((2, 2)), np.zeros(2), np.zeros((2, 2)))  # fmt: skip
    best = best_combination(looks, Units(3.0, np.ones(2)), np.zeros((2, 2)))
    assert best.worst <= 0
    np.testing.assert_allclose(best.weights, [2 / 3, 1 / 3], atol=1e-6)  # as much of the first as its constraint allows
    assert best.f == pytest.approx(1.0, abs=1e-5)


def test_a_level_step_aims_as_low_as_the_last_promise_was_broken():
    """F came out 0.2 above what the cuts had promised and H 0.1, at a price of 3: a half of 1e-3 times 1,000."""
    turn: Any = SimpleNamespace(values=np.array([1.2, 0.4]), units=Units(1e3, np.ones(1)))
    for distance, aim in ((1e-3, 0.5), (1e-2, 0.05), (1e-6, 0.9)):
        state = SimpleNamespace(promised=np.array([1.0, 0.3]), lam=np.array([3.0]), distance=distance)
        assert BundleSurvey._aim(turn, state, 0.9) == pytest.approx(aim)


def test_the_least_linear_function_of_a_large_semidefinite_matrix_is_its_least_eigenvalue():
    C = np.random.default_rng(0).normal(size=(16, 16))
    C, centre = (C + C.T) / 2, np.eye(16) / 16
    region = region_of(tr.Spectraplex(1.0, shape=(16, 16)).conic(jnp.asarray(centre)), centre.ravel())
    found = solve(region, C.ravel() * region.widths, np.zeros((0, 256)), np.zeros(0))
    assert found is not None
    assert C.ravel() @ region.point(found.v) == pytest.approx(np.linalg.eigvalsh(C)[0], abs=1e-6)


def clash(x, theta):
    return jnp.stack([x[0] + 0.3, 0.2 - x[0], x[1] - 5]) + 0.01 * theta[0]


def test_a_conflict_is_proven_named_and_met_as_well_as_can_be():
    theta = np.random.default_rng(0).normal(size=(50, 1))
    theta -= theta.mean()
    problem = tr.Problem(lambda x, theta: jnp.sum(x), clash, tr.Box(-1.0, 1.0, shape=2), names=("low", "high", "slack"))
    result = tr.minimize(problem, theta, method="bundle", passes=20)
    assert result.status is tr.Status.INFEASIBLE
    assert result.message == "Every point of the domain violates low by 0.25 or high by 0.25 or more."
    np.testing.assert_allclose(result.constraints[:2], 0.25, rtol=1e-6)
    assert result.cost.steps <= 3
    met = tr.minimize(replace(problem, levels=0.2500001), theta, method="bundle", tol=1e-6)
    assert met.status is tr.Status.TOLERANCE  # a hair's breadth of room is no conflict
    assert met.violation == 0


@pytest.mark.parametrize("method", ["bundle", "auto"])
def test_an_equality_written_as_two_inequalities_is_kept_up_to_rounding(method):
    """|E q| <= 0: there are feasible points and none that is strictly so."""
    rows = np.array([[0.2, 0.4], [0.4, 0.6]])
    problem = tr.Problem(
        lambda x, theta: jnp.sum((x - theta) ** 2),
        lambda x, theta: jnp.stack([x[0] - x[1], x[1] - x[0]]),
        tr.Box(-1.0, 1.0, shape=2),
    )
    result = tr.minimize(problem, rows, method=method, tol=1e-9)
    assert result.status is tr.Status.TOLERANCE
    assert result.violation <= 1e-15
    assert result.pull is None
    np.testing.assert_allclose(result.x, 0.4, atol=1e-5)
    assert result.objective is not None
    assert abs(result.objective - 0.04) <= (result.gap or 0.0) <= 1e-9
    assert "No point satisfies every constraint strictly" in str(result)
    assert "VIOLATED" not in str(result)
    roomy = tr.minimize(replace(problem, levels=1e-6), rows, method=method, tol=1e-5)
    assert (roomy.status, roomy.violation) == (tr.Status.TOLERANCE, 0.0)
    assert "strictly" not in str(roomy)


def test_an_equality_among_other_constraints_is_kept_too():
    """x_0 = x_1 - 0.1 within |x| <= 1/2: the cuts have to find out which of the three constraints leave no room."""
    problem = tr.Problem(
        lambda x, theta: jnp.sum((x - theta) ** 2),
        lambda x, theta: jnp.stack([jnp.sum(x**2) - 0.25, x[0] - x[1] + 0.1, x[1] - x[0] - 0.1]),
        tr.Box(-1.0, 1.0, shape=2),
    )
    result = tr.minimize(problem, np.array([[0.2, 0.4], [0.4, 0.6]]), method="bundle", tol=1e-9)
    assert result.status is tr.Status.TOLERANCE
    assert np.all(result.constraints.to_numpy() <= [0, 1e-15, 1e-15])
    low = min((-0.2 + np.sqrt(0.04 + 8 * 0.24)) / 4, 0.35)  # where the circle ends, or nearest to the mean
    np.testing.assert_allclose(result.x, [low, low + 0.1], atol=1e-5)


def test_opposite_inequalities_that_leave_a_gap_between_them_are_a_conflict():
    problem = tr.Problem(
        lambda x, theta: jnp.sum((x - theta) ** 2),
        lambda x, theta: jnp.stack([x[0] - x[1] + 1e-6, x[1] - x[0]]),
        tr.Box(-1.0, 1.0, shape=2),
    )
    result = tr.minimize(problem, np.array([[0.2, 0.4], [0.4, 0.6]]))
    assert result.status is tr.Status.INFEASIBLE


# ---- units, memory, saved runs ---------------------------------------------------------------------------------------


def loss_in_units(x, theta, units):
    return units["f"] * loss(x / units["x"], theta)


def overflow_in_units(x, theta, units):
    return units["h"] * overflow(x / units["x"], theta)


def test_units_change_nothing():
    level = 0.6 * by_cvxpy_worst()

    def in_units(f_unit, h_unit, x_unit):
        problem = tr.Problem(
            loss_in_units,
            overflow_in_units,
            tr.Simplex(x_unit, shape=5),
            levels=h_unit * level,
            params={"f": f_unit, "h": h_unit, "x": x_unit},
        )
        return tr.minimize(problem, RETURNS, method="bundle", passes=12)

    plain = in_units(1.0, 1.0, 1.0)
    for units in ((1e6, 1.0, 1.0), (1.0, 1e-6, 1e6), (1e-6, 1e6, 1e-6)):
        scaled = in_units(*units)
        assert scaled.objective is not None
        assert scaled.objective / units[0] == pytest.approx(plain.objective, rel=1e-6)
        assert scaled.trace["gap"].iloc[-1] / units[0] == pytest.approx(plain.trace["gap"].iloc[-1], rel=1e-2)
        assert scaled.violation == 0


def test_few_places_are_enough_and_nothing_proven_is_lost():
    level = 0.6 * by_cvxpy_worst()
    result = tr.minimize(hinge_problem(level), RETURNS, method=tr.Bundle(memory=12), passes=60, record=100)
    gaps = result.trace["gap"].dropna().to_numpy()
    assert np.all(np.diff(gaps) <= 1e-15)
    assert gaps[-1] <= 1e-4
    assert result.violation == 0


# ---- curvature and oracles -------------------------------------------------------------------------------------------


def test_differences_of_gradients_repair_a_wrong_hessian():
    rng = np.random.default_rng(0)
    root = rng.normal(size=(4, 4))
    true, x = root @ root.T, rng.normal(size=(30, 4))
    widths = np.array([1.0, 10.0, 0.1, 1.0])
    made = with_secants(np.zeros((4, 4)), 1, 0, x, x @ true, widths)
    nearest = x[np.argsort(np.linalg.norm((x - x[0]) / widths, axis=1))[1]] - x[0]
    np.testing.assert_allclose(made @ nearest, true @ nearest, rtol=1e-6)
    assert np.all(np.linalg.eigvalsh(made) >= -1e-9)


def test_an_oracle_without_second_derivatives_will_do_if_it_gives_values():
    data = np.random.default_rng(0).normal(0.5, 1.0, size=(60, 3))

    def oracle(x, theta):
        return jnp.sum((x - theta) ** 2) / 2, x - theta, jnp.sum(x)[None] - 1.0, jnp.ones((1, 3))

    domain = tr.L2Ball(2.0, shape=3)
    result = tr.minimize(tr.Problem.from_oracle(oracle, domain, n_constraints=1), data, method="bundle", tol=1e-6)
    best = data.mean(axis=0) - max(data.mean(axis=0).sum() - 1, 0) / 3
    assert result.status is tr.Status.TOLERANCE
    np.testing.assert_allclose(result.x, best, atol=2e-3)
    without = tr.Problem.from_oracle(lambda x, theta: oracle(x, theta)[1:], domain, n_constraints=1)
    with pytest.raises(TypeError, match="Bundle needs values of the objective and the oracle gives gradients only"):
        tr.minimize(without, data, method="bundle", passes=5)


def test_a_step_to_a_value_that_is_not_finite_is_stepped_back_from():
    def walled(x, theta):
        return -jnp.sum(x) + jnp.where(x[0] > 0.2, jnp.nan, 0.0) * theta

    problem = tr.Problem(walled, None, tr.Box(0.0, 1.0, shape=2))
    result = tr.minimize(problem, np.ones(10), method="bundle", passes=10, x0=np.zeros(2))
    assert not result.status.proven
    assert result.status is not tr.Status.NOT_FINITE
    assert result.objective is not None
    assert result.objective < -0.3
    nowhere = tr.Problem(lambda x, theta: jnp.log(-1 - x @ x) * theta, None, tr.Box(0.0, 1.0, shape=2))
    result = tr.minimize(nowhere, np.ones(10), method="bundle", passes=10)
    assert result.status is tr.Status.NOT_FINITE
    assert "The objective is not finite" in result.message
    assert np.all(np.isfinite(result.x))


@pytest.mark.parametrize("start", [None, 700.0])
def test_an_exponential_that_overflows_on_the_way_is_no_end(start):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 3)) * np.array([1.0, 30.0, 1.0])
    y = rng.poisson(np.exp(X @ np.array([0.5, 0.02, -0.3]))).astype(float)
    problem = tr.Problem(
        lambda x, row: jnp.exp(row[0] @ x) - row[1] * (row[0] @ x), None, tr.Box(-800.0, 800.0, shape=3)
    )
    result = tr.minimize(problem, (X, y), x0=None if start is None else np.full(3, start))
    assert result.status is tr.Status.SOLVED
    np.testing.assert_allclose(result.x, [0.5, 0.02, -0.3], atol=0.1)


# ---- along smooth functions ------------------------------------------------------------------------------------------


def number(value: float | None) -> float:
    assert value is not None
    return value


def vectors_apart(n=300, d=12, seed=3):
    """Hinges with a ridge and a constraint on the mean score of a group."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * np.logspace(-1, 1, d)
    y = np.sign(X @ (rng.normal(size=d) / np.logspace(-1, 1, d)) + 0.5 * rng.normal(size=n))
    g = (rng.random(n) < 0.3) / 0.3

    def objective(x, row):
        return jnp.maximum(0.0, 1 - row["y"] * (row["x"] @ x)) + 1e-3 * (x @ x)

    problem = tr.Problem(
        objective, lambda x, row: (row["g"] * (row["x"] @ x))[None], tr.Box(-5.0, 5.0, shape=d), levels=0.1
    )
    return problem, {"x": X, "y": y, "g": g}


def test_auto_begins_along_smooth_functions_where_the_budget_is_open_and_kinks_are_seen():
    problem, rows = vectors_apart()
    found = tr.minimize(problem, rows)
    assert found.status is tr.Status.SOLVED
    assert found.method.path
    assert found.cost.steps < 120
    assert not tr.minimize(problem, rows, passes=10).method.path
    cuts = tr.minimize(problem, rows, method="bundle", tol=1e-5)
    f, least = number(found.objective), number(cuts.objective)
    assert number(found.lower) <= least
    assert number(cuts.lower) <= f <= least + 1e-4 * abs(least)


def test_kinks_that_no_program_shows_are_left_to_cuts():
    problem, rows = vectors_apart(d=4)

    def hidden(x, row):
        s = 1 - row["y"] * (row["x"] @ x)
        return jnp.sort(jnp.stack([s, 0.0 * s]))[1] + 1e-3 * (x @ x)

    other = tr.Problem(hidden, problem.constraints, problem.domain, levels=problem.levels)
    found, seen = tr.minimize(other, rows), tr.minimize(problem, rows)
    assert found.status is tr.Status.SOLVED
    assert number(found.objective) == pytest.approx(number(seen.objective), rel=2e-4)


def test_a_path_goes_on_from_any_of_its_looks_as_if_nothing_had_been():
    problem, rows = vectors_apart(d=4)
    rows = jax.tree.map(jnp.asarray, rows)
    x = np.zeros(4)
    solver = tr.Bundle(path=True).fitted(problem, x, 300)
    whole = list(itertools.islice(solver.looks(problem, rows, solver.start(x, np.zeros(1))), 40))
    for at in (3, 20, 35):  # among smooth functions, and along the line
        rest = list(itertools.islice(solver.looks(problem, rows, whole[at].memory), 4))
        jax.tree.map(np.testing.assert_array_equal, [k.memory for k in rest], [k.memory for k in whole[at + 1 :][:4]])


@pytest.mark.parametrize("unit", [1e-5, 1e5])
def test_a_path_needs_no_units(unit):
    problem, rows = vectors_apart(d=4)
    f: Any = problem.objective
    h: Any = problem.constraints
    other = tr.Problem(
        lambda x, row: unit * f(x / unit, row),
        lambda x, row: h(x / unit, row) / unit,
        tr.Box(-5.0 * unit, 5.0 * unit, shape=4),
        levels=0.1 / unit,
    )
    found, same = tr.minimize(problem, rows), tr.minimize(other, rows)
    assert same.status is tr.Status.SOLVED
    assert number(same.objective) / unit == pytest.approx(number(found.objective), rel=2e-4)
    assert abs(same.cost.steps - found.cost.steps) <= 15


def test_constraints_that_contradict_each_other_are_proven_beside_kinks():
    rng = np.random.default_rng(0)
    problem = tr.Problem(
        lambda x, theta: jnp.abs(x - theta).sum(),
        lambda x, theta: jnp.stack([jnp.abs(x[0] - 2.0), jnp.abs(x[0] + 2.0)]),
        tr.Box(-3.0, 3.0, shape=2),
        levels=1.0,
    )
    assert tr.minimize(problem, rng.normal(size=(100, 2))).status is tr.Status.INFEASIBLE


def test_what_bends_between_kinks_is_followed_on_a_wide_domain():
    """The elastic net on correlated columns, in a box a million times as wide as the answer."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 2)) @ rng.normal(size=(2, 12)) + 0.05 * rng.normal(size=(400, 12))
    y = X @ rng.normal(size=12) + rng.normal(size=400)
    weight = 0.1 * np.abs(X).mean()

    def objective(x, row):
        return (row["x"] @ x - row["y"]) ** 2 / 2 + weight * jnp.sum(jnp.abs(x)) + 0.01 * x @ x

    found = tr.minimize(tr.Problem(objective, None, tr.Box(-1e6, 1e6, shape=12)), {"x": X, "y": y})
    w = cp.Variable(12)
    total = cp.sum_squares(X @ w - y) / 800 + weight * cp.norm(w, 1) + 0.01 * cp.sum_squares(w)
    cp.Problem(cp.Minimize(total)).solve(solver="CLARABEL")
    assert found.status is tr.Status.SOLVED
    assert found.cost.steps < 80
    assert number(found.lower) <= float(total.value) + 1e-9
    assert number(found.objective) == pytest.approx(float(total.value), rel=2e-4)
