"""Everything that can be wrong with files and with what is asked of them is said in a sentence that names the file."""

import os
import re

import numpy as np
import pyarrow as pa
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


@pytest.mark.parametrize(
    ("values", "dtype", "sentence"),
    [
        ([1, 2, 300], "int8", "row 2: column 'q' has the value 300; expected one that int8 holds"),
        ([1.0, 1.5], "int32", "row 1: column 'q' has the value 1.5; expected one that int32 holds"),
        ([0.0, float("nan")], "bool", "row 1: column 'q' has the value nan; expected one that bool holds"),
        (
            pa.array([2**64 - 1], pa.uint64()),
            "int64",
            "has the value 18446744073709551615; expected one that int64 holds",
        ),
        (
            pa.array([[1, 2], [3, None]], pa.list_(pa.int32(), 2)),
            None,
            "row 1: column 'q' has a vector in which a number",
        ),
        ([b"a"], "float32", "column 'q' is of type binary; expected numbers, booleans or text"),
        ([{"p": 1.0}], "bool", "column 'q' is of type struct<p: double>; expected numbers, booleans or text"),
        ([[1.0], [1.0, 2.0]], "float32", "column 'q' is of type list<"),
    ],
    ids=str,
)
def test_what_would_become_another_number_is_refused(tmp_path, values, dtype, sentence):
    pq.write_table(pa.table({"q": values}), tmp_path / "a.parquet")
    with pytest.raises((ValueError, TypeError), match=re.escape(sentence)):
        reading(tr.Parquet(tmp_path, "q", dtypes=dtype))


def test_whole_numbers_do_not_wrap_in_fewer_digits(tmp_path):
    pq.write_table(pa.table({"q": np.full(50, 2**40)}), tmp_path / "a.parquet")
    problem = tr.Problem(lambda x, theta: (x - theta) ** 2, None, tr.Box(-1.0, 1.0, shape=()))
    with pytest.raises(ValueError, match="the data has the whole number 1,099,511,627,776"):
        tr.minimize(problem, tr.Parquet(tmp_path, "q"), precision="float32")


def test_columns_of_one_name_and_text_of_any_layout(tmp_path):
    twice = pa.Table.from_arrays([pa.array([1.0]), pa.array([2.0])], names=["q", "q"])
    pq.write_table(twice, tmp_path / "a.parquet")
    with pytest.raises(ValueError, match=r"a.parquet has several columns 'q'; expected a name for each"):
        tr.Parquet(tmp_path, "q")
    pq.write_table(pa.table({"q": pa.array(["b", "a"], pa.string_view())}), tmp_path / "a.parquet")
    source = tr.Parquet(tmp_path, "q")
    assert (source.categories, reading(source)[0].tolist()) == ({"q": ["a", "b"]}, [1, 0])


def test_a_decoder_that_loses_rows_is_refused(folder):
    found = iter([20, *[20] * 3, 5])
    with pytest.raises(
        TypeError, match=r"decode returns \(\(5,\), .* for a batch of 20 rows; expected arrays of numbers"
    ):
        reading(tr.Parquet(folder, ["y"], decode=lambda batch: batch.column("y").to_numpy()[: next(found)]))


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
            aside = file.with_suffix(".harmed")  # a thread reads the folder meanwhile
            aside.write_bytes(whole)
            os.utime(aside, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
            aside.replace(file)

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
        ({"columns": "y", "dtypes": 3}, "dtypes is 3; expected one, such as 'float32', or a dict with some by name"),
        (
            {"columns": "y", "categories": {"y": 3}},
            "categories is {'y': 3}; expected a dict with lists of values by name",
        ),
        (
            {"columns": "y", "categories": {"y": ["a"]}},
            "the categories of 'y' are ['a']; expected values of the column's",
        ),
        ({"columns": "y", "categories": {"y": [1, 1]}}, "the categories of 'y' are [1, 1]; expected each once"),
        ({"columns": "y", "dtypes": "text"}, "the dtype of 'y' is 'text'; expected one of numbers"),
        ({"columns": "y", "dtypes": "float32", "decode": len}, "expected decode to see to them"),
    ],
)
def test_wrong_arguments_are_refused(folder, arguments, sentence):
    with pytest.raises((ValueError, TypeError), match=re.escape(sentence)):
        tr.Parquet(folder, **arguments)
