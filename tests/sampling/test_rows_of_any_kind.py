"""All rows of a source say the same whichever kind they are: in memory, read in slices, over a mesh, or both."""

import jax
import jax.numpy as jnp
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tightrope as tr
from tightrope.problem.full_data import Some, each_row, fold_rows, full_mean
from tightrope.sampling.rows import Numbered, data_of
from tightrope.sampling.streamed import Reader, streamed

N = 230
ROWS = {"a": np.random.default_rng(0).normal(size=(N, 2)), "y": np.arange(N)}


class FromMemory(Reader):
    def read(self, start, size):
        assert 0 <= start <= start + size <= N  # nobody asks for what there is not
        return jax.tree.map(lambda a: a[start : start + size], ROWS)


def few():
    return jax.tree.map(lambda a: a[::6], ROWS)


def of_files(folder):
    table = pa.table({"a0": ROWS["a"][:, 0], "a1": ROWS["a"][:, 1], "y": ROWS["y"]})
    pq.write_table(table, folder / "part.parquet", row_group_size=25)
    return tr.Parquet(folder, {"a": ["a0", "a1"], "y": "y"}, mesh=jax.make_mesh((1,), ("rows",)), shards=4, shuffle=40)


KINDS = {
    "in memory": lambda folder: jax.tree.map(jnp.asarray, ROWS),
    "read in slices": lambda folder: streamed(FromMemory(), N, few()),
    "over a mesh": lambda folder: tr.Rows(ROWS, mesh=jax.make_mesh((1,), ("rows",))).rows,  # shards of 3 and 4 rows
    "read over a mesh": lambda folder: of_files(folder).rows,
}


@pytest.fixture(params=KINDS)
def data(request, tmp_path):
    return KINDS[request.param](tmp_path)


def same(found, expected):
    jax.tree.map(np.testing.assert_array_equal, found, expected)


def test_a_row_and_how_many_there_are(data):
    every = data_of(data)
    assert every.n == N
    assert {name: (one.shape, one.dtype) for name, one in every.row.items()} == {"a": ((2,), float), "y": ((), int)}
    assert every.bytes_a_row == 3 * 8


def test_a_slice_begins_where_it_is_asked_to_also_in_a_compiled_program(data):
    taken = jax.jit(lambda data, start: data_of(data).take(start, 30))
    for start in (0, 77, N - 30):
        same(taken(data, start), jax.tree.map(lambda a, start=start: a[start : start + 30], ROWS))


def test_rows_one_step_apart_are_a_slice_that_may_reach_beyond_the_end(data):
    taken = jax.jit(lambda data, start, step: data_of(data).take(start, 30, step))
    for start in (0, 77, N - 10):
        same(taken(data, start, 1), jax.tree.map(lambda a, s=start: a[np.minimum(s + np.arange(30), N - 1)], ROWS))
    spaced = taken(data, 20, 9)
    wanted = np.minimum(20 + 9 * np.arange(30), N - 1)
    assert np.max(np.abs(spaced["y"] - wanted)) < 6  # as near as what is kept allows
    same(spaced["a"], ROWS["a"][spaced["y"]])


@pytest.mark.parametrize("step", [None, 1, 40, N])
def test_few_rows_are_spread_evenly_from_the_first_on(data, step):
    rows = data_of(data).few(step)
    assert rows["y"][0] == 0
    assert np.ptp(np.diff(rows["y"])) <= 6 if len(rows["y"]) > 1 else step == N
    assert N - 1 - rows["y"][-1] < max(6, step or 1)
    same(rows["a"], ROWS["a"][rows["y"]])


@pytest.mark.parametrize("rows_a_slice", [1, 7, 64, N, None])
def test_a_mean_counts_every_row_once(data, rows_a_slice):
    mean = jax.jit(lambda data: full_mean(lambda row: (row["a"] * row["y"], row["y"]), data, rows_a_slice))(data)
    np.testing.assert_allclose(mean[0], (ROWS["a"] * ROWS["y"][:, None]).mean(axis=0), rtol=1e-12)
    assert float(mean[1]) == ROWS["y"].mean()


def test_some_slices_are_a_mean_of_their_own(data):
    def sums(rows, weights):
        return weights @ rows["y"], jnp.sum(weights)

    mean, whole = fold_rows(sums, data, 23, Some(5, 1))  # every second one of ten
    assert whole == pytest.approx(1)
    assert mean == pytest.approx(ROWS["y"].reshape(10, 23)[1::2].mean())


def test_what_is_said_of_every_row_is_in_their_order(data):
    each = jax.jit(lambda data: each_row(lambda row: 2 * row["y"], data, 50))(data)
    np.testing.assert_array_equal(each, 2 * ROWS["y"])


def test_rows_know_their_numbers(data):
    def of_slice(part, weights):
        rows, number = part
        return jnp.sum(weights * (number == rows["y"]))

    assert fold_rows(of_slice, Numbered(data), 64) == pytest.approx(1)
