"""What is compiled, against NumPy, on every release of JAX: some get sums of products wrong on CPUs if they are let.

The sizes are those at which they do. 0.10.0 and 0.10.1: a product of matrices and then a sum along a middle axis of more
than 32, in float32. 0.10.2: a reduction to more than 128 KiB, which is 32,768 numbers in float32 and 16,384 in float64
(jax issue 39103). 0.10.2 to 0.12.0.1: a sum of sums, as in a Jacobian, in float32. 0.10.2 and 0.11.0 end the process on
products and sums of seven or eight axes (jax issues 39257 and 40412).
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from slow import quick_first

import tightrope as tr
from tightrope import _compilation_cache, _jaxlib, _self_test
from tightrope._jaxlib import compiled

D = 3
SIZES = [(65, 600), (100, 400), (300, 130)]  # constraints and rows: a slice of the data has more than 32,768 values


def compare(got, expected):
    """Equal up to the rounding of a few hundred operations, measured by the largest number."""
    got, expected = np.asarray(got), np.asarray(expected, np.float64)
    np.testing.assert_allclose(got, expected, rtol=0, atol=300 * np.finfo(got.dtype).eps * np.abs(expected).max())


def draw(dtype, *shapes):
    """Arrays in one precision and the same numbers in float64."""
    rng = np.random.default_rng(0)
    arrays = [rng.normal(1.0, 0.5, size=shape).astype(dtype) for shape in shapes]
    return arrays, [a.astype(np.float64) for a in arrays]


# ---- the patterns alone ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rows", [16_385, 32_769])
def test_a_product_for_every_row_and_the_sum_of_its_squares(rows, dtype):
    (matrix, x), (matrix64, x64) = draw(dtype, (D, D), (rows, D))
    compare(compiled(jax.vmap(lambda row: jnp.sum((matrix @ row) ** 2)))(x), ((x64 @ matrix64.T) ** 2).sum(axis=1))


@pytest.mark.parametrize(
    ("groups", "rows", "inner", "columns"), [(64, 33, 3, 64), (64, 200, 192, 3), (4, 200, 192, 64)]
)
def test_a_product_for_every_row_and_the_sum_over_the_rows_of_a_group(groups, rows, inner, columns, dtype):
    (x, matrix), (x64, matrix64) = draw(dtype, (groups, rows, inner), (inner, columns))
    got = compiled(jax.vmap(lambda group, matrix: jnp.sum(group @ matrix, axis=0), (0, None)))(x, matrix)
    compare(got, x64.sum(axis=1) @ matrix64)


@pytest.mark.parametrize(("n", "rows"), [(65, 40), (2, 1000)])
def test_the_jacobian_of_means_of_sums(n, rows, dtype):
    (weights, theta), (weights64, theta64) = draw(dtype, (n, D), (rows, D))

    def means(x, weights, theta):
        return jnp.mean(jax.vmap(lambda row: jnp.sum(weights * (x * row)[None], axis=1))(theta), axis=0)

    compare(compiled(jax.jacrev(means))(jnp.ones(D, dtype), weights, theta), weights64 * theta64.mean(axis=0))


# ---- the problem's values and derivatives ----------------------------------------------------------------------------


def distance(x, theta, _):
    return jnp.sum((x - theta) ** 2) / 2


def bilinear(x, theta, weights):
    """<w_i theta, x>, by a sum."""
    return jnp.sum(weights * (x * theta)[None], axis=1)


def quadratic(x, theta, weights):
    """|w_i w_i^T (x - theta)|^2, by a product for every constraint."""
    return jax.vmap(lambda w: jnp.sum((jnp.outer(w, w) @ (x - theta)) ** 2))(weights)


def in_numpy(constraints, x, theta, weights):
    """E h and its Jacobian, written out."""
    mean = theta.mean(axis=0)
    if constraints is bilinear:
        return weights @ (mean * x), weights * mean
    along, size = weights @ (x - theta).T, (weights**2).sum(axis=1)
    return size * (along**2).mean(axis=1), 2 * (size * along.mean(axis=1))[:, None] * weights


def check(constraints, n, rows, dtype, *calls):
    (x, lam, theta, weights), (x64, lam64, theta64, weights64) = draw(dtype, D, n, (rows, D), (n, D))
    problem = tr.Problem(distance, constraints, tr.L2Ball(10.0, shape=D), params=weights)
    f, grad_f = ((x64 - theta64) ** 2).sum(axis=1).mean() / 2, x64 - theta64.mean(axis=0)
    h, grad_h = in_numpy(constraints, x64, theta64, weights64)
    known = {
        tr.Problem.values: ((x, theta), (f, h)),
        tr.Problem.value_and_gradient: ((x, lam, theta), (f, h, grad_f + lam64 @ grad_h)),
        tr.Problem.jacobian: ((x, theta), (f, h, grad_f, grad_h)),
    }
    for call in calls:
        arguments, expected = known[call]
        for got, right in zip(compiled(call)(problem, *arguments), expected, strict=True):
            compare(got, right)


@pytest.mark.parametrize("constraints", [bilinear, quadratic])
@pytest.mark.parametrize("n", [65, 100, 300])
def test_many_constraints(constraints, n, dtype):
    check(constraints, n, 40, dtype, tr.Problem.jacobian)


@pytest.mark.parametrize("constraints", [bilinear, quadratic])
@pytest.mark.parametrize("rows", [16_385, 32_769])
def test_many_rows(constraints, rows, dtype):
    check(constraints, 2, rows, dtype, tr.Problem.jacobian)


@pytest.mark.parametrize(("n", "rows"), SIZES)
def test_many_of_both(n, rows, dtype):
    check(bilinear, n, rows, dtype, tr.Problem.values, tr.Problem.value_and_gradient)


def test_gradients_at_many_points(dtype):
    (points, theta, weights), (points64, theta64, weights64) = draw(dtype, (64, D), (200, D), (8, D))
    problem = tr.Problem(
        lambda x, theta, weights: jnp.sum((weights @ (x - theta)) ** 2) / 2,
        None,
        tr.L2Ball(10.0, shape=D),
        params=weights,
    )
    lam = jnp.zeros(0, dtype)
    gradients = compiled(jax.vmap(lambda x: problem.value_and_gradient(x, lam, theta)[2]))(points)
    compare(gradients, (points64 - theta64.mean(axis=0)) @ (weights64.T @ weights64))


def test_rows_one_after_the_other(dtype):
    """What jax issue 39103 computes, in f and in h: only rows beyond 128 KiB were wrong."""
    theta = np.zeros((2**15 + 1, D), dtype)
    theta[:, 0] = np.arange(len(theta)) / len(theta)

    def moved(x, theta, matrix):
        return jnp.sum((matrix @ (x * theta)) ** 2)

    problem = tr.Problem(
        moved, lambda *given: moved(*given)[None], tr.L2Ball(10.0, shape=D), params=np.eye(D, dtype=dtype)
    )
    squares, each = (theta[:, 0].astype(np.float64) ** 2), np.eye(D)[0]
    for got, right in zip(
        compiled(tr.Problem.jacobian)(problem, jnp.ones(D, dtype), theta),
        (squares.mean(), squares.mean()[None], 2 * squares.mean() * each, 2 * squares.mean() * each[None]),
        strict=True,
    ):
        compare(got, right)
    by_row = compiled(jax.vmap(lambda row: problem.sample_values(jnp.ones(D, dtype), row)[0]))(theta)
    compare(by_row, squares)


@pytest.mark.parametrize(
    ("seen", "table", "axis"),
    [((4, 6), (4, 6, 9, 9, 9, 9, 9), 1), ((1, 2, 2, 8, 8, 8), (1, 2, 2, 8, 8, 8), 2)],  # jax issues 39257 and 40412
)
def test_products_of_many_axes(seen, table, axis, dtype):
    """A product of seven or eight axes with that of the rows, summed over one, in f and in h."""
    (theta, params), (theta64, params64) = draw(dtype, (10, *seen), table)
    theta, theta64 = theta + 1, theta64 + 1

    def logs(theta, table, np):
        wide = theta.reshape(*theta.shape, *[1] * (table.ndim - theta.ndim))
        return np.mean(np.log(np.maximum(np.sum(wide * table, axis=axis), 2.2e-16)))

    problem = tr.Problem(
        lambda x, theta, table: x[0] * logs(theta, table, jnp),
        lambda x, theta, table: jnp.stack([x[1] * logs(theta, table, jnp), x[2] * jnp.sum(theta)]),
        tr.L2Ball(10.0, shape=D),
        params=params,
    )
    mean, total = np.mean([logs(one, params64, np) for one in theta64]), theta64.sum() / len(theta64)
    grad_f, grad_h = mean * np.eye(D)[0], np.stack([mean * np.eye(D)[1], total * np.eye(D)[2]])
    for got, right in zip(
        compiled(tr.Problem.jacobian)(problem, jnp.ones(D, dtype), theta),
        (mean, np.stack([mean, total]), grad_f, grad_h),
        strict=True,
    ):
        compare(got, right)


# ---- runs --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "rows"), quick_first(SIZES, 1))
def test_a_run_ends_at_the_optimum_and_reports_what_is_there(n, rows, dtype):
    # the constraints are one and the same, each in a scale of its own: x* is the projection of the mean onto a half-space
    (theta, scales), (theta64, scales64) = draw(dtype, (rows, D), n)
    mean = theta64.mean(axis=0)
    level = mean @ mean / 2
    problem = tr.Problem(
        distance, bilinear, tr.L2Ball(4.0, shape=D), levels=scales * level, params=np.repeat(scales[:, None], D, axis=1)
    )
    result = tr.minimize(problem, theta, method=tr.CSOA(eta0=0.1, upsilon0=0.0), steps=3000, batch_size=rows)
    x = np.asarray(result.x, np.float64)
    assert result.objective == pytest.approx(((x - theta64) ** 2).sum(axis=1).mean() / 2, rel=1e-5)
    np.testing.assert_allclose(result.constraints, scales64 * (mean @ x - level), rtol=0, atol=1e-5)
    np.testing.assert_allclose(x, mean / 2, atol=0.05)


# ---- the place where programs are compiled, and its test ---------------------------------------------------------------


@pytest.fixture
def untested(monkeypatch):
    """As in a process that has compiled nothing yet."""
    monkeypatch.setattr(_jaxlib, "_known", None)
    tests, test = [], _self_test._wrong
    monkeypatch.setattr(_self_test, "_wrong", lambda options: tests.append(dict(options)) or test(options))
    return tests


def test_a_program_is_one_from_python_and_a_part_where_something_is_traced():
    @compiled(static_argnames="power", soon=True)
    def raised(x, power):
        """To a power."""
        return x**power

    def cube(x):
        return raised(x, power=3)

    assert raised.__doc__ == "To a power."
    assert cube(2.0) == 8
    assert jax.jit(cube)(2.0) == 8
    assert compiled(cube)(2.0) == 8
    assert jax.grad(cube)(2.0) == 12
    assert jax.jit(jax.grad(cube))(2.0) == 12
    np.testing.assert_array_equal(jax.vmap(cube)(jnp.arange(3.0)), [0, 1, 8])
    np.testing.assert_array_equal(jax.jit(jax.vmap(cube))(jnp.arange(3.0)), [0, 1, 8])
    np.testing.assert_array_equal(jax.lax.map(cube, jnp.arange(3.0)), [0, 1, 8])
    with jax.disable_jit():
        assert cube(2.0) == 8


def test_arguments_are_donated():
    @compiled(donate_argnums=0)
    def next_to(x):
        return x + 1

    x = jnp.zeros(1000)
    next_to(x)
    assert x.is_deleted()


def test_the_outermost_program_has_the_options_that_make_it_right(monkeypatch):
    _jaxlib.options()  # the test of this process, which compiles a program of its own, is over
    given, jit = [], jax.jit
    monkeypatch.setattr(jax, "jit", lambda fn, **how: given.append(how) or jit(fn, **how))
    double = compiled(lambda x: 2 * x)
    assert given == [{}]
    jit(double)(1.0)
    assert given == [{}], "a part of another program"
    double(1.0)
    double(2.0)
    assert given == [{}, {"compiler_options": _jaxlib._RIGHT}]


def test_the_first_program_waits_for_a_test_and_no_other_one_does(untested):
    for _ in range(2):
        compiled(lambda x: 2 * x)(1.0)
    assert untested == [_jaxlib._RIGHT]


def test_an_option_that_the_compiler_does_not_know_is_left_out(untested, monkeypatch):
    monkeypatch.setattr(_jaxlib, "_RIGHT", {**_jaxlib._RIGHT, "xla_cpu_of_another_release": False})
    right = {name: value for name, value in _jaxlib._RIGHT.items() if name != "xla_cpu_of_another_release"}
    assert _jaxlib.options() == right
    assert len(untested) == 2


@pytest.mark.parametrize("wrong", [np.nan, np.inf, 1.002])
def test_a_jaxlib_that_computes_wrongly_is_refused_again_and_again(untested, monkeypatch, tmp_path, wrong):
    monkeypatch.setattr(_compilation_cache, "folder_in_use", lambda: tmp_path)
    squares, groups, jacobian = _self_test._EVERYWHERE
    last_is_wrong = groups._replace(program=lambda *given: groups.program(*given).at[-1].multiply(wrong))
    monkeypatch.setattr(_self_test, "_EVERYWHERE", (squares, last_is_wrong, jacobian))
    for _ in range(2):
        with pytest.raises(
            RuntimeError, match=rf"jaxlib {_jaxlib.version} computes wrong.*groups in float32.*pip install jax=="
        ):
            compiled(lambda x: 2 * x)(1.0)
    assert not list(tmp_path.iterdir())
    assert len(untested) == 2


def test_what_was_passed_is_remembered_where_nobody_else_can_write(untested, monkeypatch, tmp_path):
    monkeypatch.setenv(_compilation_cache.VARIABLE, str(tmp_path))

    def tests_of_a_process() -> int:
        monkeypatch.setattr(_jaxlib, "_known", None)
        before = len(untested)
        assert _jaxlib.options() == _jaxlib._RIGHT
        return len(untested) - before

    tmp_path.chmod(0o770)  # of the group
    assert [tests_of_a_process(), tests_of_a_process()] == [1, 1]
    assert not list(tmp_path.iterdir())
    tmp_path.chmod(0o700)
    assert [tests_of_a_process(), tests_of_a_process()] == [1, 0]
    (note,) = tmp_path.iterdir()
    note.write_text("not JSON")
    assert [tests_of_a_process(), tests_of_a_process()] == [1, 0]
    monkeypatch.setenv("XLA_FLAGS", "--xla_dump_to=elsewhere")
    assert tests_of_a_process() == 1, "another note"
    monkeypatch.setattr(_self_test, "version", "0.99")
    assert tests_of_a_process() == 1, "another release"


def test_the_folder_is_the_one_of_compiled_programs(monkeypatch, tmp_path):
    assert _compilation_cache.folder_in_use() is None, "tests keep nothing"
    monkeypatch.setenv(_compilation_cache.VARIABLE, str(tmp_path / "programs"))
    assert _compilation_cache.folder_in_use() is None, "none is made for this"
    (tmp_path / "programs").mkdir()
    assert _compilation_cache.folder_in_use() == tmp_path / "programs"


def test_the_user_s_settings_do_not_matter_to_the_test():
    with jax.debug_nans(True), jax.enable_x64(False), jax.numpy_dtype_promotion("strict"), jax.disable_jit():
        assert _self_test._wrong(_jaxlib._RIGHT) == []
