import resource
import signal
import subprocess
import sys
import textwrap
import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from core_cases import (
    BALL,
    CSOA,
    FWCSOA,
    METHODS,
    PROBLEM,
    ROWS,
    SAMPLERS,
    FullGradient,
    assert_same_run,
    objective,
    ragged,
)

import tightrope as tr
import tightrope.loop.driver as driver
from tightrope.loop import steps
from tightrope.loop.record import record_steps
from tightrope.loop.steps import advance
from tightrope.problem import full_values
from tightrope.sampling import Plan


def solve(data: Any = None, **options):
    settings: dict[str, Any] = {"method": CSOA, "steps": 1000} | options
    return tr.minimize(PROBLEM, ROWS if data is None else data, **settings)


# ---- what a result does not depend on --------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("sampler", SAMPLERS)
def test_a_result_does_not_depend_on_the_chunk_length(method, sampler):
    def run(**options):
        return solve(SAMPLERS[sampler](), method=METHODS[method], steps=503, **options)

    whole = run()
    assert whole.cost.steps == 503
    for options in ({"chunk": 1}, {"chunk": 7, "record": 0}, {"chunk": 1000, "record": 3}):
        assert_same_run(run(**options), whole)


def test_the_loop_of_accelerators_takes_the_same_steps_bit_for_bit(monkeypatch):
    """Also where chunks end within the groups of steps that are summed together."""
    whole = solve(steps=200)
    monkeypatch.setattr(steps, "platform", lambda: "gpu")
    jax.clear_caches()  # the other loop is compiled
    for options in ({}, {"chunk": 37}, {"chunk": 65}):
        assert_same_run(solve(steps=200, **options), whole)
    jax.clear_caches()


def test_the_same_seed_gives_the_same_result_and_another_one_another():
    assert_same_run(solve(seed=5), solve(seed=5))
    assert not np.array_equal(solve(seed=5).x, solve(seed=6).x)


def test_objective_and_constraints_take_as_many_samples_as_each_was_given():
    """One step by hand, eta = 0.8 and upsilon = 0.3: the gradient by the first sample alone, the constraints by all four."""
    x, rows = np.array([1.0, 0.0, 0.0]), np.asarray(tr.Rows(ROWS).open(Plan((0,), 1, 4)).take(0, 1).items)
    theta = ROWS[rows[0, 0, 0]]
    result = solve(steps=1, batch_size=(1, 4), x0=x)
    h = np.column_stack([theta @ x - 0.5, x[0] + 0.1 * theta[:, 1] - 0.4]).mean(axis=0)
    np.testing.assert_allclose(result.last, x - 0.8 * (x - theta[0]), rtol=1e-14)
    np.testing.assert_allclose(result.dual_last, 0.8 * (h + 0.3), rtol=1e-14)
    assert np.all(h > -0.3)


def test_weights_below_one_in_all_are_weights():
    """Steps of 0.1/sqrt(t) weigh x_t: the mean of two is between them, and nearer to the first."""
    seen = []
    result = solve(method=tr.CSOA(eta0=0.1, anytime=True), steps=2, record=2, callback=lambda s: seen.append(s.last))
    weights = 0.1 / np.sqrt([1.0, 2.0])
    np.testing.assert_allclose(result.average, np.average([np.zeros(3), seen[0]], axis=0, weights=weights), rtol=1e-12)


def test_compiled_code_is_traced_once_whatever_the_numbers():
    traced = []

    def counted(x, theta):
        traced.append(1)
        return objective(x, theta)

    def run(levels: Any = 0.3, radius: Any = 2.0, **options: Any):
        problem = tr.Problem(counted, first_coordinate, tr.L2Ball(radius, shape=3), levels)
        tr.minimize(problem, ROWS, **{"method": CSOA, "steps": 90, **options})
        compiled = [getattr(fn, "programs")() for fn in (advance, full_values)]  # noqa: B009 (not typed)
        count, traced[:] = len(traced), []
        return count, compiled

    _, compiled = run()
    shapes_only = run()[0]  # what the checks before a run trace, without compiling
    for change in (
        {"method": tr.CSOA(eta0=0.1, delta=0.2, upsilon0=3, dual_scale=2.0)},
        {"seed": 9},
        {"steps": 4321},
        {"x0": np.array([0.1, 0.2, 0.3])},
        {"levels": 0.7},
        {"radius": 3.0},
        {"chunk": 11},
    ):
        assert run(**change) == (shapes_only, compiled), change
    assert run(method=tr.CSOA(anytime=True))[0] > shapes_only  # a static field: the count can fail


def first_coordinate(x, theta):
    return x[:1]


# ---- callbacks -------------------------------------------------------------------------------------------------------


def test_a_callback_sees_the_run_as_it_stands():
    seen = []
    result = solve(callback=seen.append, record=10)
    assert [s.step for s in seen] == result.trace["step"].tolist() == record_steps(1000, 10)
    np.testing.assert_array_equal(seen[-1].average, result.average)
    np.testing.assert_array_equal(seen[-1].last, result.last)
    np.testing.assert_array_equal(seen[-1].dual, result.dual_last)
    assert seen[-1].row == result.trace.iloc[-1].to_dict()


@pytest.mark.parametrize("true", [True, np.bool_(True), jnp.array(True)])
def test_a_callback_may_stop_the_run(true):
    seen = []
    result = solve(callback=lambda s: seen.append(s) or (true if s.step >= 50 else False))
    assert result.status is tr.Status.CALLBACK_STOPPED
    assert result.cost.steps == seen[-1].step < 1000
    np.testing.assert_array_equal(result.average, seen[-1].average)


def test_what_else_a_callback_returns_stops_nothing():
    assert solve(callback=lambda s: s).status is tr.Status.FINISHED


def test_a_callback_that_raises_does_not_cost_the_run():
    def fail(snapshot):
        if snapshot.step >= 100:
            raise RuntimeError("my mistake")

    result = solve(callback=fail)
    assert result.status is tr.Status.CALLBACK_RAISED
    assert isinstance(result.error, RuntimeError)
    assert "RuntimeError: my mistake" in str(result)
    assert 100 <= result.cost.steps < 1000
    assert np.all(np.isfinite(result.x))


def test_a_stream_that_raises_does_not_cost_the_run():
    def broken(skip=0):
        yield from list(ragged())[:40]
        raise OSError("the line is dead")

    result = solve(data=tr.Stream(broken), method=CSOA)
    assert result.status is tr.Status.STREAM_RAISED
    assert isinstance(result.error, OSError)
    assert "OSError: the line is dead" in str(result)
    assert 0 < result.cost.steps < 1000


def test_a_stream_whose_rows_change_shape_is_told_so():
    batches = [np.ones((500, 3)), np.ones((500, 4))]
    result = solve(data=tr.Stream(batches), method=CSOA)
    assert result.status is tr.Status.STREAM_RAISED
    assert "rows of shapes (4,); expected (3,)" in result.message


@pytest.mark.parametrize("wrong", [lambda x: x[0], lambda x: {"x": x}])
def test_what_is_tracked_must_be_scalars_by_name(wrong):
    with pytest.raises(ValueError, match=r"track returns.*expected a dict of scalars"):
        solve(track=wrong)


def test_slow_steps_make_short_chunks():
    """Nobody waits long for a time limit: a NumPy oracle of 10 ms a call is stopped soon after it."""

    def slow(x, theta):
        time.sleep(0.01)
        return x - theta, np.zeros(0), np.zeros((0, 3))

    problem = tr.Problem.from_oracle(slow, BALL, n_constraints=0, numpy=True)
    began = time.perf_counter()
    result = tr.minimize(problem, ROWS, method=CSOA, steps=100_000, time_limit=1.0, record=0)
    assert result.status is tr.Status.TIME_LIMIT
    assert 10 < result.cost.steps < 500
    assert time.perf_counter() - began < 20


def test_an_interrupt_returns_what_there_is():
    def interrupt(snapshot):
        if snapshot.step >= 100:
            raise KeyboardInterrupt

    result = solve(callback=interrupt)
    assert result.status is tr.Status.INTERRUPTED
    stopped = solve(callback=lambda s: s.step >= 100)
    assert_same_run(result, stopped)


@pytest.mark.parametrize("how", ["stopped", "interrupted"])
def test_no_second_solver_takes_the_place_of_one_that_was_stopped(how):
    """Before a look has found a feasible point there is none to give back, and nobody asked for another run."""

    def stop(snapshot):
        if how == "interrupted":
            raise KeyboardInterrupt
        return True

    far = tr.Problem(lambda x, theta: jnp.sum((x - theta) ** 2), lambda x, theta: x[:1] - theta[0], BALL, levels=-0.9)
    result = tr.minimize(far, ROWS, callback=stop, record=100, progress=False)
    assert result.cost.steps == 1
    assert result.constraints.iloc[0] > 0
    assert not any("went on" in note for note in result.notes)
    assert result.status is (tr.Status.INTERRUPTED if how == "interrupted" else tr.Status.NO_FEASIBLE_POINT)


def test_ctrl_c_in_another_process_prints_the_result_so_far():
    script = """
        import signal, jax, jax.numpy as jnp, tightrope as tr
        signal.signal(signal.SIGINT, signal.default_int_handler)  # which a process in the background starts without
        problem = tr.Problem(lambda x, theta: ((x - theta) ** 2).sum(), None, tr.L2Ball(1.0, shape=2))
        noise = tr.Generator(lambda key: jax.random.normal(key, (2,)))
        told = []
        tell = lambda s: told or (told.append(1), print("started", flush=True))
        print(tr.minimize(problem, noise, steps=2_000_000_000, record=2_000_000, callback=tell))
    """
    run = [sys.executable, "-c", textwrap.dedent(script)]
    with subprocess.Popen(run, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "started\n"
            process.send_signal(signal.SIGINT)
            said, _ = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == 0
    assert "interrupted; the result is that of the steps taken" in said


def test_seconds_are_those_that_passed():
    solve(steps=7)
    began = time.perf_counter()
    assert 0 < solve(steps=7).cost.seconds < time.perf_counter() - began


def test_a_time_limit_stops_the_run():
    result = solve(steps=10**9, time_limit=0.2, chunk=2000)
    assert result.status is tr.Status.TIME_LIMIT
    assert 0 < result.cost.steps < 10**9
    assert 0.2 <= result.cost.seconds < 20
    assert solve(time_limit=1000.0).status is tr.Status.FINISHED


# ---- values that are not finite --------------------------------------------------------------------------------------


def rows_with(bad, step):
    """A stream whose row for one step (counted from 1) is bad."""

    def factory(skip):
        rows = np.random.default_rng(2).normal(size=(600, 3))
        rows[step - 1] = bad
        yield from np.array_split(rows[skip:], 7)

    return tr.Stream(factory)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("step", [1, 2, 333])
def test_a_bad_value_stops_the_run_at_the_last_good_step(method, step):
    options = {"method": METHODS[method], "steps": 600}
    result = solve(rows_with(np.nan, step), **options)
    assert result.status is tr.Status.NOT_FINITE
    assert result.message == f"The objective is not finite in step {step}."
    assert result.cost.steps == step - 1

    def until(skip):  # the same horizon, and a stream that ends before the bad row
        yield np.random.default_rng(2).normal(size=(600, 3))[skip : step - 1]

    if step > 1:
        assert_same_run(result, solve(tr.Stream(until), **options))
    else:
        np.testing.assert_array_equal(result.x, np.zeros(3))


def huge_gradient(x, theta):
    return objective(x, theta) + jnp.sqrt((99 - theta[0]) ** 2 + 0 * jnp.sum(x))  # at 99 its slope is 0/0


def bad_constraint(x, theta):
    return jnp.stack([x[0], jnp.log(90 - theta[0]) + x[1]])


@pytest.mark.parametrize(
    ("problem", "track", "culprit"),
    [
        (tr.Problem(huge_gradient, None, BALL), None, "The gradient, the point or a multiplier"),
        (tr.Problem(huge_gradient, bad_constraint, BALL, names=("fine", "bad")), None, "The constraint bad"),
        (tr.Problem(objective, None, BALL), lambda x: {"odd": jnp.sum(x) / jnp.sum(x)}, "The tracked odd"),
    ],
)
def test_the_sentence_names_what_was_not_finite(problem, track, culprit):
    step = 1 if track else 77
    result = tr.minimize(problem, rows_with(99.0, step), method=CSOA, steps=200, track=track)
    assert result.status is tr.Status.NOT_FINITE
    assert result.message == f"{culprit} is not finite in step {step}."
    assert result.cost.steps == step - 1
    assert np.all(np.isfinite(result.x))


def test_a_generator_that_fails_at_some_step_is_stopped_there():
    def sometimes(key):
        theta = jax.random.normal(key, (3,))
        return jnp.where(theta[0] > 2.5, jnp.nan, theta)

    result = solve(tr.Generator(sometimes), steps=5000)
    assert result.status is tr.Status.NOT_FINITE
    assert f"in step {result.cost.steps + 1:,}." in result.message
    assert 0 < result.cost.steps < 5000


@pytest.mark.parametrize("method", ["svrg-csoa", "csoa", "cfw-csoa"])
def test_a_point_without_values_is_not_the_last_good_one(method):
    """The step that leaves the place where the objective has values is itself finite; only the next one sees it."""

    def f(x, theta):
        return jnp.dot(x, theta) + jnp.where(jnp.sum(x) < 0.9, jnp.nan, 0.0)

    data = np.random.default_rng(0).uniform(0.5, 1.5, (200, 3))
    problem = tr.Problem(f, lambda x, theta: jnp.sum(x)[None], tr.Box(0.0, 1.0, shape=3), 2.5)
    result = tr.minimize(problem, data, method=method, steps=600, x0=np.ones(3))
    assert result.status is tr.Status.NOT_FINITE
    assert result.objective is not None
    assert np.isfinite(result.objective)
    assert float(np.sum(result.x)) >= 0.9


# ---- memory ----------------------------------------------------------------------------------------------------------


def test_memory_and_trace_do_not_grow_with_the_number_of_steps():
    def peak_mb(steps):
        trace = solve(steps=steps, method=FWCSOA).trace
        assert len(trace) <= 102
        assert trace["step"].iloc[-1] == steps
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

    before = peak_mb(100_000)
    assert peak_mb(1_000_000) - before < 10


@pytest.mark.parametrize("steps", [1, 2, 99, 10**6])
@pytest.mark.parametrize("points", [0, 1, 2, 100])
def test_recorded_steps_are_few_and_end_with_the_last(steps, points):
    at = record_steps(steps, points)
    assert at == sorted(set(at))
    assert 1 <= at[0] <= at[-1] == steps
    assert len(at) <= points + 1


# ---- a look at all the data ------------------------------------------------------------------------------------------


def by_hand(steps, every=4, rate=0.1):
    x = gradient = np.zeros(3)
    for t in range(steps):
        gradient = x - ROWS.mean(axis=0) if t % every == 0 else gradient
        x = x - rate * gradient
    return x


@pytest.mark.parametrize("chunk", [None, 1, 3])
def test_a_method_may_look_at_all_the_data_between_its_steps(chunk):
    result = solve(method=FullGradient(), steps=14, chunk=chunk)
    np.testing.assert_allclose(result.last, by_hand(14), rtol=1e-12)
    assert int(result.state.seen) == 4  # before steps 1, 5, 9, 13


def test_a_look_at_all_the_data_is_refused_on_a_stream():
    with pytest.raises(TypeError, match="looks at all the data"):
        solve(SAMPLERS["stream"](), method=FullGradient())


def test_a_run_interrupted_in_a_look_at_all_the_data_resumes_bit_for_bit(monkeypatch, tmp_path):
    whole = solve(method=FullGradient(), steps=14)
    real, calls = driver.refresh, []

    def interrupted(*args):
        calls.append(real(*args))
        if len(calls) == 3:
            raise KeyboardInterrupt
        return calls[-1]

    monkeypatch.setattr(driver, "refresh", interrupted)
    file = tmp_path / "run.ckpt"
    first = solve(method=FullGradient(), steps=14, checkpoint=file)
    assert (first.status, first.cost.steps) == (tr.Status.INTERRUPTED, 8)
    resumed = solve(method=FullGradient(), steps=14, checkpoint=file)
    assert resumed.status is tr.Status.FINISHED
    assert_same_run(resumed, whole)


def test_a_method_that_promises_a_look_must_have_one():
    @tr.pytree
    class Forgetful(tr.Refreshing):
        init, step = FullGradient.init, FullGradient.step

    with pytest.raises(TypeError, match=r"abstract.*refresh"):
        Forgetful()  # pyright: ignore[reportAbstractUsage]


# ---- the progress bar ------------------------------------------------------------------------------------------------


def test_without_a_terminal_there_is_no_progress_bar(capfd):
    solve(steps=100)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("terminal", [True, False])
def test_a_progress_bar_shows_objective_and_worst_constraint(terminal, capfd, monkeypatch):
    if terminal:
        monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "200")
    result = solve(steps=100, progress=True)
    shown = capfd.readouterr().err
    assert f"objective {result.trace['objective'].iloc[-1]:.5g}" in shown
    assert "worst constraint" in shown


def test_a_progress_bar_can_be_turned_off_on_a_terminal(capfd, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    solve(steps=100, progress=False)
    assert capfd.readouterr().err == ""
