"""Everything that can be wrong with files and with what is asked of them is said in a sentence that names the file."""

import os

import numpy as np
import pyarrow.parquet as pq
import pytest

import tightrope as tr
from tests.sampling.files import COLUMNS, PROBLEM, N, X, table
from tightrope._errors import UnreadableError, plain_errors
from tightrope.problem.full_data import full_values


def reading(source):
    return list(source.batches())


def test_missing_values_are_refused_with_file_and_row(folder):
    pq.write_table(
        table(slice(0, 40), b=[None if k == 33 else 1.0 for k in range(N)]),
        folder / "part-2.parquet",
        row_group_size=20,
    )
    with pytest.raises(ValueError, match=r"part-2.parquet, row 33: column 'b' has no value; expected one in every row"):
        reading(tr.Parquet(folder, COLUMNS))
    pq.write_table(table(slice(0, 40), c=np.where(np.arange(N) == 21, np.inf, 1.0)), folder / "part-2.parquet")
    with pytest.raises(ValueError, match=r"part-2.parquet, row 21: column 'c' has the value inf"):
        reading(tr.Parquet(folder, COLUMNS))


def test_files_that_do_not_belong_together_are_refused(folder):
    pq.write_table(table().drop_columns(["c"]), folder / "part-2.parquet")
    with pytest.raises(ValueError, match=r"part-2.parquet has no column 'c'; expected the same columns in every file"):
        tr.Parquet(folder, COLUMNS)
    pq.write_table(table(c=np.arange(N)), folder / "part-2.parquet")
    with pytest.raises(
        ValueError, match=r"part-2.parquet has column 'c' as int64, and .*part-0.parquet has it as double"
    ):
        tr.Parquet(folder, COLUMNS)
    (folder / "part-2.parquet").write_bytes(b"PAR1 no more")
    with pytest.raises(ValueError, match=r"part-2.parquet: cannot be opened as a Parquet file"):
        tr.Parquet(folder, COLUMNS)


def test_empty_files_count_for_nothing_and_an_empty_folder_is_refused(folder, tmp_path_factory):
    pq.write_table(table(slice(0, 0)), folder / "part-2.parquet")
    assert tr.Parquet(folder, COLUMNS).n == N
    empty = tmp_path_factory.mktemp("empty")
    with pytest.raises(ValueError, match="there are no Parquet files at"):
        tr.Parquet(empty, COLUMNS)
    pq.write_table(table(slice(0, 0)), empty / "part.parquet")
    with pytest.raises(ValueError, match="has no rows; expected at least one"):
        tr.Parquet(empty, COLUMNS)


@pytest.mark.parametrize("harm", ["gone", "another", "corrupt"])
def test_a_file_that_is_harmed_between_passes_ends_the_run_and_loses_nothing(folder, harm, capfd):
    source, file = tr.Parquet(folder, COLUMNS, shuffle=50), folder / "part-1.parquet"
    rows = source.rows
    sentence = {
        "gone": r"part-1.parquet is not there any more",
        "another": r"part-1.parquet has changed since it was first read",
        "corrupt": r"part-1.parquet: row group \d cannot be read",
    }

    def harmed(snapshot):
        if snapshot.step < 300:
            return
        if harm == "gone":
            file.unlink(missing_ok=True)
        elif harm == "another":
            pq.write_table(table(), file)
        else:
            stamp, whole = file.stat(), bytearray(file.read_bytes())
            whole[4 : len(whole) // 2] = bytes(len(whole) // 2 - 4)
            file.write_bytes(whole)
            os.utime(file, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))

    method = tr.CSOA(eta0=0.1)
    result = tr.minimize(PROBLEM, source, method=method, steps=60_000, callback=harmed, record=200)
    assert result.status is tr.Status.STREAM_RAISED
    assert 300 <= result.cost.steps < 60_000
    assert isinstance(result.error, UnreadableError)
    with pytest.raises(ValueError, match=sentence[harm]):
        raise result.error
    with pytest.raises(ValueError, match=sentence[harm]), plain_errors():  # a pass in compiled code says the same
        full_values(PROBLEM, X, rows)
    assert "Traceback" not in capfd.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"columns": 3}, "columns is 3; expected names of columns"),
        ({"columns": "q"}, "has no column 'q'"),
        ({"shuffle": -1}, "shuffle is -1; expected True, False, or how many rows"),
        ({"columns": "y", "dtypes": {"z": "float32"}}, "'z' is not among the columns"),
        ({"columns": "y", "dtypes": "text"}, "the dtype of 'y' is 'text'; expected one of numbers"),
        ({"columns": "y", "dtypes": "float32", "decode": len}, "expected decode to see to them"),
    ],
)
def test_wrong_arguments_are_refused(folder, arguments, sentence):
    with pytest.raises((ValueError, TypeError), match=sentence):
        tr.Parquet(folder, **arguments)
