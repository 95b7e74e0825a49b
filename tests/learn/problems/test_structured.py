"""Structured completion: what is observed, both ways to hold X, optima by cvxpy, and a run on the paper's matrix."""

from functools import cache
from typing import Any, cast

import cvxpy as cp
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse
from slow import quick_first

import tightrope as tr
from tightrope.datasets import structured_matrix
from tightrope.evidence.strictly_feasible import strictly_feasible
from tightrope.learn.problems.entries import Entries, Grid, entries, product
from tightrope.learn.problems.observed import observed
from tightrope.methods import CFWCSOA
from tightrope.problem.full_data import full_constraints
from tightrope.problem.generic import exact_slopes, step_length
from tightrope.problem.problem import astype_problem
from tightrope.problems import structured_completion
from tightrope.sets.low_rank import LowRank, LowRankBall
from tightrope.tree import astype

SMALL = structured_matrix(20, 15, rank=3, noise=0.05, seed=4)


def build(beta=0.5, given=SMALL, **options):
    return structured_completion(
        given.entries, given.nuclear_norm, beta * given.unobserved_energy, shape=given.shape, empty="keep", **options
    )


def error_of(result) -> float:
    assert result.objective is not None
    return result.objective


def dense_of(given):
    mask, values = np.zeros(given.shape, bool), np.zeros(given.shape)
    mask[given.rows, given.columns], values[given.rows, given.columns] = True, given.values
    return mask, values


def some_point(shape, rank=4, seed=0):
    rng = np.random.default_rng(seed)
    u, v = (jnp.asarray(np.linalg.qr(rng.normal(size=(k, rank)))[0]) for k in shape)
    return LowRank(u, jnp.diag(jnp.arange(rank, 0, -1.0)), v)


# ---- the optimum -------------------------------------------------------------------------------------------------------


@cache
def cvxpy_optimum(beta: float = 0.5) -> tuple[float, float, np.ndarray]:
    given = SMALL
    mask, values = dense_of(given)
    X = cp.Variable(given.shape)
    half = np.sum(values**2) / 2
    energy = cp.sum_squares(cp.multiply(~mask, X)) / 2 / (beta * given.unobserved_energy) - 1
    limits: list[Any] = [energy <= 0, cp.normNuc(X) <= given.nuclear_norm]
    problem = cp.Problem(cp.Minimize(cp.sum_squares(cp.multiply(mask, X - values)) / 2 / half), limits)
    problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)
    return float(cast(Any, problem.value)), float(np.ravel(limits[0].dual_value)[0]), np.asarray(X.value)


@pytest.mark.parametrize("hold", quick_first(["factored", "dense"], 1))
def test_primal_and_dual_are_those_of_cvxpy(hold):
    value, dual, X = cvxpy_optimum()
    assert dual > 0.001  # the constraint binds
    made = build(hold=hold)
    result = tr.minimize(*made, method=made.method, steps=600, output="feasible")
    x = np.asarray(result.x.dense() if hold == "factored" else result.x)
    error = error_of(result)
    assert value <= error * (1 + 1e-7)
    assert error <= value * (1 + 1e-3)
    assert result.violation == 0
    np.testing.assert_allclose(result.dual_last, dual, rtol=5e-3)
    np.testing.assert_allclose(x, X, atol=0.02 * np.abs(X).max())


@pytest.mark.slow
def test_both_ways_to_hold_it_take_the_same_steps_until_rank_runs_out():
    held = {}
    for hold in ("factored", "dense"):
        made = build(hold=hold, rank=15, rounds=15)
        points = []
        tr.minimize(*made, method=made.method, steps=12, callback=lambda s, p=points: p.append(s.last), record=24)
        held[hold] = [np.asarray(x.dense() if hold == "factored" else x) for x in points]
    assert len(held["dense"]) == 12
    for a, b in zip(*held.values(), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-7)


def test_a_rank_that_runs_out_costs_accuracy_and_nothing_else():
    made = build(rank=2)
    result = tr.minimize(*made, method=made.method, steps=100, output="feasible")
    assert result.x.u.shape == (20, 2)
    assert result.violation == 0
    assert cvxpy_optimum()[0] < error_of(result) < 0.5


# ---- the paper's matrix -------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_papers_matrix_without_tuning():
    """Far below 1e-3 after 60 linear minimisations (asked: 300), and no violation, on average or at the end."""
    given = structured_matrix(seed=1)
    made = build(beta=1.0, given=given)
    assert isinstance(made.problem.params["entries"], Grid)
    result = tr.minimize(*made, method=made.method, steps=60, output="feasible", record=1)
    assert result.cost.lmos == 60
    assert error_of(result) < 1e-4
    assert result.violation == 0
    assert result.trace["unobserved energy"].iloc[-1] <= 0  # the mean over the steps
    truth = given.left @ given.right
    assert np.linalg.norm(result.x.dense() - truth) < 0.02 * np.linalg.norm(truth)


# ---- the layouts -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_products_and_entries_of_both_layouts_are_those_of_a_sparse_matrix():
    shape, rng = (40, 30), np.random.default_rng(0)
    at = np.sort(rng.choice(40 * 30, 200, replace=False))
    rows, columns = np.divmod(at, 30)
    rows = np.where(rows == 7, 8, rows)  # an empty row, and many in one
    at = np.unique(rows * 30 + columns)
    rows, columns = np.divmod(at, 30)
    values = rng.normal(size=len(rows))
    x = some_point(shape)
    matrix = scipy.sparse.csr_matrix((values, (rows, columns)), shape=shape)
    table = entries(rows, columns, values, shape)
    assert isinstance(table, Entries)
    g = table.matrix(table.values, 0.5, x)
    dense = matrix.toarray() + 0.5 * np.asarray(x.dense())
    w, z, thin = rng.normal(size=30), rng.normal(size=40), rng.normal(size=(30, 3))
    np.testing.assert_allclose(g @ jnp.asarray(w), dense @ w, atol=1e-12)
    np.testing.assert_allclose(jnp.asarray(z) @ g, z @ dense, atol=1e-12)
    np.testing.assert_allclose(g.T @ jnp.asarray(z), z @ dense, atol=1e-12)
    np.testing.assert_allclose(g @ jnp.asarray(thin), dense @ thin, atol=1e-12)
    np.testing.assert_allclose(product(table.by_row, table.values, jnp.asarray(w), 40), matrix @ w, atol=1e-12)
    seen = table.seen(x)
    np.testing.assert_allclose(np.sort(seen[table.by_row.real]), np.sort(np.asarray(x.dense())[rows, columns]))
    np.testing.assert_allclose(table.inner(g, x, seen), np.sum(dense * np.asarray(x.dense())))
    np.testing.assert_allclose(g.energy(), np.sum(dense**2))
    truth, frobenius = np.linalg.norm(dense, 2), np.linalg.norm(dense)
    for rounds in (1, 5, 30):
        found = float(LowRankBall(1.0, size=shape, rounds=rounds).support(g))
        assert truth <= found <= frobenius * (1 + 1e-10)
    assert found <= truth * (1 + 1e-10)


@pytest.mark.parametrize("spread", quick_first([8, 1], 1), ids=["blocks", "grid"])
def test_values_gradients_and_line_searches_are_those_of_the_dense_problem(spread):
    rng = np.random.default_rng(spread)
    shape = (20, 15 * spread)
    at = np.sort(rng.choice(shape[0] * shape[1], 120, replace=False))
    given = (*np.divmod(at, shape[1]), rng.normal(size=120))
    made = {h: structured_completion(given, 5.0, 2.0, shape=shape, hold=h, empty="keep") for h in ("factored", "dense")}
    x, d, lam = some_point(shape), some_point(shape, seed=5), jnp.asarray([0.7])
    theta = jnp.zeros((1,))
    thin, dense = (astype_problem(made[h].problem, jnp.float64) for h in ("factored", "dense"))
    f, h, g = thin.value_and_gradient(x, lam, theta)
    f2, h2, g2 = dense.value_and_gradient(x.dense(), lam, theta)
    np.testing.assert_allclose(f, f2)
    np.testing.assert_allclose(h, h2)
    np.testing.assert_allclose(thin.sample_values(x, theta[0])[0], f2)
    np.testing.assert_allclose(thin.sample_values(x, theta[0])[1], h2)
    np.testing.assert_allclose(g @ jnp.eye(shape[1]), g2, atol=1e-12)
    downhill = d * -jnp.sign(jnp.sum(g2 * d.dense()))
    wanted = step_length(dense, x.dense(), lam, theta, g2, downhill.dense())
    np.testing.assert_allclose(step_length(thin, x, lam, theta, g, downhill), wanted, rtol=1e-9)
    # of a polynomial, so a difference will do
    by = jax.tree.map(lambda v: jnp.asarray(1e-5 * rng.normal(size=v.shape)), x)
    ends = [thin.sample_values(jax.tree.map(lambda v, d, a=a: v + a * d, x, by), theta[0])[1] for a in (1, -1)]
    slopes = jax.tree.map(jnp.vdot, jax.jit(lambda x: exact_slopes(thin, x))(x), by)
    np.testing.assert_allclose((ends[0] - ends[1]) / 2, sum(jax.tree.leaves(slopes)), rtol=1e-6)


def test_products_pass_over_columns_of_zeros_and_of_nothing_else():
    """Of 40 columns, which go by sixteens, some groups are zero; one has a NaN, one numbers whose squares vanish."""
    rows, columns = np.divmod(np.arange(0, 600, 7), 30)
    table = entries(rows, columns, np.ones(len(rows)), (20, 30))
    assert isinstance(table, Entries)
    thin = np.zeros((30, 40))
    thin[:, 33] = 1e-200
    matrix = scipy.sparse.csr_matrix((np.ones(len(rows)), (rows, columns)), shape=(20, 30))
    several = jax.jit(lambda w: product(table.by_row, table.values, w, 20))
    np.testing.assert_allclose(several(thin), matrix @ thin, rtol=1e-12)
    seen = table.seen(LowRank(jnp.ones((20, 40)), jnp.eye(40), jnp.asarray(thin)))
    np.testing.assert_allclose(seen, np.where(table.by_row.real, 1e-200, 0), rtol=1e-12)
    thin[columns[0], 2] = np.nan
    assert np.isnan(several(thin)).any(axis=0).tolist() == [column == 2 for column in range(40)]


@pytest.mark.parametrize("units", ["relative", "sum", "mean"])
def test_samples_are_unbiased(units):
    made, exact = (build(beta=1.0, hold="dense", gradients=g, units=units) for g in ("sampled", "exact"))
    x = some_point(SMALL.shape).dense()
    theta = jax.random.bits(jax.random.key(0), (200_000, 2), jnp.uint32)
    f, h = made.problem.values(x, theta)
    wanted_f, wanted_h = exact.problem.values(x, jnp.zeros((1,)))
    beta = 1.0 if units == "relative" else made.problem.params["scales"]["h"] * SMALL.unobserved_energy
    np.testing.assert_allclose(f, wanted_f, rtol=0.02)
    np.testing.assert_allclose(h + beta, wanted_h + beta, rtol=0.02)
    thin = build(beta=1.0, gradients="sampled", units=units).problem
    x = some_point(SMALL.shape)
    f, h, grad, _ = thin.jacobian(x, theta)
    np.testing.assert_allclose(f, wanted_f, rtol=0.02)
    np.testing.assert_allclose(h, wanted_h, rtol=1e-10)
    exact_grad = build(beta=1.0, units=units).problem.jacobian(x, None)[2]
    np.testing.assert_allclose(grad, exact_grad, atol=0.1 * float(jnp.abs(exact_grad).max()))


def test_another_matrix_of_the_same_size_compiles_nothing():
    traced = []

    def step(problem, x):
        traced.append(1)
        return problem.value_and_gradient(x, jnp.ones(1), None)[0]

    for seed in (0, 1, 2):
        made = build(given=structured_matrix(20, 15, rank=2, seed=seed))
        jax.jit(step)(astype_problem(made.problem, jnp.float64), some_point((20, 15)))
    assert len(traced) == 1


def test_float32_stays_float32_where_it_is_asked_for_and_is_close():
    made = build(dtype="float32")
    result = tr.minimize(*made, method=made.method, steps=100, output="feasible", precision="float32")
    assert result.x.dtype == np.float32
    assert result.violation == 0
    value = cvxpy_optimum()[0]
    assert value * (1 - 1e-3) < error_of(result) < value * 1.6


# ---- what is observed ---------------------------------------------------------------------------------------------------


def test_the_same_matrix_in_every_form():
    mask = np.array([[True, False, True], [True, True, False]])
    M = np.array([[1.0, 9.0, 0.0], [2.0, 3.0, 9.0]])  # an observed zero
    rows, columns = np.nonzero(mask)
    sparse = scipy.sparse.coo_matrix((M[mask], (rows, columns)), shape=M.shape)
    forms = [
        observed(M, mask=mask),
        observed(np.where(mask, M, np.nan)),
        observed((rows, columns, M[mask])),
        observed(sparse.tocsr()),
        observed(sparse.tocsc()),
    ]
    for form in forms:
        order = np.lexsort((form.columns, form.rows))
        np.testing.assert_array_equal(form.rows[order], rows)
        np.testing.assert_array_equal(form.columns[order], columns)
        np.testing.assert_array_equal(form.values[order], M[mask])
        assert form.shape == (2, 3)


GOOD = np.array([[1.0, np.nan], [2.0, 3.0]])
EYE = scipy.sparse.eye(3, format="coo")


@pytest.mark.parametrize(
    ("matrix", "options", "said"),
    [
        (np.full((2, 2), np.nan), {}, "no entry was observed"),
        (scipy.sparse.csr_matrix((3, 3)), {}, "no entry was observed"),
        ((np.empty(0, int), np.empty(0, int), np.empty(0)), {}, "no entry was observed"),
        (np.ones((2, 2)), {}, "all 2 x 2 entries are observed"),
        (np.array([[1.0, np.nan], [np.nan, np.nan]]), {}, r"row 1 has no observed entry \(1 such rows\)"),
        (np.array([[1.0, np.nan], [2.0, np.nan]]), {}, "column 1 has no observed entry"),
        (
            (np.array([0, 0]), np.array([1, 1]), np.ones(2)),
            {"shape": (2, 2)},
            "row 0, column 1 is given more than once",
        ),
        (scipy.sparse.coo_matrix(([1, 2], ([0, 0], [0, 0])), shape=(2, 2)), {}, "given more than once"),
        (np.array([[np.inf, np.nan], [1.0, 1.0]]), {}, "is inf; expected finite"),
        ((np.array([0]), np.array([0]), np.array([np.nan])), {"shape": (1, 2)}, "is nan; expected finite"),
        ((np.array([0, 2]), np.array([0, 0]), np.ones(2)), {"shape": (2, 2)}, "row number 2 is out of range"),
        ((np.array([0, 1]), np.array([0, -1]), np.ones(2)), {}, "column number -1 is out of range"),
        ((np.array([0]), np.array([0, 1]), np.ones(2)), {}, "as many of each"),
        ((np.array([0.5]), np.array([0]), np.ones(1)), {}, "whole numbers"),
        (np.ones(4), {}, r"shape \(4,\) was given; expected a sparse matrix"),
        (GOOD, {"mask": np.ones((1, 2), bool)}, r"the mask has shape \(1, 2\)"),
        (EYE, {"mask": np.ones((3, 3), bool)}, "a sparse matrix and a mask"),
        (np.array([["a", "b"]]), {}, "expected numbers"),
        (GOOD, {"nuclear_norm": 0.0}, "nuclear_norm is 0.0; expected a positive number"),
        (GOOD, {"unobserved_energy": -1.0}, "unobserved_energy is -1.0; expected a positive number"),
        (GOOD, {"unobserved_energy": np.inf}, "unobserved_energy is inf"),
        (GOOD, {"hold": "sparse"}, "hold is 'sparse'; expected one of factored, dense"),
        (GOOD, {"rank": 0}, "rank"),
        (np.array([[0.0, np.nan], [0.0, 0.0]]), {}, "all observed values are 0"),
    ],
)
def test_bad_input_gets_a_sentence(matrix, options, said):
    with pytest.raises((ValueError, TypeError), match=said):
        structured_completion(matrix, **{"nuclear_norm": 1.0, "unobserved_energy": 1.0} | options)


def test_a_matrix_that_is_held_dense_has_to_fit_into_memory(monkeypatch):
    monkeypatch.setattr("tightrope.learn.problems.structured.beyond_memory", lambda size: size > 8 * 20 * 15)
    with pytest.raises(ValueError, match=r"20 x 15 matrix has 300 entries; .* has the memory for. Use hold="):
        build(hold="dense")


def test_methods_that_average_are_refused_for_factored_points():
    with pytest.raises(TypeError, match=r'held factored.*Use method="cfw-csoa"'):
        tr.minimize(*build(), method="svrf-csoa", steps=3)


def test_auto_takes_the_method_for_factored_points():
    result = tr.minimize(*build(rank=3), steps=3)
    assert isinstance(result.method, CFWCSOA)
    assert result.mean is None


def test_a_run_resumes_bit_for_bit(tmp_path):
    made = build(rank=3)
    whole = tr.minimize(*made, method=made.method, steps=20)
    path = tmp_path / "run.ckpt"
    tr.minimize(*made, method=made.method, steps=20, checkpoint=path, callback=lambda s: s.step >= 7)
    rest = tr.minimize(*made, method=made.method, steps=20, checkpoint=path)
    for a, b in zip(jax.tree.leaves(whole.x), jax.tree.leaves(rest.x), strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_phase_one_finds_its_way_inside_from_a_point_with_too_much_energy():
    """Derivatives by factors are not those by the matrix: lifted by a height, such points led nowhere."""
    problem, data = build(rank=4, beta=1e-4)
    far = some_point(SMALL.shape)
    far = far * (0.9 * SMALL.nuclear_norm / float(jnp.sum(far.singular_values())))
    assert float(full_constraints(problem, far, data)[0]) > 0
    found = strictly_feasible(problem, data, [far], tr.minimize)
    assert found is not None
    assert float(full_constraints(problem, found, data)[0]) < 0
    assert bool(problem.domain.contains(found))


def test_the_plain_step_works_too():
    made = build(rank=15)
    method = CFWCSOA(gamma=made.method.gamma, move="open")
    result = tr.minimize(*made, method=method, steps=300, output="feasible")
    assert result.violation == 0
    assert cvxpy_optimum()[0] <= error_of(result) < 5e-3


def test_a_wrong_move_gets_a_sentence():
    with pytest.raises(ValueError, match="move is 'sideways'; expected one of corrective, line, open"):
        CFWCSOA(move="sideways")  # pyright: ignore[reportArgumentType]
    assert astype(CFWCSOA(), jnp.float32).gamma.dtype == jnp.float32


def test_entries_that_were_checked_are_not_checked_again(monkeypatch):
    made = structured_matrix(12, 9, rank=2)
    seen = observed(made.entries, shape=made.shape, empty="keep")
    once = structured_completion(made.entries, 5.0, 1.0, shape=made.shape, empty="keep")
    monkeypatch.setattr("tightrope.learn.problems.observed._check", None)
    again = structured_completion(seen, 5.0, 1.0)
    for p, q in zip(jax.tree.leaves(once.problem.params), jax.tree.leaves(again.problem.params), strict=True):
        np.testing.assert_array_equal(p, q)


def test_entries_that_are_held_out_leave_their_places_empty():
    """A completion of some entries has the shapes of one of all of them, and the same products."""
    rng = np.random.default_rng(0)
    at = rng.choice(60 * 50, 400, replace=False)
    rows, columns, values = at // 50, at % 50, rng.normal(size=400)
    some = rng.random(400) < 0.8
    every = entries(rows, columns, values, (60, 50))
    kept = entries(rows[some], columns[some], values[some], (60, 50), (rows, columns))
    assert [leaf.shape for leaf in jax.tree.leaves(kept)] == [leaf.shape for leaf in jax.tree.leaves(every)]
    x = LowRank(*(jnp.asarray(rng.normal(size=size)) for size in ((60, 3), (3, 3), (50, 3))))
    dense = np.zeros((60, 50))
    dense[rows[some], columns[some]] = values[some]
    w = rng.normal(size=50)
    made = cast(Any, kept.matrix(kept.values, 0.0, x))
    np.testing.assert_allclose(made @ w, dense @ w, atol=1e-12)
    np.testing.assert_allclose(made.T @ (dense @ w), dense.T @ (dense @ w), atol=1e-12)
    assert np.sum(np.asarray(kept.seen(x)) != 0) == some.sum()
