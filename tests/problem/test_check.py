from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from core_cases import BALL, PROBLEM, ROWS, SAMPLERS, constraints, objective

import tightrope as tr


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


@pytest.mark.parametrize("name", CLEAN)
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
