"""Parquet files as a source: orders, resuming, passes over all rows, and their parts over a mesh."""

import jax
import jax.numpy as jnp
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tightrope as tr
from tests.sampling.drawn import taken
from tests.sampling.files import COLUMNS, PROBLEM, A, D, N, X, bound, truth
from tightrope._errors import UnreadableError, plain_errors
from tightrope.problem.full_data import each_row, full_jacobian, full_values
from tightrope.sampling.mesh.files import shared_out
from tightrope.sampling.parquet_files import Files
from tightrope.sampling.rows import data_of, kept
from tightrope.sampling.streamed import Reader, Streamed
from tightrope.sampling.streamed import streamed as read_by


@pytest.fixture
def streamed(folder, monkeypatch):
    """All rows read in slices; few of them are kept, so that what is kept is not all there is."""
    monkeypatch.setattr("tightrope.sampling.parquet.KEPT_ROWS", 40)
    return tr.Parquet(folder, COLUMNS, shuffle=50)


def numbers(source, count, **how):
    """The numbers of these rows, which are their y."""
    return taken(source, count, **how)[1][..., 0, 0]


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
    (features, y) = taken(tr.Parquet(folder, COLUMNS, shuffle=50), 100, draws=2, batch_size=4)
    np.testing.assert_array_equal(features, A[y.astype(int)].astype(features.dtype))
    assert np.mean(y[:, :, 0] == y[:, :, 1]) < 0.05


def test_without_shuffling_the_order_is_that_of_the_files(folder):
    np.testing.assert_array_equal(numbers(tr.Parquet(folder, COLUMNS, shuffle=False), N + 5)[0], np.arange(N + 5) % N)


def test_a_folder_that_fits_into_the_buffer_is_the_same_as_rows(folder):
    source, rows = tr.Parquet(folder, COLUMNS), tr.Rows((A, np.arange(N)))
    drawn = taken(source, 300, seeds=(2, 4), draws=2, batch_size=3)
    np.testing.assert_array_equal(drawn[1], taken(rows, 300, seeds=(2, 4), draws=2, batch_size=3))
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


# ---- over a mesh ---------------------------------------------------------------------------------------------------------


def spread(folder, shards=4):
    return tr.Parquet(folder, COLUMNS, mesh=jax.make_mesh((1,), ("rows",)), shards=shards, shuffle=40)


def test_shards_of_a_folder_give_their_rows_in_passes_of_their_own(folder):
    source = spread(folder)
    assert [len(share) for share in shared_out(source.files, 4)] == [3, 3, 2, 2]  # 20 rows, 30 rows, and shorter ones
    sizes = np.array([60, 60, 60, 50])
    steps = 4 * 60 // 3  # as many rounds as the largest shard has rows
    (_, y), weights = taken(source, steps, batch_size=3, seeds=(2,))
    seen = np.bincount(y.reshape(-1).astype(int), weights=weights.reshape(-1), minlength=N)
    np.testing.assert_allclose(np.add.reduceat(seen, [0, 60, 120, 180]), sizes * steps / N)  # means are unbiased
    np.testing.assert_allclose(seen[:180], steps / N)
    assert set(np.bincount(y.reshape(-1).astype(int), minlength=N)[180:]) == {1, 2}
    (_, again), _ = taken(source, 30, start=41, at_once=7, batch_size=3, seeds=(2,))  # within a round
    np.testing.assert_array_equal(again, y[:, 41:71])


def test_means_over_parts_are_those_of_the_rows(folder, monkeypatch):
    monkeypatch.setattr("tightrope.sampling.parquet.KEPT_ROWS", 40)
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
