"""A stream is resumed bit for bit, whatever its source calls its arguments and however it cuts its batches."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tightrope as tr
from tightrope.sampling import Plan

ROWS = np.random.default_rng(0).normal(size=(60, 2)).astype(np.float32)
SIZES = {"even": (5,), "uneven": (1, 4, 0, 7, 2), "single rows": (1,), "at once": (60,)}


def batches(sizes):
    start = 0
    for size in itertools.cycle(sizes):
        if start >= len(ROWS):
            return
        yield ROWS[start : start + size]
        start += size


class Loader:
    """A DataLoader: an iterable that starts anew."""

    def __init__(self, sizes):
        self.sizes = sizes

    def __iter__(self):
        return batches(self.sizes)


class CallableLoader(Loader):
    def __call__(self, batch):
        raise AssertionError("a loader that can also be called is a loader")


class Source:
    def __init__(self, sizes):
        self.sizes = sizes

    def read(self, skip):
        return (batch for batch in [ROWS[skip:]] if len(batch))

    def __call__(self, seed=0):
        assert seed == 0
        return batches(self.sizes)


def whole_batches(sizes):
    """Drops whole batches only, as who writes `if i >= skip // 100` does."""

    def read(skip):
        seen = 0
        for batch in batches(sizes):
            seen += len(batch)
            if seen > skip:
                yield batch

    return read


def rounded(sizes):
    return lambda skip: itertools.islice(batches(sizes), skip // max(sizes), None)


def ahead(sizes):
    return lambda skip: itertools.islice(batches(sizes), -(-skip // max(sizes)), None)


def exact(sizes):
    def read(skip=0):
        seen = 0
        for batch in batches(sizes):
            yield batch[max(skip - seen, 0) :]
            seen += len(batch)

    return read


SOURCES = {
    "a list": lambda sizes: list(batches(sizes)),
    "an iterator": batches,
    "a loader": Loader,
    "a loader that can be called": CallableLoader,
    "no argument": lambda sizes: lambda: batches(sizes),
    "skip, exact": exact,
    "skip, whole batches": whole_batches,
    "skip, rounded": rounded,
    "skip, one batch too far": ahead,
    "skip by keyword only": lambda sizes: lambda *, skip=0: exact(sizes)(skip),
    "skip among others": lambda sizes: lambda path="here", skip=0: exact(sizes)(skip) if path == "here" else 1 / 0,
    "another default": lambda sizes: lambda seed=0: batches(sizes) if seed == 0 else 1 / 0,
    "any arguments": lambda sizes: lambda *args, **kwargs: 1 / 0 if args or kwargs else batches(sizes),
    "a method": lambda sizes: Source(sizes).read,
    "a callable object": Source,
    "partial": lambda sizes: functools.partial(lambda seed, skip: exact(sizes)(skip) if seed == 1 else 1 / 0, 1),
    "partial without skip": lambda sizes: functools.partial(batches, sizes),
}


@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
@pytest.mark.parametrize("kind", SOURCES)
@pytest.mark.parametrize(("draws", "batch_size"), [(1, 1), (2, 3)])
def test_a_stream_opened_at_any_step_gives_the_samples_of_that_step(kind, sizes, draws, batch_size):
    steps = len(ROWS) // (draws * batch_size)
    for stop in range(steps):
        opened = tr.Stream(SOURCES[kind](sizes)).open(Plan((0,), draws, batch_size))
        buffer = opened.take(stop, steps)
        assert buffer.steps == steps - stop
        expected = ROWS[stop * draws * batch_size :].reshape(-1, draws, batch_size, 2)
        np.testing.assert_array_equal(np.asarray(buffer.items)[0, : buffer.steps], expected)


def objective(x, theta):
    return jnp.sum((x - theta) ** 2)


def constraints(x, theta):
    return x[:1] - 0.1 * theta[:1]


PROBLEM = tr.Problem(objective, constraints, tr.L2Ball(2.0, shape=2))


@pytest.mark.parametrize("kind", ["another default", "skip, whole batches", "a loader", "partial"])
def test_a_run_that_was_stopped_goes_on_bit_for_bit(kind, tmp_path):
    def solve(**options):
        data = tr.Stream(SOURCES[kind](SIZES["even"]))
        return tr.minimize(PROBLEM, data, method="csoa", steps=20, batch_size=3, progress=False, **options)

    whole = solve()
    for stop in (1, 7, 19):
        file = tmp_path / f"{stop}"
        solve(chunk=1, callback=lambda seen, stop=stop: seen.step == stop, checkpoint=file)
        resumed = solve(checkpoint=file)
        for one, other in zip(jax.tree.leaves(resumed.state), jax.tree.leaves(whole.state), strict=True):
            np.testing.assert_array_equal(one, other)
        np.testing.assert_array_equal(resumed.x, whole.x)
        np.testing.assert_array_equal(resumed.constraints, whole.constraints)
        np.testing.assert_array_equal(resumed.errors, whole.errors)


def test_a_source_that_skips_exactly_is_not_read_from_its_beginning():
    asked, many = [], np.arange(50_000.0)

    def read(skip):
        asked.append(skip)
        return (many[i : i + 5] for i in range(skip, len(many), 5))

    opened = tr.Stream(read).open(Plan((0,)))
    assert float(np.asarray(opened.take(41_000, 1).items)[0, 0, 0, 0]) == 41_000
    assert max(asked) == 41_000 - 8192  # the last samples are kept to measure the output by


@pytest.mark.parametrize("kind", ["a list", "skip, exact", "skip, rounded"])
def test_the_last_samples_are_the_same_wherever_a_run_was_stopped(kind):
    plan = Plan((0,), 1, 2)
    for step in (1, 7, 20, 30):
        for start in range(step):
            stream = tr.Stream(SOURCES[kind](SIZES["even"]))
            opened, t = stream.open(plan), start
            while t < step:
                t += opened.take(t, min(3, step - t)).steps
            lately = stream.lately(plan, step)
            held = 1 << ((2 * step).bit_length() - 1)
            np.testing.assert_array_equal(lately, ROWS[2 * step - held : 2 * step])
    assert tr.Stream(SOURCES[kind](SIZES["even"])).lately(plan, 0) is None
    assert len(np.asarray(tr.Stream(SOURCES[kind](SIZES["even"])).lately(plan, 20))) == 32  # read once more


def test_what_cannot_be_read_again_is_not_known():
    stream = tr.Stream(batches(SIZES["even"]))
    stream.open(Plan((0,))).take(0, 10)
    assert len(np.asarray(stream.lately(Plan((0,)), 10))) == 8
    assert stream.lately(Plan((0,)), 50) is None


def test_functions_that_ask_for_something_else_are_refused():
    with pytest.raises(TypeError, match="asks for 'path'; expected one without arguments, or with one called skip"):
        tr.Stream(lambda path: batches(SIZES["even"]))
    with pytest.raises(TypeError, match="returned None; expected an iterable"):
        tr.Stream(lambda: None).example()  # pyright: ignore[reportArgumentType]


def test_a_function_that_gives_one_iterator_twice_is_refused():
    once = batches(SIZES["even"])
    stream = tr.Stream(lambda: once)
    stream.open(Plan((0,))).take(0, 10)
    with pytest.raises(ValueError, match="read only once"):
        stream.open(Plan((0,))).take(0, 10)


def test_samples_do_not_depend_on_which_batches_are_read_together():
    halves = [[{"a": [1.0, 2.0]}, {"a": [0.5]}], [{"a": [1, 2]}, {"a": [0.5]}]]
    assert np.asarray(tr.Stream(halves[0]).open(Plan((0,))).take(0, 9).items["a"]).dtype.kind == "f"
    with pytest.raises(TypeError, match="numbers of dtype float64; expected int64, as in the first batch"):
        tr.Stream(halves[1]).open(Plan((0,))).take(0, 9)
