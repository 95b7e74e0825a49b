from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from core_cases import BALL, CSOA, FWCSOA, PROBLEM, ROWS, SAMPLERS, assert_same_run, constraints, draw, objective

import tightrope as tr
from tightrope.loop import choose
from tightrope.loop.prepare import prepare

TRIANGLE = tr.Polytope(np.vstack([-np.eye(3), np.ones((1, 3))]), np.array([0.0, 0.0, 0.0, 1.0]))
NAMED = tr.Problem(objective, constraints, BALL, (0.5, 0.4), names=("fair", "short"))


def solve(problem=PROBLEM, data: Any = ROWS, **options):
    return tr.minimize(problem, data, **({"method": CSOA, "steps": 1000} | options))


# ---- what is chosen --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "domain", "chosen", "why"),
    [
        (ROWS, BALL, tr.SVRGCSOA, "chose svrg-csoa: the data is at hand"),
        (tr.Generator(draw), BALL, tr.CSOA, "chose csoa: samples come in a stream"),
        (ROWS, TRIANGLE, tr.SVRFCSOA, "chose svrf-csoa: the data is at hand and Polytope has no cheap projection"),
        (tr.Generator(draw), TRIANGLE, tr.SplitCSOA, "chose split-csoa: samples come in a stream and Polytope has no"),
    ],
)
def test_auto_chooses_by_data_and_set_and_says_so(data, domain, chosen, why):
    result = tr.minimize(tr.Problem(objective, None, domain), data, steps=5)
    assert isinstance(result.method, chosen)
    assert any(why in note for note in result.notes)
    assert why in str(result)


@pytest.mark.parametrize(
    ("coordinates", "constraints", "lacking", "chosen"),
    [
        (1000, 50, None, "sqp"),
        (1001, 1, None, "svrg-csoa"),
        (200, 50, "curvature", "bundle"),
        (201, 1, "curvature", "svrg-csoa"),
        (200, 200, None, "sqp"),
        (201, 51, None, "svrg-csoa"),
        (2, 51, "curvature", "svrg-csoa"),
    ],
)
def test_auto_takes_exact_methods_up_to_their_size(coordinates, constraints, lacking, chosen):
    assert (
        choose.automatic(choose.Setting(BALL, True, coordinates, constraints, lacks=lambda: lacking))[0].name == chosen
    )


def test_programmes_on_sets_without_a_cheap_projection_are_dearer():
    ball = tr.NuclearBall(1.0, shape=(25, 20))
    for coordinates, chosen in ((500, "sqp"), (501, "svrf-csoa")):
        assert choose.automatic(choose.Setting(ball, True, coordinates, 1, lacks=lambda: None))[0].name == chosen


def test_auto_stays_in_a_domain_that_functions_do_not_leave():
    """In the triangle the sum of x is at most 1, in the cube around it 3."""
    for room, chosen in ((4.0, "split-csoa"), (1.2, "fw-csoa")):
        problem = tr.Problem(lambda x, theta, room=room: -jnp.log(room - jnp.sum(x)) + theta[0] * x[0], None, TRIANGLE)
        given: dict[str, Any] = {"passes": None, "batch_size": None, "seeds": (0,), "x0": None}
        ready = prepare(problem, tr.Generator(draw), "auto", steps=3, **given)
        assert ready.method.name == chosen
        assert ("f or h has no finite values around it" in ready.notes[0]) is (chosen == "fw-csoa")


def test_a_warm_start_of_split_csoa_is_its_average():
    tied = tr.Problem(objective, constraints, tr.L1Ball(2.0, shape=3), levels=(0.5, 0.4))  # a ball is its own Y
    first = solve(tied, method="split-csoa", steps=500)
    assert abs(np.linalg.norm(first.last) - 2.0) < 1e-9  # a vertex, far from the solution
    again = solve(tied, method=tr.SplitCSOA(), steps=1, warm_start=first)
    np.testing.assert_array_equal(again.x, first.average)


@pytest.mark.parametrize("name", ["csoa", "CSOA", "fw-csoa"])
def test_a_method_by_name_is_the_one_with_default_coefficients(name):
    method = tr.METHODS[name.lower()]()
    assert_same_run(solve(method=name, steps=50), solve(method=method, steps=50))


@pytest.mark.parametrize(
    ("method", "batch_size", "steps"), [(CSOA, 1, 74), (FWCSOA, 1, 37), (CSOA, 4, 18), (CSOA, (2, 4), 18)]
)
def test_a_pass_is_as_many_gradients_as_there_are_rows(method, batch_size, steps):
    result = solve(method=method, batch_size=batch_size, steps=None, passes=2)
    assert result.cost.steps == steps
    assert result.trace["passes"].iloc[-1] == pytest.approx(2, abs=0.1)
    assert result.cost.gradients == (2 if method is FWCSOA else 1) * steps * np.max(batch_size) <= 74


def test_the_output_is_the_average_or_the_last_iterate():
    default, last = solve(), solve(output="last")
    np.testing.assert_array_equal(default.x, default.average)
    np.testing.assert_array_equal(last.x, last.last)
    np.testing.assert_array_equal(last.average, default.average)
    assert (default.output, last.output) == ("average", "last")
    assert "last iterate" in last.point


def test_objective_and_constraints_are_measured_at_x_on_all_rows():
    result = solve(output="last")
    x = np.asarray(result.x)
    assert result.objective == pytest.approx(((x - ROWS) ** 2).sum(axis=1).mean() / 2)
    np.testing.assert_allclose(
        result.constraints, [ROWS.mean(axis=0) @ x - 0.5, x[0] + 0.1 * ROWS[:, 1].mean() - 0.4], rtol=1e-9
    )
    assert result.violation == max(0.0, result.constraints.max())


def test_a_stream_is_measured_on_its_last_samples():
    result = solve(data=SAMPLERS["stream"](), steps=1000)
    assert "the last 512 samples of the run" in result.measured_on
    assert "passes" not in result.trace
    assert result.errors is not None
    assert np.all(result.errors > 0)
    x, seen = np.asarray(result.x), np.concatenate(list(SAMPLERS["stream"]().factory()))[488:1000]
    assert result.objective == pytest.approx(((x - seen) ** 2).sum(axis=1).mean() / 2, rel=1e-5)
    few = solve(data=SAMPLERS["stream"](), steps=9)
    assert "means of f(x_t, theta_t)" in few.measured_on
    assert few.objective == few.trace["objective"].iloc[-1]
    assert "its level on average over the run" in str(few)


def test_a_generator_measures_the_point_returned_on_fresh_samples():
    sampler = SAMPLERS["generator"]()
    result = solve(data=sampler, batch_size=8)
    x, fresh = np.asarray(result.x), np.asarray(sampler.fresh(0, 4096))
    assert "512 fresh samples" in result.measured_on  # a tenth of those it took, in powers of two
    assert abs(result.objective - ((x - fresh) ** 2).sum(axis=1).mean() / 2) < 1.5 * (result.objective_error or 0.0)
    assert result.errors is not None
    assert np.all(result.errors >= 0)


def test_verdicts_count_rounding_and_noise():
    rows, samples = solve(), solve(data=SAMPLERS["generator"]())
    for value, error, said in ((2e-7, 1e-6, "satisfied"), (1e-3, 1e-6, "VIOLATED"), (-1.0, 1e-6, "satisfied")):
        assert rows.verdict_of(value, error) == said
    assert samples.verdict_of(0.01, 0.02).startswith("undecided")
    assert samples.verdict_of(-0.03, 0.02) == "satisfied"
    assert samples.verdict_of(0.03, 0.02) == "VIOLATED"


def test_a_problem_over_a_pytree_gives_a_pytree():
    def on_tree(x, theta):
        return objective(jnp.append(x["w"], x["b"]), theta)

    problem = tr.Problem(on_tree, None, tr.L2Ball(2.0, shape={"w": 2, "b": ()}))
    flat = tr.minimize(tr.Problem(objective, None, BALL), ROWS, method=CSOA, steps=300)
    tree = tr.minimize(problem, ROWS, method=CSOA, steps=300)
    np.testing.assert_allclose(jnp.append(tree.x["w"], tree.x["b"]), flat.x, rtol=1e-9)


# ---- warm starts -----------------------------------------------------------------------------------------------------


def test_a_warm_start_keeps_point_and_multipliers_and_counts_anew():
    first = solve()
    seen = []
    again = solve(warm_start=first, steps=1, callback=seen.append)
    np.testing.assert_array_equal(again.average, first.last)  # the mean of one iterate, x_1
    np.testing.assert_array_equal(again.dual, first.dual_last)
    assert int(again.state.t) == 2
    assert again.cost.steps == 1


@pytest.mark.parametrize("method", ["sqp", "bundle", "svrg-csoa"])
def test_a_warm_start_of_what_looks_at_all_rows_begins_where_the_run_ended(method):
    first = tr.minimize(PROBLEM, ROWS, method=method, passes=60)
    again = tr.minimize(PROBLEM, ROWS, method=method, passes=1, warm_start=first)
    np.testing.assert_allclose(again.x, first.x, atol=1e-3)


def test_a_warm_start_outside_the_domain_is_projected():
    first = solve()
    small = tr.Problem(objective, constraints, tr.L2Ball(0.1, shape=3), (0.5, 0.4))
    with pytest.warns(UserWarning, match="outside the domain"):
        again = solve(small, warm_start=first, steps=1)
    assert float(jnp.linalg.norm(again.average)) == pytest.approx(0.1)


def test_a_warm_start_of_another_problem_is_refused():
    with pytest.raises(ValueError, match="2 multipliers for 0 constraints"):
        solve(tr.Problem(objective, None, BALL), warm_start=solve())


# ---- the trace -------------------------------------------------------------------------------------------------------


def test_the_trace_has_a_row_per_recorded_step_with_running_means():
    result = solve(NAMED, steps=300, batch_size=2)
    columns = ["step", "samples", "passes", "seconds", "objective", "fair", "short", "dual fair", "dual short"]
    columns.append("weight")
    assert list(result.trace) == columns
    assert (result.trace["samples"] == 2 * result.trace["step"]).all()
    assert result.trace["seconds"].is_monotonic_increasing
    np.testing.assert_array_equal(result.trace.iloc[-1][["dual fair", "dual short"]], result.dual)


@pytest.mark.parametrize(("record", "rows"), [(0, 1), (7, 8), (100, 101)])
def test_the_trace_has_about_as_many_rows_as_asked_for(record, rows):
    assert len(solve(record=record, steps=5000).trace) <= rows


def test_the_full_trace_evaluates_the_running_average_on_all_rows():
    seen = []
    trace = solve(NAMED, trace_full=True, steps=50, record=3, callback=seen.append).trace
    for snapshot, full in zip(seen, trace["full objective"], strict=True):
        assert full == pytest.approx(((np.asarray(snapshot.average) - ROWS) ** 2).sum(axis=1).mean() / 2)
    assert {"full fair", "full short"} <= set(trace)


def test_tracked_values_are_averaged_along_the_run():
    def both(x):
        return {"second": x[1], "first": x[0]}

    result = solve(track=both)
    np.testing.assert_allclose(result.trace.iloc[-1][["first", "second"]].astype(float), result.average[:2], rtol=1e-9)
    for name in ("average", "last", "dual"):  # by another program, which may round in another order
        np.testing.assert_allclose(getattr(result, name), getattr(solve(), name), rtol=1e-13)


# ---- reports ---------------------------------------------------------------------------------------------------------


def test_the_report_says_all_a_person_needs():
    result = solve(NAMED)
    said = str(result)
    assert said == repr(result)
    assert said.startswith("CSOA: finished: all steps were taken.")
    for words in (f"{result.objective:.6g}", "fair", "short", f"{result.constraints['short']:.6g}"):
        assert words in said
    for words in (*(f"{lam:.6g}" for lam in result.dual), "1,000 steps", "1,000 gradients", "1,000 projections"):
        assert words in said
    verdicts = ["satisfied" if value <= 0 else "VIOLATED" for value in result.constraints]
    assert [line.split()[-1] for line in said.splitlines() if line.split()[0] in NAMED.names] == verdicts  # pyright: ignore


@pytest.mark.parametrize("problem", [NAMED, tr.Problem(objective, None, BALL)])
def test_the_plot_is_a_figure_and_a_file(problem, tmp_path):
    from matplotlib.figure import Figure

    path = tmp_path / "run.png"
    figure = solve(problem, trace_full=True, steps=100).plot(str(path))
    assert isinstance(figure, Figure)
    titles = [axis.get_title(loc="left") for axis in figure.axes]
    assert titles == (["objective", "constraints"] if problem.constraints else ["objective"])
    assert all(axis.get_xlabel() == "samples" for axis in figure.axes)
    assert path.read_bytes().startswith(b"\x89PNG")


def test_a_run_without_a_step_has_nothing_to_draw():
    empty = solve(data=tr.Stream([np.ones((1, 3))]), batch_size=2)
    with pytest.raises(ValueError, match="trace is empty"):
        empty.plot()


# ---- numbers ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("switch", [False, True])
def test_rows_are_computed_in_float64_and_come_back_as_numpy(switch, kind):
    with jax.enable_x64(switch):
        result = solve(x0=np.zeros(3, kind), data=ROWS.astype(kind), method=FWCSOA, steps=50)
    assert result.x.dtype == result.last.dtype == result.state.lam.dtype == np.float64
    assert isinstance(result.x, np.ndarray)
    assert isinstance(result.method.eta0, np.ndarray | float)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_float32_is_what_is_computed_in_where_it_is_asked_for(kind):
    result = solve(data=ROWS.astype(kind), steps=5, precision="float32")
    assert result.x.dtype == result.last.dtype == np.float32
    with pytest.raises(ValueError, match=r"precision is 'half'; expected .float64., .float32. or None"):
        solve(steps=5, precision="half")


def test_a_call_leaves_the_precision_of_the_user_alone():
    seen = []
    with jax.enable_x64(False):
        rows = ROWS.astype(np.float64)
        result = solve(
            data=rows, steps=20, callback=lambda s: seen.append((jnp.zeros(2).dtype, s.last.dtype)) and False
        )
        assert jnp.asarray(rows).dtype == jnp.float32
        assert jax.jit(lambda v: 2 * v)(result.x).dtype == jnp.float32
        assert result.x.sum() == pytest.approx(float(jnp.sum(result.x)), rel=1e-5)
    assert set(seen) == {(np.dtype("float32"), np.dtype("float64"))}


def test_constants_of_float32_that_a_function_closes_over_do_no_harm():
    with jax.enable_x64(False):
        centre = jnp.asarray([0.3, -0.1, 0.2])
        problem = tr.Problem(lambda x, theta: ((x - centre - theta) ** 2).sum(), None, tr.L2Ball(5.0, shape=3))
        result = tr.minimize(problem, ROWS)
    assert result.status is tr.Status.SOLVED
    np.testing.assert_allclose(result.x, np.asarray(centre, float) + ROWS.mean(axis=0), atol=1e-6)


def test_a_start_in_whole_numbers_or_mixed_precision_is_one_dtype():
    assert solve(x0=np.array([1, 0, 0]), steps=5).x.dtype == jnp.float64
    tree = tr.L2Ball(2.0, shape={"a": (), "b": ()})
    mixed = {"a": np.float32(0.0), "b": np.float64(0.0)}
    result = tr.minimize(tr.Problem(lambda x, theta: x["a"] * theta[0] + x["b"], None, tree), ROWS, steps=5, x0=mixed)
    assert result.x["a"].dtype == result.x["b"].dtype == jnp.float64
