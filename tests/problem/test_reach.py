"""Ranges that follow from the program of h hold whatever the sample, and what no sample enters is known."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tightrope as tr
from tightrope.problem.reach import reach_of_constraints

X = np.array([0.5, -0.2])
ANY, FLAGS = np.zeros(3, np.float32), {"b": np.array(True), "c": np.array(False), "s": np.array(1, np.int32)}


def reached(constraints, sample=ANY, x=X, **options):
    problem = tr.Problem(lambda x, theta, *params: x[0], constraints, tr.Box(-1.0, 1.0, shape=2), levels=0.3, **options)
    reach = reach_of_constraints(problem, jnp.asarray(x), sample)
    return [tuple(float(side[i]) for side in reach[:2]) + (bool(reach.ends[i]),) for i in range(len(reach.low))], reach


CASES = {
    "an equality": (lambda x, t: jnp.where(t["s"] == -1, 1.0, 0.0)[None], FLAGS, [(0, 1, True)]),
    "both": (lambda x, t: (1.0 * (t[0] == 17) * (t[1] > 2))[None], ANY, [(0, 1, True)]),
    "a share": (lambda x, t: (1.0 * (t[:2] @ x > 0) - 0.25)[None], ANY, [(-0.25, 0.75, True)]),
    "a rare product": (lambda x, t: (t[0] ** 2 * (t[1] == 1.0))[None], ANY, [(0, np.inf, False)]),
    "two costs": (lambda x, t: jnp.where(t[0] > 0, 2.0, -1.0)[None], ANY, [(-1, 2, True)]),
    "flags": (lambda x, t: jnp.stack([t["b"] * x[0], t["b"] * 1.0 - t["c"]]), FLAGS, [(0, 0.5, True), (-1, 1, False)]),
    "tanh": (lambda x, t: 3 * jnp.tanh(t[:1]) - 1, ANY, [(-4, 2, False)]),
    "a sigmoid": (lambda x, t: jax.nn.sigmoid(t[:1]), ANY, [(0, 1, False)]),
    "a clip": (lambda x, t: jnp.clip(t[:1], -2, 5) ** 2, ANY, [(0, 25, False)]),
    "waves": (lambda x, t: jnp.sin(t[:1]) ** 2 + jnp.cos(t[1:2]), ANY, [(-1, 2, False)]),
    "a network": (lambda x, t: jax.nn.sigmoid(jnp.tanh(t @ jnp.ones((3, 4))) @ jnp.ones((4, 1)) - 4), ANY, [
        (3.3535e-4, 0.5, False)]),
    "one-hot": (lambda x, t: jax.nn.one_hot(t[0].astype(int), 2) * jnp.array([1.0, 3.0]), ANY, [(0, 1, True), (0, 3, True)]),
    "a hinge": (lambda x, t: jax.nn.relu(1 - t[:1]), ANY, [(0, np.inf, False)]),
    "a column": (lambda x, t: t[:1] * x[:1], ANY, [(-np.inf, np.inf, False)]),
    "whole numbers wrap": (lambda x, t: (1.0 * t["s"] ** 2)[None], FLAGS, [(-np.inf, np.inf, False)]),
    "a loop over the sample": (lambda x, t: jax.lax.fori_loop(0, 3, lambda i, a: a + t[0], 0.0)[None], ANY, [
        (-np.inf, np.inf, False)]),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_ranges_by_hand(case):
    constraints, sample, expected = CASES[case]
    found, reach = reached(constraints, sample)
    for (low, high, ends), one in zip(expected, found, strict=True):
        assert one == (pytest.approx(low, abs=1e-6), pytest.approx(high, rel=1e-4), ends)
    assert reach.varies.all()


def test_what_no_sample_enters_is_known_component_by_component():
    def constraints(x, theta):
        table = jnp.cumsum(jnp.exp(x))
        return jnp.concatenate([table, jnp.stack([theta[0], jax.lax.fori_loop(0, 3, lambda i, a: a + x[0], 0.0)])])[
            ::-1
        ]

    assert reached(constraints)[1].varies.tolist() == [False, True, False, False]
    assert reached(lambda x, theta: x + theta[:2] * jnp.zeros(2))[0] == [(0.5, 0.5, False), (-0.2, -0.2, False)]


def test_a_callback_may_answer_anything():
    def asked(x, theta):
        return jax.pure_callback(lambda v: np.ones(1, np.float32), jax.ShapeDtypeStruct((1,), np.float32), x)

    def in_a_loop(x, theta):
        return jax.lax.fori_loop(0, 2, lambda i, a: a + asked(x, theta), jnp.zeros(1, jnp.float32))

    for constraints in (asked, in_a_loop):
        found, reach = reached(constraints)
        assert found == [(-np.inf, np.inf, False)]
        assert reach.varies.all()


def test_params_and_points_are_numbers():
    found, _ = reached(lambda x, t, p: (p @ (t > 0)) * x[:1], params=np.array([[1.0, 2.0, -4.0]]))
    assert found == [(-2.0, 1.5, False)]


@pytest.mark.parametrize("seed", range(30))
def test_no_sample_leaves_its_range(seed):
    """Random programs of bounded and unbounded parts, on samples as wild as floats are."""
    rng = np.random.default_rng(seed)
    unary = [jnp.tanh, jnp.sin, jnp.abs, jnp.square, jax.nn.sigmoid, jnp.sign, jnp.negative, jax.nn.relu, jnp.floor,
             lambda v: 1.0 * (v > 0.3), lambda v: jnp.clip(v, -1, 2), lambda v: v**3, lambda v: jnp.exp(-jnp.abs(v)),
             lambda v: v / (1 + jnp.abs(v)), lambda v: 2 - 3 * v, lambda v: jnp.where(v == 1.0, -1.0, 2.0)]  # fmt: skip
    binary = [jnp.add, jnp.subtract, jnp.multiply, jnp.maximum, jnp.minimum, lambda a, b: jnp.where(a > b, a, b),
              lambda a, b: jnp.stack([a, b]) @ jnp.array([0.5, -2.0]), lambda a, b: jnp.logical_or(a > 0, b > 1) * 1.0,
              lambda a, b: jnp.max(jnp.stack([a, b])), lambda a, b: a / (2 + jnp.cos(b))]  # fmt: skip
    steps = [
        (rng.integers(3, size=2), unary[rng.integers(len(unary))], binary[rng.integers(len(binary))]) for _ in range(6)
    ]

    def constraints(x, theta):
        values = [theta[0], theta[1], x[0] * jnp.tanh(theta[2])]
        for (i, j), one, two in steps:
            values[i] = two(one(values[i]), values[j])
        return jnp.stack(values)

    _, reach = reached(constraints)
    wild = rng.normal(size=(400, 3)) * 10.0 ** rng.uniform(-3, 3, (400, 3))
    wild[::3] = np.round(wild[::3])
    h = np.asarray(jax.vmap(lambda theta: constraints(jnp.asarray(X), theta))(wild))
    slack = 1e-5 * np.maximum(1, np.abs(h))
    kept = np.isfinite(h)
    assert np.all((h >= reach.low - slack) | ~kept)
    assert np.all((h <= reach.high + slack) | ~kept)
    at_an_end = np.minimum(np.abs(h - reach.low), np.abs(h - reach.high)) <= slack
    assert np.all(at_an_end | ~reach.ends | ~kept)
