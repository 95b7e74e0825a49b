from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from core_cases import BALL, PROBLEM, ROWS, SAMPLERS, constraints, objective
from scipy.signal import lfilter
from slow import quick_first

import tightrope as tr
from tightrope.problems import PROBLEMS


def findings(problem, data: Any = ROWS, **options):
    report = tr.check_problem(problem, data, **options)
    return report, {f.what: f for f in report.findings}


def oracle(slope_f=1.0, slope_h=1.0):
    def fn(x, theta):
        grad_h = jnp.stack([slope_h * theta, jnp.eye(3)[0]])
        return objective(x, theta), slope_f * (x - theta), constraints(x, theta), grad_h

    return tr.Problem.from_oracle(fn, BALL, n_constraints=2, names=("fair", "short"))


def numpy_oracle(x, theta):
    return x - theta, (x @ theta)[None], theta[None]


def exact(x):
    mean = jnp.asarray(ROWS.mean(axis=0))
    return jnp.stack([x @ mean, x[0] + 0.1 * mean[1]])


CLEAN = {
    "functions": PROBLEM,
    "pytree": tr.Problem(
        lambda x, theta: x["a"] ** 2 * theta[0] ** 2, None, tr.Product({"a": tr.Box(-1.0, 1.0, shape=())})
    ),
    "no projection": tr.Problem(objective, None, tr.Polytope(np.vstack([np.eye(3), -np.eye(3)]), np.ones(6))),
    "oracle": oracle(),
    "numpy oracle": tr.Problem.from_oracle(numpy_oracle, BALL, n_constraints=1, numpy=True),
    "exact constraints": tr.Problem(objective, constraints, BALL, exact_constraints=exact),
}


@pytest.mark.parametrize("name", quick_first(CLEAN, ["functions", "numpy oracle", "exact constraints"]))
def test_a_clean_problem_is_clean(name):
    report, found = findings(CLEAN[name], samples=37)
    assert report.ok, str(report)
    assert {"shapes", "values", "gradients", "convexity", "sampling"} <= set(found)
    assert ("bias" in found) == (name == "exact constraints")
    assert ("speed" in found) == (name == "numpy oracle")
    assert "CHECK" not in str(report)


def test_a_clean_problem_is_clean_in_float32():
    with jax.enable_x64(False):
        report, _ = findings(PROBLEM)
    assert report.ok, str(report)


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_every_sampler_can_be_probed(sampler):
    assert findings(PROBLEM, SAMPLERS[sampler]())[0].ok


@pytest.mark.parametrize(
    ("problem", "what", "words"),
    [
        (oracle(slope_f=1.2), "gradients", "the oracle's gradient of the objective"),
        (oracle(slope_h=-1.0), "gradients", "fair"),
        (tr.Problem(objective, lambda x, theta: -(x[:1] ** 2), BALL), "convexity", "h[0] is not convex"),
        (tr.Problem(lambda x, theta: jnp.sum(jnp.cos(3 * x)), None, BALL), "convexity", "the objective is not convex"),
        (
            tr.Problem(objective, constraints, BALL, exact_constraints=lambda x: exact(x) + 0.5),
            "bias",
            "do not average to exact_constraints",
        ),
        (tr.Problem(lambda x, theta: jnp.log(x[0] - 5), None, BALL), "values", "NaN or infinite"),
    ],
)
def test_what_is_wrong_is_found_and_named(problem, what, words):
    report, found = findings(problem)
    assert not report.ok
    assert not found[what].ok
    assert words in found[what].sentence
    assert f"CHECK  {what}: " in str(report) == repr(report)


def shifting(noise):
    def factory(skip):
        rows = noise * np.random.default_rng(0).normal(size=(1000, 3))
        rows[500:] += 1
        yield rows[skip:]

    return tr.Stream(factory)


@pytest.mark.parametrize("noise", [0.5, 0.0])
def test_a_sorted_stream_is_found(noise):
    _, found = findings(PROBLEM, shifting(noise), samples=1000)
    assert not found["sampling"].ok
    assert "sorted" in found["sampling"].sentence


def test_wrong_shapes_raise_as_they_do_in_a_run():
    with pytest.raises(ValueError, match="returns a scalar"):
        tr.check_problem(tr.Problem(objective, lambda x, theta: x[0], BALL), ROWS)


# ---- scales ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", quick_first(PROBLEMS, ["simplex", "portfolio", "infeasible"]))
def test_the_problems_with_known_solutions_raise_no_false_alarm(name):
    """One of them is made of scales far apart, and that is what is said of it."""
    with jax.enable_x64(False):
        make = PROBLEMS[name]
        solved = getattr(make, "__wrapped__", make)()  # in this precision, whatever another test has made and kept
        report, found = findings(solved.problem, solved.samples if solved.table is None else solved.table, samples=500)
    assert {"units", "rows", "domain", "noise", "constraints"} <= set(found)
    wrong = {f.what: f.sentence for f in report.findings if not f.ok}
    assert set(wrong) == {"ill-scaled": {"units"}, "infeasible": {"together"}}.get(name, set()), wrong
    if name == "ill-scaled":
        assert "h[0] spreads" in wrong["units"]
        assert "Multiply h[0] by 1e-2 and h[2] by 1e2" in wrong["units"]


NORMAL = np.random.default_rng(2).normal(size=(400, 3)) + np.array([1.0, -0.5, 0.2])


def scaled(f=1.0, h=(1.0, 1.0), x=1.0, level=0.4, radius=2.0, noise=1.0, spread=0.0):
    """A mild problem in which one thing at a time can be made wrong."""

    def objective(p, theta):
        return f * jnp.sum((p / x - theta) ** 2) / 2

    def constraints(p, theta):
        wobble = noise * (theta - jnp.asarray([1.0, -0.5, 0.2]))
        values = jnp.stack([jnp.sum(p) / x + wobble[0], p[0] / x * (1 + spread * wobble[1]) + wobble[2]])
        return jnp.asarray(h) * values

    return tr.Problem(objective, constraints, tr.L2Ball(radius * x, shape=3), levels=level * np.asarray(h))


def leaves(narrow, wide):
    domain = tr.Product({"a": tr.Box(-narrow, narrow, shape=2), "b": tr.Box(-wide, wide, shape=())})
    return tr.Problem(lambda x, t: jnp.sum((x["a"] / narrow - t[:2]) ** 2) + (x["b"] / wide - t[2]) ** 2, None, domain)


def outlier():
    rows = NORMAL.copy()
    rows[7] *= 1e4
    return rows


DEFECTS = {
    "large f": (scaled(f=1e7), NORMAL, "units", ["the objective spreads by", "multiply it by 1e-"]),
    "small h": (scaled(h=(1.0, 1e-5)), NORMAL, "units", ["h[1] spreads by", "it and its level by 1e5"]),
    "constraints far apart": (scaled(h=(200.0, 0.02)), NORMAL, "units", ["h[0] spreads", "times as far as h[1]"]),
    "wide x": (scaled(x=1e6), NORMAL, "units", ["x spreads by", "multiply it by 1e-7"]),
    "leaves far apart": (leaves(0.05, 200.0), NORMAL, "units", ["x['b'] spreads", "times as far as x['a']"]),
    "hidden mean": (scaled(noise=100.0, level=0.0), NORMAL, "noise", ["noise of h[0] hides its mean", "400 samples"]),
    "hidden level": (
        scaled(noise=2.0, level=0.02),
        NORMAL,
        "noise",
        ["noise of h[0] hides its level", "samples would tell"],
    ),
    "hidden where it binds": (scaled(spread=500.0, level=0.5), NORMAL, "noise", ["the noise of h[1] hides"]),
    "one row": (scaled(), outlier(), "rows", ["largest 1 % of the samples carry", "the objective's gradient"]),
    "too wide a domain": (scaled(radius=400.0 * 10, level=1e6), NORMAL, "domain", ["it never binds"]),
    "too small a domain": (scaled(radius=0.01), NORMAL, "domain", ["it binds everywhere"]),
    "always": (scaled(level=9.0), NORMAL, "constraints", ["h[0] holds at every point tried, by"]),
    "never": (scaled(level=-9.0), NORMAL, "constraints", ["h[0] holds at no point tried"]),
}


def test_a_constant_objective_is_named():
    problem = tr.Problem(lambda x, theta: jnp.round(1e-3 * x[0]), scaled().constraints, scaled().domain)
    report = tr.check_problem(problem, NORMAL)
    assert "the objective does not change with x at any point tried" in str(report)


@pytest.mark.parametrize("name", DEFECTS)
def test_a_defect_of_scale_is_found_and_named(name):
    problem, rows, what, words = DEFECTS[name]
    _, found = findings(problem, rows, samples=400)
    assert not found[what].ok, found[what].sentence
    assert all(part in found[what].sentence for part in words), found[what].sentence


def test_the_mild_problem_has_none_of_these_defects():
    report, _ = findings(scaled(), NORMAL, samples=400)
    assert report.ok, str(report)


@pytest.mark.slow
def test_what_is_not_about_units_does_not_depend_on_them():
    """f, h and x in other units: the same verdicts on noise, rows, domain and constraints."""
    for defect in ({}, {"noise": 100.0, "level": 0.0, "radius": 0.01}):
        verdicts = [
            {w: f.ok for w, f in findings(scaled(**units, **defect), NORMAL, samples=200)[1].items() if w != "units"}
            for units in ({}, {"f": 1e-6, "h": (1e6, 1e-6), "x": 1e6})
        ]
        assert verdicts[0] == verdicts[1], defect


def test_kinks_are_no_wrong_gradients():
    """A mean of hinges has kinks everywhere; a wrong slope is still seen."""
    rows = np.random.default_rng(4).normal(size=(50, 3))

    def hinge(x, theta):
        return jnp.maximum(jnp.dot(x, theta), 0.0)

    assert findings(tr.Problem(hinge, None, BALL), rows)[1]["gradients"].ok

    def wrong(x, theta):
        active = jnp.dot(x, theta) > 0
        return hinge(x, theta), 1.1 * active * theta, jnp.zeros(1), jnp.zeros((1, 3))

    assert not findings(tr.Problem.from_oracle(wrong, BALL, n_constraints=1), rows)[1]["gradients"].ok


# ---- around the domain -----------------------------------------------------------------------------------------------


def around(f, domain, **options):
    """What is said of the set around the domain."""
    report = tr.check_problem(tr.Problem(f, None, domain), np.random.default_rng(0).normal(size=(50, 4)), **options)
    return next((finding for finding in report.findings if finding.what == "around"), None)


def test_functions_are_looked_at_on_the_set_around_the_domain():
    def entropy(x, theta):  # the logarithm exists on the simplex, and not around it
        return -jnp.sum(jnp.log(x + 1e-3)) + theta[0] * x[0]

    def bent(x, theta):  # convex where x_1 is not negative
        return x[0] ** 3 + theta[0] * x[1]

    simplex = tr.Simplex(shape=4)
    for f, words in ((entropy, 'Use method="fw-csoa", which stays in the domain.'), (bent, "is not convex")):
        found = around(f, simplex)
        assert found is not None
        assert found.ok  # because nobody need leave a set with a cheap projection
        assert words in found.sentence
    assert around(bent, tr.L2Ball(1.0, shape=4)) is None  # its own enclosing set


# ---- the order of samples ------------------------------------------------------------------------------------------------


def alike(time, n=4000):
    """A normal process around 1 whose correlation falls by e in this time."""
    keep = np.exp(-1 / time)
    noise = np.random.default_rng(1).normal(size=n) * np.sqrt(1 - keep**2)
    return (1 + 0.7 * np.asarray(lfilter([1], [1, -keep], noise))).astype(np.float32)


NOISY = tr.Problem(
    lambda x, theta: x[0] ** 2 / 2 - x[0], lambda x, theta: theta * x - 0.3, tr.Box(0.0, 1.0, shape=1), names=("load",)
)


@pytest.mark.parametrize("time", [3, 100])
def test_a_stream_whose_neighbours_are_alike_is_told_of(time):
    """At the starting point, x = 0, the constraint does not depend on samples."""
    found = named(tr.check_problem(NOISY, tr.Stream([alike(time)]), x0=jnp.zeros(1)), "sampling")
    assert not found.ok
    assert "neighbouring samples are alike" in found.sentence or "different means" in found.sentence
    found = named(tr.check_problem(NOISY, alike(time)), "sampling")
    assert found.ok  # runs on rows do not mind
    assert "neighbouring rows are alike" in found.sentence


def test_independent_samples_are_not():
    rows = np.random.default_rng(3).normal(1.0, 0.7, size=4000).astype(np.float32)
    for data in (rows, tr.Stream([rows])):
        assert "not alike" in named(tr.check_problem(NOISY, data), "sampling").sentence


def test_sorted_rows_are_said_to_be_alike():
    rows = np.sort(np.random.default_rng(3).normal(1.0, 0.7, size=40_000)).astype(np.float32)
    assert "neighbouring rows are alike" in named(tr.check_problem(NOISY, rows), "sampling").sentence


def named(report, what):
    return next(f for f in report.findings if f.what == what)


# ---- constraints that exclude each other ----------------------------------------------------------------------------


def storage(power, units=1.0):
    def constraints(x, theta):
        return jnp.stack([jnp.maximum(3 * theta - x[0], 0) - 0.2, units * (x[0] - power)])

    box = tr.Box(0.0, 5.0, shape=2)
    return tr.Problem(lambda x, theta: jnp.sum((x - theta) ** 2), constraints, box, names=("unserved", "power"))


DEMAND = np.random.default_rng(0).uniform(size=5000).astype(np.float32)


@pytest.mark.parametrize("data", [DEMAND, tr.Stream([DEMAND])], ids=["rows", "stream"])
@pytest.mark.parametrize("units", [1e-3, 1.0, 1e3])
def test_constraints_that_exclude_each_other_are_named(data, units):
    found = named(tr.check_problem(storage(1.0, units), data), "together")
    assert not found.ok
    assert found.sentence.startswith("Every point of the domain violates unserved by 0.")
    assert " or power by " in found.sentence


@pytest.mark.parametrize("power", [2.5, 3.0, 6.0])  # from 1.9 on there are feasible points
def test_constraints_that_leave_room_do_not(power):
    found = named(tr.check_problem(storage(power), DEMAND), "together")
    assert found.ok
    assert "was found where all constraints hold" in found.sentence
