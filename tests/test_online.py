"""A fed run equals `minimize` on a stream of the same samples, bit for bit, and loses nothing when something goes wrong."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from core_cases import PROBLEM

import tightrope as tr
import tightrope.loop.driver as driver
import tightrope.online as online
from tightrope.loop.steps import advance

METHOD = tr.CSOA(eta0=0.8, upsilon0=0.3, anytime=True)
SAMPLES = np.random.default_rng(3).normal([1.0, -0.5, 0.2], 0.7, size=(460, 3))


def cut(rows, sizes):
    """The rows in pieces of these sizes, over and over."""
    k, at = 0, 0
    while at < len(rows):
        yield rows[at : at + sizes[k % len(sizes)]]
        k, at = k + 1, at + sizes[k % len(sizes)]


def fed(rows, sizes, method: Any = METHOD, **options) -> tr.Online:
    run = tr.Online(PROBLEM, method, **options)
    for batch in cut(rows, sizes):
        run.update(batch)
    return run


def solved(rows, method: Any = METHOD, **options) -> tr.Result:
    return tr.minimize(PROBLEM, tr.Stream([rows]), method=method, **options)


def assert_same(run, result):
    """Bit for bit."""
    for name in ("average", "last", "dual", "dual_last"):
        np.testing.assert_array_equal(getattr(run, name), getattr(result, name))
        assert getattr(run, name).dtype == getattr(result, name).dtype


# ---- it is the same run ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("batch_size", [1, 3])
def test_it_equals_minimize_however_the_samples_are_cut(batch_size, dtype):
    rows = SAMPLES[: 150 * batch_size + batch_size - 1].astype(dtype)  # the last ones are too few for a step
    result = solved(rows, steps=150, batch_size=batch_size)
    assert result.x.dtype == dtype
    for sizes in ([1], [1, 2, 3, 4, 5, 6, 7], [64, 1, 13], [60 * batch_size]):
        run = fed(rows, sizes, batch_size=batch_size)
        assert (run.step, run.samples) == (150, 150 * batch_size)
        assert_same(run, result)
        assert run.state_dict()["waiting"].shape == (batch_size - 1, 3)


@pytest.fixture
def short_buffers(monkeypatch):
    monkeypatch.setattr(online, "block_length", lambda size: 128)


@pytest.mark.usefixtures("short_buffers")
def test_an_update_longer_than_a_buffer():
    assert_same(fed(SAMPLES, [460]), solved(SAMPLES, steps=460))


class TwoState(NamedTuple):
    x: Any
    lam: Any


@tr.pytree
class TwoSamples(tr.Method):
    """A constant step that takes the gradient from one sample and the constraints from another."""

    eta: Any = 0.05

    draws = 2
    anytime = True
    needs = frozenset({"project"})
    cost = tr.Cost(samples=2, gradients=2, projections=1)

    def init(self, problem, x, lam, horizon):
        return TwoState(x, lam)

    def step(self, problem, state, theta):
        one, two = theta
        f, _, g = problem.value_and_gradient(state.x, state.lam, one)
        h = problem.constraint_values(state.x, two)
        x = problem.domain.project(state.x - self.eta * g)
        lam = tr.dual_step(state.lam, h, gamma=self.eta, shrink=0.0, upsilon=0.0)
        return TwoState(x, lam), tr.Info(state.x, state.lam, f, h)


def test_a_method_of_ones_own_with_two_samples_a_step():
    run = fed(SAMPLES[:101], [3, 10], TwoSamples())
    assert (run.step, run.samples) == (50, 100)
    assert_same(run, solved(SAMPLES[:101], TwoSamples(), steps=50))


def test_trees_of_samples_and_separate_batch_sizes():
    problem = tr.Problem(
        lambda x, theta: jnp.sum((x - theta["a"]) ** 2) * theta["w"], lambda x, theta: x[:1], tr.L2Ball(2.0, shape=3)
    )
    a, w = SAMPLES[:40], np.arange(40) % 3
    run = tr.Online(problem, METHOD, batch_size=(1, 3))
    run.update({"a": a[:10], "w": w[:10]})
    run.update({"a": a[10:20], "w": w[10:20].astype(np.int32)})  # numbers of the same kind become those of the first
    run.update({"a": jnp.asarray(a[20:]), "w": w[20:]})
    result = tr.minimize(problem, tr.Stream([{"a": a, "w": w}]), method=METHOD, steps=13, batch_size=(1, 3))
    assert_same(run, result)


# ---- what it costs ---------------------------------------------------------------------------------------------------


def test_few_programs_are_compiled_and_little_is_kept(monkeypatch):
    lengths = []

    def watched(*args, **options):
        lengths.append(args[4].shape[1])
        return advance(*args, **options)

    monkeypatch.setattr(driver, "advance", watched)
    run = fed(SAMPLES[:64], [64])
    programs = getattr(advance, "programs")()  # noqa: B009 (not typed)
    size = sum(a.nbytes for a in run.state_dict().values())
    for count in (1, 2, 3, 17, 40, 63, 64):
        run.update(SAMPLES[:count])
    assert set(lengths) == {64}
    assert getattr(advance, "programs")() == programs  # noqa: B009 (not typed)
    run.update(SAMPLES[:65])
    assert lengths[-1] == 128
    assert sum(a.nbytes for a in run.state_dict().values()) == size


def test_samples_that_wait_do_not_keep_their_batch_alive():
    run = tr.Online(PROBLEM, METHOD, batch_size=3)
    run.update(SAMPLES[:100])
    assert run._standing is not None
    assert run._standing.waiting.base is None
    assert len(run._standing.waiting) == 100 % 3


# ---- before the first step -------------------------------------------------------------------------------------------


def test_too_few_samples_for_a_step_wait():
    run = tr.Online(PROBLEM, METHOD, batch_size=3, x0=np.array([0.1, 0.2, 0.3]))
    run.update(SAMPLES[:2])
    assert (run.step, run.samples) == (0, 0)
    np.testing.assert_array_equal(run.average, [0.1, 0.2, 0.3])
    np.testing.assert_array_equal(run.dual, [0.0, 0.0])
    run.update(SAMPLES[2:3])
    assert (run.step, run.samples) == (1, 3)
    run.update(SAMPLES[:0])
    assert run.step == 1


def test_nothing_is_known_before_samples_are():
    run = tr.Online(PROBLEM)
    assert (run.step, run.samples) == (0, 0)
    for name in ("average", "last", "dual", "dual_last"):
        with pytest.raises(ValueError, match=f"{name} is not known before the first update"):
            getattr(run, name)
    with pytest.raises(ValueError, match="give an example"):
        run.load_state_dict({})
    np.testing.assert_array_equal(tr.Online(PROBLEM, example=SAMPLES[:0]).average, np.zeros(3))


def test_it_goes_on_from_a_result():
    result = solved(SAMPLES, steps=150)
    run = tr.Online(PROBLEM, METHOD, warm_start=result, example=SAMPLES[:0])
    np.testing.assert_array_equal(run.last, result.last)
    np.testing.assert_array_equal(run.dual, result.dual_last)
    run.update(SAMPLES[:60])
    assert_same(run, solved(SAMPLES[:60], steps=60, warm_start=result))


# ---- when something goes wrong ---------------------------------------------------------------------------------------


@pytest.mark.usefixtures("short_buffers")
@pytest.mark.parametrize("bad", [0, 64, 127, 128, 300, 359])
def test_a_value_that_is_not_finite_is_named_and_nothing_is_lost(bad):
    run = fed(SAMPLES[:100], [50])
    before = run.state_dict()
    spoilt = SAMPLES[100:].copy()
    spoilt[bad, 1] = np.nan
    with pytest.raises(FloatingPointError, match=rf"in step {100 + bad + 1}, on row {bad} of the batch"):
        run.update(spoilt)
    jax.tree.map(np.testing.assert_array_equal, run.state_dict(), before)
    run.update(SAMPLES[100:])
    assert_same(run, solved(SAMPLES, steps=460))


def test_bad_samples_that_wait_do_not_block_the_run():
    run = fed(SAMPLES[:61], [61], batch_size=3)  # one waits
    run.update(np.array([[np.inf, 0.0, 0.0]]))  # two
    with pytest.raises(FloatingPointError, match=r"step 21, on rows 0 to 0 and 2 kept from before .* dropped"):
        run.update(SAMPLES[61:90])
    assert run.step == 20
    run.update(SAMPLES[61:91])
    kept = np.concatenate([SAMPLES[:60], SAMPLES[61:91]])
    assert_same(run, solved(kept, steps=30, batch_size=3))
    with pytest.raises(FloatingPointError, match=r"step 32, on rows 3 to 5 of the batch"):
        run.update(np.where(np.arange(9)[:, None] == 4, np.nan, SAMPLES[:9]))


@pytest.mark.usefixtures("short_buffers")
def test_an_interrupted_update_is_not_taken(monkeypatch):
    run, calls = fed(SAMPLES[:50], [50]), []

    def interrupted(*args, **options):
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return advance(*args, **options)

    before = run.state_dict()
    monkeypatch.setattr(driver, "advance", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run.update(SAMPLES[50:])
    jax.tree.map(np.testing.assert_array_equal, run.state_dict(), before)


# ---- saved and loaded ------------------------------------------------------------------------------------------------


def test_a_saved_run_goes_on_bit_for_bit(tmp_path):
    run = fed(SAMPLES[:100], [40], batch_size=3)  # one sample waits
    np.savez(tmp_path / "run.npz", **run.state_dict())  # pyright: ignore[reportArgumentType]
    with np.load(tmp_path / "run.npz", allow_pickle=False) as file:
        arrays = dict(file)
    other = tr.Online(PROBLEM, METHOD, batch_size=3, example=SAMPLES[:0])
    other.load_state_dict(arrays)
    assert (other.step, other.samples) == (33, 99)
    assert_same(other, run)
    for each in (run, other):
        each.update(SAMPLES[100:200])
    assert_same(other, run)
    assert_same(other, solved(SAMPLES[:200], steps=66, batch_size=3))
    arrays["carry.state.x"][:] = np.nan  # a copy: the run does not share it
    assert np.all(np.isfinite(other.last))


def test_arrays_of_another_run_are_refused():
    run = tr.Online(PROBLEM, METHOD, example=SAMPLES[:0])
    arrays = run.state_dict()
    with pytest.raises(ValueError, match="differ from this run's in step"):
        run.load_state_dict({name: a for name, a in arrays.items() if name != "step"})
    with pytest.raises(ValueError, match=r"carry.state.lam is float64 of shape \(3,\); expected .* \(2,\)"):
        run.load_state_dict(arrays | {"carry.state.lam": np.zeros(3)})
    with pytest.raises(ValueError, match="waiting is float32"):
        run.load_state_dict(arrays | {"waiting": np.zeros((0, 3), np.float32)})


# ---- refusals --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "error", "sentence"),
    [
        (tr.CSOA(), TypeError, r"steps of CSOA depend on how many there will be.*CSOA\(anytime=True\)"),
        (tr.FWCSOA(), TypeError, "steps of FWCSOA depend"),
        (tr.GOCO(), TypeError, "steps of GOCO depend"),
        (tr.SVRGCSOA(), TypeError, "SVRGCSOA looks at all the data"),
        (tr.CSOA(eta0=np.ones(2), anytime=True), ValueError, "several values"),
        ("csoa", TypeError, "method is 'csoa'; expected a method object"),
    ],
    ids=str,
)
def test_methods_that_cannot_be_fed_are_refused(method, error, sentence):
    with pytest.raises(error, match=sentence):
        tr.Online(PROBLEM, method)


@pytest.mark.parametrize(
    ("batch", "error", "sentence"),
    [
        (SAMPLES[:, :2], ValueError, r"samples float64\[2\]; expected float64\[3\], as before"),
        ((SAMPLES, SAMPLES), ValueError, "as before"),
        (SAMPLES.astype(complex), ValueError, "as before"),
        ((SAMPLES, SAMPLES[:3]), ValueError, "as many in each"),
        (1.0, ValueError, "one row per sample"),
        ((), ValueError, "one row per sample"),
        (np.array(["a", "b"]), TypeError, "expected numbers"),
    ],
    ids=["shape", "tree", "kind", "lengths", "scalar", "empty", "text"],
)
def test_batches_that_do_not_fit_are_refused(batch, error, sentence):
    run = tr.Online(PROBLEM, METHOD, example=SAMPLES[:0])
    with pytest.raises(error, match=sentence):
        run.update(batch)
    assert run.step == 0


def test_a_run_has_at_most_so_many_steps():
    run = tr.Online(PROBLEM, METHOD, example=SAMPLES[:0])
    run.load_state_dict(run.state_dict() | {"step": np.asarray(2**31 - 10)})
    with pytest.raises(ValueError, match=r"more than 2\^31 - 1"):
        run.update(SAMPLES[:20])


# ---- what a fed run says of itself ---------------------------------------------------------------------------------------


def storage(power):
    def constraints(x, theta):
        return jnp.stack([jnp.maximum(3 * theta - x[0], 0) - 0.2, x[0] - power, theta - 2 - x[1]])

    def cost(x, theta):
        return x[0] + x[1] + 0 * theta

    return tr.Problem(cost, constraints, tr.Box(0.0, 5.0, shape=2), names=("unserved", "power", "idle"))


DEMAND = np.random.default_rng(0).uniform(size=8192).astype(np.float32)


def test_a_fed_run_reports_as_a_stream_does():
    run = tr.Online(storage(2.5))
    assert str(run) == repr(run) == "Online(CSOA, 0 steps)"
    for batch in np.array_split(DEMAND[:3000], 7):
        run.update(batch)
    result = run.result()
    streamed = tr.minimize(storage(2.5), tr.Stream([DEMAND]), steps=3000, method=tr.CSOA(anytime=True), progress=False)
    assert result.status is tr.Status.FED
    for name in ("x", "dual", "constraints", "errors", "objective"):
        np.testing.assert_array_equal(getattr(result, name), getattr(streamed, name))
    assert result.measured_on == streamed.measured_on
    assert "the last 2,048 samples of the run" in str(run)
    assert repr(run) == "Online(CSOA, 3,000 steps)"
    kept = object.__new__(tr.Online)
    kept.__setstate__(run.__getstate__())  # as pickle does
    np.testing.assert_array_equal(kept.result().constraints, result.constraints)


def test_an_infeasible_problem_is_told_of():
    """Of E(unserved) <= 0.2 and power <= 1 one is violated everywhere, and the third has nothing to do with it."""
    run = tr.Online(storage(1.0))
    run.update(DEMAND[:2048])
    with pytest.warns(UserWarning, match="Every point of the domain violates unserved by 0.* or power by 0") as said:
        run.update(DEMAND[2048:5000])
    assert "idle" not in str(said[0].message)
    run.update(DEMAND[5000:])  # once is enough
    result = run.result()
    assert result.status is tr.Status.INFEASIBLE_IN_SAMPLES
    assert result.message.startswith("Every point of the domain violates unserved by 0.")
    assert "no point satisfies all constraints" in str(run)


def test_a_feasible_run_is_not_warned_of(recwarn):
    run = tr.Online(storage(2.5))
    run.update(DEMAND)
    assert not [w for w in recwarn if "Online" in str(w.message)]
    assert run.result().status is tr.Status.FED


def test_samples_that_are_alike_are_told_of():
    run = tr.Online(storage(2.5))
    run.update(np.repeat(DEMAND[:200], 20))
    assert "neighbouring samples are alike" in str(run)
