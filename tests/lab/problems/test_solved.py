"""All problems with known solutions: optimality conditions, samples, constants, tables, and what other solvers say."""

import re
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import cvxpy as cp
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from studies import problems as page
from tightrope.lab.problems.solved import normals
from tightrope.problem import Problem
from tightrope.problems import EXACT, PROBLEMS

DOCS = Path(__file__).parents[3] / "docs"
ROWS, VERTICES = 500, 3
FINITE = ["neyman-pearson", "fair-logistic", "portfolio", "power", "completion"]


# Run once each: the compiler need not try hard.
@partial(jax.jit, static_argnames="name", compiler_options={"xla_backend_optimization_level": 0})
def _measure(name, x, vertices, theta) -> tuple[Any, Any, Any]:
    """The solution, the start and vertices; there, values and derivatives of F and H, and of f and h on every sample."""
    solved = PROBLEMS[name]()
    if jnp.ndim(jax.tree.leaves(x)[0]) < 2:
        vertices = jax.vmap(solved.problem.domain.lmo)(vertices)
    ends = jax.tree.map(lambda a, b: jnp.stack([a, b]), x, solved.problem.domain.start())
    points = jax.tree.map(lambda *parts: jnp.concatenate(parts), ends, vertices)

    def samples(point):
        return jax.vmap(lambda one: _derivatives(lambda y: solved.problem.sample_values(y, one), point))(theta)

    def truth(point):
        return _derivatives(lambda y: (solved.objective(y), solved.constraints(y)), point)

    return points, jax.vmap(truth)(points), jax.vmap(samples)(points)


def _derivatives(fn, point):
    (f, h), pull = jax.vjp(fn, point)
    rows = jax.vmap(lambda e: pull((e[0], e[1:]))[0])(jnp.eye(1 + len(h), dtype=h.dtype))
    return f, h, rows


def _flat(tree, axes):
    """A pytree of arrays as one array: coordinates last, after `axes` leading ones."""
    leaves = [np.reshape(leaf, (*np.shape(leaf)[:axes], -1)) for leaf in jax.tree.leaves(tree)]
    return np.concatenate(leaves, axis=-1)


def _mean(values) -> tuple[np.ndarray, np.ndarray]:
    """Over samples, with its standard error."""
    return values.mean(axis=1), values.std(axis=1) / np.sqrt(values.shape[1])


@lru_cache
def measured(name) -> dict[str, Any]:
    solved, rng = PROBLEMS[name](), np.random.default_rng(0)
    vertices = jax.tree.map(lambda v: rng.normal(size=(VERTICES, *np.shape(v))), solved.x)  # directions, as yet
    if name == "completion":  # here for the compiler's sake
        u, v = (w / np.linalg.norm(w, axis=-1, keepdims=True) for w in (vertices[:, :, 0], vertices[:, 0]))
        vertices = 2 * u[:, :, None] * v[:, None, :]
    elif name == "spectraplex":
        q = vertices[:, 0] / np.linalg.norm(vertices[:, 0], axis=-1, keepdims=True)
        vertices = q[:, :, None] * q[:, None, :]
    theta = solved.table
    if theta is None:  # NumPy's normal numbers in the place of JAX's, which take a second to compile for every shape
        assert isinstance(solved.samples.fn, partial)
        assert solved.samples.fn.func is normals
        theta = jax.tree.map(lambda s: rng.normal(size=(ROWS, *s.shape)), solved.samples.example())
    x = jax.tree.map(lambda v: np.asarray(v, float), solved.x)
    points, (F, H, rows), (f, h, sampled) = jax.tree.map(np.asarray, _measure(name, x, vertices, theta))
    rows, sampled = _flat(rows, 2), _flat(sampled, 3)
    df, dh = sampled[:, :, 0], sampled[:, :, 1:]
    change = sampled - np.roll(sampled, 1, axis=0)  # from point to point, on the same samples
    squares = {"df2": df, "dh2": dh, "change_f": change[:, :, 0], "change_h": change[:, :, 1:], "h2": h[..., None]}
    data = {key: _mean(value) for key, value in {"f": f, "h": h, "df": df, "dh": dh}.items()}
    data |= {key: _mean(np.sum(value**2, axis=-1)) for key, value in squares.items()}
    return data | {"points": points, "truth": (F, H, rows[:, 0], rows[:, 1:])}


# which has kinks; see the solver's
@pytest.mark.parametrize("name", [name for name in PROBLEMS if name != "portfolio"])
def test_the_optimality_conditions_hold(name):
    solved = PROBLEMS[name]()
    F, H, dF, dH = (v[0] for v in measured(name)["truth"])
    gradient = solved.dual @ dH + (dF if solved.feasible else 0)  # weights of a proof need no objective
    x = jax.tree.map(jnp.asarray, solved.x)
    lowest = -solved.problem.domain.support(jnp.asarray(-gradient).reshape(x.shape))
    assert gradient @ np.ravel(x) <= lowest + 1e-9
    assert bool(solved.problem.domain.contains(x))
    assert np.all(solved.dual >= 0)
    assert len(solved.dual) == len(H)
    if solved.feasible:
        assert pytest.approx(solved.optimum, abs=1e-9) == F
        assert np.max(H) <= 1e-9
        assert np.max(np.abs(solved.dual * H)) <= 1e-9
    else:  # the weights' mean of H is smallest at x, where it equals the worst: nothing can be better
        assert np.isnan(solved.optimum)
        assert solved.dual.sum() == pytest.approx(1)
        np.testing.assert_allclose([solved.dual @ H, H.max()], solved.least_violation, atol=1e-12)


@pytest.mark.parametrize("name", PROBLEMS)
def test_samples_average_to_the_expectations(name):
    data = measured(name)
    for key, exact in zip(("f", "h", "df", "dh"), data["truth"], strict=True):
        mean, error = data[key]
        error = 0 if name in FINITE else error  # the table is all there is
        assert np.all(np.abs(mean - exact) <= 5 * error + 1e-9), key
    assert np.all(data["h"][1].max(axis=0) > 0)  # values of constraints are noisy


@pytest.mark.parametrize("name", PROBLEMS)
def test_the_constants_bound_what_they_say_and_are_not_idle(name):
    solved, data = PROBLEMS[name](), measured(name)
    c, (F, _, dF, dH), points = solved.constants, data["truth"], _flat(data["points"], 1)
    moves = points - np.roll(points, 1, axis=0)
    distance = np.linalg.norm(moves, axis=1)

    def low(key):  # the least that the mean of squares can be, by what was sampled; the table leaves no doubt
        mean, error = data[key]
        return np.maximum(mean - (0 if name in FINITE else 5) * error, 0)

    seen = {
        "D": distance.max(),
        "G_f": np.linalg.norm(dF, axis=-1).max(),
        "G_h": np.linalg.norm(dH, axis=-1).max(),
        "sigma_f": np.sqrt(low("df2").max()),
        "sigma_h": np.sqrt(low("dh2").max()),
        "sigma_lam": np.sqrt(low("h2").max()),
    }
    for key, value in seen.items():
        assert value <= getattr(c, key) * (1 + 1e-9) <= 8 * value, key
    assert np.all(low("change_f") <= (c.L_f * distance) ** 2 * (1 + 1e-9) + 1e-9)
    smooth = np.isfinite(c.L_h)
    assert not smooth or np.all(low("change_h") <= (c.L_h * distance[:, None]) ** 2 * (1 + 1e-9) + 1e-9)
    along = np.sum(np.roll(dF, 1, axis=0) * moves, axis=1)
    assert np.all(F - np.roll(F, 1) - along >= c.mu / 2 * distance**2 - 1e-9)
    assert c.G_f <= c.sigma_f * (1 + 1e-12)
    assert c.G_h <= c.sigma_h * (1 + 1e-12)


@pytest.mark.parametrize("name", ["completion", "portfolio"])
def test_rows_are_drawn_from_the_table(name):
    solved = PROBLEMS[name]()
    rows, table = _flat(solved.rows(400, seed=2), 1), _flat(solved.table, 1)
    assert {*map(bytes, rows)} <= {*map(bytes, table)}
    assert np.all(np.abs(rows.mean(axis=0) - table.mean(axis=0)) <= 5 * table.std(axis=0) / 20)


@pytest.mark.parametrize("name", PROBLEMS)
def test_single_precision(name):
    """float32 with x64 off, as users have it, after the problem was made with x64 on; and float32 points with x64 on."""
    solved = PROBLEMS[name]()

    def shapes(x):
        theta = jax.tree.map(lambda s: jax.ShapeDtypeStruct((2, *s.shape), s.dtype), solved.samples.example())
        lam = jnp.zeros(len(solved.dual), jnp.float32)
        step = jax.eval_shape(Problem.value_and_gradient, solved.problem, x, lam, theta)
        return step, jax.eval_shape(solved.track, x)

    x = jax.tree.map(lambda v: jnp.asarray(v, jnp.float32), solved.x)
    outside = shapes(x)
    with jax.enable_x64(False):
        inside = shapes(x)
    assert {leaf.dtype for leaf in jax.tree.leaves((outside, inside))} == {jnp.dtype("float32")}
    assert set(inside[1]) == ({"F - F*"} if solved.feasible else set()) | {f"H{i}" for i in range(len(solved.dual))}


@pytest.mark.parametrize("name", ["fair-logistic", "portfolio", "completion", "ill-scaled"])
def test_values_in_single_precision(name):
    solved, (F, H, *_) = PROBLEMS[name](), measured(name)["truth"]
    with jax.enable_x64(False):
        x = jax.tree.map(lambda v: jnp.asarray(v, jnp.float32), solved.x)
        values = jax.jit(lambda v: (solved.objective(v), solved.constraints(v)))(x)
    np.testing.assert_allclose(values[0], F[0], rtol=1e-5)
    np.testing.assert_allclose(values[1], H[0], atol=1e-4)


def test_the_same_problem_every_time_and_names():
    assert EXACT.items() <= PROBLEMS.items()
    for name, make in PROBLEMS.items():
        assert make() is make()
        assert make().name == name
        assert (make().table is not None) == (name in FINITE)
        assert make().feasible == (name != "infeasible")


def test_fresh_rows_are_independent_normal_numbers():
    rows = PROBLEMS["simplex"]().rows(2_000, seed=4)
    assert {key: value.shape[1:] for key, value in rows.items()} == {"g": (5,), "w": (2, 5), "v": (2,)}
    values = _flat(rows, 1)
    np.testing.assert_allclose(values.mean(axis=0), 0, atol=5 / 2_000**0.5)
    np.testing.assert_allclose(np.cov(values.T), np.eye(17), atol=5 * (2 / 2_000) ** 0.5)


# ---- solvers that share no code with the library ---------------------------------------------------------------------


def _solve(objective, constraint, domain) -> tuple[Any, Any]:
    model = cp.Problem(cp.Minimize(objective), [constraint, *domain])
    model.solve(solver=cp.CLARABEL, tol_gap_abs=1e-11, tol_gap_rel=1e-11, tol_feas=1e-11)
    return model.value, np.ravel(constraint.dual_value)


@lru_cache
def _model(name) -> tuple[Any, Any, Any, Any]:
    """(x, F, H, domain) as cvxpy expressions, from the table and the formulas in words."""
    table: Any = PROBLEMS[name]().table
    if name == "ball":
        x = cp.Variable(5)
        return x, np.array([0.6, 0, -0.8, 0, 0]) @ x, cp.sum_squares(x) / 2 - 0.5, [cp.norm(x) <= 2]
    if name == "simplex":
        x, rows = cp.Variable(5), np.array([[1, -1, 0, 0.5, 0], [0, 1, -1, 0, 0.5]])
        point, dual = np.array([0.4, 0.3, 0.15, 0.1, 0.05]), np.array([0.5, 0.3])
        return x, cp.sum_squares(x - (point + rows.T @ dual)) / 2, rows @ (x - point), [x >= 0, cp.sum(x) == 1]
    if name == "scalar":
        x = cp.Variable(1)
        return x, cp.sum_squares(x - 2) / 2, x - 1, [x >= -1, x <= 2]
    if name == "l1-lp":
        x = cp.Variable(10)
        return x, -2 * x[0] - x[1], x[0] - 0.4, [cp.norm1(x) <= 1]
    if name == "neyman-pearson":
        x = cp.Variable(3)
        H = cp.sum(cp.logistic(table["b"] @ x)) / 500 - 0.2
        return x, cp.sum(cp.logistic(-table["a"] @ x)) / 500, H, [cp.norm(x) <= 5]
    if name == "fair-logistic":
        x, (a, y, _, s) = cp.Variable(3), table
        covariance = np.cov(a @ np.eye(3), s[:, 0], rowvar=False, bias=True)[-1, :3] @ x
        F = cp.sum(cp.logistic(cp.multiply(-y, a @ x))) / len(y)
        return x, F, cp.hstack([covariance, -covariance]) - 0.1, [cp.norm(x) <= 2]
    if name == "portfolio":
        x = cp.Variable(9)  # as the library flattens it: u, then w
        losses, u = -table @ x[1:], x[0]
        H = u + cp.sum(cp.pos(losses - u)) / 50.5 - 0.2
        return x, cp.sum(losses) / 505, H, [x[1:] >= 0, cp.sum(x[1:]) == 1, u >= -1, u <= 1]
    x = cp.Variable(6)
    F = -cp.sum(cp.log(1 + cp.multiply(table["gain"], np.ones((500, 1)) @ cp.reshape(x, (1, 6), order="C")))) / 500
    return x, F, np.stack([table["price"].mean(0), table["heard"].mean(0)]) @ x - [3, 1], [x >= 0, x <= 3]


@pytest.mark.parametrize("name", [*EXACT, "neyman-pearson", "fair-logistic", "portfolio", "power"])
def test_solutions_agree_with_cvxpy(name):
    solved, (x, F, H, domain) = PROBLEMS[name](), _model(name)
    value, dual = _solve(F, H <= 0, domain)
    assert solved.optimum == pytest.approx(value, abs=1e-8)
    np.testing.assert_allclose(solved.dual, dual, atol=1e-5)
    np.testing.assert_allclose(_flat(solved.x, 0), x.value, atol=1e-5)
    truth = measured(name)["truth"]
    assert truth[0][0] == pytest.approx(value, abs=1e-8)
    assert truth[1][0].max() <= 1e-9


@pytest.mark.parametrize("name", [*EXACT, "neyman-pearson", "portfolio"])
def test_margins_agree_with_cvxpy(name):
    _, _, H, domain = _model(name)
    model = cp.Problem(cp.Minimize(cp.max(H)), domain)
    least: Any = model.solve(solver=cp.CLARABEL, tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)
    assert PROBLEMS[name]().slater == pytest.approx(-least, abs=1e-7)


@pytest.mark.parametrize("name", ["many", "ill-scaled"])
def test_margins_of_linear_constraints_agree_with_cvxpy(name):
    solved = PROBLEMS[name]()
    H, dH, point = measured(name)["truth"][1][0], measured(name)["truth"][3][0], solved.x
    bound = np.ones(20) if name == "many" else np.logspace(-2, 2, 6)
    y, margin = cp.Variable(len(bound)), cp.Variable()  # x = bound y
    sides = (dH * bound) @ y + (H - dH @ point)
    model = cp.Problem(cp.Maximize(margin), [sides + margin <= 0, cp.abs(y) <= 1])
    model.solve(solver=cp.CLARABEL, tol_gap_abs=1e-11, tol_gap_rel=1e-11, tol_feas=1e-11)
    assert solved.slater == pytest.approx(margin.value, abs=1e-8)


@pytest.mark.parametrize("name", ["least-squares", "box-qcqp", "power", "fair-logistic"])
def test_the_origin_has_the_largest_margin(name):
    """Every constraint is smallest there; of the two sides of a covariance, the worse one is."""
    solved, (_, H, _, dH) = PROBLEMS[name](), measured(name)["truth"]
    there = H[0] - dH[0] @ solved.x if name == "power" else H[1]  # linear, or where the others start
    assert solved.slater == pytest.approx(-there.max(), abs=1e-12)


@pytest.mark.parametrize("name", ["spectraplex", "completion"])
def test_margins_over_sets_of_matrices(name):
    solved, (_, H, _, dH) = PROBLEMS[name](), measured(name)["truth"]
    A = dH[0, 0].reshape(solved.x.shape)
    least = np.linalg.eigvalsh(A)[0] if name == "spectraplex" else -2 * np.linalg.norm(A, 2)
    assert solved.slater == pytest.approx(np.vdot(A, solved.x) - H[0, 0] - least, abs=1e-12)


# ---- the page --------------------------------------------------------------------------------------------------------


def test_the_page_is_that_of_the_code_and_its_pictures_are_there(tmp_path):
    def without_numbers(text):  # last digits are a matter of the machine
        return re.sub(r"-?\d[\d.]*(e[+-]\d+)?", "#", text)

    assert without_numbers((DOCS / "problems.md").read_text()) == without_numbers(page.report())
    assert {path.stem for path in (DOCS / "problems").glob("*.png")} == set(PROBLEMS)
    page.draw(PROBLEMS["infeasible"](), tmp_path / "pictures" / "one.png")
    assert (tmp_path / "pictures" / "one.png").stat().st_size > 10_000
