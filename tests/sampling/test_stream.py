"""Batches from anywhere, as libraries give them, cut to size: nothing is lost, nothing is held for long."""

import tracemalloc

import jax
import numpy as np
import pytest
from core_cases import CSOA, PROBLEM

import tightrope as tr
from tests.sampling.drawn import taken
from tightrope.sampling import Plan, as_sampler

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


def test_what_is_left_of_a_large_batch_is_not_copied_at_every_read():
    batch = np.arange(3_000_000.0).reshape(-1, 1)
    draws = tr.Stream([batch]).open(Plan((0,)))
    first, second = draws.take(0, 1000), draws.take(1000, 1000)
    assert (first.steps, second.steps) == (1000, 1000)
    assert float(np.ravel(jax.tree.leaves(second.items)[0])[0]) == 1000.0
    assert np.shares_memory(draws.cut.rest, batch)  # pyright: ignore[reportAttributeAccessIssue]


# ---- what libraries give -----------------------------------------------------------------------------------------------


class Tensor:
    """As torch has them: on a device, with a gradient, and no array until asked three times."""

    def __init__(self, array, device="cuda", grad=True):
        self.array, self.device, self.grad = np.asarray(array), device, grad

    @property
    def shape(self):
        return self.array.shape

    def detach(self):
        return Tensor(self.array, self.device, False)

    def cpu(self):
        return Tensor(self.array, "cpu", self.grad)

    def numpy(self):
        if self.grad or self.device != "cpu":
            raise RuntimeError("Can't call numpy() on Tensor that requires grad; use tensor.detach().cpu().numpy()")
        return self.array

    def __array__(self, dtype=None, copy=None):
        return self.numpy()


class Eager:
    """As TensorFlow has them."""

    def __init__(self, array):
        self.array = np.asarray(array)

    def numpy(self):
        return self.array


class TensorLoader:
    """A DataLoader: an iterable that starts anew."""

    def __init__(self, pack):
        self.pack = pack

    def __iter__(self):
        for start in (0, 4, 8):
            a = np.arange(start, min(start + 4, 10))
            yield self.pack(np.stack([a, -a], axis=1).astype(np.float32), a)


LOADERS = {
    "torch, a list": lambda x, y: [Tensor(x), Tensor(y)],
    "torch, a tuple": lambda x, y: (Tensor(x), Tensor(y)),
    "torch, a dict": lambda x, y: {"x": Tensor(x), "y": Tensor(y)},
    "tf.data": lambda x, y: (Eager(x), Eager(y)),
    "grain": lambda x, y: {"x": x, "y": y},
    "Hugging Face": lambda x, y: {"x": x.tolist(), "y": y.tolist()},
}


@pytest.mark.parametrize("name", LOADERS)
def test_loaders_are_taken_as_they_come(name):
    sampler = as_sampler(TensorLoader(LOADERS[name]))
    assert isinstance(sampler, tr.Stream)
    buffer = sampler.open(Plan((0,), batch_size=2)).take(0, 5)
    x, y = jax.tree.leaves(buffer.items)
    assert buffer.steps == 5
    np.testing.assert_array_equal(np.asarray(y)[0, :5, 0].ravel(), np.arange(10))
    np.testing.assert_array_equal(np.asarray(x)[0, :5, 0, :, 1].ravel(), -np.arange(10))


def test_text_in_a_batch_is_refused():
    with pytest.raises(TypeError, match="a batch has an array of dtype <U1; expected numbers"):
        tr.Stream([{"word": ["a", "b"], "y": [1.0, 2.0]}]).example()
