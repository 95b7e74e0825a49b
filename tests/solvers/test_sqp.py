"""Sequential quadratic programming: its programme, its proofs, what it refuses, and that it needs no units.

Most runs share one compiled program: the units of everything, the radius and the levels are leaves.
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tightrope as tr
from tightrope.loop.choose import lacks, missing
from tightrope.sets import conic
from tightrope.slsqp import slsqp
from tightrope.solvers.programmes import region_of, solve
from tightrope.solvers.quadratic import Ball, Inconsistent, _multipliers, best_step, updated
from tightrope.solvers.sqp_survey import _less

RNG = np.random.default_rng(0)
X = RNG.normal(size=(400, 4))
Y = np.sign(X @ [1.0, -1.0, 0.5, 0.0] + RNG.logistic(size=400))


def logistic(x, theta, units):
    return units[0] * jnp.logaddexp(0.0, -theta[1] * jnp.dot(theta[0], x) / units[2])


def curved(x, theta, units):
    """A quadratic constraint that binds, and a linear one."""
    x = x / units[2]
    return units[1] * jnp.stack([jnp.dot(theta[0], x) ** 2, -x[0] + x[1]])


def problem(u=1.0, v=1.0, w=1.0, radius=5.0, levels=(0.3, 0.5), domain=None):
    ball = tr.L2Ball(radius * w, shape=4) if domain is None else domain
    return tr.Problem(logistic, curved, ball, levels=v * np.array(levels), params=jnp.array([u, v, w]))


# ---- the programme ---------------------------------------------------------------------------------------------------


def programme(seed, d=5, N=3):
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(d, d))
    return rng.normal(size=d), root @ root.T + 0.1 * np.eye(d), rng.normal(size=(N, d)), rng.normal(size=N) - 0.5


@pytest.mark.parametrize("seed", range(0, 20, 2))
def test_the_programme_is_solved_as_clarabel_solves_it(seed):
    g, B, J, h = programme(seed)
    centre, alone = np.full(5, 0.1), np.zeros(5, int)
    box = region_of(conic.box(np.full(5, -0.5), np.full(5, 0.5)), centre)
    for within in (Ball(centre, 100.0), Ball(centre, 0.8), box):
        region, g_w, B_w, J_w = box, g, B, J
        if isinstance(within, Ball):  # in its own widths
            region = region_of(conic.group_ball(within.radius, alone), centre)
            g_w, B_w, J_w = g * region.widths, B * region.widths[:, None] * region.widths, J * region.widths
        expected = solve(region, g_w, J_w, -h, B_w)
        try:
            step = best_step(g, B, J, h, within)
        except Inconsistent:
            assert expected is None
            continue
        assert expected is not None
        assert step is not None
        np.testing.assert_allclose(step.y, expected.v * (region.widths if isinstance(within, Ball) else 1), atol=1e-6)
        np.testing.assert_allclose(step.lam, expected.dual, atol=1e-5)


@pytest.mark.parametrize("classes", [3, 4, 7])
def test_a_matrix_without_curvature_where_constraints_lead_is_no_contradiction(classes):
    """As in softmax regression with levels for each class's mean score: what all classes share bends nothing."""
    g, B = np.linspace(-1.0, 1.0, classes), np.eye(classes) - 1 / classes
    J, h = np.vstack([np.eye(classes), -np.eye(classes)]), np.full(2 * classes, -0.1)
    region = region_of(conic.box(-np.ones(classes), np.ones(classes)), np.zeros(classes))
    step, expected = best_step(g, B, J, h, region), solve(region, g, J, -h, B)
    assert step is not None
    assert expected is not None
    assert g @ step.y + step.y @ B @ step.y / 2 == pytest.approx(g @ expected.v + expected.v @ B @ expected.v / 2)


def test_constraints_that_contradict_each_other_are_found_out():
    g, B, _, _ = programme(0)
    J = np.stack([np.eye(5)[0], -np.eye(5)[0]])
    with pytest.raises(Inconsistent):
        best_step(g, B, J, np.array([1.0, 1.0]), Ball(np.zeros(5), 10.0))
    with pytest.raises(Inconsistent):  # y_0 <= -3, outside the ball
        best_step(g, B, J[:1], np.array([3.0]), Ball(np.zeros(5), 1.0))


# ---- runs ------------------------------------------------------------------------------------------------------------


def sqp(on, data=(X, Y), passes: int | None = 60, record=0, **options: Any):
    return tr.minimize(on, data, method="sqp", passes=passes, record=record, **options)


@pytest.mark.parametrize(("radius", "x0"), [(5.0, None), (0.4, None), (5.0, [-2.0, 2.0, 1.0, 1.0])])
def test_it_agrees_with_slsqp_and_proves_it(radius, x0):
    """With a domain that does not bind, with one that does, and from a point that violates both constraints."""
    on = problem(radius=radius)
    x0 = x0 and np.array(x0)
    result, best = sqp(on, tol=1e-9, x0=x0), slsqp(on, (X, Y), tol=1e-12)
    assert result.status is tr.Status.TOLERANCE
    assert -1e-9 <= (result.objective or np.nan) - best.objective <= 2e-9
    assert np.all(np.asarray(result.constraints) <= 0)
    np.testing.assert_allclose(result.dual, best.dual, atol=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("domain", [tr.Box(-0.3, 0.3, shape=4), tr.Simplex(1.0, shape=4)])
def test_it_agrees_with_slsqp_where_the_domain_has_corners(domain):
    on = problem(domain=domain, levels=(0.6, 0.5))
    result, best = sqp(on, tol=1e-9), slsqp(on, (X, Y), tol=1e-12)
    assert result.status is tr.Status.TOLERANCE
    assert -1e-9 <= (result.objective or np.nan) - best.objective <= 2e-9
    assert bool(domain.contains(result.x))


@pytest.mark.slow
def test_a_product_of_sets_is_a_domain_like_any_other():
    def joined(fn):
        return lambda x, theta, units: fn(jnp.concatenate([x["a"], x["b"]]), theta, units)

    product = tr.Product({"a": tr.Box(-4.0, 4.0, shape=2), "b": tr.L2Ball(4.0, shape=2)})
    on = tr.Problem(joined(logistic), joined(curved), product, levels=np.array([0.3, 0.5]), params=jnp.ones(3))
    assert abs((sqp(on, tol=1e-9).objective or np.nan) - slsqp(problem(), (X, Y), tol=1e-12).objective) <= 2e-9


def test_from_outside_onto_a_face_the_output_follows_the_steps():
    """Where the constraint is linear every step ends on it but for rounding, and nothing is strictly feasible by itself."""
    result = sqp(problem(levels=(50.0, -4.0)), tol=1e-9)
    assert result.status is tr.Status.TOLERANCE
    assert result.cost.steps <= 8
    assert np.all(np.asarray(result.constraints) <= 0)


def test_equalities_in_steep_units_are_met_to_the_last_digit_beside_other_constraints():
    """Four opposite pairs for six coordinates, in units from 1e-3 to 1e3, and two inequalities."""
    rng = np.random.default_rng(9)
    rows, A, x0 = (
        rng.normal(size=(50, 7)),
        rng.normal(size=(4, 6)) * np.logspace(-3, 3, 4)[:, None],
        rng.uniform(-1, 1, 6),
    )
    slack = np.array([0.1, 5.0])

    def sides(x, row):
        miss = A @ (x - x0)
        return jnp.concatenate([miss, -miss, x[:2] - x0[:2] - slack])

    on = tr.Problem(lambda x, row: (row[:6] @ x - row[6]) ** 2, sides, tr.Box(-20.0, 20.0, shape=6))
    result, best = tr.minimize(on, rows), slsqp(on, rows, tol=1e-14)
    assert (result.status, result.method.name) == (tr.Status.SOLVED, "sqp")
    assert np.all(result.constraints <= np.append(1e-14 * np.tile(np.abs(A).sum(axis=1), 2), [0, 0]))
    assert abs((result.objective or np.nan) - best.objective) <= 1e-7
    assert result.cost.steps <= 10


def test_without_a_feasible_point_it_says_so():
    none = sqp(problem(levels=(-0.1, 0.5)))
    assert none.status is tr.Status.INFEASIBLE
    assert none.gap is none.lower is None  # there is no optimum to be near to


def test_units_do_not_matter():
    """F, H and x with its domain in other units: the same looks, and the same solution but for rounding."""
    first = sqp(problem())
    for u, v, w in ((1e-6, 1e6, 1.0), (1e6, 1e-6, 1e-6), (1.0, 1.0, 1e6)):
        other = sqp(problem(u, v, w))
        assert abs(other.cost.steps - first.cost.steps) <= 1
        np.testing.assert_allclose(np.asarray(other.x) / w, first.x, atol=1e-5)


def test_a_run_that_was_interrupted_goes_on_bit_for_bit(tmp_path):
    whole = sqp(problem(), record=60)
    file = tmp_path / "run"
    sqp(problem(), record=60, checkpoint=file, callback=lambda at: at.step == 3)
    again = sqp(problem(), record=60, checkpoint=file)
    assert again.cost.steps == whole.cost.steps > 3
    for a, b in zip(jax.tree.leaves(again.state), jax.tree.leaves(whole.state), strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_first_run_on_some_of_the_rows_leaves_little_to_do():
    """In float32, on rows that are sorted by label."""
    rng = np.random.default_rng(2)
    many = rng.normal(size=(20_000, 4)).astype("float32")
    labels = np.sign(many @ [1.0, -1.0, 0.5, 0.0] + rng.logistic(size=20_000)).astype("float32")
    order = np.argsort(labels)
    with jax.enable_x64(False):
        result = sqp(problem(), (many[order], labels[order]), passes=None)
        assert result.status in (tr.Status.SOLVED, tr.Status.PRECISION)
        assert result.cost.steps <= 8
        assert result.violation == 0


# ---- what it is not for ----------------------------------------------------------------------------------------------


def many_kinds(x, theta, share):
    score = jnp.dot(theta[0], x)
    kinds = jnp.stack([jnp.logaddexp(0.0, -score), jnp.maximum(0.0, 1 - theta[1] * score), score, 0.05 * jnp.sum(x**2)])
    return jnp.dot(share[:4], kinds)


def a_kink_or_none(x, theta, share):
    return jnp.dot(share[4:], jnp.stack([jnp.maximum(0.0, jnp.dot(theta[0], x)), jnp.sum(x**2), x[0]]))[None]


@pytest.mark.parametrize(
    ("share", "lacking"),
    [
        ([0, 1, 0, 0, 0, 0, 0], "smoothness"),
        ([0, 1, 0, 1, 0, 0, 0], "smoothness"),
        ([1, 0, 0, 0, 1, 0, 0], "smoothness"),
        ([0, 0, 1, 0, 0, 0, 1], "curvature"),
        ([0, 0, 1, 0, 0, 1, 0], None),
        ([1, 0, 0, 0, 0, 0, 1], None),
    ],
)
def test_a_probe_sees_kinks_and_what_has_no_curvature(share, lacking):
    on = tr.Problem(many_kinds, a_kink_or_none, tr.L2Ball(5.0, shape=4), levels=0.5, params=jnp.array(share, float))
    found = lacks(on, jnp.zeros(4), tr.Rows((X, Y)))
    assert found == lacking
    said = missing(tr.SQP(), lambda: found)
    assert (said is None) == (lacking is None)
    assert said is None or (
        f"SQP needs {'smooth functions' if found == 'smoothness' else found}" in said and "bundle" in said
    )


@pytest.mark.slow
def test_a_linear_objective_does_not_end_the_curvature():
    """At the start no constraint presses, so that the Lagrangian is linear: a Hessian of it would be zero."""
    linear = tr.Problem(
        lambda x, theta: -x[0] - 0.5 * x[1],
        lambda x, theta: (jnp.dot(theta, x) ** 2)[None],
        tr.L2Ball(5.0, shape=4),
        levels=0.3,
    )
    result = tr.minimize(linear, X, method="sqp", tol=1e-8, progress=False)
    assert result.status.name == "TOLERANCE"
    assert result.cost.gradients <= 20 * len(X)
    slope, second = np.array([1.0, 0.5, 0.0, 0.0]), X.T @ X / len(X)
    assert result.objective == pytest.approx(-np.sqrt(0.3 * slope @ np.linalg.solve(second, slope)), rel=1e-7)


# ---- small parts -----------------------------------------------------------------------------------------------------


def test_an_update_meets_the_change_of_the_gradient_and_stays_definite():
    B, step = np.diag([1.0, 2.0]), np.array([1.0, 0.0])
    for change in (np.array([2.0, 0.3]), np.array([0.9, -0.3])):  # steeper than B says, and flatter
        np.testing.assert_allclose(updated(B, step, change) @ step, change)
    np.testing.assert_array_equal(updated(B, step, np.array([-1.0, 0.0])), B)
    damped = updated(B, step, np.array([0.01, 0.0]))
    assert 0.01 < damped[0, 0] < 1
    np.testing.assert_allclose(updated(np.zeros((2, 2)), step, np.array([2.0, 0.0])), np.diag([2.0, 0.0]))


@pytest.mark.parametrize("unit", [1e-7, 1.0, 1e7])
def test_a_constraint_that_another_multiplier_breaks_gets_one_too_in_any_units(unit):
    rows = np.linalg.cholesky(np.array([[1.0, -0.9], [-0.9, 1.0]])).T
    lam = _multipliers(rows, unit * np.array([1.0, -0.5]))
    np.testing.assert_allclose(rows.T @ rows @ lam, unit * np.array([1.0, -0.5]))
    assert np.all(lam > 0)


def test_after_a_step_that_gained_too_little_the_least_of_the_parabola_is_tried():
    """Through 0 with a slope of -1: at 1 it gained 1/10, or lost 1, or lost very much; last the slope there."""
    assert _less(1.0, -1.0, 0.1, 0.8) == pytest.approx(0.5)  # 1/1.8, and no more than a half
    assert _less(1.0, -1.0, -1.0, 3.0) == pytest.approx(0.25)
    assert _less(0.5, -1.0, -1.0, 5.0) == pytest.approx(0.5 * 0.5 / 3)
    assert _less(1.0, -1.0, -100.0, 201.0) == pytest.approx(0.1)


def test_where_slopes_change_all_at_once_the_corner_is_tried():
    """A slope of -1 before the corner, 2 behind it; and one that is nearer than a step is ever cut."""
    for corner in (0.02, 0.1, 0.2):
        assert _less(1.0, -1.0, corner - 2 * (1 - corner), 2.0) == pytest.approx(corner)
    assert _less(1.0, -1.0, 1e-6 - 2 * (1 - 1e-6), 2.0) == pytest.approx(1e-3)


# ---- where there are many rows ---------------------------------------------------------------------------------------

MANY = np.random.default_rng(6).normal([1.0, 0.5], 1.0, size=(16_384, 2))


def near_the_mean(barrier=False):
    """Half the squared distance; with a barrier, that of one row, at 0.9 in the first coordinate."""

    def objective(x, theta):
        row, special = theta
        wall = jnp.where(special > 0, -jnp.log(0.9 - x[0]), 0.0) if barrier else 0.0
        return ((x - row) ** 2).sum() / 2 + wall

    return tr.Problem(objective, lambda x, theta: x[:1] + 0 * theta[0][:1], tr.L2Ball(5.0, shape=2), levels=4.0)


def first_look(problem, special=-1, **options):
    """F where the first look was taken."""
    rows = MANY, (np.arange(len(MANY)) == special).astype(float)
    return tr.minimize(problem, rows, method="sqp", steps=1, progress=False, record=1, **options).trace["objective"][0]


def value(x):
    return ((MANY - x) ** 2).sum(axis=1).mean() / 2


def test_the_first_look_is_where_a_run_on_some_rows_ends():
    least = value(MANY.mean(axis=0))
    assert least <= first_look(near_the_mean()) < least + 0.01
    assert least + 0.5 < value(np.zeros(2))


def test_who_brings_multipliers_is_looked_at_at_once():
    x = np.array([0.3, 0.2])
    before = tr.minimize(near_the_mean(), (MANY, np.zeros(len(MANY))), method="csoa", steps=10, x0=x, progress=False)
    warm = dataclasses.replace(before, last=jnp.asarray(x), dual_last=np.array([0.1]))
    np.testing.assert_allclose(first_look(near_the_mean(), warm_start=warm), value(x), rtol=1e-12)


def test_where_some_rows_lead_out_of_the_domain_of_others_the_start_is_looked_at():
    found = first_look(near_the_mean(barrier=True), special=800)  # in a slice that the first run does not see
    np.testing.assert_allclose(found, value(np.zeros(2)) - np.log(0.9) / len(MANY), rtol=1e-12)
