"""Several processes that take every step together: results are those of one, and what is wrong in one is said in all."""

import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.sampling.apart import HERE, launch, run
from tightrope.sampling.mesh.processes import _misplaced


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


def test_misplaced_rows_are_those_outside():
    assert _misplaced(10, 20, 12, 17).tolist() == [10, 11, 17, 18, 19]
    assert _misplaced(0, 3, 0, 5).tolist() == []
