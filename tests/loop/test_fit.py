"""Runs on streams whose samples are kept: prefixes, margins and verdicts by folds, what ends them, and going on."""

import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.signal import lfilter

import tightrope as tr
from tightrope import Status
from tightrope.loop.fit import prefixes

D = 4
CENTRE = np.array([1.0, 1.0, 0.0, -1.0], np.float32)


def draw(key):
    """A noisy centre, and a noisy slope."""
    return CENTRE + jax.random.normal(key, (D,))


def objective(x, theta):
    """The square distance."""
    return jnp.sum((x - theta) ** 2) / 2


def budget(x, theta):
    """A linear constraint whose slopes are noisy."""
    return jnp.dot(theta, x)[None]


def problem(level=0.5):
    """The solution is centre (1 - lam), lam so that |centre|^2 (1 - lam) is the level."""
    return tr.Problem(objective, budget, tr.L2Ball(3.0, shape=D), levels=level, names=("budget",))


SOLUTION = CENTRE / 6
GENERATOR = tr.Generator(draw)


def stream(n, batch=100, fails_after=None, seed=0):
    """The same samples whenever it is read."""

    def batches():
        rng = np.random.default_rng(seed)
        for k in range(0, n, batch):
            if fails_after is not None and k >= fails_after:
                raise OSError("the wire is cut")
            yield (CENTRE + rng.normal(size=(batch, D))).astype(np.float32)

    return tr.Stream(batches)


def fit(data=None, steps=5120, **options):
    """A run of minimize with its defaults."""
    return tr.minimize(problem(), stream(steps) if data is None else data, steps=steps, **options)


def test_the_answer_is_that_of_the_samples_and_the_report_says_what_was_taken():
    n = 5120
    result = fit(steps=n)
    batches: Any = stream(n).factory
    rows = np.concatenate(list(batches()))
    plain = tr.minimize(problem(), rows).x
    np.testing.assert_allclose(result.x, plain, atol=5 / n**0.5 * 0.1)  # the margin is a fraction of the noise
    np.testing.assert_allclose(result.x, SOLUTION, atol=5 / n**0.5)
    assert result.status is Status.UNDECIDED  # a constraint that binds cannot be told from its level
    assert "kept the samples" in str(result)
    assert "sqp" in str(result)
    assert result.cost.samples == n


def test_the_trace_has_a_row_for_every_prefix():
    trace = fit(steps=20_480).trace
    assert trace["step"].tolist() == [1280, 2560, 5120, 10_240, 20_480] == prefixes(20_480, 1)
    assert trace["samples"].tolist() == trace["step"].tolist()


def test_the_distance_to_the_optimum_is_what_samples_lack():
    """The mean of T samples is above the optimum by d/(2T), if each has d coordinates of variance one."""
    d, n = 50, 5120
    rows = 0.2 + np.random.default_rng(0).normal(size=(n, d))
    batches = tr.Stream([rows.astype(np.float32)])
    result = tr.minimize(tr.Problem(objective, None, tr.L2Ball(3.0, shape=d)), batches, steps=n)
    distance = result.trace["distance"]
    assert distance.iloc[-1] == pytest.approx(d / (2 * n), rel=0.6)
    assert d / n / 2 < distance.iloc[-2] < 2 * d / n  # by two prefixes alone
    assert f"{distance.iloc[-1]:.2g} above its optimum" in result.message


def test_same_samples_same_answer_and_another_seed_another():
    first, again, other = (fit(GENERATOR, 2560, seed=seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first.x, again.x)
    assert np.any(np.asarray(first.x) != np.asarray(other.x))


def pull(x, theta):
    """What wants x[0] to be two."""
    return -2 * x[0] + jnp.sum(x**2) / 2


def test_constraints_hold_in_the_mean_with_the_margin_and_would_not_without(monkeypatch):
    """H(x) = x[0] - 1/2, and every other coordinate is noise in h that a solution on samples makes use of: without a margin
    it is above its level by 1.5 (d - 1)/T on average."""
    from tightrope.evidence import folds

    d, n, runs = 20, 400, 40
    noisy = tr.Problem(pull, budget, tr.L2Ball(3.0, shape=d), levels=0.5)

    def values(**options):
        found = []
        for seed in range(runs):
            rows = np.random.default_rng(seed).normal(size=(n, d)) + np.eye(d)[0]
            batches = tr.Stream([rows.astype(np.float32)])
            found.append(float(tr.minimize(noisy, batches, steps=n, record=0, **options).x[0]) - 0.5)
        return np.array(found)

    def error(h):
        return h.std() / runs**0.5

    kept = values()
    assert kept.mean() < 2 * error(kept)
    assert kept.mean() > -0.5 * 1.5 * (d - 1) / n  # and not by far more than was missing
    assert np.mean(values(keep=0.95) > 0) <= 0.15  # 5 % asked for, of 40 runs
    monkeypatch.setattr(folds, "COVER", 0.0)
    for name in ("OVERFIT", "ABOVE"):
        monkeypatch.setattr(folds, name, np.inf)
    plain = values()
    assert plain.mean() == pytest.approx(1.5 * (d - 1) / n, rel=0.4)


def test_a_slack_constraint_is_kept_and_says_so():
    result = tr.minimize(problem(level=9.0), stream(2560), steps=2560)
    assert result.status is Status.KEPT
    assert result.status.ended_well
    assert float(result.dual[0]) == pytest.approx(0, abs=1e-3)


def test_errors_are_those_of_all_samples():
    result = fit(steps=5120)
    spread = (CENTRE + np.random.default_rng(1).normal(size=(100_000, D))) @ np.asarray(result.x)
    assert result.errors is not None
    assert result.errors.iloc[0] == pytest.approx(2 * spread.std() / 5120**0.5, rel=0.1)


def test_a_fit_of_too_few_samples_goes_only_part_of_the_way():
    """With half as many samples as coordinates the samples are met exactly, and nothing is learned by going all the way."""
    d = 200

    def noisy(x, theta):
        return (jnp.dot(theta[:d], x) - theta[d]) ** 2

    rows = np.random.default_rng(0).normal(size=(100, d + 1)).astype(np.float32)
    result = tr.minimize(tr.Problem(noisy, None, tr.L2Ball(5.0, shape=d)), tr.Stream([rows]), steps=100)
    assert float(np.sum(np.asarray(result.x) ** 2)) < 0.1  # what is best is the start; the fit itself gives 1 or more
    assert "start" in result.message


# ---- what ends it, and going on ---------------------------------------------------------------------------------------


def test_a_run_that_is_interrupted_goes_on_to_the_same_bits(tmp_path):
    file = tmp_path / "run.ckpt"
    whole = fit(GENERATOR, 10_240)
    cut = fit(GENERATOR, 10_240, checkpoint=file, callback=lambda seen: seen.step >= 5120)
    assert cut.status is Status.CALLBACK_STOPPED
    assert cut.cost.steps == 5120
    resumed = fit(GENERATOR, 10_240, checkpoint=file)
    np.testing.assert_array_equal(resumed.x, whole.x)
    np.testing.assert_array_equal(resumed.dual, whole.dual)
    assert resumed.trace["step"].tolist() == whole.trace["step"].tolist()
    with pytest.raises(tr.CheckpointError, match="what it keeps"):
        fit(GENERATOR, 10_240, checkpoint=file, keep=0.9)


def test_a_callback_sees_every_prefix_and_its_error_costs_nothing():
    seen = []
    fit(callback=seen.append)
    assert [one.step for one in seen] == [1280, 2560, 5120]

    def breaks(snapshot):
        raise RuntimeError("mine")

    result = fit(callback=breaks)
    assert result.status is Status.CALLBACK_RAISED
    assert result.cost.steps == 1280


def test_an_interrupt_leaves_the_answer_of_the_last_prefix():
    count = itertools.count()

    def interrupt(snapshot):
        if next(count) == 1:
            raise KeyboardInterrupt

    result = fit(callback=interrupt)
    assert result.status is Status.INTERRUPTED
    np.testing.assert_allclose(result.x, SOLUTION, atol=0.15)


def test_a_time_limit_leaves_the_answer_so_far():
    result = fit(steps=10_240, time_limit=1e-3)
    assert result.status is Status.TIME_LIMIT
    assert result.cost.steps < 10_240


def test_a_stream_that_ends_early_is_solved_on_what_there_is():
    result = fit(stream(2000), 5120)
    assert result.status is Status.STREAM_ENDED
    assert result.cost.steps == 2000
    assert "folds" in result.measured_on
    np.testing.assert_allclose(result.x, SOLUTION, atol=0.15)


def test_a_stream_that_breaks_leaves_the_answer_so_far():
    result = fit(stream(40_000, batch=1000, fails_after=20_000), 40_000)
    assert result.status is Status.STREAM_RAISED
    assert "the wire is cut" in result.message
    assert isinstance(result.error, OSError)


def test_a_value_that_is_not_finite_ends_the_run():
    rows = (CENTRE + np.random.default_rng(0).normal(size=(3000, D))).astype(np.float32)
    rows[100] = np.inf
    assert fit(tr.Stream([rows]), 3000).status is Status.NOT_FINITE


def test_what_no_point_satisfies_is_said():
    impossible = tr.Problem(
        lambda x, theta: jnp.sum((x - theta) ** 2), lambda x, theta: jnp.stack([theta[0] - x[0], x[0] + theta[1]]),
        tr.Box(-5.0, 5.0, shape=D), levels=0.0,
    )  # fmt: skip
    result = tr.minimize(impossible, stream(5120), steps=5120)
    assert result.status.no_point


# ---- whether samples are kept -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("steps", "options"),
    [(2560, {"memory": 0}), (2560, {"memory": 399 * 16}), (20, {}), (2560, {"output": "average"}),
     (2560, {"method": "csoa"})],
)  # fmt: skip
def test_otherwise_every_sample_is_seen_once(steps, options):
    result = fit(steps=steps, **options)
    assert result.method.name == "csoa"
    lacking = options.get("memory", 0) > 0
    assert ("memory= allows" in str(result)) == lacking
    assert ("given as tr.Parquet" in " ".join(str(result).split())) == lacking


def test_memory_that_just_suffices():
    assert fit(steps=2560, memory=2560 * 16).method.name == "sqp"


# ---- more samples than memory ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("data", [GENERATOR, None])
def test_samples_beyond_memory_tell_as_much_as_those_that_fit(data):
    """A tenth of them fits; where the solution ends is that of all samples but for a fraction of their error."""
    n, few = 20_480, 2048
    every, part = fit(data, n), fit(data, n, memory=few * 16)
    first = fit(data, few)
    off, alone = (np.linalg.norm(np.asarray(r.x) - np.asarray(every.x)) for r in (part, first))
    assert off < 0.1 * alone
    assert part.cost.samples == n
    assert part.trace["samples"].iloc[-1] == n
    assert len(part.trace) >= n / few  # a row for every block
    assert part.errors is not None
    assert every.errors is not None
    np.testing.assert_allclose(part.errors, every.errors, rtol=0.2)
    assert part.status in (Status.UNDECIDED, Status.KEPT)


def test_kinks_of_single_samples_bend_in_their_mean():
    def kinked(x, theta):
        return jnp.abs(x - theta[:D]).sum() + jnp.maximum(x[0] + theta[1], 0)

    n = 20_480
    problem = tr.Problem(kinked, budget, tr.Box(-3.0, 3.0, shape=D), levels=0.5)
    every, part, first = (
        tr.minimize(problem, stream(n), steps=steps, memory=memory * 16, record=0)
        for steps, memory in ((n, n), (n, 2048), (2048, n))
    )
    off, alone = (np.linalg.norm(np.asarray(r.x) - np.asarray(every.x)) for r in (part, first))
    assert off < 0.5 * alone


def test_beyond_memory_a_run_goes_on_to_the_same_bits(tmp_path):
    memory, file = 1024 * 16, tmp_path / "run.ckpt"
    whole = fit(steps=10_240, memory=memory)
    for end in (1024, 4096, 9216):
        cut = fit(steps=10_240, memory=memory, checkpoint=file, callback=lambda seen, end=end: seen.step >= end)
        assert cut.cost.steps == end
    resumed = fit(steps=10_240, memory=memory, checkpoint=file)
    np.testing.assert_array_equal(resumed.x, whole.x)
    np.testing.assert_array_equal(resumed.errors, whole.errors)


def test_batches_are_that_many_samples():
    result = fit(stream(5120), steps=512, batch_size=10)
    np.testing.assert_allclose(result.x, fit(stream(5120), 5120).x, atol=1e-4)
    assert result.cost.samples == 5120


@pytest.mark.parametrize(
    ("name", "value"), [("memory", -1), ("memory", "1 GB"), ("keep", 1.0), ("keep", "always"), ("keep", True)]
)
def test_a_wrong_option_is_refused(name, value):
    with pytest.raises(ValueError, match=name):
        fit(**{name: value})


def test_kinks_take_the_bundle():
    kinked = tr.Problem(lambda x, theta: jnp.abs(x - theta).sum(), None, tr.Box(-3.0, 3.0, shape=D))
    result = tr.minimize(kinked, stream(2560), steps=2560)
    assert result.method.name == "bundle"
    np.testing.assert_allclose(result.x, CENTRE, atol=0.2)


def test_a_start_that_more_digits_would_put_outside_is_no_cause_to_warn():
    simplex = tr.Problem(objective, None, tr.Simplex(shape=11))
    rows = np.random.default_rng(0).normal(size=(300, 11)).astype(np.float32)
    assert abs(float(tr.minimize(simplex, tr.Stream([rows]), steps=300).x.sum()) - 1) < 1e-5


def test_many_constraints_take_steps_for_rows():
    """More than two hundred of them: a method for rows solves on the samples."""
    many = tr.Problem(
        objective, lambda x, theta: theta[0] * x[0] * jnp.linspace(0.5, 1.0, 201), tr.L2Ball(3.0, shape=D), 0.5
    )
    result = tr.minimize(many, stream(2560), steps=2560)
    assert result.method.name == "svrg-csoa"
    assert result.status in (Status.UNDECIDED, Status.KEPT)
    np.testing.assert_allclose(result.x, [0.5, 1.0, 0.0, -1.0], atol=0.15)


def test_neighbours_that_are_alike_widen_the_errors():
    rows = np.repeat((CENTRE + np.random.default_rng(0).normal(size=(128, D))).astype(np.float32), 40, axis=0)
    result = fit(tr.Stream([rows]), 5120)
    assert any("neighbouring samples are alike" in note for note in result.notes)
    assert result.errors is not None
    errors = fit().errors
    assert errors is not None
    assert result.errors.iloc[0] > 3 * errors.iloc[0]


def autoregressive(n, time, seed):
    """Samples whose noise is remembered for a while: each has the law of all, and neighbours are alike."""
    keep = np.exp(-1 / time)
    noise = np.random.default_rng(seed).normal(size=(n, D)) * np.sqrt(1 - keep**2)
    noise[0] /= np.sqrt(1 - keep**2)
    return (CENTRE + lfilter([1], [1, -keep], noise, axis=0)).astype(np.float32)


def test_a_probability_is_kept_where_neighbours_are_alike():
    """As if samples were independent, more than 30 % of such points violated the level."""
    values = []
    for seed in range(24):
        x = tr.minimize(problem(), tr.Stream([autoregressive(8192, 20, seed)]), steps=8192, keep=0.95).x
        values.append(float(CENTRE @ np.asarray(x)) - 0.5)
    assert np.count_nonzero(np.array(values) > 0) <= 4, "of 24; five or more come of 5 % in one case of 170"
    assert np.mean(values) > -0.5


@pytest.mark.parametrize("what", ["slow", "rare"])
def test_a_probability_that_samples_cannot_tell_is_not_promised(what):
    if what == "slow":
        rows = autoregressive(2560, 400, 0)
    else:  # three times in 2,560 samples
        rows = np.full((2560, D), CENTRE, np.float32)
        rows[::1000] *= 100
    result = tr.minimize(problem(), tr.Stream([rows]), steps=2560, keep=0.95)
    assert "not known to be kept with probability 0.95" in str(result)


def test_where_samples_leave_points_open_the_start_is_kept():
    """All samples are zero around the start, and say nothing of the points there; far off there are losses."""

    def rare(x, theta):
        return jnp.maximum(jnp.dot(theta, x) - 6, 0)

    flat = tr.Problem(rare, lambda x, theta: jnp.stack([theta[0], -theta[1]]) * x[:2], tr.Box(-3.0, 3.0, shape=D), 1.0)
    result = tr.minimize(flat, stream(2560), steps=2560)
    np.testing.assert_array_equal(result.x, 0)
    assert "start" in result.message
