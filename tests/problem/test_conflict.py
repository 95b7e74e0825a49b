"""Constraints that exclude each other are named, all of them and no others, and by how much they do."""

import jax.numpy as jnp
import numpy as np
import pytest

import tightrope as tr
from tightrope.problem.conflict import conflict, said_of_conflict, tangents_of

NAMES = ("unserved", "power", "idle", "loose")


def storage(power=1.0, unserved=0.2, price=1.0):
    """Demand is uniform on [0, 3] and what is built serves it: half of (3 - x)^2 / 3 is unserved where x <= 3."""

    def constraints(x, theta):
        short = jnp.maximum(3 * theta[0] - x[0], 0)
        return jnp.stack([short - unserved, price * (x[0] - power), theta[1] - x[1] - 1, theta[1] - 4 + 0 * x[0]])

    return tr.Problem(lambda x, theta: x[0] + 0 * theta[0], constraints, tr.Box(0.0, 5.0, shape=2), names=NAMES)


DRAWN = np.random.default_rng(0).uniform(size=(8192, 2)).astype(np.float32)
X = jnp.array([1.2, 2.0])


@pytest.mark.parametrize("price", [1e-4, 1.0, 1e4])
@pytest.mark.parametrize("learned", [False, True])
def test_all_that_conflict_are_named_and_no_others(price, learned):
    """A constraint without noise belongs to them, in whatever units, and one whose multiplier is only left over does not."""
    found = conflict(storage(price=price), X, np.array([2.0, 1.2 / price, 0.03, 0.02]), DRAWN, learned)
    assert list(found) == [0, 1]
    # in units of their spread
    least = min(max((3 - x) ** 2 / 6 - 0.2, (x - 1) / 5 * 3) for x in np.linspace(1, 3, 200))
    assert 0 < found[0] < 1.1 * least
    assert found[1] == pytest.approx(found[0] * 5 * price / 3, rel=0.2)


def test_one_constraint_alone_is_named_alone():
    found = conflict(storage(unserved=-0.1), jnp.array([3.5, 2.0]), np.array([2.0, 0.01, 0.0, 0.0]), DRAWN)
    assert list(found) == [0]


@pytest.mark.parametrize("weights", [(2, 1.4, 0, 0), (1, 0, 0, 0), (0, 1, 1, 1), (0, 0, 0, 0), (np.nan, -1, np.nan, 0)])
@pytest.mark.parametrize("power", [1.95, 3.0])
def test_a_feasible_problem_has_no_conflict_whatever_the_weights(weights, power):
    assert (3 - 1.95) ** 2 / 6 < 0.2  # x = 1.95 is feasible
    assert conflict(storage(power), X, np.array(weights), DRAWN) == {}


def test_rounding_is_no_conflict():
    """x <= 1/3 and x >= 1/3 in float32, without any noise."""
    third = tr.Problem(
        lambda x, theta: x[0] + theta,
        lambda x, theta: jnp.stack([x[0] / 3 * 1e3 - 1e3 / 3, 1e3 / 3 - x[0] * (1e3 / 3)]),
        tr.Box(0.0, 5.0, shape=1),
    )
    rows = np.zeros(100, np.float32)
    for weights in ([1.0, 1.0], [1.0, 1.0 + 1e-6], [1.0 + 1e-6, 1.0]):
        assert conflict(third, jnp.ones(1, jnp.float32), np.array(weights), rows) == {}


def test_the_tangents_by_hand():
    weights = jnp.array([1.0, 0.5, 0.0, 0.0])
    tangents, sizes = tangents_of(storage(), X, weights, jnp.asarray(DRAWN))
    short = 3 * DRAWN[:, 0] > 1.2
    slope = -short.mean() + 0.5
    end = 0.0 if slope > 0 else 5.0
    by_hand = short * (3 * DRAWN[:, 0] - end) - 0.2 + 0.5 * (end - 1)
    np.testing.assert_allclose(tangents, by_hand, atol=1e-5)
    assert np.all(np.asarray(sizes) >= np.abs(by_hand) - 1e-5)


def test_the_sentence():
    assert said_of_conflict({1: 0.5}, list(NAMES)) == "Every point of the domain violates power by 0.5 or more."
    said = said_of_conflict({0: 1.0, 1: 2.0, 3: 3.0}, list(NAMES))
    assert said == "Every point of the domain violates unserved by 1, power by 2 or loose by 3 or more."


def samples(kind):
    if kind == "rows":
        return DRAWN
    if kind == "generator":
        import jax

        return tr.Generator(lambda key: jax.random.uniform(key, (2,)))
    return tr.Stream([DRAWN])


@pytest.mark.parametrize("kind", ["rows", "generator", "stream"])
def test_one_answer_from_rows_a_generator_and_a_stream(kind):
    steps = None if kind == "rows" else 4096
    result = tr.minimize(storage(), samples(kind), steps=steps, progress=False)
    expected = tr.Status.INFEASIBLE if kind == "rows" else tr.Status.INFEASIBLE_IN_SAMPLES
    assert result.status is expected, str(result)
    said = result.message
    assert said.startswith("Every point of the domain violates unserved by 0.")
    assert " or power by 0." in said
    assert "idle" not in said
    assert "loose" not in said
    feasible = tr.minimize(storage(power=2.5), samples(kind), steps=steps, progress=False)
    assert "Every point" not in str(feasible)


def test_a_stream_that_ends_says_it_too():
    result = tr.minimize(storage(), samples("stream"), steps=9000, progress=False)
    assert result.status is tr.Status.STREAM_ENDED
    assert any(note.startswith("Every point of the domain violates unserved by") for note in result.notes)
