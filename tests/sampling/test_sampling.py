import tracemalloc

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from core_cases import CSOA, PROBLEM, draw

import tightrope as tr
from tightrope.problem.full_data import full_mean
from tightrope.sampling import Plan, as_sampler


def taken(sampler, count, *, start=0, at_once=10**9, seeds=(0,), draws=1, batch_size=1):
    """The items of steps start..start+count-1, asked for in portions; leaves (seeds, count, draws, batch, ...)."""
    opened, parts = sampler.open(Plan(seeds, draws, batch_size)), []
    while start < (end := start + count):
        buffer = opened.take(start, min(at_once, end - start))
        if buffer.steps == 0:
            break
        cut = slice(buffer.offset, buffer.offset + buffer.steps)
        parts.append(jax.tree.map(lambda a, cut=cut: np.asarray(a)[:, cut], buffer.items))
        start, count = start + buffer.steps, count - buffer.steps
    return jax.tree.map(lambda *a: np.concatenate(a, axis=1), *parts)


# ---- rows ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "batch_size"), [(7, 1), (10, 3), (5000, 7)])
def test_every_pass_visits_every_row_once_and_batches_straddle_passes(n, batch_size):
    rows = tr.Rows(np.zeros((n, 2)))
    order = taken(rows, 3 * n, batch_size=batch_size)[0, :, 0]
    assert order.shape == (3 * n, batch_size)
    passes = order.reshape(3 * batch_size, n)
    assert all(sorted(one) == list(range(n)) for one in passes)
    assert len({tuple(one) for one in passes}) == len(passes)


@pytest.mark.parametrize("replace", [False, True])
@pytest.mark.parametrize("kind", ["rows", "generator"])
def test_a_sample_depends_on_seed_and_step_alone(kind, replace):
    sampler = tr.Rows(np.zeros((11, 1)), replace=replace) if kind == "rows" else tr.Generator(draw)
    whole = taken(sampler, 9000, seeds=(3,), batch_size=2)
    np.testing.assert_array_equal(taken(sampler, 9000, at_once=700, seeds=(3,), batch_size=2), whole)
    np.testing.assert_array_equal(taken(sampler, 5, start=8123, seeds=(3,), batch_size=2), whole[:, 8123:8128])
    np.testing.assert_array_equal(taken(sampler, 50, seeds=(5, 3), batch_size=2)[1:], whole[:, :50])
    assert not np.array_equal(taken(sampler, 50, seeds=(4,), batch_size=2), whole[:, :50])


@pytest.mark.parametrize("replace", [False, True])
def test_two_draws_of_a_step_are_independent(replace):
    both = taken(tr.Rows(np.zeros((50, 1)), replace=replace), 5000, draws=2)[0, :, :, 0]
    assert np.mean(both[:, 0] == both[:, 1]) == pytest.approx(1 / 50, abs=0.01)
    assert abs(np.corrcoef(both.T)[0, 1]) < 0.06


def test_with_replacement_frequencies_are_those_of_independent_draws():
    order = taken(tr.Rows(np.zeros((20, 1)), replace=True), 40_000)[0, :, 0, 0]
    counts = np.bincount(order, minlength=20)
    chi2 = ((counts - 2000) ** 2 / 2000).sum()  # 19 degrees of freedom; passes would give 0
    assert 4 < chi2 < 50
    assert np.mean(order[1:] == order[:-1]) == pytest.approx(1 / 20, abs=0.01)


def test_a_long_pass_is_shuffled_once_and_not_for_every_buffer():
    opened = tr.Rows(np.zeros((100_000, 1))).open(Plan((0,)))
    kept = []
    for t in range(0, 50_000, 4096):
        opened.take(t, 4096)
        kept.append(opened.make.passes.kept[0, 0][1])  # pyright: ignore[reportAttributeAccessIssue]
    assert all(rows is kept[0] for rows in kept)


def test_rows_are_looked_up_in_every_leaf():
    rows = tr.Rows({"a": np.arange(10.0).reshape(5, 2), "y": np.arange(5)})
    picked = rows.pick(jnp.array([3, 1]))
    np.testing.assert_array_equal(picked["a"], [[6.0, 7.0], [2.0, 3.0]])
    np.testing.assert_array_equal(picked["y"], [3, 1])
    assert rows.example()["a"].shape == (2,)


# ---- a generator -----------------------------------------------------------------------------------------------------


def test_generated_samples_differ_between_steps_draws_and_batches():
    items = taken(tr.Generator(draw), 20, draws=2, batch_size=3)
    assert items.shape == (1, 20, 2, 3, 3)
    assert len(np.unique(items.reshape(-1, 3)[:, 0])) == 20 * 2 * 3


def test_generated_samples_have_the_distribution_of_the_function():
    items = taken(tr.Generator(draw), 4096)[0, :, 0, 0]
    np.testing.assert_allclose(items.mean(axis=0), [1.0, -0.5, 0.2], atol=0.05)
    np.testing.assert_allclose(items.std(axis=0), 0.7, atol=0.04)


# ---- a stream --------------------------------------------------------------------------------------------------------

NUMBERS = np.arange(200.0).reshape(100, 2)


def cut(skip=0, sizes=(1, 4, 0, 7, 2)):
    """NUMBERS in ragged batches from a position on."""
    rows, k = NUMBERS[skip:], 0
    while len(rows):
        yield rows[: sizes[k % len(sizes)]]
        rows, k = rows[sizes[k % len(sizes)] :], k + 1


class Loader:
    """Like a torch DataLoader: an object that can be iterated again and again."""

    def __iter__(self):
        return cut()


STREAMS = {
    "factory(skip)": lambda: tr.Stream(cut),
    "factory()": lambda: tr.Stream(lambda: cut()),
    "list": lambda: tr.Stream(list(cut())),
    "iterator": lambda: tr.Stream(cut()),
    "loader": lambda: tr.Stream(Loader()),
}


@pytest.mark.parametrize("kind", STREAMS)
@pytest.mark.parametrize("at_once", [1, 7, 1000])
def test_a_stream_is_cut_to_batches_and_nothing_is_lost_by_the_peek(kind, at_once):
    stream = STREAMS[kind]()
    assert stream.example().shape == (2,)
    assert stream.example().shape == (2,)
    items = taken(stream, 1000, at_once=at_once, draws=2, batch_size=3)
    np.testing.assert_array_equal(items, NUMBERS[:96].reshape(1, 16, 2, 3, 2))


@pytest.mark.parametrize("kind", STREAMS)
def test_a_stream_resumes_at_a_position(kind):
    stream = STREAMS[kind]()
    stream.example()
    np.testing.assert_array_equal(taken(stream, 3, start=10, batch_size=4)[0, :, 0], NUMBERS[40:52].reshape(3, 4, 2))


@pytest.mark.parametrize("kind", STREAMS)
def test_a_stream_is_read_from_its_beginning_by_every_run(kind):
    stream = STREAMS[kind]()
    once = taken(stream, 5)
    if kind == "iterator":
        with pytest.raises(ValueError, match="read only once"):
            taken(stream, 5)
    else:
        np.testing.assert_array_equal(taken(stream, 5), once)


def test_a_stream_of_trees_keeps_their_dtypes():
    batches = [(np.ones((3, 2), np.float32), np.arange(3)), (np.ones((2, 2), np.float32), np.arange(2))]
    a, y = taken(tr.Stream(batches), 5)
    assert (a.dtype, y.dtype) == (np.float32, np.int64)
    assert y.ravel().tolist() == [0, 1, 2, 0, 1]


def test_a_stream_that_ends_early_gives_the_result_so_far():
    def hundred(skip):
        yield np.random.default_rng(0).normal(size=(100, 3))[skip:]

    result = tr.minimize(PROBLEM, tr.Stream(hundred), method=CSOA, steps=1000, batch_size=8)
    assert result.status is tr.Status.STREAM_ENDED
    assert "12 steps" in result.message
    assert result.cost.steps == 12
    assert result.cost.samples == 96
    assert np.all(np.isfinite(result.x))
    assert "ended early" in str(result)


def test_a_stream_shorter_than_a_batch_claims_nothing():
    result = tr.minimize(PROBLEM, tr.Stream([np.ones((3, 3))]), method=CSOA, steps=10, batch_size=8)
    assert (result.status, result.cost.steps) == (tr.Status.STREAM_ENDED, 0)
    assert np.isnan(result.violation)
    assert "not known" in str(result)
    np.testing.assert_array_equal(result.x, np.zeros(3))


def test_a_long_stream_is_never_held_in_memory():
    read = [0]

    def million(skip):
        for k in range(skip // 1000, 1000):
            read[0] = 1000 * (k + 1)
            yield np.full((1000, 8), float(k))

    opened = tr.Stream(million).open(Plan((0,), 1, 4))
    ahead, t = 0, 0
    tracemalloc.start()
    while (buffer := opened.take(t, 10**6)).steps:
        t += buffer.steps
        ahead = max(ahead, read[0] - 4 * t)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (t, read[0]) == (250_000, 1_000_000)
    assert ahead <= 1000  # less than a batch of the reader's
    assert peak < 24 * 2**20  # a few buffers of 4 MB; all rows are 64 MB


def test_a_stream_of_nothing_or_of_ragged_arrays_is_refused():
    with pytest.raises(ValueError, match="stream is empty"):
        tr.Stream([]).example()
    with pytest.raises(ValueError, match="same number of rows"):
        tr.Stream([(np.ones(3), np.ones(4))]).example()
    with pytest.raises(TypeError, match=r"factory\(skip\)"):
        tr.Stream(3)  # pyright: ignore[reportArgumentType]


# ---- shared ----------------------------------------------------------------------------------------------------------


def test_arrays_become_rows_and_samplers_stay():
    rows = as_sampler(np.ones((4, 2)))
    assert isinstance(rows, tr.Rows)
    assert as_sampler(rows) is rows


@pytest.mark.parametrize("n", [1, 9, 64, 100, 129])
def test_the_mean_over_all_rows_counts_every_row_once(n):
    data = {"a": np.random.default_rng(n).normal(size=(n, 3)), "y": np.arange(n)}
    mean = full_mean(lambda row: (row["a"] * row["y"], row["y"]), jax.tree.map(jnp.asarray, data), rows_a_slice=32)
    np.testing.assert_allclose(mean[0], (data["a"] * data["y"][:, None]).mean(axis=0), rtol=1e-12)
    assert float(mean[1]) == data["y"].mean()


def test_what_is_left_of_a_large_batch_is_not_copied_at_every_read():
    batch = np.arange(3_000_000.0).reshape(-1, 1)
    draws = tr.Stream([batch]).open(Plan((0,)))
    first, second = draws.take(0, 1000), draws.take(1000, 1000)
    assert (first.steps, second.steps) == (1000, 1000)
    assert float(np.ravel(jax.tree.leaves(second.items)[0])[0]) == 1000.0
    assert np.shares_memory(draws.cut.rest, batch)  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.parametrize("source", [tr.Rows, lambda data: tr.Stream([data]).example()])
@pytest.mark.parametrize("number", [3_000_000_000, -3_000_000_000])
def test_whole_numbers_that_do_not_fit_are_refused(source, number):
    """With 32 bits 3,000,000,000 would become -1,294,967,296 without a word."""
    data = np.array([[1], [number]])
    source(data)  # 64 bits, as these tests have them
    with jax.enable_x64(False):
        with pytest.raises(ValueError, match=f"the whole number {number:,} .int64., and JAX as it is configured holds"):
            source(data)
        source(np.array([[1], [2**31 - 1]]))
