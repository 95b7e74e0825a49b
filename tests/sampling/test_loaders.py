"""What other libraries give: tensors in tuples, lists and dicts, loaders as they come."""

import jax
import numpy as np
import pytest

import tightrope as tr
from tightrope.sampling import Plan, as_sampler


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


class Loader:
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
    sampler = as_sampler(Loader(LOADERS[name]))
    assert isinstance(sampler, tr.Stream)
    buffer = sampler.open(Plan((0,), batch_size=2)).take(0, 5)
    x, y = jax.tree.leaves(buffer.items)
    assert buffer.steps == 5
    np.testing.assert_array_equal(np.asarray(y)[0, :5, 0].ravel(), np.arange(10))
    np.testing.assert_array_equal(np.asarray(x)[0, :5, 0, :, 1].ravel(), -np.arange(10))


def test_text_in_a_batch_is_refused():
    with pytest.raises(TypeError, match="a batch has an array of dtype <U1; expected numbers"):
        tr.Stream([{"word": ["a", "b"], "y": [1.0, 2.0]}]).example()


def test_a_loader_of_tensors_gives_the_result_of_its_arrays():
    theta = np.random.default_rng(0).normal(size=(6, 10, 2))

    class Batches:
        def __iter__(self):
            return (Tensor(batch) for batch in theta)

    problem = tr.Problem(lambda x, t: ((x - t) ** 2).sum(), None, tr.L2Ball(1.0, shape=2))
    given = {"method": tr.CSOA(eta0=0.1), "steps": 20, "batch_size": 3}
    np.testing.assert_array_equal(
        tr.minimize(problem, Batches(), **given).x, tr.minimize(problem, tr.Stream(list(theta)), **given).x
    )
