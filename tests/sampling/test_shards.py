"""Rows over a mesh: samples and results do not depend on how many devices or processes there are."""

import os
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from jax.sharding import Mesh

import tightrope as tr
from tightrope.problem.full_data import full_mean
from tightrope.sampling.mesh.processes import _misplaced
from tightrope.sampling.mesh.turns import _room, starts_of, van_der_corput

HERE = Path(__file__).parent
QUICK_TO_COMPILE = "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"


def run(*command, devices=1, **more):
    flags = f"--xla_force_host_platform_device_count={devices} {QUICK_TO_COMPILE}"
    environment = os.environ | {"XLA_FLAGS": flags, "JAX_NUMPY_RANK_PROMOTION": "raise", "OMP_NUM_THREADS": "1"} | more
    return subprocess.run([sys.executable, *map(str, command)], env=environment, capture_output=True, text=True)


def launch(count, *command, **more):
    return run("-c", "from tightrope.__main__ import main; main()", "launch", "-n", count, "--", *command, **more)


@pytest.mark.parametrize(
    "asked",
    [
        ("csoa:2,8", "svrg-csoa:4"),
        pytest.param(
            ("csoa:4", "split-csoa:2,4,8", "fw-csoa:2,4,8", "svrg-csoa:2,8", "resumed"), marks=pytest.mark.slow
        ),
        pytest.param(
            ("csoa:2,4,8:float32", "svrg-csoa:2,4,8:float32", "completion:1,2,8", "sweep:1,2,8"), marks=pytest.mark.slow
        ),
    ],
)
def test_samples_and_results_do_not_depend_on_the_number_of_devices(asked):
    done = run(HERE / "on_devices.py", *asked, devices=8)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("count", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_processes_give_their_own_rows_and_take_every_step_together(count, tmp_path):
    done = launch(count, sys.executable, HERE / "in_processes.py", tmp_path)
    assert done.returncode == 0, done.stderr
    found = [np.load(tmp_path / f"{k}.npy") for k in range(count)]
    assert all(np.array_equal(other, found[0]) for other in found)
    alone = run(HERE / "in_processes.py", tmp_path)
    assert alone.returncode == 0, alone.stderr
    np.testing.assert_allclose(found[0], np.load(tmp_path / "0.npy"), rtol=0, atol=1e-12)
    assert done.stdout.count("steps taken") == 1  # what the other processes print is not shown


@pytest.mark.slow
def test_a_process_that_is_killed_ends_the_others_and_the_run_resumes_on_fewer(tmp_path):
    script = HERE / "in_processes.py"
    killed = launch(4, sys.executable, script, tmp_path, "kill")
    assert killed.returncode == 128 + 9
    assert "Process 2 of 4 was ended by SIGKILL, and the others were ended with it." in killed.stderr
    assert (tmp_path / "run").exists()
    resumed = launch(2, sys.executable, script, tmp_path)
    assert resumed.returncode == 0, resumed.stderr
    x = np.load(tmp_path / "0.npy")
    (tmp_path / "run").unlink()
    assert run(script, tmp_path).returncode == 0
    np.testing.assert_allclose(x, np.load(tmp_path / "0.npy"), rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("wrong", "said"), [("columns", "process 1 has columns"), ("empty", "The rows of process 1 of 2")]
)
@pytest.mark.slow
def test_what_is_wrong_in_one_process_is_said_in_all(wrong, said, tmp_path):
    done = launch(2, sys.executable, HERE / "in_processes.py", tmp_path, wrong)
    assert done.returncode == 1
    assert said in done.stderr


@pytest.fixture
def with_files(tmp_path):
    """The rows of `in_processes.py` in two files, whose row groups differ in size."""
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(200, 3)), rng.normal(size=200)
    table = pa.table({f"a{k}": a[:, k] for k in range(3)} | {"b": b})
    (tmp_path / "data").mkdir()
    pq.write_table(table.slice(0, 90), tmp_path / "data" / "part-0.parquet", row_group_size=17)
    pq.write_table(table.slice(90), tmp_path / "data" / "part-1.parquet", row_group_size=30)
    return tmp_path


@pytest.mark.slow
def test_processes_read_their_own_row_groups(with_files):
    script, found = HERE / "in_processes.py", []
    for count in (2, 4):
        done = launch(count, sys.executable, script, with_files, "files")
        assert done.returncode == 0, done.stderr
        found += [np.load(with_files / f"{k}.npy") for k in range(count)]
    alone = run(script, with_files, "files")
    assert alone.returncode == 0, alone.stderr
    for other in found:
        np.testing.assert_allclose(other, np.load(with_files / "0.npy"), rtol=0, atol=1e-12)


@pytest.mark.slow
def test_a_file_that_one_process_cannot_read_is_said_in_all(with_files):
    done = launch(2, sys.executable, HERE / "in_processes.py", with_files, "others")
    assert done.returncode == 1
    assert "process 1 of 2 sees other files (90 rows) than process 0" in done.stderr
    done = launch(2, sys.executable, HERE / "in_processes.py", with_files, "vanishing")
    assert done.returncode == 0, done.stderr
    said = [(with_files / f"{k}.txt").read_text() for k in range(2)]
    assert all(words.startswith("STREAM_RAISED: After ") for words in said), said
    assert any("part-1.parquet" in words for words in said)


def test_launch_names_what_fails():
    done = launch(
        2,
        sys.executable,
        "-c",
        "import os, sys, time; sys.exit(3) if os.environ['OMPI_COMM_WORLD_RANK'] == '1' else time.sleep(60)",
    )
    assert done.returncode == 3
    assert "Process 1 of 2 ended with exit code 3, and the others were ended with it." in " ".join(done.stderr.split())
    assert "cannot be run" in launch(2, "no-such-program").stderr


# ---- one device ------------------------------------------------------------------------------------------------------


def one_device():
    return Mesh(np.array(jax.devices()[:1]), ("rows",))


def test_full_means_leave_empty_places_out():
    rows = np.arange(100.0)  # 64 shards with one or two rows
    data = tr.Rows(rows, mesh=one_device())
    assert (data.n, jax.tree.leaves(data.rows)[0].shape) == (100, (128,))
    np.testing.assert_allclose(jax.jit(lambda d: full_mean(lambda a: a, d, 7))(data.rows), rows.mean())
    np.testing.assert_array_equal(data.rows.rows(np.arange(100)), rows)


def test_marks_know_rows_and_not_devices():
    data = tr.Rows(np.arange(100.0), mesh=one_device())
    assert data.content == tr.Rows(np.arange(100.0), mesh=one_device()).content
    other = np.arange(100.0)
    other[70] = -1
    assert data.content != tr.Rows(other, mesh=one_device()).content


@pytest.mark.parametrize("number", [8, 64, 96])
def test_samples_in_a_row_come_from_different_devices(number):
    order = van_der_corput(number)
    assert sorted(order) == list(range(number))
    for devices in (2, 4, 8):
        each = number // devices
        for batch_size in (1, 3, devices, number, 5 * number):
            least = -(-batch_size // devices)
            room = _room(order, each, batch_size)
            exact = number & (number - 1) == 0 and (number % batch_size == 0 or batch_size % number == 0)
            assert room == least if exact else least <= room <= least + 3


def test_shards_differ_by_one_row_at_most():
    for n in (64, 100, 1_000_003, 3_000_000_000):
        starts = starts_of(n, 64)
        assert (starts[0], starts[-1]) == (0, n)
        assert np.ptp(np.diff(starts)) <= 1


def test_misplaced_rows_are_those_outside():
    assert _misplaced(10, 20, 12, 17).tolist() == [10, 11, 17, 18, 19]
    assert _misplaced(0, 3, 0, 5).tolist() == []


def test_bad_input():
    with pytest.raises(ValueError, match="40 rows leave some of 64 logical shards empty"):
        tr.Rows(np.ones(40), mesh=one_device())
    with pytest.raises(TypeError, match=r"mesh is 8; expected a jax\.sharding\.Mesh"):
        tr.Rows(np.ones(100), mesh=8)
    with pytest.raises(ValueError, match="shards is 0"):
        tr.Rows(np.ones(100), mesh=one_device(), shards=0)
    with pytest.raises(ValueError, match="first in row 3"):
        tr.Rows(np.where(np.arange(100) == 3, np.nan, 1.0), mesh=one_device())
    problem, eight = tr.Problem(lambda x, t: x.sum(), None, tr.L2Ball(1.0, shape=2)), 8
    with pytest.raises(TypeError, match=r"sweep: mesh is 8; expected a jax\.sharding\.Mesh"):
        tr.sweep(problem, np.ones(3), tr.CSOA(), steps=1, mesh=eight)  # pyright: ignore[reportArgumentType]
