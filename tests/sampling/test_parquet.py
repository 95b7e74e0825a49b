"""Parquet files as a source: orders, resuming, passes over all rows, and everything that can be wrong with a file."""

import os

import jax
import jax.numpy as jnp
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tightrope as tr
from tightrope.problem.full_data import each_row, full_jacobian, full_values
from tightrope.sampling import Plan
from tightrope.sampling.data import UnreadableError, data_of, kept, plain_errors
from tightrope.sampling.mesh.files import shared_out
from tightrope.sampling.parquet_files import Files
from tightrope.sampling.streamed import Reader, Streamed
from tightrope.sampling.streamed import streamed as read_by

N, D = 230, 3
A = np.random.default_rng(0).normal(1.0, 1.0, size=(N, D))
COLUMNS = (["a", "b", "c"], "y")


def table(rows=slice(None), **more):
    columns = {**dict(zip("abc", A.T, strict=True)), "y": np.arange(N)}
    return pa.table({name: np.asarray(values)[rows] for name, values in (columns | more).items()})


@pytest.fixture
def folder(tmp_path):
    """Two files with row groups of 20 and 30 rows, the last ones shorter."""
    pq.write_table(table(slice(0, 90)), tmp_path / "part-0.parquet", row_group_size=20)
    pq.write_table(table(slice(90, N)), tmp_path / "part-1.parquet", row_group_size=30)
    (tmp_path / "_metadata.parquet").write_bytes(b"left by a writer")
    return tmp_path


@pytest.fixture
def streamed(folder, monkeypatch):
    """All rows read in slices; few of them are kept, so that what is kept is not all there is."""
    monkeypatch.setattr("tightrope.sampling.parquet._KEPT_ROWS", 40)
    return tr.Parquet(folder, COLUMNS, shuffle=50)


def rows_of(source, count, *, start=0, at_once=10**9, seeds=(0,), draws=1, batch_size=1):
    """The rows of steps start..start+count-1, asked for in portions; leaves (seeds, count, draws, batch, ...)."""
    end, parts = start + count, []
    opened = source.open(Plan(seeds, draws, batch_size, steps=end))
    while start < end:
        buffer = opened.take(start, min(at_once, end - start))
        cut = slice(buffer.offset, buffer.offset + buffer.steps)
        parts.append(jax.tree.map(lambda a, cut=cut: np.asarray(a)[:, cut], buffer.items))
        start += buffer.steps
    return jax.tree.map(lambda *a: np.concatenate(a, axis=1), *parts)


def numbers(source, count, **how):
    """The numbers of these rows, which are their y."""
    return rows_of(source, count, **how)[1][..., 0, 0]


# ---- the order ---------------------------------------------------------------------------------------------------------


def test_passes_visit_every_row_once_and_resume_anywhere(folder):
    source = tr.Parquet(folder, COLUMNS, shuffle=50)
    whole = numbers(source, 3 * N, seeds=(3,), batch_size=1)
    for one in whole.reshape(3, N):
        assert sorted(one) == list(range(N))
    assert len({tuple(one) for one in whole.reshape(3, N)}) == 3
    np.testing.assert_array_equal(numbers(source, 9, start=517, seeds=(3,)), whole[:, 517:526])
    np.testing.assert_array_equal(numbers(source, 3 * N, at_once=17, seeds=(3,)), whole)
    np.testing.assert_array_equal(numbers(source, 50, seeds=(5, 3))[1:], whole[:, :50])
    assert not np.array_equal(numbers(source, 50, seeds=(4,)), whole[:, :50])


def test_rows_keep_together_and_draws_are_independent(folder):
    (features, y) = rows_of(tr.Parquet(folder, COLUMNS, shuffle=50), 100, draws=2, batch_size=4)
    np.testing.assert_array_equal(features, A[y.astype(int)].astype(features.dtype))
    assert np.mean(y[:, :, 0] == y[:, :, 1]) < 0.05


def test_without_shuffling_the_order_is_that_of_the_files(folder):
    np.testing.assert_array_equal(numbers(tr.Parquet(folder, COLUMNS, shuffle=False), N + 5)[0], np.arange(N + 5) % N)


def test_a_folder_that_fits_into_the_buffer_is_the_same_as_rows(folder):
    source, rows = tr.Parquet(folder, COLUMNS), tr.Rows((A, np.arange(N)))
    drawn = rows_of(source, 300, seeds=(2, 4), draws=2, batch_size=3)
    np.testing.assert_array_equal(drawn[1], rows_of(rows, 300, seeds=(2, 4), draws=2, batch_size=3))
    assert not isinstance(source.rows, Streamed)


def test_resuming_reads_only_what_is_still_needed(folder, monkeypatch):
    opened = []
    read = Files.batches
    monkeypatch.setattr(Files, "batches", lambda self, group, *a: (opened.append(group), read(self, group, *a))[1])
    source = tr.Parquet(folder, COLUMNS, shuffle=50)
    opened.clear()
    numbers(source, 10, start=200)
    first = {(group.file, group.number) for group in opened[:2]}
    assert len(first) == 2  # the last 30 rows of the pass are in its last two row groups, and the next pass follows
    assert len(opened) <= 10  # buffers that are read ahead


def test_files_are_found_by_folder_pattern_list_and_address(folder):
    names = [str(folder / name) for name in ("part-0.parquet", "part-1.parquet")]
    for path in (folder, f"{folder}/part-*.parquet", names, f"file://{folder}"):
        assert tr.Parquet(path, "y").n == N
    assert tr.Parquet(names[1], "y").n == N - 90


# ---- columns -------------------------------------------------------------------------------------------------------------


def test_columns_become_what_they_are_declared_to_be(tmp_path):
    words = pa.array(["x", "z", "x", "y"])
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(np.arange(8.0)), 2)
    made = pa.table({"w": words, "d": words.dictionary_encode(), "v": vectors, "k": [1, 2, 3, 4], "b": [True] * 4})
    pq.write_table(made, tmp_path / "a.parquet")
    source = tr.Parquet(tmp_path, dtypes={"k": "float32"}, categories={"w": ["z", "y", "x"]})
    rows = source.rows
    assert source.categories == {"w": ["z", "y", "x"], "d": ["x", "y", "z"]}
    assert rows["w"].tolist() == [2, 0, 2, 1]
    assert rows["d"].tolist() == [0, 2, 0, 1]
    assert rows["v"].shape == (4, 2)
    assert rows["k"].dtype == jnp.float32
    assert rows["b"].dtype == bool
    mixed = tr.Parquet(tmp_path, ["k", "b", "w"], dtypes="float32").rows
    np.testing.assert_array_equal(mixed, [[1, 1, 0], [2, 1, 2], [3, 1, 0], [4, 1, 1]])
    own = tr.Parquet(tmp_path, ["k"], decode=lambda batch: 2.0 * batch.column("k").to_numpy())
    assert own.rows.tolist() == [2.0, 4.0, 6.0, 8.0]


# ---- all rows ------------------------------------------------------------------------------------------------------------


def loss(x, theta):
    a, y = theta
    return jnp.logaddexp(0.0, -(a @ x)) + 1e-3 * (y / N) * x[0] ** 2


def bound(x, theta):
    return jnp.stack([theta[0][0] * x[0] - 0.3, theta[0][1] * x[2] - 0.5])


PROBLEM = tr.Problem(loss, bound, tr.L2Ball(3.0, shape=D))
X = np.array([0.4, -0.2, 0.3])


def truth(x):
    """Objective and constraints by NumPy alone."""
    f = np.logaddexp(0.0, -(A @ x)) + 1e-3 * (np.arange(N) / N) * x[0] ** 2
    return f.mean(), np.array([A[:, 0].mean() * x[0] - 0.3, A[:, 1].mean() * x[2] - 0.5])


@jax.jit
def seen(data):
    each = each_row(lambda theta: bound(X, theta), data, 64)
    spaced = [data_of(data).take(jnp.asarray(start), 16, jnp.asarray(1)) for start in (3, N - 10)]
    return full_jacobian(PROBLEM, X, data, 64), each, spaced  # passes that have nothing to do with each other


def test_what_is_asked_of_all_rows_is_what_arrays_say(streamed):
    rows = streamed.rows
    assert isinstance(rows, Streamed)
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-12), seen((jnp.asarray(A), jnp.arange(N))), seen(rows)
    )
    numbers = np.asarray(kept(rows)[1])
    assert 30 < len(numbers) <= 40
    assert np.ptp(numbers) > 0.9 * N  # spread over all files
    np.testing.assert_array_equal(kept(rows)[0], A[numbers])


def test_many_points_side_by_side_share_a_pass(streamed):
    read, (reader,) = [], streamed.rows.readers
    whole, reader.read = reader.read, lambda start, size: (read.append(start), whole(start, size))[1]
    points = jnp.stack([X, -X, 0 * X])
    f, _ = jax.vmap(lambda x: full_values(PROBLEM, x, streamed.rows))(points)
    np.testing.assert_allclose(f, [truth(np.asarray(x))[0] for x in points], rtol=1e-12)
    assert read == sorted(set(read))  # once each, not once for every point


class Interrupted(Reader):
    """Ctrl-C reaches Python while it reads."""

    def read(self, start, size):
        raise KeyboardInterrupt


def test_an_interrupt_while_a_slice_is_read_is_an_interrupt():
    rows, mean = read_by(Interrupted(), 100, np.zeros(10)), jax.jit(lambda data: jnp.sum(data.take(0, 5)))
    with pytest.raises(KeyboardInterrupt), plain_errors():
        mean(rows).block_until_ready()


def test_a_method_that_looks_at_all_rows_solves_the_problem_on_files(streamed):
    found = tr.minimize(PROBLEM, streamed, method="bundle", tol=1e-6)
    f, h = truth(np.asarray(found.x))
    assert found.status is tr.Status.TOLERANCE
    assert found.objective is not None
    assert found.objective == pytest.approx(f, rel=1e-12)
    np.testing.assert_allclose(found.constraints, h, atol=1e-12)
    assert np.all(h <= 0)
    assert found.measured_on == f"all {N} rows"
    others = np.random.default_rng(2).normal(size=(2000, D))
    values = [truth(x) for x in others]
    assert min(f for f, h in values if np.all(h <= 0)) >= found.objective - 1e-6


def test_svrg_csoa_takes_its_snapshots_from_files(streamed):
    found = tr.minimize(PROBLEM, streamed, method="svrg-csoa", steps=69, batch_size=10, record=2, trace_full=True)
    f, _ = truth(np.asarray(found.average))
    assert found.trace["full objective"].iloc[-1] == pytest.approx(f, rel=1e-9)
    assert found.objective == pytest.approx(truth(np.asarray(found.x))[0], rel=1e-9)
    assert found.objective < truth(np.zeros(D))[0] - 0.1


def test_certificates_are_those_of_arrays(streamed):
    x = np.array([0.1, 0.5, 0.1])
    by_files, by_rows = (tr.certify(PROBLEM, x, data) for data in (streamed, (A, np.arange(N))))
    for a, b in zip(by_files.constraints, by_rows.constraints, strict=True):
        assert a.upper == pytest.approx(b.upper, rel=1e-9)
    with pytest.raises(ValueError, match="held-out rows are also among the rows"):
        tr.certify(PROBLEM, x, streamed, data=streamed)


# ---- what can be wrong ---------------------------------------------------------------------------------------------------


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


# ---- over a mesh ---------------------------------------------------------------------------------------------------------


def spread(folder, shards=4):
    return tr.Parquet(folder, COLUMNS, mesh=jax.make_mesh((1,), ("rows",)), shards=shards, shuffle=40)


def test_shards_of_a_folder_give_their_rows_in_passes_of_their_own(folder):
    source = spread(folder)
    assert [len(share) for share in shared_out(source.files, 4)] == [3, 3, 2, 2]  # 20 rows, 30 rows, and shorter ones
    sizes = np.array([60, 60, 60, 50])
    steps = 4 * 60 // 3  # as many rounds as the largest shard has rows
    (_, y), weights = rows_of(source, steps, batch_size=3, seeds=(2,))
    seen = np.bincount(y.reshape(-1).astype(int), weights=weights.reshape(-1), minlength=N)
    np.testing.assert_allclose(np.add.reduceat(seen, [0, 60, 120, 180]), sizes * steps / N)  # means are unbiased
    np.testing.assert_allclose(seen[:180], steps / N)
    assert set(np.bincount(y.reshape(-1).astype(int), minlength=N)[180:]) == {1, 2}
    (_, again), _ = rows_of(source, 30, start=41, at_once=7, batch_size=3, seeds=(2,))  # within a round
    np.testing.assert_array_equal(again, y[:, 41:71])


def test_means_over_parts_are_those_of_the_rows(folder, monkeypatch):
    monkeypatch.setattr("tightrope.sampling.parquet._KEPT_ROWS", 40)
    source = spread(folder)
    assert source.content != spread(folder, shards=2).content
    look = jax.jit(lambda rows: full_jacobian(PROBLEM, X, rows, 32)[:2])
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-12), look(source.rows), truth(X))
    numbered = jax.jit(lambda rows: each_row(lambda theta: theta[1], rows, 50))(source.rows)
    np.testing.assert_array_equal(numbered, np.arange(N))
    (folder / "part-1.parquet").unlink()
    with pytest.raises(UnreadableError, match=r"part-1\.parquet"), plain_errors():
        jax.block_until_ready(look(source.rows))


def test_row_groups_that_cannot_be_shared_out_are_refused(folder):
    with pytest.raises(UnreadableError, match="10 row groups cannot be shared out among 16 shards"):
        spread(folder, shards=16)
