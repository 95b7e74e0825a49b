import json
import os
import re
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from core_cases import BALL, CSOA, METHODS, PROBLEM, ROWS, SAMPLERS, assert_same_run, constraints, objective
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

import tightrope as tr
from tightrope.files import Form
from tightrope.loop import checkpoint
from tightrope.loop.checkpoint import FORM, digest_function, fingerprint
from tightrope.loop.prepare import prepare


def solve(file=None, data: Any = None, problem=PROBLEM, **options):
    settings: dict[str, Any] = {"method": CSOA, "steps": 1000, "checkpoint": file} | options
    return tr.minimize(problem, ROWS if data is None else data, **settings)


def stop_at(step):
    return lambda snapshot: snapshot.step >= step


@pytest.fixture
def file(tmp_path):
    return tmp_path / "run.ckpt"


# ---- resuming --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("sampler", SAMPLERS)
def test_a_resumed_run_equals_an_uninterrupted_one_bit_for_bit(method, sampler, file):
    def run(path, **options):
        size = 2 if sampler == "stream" else 1
        return solve(path, SAMPLERS[sampler](), method=METHODS[method], batch_size=size, **options)

    whole = run(None)
    first = run(file, callback=stop_at(137), chunk=10)
    assert first.status is tr.Status.CALLBACK_STOPPED
    second = run(file, callback=stop_at(500), chunk=33, checkpoint_every=7)
    assert second.cost.steps > first.cost.steps
    resumed = run(file)
    assert resumed.status is tr.Status.FINISHED
    assert_same_run(resumed, whole)
    columns = [c for c in whole.trace if c != "seconds"]
    assert resumed.trace[columns].equals(whole.trace[columns])


def test_a_time_limit_counts_from_this_call_not_from_the_first(file):
    first = solve(file, callback=lambda s: time.sleep(0.3) or s.step >= 3, record=50)
    assert first.cost.seconds > 0.5
    assert solve(file, time_limit=max(30.0, first.cost.seconds)).status is tr.Status.FINISHED


def test_a_random_key_that_a_function_closes_over_is_part_of_the_fingerprint():
    def mark(seed):
        key = jax.random.key(seed)
        return digest_function(lambda x: x + jax.random.normal(key), jnp.zeros(()))

    assert mark(0) == mark(0) != mark(1)


def test_only_the_last_file_is_left(file):
    solve(file, checkpoint_every=100)
    assert os.listdir(file.parent) == [file.name]


def test_a_finished_checkpoint_returns_its_result_at_once(file):
    result = solve(file)
    called = []
    again = solve(file, callback=called.append)
    assert not called
    assert again.status is tr.Status.FINISHED
    assert_same_run(again, result)
    assert again.cost == result.cost
    assert again.trace.equals(result.trace)


def test_a_checkpoint_is_written_every_so_many_steps(file):
    steps = []

    def watch(snapshot):
        steps.append(int(load_file(file)[".state.t"]) - 1 if file.exists() else 0)

    solve(file, checkpoint_every=300, record=10, callback=watch)
    assert set(steps) == {0, 300, 600, 900}


KILLED = """
    import sys
    sys.path.insert(0, {tests!r})
    import jax
    jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_numpy_rank_promotion", "raise")
    import tightrope as tr
    from core_cases import METHODS, PROBLEM, SAMPLERS
    tr.minimize(PROBLEM, SAMPLERS["rows"](), method=METHODS["fw-csoa"], steps=400_000, chunk=3,
                checkpoint={file!r}, checkpoint_every=2000)
"""


def test_a_killed_run_resumes_bit_for_bit(file):
    script = textwrap.dedent(KILLED).format(tests=str(Path(__file__).parents[1]), file=str(file))
    with subprocess.Popen([sys.executable, "-c", script]) as process:
        while not file.exists() and process.poll() is None:
            time.sleep(0.01)
        time.sleep(0.1)  # somewhere between two checkpoints, or in the middle of one
        process.send_signal(signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL
    assert 0 < int(load_file(file)[".state.t"]) < 400_000
    options: dict[str, Any] = {"method": METHODS["fw-csoa"], "steps": 400_000}
    assert_same_run(solve(file, **options), solve(None, **options))


def test_a_checkpoint_is_due_by_steps_and_by_time(file, monkeypatch):
    clock = [100.0]
    monkeypatch.setattr(checkpoint.time, "monotonic", lambda: clock[0])
    kept = checkpoint.Checkpoint(file, {}, every_steps=5)
    assert [step for step in range(7) if kept.due(step)] == [0, 5]
    clock[0] = 129.0
    assert not kept.due(3)
    clock[0] = 130.0
    assert kept.due(3)
    kept.save({"a": np.zeros(2)}, step=3, seconds=2.5, rows=[])
    assert not kept.due(3)  # it counts from the last time


def test_several_processes_share_a_checkpoint(file, monkeypatch):
    carry = {"a": np.arange(2.0)}
    alone = checkpoint.Checkpoint(file, {"seed": "1"})
    alone.save(carry, step=7, seconds=2.5, rows=[], gaps=[1.0])
    monkeypatch.setattr(checkpoint, "said_by_first", lambda said: said)
    monkeypatch.setattr(checkpoint, "of_first", lambda carry: ("of the first", carry))
    monkeypatch.setattr(checkpoint, "leads", lambda: True)
    shared = checkpoint.Checkpoint(file, {"seed": "1"}, together=True)
    assert shared.exists()
    found = shared.load(carry)
    assert (found.state[0], found[1:]) == ("of the first", (7, 2.5, [], [], [1.0]))
    other = checkpoint.Checkpoint(file, {"seed": "2"}, together=True)
    with pytest.raises(tr.CheckpointError, match="seed"):
        other.load(carry)
    monkeypatch.setattr(checkpoint, "leads", lambda: False)
    follows = other.load(carry)
    assert (follows.state[1], follows[1:]) == (carry, (0, 0.0, [], [], []))


# ---- refusing --------------------------------------------------------------------------------------------------------


def other_objective(x, theta):
    return jnp.sum((x - theta) ** 2) / 2 + 1e-3 * x[0]


def scaled_by(c):
    return lambda x, theta: c * objective(x, theta)


def scaled_inside(c):
    inner = jax.jit(lambda v: c * v)
    return lambda x, theta: jnp.sum(inner(x - theta) ** 2)


def drawn_inside(c):
    """A constant of a compiled function that another one calls, which is not printed in the jaxpr of the latter."""
    inner = jax.jit(lambda v: c * v)
    return tr.Generator(lambda key: inner(jax.random.normal(key, (3,))))


def with_slope(c):
    """One function, several ideas of its derivative."""

    @jax.custom_vjp
    def f(x, theta):
        return objective(x, theta)

    f.defvjp(lambda x, theta: (f(x, theta), (x, theta)), lambda kept, g: (c * g * (kept[0] - kept[1]), None))
    return f


def oracle_with_slope(c):
    return lambda x, theta: (c * (x - theta), constraints(x, theta), jnp.stack([theta, jnp.eye(3)[0]]))


def problem_with(f=objective, h=constraints, domain: tr.ConvexSet = BALL, levels=(0.5, 0.4), params=None):
    return tr.Problem(f, h, domain, levels, params)


def corner(b):
    return tr.Polytope(np.vstack([np.eye(3), -np.eye(3)]), np.array([1.0, 1.0, b, 1.0, 1.0, 1.0]), projection=True)


def with_params(x, theta, c):
    return c * objective(x, theta)


def no_constraints_with_params(x, theta, c):
    return x[:2]


def from_oracle(c):
    return tr.Problem.from_oracle(oracle_with_slope(c), BALL, n_constraints=2)


def from_numpy(c, turned=False):
    def straight(x, theta):
        return c * (x - theta), np.zeros(1), np.zeros((1, 3))

    def other_way(x, theta):
        return c * (theta - x), np.zeros(1), np.zeros((1, 3))

    other_way.__name__, other_way.__qualname__ = straight.__name__, straight.__qualname__
    return tr.Problem.from_oracle(other_way if turned else straight, BALL, n_constraints=1, numpy=True)


def test_a_numpy_oracle_written_again_is_the_same_problem():
    assert fingerprint_of(problem=from_numpy(1.0)) == fingerprint_of(problem=from_numpy(1.0))


ONE, TWO = np.ones(3), np.array([1.0, 1.0, 2.0])


@pytest.mark.parametrize(
    ("given", "changed", "part"),
    [
        ({}, {"problem": problem_with(other_objective)}, "problem"),
        ({"problem": problem_with(scaled_by(0.1))}, {"problem": problem_with(scaled_by(0.1 + 1e-12))}, "problem"),
        ({"problem": problem_with(scaled_by(ONE[0]))}, {"problem": problem_with(scaled_by(TWO[2]))}, "problem"),
        ({"problem": problem_with(scaled_inside(ONE))}, {"problem": problem_with(scaled_inside(TWO))}, "problem"),
        ({"problem": problem_with(with_slope(1.0))}, {"problem": problem_with(with_slope(2.0))}, "problem"),
        ({"problem": from_oracle(1.0)}, {"problem": from_oracle(2.0)}, "problem"),
        ({"problem": from_numpy(1.0)}, {"problem": from_numpy(2.0)}, "problem"),
        ({"problem": from_numpy(1.0)}, {"problem": from_numpy(1.0, turned=True)}, "problem"),
        ({}, {"problem": problem_with(levels=(0.5, 0.5))}, "problem"),
        ({}, {"problem": problem_with(domain=tr.L2Ball(2.5, shape=3))}, "problem"),
        ({}, {"problem": problem_with(domain=tr.LinfBall(2.0, shape=3))}, "problem"),
        (
            {"problem": problem_with(domain=corner(1.0)), "x0": np.zeros(3)},
            {"problem": problem_with(domain=corner(0.5)), "x0": np.zeros(3)},
            "problem",
        ),
        (
            {"problem": problem_with(with_params, no_constraints_with_params, params=1.0)},
            {"problem": problem_with(with_params, no_constraints_with_params, params=2.0)},
            "problem",
        ),
        ({}, {"track": lambda x: {"first": x[0]}}, "problem"),
        ({}, {"method": tr.CSOA(eta0=0.8, upsilon0=0.4)}, "method"),
        ({}, {"method": tr.CSOA(eta0=0.8, upsilon0=0.3, anytime=True)}, "method"),
        ({}, {"method": METHODS["fw-csoa"]}, "method"),
        ({}, {"data": ROWS + np.eye(37, 3)}, "data"),
        ({}, {"data": tr.Rows(ROWS, replace=True)}, "data"),
        ({}, {"data": SAMPLERS["generator"]()}, "data"),
        (
            {"data": tr.Generator(lambda key: jax.random.normal(key, (3,)))},
            {"data": tr.Generator(lambda key: 2 * jax.random.normal(key, (3,)))},
            "data",
        ),
        ({"data": drawn_inside(ONE)}, {"data": drawn_inside(TWO)}, "data"),
        ({}, {"seed": 1}, "seed"),
        ({}, {"steps": 1001}, "number of steps"),
        ({}, {"batch_size": 2}, "batch size"),
        ({"batch_size": 2}, {"batch_size": (1, 2)}, "batch size"),
        ({}, {"x0": np.full(3, 0.1)}, "starting point"),
    ],
)
def test_a_change_of_one_part_changes_the_fingerprint_of_that_part(given, changed, part):
    one, other = fingerprint_of(**given), fingerprint_of(**(given | changed))
    assert [name for name in one if one[name] != other[name]] == [part]


def fingerprint_of(problem=PROBLEM, data: Any = ROWS, method=CSOA, seed=0, track=None, **options):
    settings: dict[str, Any] = {"steps": 10, "passes": None, "batch_size": 1, "x0": None} | options
    return fingerprint(prepare(problem, data, method, seeds=(seed,), **settings), track)


@pytest.mark.parametrize(
    ("changed", "part"),
    [
        ({"problem": problem_with(levels=(0.5, 0.5))}, "problem"),
        ({"method": tr.CSOA(eta0=0.8, upsilon0=0.4)}, "method"),
        ({"data": ROWS + np.eye(37, 3)}, "data"),
        ({"steps": 11}, "number of steps"),
    ],
)
def test_a_checkpoint_of_another_run_is_refused_with_its_part_named(file, changed, part):
    solve(file, steps=10)
    before = file.read_bytes()
    with pytest.raises(tr.CheckpointError) as caught:
        solve(file, **({"steps": 10} | changed))
    assert f"its {part} differs from this one's" in str(caught.value)
    assert "delete the file" in str(caught.value)
    assert file.read_bytes() == before


def test_the_same_functions_written_again_are_the_same_problem(file):
    result = solve(file, problem=problem_with(scaled_by(0.3)))
    assert_same_run(solve(file, problem=problem_with(scaled_by(0.3))), result)


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda file: file.write_bytes(file.read_bytes()[:-40]), "cannot be read as a checkpoint"),
        (lambda file: file.write_bytes(b""), "cannot be read as a checkpoint"),
        (lambda file: file.write_text("not a checkpoint at all"), "cannot be read as a checkpoint"),
        (lambda file: save_file({"a": np.ones(3)}, file), "is not a tightrope checkpoint"),
        (lambda file: save_file({"a": np.ones(3)}, file, {"tightrope": "{"}), "cannot be read as a checkpoint"),
        (lambda file: Form("checkpoint", 1, "").write(file, {}, {}), "written by another version"),
        (lambda file: Form("classifier", 2, "").write(file, {}, {}), "is not a tightrope checkpoint"),
        (lambda file: file.unlink() or file.mkdir(), "cannot be read as a checkpoint"),
    ],
)
def test_a_broken_or_foreign_file_is_refused(file, spoil, words):
    solve(file, steps=10)
    spoil(file)
    with pytest.raises(tr.CheckpointError, match=words) as caught:
        solve(file, steps=10)
    assert "run.ckpt" in str(caught.value)


def test_every_byte_of_a_checkpoint_counts(file):
    """A flipped bit is refused or changes nothing that is read: never another answer."""
    result = solve(file, steps=10)
    content = file.read_bytes()
    for place in np.linspace(0, len(content) - 1, 60).astype(int):
        changed = bytearray(content)
        changed[place] ^= 4
        file.write_bytes(changed)
        try:
            again = solve(file, steps=10)
        except tr.CheckpointError as error:
            assert "run.ckpt" in str(error)  # noqa: PT017 (either is right)
        else:
            assert_same_run(again, result)


@pytest.mark.parametrize("about", [{"step": 11}, {"rows": []}, {"seconds": -1.0}])
def test_what_is_said_about_the_arrays_is_covered_by_the_hash(file, about):
    solve(file, steps=10)
    with safe_open(file, framework="numpy") as opened:
        said = json.loads(opened.metadata()["tightrope"])
    save_file(load_file(file), file, {"tightrope": json.dumps(said | about)})
    with pytest.raises(tr.CheckpointError, match="changed or damaged"):
        solve(file, steps=10)


def test_arrays_of_another_shape_are_refused(file):
    solve(file, steps=10)
    arrays, about = FORM.read(file)
    name = next(name for name, array in arrays.items() if array.shape == (3,))
    FORM.write(file, arrays | {name: np.zeros(4)}, about)
    with pytest.raises(tr.CheckpointError, match="other arrays than this run's state"):
        solve(file, steps=10)


def test_json_that_is_too_deep_is_refused(file):
    save_file({"a": np.ones(3)}, file, {"tightrope": "[" * 100_000})
    with pytest.raises(tr.CheckpointError, match="cannot be read as a checkpoint"):
        solve(file, steps=10)


def test_what_a_killed_process_left_is_swept(file):
    with subprocess.Popen(["true"]) as ended:
        pass
    left = file.with_name(f".{file.name}.{ended.pid}.tmp")
    others = file.with_name(f".{file.name}.{os.getpid()}0.tmp.bak")
    left.write_bytes(b"half")
    others.write_bytes(b"not ours")
    solve(file, steps=10)
    assert sorted(os.listdir(file.parent)) == sorted([file.name, others.name])


def test_a_missing_folder_is_found_before_the_run(tmp_path):
    called = []
    with pytest.raises(tr.CheckpointError, match="no folder"):
        solve(tmp_path / "missing" / "run.ckpt", callback=called.append)
    assert not called


# ---- writing ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("broken", ["replace", "fsync"])
def test_a_write_that_fails_costs_neither_the_run_nor_the_old_file(file, monkeypatch, broken):
    solve(file, callback=stop_at(100))
    before = file.read_bytes()

    def fail(*_):
        raise OSError("disk full")

    with monkeypatch.context() as patch:
        patch.setattr(os, broken, fail)
        with pytest.warns(UserWarning, match=r"could not be written \(disk full\); the run goes on"):
            result = solve(file, checkpoint_every=200)
    assert result.status is tr.Status.FINISHED
    assert file.read_bytes() == before
    assert os.listdir(file.parent) == [file.name]
    assert_same_run(solve(file), solve(None))


def test_no_module_uses_pickle():
    source = Path(tr.__file__).parent
    modules = list(source.rglob("*.py"))
    assert len(modules) > 20
    for module in modules:
        assert not re.search(r"\b(import|from) +(pickle|cloudpickle|dill|shelve|joblib)\b", module.read_text()), module
        assert "allow_pickle" not in module.read_text(), module
